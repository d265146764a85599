"""Messages and options -> one request, in the order in which the body is built.

`render_request` delegates each field to another module. Nothing here uses the network.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self

from langchain_gemini_tools.errors import (
    GeminiAPIError,
    GeminiInvalidRequestError,
    InvalidHistoryError,
)
from langchain_gemini_tools.facts.credentials import redact, secrets_in_use
from langchain_gemini_tools.facts.finish_reasons import UNEXPECTED_TOOL_CALL
from langchain_gemini_tools.facts.json_values import LARGE, camel, encode_json
from langchain_gemini_tools.wire.body import ContentsWriter, encode_body
from langchain_gemini_tools.wire.contents import render_contents, render_system
from langchain_gemini_tools.wire.generation import (
    JSON,
    plain,
    render_generation_config,
    render_safety_settings,
)
from langchain_gemini_tools.wire.history import Repair, read_history
from langchain_gemini_tools.wire.hops import TOKEN
from langchain_gemini_tools.wire.rejections import (
    check_combinations,
    check_options,
    cut_cached_messages,
    find_other_form,
    leave_out_cached,
)
from langchain_gemini_tools.wire.response import (
    ResponseContext,
    StreamParser,
    check_is_response,
    parse_response,
)
from langchain_gemini_tools.wire.tools.choice import render_tool_config
from langchain_gemini_tools.wire.tools.tool import (
    name_places,
    render_name,
    render_tools,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from langchain_core.messages import BaseMessage
    from langchain_core.outputs import ChatResult

    from langchain_gemini_tools.errors import ResponseError
    from langchain_gemini_tools.wire import shapes as gemini
    from langchain_gemini_tools.wire.contents import TurnRewriter
    from langchain_gemini_tools.wire.invocation import Invocation
    from langchain_gemini_tools.wire.response import WrittenCalls


_CONTENT = attrgetter("content")

_COUNTED_ON_VERTEX = ("contents", "systemInstruction", "tools", "generationConfig")
"""Vertex AI's `countTokens` rejects every other field of a request."""


# "CachedContent not found (or permission denied)", with status 403.
_CACHE_IS_GONE = "CachedContent not found"
_NO_JSON_SCHEMA = 'Unknown name "parametersJsonSchema"'


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
        body = {**self.body, TOKEN: token}
        return encode_json(body, is_large=len(self.encoded) > LARGE)

    def stream_parser(self) -> StreamParser:
        """Return a parser for the events of a streamed response."""
        return StreamParser(self.context)

    def in_another_form(self, failure: GeminiAPIError) -> tuple[RenderedRequest, str] | None:
        """Return the request in a form that the API may accept instead, and an explanation.

        A history that is rejected as it is would be rejected forever.
        """
        if not self.invocation.repairs_history or self.invocation.max_retries == 0:
            return None
        if not (found := find_other_form({**self.body}, failure.message or "")):
            return None
        body, explanation = found
        encoded = encode_json(body, is_large=len(self.encoded) > LARGE)
        return replace(self, encoded=encoded), explanation

    @property
    def path(self) -> str | None:
        """The collection that the body is posted to; `None` for the model's own methods."""
        return None

    def decode(self, response: gemini.JsonObject) -> gemini.Response:
        """Return a whole response in the shape that `parse` reads.

        Raises:
            UnreadableResponseError: It is JSON of another server.
        """
        if not response.get("candidates"):
            check_is_response(response)
        return response

    def event_decoder(self) -> Callable[[gemini.JsonObject], Iterable[gemini.Response]] | None:
        """Return what turns the events of one stream into those that the parser reads.

        `None` if they need no decoding.
        """
        return None

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
        """Add to an error of the API what `name_tools` adds."""
        try:
            yield
        except GeminiAPIError as error:
            self.name_tools(error)
            raise

    def name_tools(self, error: GeminiAPIError) -> None:
        """Add the model to an error of the API, and the tools that it refers to by number."""
        if isinstance(error, GeminiInvalidRequestError):
            tools, context = self.body.get("tools", []), self.context
            names = context.tool_names, context.parameter_names
            if places := name_places(str(error), tools, *names):
                error.args = (f"{error} (That is {'; '.join(places)}.)", *error.args[1:])
        error.name_model(self.invocation.model)
        if advice := self.advice_on(error):
            error.args = (f"{error} ({advice})",)

    def advice_on(self, error: GeminiAPIError) -> str | None:
        """Return what the user can do about an error of the API, if more is known than it says."""
        if _NO_JSON_SCHEMA in str(error):
            return 'This endpoint knows only the older form of schemas: pass tool_schema="openapi".'
        cache = self.invocation.cached_content
        if not cache or _CACHE_IS_GONE not in str(error):
            return None
        return (
            f"The context cache {cache!r} has expired or was deleted, or belongs to another "
            "project. Create it again."
        )


def feedback_on(failure: ResponseError) -> str:
    """Return the feedback to the model about a response that could not be used."""
    return (
        f"Your last answer could not be used ({_cause(failure)}). Answer in words, or "
        "call a declared function with arguments that fit its schema."
    )


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


