"""Which options exist on one backend only: we and the SDK agree. Other forms of a request."""

from __future__ import annotations

import functools
import importlib.util
import json
from typing import Any

import pytest
from google import genai
from google.genai import types
from google.oauth2.credentials import Credentials
from pydantic import ValidationError

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.errors import InvalidInputError, InvalidOptionError
from langchain_gemini_tools.facts.json_values import camel
from langchain_gemini_tools.wire.rejections import find_other_form
from langchain_gemini_tools.wire.tools.builtin import BUILTIN_TOOLS
from tests.rotation import rotated
from tests.unit_tests.wire.requests import SKIP

Json = dict[str, Any]

MODEL = "gemini-3.8-flash"
TOOL_FIELDS = sorted(types.Tool.model_fields.keys() - {"function_declarations"})
SAMPLES: Json = {
    "mcp_servers": [{"name": "w", "streamable_http_transport": {"url": "https://w"}}],
    "retrieval": {"vertex_ai_search": {"datastore": "d"}},
    "file_search": {"file_search_store_names": ["stores/a"]},
    "computer_use": {"environment": "ENVIRONMENT_BROWSER"},
}
CALLING = {"function_calling_config": {"stream_function_call_arguments": True}}
OPTIONS: dict[str, Json] = {
    "audio_timestamp": {"audio_timestamp": True},
    "labels": {"labels": {"a": "b"}},
    "service_tier": {"service_tier": "flex"},
    "seed": {"seed": 1},
    "stream_function_call_arguments": {"tool_config": CALLING},
    "include_server_side_tool_invocations": {
        "tool_config": {"include_server_side_tool_invocations": True}
    },
    "method": {
        "safety_settings": [
            {"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF", "method": "SEVERITY"}
        ]
    },
    "image_size": {"image_config": {"image_size": "1K"}},
    "person_generation": {"image_config": {"person_generation": "ALLOW_ALL"}},
    "output_mime_type": {"image_config": {"output_mime_type": "image/png"}},
    "output_compression_quality": {"image_config": {"output_compression_quality": 80}},
    "routing_config": {"routing_config": {"manual_mode": {"model_name": "m"}}},
    "model_selection_config": {
        "model_selection_config": {"feature_selection_preference": "BALANCED"}
    },
    "enable_enhanced_civic_answers": {"enable_enhanced_civic_answers": True},
}
SETTINGS: dict[str, Json] = {
    "exclude_domains": {"google_search": {"exclude_domains": ["a.com"]}},
    "blocking_confidence": {"google_search": {"blocking_confidence": "BLOCK_LOW_AND_ABOVE"}},
    "time_range_filter": {
        "google_search": {
            "time_range_filter": {
                "start_time": "2026-01-01T00:00:00Z",
                "end_time": "2026-01-02T00:00:00Z",
            }
        }
    },
    "enable_widget": {"google_maps": {"enable_widget": True}},
    "grounding_types": {"google_maps": {"grounding_types": {}}},
}
IN_GENERATION_CONFIG = {
    "routing_config",
    "model_selection_config",
    "enable_enhanced_civic_answers",
}
"""Options of the SDK that are not fields of ours."""
SINCE = {"labels": (2, 30)}
"""Options that older versions of the SDK refuse, and that the API has now."""


def sdk_sends(config: Json, *, vertexai: bool) -> Json | None:
    """What the SDK sends; None if it refuses."""
    client, bodies = sdk_client(vertexai=vertexai)
    bodies.clear()
    try:
        sent = types.GenerateContentConfig(**config)
    except ValidationError:
        pytest.skip("This version of the SDK does not know the option.")
    try:
        client.models.generate_content(model=MODEL, contents="Hi", config=sent)
    except ValueError as error:
        _raise_unless(error, "supported in")
        return None
    [body] = bodies
    return body


@functools.cache
def sdk_client(*, vertexai: bool) -> tuple[genai.Client, list[Json]]:
    """A client of the SDK, and the bodies that it sent."""
    bodies: list[Json] = []
    library = importlib.import_module("httpx2" if importlib.util.find_spec("httpx2") else "httpx")

    def respond(request: Any) -> Any:
        bodies.append(json.loads(request.content))
        return library.Response(200, json={"candidates": []})

    transport = library.MockTransport(respond)
    access: Json = (
        {"vertexai": True, "project": "p", "location": "l", "credentials": Credentials("t")}  # type: ignore[no-untyped-call]
        if vertexai
        else {"api_key": "unreal"}
    )
    options = types.HttpOptions(httpx_client=library.Client(transport=transport))
    return genai.Client(**access, http_options=options), bodies


