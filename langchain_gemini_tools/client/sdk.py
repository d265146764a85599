"""The SDK's client: built from `ClientSettings`, sending through our HTTP clients.

Equal settings share one SDK client and one connection pool within a process. Engines such as Ray
and Dask unpickle a model before each task. If every copy opened connections of its own, each call
would pay for a new connection, and with TLS for a handshake.
"""

from __future__ import annotations

import atexit
import os
import pickle
import time
import weakref
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from langchain_gemini_tools import __version__
from langchain_gemini_tools.client.failures import fake_has_stopped
from langchain_gemini_tools.client.pool import SYNC_ONLY, HttpPool
from langchain_gemini_tools.client.transport import make_sdk_clients
from langchain_gemini_tools.errors import (
    GeminiAuthenticationError,
    GeminiToolsError,
    InvalidOptionError,
)
from langchain_gemini_tools.facts.credentials import (
    CREDENTIALS_SECRETS,
    FAKE_KEY,
    FAKE_TOKEN,
    argument_secrets,
    private_values,
    redact,
)
from langchain_gemini_tools.facts.environment import (
    ACCOUNT_VARIABLE,
    BASE_URL_VARIABLES,
    GATEWAY_KEY_VARIABLES,
    GATEWAY_VARIABLE,
    KEY_VARIABLES,
    PROJECT_VARIABLES,
    VERTEX_VARIABLES,
    environment_gateway,
    environment_keys,
)
from langchain_gemini_tools.facts.http import check_headers, find_invalid_character
from langchain_gemini_tools.facts.locks import ForkSafeLock

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx  # its types also stand for those of httpx2
    from google import genai
    from pydantic import SecretStr

    from langchain_gemini_tools.client.transport import Envelope, PendingRequest
    from langchain_gemini_tools.facts.json_values import JsonObject

    SdkClient = genai.Client
    SdkAsyncClient = genai.client.AsyncClient
else:
    SdkClient = SdkAsyncClient = Any  # annotations are read at run time, without the SDK

IDLE_SECONDS = 60.0
"""How long a pool stays open after its last model began to use it and was dropped."""
MAX_IDLE_POOLS = 32

_PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_VARIABLES = (
    *BASE_URL_VARIABLES,
    *KEY_VARIABLES,
    *VERTEX_VARIABLES,
    *_PROXY_VARIABLES,
    *(name.lower() for name in _PROXY_VARIABLES),
    *PROJECT_VARIABLES,
    ACCOUNT_VARIABLE,
    "GOOGLE_GENAI_API_VERSION",
    "GOOGLE_GENAI_HTTP_CLIENT",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
)
"""What the SDK and the HTTP library read where the settings leave a value open."""


@dataclass(frozen=True, kw_only=True)
class ClientSettings:
    """Where the API is, and the credentials for it.

    None leaves a setting to the SDK, which reads the environment.
    """

    api_key: SecretStr | None = None
    vertexai: bool | None = None
    project: str | None = None
    location: str | None = None
    credentials: Any = field(default=None, repr=False)
    """Credentials of `google.auth`, for Vertex AI."""
    base_url: str | None = None
    api_version: str | None = None
    """By default `GOOGLE_GENAI_API_VERSION`, else `v1beta`, or `v1beta1` on Vertex AI."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    client_args: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Arguments of the HTTP clients: `verify`, `proxy`, `limits`, `transport` and so on."""
    async_client_args: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Added to `client_args`, whose `transport`, `mounts` and `event_hooks` are for sync only."""
    timeout_seconds: float | None = None
    """For a request made through the SDK's client, unless it sets a timeout."""

    @property
    def is_for_fake(self) -> bool:
        """Whether the credentials are the placeholders of `FakeGemini`."""
        key = self.api_key.get_secret_value() if self.api_key else None
        return key == FAKE_KEY or getattr(self.credentials, "token", None) == FAKE_TOKEN

    @property
    def has_http_objects(self) -> bool:
        """Whether the HTTP clients are given objects, such as a transport, that the user owns."""
        return bool(SYNC_ONLY & {*self.client_args, *self.async_client_args})

    @property
    def secrets(self) -> list[str]:
        """All credentials that the text of an error might quote."""
        key = self.api_key.get_secret_value() if self.api_key else None
        held = [getattr(self.credentials, name, None) for name in CREDENTIALS_SECRETS]
        values = [key, *held, *private_values(self.headers), *environment_keys()]
        for arguments in (self.client_args, self.async_client_args):
            values += argument_secrets(arguments)
        return [value for value in values if isinstance(value, str)]

    def __copy__(self) -> ClientSettings:
        return self

    def __deepcopy__(self, memo: object) -> ClientSettings:
        return self  # it is immutable, and credentials cannot be copied

    def __reduce__(self) -> NoReturn:
        raise pickle.PicklingError(
            "Client settings contain credentials and cannot be pickled. Pickle the model instead: "
            "it leaves its credentials out."
        )


