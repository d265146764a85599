"""`GeminiClient` sends a finished JSON body and returns the server's JSON, uninterpreted.

The SDK provides credentials, endpoints and headers. It neither builds nor parses a body: its typed
models would cost many times the CPU, and they drop fields that they do not know. `transport` shows
how the bodies get past it.
"""

from __future__ import annotations

import asyncio
import traceback
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, NoReturn

from langchain_gemini_tools.client.responses import (
    StreamTimer,
    aread_stream,
    iterate_body,
    parse_operation,
    parse_response,
    read_stream,
)
from langchain_gemini_tools.client.sdk import fake_has_stopped, mapping_sdk_errors
from langchain_gemini_tools.client.sharing import acquire_sdk
from langchain_gemini_tools.client.transport import (
    PendingRequest,
    is_refused_connection,
    map_transport_error,
)
from langchain_gemini_tools.errors import GeminiToolsError, InvalidOptionError, ResponseError
from langchain_gemini_tools.facts.credentials import redact, redact_json, remember, secrets_in_use

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Collection, Generator, Iterator

    from langchain_gemini_tools.client.sdk import ClientSettings, OpenedSdk, SdkClient
    from langchain_gemini_tools.client.sharing import SharedSdk
    from langchain_gemini_tools.facts.credentials import PrivateHeaders

    JsonObject = dict[str, Any]


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
        self._shared: SharedSdk | None = None
        self._has_share = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.settings!r})"

    def __reduce__(self) -> NoReturn:
        self.settings.__reduce__()

    def __copy__(self) -> GeminiClient:
        copied = type(self)(self.settings)
        copied._shared = self._shared  # noqa: SLF001 - of the same class
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
        with self._mapping_errors(None):
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
        with self._mapping_errors(timeout_seconds):
            opened = self._open()  # before the deadline is set: loading the SDK does not count
            pending = PendingRequest(
                body, timeout_seconds, headers=headers, path=path, method=method
            )
            opened.send(pending, model, is_stream=False)
            return parse_response(pending.response, pending.read())

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
        with self._mapping_errors(timeout_seconds):
            opened = self._open()
            pending = PendingRequest(body, timeout_seconds, headers=headers)
            opened.count_tokens(pending, model)
            return parse_response(pending.response, pending.read())

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
        with self._mapping_errors(timeout_seconds, total_seconds):
            opened = self._open()
            timer = StreamTimer(timeout_seconds, total_seconds)
            pending = PendingRequest(
                body, timeout_seconds, timer=timer, headers=headers, path=path, method=method
            )
            opened.send(pending, model, is_stream=True)
            timer.response_started()
            yield from read_stream(pending.response, timer)

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
        with self._mapping_errors(timeout_seconds):
            opened = await self._aopen()
            async with asyncio.timeout(timeout_seconds):
                pending = PendingRequest(
                    body, timeout_seconds, headers=headers, path=path, method=method
                )
                await opened.asend(pending, model, is_stream=False)
                return parse_response(pending.response, await pending.aread())

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
        with self._mapping_errors(timeout_seconds, total_seconds):
            opened = await self._aopen()
            timer = StreamTimer(timeout_seconds, total_seconds)
            pending = PendingRequest(
                body, timeout_seconds, timer=timer, headers=headers, path=path, method=method
            )
            async with asyncio.timeout(timer.shorter_seconds):
                await opened.asend(pending, model, is_stream=True)
            timer.response_started()
            async with aclosing(aread_stream(pending.response, timer)) as responses:
                async for response in responses:
                    yield response

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
        with self._mapping_errors(timeout_seconds):
            opened = self._open()
            pending = PendingRequest(body, timeout_seconds, headers=headers)
            with pending:
                call(opened.sdk)
            return parse_operation(pending.response, pending.read())

    def upload(self, path: str, *, display_name: str, mime_type: str) -> str:
        """Upload a file through the SDK, in pieces, and return its name at the API."""
        with self._mapping_errors(self.settings.timeout_seconds):
            sdk = self._open().sdk
            with mapping_sdk_errors():
                uploaded = sdk.files.upload(
                    file=path, config={"display_name": display_name, "mime_type": mime_type}
                )
            return str(uploaded.name)

    def create_cache(self, model: str, config: Any) -> str:
        """Create a context cache through the SDK, and return its name."""
        with self._mapping_errors(self.settings.timeout_seconds):
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
        with self._mapping_errors(timeout_seconds):
            opened = self._open()
            timer = StreamTimer(timeout_seconds, None)
            pending = PendingRequest(None, timeout_seconds, timer=timer, headers=headers)
            with pending:
                opened.sdk.files.download(file=name)
            yield from iterate_body(pending.response, timer)

    def redacting_errors(self) -> RedactingErrors:
        """Return a context manager that redacts secrets in errors about a response."""
        return RedactingErrors(self.settings)

    def redacted(self, value: JsonObject) -> JsonObject:
        """Return what the API says about a failure, without secrets."""
        shown: JsonObject = redact_json(value, _secrets(self.settings))
        return shown

    def close(self) -> None:
        """Give up the share in the connections of the sync methods.

        The last one closes them. The next request opens new ones.
        """
        if shared := self._release():
            shared.opened.pool.close()

    async def aclose(self) -> None:
        """Give up the share in all connections, in all event loops; the last one closes them."""
        if shared := self._release():
            await shared.opened.pool.aclose()
            shared.opened.pool.close()

    def _release(self) -> SharedSdk | None:
        """Give up the share, and return what is left without one."""
        self._has_share = False
        shared = self._opened_here()
        return shared if shared and shared.release(self) else None

    def _opened_here(self) -> SharedSdk | None:
        shared = self._shared
        return shared if shared and shared.is_of_this_process else None

    def _open(self) -> OpenedSdk:
        shared = self._opened_here()
        if shared is None:
            # Two threads may both get here: they get the same one.
            shared = self._shared = acquire_sdk(self.settings)
            self._has_share = False
        if not self._has_share:
            shared.hold(self)
            self._has_share = True
        return shared.opened

    async def _aopen(self) -> OpenedSdk:
        # Loading the SDK reads files for up to a second: not on the event loop.
        if self._opened_here():
            return self._open()
        return await asyncio.to_thread(self._open)

    def _mapping_errors(
        self, timeout_seconds: float | None, total_seconds: float | None = None
    ) -> _MappingErrors:
        return _MappingErrors(self.settings, timeout_seconds, total_seconds)


