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
from langchain_gemini_tools.wire.blocks import render_split
from tests.unit_tests.wire.requests import (
    GEMINI_2,
    GEMINI_3,
    Json,
    call,
    calling,
    contents,
    model,
    result,
    tool_call,
    user,
)
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
        pytest.param(
            [{"type": "text-plain", "text": ""}, {"type": "text", "text": "a"}],
            [{"text": "a"}],
            id="an empty text file",
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


SIGNED = "U0lHTkVE"
CAT = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
SEARCH_CALL = {"toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["cats"]}, "id": "s1"}
SEARCH_RESULT = {"toolType": "GOOGLE_SEARCH_WEB", "response": {"search": "x"}, "id": "s1"}


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        pytest.param(
            [{"type": "text", "text": "Hi", "thought_signature": SIGNED}],
            [{"text": "Hi", "thoughtSignature": SIGNED}],
            id="text, as on Vertex AI",
        ),
        pytest.param(
            [{"type": "text", "text": "Hi", "extras": {"signature": b"SIGNED"}}],
            [{"text": "Hi", "thoughtSignature": SIGNED}],
            id="text, with bytes",
        ),
        pytest.param(
            [{"type": "thinking", "thinking": "Hm", "thought_signature": SIGNED}],
            [{"text": "Hm", "thought": True, "thoughtSignature": SIGNED}],
            id="a thought",
        ),
        pytest.param(
            [
                {
                    "type": "image_url",
                    "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="},
                    "extras": {"signature": SIGNED},
                }
            ],
            [{**CAT, "thoughtSignature": SIGNED}],
            id="an image",
        ),
        pytest.param(
            [
                {
                    "type": "image",
                    "base64": "iVBORw0KGgo=",
                    "mime_type": "image/png",
                    "extras": {"signature": SIGNED},
                }
            ],
            [{**CAT, "thoughtSignature": SIGNED}],
            id="an image of version 1",
        ),
        pytest.param(
            [
                {
                    "type": "server_tool_call",
                    "name": "google_search_web",
                    "id": "s1",
                    "args": {"queries": ["cats"]},
                    "extras": {"signature": SIGNED},
                },
                {
                    "type": "server_tool_result",
                    "tool_call_id": "s1",
                    "status": "success",
                    "output": {"search": "x"},
                    "extras": {"block_type": "google_search_web", "signature": SIGNED},
                },
            ],
            [
                {"toolCall": SEARCH_CALL, "thoughtSignature": SIGNED},
                {"toolResponse": SEARCH_RESULT, "thoughtSignature": SIGNED},
            ],
            id="a tool that the API ran",
        ),
    ],
)
def test_signatures_in_blocks_of_langchain_google_genai_are_sent_back(
    content: list[Any], parts: list[Json]
) -> None:
    stored = AIMessage(content, response_metadata={"model_provider": "google_genai"})
    assert contents([ASK, stored, ASK])[1] == model(*parts)
    foreign = AIMessage(content, response_metadata={"model_provider": "openai"})
    assert "thoughtSignature" not in json.dumps(contents([ASK, foreign, ASK]))


@pytest.mark.parametrize("index", [{}, {"index": 1}], ids=["invoked", "streamed"])
@pytest.mark.parametrize("is_wrapped", [False, True], ids=["v0", "v1"])
def test_signatures_of_calls_in_blocks_of_langchain_google_genai_are_sent_back(
    index: Json, *, is_wrapped: bool
) -> None:
    # Version 3.0, the only one with such blocks. The index is that of the block in the stream.
    signature: Json = {"type": "function_call_signature", "signature": SIGNED, **index}
    if is_wrapped:
        signature = {"type": "non_standard", "value": signature}
    stored = calling(
        tool_call("a"),
        tool_call("b"),
        content=["Hm", signature],
        response_metadata={"model_provider": "google_genai"},
    )
    sent_back = contents([ASK, stored, result("a"), result("b")])[1]
    assert sent_back == model({"text": "Hm"}, call("a", sign=SIGNED), call("b"))


