"""Untrusted content -> text that is safe to display: values, content blocks, sources.

Tool results, arguments and responses are untrusted. In a terminal they must not move the cursor,
rename the window or reverse the text, and long texts must be cut. All text of a trace passes
through `clean` once; the HTML and mermaid writers escape it after that.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO, cast

from langchain_gemini_tools.facts.blocks import (
    CALL_SIGNATURE,
    CALLS,
    GEMINI_PART,
    MEDIA,
    REFUSAL,
    TEXTS,
    THOUGHTS,
    blocks_of,
    is_derived_refusal,
    thought_of,
    type_of,
    unwrapped,
)
from langchain_gemini_tools.facts.credentials import redact, secrets_in_use

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

_INVISIBLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Categories of invisible characters: controls, bidi marks, tags, lone surrogates."""
_KEPT = {"\n", "\t", "\u200c", "\u200d"}
"""Line ends, and the joiners that emoji and several scripts need."""

_LONGEST_SECRET = 4096
"""Text is redacted this far beyond a cut, because half a credential cannot be recognized."""

_MAX_DEPTH = 8
_MAX_ITEMS = 400
_MAX_STRING = 20_000
_CHARS_PER_ITEM = 100
"""A long text counts as one item for each this many characters."""
_MAX_BITS = 4096
"""Longer integers are not written out; Python itself has such a limit."""
_SHOWN_IMAGES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
_MAX_IMAGE_CHARS = 400_000
"""Larger images are described, so that a trace stays small."""
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_SIGNATURES = {"thoughtSignature", "thought_signature", "signature"}


# Text and values


def clean(text: str, max_chars: int) -> str:
    """Redact credentials, cut at `max_chars` with a notice, and show invisible characters."""
    shown = _redacted_start(text, max_chars).replace("\r\n", "\n")
    shown = shown.translate(_VISIBLE)
    rest = len(text) - max_chars
    if rest <= 0:
        return shown
    return f"{shown}… ({rest:,} more character{'' if rest == 1 else 's'})"


def render_value(value: object) -> str:
    """Return any value as JSON text; cycles, depth and the number of items are bounded."""
    return json.dumps(_Pruner().prune(value), ensure_ascii=False)


def render_arguments(args: object, separator: str = ", ") -> str:
    """Return arguments as they would be written in a Python call."""
    if not isinstance(args, Mapping):
        return args if isinstance(args, str) else render_value(args)
    pruned = cast("dict[str, object]", _Pruner().prune(args))
    return separator.join(
        f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in pruned.items()
    )


def render_error(error: BaseException) -> str:
    """Return type and message of an exception, whose `__str__` may fail."""
    kind = type(error).__name__
    try:
        return f"{kind}: {error}"
    except Exception:  # noqa: BLE001 - any exception of its code
        return kind


def _redacted_start(text: str, length: int) -> str:
    """Return the first characters of a text without credentials, not even the start of one."""
    window = text[: length + _LONGEST_SECRET]
    shown = redact(window, secrets_in_use())
    if len(window) < len(text):  # its end may be the start of a credential
        shown = shown[: max(0, len(shown) - _LONGEST_SECRET)]
    return shown[:length]


