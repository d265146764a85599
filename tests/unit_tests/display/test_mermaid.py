from __future__ import annotations

import re

from langchain_core.messages import HumanMessage, ToolMessage

from langchain_gemini_tools import trace
from tests.unit_tests.display.runs import HOSTILE, answer, call, weather_clock, weather_run


def test_a_run_is_a_flow_from_question_to_answer() -> None:
    assert trace(weather_run(), weather_clock()).to_mermaid() == (
        "flowchart TD\n"
        '  s0(["you: What is the weather?"])\n'
        '  s1["turn 1<br/>100 ms · 1,000 → 200 tokens · #36;0#46;00018"]\n'
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


def test_no_label_can_end_itself() -> None:
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
