"""Image, audio, video and file blocks of any dialect -> parts.

Base64 is sent unchanged. A URL is sent as a URL if the API can fetch it. Other URLs are rejected,
unless `media_fetch` has replaced them by their bytes before.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit

from langchain_gemini_tools.errors import InvalidInputError
from langchain_gemini_tools.facts import blocks as block_types
from langchain_gemini_tools.facts.blocks import Block, extras_of
from langchain_gemini_tools.facts.json_values import camel
from langchain_gemini_tools.wire.generation import plain, render_resolution

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_gemini_tools.wire import shapes as gemini

_WEB = {"http", "https"}
_GOOGLE_FILES = re.compile(r"https://[\w.-]*googleapis\.com/v\w+/files/")
YOUTUBE = re.compile(r"https?://(www\.|m\.)?(youtube\.com|youtu\.be)/", re.IGNORECASE)
_PRIVATE_NAMES = re.compile(
    r"localhost|[^.]+|.+\.(localhost|local|localdomain|internal|intranet|lan|home\.arpa)",
    re.IGNORECASE,
)
"""Host names that only resolve locally: reserved ones, and those without a dot."""

_FOREIGN_FILE = re.compile(r"file[-_]\w+")
"""File ids of OpenAI and Anthropic; those of the Files API are paths."""

_ACCEPTED_TYPES = re.compile(
    r"(image|audio|video|text)/.+|application/(pdf|x-javascript|x-python)", re.IGNORECASE
)
"""What the emulator of our tests accepts; not compared with the API type by type."""

_UNFETCHED = "unfetched"
"""Key of a media block: why its file could not be downloaded."""

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
"""By file extension; the table of the standard library differs between machines."""

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
"""By the brand of an ISO file; every other brand is a video."""

_KINDS = {
    **dict.fromkeys(("image", "image_url", "input_image"), "image/*"),
    **dict.fromkeys(("audio", "input_audio"), "audio/*"),
    "video": "video/*",
}

_SLICE = 50_000
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=-_"
_EXAMPLES = {"image/*": "image/png", "audio/*": "audio/mp3", "video/*": "video/mp4"}

_OFFSETS = {"startOffset": "start_offset", "endOffset": "end_offset"}
_MAX_SECONDS = 1e12
_DURATION = re.compile(r"-?\d{1,12}(\.\d{1,9})?s")

_PART_OPTIONS = {
    "video_metadata": "videoMetadata",
    "videoMetadata": "videoMetadata",
    "media_resolution": "mediaResolution",
    "mediaResolution": "mediaResolution",
    "media_processing": "mediaProcessing",
    "mediaProcessing": "mediaProcessing",
}


def has_media(block: Block) -> bool:
    """Return whether a block has a media type and contains bytes, text or a location."""
    if block.get("type") not in block_types.MEDIA:
        return False
    if _UNFETCHED in block:
        return True
    source = _source_of(block)
    return any(source.get(key) for key in ("base64", "url", "text", "file_id"))


def plain_text_of(block: Block) -> str | None:
    """Return the text of a media block that is a plain text file, else `None`."""
    source = _source_of(block)
    if source.get("base64") or source.get("url"):
        return None
    return _text(source.get("text"))


def url_to_fetch(block: Block) -> str | None:
    """Return the web address in a media block that does not contain bytes."""
    if block.get("type") not in block_types.MEDIA:
        return None
    source = _source_of(block)
    url = _text(source.get("url"))
    return url if url and not source.get("base64") and _is_fetchable(url) else None


def declared_type(block: Block) -> str | None:
    """Return the MIME type of a block: declared, by file extension, or a wildcard by its kind."""
    source = _source_of(block)
    named = _text(source.get("mime_type")) or _type_of_name(_text(source.get("name")))
    return (
        named or _type_of_name(_path(_text(source.get("url")) or "")) or _KINDS.get(block["type"])
    )


def with_bytes(block: Block, data: bytes, mime_type: str) -> Block:
    """Return the block with these bytes instead of its URL."""
    kept = {key: block[key] for key in ("extras", *_PART_OPTIONS) if key in block}
    encoded = base64.b64encode(data).decode("ascii")
    return {"type": "media", "data": encoded, "mime_type": mime_type, **kept}


def type_of(data: bytes) -> str | None:
    """Return the MIME type of a file, by its first bytes."""
    return _type_of_bytes(base64.b64encode(data[:24]).decode("ascii"))


def unfetched(reason: str) -> Block:
    """Return a block in place of a file that could not be downloaded.

    Args:
        reason: A sentence that says why.
    """
    return {"type": "media", _UNFETCHED: reason}


def why_rejected(part: gemini.Part) -> str | None:
    """Return why the API would reject a rendered file, as far as that is known; else `None`."""
    data: Block = {**(part.get("inlineData") or part.get("fileData") or {})}
    mime_type, uri = _text(data.get("mimeType")), _text(data.get("fileUri"))
    shown = f"The file {redacted_url(uri)!r}" if uri else "A file"
    if mime_type and not _ACCEPTED_TYPES.fullmatch(mime_type):
        return f"{shown} has the type {mime_type}, which the model does not accept."
    if uri and not mime_type and _is_fetchable(uri):
        return f"{shown} has no known type."
    if (encoded := _text(data.get("data"))) and not is_base64(encoded):
        return f"{shown} contains data that is not valid base64."
    return None


def is_base64(data: str) -> bool:
    """Return whether the API can decode this data: both alphabets, with or without padding."""
    if not data.isascii() or (len(data) - data.count("=")) % 4 == 1:
        return False
    return not any(each.translate(None, _BASE64) for each in slices(data))


def slices(data: str) -> Iterator[bytes]:
    """Yield the bytes of ASCII text in pieces, which take little memory."""
    for start in range(0, len(data), _SLICE):
        yield data[start : start + _SLICE].encode("ascii")


def render_media(block: Block) -> gemini.Part:
    """Render a media block as `inlineData`, `fileData` or, for plain text files, `text`.

    Raises:
        InvalidInputError: The block has no data, location or MIME type.
    """
    if reason := _text(block.get(_UNFETCHED)):
        raise InvalidInputError(reason)
    part = _render_source(block, _source_of(block))
    options = {**block, **extras_of(block)}
    for key, wire_key in _PART_OPTIONS.items():
        if (value := options.get(key)) is not None:
            rendered = plain(value)
            if wire_key == "mediaResolution":
                rendered = _render_resolution(rendered)
            if wire_key == "mediaProcessing":
                rendered = str(rendered).upper()
            if wire_key == "videoMetadata":
                rendered = _render_video_metadata(rendered)
            part[wire_key] = rendered  # type: ignore[literal-required]
    return part


def _render_resolution(resolution: object) -> object:
    """Render the resolution of one file: a word, or an object with a `level`."""
    match resolution:
        case str():
            return {"level": render_resolution(resolution)}
        case {"level": str(level), **rest}:
            return {"level": render_resolution(level), **rest}
    return resolution


def _render_video_metadata(metadata: object) -> Block:
    """Render the offsets and the frame rate of a video.

    Raises:
        InvalidInputError: An offset is negative, or the video would end before it starts. The API
            answers such offsets with a 500.
    """
    if not isinstance(metadata, dict):
        raise InvalidInputError(
            f"video_metadata must be a mapping, not {type(metadata).__name__}. "
            'Use {"start_offset": "10s", "end_offset": "20s"}.'
        )
    fields = {camel(str(key)): value for key, value in metadata.items()}
    seconds: dict[str, float] = {}
    for key, name in _OFFSETS.items():
        if (offset := _seconds(fields.get(key))) is None:
            continue
        if offset < 0:
            raise InvalidInputError(
                f"video_metadata: {name} must be non-negative, not {offset:g} seconds."
            )
        seconds[key] = offset
        if not isinstance(fields[key], str):
            fields[key] = render_duration(offset)
    if len(seconds) == len(_OFFSETS) and seconds["startOffset"] > seconds["endOffset"]:
        raise InvalidInputError(
            f"video_metadata: start_offset ({seconds['startOffset']:g} s) must not exceed "
            f"end_offset ({seconds['endOffset']:g} s)."
        )
    return fields


def render_duration(seconds: float) -> str:
    """Render a duration as the API writes it, such as `3.5s`: no exponent, nine decimals."""
    return f"{seconds:.9f}".rstrip("0").rstrip(".") + "s"


def _seconds(offset: object) -> float | None:
    """Return a duration in seconds; `None` for what only the API can judge."""
    match offset:
        case bool():
            return None
        case int() | float() if abs(offset) < _MAX_SECONDS:
            return float(offset)
        case str() if _DURATION.fullmatch(offset):
            return float(offset[:-1])
        case {"seconds": int(seconds), "nanos": int(nanos)}:
            return _seconds(seconds + nanos / 1e9)
        case {"seconds": int(seconds)}:
            return _seconds(seconds)
    return None


def _source_of(block: Block) -> Block:
    """Return a block's source under LangChain's names: base64, url or text, and mime_type."""
    kind = block["type"]
    match block:
        case {"type": "image_url" | "input_image", "image_url": {"url": str(url)}}:
            return {"url": url}
        case {"type": "image_url" | "input_image", "image_url": str(url)}:
            return {"url": url}
        case {"type": "input_audio", "input_audio": {"data": data, "format": str(ending)}}:
            return {"base64": data, "mime_type": _TYPES_BY_SUFFIX.get(ending, f"audio/{ending}")}
        case {"type": "input_audio", "input_audio": {"data": data}}:
            return {"base64": data}
        case {"type": "file", "file": {"file_data": str(data), **rest}}:
            return {"base64": data, "name": rest.get("filename")}
        case {"type": "input_file", "file_data": str(data), **rest} if data:
            return {"base64": data, **_name(rest)}
        case {"type": "input_file", **rest}:
            return {"url": rest.get("file_url"), "file_id": rest.get("file_id"), **_name(rest)}
        case {"source": {"type": "text", "data": str(text)}}:
            return {"text": text}
        case {"source": {"type": "base64", "data": data, **rest}}:
            return {"base64": data, "mime_type": rest.get("media_type") or rest.get("mime_type")}
        case {"source": {"type": "url", "url": str(url)}}:
            return {"url": url, "mime_type": "application/pdf" if kind == "document" else None}
        case {"source": {"type": "file", "file_id": str(file_id)}}:
            return {"file_id": file_id}
        case {"type": "media" | "file_data", "file_uri": str(uri), **rest}:
            return {"url": uri, "mime_type": rest.get("mime_type")}
        case {"source_type": "text", "text": str(text)}:
            return {"text": text}
        case {"data": data, **rest}:
            return {"base64": data, "mime_type": rest.get("mime_type"), **_name(rest)}
    return dict(block) | _name(block)


def _name(block: Block) -> Block:
    extras = extras_of(block)
    return {"name": block.get("filename") or extras.get("filename") or extras.get("name")}


def _render_source(block: Block, source: Block) -> gemini.Part:
    kind = block["type"]
    mime_type = _text(source.get("mime_type"))
    if isinstance(data := source.get("base64"), (str, bytes, bytearray)) and data:
        return _render_inline(kind, data, mime_type or _type_of_name(_text(source.get("name"))))
    if url := _text(source.get("url")):
        if _is_data_uri(url):
            return _render_data_uri(kind, url, mime_type)
        if reason := _why_unreachable(url):
            raise InvalidInputError(_unreachable(kind, url, reason))
        return _render_uri(url, mime_type)
    if isinstance(text := source.get("text"), str):
        return {"text": text}
    if file_id := _text(source.get("file_id")):
        if _FOREIGN_FILE.fullmatch(file_id):
            raise InvalidInputError(
                f"A block of type {kind!r} refers to {file_id!r}, a file of another vendor. "
                "Send its bytes as base64, or upload it to Gemini's Files API and use its URI."
            )
        return _render_uri(file_id, mime_type)
    keys = ", ".join(sorted(map(str, block)))
    raise InvalidInputError(
        f"A block of type {kind!r} has neither data nor a location (keys: {keys}). "
        'Add "base64" and "mime_type", or "url".'
    )


def _unreachable(kind: str, url: str, reason: str) -> str:
    advice = "Send its bytes as base64"
    if _is_fetchable(url):
        advice += ", or let ChatGemini fetch it: fetch_urls=FetchLimits(allow_hosts=[...])"
    return (
        f"A block of type {kind!r} refers to {redacted_url(url)!r}, which the API cannot fetch: "
        f"{reason}. {advice}."
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _render_inline(kind: str, data: str | bytes | bytearray, mime_type: str | None) -> gemini.Part:
    if isinstance(data, (bytes, bytearray)):
        data = base64.b64encode(data).decode("ascii")
    if _is_data_uri(data):
        return _render_data_uri(kind, data, mime_type)
    if any(space in data for space in " \n\r\t"):  # as in e-mails
        data = "".join(data.split())
    mime_type = mime_type or _type_of_bytes(data)
    example = _EXAMPLES.get(_KINDS.get(kind, ""), "application/pdf")
    if not mime_type:
        raise InvalidInputError(
            f"A block of type {kind!r} has no MIME type, and its data does not reveal one. "
            f'Add "mime_type", for example "{example}".'
        )
    if "/" not in mime_type:
        raise InvalidInputError(
            f"A block of type {kind!r} has the MIME type {mime_type!r}, which is not valid. "
            f'Use a type such as "{example}".'
        )
    return {"inlineData": {"mimeType": sendable_type(mime_type), "data": data}}


def _is_data_uri(text: str) -> bool:
    return text[:32].lstrip()[:5].lower() == "data:"


def _render_data_uri(kind: str, uri: str, mime_type: str | None) -> gemini.Part:
    header, _, data = uri.lstrip().partition(",")
    named, _, coding = header[len("data:") :].rpartition(";")
    if not data or coding.strip().lower() != "base64" or _is_data_uri(data):
        raise InvalidInputError(
            f"A block of type {kind!r} contains a data URI without base64 data: {header[:60]!r}. "
            "Use data:<mime type>;base64,<data>."
        )
    return _render_inline(kind, unquote(data) if "%" in data else data, named or mime_type)


def sendable_type(mime_type: str) -> str:
    """Return the type as the API accepts it: lower case, with parameters only for audio."""
    name, semicolon, parameters = mime_type.strip().partition(";")
    name = name.strip().lower()
    if name == "image/jpg":
        return "image/jpeg"  # the API does not know the short name
    return f"{name}{semicolon}{parameters}" if name.startswith("audio/") else name


def _render_uri(uri: str, mime_type: str | None) -> gemini.Part:
    mime_type = mime_type or _type_of_name(_path(uri))
    file_data: gemini.FileData = {"fileUri": uri}
    if mime_type:
        file_data["mimeType"] = sendable_type(mime_type)
    return {"fileData": file_data}


def _path(uri: str) -> str:
    return re.split(r"[?#]", uri, maxsplit=1)[0]


def _type_of_name(name: str | None) -> str | None:
    return _TYPES_BY_SUFFIX.get((name or "").rpartition(".")[2].lower())


def _type_of_bytes(data: str) -> str | None:
    """Return the MIME type of base64 data, by its first bytes."""
    try:
        head = base64.b64decode(data[:16], altchars=b"-_" if set("-_") & set(data[:16]) else None)
    except (binascii.Error, ValueError):
        return None
    if head.startswith(b"RIFF"):
        return _RIFF_TYPES.get(head[8:12])
    if head[4:8] == b"ftyp":
        return _FTYP_TYPES.get(head[8:12], "video/mp4")
    return next((kind for magic, kind in _TYPES_BY_MAGIC if head.startswith(magic)), None)


# URLs. The API fetches files of Google Cloud Storage (`gs://`), of its Files API, YouTube videos
# and public web addresses. It cannot reach this machine or a private network.


def redacted_url(url: str) -> str:
    """Return a URL for error messages: without password and query, which may be a signature."""
    parts = _split(url)
    if parts is None or not parts.scheme or not parts.hostname:
        return url.partition("?")[0][:60]
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"[:200]


def _why_unreachable(url: str) -> str | None:
    """Return why the API cannot fetch this URL; `None` if it can, judging by the text alone."""
    parts = _split(url)
    if parts is None or not parts.scheme:
        return "it is not a URL"
    if parts.scheme == "gs":
        return None
    if parts.scheme not in _WEB:
        return f"it does not support {parts.scheme}: URLs"
    host = parts.hostname or ""
    return None if _is_public(host) else f"{host or 'a URL without a host'} is not public"


def _is_fetchable(url: str) -> bool:
    """Return whether this is a web address that not only Google can read."""
    parts = _split(url)
    if parts is None or parts.scheme not in _WEB:
        return False
    return not (_GOOGLE_FILES.match(url) or YOUTUBE.match(url))


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.hostname
    except ValueError:
        return None
    return parts


def _is_public(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_global
    except ValueError:
        return bool(host) and not _PRIVATE_NAMES.fullmatch(host.rstrip("."))
