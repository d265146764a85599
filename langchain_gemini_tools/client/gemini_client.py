"""The seam to google-genai: one JSON body in, the server's JSON bodies out, nothing interpreted.

The SDK provides credentials, endpoints and headers. It neither builds nor reads a body: its typed
models would cost many times the CPU, and they drop what they do not know. How the bodies get past
it is in `transport`; how a client of the user's own is used is in `borrowed`.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import threading
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools._version import __version__
from langchain_gemini_tools.client import borrowed
from langchain_gemini_tools.client.borrowed import PLACEHOLDER, generating_config
from langchain_gemini_tools.client.redaction import scrub, secrets_in
from langchain_gemini_tools.client.replies import parse_event, parse_reply, raise_api_error
from langchain_gemini_tools.client.sse import EventReader
from langchain_gemini_tools.client.transport import Call, HttpPool, map_transport_error
from langchain_gemini_tools.errors import (
    GeminiAuthenticationError,
    GeminiToolsError,
    InvalidOptionError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Iterator, Mapping

    from pydantic import SecretStr

    JsonObject = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ClientSettings:
    """Where the API is and who is calling. None leaves a choice to the SDK and its environment."""

    api_key: SecretStr | None = None
    vertexai: bool | None = None
    project: str | None = None
    location: str | None = None
    credentials: Any = field(default=None, repr=False)
    """Credentials of `google.auth`, for Vertex AI."""
    base_url: str | None = None
    api_version: str | None = None
    """`v1beta` or, on Vertex AI, `v1beta1`, unless set here or in `GOOGLE_GENAI_API_VERSION`."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    client_args: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """For the HTTP clients behind: `verify`, `proxy`, `limits`, `transport` and so on."""
    async_client_args: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Added to `client_args`, whose `transport`, `mounts` and `event_hooks` are for sync only."""
    sdk_client: Any = field(default=None, repr=False)
    """A `google.genai.Client` of the user's own; see `borrowed` for what that costs."""

    def __copy__(self) -> ClientSettings:
        return self

    def __deepcopy__(self, memo: object) -> ClientSettings:
        return self  # a value; credentials and clients inside cannot be doubled

    def __getstate__(self) -> JsonObject:
        if self.sdk_client is not None:
            raise pickle.PicklingError(
                "A google.genai.Client cannot be pickled. Give api_key, vertexai and so on "
                "instead of a client, or pass the client again after unpickling."
            )
        return dict(self.__dict__)


@dataclass(frozen=True)
class _Opened:
    """The SDK's client and what it sends through; made by the first call."""

    sdk: Any
    pool: HttpPool
    config: Any
    """A `types.GenerateContentConfig`, made once: the SDK parses a dictionary at each call."""

    def arguments(self, model: str) -> JsonObject:
        """What a generating method of the SDK is called with."""
        return {"model": model, "contents": PLACEHOLDER, "config": self.config}


