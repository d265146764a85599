"""What a run of `ToolLoop` gives back: the result as a whole, and each call in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from langchain_core.messages.ai import UsageMetadata

from langchain_gemini_tools.errors import GeminiToolsError
from langchain_gemini_tools.facts.finish_reasons import finish_reason_of

StopReason = Literal[
    "answered",
    "returned_directly",
    "answered_at_limit",
    "turn_limit",
    "awaiting_approval",
    "truncated",
    "blocked",
    "incomplete",
    "empty",
    "failed",
]
"""Why a run stopped.

- `answered`: the model answered in full, without asking for another call.
- `returned_directly`: tools with `return_direct` answered in its place.
- `answered_at_limit`: `max_turns` were used up, and with `on_limit="answer"` the model was made to
  answer with what it knew by then.
- `turn_limit`: `max_turns` were used up, and there is no answer.
- `awaiting_approval`: an approval hook asked to pause; hand the messages back to go on.
- `truncated`: the answer was cut at the limit of tokens.
- `blocked`: the provider withheld the answer, or the model declined to give one.
- `incomplete`: the model stopped for another reason than being done, such as a tool call that the
  provider rejected, or a finish reason of Gemini's that is not known.
- `empty`: the model said nothing.
- `failed`: an exception ended the run; only seen on that exception's `result`.
"""

ToolCallStatus = Literal["succeeded", "cached", "failed", "timed_out", "rejected", "skipped"]
"""How a call ended. `skipped`: it was never started, and its message says why."""

_ANSWERS: frozenset[StopReason] = frozenset({"answered", "returned_directly", "answered_at_limit"})

_EXPLANATIONS: dict[StopReason, str] = {
    "turn_limit": "The run used up its {turns} turns without coming to an answer.",
    "awaiting_approval": "The run waits for the approval of {pending}.",
    "truncated": "The answer was cut at the limit of tokens.",
    "blocked": "The answer was withheld ({finish_reason}).",
    "incomplete": "The answer may not be complete ({finish_reason}).",
    "empty": "The model answered with nothing.",
    "failed": "The run failed in turn {turns}.",
}


@dataclass(frozen=True)
class ToolCallRecord:
    """One call of a run, from its request to its answer.

    Attributes:
        turn: The turn whose message asked for it, counted from 1; 0 if the input did.
        call: Name, arguments and id; with the arguments it ran with, where approval edited them.
        status: How it ended.
        message: What the model was told.
        attempts: How often it was started.
        duration: Seconds from its first start to its end, pauses included; 0 if it never started.
        error: What the tool raised last, if it failed.
    """

    turn: int
    call: ToolCall
    status: ToolCallStatus
    message: ToolMessage
    attempts: int = 0
    duration: float = 0.0
    error: BaseException | None = None


@dataclass(frozen=True)
class ToolLoopResult:
    """A whole run: everything that was said, and why it stopped.

    Attributes:
        messages: The input followed by everything the run produced: a history to go on with.
        new_messages: Only what the run produced.
        stop_reason: Why it stopped; see `StopReason`.
        turns: How often the model was asked.
        calls: Every call, in the order of the messages.
        pending: Calls that the messages ask for and do not answer. A run that is given these
            messages carries them out first.
        usage: The tokens of all turns together; None if the model told none.
    """

    messages: Sequence[BaseMessage]
    new_messages: Sequence[BaseMessage]
    stop_reason: StopReason
    turns: int
    calls: Sequence[ToolCallRecord] = ()
    pending: Sequence[ToolCall] = ()
    usage: UsageMetadata | None = None

    @property
    def is_answered(self) -> bool:
        """Whether the run came to a whole answer."""
        return self.stop_reason in _ANSWERS

    @property
    def message(self) -> AIMessage | ToolMessage | None:
        """The last message that the run produced; None if it came to none."""
        return self.new_messages[-1] if self.new_messages else None  # type: ignore[return-value]

    @property
    def text(self) -> str:
        """The text of the answer; also of one that was cut, so look at `stop_reason`.

        Empty when the last message asks for calls or answers them: that is no answer.
        """
        if self.stop_reason == "returned_directly":
            turn = self.calls[-1].turn
            return "\n".join(str(c.message.text) for c in self.calls if c.turn == turn)
        if self.message is None or self.message.type != "ai" or self.message.tool_calls:
            return ""
        return str(self.message.text)

    def answer(self) -> str:
        """The text of a whole answer.

        Raises:
            IncompleteRunError: The run stopped for another reason.
        """
        if not self.is_answered:
            raise IncompleteRunError(self)
        return self.text


class IncompleteRunError(GeminiToolsError):
    """A run stopped without a whole answer, where only an answer could be given back.

    Attributes:
        tool_loop_result: The run until then; its `messages` can be handed to another run.
    """

    def __init__(self, result: ToolLoopResult) -> None:
        last = result.message
        text = _EXPLANATIONS[result.stop_reason].format(
            turns=result.turns,
            pending=", ".join(repr(call["name"]) for call in result.pending),
            finish_reason=finish_reason_of(last) if isinstance(last, AIMessage) else None,
        )
        super().__init__(f"{text} What was said is on this error's `tool_loop_result`.")
        self.tool_loop_result = result


def result_of(error: BaseException) -> ToolLoopResult | None:
    """The run that an exception ended, as far as it had come; None if there is none.

    Its messages can be handed to another run, which goes on where this one stopped.
    """
    waiting, seen = [error], set[int]()
    while waiting:
        link = waiting.pop()
        seen.add(id(link))
        found = getattr(link, "tool_loop_result", None)
        if isinstance(found, ToolLoopResult):
            return found
        links = (link.__context__, link.__cause__)  # `asyncio.timeout` raises another error
        waiting += [each for each in links if each is not None and id(each) not in seen]
    return None
