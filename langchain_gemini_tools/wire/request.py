"""Messages and options -> one request, in the order in which the body is built.

`render_request` delegates each field to another module. Nothing here uses the network.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from langchain_gemini_tools.errors import (
    GeminiAPIError,
    GeminiInvalidRequestError,
    InvalidHistoryError,
    InvalidOptionError,
)
from langchain_gemini_tools.facts.credentials import redact, secrets_in_use
from langchain_gemini_tools.facts.finish_reasons import UNEXPECTED_TOOL_CALL
from langchain_gemini_tools.facts.json_values import LARGE, camel, encode_json
from langchain_gemini_tools.wire.backends import check_options
from langchain_gemini_tools.wire.body import ContentsWriter, encode_body
from langchain_gemini_tools.wire.cache import cut_cached_messages, leave_out_cached
from langchain_gemini_tools.wire.contents import RenderContext, render_contents, render_system
from langchain_gemini_tools.wire.generation import (
    JSON,
    plain,
    render_generation_config,
    render_safety_settings,
)
from langchain_gemini_tools.wire.history import Repair, split_system
from langchain_gemini_tools.wire.hops import TOKEN
from langchain_gemini_tools.wire.response import ResponseContext, StreamParser, parse_response
from langchain_gemini_tools.wire.tools.choice import render_tool_config
from langchain_gemini_tools.wire.tools.names import (
    function_names,
    name_places,
    names_by_wire_name,
    render_name,
)
from langchain_gemini_tools.wire.tools.tool import renamed_parameters_of, render_tools

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from langchain_core.messages import BaseMessage
    from langchain_core.outputs import ChatResult

    from langchain_gemini_tools.errors import ResponseError
    from langchain_gemini_tools.wire import shapes as gemini
    from langchain_gemini_tools.wire.contents import StepsRestorer, TurnRewriter
    from langchain_gemini_tools.wire.invocation import Invocation
    from langchain_gemini_tools.wire.response import WrittenCalls
    from langchain_gemini_tools.wire.tools.tool import Tool


_COUNTED_ON_VERTEX = ("contents", "systemInstruction", "tools", "generationConfig")
"""Vertex AI's `countTokens` rejects every other field of a request."""


