"""Records what comes with the package: with a key from Gemini, else scripted.

`python -m tests.record_demo` records what `python -m langchain_gemini_tools` and the README's first
block replay; each file says in its first line what it was recorded against.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

from langchain_gemini_tools import ChatGemini, RunClock
from langchain_gemini_tools.demo.command import MODEL, QUESTION, RECORDING, run
from langchain_gemini_tools.testing import cassette
from langchain_gemini_tools.testing.fake import API_KEY, Emulator

if TYPE_CHECKING:
    from collections.abc import Callable

ANSWER = (
    "For Oslo take the down jacket and the wool hat: it is -3 °C and snowing. For Rome the light "
    "shirt and the sunglasses will do, at 17 °C and sun. You have all of that except thermal "
    "socks, so buy a pair before you leave."
)


def script(emulator: Emulator) -> None:
    """What a sensible model would say."""
    emulator.reply(calls=[("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Rome"})])
    wanted = ["down jacket", "wool hat", "thermal socks", "light shirt", "sunglasses"]
    emulator.reply(calls=[("check_wardrobe", {"items": wanted})])
    emulator.reply(ANSWER)


def script_first_agent(emulator: Emulator) -> None:
    """What a sensible model would say to the README's first block."""
    emulator.reply(calls=[("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Rome"})])
    emulator.reply("It is sunny in both: Oslo and Rome.")


def _model(stack: ExitStack, script: Callable[[Emulator], None]) -> ChatGemini:
    """Gemini where there is a key, else the emulator with a script."""
    if os.environ.get("GOOGLE_API_KEY"):
        return stack.enter_context(ChatGemini(model=MODEL))
    emulator = stack.enter_context(Emulator())
    script(emulator)
    model = ChatGemini(model=MODEL, api_key=API_KEY, base_url=emulator.url)
    return stack.enter_context(model)


def record_demo() -> None:
    """One run of the demo."""
    with ExitStack() as stack:
        model = _model(stack, script)
        stack.enter_context(cassette(RECORDING, record_mode="all"))
        run(model, QUESTION, RunClock())


def record_first_agent() -> None:
    """The README's first block, without the lines that open the recording."""
    readme = Path(__file__).parents[1] / "README.md"
    program = readme.read_text().partition("```python\n")[2].partition("```")[0]
    with ExitStack() as stack:
        model = _model(stack, script_first_agent)
        stack.enter_context(cassette(RECORDING.with_name("first_agent.yaml"), record_mode="all"))
        stack.enter_context(mock.patch("langchain_gemini_tools.demo.recording", nullcontext))
        stack.enter_context(mock.patch("langchain_gemini_tools.ChatGemini", return_value=model))
        exec(compile(program, "README", "exec"), {"__name__": "readme"})


if __name__ == "__main__":
    record_demo()
    record_first_agent()
