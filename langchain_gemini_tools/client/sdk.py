"""The SDK's client: built from `ClientSettings`, sending through our HTTP clients."""

from __future__ import annotations

import os
import pickle
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from langchain_gemini_tools import __version__
from langchain_gemini_tools.client.pool import SYNC_ONLY, HttpPool
from langchain_gemini_tools.client.transport import make_sdk_clients
from langchain_gemini_tools.errors import (
    GeminiAuthenticationError,
    GeminiToolsError,
    InvalidOptionError,
    map_api_error,
)
from langchain_gemini_tools.facts.credentials import (
    BASE_URL_VARIABLES,
    FAKE_KEY,
    FAKE_TOKEN,
    KEY_VARIABLES,
    environment_keys,
    private_values,
    redact,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from google import genai
    from pydantic import SecretStr

    from langchain_gemini_tools.client.transport import Envelope, PendingRequest

    JsonObject = dict[str, Any]
    SdkClient = genai.Client
    SdkAsyncClient = genai.client.AsyncClient
else:
    SdkClient = SdkAsyncClient = Any  # annotations are read at run time, without the SDK

_NOT_IN_A_HEADER = re.compile(r"[^\t -~]|^\s|\s\Z")


def find_invalid_character(value: str) -> str | None:
    """Describe the first character that a header cannot contain, without showing the value."""
    if not (found := _NOT_IN_A_HEADER.search(value)):
        return None
    from unicodedata import name

    character = f"U+{ord(found[0]):04X}, {name(found[0], 'a control character')}"
    return f"character {found.start() + 1} of {len(value)} is {character}, which cannot be sent"


_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADERS_OF_HTTP = frozenset(
    {
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that describe the body and the connection. With other values the request would break."""


def check_headers(headers: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """Return headers that can be sent; the message of the error has no values.

    Raises:
        ValueError: A header cannot be sent, or it is not for users to set.
    """
    for name, value in (headers or {}).items():
        if not _HEADER_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a valid name of a header.")
        if name.lower() in _HEADERS_OF_HTTP:
            raise ValueError(f"The header {name!r} is set for each request. Leave it out.")
        if reason := find_invalid_character(value):
            raise ValueError(f"The header {name!r} is not valid: {reason}. Copy it again.")
    return headers


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
        token = getattr(self.credentials, "token", None)
        values = [key, token, *private_values(self.headers), *environment_keys()]
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


@dataclass(frozen=True)
class OpenedSdk:
    """The SDK's client and the HTTP clients that it sends through.

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

    def send(self, pending: PendingRequest, model: str, *, is_stream: bool) -> None:
        """Send a request to a model; `pending.response` is the response."""
        if envelope := self._envelopes.get((model, is_stream)):
            pending.send(self.pool.sync_client(), envelope)
            return
        with pending:
            if is_stream:
                for _ in self.sdk.models.generate_content_stream(model=model, **self.arguments):
                    pass
            else:
                self.sdk.models.generate_content(model=model, **self.arguments)
        self._keep_envelope(pending, model, is_stream=is_stream)

    async def asend(self, pending: PendingRequest, model: str, *, is_stream: bool) -> None:
        """Send as `send` does, on the running event loop."""
        if envelope := self._envelopes.get((model, is_stream)):
            await pending.asend(await self.pool.async_client(), envelope)
            return
        models = self.sdk.aio.models
        with pending:
            if is_stream:
                async for _ in await models.generate_content_stream(model=model, **self.arguments):
                    pass
            else:
                await models.generate_content(model=model, **self.arguments)
        self._keep_envelope(pending, model, is_stream=is_stream)

    def count_tokens(self, pending: PendingRequest, model: str) -> None:
        """Send a request to a model's `:countTokens`; `pending.response` is the response."""
        with pending:
            self.sdk.models.count_tokens(model=model, contents=self.arguments["contents"])

    def _keep_envelope(self, pending: PendingRequest, model: str, *, is_stream: bool) -> None:
        envelope = pending.envelope
        if envelope and envelope.is_reusable and pending.response.status_code == 200:
            self._envelopes[model, is_stream] = envelope


def open_sdk(settings: ClientSettings) -> OpenedSdk:
    """Load the SDK and build its client; nothing is sent."""
    _reject_invalid_characters(settings)
    if settings.is_for_fake and not (settings.base_url or _environment_base_url()):
        raise fake_has_stopped()
    pool = HttpPool(settings.client_args, settings.async_client_args, settings.base_url)
    version = settings.api_version or os.environ.get("GOOGLE_GENAI_API_VERSION") or "beta"
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


@contextmanager
def mapping_sdk_errors() -> Iterator[None]:
    """Map an error response of a request that passed through the SDK to our error."""
    from google.genai import errors as sdk_errors

    failure: GeminiToolsError | None = None
    try:
        yield
    except sdk_errors.APIError as error:
        failure = map_api_error(error.code, error.details, error.response)
    if failure:
        raise failure  # outside the `except`: its frames have headers


def _environment_base_url() -> str | None:
    return next(filter(None, map(os.environ.get, BASE_URL_VARIABLES)), None)


def fake_has_stopped() -> InvalidOptionError:
    """Return the error for a model that is used after its `FakeGemini`."""
    return InvalidOptionError(
        "This model belongs to a FakeGemini that has stopped. Make and use the model inside the "
        "same `with FakeGemini()` block or test."
    )


def _reject_invalid_characters(settings: ClientSettings) -> None:
    """Reject characters that copying leaves in keys: the HTTP library would quote the whole key."""
    try:
        check_headers(settings.headers)
    except ValueError as error:
        raise InvalidOptionError(str(error)) from None
    sent: dict[str, str] = {}
    if settings.api_key:
        key = "google_api_key (api_key, or GOOGLE_API_KEY in the environment)"
        sent[key] = settings.api_key.get_secret_value()
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
        location=settings.location,
        http_options=options,
    )


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
    return GeminiAuthenticationError(
        "No API key was found. Set GOOGLE_API_KEY (or GEMINI_API_KEY), or pass api_key. For Vertex "
        "AI, set GOOGLE_GENAI_USE_VERTEXAI=true, GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION, "
        "or pass vertexai=True, project and location."
    )
