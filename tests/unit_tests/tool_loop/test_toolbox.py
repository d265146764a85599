"""Which tools are accepted; the tool messages for each kind of tool call, and their order."""

from __future__ import annotations

import asyncio
import functools
import gc
import html
import json
import time
import tracemalloc
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Self
from urllib.parse import quote

import pytest
from langchain.tools import InjectedState, ToolRuntime
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.messages.tool import invalid_tool_call
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import (
    BaseTool,
    InjectedToolArg,
    InjectedToolCallId,
    StructuredTool,
    ToolException,
    tool,
)
from langgraph.types import Command
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, SecretStr, model_validator
from pydantic.v1 import BaseModel as BaseModelV1
from pydantic.v1 import Field as FieldV1

from langchain_gemini_tools import ToolLoop
from langchain_gemini_tools.errors import InvalidToolError
from langchain_gemini_tools.tool_loop import result_of
from tests.unit_tests.tool_loop.scripted import ScriptedModel, call, calls, tool_texts


def echo(text: str) -> str:
    """Say it again."""
    return text


def _loop(tools: list[Any], *replies: Any, **options: Any) -> ToolLoop:
    return ToolLoop(ScriptedModel(replies=[*replies, "Done."]), tools, **options)


def _tool_texts(tools: list[Any], *asked: Any, **options: Any) -> list[tuple[str, str, str]]:
    """What one turn's calls were answered with; the same in a sync and in an async run."""
    result = _loop(tools, calls(*asked), **options).invoke("Hi")
    again = asyncio.run(_loop(tools, calls(*asked), **options).ainvoke("Hi"))
    assert tool_texts(result) == tool_texts(again)
    return tool_texts(result)


class Answer(BaseModel):
    """A schema."""

    text: str


def undocumented(text: str) -> str:
    return text


def positional(text: str, /) -> str:
    """Say it again."""
    return text


def yielding(text: str) -> Iterator[str]:
    """Say it again."""
    yield text


def unresolved(text: Unknown) -> str:  # type: ignore[name-defined] # noqa: F821
    """Say it again."""
    return str(text)


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
        ([RunnableLambda(echo)], "type RunnableLambda is not a tool.*as_tool"),
        (
            [functools.partial(echo, text="x")],
            "type partial is not a tool.*a function that calls it",
        ),
        ([positional], "'positional' cannot be used as a tool: it does not accept 'text' by name"),
        ([abs], "'abs' cannot be used as a tool: it does not accept 'x' by name"),
        ([yielding], "'yielding' cannot be used as a tool: it is a generator"),
        ([unresolved], "'unresolved' cannot be used as a tool: name 'Unknown' is not defined"),
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


def test_injected_values_are_not_in_any_repr() -> None:
    loop = ToolLoop(ScriptedModel(replies=[]), [needy], inject={"user": "secret-4711"})
    assert "secret-4711" not in repr(loop) + repr(loop.settings)


def test_secrets_in_an_exception_are_not_in_the_repr_of_events_and_results() -> None:
    key = "AIza" + "0123456789" * 3

    def connect(user: Annotated[str, InjectedToolArg]) -> str:
        """Connect."""
        raise ConnectionError(f"{user} with {key}")

    loop = _loop(
        [connect],
        calls(call("connect")),
        inject={"user": "secret-4711"},
        repeatable=["connect"],
        backoff=lambda _: 0,
    )
    shown = repr(list(loop.events("Hi")))
    assert "ToolCallRetried" in shown
    assert "Tool 'connect' failed: ConnectionError: [redacted] with [redacted]" in shown
    assert "secret-4711" not in shown
    assert key not in shown


