"""`GeminiClient` sends a finished JSON body and returns the server's JSON, uninterpreted.

The SDK provides credentials, endpoints and headers. It neither builds nor parses a body: its typed
models would cost many times the CPU, and they drop fields that they do not know. `transport` shows
how the bodies get past it.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, NoReturn

from langchain_gemini_tools.client.failures import (
    MappingErrors,
    RedactingErrors,
    mapping_sdk_errors,
    redact_error,
    secrets_of,
)
from langchain_gemini_tools.client.responses import (
    Deadline,
    StreamReader,
    StreamTimer,
    aread_body,
    iterate_body,
    parse_operation,
    parse_response,
    read_body,
)
from langchain_gemini_tools.client.sdk import acquire_sdk
from langchain_gemini_tools.client.transport import PendingRequest
from langchain_gemini_tools.facts.credentials import redact_json, remember

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Iterator

    from langchain_gemini_tools.client.sdk import ClientSettings, OpenedSdk, SdkClient
    from langchain_gemini_tools.errors import ResponseError
    from langchain_gemini_tools.facts.credentials import PrivateHeaders
    from langchain_gemini_tools.facts.json_values import JsonObject


class GeminiClient:
    """Sends finished bodies to the API and returns the server's JSON.

    Making one is cheap: the first request loads the SDK and looks for credentials. Clients with
    equal settings share their connections within a process; child processes start without any.
    After `close`, the next request opens new connections.

    Raises (all methods that send):
        GeminiAPIError: The API rejected the request, failed, or was not reached in time.
        UnreadableResponseError: The response is not JSON.
        TruncatedStreamError: The stream ended inside an event.
        InvalidOptionError: The settings, or the name of the model, are not valid.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        remember(settings)
        self._opened: OpenedSdk | None = None
        self._has_share = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.settings!r})"

    def __reduce__(self) -> NoReturn:
        self.settings.__reduce__()

    def __copy__(self) -> GeminiClient:
        copied = type(self)(self.settings)
        copied._opened = self._opened  # noqa: SLF001 - of the same class
        return copied

    def __deepcopy__(self, memo: object) -> GeminiClient:
        return self.__copy__()

    @property
    def uses_vertexai(self) -> bool:
        """Whether requests go to Vertex AI rather than to the Gemini Developer API."""
        return bool(self.sdk.vertexai)

    @property
    def sdk(self) -> SdkClient:
        """The SDK's client. Its requests use the same settings and connections."""
        with MappingErrors(self.settings, None):
            return self._open().sdk

    def send(  # noqa: PLR0913 - keyword-only settings
        self,
        model: str,
        body: bytes,
        *,
        timeout_seconds: float | None,
        headers: PrivateHeaders | None = None,
        path: str | None = None,
        method: str = "POST",
    ) -> JsonObject:
        """POST `:generateContent` and return the response as the server wrote it.

        Args:
            model: The name of the model.
            body: The JSON of the request, which is sent unchanged.
            timeout_seconds: For the whole request.
            headers: Added to those of the settings, or replacing them.
            path: Where to POST instead, such as `interactions`, beside the collection of models.
            method: Another method of HTTP, for such a path.
        """
        with MappingErrors(self.settings, timeout_seconds):
            opened = self._open()  # before the deadline is set: loading the SDK does not count
            limit = Deadline(timeout_seconds)
            pending = PendingRequest(body, limit, headers=headers, path=path, method=method)
            response = opened.send(pending, model, is_stream=False)
            return parse_response(response, read_body(response, limit.end))

    def count_tokens(
        self,
        model: str,
        body: bytes,
        *,
        timeout_seconds: float | None,
        headers: PrivateHeaders | None = None,
    ) -> JsonObject:
        """POST `:countTokens`.

        The two backends expect different bodies: the Developer API
        `{"generateContentRequest": {"model": "models/…", …}}`, Vertex AI the fields themselves.
        """
        with MappingErrors(self.settings, timeout_seconds):
            opened = self._open()
            limit = Deadline(timeout_seconds)
            response = opened.count_tokens(PendingRequest(body, limit, headers=headers), model)
            return parse_response(response, read_body(response, limit.end))

    def stream(  # noqa: PLR0913 - keyword-only settings
        self,
        model: str,
        body: bytes,
        *,
        timeout_seconds: float | None,
        total_seconds: float | None = None,
        headers: PrivateHeaders | None = None,
        path: str | None = None,
        method: str = "POST",
    ) -> Generator[JsonObject]:
        """POST `:streamGenerateContent` and yield the responses as they arrive.

        The request is sent by the first `next`.

        Args:
            model: The name of the model.
            body: The JSON of the request, which is sent unchanged.
            timeout_seconds: For connecting, and for each wait between two events.
            total_seconds: For all waits together.
            headers: Added to those of the settings, or replacing them.
            path: Where to POST instead, such as `interactions`, beside the collection of models. It
                may have a query.
            method: Another method of HTTP, for such a path.
        """
        with MappingErrors(self.settings, timeout_seconds, total_seconds):
            opened = self._open()
            timer = StreamTimer(timeout_seconds, total_seconds)
            pending = PendingRequest(body, timer, headers=headers, path=path, method=method)
            response = opened.send(pending, model, is_stream=True)
            timer.response_started()
            try:
                reader = StreamReader(response, timer)
                for chunk in response.iter_bytes():
                    for text in reader.feed(chunk):
                        yield from reader.parse(text)
                    timer.start()
                yield from reader.finish()
            finally:
                response.close()

    async def asend(  # noqa: PLR0913 - keyword-only settings
        self,
        model: str,
        body: bytes,
        *,
        timeout_seconds: float | None,
        headers: PrivateHeaders | None = None,
        path: str | None = None,
        method: str = "POST",
    ) -> JsonObject:
        """Send as `send` does, on the running event loop."""
        with MappingErrors(self.settings, timeout_seconds):
            opened = await self._aopen()
            async with asyncio.timeout(timeout_seconds):
                limit = Deadline(timeout_seconds)
                pending = PendingRequest(body, limit, headers=headers, path=path, method=method)
                response = await opened.asend(pending, model, is_stream=False)
                return parse_response(response, await aread_body(response))

    async def astream(  # noqa: PLR0913 - keyword-only settings
        self,
        model: str,
        body: bytes,
        *,
        timeout_seconds: float | None,
        total_seconds: float | None = None,
        headers: PrivateHeaders | None = None,
        path: str | None = None,
        method: str = "POST",
    ) -> AsyncGenerator[JsonObject]:
        """Stream as `stream` does, on the running event loop."""
        with MappingErrors(self.settings, timeout_seconds, total_seconds):
            opened = await self._aopen()
            timer = StreamTimer(timeout_seconds, total_seconds)
            pending = PendingRequest(body, timer, headers=headers, path=path, method=method)
            async with asyncio.timeout(timer.seconds):
                response = await opened.asend(pending, model, is_stream=True)
            timer.response_started()
            try:
                reader = StreamReader(response, timer)
                async for chunk in response.aiter_bytes():
                    for text in reader.feed(chunk):
                        for event in reader.parse(text):
                            yield event
                    timer.start()
                for event in reader.finish():
                    yield event
            finally:
                await response.aclose()

    def call_sdk(
        self,
        call: Callable[[SdkClient], object],
        body: bytes | None = None,
        *,
        timeout_seconds: float | None,
        headers: PrivateHeaders | None = None,
    ) -> JsonObject:
        """Send the request that a method of the SDK writes, and return the server's JSON.

        The SDK's types drop counts and errors of batch jobs, so only its URL and headers are used.

        Args:
            call: Calls one method of the SDK's client.
            body: What is sent instead of the SDK's body; None for GET and DELETE.
            timeout_seconds: For the whole request.
            headers: Added to those of the settings, or replacing them.
        """
        with MappingErrors(self.settings, timeout_seconds):
            opened = self._open()
            limit = Deadline(timeout_seconds)
            with PendingRequest(body, limit, headers=headers) as pending:
                call(opened.sdk)
            return parse_operation(pending.response, read_body(pending.response, limit.end))

    def upload(self, path: str, *, display_name: str, mime_type: str) -> str:
        """Upload a file through the SDK, in pieces, and return its name at the API."""
        with MappingErrors(self.settings, self.settings.timeout_seconds):
            sdk = self._open().sdk
            with mapping_sdk_errors():
                uploaded = sdk.files.upload(
                    file=path, config={"display_name": display_name, "mime_type": mime_type}
                )
            return str(uploaded.name)

    def create_cache(self, model: str, config: Any) -> str:
        """Create a context cache through the SDK, and return its name."""
        with MappingErrors(self.settings, self.settings.timeout_seconds):
            sdk = self._open().sdk
            with mapping_sdk_errors():
                created = sdk.caches.create(model=model, config=config)
            return str(created.name)

    def download(
        self,
        name: str,
        *,
        timeout_seconds: float | None,
        headers: PrivateHeaders | None = None,
    ) -> Iterator[bytes]:
        """Download a file of the API, and yield it piece by piece.

        Args:
            name: `files/...`.
            timeout_seconds: For connecting, and for each wait between two pieces.
            headers: Added to those of the settings, or replacing them.
        """
        with MappingErrors(self.settings, timeout_seconds):
            opened = self._open()
            timer = StreamTimer(timeout_seconds, None)
            with PendingRequest(None, timer, headers=headers) as pending:
                opened.sdk.files.download(file=name)
            yield from iterate_body(pending.response, timer)

    def redacting_errors(self) -> RedactingErrors:
        """Return a context manager that redacts secrets in errors about a response."""
        return RedactingErrors(self.settings)

    def redact_error(self, error: ResponseError) -> None:
        """Redact secrets in an error about a response."""
        redact_error(error, self.settings)

    def redacted(self, value: JsonObject) -> JsonObject:
        """Return what the API says about a failure, without secrets."""
        shown: JsonObject = redact_json(value, secrets_of(self.settings))
        return shown

    def close(self) -> None:
        """Give up the share in the connections of the sync methods.

        The last one closes them. The next request opens new ones.
        """
        if opened := self._release():
            opened.pool.close()

    async def aclose(self) -> None:
        """Give up the share in all connections, in all event loops; the last one closes them."""
        if opened := self._release():
            await opened.pool.aclose()
            opened.pool.close()

    def _release(self) -> OpenedSdk | None:
        """Give up the share, and return what is left without one."""
        self._has_share = False
        opened = self._opened_here()
        return opened if opened and opened.release(self) else None

    def _opened_here(self) -> OpenedSdk | None:
        """Return what was opened, unless by the process that this one was forked from."""
        opened = self._opened
        return opened if opened and opened.pid == os.getpid() else None

    def _open(self) -> OpenedSdk:
        opened = self._opened_here()
        if opened is None:
            # Two threads may both get here: they get the same one.
            opened = self._opened = acquire_sdk(self.settings)
            self._has_share = False
        if not self._has_share:
            opened.hold(self)
            self._has_share = True
        return opened

    async def _aopen(self) -> OpenedSdk:
        # Loading the SDK reads files for up to a second: not on the event loop.
        if self._opened_here():
            return self._open()
        return await asyncio.to_thread(self._open)
