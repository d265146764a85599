from __future__ import annotations

import contextlib
from typing import Any

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.errors import GeminiToolsError, InvalidInputError
from langchain_gemini_tools.facts import blocks as block_types
from tests.unit_tests.wire.requests import (
    GEMINI_2,
    GEMINI_3,
    Json,
    calling,
    contents,
    model,
    repairs,
    response,
    result,
    tool_call,
    user,
)

LOW = "MEDIA_RESOLUTION_LOW"
PNG = "iVBORw0KGgo="
WAV = "UklGRiQAAABXQVZF"


def inline(mime_type: str, data: str, **fields: Any) -> Json:
    return {"inlineData": {"mimeType": mime_type, "data": data}, **fields}


def linked(uri: str, mime_type: str | None = None, **fields: Any) -> Json:
    return {
        "fileData": {"fileUri": uri, **({"mimeType": mime_type} if mime_type else {})},
        **fields,
    }


@pytest.mark.parametrize(
    ("block", "part"),
    [
        # LangChain v1
        pytest.param(
            {"type": "image", "base64": PNG, "mime_type": "image/png"},
            inline("image/png", PNG),
            id="v1 image",
        ),
        pytest.param(
            {"type": "image", "url": "https://example.com/a.JPG?x=1#y"},
            linked("https://example.com/a.JPG?x=1#y", "image/jpeg"),
            id="v1 image by URL",
        ),
        pytest.param(
            {"type": "file", "url": "https://example.com/report"},
            linked("https://example.com/report"),
            id="v1 file without a type",
        ),
        pytest.param(
            {"type": "video", "file_id": "https://files/abc", "mime_type": "video/mp4"},
            linked("https://files/abc", "video/mp4"),
            id="v1 video by id",
        ),
        pytest.param(
            {"type": "audio", "base64": b"\x00\x01", "mime_type": "audio/wav"},
            inline("audio/wav", "AAE="),
            id="v1 audio as bytes",
        ),
        pytest.param({"type": "text-plain", "text": "page"}, {"text": "page"}, id="v1 plain text"),
        pytest.param(
            {"type": "video", "url": "https://www.youtube.com/watch?v=x"},
            linked("https://www.youtube.com/watch?v=x"),
            id="v1 video of YouTube",
        ),
        pytest.param(
            {"type": "image", "url": "http://93.184.215.14/a.png"},
            linked("http://93.184.215.14/a.png", "image/png"),
            id="v1 image at a public address",
        ),
        # LangChain v0
        pytest.param(
            {"type": "image", "source_type": "base64", "data": PNG, "mime_type": "image/png"},
            inline("image/png", PNG),
            id="v0 image",
        ),
        pytest.param(
            {"type": "file", "source_type": "text", "text": "page"}, {"text": "page"}, id="v0 text"
        ),
        # OpenAI
        pytest.param(
            {
                "type": "image_url",
                "image_url": {"url": f"data:image/png;base64,{PNG}", "detail": "low"},
            },
            inline("image/png", PNG),
            id="openai image",
        ),
        pytest.param(
            {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
            inline("image/png", PNG),
            id="openai responses image",
        ),
        pytest.param(
            {"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}},
            inline("audio/wav", WAV),
            id="openai audio",
        ),
        pytest.param(
            {"type": "input_audio", "input_audio": {"data": WAV}},
            inline("audio/wav", WAV),
            id="openai audio without its format",
        ),
        pytest.param(
            {
                "type": "file",
                "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"},
            },
            inline("application/pdf", "AAAA"),
            id="openai file",
        ),
        pytest.param(
            {"type": "input_file", "file_url": "https://example.com/a.pdf"},
            linked("https://example.com/a.pdf", "application/pdf"),
            id="openai responses file",
        ),
        # Anthropic
        pytest.param(
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": PNG},
                "cache_control": {"type": "ephemeral"},
            },
            inline("image/png", PNG),
            id="anthropic image",
        ),
        pytest.param(
            {"type": "document", "source": {"type": "url", "url": "https://example.com/a"}},
            linked("https://example.com/a", "application/pdf"),
            id="anthropic document by URL",
        ),
        pytest.param(
            {"type": "document", "source": {"type": "text", "data": "page"}},
            {"text": "page"},
            id="anthropic text",
        ),
        # langchain-google-genai
        pytest.param(
            {
                "type": "media",
                "mime_type": "video/mp4",
                "file_uri": "gs://b/v",
                "video_metadata": {"fps": 1},
            },
            linked("gs://b/v", "video/mp4", videoMetadata={"fps": 1}),
            id="google video",
        ),
        pytest.param(
            {
                "type": "video",
                "url": "gs://b/v.mp4",
                "video_metadata": {"start_offset": 1.5, "end_offset": {"seconds": 5}},
            },
            linked(
                "gs://b/v.mp4",
                "video/mp4",
                videoMetadata={"startOffset": "1.5s", "endOffset": "5s"},
            ),
            id="google video with offsets",
        ),
        pytest.param(
            {
                "type": "video",
                "url": "gs://b/v.mp4",
                "video_metadata": types.VideoMetadata(start_offset="1s", end_offset="5s"),
            },
            linked(
                "gs://b/v.mp4",
                "video/mp4",
                videoMetadata={"startOffset": "1s", "endOffset": "5s"},
            ),
            id="google video with the SDK's offsets",
        ),
        pytest.param(
            {"type": "video", "url": "gs://b/v.mp4", "media_processing": "agentic"},
            linked("gs://b/v.mp4", "video/mp4", mediaProcessing="AGENTIC"),
            id="google video with its processing",
        ),
        pytest.param(
            {"type": "media", "mime_type": "audio/wav", "data": b"\x00\x01"},
            inline("audio/wav", "AAE="),
            id="google bytes",
        ),
        pytest.param(
            {
                "type": "image",
                "base64": PNG,
                "extras": {"media_resolution": "MEDIA_RESOLUTION_HIGH"},
            },
            inline("image/png", PNG, mediaResolution={"level": "MEDIA_RESOLUTION_HIGH"}),
            id="with a resolution",
        ),
        # "Unsupported MIME type: image/jpg"
        *(
            pytest.param(block, inline("image/jpeg", "/9j/4AAQ"), id=f"image/jpg {number}")
            for number, block in enumerate(
                (
                    {"type": "image", "base64": "/9j/4AAQ", "mime_type": "image/jpg"},
                    {"type": "image_url", "image_url": "data:image/JPG;base64,/9j/4AAQ"},
                    {"inlineData": {"mimeType": "image/jpg", "data": "/9j/4AAQ"}},
                )
            )
        ),
        pytest.param(
            {"type": "image", "url": "gs://b/i.jpg", "mime_type": "image/jpg"},
            linked("gs://b/i.jpg", "image/jpeg"),
            id="image/jpg by URL",
        ),
        *(
            pytest.param(
                {"type": "image", "base64": PNG, "media_resolution": resolution},
                inline("image/png", PNG, mediaResolution={"level": LOW}),
                id=f"with the resolution {resolution}",
            )
            for resolution in ("low", {"level": "low"}, types.MediaResolution(LOW))
        ),
        # The API's own
        pytest.param(
            {"inline_data": {"mime_type": "image/png", "data": b"\x00\x01"}},
            inline("image/png", "AAE="),
            id="a part with bytes",
        ),
        pytest.param(
            {"fileData": {"fileUri": "gs://b/v", "mimeType": "video/mp4"}},
            linked("gs://b/v", "video/mp4"),
            id="a part",
        ),
        pytest.param(
            {"file_data": {"file_uri": "files/abc", "mime_type": "video/mp4"}},
            linked("files/abc", "video/mp4"),
            id="a part with a name of the Files API",
        ),
        pytest.param(
            {
                "fileData": {"fileUri": "https://youtu.be/a"},
                "videoMetadata": {"startOffset": "1s"},
                "mediaResolution": {"level": "MEDIA_RESOLUTION_LOW"},
            },
            linked(
                "https://youtu.be/a",
                videoMetadata={"startOffset": "1s"},
                mediaResolution={"level": "MEDIA_RESOLUTION_LOW"},
            ),
            id="a part with its options",
        ),
        pytest.param(
            {"inlineData": {"data": PNG, "mimeType": None}},
            inline("image/png", PNG),
            id="a part without a type",
        ),
    ],
)
def test_media_of_every_dialect_become_parts(block: Json, part: Json) -> None:
    assert contents([HumanMessage([block])]) == [user(part)]


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        ({"inlineData": {}}, "has no 'data'"),
        ({"inline_data": {"mime_type": "image/png", "data": b""}}, "has no 'data'"),
        ({"inlineData": {"mimeType": "image/png", "data": 5}}, "has no 'data'"),
        ({"fileData": {}}, "has no 'fileUri'"),
        ({"fileData": {"fileUri": "http://localhost/a.png"}}, "localhost is not public"),
        ({"inlineData": {"data": PNG, "display_name": "a"}}, "the field 'displayName'.*unchanged"),
        ({"inlineData": {"data": "AAAA"}}, "has no MIME type"),
    ],
)
def test_a_part_that_the_api_would_reject_is_rejected(block: Json, reason: str) -> None:
    with pytest.raises(InvalidInputError, match=reason):
        contents([HumanMessage([block])])


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({"start_offset": "-1s", "end_offset": "5s"}, "start_offset must be non-negative"),
        ({"start_offset": "0s", "end_offset": -1}, "end_offset must be non-negative"),
        ({"start_offset": "10s", "end_offset": "5s"}, "must not exceed"),
        ({"startOffset": 5.5, "endOffset": "1.5s"}, "must not exceed"),
        ({"start_offset": {"seconds": 30}, "end_offset": {"seconds": 5}}, "must not exceed"),
        (types.VideoMetadata(start_offset="30s", end_offset="5s"), "must not exceed"),
        ("10s", "must be a mapping"),
    ],
)
def test_offsets_that_no_video_has_are_rejected(metadata: Any, reason: str) -> None:
    block = {"type": "video", "url": "gs://b/v.mp4", "video_metadata": metadata}
    with pytest.raises(InvalidInputError, match=reason):
        contents([HumanMessage([block])])


