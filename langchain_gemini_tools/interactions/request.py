"""Messages and options -> the body of an interaction, and back.

`wire` renders the fields of generateContent and checks them; here each field gets the name and the
form of the Interactions API. What the API does not have is rejected by name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain_core.messages import SystemMessage

from langchain_gemini_tools.errors import (
    GeminiNotFoundError,
    InvalidOptionError,
)
from langchain_gemini_tools.facts.json_values import LARGE, encode_json, snake
from langchain_gemini_tools.interactions.response import (
    EventDecoder,
    decode_interaction,
)
from langchain_gemini_tools.interactions.steps import (
    CONTENTS,
    KeptHistory,
    NewStepsWriter,
    StepsWriter,
    find_kept,
    sum_of,
)
from langchain_gemini_tools.wire.body import encode_body
from langchain_gemini_tools.wire.generation import JSON, plain
from langchain_gemini_tools.wire.history import Repair
from langchain_gemini_tools.wire.hops import TOKEN
from langchain_gemini_tools.wire.invocation import InteractionOptions
from langchain_gemini_tools.wire.request import (
    RenderedRequest,
    feedback_on,
    merge_fields,
    render_parts,
)
from langchain_gemini_tools.wire.tools.builtin import write_typed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from langchain_core.messages import BaseMessage

    from langchain_gemini_tools.errors import GeminiAPIError, ResponseError
    from langchain_gemini_tools.wire import shapes as gemini
    from langchain_gemini_tools.wire.invocation import Invocation
    from langchain_gemini_tools.wire.response import WrittenCalls

_INSTEAD = {
    "thinking_budget": "Use reasoning_effort (thinking_level).",
    "media_resolution": "Set it on single files.",
    "speech_config": "The Interactions API spells it differently: send it in extra_body.",
}
"""What to do instead of options that the API does not have."""

_GENERATION = {
    "temperature": "temperature",
    "topP": "top_p",
    "topK": "top_k",  # not in the SDK's types; reported as accepted: vercel/ai, issue 17937
    "maxOutputTokens": "max_output_tokens",
    "stopSequences": "stop_sequences",
    "seed": "seed",
}
_HARM = "HARM_CATEGORY_"


@dataclass(frozen=True, repr=False)
class InteractionRequest(RenderedRequest):
    """A request to the Interactions API."""

    history_sum: str | None = None
    """The check sum of the messages, if the API keeps them."""
    render_whole: Callable[[], InteractionRequest] | None = None
    """Renders all messages, if this request leaves out what the API has kept."""

    @property
    def path(self) -> str | None:
        """The collection that the body is posted to."""
        return "interactions"

    def decode(self, response: gemini.JsonObject) -> gemini.Response:
        """Return a whole interaction in the shape that `parse` reads."""
        return decode_interaction(response, self.history_sum, self._sent_results)

    def event_decoder(self) -> Callable[[gemini.JsonObject], list[gemini.Response]]:
        """Return what turns the events of one stream into those that the parser reads."""
        return EventDecoder(self.history_sum, self._sent_results)

    @property
    def _sent_results(self) -> set[str]:
        """The ids of the calls whose results this request sends, if it may get them back."""
        if not self._options.is_background:
            return set()
        steps = _as_steps(self.body.get("input") or [])
        return {str(step.get("call_id")) for step in steps if step.get("type") == "function_result"}

    @property
    def _options(self) -> InteractionOptions:
        return self.invocation.interaction or InteractionOptions()

    def continued(self, token: str | None) -> bytes:
        """Return the body that continues the response; `None` for the first body."""
        if token is None:
            return self.encoded
        body = _continue_body({**self.body}, token)
        return encode_json(body, is_large=len(self.encoded) > LARGE)

    def with_feedback(self, failure: ResponseError) -> RenderedRequest:
        """Return the same request, with a description of what was wrong with the response."""
        said = {"type": "text", "text": feedback_on(failure)}
        body: Any = self.body
        steps = [*_as_steps(body["input"]), {"type": "user_input", "content": [said]}]
        prior_usage = failure.partial.usage_metadata if failure.partial else None
        encoded = encode_json({**body, "input": steps}, is_large=len(self.encoded) > LARGE)
        context = replace(self.context, prior_usage=prior_usage)
        return replace(self, encoded=encoded, context=context, is_second_try=True)

    def advice_on(self, error: GeminiAPIError) -> str | None:
        """Return what to do if an agent was named as a model, or tools cannot be combined."""
        if "include_server_side_tool_invocations" in str(error):
            # Reported for gemini-3.6-flash and gemini-3.5-flash-lite: python-genai issue 2761
            return (
                "The Interactions API has no such setting. Use api='generate_content' for built-in "
                "tools beside functions with this model."
            )
        options = self._options
        is_known = options.is_agent or options.interaction_id or self.render_whole
        if is_known or not isinstance(error, GeminiNotFoundError) or error.interaction_id:
            return None
        return "If this is the name of an agent, pass agent=True."

    def in_another_form(self, failure: GeminiAPIError) -> tuple[RenderedRequest, str] | None:
        """Return the request with all messages, if the API does not have the previous one.

        How the API says so is not known. A 404 is taken for it, and a 400 that names it; not for
        an interaction that has started, which would start once more.
        """
        if failure.interaction_id:
            return None
        is_missing = isinstance(failure, GeminiNotFoundError) or "interaction" in str(failure)
        if self.render_whole is None or self._options.interaction_id or not is_missing:
            return None
        return self.render_whole(), "The previous interaction is gone; all messages are sent"


def render_interaction(
    messages: Sequence[BaseMessage],
    invocation: Invocation,
    find_written_calls: Callable[[Collection[str]], WrittenCalls] | None = None,
) -> InteractionRequest:
    """Render messages and options as a request to the Interactions API.

    Args:
        messages: The history.
        invocation: The resolved options.
        find_written_calls: Makes what finds calls of functions in the text of the response.

    Raises:
        InvalidInputError: The API would reject the input, or it has no form for it.
    """
    _check_options(invocation)
    options = invocation.interaction or InteractionOptions()
    kept = find_kept(messages, vertexai=invocation.vertexai) if options.uses_previous else None
    is_new = isinstance(kept, KeptHistory)
    parts = render_parts(
        _without_kept(messages, kept) if isinstance(kept, KeptHistory) else messages,
        invocation,
        find_written_calls=find_written_calls,
        writer=NewStepsWriter if is_new else StepsWriter,
        given=messages,
    )
    body = _render_body(parts.body, invocation)
    if isinstance(kept, KeptHistory):
        body["previous_interaction_id"] = kept.interaction_id
    whole = replace(invocation, interaction=replace(options, uses_previous=False))
    return InteractionRequest(
        encoded=encode_body(_merge_extra(body, invocation.extra_body), is_large=parts.is_large),
        repairs=[kept, *parts.repairs] if isinstance(kept, Repair) else parts.repairs,
        context=parts.context,
        invocation=invocation,
        history_sum=sum_of(messages) if options.store else None,
        render_whole=partial(render_interaction, messages, whole, find_written_calls)
        if is_new
        else None,
    )


def _continue_body(body: gemini.JsonObject, token: str) -> gemini.JsonObject:
    """Return a body that continues a response.

    By the SDK, a stored interaction is continued by its id and without input, any other by the
    same input.

    Args:
        body: The body of the first request.
        token: From a decoded response: the API's token, after the id of a stored interaction.
    """
    interaction_id, _, bare = token.rpartition(" ")
    if not interaction_id:
        return {**body, "continuation_token": bare}
    others = {key: value for key, value in body.items() if key != "input"}
    return {**others, "previous_interaction_id": interaction_id, "continuation_token": bare}


def _as_steps(given: Any) -> list[gemini.JsonObject]:
    """Return the input as steps; that of `extra_body` may be a text, a content or contents."""
    if isinstance(given, str):
        given = {"type": "text", "text": given}
    items = [given] if isinstance(given, dict) else given
    if all(item.get("type") in CONTENTS for item in items):
        return [{"type": "user_input", "content": items}] if items else []
    steps: list[gemini.JsonObject] = items
    return steps


def _merge_extra(body: dict[str, Any], extra: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the body with the fields of `extra_body`; a function replaces its namesake."""
    more = plain(extra or {})
    tools = more.get("tools")
    if isinstance(tools, list):
        names = {tool.get("name") for tool in tools if _is_function(tool)}
        known = [t for t in body.get("tools", []) if not (_is_function(t) and t["name"] in names)]
        body, more = {**body, "tools": []}, {**more, "tools": [*known, *tools]}
    return merge_fields(body, more)


