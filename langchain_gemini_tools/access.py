"""What a call needs of its model: the rendered request, the client, the credentials.

Which API the requests go to, and what copies and pickles carry, follows from the credentials.
What only a call needs (the client, rendering) and what many programs never need (prompted tools,
interactions, downloads) is imported by the functions that need it.
"""

from __future__ import annotations

import logging
import os
from copy import copy
from typing import TYPE_CHECKING, Any, Self

from langchain_core.language_models import LanguageModelInput
from pydantic import ConfigDict, PrivateAttr, SecretStr

from langchain_gemini_tools.errors import GeminiAuthenticationError, InvalidOptionError
from langchain_gemini_tools.facts.environment import (
    PROJECT_VARIABLES,
    environment_gateway,
    environment_uses_vertexai,
)
from langchain_gemini_tools.field_values import (
    FoundKey,
    OwnProfile,
    as_json,
    as_secret,
    has_credential,
    unknown_option,
)
from langchain_gemini_tools.fields import FIELDS_BY_SYNONYM, GeminiFields
from langchain_gemini_tools.options import resolve
from langchain_gemini_tools.retry import RetryPolicy, RunReports
from langchain_gemini_tools.wire.invocation import CacheContents

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
    from langchain_core.load.serializable import SerializedConstructor, SerializedNotImplemented
    from langchain_core.messages import BaseMessage

    from langchain_gemini_tools.client import (
        ClientSettings,
        GeminiClient,
        SdkAsyncClient,
        SdkClient,
    )
    from langchain_gemini_tools.continuation import LongResponse
    from langchain_gemini_tools.media_fetch import FetchedMedia
    from langchain_gemini_tools.wire.invocation import Invocation
    from langchain_gemini_tools.wire.request import RenderedRequest
else:  # so that `get_type_hints` can read the annotations without loading these types
    FetchedMedia = GeminiClient = RenderedRequest = SdkAsyncClient = SdkClient = Any

logger = logging.getLogger(__name__)

_SHAPE_THE_PROFILE = frozenset({"model", "model_family", "tool_calling", "model_kwargs"})
_MAX_WARNINGS_KEPT = 1000


