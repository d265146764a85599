"""Image, audio, video and file blocks of any dialect -> parts.

Base64 stays the base64 it was. A URL is handed to the API as a URL, where the API can fetch it;
other URLs are refused, unless `media_fetch` was told to put their bytes in their place before.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from langchain_gemini_tools.errors import InvalidInputError
from langchain_gemini_tools.facts import blocks as block_types
from langchain_gemini_tools.facts.blocks import extras_of
from langchain_gemini_tools.wire.urls import may_be_fetched, shown, why_unreachable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_gemini_tools.wire import shapes as gemini

_FOREIGN_FILE = re.compile(r"file[-_]\w+")
"""Ids of OpenAI and Anthropic; those of the Files API are paths."""

_TYPES_BY_SUFFIX = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    "gif": "image/gif",
    "heic": "image/heic",
    "heif": "image/heif",
    "pdf": "application/pdf",
    "txt": "text/plain",
    "md": "text/markdown",
    "csv": "text/csv",
    "html": "text/html",
    "json": "application/json",
    "wav": "audio/wav",
    "mp3": "audio/mp3",
    "aiff": "audio/aiff",
    "aac": "audio/aac",
    "ogg": "audio/ogg",
    "flac": "audio/flac",
    "m4a": "audio/m4a",
    "mp4": "video/mp4",
    "mpeg": "video/mpeg",
    "mov": "video/mov",
    "avi": "video/avi",
    "webm": "video/webm",
    "wmv": "video/wmv",
    "3gp": "video/3gpp",
}
"""By the ending of a name; the standard library's table differs from machine to machine."""