def test_a_drawn_thought_of_langchain_google_genai_has_no_text() -> None:
    url = f"data:image/png;base64,{PNG}"
    stored = AIMessage(
        [
            {"type": "thinking", "thinking": None},
            {"type": "image_url", "image_url": {"url": url}, "extras": {"signature": SIGNED}},
        ],
        response_metadata={"model_provider": "google_genai"},
    )
    image = {"inlineData": {"mimeType": "image/png", "data": PNG}, "thoughtSignature": SIGNED}
    assert contents([ASK, stored, ASK])[1] == model(image)


def test_a_call_signature_of_bytes_is_sent_back() -> None:
    signatures = {"__gemini_function_call_thought_signatures__": {"a": b"SIGNED"}}
    stored = calling(tool_call("a"), additional_kwargs=signatures)
    assert contents([ASK, stored, result("a")])[1] == model(call("a", sign=SIGNED))


def test_an_id_that_langchain_google_genai_gave_to_code_is_not_sent() -> None:
    code = {
        "type": "executable_code",
        "executable_code": "print(4)",
        "language": "PYTHON",
        "id": "3f0e9c0a-6d1c-4a55-9b0e-0a4d6c1f2b7e",
    }
    printed = {"type": "code_execution_result", "code_execution_result": "4", "outcome": 1}
    stored = AIMessage(
        [code, {**printed, "tool_call_id": ""}],
        response_metadata={"model_provider": "google_genai"},
    )
    assert contents([ASK, stored, ASK])[1] == model(
        {"executableCode": {"code": "print(4)", "language": "PYTHON"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "4"}},
    )


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(
            {"type": "executable_code", "executable_code": "print(4)", "language": 1}, id="v0"
        ),
        pytest.param(
            {
                "type": "server_tool_call",
                "name": "code_interpreter",
                "args": {"code": "print(4)", "language": 1},
                "id": "",
            },
            id="v1",
        ),
    ],
)
def test_the_language_of_code_is_sent_by_name(block: Json) -> None:
    # langchain-google-genai before 4.0 stored the number of the SDK's enum.
    stored = AIMessage([block], response_metadata={"model_provider": "google_genai"})
    code = {"executableCode": {"code": "print(4)", "language": "PYTHON"}}
    assert contents([ASK, stored, ASK])[1] == model(code)


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
    ],
)
def test_a_block_without_a_part_is_rejected_with_its_type(block: Json) -> None:
    with pytest.raises(UnsupportedBlockError) as error:
        contents([HumanMessage(["Look!", block])])
    assert f"not support {str(block.get('type'))!r} blocks in human messages" in str(error.value)


@pytest.mark.parametrize("block", [{"a": 1}, {"type": None}], ids=str)
def test_a_block_without_a_type_is_rejected(block: Json) -> None:
    with pytest.raises(UnsupportedBlockError, match="of a message of type 'human' has no 'type'"):
        contents([HumanMessage(["Look!", block])])


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


# Results of tools

PNG = "iVBORw0KGgo="


def answered(content: Any, model: str = GEMINI_3, **fields: Any) -> list[Json]:
    """The parts that answer a call with this result."""
    messages = [ASK, calling(tool_call("a")), result("a", content, **fields)]
    return [part for content in contents(messages, model)[2:] for part in content["parts"]]


def response(value: Json, **fields: Any) -> Json:
    return {"functionResponse": {"id": "a", "name": "search", "response": value, **fields}}


