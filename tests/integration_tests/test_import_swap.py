"""A user of `ChatGoogleGenerativeAI` changes the import: both classes, side by side.

It runs in `make test-clients`. Differences on purpose are in docs/migration.md.
"""

from __future__ import annotations

import json
import re
import warnings
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    messages_from_dict,
    messages_to_dict,
)
from langchain_core.tools import tool

import langchain_gemini_tools as ours
from langchain_gemini_tools.testing import FakeGemini, Reply

if TYPE_CHECKING:
    from collections.abc import Iterator

peer: Any = pytest.importorskip(
    "langchain_google_genai", reason="not installed; `make test-clients` installs it"
)

Json = dict[str, Any]

FLASH = "gemini-2.5-flash"
GEMINI_3 = "gemini-3-pro-preview"
IMAGE_MODEL = "gemini-2.5-flash-image"
PNG = "iVBORw0KGgo="
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FILES = "https://generativelanguage.googleapis.com/v1beta/files/abc"
YOUTUBE = "https://www.youtube.com/watch?v=x"


@tool
def get_weather(city: str) -> str:
    """Return the weather in a city."""
    return f"Sunny in {city}"


@pytest.fixture
def gemini() -> Iterator[FakeGemini]:
    with FakeGemini(respond=lambda _: "Hello.") as server, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield server


def normalized(value: Any) -> Any:
    """Return a body with one spelling of names, and without what Gemini assumes anyway."""
    if isinstance(value, list):
        return [normalized(each) for each in value]
    if not isinstance(value, dict):
        return value
    spelled = {re.sub(r"_([a-z])", lambda m: m[1].upper(), k): v for k, v in value.items()}
    if isinstance(level := spelled.get("thinkingLevel"), str):
        spelled["thinkingLevel"] = level.upper()
    assumed = {
        "candidateCount": 1,
        "safetySettings": [],
        "temperature": 0.7,
        "generationConfig": {},
    }
    kept = {key: normalized(each) for key, each in spelled.items()}
    return {key: each for key, each in kept.items() if key not in assumed or assumed[key] != each}


def both(gemini: FakeGemini, model: str, arguments: Json, sent: Any, options: Json) -> list[Any]:
    """Return the path and the body that each of the two classes sends."""
    requests = []
    for chat_class in (peer.ChatGoogleGenerativeAI, ours.ChatGemini):
        chat_class(model=model, **arguments).invoke(sent, **options)
        requests.append((gemini.requests[-1].path, normalized(gemini.requests[-1].body)))
    return requests


# Names


def test_every_name_of_the_package_is_here_except_the_other_classes() -> None:
    others = {"ChatGoogleGenerativeAI", "GoogleGenerativeAI", "GoogleGenerativeAIEmbeddings"}
    assert {name for name in peer.__all__ if not hasattr(ours, name)} == others


def test_every_public_attribute_of_a_model_is_here(gemini: FakeGemini) -> None:
    theirs, chat = peer.ChatGoogleGenerativeAI(model=FLASH), ours.ChatGemini(model=FLASH)
    public = {name for name in dir(theirs) if not name.startswith("_") and hasattr(theirs, name)}
    validators = {"build_extra", "validate_environment"}
    assert {name for name in public if not hasattr(chat, name)} == validators


# What is sent

ARGUMENTS: list[tuple[str, Json]] = [
    (FLASH, {}),
    (GEMINI_3, {}),
    ("models/gemini-2.5-flash", {}),
    (FLASH, {"temperature": 0.2, "top_p": 0.5, "top_k": 3, "seed": 4}),
    (FLASH, {"temperature": 0, "max_tokens": None, "timeout": None, "max_retries": 2}),
    (FLASH, {"max_tokens": 50}),
    (FLASH, {"max_output_tokens": 50}),
    (FLASH, {"stop": ["x"]}),
    (FLASH, {"stop_sequences": ["x"]}),
    (FLASH, {"candidate_count": 1, "retries": 1, "request_timeout": 30}),
    (FLASH, {"thinking_budget": 0}),
    (FLASH, {"thinking_budget": 512, "include_thoughts": True}),
    (FLASH, {"thinking_config": {"thinking_budget": 512}, "include_thoughts": False}),
    (GEMINI_3, {"thinking_level": "low"}),
    (GEMINI_3, {"reasoning_effort": "high"}),
    (FLASH, {"safety_settings": {"HARM_CATEGORY_HARASSMENT": "BLOCK_NONE"}}),
    (
        FLASH,
        {"safety_settings": {ours.HarmCategory.HARM_CATEGORY_HARASSMENT: "BLOCK_ONLY_HIGH"}},
    ),
    (FLASH, {"response_mime_type": "application/json"}),
    (FLASH, {"response_mime_type": "application/json", "response_schema": SCHEMA}),
    (IMAGE_MODEL, {"image_config": {"aspect_ratio": "16:9"}}),
    (IMAGE_MODEL, {"response_modalities": [ours.Modality.TEXT, ours.Modality.IMAGE]}),
    (IMAGE_MODEL, {"response_modalities": ["text", "image"]}),
    (FLASH, {"convert_system_message_to_human": True}),
    (FLASH, {"streaming": True}),
    (FLASH, {"api_version": "v1beta", "additional_headers": {"x-team": "a"}}),
    (FLASH, {"google_api_key": "key", "vertexai": False, "project": "p"}),
]


@pytest.mark.parametrize(("model", "arguments"), ARGUMENTS, ids=str)
def test_arguments(model: str, arguments: Json, gemini: FakeGemini) -> None:
    sent = [SystemMessage("Be short."), HumanMessage("Hello")]
    theirs, own = both(gemini, model, arguments, sent, {})
    assert own == theirs


