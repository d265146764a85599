"""Download media that messages refer to by URL, before the request is rendered (`fetch_urls`).

`FetchLimits` sets what may be downloaded. URLs come from the conversation and are not trusted:
every URL, and every redirect, is checked by langchain-core's guard against requests to private
networks, which also connects only to the address that it checked. The model's API key, cookies and
proxy are not used.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage, SystemMessage, ToolMessage

from langchain_gemini_tools.errors import InvalidOptionError, MediaFetchError
from langchain_gemini_tools.facts.locks import ForkSafeLock
from langchain_gemini_tools.wire.invocation import FetchLimits
from langchain_gemini_tools.wire.media import (
    declared_type,
    sendable_type,
    type_of,
    unfetched,
    url_to_fetch,
    with_bytes,
)
from langchain_gemini_tools.wire.media import redacted_url as shown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence


__all__ = ["FetchLimits"]

_IMAGES = ("png", "jpeg", "webp", "heic", "heif", "gif", "bmp", "avif")
_ALLOWED_TYPES = (
    *(f"image/{name}" for name in _IMAGES),
    "audio/*",
    "video/*",
    "text/*",
    "application/pdf",
)
_ALLOWED_IPV6 = tuple(
    map(
        ipaddress.IPv6Network,
        (
            "2000::/3",  # global unicast
            "::ffff:0:0/96",  # IPv4 addresses, which langchain-core checks
            "64:ff9b::/96",  # IPv4 addresses behind NAT64, the same
            "::1/128",  # langchain-core allows it in a local environment only
        ),
    )
)
"""All others are reserved, local, or contain an IPv4 address, which may be private."""
_TUNNELS = tuple(
    map(
        ipaddress.IPv6Network,
        (
            "2002::/16",  # 6to4: contains an IPv4 address, which may be private
            "2001::/32",  # Teredo, the same
        ),
    )
)
"""Networks in `2000::/3` that lead to private addresses, and that langchain-core does not know."""
_UNKNOWN_TYPES = {"", "application/octet-stream", "binary/octet-stream"}
_CACHED_SECONDS = 300.0
_MAX_PORT = 65_535


@dataclass(frozen=True)
class _File:
    data: bytes
    mime_type: str
    fetched_at: float = 0.0


class FetchedMedia:
    """A cache of recent files: an agent sends the same messages again at every step."""

    def __init__(self) -> None:
        self._files: OrderedDict[tuple[str, str | None, FetchLimits], _File] = OrderedDict()
        self._lock = ForkSafeLock()

    def __deepcopy__(self, memo: object) -> FetchedMedia:
        return FetchedMedia()

    def __reduce__(self) -> tuple[type[FetchedMedia], tuple[()]]:
        return FetchedMedia, ()

    def find(self, url: str, declared: str | None, limits: FetchLimits) -> _File | None:
        """Return a file that was fetched recently."""
        with self._lock:
            file = self._files.get((url, declared, limits))
        is_fresh = file and time.monotonic() - file.fetched_at < _CACHED_SECONDS
        return file if is_fresh else None

    def keep(self, url: str, declared: str | None, limits: FetchLimits, file: _File) -> None:
        """Store a file, and drop the oldest files beyond `max_bytes`."""
        with self._lock:
            self._files[url, declared, limits] = replace(file, fetched_at=time.monotonic())
            self._files.move_to_end((url, declared, limits))
            while sum(len(kept.data) for kept in self._files.values()) > limits.max_bytes:
                self._files.popitem(last=False)


def fetch_media(
    messages: Sequence[BaseMessage], limits: FetchLimits, cache: FetchedMedia
) -> Sequence[BaseMessage]:
    """Return copies of the messages in which media at URLs are replaced by their bytes.

    Args:
        messages: The messages; they are not changed.
        limits: What may be downloaded.
        cache: Files that were fetched before.

    Raises:
        MediaFetchError: A file was not fetched, and it is not in a tool result.
    """
    if not (urls := _urls_to_fetch(messages)):
        return messages
    # In another thread, because a loop may be running in this one.
    with ThreadPoolExecutor(1) as thread:
        files = thread.submit(lambda: _run(_fetch_all(urls, limits, cache))).result()
    return _with_files(messages, files)


def _run(fetching: Coroutine[Any, Any, _Fetched]) -> _Fetched:
    """Run in a new event loop.

    `asyncio.run` would wait for all threads of the loop at its end, and a name lookup may go on for
    minutes after the timeout.
    """
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(fetching)
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def afetch_media(
    messages: Sequence[BaseMessage], limits: FetchLimits, cache: FetchedMedia
) -> Sequence[BaseMessage]:
    """Fetch as `fetch_media` does, on the running event loop."""
    if not (urls := _urls_to_fetch(messages)):
        return messages
    return _with_files(messages, await _fetch_all(urls, limits, cache))


@dataclass
class _Wanted:
    """A file to fetch."""

    declared: str | None
    """The MIME type that its block declares."""
    is_required: bool
    """Whether it is in a message of the user; what a tool returned may be missing."""


_WantedFiles = dict[str, _Wanted]
_Fetched = dict[str, _File | MediaFetchError]
"""By URL; an error for a file that is not required and was not fetched."""


def _urls_to_fetch(messages: Sequence[BaseMessage]) -> _WantedFiles:
    wanted: _WantedFiles = {}
    for message in messages:
        if isinstance(message, SystemMessage) or not isinstance(message.content, list):
            continue
        for block, is_result in _blocks(
            message.content, is_result=isinstance(message, ToolMessage)
        ):
            if url := url_to_fetch(block):
                is_required = not is_result or (url in wanted and wanted[url].is_required)
                wanted[url] = _Wanted(declared_type(block), is_required)
    return wanted


def _blocks(content: Sequence[Any], *, is_result: bool) -> Iterator[tuple[dict[str, Any], bool]]:
    """Yield all blocks, and whether they belong to a tool result.

    Those inside Anthropic's tool results and LangChain's wrappers are yielded, too.
    """
    for block in content:
        if isinstance(block, dict):
            yield block, is_result
            yield from _blocks(
                _inside(block), is_result=is_result or block.get("type") == "tool_result"
            )


def _inside(block: Mapping[str, Any]) -> list[Any]:
    inner = block.get("content") if block.get("type") == "tool_result" else None
    if block.get("type") == "non_standard":
        inner = [block.get("value")]
    return inner if isinstance(inner, list) else []


def _with_files(messages: Sequence[BaseMessage], files: _Fetched) -> list[BaseMessage]:
    def replace_block(block: Any) -> Any:
        if not isinstance(block, dict):
            return block
        if (url := url_to_fetch(block)) and url in files:
            if isinstance(file := files[url], MediaFetchError):
                return unfetched(str(file))
            return with_bytes(block, file.data, file.mime_type)
        if not (inner := _inside(block)):
            return block
        changed = [replace_block(item) for item in inner]
        is_wrapper = block["type"] == "non_standard"
        return {**block, "value": changed[0]} if is_wrapper else {**block, "content": changed}

    return [
        message.model_copy(update={"content": [replace_block(block) for block in message.content]})
        if isinstance(message.content, list) and not isinstance(message, SystemMessage)
        else message
        for message in messages
    ]


async def _fetch_all(urls: _WantedFiles, limits: FetchLimits, cache: FetchedMedia) -> _Fetched:
    known = {
        url: file
        for url, wanted in urls.items()
        if (file := cache.find(url, wanted.declared, limits))
    }
    missing = {url: wanted for url, wanted in urls.items() if url not in known}
    if not missing:
        return {**known}
    budget = _Budget(limits.max_bytes, sum(len(file.data) for file in known.values()))
    # In a thread, because making a client reads certificates from files.
    client = await asyncio.to_thread(_guarded_client, limits)
    try:
        fetched = await _fetch_missing(client, missing, limits, budget)
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    finally:
        await client.aclose()
    for url, found in fetched.items():
        if isinstance(found, _File):
            cache.keep(url, missing[url].declared, limits, found)
    return {**known, **fetched}


async def _fetch_missing(
    client: Any, missing: _WantedFiles, limits: FetchLimits, budget: _Budget
) -> _Fetched:
    tasks: dict[str, asyncio.Task[_File | MediaFetchError]] = {}
    try:
        async with asyncio.timeout(limits.timeout_seconds), asyncio.TaskGroup() as group:
            for url, wanted in missing.items():
                tasks[url] = group.create_task(_fetch_wanted(client, url, wanted, budget))
    except TimeoutError:
        late = [url for url, task in tasks.items() if task.cancelled()]
        if any(missing[url].is_required for url in late):
            raise _timed_out(missing, limits) from None
        return {
            url: _timed_out([url], limits) if task.cancelled() else task.result()
            for url, task in tasks.items()
        }
    return {url: task.result() for url, task in tasks.items()}


async def _fetch_wanted(
    client: Any, url: str, wanted: _Wanted, budget: _Budget
) -> _File | MediaFetchError:
    _is_fetching.set(True)  # in this task only
    try:
        return await _fetch(client, url, wanted.declared, budget)
    except MediaFetchError as error:
        if wanted.is_required:
            raise
        return error


def _timed_out(urls: Collection[str], limits: FetchLimits) -> MediaFetchError:
    names = ", ".join(map(shown, urls))
    verb = "was" if len(urls) == 1 else "were"
    return MediaFetchError(
        f"{names} {verb} not fetched within {limits.timeout_seconds:g} s. "
        "Increase FetchLimits.timeout_seconds, or send the bytes."
    )


_is_fetching: ContextVar[bool] = ContextVar("gemini_fetch", default=False)


def _shorten_addresses(record: logging.LogRecord) -> bool:
    """Log the addresses of files as errors show them: the query may be a signature."""
    if _is_fetching.get() and isinstance(record.args, tuple):
        texts = [(str(value), value) for value in record.args]
        record.args = tuple(shown(text) if "://" in text else value for text, value in texts)
    return True


class _Budget:
    """The bytes that are left for all files of a request."""

    def __init__(self, max_bytes: int, used: int) -> None:
        self._max_bytes = max_bytes
        self._left = max_bytes - used

    def use(self, count: int, url: str) -> None:
        self.check(count, url)
        self._left -= count

    def check(self, count: int, url: str) -> None:
        if count > self._left:
            raise MediaFetchError(
                f"{shown(url)} was not fetched: the files of this request are larger than "
                f"{self._max_bytes} bytes together. Increase FetchLimits.max_bytes, or upload the "
                "file."
            )


async def _fetch(client: Any, url: str, declared: str | None, budget: _Budget) -> _File:
    import httpx
    from langchain_core._security import SSRFBlockedError

    try:
        # Not compressed: a small response could decompress to any size.
        async with client.stream("GET", url, headers={"accept-encoding": "identity"}) as response:
            return await _read(response, url, declared, budget)
    except SSRFBlockedError as blocked:
        if isinstance(blocked.__cause__, OSError):
            raise MediaFetchError(
                f"{shown(url)} was not fetched: its name, or one that it redirects to, was not "
                "found. Check the URL, or send the bytes."
            ) from None
        raise MediaFetchError(
            f"{shown(url)} was not fetched: the address, or one that it redirects to, is not "
            f"allowed ({blocked.reason}). To allow a host, use FetchLimits(allow_hosts=[...])."
        ) from None
    except httpx.TooManyRedirects:
        raise MediaFetchError(
            f"{shown(url)} was not fetched: too many redirects. Use the URL that they lead to."
        ) from None
    except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as error:
        # The text of the error may contain the whole URL, with a signature.
        raise MediaFetchError(
            f"{shown(url)} was not fetched: {type(error).__name__}. Check the URL, or send the "
            "bytes."
        ) from None


async def _reject_local_ipv6(event: str, info: Mapping[str, Any]) -> None:
    """Check the address of a connection before it is made; the HTTP library calls this."""
    if event != "connection.connect_tcp.started":
        return
    from langchain_core._security import SSRFBlockedError

    with contextlib.suppress(ValueError):  # a host that is allowed by its name
        address = ipaddress.IPv6Address(info["host"])  # langchain-core checks IPv4 addresses
        is_allowed = any(address in network for network in _ALLOWED_IPV6)
        if not is_allowed or any(address in tunnel for tunnel in _TUNNELS):
            raise SSRFBlockedError("private IP range")


async def _read(response: Any, url: str, declared: str | None, budget: _Budget) -> _File:
    if response.status_code != 200:
        raise MediaFetchError(
            f"{shown(url)} was not fetched: the server responded with status "
            f"{response.status_code}. Check the URL, or send the bytes."
        )
    if response.headers.get("content-encoding", "identity") != "identity":
        raise MediaFetchError(
            f"{shown(url)} was not fetched: the response is compressed, although no compression "
            "was requested. Send the bytes."
        )
    if (length := response.headers.get("content-length", "")).isdecimal():
        budget.check(int(length), url)
    pieces: list[bytes] = []
    async for piece in response.aiter_raw():
        budget.use(len(piece), url)
        pieces.append(piece)
    data = b"".join(pieces)
    return _File(data, _mime_type(response.headers.get("content-type", ""), declared, data, url))


def _mime_type(served: str, declared: str | None, data: bytes, url: str) -> str:
    """Return the type to send: the server's, if it is allowed and matches the block's."""
    found = sendable_type(served).partition(";")[0]
    if found in _UNKNOWN_TYPES:
        exact = declared if declared and not declared.endswith("*") else None
        found = type_of(data) or exact or ""
    expected = f"{declared.partition('/')[0]}/*" if declared else "*"
    if not found or not any(fnmatch(found, kind) for kind in _ALLOWED_TYPES):
        raise MediaFetchError(
            f"{shown(url)} was not fetched: its type is {found or 'unknown'}. Allowed types: "
            f"{', '.join(_ALLOWED_TYPES)}."
        )
    if not fnmatch(found, expected):
        raise MediaFetchError(
            f"{shown(url)} was not fetched: its type is {found}, but the block declares "
            f"{declared}. Correct the block's type."
        )
    return found


def _guarded_client(limits: FetchLimits) -> Any:
    """Return an HTTP client that rejects private addresses at every redirect."""
    from http.cookiejar import CookieJar, DefaultCookiePolicy

    import httpx

    try:
        from langchain_core._security import SSRFPolicy, ssrf_safe_async_client
    except ImportError:
        raise InvalidOptionError(
            "fetch_urls needs langchain-core's guard against requests to private networks, which "
            "this version does not have. Install langchain-core 1.6.10 to 1.7, or send the bytes."
        ) from None
    make_client: Callable[..., Any] = ssrf_safe_async_client
    policy = SSRFPolicy(
        allowed_schemes=frozenset({"http", "https"} if limits.allow_http else {"https"}),
        allowed_hosts=frozenset(limits.allow_hosts),
    )

    async def check(request: httpx.Request) -> None:
        await request.aread()  # langchain-core's guard copies the body, which a redirect leaves out
        if (request.url.port or 0) > _MAX_PORT:
            raise httpx.InvalidURL("The port does not exist.")
        is_allowed = request.url.host in limits.allow_hosts
        request.extensions = request.extensions | {
            "trace": None if is_allowed else _reject_local_ipv6
        }

    logging.getLogger("httpx").addFilter(_shorten_addresses)
    return make_client(
        policy,
        event_hooks={"request": [check]},
        max_redirects=limits.max_redirects,
        timeout=limits.timeout_seconds,
        trust_env=False,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),  # stores and sends none
    )