def test_results_are_in_the_order_of_the_calls() -> None:
    def wait(seconds: float) -> str:
        """Wait."""
        time.sleep(seconds)
        return f"{seconds}"

    async def await_(seconds: float) -> str:
        """Wait."""
        await asyncio.sleep(seconds)
        return f"{seconds}"

    asked = [
        call("wait", "a", seconds=0.03),
        call("await_", "b", seconds=0.02),
        call("wait", "c", seconds=0.01),
        call("await_", "d", seconds=0.0),
    ]
    assert _tool_texts([wait, await_], *asked) == [
        ("a", "success", "0.03"),
        ("b", "success", "0.02"),
        ("c", "success", "0.01"),
        ("d", "success", "0.0"),
    ]


def test_the_error_about_an_unknown_tool_lists_the_known_ones() -> None:
    assert _tool_texts([echo], call("ehco", text="x"), call("echo", "2", text="y")) == [
        ("1", "error", "There is no tool named 'ehco'. Tools: 'echo'."),
        ("2", "success", "y"),
    ]


def test_invalid_arguments_are_named() -> None:
    def book(city: str, nights: int) -> str:
        """Book."""
        return "booked"

    assert _tool_texts([book], call("book", nights="many")) == [
        (
            "1",
            "error",
            "Invalid arguments for 'book': city: Field required; nights: Input should be a valid "
            "integer, unable to parse string as an integer (given: 'many'). Correct them.",
        )
    ]


def test_invalid_arguments_of_a_pydantic_1_schema_are_named() -> None:
    class Booking(BaseModelV1):
        nights: int

    booking = StructuredTool.from_function(
        lambda nights: "booked", name="book", description="Book.", args_schema=Booking
    )
    assert _tool_texts([booking], call("book", nights="many")) == [
        (
            "1",
            "error",
            "Invalid arguments for 'book': nights: value is not a valid integer. Correct them.",
        )
    ]


def test_a_validation_error_from_inside_a_tool_is_a_failure_of_the_tool() -> None:
    class Weather(BaseModel):
        degrees: int

    def fetch(city: str) -> str:
        """Fetch."""
        return str(Weather.model_validate({"degrees": "warm"}))

    (answer,) = _tool_texts([fetch], call("fetch", city="Oslo"))
    assert answer[2].startswith("Tool 'fetch' failed: ValidationError: 1 validation error for")


def test_unparsable_arguments_are_reported_with_the_reason() -> None:
    broken = invalid_tool_call(name="echo", args="{text", id="2", error="not JSON")
    message = AIMessage("", tool_calls=[call("echo", text="x")], invalid_tool_calls=[broken])
    result = _loop([echo], message).invoke("Hi")
    assert tool_texts(result) == [
        ("1", "success", "x"),
        (
            "2",
            "error",
            "Not executed: the arguments of this call could not be parsed (not JSON). Call the "
            "tool again with one JSON object as its arguments.",
        ),
    ]
    assert [record.status for record in result.calls] == ["succeeded", "skipped"]


def test_calls_without_a_unique_id_get_one() -> None:
    broken = invalid_tool_call(name="echo", args="{", id=None, error=None)
    asked = [call("echo", "1", text="x"), call("echo", "1", text="y"), call("echo", "", text="z")]
    message = AIMessage("", tool_calls=asked, invalid_tool_calls=[broken])
    result = _loop([echo], message).invoke("Hi")
    said = result.new_messages[0]
    assert isinstance(said, AIMessage)
    ids = [c["id"] for c in said.tool_calls] + [c["id"] for c in said.invalid_tool_calls]
    assert ids[0] == "1"
    assert len(set(ids)) == 4
    assert [answer[0] for answer in tool_texts(result)] == ids
    assert [answer[2] for answer in tool_texts(result)][:3] == ["x", "y", "z"]


def test_a_failing_tool_is_reported_and_its_error_is_kept() -> None:
    def divide(a: int, b: int) -> float:
        """Divide."""
        return a / b

    loop = _loop([divide], calls(call("divide", a=1, b=0)))
    result = loop.invoke("Hi")
    assert tool_texts(result) == [
        ("1", "error", "Tool 'divide' failed: ZeroDivisionError: division by zero")
    ]
    assert result.calls[0].status == "failed"
    assert isinstance(result.calls[0].error, ZeroDivisionError)
    assert result.text == "Done."