class _VisibleForms(dict[int, str]):
    """What `str.translate` writes for each character; it asks once for each of ASCII."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        if char in _KEPT or unicodedata.category(char) not in _INVISIBLE:
            return char
        return f"⟨U+{code:04X}⟩"


_VISIBLE = _VisibleForms()


@dataclass
class _Pruner:
    """Copies a value as plain JSON up to a number of items."""

    _items: int = 0
    _open: set[int] = field(default_factory=set)

    def prune(self, value: object, depth: int = 0) -> object:
        self._items += 1
        match value:
            case int() if value.bit_length() > _MAX_BITS:
                return f"<integer of {value.bit_length():,} bits>"
            case None | bool() | int() | float():
                return value
            case str():
                self._items += min(len(value), _MAX_STRING) // _CHARS_PER_ITEM
                return value if len(value) <= _MAX_STRING else _redacted_start(value, _MAX_STRING)
            case bytes() | bytearray() | memoryview():
                return f"<{len(value)} bytes>"
        if id(value) in self._open:
            return "<cycle>"
        if depth >= _MAX_DEPTH or self._items > _MAX_ITEMS:
            return "…"
        self._open.add(id(value))
        try:
            return self._prune_container(value, depth + 1)
        finally:
            self._open.discard(id(value))

    def _prune_container(self, value: object, depth: int) -> object:
        if isinstance(value, Sequence | AbstractSet):
            listed = self._prune_items(enumerate(value), len(value), depth)
            return [f"… {item}" if key == "…" else item for key, item in listed.items()]
        fields = value if isinstance(value, Mapping) else _fields(value)
        if fields is None:
            return _name(value)
        return self._prune_items(fields.items(), len(fields), depth)

    def _prune_items(
        self, items: Iterable[tuple[Any, object]], count: int, depth: int
    ) -> dict[str, object]:
        pruned: dict[str, object] = {}
        for key, item in items:
            if self._items > _MAX_ITEMS:
                pruned["…"] = f"{count - len(pruned)} more"
                break
            pruned[str(key)[:200]] = self.prune(item, depth)
        return pruned


def _fields(value: object) -> Mapping[str, object] | None:
    """Return the fields of a Pydantic model or a dataclass; the repr of others is not called."""
    names = getattr(type(value), "model_fields", None) or getattr(
        type(value), "__dataclass_fields__", None
    )
    return {name: getattr(value, name, None) for name in names} if names else None


def _name(value: object) -> str:
    if isinstance(value, BaseException):
        return render_error(value)
    known = type(value).__module__ in {"datetime", "decimal", "uuid", "enum", "pathlib"}
    return str(value) if known else f"<{type(value).__name__}>"


def replace_unencodable(file: TextIO) -> TextIO:
    """Return the stream, or a wrapper that writes `?` for characters that it cannot encode.

    Output may be redirected on Windows, or the locale may be `C`.
    """
    encoding = (getattr(file, "encoding", None) or "utf-8").lower().replace("-", "")
    return file if encoding.startswith("utf") else cast("TextIO", _ReplacingStream(file))


class _ReplacingStream:
    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> int:
        encoding = self._file.encoding
        self._file.write(text.encode(encoding, "replace").decode(encoding))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


# Content blocks


@dataclass(frozen=True)
class TracedBlock:
    """One content block: `kind` is its label, `text` what is shown of it."""

    kind: str
    text: str
    is_server_tool: bool = False
    image: str = ""
    """A small image as a data URL, for output that can show it."""


def read_blocks(message: BaseMessage) -> list[TracedBlock]:
    """Return the blocks of a message in order, without its tool calls.

    LangChain's `content_blocks` reads the content of every provider. Unknown blocks come back as
    `non_standard` and are shown with their type. So do thoughts and tool calls of a message that
    does not name its provider.
    """
    blocks = [block for block in _content_blocks(message) if not _is_listed_call(block, message)]
    return [read for block in [*blocks, *_refusals(message)] for read in _read_block(block)]


def _is_listed_call(block: Any, message: BaseMessage) -> bool:
    """Return whether LangChain has wrapped a call of another vendor that `tool_calls` repeats."""
    value = unwrapped(block)
    if value is block or isinstance(value, str) or type_of(value) not in CALLS:
        return False
    call_id = value.get("call_id") or value.get("id")  # OpenAI's blocks have both
    calls = [*getattr(message, "tool_calls", []), *getattr(message, "invalid_tool_calls", [])]
    return any(call.get("id") == call_id for call in calls)


def _refusals(message: BaseMessage) -> list[Any]:
    """Return the refusal of OpenAI's chat completions, which is not in the content."""
    refusal = message.additional_kwargs.get(REFUSAL)
    return [{"type": REFUSAL, REFUSAL: refusal}] if isinstance(refusal, str) else []


def _content_blocks(message: BaseMessage) -> list[Any]:
    try:
        return list(message.content_blocks)
    except Exception:  # noqa: BLE001 - show what can be shown
        return blocks_of(message.content)


def read_sources(message: BaseMessage) -> list[TracedBlock]:
    """Return the sources of a response: searches, pages and citations."""
    metadata = message.response_metadata
    queries = _listed(metadata.get("grounding_metadata"), "web_search_queries")
    found = [TracedBlock("google_search", str(query), is_server_tool=True) for query in queries]
    for page in _listed(metadata.get("url_context_metadata"), "url_metadata"):
        details = [_field(page, key) for key in ("retrieved_url", "url_retrieval_status")]
        found.append(
            TracedBlock("url_context", " ".join(filter(None, details)), is_server_tool=True)
        )
    return found + [TracedBlock("source", text) for text in dict.fromkeys(_citations(message))]


_WRAPPED = (*TEXTS, REFUSAL, CALL_SIGNATURE)
"""Types that LangChain wraps where it does not know them, or a field in them."""


def _read_block(block: Any) -> Iterator[TracedBlock]:
    match block:
        case str():
            yield from _text("text", block)
        case {"type": str(kind), "text": str(text)} if kind in TEXTS:
            yield from _text("text", text)
        case {"type": str(kind)} if kind in THOUGHTS:
            thought = thought_of(block)
            yield from [_read_unknown(block)] if thought is None else _text("thinking", thought)
        case {"type": str(kind)} if kind in CALLS or is_derived_refusal(block):
            return  # shown as calls, and as the finish reason
        case {"type": str(kind), "refusal": str(text)} if kind == REFUSAL:
            yield from _text(kind, text)
        case {"type": str(kind)} if kind in MEDIA:
            yield TracedBlock(kind, _describe_media(block), image=_image_url(block))
        case {"type": "server_tool_call" | "server_tool_call_chunk", **rest}:
            name = str(rest.get("name") or "server tool")
            yield TracedBlock(name, _describe_server_args(rest.get("args")), is_server_tool=True)
        case {"type": "server_tool_result", **rest}:
            has_succeeded = rest.get("status") in (None, "success")
            status = "" if has_succeeded else f"{rest['status']}: "
            yield _server_result(rest.get("output"), status)
        case {"type": "non_standard", "value": {"type": str(kind)} as value} if (
            kind in _WRAPPED or (kind in THOUGHTS and thought_of(value))
        ):
            yield from _read_block(value)
        case {"type": "non_standard", "value": value}:
            yield _read_unknown(value)
        case _:
            yield _read_unknown(block)


