"""What a model does apart from generating: context caches, batch jobs, prompts, token counts.

Modules that many programs never need (prompted tools, batches) are imported by the methods that
need them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from pydantic import ConfigDict

from langchain_gemini_tools.access import GeminiAccess, retry_policy
from langchain_gemini_tools.errors import InvalidOptionError
from langchain_gemini_tools.options import resolve, spelled_as_fields
from langchain_gemini_tools.prompted import PromptOverhead
from langchain_gemini_tools.retry import RetryPolicy
from langchain_gemini_tools.wire.invocation import CacheContents, Invocation, ToolChoiceOption
from langchain_gemini_tools.wire.rejections import CACHED_FIELDS
from langchain_gemini_tools.wire.tools.builtin import reject_credentials

if TYPE_CHECKING:
    from langchain_gemini_tools.batch import BatchJob
    from langchain_gemini_tools.wire.request import RenderedRequest
else:  # so that `with_fallbacks` can read the annotations without loading the type
    BatchJob = Iterable

Result = TypeVar("Result")

_ON_GENERATE_CONTENT = {
    "api": "generate_content",
    "store": None,
    "use_previous_interaction": False,
    "background": False,
    "agent": False,
    "interaction_id": None,
}


class GeminiServices(GeminiAccess):
    """What `ChatGemini` does apart from generating."""

    model_config = ConfigDict(defer_build=True)  # only `ChatGemini` is validated

    # Context caches

    def with_context_cache(  # noqa: PLR0913
        self,
        messages: LanguageModelInput | None = None,
        *,
        system: str | None = None,
        tools: Sequence[Any] | None = None,
        tool_choice: ToolChoiceOption = None,
        ttl: str | float | timedelta | None = None,
        expire_time: str | datetime | None = None,
        display_name: str | None = None,
        name: str | None = None,
    ) -> Self:
        """Create a context cache, and return a model that uses it.

        What the cache contains is left out of each request and still used to read the response, so
        that agents may bind the same tools and set the same system prompt at every step. What
        differs is rejected. The cache is `cached_content` of the model; renew, list and delete
        caches with `model.client.caches`.

        Args:
            messages: The beginning of conversations. Requests may repeat it or leave it out.
            system: The system text.
            tools: What `bind_tools` accepts.
            tool_choice: What `bind_tools` accepts. It is fixed as well.
            ttl: How long it lives: seconds, `"300s"` or a timedelta; one hour by default.
            expire_time: When it ends, instead of `ttl`.
            display_name: A name for people.
            name: The name of a cache that exists. The other arguments then say what it contains,
                because the API does not show it.

        Raises:
            InvalidOptionError: The model has no context caches, or an argument is not valid.
            GeminiAPIError: The API did not create it, for instance because it is too small.
        """
        given = self._convert_input(messages).to_messages() if messages else []
        if system:
            given = [SystemMessage(system), *given]
        settings = _render_expiry(ttl, expire_time)
        if display_name:
            settings["display_name"] = display_name
        if name is not None and settings:
            raise InvalidOptionError(
                f"The context cache {name!r} exists, so it has its own end and name: leave out "
                "ttl, expire_time and display_name. model.client.caches.update renews it."
            )
        options = {"tools": tools, "tool_choice": tool_choice}
        contents = _cache_of(self, given, options, settings, name)
        copied = self.model_copy(update={"cached_content": contents.name})
        copied._cache_contents = contents  # noqa: SLF001 - of the same class
        return copied

    async def awith_context_cache(
        self, messages: LanguageModelInput | None = None, **arguments: Any
    ) -> Self:
        """Create a context cache as `with_context_cache` does, without blocking the event loop."""
        return await asyncio.to_thread(partial(self.with_context_cache, messages, **arguments))

    # Batch jobs

    def batch_job(  # noqa: PLR0913
        self,
        inputs: Iterable[LanguageModelInput] | None = None,
        *,
        path: str | os.PathLike[str] | None = None,
        name: str | None = None,
        submit: bool = True,
        webhooks: Mapping[str, Any] | None = None,
        storage: str | None = None,
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> BatchJob[AIMessage]:
        """Send inputs through Gemini's batch service: half the price, an answer within a day.

        The folder at `path` is the state of the job. After a crash, the same call continues where
        it stopped, and nothing is sent twice. On Vertex AI, requests and results are also files in
        your bucket, at `storage`; this needs the extra `vertex-batch`.

        Example:
            ```python
            job = model.batch_job(questions, path="runs/answers")
            for index, result in job.results():  # in the order of the inputs
                if isinstance(result, Exception): ...
            ```

        Args:
            inputs: An iterable; each item is what `invoke` accepts. They are rendered one after the
                other. None continues the job at `path`.
            path: The folder of the job. It is created, and has to stay until the end.
            name: The name of a job at the service (`batches/...`, on Vertex AI
                `projects/.../batchPredictionJobs/...`) instead of inputs. Without `path`, its
                results are stored in a temporary folder.
            submit: Create the job now. Otherwise `job.preview()` shows the requests and
                `job.submit()` sends them.
            webhooks: The API's `webhookConfig`, such as `{"uris": [...]}`; not on Vertex AI.
            storage: `gs://bucket/prefix` on Vertex AI. A job that exists remembers it.
            config: Callbacks, tags and metadata for the results.
            **kwargs: Options of the call.

        Raises:
            InvalidInputError: An input cannot be sent, or differs from the one at `path`.
            GeminiAPIError: The API did not create the job. Make the same call again.
        """
        return self._batch_job(
            inputs,
            path=path,
            name=name,
            submit=submit,
            webhooks=webhooks,
            storage=storage,
            config=config,
            kwargs=kwargs,
            finish=lambda message: message,
        )

    async def abatch_job(
        self, inputs: Iterable[LanguageModelInput] | None = None, **arguments: Any
    ) -> BatchJob[AIMessage]:
        """Make a batch job as `batch_job` does, without blocking the event loop."""
        return await asyncio.to_thread(partial(self.batch_job, inputs, **arguments))

    def _batch_job(  # noqa: PLR0913
        self,
        inputs: Iterable[LanguageModelInput] | None,
        *,
        path: str | os.PathLike[str] | None,
        name: str | None,
        submit: bool,
        webhooks: Mapping[str, Any] | None,
        storage: str | None,
        config: RunnableConfig | None,
        kwargs: Mapping[str, Any],
        finish: Callable[[AIMessage], Result],
    ) -> BatchJob[Result]:
        from langchain_gemini_tools.batch import BatchJob, BatchSource

        has_place = path is not None if name is None else inputs is None
        if not has_place:
            raise InvalidOptionError(
                "A batch job needs a path, or the name of a job at the service. Pass inputs=... "
                "and path=... for a new job, path=... for one that exists there, or name=... "
                "without inputs."
            )
        if config is not None and not isinstance(config, dict):
            raise InvalidOptionError(
                f"config must be a dict, not {type(config).__name__}. Pass one such as "
                "{'callbacks': [...]}."
            )
        invocation = self._batch_invocation(None, kwargs)
        shown = {**kwargs}
        shown.pop("ls_structured_output_format", None)  # as langchain-core does
        source = BatchSource(
            template=self._render([HumanMessage("template")], invocation),
            render=lambda each: self._render(self._convert_input(each).to_messages(), invocation),
            client=self._client,
            retries=retry_policy(invocation),
            chat_model=self,
            params=self._get_invocation_params(**shown),
            metadata={**self._get_ls_params(**shown)},
            finish=finish,
        )
        job: BatchJob[Result] = BatchJob(
            source, path, webhooks=webhooks, storage=storage, config=config
        )
        if name is not None:
            job.adopt(name)
            return job
        job.prepare(inputs)
        if submit:
            job.submit()
        return job

    def _batch_invocation(self, stop: list[str] | None, kwargs: Mapping[str, Any]) -> Invocation:
        """Resolve the options of a request in a batch, and reject those that batches lack."""
        invocation = resolve(self, stop, self._batch_options(kwargs))
        if invocation.interaction:
            raise InvalidOptionError(
                "The batch service has no Interactions API. Use api='generate_content'."
            )
        reject_credentials(invocation.tools, "a batch")
        return invocation

    def _batch_options(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options with the form of schemas that is safe in batches, unless it is set.

        Tools that are in a context cache are not sent, and keep the form that they have there.
        """
        given = {**spelled_as_fields(self.model_kwargs), **spelled_as_fields(kwargs)}
        has_cache = given.get("cached_content", self.cached_content)
        if self.tool_schema or given.get("tool_schema") or has_cache:
            return dict(kwargs)
        return {**kwargs, "tool_schema": "openapi"}

    # Prompted tools

    def render_prompt(
        self, tools: Sequence[Any], *, tool_choice: ToolChoiceOption = None, **kwargs: Any
    ) -> str:
        """Return the description of tools for a model without function calling.

        `preview` shows the whole request.

        Args:
            tools: What `bind_tools` accepts.
            tool_choice: What `bind_tools` accepts.
            **kwargs: Options of the call.
        """
        from langchain_gemini_tools.prompted.prompt import render_instructions

        given = {**kwargs, "tools": tools, "tool_choice": tool_choice}
        return "\n\n".join(render_instructions(resolve(self, None, given)).texts)

    def prompt_overhead(
        self,
        tools: Sequence[Any],
        *,
        tool_choice: ToolChoiceOption = None,
        exact: bool = False,
        **kwargs: Any,
    ) -> PromptOverhead:
        """Measure what `render_prompt` adds to every request: `print` the result.

        Args:
            tools: What `bind_tools` accepts.
            tool_choice: What `bind_tools` accepts.
            exact: Count tokens with the API instead of estimating four characters per token.
            **kwargs: Options of the call.
        """
        from langchain_gemini_tools.prompted.prompt import measure_overhead

        given = {**kwargs, "tools": tools, "tool_choice": tool_choice}
        count = self.get_num_tokens if exact else None
        return measure_overhead(resolve(self, None, given), count)

    # Tokens

    def get_num_tokens(self, text: str) -> int:
        """Count the tokens of a text with the API.

        Args:
            text: The text of one user message.
        """
        return self.get_num_tokens_from_messages([HumanMessage(text)]) if text else 0

    def get_num_tokens_from_messages(
        self, messages: Sequence[BaseMessage], tools: Sequence[Any] | None = None, **kwargs: Any
    ) -> int:
        """Count the tokens of messages and tools with the API.

        Args:
            messages: Any part of a history.
            tools: What `bind_tools` accepts.
            **kwargs: Options of the call.
        """
        from langchain_gemini_tools.wire.metadata import parse_count
        from langchain_gemini_tools.wire.request import render_counting

        if all(isinstance(message, SystemMessage) for message in messages):
            # `trim_messages` counts system messages separately; countTokens needs a user turn.
            messages = [HumanMessage(message.content) for message in messages if message.content]
        if not messages:
            return self._count_tools(tools, kwargs) if tools else 0
        # The Interactions API does not count tokens.
        options = {**kwargs, "on_broken_history": "repair", **_ON_GENERATE_CONTENT}
        options |= {"tools": tools} if tools else {}
        invocation = resolve(self, None, options)
        request = self._render_unreported(messages, invocation)
        client = self._client
        count = partial(
            client.count_tokens,
            invocation.model,
            render_counting(request),
            timeout_seconds=invocation.timeout_seconds,
            headers=invocation.headers,
        )
        with client.redacting_errors():
            return parse_count(retry_policy(invocation).call(count))

    def _count_tools(self, tools: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
        """Count what tools add to a message; the API does not count tools alone."""
        message = [HumanMessage("Hi")]
        with_tools = self.get_num_tokens_from_messages(message, tools, **kwargs)
        others = {k: v for k, v in kwargs.items() if k not in {"tool_choice", "tool_config"}}
        return with_tools - self.get_num_tokens_from_messages(message, **others)


# Context caches


def create_context_cache(  # noqa: PLR0913 - as in langchain-google-genai
    model: GeminiServices,
    messages: Sequence[BaseMessage],
    *,
    ttl: str | float | timedelta | None = None,
    expire_time: str | datetime | None = None,
    tools: Sequence[Any] | None = None,
    tool_choice: ToolChoiceOption = None,
) -> str:
    """Create a context cache and return its name, as in langchain-google-genai.

    `ChatGemini.with_context_cache` also returns a model that knows what the cache contains, which
    agents need.

    Args:
        model: The model that the cache is for.
        messages: What it contains; system messages become its system text.
        ttl: How long it lives: seconds, `"300s"` or a timedelta; one hour by default.
        expire_time: When it ends, instead of `ttl`.
        tools: What `bind_tools` accepts.
        tool_choice: What `bind_tools` accepts.
    """
    expiry = _render_expiry(ttl, expire_time)
    return _cache_of(model, messages, {"tools": tools, "tool_choice": tool_choice}, expiry).name


def _cache_of(
    model: GeminiServices,
    messages: Sequence[BaseMessage],
    options: Mapping[str, Any],
    settings: Mapping[str, Any],
    name: str | None = None,
) -> CacheContents:
    """Return what a cache contains, and create the cache unless it has a name.

    Args:
        model: The model that the cache is for.
        messages: What it contains.
        options: Its `tools` and `tool_choice`.
        settings: The SDK's settings of the cache: `ttl`, `expire_time`, `display_name`.
        name: The name of a cache that was created elsewhere.
    """
    options = {key: value for key, value in options.items() if value is not None}
    options["cached_content"] = None
    _check_support(model, options)
    others = [message for message in messages if not isinstance(message, SystemMessage)]
    # A request ends with the user's turn; a cache need not.
    ends_with_user = bool(others) and not isinstance(others[-1], AIMessage)
    end = [] if ends_with_user else [HumanMessage("-")]
    request = model.preview([*messages, *end], **options)
    reject_credentials(request.invocation.tools, "a context cache")
    if name is None:
        name = _create(model, request, settings, without_last=bool(end))
    invocation = request.invocation
    return CacheContents(
        name=name,
        tools=invocation.tools,
        tool_choice=invocation.tool_choice,
        body={key: value for key, value in request.body.items() if key in CACHED_FIELDS},
        messages=tuple(others),
        model=invocation.model,
    )


def _check_support(model: GeminiServices, options: Mapping[str, Any]) -> None:
    invocation = resolve(model, None, options)
    if invocation.interaction:
        raise InvalidOptionError(
            "The Interactions API has no context caches. Use api='generate_content', or "
            "use_previous_interaction=True."
        )
    if invocation.is_prompted or not invocation.capabilities.supports_cached_content:
        raise InvalidOptionError(
            f"{invocation.model} has no context caches. Use another model; repeated beginnings of "
            "requests are cached implicitly by most Gemini models."
        )


def _create(
    model: GeminiServices,
    request: RenderedRequest,
    settings: Mapping[str, Any],
    *,
    without_last: bool,
) -> str:
    body: dict[str, Any] = {**request.body}
    contents = {
        "system_instruction": body.get("systemInstruction"),
        "contents": body["contents"][:-1] if without_last else body["contents"],
        "tools": body.get("tools"),
        "tool_config": body.get("toolConfig"),
    }
    config = {key: value for key, value in contents.items() if value}
    if not config:
        raise InvalidOptionError("A context cache needs messages, a system text or tools.")
    invocation = request.invocation
    retries = RetryPolicy(invocation.max_retries, invocation.max_retry_delay_seconds)
    client = model._client  # noqa: SLF001 - the same module
    create = partial(client.create_cache, invocation.model, {**config, **settings})
    with request.naming_tools():
        return retries.call(create)


def _render_expiry(
    ttl: str | float | timedelta | None, expire_time: str | datetime | None
) -> dict[str, Any]:
    """Return the end of a cache as the SDK's settings.

    Raises:
        InvalidOptionError: Both are set, or one is not a time in the future or has no time zone.
    """
    if ttl is not None and expire_time is not None:
        raise InvalidOptionError("ttl and expire_time cannot be combined: use one.")
    if ttl is not None:
        return {"ttl": _render_seconds(ttl)}
    if expire_time is None:
        return {}
    try:
        end = datetime.fromisoformat(expire_time) if isinstance(expire_time, str) else expire_time
    except ValueError as error:
        raise InvalidOptionError(f"expire_time={expire_time!r} is not an ISO 8601 time.") from error
    if not isinstance(end, datetime):
        raise InvalidOptionError(
            f"expire_time must be a datetime or an ISO 8601 time, not {end!r}. Use ttl for a "
            "number of seconds or a timedelta."
        )
    if end.tzinfo is None:
        raise InvalidOptionError("expire_time needs a time zone, such as datetime.now(UTC).")
    if end <= datetime.now(UTC):
        raise InvalidOptionError(f"expire_time={str(end)!r} is not in the future.")
    return {"expire_time": end.astimezone(UTC)}


def _render_seconds(ttl: str | float | timedelta) -> str:
    from langchain_gemini_tools.wire.media import render_duration

    given = ttl.total_seconds() if isinstance(ttl, timedelta) else ttl
    try:
        seconds = float(given.removesuffix("s") if isinstance(given, str) else given)
    except (TypeError, ValueError, OverflowError):
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise InvalidOptionError(f"ttl must be seconds such as 300 or '300s', not {ttl!r}.")
    return render_duration(seconds)
