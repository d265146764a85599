"""The agent behind `python -m langchain_gemini_tools`, and recordings that come with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.cassettes import OpenCassette

_HERE = Path(__file__).parent


def recording(name: str) -> OpenCassette:
    """A block that replays a recording of this package; with a key it talks to Gemini instead.

    ```python
    with recording("first_agent"):
        agent.invoke(...)
    ```

    Raises:
        ValueError: There is no such recording.
    """
    from langchain_gemini_tools.testing import cassette

    path = _HERE / f"{name}.yaml"
    if not path.exists():
        known = ", ".join(sorted(each.stem for each in _HERE.glob("*.yaml")))
        raise ValueError(f"There is no recording {name!r}. There are: {known}.")
    return cassette(path, prefer_live=True)