@pytest.mark.parametrize(
    ("content", "value"),
    [
        pytest.param("sunny", "sunny", id="text"),
        pytest.param("", "", id="nothing"),
        pytest.param("null", "null", id="null"),
        pytest.param("true", "true", id="true"),
        pytest.param("NaN", "NaN", id="NaN"),
        pytest.param("12345678901234567890", "12345678901234567890", id="twenty digits"),
        pytest.param('"quoted"', '"quoted"', id="a JSON text"),
        pytest.param('{"t": 21, "ok": null}', {"t": 21, "ok": None}, id="a JSON object"),
        pytest.param('[1, "two", {}]', [1, "two", {}], id="a JSON array"),
        pytest.param("[]", [], id="an empty JSON array"),
        pytest.param(
            '[{"type": "text", "text": "a", "id": "1"}]',
            [{"type": "text", "text": "a", "id": "1"}],
            id="objects of the tool's own that look like blocks",
        ),
        pytest.param(
            '[{"type": "text", "text": "{\\"t\\": 21}", "id": "lc_1"}]',
            {"t": 21},
            id="LangChain's blocks, dumped by a classic agent",
        ),
        pytest.param(' \n{"t": 21}\n', {"t": 21}, id="a JSON object with space around"),
        pytest.param("{not json}", "{not json}", id="text that begins like JSON"),
        pytest.param('{"t": 21} and more', '{"t": 21} and more', id="JSON and more"),
        pytest.param("[" * 5000, "[" * 5000, id="brackets"),
        pytest.param("[" * 1000 + "]" * 1000, "[" * 1000 + "]" * 1000, id="a thousand levels"),
        pytest.param('{"a":' * 110 + "1" + "}" * 110, '{"a":' * 110 + "1" + "}" * 110, id="deep"),
        pytest.param("[" * 90 + "]" * 90, json.loads("[" * 90 + "]" * 90), id="ninety levels"),
        pytest.param(f"[{'[],' * 200}1]", json.loads(f"[{'[],' * 200}1]"), id="wide, not deep"),
        pytest.param(
            '{"id": 12345678901234567890, "small": -9007199254740992, "x": 1e999, "y": NaN}',
            {"id": "12345678901234567890", "small": -9007199254740992, "x": "1e999", "y": "NaN"},
            id="numbers that a double cannot hold",
        ),
        pytest.param([], [], id="an empty list"),
        pytest.param(["a", "b"], "a\nb", id="a list of texts"),
        pytest.param(
            [{"type": "text", "text": "a", "annotations": None}, "b"], "a\nb", id="text blocks"
        ),
        pytest.param([{"type": "text", "text": '{"t": 21}'}], {"t": 21}, id="JSON in a block"),
        pytest.param([{"t": 21}, {"t": 22}], [{"t": 21}, {"t": 22}], id="objects"),
        pytest.param(["a", {"t": 22}], ["a", {"t": 22}], id="texts and objects"),
        pytest.param([{"type": "json", "json": {"t": 21}}], {"t": 21}, id="a JSON block"),
        pytest.param(
            [{"type": "text", "text": "a"}, {"t": 22}], 'a\n{"t": 22}', id="blocks and objects"
        ),
        pytest.param(
            [{"type": "search_result", "title": "T"}],
            {"type": "search_result", "title": "T"},
            id="a block that is not a medium",
        ),
        pytest.param(
            [{"type": "file", "path": "/a"}, {"type": "file", "path": "/b"}],
            '{"type": "file", "path": "/a"}\n{"type": "file", "path": "/b"}',
            id="objects of the tool's own that look like media",
        ),
        pytest.param([{"type": "text-plain", "text": "a page"}], "a page", id="a plain text file"),
        pytest.param(
            [{"type": "text", "text": "a"}, {"cachePoint": {"type": "default"}}],
            "a",
            id="text and Amazon's cache marker",
        ),
        pytest.param(
            [{"type": "non_standard", "value": {"type": "text", "text": "a"}}], "a", id="wrapped"
        ),
        pytest.param(
            [
                {"type": "text", "text": "a"},
                {"type": "non_standard", "value": {"cachePoint": {"type": "default"}}},
            ],
            "a",
            id="text and a wrapped cache marker",
        ),
    ],
)
def test_a_result_is_sent_as_what_it_is(content: Any, value: Any) -> None:
    assert answered(content) == [response({"output": value})]
    assert answered(content, GEMINI_2) == [response({"output": value})]
    assert answered(content, status="error") == [response({"error": value})]


def test_what_is_not_for_the_model_is_not_sent() -> None:
    fields: Json = {"artifact": {"rows": [1]}, "additional_kwargs": {"name": "other", "lc_data": 1}}
    assert answered("x", name="other", **fields) == [response({"output": "x"})]


IMAGE = {"type": "image", "base64": PNG, "mime_type": "image/png"}
AUDIO = {"type": "audio", "base64": "AAAA", "mime_type": "audio/wav"}
PDF = {"type": "file", "base64": "AAAA", "mime_type": "application/pdf"}
LINK = {"type": "image", "url": "https://example.com/a.png"}

