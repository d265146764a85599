"""`GeminiClient`: one JSON body in, the server's JSON bodies out, nothing interpreted.

The SDK provides credentials, endpoints and headers. It neither builds nor reads a body: its typed
models would cost many times the CPU, and they drop what they do not know. How the bodies get past
it is in `transport`.
"""

from __future__ import annotations

import asyncio
import os
import threading
import traceback
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, NoReturn

from langchain_gemini_tools.client.limits import Patience
from langchain_gemini_tools.client.replies import aread_events, parse_reply, read_events
from langchain_gemini_tools.client.sdk import open_sdk
from langchain_gemini_tools.client.transport import Call, map_transport_error, shorter
from langchain_gemini_tools.errors import GeminiToolsError, InvalidOptionError, ResponseError
from langchain_gemini_tools.facts.credentials import redact, redact_json

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection, Generator, Iterator

    from langchain_gemini_tools.client.sdk import OpenedSdk, SdkClient
    from langchain_gemini_tools.client.settings import ClientSettings

    JsonObject = dict[str, Any]


class GeminiClient:
    """Sends finished bodies to the API and returns the server's JSON.

    Making one is cheap: the SDK is loaded, and credentials are looked for, by the first call.
    Copies start without connections, and so does a child process. After `close`, the next call
    opens new ones.

    Raises (all methods that send):
        GeminiAPIError: The API refused or failed, or could not be reached in time.
        UnreadableResponseError: What came back is not JSON.
        TruncatedStreamError: The stream ended inside an event.
        InvalidOptionError: The settings, or the model's name, cannot work.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self._start_fresh()

    def _start_fresh(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._opened: OpenedSdk | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.settings!r})"

    def __reduce__(self) -> NoReturn:
        self.settings.__reduce__()

    def __copy__(self) -> GeminiClient:
        return type(self)(self.settings)

    def __deepcopy__(self, memo: object) -> GeminiClient:
        return type(self)(self.settings)

    @property
    def uses_vertexai(self) -> bool:
        """Whether calls go to Vertex AI rather than to the Gemini Developer API."""
        return bool(self.sdk.vertexai)

    @property
    def sdk(self) -> SdkClient:
        """The SDK's client: what is sent through it uses the same settings and connections."""
        with self._our_errors(None):
            return self._open().sdk

    def send(self, model: str, body: bytes, *, timeout_seconds: float | None) -> JsonObject:
        """POST `:generateContent`: the reply, as the server wrote it.

        Args:
            model: The model's name.
            body: The request's JSON, which goes out as it is.
            timeout_seconds: For the whole call.
        """
        with self._our_errors(timeout_seconds):
            opened = self._open()  # before the clock starts: loading the SDK is not the API's time
            call = Call(body, timeout_seconds)
            opened.send(call, model, is_stream=False)
            return parse_reply(call.kept_response, call.read())

    def count_tokens(self, model: str, body: bytes, *, timeout_seconds: float | None) -> JsonObject:
        """POST `:countTokens`.

        The two backends take different bodies: the Developer API
        `{"generateContentRequest": {"model": "models/…", …}}`, Vertex AI the fields themselves.
        """
        with self._our_errors(timeout_seconds):
            opened = self._open()
            call = Call(body, timeout_seconds)
            opened.count_tokens(call, model)
            return parse_reply(call.kept_response, call.read())

    def stream(
        self,
        model: str,
        body: bytes,
        *,
        timeout_seconds: float | None,
        total_seconds: float | None = None,
    ) -> Generator[JsonObject]:
        """POST `:streamGenerateContent`: the replies as they arrive; the first `next` sends.

        Args:
            model: The model's name.
            body: The request's JSON, which goes out as it is.
            timeout_seconds: For connecting and for each wait between two events.
            total_seconds: For all waits together.
        """
        with self._our_errors(timeout_seconds, total_seconds):
            opened = self._open()
            call = Call(body, timeout_seconds, is_stream=True, total_seconds=total_seconds)
            patience = Patience(timeout_seconds, total_seconds)
            opened.send(call, model, is_stream=True)
            patience.answer_came()
            yield from read_events(call.kept_response, patience)

    async def asend(self, model: str, body: bytes, *, timeout_seconds: float | None) -> JsonObject:
        """`send` for the running event loop."""
        with self._our_errors(timeout_seconds):
            opened = await self._aopen()
            async with asyncio.timeout(timeout_seconds):
                call = Call(body, timeout_seconds)
                await opened.asend(call, model, is_stream=False)
                return parse_reply(call.kept_response, await call.aread())

    async def astream(
        self,
        model: str,
        body: bytes,
        *,
        timeout_seconds: float | None,
        total_seconds: float | None = None,
    ) -> AsyncGenerator[JsonObject]:
        """`stream` for the running event loop."""
        with self._our_errors(timeout_seconds, total_seconds):
            opened = await self._aopen()
            call = Call(body, timeout_seconds, is_stream=True, total_seconds=total_seconds)
            patience = Patience(timeout_seconds, total_seconds)
            async with asyncio.timeout(shorter(timeout_seconds, total_seconds)):
                await opened.asend(call, model, is_stream=True)
            patience.answer_came()
            async with aclosing(aread_events(call.kept_response, patience)) as replies:
                async for reply in replies:
                    yield reply

    def hiding_secrets(self) -> HidingSecrets:
        """`with` it, an error about a reply shows no secret of ours that the server quoted."""
        return HidingSecrets(self.settings)

    def close(self) -> None:
        """Close the connections of the sync methods. The next call opens new ones."""
        if opened := self._opened_here():
            opened.pool.close()

    async def aclose(self) -> None:
        """Close the connections of the async methods, in whichever loops they are, and the sync."""
        if opened := self._opened_here():
            await opened.pool.aclose()
            opened.pool.close()

    def _opened_here(self) -> OpenedSdk | None:
        if self._pid != os.getpid():
            self._start_fresh()  # after a fork: the parent's sockets are not ours to use
        return self._opened

    def _open(self) -> OpenedSdk:
        if opened := self._opened_here():
            return opened
        with self._lock:
            # Twice built would be worse than slow: a client of the SDK that is thrown away closes
            # what it holds, under a request of another thread.
            if self._opened is None:
                self._opened = open_sdk(self.settings)
            return self._opened

    async def _aopen(self) -> OpenedSdk:
        # Loading the SDK reads files for up to a second: never on the event loop.
        if opened := self._opened_here():
            return opened
        return await asyncio.to_thread(self._open)

    def _our_errors(
        self, timeout_seconds: float | None, total_seconds: float | None = None
    ) -> _OurErrors:
        return _OurErrors(self.settings, timeout_seconds, total_seconds)