class Unspeakable(Exception):  # noqa: N818 - a stranger's
    """An exception that fails to say what it is."""

    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ExceptionGroup("tasks", [OSError("no route")]), "OSError: no route"),
        (
            ExceptionGroup("", [KeyError("a"), ExceptionGroup("", [ValueError(), OSError("b")])]),
            "KeyError: 'a'; ValueError; OSError: b",
        ),
        (Unspeakable(), "Unspeakable"),
    ],
    ids=["group of one", "nested group", "without words"],
)
def test_the_cause_is_reported_however_it_is_wrapped(error: Exception, words: str) -> None:
    """Whatever runs in a task group raises groups: MCP's clients, for one."""

    def fail() -> str:
        """Fail."""
        raise error

    assert _tool_texts([fail], call("fail")) == [("1", "error", f"Tool 'fail' failed: {words}")]


@pytest.mark.parametrize(
    ("handle", "words"),
    [
        (False, "No station there."),
        (True, "No station there."),
        ("Try elsewhere.", "Try elsewhere."),
        (lambda error: f"Sorry: {error}", "Sorry: No station there."),
    ],
    ids=["raised", "handled", "replaced", "rewritten"],
)
def test_a_tool_exception_is_reported_literally(handle: Any, words: str) -> None:
    @tool
    def fail(city: str) -> str:
        """Fail."""
        raise ToolException("No station there.")

    fail.handle_tool_error = handle
    assert _tool_texts([fail], call("fail", city="Oslo")) == [("1", "error", words)]


def test_a_tool_exception_without_a_message_is_reported() -> None:
    @tool
    def fail() -> str:
        """Fail."""
        raise ToolException

    assert _tool_texts([fail], call("fail")) == [
        ("1", "error", "The tool failed without an explanation.")
    ]


@pytest.mark.parametrize(
    ("output", "text"),
    [(None, "null"), ("", ""), ({"a": [1]}, '{"a": [1]}'), (3, "3"), ("ü", "ü")],
    ids=["None", "empty", "object", "number", "text"],
)
def test_a_result_is_rendered_by_langchain(output: Any, text: str) -> None:
    @tool
    def give() -> Any:
        """Give."""
        return output

    assert _tool_texts([give], call("give")) == [("1", "success", text)]


def test_media_and_artifacts_are_kept() -> None:
    image = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}

    @tool(response_format="content_and_artifact")
    def draw() -> tuple[list[Any], bytes]:
        """Draw."""
        return [{"type": "text", "text": "A dot."}, image], b"hi"

    result = _loop([draw], calls(call("draw"))).invoke("Hi")
    message = result.calls[0].message
    assert message.content == [{"type": "text", "text": "A dot."}, image]
    assert message.artifact == b"hi"


def test_a_message_of_the_tool_gets_the_id_of_its_call() -> None:
    @tool
    def answer() -> ToolMessage:
        """Answer."""
        return ToolMessage("Here.", tool_call_id="another", artifact=5)

    result = _loop([answer], calls(call("answer"))).invoke("Hi")
    assert tool_texts(result) == [("1", "success", "Here.")]
    assert result.calls[0].message.name == "answer"
    assert result.calls[0].message.artifact == 5


@pytest.mark.parametrize("several", [False, True], ids=["one", "list"])
async def test_a_command_is_rejected_and_the_messages_are_kept(several: bool) -> None:
    @tool
    def jump() -> Any:
        """Jump."""
        return [Command(goto="x")] if several else Command(goto="x")

    def loop() -> ToolLoop:
        asked = calls(call("echo", "1", text="x"), call("jump", "2"))
        return _loop([echo, jump], asked, max_concurrency=1)

    for run in (asyncio.to_thread(loop().invoke, "Hi"), loop().ainvoke("Hi")):
        with pytest.raises(InvalidToolError, match="'jump' returned a Command") as caught:
            await run
        result = result_of(caught.value)
        assert result is not None
        assert tool_texts(result) == [("1", "success", "x")]
        assert [pending["id"] for pending in result.pending] == ["2"]


