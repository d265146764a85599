"""Records what the README's first block replays: with a key from Gemini, else scripted.

`python -m tests.record_demo`; the file's first line says what it was recorded against.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, nullcontext
from pathlib import Path
from unittest import mock

from langchain_gemini_tools.demo import RECORDINGS
from langchain_gemini_tools.testing import FakeGemini, cassette


def record_first_agent() -> None:
    """The README's first block, without the lines that open the recording."""
    readme = Path(__file__).parents[1] / "README.md"
    program = readme.read_text().partition("```python\n")[2].partition("```")[0]
    with ExitStack() as stack:
        if not os.environ.get("GOOGLE_API_KEY"):
            gemini = stack.enter_context(FakeGemini())
            gemini.reply(
                calls=[("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Rome"})]
            )
            gemini.reply("It is sunny in both: Oslo and Rome.")
        stack.enter_context(cassette(RECORDINGS / "first_agent.yaml", record_mode="all"))
        stack.enter_context(mock.patch("langchain_gemini_tools.demo.recording", nullcontext))
        exec(compile(program, "README", "exec"), {"__name__": "readme"})


if __name__ == "__main__":
    record_first_agent()
