from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from langchain_gemini_tools.testing.fake.refusal import Refusal
from langchain_gemini_tools.testing.fake.routes import Route, read_route
from langchain_gemini_tools.testing.fake.rules.door import check_deadline, check_key, check_model

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake.models import Backend


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
def test_key_and_token_open_the_door(headers: dict[str, str], query: dict[str, str]) -> None:
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


@pytest.mark.parametrize(
    ("path", "route"),
    [
        (
            "/v1/models/gemini-3-flash:generateContent",
            Route("gemini", "v1", "gemini-3-flash", "generateContent"),
        ),
        (
            "/proxy/a/v1beta/models/gemini-3-flash:streamGenerateContent",
            Route("gemini", "v1beta", "gemini-3-flash", "streamGenerateContent"),
        ),
        (
            "/v1beta1/projects/p/locations/l/publishers/google/models/gemini-3-flash:countTokens",
            Route("vertex", "v1beta1", "gemini-3-flash", "countTokens"),
        ),
        (
            "/v1beta1/publishers/google/models/gemini-3-flash:generateContent",
            Route("vertex", "v1beta1", "gemini-3-flash", "generateContent"),
        ),
        ("/v2/models/gemini-3-flash:generateContent", None),
        ("/v1/models/gemini-3-flash:embedContent", None),
        ("/v1/models/a/b:generateContent", None),
    ],
)
def test_paths_lead_to_models(path: str, route: Route | None) -> None:
    assert read_route("POST", path) == route
