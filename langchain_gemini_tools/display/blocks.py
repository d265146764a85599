"""A message's content -> the pieces that a trace shows: text, thoughts, media, server-side tools.

LangChain's `content_blocks` reads every provider's content; what it does not know comes back as a
`non_standard` block and is shown by its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.display.safe_text import render_arguments, render_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from langchain_core.messages import BaseMessage

_MEDIA = {"image", "audio", "video", "file", "text-plain"}
_CALLS = {"tool_call", "invalid_tool_call", "tool_call_chunk"}
_SIGNATURES = {"thoughtSignature", "thought_signature", "signature"}


@dataclass(frozen=True)
class Block:
    """One piece of a message: `kind` is its label, `text` what it says."""

    kind: str
    text: str
    is_server_tool: bool = False


def read_blocks(message: BaseMessage) -> list[Block]:
    """The pieces of a message in order, without its tool calls."""
    try:
        blocks: list[Any] = list(message.content_blocks)
    except Exception:  # noqa: BLE001 - a display shows what it can of what is there
        blocks = message.content if isinstance(message.content, list) else [message.content]
    return [read for block in blocks for read in _read_block(block)]


def read_sources(message: BaseMessage) -> list[Block]:
    """What an answer rests on: searches, pages and citations."""
    metadata = message.response_metadata
    queries = _listed(metadata.get("grounding_metadata"), "web_search_queries")
    found = [Block("google_search", str(query), is_server_tool=True) for query in queries]
    for page in _listed(metadata.get("url_context_metadata"), "urlMetadata"):
        told = [_field(page, key) for key in ("retrievedUrl", "urlRetrievalStatus")]
        found.append(Block("url_context", " ".join(filter(None, told)), is_server_tool=True))
    return found + [Block("source", text) for text in dict.fromkeys(_citations(message))]


def _read_block(block: Any) -> Iterator[Block]:
    match block:
        case str():
            yield from _text("text", block)
        case {"type": "text", "text": str(text)}:
            yield from _text("text", text)
        case {"type": "reasoning"}:
            yield from _text("thinking", str(block.get("reasoning") or ""))
        case {"type": str(kind)} if kind in _CALLS:
            return
        case {"type": str(kind)} if kind in _MEDIA:
            yield Block(kind, _describe_media(block))
        case {"type": "server_tool_call" | "server_tool_call_chunk", **rest}:
            name = str(rest.get("name") or "server tool")
            yield Block(name, _describe_server_args(rest.get("args")), is_server_tool=True)
        case {"type": "server_tool_result", **rest}:
            status = "" if rest.get("status") == "success" else f"{rest.get('status')}: "
            output = rest.get("output")
            text = output if isinstance(output, str) else render_value(output)
            yield Block("server result", status + text.strip("\n"), is_server_tool=True)
        case {"type": "non_standard", "value": value}:
            yield _read_unknown(value)
        case _:
            yield _read_unknown(block)


def _read_unknown(value: Any) -> Block:
    match value:
        case {"type": "gemini_part", "part": dict(part)}:
            return _read_part(part)
        case {"type": str(kind), **rest}:
            shown = {key: item for key, item in rest.items() if key not in _SIGNATURES | {"index"}}
            return Block(kind, render_value(shown))
    return Block("block", render_value(value))


def _read_part(part: Mapping[str, Any]) -> Block:
    """A part of Gemini's that LangChain has no block for: mostly tools that the API runs itself."""
    match part:
        case {"toolCall": {"toolType": str(name), **call}} | {
            "functionCall": {"name": str(name), **call}
        }:
            return Block(name, render_arguments(call.get("args") or {}), is_server_tool=True)
        case {"toolResponse": dict(answered)} | {"functionResponse": dict(answered)}:
            return Block(
                "server result", render_value(answered.get("response")), is_server_tool=True
            )
    named = [key for key in part if key not in _SIGNATURES]
    name = str(named[0]) if named else "part"
    return Block(name, render_value(part.get(name)), is_server_tool=True)


def _text(kind: str, text: str) -> Iterator[Block]:
    if text.strip():
        yield Block(kind, text.strip("\n"))


def _describe_server_args(args: Any) -> str:
    match args:
        case {"code": str(code)}:
            return code.strip("\n")
        case str():
            return args
    return render_value(args)


def _describe_media(block: Mapping[str, Any]) -> str:
    """Type and size, or where it is; never the bytes themselves."""
    kind = str(block.get("mime_type") or block.get("type"))
    match block:
        case {"base64": str(data)}:
            return f"{kind}, {_render_size(len(data.rstrip('=')) * 3 // 4)}"
        case {"url": str(url)}:
            # What follows the question mark is often a signature that opens the file.
            place = url.split(",", 1)[0] if url.startswith("data:") else url.split("?", 1)[0]
            return f"{kind} at {place}"
        case {"file_id": str(file_id)}:
            return f"{kind}, file {file_id}"
        case {"text": str(text)}:
            return f"{kind}, {len(text):,} characters"
    return kind


def _render_size(size: int) -> str:
    if size < 1000:
        return f"{size} bytes"
    return f"{size / 1000:.1f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"


def _citations(message: BaseMessage) -> Iterator[str]:
    try:
        blocks: list[Any] = list(message.content_blocks)
    except Exception:  # noqa: BLE001 - see `read_blocks`
        return
    for block in blocks:
        for note in _listed(block, "annotations"):
            if named := [text for key in ("title", "url") if (text := _field(note, key))]:
                yield " – ".join(named)
    recited = message.response_metadata.get("citation_metadata")
    for source in [*_listed(recited, "citationSources"), *_listed(recited, "citations")]:
        if place := _field(source, "uri") or _field(source, "title"):
            yield place


def _listed(value: Any, key: str) -> list[Any]:
    items = value.get(key) if isinstance(value, dict) else None
    return items if isinstance(items, list) else []


def _field(value: Any, key: str) -> str:
    return str(value.get(key) or "") if isinstance(value, dict) else ""
