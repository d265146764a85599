from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from langchain_gemini_tools.testing.fake.responses import Refusal
from langchain_gemini_tools.testing.fake.rules.payload import (
    check_deadline,
    check_key,
    check_model,
    read_message,
    read_payload,
)

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake.ask import Backend


def key_refusal(headers: dict[str, str], backend: Backend = "gemini") -> dict[str, Any]:
    with pytest.raises(Refusal) as caught:
        check_key(headers, {}, backend, "good-key", "good-token")
    return caught.value.body


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ({"x-goog-api-key": "good-key"}, {}),
        ({}, {"key": "good-key"}),
        ({"authorization": "Bearer good-token"}, {}),
    ],
)
def test_a_valid_key_or_token_raises_nothing(
    headers: dict[str, str], query: dict[str, str]
) -> None:
    check_key(headers, query, "gemini", "good-key", "good-token")


def test_a_bad_key_is_a_bad_request() -> None:
    assert key_refusal({"x-goog-api-key": "bad"}) == {
        "error": {
            "code": 400,
            "message": "API key not valid. Please pass a valid API key.",
            "status": "INVALID_ARGUMENT",
            "details": [
                {
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": "API_KEY_INVALID",
                    "domain": "googleapis.com",
                    "metadata": {"service": "generativelanguage.googleapis.com"},
                },
                {
                    "@type": "type.googleapis.com/google.rpc.LocalizedMessage",
                    "locale": "en-US",
                    "message": "API key not valid. Please pass a valid API key.",
                },
            ],
        }
    }


def test_no_key_is_forbidden_and_a_bad_token_unauthenticated() -> None:
    assert key_refusal({})["error"]["status"] == "PERMISSION_DENIED"
    bad = key_refusal({"authorization": "Bearer bad"}, "vertex")
    assert (bad["error"]["code"], bad["error"]["status"]) == (401, "UNAUTHENTICATED")


def test_a_deadline_under_ten_seconds_is_rejected() -> None:
    check_deadline({})
    check_deadline({"x-server-timeout": "10"})
    with pytest.raises(Refusal) as caught:
        check_deadline({"x-server-timeout": "5"})
    assert caught.value.message == (
        "Manually set deadline 5s is too short. Minimum allowed deadline is 10s."
    )


@pytest.mark.parametrize(
    "name",
    [
        "gemini-3.8-flash",
        "gemini-2.5-flash-lite-preview-06-17",
        "gemini-2.0-flash-001",
        "gemini-flash-latest",
        "gemini-4-pro",
        "gemini-exp-1206",
        "gemini-live-2.5-flash-preview",
        "gemma-3-27b-it",
    ],
)
def test_models_that_exist(name: str) -> None:
    assert check_model(name, "v1beta", "gemini", "generateContent").name == name


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("gemini-3-flahs", "v1beta"),
        ("gemini-flash-latest", "v1"),
        ("gemini", "v1"),
        ("gpt-5", "v1"),
    ],
)
def test_models_that_do_not(name: str, version: str) -> None:
    with pytest.raises(Refusal) as caught:
        check_model(name, version, "gemini", "generateContent")
    assert caught.value.body == {
        "error": {
            "code": 404,
            "message": f"models/{name} is not found for API version {version}, or is not supported "
            "for generateContent. Call ModelService.ListModels to see the list of available models "
            "and their supported methods.",
            "status": "NOT_FOUND",
        }
    }


@pytest.mark.parametrize(
    ("name", "generation"),
    [
        ("gemini-2.5-flash-lite-preview-06-17", (2, 5)),
        ("gemini-3-pro-preview", (3, 0)),
        ("gemini-live-2.5-flash-preview", (2, 5)),
        ("gemini-flash-latest", (99, 0)),
        ("gemini-exp-1206", (99, 0)),
        ("gemma-3n-e4b-it", (2, 0)),
    ],
)
def test_a_name_shows_the_generation(name: str, generation: tuple[int, int]) -> None:
    assert check_model(name, "v1beta", "gemini", "generateContent").generation == generation


def test_a_test_may_define_a_model() -> None:
    assert check_model("my-model", "v1", "gemini", "generateContent", extra=["my-model"]).is_3


