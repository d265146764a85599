"""Options -> generationConfig and safetySettings."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, get_origin

from langchain_gemini_tools.errors import InvalidOptionError
from langchain_gemini_tools.facts.json_values import camel

if TYPE_CHECKING:
    from langchain_gemini_tools.facts.models import Capabilities
    from langchain_gemini_tools.wire import shapes as gemini
    from langchain_gemini_tools.wire.invocation import Invocation

JSON = "application/json"

_TYPES_WITH_SCHEMA = (JSON, "text/x.enum")

SAMPLING = ("temperature", "top_p", "top_k")
"""Options that models from Gemini 3.6 on ignore, and later generations reject."""

_THINKING = frozenset(
    {"thinking_config", "include_thoughts", "thinking_budget", "reasoning_effort"}
)

_JSON_TYPES = ("object", "array", "string", "number", "integer", "boolean")

MAX_STOP_SEQUENCES = 5
"""How many stop sequences the API accepts."""

_BUDGETS = {"none": 0, "minimal": 512, "low": 1024, "medium": 8192, "high": 24576}
"""Thinking effort for models that accept only a budget; Google's mapping of OpenAI's levels."""

RENDERED_OPTIONS = frozenset(
    {
        "n",
        "stop",
        "response_schema",
        "response_format",
        "media_resolution",
        "generation_config",
        *_THINKING,
    }
)
"""Options with a form of their own in generationConfig. All others only change their spelling."""

OUTPUT_FORMATS = frozenset({"response_mime_type", "response_schema", "response_format"})
"""Options that set the format of the output."""

_OWN_NAMES = {
    "generation_config": {
        "stopSequences": "stop",
        "candidateCount": "n",
        "mediaResolution": "media_resolution",
        "responseSchema": "response_schema",
        "responseJsonSchema": "response_schema",
        "thinkingConfig": "thinking_config",
    },
    "thinking_config": {
        "thinkingBudget": "thinking_budget",
        "thinkingLevel": "reasoning_effort",
        "includeThoughts": "include_thoughts",
    },
}
"""Fields of the API's two configs -> names of our options, where more than the spelling differs."""

_IMAGE_OUTPUT = {"outputMimeType": "mimeType", "outputCompressionQuality": "compressionQuality"}
"""Fields of the SDK's `ImageConfig` -> those of the API's `imageOutputOptions`, on Vertex AI."""


class OwnLevel(str):
    """A thinking level as the API spells it: sent unchanged if it is unknown."""

    __slots__ = ()


def unpack_config(name: str, config: Any, plain_options: Collection[str]) -> gemini.JsonObject:
    """Return the options that a config contains; unknown fields stay in the config.

    Args:
        name: `generation_config` or `thinking_config`.
        config: A dict in either spelling, or the SDK's type.
        plain_options: The options of generationConfig that only change their spelling.

    Raises:
        InvalidOptionError: It is neither a dict nor an SDK type.
    """
    fields = plain(config)
    if not isinstance(fields, Mapping):
        raise InvalidOptionError(
            f"{name}={config!r} is not valid; use a dict or a type of google-genai."
        )
    options: gemini.JsonObject = {}
    rest: gemini.JsonObject = {}
    own_names = _OWN_NAMES[name]
    if name == "generation_config":
        own_names = {camel(option): option for option in plain_options} | own_names
    for key, value in _camel(fields).items():
        match own_names.get(key):
            case None:
                rest[key] = value
            case "thinking_config" if value is not None:
                options |= unpack_config("thinking_config", value, plain_options)
            case "reasoning_effort" if isinstance(value, str):
                options["reasoning_effort"] = OwnLevel(value)
            case own:
                options[own] = value
    return options | ({name: rest} if rest else {})


def render_generation_config(invocation: Invocation) -> gemini.JsonObject:
    """Render sampling, output format and thinking; options that are `None` are not set.

    Raises:
        InvalidOptionError: The API would reject a value or a combination.
    """
    capabilities = invocation.capabilities
    given = {
        name: value
        for name, value in invocation.generation.items()
        if value is not None and name not in invocation.ignored
    }
    config = {
        camel(name): plain(value) for name, value in given.items() if name not in RENDERED_OPTIONS
    }
    if "logprobs" in config:
        config["responseLogprobs"] = _check_logprobs(given)
    if stop := given.get("stop"):
        config["stopSequences"] = _check_stop([stop] if isinstance(stop, str) else list(stop))
    if given.get("n", 1) != 1:
        config["candidateCount"] = _candidate_count(given["n"], capabilities)
    if "media_resolution" in given:
        config["mediaResolution"] = render_resolution(given["media_resolution"])
    if "responseModalities" in config:  # the API rejects them in lower case
        config["responseModalities"] = [str(each).upper() for each in config["responseModalities"]]
    if not _THINKING.isdisjoint(given) and (thinking := _render_thinking(given, invocation)):
        config["thinkingConfig"] = thinking
    if "text" not in capabilities.outputs:
        config.setdefault("responseModalities", [each.upper() for each in capabilities.outputs])
    if not OUTPUT_FORMATS.isdisjoint(given):
        config |= render_output_format(given)
    if "responseJsonSchema" in config:
        from langchain_gemini_tools.wire.schema.walk import loosen_loops

        config["responseJsonSchema"] = loosen_loops(config["responseJsonSchema"])
    if "generation_config" in given:
        config |= _camel(plain(given["generation_config"]))
    if invocation.vertexai:
        config = _with_names_of_vertex(config)
    if config.get("responseMimeType") == JSON and not capabilities.supports_json_output:
        has_functions = capabilities.calls_functions or capabilities.accepts_prompted_functions
        advice = "Use method='function_calling', or another" if has_functions else "Use another"
        raise InvalidOptionError(f"This model does not support JSON output. {advice} model.")
    return config