class GeminiClient:
    """Sends finished bodies to the API and returns the server's JSON.

    Making one is cheap: the SDK is loaded, and credentials are looked for, by the first call.
    Copies and unpickled clients start without connections, and so does a child process. After
    `close`, the next call opens new ones.

    Raises (all methods that send):
        GeminiAPIError: The API refused or failed, or could not be reached in time.
        UnreadableReplyError: What came back is not JSON.
        TruncatedStreamError: The stream ended inside an event.
        InvalidOptionError: The settings, or the model's name, cannot work.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self._start_fresh()

    def _start_fresh(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._opened: _Opened | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.settings!r})"

    def __reduce__(self) -> tuple[type[GeminiClient], tuple[ClientSettings]]:
        return type(self), (self.settings,)

    def __deepcopy__(self, memo: object) -> GeminiClient:
        return type(self)(self.settings)

    @property
    def uses_vertexai(self) -> bool:
        """Whether calls go to Vertex AI rather than to the Gemini Developer API."""
        with self._our_errors(None):
            return bool((self.settings.sdk_client or self._open().sdk).vertexai)

    def send(self, model: str, body: bytes, *, timeout_seconds: float | None) -> JsonObject:
        """POST `:generateContent`: the reply, as the server wrote it.

        Args:
            model: The model's name.
            body: The request's JSON, which goes out as it is.
            timeout_seconds: For the whole call.
        """
        with self._our_errors(timeout_seconds):
            if theirs := self.settings.sdk_client:
                return borrowed.send(theirs, model, body, timeout_seconds)
            opened = self._open()
            with Call(body, timeout_seconds) as call:
                opened.sdk.models.generate_content(**opened.arguments(model))
            return parse_reply(call.kept_response, call.read())

    def count_tokens(self, model: str, body: bytes, *, timeout_seconds: float | None) -> JsonObject:
        """POST `:countTokens`.

        The two backends take different bodies: the Developer API
        `{"generateContentRequest": {"model": "models/…", …}}`, Vertex AI the fields themselves.
        """
        with self._our_errors(timeout_seconds):
            if theirs := self.settings.sdk_client:
                return borrowed.count_tokens(theirs, model, body, timeout_seconds)
            opened = self._open()
            with Call(body, timeout_seconds) as call:
                opened.sdk.models.count_tokens(model=model, contents=PLACEHOLDER)
            return parse_reply(call.kept_response, call.read())

    def stream(
        self, model: str, body: bytes, *, timeout_seconds: float | None
    ) -> Generator[JsonObject]:
        """POST `:streamGenerateContent`: the replies as they arrive; the first `next` sends.

        Args:
            model: The model's name.
            body: The request's JSON, which goes out as it is.
            timeout_seconds: For connecting and for each wait between two pieces.
        """
        with self._our_errors(timeout_seconds):
            if theirs := self.settings.sdk_client:
                yield from borrowed.stream(theirs, model, body, timeout_seconds)
                return
            opened = self._open()
            with Call(body, timeout_seconds, ends_at_deadline=False) as call:
                for _ in opened.sdk.models.generate_content_stream(**opened.arguments(model)):
                    pass
            response = call.kept_response
            try:
                if response.status_code != 200:
                    raise_api_error(response, response.read())
                reader = EventReader()
                for chunk in response.iter_bytes():
                    for text in reader.feed(chunk):
                        yield from parse_event(response, text)
                yield from parse_event(response, reader.finish(), is_last=True)
            finally:
                response.close()

    async def asend(self, model: str, body: bytes, *, timeout_seconds: float | None) -> JsonObject:
        """`send` for the running event loop."""
        with self._our_errors(timeout_seconds):
            if theirs := self.settings.sdk_client:
                return await borrowed.asend(theirs, model, body, timeout_seconds)
            opened = await self._aopen()
            async with asyncio.timeout(timeout_seconds):
                with Call(body, timeout_seconds) as call:
                    await opened.sdk.aio.models.generate_content(**opened.arguments(model))
                body = await call.aread()
            return parse_reply(call.kept_response, body)

    async def astream(
        self, model: str, body: bytes, *, timeout_seconds: float | None
    ) -> AsyncGenerator[JsonObject]:
        """`stream` for the running event loop."""
        with self._our_errors(timeout_seconds):
            if theirs := self.settings.sdk_client:
                async with aclosing(
                    borrowed.astream(theirs, model, body, timeout_seconds)
                ) as replies:
                    async for reply in replies:
                        yield reply
                return
            opened = await self._aopen()
            with Call(body, timeout_seconds, ends_at_deadline=False) as call:
                models = opened.sdk.aio.models
                async for _ in await models.generate_content_stream(**opened.arguments(model)):
                    pass
            response = call.kept_response
            try:
                if response.status_code != 200:
                    raise_api_error(response, await response.aread())
                reader = EventReader()
                async for chunk in response.aiter_bytes():
                    for text in reader.feed(chunk):
                        for reply in parse_event(response, text):
                            yield reply
                for reply in parse_event(response, reader.finish(), is_last=True):
                    yield reply
            finally:
                await response.aclose()

    def close(self) -> None:
        """Close the connections of the sync methods. The next call opens new ones."""
        if opened := self._opened_here():
            opened.pool.close()

    async def aclose(self) -> None:
        """Close the connections of the async methods, in whichever loops they are, and the sync."""
        if opened := self._opened_here():
            await opened.pool.aclose()
            opened.pool.close()

    def _opened_here(self) -> _Opened | None:
        if self._pid != os.getpid():
            self._start_fresh()  # after a fork: the parent's sockets are not ours to use
        return self._opened

    def _open(self) -> _Opened:
        if opened := self._opened_here():
            return opened
        with self._lock:
            # Twice built would be worse than slow: a client of the SDK that is thrown away closes
            # what it holds, under a request of another thread.
            if self._opened is None:
                self._opened = _build(self.settings)
            return self._opened

    async def _aopen(self) -> _Opened:
        # Loading the SDK reads files for up to a second: never on the event loop.
        if opened := self._opened_here():
            return opened
        return await asyncio.to_thread(self._open)

    @contextmanager
    def _our_errors(self, timeout_seconds: float | None) -> Iterator[None]:
        try:
            yield
        except GeminiToolsError:
            raise
        except Exception as error:
            secrets = _secrets(self.settings)
            shown = scrub(str(error), secrets)
            ours = map_transport_error(error, shown, timeout_seconds)
            if ours is None and isinstance(error, ValueError):
                # The SDK's word for arguments it does not take, such as a model called "a?b".
                ours = InvalidOptionError(shown)
            if ours is None:
                raise
            # A traceback prints the cause too: an illegal header, for one, is quoted in its text.
            quotes = shown != str(error) or isinstance(error, UnicodeError)
            raise ours from (None if quotes else error)


def _build(settings: ClientSettings) -> _Opened:
    pool = HttpPool(settings.client_args, settings.async_client_args)
    version = settings.api_version or os.environ.get("GOOGLE_GENAI_API_VERSION") or "beta"
    try:
        if version != "beta":
            sdk = _sdk_client(settings, pool, version)
        else:
            sdk = _sdk_client(settings, pool, "v1beta1" if settings.vertexai else "v1beta")
            if sdk.vertexai and not settings.vertexai:  # the environment decided
                sdk = _sdk_client(settings, pool, "v1beta1")
    except ValueError as error:
        raise _explain_refused_settings(settings, error) from None
    return _Opened(sdk, pool, generating_config())


def _sdk_client(settings: ClientSettings, pool: HttpPool, api_version: str) -> Any:
    from google import genai

    sync_client, async_client = pool.stand_ins()
    options = genai.types.HttpOptions(
        base_url=settings.base_url,
        api_version=api_version,
        headers=_headers(settings),
        httpx_client=sync_client,
        httpx_async_client=async_client,
        # Read for websockets only, which we never open; without it the SDK loads the certificates
        # once more.
        async_client_args={"ssl": pool.tls_context},
    )
    return genai.Client(
        vertexai=settings.vertexai,
        api_key=settings.api_key.get_secret_value() if settings.api_key else None,
        credentials=settings.credentials,
        project=settings.project,
        location=settings.location,
        http_options=options,
    )


def _headers(settings: ClientSettings) -> dict[str, str]:
    given = {name.lower() for name in settings.headers}
    ours = f"langchain-gemini-tools/{__version__}"
    names = [name for name in ("user-agent", "x-goog-api-client") if name not in given]
    return {**dict.fromkeys(names, ours), **settings.headers}  # the SDK puts itself before ours


def _explain_refused_settings(settings: ClientSettings, error: ValueError) -> GeminiToolsError:
    found = [settings.api_key, *map(os.environ.get, _KEY_VARIABLES)]
    if any(found) or settings.vertexai or settings.project or settings.credentials:
        return InvalidOptionError(scrub(str(error), _secrets(settings)))
    return GeminiAuthenticationError(
        "There is no API key. Set GOOGLE_API_KEY (or GEMINI_API_KEY), or pass api_key. For Vertex "
        "AI set GOOGLE_GENAI_USE_VERTEXAI=true, GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION, or "
        "pass vertexai=True, project and location."
    )


_KEY_VARIABLES = ("GOOGLE_API_KEY", "GEMINI_API_KEY")


def _secrets(settings: ClientSettings) -> list[str]:
    """Every credential that an error's text might quote."""
    key = settings.api_key.get_secret_value() if settings.api_key else None
    token = getattr(settings.credentials, "token", None)
    values = [key, token, *secrets_in(settings.headers), *map(os.environ.get, _KEY_VARIABLES)]
    return [value for value in values if isinstance(value, str)]
