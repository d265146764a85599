"""Interactions -> responses in the shape that `wire` parses.

The steps are handed on as they came, for the next request. `stream` puts them together from events.

The status becomes the finish reason; `facts.finish_reasons` says what each one means.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.errors import MalformedToolCallError, UnreadableResponseError
from langchain_gemini_tools.facts.finish_reasons import CONTINUATION, REQUIRES_CONTINUATION
from langchain_gemini_tools.interactions.steps import HISTORY_SUM, INTERACTION_ID, Step
from langchain_gemini_tools.wire.hops import TOKEN
from langchain_gemini_tools.wire.replay import RAW_STEPS, STEP

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from langchain_gemini_tools.wire import shapes as gemini

_COUNTS = {
    "total_input_tokens": "promptTokenCount",
    "total_output_tokens": "candidatesTokenCount",
    "total_thought_tokens": "thoughtsTokenCount",
    "total_tool_use_tokens": "toolUsePromptTokenCount",
    "total_cached_tokens": "cachedContentTokenCount",
    "total_tokens": "totalTokenCount",
}
_DETAILS = {
    "input_tokens_by_modality": "promptTokensDetails",
    "output_tokens_by_modality": "candidatesTokensDetails",
    "cached_tokens_by_modality": "cacheTokensDetails",
    "tool_use_tokens_by_modality": "toolUsePromptTokensDetails",
}
_COPIED = {"service_tier": "serviceTier", "created": "createTime", "agent": "agent"}
_FAILED = "failed"
CONTENTS = ("text", "image", "audio", "video", "document")
"""Types of contents, which are not types of steps."""


def decode_interaction(
    interaction: gemini.JsonObject, history_sum: str | None, sent_results: Collection[str] = ()
) -> gemini.Response:
    """Return a whole interaction as a response.

    Args:
        interaction: The body.
        history_sum: The check sum of the messages that were sent, if the API keeps them, so that
            the id can be used later; else `None`.
        sent_results: The ids of the calls whose results were sent.
    """
    steps = _new_steps(_steps(interaction), sent_results)
    if not steps and interaction.get("status") is None:
        raise no_status(interaction)
    parts = [part for step in steps for part in parse_step(step)]
    return build_response(interaction, steps, parts, history_sum)


def no_status(body: gemini.JsonObject) -> UnreadableResponseError:
    """Return the error for a response that does not say whether the interaction has ended."""
    return UnreadableResponseError("The response is not an interaction: no status.", body=body)


def continue_body(body: gemini.JsonObject, token: str) -> gemini.JsonObject:
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


def _steps(interaction: gemini.JsonObject) -> list[Step]:
    steps = interaction.get("steps") or interaction.get("outputs") or []
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise UnreadableResponseError(
            "The interaction's `steps` are not a list of objects.", body=interaction
        )
    return [as_step(step) for step in steps]


def _new_steps(steps: list[Step], sent_results: Collection[str]) -> list[Step]:
    """Return the steps that the model has added, without those that were sent.

    `GET` returns the caller's steps as well (documented). There is no recording of whether
    these are all steps of the request; if so, calls in the history must not be taken for new ones.
    """
    begin = 0
    for number, step in enumerate(steps, 1):
        match step:
            case {"type": "user_input"}:
                begin = number
            case {"type": "function_result", "call_id": str(name)} if name in sent_results:
                begin = number
    return [step for step in steps[begin:] if step.get("type") != "function_result"]


def as_step(given: Step) -> Step:
    """Return a step; a content that stands in its place is one of the model's output."""
    if given.get("type") not in CONTENTS:
        return given
    is_empty = given.keys() == {"type"}  # the start of one in a stream
    return {"type": "model_output", "content": [] if is_empty else [given]}


