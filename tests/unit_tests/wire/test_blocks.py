from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.errors import (
    GeminiToolsError,
    InvalidInputError,
    UnsupportedBlockError,
)
from tests.unit_tests.wire.requests import GEMINI_3, Json, contents, model, user
from tests.unit_tests.wire.responses import parse, reply

ASK = HumanMessage("Look!")


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        pytest.param("Look!", [{"text": "Look!"}], id="text"),
        pytest.param(
            ["a", {"type": "text", "text": "b"}], [{"text": "a"}, {"text": "b"}], id="mixed"
        ),
        pytest.param(["", {"type": "text", "text": ""}, "a"], [{"text": "a"}], id="empty pieces"),
        pytest.param([{"type": "input_text", "text": "a"}], [{"text": "a"}], id="openai"),
        pytest.param(
            [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}],
            [{"text": "a"}],
            id="anthropic",
        ),
        pytest.param([{"text": "a"}], [{"text": "a"}], id="a part"),
        pytest.param(
            [{"text": "a"}, {"cachePoint": {"type": "default"}}], [{"text": "a"}], id="amazon"
        ),
        pytest.param([{"type": "text", "text": 5}], [{"text": "5"}], id="a number"),
        pytest.param(
            [{"type": "non_standard", "value": {"type": "text", "text": "a"}}],
            [{"text": "a"}],
            id="wrapped",
        ),
    ],
)
def test_a_users_blocks_become_parts(content: Any, parts: list[Json]) -> None:
    assert contents([HumanMessage(content)]) == [user(*parts)]


def test_a_users_name_is_not_sent() -> None:
    assert contents([HumanMessage("Look!", name="ann")]) == [user("Look!")]


def test_steps_of_media_processing_are_not_sent_back() -> None:
    steps = [{"toolCall": {"id": "a"}}, {"toolResponse": {"id": "a"}}, {"text": "A cat."}]
    ours = parse(reply(steps))
    stored: list[Any] = [
        {"type": "server_tool_call", "name": "media_processing", "id": "a", "args": {}},
        {
            "type": "server_tool_result",
            "tool_call_id": "a",
            "status": "success",
            "output": {},
            "extras": {"block_type": "media_processing"},
        },
        {"type": "text", "text": "A cat."},
    ]
    theirs = AIMessage(stored, response_metadata={"model_provider": "google_genai"})
    for message in (ours, theirs):
        assert contents([ASK, message, ASK])[1] == model("A cat.")


def test_a_stored_result_of_code_without_an_outcome_is_completed() -> None:
    block = {"type": "code_execution_result", "code_execution_result": "4"}
    result = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "4"}}
    assert contents([ASK, AIMessage([block]), ASK]) == [user("Look!"), model(result), user("Look!")]


@pytest.mark.parametrize(
    "block",
    [
        pytest.param({"type": "hologram"}, id="hologram"),
        pytest.param({"type": ["image"]}, id="['image']"),
        pytest.param({"type": "gemini_part"}, id="gemini_part"),
        pytest.param({"type": "gemini_part", "part": 5}, id="gemini_part of a number"),
        pytest.param({"type": "tool_call", "id": "a", "name": "f", "args": {}}, id="tool_call"),
        pytest.param({"a": 1}, id="None"),
    ],
)
def test_a_block_without_a_part_is_rejected_with_its_type(block: Json) -> None:
    with pytest.raises(UnsupportedBlockError) as error:
        contents([HumanMessage(["Look!", block])])
    assert f"no part for a {str(block.get('type'))!r} block in a human message" in str(error.value)


def as_json_text(block: Json) -> Json:
    return {"text": json.dumps(block)}


