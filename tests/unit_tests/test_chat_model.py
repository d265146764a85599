from __future__ import annotations

import copy
import inspect
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from google.genai import types
from langchain_core.load import dumpd, dumps, load
from langchain_core.messages import HumanMessage
from langchain_core.runnables import (
    ConfigurableField,
    RunnableBinding,
    RunnableLambda,
    RunnableSequence,
)
from pydantic import BaseModel, SecretStr, ValidationError

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.errors import InvalidOptionError, InvalidToolError

Json = dict[str, Any]

GEMINI_2 = "gemini-2.5-flash"
GEMINI_3 = "gemini-3-flash-preview"
KEY = "AIzaSyNobodysKeyNobodysKeyNobodys"
SECRET = "hush-hush-hush"


def search(query: str) -> str:
    """Search."""
    return query


# Names

PEER_FIELDS = {
    "google_api_key": KEY,
    "credentials": object(),
    "vertexai": True,
    "project": "p",
    "location": "l",
    "base_url": "http://localhost",
    "additional_headers": {"a": "b"},
    "client_args": {"verify": False},
    "api_version": "v1",
    "model": GEMINI_2,
    "temperature": 0.5,
    "frequency_penalty": 0.1,
    "presence_penalty": 0.1,
    "top_p": 0.5,
    "top_k": 4,
    "max_output_tokens": 9,
    "n": 2,
    "max_retries": 1,
    "timeout": 3.0,
    "response_modalities": ["TEXT"],
    "media_resolution": "MEDIA_RESOLUTION_LOW",
    "image_config": {"aspect_ratio": "1:1"},
    "thinking_budget": 0,
    "include_thoughts": True,
    "safety_settings": {"HARM_CATEGORY_HARASSMENT": "BLOCK_NONE"},
    "seed": 7,
    "labels": {"a": "b"},
    "default_metadata": [("a", "b")],
    "model_kwargs": {"seed": 7},
    "streaming": True,
    "convert_system_message_to_human": True,
    "stop": ["x"],
    "response_mime_type": "application/json",
    "response_schema": {"type": "object"},
    "reasoning_effort": "low",
    "thinking_config": {"include_thoughts": True},
    "cached_content": "cachedContents/1",
    # BaseChatModel's
    "name": "a",
    "cache": False,
    "verbose": False,
    "callbacks": None,
    "tags": ["a"],
    "metadata": {"a": 1},
    "custom_get_token_ids": None,
    "rate_limiter": None,
    "disable_streaming": False,
    "output_version": "v1",
    "profile": None,
}
PEER_ALIASES = {
    "api_key": ("google_api_key", KEY),
    "client_options": ("base_url", "http://localhost"),
    "max_tokens": ("max_output_tokens", 9),
    "candidate_count": ("n", 2),
    "retries": ("max_retries", 1),
    "request_timeout": ("timeout", 3.0),
    "default_metadata_input": ("default_metadata", [("a", "b")]),
    "stop_sequences": ("stop", ["x"]),
    "thinking_level": ("reasoning_effort", "low"),
}


@pytest.mark.parametrize("name", PEER_FIELDS)
def test_the_names_of_chat_google_generative_ai_are_taken(name: str) -> None:
    arguments: Json = {"model": GEMINI_2, name: PEER_FIELDS[name]}
    found = getattr(ChatGemini(**arguments), name)
    if isinstance(found, SecretStr):
        found = found.get_secret_value()
    if name not in ("metadata", "profile"):  # core adds to these
        assert found == PEER_FIELDS[name]


@pytest.mark.parametrize("alias", PEER_ALIASES)
def test_its_aliases_are_taken(alias: str) -> None:
    field, value = PEER_ALIASES[alias]
    options: Json = {alias: value}
    found = getattr(ChatGemini(model=GEMINI_2, **options), field)
    assert (found.get_secret_value() if isinstance(found, SecretStr) else found) == value