def build_response(
    interaction: gemini.JsonObject,
    steps: list[Step],
    parts: list[gemini.JsonObject],
    history_sum: str | None,
) -> gemini.Response:
    """Return the response, or the last event of a stream, with all that applies to the whole."""
    status = interaction.get("status")
    if status != REQUIRES_CONTINUATION and any(_has_message(step.get("error")) for step in steps):
        status = _FAILED  # by the SDK, the error of an output that failed or was cancelled
    candidate: gemini.JsonObject = {"content": {"role": "model", "parts": parts}}
    candidate["finishReason"] = CONTINUATION if status == REQUIRES_CONTINUATION else status
    if token := interaction.get("continuation_token"):
        # A stored interaction is continued by its id; see `continue_body`.
        name = interaction.get("id") if history_sum is not None else None
        candidate[TOKEN] = f"{name} {token}" if name else token
    if message := _error_message(interaction, steps):
        candidate["finishMessage"] = message
    if grounding := parse_grounding(steps):
        candidate["groundingMetadata"] = grounding
    response = {**parse_identity(interaction, history_sum), "candidates": [candidate]}
    if isinstance(usage := interaction.get("usage"), dict):
        response["usageMetadata"] = parse_usage(usage)
    return {**response, RAW_STEPS: steps}


def parse_identity(interaction: gemini.JsonObject, history_sum: str | None) -> gemini.Response:
    """Return what identifies an interaction. An id that cannot be used again is only shown."""
    fields = {ours: interaction[key] for key, ours in _COPIED.items() if interaction.get(key)}
    if model := interaction.get("model"):
        fields["modelVersion"] = model
    if known := interaction.get("id"):
        fields["responseId"] = known
        if history_sum is not None:
            fields |= {INTERACTION_ID: known, HISTORY_SUM: history_sum}
    return fields


def _error_message(interaction: gemini.JsonObject, steps: list[Step]) -> str | None:
    """Return what the API says about a failure.

    By the SDK it is in `errors` or in a step; Google's samples read `error`.
    """
    errors = [
        interaction.get("error"),
        *as_list(interaction.get("errors")),
        *(step.get("error") for step in steps),
    ]
    messages = [str(error["message"]) for error in errors if _has_message(error)]
    return "; ".join(dict.fromkeys(messages)) or None


def _has_message(error: Any) -> bool:
    return isinstance(error, dict) and bool(error.get("message"))


# Steps -> parts


def parse_step(step: Step) -> list[gemini.JsonObject]:
    """Return the parts of one step.

    Signatures stay in the step: what is signed is the step as it came, not the part. A step that no
    part stands for is kept whole.
    """
    match step:
        case {"type": "thought"}:
            return [parse_thought(content) for content in list_contents(step.get("summary"))]
        case {"type": "model_output"}:
            return [parse_content(content) for content in list_contents(step.get("content"))]
        case {"type": "function_call"}:
            arguments = check_call(step, step.get("arguments"))
            call = {"id": step.get("id"), "name": step["name"], "args": arguments}
            return [{"functionCall": call}]
        case {"type": "code_execution_call", "arguments": dict(arguments)}:
            code = {"code": arguments.get("code", ""), "id": step.get("id")}
            if language := arguments.get("language"):
                code["language"] = str(language).upper()
            return [{"executableCode": code}]
        case {"type": "code_execution_result", "result": result}:
            outcome = "OUTCOME_FAILED" if step.get("is_error") else "OUTCOME_OK"
            output = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
            done = {"outcome": outcome, "output": output, "id": step.get("call_id")}
            return [{"codeExecutionResult": done}]
    return [{STEP: step}]


def check_call(step: Step, arguments: Any) -> gemini.JsonObject:
    """Return the arguments of a function call.

    Args:
        step: The call.
        arguments: Its arguments as they came.

    Raises:
        MalformedToolCallError: It has no name, or its arguments are not an object.
    """
    name = step.get("name")
    if not isinstance(name, str) or not name:
        raise MalformedToolCallError(f"A function call has no name: {step!s:.200}")
    if arguments is None:
        return {}
    if not isinstance(arguments, dict):
        raise MalformedToolCallError(
            f"The arguments of a call to {name!r} are not a JSON object: {arguments!s:.200}"
        )
    return arguments


def parse_thought(content: Any) -> gemini.JsonObject:
    """Return a content of a thought's summary as a part."""
    part = parse_content(content)
    return part if STEP in part else {**part, "thought": True}


