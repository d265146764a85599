"""Contents and their order: roles, parts, media, and a response after each function call."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from langchain_gemini_tools.testing.fake.responses import (
    Refusal,
    documented,
    invalid,
    invalid_request,
    refuse_all,
)
from langchain_gemini_tools.testing.fake.rules.payload import PART_DATA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_gemini_tools.testing.fake.ask import Ask, Turn
    from langchain_gemini_tools.testing.fake.responses import JsonObject


_VERTEX_DOCS = (
    "Learn more: https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/gemini"
)
_RESPONSE_MEDIA = {"image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"}
"""https://ai.google.dev/gemini-api/docs/function-calling#multimodal"""
_DOCUMENTS = {"application/pdf", "application/x-javascript", "application/x-python"}
_FAMILIES = ("image/", "audio/", "video/", "text/")
_IMAGES = {"png", "jpeg", "webp", "heic", "heif", "gif", "bmp", "avif"}


def check_contents(ask: Ask) -> None:
    """Refuse contents that are missing, empty, or of a role that does not exist."""
    if not ask.contents:
        raise _missing_contents(ask)
    for number, content in enumerate(ask.contents):
        _check_role(content, ask)
        if not content.get("parts"):
            raise _missing_parts(number, ask)
    refuse_all(_empty_parts(ask))
    if (system := ask.body.get("systemInstruction")) is not None:
        if not system.get("parts"):
            raise invalid_request(("system_instruction.parts", "contents.parts must not be empty."))
        if any("text" not in part for part in system["parts"]):
            raise documented("A system instruction consists of text")
    for _, _, part in _parts(ask):
        _check_media(part, ask)


def check_counted(body: JsonObject) -> None:
    """Refuse a request of countTokens on the Developer API that lacks contents, or the model."""
    # Reported: python-genai, issue 432, for the model; others for the contents in a whole request
    nested = body.get("generateContentRequest")
    counted, place = (body, "") if nested is None else (nested, "generate_content_request.")
    needed = ("contents",) if nested is None else ("model", "contents")
    for name in needed:
        if not counted.get(name):
            raise Refusal(f"* CountTokensRequest.{place}{name}: {name} is not specified\n")


def _missing_contents(ask: Ask) -> Refusal:
    if ask.backend == "vertex":
        return Refusal(
            "Unable to submit request because at least one contents field is required. "
            + _VERTEX_DOCS
        )
    return invalid_request(("contents", "contents is not specified"))


def _missing_parts(number: int, ask: Ask) -> Refusal:
    if ask.backend == "vertex":
        return Refusal(
            "Unable to submit request because it must include at least one parts field, which "
            "describes the prompt input. " + _VERTEX_DOCS
        )
    return invalid_request((f"contents[{number}].parts", "contents.parts must not be empty."))


def _check_role(content: JsonObject, ask: Ask) -> None:
    role = content.get("role")
    if role in ("user", "model"):
        return
    if ask.backend == "vertex":
        raise Refusal("Please use a valid role: user, model.")
    # Recorded on the Developer API: one content without a role, and a response of role `function`
    answers = all("functionResponse" in part for part in content.get("parts", []))
    is_alone = not role and len(ask.contents) == 1
    if not is_alone and not (role == "function" and answers):
        raise Refusal(
            f"Role '{role or ''}' is not supported. Please use a valid role: SYSTEM, USER, "
            "ASSISTANT, DEVELOPER, CONTEXT, USER_CONTEXT, MODEL."
        )


def _empty_parts(ask: Ask) -> Iterator[tuple[str, str]]:
    for c, p, part in _parts(ask):
        # Recorded: `{"thought": true, "thoughtSignature": ...}` and a lone `videoMetadata` pass
        if not part.keys() & {*PART_DATA, "videoMetadata"} and not part.get("thought"):
            yield (
                f"contents[{c}].parts[{p}].data",
                "required oneof field 'data' must have one initialized field",
            )


