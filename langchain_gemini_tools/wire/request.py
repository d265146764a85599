"""The request path: everything one Gemini call sends, in the order it is built.

Each line of `render_request` opens one neighbouring file. Nothing here talks to the network.
"""

from __future__ import annotations

import json
import math
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from langchain_gemini_tools.errors import (
    GeminiInvalidRequestError,
    InvalidHistoryError,
    InvalidOptionError,
    RefusedError,
)
from langchain_gemini_tools.wire.contents import Reader, render_contents, render_system
from langchain_gemini_tools.wire.generation import (
    JSON,
    plain,
    render_generation_config,
    render_safety_settings,
)
from langchain_gemini_tools.wire.history import Repair, split_system
from langchain_gemini_tools.wire.response import ReplyContext
from langchain_gemini_tools.wire.tools.choice import render_tool_config, resolve_tool_choice
from langchain_gemini_tools.wire.tools.declarations import SchemaForm, bind_tools, render_tools
from langchain_gemini_tools.wire.tools.error_paths import name_places
from langchain_gemini_tools.wire.tools.findings import refuse_unusable_tools
from langchain_gemini_tools.wire.tools.names import (
    function_names,
    names_by_wire_name,
    renamed_parameters,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from langchain_core.messages import BaseMessage

    from langchain_gemini_tools.capabilities import Capabilities
    from langchain_gemini_tools.errors import ReplyError
    from langchain_gemini_tools.wire import shapes as gemini


_COUNTED_ON_VERTEX = ("contents", "systemInstruction", "tools", "generationConfig")
"""Every other field of a request is unknown to Vertex AI's `countTokens`: a 400."""


@dataclass(frozen=True, kw_only=True)
class CallOptions:
    """Everything about one call but its messages."""

    model: str
    capabilities: Capabilities
    vertexai: bool = False
    tools: Sequence[Any] = ()
    tool_choice: Any = None
    tool_config: Any = None
    tool_schema: SchemaForm | None = None
    """The form in which schemas are sent; by default the best that the model takes."""
    generation: Mapping[str, Any] = field(default_factory=dict)
    """Sampling, output format, thinking: see `generation.py`."""
    safety_settings: Any = None
    cached_content: str | None = None
    continuation_token: str | None = None
    """From the metadata of an answer that ended with CONTINUATION: go on with it."""
    labels: Mapping[str, str] | None = None
    extra_body: Mapping[str, Any] | None = None
    """Fields that this package does not know yet, merged over the body."""
    merges_system: bool = False
    """Send system messages as the first user text."""
    repairs_history: bool = True
    returns_failures: bool = False
    """Hand over malformed answers instead of raising."""
    refuses_empty: bool = False
    """Raise where an answer ends well with nothing in it, instead of marking it."""

    @property
    def form(self) -> SchemaForm:
        """The form in which schemas are sent."""
        best: SchemaForm = "json_schema" if self.capabilities.takes_json_schema else "openapi"
        return self.tool_schema or best


@dataclass(frozen=True)
class RenderedRequest:
    """A request, what was mended for it, and what its answer is read with."""

    body: gemini.Request
    repairs: list[Repair]
    context: ReplyContext
    is_second_try: bool = False

    def with_feedback(self, failure: ReplyError) -> RenderedRequest:
        """The same request, telling the model what was wrong with its answer to it."""
        said = failure.finish_message or failure.finish_reason or "it was empty"
        told: gemini.Part = {
            "text": f"Your last answer could not be used ({said}). Answer in words, or call a "
            "declared function with arguments that fit its schema."
        }
        *before, last = self.body["contents"]
        again: gemini.Content = {"role": "user", "parts": [*last["parts"], told]}
        body: gemini.Request = {**self.body, "contents": [*before, again]}
        return replace(self, body=body, is_second_try=True)

    @contextmanager
    def naming_tools(self) -> Iterator[None]:
        """Where the API refuses a tool by its number, its name is put beside the API's words."""
        try:
            yield
        except GeminiInvalidRequestError as error:
            tools, context = self.body.get("tools", []), self.context
            names = context.tool_names, context.parameter_names
            if places := name_places(str(error), tools, *names):
                error.args = (f"{error} (That is {'; '.join(places)}.)", *error.args[1:])
            raise


def render_request(messages: Sequence[BaseMessage], options: CallOptions) -> RenderedRequest:
    """Render one LangChain call as one Gemini call; equal input gives an equal request.

    Raises:
        RefusedError: Something that the API would refuse, or that it has no form for.
    """
    tools = bind_tools(options.tools)
    refuse_unusable_tools(tools, options.capabilities)
    choice = resolve_tool_choice(
        options.tool_choice, tools, options.capabilities, options.tool_config
    )
    system, others = split_system(messages)
    renamed = renamed_parameters(tools)
    conversation = render_contents(others, Reader(options.capabilities, options.model, renamed))
    instruction = render_system(system)
    if instruction and (options.merges_system or not options.capabilities.takes_system_instruction):
        conversation.contents[0]["parts"][:0] = instruction["parts"]
        instruction = None
    body = {
        "systemInstruction": instruction,
        "contents": conversation.contents,
        "tools": render_tools(tools, choice, options.form),
        "toolConfig": render_tool_config(
            choice, tools, options.capabilities, vertexai=options.vertexai
        ),
        "generationConfig": render_generation_config(options.generation, options.capabilities),
        "safetySettings": render_safety_settings(options.safety_settings),
        "cachedContent": options.cached_content,
        "continuationToken": options.continuation_token,
        "labels": options.labels,
    }
    present = {key: value for key, value in body.items() if value}
    present = _merge(present, plain(options.extra_body or {}))
    _check_combinations(present, options)
    _check_repairs(conversation.repairs, options)
    return RenderedRequest(
        body=cast("gemini.Request", present),
        repairs=conversation.repairs,
        context=ReplyContext(
            model=options.model,
            tool_names=names_by_wire_name(tools),
            parameter_names={
                tool: {wire: name for name, wire in names.items()}
                for tool, names in renamed.items()
            },
            runs_remote_tools=any("mcpServers" in tool for tool in tools),
            returns_failures=options.returns_failures,
            refuses_empty=options.refuses_empty,
        ),
    )


def render_counting(request: RenderedRequest, *, vertexai: bool) -> gemini.JsonObject:
    """What asks for the number of tokens in a request: the two backends take different bodies."""
    body: gemini.JsonObject = {**request.body}
    if vertexai:
        return {key: body[key] for key in _COUNTED_ON_VERTEX if key in body}
    model = request.context.model
    name = model if "/" in model else f"models/{model}"
    return {"generateContentRequest": {"model": name, **body}}


def _merge(body: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """The body with more fields, at any depth; lists are replaced."""
    merged = dict(body)
    for key, value in more.items():
        known = merged.get(key)
        if isinstance(known, dict) and isinstance(value, dict):
            merged[key] = _merge(known, value)
        else:
            merged[key] = value
    return merged


def _check_repairs(repairs: Sequence[Repair], options: CallOptions) -> None:
    if options.repairs_history:
        return
    for repair in repairs:
        if not repair.is_harmless:
            raise InvalidHistoryError(
                f"Message {repair.position} cannot be sent as it is. With repairs allowed: "
                f"{repair.explanation}"
            )


def _check_combinations(body: Mapping[str, Any], options: CallOptions) -> None:
    """Refuse what the API answers with 400, in words that say what would work."""
    has_json = body.get("generationConfig", {}).get("responseMimeType") == JSON
    if body.get("tools") and not options.capabilities.calls_functions:
        raise InvalidOptionError(f"{options.model} takes no tools. Use a Gemini model.")
    if has_json and body.get("tools"):
        _check_json_beside_tools(body["tools"], options)
    if options.cached_content and (body.keys() & {"tools", "toolConfig", "systemInstruction"}):
        raise InvalidOptionError(
            "With cached_content, tools and system messages belong into the cache: "
            "create it with them, and leave them out of the call."
        )
    if options.labels and not options.vertexai:
        raise InvalidOptionError("labels exist on Vertex AI only. Leave them out, or use vertexai.")


def _check_json_beside_tools(tools: Sequence[Any], options: CallOptions) -> None:
    if not options.capabilities.combines_json_output_with_functions:
        names = function_names(bind_tools(options.tools)) or [key for tool in tools for key in tool]
        raise InvalidOptionError(
            f"{options.model} does not give JSON output while tools are bound "
            f"({', '.join(names)}). Use ToolStrategy or method='function_calling', or gemini-3."
        )


def encode_request(body: Mapping[str, Any]) -> bytes:
    """The body as it goes over the wire.

    Raises:
        RefusedError: It holds something that JSON has no form for.
    """
    try:
        text = _dump(body)
    except RefusedError:
        raise
    except RecursionError as error:
        raise RefusedError("A message holds a value that is nested too deep to send.") from error
    except ValueError as error:
        raise RefusedError(f"A message holds a value that JSON has no form for: {error}") from error
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        # Halves of a pair find each other; a lone one becomes the replacement character.
        pairs = text.encode("utf-16", "surrogatepass")
        return pairs.decode("utf-16", "replace").encode("utf-8")


def _dump(body: Mapping[str, Any]) -> str:
    dump = partial(json.dumps, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        try:
            return dump(body, default=_jsonable, check_circular=False)
        except RecursionError:  # without end, or only very deep: this one tells, and is slower
            return dump(body, default=_jsonable)
    except RefusedError:
        raise
    except (TypeError, ValueError) as error:
        if "circular" in str(error).lower():
            raise RefusedError("A message holds a value that contains itself.") from error
        # NaN and infinities are not JSON; as text they still tell what they are.
        return dump(_clean(body))


def _jsonable(value: Any) -> Any:
    match value:
        case Enum():
            return value.value
        case date() | datetime() | time():
            return value.isoformat()
        case UUID() | Decimal():
            return str(value)
        case set() | frozenset():
            return sorted(value, key=repr)
        case bytes() | bytearray():
            raise RefusedError(
                f"A message holds {len(value)} raw bytes. Send them as a media block "
                "with base64 and mime_type, or as text."
            )
    if isinstance(value, type):
        raise RefusedError(f"A message holds a class, which JSON has no form for: {value!r:.80}")
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if is_dataclass(value):
        return {item.name: getattr(value, item.name) for item in fields(value)}
    if hasattr(value, "tolist"):  # numpy
        return value.tolist()
    raise RefusedError(
        f"A message holds a {type(value).__name__}, which JSON has no form for: {value!r:.80}"
    )


def _clean(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {_key(key): _clean(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(item) for item in value]
    if value is None or isinstance(value, (str, int, bool)):
        return value
    return _clean(_jsonable(value))


def _key(key: Any) -> str:
    """What stands for a key that is no text; numbers and constants as JSON writes them."""
    clean = _clean(key)
    if isinstance(clean, (dict, list)):
        raise RefusedError(
            f"A message holds an object with a {type(key).__name__} for a key: {key!r:.80}"
        )
    return clean if isinstance(clean, str) else json.dumps(clean)