def test_names_of_other_integrations_are_taken() -> None:
    options: Json = {"model_name": GEMINI_3, "gemini_api_key": KEY, "max_completion_tokens": 9}
    chat = ChatGemini(**options)
    assert (chat.model, chat.max_output_tokens) == (GEMINI_3, 9)
    assert chat.google_api_key == SecretStr(KEY)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("temprature", "temperature"),
        ("max_token", "max_tokens"),
        ("topk", "top_k"),
        ("thinkingbudget", "thinking_budget"),
        ("safety_setting", "safety_settings"),
        ("google_apikey", "google_api_key"),
    ],
)
def test_an_unknown_argument_suggests_the_nearest_name(given: str, meant: str) -> None:
    options: Json = {given: 1}
    with pytest.raises(ValueError, match=f"no option '{given}'. Did you mean '{meant}'?"):
        ChatGemini(model=GEMINI_3, **options)


def test_an_unknown_option_of_a_call_suggests_the_nearest_name() -> None:
    with pytest.raises(InvalidOptionError, match=r"no option 'temprature'\. Did you mean 'temp"):
        ChatGemini(model=GEMINI_3).preview("Hi", temprature=1)


@pytest.mark.parametrize("name", ["api_key", "project"])
def test_an_argument_of_the_constructor_is_none_of_a_call(name: str) -> None:
    options: Json = {name: KEY}
    words = f"'{name}' can only be set on the model, not per call."
    with pytest.raises(InvalidOptionError) as error:
        ChatGemini(model=GEMINI_3).preview("Hi", **options)
    assert str(error.value) == words
    with pytest.raises(ValidationError, match="can only be set on the model") as early:
        ChatGemini(model=GEMINI_3, model_kwargs=options)
    assert KEY not in str(early.value)


def test_an_argument_given_twice_must_agree() -> None:
    options: Json = {"max_tokens": 1, "max_output_tokens": 2}
    with pytest.raises(ValueError, match="'max_tokens' and 'max_output_tokens' are names of"):
        ChatGemini(model=GEMINI_3, **options)


def test_a_model_is_needed_and_values_are_checked() -> None:
    missing: Json = {}
    with pytest.raises(ValidationError):
        ChatGemini(**missing)
    for wrong in ({"temperature": 3}, {"top_p": 2}, {"top_k": 0}, {"max_retries": -1}, {"n": 0}):
        options: Json = dict(wrong)
        with pytest.raises(ValidationError):
            ChatGemini(model=GEMINI_3, **options)


# Options of a call

