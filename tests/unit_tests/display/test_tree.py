"""The tree of a trace as text, as mermaid, and as HTML, which a parser reads.

A browser reads it in the integration tests.
"""

from __future__ import annotations

import io
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from rich.console import Console

from langchain_gemini_tools import RunClock, trace
from tests.unit_tests.display.runs import (
    HOSTILE,
    answer,
    call,
    result,
    weather_clock,
    weather_run,
)

if TYPE_CHECKING:
    from langchain_gemini_tools.display import Trace


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


TAGS = {"html", "head", "meta", "title", "style", "body", "div", "details", "summary", "span"}
TAGS |= {"b", "code", "i", "li", "ul"}
VOID = {"meta"}


class Reader(HTMLParser):
    """Which elements there are, what is in them, and whether each is closed where it must be."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.classes: set[str] = set()
        self.text = ""
        self.folds: list[bool] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.classes |= {
            name for key, value in attrs if key == "class" for name in (value or "").split()
        }
        if tag == "details":
            self.folds.append("open" not in dict(attrs))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] != "style":
            self.text += data


def test_the_page_says_what_the_text_says() -> None:
    words = Reader(trace(weather_run())._repr_html_()).text.split()
    drawn = str(trace(weather_run())).translate(str.maketrans("├└│─", "    "))
    assert words == drawn.split()


def test_untrusted_text_stays_text() -> None:
    messages = [
        HumanMessage(HOSTILE),
        answer(
            [{"type": HOSTILE, "x": HOSTILE}, {"type": "thinking", "thinking": HOSTILE}],
            model=HOSTILE,
            tool_calls=[call(HOSTILE, "a", **{HOSTILE: HOSTILE})],
            response_metadata={"finish_reason": HOSTILE},
        ),
        ToolMessage(HOSTILE, tool_call_id="a"),
        ToolMessage(HOSTILE, tool_call_id=HOSTILE, name=HOSTILE),
    ]
    read = Reader(trace(messages).to_html())
    assert read.tags <= TAGS
    assert read.attributes <= {
        "charset", "class", "content", "http-equiv", "lang", "name", "open", "style",
    }  # fmt: skip
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)?", name) for name in read.classes)
    assert read.text.count("<script>document.title='owned'</script>") == 13


def test_thoughts_are_folded_unless_asked_for() -> None:
    message = answer([{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Yes"}])
    assert Reader(trace(message)._repr_html_()).folds == [False, False, True]
    assert Reader(trace(message, unfold=True)._repr_html_()).folds == [False, False, False]


def test_the_page_has_no_external_links() -> None:
    page = trace(weather_run(), weather_clock()).to_html()
    assert not re.findall(r"https?:|//|url\(|@import|src=|href=", page)


@pytest.mark.parametrize("has_clock", [True, False], ids=["timed", "not timed"])
def test_bars_show_when_each_call_ran(has_clock: bool) -> None:
    page = trace(weather_run(), weather_clock() if has_clock else None)._repr_html_()
    bars = re.findall(r'style="margin-left:([\d.]+)%;width:([\d.]+)%"', page)
    assert bars == (
        [("0.00", "12.50"), ("25.00", "25.00"), ("37.50", "25.00"), ("75.00", "25.00")]
        if has_clock
        else []
    )


def test_a_short_call_at_the_end_of_a_run_has_a_visible_bar() -> None:
    ticks = iter([0.0, 99.99, 99.995, 100.0])
    clock = RunClock(now=lambda: next(ticks))
    for message_id in ("first", "second"):
        run_id = uuid4()
        clock.on_chat_model_start({}, [], run_id=run_id)
        clock.on_llm_end(result(message_id), run_id=run_id)
    page = trace([answer("A", id="first"), answer("B", id="second")], clock)._repr_html_()
    starts = re.findall(r'style="margin-left:([\d.]+)%', page)
    assert starts == ["0.00", "97.00"]


def test_bars_have_a_scale() -> None:
    assert 'class="scale" data-end="800 ms"' in trace(weather_run(), weather_clock()).to_html()
    assert 'class="scale"' not in trace(weather_run()).to_html()


@pytest.mark.parametrize(
    ("block", "is_shown"),
    [
        ({"base64": "iVBORw0KGgo=", "mime_type": "image/png"}, True),
        ({"base64": "iVBORw0KGgo=", "mime_type": "image/svg+xml"}, False),
        ({"base64": '"><script>', "mime_type": "image/png"}, False),
        ({"base64": "A" * 500_000, "mime_type": "image/png"}, False),
        ({"url": "https://example.org/a.png"}, False),
    ],
    ids=["small", "svg", "not base64", "large", "by URL"],
)
def test_small_images_are_part_of_the_page(block: dict[str, str], is_shown: bool) -> None:
    page = trace([HumanMessage([{"type": "image", **block}])]).to_html()
    images = re.findall(r'<img alt="[^"]*" src="([^"]*)">', page)
    assert images == (["data:image/png;base64,iVBORw0KGgo="] if is_shown else [])


def test_without_styles_the_page_is_a_list_of_lists() -> None:
    page = trace(weather_run()).to_html()
    depths, depth = [], 0
    for tag in re.findall(r"</?ul|<li>", page):
        depth += {"<ul": 1, "</ul": -1}.get(tag, 0)
        if tag == "<li>":
            depths.append(depth)
    assert depths == [1, 1, 2, 3, 2, 3, 1, 2]
