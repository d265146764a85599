from __future__ import annotations

import io

from langchain_core.messages import HumanMessage
from rich.console import Console

from langchain_gemini_tools.display import Trace, trace
from tests.unit_tests.display.runs import HOSTILE, answer, call, weather_run


def _drawn(shown: Trace, *, width: int = 100, has_colours: bool = False) -> str:
    out = io.StringIO()
    plain = Console(file=out, width=width)
    coloured = Console(file=out, width=width, color_system="standard", force_terminal=True)
    (coloured if has_colours else plain).print(shown)
    return out.getvalue()


def _words(text: str) -> list[str]:
    return text.translate(str.maketrans("├└│─", "    ")).split()


def test_the_terminal_says_what_the_text_says() -> None:
    shown = trace(weather_run())
    for width in (100, 50):
        assert _words(_drawn(shown, width=width)) == _words(str(shown))


def test_failures_are_red_and_numbers_dim() -> None:
    drawn = _drawn(trace(weather_run()), has_colours=True)
    assert '\x1b[1;31m✗ get_weather\x1b[0m(city="Rome")  \x1b[2m– ms\x1b[0m' in drawn
    assert "\x1b[1;31m✗ error\x1b[0m  no such city" in drawn


def test_markup_and_escapes_of_strangers_are_shown_and_not_obeyed() -> None:
    messages = [HumanMessage(HOSTILE), answer("[link=x]y", tool_calls=[call("[red]f", "a")])]
    drawn = _drawn(trace(messages), has_colours=True, width=300)
    assert "[bold]b[/bold] ⟨U+001B⟩]0;owned⟨U+0007⟩ ⟨U+202E⟩left" in drawn
    assert "[link=x]y" in drawn
    assert "[red]f" in drawn
    assert "\x1b]" not in drawn
