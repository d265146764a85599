"""What a context cache contains, and how it is left out of the requests that use the cache.

The API rejects tools, a tool config and a system instruction beside `cachedContent`, and never
shows what a cache contains. So the model keeps it: what is equal is left out, and still used to
parse the response; what differs is rejected.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_core.messages import SystemMessage

from langchain_gemini_tools.errors import InvalidInputError, InvalidOptionError
from langchain_gemini_tools.wire.tools.choice import ToolChoice

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.messages import BaseMessage

    from langchain_gemini_tools.wire.tools.tool import Tool

CACHED_FIELDS = ("systemInstruction", "tools", "toolConfig")


@dataclass(frozen=True)
class CacheContents:
    """What a context cache contains."""

    name: str
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = field(default_factory=ToolChoice)
    body: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """`systemInstruction`, `tools` and `toolConfig` as they were sent."""
    messages: tuple[BaseMessage, ...] = field(default=(), repr=False)
    """Without system messages."""


def cut_cached_messages(
    messages: Sequence[BaseMessage], cache: CacheContents
) -> Sequence[BaseMessage]:
    """Return the messages without those of the cache, if they begin with them.

    They are cut before rendering, because messages of one side become one content.

    Raises:
        InvalidInputError: The cache contains all of them.
    """
    others = [place for place, each in enumerate(messages) if not isinstance(each, SystemMessage)]
    places = others[: len(cache.messages)]
    if not places or len(places) < len(cache.messages):
        return messages
    pairs = zip((messages[place] for place in places), cache.messages, strict=True)
    if not all(_is_same(given, cached) for given, cached in pairs):
        return messages
    if len(places) == len(others):
        raise InvalidInputError(
            f"There is nothing to send: the context cache {cache.name!r} contains all messages. "
            "Add a user message."
        )
    return [each for place, each in enumerate(messages) if place not in places]


def _is_same(given: BaseMessage, cached: BaseMessage) -> bool:
    """Compare what is sent; graphs give messages an id of their own."""
    names = ("type", "content", "tool_calls", "invalid_tool_calls", "tool_call_id", "status")
    return all(getattr(given, name, None) == getattr(cached, name, None) for name in names)


def leave_out_cached(body: Mapping[str, Any], cache: CacheContents) -> dict[str, Any]:
    """Return the body without what the cache contains.

    Raises:
        InvalidOptionError: The request differs from the cache.
    """
    given, cached = body.get("systemInstruction"), cache.body.get("systemInstruction")
    if given and given != cached:
        raise _difference(cache, "The system message", "Use the same text, or none")
    if body.get("tools") != cache.body.get("tools"):
        names = _names(body.get("tools")) ^ _names(cache.body.get("tools"))
        which = f" ({', '.join(sorted(names))})" if names else ""
        raise _difference(cache, f"The tools{which}", "Bind the same tools, or none")
    if body.get("toolConfig") != cache.body.get("toolConfig"):
        raise _difference(
            cache,
            "tool_choice",
            "Leave it out, or create a cache with this tool_choice. For structured output of an "
            "agent, use ProviderStrategy: ToolStrategy forces a call",
        )
    return {key: value for key, value in body.items() if key not in CACHED_FIELDS}


def _difference(cache: CacheContents, what: str, advice: str) -> InvalidOptionError:
    return InvalidOptionError(
        f"{what} of this request differs from the context cache {cache.name!r}, which fixes the "
        f"system text, the tools and tool_choice. {advice}, or use a model without the cache."
    )


def _names(tools: Any) -> set[str]:
    return {
        str(declaration.get("name"))
        for tool in tools or ()
        for declaration in tool.get("functionDeclarations") or ()
    } | {key for tool in tools or () for key in tool if key != "functionDeclarations"}