_REACHED = re.compile(
    r"gs://[^/]+/.|https?://(?!localhost|127\.|10\.|192\.168\.|169\.254\.|\[)[^/]*[^/]|[\w/-]+$"
)
"""Buckets, addresses that are not local, and names of the Files API."""


def _check_media(part: JsonObject, ask: Ask) -> None:
    if "toolCall" in part and part["toolCall"].get("toolType") in (None, "MEDIA_PROCESSING"):
        # Reported by langchain-google-genai, about steps of agentic media processing
        raise Refusal("Tool type of tool_call part does not match with tool call context")
    for kind in ("inlineData", "fileData"):
        if kind in part:
            _check_mime_type(part[kind], kind, ask)
    for medium in part.get("functionResponse", {}).get("parts", []):
        if not ask.model.is_3 and "computer-use" not in ask.model.name:
            raise documented("Media inside a function response came with Gemini 3")
        if len(medium) != 1:
            raise invalid("A part of a function response has one medium")
        kind, data = next(iter(medium.items()))
        _check_mime_type(data, kind, ask)
        if data.get("mimeType") not in _RESPONSE_MEDIA:
            raise _unsupported(data.get("mimeType", ""), ask)


def _check_mime_type(data: JsonObject, kind: str, ask: Ask) -> None:
    if kind == "inlineData" and not data.get("data"):
        raise invalid("inlineData without data")
    if kind == "fileData" and not data.get("fileUri"):
        raise invalid("fileData without fileUri")
    if kind == "fileData" and not _REACHED.match(data["fileUri"]):
        # Recorded on Vertex, about a page that robots.txt forbids.
        raise Refusal(
            "Cannot fetch content from the provided URL. Please ensure the URL is valid and "
            "accessible by Vertex AI.",
            evidence="recorded",
        )
    mime_type = data.get("mimeType", "")
    if not mime_type:
        if kind == "inlineData" or ask.backend == "vertex":
            raise _unsupported(mime_type, ask)
        return  # the Files API knows the type of its files
    family, _, name = mime_type.partition("/")
    is_known = mime_type in _DOCUMENTS or f"{family}/" in _FAMILIES
    if not is_known or (family == "image" and name not in _IMAGES):
        raise _unsupported(mime_type, ask)


def _unsupported(mime_type: str, ask: Ask) -> Refusal:
    if ask.backend == "vertex":
        return Refusal(
            f"Unable to submit request because it has a mimeType parameter with value {mime_type}, "
            f"which is not supported. Update the mimeType and try again. {_VERTEX_DOCS}"
        )
    return Refusal(f"Unsupported MIME type: {mime_type}")


def _parts(ask: Ask) -> Iterator[tuple[int, int, JsonObject]]:
    for c, content in enumerate(ask.contents):
        for p, part in enumerate(content.get("parts", [])):
            yield c, p, part


_CALL_ORDER = (
    "Please ensure that function call turn comes immediately after a user turn or after a function "
    "response turn."
)
_RESPONSE_ORDER = (
    "Please ensure that function response turn comes immediately after a function call turn."
)
_COUNT = (
    "Please ensure that the number of function response parts is equal to the number of function "
    "call parts of the function call turn."
)


def check_turns(ask: Ask) -> None:
    """Refuse a conversation that is out of order. Adjacent contents of one role are one turn."""
    turns = ask.turns
    refuse_all(_empty_names(ask))
    for number, turn in enumerate(turns):
        before = turns[number - 1] if number else None
        after = turns[number + 1] if number + 1 < len(turns) else None
        if turn.is_model:
            _check_model_turn(turn, before, after, ask)
        else:
            _check_user_turn(turn, before, ask)
    if turns[-1].is_model and not ask.model.accepts_prefill:
        # Reported for 3.5-flash-lite, 3.6-flash and 3.8-flash, with and without the full stop
        raise Refusal("Requests ending with a model turn are not supported.")
    if turns[-1].is_model and turns[-1].has_calls:
        raise invalid("The last turn is a call of the model")