@pytest.mark.parametrize("offset", [True, "abcs", {"seconds": None}, float("inf")])
def test_an_offset_that_is_not_a_duration_is_left_to_the_api(offset: Any) -> None:
    block = {"type": "video", "url": "gs://b/v.mp4", "video_metadata": {"start_offset": offset}}
    body = ChatGemini(model=GEMINI_3).preview([HumanMessage([block])]).body
    assert "startOffset" in body["contents"][0]["parts"][0]["videoMetadata"]


def test_a_resolution_of_one_file_is_left_out_and_reported_where_the_model_has_none() -> None:
    block = {"type": "image", "base64": PNG, "media_resolution": types.MediaResolution(LOW)}
    messages = [HumanMessage([block])]
    sharp = inline("image/png", PNG, mediaResolution={"level": LOW})
    assert contents(messages, GEMINI_3) == [user(sharp)]
    assert repairs(messages, GEMINI_3) == []
    assert contents(messages, GEMINI_2) == [user(inline("image/png", PNG))]
    assert repairs(messages, GEMINI_2) == [("media_resolution", 0)]
    drawn: list[BaseMessage] = [HumanMessage("Draw."), AIMessage([block]), HumanMessage("Thanks.")]
    assert contents(drawn, GEMINI_2)[1] == model(inline("image/png", PNG))
    shown = [HumanMessage("Look!"), calling(tool_call("a")), result("a", [block])]
    files = "Files returned by search (call a):"
    assert contents(shown, GEMINI_2)[3] == user(files, inline("image/png", PNG))
    assert repairs(shown, GEMINI_2) == [("media_resolution", 2)]


