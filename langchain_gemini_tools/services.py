"""What a model does apart from generating: previews, token counts, context caches, batch jobs.

Modules that many programs never need (prompted tools, context caches, batches) are imported by the
methods that need them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
)
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import RunnableConfig
from pydantic import ConfigDict

from langchain_gemini_tools.access import GeminiAccess, render_fetched, retry_policy
from langchain_gemini_tools.errors import InvalidOptionError
from langchain_gemini_tools.media_fetch import fetch_media
from langchain_gemini_tools.options import resolve, spelled_as_fields
from langchain_gemini_tools.prompted import PromptOverhead
from langchain_gemini_tools.wire.invocation import Invocation, ToolChoiceOption
from langchain_gemini_tools.wire.metadata import parse_count
from langchain_gemini_tools.wire.request import RenderedRequest, render_counting
from langchain_gemini_tools.wire.tools.builtin import reject_credentials

if TYPE_CHECKING:
    from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun

    from langchain_gemini_tools.batch import BatchJob, BatchSource
    from langchain_gemini_tools.batch.runner import Asker

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
        from langchain_gemini_tools.context_cache import cache_of, render_expiry

        given = self._convert_input(messages).to_messages() if messages else []
        if system:
            given = [SystemMessage(system), *given]
        settings = render_expiry(ttl, expire_time)
        if display_name:
            settings["display_name"] = display_name
        options = {"tools": tools, "tool_choice": tool_choice}
        contents = cache_of(self, given, options, settings, name)
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
                "A batch job needs inputs and a path, or only the name of a job at the service. "
                "Pass inputs=... and path=..., or name=...."
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
        """Return the options with the form of schemas that is safe in batches, unless it is set."""
        levels = [spelled_as_fields(self.model_kwargs), spelled_as_fields(kwargs)]
        if self.tool_schema or any(level.get("tool_schema") for level in levels):
            return dict(kwargs)
        return {**kwargs, "tool_schema": "openapi"}

    # Agents that run in batches

    def _ask_in_batches(
        self,
        asker: Asker,
        messages: Sequence[BaseMessage],
        options: tuple[list[str] | None, Mapping[str, Any]],
        run_manager: CallbackManagerForLLMRun | None,
    ) -> ChatResult:
        from langchain_gemini_tools.batch.runner import ask_in_batches, interrupted_result

        request = self._render(messages, self._batch_invocation(*options))
        try:
            return ask_in_batches(asker, request, self._source_of(request))
        except asker.pauses as pause:
            if run_manager:
                run_manager.on_llm_end(interrupted_result(), pause=pause)
                run_manager.handlers = []  # the call has ended; core would report an error
            raise

    async def _aask_in_batches(
        self,
        asker: Asker,
        messages: Sequence[BaseMessage],
        options: tuple[list[str] | None, Mapping[str, Any]],
        run_manager: AsyncCallbackManagerForLLMRun | None,
    ) -> ChatResult:
        from langchain_gemini_tools.batch.runner import ask_in_batches, interrupted_result

        request = await self._arender(messages, self._batch_invocation(*options))
        try:
            return ask_in_batches(asker, request, self._source_of(request))
        except asker.pauses as pause:
            if run_manager:
                await run_manager.on_llm_end(interrupted_result(), pause=pause)
                run_manager.handlers = []
            raise

    def _source_of(self, request: RenderedRequest) -> BatchSource:
        from langchain_gemini_tools.batch import BatchSource

        return BatchSource(
            template=request,
            render=lambda body: replace(request, encoded=body),
            client=self._client,
            retries=retry_policy(request.invocation),
            chat_model=self,
        )

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
        if all(isinstance(message, SystemMessage) for message in messages):
            # `trim_messages` counts system messages separately; countTokens needs a user turn.
            messages = [HumanMessage(message.content) for message in messages if message.content]
        if not messages:
            return self._count_tools(tools, kwargs) if tools else 0
        # The Interactions API does not count tokens.
        options = {**kwargs, "on_broken_history": "repair", **_ON_GENERATE_CONTENT}
        options |= {"tools": tools} if tools else {}
        invocation = resolve(self, None, options)
        if limits := invocation.fetch_limits:
            messages = fetch_media(messages, limits, self._media)
        request = render_fetched(messages, invocation)
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


def as_chunk(result: ChatResult) -> ChatGenerationChunk:
    """Return a whole result as the only chunk of a stream."""
    (generation,) = result.generations
    # It makes tool call chunks of the tool calls.
    chunk = AIMessageChunk(**generation.message.model_dump(exclude={"type"}), chunk_position="last")
    return ChatGenerationChunk(message=chunk, generation_info=generation.generation_info)
