"""What the environment variables say."""

from __future__ import annotations

import pytest

from langchain_gemini_tools.facts import environment
from langchain_gemini_tools.facts.environment import (
    delays_are_off,
    environment_gateway,
    environment_keys,
    environment_secrets,
    environment_uses_vertexai,
)
from tests.figures import modules_with

GATEWAY = "https://gateway.smith.langchain.com/gemini"


def set_variables(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("variables", "chosen"),
    [
        ({}, None),
        ({"GOOGLE_GENAI_USE_VERTEXAI": "true"}, True),
        ({"GOOGLE_GENAI_USE_VERTEXAI": "1"}, True),
        ({"GOOGLE_GENAI_USE_VERTEXAI": "False"}, False),
        ({"GOOGLE_GENAI_USE_VERTEXAI": ""}, None),
        ({"GOOGLE_GENAI_USE_VERTEXAI": "perhaps"}, None),
        ({"GOOGLE_GENAI_USE_ENTERPRISE": "yes", "GOOGLE_GENAI_USE_VERTEXAI": "no"}, True),
    ],
)
def test_the_environment_may_choose_the_backend(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], chosen: bool | None
) -> None:
    set_variables(monkeypatch, variables)
    assert environment_uses_vertexai() is chosen


@pytest.mark.parametrize(
    ("variables", "gateway"),
    [
        ({}, None),
        ({"LANGSMITH_GATEWAY": "false", "LANGSMITH_API_KEY": "a"}, None),
        ({"LANGSMITH_GATEWAY": "true"}, (GATEWAY, None)),
        ({"LANGSMITH_GATEWAY": "true", "LANGSMITH_API_KEY": "a"}, (GATEWAY, "a")),
        (
            {
                "LANGSMITH_GATEWAY": "https://gateway.example/",
                "LANGSMITH_API_KEY": "a",
                "LANGSMITH_GATEWAY_API_KEY": "b",
            },
            ("https://gateway.example/gemini", "b"),
        ),
        ({"LANGSMITH_GATEWAY": "true", "GOOGLE_GEMINI_BASE_URL": "https://a.example"}, None),
    ],
)
def test_the_environment_may_choose_a_gateway(
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    gateway: tuple[str, str | None] | None,
) -> None:
    set_variables(monkeypatch, variables)
    assert environment_gateway() == gateway


def test_the_key_of_a_gateway_is_a_secret_but_not_a_key_of_gemini(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    variables = {"GEMINI_API_KEY": "a", "LANGSMITH_GATEWAY": "1", "LANGSMITH_API_KEY": "b"}
    set_variables(monkeypatch, variables)
    assert (environment_keys(), environment_secrets()) == (["a"], ["a", "b"])


def test_only_off_turns_delays_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not delays_are_off()
    monkeypatch.setenv("GEMINI_RETRY_DELAYS", "on")
    assert not delays_are_off()
    monkeypatch.setenv("GEMINI_RETRY_DELAYS", "off")
    assert delays_are_off()


def test_no_other_module_names_an_environment_variable() -> None:
    named = [value for name, value in vars(environment).items() if "_VARIABLE" in name]
    names = [name for each in named for name in ([each] if isinstance(each, str) else each)]
    assert "GOOGLE_CLOUD_PROJECT" in names
    assert modules_with(*names) == {"facts/environment.py"}