class HidingSecrets:
    """Takes secrets out of an error about a reply, and the frames that hold the reply."""

    # Not a generator: that would put the frames back.

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, frames: object) -> None:
        if isinstance(error, ResponseError):
            _redact_error(error, self._settings.secrets)
            _without_frames(error)


def _redact_error(error: ResponseError, secrets: Collection[str]) -> None:
    """Redact everything that an error shows, except for the message on its `partial`."""
    error.args = tuple(redact_json([*error.args], secrets))
    partial = error.partial
    shown = {name: value for name, value in vars(error).items() if name != "partial"}
    vars(error).update(redact_json(shown, secrets))
    if partial is not None:  # beside the message there is what the API says about it
        partial.response_metadata = redact_json(partial.response_metadata, secrets)


class _OurErrors:
    """Turns what fails inside into an error of ours, without the frames that it came through.

    Their locals are headers and bodies, some with the key in it, and a traceback may show locals.
    """

    def __init__(self, settings: ClientSettings, *limits: float | None) -> None:
        self._settings = settings
        self._limits = limits

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, frames: object) -> None:
        if error is None:
            return
        ours = self._explain(error)
        _without_frames(error)
        if ours is None:
            return
        try:
            raise ours
        finally:
            # What was caught here would stay beside it, in its context and in this frame.
            ours.__context__ = None
            del error, frames, ours

    def _explain(self, error: BaseException) -> GeminiToolsError | None:
        """The error of ours to raise in its place; None where it goes on as it is."""
        if not isinstance(error, Exception) or isinstance(error, GeminiToolsError):
            return None  # cancelled or interrupted, or one of ours already
        shown = redact(str(error), self._settings.secrets)
        ours = map_transport_error(error, shown, *self._limits)
        if ours is None and isinstance(error, ValueError):
            # The SDK's word for arguments it does not take, such as a model called "a?b".
            ours = InvalidOptionError(shown)
        if ours is not None:
            # A traceback prints the cause too: an illegal header, for one, is quoted in its text.
            ours.__cause__ = None if self._is_quoted_by(error) else error
        elif not getattr(error, "explains_itself", False):  # as those of recorded cassettes do
            # Nobody foresaw it, so it is told where it was: in words, which show no locals.
            error.add_note("".join(["It came from:\n", *traceback.format_tb(error.__traceback__)]))
        return ours

    def _is_quoted_by(self, error: BaseException) -> bool:
        """Whether a text of the error, or of what it came from, has a secret of ours in it."""
        secrets = self._settings.secrets
        texts = [(link, str(link)) for link in _chain(error)]
        return any(
            isinstance(link, UnicodeError) or redact(text, secrets) != text for link, text in texts
        )


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, and what it came from."""
    link: BaseException | None = error
    seen: set[int] = set()
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__


def _without_frames(error: BaseException) -> None:
    """Leave of the error, and of what it came from, the messages alone."""
    for link in _chain(error):
        link.__traceback__ = None
        if link.__suppress_context__:
            link.__context__ = None  # not shown, but there: such as the whole body that is no JSON
