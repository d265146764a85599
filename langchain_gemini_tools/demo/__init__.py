"""The demo `python -m langchain_gemini_tools`, and the recordings of the notebooks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

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
    from langchain_gemini_tools.testing import cassette

    path = RECORDINGS / f"{name}.yaml"
    if not path.exists():
        known = ", ".join(sorted(each.stem for each in RECORDINGS.glob("*.yaml")))
        raise ValueError(f"{name!r} is not a recording of this package; use one of {known}.")
    return cassette(path, prefer_live=True)