class GeminiAccess(GeminiFields):
    """The fields of `ChatGemini`, with the client that they describe."""

    model_config = ConfigDict(defer_build=True)  # only `ChatGemini` is validated

    _gemini: GeminiClient | None = PrivateAttr(default=None)
    _left_out: tuple[str, ...] = PrivateAttr(default=())
    """Fields that a pickle did not carry."""
    _key_was_found: bool = PrivateAttr(default=False)
    """Whether the key that a pickle did not carry came from the environment."""
    _cache_contents: CacheContents | None = PrivateAttr(default=None)
    """What the context cache contains, if it is known."""
    _warned: set[str] = PrivateAttr(default_factory=set)
    _media: dict[str, FetchedMedia] = PrivateAttr(default_factory=dict)
    """The cache of downloads, made for the first one. Copies share it."""

    def cache_in_use(self, name: str | None) -> CacheContents | None:
        """Return what a context cache contains, if it is known.

        Args:
            name: The name of the cache.
        """
        known = self._cache_contents
        return known if known and known.name == name else None

    # Reading, changes and copies

    if not TYPE_CHECKING:  # otherwise every name would be an attribute for type checkers

        def __getattr__(self, name: str) -> Any:
            if field := FIELDS_BY_SYNONYM.get(name):
                return getattr(self, field)
            return super().__getattr__(name)

    def __eq__(self, other: object) -> bool:
        """Compare the fields; clients and caches do not matter."""
        if not isinstance(other, GeminiFields) or type(other) is not type(self):
            return False
        return self._own_values() == other._own_values()

    __hash__ = None  # type: ignore[assignment]

    def __setattr__(self, name: str, value: Any) -> None:
        name = FIELDS_BY_SYNONYM.get(name, name)
        super().__setattr__(name, as_secret(name, value))
        if name in type(self).model_fields:
            self._forget_computed()
        if name in _SHAPE_THE_PROFILE:
            self._renew_profile()

    def _own_values(self) -> dict[str, Any]:
        """Return the values of the fields, without what was computed from them."""
        fields = type(self).model_fields
        return {name: value for name, value in self.__dict__.items() if name in fields}

    def _forget_computed(self) -> None:
        """Drop what was computed from the fields, such as what LangChain shows to tracers."""
        for name in self.__dict__.keys() - type(self).model_fields.keys():
            del self.__dict__[name]

    def _renew_profile(self) -> None:
        """Let the profile follow the model, unless it was passed."""
        if isinstance(self.profile, OwnProfile):
            self.profile = self._resolve_model_profile()

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other fields.

        Args:
            update: Fields to change, under any of their names.
            deep: Copy the values of the fields, too.

        Raises:
            InvalidOptionError: A field does not exist.
        """
        changes: dict[str, Any] = {}
        for key, value in (update or {}).items():
            name = FIELDS_BY_SYNONYM.get(key, key)
            if name not in type(self).model_fields:
                raise InvalidOptionError(unknown_option(key, type(self).model_fields))
            changes[name] = as_secret(name, value)
        copied = super().model_copy(update=changes, deep=deep)
        if changes:
            copied._forget_computed()  # noqa: SLF001 - of the same class
        if changes.keys() & _SHAPE_THE_PROFILE:
            copied._renew_profile()  # noqa: SLF001 - of the same class
        return copied

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        # Credentials cannot be copied: a copy uses the same.
        shared = {id(self.credentials): self.credentials} if self.credentials is not None else {}
        return super().__deepcopy__({**(memo or {}), **shared})

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
            private["_key_was_found"] = isinstance(self.google_api_key, FoundKey)
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

    def _client_settings(self, *, uses_vertexai: bool) -> ClientSettings:
        from langchain_gemini_tools.client import ClientSettings

        base_url = self.base_url
        if isinstance(base_url, dict):
            base_url = base_url.get("api_endpoint") or base_url.get("base_url")
        api_key = self._find_key(uses_vertexai=uses_vertexai)
        if not (base_url or uses_vertexai) and (gateway := environment_gateway()):
            base_url, found = gateway
            if found and (api_key is None or isinstance(api_key, FoundKey)):
                api_key = SecretStr(found)
        return ClientSettings(
            api_key=api_key,
            vertexai=True if uses_vertexai else self.vertexai,
            # The SDK rejects them for the Developer API.
            project=self.project if uses_vertexai else None,
            location=self.location if uses_vertexai else None,
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
    def _key_in_use(self) -> SecretStr | None:
        """The key, unless Vertex AI has `credentials`, or a place and the key was only found."""
        return self._find_key(uses_vertexai=self.uses_vertexai)

    def _find_key(self, *, uses_vertexai: bool) -> SecretStr | None:
        key = self.google_api_key
        if not uses_vertexai:
            return key
        if self.credentials:
            return None
        if key and not isinstance(key, FoundKey):
            return key
        has_place = self.project or self.location
        return None if has_place or any(map(os.environ.get, PROJECT_VARIABLES)) else key

    # Rendering

    def preview(
        self, model_input: LanguageModelInput, stop: list[str] | None = None, **kwargs: Any
    ) -> RenderedRequest:
        """Return the request that `invoke` would send: its `body`, and the `repairs` made for it.

        With `fetch_urls`, media that messages name by URL is downloaded.

        Args:
            model_input: What `invoke` accepts.
            stop: Stop sequences.
            **kwargs: Options of the call.

        Raises:
            InvalidInputError: The messages, the tools or the options cannot be sent.
        """
        messages = self._convert_input(model_input).to_messages()
        return self._render(messages, resolve(self, stop, kwargs))

    def _render(self, messages: Sequence[BaseMessage], invocation: Invocation) -> RenderedRequest:
        return self._report(self._render_unreported(messages, invocation))

    def _render_unreported(
        self, messages: Sequence[BaseMessage], invocation: Invocation
    ) -> RenderedRequest:
        if limits := invocation.fetch_limits:
            from langchain_gemini_tools.media_fetch import fetch_media

            messages = fetch_media(messages, limits, self._fetched_media())
        return render_fetched(messages, invocation)

    async def _arender(
        self, messages: Sequence[BaseMessage], invocation: Invocation
    ) -> RenderedRequest:
        if limits := invocation.fetch_limits:
            from langchain_gemini_tools.media_fetch import afetch_media

            messages = await afetch_media(messages, limits, self._fetched_media())
        return self._report(render_fetched(messages, invocation))

    def _fetched_media(self) -> FetchedMedia:
        from langchain_gemini_tools.media_fetch import FetchedMedia

        return self._media.setdefault("files", FetchedMedia())

    def _report(self, request: RenderedRequest) -> RenderedRequest:
        for warning in _warnings_about(request):
            self._warn_once(request.invocation.model, warning)
        return request

    def _warn_once(self, model: str, text: str) -> None:
        """Log a warning once, although an agent binds and sends the same again at every step."""
        warning = f"{model}: {text}"
        if warning in self._warned:
            return
        if len(self._warned) < _MAX_WARNINGS_KEPT:
            self._warned.add(warning)
        logger.warning("%s", warning)

    def _report_findings(self, invocation: Invocation) -> None:
        from langchain_gemini_tools.wire.tools.lint import find_problems

        findings = find_problems(
            invocation.tools,
            invocation.capabilities.prompted()
            if invocation.is_prompted
            else invocation.capabilities,
            is_prompted=invocation.is_prompted,
            form=invocation.schema_form,
        )
        for finding in findings:
            self._warn_once(invocation.model, str(finding))

    # The client

    def __copy__(self) -> Self:
        copied = super().__copy__()
        # The copy has a separate share, which its `close` gives up.
        copied._gemini = copy(self._gemini)  # noqa: SLF001 - of the same class
        return copied

    @property
    def _client(self) -> GeminiClient:
        """The client for the current fields."""
        return self._client_for(uses_vertexai=self.uses_vertexai)

    def _client_for(self, *, uses_vertexai: bool) -> GeminiClient:
        """Return the client for the current fields and an API.

        Models with equal settings share its connections.
        """
        from langchain_gemini_tools.client import GeminiClient

        client, settings = self._gemini, self._client_settings(uses_vertexai=uses_vertexai)
        if client is None or client.settings != settings:
            self._check_unpickled()
            # Two threads may both get here: the connections of their clients are the same.
            client = self._gemini = GeminiClient(settings)
        return client

    def _request_response(self, request: RenderedRequest, retries: RetryPolicy) -> LongResponse:
        from langchain_gemini_tools.continuation import LongResponse

        client = self._client_for(uses_vertexai=request.invocation.vertexai)
        return LongResponse(request, client, retries)

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


def render_fetched(messages: Sequence[BaseMessage], invocation: Invocation) -> RenderedRequest:
    """Render messages whose media were fetched, for the API that the call uses."""
    if invocation.is_prompted and not invocation.interaction:
        from langchain_gemini_tools.prompted.request import render_prompted

        return render_prompted(messages, invocation)
    from langchain_gemini_tools.prompted.written_calls import WrittenCallFinder

    if invocation.interaction:
        from langchain_gemini_tools.interactions.request import render_interaction

        return render_interaction(messages, invocation, WrittenCallFinder)
    from langchain_gemini_tools.wire.request import render_request

    return render_request(messages, invocation, find_written_calls=WrittenCallFinder)


def _warnings_about(request: RenderedRequest) -> Iterator[str]:
    for repair in request.repairs:
        if not repair.is_harmless:
            yield f"Message {repair.position}: {repair.explanation}"
    invocation = request.invocation
    if ignored := invocation.ignored:
        yield (
            f"{', '.join(ignored)}: not sent, because this model ignores sampling options and "
            "later models reject them. Remove them; use reasoning_effort or the prompt instead."
        )
    is_required = invocation.tool_choice.mode == "ANY"
    if is_required and not any(tool.is_function for tool in invocation.tools):
        yield (
            "tool_choice is not sent, because only functions can be required, not Gemini's own "
            "tools. Ask for the tool in the prompt."
        )
    if invocation.tool_choice.mode == "NONE" and invocation.tools.builtin:
        yield (
            "tool_choice='none' forbids functions only, so Gemini's own tools may still run. Leave "
            "them out."
        )
    options = invocation.interaction
    if options and (options.uses_previous or options.background):
        name = "agent" if options.is_agent else "background"
        name = "use_previous_interaction" if options.uses_previous else name
        yield (
            f"{name} lets Google keep these interactions: for 55 days, or for a day without "
            "billing."
        )


def retry_policy(
    invocation: Invocation,
    run_manager: CallbackManagerForLLMRun | AsyncCallbackManagerForLLMRun | None = None,
) -> RetryPolicy:
    """Return how failed requests of a call are retried, and where that is reported."""
    return RetryPolicy(
        invocation.max_retries,
        invocation.max_retry_delay_seconds,
        reports=RunReports(run_manager),
        model=invocation.model,
    )