OVERRIDES = [
    ("temperature", 0.1, 0.2, {"generationConfig": {"temperature": 0.2}}),
    ("top_p", 0.1, 0.2, {"generationConfig": {"topP": 0.2}}),
    ("top_k", 1, 2, {"generationConfig": {"topK": 2}}),
    ("max_output_tokens", 1, 2, {"generationConfig": {"maxOutputTokens": 2}}),
    ("max_tokens", 1, 2, {"generationConfig": {"maxOutputTokens": 2}}),
    ("n", 3, 2, {"generationConfig": {"candidateCount": 2}}),
    ("candidate_count", 3, 2, {"generationConfig": {"candidateCount": 2}}),
    ("stop", ["a"], ["b"], {"generationConfig": {"stopSequences": ["b"]}}),
    ("stop_sequences", ["a"], ["b"], {"generationConfig": {"stopSequences": ["b"]}}),
    ("seed", 1, 2, {"generationConfig": {"seed": 2}}),
    ("presence_penalty", 0.1, 0.2, {"generationConfig": {"presencePenalty": 0.2}}),
    ("frequency_penalty", 0.1, 0.2, {"generationConfig": {"frequencyPenalty": 0.2}}),
    ("response_logprobs", False, True, {"generationConfig": {"responseLogprobs": True}}),
    ("logprobs", 1, 2, {"generationConfig": {"logprobs": 2, "responseLogprobs": True}}),
    ("thinking_budget", 1, 2, {"generationConfig": {"thinkingConfig": {"thinkingBudget": 2}}}),
    (
        "reasoning_effort",
        "low",
        "high",
        {"generationConfig": {"thinkingConfig": {"thinkingBudget": 24576}}},
    ),
    (
        "thinking_level",
        "low",
        "high",
        {"generationConfig": {"thinkingConfig": {"thinkingBudget": 24576}}},
    ),
    (
        "include_thoughts",
        False,
        True,
        {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}},
    ),
    (
        "thinking_config",
        {"thinkingBudget": 1},
        {"thinkingBudget": 2},
        {"generationConfig": {"thinkingConfig": {"thinkingBudget": 2}}},
    ),
    (
        "response_mime_type",
        "text/plain",
        "application/json",
        {"generationConfig": {"responseMimeType": "application/json"}},
    ),
    (
        "response_schema",
        {"type": "object"},
        {"type": "string"},
        {
            "generationConfig": {
                "responseMimeType": "application/json",
                "responseJsonSchema": {"type": "string"},
            }
        },
    ),
    (
        "response_modalities",
        ["TEXT"],
        ["IMAGE"],
        {"generationConfig": {"responseModalities": ["IMAGE"]}},
    ),
    (
        "media_resolution",
        "low",
        "high",
        {"generationConfig": {"mediaResolution": "MEDIA_RESOLUTION_HIGH"}},
    ),
    (
        "image_config",
        {"aspectRatio": "1:1"},
        {"aspectRatio": "3:4"},
        {"generationConfig": {"imageConfig": {"aspectRatio": "3:4"}}},
    ),
    (
        "speech_config",
        {"languageCode": "en"},
        {"languageCode": "no"},
        {"generationConfig": {"speechConfig": {"languageCode": "no"}}},
    ),
    ("audio_timestamp", False, True, {"generationConfig": {"audioTimestamp": True}}),
    (
        "safety_settings",
        {"A": "B"},
        {"C": "D"},
        {"safetySettings": [{"category": "C", "threshold": "D"}]},
    ),
    ("cached_content", "a", "b", {"cachedContent": "b"}),
    ("extra_body", {"a": 1}, {"b": 2}, {"b": 2}),
]


@pytest.mark.parametrize(
    ("option", "first", "second", "fields"), OVERRIDES, ids=[row[0] for row in OVERRIDES]
)
def test_a_call_overrides_the_constructor(
    option: str, first: Any, second: Any, fields: Json
) -> None:
    expected = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}], **fields}
    arguments: Json = {option: first, "vertexai": option == "audio_timestamp"}
    chat = ChatGemini(model=GEMINI_2, **arguments)
    assert chat.preview("Hi", **{option: second}).body == expected
    by_keywords: Json = {"model_kwargs": {option: second}}
    assert ChatGemini(model=GEMINI_2, **arguments, **by_keywords).preview("Hi").body == expected


def test_none_resets_what_the_constructor_set() -> None:
    chat = ChatGemini(model=GEMINI_3, temperature=0.5, stop=["a"])
    assert "generationConfig" not in chat.preview("Hi", temperature=None, stop_sequences=None).body


def test_the_model_of_a_call_brings_its_own_rules() -> None:
    chat = ChatGemini(model=GEMINI_3, reasoning_effort="low")
    preview = chat.preview("Hi", model="models/gemini-2.5-pro")
    assert preview.context.model == "models/gemini-2.5-pro"
    assert preview.body["generationConfig"] == {"thinkingConfig": {"thinkingBudget": 1024}}


def test_a_model_family_replaces_a_name_that_shows_none() -> None:
    options: Json = {"model_family": GEMINI_2}
    chat = ChatGemini(model="tunedModels/mine", reasoning_effort="low", **options)
    assert chat.preview("Hi").body["generationConfig"] == {
        "thinkingConfig": {"thinkingBudget": 1024}
    }


@pytest.mark.parametrize(
    ("option", "value"), [("timeout", 1.5), ("request_timeout", 1.5), ("max_retries", 0)]
)
def test_limits_of_a_call_are_not_part_of_the_body(option: str, value: Any) -> None:
    chat = ChatGemini(model=GEMINI_3)
    assert chat.preview("Hi", **{option: value}).body == chat.preview("Hi").body