@dataclass(eq=False)
class OpenedSdk:
    """The SDK's client, the HTTP clients that it sends through, and who has a share in them.

    With an API key, the SDK writes the same URL and headers for every request to a model, which
    costs as much as the rest of the request. So the first request keeps them. A token may expire,
    so with a token the SDK writes them every time.
    """

    sdk: SdkClient
    pool: HttpPool
    arguments: JsonObject
    """The arguments of the SDK's methods besides the model: objects of the SDK, made once."""
    _envelopes: dict[tuple[str, bool], Envelope] = field(default_factory=dict, repr=False)
    """By model, and whether it streams."""
    pid: int = field(default_factory=os.getpid)
    """The process that opened it. A process that is forked from it opens another."""
    acquired_at: float = 0.0
    _holders: weakref.WeakSet[object] = field(default_factory=weakref.WeakSet, repr=False)

    def hold(self, holder: object) -> None:
        """Take a share."""
        self._holders.add(holder)

    def release(self, holder: object) -> bool:
        """Give a share back, and return whether it was the last one."""
        self._holders.discard(holder)
        return not self._holders

    def send(self, pending: PendingRequest, model: str, *, is_stream: bool) -> httpx.Response:
        """Send a request to a model, and return the response, of which the head was read."""
        if envelope := self._envelopes.get((model, is_stream)):
            return pending.send(self.pool.sync_client(), envelope)
        with pending:
            if is_stream:
                for _ in self.sdk.models.generate_content_stream(model=model, **self.arguments):
                    pass
            else:
                self.sdk.models.generate_content(model=model, **self.arguments)
        return self._keep_envelope(pending, model, is_stream=is_stream)

    async def asend(
        self, pending: PendingRequest, model: str, *, is_stream: bool
    ) -> httpx.Response:
        """Send as `send` does, on the running event loop."""
        if envelope := self._envelopes.get((model, is_stream)):
            return await pending.asend(await self.pool.async_client(), envelope)
        models = self.sdk.aio.models
        with pending:
            if is_stream:
                async for _ in await models.generate_content_stream(model=model, **self.arguments):
                    pass
            else:
                await models.generate_content(model=model, **self.arguments)
        return self._keep_envelope(pending, model, is_stream=is_stream)

    def count_tokens(self, pending: PendingRequest, model: str) -> httpx.Response:
        """Send a request to a model's `:countTokens`, and return the response."""
        with pending:
            self.sdk.models.count_tokens(model=model, contents=self.arguments["contents"])
        return pending.response

    def _keep_envelope(
        self, pending: PendingRequest, model: str, *, is_stream: bool
    ) -> httpx.Response:
        envelope, response = pending.envelope, pending.response
        if envelope and envelope.is_reusable and response.status_code == 200:
            self._envelopes[model, is_stream] = envelope
        return response


def _open_sdk(settings: ClientSettings) -> OpenedSdk:
    """Load the SDK and build its client; nothing is sent."""
    _reject_invalid_characters(settings)
    if settings.is_for_fake and not (settings.base_url or _environment_base_url()):
        raise fake_has_stopped()
    pool = HttpPool(settings.client_args, settings.async_client_args, settings.base_url)
    version = settings.api_version
    if version is None:
        version = os.environ.get("GOOGLE_GENAI_API_VERSION") or "beta"
    try:
        if version != "beta":
            sdk = _make_sdk(settings, pool, version)
        else:
            sdk = _make_sdk(settings, pool, "v1beta1" if settings.vertexai else "v1beta")
            if sdk.vertexai and not settings.vertexai:  # chosen by the environment
                sdk = _make_sdk(settings, pool, "v1beta1")
    except ValueError as error:
        raise _explain_rejected_settings(settings, error) from None
    return OpenedSdk(sdk, pool, _arguments())


def _environment_base_url() -> str | None:
    return next(filter(None, map(os.environ.get, BASE_URL_VARIABLES)), None)


def _reject_invalid_characters(settings: ClientSettings) -> None:
    """Reject characters that copying leaves in keys: the HTTP library would quote the whole key."""
    try:
        check_headers(settings.headers)
    except ValueError as error:
        raise InvalidOptionError(str(error)) from None
    sent: dict[str, str] = {}
    if settings.api_key:
        key = settings.api_key.get_secret_value()
        names = (*KEY_VARIABLES, *GATEWAY_KEY_VARIABLES)
        found = next((name for name in names if os.environ.get(name, "").strip() == key), None)
        sent[found or "google_api_key (or api_key)"] = key
    elif not settings.vertexai:
        sent |= {name: os.environ.get(name, "") for name in KEY_VARIABLES}
    for name, value in sent.items():
        if reason := find_invalid_character(value):
            raise InvalidOptionError(f"{name} is not valid: {reason}. Copy it again.")


def _arguments() -> JsonObject:
    from google.genai import types

    # The SDK requires contents. They are empty, because our body replaces them.
    contents = types.Content.model_construct(role="user", parts=[])
    return {"contents": contents, "config": _single_request_config()}


def _single_request_config() -> Any:
    """Return a `types.GenerateContentConfig` for one request, without the SDK running tools."""
    from google.genai import types

    fields: JsonObject = {}
    if "automatic_continuation" in types.GenerateContentConfig.model_fields:
        fields["automatic_continuation"] = False
    # Not validated: validation makes Pydantic build classes that the first request does not need.
    off = types.AutomaticFunctionCallingConfig.model_construct(disable=True)
    return types.GenerateContentConfig.model_construct(automatic_function_calling=off, **fields)


