"""`generationConfig`: what one model family takes and another does not. And Gemma 3."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_gemini_tools.testing.fake.refusal import Refusal, invalid, refuse_all
from langchain_gemini_tools.testing.fake.rules.json_schemas import check_json_schema
from langchain_gemini_tools.testing.fake.rules.schemas import schema_problems

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
    """Refuse settings that this model does not take."""
    if ask.model.draws or ask.model.speaks:
        _check_no_functions(ask)
    elif not ask.model.calls_functions:
        _check_gemma(ask)
    if ask.model.speaks:
        _check_speech(ask)
    if ask.body.get("cachedContent") and ask.model.name.startswith("gemini-4-argon"):
        raise invalid("Gemini 4 Argon has no explicit caching", evidence="documented")
    config = ask.config
    if config.get("candidateCount", 1) > 1 and ask.model.is_3:
        raise Refusal("Multiple candidates is not enabled for this model")
    _check_thinking(ask)
    if (mime_type := config.get("responseMimeType")) and mime_type not in _TEXT_TYPES:
        raise Refusal(
            "* GenerateContentRequest.generation_config.response_mime_type: allowed mimetypes are "
            "`text/plain`, `application/json`, `application/xml`, `application/yaml` and "
            "`text/x.enum`.\n",
            why=f"no response comes as {mime_type}",
        )
    _check_response_schema(ask)
    if len(config.get("stopSequences", [])) > 5 and ask.backend == "gemini":
        raise invalid("At most five stop sequences", evidence="documented")


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
    if budget is not None and not ask.model.takes_budget:
        # Reported for Gemma 4; the words for gemini-4-argon are inferred
        raise Refusal("Thinking budget is not supported for this model.")
    # Reported by pydantic-ai on 2026-10-23: Vertex AI accepts it for gemini-3.1-pro-preview
    is_accepted = ask.backend == "vertex" and ask.model.is_3
    if budget == 0 and "-pro" in ask.model.name and not is_accepted:
        raise Refusal("Budget 0 is invalid. This model only works in thinking mode.")


def _unsupported_level(level: str, ask: Ask) -> Refusal:
    if ask.model.gemma is not None:
        return Refusal("Thinking level is not supported for this model.")
    if ask.model.generation < (3, 7):
        return Refusal(f"Thinking level {level.upper()} is not supported for this model.")
    if ask.backend == "vertex":  # reported: can1357/oh-my-pi, issue 10543
        return Refusal(f"Thinking level is unsupported: THINKING_LEVEL_{level.upper()}")
    # Reported for the Interactions API (fishjar/kiss-translator, issue 1048), inferred here. The
    # order of the levels changes from one call to the next.
    allowed = ", ".join(
        each for each in ("medium", "low", "high") if each.upper() in ask.model.levels
    )
    return Refusal(
        f"'{level.lower()}' is not a supported thinking level for this model. "
        f"Allowed values are: {allowed}."
    )


def _check_response_schema(ask: Ask) -> None:
    schema, json_schema = (ask.config.get(key) for key in ("responseSchema", "responseJsonSchema"))
    if schema is not None and json_schema is not None:
        raise invalid(
            "responseSchema and responseJsonSchema exclude each other", evidence="documented"
        )
    if schema is None and json_schema is None:
        return
    if ask.config.get("responseMimeType") not in ("application/json", "text/x.enum"):
        raise invalid(
            "A response schema needs a response MIME type that has one", evidence="documented"
        )
    if schema is not None:
        refuse_all(schema_problems(schema, "generation_config.response_schema"))
    else:
        check_json_schema(json_schema, "response", is_parameters=False)