def _empty_names(ask: Ask) -> Iterator[tuple[str, str]]:
    for turn in ask.turns:
        for c, p, part in turn.parts:
            for kind, path in (
                ("functionCall", "function_call"),
                ("functionResponse", "function_response"),
            ):
                if kind in part and not part[kind].get("name"):
                    yield f"contents[{c}].parts[{p}].{path}.name", "Name cannot be empty."


def _check_model_turn(turn: Turn, before: Turn | None, after: Turn | None, ask: Ask) -> None:
    if turn.has_responses:
        _check_answered_by_the_server(turn, ask)
        return
    if not turn.has_calls:
        return
    if before is None:
        raise Refusal(_CALL_ORDER)
    if _call_content_follows_another(turn):
        raise Refusal(_CALL_ORDER, why="model(text), then model(call): put them into one content")
    # Recorded on 2.0: a call, then a user text without a response
    unanswered = after is not None and not after.has_responses
    if unanswered and ask.model.generation >= (2, 5):
        raise Refusal(_COUNT, why="a call without a response")


def _check_answered_by_the_server(turn: Turn, ask: Ask) -> None:
    # Recorded: with `mcpServers` the API calls the tools and answers, all in the model's turn
    if "mcpServers" not in ask.builtin_tools:
        raise Refusal(_RESPONSE_ORDER, why="a function response in a model turn")
    if len(turn.of_kind("functionCall")) != len(turn.of_kind("functionResponse")):
        raise Refusal(_COUNT)


def _call_content_follows_another(turn: Turn) -> bool:
    contents: dict[int, bool] = {}
    for number, _, part in turn.parts:
        contents[number] = contents.get(number, False) or "functionCall" in part
    kinds = list(contents.values())
    return any(is_call and not kinds[n] for n, is_call in enumerate(kinds[1:]))


def _check_user_turn(turn: Turn, before: Turn | None, ask: Ask) -> None:
    if turn.has_calls:
        raise Refusal(_CALL_ORDER, why="a function call in a user turn")
    if not turn.has_responses:
        return
    if before is None or not before.has_calls:
        raise Refusal(_RESPONSE_ORDER)
    is_response = ["functionResponse" in part for _, _, part in turn.parts]
    if is_response != sorted(is_response, reverse=True):
        raise Refusal(_RESPONSE_ORDER, why="another part precedes a function response")
    calls, responses = before.of_kind("functionCall"), turn.of_kind("functionResponse")
    if len(calls) != len(responses):
        raise Refusal(_COUNT)
    for response in responses:
        if response.keys() & {"scheduling", "willContinue"}:
            raise documented("scheduling and willContinue belong to the Live API")
    _check_ids(calls, responses, ask)
    _check_names(calls, responses)


def _check_ids(calls: list[JsonObject], responses: list[JsonObject], ask: Ask) -> None:
    call_ids = [call.get("id") for call in calls]
    response_ids = [response.get("id") for response in responses]
    if ask.backend == "vertex" and not any(call_ids):
        return  # recorded on 3: a call without an id, answered with one
    if not any(response_ids):
        return  # Google's SDK sends none when it calls functions automatically
    if Counter(call_ids) != Counter(response_ids):
        raise invalid(f"responses to {response_ids}, but calls {call_ids}")
    if any(call_ids) and len(set(call_ids)) < len(call_ids):
        raise invalid(f"an id occurs twice in one turn: {call_ids}")


def _check_names(calls: list[JsonObject], responses: list[JsonObject]) -> None:
    """By id in any order; without ids, the order is the only link."""
    names = {call.get("id"): call["name"] for call in calls}
    for call, response in zip(calls, responses, strict=True):
        expected = names.get(response["id"], call["name"]) if response.get("id") else call["name"]
        if response["name"] != expected:
            raise invalid(f"{response['name']} answers a call of {expected}")