def _is_function(tool: Any) -> bool:
    return isinstance(tool, dict) and tool.get("type") == "function"


def _without_kept(messages: Sequence[BaseMessage], kept: KeptHistory) -> list[BaseMessage]:
    """Return the message that ends what was kept, whose calls may have results, and all new ones.

    System messages are sent every time.
    """
    before = messages[: kept.position]
    system = [message for message in before if isinstance(message, SystemMessage)]
    return [*system, *messages[kept.position :]]


def _check_options(invocation: Invocation) -> None:
    """Reject what the API does not have, before anything is rendered."""
    given = invocation.generation
    for name, advice in _INSTEAD.items():
        if given.get(name) is not None:
            raise _missing(name, advice)
    if given.get("n", 1) != 1:
        raise _missing("n", "Use `batch` for several responses.")
    if invocation.cached_content:
        raise _missing("cached_content", "Use use_previous_interaction=True.")
    if invocation.schema_form != "json_schema":
        raise _missing("tool_schema='openapi'", "It accepts JSON Schema.")
    if invocation.is_prompted and invocation.tools.functions:
        raise InvalidOptionError(
            "Prompted tool calling does not exist with api='interactions'. Use "
            "api='generate_content' for models without function calling."
        )


def _missing(name: str, advice: str = "") -> InvalidOptionError:
    return InvalidOptionError(
        f"The Interactions API does not have {name}. "
        + (f"{advice} " if advice else "")
        + "Omit it, or use api='generate_content'."
    )


