"""Context caches: create one, and use it in every request of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence  # noqa: TC003 - annotations are read at run time
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from langchain_gemini_tools.chat_model import ChatGemini  # noqa: TC001
from langchain_gemini_tools.errors import InvalidOptionError
from langchain_gemini_tools.options import resolve
from langchain_gemini_tools.retry import RetryPolicy
from langchain_gemini_tools.wire.invocation import (
    CacheContents,
    ToolChoiceOption,
)
from langchain_gemini_tools.wire.media import render_duration
from langchain_gemini_tools.wire.rejections import CACHED_FIELDS
from langchain_gemini_tools.wire.tools.builtin import reject_credentials

if TYPE_CHECKING:
    from langchain_gemini_tools.services import GeminiServices
    from langchain_gemini_tools.wire.request import RenderedRequest

__all__ = ["create_context_cache"]


def create_context_cache(  # noqa: PLR0913 - as in langchain-google-genai
    model: ChatGemini,
    messages: Sequence[BaseMessage],
    *,
    ttl: str | float | timedelta | None = None,
    expire_time: str | datetime | None = None,
    tools: Sequence[Any] | None = None,
    tool_choice: ToolChoiceOption = None,
) -> str:
    """Create a context cache and return its name, as in langchain-google-genai.

    `ChatGemini.with_context_cache` also returns a model that knows what the cache contains, which
    agents need.

    Args:
        model: The model that the cache is for.
        messages: What it contains; system messages become its system text.
        ttl: How long it lives: seconds, `"300s"` or a timedelta; one hour by default.
        expire_time: When it ends, instead of `ttl`.
        tools: What `bind_tools` accepts.
        tool_choice: What `bind_tools` accepts.
    """
    expiry = render_expiry(ttl, expire_time)
    return cache_of(model, messages, {"tools": tools, "tool_choice": tool_choice}, expiry).name


def cache_of(
    model: GeminiServices,
    messages: Sequence[BaseMessage],
    options: Mapping[str, Any],
    settings: Mapping[str, Any],
    name: str | None = None,
) -> CacheContents:
    """Return what a cache contains, and create the cache unless it has a name.

    Args:
        model: The model that the cache is for.
        messages: What it contains.
        options: Its `tools` and `tool_choice`.
        settings: The SDK's settings of the cache: `ttl`, `expire_time`, `display_name`.
        name: The name of a cache that was created elsewhere.
    """
    options = {key: value for key, value in options.items() if value is not None}
    options["cached_content"] = None
    _check_support(model, options)
    others = [message for message in messages if not isinstance(message, SystemMessage)]
    # A request ends with the user's turn; a cache need not.
    ends_with_user = bool(others) and not isinstance(others[-1], AIMessage)
    end = [] if ends_with_user else [HumanMessage("-")]
    request = model.preview([*messages, *end], **options)
    reject_credentials(request.invocation.tools, "a context cache")
    if name is None:
        name = _create(model, request, settings, without_last=bool(end))
    invocation = request.invocation
    return CacheContents(
        name=name,
        tools=invocation.tools,
        tool_choice=invocation.tool_choice,
        body={key: value for key, value in request.body.items() if key in CACHED_FIELDS},
        messages=tuple(others),
    )


def _check_support(model: GeminiServices, options: Mapping[str, Any]) -> None:
    invocation = resolve(model, None, options)
    if invocation.interaction:
        raise InvalidOptionError(
            "The Interactions API has no context caches. Use api='generate_content', or "
            "use_previous_interaction=True."
        )
    if invocation.is_prompted or not invocation.capabilities.supports_cached_content:
        raise InvalidOptionError(
            f"{invocation.model} has no context caches. Use another model; repeated beginnings of "
            "requests are cached implicitly by most Gemini models."
        )


def _create(
    model: GeminiServices,
    request: RenderedRequest,
    settings: Mapping[str, Any],
    *,
    without_last: bool,
) -> str:
    body: dict[str, Any] = {**request.body}
    contents = {
        "system_instruction": body.get("systemInstruction"),
        "contents": body["contents"][:-1] if without_last else body["contents"],
        "tools": body.get("tools"),
        "tool_config": body.get("toolConfig"),
    }
    config = {key: value for key, value in contents.items() if value}
    if not config:
        raise InvalidOptionError("A context cache needs messages, a system text or tools.")
    invocation = request.invocation
    retries = RetryPolicy(invocation.max_retries, invocation.max_retry_delay_seconds)
    client = model._client  # noqa: SLF001 - the same package
    create = partial(client.create_cache, invocation.model, {**config, **settings})
    with request.naming_tools():
        return retries.call(create)


def render_expiry(
    ttl: str | float | timedelta | None, expire_time: str | datetime | None
) -> dict[str, Any]:
    """Return the end of a cache as the SDK's settings.

    Raises:
        InvalidOptionError: Both are set, or one is not a time in the future or has no time zone.
    """
    if ttl is not None and expire_time is not None:
        raise InvalidOptionError("ttl and expire_time cannot be combined: use one.")
    if ttl is not None:
        return {"ttl": _render_seconds(ttl)}
    if expire_time is None:
        return {}
    try:
        end = datetime.fromisoformat(expire_time) if isinstance(expire_time, str) else expire_time
    except ValueError as error:
        raise InvalidOptionError(f"expire_time={expire_time!r} is not an ISO 8601 time.") from error
    if end.tzinfo is None:
        raise InvalidOptionError("expire_time needs a time zone, such as datetime.now(UTC).")
    return {"expire_time": end.astimezone(UTC)}


def _render_seconds(ttl: str | float | timedelta) -> str:
    given = ttl.total_seconds() if isinstance(ttl, timedelta) else ttl
    try:
        seconds = float(given.removesuffix("s") if isinstance(given, str) else given)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise InvalidOptionError(f"ttl must be seconds such as 300 or '300s', not {ttl!r}.")
    return render_duration(seconds)
