"""`python -m langchain_gemini_tools check`: a self-test of tool calling against the real API.

It makes about twenty small requests, prints a table, and a report that can be pasted into an issue.
`--api interactions` uses the Interactions API, and checks also what only that API has. `--fake`
runs the same checks on the fake server of `langchain_gemini_tools.testing`.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections import Counter
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.messages.ai import add_ai_message_chunks
from pydantic import BaseModel

from langchain_gemini_tools import __version__
from langchain_gemini_tools.chat_model import ChatGemini
from langchain_gemini_tools.display.content import clean, render_error, replace_unencodable
from langchain_gemini_tools.errors import GeminiInvalidRequestError
from langchain_gemini_tools.facts.environment import environment_secrets, environment_uses_vertexai
from langchain_gemini_tools.facts.models import DEFAULT_MODEL, capabilities_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_DEPENDENCIES = ("google-genai", "langchain-core", "pydantic")
_MAX_CHARS = 300
_ONE_CITY = "What is the weather in Oslo? Use get_weather."
_TWO_CITIES = "What is the weather in Oslo and Rome? Call get_weather once for each city."


# What is checked


class CheckError(Exception):
    """A response was not what it should be."""


class SkippedCheck(Exception):  # noqa: N818 - not an error
    """The model or the backend does not have what is checked."""


def get_weather(city: str) -> str:
    """Current weather in a city."""
    return f"Sunny in {city}"


def get_time(city: str) -> str:
    """Current time in a city."""
    return f"Noon in {city}"


class City(BaseModel):
    """A city."""

    name: str
    country: str


_TOOLS = [get_weather, get_time]


def _require(condition: object, otherwise: str) -> None:
    if not condition:
        raise CheckError(otherwise)


def _ask(model: ChatGemini, question: str, **options: Any) -> AIMessage:
    return model.bind_tools(_TOOLS, **options).invoke(question)


def _names(message: AIMessage) -> list[str]:
    return [call["name"] for call in message.tool_calls]


def _render_names(message: AIMessage) -> str:
    return ", ".join(_names(message)) or "no tool calls"


def check_text(model: ChatGemini) -> str:
    """A plain question is answered with text."""
    message = model.invoke("Reply with one short sentence: are you ready?")
    _require(message.text.strip(), "the answer is empty")
    return message.text


def check_auto(model: ChatGemini) -> str:
    """tool_choice="auto": the model calls a tool when it needs one."""
    message = _ask(model, _ONE_CITY)
    _require(_names(message) == ["get_weather"], f"got {_render_names(message)}")
    return f"get_weather({message.tool_calls[0]['args']})"


def check_any(model: ChatGemini) -> str:
    """tool_choice="any": the model must call a tool."""
    message = _ask(model, "Hello!", tool_choice="any")
    _require(_names(message), "no tool was called")
    return _render_names(message)


def check_none(model: ChatGemini) -> str:
    """tool_choice="none": the model must not call a tool."""
    question = "What is the weather in Oslo? Answer in one sentence."
    message = _ask(model, question, tool_choice="none")
    _require(not _names(message), f"got {_render_names(message)}")
    return "text only"


def check_allowed_names(model: ChatGemini) -> str:
    """tool_choice=["get_time"]: the model must call one of the allowed tools."""
    message = _ask(model, "What is the weather in Oslo?", tool_choice=["get_time"])
    _require(set(_names(message)) == {"get_time"}, f"got {_render_names(message)}")
    return _render_names(message)


def check_validated(model: ChatGemini) -> str:
    """tool_choice="validated": text, or calls that follow their schema."""
    if not capabilities_of(model.model).validates_calls:
        raise SkippedCheck("the model does not have this mode")
    message = _ask(model, _ONE_CITY, tool_choice="validated")
    _require(message.text or _names(message), "the answer is empty")
    return _render_names(message)


def check_parallel_calls(model: ChatGemini) -> str:
    """Several tool calls in one response."""
    message = _ask(model, _TWO_CITIES)
    cities = sorted(str(call["args"].get("city")) for call in message.tool_calls)
    _require(len(cities) == 2, f"got {_render_names(message)}")
    return ", ".join(cities)


def check_two_turns(model: ChatGemini) -> str:
    """Tool results go back with their calls and thought signatures, over two turns."""
    bound = model.bind_tools(_TOOLS)
    messages: list[Any] = [HumanMessage(_TWO_CITIES)]
    for question in ("And what time is it in Oslo? Call get_time.", None):
        message = bound.invoke(messages)
        _require(_names(message), "no tool was called")
        messages += [message, *_results(message)]
        answer = bound.invoke(messages)
        _require(answer.text.strip(), "there is no answer after the tool results")
        messages.append(answer)
        if question:
            messages.append(HumanMessage(question))
    return f"{len(messages)} messages"


def _results(message: AIMessage) -> list[ToolMessage]:
    tools = {tool.__name__: tool for tool in _TOOLS}
    return [
        ToolMessage(tools[call["name"]](**call["args"]), tool_call_id=call["id"])
        for call in message.tool_calls
    ]


def check_stream_of_text(model: ChatGemini) -> str:
    """A streamed answer adds up, and has a finish reason and token counts."""
    message = _join([*model.stream("Count from one to twenty in words.")])
    _require(message.text.strip(), "the answer is empty")
    _require(message.response_metadata.get("finish_reason"), "it has no finish reason")
    _require(message.usage_metadata, "it has no token counts")
    return f"{len(message.text)} characters"


def check_stream_of_calls(model: ChatGemini) -> str:
    """Streamed tool calls."""
    message = _join([*model.bind_tools(_TOOLS).stream(_TWO_CITIES)])
    _require(len(_names(message)) == 2, f"got {_render_names(message)}")
    return _render_names(message)


def _join(chunks: Sequence[AIMessage]) -> AIMessage:
    parts = [chunk for chunk in chunks if isinstance(chunk, AIMessageChunk)]
    _require(parts, "the stream is empty")
    return add_ai_message_chunks(parts[0], *parts[1:])


def check_structured_output(model: ChatGemini) -> str:
    """Structured output by a forced call and by JSON schema."""
    question = "Name the capital of Norway and its country."
    by_call = model.with_structured_output(City).invoke(question)
    by_schema = model.with_structured_output(City, method="json_schema").invoke(question)
    return f"{by_call!r}, {by_schema!r}"


def check_search_beside_functions(model: ChatGemini) -> str:
    """Google Search together with functions."""
    if not capabilities_of(model.model).combines_builtin_tools_with_functions:
        raise SkippedCheck("the model accepts no built-in tools beside functions")
    if model.uses_vertexai:
        raise SkippedCheck("not checked on Vertex AI")
    bound = model.bind_tools([{"google_search": {}}, *_TOOLS])
    message = bound.invoke(_ONE_CITY)
    _require(message.text or _names(message), "the answer is empty")
    return _render_names(message)


def check_error_names_tool(model: ChatGemini) -> str:
    """An error of the API about a declaration names the tool."""
    broken = {"name": "broken tool", "description": "Its name has a space."}
    if not capabilities_of(model.model).calls_functions:
        raise SkippedCheck("functions are described in the prompt")
    if model.api == "interactions":
        raise SkippedCheck("errors of the Interactions API name no fields")
    body = {"tools": [{"functionDeclarations": [broken]}]}
    try:
        model.invoke("Hello", extra_body=body)
    except GeminiInvalidRequestError as error:
        _require("broken tool" in str(error), f"the tool is not named: {error}")
        return "the tool is named"
    raise CheckError("the API accepted an invalid name")


def check_token_count(model: ChatGemini) -> str:
    """Tokens are counted by the API."""
    count = model.get_num_tokens_from_messages([HumanMessage("Hello")], tools=_TOOLS)
    _require(count > 0, f"got {count}")
    return f"{count} tokens"


def check_previous_interaction(model: ChatGemini) -> str:
    """With stored interactions, only what is new is sent; they are deleted afterwards."""
    bound = model.bind_tools(_TOOLS).bind(use_previous_interaction=True)
    messages: list[Any] = [HumanMessage(_ONE_CITY)]
    message = bound.invoke(messages)
    _require(_names(message), "no tool was called")
    messages += [message, *_results(message)]
    request: Any = bound.preview(messages)
    _require("previous_interaction_id" in request.body, "the interaction has no id")
    answer = bound.invoke(messages)
    _require(answer.text.strip(), "there is no answer after the tool results")
    follow_up = [*messages, answer, HumanMessage("And in Rome? Use get_weather.")]
    again = bound.invoke(follow_up)
    _require(_names(again), "no tool was called in the second round")
    return f"{len(request.encoded)} bytes sent; {_delete(model, message, answer, again)}"


def check_background(model: ChatGemini) -> str:
    """An interaction in the background is read or streamed until it has ended."""
    question = "Reply with one short sentence: are you ready?"
    try:
        message = model.invoke(question, background=True)
    except GeminiInvalidRequestError as error:
        if "does not support background" in str(error):
            raise SkippedCheck("the model does not run in the background") from error
        raise
    _require(message.text.strip(), "the answer is empty")
    name = message.response_metadata["interaction_id"]
    again = model.invoke(question, interaction_id=name)
    _require(again.text == message.text, "it reads differently the second time")
    streamed = _join([*model.stream(question, background=True)])
    _require(streamed.text.strip(), "the streamed answer is empty")
    return f"{message.text} ({_delete(model, message, streamed)})"


def check_change_of_api(model: ChatGemini) -> str:
    """Calls of one API are answered in the other, in both directions."""
    apis: tuple[Any, ...] = ("interactions", "generate_content")
    for first, second in (apis, apis[::-1]):
        bound = model.bind_tools(_TOOLS)
        messages: list[Any] = [HumanMessage(_TWO_CITIES)]
        message = bound.invoke(messages, api=first)
        _require(_names(message), f"no tool was called with api={first!r}")
        messages += [message, *_results(message)]
        answer = bound.invoke(messages, api=second)
        _require(answer.text.strip(), f"there is no answer with api={second!r}")
    return "both directions"


def _delete(model: ChatGemini, *messages: AIMessage) -> str:
    """Delete interactions that the API keeps, and return what came of it."""
    client: Any = model.client
    names = [message.response_metadata["interaction_id"] for message in messages]
    try:
        for name in names:
            client.interactions.delete(id=name)
    except Exception as error:  # noqa: BLE001 - the check was about something else
        return f"Google keeps {', '.join(names)}, not deleted: {render_error(error)}"
    return "deleted"


CHECKS: Sequence[Callable[[ChatGemini], str]] = (
    check_text,
    check_auto,
    check_any,
    check_none,
    check_allowed_names,
    check_validated,
    check_parallel_calls,
    check_two_turns,
    check_stream_of_text,
    check_stream_of_calls,
    check_structured_output,
    check_search_beside_functions,
    check_error_names_tool,
    check_token_count,
)
INTERACTIONS_CHECKS = (*CHECKS, check_previous_interaction, check_background, check_change_of_api)
"""Those that run with `--api interactions`."""


# The command

Status = Literal["passed", "FAILED", "skipped"]
Api = Literal["generate_content", "interactions"]


@dataclass(frozen=True)
class CheckOutcome:
    """The outcome of one check."""

    name: str
    status: Status
    detail: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.status:<8}{self.name:<24}{self.seconds:6.1f} s  {self.detail}"


def run_check(check: Callable[[ChatGemini], str], model: ChatGemini) -> CheckOutcome:
    """Run one check. Errors of any kind are its outcome."""
    status: Status
    begin = time.perf_counter()
    try:
        detail, status = check(model), "passed"
    except SkippedCheck as reason:
        detail, status = str(reason), "skipped"
    except CheckError as error:
        detail, status = str(error), "FAILED"
    except Exception as error:  # noqa: BLE001 - the report shows every error
        detail, status = render_error(error), "FAILED"
    seconds = time.perf_counter() - begin
    detail = " ".join(clean(detail, _MAX_CHARS).split())
    return CheckOutcome(name_of(check), status, detail, seconds)


def name_of(check: Callable[[ChatGemini], str]) -> str:
    """Return the name of a check in the table."""
    return check.__name__.removeprefix("check_").replace("_", " ")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run every check, print a table and a report, and return the exit code."""
    options = _parse(arguments)
    with redirect_stdout(replace_unencodable(sys.stdout)):
        if options.fake or environment_secrets() or environment_uses_vertexai():
            return _run(options.model, options.api, is_fake=options.fake)
        _explain(options.model, options.api)
        return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m langchain_gemini_tools check",
        description="Checks tool calling against the real API with about twenty small requests, "
        "and prints a report that you can paste into an issue. It contains no credentials.",
    )
    parser.add_argument("--model", default=DEFAULT_MODEL, help=f"default: {DEFAULT_MODEL}")
    parser.add_argument(
        "--api",
        choices=("generate_content", "interactions"),
        default="generate_content",
        help="the API of Gemini to check; with `interactions`, a few interactions are stored and "
        "then deleted. Default: generate_content",
    )
    parser.add_argument(
        "--fake", action="store_true", help="use the fake server instead of the API; no key needed"
    )
    return parser.parse_args(arguments)


