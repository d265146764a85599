"""Parts <-> the contents of a step: text, images, audio, video, documents."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.errors import InvalidInputError
from langchain_gemini_tools.wire.replay import STEP

if TYPE_CHECKING:
    from langchain_gemini_tools.wire import shapes as gemini

_MEDIA = ("image", "audio", "video")
_YOUTUBE = re.compile(r"https?://(www\.|m\.)?(youtube\.com|youtu\.be)/", re.IGNORECASE)
_RESOLUTION = "MEDIA_RESOLUTION_"


def render_content(part: gemini.Part) -> gemini.JsonObject | None:
    """Render a part as a content; `None` if there is no content for it.

    Raises:
        InvalidInputError: The part has a setting that contents do not have.
    """
    match dict(part):
        case {"text": str(text)}:
            return {"type": "text", "text": text}
        case {"inlineData": {"mimeType": str(mime), "data": str(data)}}:
            return {"type": _kind(mime), "data": data, "mime_type": mime} | _settings(part)
        case {"fileData": {"fileUri": str(uri), **rest}}:
            mime = str(rest.get("mimeType") or ("video/mp4" if _YOUTUBE.match(uri) else ""))
            typed = {"mime_type": mime} if rest.get("mimeType") else {}
            return {"type": _kind(mime), "uri": uri, **typed} | _settings(part)
    return None


def _kind(mime_type: str) -> str:
    major = mime_type.partition("/")[0].lower()
    return major if major in _MEDIA else "document"


def _settings(part: gemini.Part) -> gemini.JsonObject:
    """Return the settings of a media part as contents spell them."""
    if "videoMetadata" in part:
        raise InvalidInputError(
            "The Interactions API has no videoMetadata (start, end, fps). Leave it out, or use "
            "api='generate_content'."
        )
    level = (part.get("mediaResolution") or {}).get("level")
    if not level:
        return {}
    return {"resolution": str(level).removeprefix(_RESOLUTION).lower()}


def parse_content(content: Any) -> gemini.JsonObject:
    """Return a content of a response as a part; what is not known is kept whole."""
    match content:
        case {"type": "text", "text": str(text)}:
            return {"text": text}
        case {"type": str(), "data": str(data), "mime_type": str(mime)}:
            return {"inlineData": {"mimeType": mime, "data": data}}
        case {"type": str(), "uri": str(uri), **rest}:
            mime_type = rest.get("mime_type")
            return {"fileData": {"fileUri": uri} | ({"mimeType": mime_type} if mime_type else {})}
    return {STEP: content}
