from __future__ import annotations

from typing import Any

import pytest

from langchain_gemini_tools.testing.fake.rules import check
from tests.unit_tests.testing.fake.requests import CATCH_ALL, GET_WEATHER, ask, refusal_of, refused

NAME_RULE = (
    "Invalid function name. Must start with a letter or an underscore. Must be alphameric "
    "(a-z, A-Z, 0-9), underscores (_), dots (.) or dashes (-), with a maximum length of 64."
)


def declared(*declarations: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"functionDeclarations": list(declarations)}]


@pytest.mark.parametrize("name", ["f", "_f", "a.b-c_d9", "x" * 64])
def test_good_names_pass(name: str) -> None:
    check(ask(tools=declared({"name": name})))


@pytest.mark.parametrize("name", ["", "9f", "get weather", "naïve", "a:b", "x" * 65, "a/b"])
def test_bad_names_are_rejected(name: str) -> None:
    body = refusal_of(ask(tools=declared(GET_WEATHER, {"name": name}))).body
    path = "GenerateContentRequest.tools[0].function_declarations[1].name"
    assert body == refused(f"* {path}: {NAME_RULE}\n")


def test_every_bad_name_is_reported() -> None:
    message = refusal_of(ask(tools=declared({"name": "a b"}, {"name": "c d"}))).message
    assert message.count(NAME_RULE) == 2


def test_a_name_declared_twice_is_rejected_across_tools() -> None:
    tools = [*declared(GET_WEATHER), *declared(GET_WEATHER)]
    assert refusal_of(ask(tools=tools)).body == refused(
        "Duplicate function declaration found: get_weather"
    )


def test_512_functions_pass_and_513_do_not() -> None:
    functions = [{"name": f"f{number}"} for number in range(513)]
    check(ask(tools=declared(*functions[:512])))
    assert refusal_of(ask(tools=declared(*functions))).body == refused(
        "The GenerateContentRequest proto is invalid:\n"
        "  * tools[0].function_declarations: [FIELD_INVALID] "
        "At most 512 function declarations can be specified."
    )


def test_two_schemas_for_the_same_parameters_are_rejected() -> None:
    both = GET_WEATHER | {"parameters": {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}}
    refusal = refusal_of(ask(tools=declared(both)))
    assert refusal.body == refused(CATCH_ALL)
    assert "exclude each other" in refusal.why


def test_behavior_belongs_to_the_live_api() -> None:
    refusal = refusal_of(ask(tools=declared(GET_WEATHER | {"behavior": "BLOCKING"})))
    assert refusal.body == refused(CATCH_ALL)