def _with_names_of_vertex(config: gemini.JsonObject) -> gemini.JsonObject:
    """Return a config in which fields have the API's names where those of the SDK differ."""
    named = {"modelConfig" if key == "modelSelectionConfig" else key: config[key] for key in config}
    if isinstance(image := named.get("imageConfig"), dict):
        spelled = _camel(image)
        output = {new: spelled.pop(old) for old, new in _IMAGE_OUTPUT.items() if old in spelled}
        if output:
            output |= spelled.get("imageOutputOptions") or {}
            named["imageConfig"] = {**spelled, "imageOutputOptions": output}
    return named


def _check_stop(sequences: list[str]) -> list[str]:
    # Developer API: "the number of stop_sequences must not exceed 5"; Vertex AI: "the supported
    # range is from 1 (inclusive) to 6 (exclusive)"
    if len(sequences) > MAX_STOP_SEQUENCES:
        raise InvalidOptionError(
            f"stop has {len(sequences)} sequences, and the API accepts {MAX_STOP_SEQUENCES}. "
            "Leave some out."
        )
    return sequences


def render_safety_settings(settings: Any) -> list[gemini.JsonObject]:
    """Render safety settings: a mapping of category to threshold, or the API's list or item.

    Raises:
        InvalidOptionError: They are of another type.
    """
    given = plain(settings) or []
    if isinstance(given, dict):
        if "category" in given:
            return [given]
        return [{"category": name, "threshold": level} for name, level in given.items()]
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise InvalidOptionError(
            f"safety_settings={settings!r} is not valid. Use a dict of categories and thresholds, "
            "such as {'HARM_CATEGORY_HARASSMENT': 'OFF'}, or the API's list."
        )
    return given


def plain(value: Any) -> Any:
    """Return an option as JSON: enums by value, SDK types as the API spells them."""
    if isinstance(value, Enum):
        return value.value
    if hasattr(value, "model_dump") and not isinstance(value, type):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def _candidate_count(count: int, capabilities: Capabilities) -> int:
    if count < 1 or not capabilities.supports_several_candidates:
        raise InvalidOptionError(
            f"n={count} is not supported: this model returns one candidate. Use `batch` for more."
        )
    return count


def _check_logprobs(given: Mapping[str, Any]) -> bool:
    """The API rejects `logprobs` without `responseLogprobs`."""
    if given.get("response_logprobs") is False:
        raise InvalidOptionError(
            f"logprobs={given['logprobs']!r} requires response_logprobs=True. Omit one of them."
        )
    return True


def render_resolution(value: object) -> str:
    """Render the resolution of media, such as `low`, as the API spells it."""
    word = str(plain(value)).upper()
    return word if word.startswith("MEDIA_RESOLUTION_") else f"MEDIA_RESOLUTION_{word}"


def _render_thinking(given: Mapping[str, Any], invocation: Invocation) -> gemini.JsonObject:
    capabilities = invocation.capabilities
    config: gemini.JsonObject = dict(_camel(plain(given.get("thinking_config") or {})))
    if "include_thoughts" in given:
        config["includeThoughts"] = given["include_thoughts"]
    if "thinking_budget" in given:
        config["thinkingBudget"] = given["thinking_budget"]
    if "reasoning_effort" in given:
        level = given["reasoning_effort"]
        effort = str(plain(level)).lower()
        is_new = isinstance(level, OwnLevel) and effort not in _BUDGETS
        budget = None if is_new else _budget(effort)
        if not capabilities.thinks:
            _reject_effort(f"reasoning_effort={effort!r}", budget)
        elif is_new:
            config["thinkingLevel"] = str(level)
        elif not capabilities.thinks_by_level:
            config["thinkingBudget"] = budget
        else:
            _check_level(effort, capabilities)
            config["thinkingLevel"] = effort
    if config.get("thinkingBudget") is not None:
        _check_budget(config, capabilities, vertexai=invocation.vertexai)
    return config


