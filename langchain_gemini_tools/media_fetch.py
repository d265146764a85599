"""Download media that messages refer to by URL, before the request is rendered (`fetch_urls`).

`FetchLimits` sets what may be downloaded. URLs come from the conversation and are not trusted:
every URL, and every redirect, is checked by langchain-core's guard against requests to private
networks, which also connects only to the address that it checked. The model's API key, cookies and
proxy are not used.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage, SystemMessage

from langchain_gemini_tools.errors import InvalidOptionError, MediaFetchError
from langchain_gemini_tools.wire.invocation import FetchLimits
from langchain_gemini_tools.wire.media import declared_type, type_of, url_to_fetch, with_bytes
from langchain_gemini_tools.wire.media import redacted_url as shown

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence

    Block = str | dict[str, Any]

__all__ = ["FetchLimits"]

_IMAGES = ("png", "jpeg", "webp", "heic", "heif", "gif", "bmp", "avif")
_ALLOWED_TYPES = (
    *(f"image/{name}" for name in _IMAGES),
    "audio/*",
    "video/*",
    "text/*",
    "application/pdf",
)
_UNKNOWN_TYPES = {"", "application/octet-stream", "binary/octet-stream"}
_CACHED_SECONDS = 300.0


@dataclass(frozen=True)
class _File:
    data: bytes
    mime_type: str
    fetched_at: float = 0.0


class FetchedMedia:
    """A cache of recent files: an agent sends the same messages again at every step."""

    def __init__(self) -> None:
        self._files: OrderedDict[tuple[str, str | None, FetchLimits], _File] = OrderedDict()
        self._lock = threading.Lock()

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
        MediaFetchError: A file was not fetched.
    """
    if not (urls := _urls_to_fetch(messages)):
        return messages
    # In another thread, because a loop may be running in this one.
    with ThreadPoolExecutor(1) as thread:
        files = thread.submit(lambda: _run(_fetch_all(urls, limits, cache))).result()
    return _with_files(messages, files)


def _run(fetching: Coroutine[Any, Any, dict[str, _File]]) -> dict[str, _File]:
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


_DeclaredTypes = dict[str, str | None]
"""URL -> the MIME type that its block declares."""


def _urls_to_fetch(messages: Sequence[BaseMessage]) -> _DeclaredTypes:
    return {
        url: declared_type(block)
        for message in messages
        if not isinstance(message, SystemMessage) and isinstance(message.content, list)
        for block in _blocks(message.content)
        if (url := url_to_fetch(block))
    }


def _blocks(content: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Yield all blocks, also those inside Anthropic's tool results and LangChain's wrappers."""
    for block in content:
        if isinstance(block, dict):
            yield block
            yield from _blocks(_inside(block))


def _inside(block: Mapping[str, Any]) -> list[Any]:
    inner = block.get("content") if block.get("type") == "tool_result" else None
    if block.get("type") == "non_standard":
        inner = [block.get("value")]
    return inner if isinstance(inner, list) else []


def _with_files(messages: Sequence[BaseMessage], files: Mapping[str, _File]) -> list[BaseMessage]:
    def replace_block(block: Any) -> Any:
        if not isinstance(block, dict):
            return block
        if (url := url_to_fetch(block)) and url in files:
            return with_bytes(block, files[url].data, files[url].mime_type)
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


async def _fetch_all(
    urls: _DeclaredTypes, limits: FetchLimits, cache: FetchedMedia
) -> dict[str, _File]:
    files = {
        url: file for url, declared in urls.items() if (file := cache.find(url, declared, limits))
    }
    missing = {url: declared for url, declared in urls.items() if url not in files}
    budget = _Budget(limits.max_bytes, sum(len(file.data) for file in files.values()))
    if missing:
        # In a thread, because making a client reads certificates from files.
        client = await asyncio.to_thread(_guarded_client, limits)
        try:
            async with asyncio.timeout(limits.timeout_seconds), asyncio.TaskGroup() as group:
                tasks = {
                    url: group.create_task(_fetch(client, url, declared, budget))
                    for url, declared in missing.items()
                }
        except TimeoutError:
            names = ", ".join(map(shown, missing))
            verb = "was" if len(missing) == 1 else "were"
            raise MediaFetchError(
                f"{names} {verb} not fetched within {limits.timeout_seconds:g} s. "
                "Increase FetchLimits.timeout_seconds, or send the bytes."
            ) from None
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        finally:
            await client.aclose()
        for url, task in tasks.items():
            files[url] = task.result()
            cache.keep(url, missing[url], limits, files[url])
    return files


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
    found = served.partition(";")[0].strip().lower().replace("image/jpg", "image/jpeg")
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
    return make_client(
        policy, max_redirects=limits.max_redirects, timeout=limits.timeout_seconds, trust_env=False
    )
