from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_gemini_tools.errors import MalformedToolCallError, UnreadableResponseError
from langchain_gemini_tools.wire.function_calls import ArgumentsWriter
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


def test_a_field_of_a_call_that_is_null_is_not_there() -> None:
    unset = {"partialArgs": None, "willContinue": None}
    whole = {"functionCall": {"id": "a", "name": "search", "args": {"days": None}, **unset}}
    expected = call("a", days=None)
    assert seen(parse(reply([whole]))) == seen(parse(reply([expected])))
    found = chunks([event(whole), reply([])])
    assert [*map(seen, found)] == [*map(seen, chunks([event(expected), reply([])]))]


def test_a_value_of_streamed_arguments_that_is_null_is_not_there() -> None:
    values = {"stringValue": None, "numberValue": None, "boolValue": None}
    pieces = [
        {"jsonPath": "$.days", **values, "numberValue": 3},
        {"jsonPath": "$.city", **values, "stringValue": "Oslo"},
        {"jsonPath": "$.unit", "nullValue": None},
    ]
    writer = ArgumentsWriter()
    assert json.loads(writer.feed(pieces) + writer.finish()) == {
        "days": 3,
        "city": "Oslo",
        "unit": None,
    }


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
def test_a_malformed_call_is_an_error_or_an_invalid_tool_call(function_call: Json) -> None:
    parts = [call("b", "search"), {"functionCall": function_call}]
    with pytest.raises(MalformedToolCallError, match="no name, or its arguments") as raised:
        parse(reply(parts))
    assert raised.value.partial is not None
    assert raised.value.partial.tool_calls == []
    with pytest.raises(MalformedToolCallError, match="no name, or its arguments"):
        stream(one_by_one(parts))
    returned = ResponseContext("m", returns_failures=True)
    message = parse(reply(parts), returned)
    found = message.invalid_tool_calls[-1]
    assert found["id"] == "a"
    assert str(found["args"]).startswith("not a function call]: {")
    assert seen(message) == seen(stream(one_by_one(parts), returned))


def test_calls_of_remote_tools_are_the_servers_business() -> None:
    parts = [call("a", "remote"), call("b", "search")]
    context = ResponseContext("m", {"search": "search"}, runs_remote_tools=True)
    message = parse(reply(parts), context)
    assert [found["name"] for found in message.tool_calls] == ["search"]
    assert message.content == [
        {"type": "gemini_part", "index": f"lc_part_{ANSWER}_1", "part": parts[0]}
    ]


@pytest.mark.parametrize("strange", ["search", 5, True, ["search"]])
def test_a_call_that_is_not_an_object_is_unreadable(strange: Any) -> None:
    with pytest.raises(UnreadableResponseError, match="a function call that is not an object"):
        parse(reply([{"functionCall": strange}]))


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
        pytest.param(
            [
                {"functionCall": {"id": "a", "name": "search", "partialArgs": [begun]}}
                for begun in (
                    {"jsonPath": "$.city", "stringValue": "Os", "willContinue": True},
                    {"jsonPath": "$.city", "stringValue": "lo"},
                )
            ],
            OSLO,
            id="only the argument says that it continues",
        ),
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


def test_complete_arguments_in_two_versions_are_not_executed() -> None:
    again = {"functionCall": {"args": {"city": "Oslo"}, "willContinue": True}}
    other = {"functionCall": {"args": {"city": "Rome"}, "willContinue": True}}
    begin = {"functionCall": again["functionCall"] | {"id": "a", "name": "search"}}
    calls = stream(one_by_one([begin, again, END])).tool_calls
    assert calls == [SEARCH | {"args": {"city": "Oslo"}}]
    with pytest.raises(UnreadableResponseError, match="two versions"):
        stream(one_by_one([begin, other, END]))


def test_a_second_call_inside_of_one_is_malformed() -> None:
    with pytest.raises(MalformedToolCallError):
        stream([event(BEGIN, MORE), event(call("b")), reply([])])


def test_arguments_of_a_second_call_without_an_id_are_not_given_to_the_first() -> None:
    """Calls of Vertex AI have no id, so the name says that another one has begun."""
    first, second = ({"functionCall": {"name": n, "willContinue": True}} for n in ("search", "go"))
    day = {"jsonPath": "$.day", "stringValue": "today"}
    with pytest.raises(MalformedToolCallError, match="of a call to 'search'"):
        stream(one_by_one([first, MORE, REST, second, {"functionCall": {"partialArgs": [day]}}]))


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


# The JSON of these pieces


def written(*events: list[Json]) -> str:
    writer = ArgumentsWriter()
    return "".join([*(writer.feed(pieces) for pieces in events), writer.finish()])