def _reject_effort(option: str, budget: int | None) -> None:
    if budget != 0:
        raise InvalidOptionError(
            f"{option} is not supported: this model does not think. Omit it, or use another model."
        )


def _check_level(level: str, capabilities: Capabilities) -> None:
    """Reject a thinking level that the model does not have, if its levels are known."""
    levels = capabilities.thinking_levels
    if level == "none":
        raise InvalidOptionError(f"This model always thinks. {_lowest_level(capabilities)}")
    if levels is not None and level not in levels:
        raise InvalidOptionError(
            f"thinking_level (reasoning_effort) {level!r} is not supported by this model, which "
            f"has {', '.join(map(repr, levels))}. {_lowest_level(capabilities)}"
        )


def _check_budget(
    thinking: gemini.JsonObject, capabilities: Capabilities, *, vertexai: bool
) -> None:
    """Reject a thinking budget that the model does not accept; remove one that has no effect."""
    budget = thinking["thinkingBudget"]
    if not capabilities.thinks:
        _reject_effort(f"thinking_budget={budget}", budget)
        del thinking["thinkingBudget"]
    elif not capabilities.accepts_thinking_budget:
        raise InvalidOptionError(
            f"thinking_budget={budget} is not supported: this model has levels, not budgets. "
            f"{_lowest_level(capabilities)}"
        )
    # Reported for gemini-3.1-pro-preview: Vertex AI accepts 0, the Developer API does not.
    elif budget == 0 and not (
        capabilities.can_turn_thinking_off or (vertexai and capabilities.thinks_by_level)
    ):
        raise InvalidOptionError(
            "This model always thinks: thinking_budget=0 (reasoning_effort='none') is not "
            f"supported. {_lowest_level(capabilities)}"
        )


def _lowest_level(capabilities: Capabilities) -> str:
    """Return advice for those who want as little thinking as possible."""
    if not capabilities.thinks_by_level:
        return "For the least thinking, use reasoning_effort='minimal'."
    if not capabilities.thinking_levels:
        return "For the least thinking, use the lowest level that the model has."
    return f"For the least thinking, use thinking_level={capabilities.thinking_levels[0]!r}."


def _budget(effort: str) -> int:
    if effort not in _BUDGETS:
        raise InvalidOptionError(
            f"reasoning_effort={effort!r} is not valid; use {', '.join(map(repr, _BUDGETS))}, or "
            "thinking_config={'thinking_level': ...} for a newer level."
        )
    return _BUDGETS[effort]


def render_output_format(given: Mapping[str, Any]) -> gemini.JsonObject:
    """Render `response_schema`, or `response_format` as agents and OpenAI spell it.

    Args:
        given: Options that are set.

    Raises:
        InvalidOptionError: The format is not valid.
    """
    if (schema := given.get("response_schema")) is not None:
        mime_type = given.get("response_mime_type", JSON)
        if mime_type not in _TYPES_WITH_SCHEMA:
            raise InvalidOptionError(
                f"response_mime_type={mime_type!r} has no schema: JSON schema structured output is "
                f"only supported when response_mime_type is {JSON!r}. Omit it, or response_schema."
            )
        return {"responseMimeType": mime_type, "responseJsonSchema": _response_schema(schema)}
    match given.get("response_format"):
        case None | {"type": "text"}:
            return {}
        case {"type": "json_object"}:
            return {"responseMimeType": JSON}
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            return {"responseMimeType": JSON, "responseJsonSchema": _response_schema(schema)}
        case {"type": "json_schema", "schema": dict(schema)}:
            return {"responseMimeType": JSON, "responseJsonSchema": _response_schema(schema)}
        case schema if _is_type(schema) or _is_json_schema(schema):
            return {"responseMimeType": JSON, "responseJsonSchema": _response_schema(schema)}
        case other:
            raise InvalidOptionError(
                f"response_format={other!r} is not valid. Use a JSON schema, a class, or "
                "{'type': 'json_object'}."
            )


def _response_schema(schema: Any) -> gemini.JsonSchema:
    # Imported here because it loads LangChain's tools, which plain requests do not need.
    from langchain_gemini_tools.wire.schema.clean import clean_response_schema
    from langchain_gemini_tools.wire.schema.render import describe_the_rest, specify_required

    return describe_the_rest(specify_required(clean_response_schema(schema)))


def _is_type(value: object) -> bool:
    return isinstance(value, type) or get_origin(value) is not None


def _is_json_schema(value: object) -> bool:
    return isinstance(value, dict) and bool(
        value.get("type") in _JSON_TYPES or value.keys() & {"properties", "anyOf", "$ref", "enum"}
    )


def _camel(config: Mapping[str, Any]) -> gemini.JsonObject:
    return {camel(key): value for key, value in config.items()}