@dataclass(frozen=True)
class RenderedRequest:
    """A request, the repairs made for it, and what its response is parsed with."""

    encoded: bytes
    """The JSON of the body, as it is sent."""
    repairs: list[Repair]
    """What was changed in a history that the API would reject."""
    context: ResponseContext
    invocation: Invocation
    is_second_try: bool = False

    def __repr__(self) -> str:
        shown = f"{type(self).__name__}(body={self.body!r}, repairs={self.repairs!r})"
        return redact(shown, secrets_in_use())

    @cached_property
    def body(self) -> gemini.Request:
        """The decoded body."""
        body: gemini.Request = json.loads(self.encoded)
        return body

    def parse(
        self, response: gemini.Response, later_hops: Sequence[gemini.Response] = ()
    ) -> ChatResult:
        """Parse the whole response to this request.

        Args:
            response: The response.
            later_hops: The responses to `continued` requests, in order.

        Raises:
            ResponseError: The response is not usable.
        """
        return parse_response(response, self.context, later_hops)

    def continued(self, token: str | None) -> bytes:
        """Return the body that continues the response; `None` for the first body."""
        if token is None:
            return self.encoded
        if self._has_token:
            body = {**self.body, TOKEN: token}
            return encode_json(body, is_large=len(self.encoded) > LARGE)
        return b"%b,%b}" % (self.encoded[:-1], encode_json({TOKEN: token})[1:-1])

    @property
    def _has_token(self) -> bool:
        return bool(self.invocation.continuation_token or self.invocation.extra_body)

    def stream_parser(self) -> StreamParser:
        """Return a parser for the events of a streamed response."""
        return StreamParser(self.context)

    def without_previous(self, failure: GeminiAPIError) -> RenderedRequest | None:  # noqa: ARG002
        """Return the request with what the API should have kept; `None` if nothing is left out."""
        return None

    @property
    def is_background(self) -> bool:
        """Whether the response has to be read again until it is complete."""
        return False

    @property
    def interaction_id(self) -> str | None:
        """The response in the background that is read instead of starting one."""
        return None

    @property
    def background_timeout_seconds(self) -> float | None:
        """How long a response in the background may take."""
        return None

    def running_interaction(self, response: gemini.JsonObject) -> str | None:  # noqa: ARG002
        """Return the id under which a response can be read again; `None` if it has ended."""
        return None

    @property
    def path(self) -> str | None:
        """The collection that the body is posted to; `None` for the model's own methods."""
        return None

    def decode(self, response: gemini.JsonObject) -> gemini.Response:
        """Return a whole response in the shape that `parse` reads."""
        return response

    def event_decoder(self) -> Callable[[gemini.JsonObject], Iterable[gemini.Response]]:
        """Return what turns the events of one stream into those that the parser reads."""
        return _as_it_is

    def with_feedback(self, failure: ResponseError) -> RenderedRequest:
        """Return the same request, with a description of what was wrong with the response."""
        feedback: gemini.Part = {"text": feedback_on(failure)}
        *before, last = self.body["contents"]
        if last["role"] == "model" or any("functionResponse" in part for part in last["parts"]):
            # Tool results and user text are separate contents; see `ContentsWriter`.
            return self.second_try([*before, last, {"role": "user", "parts": [feedback]}], failure)
        again: gemini.Content = {"role": "user", "parts": [*last["parts"], feedback]}
        return self.second_try([*before, again], failure)

    def second_try(self, contents: list[gemini.Content], failure: ResponseError) -> Self:
        """Return this request with other contents; the usage of the failed response is kept."""
        body: gemini.Request = {**self.body, "contents": contents}
        prior_usage = failure.partial.usage_metadata if failure.partial else None
        context = replace(self.context, prior_usage=prior_usage)
        encoded = encode_json(body, is_large=len(self.encoded) > LARGE)
        return replace(self, encoded=encoded, context=context, is_second_try=True)

    @contextmanager
    def naming_tools(self) -> Iterator[None]:
        """Add the model to an error of the API, and the tools that it refers to by number."""
        try:
            yield
        except GeminiAPIError as error:
            if isinstance(error, GeminiInvalidRequestError):
                tools, context = self.body.get("tools", []), self.context
                names = context.tool_names, context.parameter_names
                if places := name_places(str(error), tools, *names):
                    error.args = (f"{error} (That is {'; '.join(places)}.)", *error.args[1:])
            error.name_model(self.invocation.model)
            if advice := self.advice_on(error):
                error.args = (f"{error} ({advice})",)
            raise

    def advice_on(self, error: GeminiAPIError) -> str | None:
        """Return what the user can do about an error of the API, if more is known than it says."""
        cache = self.invocation.cached_content
        if not cache or _CACHE_IS_GONE not in str(error):
            return None
        return (
            f"The context cache {cache!r} has expired or was deleted, or belongs to another "
            "project. Create it again."
        )


def feedback_on(failure: ResponseError) -> str:
    """Return what the model is told about a response that could not be used."""
    return (
        f"Your last answer could not be used ({_cause(failure)}). Answer in words, or "
        "call a declared function with arguments that fit its schema."
    )


def _as_it_is(event: gemini.JsonObject) -> tuple[gemini.Response]:
    return (event,)


def _cause(failure: ResponseError) -> str:
    """Return what was wrong with a response, for the model."""
    calls = failure.partial.invalid_tool_calls if failure.partial else []
    if failure.finish_reason == UNEXPECTED_TOOL_CALL and calls:
        names = list(dict.fromkeys(render_name(call["name"] or "a function") for call in calls))
        verb = "is" if len(names) == 1 else "are"
        return f"{', '.join(names)} {verb} not available now"
    return failure.finish_message or failure.finish_reason or "it was empty"