def test_a_file_of_a_result_that_has_options_is_a_part_of_its_own() -> None:
    block = {"type": "image", "base64": PNG, "media_resolution": types.MediaResolution(LOW)}
    messages = [HumanMessage("Look!"), calling(tool_call("a")), result("a", [block])]
    sharp = inline("image/png", PNG, mediaResolution={"level": LOW})
    assert contents(messages, GEMINI_3)[2:] == [
        user(response("a", "1 file(s), see below.")),
        user("Files returned by search (call a):", sharp),
    ]


@pytest.mark.parametrize(
    ("data", "mime_type"),
    [
        pytest.param(PNG, "image/png", id="png"),
        pytest.param("/9j/4AAQ", "image/jpeg", id="jpeg"),
        pytest.param("_9j_4AAQ", "image/jpeg", id="jpeg, url-safe"),
        pytest.param("R0lGODlh", "image/gif", id="gif"),
        pytest.param("UklGRiQAAABXRUJQ", "image/webp", id="webp"),
        pytest.param(WAV, "audio/wav", id="wav"),
        pytest.param("JVBERi0x", "application/pdf", id="pdf"),
        pytest.param("AAAAHGZ0eXBpc29t", "video/mp4", id="mp4"),
    ],
)
def test_a_missing_type_is_detected_from_the_bytes(data: str, mime_type: str) -> None:
    assert contents([HumanMessage([{"type": "file", "base64": data}])]) == [
        user(inline(mime_type, data))
    ]


