"""Records what `python -m langchain_gemini_tools` replays: with a key from Gemini, else scripted.

`python -m tests.record_demo`; the file says in its first line what it was recorded against.
"""

from __future__ import annotations

import os
from contextlib import ExitStack

from langchain_gemini_tools import ChatGemini, RunClock
from langchain_gemini_tools.demo.agent import MODEL, QUESTION
from langchain_gemini_tools.demo.command import RECORDING, run
from langchain_gemini_tools.testing import cassette
from tests.emulator import API_KEY, Emulator

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


def main() -> None:
    """Record one run of the demo."""
    with ExitStack() as stack:
        if os.environ.get("GOOGLE_API_KEY"):
            model = stack.enter_context(ChatGemini(model=MODEL))
        else:
            emulator = stack.enter_context(Emulator())
            script(emulator)
            model = stack.enter_context(
                ChatGemini(model=MODEL, api_key=API_KEY, base_url=emulator.url)
            )
        stack.enter_context(cassette(RECORDING, record_mode="all"))
        run(model, QUESTION, RunClock())


if __name__ == "__main__":
    main()