def test_limits_may_be_options_of_every_call() -> None:
    options: Json = {"model_kwargs": {"request_timeout": 1.5, "retries": 2}}
    chat = ChatGemini(model=GEMINI_3, timeout=9.0, max_retries=9, **options)
    found = [
        (call.timeout_seconds, call.max_retries, call.max_retry_delay_seconds)
        for call in (
            chat.preview("Hi").invocation,
            chat.preview("Hi", timeout=None).invocation,
            chat.preview("Hi", max_retries=0).invocation,
            chat.preview("Hi", max_retries=None).invocation,
            chat.preview("Hi", max_retry_delay=5.0).invocation,
        )
    ]
    assert found == [(1.5, 2, 60.0), (None, 2, 60.0), (1.5, 0, 60.0), (1.5, 9, 60.0), (1.5, 2, 5.0)]


def test_preview_accepts_what_invoke_accepts() -> None:
    chat = ChatGemini(model=GEMINI_3)
    texts = [
        chat.preview(given).body["contents"]
        for given in (
            "Hi",
            [("human", "Hi")],
            [HumanMessage("Hi")],
            [{"role": "user", "content": "Hi"}],
        )
    ]
    assert texts == [[{"role": "user", "parts": [{"text": "Hi"}]}]] * 4


def test_bound_tools_reach_the_body() -> None:
    chat = ChatGemini(model=GEMINI_3)
    binding = chat.bind_tools([search], tool_choice="search", temperature=0.5)
    assert isinstance(binding, RunnableBinding)
    body = chat.preview("Hi", **binding.kwargs).body
    (declared,) = body["tools"][0]["functionDeclarations"]
    assert declared["name"] == "search"
    assert body["toolConfig"] == {
        "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["search"]}
    }
    assert body["generationConfig"] == {"temperature": 0.5}


# Nothing is loaded early

SCRIPT = """
import sys
from langchain_gemini_tools import ChatGemini

def search(query: str) -> str:
    "Search."

chat = ChatGemini(model="gemini-3-flash-preview")
binding = chat.bind_tools([search, {"google_search": {}}], tool_choice="search")
chat.preview("Hi", **binding.kwargs)
chat.with_structured_output({"title": "T", "type": "object", "properties": {"a": {}}})
print([name for name in sys.modules if name.startswith(("google.genai", "google.auth"))])
"""


def test_nothing_is_loaded_before_the_first_call() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "[]"


def test_no_key_is_needed_before_the_first_call() -> None:
    assert ChatGemini(model=GEMINI_3).google_api_key is None


@pytest.mark.parametrize("variable", ["GOOGLE_API_KEY", "GEMINI_API_KEY"])
def test_the_key_is_read_from_the_environment(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, KEY)
    assert ChatGemini(model=GEMINI_3).google_api_key == SecretStr(KEY)


# Secrets


def secretive() -> ChatGemini:
    options: Json = {
        "additional_headers": {"authorization": SECRET},
        "default_metadata": [("x-token", SECRET)],
        "client_args": {"headers": {"cookie": SECRET}},
        "async_client_args": {"headers": {"cookie": SECRET}},
        "credentials": SimpleNamespace(token=SECRET),
    }
    return ChatGemini(model=GEMINI_3, api_key=KEY, **options)


@pytest.mark.parametrize(
    "show",
    [
        pytest.param(repr, id="repr"),
        pytest.param(str, id="str"),
        pytest.param(dumps, id="dumps"),
        pytest.param(lambda chat: str(chat.model_dump()), id="model_dump"),
        pytest.param(lambda chat: chat.model_dump_json(), id="model_dump_json"),
        pytest.param(lambda chat: str(chat._identifying_params), id="identifying params"),
        pytest.param(lambda chat: str(chat._get_ls_params()), id="langsmith"),
        pytest.param(lambda chat: repr(chat.bind_tools([search])), id="a binding"),
        pytest.param(lambda chat: str(chat.preview("Hi")), id="preview"),
    ],
)
def test_secrets_are_not_shown(show: Any) -> None:
    shown = show(secretive())
    assert KEY not in shown
    assert SECRET not in shown


