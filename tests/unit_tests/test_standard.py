"""LangChain's standard unit suite, and what it leaves open about serialisation."""

from __future__ import annotations

import importlib
import socket
from typing import Any

import pytest
import pytest_socket
from langchain_core.load import dumpd, dumps, load, loads
from langchain_tests.unit_tests import ChatModelUnitTests
from pydantic import BaseModel, SecretStr

from langchain_gemini_tools import ChatGemini, __version__
from langchain_gemini_tools.errors import InvalidToolError

_OURS: dict[str, Any] = {
    "allowed_objects": [ChatGemini],
    "valid_namespaces": ["langchain_gemini_tools"],
}


class TestStandard(ChatModelUnitTests):
    @pytest.fixture(autouse=True)
    def _known_to_load(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let `test_serdes` load us: it asks for `allowed_objects="all"`, which means core's own.

        `langchain_core.load.load` is a function there, hence the import by name.
        """
        module = importlib.import_module("langchain_core.load.load")
        name = tuple(ChatGemini.lc_id())
        monkeypatch.setitem(module.ALL_SERIALIZABLE_MAPPINGS, name, name)
        monkeypatch.setattr(module, "_default_class_paths_cache", {})

    @property
    def chat_model_class(self) -> type[ChatGemini]:
        return ChatGemini

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"model": "gemini-3-flash-preview"}

    @property
    def init_from_env_params(self) -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
        return (
            {"GOOGLE_API_KEY": "key-of-the-environment"},
            self.chat_model_params,
            {"google_api_key": "key-of-the-environment"},
        )


def test_a_model_comes_back_from_its_serialised_form_with_every_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "key-of-the-environment")
    model = ChatGemini(
        model="gemini-2.5-flash",
        api_key=SecretStr("key-of-the-constructor"),
        base_url="https://proxy.example",
        timeout=None,
        max_retries=0,
        temperature=0.0,
        max_tokens=7,
        stop=["END"],
        thinking_budget=0,
        safety_settings={"HARM_CATEGORY_HARASSMENT": "BLOCK_NONE"},
        model_kwargs={"seed": 3},
        on_broken_history="raise",
    )
    loaded = loads(dumps(model), secrets_from_env=True, **_OURS)
    assert type(loaded) is ChatGemini
    assert loaded.model_dump() == model.model_dump() | {
        "google_api_key": SecretStr("key-of-the-environment")
    }


def test_a_serialised_model_contains_no_key_and_no_headers() -> None:
    model = ChatGemini(
        model="gemini-3-flash-preview",
        api_key=SecretStr("a-secret-key"),
        additional_headers={"Authorization": "Bearer a-secret-token"},
        client_args={"headers": {"x": "a-secret-argument"}},
    )
    assert "a-secret" not in dumps(model)
    assert "a-secret" not in repr(model)
    assert dumpd(model)["kwargs"]["google_api_key"] == {
        "lc": 1,
        "type": "secret",
        "id": ["GOOGLE_API_KEY"],
    }


def test_a_serialised_model_is_loaded_only_where_it_is_allowed() -> None:
    with pytest.raises(ValueError, match="not allowed"):
        load(dumpd(ChatGemini(model="gemini-3-flash-preview")), allowed_objects="core")


def test_traces_name_the_call_as_it_is_made() -> None:
    model = ChatGemini(model="models/gemini-2.5-flash", temperature=0.5, max_tokens=9, stop=["."])
    assert model._get_ls_params() == {
        "ls_provider": "google_genai",
        "ls_model_name": "gemini-2.5-flash",
        "ls_model_type": "chat",
        "ls_temperature": 0.5,
        "ls_max_tokens": 9,
        "ls_stop": ["."],
    }
    override = {"model": "gemini-3-pro-preview", "temperature": 0.0, "max_tokens": 3}
    assert model._get_ls_params(stop=["!"], **override) == {
        "ls_provider": "google_genai",
        "ls_model_name": "gemini-3-pro-preview",
        "ls_model_type": "chat",
        "ls_temperature": 0.0,
        "ls_max_tokens": 3,
        "ls_stop": ["!"],
    }


def test_traces_contain_the_version_of_this_package() -> None:
    model = ChatGemini(model="gemini-3-flash-preview")
    assert (model.metadata or {})["lc_versions"]["langchain-gemini-tools"] == __version__


def test_a_tool_that_is_bound_twice_is_declared_once() -> None:
    """`test_bind_tool_pydantic` binds a class and its schema; the API takes no name twice."""

    class Person(BaseModel):
        """Record a person."""

        name: str

    model = ChatGemini(model="gemini-3-flash-preview")
    bound: Any = model.bind_tools([Person, Person.model_json_schema()])
    assert model.preview("Ada", **bound.kwargs).body["tools"] == [
        {
            "functionDeclarations": [
                {
                    "name": "Person",
                    "description": "Record a person.",
                    "parametersJsonSchema": {
                        "type": "object",
                        "properties": {"name": {"type": "string"}},
                        "required": ["name"],
                    },
                }
            ]
        }
    ]


def test_two_different_tools_of_one_name_are_rejected() -> None:
    def look_up(city: str) -> str:
        """Look up a city."""
        return city

    other = {"name": "look_up", "description": "Look up a word.", "parameters": {}}
    with pytest.raises(
        InvalidToolError, match="Tool 'look_up': two different tools have this name"
    ):
        ChatGemini(model="gemini-3-flash-preview").bind_tools([look_up, other])


def test_unit_tests_open_no_sockets() -> None:
    with pytest.raises(pytest_socket.SocketBlockedError), pytest.warns(match="socket"):
        socket.socket(socket.AF_INET)