def render_request(
    messages: Sequence[BaseMessage],
    invocation: Invocation,
    rewrite_turn: TurnRewriter | None = None,
    find_written_calls: Callable[[Collection[str]], WrittenCalls] | None = None,
) -> RenderedRequest:
    """Render messages and options as one request; equal input gives an equal request.

    Args:
        messages: The history.
        invocation: The resolved options.
        rewrite_turn: Changes each turn of the arranged history before it is rendered.
        find_written_calls: Makes what finds calls of functions in the text of the response.

    Raises:
        InvalidInputError: The API would reject the input, or it cannot be sent.
    """
    parts = render_parts(messages, invocation, rewrite_turn, find_written_calls)
    return RenderedRequest(
        encoded=encode_body(parts.body, is_large=parts.is_large),
        repairs=parts.repairs,
        context=parts.context,
        invocation=invocation,
    )


@dataclass(frozen=True)
class RequestParts:
    """A request before it is encoded."""

    body: dict[str, Any]
    """Its fields; `contents` is a `ContentsWriter`. `extra_body` is part of it, except for the
    Interactions API, whose fields have other names."""
    repairs: list[Repair]
    context: ResponseContext
    is_large: bool


class ContentsForm(NamedTuple):
    """How the contents of a request are written."""

    writer: type[ContentsWriter] = ContentsWriter
    """Collects and encodes them."""
    restore: StepsRestorer | None = None
    """Returns the steps of a message as they came."""


def render_parts(
    messages: Sequence[BaseMessage],
    invocation: Invocation,
    rewrite_turn: TurnRewriter | None = None,
    find_written_calls: Callable[[Collection[str]], WrittenCalls] | None = None,
    form: ContentsForm | None = None,
) -> RequestParts:
    """Render messages and options as the fields of a body, and check their combinations.

    Args:
        messages: The history.
        invocation: The resolved options.
        rewrite_turn: Changes each turn of the arranged history before it is rendered.
        find_written_calls: Makes what finds calls of functions in the text of the response.
        form: How contents are written; by default as generateContent reads them.

    Raises:
        InvalidInputError: The API would reject the input, or it cannot be sent.
    """
    writer, restore = form or ContentsForm()
    if invocation.cache:
        messages = cut_cached_messages(messages, invocation.cache)
    renamed = renamed_parameters_of(invocation.tools)
    system, others = split_system(messages)
    instruction = render_system(system)
    opening: list[gemini.Part] = []
    accepts_instruction = invocation.capabilities.accepts_system_instruction
    if instruction and (invocation.merges_system or not accepts_instruction):
        opening, instruction = instruction["parts"], None
    is_large = any(map(_is_large, messages))
    contents = writer(
        opening,
        signs_calls=invocation.capabilities.checks_call_signatures,
        may_end_with_model=invocation.capabilities.accepts_prefill,
        is_large=is_large,
    )
    rendering = _render_context(invocation, renamed, restore)
    render_contents(others, rendering, contents, rewrite_turn)
    body = _render_body(instruction, contents, invocation)
    given = invocation.extra_body if invocation.interaction is None else None
    whole = merge_fields(body, plain(given or {}))
    _check_combinations(whole, invocation)
    check_repairs(contents.repairs, invocation)
    context = _response_context(invocation.tools, renamed, invocation)
    if find_written_calls and context.tool_names and not _is_json(whole):
        context = replace(context, written_calls=find_written_calls(context.tool_names))
    return RequestParts(whole, contents.repairs, context, is_large)


def _is_json(body: Mapping[str, Any]) -> bool:
    return bool(body.get("generationConfig", {}).get("responseMimeType") == JSON)


