from __future__ import annotations

import base64
import io
import wave
from typing import Any

import pytest

from langchain_gemini_tools.errors import UnreadableResponseError
from langchain_gemini_tools.wire.parts import PcmFormat, parse_pcm_format
from langchain_gemini_tools.wire.response import ResponseContext, StreamParser, parse_response
from tests.unit_tests.wire.responses import (
    ANSWER,
    Json,
    call,
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


@pytest.mark.parametrize("before", [[], [{"text": "a", **call("a")}]], ids=["alone", "after both"])
def test_a_part_that_is_not_an_object_is_unreadable(before: list[Json]) -> None:
    with pytest.raises(UnreadableResponseError, match="not an object"):
        parse(reply([*before, "text"]))


_UNSET = dict.fromkeys(
    ["thought", "thoughtSignature", "inlineData", "functionCall", "executableCode", "videoMetadata"]
)
"""What a proxy adds that writes all fields of a type."""


def test_a_field_that_is_null_is_not_there() -> None:
    code = {"executableCode": {"code": "1 + 1", "language": "PYTHON"}}
    image = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0="}}
    parts = [text("It is "), text("sunny."), code, image, text("hm", thought=True), call("a", x=1)]
    written = [{"text": None, **_UNSET, **part} for part in parts]
    expected = parse(reply(parts))
    assert seen(parse(reply(written))) == seen(expected)
    assert seen(stream(one_by_one(written))) == seen(stream(one_by_one(parts)))
    assert parse(reply([text("Sunny", **_UNSET), {"text": None}])).content == "Sunny"


def test_an_empty_signature_is_none() -> None:
    thoughts = [text(said, thought=True) for said in ("Let ", "me ", "see.")]
    parts = [*thoughts, text("It is sunny."), call("a")]
    unsigned = [{**part, "thoughtSignature": ""} for part in parts]
    assert seen(parse(reply(unsigned))) == seen(parse(reply(parts)))
    assert seen(stream(one_by_one(unsigned))) == seen(stream(one_by_one(parts)))


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


# Audio

SAMPLES = bytes(range(250))
SPEECH = ResponseContext(model="gemini-2.5-flash-preview-tts")


def samples(*pieces: bytes | str, mime: str = "audio/L16;rate=16000", **candidate: Any) -> Any:
    parts = [
        each if isinstance(each, str) else base64.b64encode(each).decode("ascii") for each in pieces
    ]
    blobs = [{"inlineData": {"mimeType": mime, "data": data}} for data in parts]
    return {"candidates": [{"content": {"role": "model", "parts": blobs}, **candidate}]}


def read_wav(block: dict[str, Any]) -> tuple[int, int, int, bytes]:
    with wave.open(io.BytesIO(base64.b64decode(block["base64"]))) as reader:
        form = reader.getframerate(), reader.getnchannels(), reader.getsampwidth()
        return *form, reader.readframes(reader.getnframes())


@pytest.mark.parametrize(
    ("mime", "expected"),
    [
        ("audio/L16;codec=pcm;rate=24000", PcmFormat(24_000)),
        ("audio/l16; Rate=16000 ; channels=2", PcmFormat(16_000, 2)),
        ("audio/pcm;rate=48000", PcmFormat(48_000)),
        ("audio/L16", PcmFormat(24_000)),
        ("audio/L16;rate=fast;channels=0", PcmFormat(24_000)),
        ("audio/wav", None),
        ("image/png", None),
    ],
)
def test_the_type_says_how_samples_are_read(mime: str, expected: PcmFormat | None) -> None:
    assert parse_pcm_format(mime) == expected


def test_samples_become_a_wav_file() -> None:
    (generation,) = parse_response(samples(SAMPLES, finishReason="STOP"), SPEECH).generations
    (block,) = generation.message.content_blocks
    assert (block["type"], block["mime_type"]) == ("audio", "audio/wav")  # type: ignore[typeddict-item]
    assert read_wav({**block}) == (16_000, 1, 2, SAMPLES)


def test_pieces_of_a_response_become_one_file() -> None:
    whole = samples(SAMPLES[:100], SAMPLES[100:], finishReason="STOP")
    (generation,) = parse_response(whole, SPEECH).generations
    assert [read_wav(block)[3] for block in generation.message.content_blocks] == [SAMPLES]  # type: ignore[arg-type]


def test_a_change_of_the_format_begins_another_file() -> None:
    parser = StreamParser(SPEECH)
    parser.feed(samples(SAMPLES))
    parser.feed(samples(SAMPLES, mime="audio/L16;rate=48000", finishReason="STOP"))
    files = [block for chunk in parser.finish() for block in chunk.message.content_blocks]
    assert [read_wav({**block})[0] for block in files] == [16_000, 48_000]


def test_samples_may_be_in_the_alphabet_of_urls() -> None:
    """The SDK's types are written like this."""
    message = parse(samples("-_v7__8A", finishReason="STOP"))
    assert read_wav(message.content[0])[3] == base64.b64decode("+/v7//8A")  # type: ignore[arg-type]


def test_audio_that_is_not_base64_is_unreadable() -> None:
    with pytest.raises(UnreadableResponseError, match="not base64"):
        parse_response(samples("a", finishReason="STOP"), SPEECH)


def test_audio_of_a_stream_that_was_cut_is_in_the_error() -> None:
    parser = StreamParser(SPEECH)
    parser.feed(samples(SAMPLES))
    with pytest.raises(Exception, match="ended") as caught:
        parser.finish()
    (block,) = caught.value.partial.content_blocks  # type: ignore[attr-defined]
    assert read_wav(block)[3] == SAMPLES
