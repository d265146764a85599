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
    if not ask.model.calls_functions:
        _check_gemma(ask)
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
        raise Refusal("thinking_config is not supported.")
    if level is not None and budget is not None:
        raise Refusal("You can only set only one of thinking budget and thinking level.")
    if level is not None and not ask.model.is_3:
        raise Refusal("Thinking level is not supported for this model.")
    is_pro = "-pro" in ask.model.name
    if level == "MINIMAL" and is_pro:
        raise Refusal("Thinking level MINIMAL is not supported for this model.")
    if budget == 0 and is_pro:
        raise Refusal("Budget 0 is invalid. This model only works in thinking mode.")


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