def _read_unknown(value: object) -> TracedBlock:
    match value:
        case {"type": str(kind), "part": dict(part)} if kind == GEMINI_PART:
            return _read_part(part)
        case {"type": str(kind), **rest}:
            shown = {key: item for key, item in rest.items() if key not in _SIGNATURES | {"index"}}
            return TracedBlock(kind, render_value(shown))
    return TracedBlock("block", render_value(value))


def _read_part(part: Mapping[str, object]) -> TracedBlock:
    """Read a part of Gemini's without a LangChain block, mostly of tools that the API runs."""
    match part:
        case {"toolCall": {"toolType": str(name), **call}} | {
            "functionCall": {"name": str(name), **call}
        }:
            return TracedBlock(name, render_arguments(call.get("args") or {}), is_server_tool=True)
        case {"toolResponse": dict(response)} | {"functionResponse": dict(response)}:
            return _server_result(render_value(response.get("response")))
        case {"interactionStep": dict(step)}:
            return _read_step(step)
    named = [key for key in part if key not in _SIGNATURES]
    name = str(named[0]) if named else "part"
    return TracedBlock(name, render_value(part.get(name)), is_server_tool=True)


def _read_step(step: Mapping[str, Any]) -> TracedBlock:
    """Read a step of the Interactions API: the call or the result of a tool that the API runs."""
    kind = str(step.get("type") or "step")
    match step:
        case {"arguments": dict(arguments)}:
            name = str(step.get("name") or kind.removesuffix("_call"))
            return TracedBlock(name, render_arguments(arguments), is_server_tool=True)
        case {"result": result}:
            return _server_result(result, "error: " if step.get("is_error") else "")
    rest = {key: value for key, value in step.items() if key not in _SIGNATURES | {"type"}}
    return TracedBlock(kind, render_value(rest), is_server_tool=True)


def _server_result(output: object, status: str = "") -> TracedBlock:
    if output is None:
        output = "(empty)"  # some vendors return only a status
    text = output if isinstance(output, str) else render_value(output)
    return TracedBlock("server result", status + text.strip("\n"), is_server_tool=True)


def _text(kind: str, text: str) -> Iterator[TracedBlock]:
    if text.strip():
        yield TracedBlock(kind, text.strip("\n"))


def _describe_server_args(args: object) -> str:
    match args:
        case {"code": str(code)}:
            return code.strip("\n")
        case str():
            return args
    return render_value(args)


def _describe_media(block: Mapping[str, object]) -> str:
    """Return type and size, or the address; never the data."""
    kind = str(block.get("mime_type") or block.get("type"))
    match block:
        case {"base64": str(data)}:
            return f"{kind}, {_render_size(len(data.rstrip('=')) * 3 // 4)}"
        case {"url": str(url)}:
            # The query is often a signature that grants access to the file.
            place = url.split(",", 1)[0] if url.startswith("data:") else url.split("?", 1)[0]
            return f"{kind} at {place}"
        case {"file_id": str(file_id)}:
            return f"{kind}, file {file_id}"
        case {"text": str(text)}:
            return f"{kind}, {len(text):,} characters"
    return kind


def _image_url(block: Mapping[str, object]) -> str:
    match block:
        case {"base64": str(data), "mime_type": str(kind)} if (
            kind in _SHOWN_IMAGES and len(data) <= _MAX_IMAGE_CHARS and _BASE64.fullmatch(data)
        ):
            return f"data:{kind};base64,{data}"
    return ""


def _render_size(size: int) -> str:
    if size < 1000:
        return f"{size} bytes"
    return f"{size / 1000:.1f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"


def _citations(message: BaseMessage) -> Iterator[str]:
    for block in _content_blocks(message):
        for note in _listed(block, "annotations"):
            if named := [text for key in ("title", "url") if (text := _field(note, key))]:
                yield " – ".join(named)
    metadata = message.response_metadata.get("citation_metadata")
    for source in [*_listed(metadata, "citationSources"), *_listed(metadata, "citations")]:
        if place := _field(source, "uri") or _field(source, "title"):
            yield place


def _listed(value: object, key: str) -> list[Any]:
    items = value.get(key) if isinstance(value, dict) else None
    return items if isinstance(items, list) else []


def _field(value: object, key: str) -> str:
    return str(value.get(key) or "") if isinstance(value, dict) else ""