@pytest.mark.parametrize(
    "wrong", [{"temprature": 1}, {"temperature": 9}, {"max_tokens": 1, "max_output_tokens": 2}]
)
def test_an_error_about_an_argument_does_not_show_the_others(wrong: Json) -> None:
    with pytest.raises(ValidationError) as error:
        ChatGemini(model=GEMINI_3, api_key=KEY, additional_headers={"a": SECRET}, **wrong)
    assert SECRET not in str(error.value)
    assert KEY not in str(error.value)
    assert "hush" not in str(error.value)  # not shortened either


# Copies


def used() -> ChatGemini:
    """A model that has its client already."""
    chat = ChatGemini(model=GEMINI_3, api_key=KEY, temperature=0.5)
    assert chat.client is chat.client
    return chat


@pytest.mark.parametrize("make", [lambda: ChatGemini(model=GEMINI_3, api_key=KEY), used])
@pytest.mark.parametrize(
    "double",
    [
        pytest.param(copy.copy, id="copy"),
        pytest.param(copy.deepcopy, id="deepcopy"),
        pytest.param(lambda chat: chat.model_copy(), id="model_copy"),
    ],
)
def test_a_copy_is_the_same_model(make: Any, double: Any) -> None:
    chat = make()
    copied = double(chat)
    assert copied == chat or copied.model_dump() == chat.model_dump()
    assert copied.google_api_key.get_secret_value() == KEY
    assert copied.preview("Hi").body == chat.preview("Hi").body


def test_a_changed_copy_does_not_use_the_old_client() -> None:
    chat = used()
    changed = chat.model_copy(update={"google_api_key": SecretStr("another key, quite long")})
    assert changed.client is not chat.client
    assert changed.google_api_key == SecretStr("another key, quite long")
    assert chat.google_api_key == SecretStr(KEY)


def test_a_key_that_is_set_later_is_as_secret_as_one_that_was_given() -> None:
    chat = ChatGemini(model=GEMINI_3)
    copies = [chat.model_copy(update={name: KEY}) for name in ("google_api_key", "api_key")]
    chat.google_api_key = KEY  # type: ignore[assignment]
    for changed in (chat, *copies):
        assert KEY not in f"{changed} {changed!r} {dumps(changed)}"
        assert changed.google_api_key == SecretStr(KEY)


def test_a_copy_with_a_field_that_does_not_exist_is_rejected() -> None:
    with pytest.raises(InvalidOptionError, match=r"no option 'temprature'\. Did you mean 'temp"):
        ChatGemini(model=GEMINI_3).model_copy(update={"temprature": 1})


def test_a_changed_copy_leaves_the_original_alone() -> None:
    chat = ChatGemini(model=GEMINI_3, temperature=0.5)
    changed = chat.model_copy(update={"temperature": 0.1, "model": GEMINI_2})
    assert changed.preview("Hi").context.model == GEMINI_2
    assert changed.preview("Hi").body["generationConfig"] == {"temperature": 0.1}
    assert chat.preview("Hi").body["generationConfig"] == {"temperature": 0.5}


@pytest.mark.filterwarnings("ignore::langchain_core._api.beta_decorator.LangChainBetaWarning")
def test_a_model_survives_serialisation() -> None:
    chat = ChatGemini(model=GEMINI_3, api_key=KEY, temperature=0.5, max_tokens=9)
    restored = load(
        dumpd(chat),
        allowed_objects=[ChatGemini],
        valid_namespaces=["langchain_gemini_tools"],
        secrets_map={"GOOGLE_API_KEY": KEY},
    )
    assert isinstance(restored, ChatGemini)
    assert restored.google_api_key == SecretStr(KEY)
    assert restored.preview("Hi").body == chat.preview("Hi").body


# What tracers receive


