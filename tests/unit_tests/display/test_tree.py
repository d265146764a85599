from __future__ import annotations

import io
import re

from langchain_core.messages import HumanMessage, ToolMessage
from rich.console import Console

from langchain_gemini_tools.display import Trace, trace
from tests.unit_tests.display.runs import HOSTILE, answer, call, weather_clock, weather_run


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
    drawn = _drawn(trace(weather_run(), weather_clock()), has_colours=True)
    assert '\x1b[1;31m✗ get_weather\x1b[0m(city="Rome")  \x1b[2m200 ms\x1b[0m' in drawn
    assert "\x1b[1;31m✗ error\x1b[0m  no such city" in drawn


def test_markup_and_escapes_in_untrusted_text_have_no_effect() -> None:
    messages = [HumanMessage(HOSTILE), answer("[link=x]y", tool_calls=[call("[red]f", "a")])]
    drawn = _drawn(trace(messages), has_colours=True, width=300)
    assert "[bold]b[/bold] ⟨U+001B⟩]0;owned⟨U+0007⟩ ⟨U+202E⟩left" in drawn
    assert "[link=x]y" in drawn
    assert "[red]f" in drawn
    assert "\x1b]" not in drawn


def test_a_run_is_a_flow_from_question_to_answer() -> None:
    assert trace(weather_run(), weather_clock()).to_mermaid() == (
        "flowchart TD\n"
        '  s0(["you: What is the weather?"])\n'
        '  s1["turn 1<br/>100 ms · 1,000 → 200 tokens · #36;0#46;00018 · 2 parallel calls"]\n'
        "  s0 --> s1\n"
        '  s1c0[["get_weather(city=#34;Oslo#34;)<br/>result: #45;3 #176;C, snow"]]\n'
        '  s1 -->|"200 ms"| s1c0\n'
        '  s1c1[["get_weather(city=#34;Rome#34;)<br/>error: no such city"]]\n'
        '  s1 -->|"200 ms"| s1c1\n'
        '  s2["turn 2<br/>Snow in Oslo#59; I do not know about Rome#46;<br/>'
        '200 ms · first token 100 ms · 1,000 → 200 tokens · #36;0#46;00018 · 1 retry"]\n'
        "  s1c0 --> s2\n"
        "  s1c1 --> s2\n"
        "  classDef bad stroke:#c0282d,stroke-width:2px\n"
        "  classDef odd stroke:#b7791f,stroke-width:2px,stroke-dasharray:4\n"
        "  class s1c1 bad\n"
    )


def test_no_label_can_end_early() -> None:
    hostile = f"%%{{init: {{}}}}%% `x` end; {HOSTILE}\nclick s0 href"
    messages = [
        HumanMessage(hostile),
        answer(hostile, tool_calls=[call(hostile, "a", **{hostile: hostile})]),
        ToolMessage(hostile, tool_call_id="a"),
    ]
    label = r"(?:[\w ,:·–→…/()=?!'≥]|\#\d+;|<br/>)+"
    line = rf"""
        flowchart\ TD
        | \ \ s\d+ (?: c\d+ )? (?: \(\["{label}"\]\) | \["{label}"\] | \[\["{label}"\]\] )
        | \ \ s\d+ (?: c\d+ )?\ -->\ s\d+ (?: c\d+ )?
        | \ \ classDef\ (?: bad | odd )\ [\w:\#,-]+
    """
    lines = trace(messages).to_mermaid().splitlines()
    label_free = [text for text in lines if not re.fullmatch(line, text, re.VERBOSE)]
    assert label_free == []
    assert len(lines) == 8
