"""The checks of a loop's tools and options, and their messages."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from langchain.tools import InjectedState, ToolRuntime
from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import InjectedToolArg, tool
from pydantic import AliasChoices, BaseModel, Field

from langchain_gemini_tools import ToolLoop
from langchain_gemini_tools.errors import InvalidOptionError, InvalidToolError
from tests.unit_tests.tool_loop.scripted import ScriptedModel, call, calls


def echo(text: str) -> str:
    """Say it again."""
    return text


class Answer(BaseModel):
    """A schema."""

    text: str


def undocumented(text: str) -> str:
    return text


@tool
def needy(user: Annotated[str, InjectedToolArg]) -> str:
    """Need a user."""
    return user


class Aliased(BaseModel):
    """An injected argument that has another name on the outside."""

    user: Annotated[str, InjectedToolArg] = Field(alias="uid")


class OftenAliased(BaseModel):
    """One that has several, and a value to fall back to."""

    user: Annotated[str, InjectedToolArg] = Field("me", validation_alias=AliasChoices("a", "b"))


@tool(args_schema=Aliased)
def aliased(user: str) -> str:
    """Need a user."""
    return user


@tool(args_schema=OftenAliased)
def often_aliased(user: str) -> str:
    """Need a user."""
    return user


@tool
def graphic(state: Annotated[dict[str, Any], InjectedState]) -> str:
    """Need a graph."""
    return ""


@tool
def running(runtime: ToolRuntime) -> str:
    """Need a graph."""
    return ""


DECLARATION = {"name": "search", "parameters": {"type": "object"}}


@pytest.mark.parametrize(
    ("tools", "words"),
    [
        ([echo, echo], "Two tools are named 'echo'"),
        ([Answer], "'Answer' is a schema and cannot be run"),
        ([DECLARATION], "'search' is only a declaration and cannot be run"),
        ([{"type": "function", "function": DECLARATION}], "'search' is only a declaration"),
        ([{"name": "search", "type": "custom", "input_schema": {}}], "'search' is only a declar"),
        ([undocumented], "'undocumented' cannot be used as a tool: .*docstring"),
        ([RunnableLambda(echo)], "A RunnableLambda is not a tool.*as_tool"),
        ([needy], "'needy': the argument 'user' has to be injected. Pass `inject={'user': ...}`"),
        ([aliased], "'aliased': the injected argument 'user' has an alias"),
        ([often_aliased], "'often_aliased': the injected argument 'user' has an alias"),
        ([graphic], "'graphic': the argument 'state' has to be injected.*needs `create_agent`"),
        ([running], "'running': the argument 'runtime' has to be injected"),
        (echo, "tools must be a list, not function. Put a single tool into a list."),
        (needy, "tools must be a list, not StructuredTool"),
        (len, "tools must be a list, not builtin_function"),
        ("echo", "tools must be a list, not str"),
        (DECLARATION, "tools must be a list, not dict"),
    ],
)
def test_a_tool_that_cannot_be_run_is_rejected(tools: Any, words: str) -> None:
    with pytest.raises(InvalidToolError, match=words):
        ToolLoop(ScriptedModel(replies=[]), tools)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_turns": 0}, "max_turns=0 is not valid: it must be at least 1"),
        ({"max_concurrency": 0}, "max_concurrency=0 is not valid: it must be at least 1"),
        ({"max_retries": -1}, "max_retries=-1 is not valid: it must not be negative"),
        ({"max_output_chars": -1}, "max_output_chars=-1"),
        ({"hold_back": -1}, "hold_back=-1"),
        ({"tool_timeout": 0}, "tool_timeout=0 is not valid: it must be positive, or None"),
        ({"tool_timeout": {"echo": -1}}, "must be positive"),
        ({"tool_timeout": {"ehco": 1}}, "tool_timeout names an unknown tool: 'ehco'"),
        (
            {"on_limit": "explode"},
            "on_limit='explode' is not valid: it must be one of raise, return, answer",
        ),
        ({"approve": {"ehco": bool}}, "approve names an unknown tool: 'ehco'.*Tools: 'echo'"),
        ({"repeatable": ["ehco"]}, "repeatable names an unknown tool: 'ehco'"),
        (
            {"repeatable": "echo"},
            "repeatable='echo' is not valid: pass a set or a list of tool names",
        ),
        ({"cache": ["ehco"]}, "cache names an unknown tool: 'ehco'"),
        ({"forced_first": "ehco"}, "forced_first names an unknown tool: 'ehco'"),
        ({"max_turns": None}, "max_turns=None is not valid: it must be an integer"),
        ({"max_turns": "5"}, "max_turns='5' is not valid: it must be an integer"),
        ({"max_turns": 2.5}, "max_turns=2.5 is not valid: it must be an integer"),
        ({"max_turns": True}, "max_turns=True is not valid: it must be an integer"),
        ({"max_concurrency": None}, "max_concurrency=None is not valid: it must be an integer"),
        ({"max_retries": None}, "max_retries=None is not valid: it must be an integer"),
        (
            {"max_output_chars": "9"},
            "max_output_chars='9' is not valid: it must be an integer or None",
        ),
        ({"hold_back": 0.5}, "hold_back=0.5 is not valid: it must be an integer or None"),
        (
            {"tool_timeout": "5"},
            "tool_timeout='5' is not valid: it must be seconds, None for no limit, or a",
        ),
        (
            {"tool_timeout": {"echo": "5"}},
            "tool_timeout={'echo': '5'} is not valid: it must be seconds",
        ),
        ({"tool_timeout": float("nan")}, "tool_timeout=nan is not valid: it must be positive"),
        ({"approve": {"echo": True}}, "approve={'echo': True} is not valid: it must be a dict of"),
        (
            {"approve": ["echo"]},
            "approve=..echo.. is not valid: it must be a dict of tool names to functions",
        ),
        ({"backoff": 2}, "backoff=2 is not valid: it must be a function"),
        ({"repeatable": None}, "repeatable=None is not valid: pass a set or a list of tool names"),
        (
            {"repeatable": (n for n in ["echo"])},
            "repeatable=<.* is not valid: pass a set or a list of tool names",
        ),
        ({"cache": None}, "cache=None is not valid: it must be True, False or tool names"),
        ({"cache": 1}, "cache=1 is not valid: it must be True, False or tool names"),
        ({"cache": "echo"}, "cache='echo' is not valid: pass a set or a list of tool names"),
        (
            {"forced_first": echo},
            "forced_first=<.* is not valid: it must be True, False or the name of a",
        ),
    ],
)
def test_invalid_options_are_rejected(options: Any, words: str) -> None:
    with pytest.raises(InvalidOptionError, match=words):
        ToolLoop(ScriptedModel(replies=[]), [echo], **options)


def test_the_error_about_injected_values_does_not_show_them() -> None:
    with pytest.raises(InvalidOptionError, match=r"inject must be a dict.*not list\.$"):
        ToolLoop(ScriptedModel(replies=[]), [echo], inject=["secret-4711"])  # type: ignore[arg-type]


def test_a_forced_call_needs_a_tool() -> None:
    with pytest.raises(InvalidOptionError, match="forced_first needs at least one tool"):
        ToolLoop(ScriptedModel(replies=[]), [], forced_first=True)


def test_a_model_with_bound_tools_is_rejected() -> None:
    model = ScriptedModel(replies=[])
    bound = model.bind_tools([tool(echo)])
    with pytest.raises(InvalidOptionError, match="already has bound tools"):
        ToolLoop(bound, [echo])


def test_a_runnable_without_bind_tools_is_rejected() -> None:
    with pytest.raises(InvalidOptionError, match="RunnableLambda has no `bind_tools`"):
        ToolLoop(RunnableLambda(echo), [echo])
    with pytest.raises(NotImplementedError):
        ToolLoop(FakeListChatModel(responses=["Hi"]), [echo])


def test_options_bound_to_the_model_are_kept() -> None:
    model = ScriptedModel(replies=[calls(call("echo", text="x")), "Done."])
    bound = model.bind(temperature=0.5).with_config(tags=["cold"])
    ToolLoop(bound, [echo]).invoke("Hi", seed=7)
    assert [asked.options for asked in model.asked] == [{"temperature": 0.5, "seed": 7}] * 2
    assert [asked.tools for asked in model.asked] == [["echo"]] * 2


def test_fallbacks_are_used_and_keep_their_options() -> None:
    first = ScriptedModel(replies=[ValueError("busy")] * 2)
    second = ScriptedModel(replies=[calls(call("echo", text="x")), "Done."])
    model = first.bind(seed=1).with_fallbacks([second.bind(seed=2)])
    assert ToolLoop(model, [echo]).invoke("Hi").text == "Done."
    for asked, seed in ((first.asked, 1), (second.asked, 2)):
        assert [(each.tools, each.options) for each in asked] == [(["echo"], {"seed": seed})] * 2


def test_tools_that_the_provider_runs_are_declared_as_they_are() -> None:
    model = ScriptedModel(replies=["Done."])
    ToolLoop(model, [{"google_search": {}}, echo]).invoke("Hi")
    assert model.asked[0].tools == [{"google_search": {}}, "echo"]


def test_parameters_are_described_as_the_docstring_does() -> None:
    def book(city: str) -> str:
        """Book a room.

        Args:
            city: Where to.
        """
        return city

    box = ToolLoop(ScriptedModel(replies=[]), [book]).settings.box
    assert box.tools["book"].description == "Book a room."
    assert box.tools["book"].args["city"]["description"] == "Where to."


def test_methods_are_tools() -> None:
    class Shop:
        name = "corner shop"

        def buy(self, item: str) -> str:
            """Buy an item."""
            return f"{item} from the {self.name}"

    model = ScriptedModel(replies=[calls(call("buy", item="Tea")), "Done."])
    result = ToolLoop(model, [Shop().buy]).invoke("Hi")
    assert result.calls[0].message.text == "Tea from the corner shop"


def test_a_loop_shows_its_tools_and_not_its_model() -> None:
    loop = ToolLoop(ScriptedModel(replies=["a secret"]), [echo])
    assert repr(loop) == "ToolLoop(ScriptedModel, tools: 'echo')"


def test_injected_values_are_not_in_any_repr() -> None:
    loop = ToolLoop(ScriptedModel(replies=[]), [needy], inject={"user": "secret-4711"})
    assert "secret-4711" not in repr(loop) + repr(loop.settings)
