"""`ToolLoop`: invoke the model, run its tool calls, return the results to it, until it answers.

The sync and async methods are here. `run` decides the next step, `turn` which tool call is due;
`execution` has the threads and tasks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Collection,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing, closing
from dataclasses import replace
from typing import Any, TypeVar, cast

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.utils import ConfigurableFieldSpec

from langchain_gemini_tools.tool_loop import events, execution
from langchain_gemini_tools.tool_loop.events import (
    Approver,
    LoopEvent,
    LoopFinished,
    ToolLoopResult,
)
from langchain_gemini_tools.tool_loop.execution import ChatModel
from langchain_gemini_tools.tool_loop.run import (
    DEFAULT_TIMEOUT,
    LoopInput,
    OnLimit,
    Run,
    Settings,
    exponential_backoff,
    parse_input,
)
from langchain_gemini_tools.tool_loop.toolbox import LoopTool, collect_tools

_T = TypeVar("_T")
_Selector = Callable[[LoopEvent], Sequence[_T]]


class ToolLoop(Runnable[LoopInput, Any]):
    """Run the tools of a chat model until it answers.

    ```python
    def get_weather(city: str) -> str:
        '''Current weather in a city.'''
        return f"Sunny in {city}"


    loop = ToolLoop(ChatGemini(model="gemini-3.8-flash"), [get_weather])

    result = loop.invoke("What is the weather in Oslo and Rome?")
    result.text, result.stop_reason, result.turns, result.usage
    result = loop.invoke([*result.messages, HumanMessage("And in Lima?")])

    for piece in loop.stream("What is the weather in Oslo?"):
        print(piece, end="")  # only the text of the answer

    for event in loop.events("What is the weather in Oslo?"):
        print(event)  # every step: `ToolCallStarted`, `ToolCallTimedOut`, `LoopFinished`, ...
    ```

    It works with any LangChain chat model and is a `Runnable`: `batch`, `with_config`, `|` and
    their async versions work, and callbacks, tags, metadata and context variables reach the model
    and the tools as one tree of runs. The input is text, a message, a list of messages, a dict with
    `messages`, or a prompt value. Keyword arguments of `invoke` and the other methods go to the
    model. `invoke` returns a `ToolLoopResult` and `stream` yields text. Where the next step of a
    chain expects text in both cases, use `loop.text()`.

    **Tool errors do not end a run.** The tool calls of one turn run in parallel (sync tools in
    threads, async tools in tasks; in a sync run, an async tool gets an event loop) and their
    results are returned in the order of the calls. A tool that fails or takes too long, an unknown
    tool, and invalid arguments are reported to the model, with credentials in their text redacted.
    The tool calls of a response that is not complete (truncated, blocked, or rejected as
    `UNEXPECTED_TOOL_CALL`) are not run. Only exceptions that are not a tool's failure are raised:
    Ctrl-C and exits, LangGraph's interrupts, and a tool that returns a `Command`, which needs a
    graph.

    **Stopping.** Cancelling a run, or closing a stream early, cancels its tool calls. Threads
    cannot be stopped: they are abandoned, their results are ignored, the interpreter does not wait
    for them, and a tool with eight abandoned threads still running is not started again.

    **Resuming.** An exception that ends a run has the result so far in its attribute
    `tool_loop_result` (see `result_of`). A run whose input ends with tool calls without results
    runs these first, so passing `result.messages` to another run continues where the first one
    stopped.

    **Streaming.** Only a finished turn shows whether its text was the answer or preceded a tool
    call. `stream` holds back the first `hold_back` characters of each turn: shorter texts are
    yielded when their turn has ended, longer ones as they arrive. A longer text before a tool call
    therefore appears in the stream, followed by an empty line. With `hold_back=None` it does not,
    and every text is held back until its turn has ended. A stream cannot return a stop reason, so
    it raises `IncompleteRunError` unless it ends with a complete answer.

    Args:
        model: A chat model with `bind_tools`. Options that are bound with `bind` are kept.
        tools: Functions and LangChain tools; dicts declare tools that the provider runs.
        max_turns: How often the model is invoked at most.
        tool_timeout: Seconds that an attempt of a tool call may take, or None for no limit; or a
            dict of tool names to these, where other tools have 30 seconds.
        max_concurrency: How many tool calls of one turn run at a time; the config can lower it.
        on_limit: What to do when `max_turns` is reached and the model still makes tool calls. These
            calls are not run. `raise`: raise `IncompleteRunError`. `return`: return a result with
            `stop_reason="turn_limit"`, no text and the calls in `pending`. `answer`: invoke the
            model once more without tools; `stop_reason` is `answered_at_limit`.
        forced_first: Whether the first turn must call a tool, or the name of that tool. Later turns
            are free, so that a forced call does not repeat endlessly.
        approve: Tool name to a function that gets a copy of the tool call and returns `True`,
            `False`, `Reject(reason)`, `Edit(args)` or `Pause()`; it may be async. It decides about
            the calls of a turn in order, before any of them runs.
        repeatable: Names of tools whose calls may be retried when they raise or take too long. A
            tool can declare this itself: `metadata` or `extras` with `idempotent` (or MCP's
            `idempotentHint`, `readOnlyHint`) set to True. A `ToolException` is never retried.
        max_retries: How often such a call is retried.
        backoff: Returns the seconds to wait after the given number of failed attempts.
        max_output_chars: How many characters of a tool's result the model gets. A longer result is
            truncated and ends with a notice.
        cache: Whether an identical tool call reuses its result within a run; or the names of the
            tools for which it does.
        inject: Values for arguments that are marked as `InjectedToolArg`. The model does not see
            these arguments and cannot set them. Names of other arguments are rejected. The values
            are redacted in error messages for the model; the error in the call's record has them.
        hold_back: How many characters of a turn `stream` holds back; see above.

    Raises:
        InvalidToolError: A tool cannot be run, or an argument that must be injected has no value.
        InvalidOptionError: An option is not valid, or the model cannot bind tools.
    """

    def __init__(  # noqa: PLR0913 - keyword-only options
        self,
        model: ChatModel,
        tools: Sequence[LoopTool] = (),
        *,
        max_turns: int = 10,
        tool_timeout: float | Mapping[str, float | None] | None = DEFAULT_TIMEOUT,
        max_concurrency: int = 10,
        on_limit: OnLimit = "raise",
        forced_first: bool | str = False,
        approve: Mapping[str, Approver] | None = None,
        repeatable: Collection[str] = (),
        max_retries: int = 2,
        backoff: Callable[[int], float] = exponential_backoff,
        max_output_chars: int | None = 100_000,
        cache: bool | Collection[str] = False,
        inject: Mapping[str, object] | None = None,
        hold_back: int | None = 300,
    ) -> None:
        self.model = model
        self.settings = Settings(
            box=collect_tools(tools, inject or {}),
            max_turns=max_turns,
            tool_timeout=tool_timeout,
            max_concurrency=max_concurrency,
            on_limit=on_limit,
            forced_first=forced_first,
            approve=approve or {},
            repeatable=repeatable,
            max_retries=max_retries,
            backoff=backoff,
            max_output_chars=max_output_chars,
            cache=cache,
            inject=inject or {},
            hold_back=hold_back,
        )
        self._threads = execution.Threads()
        self._bound_model = execution.BoundModel(model, self.settings)

    def invoke(
        self, input: LoopInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> ToolLoopResult:
        """Run until the model answers.

        Args:
            input: Text, a message, a list of messages, a dict with `messages`, or a prompt value.
            config: LangChain's config: callbacks, tags, `max_concurrency`, ...
            **kwargs: Options for the model.

        Raises:
            IncompleteRunError: `max_turns` was reached, and `on_limit` is "raise".
        """

        def run(given: LoopInput, config: RunnableConfig) -> ToolLoopResult:
            *_, last = self._run(given, config, streams=False, options=kwargs)
            return _result_in(last)

        return cast("ToolLoopResult", self._call_with_config(cast("Any", run), input, config))

    async def ainvoke(
        self, input: LoopInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> ToolLoopResult:
        """Run until the model answers; see `invoke`."""

        async def run(given: LoopInput, config: RunnableConfig) -> ToolLoopResult:
            async with aclosing(self._arun(given, config, streams=False, options=kwargs)) as stream:
                async for last in stream:  # noqa: B007 - only the last event is used
                    pass
            return _result_in(last)

        return cast(
            "ToolLoopResult", await self._acall_with_config(cast("Any", run), input, config)
        )

    def stream(
        self, input: LoopInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[str]:
        """Yield the text of the answer as it arrives.

        Args:
            input: Text, a message, a list of messages, a dict with `messages`, or a prompt value.
            config: LangChain's config.
            **kwargs: Options for the model.

        Raises:
            IncompleteRunError: The run ended without a complete answer.
        """
        return self._emit(input, config, _AnswerText(self.settings.hold_back).feed, kwargs)

    def astream(
        self, input: LoopInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[str]:
        """Yield the text of the answer as it arrives; see `stream`."""
        return self._aemit(input, config, _AnswerText(self.settings.hold_back).feed, kwargs)

    def events(
        self, input: LoopInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[LoopEvent]:
        """Yield every step as it happens; the last event has the result.

        Args:
            input: Text, a message, a list of messages, a dict with `messages`, or a prompt value.
            config: LangChain's config.
            **kwargs: Options for the model.

        Raises:
            IncompleteRunError: `max_turns` was reached, and `on_limit` is "raise".
        """
        return self._emit(input, config, lambda event: [event], kwargs)

    def aevents(
        self, input: LoopInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[LoopEvent]:
        """Yield every step as it happens; see `events`."""
        return self._aemit(input, config, lambda event: [event], kwargs)

    def text(self) -> ToolLoopText:
        """Return this loop as a runnable whose output is the text of the answer.

        Use it before a step that expects text, or as a tool of another loop or agent:

        ```python
        loop.text().as_tool(arg_types={"messages": str}, name="expert", description="...")
        ```
        """
        return ToolLoopText(self)

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """The configurable fields of the model."""
        return self.model.config_specs

    @property
    def InputType(self) -> Any:  # noqa: N802 - LangChain's name
        """The input of a chat model, or a dict with `messages`."""
        return self.model.InputType | dict[str, Any]

    @property
    def OutputType(self) -> Any:  # noqa: N802 - LangChain's name
        """A `ToolLoopResult`; pieces of text when streamed."""
        return Any

    def __repr__(self) -> str:
        return f"ToolLoop({type(self.model).__name__}, tools: {self.settings.box.names()})"

    def _run(
        self, given: LoopInput, config: RunnableConfig, *, streams: bool, options: execution.Options
    ) -> Generator[LoopEvent]:
        run = Run(_settings_for(config, self.settings), parse_input(given), time.monotonic)
        with run.attached_to_errors():
            while run.stop_reason is None:
                if run.calls:
                    step = execution.run_tools(run, self._threads, config)
                else:
                    step = self._bound_model.invoke(run, config, streams=streams, options=options)
                with closing(step):
                    for _ in step:
                        yield from run.take_events()
        yield run.finish()

    async def _arun(
        self, given: LoopInput, config: RunnableConfig, *, streams: bool, options: execution.Options
    ) -> AsyncGenerator[LoopEvent]:
        clock = asyncio.get_running_loop().time
        run = Run(_settings_for(config, self.settings), parse_input(given), clock)
        with run.attached_to_errors():
            while run.stop_reason is None:
                if run.calls:
                    step = execution.arun_tools(run, self._threads, config)
                else:
                    step = self._bound_model.ainvoke(run, config, streams=streams, options=options)
                async with aclosing(step):
                    async for _ in step:
                        for event in run.take_events():
                            yield event
        yield run.finish()

    def _emit(
        self,
        given: LoopInput,
        config: RunnableConfig | None,
        select: _Selector[_T],
        options: execution.Options,
    ) -> Iterator[_T]:
        """Yield what `select` returns for each event, traced as one run."""
        opened: list[Generator[LoopEvent]] = []

        def transform(inputs: Iterator[LoopInput], config: RunnableConfig) -> Iterator[_T]:
            for each in inputs:
                opened.append(self._run(each, config, streams=True, options=options))
                for event in opened[-1]:
                    yield from select(event)

        try:
            yield from self._transform_stream_with_config(
                iter([given]), cast("Any", transform), config
            )
        finally:
            for run in opened:  # langchain-core does not close a stream that is closed early
                run.close()

    async def _aemit(
        self,
        given: LoopInput,
        config: RunnableConfig | None,
        select: _Selector[_T],
        options: execution.Options,
    ) -> AsyncIterator[_T]:
        """Yield what `select` returns for each event, traced as one run."""

        async def single() -> AsyncIterator[LoopInput]:
            yield given

        async def transform(
            inputs: AsyncIterator[LoopInput], config: RunnableConfig
        ) -> AsyncIterator[_T]:
            async for each in inputs:
                run = self._arun(each, config, streams=True, options=options)
                async with aclosing(run):
                    async for event in run:
                        for selected in select(event):
                            yield selected

        stream = self._atransform_stream_with_config(single(), cast("Any", transform), config)
        async with aclosing(cast("AsyncGenerator[_T]", stream)):
            async for selected in stream:
                yield selected


class ToolLoopText(Runnable[LoopInput, str]):
    """A loop whose output is the text of the answer. Made by `ToolLoop.text`.

    Its methods accept the same input as those of `ToolLoop`, and raise `IncompleteRunError` if the
    run ends without a complete answer.
    """

    def __init__(self, loop: ToolLoop) -> None:
        self.loop = loop

    def invoke(self, input: LoopInput, config: RunnableConfig | None = None, **kwargs: Any) -> str:
        """Return the text of the answer."""
        return self.loop.invoke(input, config, **kwargs).answer()

    async def ainvoke(
        self, input: LoopInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> str:
        """Return the text of the answer."""
        return (await self.loop.ainvoke(input, config, **kwargs)).answer()

    def stream(
        self,
        input: LoopInput,
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Iterator[str]:
        """Yield the text of the answer as it arrives."""
        return self.loop.stream(input, config, **kwargs)

    def astream(
        self,
        input: LoopInput,
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[str]:
        """Yield the text of the answer as it arrives."""
        return self.loop.astream(input, config, **kwargs)


class _AnswerText:
    """Select the text of the answer from the events.

    Text before a tool call is not part of the answer, which is only known when the call arrives. So
    the first characters of each turn are held back: all of a short text, and the beginning of a
    long one.

    Args:
        hold_back: How many characters; None holds back everything until the turn has ended.
    """

    def __init__(self, hold_back: int | None) -> None:
        self._hold_back = hold_back
        self._held: list[str] = []
        self._is_open = False
        self._is_answer = True
        self._needs_break = False

    def feed(self, event: events.LoopEvent) -> list[str]:
        """Return the pieces of text that are certain now.

        Raises:
            IncompleteRunError: The run ended without a complete answer.
        """
        match event:
            case events.TurnStarted():
                self._held, self._is_open, self._is_answer = [], False, True
            case events.TextDelta(text=text) if self._is_answer:
                self._held.append(text)
                if self._hold_back is not None and self._is_open | (
                    sum(map(len, self._held)) > self._hold_back
                ):
                    return self._release()
            case events.ToolCallAnnounced():
                self._withdraw()
            case events.TurnFinished(message=message):
                if message.tool_calls or message.invalid_tool_calls:
                    self._withdraw()
                return self._release()
            case events.LoopFinished(result=result):
                answer = result.answer()
                return [answer] if result.stop_reason == "returned_directly" else []
        return []

    def _release(self) -> list[str]:
        pieces, self._held = [piece for piece in self._held if piece], []
        if pieces and self._needs_break:
            pieces, self._needs_break = ["\n\n", *pieces], False
        self._is_open |= bool(pieces)
        return pieces

    def _withdraw(self) -> None:
        """Drop the text that is held back; separate released text from what follows."""
        self._needs_break |= self._is_open
        self._held, self._is_open, self._is_answer = [], False, False


def _settings_for(config: RunnableConfig, settings: Settings) -> Settings:
    """Return the settings with the concurrency limit of the config, if it is lower."""
    limit = config.get("max_concurrency")
    if not limit or limit >= settings.max_concurrency:
        return settings
    return replace(settings, max_concurrency=limit)


def _result_in(last: LoopEvent) -> ToolLoopResult:
    assert isinstance(last, LoopFinished)  # noqa: S101 - a run ends with it or raises
    return last.result
