"""`trace`: show a run in a terminal, a notebook, a file or a diagram.

`Outliner` decides which texts and labels are shown, in which order. All texts of its tree have
passed through `clean`. `tree.py` draws it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, overload

from langchain_core.messages import AIMessage
from langchain_core.tracers.context import register_configure_hook

from langchain_gemini_tools.display import tree
from langchain_gemini_tools.display.callbacks import RunClock, Span
from langchain_gemini_tools.display.content import (
    TracedBlock,
    clean,
    render_arguments,
    render_error,
    render_value,
    replace_unencodable,
)
from langchain_gemini_tools.display.traced import (
    Cost,
    TracedMessage,
    TracedRun,
    TracedStep,
    TracedToolCall,
    TracedToolResult,
    TracedTurn,
    read_run,
)
from langchain_gemini_tools.display.tree import Node
from langchain_gemini_tools.facts.finish_reasons import finish_of

if TYPE_CHECKING:
    from rich.console import RenderableType

_WIDTH = 100

_PROCESS_CLOCK = RunClock()
"""Measures the runs that have no clock. LangChain adds it to the callbacks of every run."""
register_configure_hook(
    ContextVar("langchain_gemini_tools_clock", default=_PROCESS_CLOCK),
    inheritable=True,
)


def trace(
    source: Any,
    clock: RunClock | None = None,
    *,
    max_chars: int = 2000,
    max_lines: int = 16,
    unfold: bool = False,
) -> Trace:
    """Show a run as a tree: turns, tool calls, results, time, tokens and cost.

    ```python
    result = agent.invoke({"messages": question})
    trace(result).show()               # in colours; in a notebook, `trace(result)` is enough
    trace(result).to_html("run.html")  # a file to share
    ```

    Once this module is imported, every run of LangChain in the process is measured, so that a trace
    has times. What is not known is left out. Costs come from the tables of `genai-prices`; "≥"
    precedes a sum that is not complete (a model without a price, searches that are billed
    separately).

    A trace shows the content of the messages, so be careful when you share it. Known
    credentials (the keys in use, and texts that look like API keys, tokens or private keys) are
    redacted; other secrets cannot be recognized. Control characters and marks that reverse text are
    shown as codes.

    Args:
        source: Messages (one, a list, the chunks of a stream), an agent's state
            (`{"messages": [...]}`, or what `get_state` returns), the result of a `ToolLoop`, the
            output of `with_structured_output(..., include_raw=True)`, or an error.
        clock: A `RunClock` that was among the callbacks of the run, if there was one.
        max_chars: Longer texts are cut and end with a notice.
        max_lines: The same for lines, in plain text and in a terminal.
        unfold: Show thoughts, system messages and raw responses in full.

    Raises:
        TypeError: `source` has no messages.
    """
    run = read_run(source, clock or _PROCESS_CLOCK, is_clock_of_run=clock is not None)
    return Trace(run, max_chars=max_chars, max_lines=max_lines, unfold=unfold)


class Trace:
    """A run in all its formats. Made by `trace`.

    `str()` is plain text; rich, Jupyter and IPython choose their format automatically.

    Attributes:
        run: The run as values.
    """

    def __init__(self, run: TracedRun, *, max_chars: int, max_lines: int, unfold: bool) -> None:
        self.run = run
        self._root = Outliner(run, max_chars).render()
        self._max_lines = max_lines
        self._unfold = unfold

    def show(self, file: TextIO | None = None) -> None:
        """Print the tree, in colours if rich is installed and the terminal supports them.

        Args:
            file: Where to print it; stdout by default.
        """
        out = replace_unencodable(file or sys.stdout)
        try:
            from rich.console import Console
        except ImportError:
            print(self, file=out)
        else:
            Console(file=out).print(self)

    @overload
    def to_html(self, path: None = None) -> str: ...
    @overload
    def to_html(self, path: str | PathLike[str]) -> Path: ...
    def to_html(self, path: str | PathLike[str] | None = None) -> str | Path:
        """Write a self-contained page without scripts to `path`, or return it as text.

        Args:
            path: The file to write. Without it the page is returned.
        """
        page = tree.render_page(self._root, unfold=self._unfold)
        if path is None:
            return page
        written = Path(path)
        written.write_text(page, encoding="utf-8")
        return written

    def to_mermaid(self) -> str:
        """Return a flowchart of the run for Markdown; see https://mermaid.js.org."""
        return tree.render_mermaid(self._root)

    def __str__(self) -> str:
        return tree.render_plain(
            self._root, width=_WIDTH, max_lines=self._max_lines, unfold=self._unfold
        )

    def __repr__(self) -> str:
        return f"<Trace: {' · '.join(self._root.facts)}>"

    def __rich__(self) -> RenderableType:
        return tree.render_tree(self._root, max_lines=self._max_lines, unfold=self._unfold)

    def _repr_html_(self) -> str:
        return tree.render_fragment(self._root, unfold=self._unfold)

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._repr_html_()}


# The tree of a run

