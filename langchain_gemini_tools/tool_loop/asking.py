"""Asking the model once: with tools free, forced or off; whole or in pieces."""

from __future__ import annotations

from contextlib import aclosing, closing
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import AIMessageChunk
from langchain_core.runnables import RunnableBinding
from langchain_core.runnables.config import merge_configs
from langchain_core.runnables.configurable import DynamicRunnable

from langchain_gemini_tools.errors import InvalidOptionError
from langchain_gemini_tools.tool_loop import events

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Iterator

    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import Runnable, RunnableConfig

    from langchain_gemini_tools.tool_loop.run import Choice, Run
    from langchain_gemini_tools.tool_loop.settings import Settings


class Asking:
    """The model with its tools bound in each way that is needed, once."""

    def __init__(self, model: Runnable[Any, Any], settings: Settings) -> None:
        self._model = model
        self._settings = settings
        self._bound: dict[Choice, Runnable[Any, Any]] = {}
        self._model_for("forced" if settings.forced_first else "auto", {})  # refuse at once

    def ask(
        self, run: Run, config: RunnableConfig, *, streams: bool, options: dict[str, Any]
    ) -> Iterator[events.LoopEvent]:
        """Ask the model once more, and tell what it says."""
        yield run.start_turn()
        model, messages = self._model_for(run.choice(), config), run.messages
        if not streams:
            yield from run.take_answer(model.invoke(messages, config, **options))
            return
        pieces: list[Any] = []
        arriving = cast("Generator[Any]", model.stream(messages, config, **options))
        with closing(arriving):
            for piece in arriving:
                pieces.append(piece)
                yield from _told_by(piece, run)
        yield from run.take_answer(_whole(pieces))

    async def aask(
        self, run: Run, config: RunnableConfig, *, streams: bool, options: dict[str, Any]
    ) -> AsyncGenerator[events.LoopEvent]:
        """Ask the model once more, and tell what it says."""
        yield run.start_turn()
        model, messages = self._model_for(run.choice(), config), run.messages
        if not streams:
            for event in run.take_answer(await model.ainvoke(messages, config, **options)):
                yield event
            return
        pieces: list[Any] = []
        arriving = cast("AsyncGenerator[Any]", model.astream(messages, config, **options))
        async with aclosing(arriving):
            async for piece in arriving:
                pieces.append(piece)
                for event in _told_by(piece, run):
                    yield event
        for event in run.take_answer(_whole(pieces)):
            yield event

    def _model_for(self, choice: Choice, config: RunnableConfig) -> Runnable[Any, Any]:
        model = _chosen_by(config, self._model)
        if model is not self._model:
            return self._bind(model, choice)
        if choice not in self._bound:
            self._bound[choice] = self._bind(model, choice)
        return self._bound[choice]

    def _bind(self, model: Runnable[Any, Any], choice: Choice) -> Runnable[Any, Any]:
        forced = self._settings.forced_first
        word = {"auto": None, "off": "none", "forced": "any" if forced is True else forced}
        return cast("Runnable[Any, Any]", _bind(model, self._settings.box.declared, word[choice]))


def _chosen_by(config: RunnableConfig, model: Any) -> Any:
    """The model that a run's config makes of a configurable one: tools are bound to that."""
    if isinstance(model, DynamicRunnable):
        return model.prepare(config)[0]
    if isinstance(model, RunnableBinding):
        chosen = _chosen_by(merge_configs(model.config, config), model.bound)
        if chosen is not model.bound:
            return chosen.bind(**model.kwargs).with_config(model.config)
    return model


def _bind(model: Any, tools: list[Any], choice: Any) -> Any:
    """The model with the tools; options that were bound to it before are kept."""
    if not tools:
        return model
    if isinstance(model, RunnableBinding):
        if "tools" in model.kwargs:
            raise InvalidOptionError(
                "The model has tools bound to it already. Give the model as it was before "
                "`bind_tools`, and all the tools to the loop: it has to run them."
            )
        # `RunnableBinding.bind_tools` is the inner model's own, and forgets the rest.
        bound = _bind(model.bound, tools, choice).bind(**model.kwargs)
        return bound.with_config(model.config)
    if not hasattr(model, "bind_tools"):
        raise InvalidOptionError(
            f"A {type(model).__name__} has no `bind_tools`: give the chat model itself."
        )
    return model.bind_tools(tools, **({} if choice is None else {"tool_choice": choice}))


def _told_by(piece: Any, run: Run) -> Iterator[events.LoopEvent]:
    """What a chunk tells; a call first, because then its text is not the answer's."""
    is_chunk = isinstance(piece, AIMessageChunk)
    for call in piece.tool_call_chunks if is_chunk else getattr(piece, "tool_calls", []):
        if call["name"]:
            yield run.event(events.ToolCallAnnounced, name=call["name"])
    if piece.text:
        yield run.event(events.TextDelta, text=str(piece.text))


def _whole(pieces: list[Any]) -> BaseMessage:
    """The message that the chunks add up to; a model that does not stream gives one that is."""
    whole = pieces[0] + pieces[1:] if isinstance(pieces[0], AIMessageChunk) else pieces[-1]
    return cast("BaseMessage", whole)
