"""Real runs of LangChain: what is counted, where it is shown, and which times are measured."""

from __future__ import annotations

import io
import itertools
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool

from langchain_gemini_tools import BatchProgress, RunClock, trace
from langchain_gemini_tools.display import BatchCounts
from tests.unit_tests.display.runs import answer, call
from tests.unit_tests.display.runs import result as llm_result

if TYPE_CHECKING:
    from langchain_core.runnables import Runnable


def _model(count: int) -> GenericFakeChatModel:
    return GenericFakeChatModel(messages=iter([answer("Yes") for _ in range(count)]))


def _fail_on_three(number: int) -> int:
    if number == 3:
        raise ValueError("three")
    return number


def test_a_batch_is_counted_with_its_tokens() -> None:
    out = io.StringIO()
    with BatchProgress(20, "questions", file=out) as progress:
        _model(20).batch(["Is it?"] * 20, config={"callbacks": [progress], "max_concurrency": 4})
    assert progress.counts == BatchCounts(20, done=20, input_tokens=20_000, output_tokens=4000)
    assert out.getvalue() == "questions: 20/20 · 20,000 → 4,000 tokens\n"


async def test_runs_are_also_counted_in_an_event_loop() -> None:
    progress = BatchProgress(20, file=io.StringIO())
    await _model(20).abatch(["Is it?"] * 20, config={"callbacks": [progress]})
    assert progress.counts == BatchCounts(20, done=20, input_tokens=20_000, output_tokens=4000)


@pytest.mark.parametrize("total", ["3", -1, 2.5])
def test_a_total_that_is_not_a_number_of_runs_is_rejected(total: Any) -> None:
    with pytest.raises(ValueError, match="is not a number of runs"):
        BatchProgress(total)


def test_failures_are_counted_separately() -> None:
    out = io.StringIO()
    with BatchProgress(5, file=out) as progress:
        RunnableLambda(_fail_on_three).batch(
            [1, 2, 3, 4, 5], config={"callbacks": [progress]}, return_exceptions=True
        )
    assert progress.counts == BatchCounts(5, done=4, failed=1)
    assert out.getvalue() == "runs: 5/5 · 1 failed\n"


def test_an_agent_with_all_its_steps_is_one_run() -> None:
    def agent() -> Any:
        replies = [answer(tool_calls=[call("wait", "a", name="Ada")]), answer("Done.")]
        return create_agent(ScriptedModel(messages=iter(replies)), tools=[wait])

    progress = BatchProgress(file=io.StringIO())
    for _ in range(2):
        agent().invoke({"messages": "Wait"}, config={"callbacks": [progress]})
    assert progress.counts == BatchCounts(done=2, input_tokens=4000, output_tokens=800)


def test_a_handler_of_an_inner_step_counts_only_that_step() -> None:
    progress = BatchProgress(file=io.StringIO())
    inner = _model(3).with_config(callbacks=[progress])
    (RunnableLambda(str) | inner).batch(["a", "b", "c"])
    assert progress.counts.done == 3


def test_a_response_without_usage_adds_no_tokens() -> None:
    progress = BatchProgress(1, file=io.StringIO())
    GenericFakeChatModel(messages=iter([AIMessage("Yes")])).invoke(
        "Is it?", config={"callbacks": [progress]}
    )
    assert progress.counts == BatchCounts(1, done=1)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_bar_that_ends_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    out = Terminal()
    with BatchProgress(3, "[b]files[/b]", file=out) as progress:
        _model(3).batch(["Is it?"] * 3, config={"callbacks": [progress]})
    last = out.getvalue().split("\r")[-1]
    assert "[b]files[/b]" in last
    assert "3/3 · 3,000 → 600 tokens" in last


def test_a_bar_that_is_never_closed_restores_the_cursor_at_exit() -> None:
    script = (
        "import sys\n"
        "from uuid import uuid4\n"
        "from langchain_gemini_tools import BatchProgress\n"
        "sys.stderr.isatty = lambda: True\n"
        "BatchProgress(9).on_chain_start({}, {}, run_id=uuid4())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={"TERM": "xterm", "PYTHONIOENCODING": "utf-8"},
    )
    assert done.stderr.endswith("\x1b[?25h")