def test_tracers_get_the_model_and_sampling_of_the_call() -> None:
    chat = ChatGemini(model=f"models/{GEMINI_3}", temperature=0.5, max_tokens=9)
    assert chat._get_ls_params() == {
        "ls_provider": "google_genai",
        "ls_model_name": GEMINI_3,
        "ls_model_type": "chat",
        "ls_temperature": 0.5,
        "ls_max_tokens": 9,
    }
    assert chat._get_ls_params(["x"], model=GEMINI_2, temperature=0.0, max_tokens=1) == {
        "ls_provider": "google_genai",
        "ls_model_name": GEMINI_2,
        "ls_model_type": "chat",
        "ls_temperature": 0.0,
        "ls_max_tokens": 1,
        "ls_stop": ["x"],
    }


# Which API


@pytest.mark.parametrize(
    ("options", "variables", "expected"),
    [
        pytest.param({}, {}, False, id="nothing said"),
        pytest.param({"vertexai": True}, {}, True, id="said"),
        pytest.param({"project": "p"}, {}, True, id="a project and no key"),
        pytest.param({"project": "p", "api_key": KEY}, {}, True, id="a project and a key"),
        pytest.param({}, {"GOOGLE_GENAI_USE_VERTEXAI": "true"}, True, id="the environment"),
        pytest.param(
            {"vertexai": False}, {"GOOGLE_GENAI_USE_VERTEXAI": "1"}, False, id="said otherwise"
        ),
        pytest.param(
            {},
            {"GOOGLE_GENAI_USE_ENTERPRISE": "false", "GOOGLE_GENAI_USE_VERTEXAI": "true"},
            False,
            id="the newer variable wins",
        ),
        pytest.param(
            {"project": "p"}, {"GOOGLE_GENAI_USE_VERTEXAI": "False"}, False, id="said to be off"
        ),
        pytest.param(
            {"project": "p"}, {"GOOGLE_GENAI_USE_VERTEXAI": ""}, True, id="an empty variable"
        ),
        pytest.param(
            {"project": "p"}, {"GOOGLE_GENAI_USE_VERTEXAI": "maybe"}, True, id="an unknown value"
        ),
        pytest.param(
            {},
            {"GOOGLE_GENAI_USE_ENTERPRISE": "", "GOOGLE_GENAI_USE_VERTEXAI": "true"},
            True,
            id="the newer variable is empty",
        ),
    ],
)
def test_vertex_is_chosen_by_the_project_unless_it_is_said(
    options: Json, variables: dict[str, str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert ChatGemini(model=GEMINI_3, **options).uses_vertexai is expected


@pytest.mark.parametrize(
    ("field", "option", "sent"),
    [
        ({"thinking_budget": 100}, {"thinking_level": "low"}, {"thinkingLevel": "low"}),
        ({"thinking_level": "low"}, {"thinking_budget": 100}, {"thinkingBudget": 100}),
    ],
    ids=["level", "budget"],
)
def test_a_calls_way_to_set_the_effort_beats_the_constructors(
    field: dict[str, Any], option: dict[str, Any], sent: dict[str, Any]
) -> None:
    model = ChatGemini(model="gemini-3-flash-preview", **field)
    body = model.preview("Hello", **option).body
    assert body["generationConfig"] == {"thinkingConfig": sent}


def test_a_schema_without_words_is_bound_without_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = ChatGemini(model="gemini-3-flash-preview")
    model.with_structured_output({"title": "City", "properties": {"name": {"type": "string"}}})
    assert caplog.records == []


def test_what_is_not_a_schema_is_rejected_before_a_call() -> None:
    model = ChatGemini(model="gemini-3-flash-preview")
    with pytest.raises(InvalidToolError, match="is not a schema"):
        model.with_structured_output(len, method="json_schema")


class Town(BaseModel):
    name: str
    people: int = 0


class Sights(BaseModel):
    found: list[str] = []


@pytest.mark.parametrize("method", [None, "function_calling", "json_schema", "json_mode"])
@pytest.mark.parametrize("given", [Town(name="Oslo"), Sights()], ids=["with a name", "without"])
def test_an_instance_instead_of_its_class_is_rejected_as_a_schema(given: Any, method: Any) -> None:
    model = ChatGemini(model=GEMINI_3)
    with pytest.raises(InvalidToolError, match=f"Pass the class {type(given).__name__} itself"):
        model.with_structured_output(given, method)


@pytest.mark.parametrize("given", [Town(name="Oslo"), Sights()], ids=["with a name", "without"])
def test_an_instance_instead_of_its_class_is_rejected_as_a_tool(given: Any) -> None:
    with pytest.raises(InvalidToolError, match=f"Pass the class {type(given).__name__} itself"):
        ChatGemini(model=GEMINI_3).bind_tools([given])


def test_a_chain_with_a_name_is_not_a_tool_yet() -> None:
    chain: Any = RunnableSequence(RunnableLambda(str), RunnableLambda(str), name="f")
    with pytest.raises(InvalidToolError, match="as_tool"):
        ChatGemini(model=GEMINI_3).bind_tools([chain])


@pytest.mark.parametrize("method", ["json_schema", "json_mode"])
def test_a_schema_of_the_sdk_is_an_instance_that_is_taken(method: Any) -> None:
    text = types.Schema(type=types.Type.STRING)
    schema = types.Schema(type=types.Type.OBJECT, properties={"a": text})
    chain: Any = ChatGemini(model=GEMINI_3).with_structured_output(schema, method)
    assert set(chain.first.kwargs["response_schema"]["properties"]) == {"a"}


# Calls that fit their schema

SEARCH_ONLY = {"mode": "ANY", "allowedFunctionNames": ["search"]}


def validated(query: str) -> str:
    """A tool whose name is a mode."""
    return query


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        pytest.param({}, {"mode": "VALIDATED"}, id="nothing"),
        pytest.param({"tool_choice": "auto"}, {"mode": "VALIDATED"}, id="auto"),
        pytest.param({"tool_choice": {"type": "auto"}}, {"mode": "VALIDATED"}, id="auto, a dict"),
        pytest.param({"tool_choice": "any"}, {"mode": "ANY"}, id="any"),
        pytest.param({"tool_choice": "none"}, {"mode": "NONE"}, id="none"),
        pytest.param({"tool_choice": ["search"]}, SEARCH_ONLY, id="names"),
        pytest.param(
            {"tool_choice": {"type": "function", "function": {"name": "search"}}},
            SEARCH_ONLY,
            id="a function as OpenAI writes it",
        ),
        pytest.param(
            {"tool_config": {"function_calling_config": {"mode": "ANY"}}},
            {"mode": "ANY"},
            id="any, in a config",
        ),
        pytest.param(
            {"tool_config": {"function_calling_config": {"mode": "AUTO", "new_field": 1}}},
            {"mode": "VALIDATED", "newField": 1},
            id="auto, in a config",
        ),
    ],
)
@pytest.mark.parametrize("place", ["bound", "in model_kwargs"])
def test_strict_validates_calls_where_no_other_mode_is_chosen(
    given: Json, sent: Json, place: str
) -> None:
    bound, every = (given, {}) if place == "bound" else ({}, given)
    fields: Json = {"model_kwargs": every}
    chat = ChatGemini(model=GEMINI_3, **fields)
    binding: Any = chat.bind_tools([search, validated], strict=True, **bound)
    body = chat.preview("Hi", **binding.kwargs).body
    assert body["toolConfig"]["functionCallingConfig"] == sent