@pytest.mark.parametrize(
    ("head", "mime_type"),
    [
        (b"\0\0\0\x20ftypM4A \0\0", "audio/m4a"),
        (b"\0\0\0\x20ftypheic\0\0", "image/heic"),
        (b"\0\0\0\x20ftypavif\0\0", "image/avif"),
        (b"\0\0\0\x20ftypqt  \0\0", "video/mov"),
        (b"\0\0\0\x20ftypisom\0\0", "video/mp4"),
        (b"\xff\xfb\x90\x64" + b"\0" * 12, "audio/mp3"),
        (b"\xff\xf1\x50\x80" + b"\0" * 12, "audio/aac"),
    ],
)
def test_similar_file_types_are_distinguished(head: bytes, mime_type: str) -> None:
    [turn] = contents([HumanMessage([{"type": "file", "base64": head}])])
    assert turn["parts"][0]["inlineData"]["mimeType"] == mime_type


LINES = f"{PNG[:8]}\n{PNG[8:]}\r\n"


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image_url", "image_url": {"url": f"data:image/png;charset=utf-8;base64,{PNG}"}},
        {"type": "image_url", "image_url": f"data:image/png;name=a.png;base64,{PNG}"},
        {"type": "image_url", "image_url": f" DATA:image/PNG;BASE64,{PNG}"},
        {"type": "image_url", "image_url": f"data:image/png;base64,{PNG.replace('=', '%3D')}"},
        {"type": "image_url", "image_url": f"data:image/png;base64,{LINES}"},
        {"type": "image", "base64": f"data:image/png;base64,{PNG}", "mime_type": "image/png"},
        {"type": "image", "base64": LINES, "mime_type": "IMAGE/PNG"},
        {"type": "image", "base64": PNG, "mime_type": "image/png; charset=binary"},
        {
            "type": "image",
            "source": {
                "type": "base64",
                "media_type": "image/png",
                "data": f"data:image/png;base64,{PNG}",
            },
        },
        {"type": "file", "file": {"file_data": PNG, "filename": "a.png"}},
        {"type": "input_file", "file_data": PNG, "filename": "a.png"},
    ],
)
def test_an_image_is_accepted_in_every_notation(block: Json) -> None:
    assert contents([HumanMessage([block])]) == [user(inline("image/png", PNG))]


def test_audio_keeps_the_parameters_of_its_type() -> None:
    block = {"type": "audio", "base64": "AAAA", "mime_type": "audio/L16;rate=24000"}
    assert contents([HumanMessage([block])]) == [user(inline("audio/l16;rate=24000", "AAAA"))]


