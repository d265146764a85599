from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from langchain_core.messages import AIMessageChunk

from langchain_gemini_tools.errors import (
    GeminiToolsError,
    MalformedToolCallError,
    UnreadableResponseError,
)
from langchain_gemini_tools.wire.response import StreamParser
from tests.unit_tests.wire.responses import (
    CONTEXT,
    Json,
    call,
    chunks,
    event,
    one_by_one,
    reply,
    stream,
    text,
)


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([text("It is")], id="text"),
        pytest.param([call("a", days=3, tags=[{"b": None}], city="Zürich")], id="a call"),
        pytest.param([call("a", sign="U0lH"), call("b", sign="U0lI")], id="signed calls"),
        pytest.param([text("Let me see."), call("a", "weather")], id="text and a call"),
        pytest.param([text("hm", thought=True)], id="a thought"),
    ],
)
def test_a_chunk_is_what_core_would_make_of_its_fields(parts: list[Json]) -> None:
    """Core checks a chunk that is made of fields, and derives some of them from others."""
    for piece in chunks([event(*parts), reply([text("end")])]):
        fields = piece.model_dump()
        made = AIMessageChunk(**fields)
        assert (made, list(vars(made))) == (piece, list(vars(piece)))
        derived = AIMessageChunk(**{**fields, "tool_calls": [], "invalid_tool_calls": []})
        assert derived == piece


def test_chunks_share_nothing_that_can_be_changed() -> None:
    called = [event(call("a", days=3)), reply([call("b")])]
    bodies = [event(text("a")), event(text("b")), *called]
    whole = stream(bodies)
    parser = StreamParser(CONTEXT)
    pieces = [piece.message for body in bodies for piece in parser.feed(body)]
    pieces += [piece.message for piece in parser.finish()[:-1]]
    held = [value for piece in pieces for value in vars(piece).values()]
    mutable = [id(value) for value in held if isinstance(value, (dict, list))]
    assert len(mutable) == len(set(mutable)) >= 3 * 5
    for piece in pieces:
        assert isinstance(piece, AIMessageChunk)
        piece.response_metadata["mine"] = piece.additional_kwargs["mine"] = True
        piece.tool_calls.append({"name": "mine", "args": {}, "id": "mine"})
    pieces[2].tool_calls[0]["args"]["mine"] = True  # type: ignore[attr-defined]
    with pytest.raises(GeminiToolsError) as caught, parser.keeping_partial():
        raise UnreadableResponseError("the stream broke here")
    partial = caught.value.partial  # type: ignore[attr-defined]
    assert "mine" not in str(partial)
    assert stream(bodies) == whole


# The time of streamed arguments


def _decodings(monkeypatch: pytest.MonkeyPatch, events: list[Json]) -> int:
    """How often JSON is decoded while the chunks of a stream are made."""
    decoded: list[object] = []
    decode = json.loads

    def count(*args: Any, **kwargs: Any) -> Any:
        decoded.append(args)
        return decode(*args, **kwargs)

    with monkeypatch.context() as patch, suppress(MalformedToolCallError):
        patch.setattr(json, "loads", count)
        chunks(events)
    return len(decoded)


def _in_pieces(texts: list[str]) -> list[Json]:
    begin = {"functionCall": {"id": "a", "name": "search", "willContinue": True}}
    pieces = [{"jsonPath": "$.city", "stringValue": text, "willContinue": True} for text in texts]
    parts = [{"functionCall": {"partialArgs": [each], "willContinue": True}} for each in pieces]
    return one_by_one([begin, *parts, {"functionCall": {}}])


def test_no_piece_of_streamed_arguments_is_searched_for_json(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Core would decode each piece as often as it has characters."""
    words = "the quick, brown {fox} jumps "
    few, many = _in_pieces([words] * 10), _in_pieces([words] * 500)
    long = _in_pieces([words * 50] * 10)
    assert _decodings(monkeypatch, many) == _decodings(monkeypatch, few)
    assert _decodings(monkeypatch, long) == _decodings(monkeypatch, few)
    assert stream(few).tool_calls[0]["args"] == {"city": words * 10}


def test_a_long_part_that_is_not_a_function_call_is_not_searched_for_json(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    short, long = ({"functionCall": {"id": "a", "args": ["x" * size]}} for size in (10, 10_000))
    found = [_decodings(monkeypatch, one_by_one([part])) for part in (short, long)]
    assert found[0] == found[1]
