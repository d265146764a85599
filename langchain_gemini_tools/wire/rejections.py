"""What an endpoint rejects in a request as a whole, and what is done about it.

Before sending, these are rejected by name:

- Options that exist on one backend only. The SDK refuses the same ones, as a test checks.
  Built-in tools have a column for it in `tools/builtin.py`. What `extra_body` contains is not
  checked: it is the way out for an endpoint that accepts more than the API.
- Combinations of tools, JSON output and context caches that a model does not support.
- What differs from the context cache in use. The API rejects tools, a tool config and a system
  instruction beside `cachedContent`, and never shows what a cache contains. So the model keeps it:
  what is equal is left out, and still used to parse the response; what differs is rejected.

After sending: what the API documents and some endpoints reject is sent again in another form.
Without it, a conversation or a set of tools would be rejected forever.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.messages import SystemMessage

from langchain_gemini_tools.errors import InvalidInputError, InvalidOptionError, InvalidToolError
from langchain_gemini_tools.facts.json_values import camel, snake
from langchain_gemini_tools.wire.replay import skip_signatures, without_call_ids
from langchain_gemini_tools.wire.tools.builtin import builtin_tool, reject_only_typed

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_core.messages import BaseMessage

    from langchain_gemini_tools.wire.invocation import CacheContents, Invocation
    from langchain_gemini_tools.wire.shapes import JsonObject
    from langchain_gemini_tools.wire.tools.builtin import Backend
    from langchain_gemini_tools.wire.tools.tool import BoundTools

_NAMES: dict[Backend, str] = {"developer": "the Gemini Developer API", "vertex": "Vertex AI"}
_WAYS_OUT: dict[Backend, str] = {
    "developer": "Leave it out, or use the Gemini Developer API (vertexai=False).",
    "vertex": "Leave it out, or use Vertex AI (vertexai=True).",
}

_FIELDS: dict[str, Backend] = {
    "generationConfig.audioTimestamp": "vertex",
    "generationConfig.enableEnhancedCivicAnswers": "developer",
    "generationConfig.imageConfig.imageOutputOptions": "vertex",
    "generationConfig.imageConfig.outputCompressionQuality": "vertex",
    "generationConfig.imageConfig.outputMimeType": "vertex",
    "generationConfig.imageConfig.personGeneration": "vertex",
    "generationConfig.imageConfig.prominentPeople": "vertex",
    "generationConfig.modelConfig": "vertex",
    "generationConfig.modelSelectionConfig": "vertex",
    "generationConfig.routingConfig": "vertex",
    "safetySettings.method": "vertex",
    "toolConfig.functionCallingConfig.streamFunctionCallArguments": "vertex",
    "toolConfig.includeServerSideToolInvocations": "developer",
}
"""Fields of the body -> the only backend that has them."""


def _missing_on(backend: Backend) -> dict[str, list[list[str]]]:
    missing: dict[str, list[list[str]]] = {}
    for path, only_on in _FIELDS.items():
        first, *rest = path.split(".")
        if only_on != backend:
            missing.setdefault(first, []).append(rest)
    return missing


_MISSING = {True: _missing_on("vertex"), False: _missing_on("developer")}
"""For Vertex AI or not, by field of the body: the paths inside it that the backend lacks."""


def check_options(body: Mapping[str, Any], *, vertexai: bool) -> None:
    """Reject fields that the backend does not have.

    Args:
        body: The body without its contents, in either spelling.
        vertexai: Whether the request goes to Vertex AI.

    Raises:
        InvalidOptionError: A field exists on the other backend only.
    """
    missing = _MISSING[vertexai]
    for key in body.keys() & missing.keys():
        for path in missing[key]:
            if _has(body[key], path):
                raise InvalidOptionError(
                    _explain(snake(path[-1]), "developer" if vertexai else "vertex")
                )


def check_tools(tools: BoundTools, *, vertexai: bool) -> None:
    """Reject built-in tools, and settings of them, that the backend does not have.

    Raises:
        InvalidToolError: One exists on the other backend only, or in the Interactions API only.
    """
    backend: Backend = "vertex" if vertexai else "developer"
    for tool in tools.builtin:
        row = builtin_tool(tool.name)
        settings = tool.builtin or {}
        reject_only_typed(tool.name, settings[tool.name])
        if row.only_on not in (None, backend):
            raise InvalidToolError(_explain(snake(tool.name), row.only_on))
        for setting in row.settings_of_vertex if backend == "developer" else ():
            if _has(settings, [tool.name, setting]):
                name = f"{snake(setting)} of {snake(tool.name)}"
                raise InvalidToolError(_explain(name, "vertex"))


def _explain(name: str, only_on: Backend) -> str:
    other: Backend = "developer" if only_on == "vertex" else "vertex"
    return (
        f"{name} exists only on {_NAMES[only_on]}, and this model uses {_NAMES[other]}. "
        f"{_WAYS_OUT[only_on]} If your endpoint accepts it anyway, send it in extra_body."
    )


def _has(value: Any, path: Sequence[str]) -> bool:
    """Return whether a field is set, in any item of a list."""
    if isinstance(value, list):
        return any(_has(item, path) for item in value)
    if not path:
        return value is not None
    if not isinstance(value, Mapping):
        return False
    first, *rest = path
    return any(_has(value[key], rest) for key in value if key == first or camel(key) == first)


# Combinations


def check_combinations(body: Mapping[str, Any], invocation: Invocation, *, is_json: bool) -> None:
    """Reject combinations that the API rejects, with advice.

    Args:
        body: The whole body.
        invocation: The resolved options.
        is_json: Whether the output is JSON.

    Raises:
        InvalidOptionError: The model does not support one of them.
    """
    if tools := body.get("tools"):
        _check_support(tools, invocation)
        if is_json:
            _check_json_beside_tools(tools, invocation)
    if cache := body.get("cachedContent"):
        _check_cached_content(cache, body, invocation)


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


def _check_support(tools: Sequence[Any], invocation: Invocation) -> None:
    capabilities = invocation.capabilities
    has_functions = any("functionDeclarations" in tool for tool in tools)
    is_accepted = capabilities.calls_functions or not has_functions
    if not (is_accepted and capabilities.accepts_builtin_tools):
        raise InvalidOptionError(
            f"{invocation.model} does not accept tools. Functions are described in the prompt "
            "unless tool_calling='native'; use a Gemini model for built-in tools."
        )


def _check_json_beside_tools(tools: Sequence[Any], invocation: Invocation) -> None:
    if not invocation.capabilities.combines_json_output_with_functions:
        names = [*invocation.tools.functions]
        advice = "Use ToolStrategy or method='function_calling'"
        if not names:  # such a model does not accept a function beside them, either
            names = [key for tool in tools for key in tool]
            advice = "Request the JSON without them in a second call"
        raise InvalidOptionError(
            f"{invocation.model} does not support JSON output with bound tools "
            f"({', '.join(names)}). {advice}, or use Gemini 3."
        )
    if invocation.interaction is not None:
        return  # its response_format is another field
    backend: Backend = "vertex" if invocation.vertexai else "developer"
    for name in (key for tool in tools for key in tool):
        if builtin_tool(name).excludes_json_on == backend:
            raise InvalidOptionError(
                f"{_NAMES[backend]} does not support JSON output beside {snake(name)}. Use "
                f"ToolStrategy in an agent, or request the JSON without {snake(name)} in a second "
                "call. A newer field is reported to work: generation_config={'responseFormat': "
                "{'text': {'mimeType': 'APPLICATION_JSON', 'schema': {...}}}}."
            )


# Context caches

CACHED_FIELDS = ("systemInstruction", "tools", "toolConfig")


def cut_cached_messages(
    messages: Sequence[BaseMessage], cache: CacheContents
) -> Sequence[BaseMessage]:
    """Return the messages without those of the cache, if they begin with them.

    They are cut before rendering, because messages of one side become one content.

    Raises:
        InvalidInputError: The cache contains all of them.
    """
    others = [place for place, each in enumerate(messages) if not isinstance(each, SystemMessage)]
    places = others[: len(cache.messages)]
    if not places or len(places) < len(cache.messages):
        return messages
    pairs = zip((messages[place] for place in places), cache.messages, strict=True)
    if not all(_is_same(given, cached) for given, cached in pairs):
        return messages
    if len(places) == len(others):
        raise InvalidInputError(
            f"There is nothing to send: the context cache {cache.name!r} contains all messages. "
            "Add a user message."
        )
    return [each for place, each in enumerate(messages) if place not in places]


def _is_same(given: BaseMessage, cached: BaseMessage) -> bool:
    """Compare what is sent; graphs give messages an id of their own."""
    names = ("type", "content", "tool_calls", "invalid_tool_calls", "tool_call_id", "status")
    return all(getattr(given, name, None) == getattr(cached, name, None) for name in names)


def leave_out_cached(body: Mapping[str, Any], cache: CacheContents, model: str) -> dict[str, Any]:
    """Return the body without what the cache contains.

    Raises:
        InvalidOptionError: The request differs from the cache.
    """
    if cache.model and _last_name(cache.model) != _last_name(model):
        raise InvalidOptionError(
            f"The context cache {cache.name!r} was made for {cache.model}, and this request uses "
            f"{model}. Use the same model, a cache for this one, or cached_content=None."
        )
    given, cached = body.get("systemInstruction"), cache.body.get("systemInstruction")
    if given and given != cached:
        what = "The system message of this request differs"
        raise _difference(cache, what, "Use the same text, none")
    if body.get("tools") != cache.body.get("tools"):
        names = _names(body.get("tools")) ^ _names(cache.body.get("tools"))
        which = f" ({', '.join(sorted(names))})" if names else ""
        what = f"The tools{which} of this request differ"
        raise _difference(cache, what, "Bind the same tools, none")
    if _choice_of(body) != _choice_of(cache.body):
        raise _difference(
            cache,
            "The tool_choice of this request differs",
            "Leave it out (for structured output of an agent, use ProviderStrategy, because "
            "ToolStrategy forces a call), create a cache with this tool_choice",
        )
    return {key: value for key, value in body.items() if key not in CACHED_FIELDS}


def _difference(cache: CacheContents, what: str, advice: str) -> InvalidOptionError:
    return InvalidOptionError(
        f"{what} from the context cache {cache.name!r}, which fixes the system text, the tools "
        f"and tool_choice. {advice}, or use a model without the cache."
    )


def _choice_of(body: Mapping[str, Any]) -> Any:
    """Return the tool config; None for mode AUTO, which is the default."""
    config = body.get("toolConfig")
    return None if config == {"functionCallingConfig": {"mode": "AUTO"}} else config


def _last_name(model: str) -> str:
    return model.rpartition("/")[2]


def _names(tools: Any) -> set[str]:
    return {
        str(declaration.get("name"))
        for tool in tools or ()
        for declaration in tool.get("functionDeclarations") or ()
    } | {key for tool in tools or () for key in tool if key != "functionDeclarations"}


# Other forms of a rejected request

_SCHEMAS_OF_TOOLS = ("parametersJsonSchema", "parameters")
_SCHEMAS_OF_OUTPUT = ("responseJsonSchema", "responseSchema")


def find_other_form(body: JsonObject, message: str) -> tuple[JsonObject, str] | None:
    """Return the body in another form, and what was changed; `None` if there is no other form.

    Args:
        body: The body that was rejected.
        message: What the endpoint says about it.
    """
    for form in _FORMS:
        if form.rejection.search(message) and (changed := form.change(body)) != body:
            return changed, form.explanation
    return None


def _skip_signatures(body: JsonObject) -> JsonObject:
    return {**body, "contents": skip_signatures(body["contents"])}


def _leave_out_ids(body: JsonObject) -> JsonObject:
    return {**body, "contents": without_call_ids(body["contents"])}


def _describe_item_limits(body: JsonObject) -> JsonObject:
    """Write how many items arrays have into their descriptions."""
    changed = dict(body)
    if "tools" in body:
        changed["tools"] = [_describe_in_tool(tool) for tool in body["tools"]]
    if "generationConfig" in body:
        changed["generationConfig"] = _describe_in(body["generationConfig"], _SCHEMAS_OF_OUTPUT)
    return changed


def _describe_in_tool(tool: JsonObject) -> JsonObject:
    if "functionDeclarations" not in tool:
        return tool
    declarations = tool["functionDeclarations"]
    described = [_describe_in(each, _SCHEMAS_OF_TOOLS) for each in declarations]
    return {**tool, "functionDeclarations": described}


def _describe_in(fields: JsonObject, names: tuple[str, ...]) -> JsonObject:
    # Loads what is known about schemas, which a request without them never needs.
    from langchain_gemini_tools.wire.schema.render import describe_item_limits

    return {
        name: describe_item_limits(value) if name in names else value
        for name, value in fields.items()
    }


class OtherForm(NamedTuple):
    """What an endpoint says, and the form that it may accept."""

    rejection: re.Pattern[str]
    change: Callable[[JsonObject], JsonObject]
    explanation: str


_FORMS = (
    # "Corrupted thought signature.", "Invalid thought signature."; Vertex AI: "Unable to submit
    # request because Thought signature is not valid." Reported for signatures that came back
    # unchanged, too: theopenco/llmgateway, issue 3252.
    OtherForm(
        re.compile(r"(?i)(corrupted|invalid) thought.?signature|thought.?signature is not valid"),
        _skip_signatures,
        "The API rejected thought signatures; retrying without them",
    ),
    # Reported for version v1 of Vertex AI (looplj/axonhub, issue 874) and for proxies.
    OtherForm(
        re.compile(r"""Unknown name "id" at '[^']*function_(call|response)'"""),
        _leave_out_ids,
        "The endpoint does not know ids of tool calls; retrying without them",
    ),
    # The limits of all arrays together have a limit, which changes: googleapis/python-genai,
    # issue 2170; vercel/ai, issue 21192. The API gives no reason, or "The specified schema
    # produces a constraint that has too many states for serving."
    OtherForm(
        re.compile(r"^Request contains an invalid argument\.$|too many states for serving"),
        _describe_item_limits,
        "The API may have rejected the limits of arrays; retrying with them in descriptions",
    ),
)
