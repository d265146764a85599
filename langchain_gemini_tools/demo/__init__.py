"""The demo `python -m langchain_gemini_tools`, and the recordings of this package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.cassettes import OpenCassette

_HERE = Path(__file__).parent


def recording(name: str) -> OpenCassette:
    """Replay a recording of this package inside a `with` block; with a key, use Gemini instead.

    ```python
    with recording("first_agent"):
        agent.invoke(...)
    ```

    Raises:
        ValueError: The package has no recording of this name.
    """
    from langchain_gemini_tools.testing import cassette

    path = _HERE / f"{name}.yaml"
    if not path.exists():
        known = ", ".join(sorted(each.stem for each in _HERE.glob("*.yaml")))
        raise ValueError(f"{name!r} is not a recording of this package; use one of {known}.")
    return cassette(path, prefer_live=True)