class Shout(BaseModelV1):
    """LangChain cannot copy a class of Pydantic 1 in which a field has a limit."""

    text: str = FieldV1(max_length=9)
    user: Annotated[str, InjectedToolArg]


@tool(args_schema=Shout)
def shout(text: str, user: str) -> str:
    """Say it louder."""
    return f"{text.upper()}, {user}"


def test_a_tool_with_arguments_of_pydantic_v1_is_run() -> None:
    asked = call("shout", text="hi", user="adam")
    assert _tool_texts([shout], asked, inject={"user": "eve"}) == [("1", "success", "HI, eve")]


def test_a_cached_function_is_run() -> None:
    cached = functools.lru_cache(echo)
    assert _tool_texts([cached], call("echo", text="hi")) == [("1", "success", "hi")]


def test_injected_arguments_never_come_from_the_model() -> None:
    @tool
    def buy(
        item: str,
        user: Annotated[str, InjectedToolArg],
        own_id: Annotated[str, InjectedToolCallId],
        shop: Annotated[str, InjectedToolArg] = "here",
    ) -> str:
        """Buy."""
        return f"{user} buys {item} in {own_id} {shop}"

    asked = call("buy", item="tea", user="admin", own_id="forged", shop="elsewhere")
    assert _tool_texts([buy], asked, inject={"user": "eve"}) == [
        ("1", "success", "eve buys tea in 1 here")
    ]


def test_an_invalid_injected_value_is_not_shown_to_the_model() -> None:
    @tool
    def order(count: int, account: Annotated[int, InjectedToolArg]) -> str:
        """Order something."""
        return f"{count} for {account}"

    loop = _loop([order], calls(call("order", count=1)), inject={"account": "secret-4711"})
    result = loop.invoke("Hi")
    assert tool_texts(result) == [
        (
            "1",
            "error",
            "Tool 'order' failed: a value that the application injects is not valid.",
        )
    ]
    assert "secret-4711" in str(result.calls[0].error)  # for the program


class Titled(BaseModel):
    """A schema whose title differs from its class name."""

    model_config = ConfigDict(title="Arguments of a search")
    count: int
    token: Annotated[str, InjectedToolArg]


class Checked(BaseModel):
    """A schema that looks at all arguments together."""

    count: int
    token: Annotated[str, InjectedToolArg]

    @model_validator(mode="after")
    def _check(self) -> Self:
        raise ValueError("count is too small")


class CheckedFirst(BaseModel):
    """One that looks at them before anything else does."""

    count: int
    token: Annotated[str, InjectedToolArg]

    @model_validator(mode="before")
    @classmethod
    def _check(cls, given: dict[str, Any]) -> Any:
        raise ValueError(f"not with {given['token']}")


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (
            Titled,
            "count: Input should be a valid integer, unable to parse string as an integer "
            "(given: '7x')",
        ),
        (Checked, "arguments: Value error, count is too small (given: {'count': '7'})"),
        (CheckedFirst, "arguments: Value error, not with [redacted] (given: {'count': '7'})"),
    ],
)
@pytest.mark.parametrize("secret", ["S3CRET", "tk-" + "0123456789" * 12], ids=["short", "long"])
def test_errors_about_arguments_do_not_contain_injected_values(
    schema: type[BaseModel], words: str, secret: str
) -> None:
    @tool(args_schema=schema)
    def search(count: int, token: str) -> str:
        """Search."""
        return "found"

    count = "7x" if schema is Titled else "7"
    asked = calls(call("search", count=count))
    loop = _loop([search], asked, inject={"token": secret}, repeatable=["search"])
    result = loop.invoke("Hi")
    assert tool_texts(result) == [
        ("1", "error", f"Invalid arguments for 'search': {words}. Correct them.")
    ]
    assert result.calls[0].attempts == 1


