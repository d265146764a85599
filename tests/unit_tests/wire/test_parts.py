from __future__ import annotations

from typing import Any

import pytest

from langchain_gemini_tools.errors import MalformedToolCallError, UnreadableResponseError
from langchain_gemini_tools.wire.response import ResponseContext
from tests.unit_tests.wire.responses import (
    ANSWER,
    CONTEXT,
    Json,
    call,
    chunks,
    event,
    kept,
    one_by_one,
    parse,
    reply,
    seen,
    stream,
    text,
)

SEARCH = {"type": "tool_call", "id": "a", "name": "search", "args": {}}
SIGNATURES = "__gemini_function_call_thought_signatures__"
LOG = "__gemini_parts__"


def block(number: int, kind: str, **fields: Any) -> Json:
    return {"type": kind, "index": f"lc_part_{ANSWER}_{number}", **fields}


def _code(number: int, code: str) -> Any:
    named = f"lc_part_{ANSWER}_{number}"
    return block(number, "executable_code", executable_code=code, language="PYTHON", id=named)


def _code_result(number: int, output: str, **fields: Any) -> Any:
    return block(number, "code_execution_result", code_execution_result=output, **fields)


@pytest.mark.parametrize(
    ("parts", "content"),
    [
        pytest.param([], "", id="nothing"),
        pytest.param([text("")], "", id="an empty text"),
        pytest.param([text("It is "), text("sunny.")], "It is sunny.", id="texts"),
        pytest.param([text("sunny"), text("", thoughtSignature="U0lH")], "sunny", id="signed end"),
        pytest.param([text("Let me see."), call("a")], "Let me see.", id="text beside a call"),
        pytest.param([{}, text("a"), {}], "a", id="parts with nothing in them"),
        pytest.param([text("a"), {"thoughtSignature": "U0lH"}], "a", id="a signature alone"),
        pytest.param([text("", thought=True), text("a")], "a", id="an empty thought"),
        pytest.param(
            [text("hm", thought=True), text("so", thought=True), text("yes")],
            [block(1, "thinking", thinking="hmso"), block(2, "text", text="yes")],
            id="thoughts",
        ),
        pytest.param(
            [text("hm", thought=True, thoughtSignature="U0lH"), text("so", thought=True)],
            [
                block(1, "thinking", thinking="hm", signature="U0lH"),
                block(2, "thinking", thinking="so"),
            ],
            id="a signed thought stands alone",
        ),
        pytest.param(
            [text("hm", thought=True), text("yes"), text("", thoughtSignature="U0lH")],
            [
                block(1, "thinking", thinking="hm"),
                block(2, "text", text="yes"),
                block(3, "text", text="", extras={"signature": "U0lH"}),
            ],
            id="signed text beside blocks",
        ),
        pytest.param(
            [text("first"), text("hm", thought=True), text("last")],
            ["first", block(1, "thinking", thinking="hm"), block(2, "text", text="last")],
            id="text before the first block",
        ),
        pytest.param(
            [
                {"executableCode": {"code": "1+1", "language": "PYTHON", "id": "e"}},
                {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2", "id": "e"}},
            ],
            [
                block(1, "executable_code", executable_code="1+1", language="PYTHON", id="e"),
                block(
                    2,
                    "code_execution_result",
                    code_execution_result="2",
                    outcome=1,
                    tool_call_id="e",
                ),
            ],
            id="code",
        ),
        pytest.param(
            [
                {"executableCode": {"code": "1", "language": "PYTHON"}},
                {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "no"}},
                {"executableCode": {"code": "2", "language": "PYTHON"}},
                {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
            ],
            [
                _code(1, "1"),
                _code_result(2, "no", outcome=2, tool_call_id=f"lc_part_{ANSWER}_1"),
                _code(3, "2"),
                _code_result(4, "2", outcome=1, tool_call_id=f"lc_part_{ANSWER}_3"),
            ],
            id="code without ids",
        ),
        pytest.param(
            [{"codeExecutionResult": {"outcome": "OUTCOME_NEW", "output": "2"}}],
            [block(1, "code_execution_result", code_execution_result="2", outcome="OUTCOME_NEW")],
            id="an outcome never heard of",
        ),
        pytest.param(
            [{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}],
            [block(1, "image_url", image_url={"url": "data:image/png;base64,AAAA"})],
            id="an image",
        ),
        pytest.param(
            [{"inlineData": {"mimeType": "image/png", "data": ""}}],
            [block(1, "gemini_part", part={"inlineData": {"mimeType": "image/png", "data": ""}})],
            id="an image of nothing",
        ),
        pytest.param(
            [{"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}}],
            [block(1, "audio", mime_type="audio/wav", base64="AAAA")],
            id="a sound",
        ),
        pytest.param(
            [{"toolCall": {"id": "t", "toolType": "GOOGLE_SEARCH"}, "thoughtSignature": "U0lH"}],
            [
                block(
                    1,
                    "gemini_part",
                    part={
                        "toolCall": {"id": "t", "toolType": "GOOGLE_SEARCH"},
                        "thoughtSignature": "U0lH",
                    },
                )
            ],
            id="a server tool",
        ),
        pytest.param(
            [{"hologram": {"x": 1}}],
            [block(1, "gemini_part", part={"hologram": {"x": 1}})],
            id="a part never heard of",
        ),
        pytest.param(
            [text("hi", partMetadata={"k": 1})],
            [
                block(
                    1, "text", text="hi", extras={"gemini_part_fields": {"partMetadata": {"k": 1}}}
                )
            ],
            id="text with a field never heard of is text all the same",
        ),
    ],
)
def test_parts_become_content(parts: list[Json], content: Any) -> None:
    message = parse(reply(parts))
    assert message.content == content
    assert seen(message) == seen(stream(one_by_one(parts)))


@pytest.mark.parametrize(
    ("parts", "kinds"),
    [
        pytest.param([text("hm", thought=True), text("yes")], ["reasoning", "text"], id="thoughts"),
        pytest.param(
            [{"executableCode": {"code": "1", "language": "PYTHON", "id": "e"}}],
            ["server_tool_call"],
            id="code",
        ),
        pytest.param([text("a"), call("a")], ["text", "tool_call"], id="a call"),
        pytest.param([{"toolCall": {"id": "t"}}], ["non_standard"], id="a server tool"),
        pytest.param(
            [{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}], ["image"], id="an image"
        ),
    ],
)
def test_langchain_reads_the_content_as_standard_blocks(
    parts: list[Json], kinds: list[str]
) -> None:
    for message in (parse(reply(parts)), stream(one_by_one(parts))):
        assert [found["type"] for found in message.content_blocks] == kinds


# Calls


def test_calls_keep_their_ids_order_and_signatures() -> None:
    parts = [call("a", sign="U0lH", city="Oslo"), call("b", "weather", city="Rome", days=[1, 2.5])]
    message = parse(reply(parts))
    assert message.tool_calls == [
        {"type": "tool_call", "id": "a", "name": "search", "args": {"city": "Oslo"}},
        {
            "type": "tool_call",
            "id": "b",
            "name": "weather",
            "args": {"city": "Rome", "days": [1, 2.5]},
        },
    ]
    assert kept(message) == {SIGNATURES: {"a": "U0lH"}}
    assert seen(message) == seen(stream(one_by_one(parts)))


def test_a_call_without_arguments_has_none() -> None:
    assert parse(reply([{"functionCall": {"id": "a", "name": "search"}}])).tool_calls == [SEARCH]


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([call(None), call(None)], id="no ids"),
        pytest.param([call("a"), call("a", city="Oslo")], id="an id twice"),
        pytest.param([{"functionCall": {"id": 5, "name": "search"}}, call("")], id="no text"),
    ],
)
def test_every_call_has_a_different_id(parts: list[Json]) -> None:
    for message in (parse(reply(parts)), stream(one_by_one(parts))):
        ids = [found["id"] for found in message.tool_calls]
        assert len(set(ids)) == 2
        assert all(isinstance(found, str) and found for found in ids)


def test_a_call_that_arrives_twice_is_one_call() -> None:
    """The same id, name and arguments: a proxy repeated an event, or a part."""
    parts = [call("a", sign="U0lH", city="Oslo"), call("b"), call("a", sign="U0lH", city="Oslo")]
    message = parse(reply(parts))
    assert [found["id"] for found in message.tool_calls] == ["a", "b"]
    assert seen(message) == seen(parse(reply(parts[:2])))
    for events in (one_by_one(parts), [event(*parts[:2]), reply(parts[:2])]):
        assert seen(message) == seen(stream(events))


def test_a_repeated_call_without_arguments_is_one_call() -> None:
    bare = {"functionCall": {"id": "a", "name": "refresh"}}
    empty = {"functionCall": {"id": "a", "name": "refresh", "args": {}}}
    for parts in ([bare, bare], [bare, empty]):
        assert [found["id"] for found in parse(reply(parts)).tool_calls] == ["a"]
        assert [found["id"] for found in stream(one_by_one(parts)).tool_calls] == ["a"]


def test_calls_without_an_id_are_never_taken_for_repetitions() -> None:
    assert len(parse(reply([call(None), call(None)])).tool_calls) == 2


@pytest.mark.parametrize(
    ("rest", "content"),
    [
        ({"text": "Let me see."}, "Let me see."),
        (
            {"text": "Hm.", "thought": True},
            [{"type": "thinking", "thinking": "Hm.", "index": f"lc_part_{ANSWER}_1"}],
        ),
    ],
    ids=["text", "thought"],
)
def test_a_part_with_text_and_a_call_loses_neither(rest: Json, content: Any) -> None:
    both = {**call("a", sign="U0lH"), **rest}
    apart = [rest, call("a", sign="U0lH")]
    message = parse(reply([both]))
    assert message.content == content
    assert message.tool_calls == [SEARCH]
    assert seen(message) == seen(parse(reply(apart)))
    assert seen(message) == seen(stream(one_by_one([both])))


def test_streamed_calls_are_numbered_over_the_whole_message() -> None:
    parts = [call("a"), text("and"), call("b"), call("c")]
    pieces = [piece for chunk in chunks(one_by_one(parts)) for piece in chunk.tool_call_chunks]
    assert [(piece["id"], piece["index"]) for piece in pieces] == [("a", 0), ("b", 1), ("c", 2)]


@pytest.mark.parametrize(
    ("wire_name", "name", "noted"),
    [
        pytest.param("search", "search", {}, id="bound"),
        pytest.param("shop_search_1a2b", "shop search", {}, id="renamed for the wire"),
        pytest.param(
            "default_api.search",
            "search",
            {LOG: {f"{ANSWER}.0": {"call": "a", "name": "default_api.search", "tool": "search"}}},
            id="prefix with a dot",
        ),
        pytest.param(
            "default_api:search",
            "search",
            {LOG: {f"{ANSWER}.0": {"call": "a", "name": "default_api:search", "tool": "search"}}},
            id="prefix with a colon",
        ),
        pytest.param("default_api.other", "default_api.other", {}, id="prefix of nothing bound"),
        pytest.param("other", "other", {}, id="not bound: executors answer it"),
    ],
)
def test_calls_come_back_under_the_users_name(
    wire_name: str, name: str, noted: dict[str, Any]
) -> None:
    context = ResponseContext("m", {"search": "search", "shop_search_1a2b": "shop search"})
    message = parse(reply([call("a", wire_name)]), context)
    assert [found["name"] for found in message.tool_calls] == [name]
    assert kept(message) == noted


def test_a_tool_that_is_really_called_with_the_prefix_keeps_it() -> None:
    bound = {"search": "search", "default_api.search": "default_api.search"}
    message = parse(reply([call("a", "default_api.search")]), ResponseContext("m", bound))
    assert message.tool_calls == [SEARCH | {"name": "default_api.search"}]
    assert kept(message) == {}


@pytest.mark.parametrize(
    "function_call",
    [
        pytest.param({"id": "a", "args": {}}, id="no name"),
        pytest.param({"id": "a", "name": "", "args": {}}, id="empty name"),
        pytest.param({"id": "a", "name": ["x"], "args": {}}, id="a list as name"),
        pytest.param({"id": "a", "name": "search", "args": [1]}, id="a list as arguments"),
        pytest.param({"id": "a", "name": "search", "args": "{}"}, id="text as arguments"),
    ],
)
def test_a_malformed_call_is_an_invalid_tool_call_in_both_modes(function_call: Json) -> None:
    parts = [{"functionCall": function_call}]
    message = parse(reply(parts))
    assert message.tool_calls == []
    (found,) = message.invalid_tool_calls
    assert found["id"] == "a"
    assert str(found["args"]).startswith("not a function call]: {")
    assert seen(message) == seen(stream(one_by_one(parts)))


def test_calls_of_remote_tools_are_the_servers_business() -> None:
    parts = [call("a", "remote"), call("b", "search")]
    context = ResponseContext("m", {"search": "search"}, runs_remote_tools=True)
    message = parse(reply(parts), context)
    assert [found["name"] for found in message.tool_calls] == ["search"]
    assert message.content == [block(1, "gemini_part", part=parts[0])]


@pytest.mark.parametrize("strange", ["search", 5, True, ["search"]])
def test_a_call_that_is_not_an_object_is_unreadable(strange: Any) -> None:
    with pytest.raises(UnreadableResponseError, match="a function call that is not an object"):
        parse(reply([{"functionCall": strange}]))


def test_a_part_that_is_not_an_object_is_unreadable() -> None:
    with pytest.raises(UnreadableResponseError, match="not an object"):
        parse(reply(["text"]))


# The order of parts


def test_the_order_is_stored_where_content_and_calls_do_not_show_it() -> None:
    parts = [call("a", sign="U0lH"), text("hey"), call("b")]
    message = parse(reply(parts))
    assert kept(message) == {
        SIGNATURES: {"a": "U0lH"},
        LOG: {
            f"{ANSWER}.0": {"call": "a"},
            f"{ANSWER}.1": {"text": 3},
            f"{ANSWER}.2": {"call": "b"},
        },
    }
    assert seen(message) == seen(stream(one_by_one(parts)))


def test_signatures_of_text_stay_beside_a_plain_answer() -> None:
    parts = [
        text("It is "),
        text("sunny", thoughtSignature="QQ=="),
        text("", thoughtSignature="Qg=="),
    ]
    message = parse(reply(parts))
    assert message.content == "It is sunny"
    assert kept(message) == {
        LOG: {
            f"{ANSWER}.0": {"text": 6},
            f"{ANSWER}.1": {"text": 5, "signature": "QQ==", "sum": "b45f5437"},
            f"{ANSWER}.2": {"text": 0, "signature": "Qg==", "sum": "00000000"},
        }
    }


def test_an_ordinary_answer_notes_nothing() -> None:
    assert kept(parse(reply([text("Let me see."), call("a"), call("b")]))) == {}


# Arguments in pieces

BEGIN = {"functionCall": {"id": "a", "name": "search", "willContinue": True}}
MORE = {
    "functionCall": {
        "partialArgs": [{"jsonPath": "$.city", "stringValue": "Os", "willContinue": True}],
        "willContinue": True,
    }
}
REST = {
    "functionCall": {
        "partialArgs": [{"jsonPath": "$.city", "stringValue": "lo"}],
        "willContinue": True,
    }
}
END: Json = {"functionCall": {}}
OSLO = [SEARCH | {"args": {"city": "Oslo"}}]


def signed(part: Json, signature: str = "U0lH") -> Json:
    return {**part, "thoughtSignature": signature}


@pytest.mark.parametrize(
    ("parts", "tool_calls"),
    [
        pytest.param([BEGIN, MORE, REST, END], OSLO, id="as documented"),
        pytest.param([BEGIN, MORE, REST, END, END], OSLO, id="ended twice"),
        pytest.param([BEGIN, MORE, text(""), REST, END], OSLO, id="empty text between"),
        pytest.param([BEGIN, END], [SEARCH], id="no arguments"),
        pytest.param(
            [BEGIN, {"functionCall": {"args": {"city": "Oslo"}}}], OSLO, id="whole in the end"
        ),
        pytest.param(
            [BEGIN, {"functionCall": {"id": "a", "name": "search", "args": {"city": "Oslo"}}}],
            OSLO,
            id="named again",
        ),
        pytest.param(
            [
                BEGIN,
                MORE,
                REST,
                {"functionCall": {"id": "a", "name": "search", "args": {"city": "Oslo"}}},
            ],
            OSLO,
            id="repeated whole in the end",
        ),
        pytest.param(
            [
                {
                    "functionCall": {
                        "id": "a",
                        "name": "search",
                        "partialArgs": [{"jsonPath": "$.city", "stringValue": "Oslo"}],
                    }
                }
            ],
            OSLO,
            id="all in one",
        ),
    ],
)
def test_arguments_in_pieces_become_one_call(parts: list[Json], tool_calls: list[Json]) -> None:
    message = stream(one_by_one(parts))
    assert message.tool_calls == tool_calls
    assert seen(message) == seen(parse(reply(parts)))


def test_arguments_reach_the_user_as_they_come() -> None:
    pieces = [
        piece
        for chunk in chunks(one_by_one([BEGIN, MORE, REST, END]))
        for piece in chunk.tool_call_chunks
    ]
    assert [(piece["name"], piece["args"]) for piece in pieces] == [
        ("search", ""),
        (None, '{"city":"Os'),
        (None, 'lo"'),
        (None, "}"),
    ]
    assert {piece["id"] for piece in pieces} == {"a"}
    assert len({piece["index"] for piece in pieces}) == 1


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([signed(BEGIN), MORE, REST, END], id="at the beginning"),
        pytest.param([BEGIN, MORE, REST, signed(END)], id="at the end"),
        pytest.param([signed(BEGIN), signed(MORE), signed(REST), signed(END)], id="on each piece"),
    ],
)
def test_a_call_in_pieces_keeps_its_signature(parts: list[Json]) -> None:
    for message in (stream(one_by_one(parts)), parse(reply(parts))):
        assert kept(message) == {SIGNATURES: {"a": "U0lH"}}