def test_without_rich_a_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    out = Terminal()
    with BatchProgress(1, file=out) as progress:
        _model(1).invoke("Is it?", config={"callbacks": [progress]})
    assert out.getvalue() == "runs: 1/1 · 1,000 → 200 tokens\n"


def test_a_batch_that_is_interrupted_leaves_its_last_count() -> None:
    out = io.StringIO()
    with pytest.raises(ValueError, match="three"), BatchProgress(9, file=out) as progress:
        RunnableLambda(_fail_on_three).map().invoke([1, 2, 3], config={"callbacks": [progress]})
    assert out.getvalue() == "runs: 1/9 · 1 failed\n"


def test_a_notebook_gets_one_output_that_is_updated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown: list[Any] = []

    def display(value: Any, *, display_id: bool) -> SimpleNamespace:
        shown.append(value)
        return SimpleNamespace(update=shown.append)

    kernel = SimpleNamespace(kernel=object())
    ipython = SimpleNamespace(get_ipython=lambda: kernel)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(
        sys.modules,
        "IPython.display",
        SimpleNamespace(display=display),
    )
    progress = BatchProgress(2, "<b>files")
    _model(2).batch(["Is it?"] * 2, config={"callbacks": [progress]})
    bundle = shown[-1]._repr_mimebundle_([], [])
    text, html = bundle["text/plain"], bundle["text/html"]
    assert text.startswith("<b>files ━━━━━")
    assert "2/2 · 2,000 → 400 tokens" in text
    assert "&lt;b&gt;files" in html
    assert "2/2 · 2,000 → 400 tokens" in html


def test_without_rich_a_notebook_gets_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: kernel))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=print))
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    progress = BatchProgress(1)
    _model(1).invoke("Is it?", config={"callbacks": [progress]})
    assert capsys.readouterr() == ("", "runs: 1/1 · 1,000 → 200 tokens\n")


class ScriptedModel(GenericFakeChatModel):
    """Returns scripted messages, whatever tools are bound."""

    def bind_tools(self, *_: Any, **__: Any) -> Runnable[Any, AIMessage]:
        return self


@tool
def wait(name: str) -> str:
    """Wait a little."""
    return f"{name} waited"


def _agent() -> Any:
    calls = [call("wait", "a", name="Ada"), call("wait", "b", name="Bob")]
    model = ScriptedModel(messages=iter([answer(tool_calls=calls), answer("Done.")]))
    return create_agent(model, tools=[wait])


def _timed(clock: RunClock, result: Any) -> list[bool]:
    run = trace(result, clock).run
    times = [turn.milliseconds for turn in run.turns] + [made.milliseconds for made in run.calls]
    return [milliseconds is not None for milliseconds in times]


def test_every_response_and_tool_call_of_an_agent_is_timed() -> None:
    clock = RunClock()
    result = _agent().invoke({"messages": "Wait"}, config={"callbacks": [clock]})
    assert _timed(clock, result) == [True] * 4


async def test_times_are_also_measured_in_an_event_loop() -> None:
    clock = RunClock()
    result = await _agent().ainvoke({"messages": "Wait"}, config={"callbacks": [clock]})
    assert _timed(clock, result) == [True] * 4


def test_the_first_token_of_a_stream_is_timed() -> None:
    clock = RunClock()
    model = GenericFakeChatModel(messages=iter(["one two three"]))
    chunks = list(model.stream("Count", config={"callbacks": [clock]}))
    span = clock.message_span(chunks[0].id)
    assert span
    assert span.milliseconds is not None
    assert span.first_token_milliseconds is not None
    assert span.first_token_milliseconds <= span.milliseconds
    assert _timed(clock, chunks) == [True]


