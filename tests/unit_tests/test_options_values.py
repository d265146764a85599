"""Option values of a call are validated as those of the constructor are."""

from __future__ import annotations

import re
from typing import Any

import pytest
from google.genai import types
from pydantic import ValidationError

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.errors import InvalidOptionError
from langchain_gemini_tools.media_fetch import FetchLimits

Json = dict[str, Any]

GEMINI_3 = "gemini-3.8-flash"

WRONG = [
    ("timeout", "soon"),
    ("timeout", float("inf")),
    ("timeout", float("nan")),
    ("timeout", 1e300),
    ("timeout", -1),
    ("timeout", 0),
    ("stream_timeout", 1e300),
    ("stream_timeout", 0),
    ("max_retry_delay", float("inf")),
    ("stream_timeout", []),
    ("max_retries", "two"),
    ("max_retries", -1),
    ("max_retry_delay", -1.0),
    ("temperature", 5),
    ("temperature", "hot"),
    ("top_p", 1.5),
    ("top_k", 0),
    ("presence_penalty", 2.1),
    ("frequency_penalty", -2.1),
    ("n", 0),
    ("max_output_tokens", "many"),
    ("max_output_tokens", 0),
    ("max_output_tokens", -5),
    ("seed", 2**31),
    ("seed", -(2**31) - 1),
    ("thinking_budget", -2),
    ("logprobs", -1),
    ("logprobs", 21),
    ("stop", [1]),
    ("stop", ("a", ["b"])),
    ("timeout", {1}),
    ("include_thoughts", "perhaps"),
    ("automatic_continuation", "perhaps"),
    ("labels", {"a": 1}),
    ("fetch_urls", "perhaps"),
    ("fetch_urls", {"max_bites": 5}),
    ("on_malformed", "explode"),
    ("tool_schema", "opnapi"),
    ("on_broken_history", "rase"),
    ("tool_calling", "promted"),
    ("model", 3),
    ("model", ""),
    ("model", "gemini-3#flash"),
    ("model", "gemini-3?alt=json"),
    ("model", "%2e%2e/files/secret"),
    ("model", "models/../files/secret"),
    ("model", "models//gemini-3"),
    ("model", "gemini-3\r\nx-goog-user-project: mine"),
    ("model", "gemini-3\x00"),
    ("model", "gemini 3"),
    ("model", "gemini-3\u2028"),
    ("model", "..\\files"),
]
MODELS = [
    "gemini-3.8-flash",
    "models/gemini-3.8-flash",
    "tunedModels/my-model_1",
    "publishers/google/models/gemini-3.1-pro@001",
    "projects/p-1/locations/us-central1/endpoints/123",
    "google/gemini-3-flash",
    "gemini-3:tuned",
]


@pytest.mark.parametrize("name", MODELS)
def test_every_form_of_a_model_name_is_accepted(name: str) -> None:
    assert ChatGemini(model=name).preview("Hi").invocation.model == name
    assert ChatGemini(model=GEMINI_3).preview("Hi", model=name).invocation.model == name


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_value_that_the_constructor_rejects_is_rejected_in_a_call(name: str, value: Any) -> None:
    given: Json = {name: value}
    shown = re.escape(f"{name}={value!r:.20}")
    with pytest.raises(InvalidOptionError, match=shown):
        ChatGemini(model=GEMINI_3).preview("Hi", **given)
    with pytest.raises(InvalidOptionError, match=name):
        next(ChatGemini(model=GEMINI_3).stream("Hi", **given))


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_the_constructor_rejects_it(name: str, value: Any) -> None:
    if name == "stop":
        pytest.skip("The constructor reads a sequence of stop words more generously.")
    given: Json = {"model": GEMINI_3, name: value}
    with pytest.raises(ValidationError, match=name):
        ChatGemini(**given)


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_it_is_rejected_in_model_kwargs(name: str, value: Any) -> None:
    every: Json = {"model_kwargs": {name: value}}
    with pytest.raises(ValidationError, match=name):
        ChatGemini(model=GEMINI_3, **every)