WHOLE = {"functionCall": {"id": "a", "name": "search", "args": {"city": "Oslo"}}}
STREAMED = [BEGIN, MORE, REST, END]
IN_ONE = {
    "functionCall": {
        "id": "a",
        "name": "search",
        "partialArgs": [{"jsonPath": "$.city", "stringValue": "Oslo"}],
    }
}


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([*STREAMED, *STREAMED], id="all pieces again"),
        pytest.param([*STREAMED, *STREAMED, *STREAMED], id="three times"),
        pytest.param([IN_ONE, IN_ONE], id="all in one, again"),
        pytest.param([*STREAMED, IN_ONE], id="then all in one"),
        pytest.param([*STREAMED, WHOLE], id="then whole"),
        pytest.param([WHOLE, *STREAMED], id="whole, then in pieces"),
        pytest.param([*STREAMED, text(""), *map(signed, STREAMED)], id="signed the second time"),
        pytest.param([BEGIN, *STREAMED], id="begun twice"),
    ],
)
def test_a_call_whose_pieces_arrive_again_under_its_id_is_one_call(parts: list[Json]) -> None:
    """A proxy repeats events; a second call of the model has another id."""
    for message in (stream(one_by_one(parts)), parse(reply(parts))):
        assert (message.tool_calls, message.invalid_tool_calls) == (OSLO, [])
    sent = [chunk["id"] for part in chunks(one_by_one(parts)) for chunk in part.tool_call_chunks]
    assert set(sent) == {"a"}