def test_another_run_with_the_same_call_ids_has_its_own_times() -> None:
    ticks = iter([0.0, 1.0, 10.0, 12.0])
    clock = RunClock(now=lambda: next(ticks))
    for _ in range(2):
        run_id = uuid4()
        clock.on_tool_start({}, "", run_id=run_id)
        clock.on_tool_end(ToolMessage("done", tool_call_id="call_0"), run_id=run_id)
    only_the_last = [answer(tool_calls=[call("wait", "call_0")])]
    assert trace(only_the_last, clock).run.calls[0].milliseconds == 2000
    both = [answer(tool_calls=[call("wait", "call_0")]) for _ in range(2)]
    assert [made.milliseconds for made in trace(both, clock).run.calls] == [1000, 2000]


def _measured_run(clock: RunClock, *message_ids: str) -> list[AIMessage]:
    """Messages with these ids; each but the last makes a tool call with the same id."""
    messages = [answer(tool_calls=[call("wait", "call_0")], id=each) for each in message_ids]
    messages[-1].tool_calls = []
    for message in messages:
        run_id = uuid4()
        clock.on_chat_model_start({}, [], run_id=run_id)
        clock.on_llm_end(llm_result(str(message.id)), run_id=run_id)
        if message.tool_calls:
            clock.on_tool_start({}, "", run_id=run_id, tool_call_id="call_0")
            clock.on_tool_end("done", run_id=run_id)
    return messages


def test_an_earlier_run_with_the_same_call_ids_keeps_its_own_times() -> None:
    ticks = (number * number for number in itertools.count())  # each call takes longer
    clock = RunClock(now=lambda: next(ticks))
    runs = [_measured_run(clock, "a", "b", "c"), _measured_run(clock, "d", "e", "f")]
    times = [[made.milliseconds for made in trace(run, clock).run.calls] for run in runs]
    assert times == [[5000, 13_000], [25_000, 33_000]]


def test_calls_of_parallel_turns_are_timed() -> None:
    ticks = itertools.count()
    clock = RunClock(now=lambda: next(ticks))
    runs = [uuid4(), uuid4()]
    for run_id in runs:
        clock.on_chat_model_start({}, [], run_id=run_id)
    for run_id, name in zip(runs, "ab", strict=True):
        clock.on_llm_end(llm_result(name), run_id=run_id)
        clock.on_tool_start({}, "", run_id=run_id, tool_call_id=name)
        clock.on_tool_end("done", run_id=run_id)
    turns = [answer(tool_calls=[call("wait", name)], id=name) for name in "ab"]
    assert [made.milliseconds for made in trace(turns, clock).run.calls] == [1000, 1000]


def test_the_memory_of_a_clock_is_bounded() -> None:
    clock = RunClock(max_calls=3)
    for number in range(10):
        run_id = uuid4()
        clock.on_tool_start({}, "", run_id=run_id, tool_call_id=f"call_{number}")
        clock.on_tool_end("done", run_id=run_id)
        clock.on_chat_model_start({}, [], run_id=uuid4())  # never ends
    assert [bool(clock.tool_call_spans(f"call_{number}")) for number in range(10)] == [
        False
    ] * 7 + [True] * 3


@pytest.mark.parametrize("callback", ["on_llm_error", "on_tool_error"])
def test_ends_without_a_start_are_ignored(callback: str) -> None:
    clock = RunClock()
    getattr(clock, callback)(ValueError("late"), run_id=uuid4())
    assert clock.message_span(None) is None
    assert clock.tool_call_spans(None) == []


def test_many_threads_share_a_clock() -> None:
    clock = RunClock()

    def work(name: str) -> None:
        for _ in range(50):
            run_id = uuid4()
            clock.on_tool_start({}, "", run_id=run_id, tool_call_id=name)
            clock.on_tool_end("done", run_id=run_id)

    threads = [threading.Thread(target=work, args=[f"call_{n % 2}"]) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(clock.tool_call_spans(name)) for name in ("call_0", "call_1")] == [200, 200]