OPTIONS: list[Json] = [
    {"stop": ["x"]},
    {"temperature": 0.1, "max_output_tokens": 50, "top_k": 2, "top_p": 0.3, "seed": 5},
    {"generation_config": {"top_k": 2, "top_p": 1, "temperature": 0.5}},
    {"generation_config": {"thinking_config": {"include_thoughts": True}}},
    {"thinking_budget": 512, "include_thoughts": True},
    {"media_resolution": ours.MediaResolution.MEDIA_RESOLUTION_LOW},
    {"response_mime_type": "application/json", "response_json_schema": SCHEMA},
    {"response_format": {"type": "json_object"}},
    {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}},
    {"safety_settings": {"HARM_CATEGORY_HARASSMENT": "BLOCK_NONE"}},
    {"http_options": {"headers": {"x-team": "a"}, "timeout": 20_000}},
    {"timeout": 20, "max_retries": 1},
    {"tools": [{"google_search": {}}]},
    {"tools": [{"code_execution": {}}]},
    {"tools": [{"url_context": {}}]},
    {
        "tools": [{"google_maps": {}}],
        "tool_config": {"retrieval_config": {"lat_lng": {"latitude": 1.5, "longitude": 2.5}}},
        "tool_choice": "required",
    },
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options_of_a_call(options: Json, gemini: FakeGemini) -> None:
    theirs, own = both(gemini, FLASH, {}, "Hello", options)
    assert own == theirs


BLOCKS: list[Json] = [
    {"type": "image_url", "image_url": f"data:image/png;base64,{PNG}"},
    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
    {"type": "image", "base64": PNG, "mime_type": "image/png"},
    {"type": "image", "source_type": "base64", "data": PNG, "mime_type": "image/png"},
    {"type": "file", "base64": "JVBERi0xLjQ=", "mime_type": "application/pdf"},
    {"type": "file", "file_id": FILES, "mime_type": "application/pdf"},
    {"type": "audio", "base64": "UklGRg==", "mime_type": "audio/wav"},
    {"type": "video", "url": YOUTUBE, "mime_type": "video/mp4"},
    {"type": "media", "data": "UklGRg==", "mime_type": "audio/mpeg"},
    {"type": "media", "data": b"RIFF", "mime_type": "audio/mpeg"},
    {"type": "media", "file_uri": YOUTUBE},
    {"type": "media", "file_uri": YOUTUBE, "video_metadata": {"start_offset": "1s"}},
    {"cachePoint": {"type": "default"}},
]


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_blocks_of_a_user_message(block: Json, gemini: FakeGemini) -> None:
    sent = [HumanMessage([{"type": "text", "text": "Look!"}, block])]
    theirs, own = both(gemini, GEMINI_3, {}, sent, {})
    assert own == theirs


def test_results_of_legacy_functions(gemini: FakeGemini) -> None:
    asked = AIMessage(
        "",
        tool_calls=[{"name": "get_weather", "args": {"city": "Oslo"}, "id": "a"}],
        additional_kwargs={"function_call": {"name": "get_weather", "arguments": "{}"}},
    )
    sent = [HumanMessage("Hello"), asked, FunctionMessage(name="get_weather", content="Sunny")]
    (_, theirs), (_, own) = both(gemini, FLASH, {}, sent, {})
    (part,) = own["contents"][-1]["parts"]
    assert part["functionResponse"].pop("id") == "a"
    assert own["contents"][-1] == theirs["contents"][-1]


# Conversations

TURNS = {
    "text": Reply("Hello."),
    "thoughts": Reply("Hello.", thoughts="Hm."),
    "calls": Reply("Wait.", thoughts="Hm.", calls=[("get_weather", {"city": "Oslo"})] * 2),
    "code": Reply("Done.", code=("print(6 * 7)", "42")),
}


@pytest.mark.parametrize(
    ("is_stream", "version"), [(False, "v1"), (True, "v0")], ids=["invoke-v1", "stream-v0"]
)
@pytest.mark.parametrize("model", [FLASH, "gemini-3.8-flash"])
@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("is_ours_first", [False, True], ids=["theirs", "ours"])
def test_a_conversation_of_one_class_is_continued_with_the_other(
    is_ours_first: bool, turn: str, model: str, is_stream: bool, version: str
) -> None:
    classes = [peer.ChatGoogleGenerativeAI, ours.ChatGemini]
    first, second = reversed(classes) if is_ours_first else classes
    tools: list[Any] = [{"code_execution": {}}] if turn == "code" else [get_weather]
    history: list[BaseMessage] = [HumanMessage("Hello")]
    with FakeGemini() as gemini, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gemini.script(TURNS[turn], Reply("Bye."))
        chat = first(model=model, output_version=version).bind_tools(tools)
        answer = _joined(chat.stream(history)) if is_stream else chat.invoke(history)
        results: list[BaseMessage] = [
            ToolMessage("Sunny", tool_call_id=call["id"]) for call in answer.tool_calls
        ]
        history = [*history, answer, *(results or [HumanMessage("And now?")])]
        stored = json.dumps(messages_to_dict(history))
        continued = second(model=model, output_version=version).bind_tools(tools)
        assert continued.invoke(messages_from_dict(json.loads(stored))).text == "Bye."
    assert gemini.refusals == []
    placeholders = ("skip_thought_signature_validator", "c2tpcF90aG91Z2h0")
    assert not any(each in str(gemini.requests[-1].body) for each in placeholders)


def _joined(chunks: Iterator[AIMessageChunk]) -> AIMessage:
    joined = next(chunks)
    for chunk in chunks:
        joined += chunk
    return joined