def refusal(payload: Any, **where: Any) -> dict[str, Any]:
    with pytest.raises(Refusal) as caught:
        read_message(payload, **where)
    return caught.value.body


def bad_request(*violations: tuple[str, str]) -> dict[str, Any]:
    details = [{"field": field, "description": text} for field, text in violations]
    return {
        "error": {
            "code": 400,
            "message": "\n".join(text for _, text in violations),
            "status": "INVALID_ARGUMENT",
            "details": [
                {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": details}
            ],
        }
    }


def test_both_key_cases_are_read_as_camel_case() -> None:
    payload = {
        "system_instruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"parts": [{"inline_data": {"mime_type": "image/png", "data": "AAAA"}}], "role": "user"}
        ],
        "toolConfig": {"functionCallingConfig": {"allowed_function_names": ["f"], "mode": "any"}},
    }

    assert read_message(payload) == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"parts": [{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}], "role": "user"}
        ],
        "toolConfig": {"functionCallingConfig": {"allowedFunctionNames": ["f"], "mode": "ANY"}},
    }


def test_free_form_values_keep_their_keys() -> None:
    part = {"function_call": {"name": "f", "args": {"some_key": None, "otherKey": [1]}}}
    schema = {"type": "object", "properties": {"some_key": {"minLength": 1}}}
    payload = {
        "contents": [{"parts": [part]}],
        "tools": [
            {"function_declarations": [{"name": "f", "parameters_json_schema": schema}]},
        ],
    }

    read = read_message(payload)

    assert read["contents"][0]["parts"] == [
        {"functionCall": {"name": "f", "args": {"some_key": None, "otherKey": [1]}}}
    ]
    assert read["tools"] == [
        {"functionDeclarations": [{"name": "f", "parametersJsonSchema": schema}]}
    ]


def test_nulls_are_as_good_as_absent() -> None:
    assert read_message({"contents": [], "tools": None, "toolConfig": None}) == {"contents": []}


def test_a_lone_value_stands_for_a_list_of_one() -> None:
    assert read_message({"contents": {"parts": {"text": "Hi"}}}) == {
        "contents": [{"parts": [{"text": "Hi"}]}]
    }


def test_every_unknown_name_is_reported_with_its_proto_path() -> None:
    parameters = {
        "type": "OBJECT",
        "properties": {"a": {"type": "STRING"}, "b": {"type": "STRING", "const": "x"}},
        "additionalProperties": False,
    }
    payload = {"tools": [{"functionDeclarations": [{"name": "f", "parameters": parameters}]}]}

    path = "tools[0].function_declarations[0].parameters"
    assert refusal(payload) == bad_request(
        (
            f"{path}.properties[1].value",
            'Invalid JSON payload received. Unknown name "const" at '
            f"'{path}.properties[1].value': Cannot find field.",
        ),
        (
            path,
            'Invalid JSON payload received. Unknown name "additionalProperties" at '
            f"'{path}': Cannot find field.",
        ),
    )


def test_an_unknown_name_at_the_top_has_no_path() -> None:
    text = 'Invalid JSON payload received. Unknown name "foo": Cannot find field.'
    body = refusal({"foo": 1})
    assert body["error"]["message"] == text
    assert body["error"]["details"][0]["fieldViolations"] == [{"description": text}]


def test_a_list_of_types_is_not_a_type() -> None:
    parameters = {"type": "OBJECT", "properties": {"a": {"type": ["STRING", "NULL"]}}}
    payload = {"tools": [{"functionDeclarations": [{"name": "f", "parameters": parameters}]}]}

    path = "tools[0].function_declarations[0].parameters.properties[0].value"
    assert refusal(payload) == bad_request(
        (
            path,
            f"Invalid JSON payload received. Unknown name \"type\" at '{path}': "
            "Proto field is not repeating, cannot start list.",
        )
    )


