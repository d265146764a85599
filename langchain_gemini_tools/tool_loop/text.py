"""The answer's text out of a run's events, as early as it can be told from other text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.runnables import Runnable

from langchain_gemini_tools.tool_loop import events

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from langchain_core.runnables import RunnableConfig

    from langchain_gemini_tools.tool_loop.loop import ToolLoop


class AnswerText:
    """Takes in events and gives out the text that belongs to the answer.

    What a model says before it calls a tool is not the answer, and looks just like it until the
    call comes. So the first characters of each turn are held back: all of a short text, which an
    announcement mostly is, and only the beginning of a long one.

    Args:
        hold_back: How many characters; None holds everything until the turn has ended.
    """

    def __init__(self, hold_back: int | None) -> None:
        self._hold_back = hold_back
        self._held: list[str] = []
        self._is_open = False
        self._is_answer = True
        self._needs_break = False

    def feed(self, event: events.LoopEvent) -> list[str]:
        """The pieces of text that are certain now.

        Raises:
            IncompleteRunError: The run ended without a whole answer.
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
        """Drop what was held back; what went out already is set apart from what will follow."""
        self._needs_break |= self._is_open
        self._held, self._is_open, self._is_answer = [], False, False


class TextOnly(Runnable[Any, str]):
    """A loop of which only the answer's text is wanted, whole and streamed."""

    def __init__(self, loop: ToolLoop) -> None:
        self.loop = loop

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> str:
        """The text of the answer."""
        return self.loop.invoke(input, config, **kwargs).answer()

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> str:
        """The text of the answer."""
        return (await self.loop.ainvoke(input, config, **kwargs)).answer()

    def stream(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Iterator[str]:
        """The text of the answer as it is produced."""
        return self.loop.stream(input, config, **kwargs)

    def astream(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[str]:
        """The text of the answer as it is produced."""
        return self.loop.astream(input, config, **kwargs)
