"""The command: which model answers, what is printed, and with which code it ends."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.chat_model import ChatGemini
from langchain_gemini_tools.demo.agent import MODEL, QUESTION, make_agent, render_input
from langchain_gemini_tools.display import RunClock, trace
from langchain_gemini_tools.display.encoding import forgiving
from langchain_gemini_tools.display.safe_text import clean, render_arguments
from langchain_gemini_tools.errors import GeminiToolsError
from langchain_gemini_tools.tool_loop.events import LoopFinished, TextDelta, TurnFinished

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.runnables import RunnableConfig

    from langchain_gemini_tools.tool_loop import ToolLoopResult

RECORDING = Path(__file__).with_name("packing.yaml")
_EXTRAS = "pip install 'langchain-gemini-tools[display,testing]'"
_KEYS = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
_VERTEX = ("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE")
_MAX_CHARS = 2000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the agent once and show what happened; the code to exit with."""
    options = _parse(arguments)
    with redirect_stdout(forgiving(sys.stdout)):
        return _show(options)


def _show(options: argparse.Namespace) -> int:
    is_live = _has_credentials()
    if not is_live and (reason := _why_not_replayed(options)):
        print(reason, file=sys.stderr)
        return 2
    print(_announce(options.model, is_live=is_live))
    if find_spec("rich") is None:
        print(f"For colours and costs: {_EXTRAS}")
    clock = RunClock()
    try:
        with _source(is_live=is_live), ChatGemini(model=options.model) as model:
            shown: Any = run(model, options.question, clock)
            code = 0
    except GeminiToolsError as error:
        shown, code = error, 1
    print()
    run_trace = trace(shown, clock)
    run_trace.show()
    if options.html:
        print(f"\nWritten to {run_trace.to_html(options.html)}")
    return code


def run(model: ChatGemini, question: str, clock: RunClock) -> ToolLoopResult:
    """Ask the agent and print what the model says and calls, as it happens."""
    print(f"\nyou    {clean(question, _MAX_CHARS)}")
    config: RunnableConfig = {"callbacks": [clock]}
    begin = "agent  "
    for event in make_agent(model).events(render_input(question), config=config):
        match event:
            case TextDelta(text=text):
                print(begin + clean(text, _MAX_CHARS), end="", flush=True)
                begin = ""
            case TurnFinished(message=message):
                print(end="" if begin else "\n")
                begin = "agent  "
                for call in message.tool_calls:
                    shown = f"{call['name']}({render_arguments(call['args'])})"
                    print(f"{begin}calls {clean(shown, _MAX_CHARS)}")
            case LoopFinished(result=result):
                return result
    raise AssertionError("a loop ends with LoopFinished")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m langchain_gemini_tools",
        description="An agent that packs your suitcase, and a look at everything it did. "
        "With GOOGLE_API_KEY it talks to Gemini; without one it replays a recording.",
    )
    parser.add_argument("question", nargs="?", default=QUESTION, help=f"default: {QUESTION!r}")
    parser.add_argument("--model", default=MODEL, help=f"default: {MODEL}")
    parser.add_argument("--html", metavar="FILE", help="also write the trace as a page")
    options = parser.parse_args(arguments)
    if options.html and not Path(options.html).parent.is_dir():
        parser.error(f"--html: there is no folder {Path(options.html).parent}")
    return options


def _has_credentials() -> bool:
    uses_vertex = any(os.environ.get(name, "").lower() in {"1", "true"} for name in _VERTEX)
    return uses_vertex or any(os.environ.get(name) for name in _KEYS)


def _why_not_replayed(options: argparse.Namespace) -> str | None:
    if (options.question, options.model) != (QUESTION, MODEL):
        return (
            f"Without a key only the recorded question can be answered: {QUESTION!r}, by {MODEL}. "
            "To ask anything else, set GOOGLE_API_KEY (https://aistudio.google.com/apikey)."
        )
    if find_spec("vcr") is None:
        return f"Without a key a recording is replayed, which needs: {_EXTRAS}"
    return None


def _announce(model: str, *, is_live: bool) -> str:
    if is_live:
        return f"Talking to {model} with your key."
    recorded_against = RECORDING.read_text(encoding="utf-8").split("\n", 1)[0].partition(": ")[2]
    return (
        "No GOOGLE_API_KEY: replaying a recording, so that times are not Gemini's. "
        f"It was recorded against: {recorded_against}."
    )


def _source(*, is_live: bool) -> AbstractContextManager[Any]:
    if is_live:
        return nullcontext()
    from langchain_gemini_tools.testing import cassette

    return cassette(RECORDING, record_mode="none")