class Login(BaseModel):
    """Something that a tool makes of what it is given."""

    name: str
    token: int


@dataclass(frozen=True)
class Account:
    """A value with a secret in it."""

    owner: str
    keys: list[SecretStr]


TOKEN = "tk/0123456789" + "abcdefghij" * 8


def _login(token: str) -> None:
    Login.model_validate({"name": "eve", "token": token})


def _login_in_other_words(token: str) -> None:
    try:
        _login(token)
    except ValueError as error:
        raise ToolException(f"No login: {error}") from error


def _say(kind: type[Exception], words: str) -> Any:
    def fail(token: str) -> None:
        raise kind(words.format(token=token, quoted=quote(token, safe="")))

    return fail


@pytest.mark.parametrize(
    ("fail", "words"),
    [
        (_say(ValueError, "bad token {token}!"), "ValueError: bad token [redacted]!"),
        (_say(KeyError, "{token}"), "KeyError: '[redacted]'"),
        (_say(OSError, "401 for https://a.b/?key={quoted}"), "401 for https://a.b/?key=[redacted]"),
        (_say(ToolException, "Not with {token}."), "Not with [redacted]."),
        (_login, "token Input should be a valid integer"),
        (_login_in_other_words, "No login: 1 validation error for Login"),
    ],
    ids=["words", "key", "address", "tool exception", "validation", "validation in other words"],
)
@pytest.mark.parametrize(
    "injected", [TOKEN, SecretStr(TOKEN), Account("eve", [SecretStr(TOKEN)])], ids=type
)
def test_error_messages_do_not_contain_injected_values(
    fail: Any, words: str, injected: Any
) -> None:
    @tool
    def search(text: str, token: Annotated[Any, InjectedToolArg]) -> str:
        """Search."""
        value = token.keys[0] if isinstance(token, Account) else token
        fail(value.get_secret_value() if isinstance(value, SecretStr) else value)
        return ""

    ((_, status, answer),) = _tool_texts(
        [search], call("search", text="x"), inject={"token": injected}
    )
    assert status == "error"
    assert words in answer
    assert not any(part in answer for part in (TOKEN[3:13], TOKEN[-8:]))


@pytest.mark.parametrize(
    "write",
    [
        lambda token: b64encode(f"eve:{token}".encode()).decode(),
        lambda token: token.encode().hex(),
        html.escape,
    ],
    ids=["base64", "hex", "html"],
)
def test_injected_values_are_redacted_in_every_form_of_a_credential(
    write: Callable[[str], str],
) -> None:
    @tool
    def search(text: str, token: Annotated[str, InjectedToolArg]) -> str:
        """Search."""
        raise ToolException(f"401 for {write(token)}")

    given = "tk-08<15>47"
    ((_, _, answer),) = _tool_texts([search], call("search", text="x"), inject={"token": given})
    assert "[redacted]" in answer
    assert write(given)[8:16] not in answer


@pytest.mark.parametrize("write", [str, repr, json.dumps])
def test_long_injected_values_are_redacted_as_python_and_json_quote_them(
    write: Callable[[str], str],
) -> None:
    @tool
    def search(text: str, chain: Annotated[str, InjectedToolArg]) -> str:
        """Search."""
        raise ToolException(f"Not with {write(chain)}")

    given = "\n".join(f"line {number} of a certificate" for number in range(1000))
    ((_, _, answer),) = _tool_texts([search], call("search", text="x"), inject={"chain": given})
    assert "[redacted]" in answer
    assert "certificate" not in answer


