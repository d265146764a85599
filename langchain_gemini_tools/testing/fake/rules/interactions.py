"""Interactions: known fields, steps in order, results for calls, signatures of the emulator.

Names and types are those of google-genai's `client.interactions`. What the real API says about a
broken one is known for two cases only, so most rules here are inferred.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.testing.fake.answer import SKIP_VALUES, decode
from langchain_gemini_tools.testing.fake.responses import Refusal, documented, invalid

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from langchain_gemini_tools.testing.fake.answer import Foreign, Memory
    from langchain_gemini_tools.testing.fake.ask import Model
    from langchain_gemini_tools.testing.fake.interactions import Stored
    from langchain_gemini_tools.testing.fake.responses import JsonObject

_FIELDS = {
    *("model", "agent", "input", "system_instruction", "tools", "generation_config", "store"),
    *("stream", "background", "previous_interaction_id", "response_format", "service_tier"),
    *("response_mime_type", "response_modalities", "safety_settings", "labels", "cached_content"),
    *("continuation_token", "environment", "webhook_config", "agent_config"),
}
_CONFIG = {
    *("temperature", "top_p", "max_output_tokens", "stop_sequences", "seed", "thinking_level"),
    *("thinking_summaries", "tool_choice", "image_config", "speech_config", "video_config"),
    "transcription_config",
    "top_k",  # reported as accepted: vercel/ai, issue 17937
}
_MODES = ("auto", "any", "none", "validated")
_LEVELS = ("minimal", "low", "medium", "high", "xhigh")
_MEDIA = {"type", "data", "uri", "mime_type"}
_CONTENTS = {
    "text": {"type", "text", "annotations"},
    "image": {*_MEDIA, "resolution"},
    "audio": {*_MEDIA, "channels", "sample_rate"},
    "video": {*_MEDIA, "resolution", "name", "processing"},
    "document": _MEDIA,
}
_CALL = {"type", "id", "arguments", "signature"}
_RESULT = {"type", "call_id", "result", "is_error", "signature"}
_STEPS = {
    "user_input": {"type", "content"},
    "model_output": {"type", "content", "error"},
    "thought": {"type", "signature", "summary"},
    "function_call": {"type", "id", "name", "arguments"},
    "function_result": {"type", "call_id", "name", "result", "is_error"},
    "google_search_call": {*_CALL, "search_type"},
    "mcp_server_tool_call": {*_CALL, "name", "server_name"},
    "mcp_server_tool_result": {*_RESULT, "name", "server_name"},
    **{f"{tool}_call": _CALL for tool in ("code_execution", "url_context", "file_search")},
    **{f"{tool}_call": _CALL for tool in ("google_maps", "retrieval", "processing")},
    **{f"{tool}_result": _RESULT for tool in ("code_execution", "url_context", "file_search")},
    **{f"{tool}_result": _RESULT for tool in ("google_maps", "retrieval", "processing")},
    "google_search_result": _RESULT,
}
_TOOLS = {
    "function": {"type", "name", "description", "parameters"},
    "google_search": {"type", "search_types"},
    "code_execution": {"type"},
    "url_context": {"type"},
    "file_search": {"type", "file_search_store_names", "metadata_filter", "top_k"},
    "google_maps": {"type", "enable_widget", "latitude", "longitude"},
    "computer_use": {
        *("type", "environment", "excluded_predefined_functions"),
        *("disabled_safety_policies", "enable_prompt_injection_detection"),
    },
    "mcp_server": {"type", "name", "url", "headers", "allowed_tools"},
    "retrieval": {
        *("type", "retrieval_types", "vertex_ai_search_config", "exa_ai_search_config"),
        *("parallel_ai_search_config", "rag_store_config"),
    },
}


def check_fields(body: JsonObject) -> None:
    """Refuse fields, tools and settings that the API does not have."""
    _check_known(body, _FIELDS, "the request")
    if bool(body.get("model")) == bool(body.get("agent")):
        raise invalid("A request names either a model or an agent")
    if "input" not in body and not body.get("continuation_token"):
        raise invalid("A request without input")
    if not isinstance(body.get("system_instruction", ""), str):
        raise invalid("system_instruction is a string")
    if body.get("store") is False and body.get("background"):
        raise documented("background needs store")
    config = body.get("generation_config", {})
    _check_known(config, _CONFIG, "generation_config")
    _check_choice(config.get("tool_choice"), body)
    if config.get("thinking_level", "low") not in _LEVELS:
        raise invalid("thinking_level is a known level")
    for tool in body.get("tools", []):
        # `required: []` was reported as refused (badlogic/pi-mono, issue 2173), but is recorded.
        _check_kind(tool, _TOOLS, "tool")


def check_thinking(body: JsonObject, model: Model | None) -> None:
    """Refuse a thinking level that the model does not have."""
    level = body.get("generation_config", {}).get("thinking_level")
    if level in (None, "xhigh") or not model or not model.is_3 or level.upper() in model.levels:
        return
    # Reported for gemini-3.7-flash (fishjar/kiss-translator, issue 1048). The order of the levels
    # changes from one call to the next.
    allowed = ", ".join(
        each for each in ("minimal", "medium", "low", "high") if each.upper() in model.levels
    )
    raise Refusal(
        f"'{level}' is not a supported thinking level for this model. Allowed values are: "
        f"{allowed}."
    )


def check_background(body: JsonObject, model: Model | None) -> None:
    """Refuse what does not run in the background, and what runs only there."""
    if body.get("background") and model and model.generation < (3, 0):
        raise Refusal(
            f"Model '{model.name}' does not support background interactions.", evidence="recorded"
        )
    if body.get("agent") and not body.get("background"):
        raise documented("An agent runs in the background")


def _check_known(given: JsonObject, known: set[str], where: str) -> None:
    if unknown := sorted(given.keys() - known):
        raise invalid(f"{where} does not have {unknown[0]}")


def _check_kind(given: Any, kinds: dict[str, set[str]], what: str) -> None:
    if not isinstance(given, dict) or given.get("type") not in kinds:
        raise invalid(f"A {what} has a known type")
    _check_known(given, kinds[given["type"]], given["type"])
    for key in ("text", "name", "id"):
        if not isinstance(given.get(key, ""), str):
            raise invalid(f"{key} of a {what} is a string")


def _check_choice(choice: Any, body: JsonObject) -> None:
    match choice:
        case None:
            return
        case str() if choice in _MODES:
            return
        case {"allowed_tools": {"mode": mode, "tools": list(names)}} if mode in _MODES:
            functions = {tool.get("name") for tool in body.get("tools", [])}
            if set(names) <= functions:
                return
    raise invalid("tool_choice is a mode, or names functions that are declared")


def read_steps(given: Any) -> list[JsonObject]:
    """Return the input as steps. Recorded: a string, a content, a list of contents or of steps."""
    if isinstance(given, str):
        given = [{"type": "text", "text": given}]
    if isinstance(given, dict):
        given = [given]
    if not isinstance(given, list) or not given:
        raise invalid("input is a string, a content, a list of contents or a list of steps")
    if all(isinstance(item, dict) and item.get("type") in _CONTENTS for item in given):
        given = [{"type": "user_input", "content": given}]
    return [step for item in given for step in _read_step(item)]


def _read_step(step: Any) -> Iterator[JsonObject]:
    _check_kind(step, _STEPS, "step")
    contents = step.get("content", [])
    results = [each for each in contents if each.get("type") == "function_result"]
    # Recorded: a function result inside of a `user_input`.
    yield from results
    others = [each for each in contents if each.get("type") != "function_result"]
    for content in others:
        _check_kind(content, _CONTENTS, "content")
    if not results or others:
        yield {**step, "content": others} if results else step


def check_steps(
    steps: list[JsonObject], model: Model | None, memory: Memory, *, accepts_foreign: Foreign
) -> None:
    """Refuse a conversation whose calls, results and signatures do not belong together."""
    open_calls: list[str] = []
    is_signed = is_issued = False
    for step in steps:
        kind = step["type"]
        if kind in {"user_input", "model_output"} and open_calls:
            raise invalid(f"The call {open_calls[0]!r} has no result before the next {kind}")
        if kind == "function_call":
            needs_signature = bool(model and model.is_3 and not is_signed)
            _check_call(step, memory if is_issued else None, needs_signature=needs_signature)
            open_calls.append(step["id"])
        elif kind == "function_result":
            _check_result(step, open_calls)
            open_calls.remove(step["call_id"])
        if "signature" in step:
            _check_signature(step, memory, accepts_foreign=accepts_foreign)
        if kind == "thought":
            is_signed = bool(step.get("signature"))
            is_issued = is_signed and decode(step["signature"]) not in SKIP_VALUES
        elif kind in {"user_input", "function_result"}:
            is_signed = is_issued = False
    if open_calls:
        raise invalid(f"The call {open_calls[0]!r} has no result")


def check_end(body: JsonObject, steps: list[JsonObject], stored: Mapping[str, Stored]) -> None:
    """Refuse a conversation that ends with the model, unless it continues that turn.

    By the SDK's words, a stored turn is continued without input, and its token must belong to the
    previous interaction.
    """
    token, previous = body.get("continuation_token"), body.get("previous_interaction_id")
    if token and previous and "input" not in body:
        if stored[previous].body.get("continuation_token") != token:
            raise invalid("The token was not issued by the previous interaction")
    elif not steps or steps[-1]["type"] not in {"user_input", "function_result"}:
        raise invalid("The conversation ends with the model")


def _check_call(step: JsonObject, memory: Memory | None, *, needs_signature: bool) -> None:
    """Refuse a call that is not what the model wrote; only a signature can show that."""
    if not isinstance(step.get("arguments"), dict) or not step.get("name") or not step.get("id"):
        raise invalid("A function_call has an id, a name and arguments, which are an object")
    known = memory.interaction_calls.get(step["id"]) if memory else None
    if known and known != (step["name"], step["arguments"]):
        raise invalid(f"The call {step['id']!r} came back changed")
    if needs_signature:
        raise invalid(f"No thought with a signature precedes the call {step['id']!r}")


def _check_result(step: JsonObject, open_calls: list[str]) -> None:
    if step.get("call_id") not in open_calls:
        raise invalid(f"The result for {step.get('call_id')!r} does not belong to an open call")
    result = step.get("result")
    if not isinstance(result, str | dict | list):
        raise invalid("A result is an object, a string or a list of contents")
    for content in result if isinstance(result, list) else []:
        _check_kind(content, _CONTENTS, "content")


def _check_signature(step: JsonObject, memory: Memory, *, accepts_foreign: Foreign) -> None:
    if not step["signature"]:
        # Reported: googleapis/js-genai, issue 1735.
        raise invalid("A step with an empty signature", evidence="reported")
    signature = decode(step["signature"])
    if signature in SKIP_VALUES or signature in memory.signatures:
        return
    if not (accepts_foreign(signature) if callable(accepts_foreign) else accepts_foreign):
        raise invalid("A signature was never issued here")


def unknown_interaction(name: str) -> Refusal:
    """Return the refusal of an id that is not stored. The message of the API is not known."""
    return Refusal(f"Interaction {name} was not found.", 404, evidence="inferred")