DUMPED = json.dumps([{**IMAGE, "id": "lc_1"}])

IMAGE_PART = {"inlineData": {"mimeType": "image/png", "data": PNG}}
AUDIO_PART = {"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}}
PDF_PART = {"inlineData": {"mimeType": "application/pdf", "data": "AAAA"}}
LINK_PART = {"fileData": {"mimeType": "image/png", "fileUri": "https://example.com/a.png"}}
FILES = {"text": "Files returned by search (call a):"}


@pytest.mark.parametrize(
    ("content", "model", "parts"),
    [
        pytest.param(
            [{"type": "text", "text": "a chart"}, IMAGE, PDF],
            GEMINI_3,
            [response({"output": "a chart"}, parts=[IMAGE_PART, PDF_PART])],
            id="inside the response on 3",
        ),
        pytest.param(
            [IMAGE],
            GEMINI_3,
            [response({"output": "1 file(s), attached."}, parts=[IMAGE_PART])],
            id="alone on 3",
        ),
        pytest.param(
            DUMPED,
            GEMINI_3,
            [response({"output": "1 file(s), attached."}, parts=[IMAGE_PART])],
            id="dumped by a classic agent",
        ),
        pytest.param(
            [{"type": "text", "text": "a chart"}, IMAGE, PDF],
            GEMINI_2,
            [response({"output": "a chart"}), FILES, IMAGE_PART, PDF_PART],
            id="after the response on 2",
        ),
        pytest.param(
            [AUDIO],
            GEMINI_3,
            [response({"output": "1 file(s), see below."}), FILES, AUDIO_PART],
            id="of a type that responses do not take",
        ),
        pytest.param(
            [{"type": "text", "text": "t"}, LINK],
            GEMINI_3,
            [response({"output": "t"}), FILES, LINK_PART],
            id="by URL",
        ),
        pytest.param(
            [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}],
            GEMINI_3,
            [response({"output": "1 file(s), attached."}, parts=[IMAGE_PART])],
            id="as OpenAI writes it",
        ),
        pytest.param(
            [
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": PNG},
                }
            ],
            GEMINI_3,
            [response({"output": "1 file(s), attached."}, parts=[IMAGE_PART])],
            id="as Anthropic writes it",
        ),
        pytest.param(
            [{"type": "non_standard", "value": IMAGE}],
            GEMINI_3,
            [response({"output": "1 file(s), attached."}, parts=[IMAGE_PART])],
            id="in the block that LangChain wraps others in",
        ),
    ],
)
def test_media_are_placed_where_the_model_accepts_them(
    content: Any, model: str, parts: list[Json]
) -> None:
    assert answered(content, model) == parts


def test_text_and_media_are_set_apart_in_order() -> None:
    text: Json = {"type": "text", "text": "a"}
    page: Json = {"type": "text-plain", "text": "b"}
    split = render_split([text, IMAGE, page, PDF, {"type": "json", "json": {"t": 21}}])
    files = [
        {"inlineData": {"mimeType": "image/png", "data": PNG}},
        {"inlineData": {"mimeType": "application/pdf", "data": "AAAA"}},
    ]
    assert (split.text, split.files) == ('a\nb\n{"t": 21}', files)


def test_the_text_of_a_result_is_not_changed_by_its_value() -> None:
    split = render_split(' {"t":21}')
    assert (split.text, split.value, split.files) == (' {"t":21}', {"t": 21}, [])


def test_objects_that_are_not_blocks_are_one_value() -> None:
    split = render_split([{"t": 21}, {"t": 22}])
    assert (split.text, split.value) == ('[{"t": 21}, {"t": 22}]', [{"t": 21}, {"t": 22}])


def test_media_follow_all_responses_of_the_turn() -> None:
    messages = [
        ASK,
        calling(tool_call("a"), tool_call("b")),
        result("a", [IMAGE]),
        result("b", "x"),
        HumanMessage("Well?"),
    ]
    sent = contents(messages, GEMINI_2)[2:]
    assert [[next(iter(part)) for part in content["parts"]] for content in sent] == [
        ["functionResponse", "functionResponse"],
        ["text", "inlineData"],
        ["text"],
    ]