def _render_body(fields: Mapping[str, Any], invocation: Invocation) -> dict[str, Any]:
    """Return the body, from the fields of generateContent."""
    options = invocation.interaction or InteractionOptions()
    rest = dict(fields)
    config = rest.pop("generationConfig", {})
    choice = _render_choice(rest.pop("toolConfig", {}))
    instruction = rest.pop("systemInstruction", None)
    steps, tools = rest.pop("contents"), rest.pop("tools", [])
    token, safety = rest.pop(TOKEN, None), rest.pop("safetySettings", [])
    generation = _render_generation(config) | choice
    if options.is_agent and generation:
        raise InvalidOptionError(
            f"An agent does not have {', '.join(generation)}. Omit it; settings of an agent are "
            "extra_body={'agent_config': ...}."
        )
    body = {
        "agent" if options.is_agent else "model": invocation.model.removeprefix("models/"),
        "system_instruction": _render_instruction(instruction),
        "input": steps,
        "tools": _render_tools(tools),
        "generation_config": generation,
        "response_format": _render_format(config),
        "response_modalities": [each.lower() for each in config.get("responseModalities", [])],
        "safety_settings": [_render_safety(each) for each in safety],
        **{snake(key): value for key, value in rest.items()},
    }
    sent = {key: value for key, value in body.items() if value}
    if token:
        sent = _continue_body(sent, token)
    sent |= {"store": options.store}
    if options.background:
        sent |= {"background": True}
    return {**sent, "stream": True} if options.is_stream else sent


def _render_instruction(instruction: Any) -> str | None:
    if not instruction:
        return None
    return "\n\n".join(part["text"].strip("\n") for part in instruction["parts"])


def _render_tools(tools: Sequence[gemini.Tool]) -> list[gemini.JsonObject]:
    rendered: list[gemini.JsonObject] = []
    for tool in tools:
        for key, value in tool.items():
            if key == "functionDeclarations":
                rendered += map(_render_function, value)
            else:
                rendered += write_typed(key, value)
    return rendered


def _render_function(declaration: gemini.FunctionDeclaration) -> gemini.JsonObject:
    """Render a function: one tool each. There is no schema for its result."""
    function: gemini.JsonObject = {"type": "function", "name": declaration["name"]}
    if description := declaration.get("description"):
        function["description"] = description
    if parameters := declaration.get("parametersJsonSchema"):
        function["parameters"] = _without_empty_required(parameters)
    return function


def _without_empty_required(schema: Any) -> Any:
    """Return a schema without `required: []`: reported as rejected, recorded as accepted."""
    if isinstance(schema, list):
        return [_without_empty_required(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _without_empty_required(value)
        for key, value in schema.items()
        if not (key == "required" and value == [])
    }


def _render_choice(config: Mapping[str, Any]) -> gemini.JsonObject:
    """Render `toolConfig` as the `tool_choice` of `generation_config`."""
    calling = dict(config.get("functionCallingConfig", {}))
    mode, names = calling.pop("mode", None), calling.pop("allowedFunctionNames", None)
    if config.get("retrievalConfig"):
        place = '{"type": "google_maps", "latitude": ..., "longitude": ...}'
        raise _missing("retrieval_config of tool_config", f"A place is a setting: {place}.")
    if unknown := [*calling]:
        raise _missing(f"{snake(unknown[0])} of tool_config")
    if mode is None:
        return {}
    if names:
        return {"tool_choice": {"allowed_tools": {"mode": mode.lower(), "tools": names}}}
    return {"tool_choice": mode.lower()}


def _render_generation(config: Mapping[str, Any]) -> gemini.JsonObject:
    rest = dict(config)
    for key in ("responseMimeType", "responseJsonSchema", "responseModalities"):
        rest.pop(key, None)
    rendered: gemini.JsonObject = {}
    thinking = dict(rest.pop("thinkingConfig", {}))
    if level := thinking.pop("thinkingLevel", None):
        rendered["thinking_level"] = str(level).lower()
    if (shows := thinking.pop("includeThoughts", None)) is not None:
        rendered["thinking_summaries"] = "auto" if shows else "none"
    if thinking:
        raise _missing(snake(next(iter(thinking))))
    if image := rest.pop("imageConfig", None):
        rendered["image_config"] = {snake(key): value for key, value in image.items()}
    for key, value in rest.items():
        if key not in _GENERATION:
            raise _missing(snake(key))
        rendered[_GENERATION[key]] = value
    return rendered


def _render_format(config: Mapping[str, Any]) -> gemini.JsonObject | None:
    mime_type = config.get("responseMimeType")
    if mime_type in (None, "text/plain"):
        return None
    if mime_type != JSON:
        raise _missing(f"response_mime_type={mime_type!r}")
    rendered = {"type": "text", "mime_type": mime_type}
    schema = config.get("responseJsonSchema")
    return rendered | ({"schema": _without_empty_required(schema)} if schema else {})


def _render_safety(setting: Mapping[str, Any]) -> gemini.JsonObject:
    others = {snake(key): value for key, value in setting.items() if key != "category"}
    category = str(setting.get("category", "")).removeprefix(_HARM).lower()
    return {"type": category} | {key: str(value).lower() for key, value in others.items()}