_ANSWERED = {"", "answered", "returned_directly"}
"""Stop reasons of a `ToolLoop` that need no note."""
_BLOCKS = {"text", "thinking", "server", "source"}
"""Kinds of blocks with a style; the types of unknown blocks are untrusted text."""
_LONG_ARGUMENTS = 160
_LONG_VALUE = 400
_SHORT_JSON = 80


@dataclass
class Outliner:
    """Builds the tree of one run."""

    run: TracedRun
    max_chars: int

    def render(self) -> Node:
        """Return the tree; its root has the totals of the run."""
        children = [self._step(step) for step in self.run.steps]
        if self.run.has_structured:
            text = self._clean(render_value(self.run.structured))
            children.append(Node("structured", "structured output", text))
        if self.run.failure is not None:
            text = self._clean(render_error(self.run.failure))
            children.append(Node("failure", "failed", text, tone="bad"))
        if self.run.stop_reason not in _ANSWERED and self.run.failure is None:
            text = self._clean(self.run.stop_reason.replace("_", " "))
            children.append(Node("note", "stopped", text, tone="odd"))
        scale = _render_ms(self._milliseconds())
        return Node("run", self._models(), facts=self._totals(), scale=scale, children=children)

    # The first line

    def _models(self) -> str:
        models = dict.fromkeys(turn.model for turn in self.run.turns if turn.model)
        return self._line(", ".join(models)) or "run"

    def _totals(self) -> list[str]:
        turns, calls = self.run.turns, self.run.calls
        counts = f"{_count(len(turns), 'turn')}, {_count(len(calls), 'call')}"
        failed = sum(any(result.is_error for result in call.results) for call in calls)
        if failed:
            counts += f" ({failed} failed)"
        return _known(
            counts,
            _render_ms(self._milliseconds()),
            _sum_tokens(turns),
            _render_cost(self.run.cost),
        )

    def _milliseconds(self) -> float | None:
        """Return the time from the first start to the last end; calls may overlap."""
        return (self._bounds[1] - self._bounds[0]) * 1000 if self._bounds else None

    @cached_property
    def _bounds(self) -> tuple[float, float] | None:
        timed: list[TracedTurn | TracedToolCall] = [*self.run.turns, *self.run.calls]
        spans = [step.span for step in timed if step.span]
        ends = [span.end for span in spans if span.end is not None]
        return (min(span.start for span in spans), max(ends)) if ends else None

    # Steps

    def _step(self, step: TracedStep) -> Node:
        match step:
            case TracedTurn():
                return self._turn(step)
            case TracedMessage():
                return self._message(step)
            case TracedToolResult():
                node = self._result(step)
                node.label = f"{node.label} of {self._line(step.name or step.call_id)}"
                node.children.append(Node("note", "no tool call with this id", tone="odd"))
                return node

    def _message(self, message: TracedMessage) -> Node:
        role = self._line(message.role)
        if [block.kind for block in message.blocks] == ["text"]:
            text = message.blocks[0].text
            is_folded = message.role == "system"
            return Node("said", role, self._clean(text), is_folded=is_folded, size=len(text))
        return Node("said", role, children=[self._block(block) for block in message.blocks])

    def _turn(self, turn: TracedTurn) -> Node:
        message = turn.message
        children = [self._block(block) for block in [*turn.blocks, *turn.sources]]
        children += [self._call(call) for call in turn.calls]
        if raw := _raw_response(message):
            text = self._clean(raw)
            children.append(Node("raw", "raw response", text, is_folded=True, size=len(raw)))
        children += self._endings(message)
        facts = _known(
            _render_ms(turn.milliseconds),
            _first_token(turn),
            _render_usage(turn.usage),
            _render_cost(turn.cost),
            _render_retries(turn.span),
            _count(len(turn.calls), "parallel call") if len(turn.calls) > 1 else "",
        )
        label = f"turn {turn.number}"
        return Node("turn", label, facts=facts, bar=self._bar(turn.span), children=children)

    def _endings(self, message: AIMessage) -> Iterable[Node]:
        metadata = message.response_metadata
        if finish_of(message).outcome not in {"complete", "unspecified"}:
            yield Node("note", "finish reason", self._clean(_finish_text(message)), tone="odd")
        if blocked := metadata.get("block_reason"):
            yield Node("note", "blocked", self._clean(str(blocked)), tone="bad")
        if metadata.get("empty_response"):
            yield Node("note", "empty response", tone="odd")

    def _block(self, block: TracedBlock) -> Node:
        kind = "server" if block.is_server_tool else block.kind
        kind = kind if kind in _BLOCKS else "other"
        label = "" if block.kind == "text" else self._line(block.kind)
        is_folded = block.kind == "thinking" or (kind == "server" and _is_data(block.text))
        text = self._clean(block.text)
        return Node(kind, label, text, is_folded=is_folded, size=len(block.text), image=block.image)

    # Tool calls

    def _call(self, call: TracedToolCall) -> Node:
        arguments = self._line(render_arguments(call.args))
        node = Node("call", self._line(call.name), f"({arguments})", bar=self._bar(call.span))
        if len(arguments) > _LONG_ARGUMENTS:
            shown = self._clean(render_arguments(call.args, separator="\n"))
            node.text = "(…)"
            node.children.append(Node("arguments", "arguments", shown))
        node.facts = _known(
            _render_ms(call.milliseconds),
            _render_retries(call.span),
            *(self._line(note) for note in call.notes),
        )
        if call.invalid is not None:
            node.tone = "bad"
            node.children.append(
                Node("note", "invalid tool call", self._clean(call.invalid), tone="bad")
            )
        node.children += [self._result(result) for result in call.results]
        if not call.results and call.invalid is None:
            node.children.append(self._missing_result(call))
        if any(result.is_error for result in call.results):
            node.tone = "bad"
        return node

    def _missing_result(self, call: TracedToolCall) -> Node:
        if self.run.has_structured and any(call is last for last in self.run.turns[-1].calls):
            return Node("note", "used as structured output")
        return Node("note", "no result", tone="odd")

    def _result(self, result: TracedToolResult) -> Node:
        node = Node("result", "error" if result.is_error else "result")
        node.tone = "bad" if result.is_error else "plain"
        if not result.blocks:
            node.text = "(empty)"
        elif [block.kind for block in result.blocks] == ["text"]:
            node.text = self._clean(_on_one_line(result.blocks[0].text))
        else:
            node.children = [self._block(block) for block in result.blocks]
        return node

    def _bar(self, span: Span | None) -> tuple[float, float] | None:
        if not self._bounds or not span or span.end is None:
            return None
        start, end = self._bounds
        whole = (end - start) or 1.0
        return (span.start - start) / whole, (span.end - span.start) / whole

    def _clean(self, text: str) -> str:
        return clean(text, self.max_chars)

    def _line(self, text: str) -> str:
        """Clean a name, in which line ends are shown as codes."""
        return self._clean(text).replace("\n", "⟨U+000A⟩").replace("\t", "⟨U+0009⟩")


