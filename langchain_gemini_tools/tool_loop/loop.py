"""`ToolLoop`: ask the model, run what it calls, tell it the results, until it answers.

This file is the two ways of running it, sync and async. What is next is decided in `run`, which
call is due in `turn`; threads and tasks are in `running`.
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
from contextlib import aclosing
from dataclasses import replace
from typing import Any, cast

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.utils import ConfigurableFieldSpec

from langchain_gemini_tools.tool_loop import running
from langchain_gemini_tools.tool_loop.asking import Asking
from langchain_gemini_tools.tool_loop.events import LoopEvent, LoopFinished
from langchain_gemini_tools.tool_loop.result import ToolLoopResult
from langchain_gemini_tools.tool_loop.run import Run, parse_input
from langchain_gemini_tools.tool_loop.settings import (
    DEFAULT_TIMEOUT,
    Approver,
    OnLimit,
    Settings,
    wait_longer_each_time,
)
from langchain_gemini_tools.tool_loop.text import AnswerText, TextOnly
from langchain_gemini_tools.tool_loop.toolbox import LoopTool, collect_tools
from langchain_gemini_tools.tool_loop.turn import copy_call

Pick = Callable[[LoopEvent], Sequence[Any]]


class ToolLoop(Runnable[Any, Any]):
    """A chat model that runs its tools until it has an answer: a loop, and nothing but the loop.

    ```python
    def get_weather(city: str) -> str:
        '''Current weather in a city.'''
        return f"Sunny in {city}"


    loop = ToolLoop(ChatGemini(model="gemini-3-flash-preview"), [get_weather])

    result = loop.invoke("What is the weather in Oslo and Rome?")
    result.text, result.stop_reason, result.turns, result.usage
    result = loop.invoke([*result.messages, HumanMessage("And in Lima?")])

    for piece in loop.stream("What is the weather in Oslo?"):
        print(piece, end="")  # the answer's text alone

    for event in loop.events("What is the weather in Oslo?"):
        print(event)  # every step: `ToolCallStarted`, `ToolCallTimedOut`, `LoopFinished`, ...
    ```

    It works over any LangChain chat model, and is a `Runnable`: `batch`, `with_config`, `|` and
    their async twins work, and callbacks, tags, metadata and context variables reach the model
    and the tools as one tree of runs. The input is text, a message, a list of messages, a dict
    with `messages`, or a prompt's value. Keyword arguments of a call go to the model.
    `invoke` returns a `ToolLoopResult` and `stream` yields text. Where the next step of a chain
    expects text in both cases, use `loop.text()`.

    **Tools never end a run.** Calls of one turn run side by side (sync tools in threads, async
    ones as tasks; an async one of a sync run in an event loop of its own) and are answered in the
    order of the calls. A tool that fails or takes too long, an unknown tool, arguments that do not
    fit: the model is told, in words it can act on. A call that was cut off, or that the provider
    refused (`UNEXPECTED_TOOL_CALL`), is not run. Only what is no failure of a tool is raised:
    Ctrl-C and the like, LangGraph's interrupts, and a tool's `Command`, which needs a graph.

    **Stopping.** A cancelled run, and a stream that is closed early, cancel what runs. Threads
    cannot be stopped: they are left to themselves, their results go nowhere, no interpreter waits
    for them, and a tool of which eight such threads still run is not started again.

    **Nothing said is lost.** An exception that ends a run has it on its attribute `result` (see
    `result_of`). A run whose input ends with calls that nobody answered carries them out first,
    so handing `result.messages` to another run goes on where the first one stopped.

    **Streaming.** Only a finished turn shows whether its text was the answer or the announcement of
    a call. `stream` holds back the first `hold_back` characters of each turn: shorter texts come
    when their turn has ended, longer ones as they are produced. An announcement that is longer
    than that is seen in the stream, followed by an empty line; `hold_back=None` rules it out, and
    holds every text until its turn has ended. A stream cannot tell why it stopped, so it raises
    `IncompleteRunError` wherever it did not end with a whole answer.

    Args:
        model: A chat model with `bind_tools`; what is bound to it by `bind` is kept.
        tools: Functions and LangChain tools; dicts declare tools that the provider runs.
        max_turns: How often the model is asked at most.
        tool_timeout: Seconds that an attempt of a call may take, or None; also by tool name, where
            tools that are not named have 30 seconds.
        max_concurrency: How many calls of one turn run at a time; less if the config says so.
        on_limit: What to do when the turns are used up and the model still wants to call. These
            calls are not run. `raise`: `IncompleteRunError`. `return`: an result with
            `stop_reason="turn_limit"`, no text and the calls `pending`. `answer`: ask once more,
            with the tools switched off; `stop_reason` is `answered_at_limit`.
        forced_first: Whether the first turn has to call a tool, or the name of the one; the others
            are free, so that a forced call does not repeat for ever.
        approve: Tool name to a function that gets a copy of the tool call and returns `True`,
            `False`, `Reject(reason)`, `Edit(args)` or `Pause()`; it may be async. It is asked about
            the calls of a turn in order, before any of them runs.
        repeatable: Names of tools that may be repeated when they raise or take too long. Tools can
            say it themselves: `metadata` or `extras` with `idempotent` (or MCP's `idempotentHint`,
            `readOnlyHint`) set to True. A `ToolException` is an answer, and not repeated.
        max_retries: How often such a call is repeated.
        backoff: The seconds to wait after so many failed attempts.
        max_output_chars: How many characters of a result the model gets; a cut is announced to it.
        cache: Whether a call that was answered in this run is not run again when it is repeated
            word for word; or the names of the tools for which it is so.
        inject: Values for arguments that are marked as `InjectedToolArg`. The model never sees
            these arguments, and what it makes up for them is dropped. What a failure quotes of the
            values is taken out of what the model is told; the error on the call's record has it.
        hold_back: How many characters of a turn `stream` holds back; see above.
    """

    def __init__(  # noqa: PLR0913 - each one is an option that its caller names
        self,
        model: Runnable[Any, Any],
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
        backoff: Callable[[int], float] = wait_longer_each_time,
        max_output_chars: int | None = 100_000,
        cache: bool | Collection[str] = False,
        inject: Mapping[str, Any] | None = None,
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
        self._threads = running.Threads()
        self._asking = Asking(model, self.settings)

    def invoke(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> ToolLoopResult:
        """Run until there is an answer.

        Raises:
            IncompleteRunError: The turns were used up, and `on_limit` is "raise".
        """

        def run(given: Any, config: RunnableConfig) -> ToolLoopResult:
            *_, last = self._run(given, config, streams=False, options=kwargs)
            return _result_in(last)

        return cast("ToolLoopResult", self._call_with_config(cast("Any", run), input, config))

    async def ainvoke(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> ToolLoopResult:
        """Run until there is an answer; see `invoke`."""

        async def run(given: Any, config: RunnableConfig) -> ToolLoopResult:
            async with aclosing(self._arun(given, config, streams=False, options=kwargs)) as told:
                async for last in told:  # noqa: B007 - only the last one counts
                    pass
            return _result_in(last)

        return cast(
            "ToolLoopResult", await self._acall_with_config(cast("Any", run), input, config)
        )

    def stream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[str]:
        """The answer's text as it is produced.

        Raises:
            IncompleteRunError: The run ended without a whole answer.
        """
        return self._tell(input, config, AnswerText(self.settings.hold_back).feed, kwargs)

    def astream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[str]:
        """The answer's text as it is produced; see `stream`."""
        return self._atell(input, config, AnswerText(self.settings.hold_back).feed, kwargs)

    def events(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[LoopEvent]:
        """Every step as it happens; the last event has the result."""
        return self._tell(input, config, lambda event: [event], kwargs)

    def aevents(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[LoopEvent]:
        """Every step as it happens; the last event has the result."""
        return self._atell(input, config, lambda event: [event], kwargs)

    def text(self) -> TextOnly:
        """This loop as a runnable that gives the answer's text, for `|` with what takes text.

        And for other loops and agents, as one of their tools:

        ```python
        loop.text().as_tool(arg_types={"messages": str}, name="expert", description="...")
        ```
        """
        return TextOnly(self)

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """What can be configured of the model."""
        return self.model.config_specs

    @property
    def InputType(self) -> Any:  # noqa: N802 - LangChain's name
        """What a chat model takes, or a dict with `messages`."""
        return self.model.InputType | dict[str, Any]

    @property
    def OutputType(self) -> Any:  # noqa: N802 - LangChain's name
        """An `ToolLoopResult`; pieces of text where it is streamed."""
        return Any

    def __repr__(self) -> str:
        return f"ToolLoop({type(self.model).__name__}, tools: {self.settings.box.names()})"

    def _run(
        self, given: Any, config: RunnableConfig, *, streams: bool, options: dict[str, Any]
    ) -> Generator[LoopEvent]:
        settings = _settings_for(config, self.settings)
        run = Run(settings, parse_input(given), time.monotonic, self._threads.has_room)
        with run.kept_on_errors():
            while run.stop_reason is None:
                if run.calls is None:
                    yield from self._asking.ask(run, config, streams=streams, options=options)
                    continue
                for slot in run.calls.to_approve():
                    hook = settings.approve[slot.call["name"]]
                    run.calls.decide(slot, running.ask(hook, copy_call(slot.call)))
                if not run.calls.is_paused:
                    yield from running.run_turn(run.calls, self._threads, config)
                yield from run.finish_calls()
        yield run.finish()

    async def _arun(
        self, given: Any, config: RunnableConfig, *, streams: bool, options: dict[str, Any]
    ) -> AsyncGenerator[LoopEvent]:
        settings = _settings_for(config, self.settings)
        clock = asyncio.get_running_loop().time
        run = Run(settings, parse_input(given), clock, self._threads.has_room)
        with run.kept_on_errors():
            while run.stop_reason is None:
                if run.calls is None:
                    told = self._asking.aask(run, config, streams=streams, options=options)
                    async with aclosing(told):
                        async for event in told:
                            yield event
                    continue
                for slot in run.calls.to_approve():
                    hook = settings.approve[slot.call["name"]]
                    run.calls.decide(slot, await running.aask(hook, copy_call(slot.call)))
                if not run.calls.is_paused:
                    told = running.arun_turn(run.calls, self._threads, config)
                    async with aclosing(told):
                        async for event in told:
                            yield event
                for event in run.finish_calls():
                    yield event
        yield run.finish()

    def _tell(
        self, given: Any, config: RunnableConfig | None, pick: Pick, options: dict[str, Any]
    ) -> Iterator[Any]:
        """What `pick` makes of each event, traced as one run."""
        opened: list[Generator[LoopEvent]] = []

        def transform(inputs: Iterator[Any], config: RunnableConfig) -> Iterator[Any]:
            for each in inputs:
                opened.append(self._run(each, config, streams=True, options=options))
                for event in opened[-1]:
                    yield from pick(event)

        try:
            yield from self._transform_stream_with_config(
                iter([given]), cast("Any", transform), config
            )
        finally:
            for run in opened:  # core leaves a stream that is closed early to the garbage collector
                run.close()

    async def _atell(
        self, given: Any, config: RunnableConfig | None, pick: Pick, options: dict[str, Any]
    ) -> AsyncIterator[Any]:
        """What `pick` makes of each event, traced as one run."""

        async def single() -> AsyncIterator[Any]:
            yield given

        async def transform(
            inputs: AsyncIterator[Any], config: RunnableConfig
        ) -> AsyncIterator[Any]:
            async for each in inputs:
                run = self._arun(each, config, streams=True, options=options)
                async with aclosing(run):
                    async for event in run:
                        for picked in pick(event):
                            yield picked

        told = self._atransform_stream_with_config(single(), cast("Any", transform), config)
        async with aclosing(cast("AsyncGenerator[Any]", told)):
            async for picked in told:
                yield picked


def _settings_for(config: RunnableConfig, settings: Settings) -> Settings:
    """The settings, with no more calls at a time than the config allows."""
    limit = config.get("max_concurrency")
    if not limit or limit >= settings.max_concurrency:
        return settings
    return replace(settings, max_concurrency=limit)


def _result_in(last: LoopEvent) -> ToolLoopResult:
    assert isinstance(last, LoopFinished)  # noqa: S101 - a run ends with it or raises
    return last.result
