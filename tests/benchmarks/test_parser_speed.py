"""The cost of parsers as ratios of one run: linear in the text, and compared to `json.loads`.

The bounds are wide, so that a busy machine cannot break them and a quadratic parser must.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from langchain_gemini_tools.interactions.response import EventDecoder
from langchain_gemini_tools.prompted.parser import ToolCallParser
from tests.growth import assert_linear

if TYPE_CHECKING:
    from collections.abc import Callable

SIZE = 40_000
TOOLS = ["f", "search"]

ADVERSARIAL: dict[str, Callable[[int], str]] = {
    "one string": lambda size: 'TOOL_CALL: f({"a": "' + "(" * size,
    "one line": lambda size: 'TOOL_CALL: f({"a": "((((' * (size // 23),
    "many lines": lambda size: 'TOOL_CALL: f({"a": "((((\n' * (size // 24),
    "open brackets": lambda size: "{\n" * (size // 2),
    "open calls": lambda size: "f(\n" * (size // 3),
    "tags": lambda size: "<tool_call>" * (size // 11),
    "fences": lambda size: "```json\n" * (size // 8),
    "broken": lambda size: 'TOOL_CALL: f({"a": x\n(\n' * (size // 23),
    "undeclared calls": lambda size: "[" + "h(b=1), " * (size // 8),
    "undeclared lists": lambda size: "[h(b=x), f(\n" * (size // 13),
    "undeclared objects": lambda size: '[{"name": "h", "args": {}},\n' * (size // 29),
    "quoted calls": lambda size: "['f(" + "a=(" * (size // 3),
    "doubled quotes": lambda size: "f(a='" + "x''" * (size // 3),
    "mentions": lambda size: "Sure. TOOL_CALL: f() x " * (size // 23),
    "announcements": lambda size: "Here is the call: [" * (size // 19),
    "actions": lambda size: "Action: f\nAction Input: {\n" * (size // 27),
    "names": lambda size: "f\n{" * (size // 3),
    "white space": lambda size: " \n" * (size // 2),
}


def parse(text: str, step: int) -> None:
    parser = ToolCallParser(TOOLS)
    for start in range(0, len(text), step):
        parser.feed(text[start : start + step])
    parser.finish()


def measure(run: Callable[[], object]) -> float:
    """The least CPU seconds of two runs."""
    seconds = []
    for _ in range(2):
        start = time.process_time()
        run()
        seconds.append(time.process_time() - start)
    return max(min(seconds), 1e-6)


@pytest.mark.parametrize("step", [SIZE, 7], ids=["whole", "in-pieces"])
@pytest.mark.parametrize("kind", ADVERSARIAL)
def test_the_cost_grows_linearly(kind: str, step: int) -> None:
    assert_linear(lambda size: parse(ADVERSARIAL[kind](size), step), SIZE)


def test_a_long_call_costs_a_bounded_multiple_of_plain_json() -> None:
    rows = [{"id": number, "name": f"row {number}", "tags": ["a", "b"]} for number in range(2_000)]
    written = json.dumps({"rows": rows, "text": "(" * SIZE})
    ratio = measure(lambda: parse(f"TOOL_CALL: f({written})", SIZE * 4)) / measure(
        lambda: json.loads(written)
    )
    print(f"a call of {len(written)} characters costs {ratio:.0f} times as much as json.loads")
    assert ratio < 400


def test_prose_costs_a_bounded_multiple_of_plain_json() -> None:
    prose = "The quick brown fox jumps over the lazy dog, and `so on`.\n" * (SIZE // 58)
    quoted = json.dumps(prose)
    ratio = measure(lambda: parse(prose, 40)) / measure(lambda: json.loads(quoted))
    print(f"prose in pieces of 40 characters costs {ratio:.0f} times as much as json.loads")
    assert ratio < 2_000


def decode_stream(kind: str, count: int) -> None:
    """Decode one step of the Interactions API that arrives in this many pieces."""
    decode = EventDecoder(None)
    step = {"type": kind, "id": "c", "name": "f"}
    decode({"event_type": "step.start", "index": 0, "step": step})
    piece = {"type": "arguments_delta", "arguments": " " * 80}
    if kind != "function_call":
        piece = {"type": "text", "text": "x" * 80}
    for _ in range(count):
        decode({"event_type": "step.delta", "index": 0, "delta": piece})
    last = {"type": "arguments_delta", "arguments": "{}"}
    decode({"event_type": "step.delta", "index": 0, "delta": last})
    decode({"event_type": "step.stop", "index": 0})
    decode({"event_type": "interaction.completed", "interaction": {"status": "completed"}})


@pytest.mark.parametrize("kind", ["model_output", "thought", "function_call"])
def test_four_times_the_events_cost_about_four_times_as_much(kind: str) -> None:
    cost = measure(lambda: decode_stream(kind, 8_000))
    ratio = measure(lambda: decode_stream(kind, 32_000)) / cost
    print(f"{kind}: {ratio:.1f} times the cost for four times the events")
    assert ratio < 8