def _render_context(
    invocation: Invocation,
    renamed: Mapping[str, Mapping[str, str]],
    restore: StepsRestorer | None,
) -> RenderContext:
    """Return what rendering the messages needs to know about the model and its tools."""
    tools = invocation.tools
    return RenderContext(
        invocation.capabilities,
        invocation.model,
        vertexai=invocation.vertexai,
        parameter_names=renamed,
        declared=function_names(tools) if any(tool.is_run_by_user for tool in tools) else None,
        accepts_server_parts=invocation.circulates_server_tools,
        restore=restore,
    )


def _render_body(
    instruction: gemini.SystemInstruction | None, contents: ContentsWriter, invocation: Invocation
) -> dict[str, Any]:
    """Return the fields of the body that have a value."""
    tools, choice = invocation.tools, invocation.tool_choice
    capabilities = invocation.capabilities
    body = {
        "systemInstruction": instruction,
        "contents": contents,
        "tools": render_tools(tools, choice, invocation.schema_form),
        "toolConfig": render_tool_config(
            choice,
            tools,
            capabilities,
            vertexai=invocation.vertexai,
            # The tool config of a cache is in the cache.
            has_server_parts=(contents.has_server_tools and not invocation.cached_content)
            or _adds_builtin(invocation),
        ),
        "generationConfig": render_generation_config(
            invocation.generation, capabilities, vertexai=invocation.vertexai
        ),
        "safetySettings": render_safety_settings(invocation.safety_settings),
        "cachedContent": invocation.cached_content,
        TOKEN: invocation.continuation_token,
        **{key: plain(value) for key, value in invocation.body.items()},
    }
    present = {key: value for key, value in body.items() if value}
    if invocation.cache:
        present = leave_out_cached(present, invocation.cache)
    check_options(present, vertexai=invocation.vertexai)
    return present


def _response_context(
    tools: Sequence[Tool],
    renamed: Mapping[str, Mapping[str, str]],
    invocation: Invocation,
) -> ResponseContext:
    """Return what parsing the response needs: the user's names, and what is usable."""
    return ResponseContext(
        model=invocation.model,
        vertexai=invocation.vertexai,
        tool_names=names_by_wire_name(tools),
        parameter_names={
            tool: {wire: name for name, wire in names.items()} for tool, names in renamed.items()
        },
        runs_remote_tools=any(tool.calls_are_run_by_api for tool in tools),
        returns_failures=invocation.returns_failures,
        returns_hops=not invocation.continues_automatically,
        rejects_empty=invocation.rejects_empty,
        streams_blocks=invocation.streams_blocks,
        is_interaction=invocation.interaction is not None,
    )


def render_counting(request: RenderedRequest) -> bytes:
    """Render the request that counts tokens; the two backends expect different bodies."""
    body: gemini.JsonObject = {**request.body}
    if request.invocation.vertexai:
        counted = {key: body[key] for key in _COUNTED_ON_VERTEX if key in body}
    else:
        model = request.invocation.model
        name = model if "/" in model else f"models/{model}"
        counted = {"generateContentRequest": {"model": name, **body}}
    return encode_json(counted, is_large=len(request.encoded) > LARGE)