def test_much_injected_data_is_not_kept_in_memory() -> None:
    @tool
    def search(text: str, pages: Annotated[list[str], InjectedToolArg]) -> str:
        """Search."""
        raise ToolException(f"Not with {pages[7]}")

    pages = [f"{number:04d}-" * 200 for number in range(900)]
    asked = call("search", text="x")
    _tool_texts([search], asked, inject={"pages": pages[:10]})  # imports what it needs
    tracemalloc.start()
    ((_, _, answer),) = _tool_texts([search], asked, inject={"pages": pages})
    gc.collect()
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert answer.endswith("Not with [redacted]")
    assert kept < sum(map(len, pages))


@pytest.mark.parametrize("error", [ValueError, ToolException])
def test_error_messages_do_not_contain_credentials(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "a-key-without-a-pattern")

    def fetch() -> str:
        """Fetch."""
        raise error("No: ?key=a-key-without-a-pattern, Bearer ya29.abcdefgh12345678")

    ((_, status, answer),) = _tool_texts([fetch], call("fetch"))
    assert status == "error"
    assert answer.endswith("No: ?key=[redacted], Bearer [redacted]")


def test_handled_tool_errors_do_not_contain_injected_values() -> None:
    @tool
    def search(text: str, token: Annotated[str, InjectedToolArg]) -> str:
        """Search."""
        raise ToolException(f"Not with {token}.")

    @tool
    def look(text: str, token: Annotated[str, InjectedToolArg]) -> ToolMessage:
        """Look."""
        block = {"type": "text", "text": f"Not with {token}."}
        return ToolMessage([block], tool_call_id="", status="error")

    search.handle_tool_error = lambda error: f"Sorry: {error}"
    asked = [call("search", text="x"), call("look", "2", text="x")]
    assert _tool_texts([search, look], *asked, inject={"token": TOKEN}) == [
        ("1", "error", "Sorry: Not with [redacted]."),
        ("2", "error", "Not with [redacted]."),
    ]


class Closed(Mapping[str, str]):
    """An injected object whose attributes cannot be read."""

    def __getitem__(self, key: str) -> str:
        raise OSError("closed")

    def __iter__(self) -> Iterator[str]:
        raise OSError("closed")

    def __len__(self) -> int:
        return 1


def test_injected_values_may_be_any_object() -> None:
    @tool
    def search(text: str, store: Annotated[Any, InjectedToolArg]) -> str:
        """Search."""
        raise ToolException("Not with tk-0815-4711.")

    endless: dict[str, Any] = {"numbers": range(10**9), "many": [1] * 1_000_000}
    endless["self"] = endless
    for store in (Closed(), endless, object(), 10**5_000, True, b"\xff"):
        injected = {"store": [store, {"token": "tk-0815-4711"}]}
        assert _tool_texts([search], call("search", text="x"), inject=injected) == [
            ("1", "error", "Not with [redacted].")
        ]


def test_a_short_injected_value_is_redacted_as_a_whole_word_only() -> None:
    @tool
    def search(text: str, place: Annotated[str, InjectedToolArg]) -> str:
        """Search."""
        raise ToolException("The product in prod is unproductive.")

    assert _tool_texts([search], call("search", text="x"), inject={"place": "prod"}) == [
        ("1", "error", "The product in [redacted] is unproductive.")
    ]
    assert _tool_texts([search], call("search", text="x"), inject={"place": "in"}) == [
        ("1", "error", "The product in prod is unproductive.")
    ]


def test_a_tool_may_change_its_arguments_without_changing_the_history() -> None:
    schema = {"type": "object", "properties": {"items": {"type": "array"}}}

    def spoil(**args: Any) -> str:
        args["items"].append("more")
        return "ok"

    spoiler = StructuredTool(name="spoil", description="Spoil.", args_schema=schema, func=spoil)
    result = _loop([spoiler], calls(call("spoil", items=["one"]))).invoke("Hi")
    assert result.calls[0].call["args"] == {"items": ["one"]}
    assert result.messages[1].tool_calls[0]["args"] == {"items": ["one"]}  # type: ignore[attr-defined]


