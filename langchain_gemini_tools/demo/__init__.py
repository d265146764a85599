"""The demo `python -m langchain_gemini_tools`, and the recordings of the notebooks.

The agent of the demo packs suitcases: two tools, parallel tool calls, a second turn of calls, an
answer.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import contextmanager, redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.chat_model import ChatGemini
from langchain_gemini_tools.display import RunClock, trace
from langchain_gemini_tools.display.content import (
    clean,
    render_arguments,
    replace_unencodable,
)
from langchain_gemini_tools.errors import GeminiToolsError
from langchain_gemini_tools.facts.environment import environment_secrets, environment_uses_vertexai
from langchain_gemini_tools.facts.models import DEFAULT_MODEL
from langchain_gemini_tools.testing.cassettes import VARIABLE, cassette
from langchain_gemini_tools.tool_loop import ToolLoop
from langchain_gemini_tools.tool_loop.events import LoopFinished, TextDelta, TurnFinished

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import RunnableConfig

    from langchain_gemini_tools.testing.cassettes import OpenCassette
    from langchain_gemini_tools.testing.fake import Emulator
    from langchain_gemini_tools.tool_loop import ToolLoopResult


RECORDINGS = Path(__file__).with_name("recordings")


def recording(name: str) -> OpenCassette:
    """Replay a recording of this package; with a key in the environment, use Gemini instead.

    ```python
    recording("01_first_agent").start()  # from here on, in a notebook

    with recording("01_first_agent"):  # inside a block
        agent.invoke(...)
    ```

    Raises:
        ValueError: The package has no recording of this name.
    """
    path = RECORDINGS / f"{name}.yaml"
    if not path.exists() and not os.environ.get(VARIABLE):  # else it is about to be recorded
        known = ", ".join(sorted(each.stem for each in RECORDINGS.glob("*.yaml")))
        raise ValueError(f"{name!r} is not a recording of this package; use one of {known}.")
    return cassette(path, prefer_live=True)


QUESTION = "What should I pack for Oslo and Rome?"
_INSTRUCTIONS = (
    "You help people pack. Look up the weather of every city first, all at once. Then check once "
    "which of the things you would recommend are in the wardrobe. Answer in three sentences."
)
_WEATHER = {"oslo": "-3 °C, snow", "rome": "17 °C, sun"}
_WARDROBE = {"down jacket", "wool hat", "sunglasses", "umbrella", "rain coat", "light shirt"}

ANSWER = (
    "For Oslo take the down jacket and the wool hat: it is -3 °C and snowing. For Rome the light "
    "shirt and the sunglasses will do, at 17 °C and sun. You have all of that except thermal "
    "socks, so buy a pair before you leave."
)
_RECOMMENDED = ["down jacket", "wool hat", "thermal socks", "light shirt", "sunglasses"]

_EXTRAS = "pip install 'langchain-gemini-tools[display]'"
_WITHOUT_KEY = (
    "GOOGLE_API_KEY is not set: FakeGemini answers on this machine, from a script. The answers "
    "and times are not Gemini's; the requests, tools and the trace are real."
)
_MAX_CHARS = 2000


def get_weather(city: str) -> str:
    """Weather of the coming days in a city."""
    return _WEATHER.get(city.lower(), "12 °C, clouds")


def check_wardrobe(items: list[str]) -> dict[str, list[str]]:
    """Which of these pieces of clothing are in the wardrobe, and which are missing."""
    return {
        "there": [item for item in items if item.lower() in _WARDROBE],
        "missing": [item for item in items if item.lower() not in _WARDROBE],
    }


def make_agent(model: BaseChatModel) -> ToolLoop:
    """Return the agent, for any chat model that calls tools."""
    return ToolLoop(model, [get_weather, check_wardrobe], max_turns=6)


def render_input(question: str) -> dict[str, Any]:
    """Return the input of the agent."""
    return {"messages": [("system", _INSTRUCTIONS), ("user", question)]}


def script(gemini: Emulator) -> None:
    """Script what a sensible model would answer to `QUESTION`."""
    gemini.reply(calls=[("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Rome"})])
    gemini.reply(calls=[("check_wardrobe", {"items": _RECOMMENDED})])
    gemini.reply(ANSWER)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the agent once, show what happened, and return the exit code."""
    options = _parse(arguments)
    with redirect_stdout(replace_unencodable(sys.stdout)):
        return _show(options)


def _show(options: argparse.Namespace) -> int:
    is_live = bool(environment_uses_vertexai() or environment_secrets())
    if not is_live and options.question != QUESTION:
        print(
            f"Without a key only one question has an answer: {QUESTION!r}. For others set "
            "GOOGLE_API_KEY (https://aistudio.google.com/apikey).",
            file=sys.stderr,
        )
        return 2
    print(f"Using {options.model} with your key." if is_live else _WITHOUT_KEY)
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
    """Run the agent and print the text and tool calls of the model as they arrive."""
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
    raise AssertionError("a run ends with LoopFinished")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m langchain_gemini_tools",
        description="Runs an agent that packs your suitcase, and shows everything it did. "
        "With GOOGLE_API_KEY it uses Gemini; without a key FakeGemini answers from a script. "
        "`check` instead of a question tests tool calling against the API.",
    )
    parser.add_argument("question", nargs="?", default=QUESTION, help=f"default: {QUESTION!r}")
    parser.add_argument("--model", default=DEFAULT_MODEL, help=f"default: {DEFAULT_MODEL}")
    parser.add_argument("--html", metavar="FILE", help="also write the trace to an HTML file")
    options = parser.parse_args(arguments)
    if options.html and not Path(options.html).parent.is_dir():
        parser.error(f"--html: the folder {Path(options.html).parent} does not exist")
    return options


@contextmanager
def _source(*, is_live: bool) -> Iterator[None]:
    """Use FakeGemini if there is no key."""
    if is_live:
        yield
        return
    from langchain_gemini_tools.testing import FakeGemini

    with FakeGemini() as gemini:
        script(gemini)
        yield