def render_parts(  # noqa: PLR0913 - each by its name
    messages: Sequence[BaseMessage],
    invocation: Invocation,
    rewrite_turn: TurnRewriter | None = None,
    find_written_calls: Callable[[Collection[str]], WrittenCalls] | None = None,
    writer: type[ContentsWriter] = ContentsWriter,
    *,
    given: Sequence[BaseMessage] = (),
) -> RequestParts:
    """Render messages and options as the fields of a body, and check their combinations.

    Args:
        messages: The history.
        invocation: The resolved options.
        rewrite_turn: Changes each turn of the arranged history before it is rendered.
        find_written_calls: Makes what finds calls of functions in the text of the response.
        writer: Collects and encodes the contents; by default as generateContent reads them.
        given: The list of the caller, if the history is a part of it.

    Raises:
        InvalidInputError: The API would reject the input, or it cannot be sent.
    """
    given = given or messages
    if invocation.cache:
        messages = cut_cached_messages(messages, invocation.cache)
    is_large = _is_large(messages)
    history = read_history(messages)
    instruction = render_system(history.system)
    opening: list[gemini.Part] = []
    accepts_instruction = invocation.capabilities.accepts_system_instruction
    if instruction and (invocation.merges_system or not accepts_instruction):
        opening, instruction = instruction["parts"], None
    contents = writer(
        opening,
        signs_calls=invocation.capabilities.checks_call_signatures,
        may_end_with_model=invocation.capabilities.accepts_prefill,
        is_large=is_large,
    )
    render_contents(history, invocation, contents, rewrite_turn)
    body = _render_body(instruction, contents, invocation)
    if invocation.extra_body and invocation.interaction is None:
        body = merge_fields(body, plain(invocation.extra_body))
    is_json = body.get("generationConfig", {}).get("responseMimeType") == JSON
    check_combinations(body, invocation, is_json=is_json)
    repairs = contents.repairs
    if repairs and messages is not given:
        places = {id(message): place for place, message in enumerate(given)}
        repairs = [replace(r, position=places[id(messages[r.position])]) for r in repairs]
    if not invocation.repairs_history:
        _reject_repairs(repairs)
    names = invocation.tools.user_names
    written = find_written_calls(names) if find_written_calls and names and not is_json else None
    return RequestParts(body, repairs, _response_context(invocation, written), is_large)


def _render_body(
    instruction: gemini.SystemInstruction | None, contents: ContentsWriter, invocation: Invocation
) -> dict[str, Any]:
    """Return the fields of the body that have a value."""
    tools, choice = invocation.tools, invocation.tool_choice
    capabilities, safety = invocation.capabilities, invocation.safety_settings
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
            or (bool(invocation.extra_body) and _adds_builtin(invocation)),
            streams_arguments=invocation.streams_arguments,
        ),
        "generationConfig": render_generation_config(invocation),
        "safetySettings": safety and render_safety_settings(safety),
        "cachedContent": invocation.cached_content,
        TOKEN: invocation.continuation_token,
        **{key: plain(value) for key, value in invocation.body.items()},
    }
    present = {key: value for key, value in body.items() if value}
    if invocation.cache:
        present = leave_out_cached(present, invocation.cache, invocation.model)
    check_options(present, vertexai=invocation.vertexai)
    return present


def _response_context(
    invocation: Invocation, written_calls: WrittenCalls | None
) -> ResponseContext:
    """Return what parsing the response needs: the user's names, and what is usable."""
    tools = invocation.tools
    return ResponseContext(
        model=invocation.model,
        vertexai=invocation.vertexai,
        tool_names=tools.user_names,
        parameter_names=tools.user_parameters,
        runs_remote_tools=tools.run_by_api,
        written_calls=written_calls,
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
    tools = (invocation.extra_body or {}).get("tools")
    if not isinstance(tools, list) or not invocation.circulates_server_tools:
        return False
    keys = {camel(key) for tool in tools if isinstance(tool, dict) for key in tool}
    return bool(keys - {"functionDeclarations"} and invocation.tools.functions)


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


def _reject_repairs(repairs: Sequence[Repair]) -> None:
    for repair in repairs:
        if not repair.is_harmless:
            raise InvalidHistoryError(
                f"Message {repair.position} cannot be sent unchanged, and on_broken_history="
                f"'raise' allows no repair. The repair would be: {repair.explanation}"
            )


def _is_large(messages: Sequence[BaseMessage]) -> bool:
    """Return whether a message contains a very long text."""
    contents = [*map(_CONTENT, messages)]
    if max(map(len, contents), default=0) > LARGE:
        return True
    if {*map(type, contents)} <= {str}:
        return False
    lists = [content for content in contents if isinstance(content, list)]
    fields = [[b] if isinstance(b, str) else b.values() for blocks in lists for b in blocks]
    return any(isinstance(item, str) and len(item) > LARGE for items in fields for item in items)