def parse_content(content: Any) -> gemini.JsonObject:
    """Return a content of a response as a part; what is not known is kept whole."""
    match content:
        case {"type": "text", "text": str(text)}:
            return {"text": text}
        case {"type": str(), "data": str(data), "mime_type": str(mime)}:
            return {"inlineData": {"mimeType": _with_rate(mime, content), "data": data}}
        case {"type": str(), "uri": str(uri), **rest}:
            mime_type = rest.get("mime_type")
            return {"fileData": {"fileUri": uri} | ({"mimeType": mime_type} if mime_type else {})}
    return {STEP: {"type": "model_output", "content": [content]}}


def _with_rate(mime_type: str, content: Any) -> str:
    """Return the type of a media content; for audio with its rate, as generateContent writes it."""
    if content["type"] != "audio" or ";" in mime_type:
        return mime_type
    given = {
        "rate": content.get("sample_rate", content.get("rate")),
        "channels": content.get("channels"),
    }
    return ";".join([mime_type, *(f"{key}={n}" for key, n in given.items() if type(n) is int)])


def list_contents(value: Any) -> list[Any]:
    """Return a list of contents, of which one may stand alone, also as text."""
    if isinstance(value, str):
        return [{"type": "text", "text": value}] if value else []
    return [value] if isinstance(value, dict) else as_list(value)


def as_list(value: Any) -> list[Any]:
    """Return a list, which is empty for anything else."""
    return value if isinstance(value, list) else []


def parse_usage(usage: gemini.JsonObject) -> gemini.JsonObject:
    """Return the token counts under the names of generateContent; others keep their names."""
    counts = {_COUNTS.get(key, key): value for key, value in usage.items() if key not in _DETAILS}
    for key, ours in _DETAILS.items():
        items = [item for item in as_list(usage.get(key)) if isinstance(item, dict)]
        if items:
            counts[ours] = [
                {"modality": item.get("modality"), "tokenCount": item.get("tokens")}
                for item in items
            ]
    return counts


# Citations


def parse_grounding(steps: Iterable[Step]) -> gemini.JsonObject | None:
    """Return the citations of all texts, the queries and the search suggestions."""
    queries: list[Any] = []
    suggestions: list[str] = []
    texts: list[gemini.JsonObject] = []
    for step in steps:
        match step:
            case {"type": "model_output", "content": list(contents)}:
                texts += [each for each in contents if _has_text(each)]
            case {"type": "google_search_call", "arguments": {"queries": list(found)}}:
                queries += found
            case {"type": "google_search_result", "result": list(results)}:
                for each in results:
                    match each:
                        case {"search_suggestions": str(text)}:
                            suggestions.append(text)
    sources, supports = _parse_citations(texts)
    fields = {
        "webSearchQueries": queries,
        "searchEntryPoint": {"renderedContent": "".join(suggestions)} if suggestions else None,
        "groundingChunks": sources,
        "groundingSupports": supports,
    }
    return {key: value for key, value in fields.items() if value} or None


def _has_text(content: Any) -> bool:
    return isinstance(content, dict) and isinstance(content.get("text"), str)


def _parse_citations(texts: list[gemini.JsonObject]) -> tuple[list[Any], list[Any]]:
    """Return the sources of texts, and which part of the joined texts each one supports."""
    sources: list[Any] = []
    supports: list[Any] = []
    size = 0  # indices count UTF-8 bytes (reported) of one text
    for content in texts:
        for note in as_list(content.get("annotations")):
            if (source := _source(note)) is None:
                continue
            if source not in sources:
                sources.append(source)
            start, end = note.get("start_index", 0), note.get("end_index")
            if type(start) is int and type(end) is int:
                segment = {"startIndex": start + size, "endIndex": end + size}
                indices = [sources.index(source)]
                supports.append({"segment": segment, "groundingChunkIndices": indices})
        size += len(content["text"].encode("utf-8", "surrogatepass"))
    return sources, supports


def _source(note: Any) -> gemini.JsonObject | None:
    match note:
        case {"type": "url_citation", "url": str(url)}:
            return {"web": {"uri": url, "title": note.get("title", "")}}
        case {"type": "place_citation"}:
            place = {"uri": note.get("url"), "title": note.get("name")}
            return {"maps": {**place, "placeId": note.get("place_id")}}
        case {"type": "file_citation"}:
            file = {"uri": note.get("document_uri"), "title": note.get("file_name")}
            return {"retrievedContext": file}
    return None