@pytest.mark.parametrize(
    ("name", "value", "field", "read"),
    [
        ("timeout", "3", "timeout_seconds", 3.0),
        ("timeout", None, "timeout_seconds", None),
        ("stream_timeout", "5", "stream_timeout_seconds", 5.0),
        ("max_retries", "2", "max_retries", 2),
        ("automatic_continuation", False, "continues_automatically", False),
        ("automatic_continuation", None, "continues_automatically", True),
        ("max_retry_delay", None, "max_retry_delay_seconds", 60.0),
        ("fetch_urls", "yes", "fetch_limits", FetchLimits()),
        ("fetch_urls", {"max_bytes": 5}, "fetch_limits", FetchLimits(max_bytes=5)),
        ("fetch_urls", None, "fetch_limits", None),
        ("tool_calling", None, "is_prompted", False),
        ("on_malformed", None, "retries_with_feedback", True),
    ],
)
def test_a_value_is_read_as_by_the_constructor(
    name: str, value: Any, field: str, read: Any
) -> None:
    fields: Json = {"on_malformed": "raise", "max_retry_delay": 1.0, "tool_calling": "prompted"}
    chat = ChatGemini(model=GEMINI_3, **fields)
    assert getattr(chat.preview("Hi", **{name: value}).invocation, field) == read


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("stop", "a", ["a"]),
        ("stop", ("a", "b"), ["a", "b"]),
        ("n", None, 1),
        ("seed", 1, 1),
        ("seed", 1.0, 1),
        ("seed", True, 1),
        ("include_thoughts", 1, True),
    ],
)
def test_a_generation_option_is_read_as_by_the_constructor(
    name: str, value: Any, read: Any
) -> None:
    fields: Json = {"n": 2}
    chat = ChatGemini(model="gemini-2.5-flash", **fields)
    found = chat.preview("Hi", **{name: value}).invocation.generation[name]
    assert (found, type(found)) == (read, type(read))


def test_enums_of_the_sdk_are_taken_in_a_call() -> None:
    body = ChatGemini(model=GEMINI_3).preview(
        "Hi",
        reasoning_effort=types.ThinkingLevel.LOW,
        media_resolution=types.MediaResolution.MEDIA_RESOLUTION_LOW,
        response_modalities=[types.Modality.TEXT],
    )
    assert body.body["generationConfig"] == {
        "thinkingConfig": {"thinkingLevel": "low"},
        "mediaResolution": "MEDIA_RESOLUTION_LOW",
        "responseModalities": ["TEXT"],
    }


def test_a_single_host_instead_of_a_list_is_rejected() -> None:
    hosts: Any = "cdn.lan"
    with pytest.raises(InvalidOptionError, match=r"allow_hosts=\['cdn.lan'\]"):
        FetchLimits(allow_hosts=hosts)


class Hasty(ChatGemini):
    """A model with a default of its own."""

    timeout: float | None = 5.0


def test_the_default_timeout_depends_on_the_model_that_is_called() -> None:
    def seconds(chat: ChatGemini, **options: Any) -> float | None:
        return chat.preview("Hi", **options).invocation.timeout_seconds

    chat, argon = ChatGemini(model=GEMINI_3), "gemini-4-argon"
    assert seconds(chat) == 600
    assert seconds(chat, model=argon) == 1200
    assert seconds(ChatGemini(model="mine", model_family=argon)) == 1200
    assert seconds(ChatGemini(model=argon, timeout=600.0)) == 600
    assert seconds(ChatGemini(model=argon, timeout=None)) is None
    assert seconds(ChatGemini(model=argon), timeout=30) == 30
    assert seconds(Hasty(model=argon)) == 5
    changed = ChatGemini(model=argon)
    changed.timeout = 600.0
    assert seconds(changed) == 600