def _checks_of(api: Api) -> Sequence[Callable[[ChatGemini], str]]:
    return INTERACTIONS_CHECKS if api == "interactions" else CHECKS


def _explain(model: str, api: Api) -> None:
    print(f"GOOGLE_API_KEY is not set. With a key, these checks would run on {model}:\n")
    for check in _checks_of(api):
        print(f"  {name_of(check):<24}{check.__doc__}")
    print("\n`--fake` runs them on the fake server, which says nothing about the real Gemini.")


def _run(model_name: str, api: Api, *, is_fake: bool) -> int:
    outcomes: list[CheckOutcome] = []
    checks = _checks_of(api)
    source: AbstractContextManager[object] = nullcontext()
    if is_fake:
        from langchain_gemini_tools.testing import FakeGemini

        source = FakeGemini()
    with source, ChatGemini(model=model_name, api=api, max_retries=2) as model:
        backend = "Vertex AI" if model.uses_vertexai else "Gemini Developer API"
        place = "FakeGemini" if is_fake else backend
        place += ", Interactions API" if api == "interactions" else ""
        print(f"{len(checks)} checks of {model_name} on {place}\n")
        for check in checks:
            outcomes.append(run_check(check, model))
            print(outcomes[-1], flush=True)
    print(f"\n{render_report(model_name, place, outcomes)}")
    return int(any(outcome.status == "FAILED" for outcome in outcomes))


def render_report(model: str, source: str, outcomes: Sequence[CheckOutcome]) -> str:
    """Return the outcomes as Markdown, with the versions of the packages."""
    counts = Counter(outcome.status for outcome in outcomes)
    versions = [f"{name} {version(name)}" for name in _DEPENDENCIES]
    system = f"Python {platform.python_version()} on {platform.system()}"
    details = [outcome.detail.replace("|", "\\|") for outcome in outcomes]
    return "\n".join(
        [
            f"**Self-test of `{model}` on {source}**: {counts['passed']} passed, "
            f"{counts['FAILED']} failed, {counts['skipped']} skipped",
            "",
            f"langchain-gemini-tools {__version__}, {', '.join(versions)}; {system}",
            "",
            "| check | outcome | details |",
            "|---|---|---|",
            *(f"| {o.name} | {o.status} | {d} |" for o, d in zip(outcomes, details, strict=True)),
        ]
    )