def merge_fields(body: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body with more fields, merged at any depth in either spelling.

    Lists are replaced, except for `tools`, which are joined.
    """
    merged = dict(body)
    for given, value in more.items():
        key = _key_of(given, merged)
        known = merged.get(key)
        if isinstance(known, dict) and isinstance(value, dict):
            merged[key] = merge_fields(known, value)
        elif key == "tools" and known and isinstance(value, list):
            merged[key] = _join_tools(known, value)
        else:
            merged[key] = value
    return merged


def _key_of(given: Any, body: Mapping[str, Any]) -> Any:
    """Return the key that a field has in the body already, under either spelling."""
    is_there = given in body or not isinstance(given, str) or camel(given) not in body
    return given if is_there else camel(given)


def _adds_builtin(invocation: Invocation) -> bool:
    """Return whether `extra_body` adds built-in tools to functions, where that needs a flag."""
    tools = invocation.extra_body.get("tools") if invocation.extra_body else None
    if not isinstance(tools, list) or not invocation.circulates_server_tools:
        return False
    keys = {camel(key) for tool in tools if isinstance(tool, dict) for key in tool}
    return bool(keys - {"functionDeclarations"}) and bool(function_names(invocation.tools))


def _join_tools(tools: list[Any], more: Sequence[Any]) -> list[Any]:
    """Return all tools, with the functions of both in one; a declaration replaces its namesake."""
    both = [{camel(key): tool[key] for key in tool} for tool in [*tools, *more]]
    declarations = {
        declaration["name"]: declaration
        for tool in both
        for declaration in tool.pop("functionDeclarations", None) or ()
    }
    functions = [{"functionDeclarations": [*declarations.values()]}] if declarations else []
    return [*functions, *filter(None, both)]


def check_repairs(repairs: Sequence[Repair], invocation: Invocation) -> None:
    """Reject a history that needs repairs, if repairs are disabled.

    Raises:
        InvalidHistoryError: A repair changes the meaning of the messages.
    """
    if invocation.repairs_history:
        return
    for repair in repairs:
        if not repair.is_harmless:
            raise InvalidHistoryError(
                f"Message {repair.position} cannot be sent unchanged. With repairs enabled: "
                f"{repair.explanation}"
            )


def _check_combinations(body: Mapping[str, Any], invocation: Invocation) -> None:
    """Reject combinations that the API rejects, with advice."""
    has_json = _is_json(body)
    _check_tools(body.get("tools") or (), invocation)
    if has_json and body.get("tools"):
        _check_json_beside_tools(body["tools"], invocation)
    if cache := body.get("cachedContent"):
        _check_cached_content(cache, body, invocation)


# "CachedContent not found (or permission denied)", with status 403.
_CACHE_IS_GONE = "CachedContent not found"

_PARTS_OF_A_CACHE = {
    "tools": "tools",
    "toolConfig": "tool_choice or tool_config",
    "systemInstruction": "system messages",
}


def _check_cached_content(cache: object, body: Mapping[str, Any], invocation: Invocation) -> None:
    """Reject what the API accepts in a cache only."""
    if not invocation.capabilities.supports_cached_content:
        raise InvalidOptionError(
            f"{invocation.model} does not support cached_content. Omit it, or use another model."
        )
    if given := [name for key, name in _PARTS_OF_A_CACHE.items() if body.get(key)]:
        raise InvalidOptionError(
            f"A request with cached_content={cache!r} cannot have {', '.join(given)}: they must be "
            "part of the cache. Create it with model.with_context_cache(system=..., tools=...), or "
            "say what it contains with with_context_cache(name=..., system=..., tools=...); or "
            "leave cached_content out."
        )


def _check_tools(tools: Sequence[Any], invocation: Invocation) -> None:
    capabilities = invocation.capabilities
    has_functions = any("functionDeclarations" in tool for tool in tools)
    is_accepted = capabilities.calls_functions or not has_functions
    if tools and not (is_accepted and capabilities.accepts_builtin_tools):
        raise InvalidOptionError(
            f"{invocation.model} does not accept tools. Functions are described in the prompt "
            "unless tool_calling='native'; use a Gemini model for built-in tools."
        )


def _check_json_beside_tools(tools: Sequence[Any], invocation: Invocation) -> None:
    if not invocation.capabilities.combines_json_output_with_functions:
        names = function_names(invocation.tools) or [key for tool in tools for key in tool]
        raise InvalidOptionError(
            f"{invocation.model} does not support JSON output with bound tools "
            f"({', '.join(names)}). Use ToolStrategy or method='function_calling', or gemini-3."
        )


def _is_large(message: BaseMessage) -> bool:
    content = message.content
    if isinstance(content, str):
        return len(content) > LARGE
    fields = [[block] if isinstance(block, str) else block.values() for block in content]
    return any(isinstance(item, str) and len(item) > LARGE for items in fields for item in items)
