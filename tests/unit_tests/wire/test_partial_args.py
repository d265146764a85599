from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_gemini_tools.errors import UnreadableResponseError
from langchain_gemini_tools.wire.partial_args import ArgumentsWriter

Json = dict[str, Any]


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
