"""How a model reaches the API: its settings, credentials and client, and what pickles carry."""

from __future__ import annotations

import os
from copy import copy
from typing import TYPE_CHECKING, Any, Self

from pydantic import ConfigDict, PrivateAttr, SecretStr

from langchain_gemini_tools.client import ClientSettings, GeminiClient, SdkAsyncClient, SdkClient
from langchain_gemini_tools.errors import GeminiAuthenticationError
from langchain_gemini_tools.facts.credentials import environment_uses_vertexai
from langchain_gemini_tools.facts.locks import ForkSafeLock
from langchain_gemini_tools.field_values import FoundKey, as_json, has_credential
from langchain_gemini_tools.fields import GeminiFields

if TYPE_CHECKING:
    from langchain_core.load.serializable import SerializedConstructor, SerializedNotImplemented

_CLIENT_LOCK = ForkSafeLock()
_PLACES = ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION")


class GeminiAccess(GeminiFields):
    """The fields of `ChatGemini`, with the client that they describe."""

    model_config = ConfigDict(defer_build=True)  # only `ChatGemini` is validated

    _gemini: GeminiClient | None = PrivateAttr(default=None)
    _left_out: tuple[str, ...] = PrivateAttr(default=())
    """Fields that a pickle did not carry."""
    _key_was_found: bool = PrivateAttr(default=False)
    """Whether the key that a pickle did not carry came from the environment."""

    # Pickles may be stored and read by others: no credential goes into one.

    def __getstate__(self) -> dict[Any, Any]:
        # LangChain keeps what it shows to tracers. If a pickle did not have it, each copy would
        # compute it again, which takes a fifth of a call.
        _ = self._serialized
        state = super().__getstate__()
        fields = {**state["__dict__"], "google_api_key": self._key_in_use}
        left_out = tuple(
            name
            for name, value in fields.items()
            if has_credential(name, value) or (value is None and name in self._left_out)
        )
        fields = {name: value for name, value in fields.items() if name not in left_out}
        if "credentials" in left_out:
            fields["vertexai"] = self.uses_vertexai  # which the credentials decided
        private = {**(state["__pydantic_private__"] or {}), "_gemini": None}
        private["_left_out"] = left_out
        if self.google_api_key:
            private["_key_was_found"] = self._passed_key is None
        return {**state, "__dict__": fields, "__pydantic_private__": private}

    def __setstate__(self, state: dict[Any, Any]) -> None:
        fields, private = type(self).model_fields, state["__pydantic_private__"]
        found = {
            name: fields[name].get_default(call_default_factory=True)
            for name in private["_left_out"]
        }
        if "google_api_key" in found and not private["_key_was_found"]:
            # The environment in which it is loaded may have the key of another account.
            found["google_api_key"] = None
        super().__setstate__({**state, "__dict__": {**found, **state["__dict__"]}})

    def _check_unpickled(self) -> None:
        """Require the credentials that a pickle did not carry.

        Raises:
            GeminiAuthenticationError: Fields that have to be set again.
        """
        # Without `credentials`, Vertex AI looks for them in the environment.
        missing = [
            name for name in self._left_out if getattr(self, name) is None and name != "credentials"
        ]
        if missing:
            advice = "Pass them again"
            if "google_api_key" in missing:
                advice = (
                    "Set GOOGLE_API_KEY, where the key was found, or pass them again"
                    if self._key_was_found
                    else "The key was passed to the model, so none is taken from the environment. "
                    "Pass them again"
                )
            raise GeminiAuthenticationError(
                f"This model was unpickled without {', '.join(missing)}: pickles carry no "
                f'credentials. {advice}: model.model_copy(update={{"{missing[0]}": ...}}).'
            )

    def to_json(self) -> SerializedConstructor | SerializedNotImplemented:
        """Return what `dumpd` stores, without a key that is found but not used."""
        stored = super().to_json()
        if stored["type"] != "constructor":
            return stored
        kwargs = {name: as_json(name, value) for name, value in stored["kwargs"].items()}
        kwargs.pop("api_key", None)  # core adds the key under its alias as well
        if "timeout" not in self.model_fields_set:
            kwargs.pop("timeout", None)  # the model decides
        if not self._key_in_use:
            kwargs.pop("google_api_key", None)
        return {**stored, "kwargs": kwargs}

    # Which API

    def _client_settings(self) -> ClientSettings:
        base_url = self.base_url
        if isinstance(base_url, dict):
            base_url = base_url.get("api_endpoint") or base_url.get("base_url")
        return ClientSettings(
            api_key=self._key_in_use,
            vertexai=True if self.uses_vertexai else self.vertexai,
            # The SDK rejects them for the Developer API.
            project=self.project if self.uses_vertexai else None,
            location=self.location if self.uses_vertexai else None,
            credentials=self.credentials,
            base_url=base_url,
            api_version=self.api_version,
            headers=self._own_headers,
            client_args=self.client_args or {},
            async_client_args=self.async_client_args or {},
            timeout_seconds=self.timeout,
        )

    @property
    def _own_headers(self) -> dict[str, str]:
        return {**dict(self.default_metadata or []), **(self.additional_headers or {})}

    @property
    def uses_vertexai(self) -> bool:
        """Whether requests go to Vertex AI rather than to the Gemini Developer API."""
        if self.vertexai is not None:
            return self.vertexai
        if (chosen := environment_uses_vertexai()) is not None:
            return chosen
        return bool(self.project or self.credentials)

    @property
    def _passed_key(self) -> SecretStr | None:
        """The key, unless it was found in the environment."""
        return None if isinstance(self.google_api_key, FoundKey) else self.google_api_key

    @property
    def _key_in_use(self) -> SecretStr | None:
        """The key, unless it was found and Vertex AI has other credentials, as in the SDK."""
        if not self.uses_vertexai or self._passed_key:
            return self.google_api_key
        has_place = self.project or self.location or self.credentials
        return None if has_place or any(map(os.environ.get, _PLACES)) else self.google_api_key

    # The client

    def __copy__(self) -> Self:
        copied = super().__copy__()
        # A share of its own, which `close` gives up.
        copied._gemini = copy(self._gemini)  # noqa: SLF001 - of the same class
        return copied

    @property
    def _client(self) -> GeminiClient:
        """The client for the current fields. Models with equal settings share its connections."""
        self._check_unpickled()
        settings = self._client_settings()
        with _CLIENT_LOCK:
            if self._gemini is None or self._gemini.settings != settings:
                self._gemini = GeminiClient(settings)
            return self._gemini

    @property
    def client(self) -> SdkClient:
        """The `google.genai.Client` that this model uses, for the rest of the API.

        `files`, `caches`, `batches`, `models` and so on work with the credentials, the address, the
        headers, the proxy and the timeout of the model, over its connections: `close` closes them,
        and the next request opens new ones. Errors are the SDK's (`google.genai.errors`), with
        secrets redacted. The first use loads the SDK.

        The timeout applies to each HTTP request; of a stream or a download, to each wait. A timeout
        in `http_options` replaces it, and then limits each wait, as in the SDK. Nothing is retried.

        Example:
            ```python
            report = model.client.files.upload(file="report.pdf")
            ```
        """
        return self._client.sdk

    @property
    def async_client(self) -> SdkAsyncClient:
        """The async half of `client`: `await model.async_client.files.upload(...)`."""
        return self.client.aio

    def close(self) -> None:
        """Close the connections of sync calls, unless other models with equal settings use them.

        The next call opens new ones.
        """
        if self._gemini:
            self._gemini.close()

    async def aclose(self) -> None:
        """Close all connections, unless other models with equal settings use them."""
        if self._gemini:
            await self._gemini.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