def at(path: str, value: Any, **more: Any) -> Json:
    kinds = {str: "stringValue", bool: "boolValue", type(None): "nullValue"}
    return {"jsonPath": path, kinds.get(type(value), "numberValue"): value, **more}


@pytest.mark.parametrize(
    ("pieces", "args"),
    [
        pytest.param([], {}, id="nothing"),
        pytest.param([at("$.city", "Oslo")], {"city": "Oslo"}, id="text"),
        pytest.param([at("$.n", 1), at("$.x", 2.5)], {"n": 1, "x": 2.5}, id="numbers"),
        pytest.param([at("$.a", True), at("$.b", None)], {"a": True, "b": None}, id="constants"),
        pytest.param(
            [{"jsonPath": "$.b", "nullValue": "NULL_VALUE"}], {"b": None}, id="null as protos say"
        ),
        pytest.param(
            [at("$.a", "x", willContinue=True), at("$.a", "y", willContinue=True), at("$.b", 1)],
            {"a": "xy", "b": 1},
            id="text in pieces, ended by the next place",
        ),
        pytest.param(
            [at("$.a.b[0].c", "x"), at("$.a.b[0].d", 1), at("$.a.b[1].c", "y"), at("$.e", 2)],
            {"a": {"b": [{"c": "x", "d": 1}, {"c": "y"}]}, "e": 2},
            id="nested",
        ),
        pytest.param(
            [at("$.m[0][0]", 1), at("$.m[1][0]", 2)], {"m": [[1], [2]]}, id="lists in lists"
        ),
        pytest.param(
            [at("$['a.b']", 1), at('$["c\\"d"]', 2)],
            {"a.b": 1, 'c"d': 2},
            id="quoted names",
        ),
        pytest.param(
            [at("$.t", 'a"b\\c\n\u2028é', willContinue=True), at("$.t", "\ud83d\ude00")],
            {"t": 'a"b\\c\n\u2028é\U0001f600'},
            id="characters that JSON escapes",
        ),
        pytest.param([{"jsonPath": "$.later", "willContinue": True}], {}, id="a place, no value"),
    ],
)
def test_pieces_add_up_to_the_arguments(pieces: list[Json], args: Json) -> None:
    assert json.loads(written(pieces)) == args
    assert json.loads(written(*([piece] for piece in pieces))) == args


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([{"stringValue": "x"}], id="no place"),
        pytest.param([at("city", "x")], id="no dollar"),
        pytest.param([at("$", "x")], id="the root"),
        pytest.param([at("$.a..b", "x")], id="nonsense"),
        pytest.param([at("$.a", 1), at("$.a", 2)], id="the same place again"),
        pytest.param([at("$.a.b", 1), at("$.c", 1), at("$.a.d", 2)], id="back to a closed object"),
        pytest.param([at("$.a[1]", 1)], id="a gap in a list"),
        pytest.param([at("$.a[0]", 1), at("$.a.b", 1)], id="a list that is an object"),
        pytest.param([at("$.a[" + "1" * 5000 + "]", 1)], id="an index that is no number"),
        pytest.param([at("$" + ".a" * 101, 1)], id="deeper than a message may be"),
        pytest.param([at("$" + "[0]" * 100_000, 1)], id="deeper than Python reads"),
        pytest.param(["x"], id="no objects"),
        pytest.param("x", id="no list"),
    ],
)
def test_pieces_that_are_out_of_order_are_rejected(pieces: Any) -> None:
    with pytest.raises(UnreadableResponseError, match="Streamed arguments") as raised:
        written(pieces)
    assert len(str(raised.value)) < 400


def test_whole_arguments_stand_for_themselves() -> None:
    writer = ArgumentsWriter()
    assert writer.feed_whole({"a": 1}) + writer.feed([]) + writer.finish() == '{"a": 1}'


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="'\\"), min_size=1, max_size=4)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3)
        | st.dictionaries(NAMES, inner, min_size=1, max_size=3)
    ),
    max_leaves=6,
)


def cut(path: str, value: Any) -> list[Json]:
    """A value as the API would send it; texts character by character."""
    if isinstance(value, dict):
        return [piece for key in value for piece in cut(f"{path}['{key}']", value[key])]
    if isinstance(value, list):
        return [piece for n, item in enumerate(value) for piece in cut(f"{path}[{n}]", item)]
    if isinstance(value, str) and value:
        last = len(value) - 1
        return [at(path, sign, willContinue=n < last) for n, sign in enumerate(value)]
    return [at(path, value)]


@given(st.dictionaries(NAMES, VALUES, max_size=3))
def test_any_arguments_can_arrive_in_pieces(args: Json) -> None:
    assert json.loads(written(*([piece] for piece in cut("$", args)))) == args
