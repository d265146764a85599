"""Properties of the parser for any text, wherever it is split."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from langchain_gemini_tools.prompted import words
from langchain_gemini_tools.prompted.parser import ToolCallParser, parse_text
from langchain_gemini_tools.prompted.text import ParsedToolCall
from tests.unit_tests.prompted.corpus import RESPONSES, parse_pieces
from tests.unit_tests.prompted.test_values import values

TOOLS = ["get_weather", "get", "add", "search"]

FRAGMENTS = [
    *("TOOL_CALL:", "TOOL_CALL: ", "\nTOOL_CALL: add(", "TOOL", "tool call: ", "functools"),
    *("add", "get", "get_weather", "nope", "print(", "default_api.", "add(a=1)", 'add({"a": 1})'),
    *('{"name": "add", "args": {"a": 1}}', '"name": "get"', '"parameters": ', '{"tool_calls": ['),
    *(
        "\n",
        "\n\n",
        "\r\n",
        " ",
        "\t",
        "```",
        "````",
        "~~~",
        "```json\n",
        "```tool_code\n",
        "`",
        "``",
    ),
    *("Action: ", "Action Input: ", "[nope(b=2), ", "['add(a=1)'", '[{"nope": {}}, ', "r'", "''"),
    *("Here is the call: ", "<invoke name=", "<call_record>", "call:", "<<function>>"),
    *("<|tool_call>", "<tool_call|>", '<|"|>', "<escape>", "<|turn>model\n", "<|channel>thought"),
    *("(", ")", "{", "}", "[", "]", '"', "'", '"""', "\u201c", "\\", "\\u12", "\ud800", ",", ";"),
    *(":", "=", "1", "-", "1.5", "NaN", "None", "true", "none", "x", "é", "\x00"),
    *(
        "<tool_call>",
        "</tool_call>",
        "[TOOL_CALLS]",
        "<function=add>",
        "<end_of_turn>",
        "<",
        "</s>",
    ),
    *(
        "<start_of_turn>model\n",
        "<|im_start|>",
        "For example:\n",
        "Sure. ",
        "words",
        "> ",
        "- ",
        "**",
    ),
]
"""The fragments of the protocol and of the text around it."""

adversarial = st.lists(st.sampled_from(FRAGMENTS), max_size=20).map("".join)
anything = adversarial | st.text(max_size=60) | st.sampled_from([each.text for each in RESPONSES])

NOISE = [
    *(
        words.MARKER,
        words.FUNCTION_TAG,
        "<invokename=",
        "action:",
        "actioninput:",
        "call:",
        "functools",
        "toolcall:",
        "none",
        "print(",
        "model",
    ),
    *("json", "tool_code", '{"tool_calls":[', *words.TAGS, *words.TOKENS),
    *"`~,;*-+#_.()[]{}0123456789",
]
"""What the pieces may leave out, besides white space."""


def _without_space(text: str) -> str:
    return re.sub(r"\s", "", text)


def _skip_noise(text: str, starts: set[int]) -> set[int]:
    """Every place that can be reached from these by skipping noise."""
    reached, new = set(starts), set(starts)
    while new:
        new = {
            at + len(word)
            for at in new
            for word in NOISE
            if text.lower().startswith(word.lower(), at)
        } - reached
        reached |= new
    return reached


def _is_preserved(text: str, pieces: list[str]) -> bool:
    places = {0}
    for piece in pieces:
        places = {at + len(piece) for at in _skip_noise(text, places) if text.startswith(piece, at)}
    return len(text) in _skip_noise(text, places)


@given(anything, st.lists(st.integers(0, 200), max_size=6))
def test_where_the_text_is_split_makes_no_difference(text: str, cuts: list[int]) -> None:
    borders = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    parts = [text[start:end] for start, end in pairwise(borders)]
    whole = parse_text(text, TOOLS)
    assert parse_pieces(parts, TOOLS) == whole
    assert parse_pieces(list(text), TOOLS) == whole


@given(adversarial)
@example("TOOL_CALL:```For example:\n")
def test_every_character_is_text_or_call_or_protocol(text: str) -> None:
    pieces = parse_text(text, TOOLS)
    found: list[str] = []
    for piece in pieces:
        found += _without_space(piece) if isinstance(piece, str) else [_without_space(piece.text)]
    assert _is_preserved(_without_space(text), found)


@given(anything)
def test_no_call_is_invented(text: str) -> None:
    for piece in parse_text(text, TOOLS):
        if isinstance(piece, ParsedToolCall):
            assert piece.name in TOOLS
            assert piece.name in piece.text.replace("\\_", "_")
            assert piece.text in text


@given(anything)
def test_without_tools_nothing_is_called(text: str) -> None:
    assert not [piece for piece in parse_text(text, []) if isinstance(piece, ParsedToolCall)]


@given(st.text("abgT<`.*->|_1 \n:eéO", max_size=80))
def test_prose_is_never_held_back_for_long(text: str) -> None:
    parser = ToolCallParser(TOOLS)
    written = ""
    longest = max(map(len, [*words.TOKENS, *words.TAGS, *TOOLS]))
    for end, char in enumerate(text, 1):
        written += "".join(map(str, parser.feed(char)))
        held = _without_space(text[:end]).removeprefix(_without_space(written))
        assert len(held.strip("`")) < longest
    assert written + "".join(map(str, parser.finish())) == text


names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.:-]{0,30}", fullmatch=True)
arguments = st.dictionaries(
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=9), values, max_size=3
)


@given(names, arguments, st.booleans())
def test_any_call_in_the_protocol_survives_a_round_trip(
    name: str, args: dict[str, Any], is_ascii: bool
) -> None:
    call = f"{name}({json.dumps(args, ensure_ascii=is_ascii)})"
    response = f"Before.\nTOOL_CALL: {call}\nAfter."
    assert parse_text(response, [name, "other"]) == [
        "Before.",
        ParsedToolCall(name, args, call),
        "\nAfter.",
    ]


@given(st.lists(st.tuples(st.sampled_from(TOOLS), arguments), min_size=1, max_size=4))
def test_any_calls_in_other_notations_survive_a_round_trip(
    calls: list[tuple[str, dict[str, Any]]],
) -> None:
    objects = [{"name": name, "arguments": args} for name, args in calls]
    nested = [
        {"id": "1", "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
        for name, args in calls
    ]
    for response in (
        json.dumps(objects),
        repr(objects),
        "```json\n" + json.dumps(objects, indent=2) + "\n```",
        "\n".join(json.dumps(each) for each in objects),
        json.dumps({"tool_calls": nested}),
        "<tool_call>" + "</tool_call>\n<tool_call>".join(map(json.dumps, objects)) + "</tool_call>",
    ):
        pieces = parse_text(response, TOOLS)
        assert [(p.name, p.args) for p in pieces if isinstance(p, ParsedToolCall)] == calls
        assert len(pieces) == len(calls)