def test_a_call_may_choose_otherwise_than_a_strict_binding() -> None:
    config: Json = {"tool_config": {"function_calling_config": {"mode": "AUTO"}}}
    chat = ChatGemini(model=GEMINI_3)
    binding: Any = chat.bind_tools([search], strict=True, **config)
    body = chat.preview("Hi", **{**binding.kwargs, "tool_choice": "any"}).body
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "ANY"}}


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"parallel_tool_calls": False}, "parallel_tool_calls=False"),
        (
            {"tool_choice": {"type": "any", "disable_parallel_tool_use": True}},
            "disable_parallel_tool_use",
        ),
    ],
)
def test_a_limit_to_one_call_at_a_time_is_reported(given: Json, named: str) -> None:
    with pytest.warns(UserWarning, match=f"^{named} has no effect"):
        ChatGemini(model=GEMINI_3).bind_tools([search], **given)


# A forced call

CITY: Json = {"title": "City", "type": "object", "properties": {"name": {"type": "string"}}}


@pytest.mark.parametrize("option", [{"tool_choice": "any"}, {"tools": [search]}])
def test_a_forced_call_rejects_other_tools(option: Json) -> None:
    with pytest.raises(InvalidOptionError, match=f"{next(iter(option))}.*json_schema"):
        ChatGemini(model=GEMINI_3).with_structured_output(CITY, **option)


