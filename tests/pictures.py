"""The pictures of the README: `python -m tests.pictures`, or `make pictures`.

They show what the README's first program prints in a terminal, for light and dark pages. It runs on
FakeGemini, which waits as long as Gemini would.
"""

from __future__ import annotations

import contextlib
import io
import random
import re
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.terminal_theme import TerminalTheme

from langchain_gemini_tools import display
from langchain_gemini_tools.testing import FakeGemini

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
FOLDER = ROOT / "docs" / "pictures"
_PROGRAM = re.compile(r"```python\n(.*?)```", re.DOTALL)
_WIDTH = 84
_MARGIN = 12

_COLOURS = [(0, 0, 0), (192, 40, 45), (31, 122, 69), (149, 97, 10)]
_COLOURS += [(47, 95, 208), (138, 63, 179), (12, 124, 140), (31, 35, 40)]
_BRIGHT = [(90, 90, 90), (255, 141, 136), (114, 207, 151), (230, 183, 92)]
_BRIGHT += [(133, 169, 255), (211, 160, 240), (86, 212, 221), (228, 231, 236)]
THEMES = {
    "light": TerminalTheme((255, 255, 255), (31, 35, 40), _COLOURS, _COLOURS),
    "dark": TerminalTheme((21, 24, 29), (228, 231, 236), _BRIGHT, _BRIGHT),
}
# As rich's own, without fonts from elsewhere and without the buttons of a window.
_FORMAT = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 WIDTH HEIGHT" role="img"
 aria-label="A trace in a terminal">
<style>.{unique_id}-matrix{{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;
font-size:{char_height}px;line-height:{line_height}px;font-variant-east-asian:full-width}}
{styles}</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}"
 height="{terminal_height}"/></clipPath>{lines}</defs>
<rect x=".5" y=".5" rx="8" width="99.9%" height="99%" fill="BACKGROUND"
 stroke="#8a8d91" stroke-opacity=".35"/>
<g transform="translate(12, 12)" clip-path="url(#{unique_id}-clip-terminal)">{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g></g></svg>
"""


def first_program() -> str:
    """Return the first program of the README."""
    found = _PROGRAM.search(README.read_text())
    assert found is not None
    return found[1]


def run_first_program() -> Any:
    """Run it, and return the value that it shows."""
    names: dict[str, Any] = {}
    waits = random.Random(3)

    class Slow(FakeGemini):
        """Takes as long for an answer as a model does."""

        def _respond(self, ask: Any, request: Any) -> Any:
            time.sleep(waits.uniform(0.5, 1.1))
            return super()._respond(ask, request)

    program = first_program()
    with Slow(), contextlib.redirect_stdout(io.StringIO()):
        exec(compile(re.sub(r"FakeGemini\(\)\.start\(\).*", "", program), "README", "exec"), names)
    return display.trace(names["result"])


def main() -> None:
    """Write the pictures."""
    shown = run_first_program()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, theme in THEMES.items():
        console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True)
        console.print(shown)
        code_format = _FORMAT.replace("BACKGROUND", theme.background_color.hex)
        svg = console.export_svg(theme=theme, code_format=code_format, unique_id=f"trace-{name}")
        (FOLDER / f"trace-{name}.svg").write_text(_fit(svg))


def _fit(svg: str) -> str:
    """Return the picture with a margin around the text."""
    size = re.search(r'width="([\d.]+)"\s+height="([\d.]+)"', svg)
    assert size is not None
    width, height = (float(each) + 2 * _MARGIN for each in size.groups())
    return svg.replace("WIDTH", f"{width:.0f}").replace("HEIGHT", f"{height:.0f}")


if __name__ == "__main__":
    main()
