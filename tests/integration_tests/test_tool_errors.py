"""What the API says about `function_declarations[3]` reaches the user with the tool's name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from langchain_gemini_tools.errors import GeminiInvalidRequestError

if TYPE_CHECKING:
    from langchain_core.runnables import Runnable

    from langchain_gemini_tools.testing.fake import Emulator
    from tests.conftest import MakeModel

CALLING = "Error calling model 'gemini-3.8-flash' (INVALID_ARGUMENT): 400 INVALID_ARGUMENT: "
FIND = {
    "name": "find",
    "description": "Finds.",
    "parameters": {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "filters": {
                "type": "array",
                "items": {"type": "object", "properties": {"tag": {"type": "string"}}},
            },
        },
    },
}
ODD = {
    "name": "Get the weather",
    "description": "The weather.",
    "parameters": {"type": "object", "properties": {"page-size": {"type": "integer"}}},
}
BY_POSITION = (
    'Invalid JSON payload received. Unknown name "const" at '
    "'tools[0].function_declarations[1].parameters.properties[1].value.items': Cannot find field."
)
BY_NAME = (
    "* GenerateContentRequest.tools[0].function_declarations[1].parameters"
    ".properties[filters].items.properties[tag].format: only 'enum' and 'date-time' are supported"
)


async def invoke(bound: Runnable[Any, Any]) -> Any:
    return bound.invoke("Hello")


async def ainvoke(bound: Runnable[Any, Any]) -> Any:
    return await bound.ainvoke("Hello")


async def stream(bound: Runnable[Any, Any]) -> Any:
    return list(bound.stream("Hello"))


async def astream(bound: Runnable[Any, Any]) -> Any:
    return [chunk async for chunk in bound.astream("Hello")]


each_way = pytest.mark.parametrize("ask", [invoke, ainvoke, stream, astream])


def refusal(message: str) -> dict[str, Any]:
    return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}


@each_way
@pytest.mark.parametrize("form", ["json_schema", "openapi"])
@pytest.mark.parametrize(
    ("message", "place"),
    [
        pytest.param(BY_POSITION, "parameter 'filters[]'", id="by position"),
        pytest.param(BY_NAME, "parameter 'filters[].tag'", id="by name"),
    ],
)
async def test_an_error_about_a_declaration_names_tool_and_parameter(
    emulator: Emulator, make_model: MakeModel, ask: Any, *, form: str, message: str, place: str
) -> None:
    emulator.reply(status=400, body=refusal(message))
    bound = make_model(tool_schema=form).bind_tools([{"name": "now", "description": "Now."}, FIND])
    with pytest.raises(GeminiInvalidRequestError) as error:
        await ask(bound)
    assert str(error.value) == f"{CALLING}{message} (That is tool 'find', {place}.)"
    assert error.value.code == 400
    assert error.value.details == refusal(message)


@each_way
async def test_the_names_are_the_users_own(
    emulator: Emulator, make_model: MakeModel, ask: Any
) -> None:
    message = "tools[0].function_declarations[0].parameters.properties[0].value: bad"
    emulator.reply(status=400, body=refusal(message))
    with pytest.raises(GeminiInvalidRequestError) as error:
        await ask(make_model().bind_tools([ODD]))
    assert str(error.value).endswith("(That is tool 'Get the weather', parameter 'page-size'.)")


@each_way
@pytest.mark.parametrize(
    "message",
    [
        pytest.param("Request contains an invalid argument.", id="nothing"),
        pytest.param("tools[0].function_declarations[9].name: bad", id="a tool that is not there"),
        pytest.param("contents[0].parts[0].data: required", id="something else"),
    ],
)
async def test_an_error_that_is_about_no_declaration_stays_as_it_is(
    emulator: Emulator, make_model: MakeModel, ask: Any, message: str
) -> None:
    emulator.reply(status=400, body=refusal(message))
    with pytest.raises(GeminiInvalidRequestError) as error:
        await ask(make_model().bind_tools([FIND]))
    assert str(error.value) == f"{CALLING}{message}"


async def test_an_error_that_is_met_at_every_try_is_named_once(
    emulator: Emulator, make_model: MakeModel
) -> None:
    bound = make_model(max_retries=2).bind_tools([{"name": "now", "description": "Now."}, FIND])
    for _ in range(2):
        emulator.reply(status=400, body=refusal(BY_NAME))
        with pytest.raises(GeminiInvalidRequestError) as error:
            bound.invoke("Hello")
        assert str(error.value).count("That is tool 'find'") == 1