def test_json_output_can_be_combined_with_tools() -> None:
    chat = ChatGemini(model=GEMINI_3)
    chain: Any = chat.with_structured_output(CITY, "json_schema", tools=[search])
    assert {"tools", "generationConfig"} <= chat.preview("Hi", **chain.first.kwargs).body.keys()


def test_json_is_the_default_beside_tools_of_gemini() -> None:
    binding = ChatGemini(model=GEMINI_3).bind_tools([{"google_search": {}}])
    assert binding.with_structured_output(CITY).preview("Hi").body == {
        "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
        "tools": [{"googleSearch": {}}],
        "generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": CITY},
    }


@pytest.mark.parametrize(
    ("model", "tool"),
    [(GEMINI_3, search), (GEMINI_2, {"google_search": {}})],
    ids=["function", "built-in tool"],
)
def test_a_forced_call_is_not_combined_with_bound_tools(model: str, tool: Any) -> None:
    binding = ChatGemini(model=model).bind_tools([tool])
    with pytest.raises(InvalidOptionError, match="tools cannot be combined"):
        binding.with_structured_output(CITY)


@pytest.mark.parametrize(
    "fields",
    [
        {"response_mime_type": "application/json"},
        {"response_schema": CITY},
        {"model_kwargs": {"response_format": {"type": "json_object"}}},
        {"model_kwargs": {"generation_config": {"responseMimeType": "application/json"}}},
    ],
)
def test_a_forced_call_replaces_json_output(fields: Json) -> None:
    chat = ChatGemini(model=GEMINI_2, **fields)
    chain: Any = chat.with_structured_output(CITY)
    body = chat.preview("Hi", **chain.first.kwargs).body
    assert "generationConfig" not in body
    assert body["toolConfig"]["functionCallingConfig"]["allowedFunctionNames"] == ["City"]


# The profile

GEMMA = "gemma-3-27b-it"


def by_assignment(chat: ChatGemini) -> ChatGemini:
    chat.model = GEMMA
    return chat


def by_configuration(chat: ChatGemini) -> Any:
    chosen: Any = chat.configurable_fields(model=ConfigurableField(id="model"))
    return chosen.prepare({"configurable": {"model": GEMMA}})[0]


CHANGES = [
    pytest.param(lambda chat: chat.model_copy(update={"model": GEMMA}), id="model_copy"),
    pytest.param(by_assignment, id="assignment"),
    pytest.param(by_configuration, id="configurable_fields"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_another_model_brings_its_own_profile(change: Any) -> None:
    changed = change(ChatGemini(model=GEMINI_3))
    assert changed.profile == ChatGemini(model=GEMMA).profile


@pytest.mark.parametrize("change", CHANGES)
def test_a_profile_that_was_given_stays(change: Any) -> None:
    given: Json = {"profile": {"max_input_tokens": 5}}
    assert change(ChatGemini(model=GEMINI_3, **given)).profile == {"max_input_tokens": 5}


def test_the_signatures_that_langchain_reads_in_every_call_are_stored() -> None:
    names = ("_generate", "_agenerate")
    read = [inspect.signature(getattr(ChatGemini, name)) for name in names]
    assert all(read[i] is inspect.signature(getattr(ChatGemini, names[i])) for i in range(2))
    assert [[*each.parameters] for each in read] == [
        ["self", "messages", "stop", "run_manager", "kwargs"]
    ] * 2
