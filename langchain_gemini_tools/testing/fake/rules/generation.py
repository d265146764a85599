"""`generationConfig`, `toolConfig`, and which tools go together, by model and backend."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from langchain_gemini_tools.testing.fake.responses import (
    Refusal,
    documented,
    invalid,
    invalid_request,
    refuse_all,
)
from langchain_gemini_tools.testing.fake.rules.declarations import (
    check_json_schema,
    schema_problems,
)

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake.ask import Ask


_TEXT_TYPES = (
    "text/plain",
    "application/json",
    "application/xml",
    "application/yaml",
    "text/x.enum",
)


def check_generation(ask: Ask) -> None:
    """Refuse settings that this model does not accept."""
    if ask.model.draws or ask.model.speaks:
        _check_no_functions(ask)
    elif not ask.model.calls_functions:
        _check_gemma(ask)
    if ask.model.speaks:
        _check_speech(ask)
    if ask.body.get("cachedContent") and not ask.model.has_caches:
        raise documented(f"{ask.model.name} has no explicit caching")
    config = ask.config
    if config.get("candidateCount", 1) > 1 and ask.model.is_3:
        raise Refusal("Multiple candidates is not enabled for this model")
    _check_ranges(ask)
    _check_thinking(ask)
    if (mime_type := config.get("responseMimeType")) and mime_type not in _TEXT_TYPES:
        raise Refusal(
            "* GenerateContentRequest.generation_config.response_mime_type: allowed mimetypes are "
            "`text/plain`, `application/json`, `application/xml`, `application/yaml` and "
            "`text/x.enum`.\n",
            why=f"{mime_type} is not a MIME type of responses",
        )
    _check_response_schema(ask)
    if (count := len(config.get("stopSequences", []))) > 5:
        raise _too_many_stops(count, ask)


_RANGES = (
    # Reported by several, for the Developer API. The words of Vertex AI: BerriAI/litellm, pull
    # request 10548, for maxOutputTokens; the bounds of the others are inferred.
    ("temperature", "temperature must be in the range [0.0, 2.0]", 0, 2, "2.0001"),
    ("topP", "top_p must be in the range [0.0, 1.0]", 0, 1, "1.0001"),
    ("candidateCount", "candidate_count must be in the range [1, 8]", 1, 8, "9"),
    # Reported: the Developer API does not say what is wrong with a limit that is not positive. A
    # limit that is too high is accepted.
    ("maxOutputTokens", "Request contains an invalid argument.", 1, math.inf, "65537"),
)
"""Each setting, the message of the Developer API, and the range."""


def _check_ranges(ask: Ask) -> None:
    for name, message, lowest, highest, end in _RANGES:
        value = ask.config.get(name, lowest)
        if lowest <= value <= highest:
            continue
        if ask.backend == "vertex":
            raise _out_of_range(name, value, f"{lowest} (inclusive) to {end}")
        raise Refusal(message, why=f"{name} cannot be {value}")


def _out_of_range(name: str, value: float, allowed: str) -> Refusal:
    return Refusal(
        f"Unable to submit request because it has a {name} value of {value} but the supported "
        f"range is from {allowed} (exclusive). Update the value and try again."
    )


def _too_many_stops(count: int, ask: Ask) -> Refusal:
    if ask.backend == "vertex":  # reported: continuedev/continue, issue 7849
        return _out_of_range("stopSequences", count, "1 (inclusive) to 6")
    # Reported: continuedev/continue, issue 2702
    return Refusal("the number of stop_sequences must not exceed 5")


def _check_no_functions(ask: Ask) -> None:
    # Reported for gemini-2.0-flash-preview-image-generation, gemini-2.5-flash-image and
    # gemini-3.1-flash-lite-image; inferred for models that speak
    if ask.declarations or (ask.model.speaks and ask.builtin_tools):
        raise Refusal(f"Function calling is not enabled for {ask.model.resource}")


def _check_speech(ask: Ask) -> None:
    # Reported: danielmiessler/Fabric, issue 1607
    modalities = ask.config.get("responseModalities") or ["TEXT"]
    if modalities != ["AUDIO"]:
        raise Refusal(
            f"The requested combination of response modalities ({', '.join(modalities)}) is not "
            f"supported by the model. {ask.model.resource} accepts the following combination of "
            "response modalities:\n* AUDIO\n"
        )
    if ask.is_json:  # inferred, in the words for Gemma
        raise Refusal(f"JSON mode is not enabled for {ask.model.resource}")


def _check_gemma(ask: Ask) -> None:
    if ask.body.get("tools"):
        raise Refusal(f"Function calling is not enabled for {ask.model.resource}")
    if ask.body.get("systemInstruction"):
        raise Refusal(f"Developer instruction is not enabled for {ask.model.resource}")
    if ask.is_json:
        raise Refusal(f"JSON mode is not enabled for {ask.model.resource}")


def _check_thinking(ask: Ask) -> None:
    thinking = ask.config.get("thinkingConfig", {})
    level, budget = thinking.get("thinkingLevel"), thinking.get("thinkingBudget")
    if thinking and not ask.model.thinks:
        if ask.model.draws:  # reported by pydantic-ai, which tried it on 2026-10-23
            raise Refusal("Thinking is not enabled for this model")
        raise Refusal("thinking_config is not supported.")
    if level is not None and budget is not None:
        raise Refusal("You can only set only one of thinking budget and thinking level.")
    if level is not None and not ask.model.is_3:
        raise Refusal("Thinking level is not supported for this model.")
    if level is not None and level.upper() not in ask.model.levels:
        raise _unsupported_level(level, ask)
    if budget is not None and not ask.model.accepts_budget:
        # Reported for Gemma 4; the words for gemini-4-argon are inferred
        raise Refusal("Thinking budget is not supported for this model.")
    if budget and budget != -1:
        _check_budget(budget, ask)
    # Reported by pydantic-ai on 2026-10-23: Vertex AI accepts it for gemini-3.1-pro-preview
    is_accepted = ask.backend == "vertex" and ask.model.is_3
    if budget == 0 and "-pro" in ask.model.name and not is_accepted:
        raise Refusal("Budget 0 is invalid. This model only works in thinking mode.")


_BUDGETS = (
    # Documented: https://ai.google.dev/gemini-api/docs/thinking. The others are not known.
    ("gemini-2.5-pro", 128, 32768),
    ("gemini-2.5-flash-lite", 512, 24576),
    ("gemini-2.5-flash", 0, 24576),
)
"""The thinking budgets of a model; -1 lets it decide, and 0 is another rule."""


def _check_budget(budget: int, ask: Ask) -> None:
    ranges = (row[1:] for row in _BUDGETS if ask.model.name.startswith(row[0]))
    lowest, highest = next(ranges, (budget, budget))
    if lowest <= budget <= highest:
        return
    if ask.backend == "vertex":  # reported: su-kaka/gcli2api, issue 108
        raise Refusal(
            f"thinking_budget is out of range; supported values are integers from {lowest or 1} to "
            f"{highest}. Learn more: "
            "https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/gemini"
        )
    # Reported by many, for each of the three models
    raise Refusal(
        f"The thinking budget {budget} is invalid. Please choose a value between {lowest} and "
        f"{highest}."
    )


def _unsupported_level(level: str, ask: Ask) -> Refusal:
    if ask.model.gemma is not None:
        return Refusal("Thinking level is not supported for this model.")
    if ask.backend == "vertex" and ask.model.generation >= (3, 7):
        # Reported: can1357/oh-my-pi, issue 10543
        return Refusal(f"Thinking level is unsupported: THINKING_LEVEL_{level.upper()}")
    # Recorded by vercel/ai for gemini-3.1-pro-preview and gemini-3.7-flash on the Developer API,
    # and reported for gemini-3.8-flash (earendil-works/pi, issue 9455)
    return Refusal(
        f"Thinking level {level.upper()} is not supported for this model. Please retry with other "
        "thinking level."
    )


def _check_response_schema(ask: Ask) -> None:
    schema, json_schema = (ask.config.get(key) for key in ("responseSchema", "responseJsonSchema"))
    if schema is not None and json_schema is not None:
        raise documented("responseSchema and responseJsonSchema exclude each other")
    if schema is None and json_schema is None:
        return
    if ask.config.get("responseMimeType") not in ("application/json", "text/x.enum"):
        raise documented("A response schema needs responseMimeType application/json or text/x.enum")
    if schema is not None:
        refuse_all(schema_problems(schema, "generation_config.response_schema"))
    else:
        check_json_schema(json_schema, "response", is_parameters=False)


def check_tools(ask: Ask) -> None:
    """Refuse tools that are empty, or cannot be combined."""
    for number, tool in enumerate(ask.body.get("tools", [])):
        if not any(value or value == {} for value in tool.values()):
            raise invalid_request(
                (
                    f"tools[{number}].tool_type",
                    "required one_of 'tool_type' must have one initialized field",
                )
            )
    check_cached_content(ask)
    # The client runs computer use, beside other functions
    if set(ask.builtin_tools) - {"computerUse"} and ask.declarations:
        _check_mixed_tools(ask)
    mime_type = "with a response mime type: 'application/json' is unsupported"
    if ask.is_json and "googleMaps" in ask.builtin_tools and ask.backend == "gemini":
        # Reported: BerriAI/litellm, issue 29451
        raise Refusal(f"Google Maps tool {mime_type}")
    if ask.is_json and not ask.model.is_3:
        if ask.declarations:
            raise Refusal(f"Function calling {mime_type}")
        if ask.builtin_tools:
            raise Refusal(f"Tool use {mime_type}")


def _check_mixed_tools(ask: Ask) -> None:
    if ask.backend == "vertex":
        # Recorded on 3+: googleSearch beside functions, without any flag
        if not ask.model.is_3:
            raise Refusal("Multiple tools are supported only when they are all search tools.")
    elif not ask.model.is_3:
        if ask.circulates_server_tools:
            raise Refusal(f"Tool call context circulation is not enabled for {ask.model.resource}")
        raise Refusal("Tool use with function calling is unsupported")
    elif not ask.circulates_server_tools:
        raise Refusal(
            "Please enable tool_config.include_server_side_tool_invocations to use Built-in tools "
            "with Function calling."
        )


def check_cached_content(ask: Ask) -> None:
    """Refuse what has to be inside a cache, if it is sent beside one."""
    taken = [key for key in ("tools", "toolConfig", "systemInstruction") if ask.body.get(key)]
    if not ask.body.get("cachedContent") or not taken:
        return
    if ask.backend == "gemini":
        # Recorded and reported live
        raise Refusal(
            "CachedContent can not be used with GenerateContent request setting "
            "system_instruction, tools or tool_config.\n\nProposed fix: move those values to "
            "CachedContent from GenerateContent request."
        )
    # Documented
    raise Refusal(
        "Tool config, tools and system instruction should not be set in the request when using "
        "cached content."
    )


def check_tool_config(ask: Ask) -> None:
    """Refuse a `toolConfig` that contradicts the tools or the model."""
    if ask.circulates_server_tools and not ask.model.is_3:
        raise Refusal(f"Tool call context circulation is not enabled for {ask.model.resource}")
    calling = ask.calling_config
    if not calling:
        return
    if not ask.declarations and not ask.builtin_tools:
        # Recorded: beside a built-in tool alone, mode AUTO is accepted
        raise Refusal("Function calling config is set without function_declarations.")
    if calling.get("streamFunctionCallArguments") and not ask.is_stream:
        # Reported for Vertex AI, which alone has this field
        raise Refusal(
            "Unable to submit request because streaming function call is not supported in unary "
            "API. Learn more: "
            "https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/gemini"
        )
    mode = calling.get("mode", "MODE_UNSPECIFIED")
    if mode == "VALIDATED" and ask.model.generation < (2, 5):
        raise invalid("VALIDATED came with Gemini 2.5")
    if "allowedFunctionNames" not in calling:
        return
    allowed = calling["allowedFunctionNames"]
    if mode not in ("ANY", "VALIDATED"):
        raise documented(f"allowedFunctionNames go with ANY or VALIDATED, not with {mode}")
    if not allowed:
        raise invalid("allowedFunctionNames is empty, which may mean any function or none")
    declared = {declaration["name"] for declaration in ask.declarations}
    if unknown := [name for name in allowed if name not in declared]:
        raise documented(f"allowedFunctionNames that are not declared: {', '.join(unknown)}")