@pytest.mark.parametrize(
    ("part", "field", "text"),
    [
        pytest.param(
            {"text": 5},
            "contents[0].parts[0].text",
            "Invalid value at 'contents[0].parts[0].text' (TYPE_STRING), 5",
            id="number-for-text",
        ),
        pytest.param(
            {"text": "a", "thoughtSignature": "not base64!"},
            "contents[0].parts[0].thought_signature",
            "Invalid value at 'contents[0].parts[0].thought_signature' (TYPE_BYTES), "
            'Base64 decoding failed for "not base64!"',
            id="signature-not-base64",
        ),
        pytest.param(
            {"functionCall": {"name": "f", "args": "x"}},
            "contents[0].parts[0].function_call.args",
            "Invalid value at 'contents[0].parts[0].function_call.args' "
            '(type.googleapis.com/google.protobuf.Struct), "x"',
            id="text-for-args",
        ),
        pytest.param(
            {"functionResponse": {"name": "f", "response": 3}},
            "contents[0].parts[0].function_response.response",
            "Invalid value at 'contents[0].parts[0].function_response.response' "
            "(type.googleapis.com/google.protobuf.Struct), 3",
            id="number-for-response",
        ),
        pytest.param(
            {"text": "a", "functionCall": {"name": "f"}},
            "contents[0].parts[0]",
            "Invalid value at 'contents[0].parts[0]' (oneof), oneof field 'data' is already set. "
            "Cannot set 'functionCall'",
            id="two-kinds-in-one-part",
        ),
        pytest.param(
            "hello",
            "contents[0].parts[0]",
            "Invalid value at 'contents[0].parts[0]' "
            '(type.googleapis.com/google.ai.generativelanguage.v1beta.Part), "hello"',
            id="text-for-part",
        ),
    ],
)
def test_a_value_of_the_wrong_type_is_reported(part: Any, field: str, text: str) -> None:
    assert refusal({"contents": [{"parts": [part]}]}) == bad_request((field, text))


def test_an_unknown_mode_is_reported_with_its_type() -> None:
    body = refusal({"toolConfig": {"functionCallingConfig": {"mode": "SOMETIMES"}}}, version="v1")
    assert body == bad_request(
        (
            "tool_config.function_calling_config.mode",
            "Invalid value at 'tool_config.function_calling_config.mode' (type.googleapis.com/"
            'google.ai.generativelanguage.v1.FunctionCallingConfig.Mode), "SOMETIMES"',
        )
    )


@pytest.mark.parametrize(
    ("wrong", "path", "kind"),
    [
        ({"category": "HARM_CATEGORY_HARASMENT"}, "category", "HarmCategory"),
        ({"threshold": "BLOCK_ALL"}, "threshold", "SafetySetting.HarmBlockThreshold"),
    ],
)
def test_an_unknown_safety_setting_is_reported_with_its_type(
    wrong: dict[str, str], path: str, kind: str
) -> None:
    setting = {"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}
    assert read_message({"safetySettings": [setting]}) == {"safetySettings": [setting]}
    assert refusal({"safetySettings": [setting | wrong]}) == bad_request(
        (
            f"safety_settings[0].{path}",
            f"Invalid value at 'safety_settings[0].{path}' (type.googleapis.com/"
            f'google.ai.generativelanguage.v1beta.{kind}), "{wrong[path]}"',
        )
    )


@pytest.mark.parametrize("signature", ["+/8=", "-_8=", "-_8", "AAAA"])
def test_base64_may_use_either_alphabet(signature: str) -> None:
    payload = {"contents": [{"parts": [{"text": "a", "thoughtSignature": signature}]}]}
    assert read_message(payload) == payload


def test_each_backend_has_separate_fields() -> None:
    flag = {"toolConfig": {"includeServerSideToolInvocations": True}}
    arguments = {"toolConfig": {"functionCallingConfig": {"streamFunctionCallArguments": True}}}

    assert read_message(flag, backend="gemini") == flag
    assert read_message(arguments, backend="vertex") == arguments
    assert "Cannot find field" in refusal(flag, backend="vertex")["error"]["message"]
    assert "Cannot find field" in refusal(arguments, backend="gemini")["error"]["message"]


@pytest.mark.parametrize("raw", [b"{", b"[1", b'{"contents": NaN}', b"\xff"])
def test_what_is_not_json_is_rejected(raw: bytes) -> None:
    with pytest.raises(Refusal) as caught:
        read_payload(raw)
    assert caught.value.code == 400