def _raise_unless(error: Exception, words: str) -> None:
    """Raise an error that is about something else."""
    if words not in str(error):
        raise error


def we_send(options: Json, tools: list[Json], *, vertexai: bool) -> Json | None:
    """What we send; None if we reject it."""
    model = ChatGemini(model=MODEL, api_key="unreal", vertexai=vertexai)
    try:
        return {**model.bind_tools(tools).preview("Hi", **options).body}
    except InvalidInputError as error:
        _raise_unless(error, "only on" if "only on" in str(error) else "does not exist on")
        return None


@rotated(name=TOOL_FIELDS, vertexai=[False, True])
@pytest.mark.parametrize("other", [False, True])
def test_we_and_the_sdk_refuse_the_same_tools(name: str, *, vertexai: bool, other: bool) -> None:
    tool = {name: SAMPLES.get(name, {})}
    sdk = sdk_sends({"tools": [tool]}, vertexai=vertexai is not other)
    ours = we_send({}, [tool], vertexai=vertexai is not other)
    assert (ours is None) == (sdk is None)
    if ours and sdk:
        assert [{*each} for each in ours["tools"]] == [{*each} for each in sdk["tools"]]


@pytest.mark.parametrize("vertexai", [False, True])
@pytest.mark.parametrize("name", SETTINGS)
def test_we_and_the_sdk_refuse_the_same_settings_of_tools(name: str, vertexai: bool) -> None:
    sdk = sdk_sends({"tools": [SETTINGS[name]]}, vertexai=vertexai)
    ours = we_send({}, [SETTINGS[name]], vertexai=vertexai)
    assert (ours is None) == (sdk is None)


@pytest.mark.parametrize("vertexai", [False, True])
@pytest.mark.parametrize("name", OPTIONS)
def test_we_and_the_sdk_refuse_the_same_options(name: str, vertexai: bool) -> None:
    version = tuple(map(int, genai.__version__.split(".")[:2]))
    if version < SINCE.get(name, version):
        pytest.skip("The SDK is older than the option.")
    function = {"name": "f", "description": "F.", "parameters": {"type": "OBJECT"}}
    tools: list[Json] = [{"function_declarations": [function]}]
    options = OPTIONS[name]
    sdk = sdk_sends({**options, "tools": tools}, vertexai=vertexai)
    if name in IN_GENERATION_CONFIG:
        options = {"generation_config": options}
    ours = we_send(options, [function], vertexai=vertexai)
    assert (ours is None) == (sdk is None)
    if ours and sdk:
        sent = [_in_camel_case(body.get("generationConfig", {})) for body in (ours, sdk)]
        assert sent[0] == sent[1]


def _in_camel_case(config: Json) -> Json:
    return {
        camel(name): _in_camel_case(value) if isinstance(value, dict) else value
        for name, value in config.items()
    }


def test_options_of_an_images_output_are_joined() -> None:
    image = {"output_mime_type": "image/png", "image_output_options": {"compressionQuality": 80}}
    model = ChatGemini(model=MODEL, vertexai=True, image_config={"image_size": "1K", **image})
    assert model.preview("Hi").body["generationConfig"]["imageConfig"] == {
        "imageSize": "1K",
        "imageOutputOptions": {"mimeType": "image/png", "compressionQuality": 80},
    }


def test_the_table_of_tools_has_every_field_of_the_sdk() -> None:
    known = {types.Tool.model_fields[name].alias or name for name in TOOL_FIELDS}
    assert {name for name in known if "_" not in name} <= BUILTIN_TOOLS.keys()


@pytest.mark.parametrize("vertexai", [False, True])
def test_the_error_names_the_option_and_the_way_out(vertexai: bool) -> None:
    model = ChatGemini(model=MODEL, vertexai=vertexai)
    options: Json = (
        {"generation_config": {"enable_enhanced_civic_answers": True}}
        if vertexai
        else {"audio_timestamp": True}
    )
    name = "enable_enhanced_civic_answers" if vertexai else "audio_timestamp"
    with pytest.raises(InvalidOptionError, match=f"^{name} exists only on ") as raised:
        model.preview("Hi", **options)
    assert f"(vertexai={not vertexai})" in str(raised.value)
    assert "extra_body" in str(raised.value)