_TYPES_BY_MAGIC = (
    (b"\x89PNG", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF", "application/pdf"),
    (b"ID3", "audio/mp3"),
    *((bytes([0xFF, second]), "audio/mp3") for second in (0xFB, 0xF3, 0xF2)),
    *((bytes([0xFF, second]), "audio/aac") for second in (0xF1, 0xF9)),
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
)
_RIFF_TYPES = {b"WAVE": "audio/wav", b"WEBP": "image/webp"}
_FTYP_TYPES = {
    **dict.fromkeys((b"M4A ", b"M4B "), "audio/m4a"),
    **dict.fromkeys((b"heic", b"heix", b"hevc", b"heim"), "image/heic"),
    **dict.fromkeys((b"mif1", b"msf1"), "image/heif"),
    **dict.fromkeys((b"avif", b"avis"), "image/avif"),
    b"qt  ": "video/mov",
}
"""By the brand of an ISO file; every other one is a video."""

_KINDS = {
    **dict.fromkeys(("image", "image_url", "input_image"), "image/*"),
    **dict.fromkeys(("audio", "input_audio"), "audio/*"),
    "video": "video/*",
}

_EXAMPLES = {"image/*": "image/png", "audio/*": "audio/mp3", "video/*": "video/mp4"}

_PART_OPTIONS = {
    "video_metadata": "videoMetadata",
    "videoMetadata": "videoMetadata",
    "media_resolution": "mediaResolution",
    "mediaResolution": "mediaResolution",
}


def has_media(block: Mapping[str, Any]) -> bool:
    """Whether the block is of a media type and holds bytes, a text, or a place to find them."""
    if block.get("type") not in block_types.MEDIA:
        return False
    source = _source_of(block)
    return any(source.get(key) for key in ("base64", "url", "text", "file_id"))


def plain_text_of(block: Mapping[str, Any]) -> str | None:
    """Return the text of a media block that is a plain text file, else `None`."""
    source = _source_of(block)
    if source.get("base64") or source.get("url"):
        return None
    return _text(source.get("text"))


def url_to_fetch(block: Mapping[str, Any]) -> str | None:
    """The address on the web that a media block names instead of holding bytes."""
    if block.get("type") not in block_types.MEDIA:
        return None
    source = _source_of(block)
    url = _text(source.get("url"))
    return url if url and not source.get("base64") and may_be_fetched(url) else None


def declared_type(block: Mapping[str, Any]) -> str | None:
    """The type that a block names: exact, by the ending of a name, or as `image/*` by its kind."""
    source = _source_of(block)
    named = _text(source.get("mime_type")) or _type_of_name(_text(source.get("name")))
    return (
        named or _type_of_name(_path(_text(source.get("url")) or "")) or _KINDS.get(block["type"])
    )


def with_bytes(block: Mapping[str, Any], data: bytes, mime_type: str) -> dict[str, Any]:
    """The block with these bytes in place of its address."""
    kept = {key: block[key] for key in ("extras", *_PART_OPTIONS) if key in block}
    encoded = base64.b64encode(data).decode("ascii")
    return {"type": "media", "data": encoded, "mime_type": mime_type, **kept}


def type_of(data: bytes) -> str | None:
    """The type that the first bytes of a file give away."""
    return _type_of_bytes(base64.b64encode(data[:24]).decode("ascii"))


def render_media(block: Mapping[str, Any]) -> gemini.Part:
    """Render a media block as `inlineData`, `fileData` or, for plain text files, `text`.

    Raises:
        InvalidInputError: The block lacks its data, its location or its MIME type.
    """
    part = _render_source(block, _source_of(block))
    options = {**block, **extras_of(block)}
    for key, wire_key in _PART_OPTIONS.items():
        if (value := options.get(key)) is not None:
            is_level = wire_key == "mediaResolution" and isinstance(value, str)
            part[wire_key] = {"level": value} if is_level else value  # type: ignore[literal-required]
    return part


def _source_of(block: Mapping[str, Any]) -> dict[str, Any]:
    """The block's source under LangChain's names: base64, url or text, and mime_type."""
    kind = block["type"]
    match block:
        case {"type": "image_url" | "input_image", "image_url": {"url": str(url)}}:
            return {"url": url}
        case {"type": "image_url" | "input_image", "image_url": str(url)}:
            return {"url": url}
        case {"type": "input_audio", "input_audio": {"data": data, "format": str(ending)}}:
            return {"base64": data, "mime_type": _TYPES_BY_SUFFIX.get(ending, f"audio/{ending}")}
        case {"type": "file", "file": {"file_data": str(data), **rest}}:
            return {"base64": data, "name": rest.get("filename")}
        case {"type": "input_file", "file_data": str(data), **rest} if data:
            return {"base64": data, **_name(rest)}
        case {"type": "input_file", **rest}:
            return {"url": rest.get("file_url"), **_name(rest)}
        case {"source": {"type": "text", "data": str(text)}}:
            return {"text": text}
        case {"source": {"type": "base64", "data": data, **rest}}:
            return {"base64": data, "mime_type": rest.get("media_type") or rest.get("mime_type")}
        case {"source": {"type": "url", "url": str(url)}}:
            return {"url": url, "mime_type": "application/pdf" if kind == "document" else None}
        case {"type": "media" | "file_data", "file_uri": str(uri), **rest}:
            return {"url": uri, "mime_type": rest.get("mime_type")}
        case {"source_type": "text", "text": str(text)}:
            return {"text": text}
        case {"data": data, **rest}:
            return {"base64": data, "mime_type": rest.get("mime_type"), **_name(rest)}
    return dict(block) | _name(block)


def _name(block: Mapping[str, Any]) -> dict[str, Any]:
    extras = extras_of(block)
    return {"name": block.get("filename") or extras.get("filename") or extras.get("name")}


def _render_source(block: Mapping[str, Any], source: Mapping[str, Any]) -> gemini.Part:
    kind = block["type"]
    mime_type = _text(source.get("mime_type"))
    if isinstance(data := source.get("base64"), (str, bytes, bytearray)) and data:
        return _render_inline(kind, data, mime_type or _type_of_name(_text(source.get("name"))))
    if url := _text(source.get("url")):
        if _is_data_uri(url):
            return _render_data_uri(kind, url, mime_type)
        if reason := why_unreachable(url):
            raise InvalidInputError(_unreachable(kind, url, reason))
        return _render_uri(url, mime_type)
    if isinstance(text := source.get("text"), str):
        return {"text": text}
    if file_id := _text(source.get("file_id")):
        if _FOREIGN_FILE.fullmatch(file_id):
            raise InvalidInputError(
                f"A {kind!r} block names {file_id!r}, a file that another vendor keeps. Send its "
                "bytes as base64, or give it to Gemini's Files API and name its URI."
            )
        return _render_uri(file_id, mime_type)
    keys = ", ".join(sorted(map(str, block)))
    raise InvalidInputError(
        f"A {kind!r} block has no bytes and no place where they are (keys: {keys}). "
        'Give "base64" with "mime_type", or "url".'
    )


def _unreachable(kind: str, url: str, reason: str) -> str:
    way_out = "Send its bytes as base64"
    if may_be_fetched(url):
        way_out += ", or let ChatGemini fetch it: fetch_urls=FetchLimits(allow_hosts=[...])"
    return (
        f"A {kind!r} block names {shown(url)!r}, which the API cannot fetch: {reason}. {way_out}."
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _render_inline(kind: str, data: str | bytes | bytearray, mime_type: str | None) -> gemini.Part:
    if isinstance(data, (bytes, bytearray)):
        data = base64.b64encode(data).decode("ascii")
    if _is_data_uri(data):
        return _render_data_uri(kind, data, mime_type)
    if any(space in data for space in " \n\r\t"):  # as in mails
        data = "".join(data.split())
    mime_type = mime_type or _type_of_bytes(data)
    if not mime_type:
        example = _EXAMPLES.get(_KINDS.get(kind, ""), "application/pdf")
        raise InvalidInputError(
            f"A {kind!r} block does not say of which type it is. "
            f'Add "mime_type", for instance "{example}".'
        )
    return {"inlineData": {"mimeType": _plain_type(mime_type), "data": data}}


def _is_data_uri(text: str) -> bool:
    return text[:32].lstrip()[:5].lower() == "data:"


def _render_data_uri(kind: str, uri: str, mime_type: str | None) -> gemini.Part:
    header, _, data = uri.lstrip().partition(",")
    named, _, coding = header[len("data:") :].rpartition(";")
    if not data or coding.strip().lower() != "base64" or _is_data_uri(data):
        raise InvalidInputError(
            f"A {kind!r} block holds a data URI without base64 data: {header[:60]!r}. "
            "Write it as data:<mime type>;base64,<data>."
        )
    return _render_inline(kind, unquote(data) if "%" in data else data, named or mime_type)


def _plain_type(mime_type: str) -> str:
    """The type as the API takes it: small letters, and parameters only of sound."""
    name, semicolon, parameters = mime_type.strip().partition(";")
    name = name.strip().lower()
    return f"{name}{semicolon}{parameters}" if name.startswith("audio/") else name


def _render_uri(uri: str, mime_type: str | None) -> gemini.Part:
    mime_type = mime_type or _type_of_name(_path(uri))
    file_data: gemini.FileData = {"fileUri": uri}
    if mime_type:
        file_data["mimeType"] = mime_type
    return {"fileData": file_data}


def _path(uri: str) -> str:
    return re.split(r"[?#]", uri, maxsplit=1)[0]


def _type_of_name(name: str | None) -> str | None:
    return _TYPES_BY_SUFFIX.get((name or "").rpartition(".")[2].lower())


def _type_of_bytes(data: str) -> str | None:
    """The type that the first bytes give away."""
    try:
        head = base64.b64decode(data[:16], altchars=b"-_" if set("-_") & set(data[:16]) else None)
    except (binascii.Error, ValueError):
        return None
    if head.startswith(b"RIFF"):
        return _RIFF_TYPES.get(head[8:12])
    if head[4:8] == b"ftyp":
        return _FTYP_TYPES.get(head[8:12], "video/mp4")
    return next((kind for magic, kind in _TYPES_BY_MAGIC if head.startswith(magic)), None)