def test_a_long_result_is_truncated_with_a_notice() -> None:
    asked = call("echo", text="abcdefghij")
    assert _tool_texts([echo], asked, max_output_chars=4) == [
        ("1", "success", "abcd\n[Truncated: these are the first 4 of 10 characters.]")
    ]
    assert _tool_texts([echo], asked, max_output_chars=10) == [("1", "success", "abcdefghij")]
    assert _tool_texts([echo], asked, max_output_chars=None) == [("1", "success", "abcdefghij")]


def test_a_long_result_in_blocks_keeps_its_media() -> None:
    image = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}

    @tool
    def draw() -> list[Any]:
        """Draw."""
        text = [{"type": "text", "text": word} for word in ("abc", "def", "ghi")]
        return [text[0], text[1], image, text[2]]

    result = _loop([draw], calls(call("draw")), max_output_chars=4).invoke("Hi")
    assert result.calls[0].message.content == [
        {"type": "text", "text": "abc"},
        {"type": "text", "text": "d"},
        image,
        {"type": "text", "text": "\n[Truncated: these are the first 4 of 9 characters.]"},
    ]


def test_a_long_error_is_truncated_too() -> None:
    @tool
    def fail() -> str:
        """Fail."""
        raise ToolException("x" * 50)

    (answer,) = _tool_texts([fail], call("fail"), max_output_chars=5)
    assert answer == ("1", "error", "xxxxx\n[Truncated: these are the first 5 of 50 characters.]")


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (
            "UNEXPECTED_TOOL_CALL",
            "the model stopped with UNEXPECTED_TOOL_CALL: The model called a tool that was not "
            "available.",
        ),
        (
            "SAFETY",
            "the model stopped with SAFETY: The safety filters withheld the response.",
        ),
        (
            "A_NEW_REASON",
            "the model stopped with A_NEW_REASON: The finish reason 'A_NEW_REASON' is not known to "
            "this version.",
        ),
        ("MAX_TOKENS", "the message was truncated (MAX_TOKENS); its calls may be incomplete."),
        ("length", "the message was truncated (length); its calls may be incomplete."),
        ("error", "the model stopped with error: The provider stopped with an error."),
        (
            "malformed_tool_use",
            "the model stopped with malformed_tool_use: The model wrote a malformed tool call.",
        ),
    ],
)
def test_calls_of_a_response_that_is_not_complete_are_not_run(reason: str, words: str) -> None:
    ran = []

    def act(text: str) -> str:
        """Act."""
        ran.append(text)
        return text

    turn = calls(call("act", text="x"), reason=reason)
    is_gemini = reason.isupper()
    turn.response_metadata["model_provider"] = "google_genai" if is_gemini else "another"
    result = _loop([act], turn).invoke("Hi")
    assert tool_texts(result) == [("1", "error", f"Not executed: {words}")]
    assert ran == []
    assert result.calls[0].status == "skipped"


class _AsyncOnly(BaseTool):
    name: str = "only_async"
    description: str = "Async only."

    def _run(self, text: str) -> str:
        raise NotImplementedError("There is only an async form.")

    async def _arun(self, text: str) -> str:
        await asyncio.sleep(0)
        return text


async def test_a_tool_class_with_an_async_method_runs_in_async_code() -> None:
    result = await _loop([_AsyncOnly()], calls(call("only_async", text="x"))).ainvoke("Hi")
    assert tool_texts(result) == [("1", "success", "x")]


def test_a_tool_class_with_only_an_async_method_runs_in_sync_code() -> None:
    result = _loop([_AsyncOnly()], calls(call("only_async", text="x"))).invoke("Hi")
    assert tool_texts(result) == [("1", "success", "x")]