class RedactingErrors:
    """Redacts an error about a response, and drops the frames that contain the response."""

    # A class, because a generator would add frames again.

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, frames: object) -> None:
        if isinstance(error, ResponseError):
            _redact_error(error, _secrets(self._settings))
            _drop_frames(error)


def _secrets(settings: ClientSettings) -> list[str]:
    """Return all credentials that an error may quote, those of the call's own headers included."""
    return list(dict.fromkeys([*settings.secrets, *secrets_in_use()]))


def _redact_error(error: ResponseError, secrets: Collection[str]) -> None:
    """Redact everything that an error shows, except for the content of its `partial` message."""
    error.args = tuple(redact_json([*error.args], secrets))
    partial = error.partial
    shown = {name: value for name, value in vars(error).items() if name != "partial"}
    vars(error).update(redact_json(shown, secrets))
    if partial is not None:
        partial.response_metadata = redact_json(partial.response_metadata, secrets)


class _MappingErrors:
    """Maps errors inside the block to ours, and drops the frames that they came through.

    The frames' locals are headers and bodies, some with the API key, and tracebacks may show them.
    """

    def __init__(self, settings: ClientSettings, *limits: float | None) -> None:
        self._settings = settings
        self._limits = limits

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, frames: object) -> None:
        if error is None:
            return
        ours = self._map(error)
        _drop_frames(error)
        if ours is None:
            return
        try:
            raise ours
        finally:
            # Otherwise the original error stays in the context and in this frame.
            ours.__context__ = None
            del error, frames, ours

    def _map(self, error: BaseException) -> GeminiToolsError | None:
        """Return our error to raise instead; None if the original error is raised."""
        if not isinstance(error, Exception) or isinstance(error, GeminiToolsError):
            return None  # a cancellation or an interrupt, or already one of ours
        text = redact(str(error), _secrets(self._settings))
        ours = map_transport_error(error, text, *self._limits)
        if self._settings.is_for_fake and is_refused_connection(error):
            ours = fake_has_stopped()
        if ours is None and isinstance(error, ValueError):
            # The SDK raises it for arguments that it rejects, such as a model named "a?b".
            ours = InvalidOptionError(text)
        if ours is not None:
            # Tracebacks print the cause as well, and some causes quote an illegal header.
            ours.__cause__ = None if self._is_quoted_in(error) else error
        elif not getattr(error, "explains_itself", False):  # as errors of cassettes do
            # Unexpected: keep where it came from as text, which shows no locals.
            error.add_note("".join(["Raised at:\n", *traceback.format_tb(error.__traceback__)]))
        return ours

    def _is_quoted_in(self, error: BaseException) -> bool:
        """Whether the text of the error, or of an error in its chain, contains a secret."""
        secrets = _secrets(self._settings)
        texts = [(link, str(link)) for link in _chain(error)]
        return any(
            isinstance(link, UnicodeError) or redact(text, secrets) != text for link, text in texts
        )


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, its cause or context, the cause of that, and so on."""
    link: BaseException | None = error
    seen: set[int] = set()
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__


def _drop_frames(error: BaseException) -> None:
    """Drop the tracebacks of the error and its chain, and contexts that are not shown."""
    for link in _chain(error):
        link.__traceback__ = None
        if link.__suppress_context__:
            link.__context__ = None  # it may contain the whole body that is not JSON