def _make_sdk(settings: ClientSettings, pool: HttpPool, api_version: str) -> SdkClient:
    from google import genai

    sync_client, async_client = make_sdk_clients(pool, settings.timeout_seconds)
    options = genai.types.HttpOptions(
        base_url=settings.base_url,
        api_version=api_version,
        headers=_headers(settings),
        httpx_client=sync_client,
        httpx_async_client=async_client,
        # Used for websockets only. Without it, the SDK loads the certificates a second time.
        async_client_args={"ssl": pool.tls_context},
    )
    return genai.Client(
        vertexai=settings.vertexai,
        api_key=settings.api_key.get_secret_value() if settings.api_key else None,
        credentials=settings.credentials,
        project=settings.project,
        location=_location(settings),
        http_options=options,
    )


def _location(settings: ClientSettings) -> str | None:
    """Return the location, also where the SDK would not look for it.

    With an address that is not Google's, it ignores the location of the environment: the request
    has no path and no credentials. With a key and a project, it has no default and sends `None`.
    """
    if settings.location or not settings.project:
        return settings.location
    found = os.environ.get(PROJECT_VARIABLES[1])
    return found or ("global" if settings.api_key else None)


def _headers(settings: ClientSettings) -> dict[str, str]:
    # In lower case, as the SDK spells its own: it would send "User-Agent" beside "user-agent".
    given = {name.lower(): value for name, value in settings.headers.items()}
    ours = f"langchain-gemini-tools/{__version__}"
    names = ("user-agent", "x-goog-api-client")
    # The SDK puts its own name before ours. Other encodings could decompress to any size.
    return {**dict.fromkeys(names, ours), "accept-encoding": "gzip, deflate", **given}


def _explain_rejected_settings(settings: ClientSettings, error: ValueError) -> GeminiToolsError:
    has_key = settings.api_key or environment_keys()
    if has_key or settings.vertexai or settings.project or settings.credentials:
        return InvalidOptionError(redact(str(error), settings.secrets))
    if environment_gateway():
        return GeminiAuthenticationError(
            f"No API key was found. {GATEWAY_VARIABLE} is set, so requests go to the LangSmith "
            f"gateway. Set {' or '.join(GATEWAY_KEY_VARIABLES)}, or pass api_key."
        )
    return GeminiAuthenticationError(
        "No API key was found. Set GOOGLE_API_KEY (or GEMINI_API_KEY), or pass api_key. For Vertex "
        "AI, set GOOGLE_GENAI_USE_VERTEXAI=true, GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION, "
        "or pass vertexai=True, project and location."
    )


# One for all equal settings of a process.


@dataclass(frozen=True)
class _Place:
    """All that must be equal for two models to share connections."""

    settings: ClientSettings
    environment: tuple[str | None, ...]

    def __hash__(self) -> int:
        # Arguments of the HTTP clients may have no hash; they are compared.
        given = self.settings
        return hash((given.api_key, given.base_url, given.project, self.environment))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.settings!r})"  # the environment has keys


class _Registry:
    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._forget()

    def _forget(self) -> None:
        self._pid = os.getpid()
        self._open: weakref.WeakValueDictionary[_Place, OpenedSdk] = weakref.WeakValueDictionary()
        self._recent: OrderedDict[_Place, OpenedSdk] = OrderedDict()
        """Keeps pools open for the next model, while no model refers to them."""

    def acquire(self, settings: ClientSettings) -> OpenedSdk:
        place = _Place(settings, tuple(map(os.environ.get, _VARIABLES)))
        with self._lock:
            if self._pid != os.getpid():
                self._forget()  # after a fork: the connections belong to the parent process
            # Opened under the lock: an SDK client that is built twice and dropped closes its
            # connections, which may be in use by another thread.
            opened = self._open[place] = self._open.get(place) or _open_sdk(settings)
            opened.acquired_at = time.monotonic()
            if not settings.has_http_objects:
                self._recent[place] = opened
                self._recent.move_to_end(place)
            self._drop_idle(opened.acquired_at)
        return opened

    def _drop_idle(self, now: float) -> None:
        """Stop keeping pools that were not asked for lately; models may still refer to them."""
        while self._recent:
            oldest = next(iter(self._recent.values()))
            is_lately = now - oldest.acquired_at < IDLE_SECONDS
            if is_lately and len(self._recent) <= MAX_IDLE_POOLS:
                return
            self._recent.popitem(last=False)

    def close_all(self) -> None:
        """Close the connections of the threads at the exit of the interpreter."""
        if self._pid != os.getpid():
            return
        for opened in list(self._open.values()):
            with suppress(Exception):
                opened.pool.close()


_REGISTRY = _Registry()
atexit.register(_REGISTRY.close_all)


def acquire_sdk(settings: ClientSettings) -> OpenedSdk:
    """Return the SDK client of this process for these settings; the first use opens it."""
    return _REGISTRY.acquire(settings)