def _is_data(text: str) -> bool:
    """Return whether a text is a long value, not code or output, which have several lines."""
    return len(text) > _LONG_VALUE and "\n" not in text


def _finish_text(message: AIMessage) -> str:
    """Return the finish reason with its explanation, where there is one."""
    finish = finish_of(message)
    details = message.response_metadata.get("finish_message")
    if not details and (finish.outcome != "unknown" or finish.vendor == "gemini"):
        details = finish.explanation
    return f"{finish.name}: {details}" if details else finish.name


def _raw_response(message: AIMessage) -> str | None:
    """Return the text of the model before prompted tool calls were parsed from it, if any."""
    raw = message.response_metadata.get("raw_text")
    return raw if isinstance(raw, str) and raw.strip() != message.text.strip() else None


def _on_one_line(text: str) -> str:
    """Return short JSON without its line ends."""
    if "\n" not in text or len(text) > _LONG_VALUE or not text.lstrip().startswith(("{", "[")):
        return text
    try:
        line = json.dumps(json.loads(text), ensure_ascii=False)
    except ValueError:
        return text
    return line if len(line) <= _SHORT_JSON else text


def _known(*facts: str) -> list[str]:
    """Return the facts that are known."""
    return [fact for fact in facts if fact]


def _first_token(turn: TracedTurn) -> str:
    first_token = turn.span.first_token_milliseconds if turn.span else None
    if first_token is None or not any(block.kind == "text" for block in turn.blocks):
        return ""
    return f"first token {_render_ms(first_token)}"


def _render_retries(span: Span | None) -> str:
    return _count(span.retries, "retry", "retries") if span and span.retries else ""


def _render_cost(cost: Cost) -> str:
    return "" if cost.dollars is None else str(cost)


def _render_ms(milliseconds: float | None) -> str:
    if milliseconds is None:
        return ""
    if milliseconds < 10:
        return f"{milliseconds:.1f} ms"
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    if milliseconds < 120_000:
        return f"{milliseconds / 1000:.2f} s"
    minutes, seconds = divmod(round(milliseconds / 1000), 60)
    return f"{minutes} min {seconds} s"


def _render_usage(usage: Mapping[str, Any] | None) -> str:
    if not usage:
        return ""
    cached = (usage.get("input_token_details") or {}).get("cache_read")
    thinking = (usage.get("output_token_details") or {}).get("reasoning")
    counts = {"cached": cached, "thinking": thinking}
    details = [f"{count:,} {word}" for word, count in counts.items() if count]
    more = f" ({', '.join(details)})" if details else ""
    return f"{usage.get('input_tokens', 0):,} → {usage.get('output_tokens', 0):,} tokens{more}"


def _sum_tokens(turns: list[TracedTurn]) -> str:
    known = [turn.usage for turn in turns if turn.usage]
    if not known:
        return ""
    inputs = sum(usage.get("input_tokens") or 0 for usage in known)
    outputs = sum(usage.get("output_tokens") or 0 for usage in known)
    at_least = "≥ " if len(known) < len(turns) else ""
    return f"{at_least}{inputs:,} → {outputs:,} tokens"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
