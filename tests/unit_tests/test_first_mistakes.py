"""What a new user gets wrong first is explained."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from google.genai import types
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from pydantic import BaseModel, ValidationError

from langchain_gemini_tools import ChatGemini, check_tools
from langchain_gemini_tools.errors import InvalidInputError, InvalidToolError

if TYPE_CHECKING:
    from collections.abc import Callable


class Search(BaseModel):
    """Search the web."""

    query: str


@tool
def look_up(query: str) -> str:
    """Look up."""
    return query


def test_the_name_of_the_model_is_a_keyword() -> None:
    make: Any = ChatGemini
    with pytest.raises(TypeError, match=re.escape("use ChatGemini(model='gemini-3.8-flash')")):
        make("gemini-3.8-flash")


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (print, "the single tool 'print'"),
        (look_up, "the single tool 'look_up'"),
        (Search, "the single tool 'Search'"),
        ("search", "of type str"),
        ({"name": "search"}, "of type dict"),
        (types.Tool(google_search=types.GoogleSearch()), "of type Tool"),
        (3, "of type int"),
    ],
)
def test_tools_are_a_list(given: Any, shown: str) -> None:
    with pytest.raises(
        InvalidToolError,
        match=re.escape(f"Tools must be a list, not {shown}: use bind_tools([...])."),
    ):
        ChatGemini(model="gemini-3.8-flash").bind_tools(given)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"base_url": "localhost:8080"}, "base_url must start with 'https://' or 'http://'"),
        ({"base_url": "gateway.example.com"}, "base_url must start with 'https://' or 'http://'"),
        ({"base_url": {"api_endpoint": "gateway.example.com"}}, "base_url must start with"),
        ({"credentials": "my-key.json"}, "not str. For a service account file, use"),
        ({"credentials": {"private_key": "my-key"}}, "not dict. For a service account file, use"),
    ],
)
def test_an_argument_that_could_not_work_is_rejected_by_the_constructor(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValidationError, match=re.escape(message)) as error:
        ChatGemini(model="gemini-3.8-flash", **arguments)
    assert "my-key" not in str(error.value)


class Plain:
    """A class that Pydantic does not describe."""


def connect(to: Plain) -> str:
    """Connect."""
    return str(to)


MODEL = ChatGemini(model="gemini-3.8-flash")
PNG = {"type": "image", "base64": "aGVsbG8=", "mime_type": "png"}
FIELDS = {"name": "string", "population": "integer"}
NO_SCHEMA = (
    "is a function named 'string' without parameters, not a schema. Describe the fields of the "
    "response under 'properties'."
)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (
            lambda: MODEL.preview([HumanMessage([PNG])]),
            "A block of type 'image' has the MIME type 'png', which is not valid. Use a type such "
            'as "image/png".',
        ),
        (lambda: MODEL.with_structured_output(FIELDS), f"{FIELDS} {NO_SCHEMA}"),
        (
            lambda: MODEL.with_structured_output({"name": "string"}, method="json_schema"),
            "{'name': 'string'} " + NO_SCHEMA,
        ),
        (
            lambda: MODEL.with_structured_output(Plain),
            f"{Plain} is not a schema: Unable to generate pydantic-core schema for {Plain}. Use a "
            "Pydantic class, a TypedDict, a dataclass or a JSON schema.",
        ),
        (
            lambda: MODEL.bind_tools([connect]),
            "Parameter 'to' of connect has no JSON schema: Cannot generate a JsonSchema for "
            f"core_schema.IsInstanceSchema ({Plain}). Use types with a JSON form, or mark what the "
            "model should not see with InjectedToolArg.",
        ),
        (
            lambda: MODEL.with_structured_output(list[int], method="function_calling"),
            "list[int] is not an object, so it cannot be the arguments of a tool. Use "
            "method='json_schema'.",
        ),
    ],
)
def test_a_mistake_is_explained_in_a_sentence_with_a_way_out(
    act: Callable[[], object], message: str
) -> None:
    with pytest.raises(InvalidInputError) as error:
        act()
    assert str(error.value) == message


LONG: Any = {f"field_{number}": "string" for number in range(1000)}


@pytest.mark.parametrize(
    ("act", "way_out"),
    [
        (lambda: MODEL.bind_tools([MODEL]), "is not a tool. Pass a function"),
        (lambda: MODEL.bind_tools([{"name": "f", "parameters": {"type": LONG}}]), "'type' must be"),
        (lambda: MODEL.with_structured_output(LONG, "json_schema"), "is not a schema: it has no"),
        (lambda: MODEL.with_structured_output([LONG]), "is not a schema. Pass a dict"),
        (lambda: MODEL.with_structured_output(MODEL), "is an instance of ChatGemini"),
    ],
)
def test_the_explanation_does_not_quote_a_long_value_in_full(
    act: Callable[[], object], way_out: str
) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(way_out)) as error:
        act()
    assert len(str(error.value)) < 500


def test_structured_output_without_a_schema_is_explained() -> None:
    anything: Any = None
    with pytest.raises(ValueError, match=r"with_structured_output needs a schema\. Pass one, or"):
        MODEL.with_structured_output(anything)


def test_check_tools_needs_the_name_of_a_model() -> None:
    model: Any = MODEL
    with pytest.raises(TypeError, match="model must be the name of a model, not ChatGemini"):
        check_tools([look_up], model=model)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "Gemini 3.8 Flash",
            "'Gemini 3.8 Flash' is not a valid model name. Use a name such as 'gemini-3.8-flash': "
            "letters, digits, '.', '_', '-', '@', ':' and single slashes",
        ),
        (
            "google_genai:gemini-3.8-flash",
            "'google_genai:gemini-3.8-flash' begins with the name of a provider, as "
            "init_chat_model expects it. Use model='gemini-3.8-flash'",
        ),
    ],
)
def test_a_wrong_name_of_a_model_is_explained_with_a_right_one(name: str, message: str) -> None:
    with pytest.raises(ValidationError) as error:
        ChatGemini(model=name)
    assert [each["msg"] for each in error.value.errors()] == [f"Value error, {message}"]


@pytest.mark.parametrize("family", ["llama", "gemini"])
def test_a_family_without_rules_is_rejected(family: str) -> None:
    with pytest.raises(ValidationError) as error:
        ChatGemini(model="tunedModels/mine", model_family=family)
    assert [each["msg"] for each in error.value.errors()] == [
        f"Value error, {family!r} is not the name of a model whose rules are known. Use one such "
        "as 'gemini-2.5-flash' or 'gemma-3-27b-it'. For another model without function calling, "
        "set tool_calling='prompted'"
    ]


def test_a_content_block_without_a_type_is_explained() -> None:
    with pytest.raises(InvalidInputError) as error:
        MODEL.preview([HumanMessage([{"txt": "Hello"}])])
    assert str(error.value).startswith(
        "A content block of a message of type 'human' has no 'type'. Supported types: audio, "
    )


def test_a_batch_job_without_a_place_is_explained() -> None:
    with pytest.raises(InvalidInputError) as error:
        MODEL.batch_job(["Hello"])
    assert str(error.value) == (
        "A batch job needs a path, or the name of a job at the service. Pass inputs=... and "
        "path=... for a new job, path=... for one that exists there, or name=... without inputs."
    )
