from __future__ import annotations

import base64
import io
import wave
from typing import Any

import pytest

from langchain_gemini_tools.errors import UnreadableResponseError
from langchain_gemini_tools.wire.audio import PcmFormat, parse_pcm_format
from langchain_gemini_tools.wire.response import ResponseContext, StreamParser, parse_response

SAMPLES = bytes(range(250))
CONTEXT = ResponseContext(model="gemini-2.5-flash-preview-tts")


def event(*pieces: bytes | str, mime: str = "audio/L16;rate=16000", **candidate: Any) -> Any:
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
    (generation,) = parse_response(event(SAMPLES, finishReason="STOP"), CONTEXT).generations
    (block,) = generation.message.content_blocks
    assert (block["type"], block["mime_type"]) == ("audio", "audio/wav")  # type: ignore[typeddict-item]
    assert read_wav({**block}) == (16_000, 1, 2, SAMPLES)


def test_pieces_of_a_response_become_one_file() -> None:
    whole = event(SAMPLES[:100], SAMPLES[100:], finishReason="STOP")
    (generation,) = parse_response(whole, CONTEXT).generations
    assert [read_wav(block)[3] for block in generation.message.content_blocks] == [SAMPLES]  # type: ignore[arg-type]


def test_a_change_of_the_format_begins_another_file() -> None:
    parser = StreamParser(CONTEXT)
    parser.feed(event(SAMPLES))
    parser.feed(event(SAMPLES, mime="audio/L16;rate=48000", finishReason="STOP"))
    files = [block for chunk in parser.finish() for block in chunk.message.content_blocks]
    assert [read_wav({**block})[0] for block in files] == [16_000, 48_000]


def test_audio_that_is_not_base64_is_unreadable() -> None:
    with pytest.raises(UnreadableResponseError, match="not base64"):
        parse_response(event("a", finishReason="STOP"), CONTEXT)


def test_audio_of_a_stream_that_was_cut_is_in_the_error() -> None:
    parser = StreamParser(CONTEXT)
    parser.feed(event(SAMPLES))
    with pytest.raises(Exception, match="ended") as caught:
        parser.finish()
    (block,) = caught.value.partial.content_blocks  # type: ignore[attr-defined]
    assert read_wav(block)[3] == SAMPLES
