"""Contents and parts one by one: nothing empty, known roles, media that the model can take."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from langchain_gemini_tools.testing.fake.refusal import (
    Refusal,
    invalid,
    invalid_request,
    refuse_all,
)
from langchain_gemini_tools.testing.fake.rules.proto import PART_DATA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_gemini_tools.testing.fake.ask import Ask
    from langchain_gemini_tools.testing.fake.refusal import JsonObject

_VERTEX_DOCS = (
    "Learn more: https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/gemini"
)
_RESPONSE_MEDIA = {"image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"}
"""https://ai.google.dev/gemini-api/docs/function-calling#multimodal"""
_DOCUMENTS = {"application/pdf", "application/x-javascript", "application/x-python"}
_FAMILIES = ("image/", "audio/", "video/", "text/")
_IMAGES = {"png", "jpeg", "jpg", "webp", "heic", "heif", "gif", "bmp", "avif"}


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
            raise invalid("A system instruction is made of text", evidence="documented")
    for _, _, part in _parts(ask):
        _check_media(part, ask)


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
"""Buckets, the web without this machine and its neighbours, and names of the Files API."""


def _check_media(part: JsonObject, ask: Ask) -> None:
    if "toolCall" in part and part["toolCall"].get("toolType") in (None, "MEDIA_PROCESSING"):
        # Reported by langchain-google-genai, about steps of agentic media processing
        raise Refusal("Tool type of tool_call part does not match with tool call context")
    for kind in ("inlineData", "fileData"):
        if kind in part:
            _check_mime_type(part[kind], kind, ask)
    for medium in part.get("functionResponse", {}).get("parts", []):
        if not ask.model.is_3 and "computer-use" not in ask.model.name:
            raise invalid(
                "Media inside a function response came with Gemini 3", evidence="documented"
            )
        if len(medium) != 1:
            raise invalid("A part of a function response holds one medium")
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
        # Recorded on Vertex, about a page that robots.txt keeps to itself.
        raise Refusal(
            "Cannot fetch content from the provided URL. Please ensure the URL is valid and "
            "accessible by Vertex AI.",
            evidence="recorded",
        )
    mime_type = data.get("mimeType", "")
    if not mime_type:
        if kind == "inlineData" or ask.backend == "vertex":
            raise _unsupported(mime_type, ask)
        return  # the Files API knows what it holds
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