def test_extra_body_is_the_way_out() -> None:
    body = {"generationConfig": {"audioTimestamp": True}, "tools": [{"retrieval": {}}]}
    sent = ChatGemini(model=MODEL).preview("Hi", extra_body=body).body
    assert sent["generationConfig"] == {"audioTimestamp": True}
    assert sent["tools"] == [{"retrieval": {}}]


@pytest.mark.parametrize("vertexai", [False, True])
def test_parts_of_server_tools_are_sent_back_where_the_flag_for_them_exists(vertexai: bool) -> None:
    flag = {"include_server_side_tool_invocations": True}
    has_flag = sdk_sends({"tool_config": flag}, vertexai=vertexai) is not None
    model = ChatGemini(model=MODEL, vertexai=vertexai)
    assert model.preview("Hi").invocation.circulates_server_tools == has_flag
    both = model.bind_tools([{"name": "f"}, {"google_search": {}}]).preview("Hi").body
    assert ("toolConfig" in both) == has_flag


# Other forms of a rejected request

CORRUPTED = "Corrupted thought signature."
BARE = "Request contains an invalid argument."
STATES = "The specified schema produces a constraint that has too many states for serving. ..."
ASKED: Json = {"role": "user", "parts": [{"text": "Hi"}]}


def changed(body: Json, message: str) -> Json | None:
    found = find_other_form(body, message)
    return found[0] if found else None


def test_signatures_are_skipped_where_the_api_does_not_need_them() -> None:
    signed = {"thoughtSignature": "QUJD"}
    search = {"toolCall": {"id": "s", "toolType": "GOOGLE_SEARCH"}, **signed}
    called: Json = {"functionCall": {"name": "f", "args": {}}}
    contents = [
        ASKED,
        {"role": "model", "parts": [{"text": "", **signed}]},
        {"role": "model", "parts": [search, {"text": "So", **signed}, called | signed, called]},
    ]
    skipped = [search, {"text": "So"}, called | {"thoughtSignature": SKIP}, called]
    expected = {"contents": [ASKED, {"role": "model", "parts": skipped}]}
    assert changed({"contents": contents}, CORRUPTED) == expected
    assert changed(expected, CORRUPTED) is None


@pytest.mark.parametrize("message", [BARE, STATES])
@pytest.mark.parametrize("key", ["parametersJsonSchema", "parameters"])
def test_limits_of_arrays_become_words(message: str, key: str) -> None:
    point = {"type": "array", "prefixItems": [{"type": "number"}], "minItems": 1, "maxItems": 1}
    tags = {"type": "array", "items": {"type": "string"}}
    rows = {"type": "array", "items": {"type": "object", "properties": {"tags": tags}}}
    limited = {
        **rows,
        "items": {"type": "object", "properties": {"tags": {**tags, "maxItems": 400}}},
        "description": "Rows.",
        "minItems": 1,
        "maxItems": 50,
    }
    described = {
        **rows,
        "items": {
            "type": "object",
            "properties": {"tags": {**tags, "description": "At most 400 items."}},
        },
        "description": "Rows. At least 1 items, at most 50 items.",
    }

    def body(schema: Any) -> Json:
        declaration = {"name": "f", key: {"type": "object", "properties": schema}}
        return {
            "contents": [ASKED],
            "tools": [{"functionDeclarations": [declaration]}, {"googleSearch": {}}],
            "generationConfig": {"responseJsonSchema": schema["rows"]},
        }

    expected = body({"rows": described, "point": point})
    assert changed(body({"rows": limited, "point": point}), message) == expected
    assert changed(expected, message) is None


@pytest.mark.parametrize(
    "message", ["", "API key not valid.", f"{BARE} More.", "Function call is missing a signature."]
)
def test_other_rejections_change_nothing(message: str) -> None:
    schema = {"type": "array", "items": {"type": "string"}, "maxItems": 2}
    body = {"contents": [ASKED], "generationConfig": {"responseJsonSchema": schema}}
    assert find_other_form(body, message) is None