@pytest.mark.parametrize(
    ("block", "words"),
    [
        pytest.param({"type": "image"}, "neither data nor a location", id="empty"),
        pytest.param(
            {"type": "image", "base64": "data:image/png;base64," * 2000 + PNG},
            "data URI",
            id="a URI in a URI",
        ),
        pytest.param(
            {"type": "image", "url": 5}, "neither data nor a location", id="a number as URL"
        ),
        pytest.param({"type": "image", "base64": ""}, "neither data nor a location", id="no data"),
        pytest.param(
            {"type": "image", "base64": 5}, "neither data nor a location", id="a number as data"
        ),
        pytest.param(
            {"type": "file", "file": {"file_id": "f"}}, "neither data", id="openai's file id"
        ),
        pytest.param({"type": "file", "file_id": "file-8Zq"}, "another vendor", id="openai's id"),
        pytest.param({"type": "image", "file_id": "file_01A"}, "another vendor", id="anthropic's"),
        pytest.param(
            {"type": "document", "source": {"type": "file", "file_id": "file_01A"}},
            "'file_01A', a file of another vendor",
            id="anthropic's own block",
        ),
        pytest.param(
            {"type": "input_file", "file_id": "file-8Zq"},
            "'file-8Zq', a file of another vendor",
            id="openai's own block",
        ),
        pytest.param(
            {"type": "image_url", "image_url": "data:image/png;base64,"}, "data URI", id="empty URI"
        ),
        pytest.param({"type": "image_url", "image_url": "data:,hello"}, "data URI", id="plain URI"),
        pytest.param({"type": "file", "base64": "AAAA"}, "no MIME type", id="no type"),
    ],
)
def test_media_that_cannot_be_sent_are_rejected_with_their_type(block: Json, words: str) -> None:
    with pytest.raises(InvalidInputError, match=f"(?s){block['type']}.*{words}"):
        contents([HumanMessage([block])])


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://localhost:8000/a.png", "localhost is not public"),
        ("https://127.0.0.1/a.png", "127.0.0.1 is not public"),
        ("https://[::1]/a.png", "::1 is not public"),
        ("http://169.254.169.254/latest", "169.254.169.254 is not public"),
        ("https://10.1.2.3/a.png", "10.1.2.3 is not public"),
        ("https://intranet/a.png", "intranet is not public"),
        ("https://nas.local./a.png", "nas.local. is not public"),
        ("http:///a.png", "a URL without a host is not public"),
    ],
)
def test_a_url_that_the_api_cannot_reach_is_rejected_with_advice(url: str, reason: str) -> None:
    with pytest.raises(InvalidInputError) as raised:
        contents([HumanMessage([{"type": "image", "url": f"{url}?signature=s"}])])
    assert str(raised.value) == (
        f"A block of type 'image' refers to {url!r}, which the API cannot fetch: {reason}. "
        "Send its bytes as base64, or let ChatGemini fetch it: "
        "fetch_urls=FetchLimits(allow_hosts=[...])."
    )


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("photo.png", "it is not a URL"),
        ("http://[::1/a.png", "it is not a URL"),
        (PNG, "it is not a URL"),
        ("file:///etc/passwd", "it does not support file: URLs"),
        ("s3://bucket/a.png", "it does not support s3: URLs"),
    ],
)
def test_a_url_that_is_not_a_web_address_is_rejected(url: str, reason: str) -> None:
    with pytest.raises(InvalidInputError, match=f"{reason}. Send its bytes as base64.$"):
        contents([HumanMessage([{"type": "image_url", "image_url": {"url": url}}])])


KEYS = st.sampled_from(
    [
        *(
            "url",
            "base64",
            "data",
            "mime_type",
            "source",
            "source_type",
            "file",
            "file_id",
            "extras",
        ),
        *("image_url", "input_audio", "file_uri", "file_data", "text", "filename", "media_type"),
    ]
)
VALUES = st.recursive(
    st.none() | st.integers(0, 1) | st.sampled_from(["", "x", "url", "data:x", PNG]),
    lambda inner: st.dictionaries(KEYS, inner, max_size=3) | st.lists(inner, max_size=2),
    max_leaves=5,
)


@given(st.sampled_from(block_types.MEDIA), st.dictionaries(KEYS, VALUES, max_size=4))
def test_any_block_becomes_a_part_or_is_rejected(kind: str, fields: Json) -> None:
    with contextlib.suppress(GeminiToolsError):
        ChatGemini(model=GEMINI_3).preview([HumanMessage([{"type": kind, **fields}])])
