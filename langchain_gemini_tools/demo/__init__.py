"""The demo `python -m langchain_gemini_tools`, and the recordings of the notebooks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from langchain_gemini_tools.testing.cassettes import VARIABLE, cassette

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.cassettes import OpenCassette

RECORDINGS = Path(__file__).with_name("recordings")


def recording(name: str) -> OpenCassette:
    """Replay a recording of this package; with a key in the environment, use Gemini instead.

    ```python
    recording("01_first_agent").start()  # from here on, in a notebook

    with recording("01_first_agent"):  # inside a block
        agent.invoke(...)
    ```

    Raises:
        ValueError: The package has no recording of this name.
    """
    path = RECORDINGS / f"{name}.yaml"
    if not path.exists() and not os.environ.get(VARIABLE):  # else it is about to be recorded
        known = ", ".join(sorted(each.stem for each in RECORDINGS.glob("*.yaml")))
        raise ValueError(f"{name!r} is not a recording of this package; use one of {known}.")
    return cassette(path, prefer_live=True)
