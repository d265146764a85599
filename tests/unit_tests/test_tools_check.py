"""`check_tools`: every problem of a set of tools, as data and as text."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.tools import StructuredTool

from langchain_gemini_tools import ChatGemini, check_tools
from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.tools import Finding

CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = {"name": "get_weather", "description": "The weather.", "parameters": CITY}


def undescribed(x: int) -> int:
    return x


def test_good_tools_are_fine() -> None:
    report = check_tools([WEATHER, {"google_search": {}}])
    assert report.ok
    assert (report.findings, report.errors, report.warnings) == ((), (), ())
    assert (report.model, report.tool_count) == ("gemini-3.8-flash", 2)
    assert str(report) == (
        f"2 tools for gemini-3.8-flash, about {report.tokens} tokens a request: "
        "0 errors, 0 warnings."
    )
    assert 30 < report.tokens < 60


@pytest.mark.parametrize(
    "given",
    [
        None,
        WEATHER,
        "get_weather",
        undescribed,
        StructuredTool.from_function(undescribed, description=""),
    ],
)
def test_what_is_not_a_list_of_tools_is_rejected(given: Any) -> None:
    with pytest.raises(InvalidToolError, match="Put a single tool into a list"):
        check_tools(given)


def test_errors_and_warnings_are_data_and_lines() -> None:
    colour = {"type": "object", "properties": {"colour": {"enum": []}}}
    report = check_tools([undescribed, {**WEATHER, "parameters": colour}])
    error = Finding(
        "error",
        "empty_enum",
        "get_weather",
        "colour",
        "its enum is empty: no value is valid.",
    )
    warning = Finding(
        "warning",
        "no_description",
        "undescribed",
        None,
        "it has no description, so the model has to guess what it does.",
    )
    assert not report.ok
    assert report.findings == (error, warning)
    assert (report.errors, report.warnings) == ((error,), (warning,))
    assert str(report).splitlines() == [
        f"2 tools for gemini-3.8-flash, about {report.tokens} tokens a request: "
        "1 error, 1 warning.",
        "  error: Tool 'get_weather', parameter 'colour': its enum is empty: no value is valid.",
        "  warning: Tool 'undescribed': it has no description, so the model has to guess what it "
        "does.",
    ]


def test_one_of_each_is_counted_as_one() -> None:
    assert str(check_tools([WEATHER])).startswith("1 tool for gemini-3.8-flash, about ")


@pytest.mark.parametrize(
    ("given", "name", "words"),
    [
        pytest.param(5, "5", "5 is not a tool. Pass a function", id="no tool"),
        pytest.param(
            {"name": "odd", "parameters": {"type": "string"}},
            "odd",
            "its parameters must be an object, not of type 'string'.",
            id="no object",
        ),
        pytest.param(
            {
                "type": "function",
                "function": {"name": "far", "parameters": {"properties": {"a": {"$ref": "#/x"}}}},
            },
            "far",
            "The schema refers to '#/x', which it does not define.",
            id="inside of another dict",
        ),
        pytest.param(
            {"functionDeclarations": [WEATHER, {"name": "odd", "parameters": "{"}]},
            "odd",
            "its schema is a string that is not valid JSON: Expecting",
            id="one of several",
        ),
        pytest.param(
            {"name": "deep", "parameters": "[" * 100_000},
            "deep",
            "its schema is a string that is not valid JSON: ",
            id="a text too deep to read",
        ),
        pytest.param(
            {"name": "long", "parameters": '{"maximum": ' + "1" * 5000 + "}"},
            "long",
            "its schema is a string that is not valid JSON: ",
            id="a text with a number too long to read",
        ),
        pytest.param(
            {"type": "web_search_20250305", "name": "web"}, "web", "web_search", id="foreign"
        ),
        pytest.param({"properties": {}}, "{'properties': {}}", "needs a 'title'", id="nameless"),
        pytest.param(
            StructuredTool(name="tabled", description="-", args_schema={"type": "array"}),
            "tabled",
            "its parameters must be an object, not of type 'array'",
            id="a LangChain tool",
        ),
    ],
)
def test_a_tool_that_cannot_be_bound_is_a_finding_too(given: Any, name: str, words: str) -> None:
    report = check_tools([WEATHER, given])
    [finding] = report.findings
    assert (finding.level, finding.code) == ("error", "invalid_tool")
    assert (finding.tool, finding.parameter) == (name, None)
    assert words in finding.message
    assert not finding.message.startswith("Tool ")
    assert report.tool_count == 2
    with pytest.raises(InvalidToolError):
        ChatGemini(model="gemini-3.8-flash").bind_tools([WEATHER, given])


def test_the_model_decides() -> None:
    both = [WEATHER, {"google_search": {}}]
    assert check_tools(both, model="gemini-3-pro-preview").ok
    assert [item.code for item in check_tools(both, model="gemini-2.5-flash").errors] == [
        "not_combinable"
    ]


def test_tools_may_come_from_a_generator() -> None:
    report = check_tools(tool for tool in (WEATHER, undescribed))
    assert report.tool_count == 2
    assert [item.code for item in report.findings] == ["no_description"]
