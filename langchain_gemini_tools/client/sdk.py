"""The client of google-genai: built from the settings, sending through clients of ours."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools._version import __version__
from langchain_gemini_tools.client.pool import HttpPool
from langchain_gemini_tools.client.settings import odd_character
from langchain_gemini_tools.client.transport import stand_ins
from langchain_gemini_tools.errors import (
    GeminiAuthenticationError,
    GeminiToolsError,
    InvalidOptionError,
)
from langchain_gemini_tools.facts.credentials import KEY_VARIABLES, redact

if TYPE_CHECKING:
    from google import genai

    from langchain_gemini_tools.client.settings import ClientSettings
    from langchain_gemini_tools.client.transport import Call, Envelope

    JsonObject = dict[str, Any]
    SdkClient = genai.Client
    SdkAsyncClient = genai.client.AsyncClient
else:
    SdkClient = SdkAsyncClient = Any  # annotations are read at run time, without the SDK


@dataclass(frozen=True)
class OpenedSdk:
    """The SDK's client and what it sends through; made by the first call.

    With a key, the SDK writes the same URL and headers at every call of a model, which costs as
    much as the rest of the call. So it is asked once; where a token may run out, it always is.
    """

    sdk: SdkClient
    pool: HttpPool
    arguments: JsonObject
    """What the SDK's methods are called with, besides the model: its types, which are made once."""
    _envelopes: dict[tuple[str, bool], Envelope] = field(default_factory=dict, repr=False)
    """By model, and whether it streams."""

    def send(self, call: Call, model: str, *, is_stream: bool) -> None:
        """Send a call to a model; the response is on the call then."""
        if envelope := self._envelopes.get((model, is_stream)):
            call.send(self.pool.sync_client(), envelope)
            return
        with call:
            if is_stream:
                for _ in self.sdk.models.generate_content_stream(model=model, **self.arguments):
                    pass
            else:
                self.sdk.models.generate_content(model=model, **self.arguments)
        self._keep_envelope(call, model, is_stream=is_stream)

    async def asend(self, call: Call, model: str, *, is_stream: bool) -> None:
        """`send` for the running event loop."""
        if envelope := self._envelopes.get((model, is_stream)):
            await call.asend(await self.pool.async_client(), envelope)
            return
        models = self.sdk.aio.models
        with call:
            if is_stream:
                async for _ in await models.generate_content_stream(model=model, **self.arguments):
                    pass
            else:
                await models.generate_content(model=model, **self.arguments)
        self._keep_envelope(call, model, is_stream=is_stream)

    def count_tokens(self, call: Call, model: str) -> None:
        """Send a call to a model's `:countTokens`; the response is on the call then."""
        with call:
            self.sdk.models.count_tokens(model=model, contents=self.arguments["contents"])

    def _keep_envelope(self, call: Call, model: str, *, is_stream: bool) -> None:
        if call.envelope and call.envelope.is_lasting and call.kept_response.status_code == 200:
            self._envelopes[model, is_stream] = call.envelope


def open_sdk(settings: ClientSettings) -> OpenedSdk:
    """Load the SDK and build its client; nothing is sent."""
    _refuse_odd_characters(settings)
    pool = HttpPool(settings.client_args, settings.async_client_args, settings.base_url)
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
    return OpenedSdk(sdk, pool, _arguments())


def _refuse_odd_characters(settings: ClientSettings) -> None:
    """Refuse what copying leaves in keys: the HTTP library would quote the whole of it."""
    key = "google_api_key (api_key, or GOOGLE_API_KEY in the environment)"
    sent = {f"The header {name!r}": value for name, value in settings.headers.items()}
    if settings.api_key:
        sent[key] = settings.api_key.get_secret_value()
    elif not settings.vertexai:
        sent |= {name: os.environ.get(name, "") for name in KEY_VARIABLES}
    for name, value in sent.items():
        if fault := odd_character(value):
            raise InvalidOptionError(f"{name} does not work: {fault}. Copy it anew.")


def _arguments() -> JsonObject:
    from google.genai import types

    # The SDK insists on contents. Ours take their place on the way out, so there is nothing in it.
    contents = types.Content.model_construct(role="user", parts=[])
    return {"contents": contents, "config": _one_request_config()}


def _one_request_config() -> Any:
    """A `types.GenerateContentConfig` under which the SDK sends one request and runs no tool."""
    from google.genai import types

    fields: JsonObject = {}
    if "automatic_continuation" in types.GenerateContentConfig.model_fields:
        fields["automatic_continuation"] = False
    # Not validated: for that, Pydantic builds classes that the first call can do without.
    off = types.AutomaticFunctionCallingConfig.model_construct(disable=True)
    return types.GenerateContentConfig.model_construct(automatic_function_calling=off, **fields)


def _sdk_client(settings: ClientSettings, pool: HttpPool, api_version: str) -> SdkClient:
    from google import genai

    sync_client, async_client = stand_ins(pool, settings.timeout_seconds)
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
    # In lower case, as the SDK spells its own: it would send "User-Agent" beside "user-agent".
    given = {name.lower(): value for name, value in settings.headers.items()}
    ours = f"langchain-gemini-tools/{__version__}"
    names = ("user-agent", "x-goog-api-client")
    # The SDK puts itself before ours. Of what is packed in other ways, nobody limits the size.
    return {**dict.fromkeys(names, ours), "accept-encoding": "gzip, deflate", **given}


def _explain_refused_settings(settings: ClientSettings, error: ValueError) -> GeminiToolsError:
    found = [settings.api_key, *map(os.environ.get, KEY_VARIABLES)]
    if any(found) or settings.vertexai or settings.project or settings.credentials:
        return InvalidOptionError(redact(str(error), settings.secrets))
    return GeminiAuthenticationError(
        "There is no API key. Set GOOGLE_API_KEY (or GEMINI_API_KEY), or pass api_key. For Vertex "
        "AI set GOOGLE_GENAI_USE_VERTEXAI=true, GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION, or "
        "pass vertexai=True, project and location."
    )