def test_another_call_under_a_known_id_is_a_second_call() -> None:
    """Different arguments or another tool: it is not a repetition, whatever its id says."""
    rome = {"jsonPath": "$.city", "stringValue": "Rome"}
    others = [
        {"functionCall": {"id": "a", "name": "search", "partialArgs": [rome]}},
        {"functionCall": {**IN_ONE["functionCall"], "name": "find"}},
    ]
    message = stream(one_by_one([*STREAMED, *others, *STREAMED]))
    found = [(called["name"], called["args"]["city"]) for called in message.tool_calls]
    assert found == [("search", "Oslo"), ("search", "Rome"), ("find", "Oslo")]
    assert len({called["id"] for called in message.tool_calls}) == 3
    whole = parse(reply([*STREAMED, *others, *STREAMED]))
    assert [called["args"] for called in whole.tool_calls] == [
        called["args"] for called in message.tool_calls
    ]


def test_streamed_calls_without_an_id_are_never_taken_for_repetitions() -> None:
    """As Vertex AI sends them: equal calls may be meant twice."""
    begin = {"functionCall": {"name": "search", "willContinue": True}}
    assert len(stream(one_by_one([begin, MORE, REST, END] * 2)).tool_calls) == 2


@pytest.mark.parametrize("odd", [[], {}, 5, "", None])
def test_a_streamed_call_with_an_odd_id_gets_one(odd: Any) -> None:
    begin = {"functionCall": {"id": odd, "name": "search", "willContinue": True}}
    calls = stream(one_by_one([begin, MORE, REST, END] * 2)).tool_calls
    assert [called["args"] for called in calls] == [{"city": "Oslo"}] * 2
    assert len({called["id"] for called in calls}) == 2