SEARCHED = {"type": "web_search_call", "id": "ws_1", "action": {"query": "x"}}
FETCHED = {"type": "web_fetch_tool_result", "tool_use_id": "a", "content": {}}
CODED = {"type": "bash_code_execution_tool_result", "tool_use_id": "a", "content": {}}


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        pytest.param([{"type": "output_text", "text": "a"}], ["a"], id="openai text"),
        pytest.param([{"type": "refusal", "refusal": "No."}], ["No."], id="openai refusal"),
        pytest.param(
            ["a", {"type": "refusal", "refusal": "Why", "extras": {"finish_reason": "SAFETY"}}],
            ["a"],
            id="core's refusal",
        ),
        pytest.param(
            [
                {
                    "type": "reasoning",
                    "id": "rs_1",
                    "summary": [{"type": "summary_text", "text": "hm"}],
                    "encrypted_content": "x",
                },
                "So.",
            ],
            [{"text": "hm", "thought": True}, "So."],
            id="openai reasoning",
        ),
        pytest.param([{"type": "reasoning", "summary": []}, "So."], ["So."], id="no reasoning"),
        pytest.param(
            [{"type": "thinking", "thinking": "hm", "signature": "x"}, "So."],
            [{"text": "hm", "thought": True}, "So."],
            id="anthropic thinking",
        ),
        pytest.param([SEARCHED, "So."], [as_json_text(SEARCHED), "So."], id="openai search"),
        pytest.param([FETCHED, "So."], [as_json_text(FETCHED), "So."], id="anthropic fetch"),
        pytest.param([CODED, "So."], [as_json_text(CODED), "So."], id="anthropic code"),
        pytest.param(
            [{"type": "reasoning_content", "reasoning_content": {"text": "hm", "signature": "x"}}],
            [{"text": "hm", "thought": True}],
            id="amazon reasoning",
        ),
        pytest.param(
            [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, "So."],
            [{"text": "hm", "thought": True}, "So."],
            id="mistral thinking",
        ),
        pytest.param([{"type": "thinking", "signature": "x"}, "So."], ["So."], id="a bare thought"),
        pytest.param(
            [{"type": "reasoning_content", "reasoning_content": {"redacted": "x"}}, "So."],
            ["So."],
            id="amazon, sealed",
        ),
        pytest.param(
            [{"type": "image_generation_call", "id": "i", "result": "AAAA", "status": "completed"}],
            [{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}],
            id="openai image",
        ),
        pytest.param(
            [{"type": "image_generation_call", "id": "i", "status": "failed"}],
            [as_json_text({"type": "image_generation_call", "id": "i", "status": "failed"})],
            id="openai image that failed",
        ),
        pytest.param(
            [{"type": "compaction", "content": "We said hello."}, "So."],
            [as_json_text({"type": "compaction", "content": "We said hello."}), "So."],
            id="a block that nobody knows",
        ),
        pytest.param(
            [{"type": "audio", "id": "audio_1", "transcript": "Hello."}],
            [as_json_text({"type": "audio", "id": "audio_1", "transcript": "Hello."})],
            id="sound that another vendor keeps",
        ),
        pytest.param(
            [{"type": "image", "base64": "AAAA" * 1000}],
            [as_json_text({"type": "image", "base64": "(4000 characters)"})],
            id="a picture whose type nobody knows",
        ),
        pytest.param(
            [{"type": "non_standard", "value": {"seen": 1}}],
            [as_json_text({"seen": 1})],
            id="wrapped",
        ),
        pytest.param(
            [
                {
                    "type": "web_search_tool_result",
                    "content": [{"url": "https://a.b", "encrypted_content": "x" * 9}],
                }
            ],
            [as_json_text({"type": "web_search_tool_result", "content": [{"url": "https://a.b"}]})],
            id="what is sealed",
        ),
    ],
)
def test_another_vendors_answer_can_be_read(content: list[Any], parts: list[Any]) -> None:
    assert contents([ASK, AIMessage(content), ASK]) == [
        user("Look!"),
        model(*parts),
        user("Look!"),
    ]


def test_an_unknown_block_that_contains_itself_is_rejected() -> None:
    block: Json = {"type": "hologram"}
    block["again"] = [block]
    message = AIMessage("")
    message.content = [block]
    with pytest.raises(InvalidInputError, match="contains itself"):
        contents([ASK, message, ASK])


KINDS = st.sampled_from(
    [
        *("text", "thinking", "reasoning", "executable_code", "code_execution_result", "tool_use"),
        *("server_tool_call", "server_tool_result", "non_standard", "gemini_part", "function_call"),
        *("tool_call", "invalid_tool_call", "refusal", "tool_result", "web_search_call"),
    ]
)
KEYS = st.sampled_from(
    [
        *(
            "type",
            "text",
            "thinking",
            "reasoning",
            "summary",
            "extras",
            "signature",
            "part",
            "value",
        ),
        *("name", "args", "id", "call_id", "input", "arguments", "output", "outcome", "content"),
        *("code_execution_result", "executable_code", "tool_use_id", "gemini_part_fields"),
    ]
)
VALUES = st.recursive(
    st.none() | st.integers(0, 2) | st.sampled_from(["", "x", "{", "code_interpreter"]) | KINDS,
    lambda inner: st.dictionaries(KEYS, inner, max_size=3) | st.lists(inner, max_size=2),
    max_leaves=5,
)
BLOCKS = st.builds(
    lambda kind, fields: {"type": kind, **fields}, KINDS, st.dictionaries(KEYS, VALUES, max_size=4)
)


@given(st.lists(BLOCKS, max_size=3), st.sampled_from(["google_genai", "openai"]))
@example([{"type": "reasoning", "summary": 1, "extras": 1}], "google_genai")
@example([{"type": "server_tool_result", "output": "x", "extras": 1}], "google_genai")
@example([{"type": "code_execution_result", "code_execution_result": 1, "outcome": []}], "openai")
def test_any_block_becomes_a_part_or_is_rejected(blocks: list[Any], provider: str) -> None:
    messages: list[BaseMessage] = [
        HumanMessage(blocks),
        AIMessage(blocks, response_metadata={"model_provider": provider}),
    ]
    for message in messages:
        with contextlib.suppress(GeminiToolsError):
            ChatGemini(model=GEMINI_3).preview([ASK, message])