def test_a_single_piece_that_is_repeated_cannot_be_recognized() -> None:
    """Pieces have no id or number, and "ha" and "ha" are "haha". The call is made once."""
    message = stream(one_by_one([BEGIN, MORE, MORE, REST, END]))
    assert message.tool_calls == [SEARCH | {"args": {"city": "OsOslo"}}]
    with pytest.raises(UnreadableResponseError, match="out of order"):
        stream(one_by_one([BEGIN, MORE, REST, REST, END]))


def test_a_repetition_that_is_cut_short_is_malformed() -> None:
    with pytest.raises(MalformedToolCallError, match="inside the arguments"):
        stream(one_by_one([*STREAMED, BEGIN, MORE]))


def test_a_call_that_never_ended_is_not_handed_over() -> None:
    with pytest.raises(
        MalformedToolCallError, match="inside the arguments of a call to 'search'"
    ) as e:
        stream(one_by_one([BEGIN, MORE]))
    assert e.value.partial is not None
    assert e.value.partial.tool_calls == []


def test_a_second_call_inside_of_one_is_malformed() -> None:
    with pytest.raises(MalformedToolCallError):
        stream([event(BEGIN, MORE), event(call("b")), reply([])])


@pytest.mark.parametrize(
    "part",
    [
        pytest.param({"functionCall": {"id": "a", "willContinue": True}}, id="no name"),
        pytest.param(MORE, id="pieces of no call"),
        pytest.param({"functionCall": {"name": "search", "partialArgs": 5}}, id="a number"),
        pytest.param({"functionCall": {"name": "search", "partialArgs": [5]}}, id="of numbers"),
    ],
)
def test_pieces_that_cannot_be_read_are_said_to_be(part: Json) -> None:
    with pytest.raises(UnreadableResponseError):
        parse(reply([part]), CONTEXT)
