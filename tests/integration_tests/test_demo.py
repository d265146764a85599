"""`python -m langchain_gemini_tools`, as a newcomer runs it."""

from __future__ import annotations

import io
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from langchain_gemini_tools.demo import ANSWER, main, script
from langchain_gemini_tools.testing.fake import API_KEY, Emulator, faults

if TYPE_CHECKING:
    from pathlib import Path


STEPS = f"""\
you    What should I pack for Oslo and Rome?
agent  calls get_weather(city="Oslo")
agent  calls get_weather(city="Rome")
agent  calls check_wardrobe(items=["down jacket", "wool hat", "thermal socks", "light shirt", "sunglasses"])
agent  {ANSWER}
"""  # noqa: E501 - as it is printed
TREE = f"""\
gemini-3.8-flash  3 turns, 3 calls · N ms · 1,003 → 137 tokens · $N
├── system  You help people pack. Look up the weather of every… (179 characters)
├── you  What should I pack for Oslo and Rome?
├── turn 1  N ms · 204 → 43 tokens · $N · 2 parallel calls
│   ├── get_weather(city="Oslo")  N ms
│   │   └── result  -3 °C, snow
│   └── get_weather(city="Rome")  N ms
│       └── result  17 °C, sun
├── turn 2  N ms · 337 → 39 tokens · $N
│   └── check_wardrobe(items=["down jacket", "wool hat", "thermal socks", "light shirt", "sunglasses"])
│       N ms
│       └── result  {{"there": ["down jacket", "wool hat", "light shirt", "sunglasses"], "missing": ["thermal socks"]}}
└── turn 3  N ms · first token N ms · 462 → 55 tokens · $N
    └── {ANSWER}
"""  # noqa: E501 - as it is printed


def _without_numbers(text: str) -> str:
    """What differs from run to run, and prices, which differ from year to year."""
    return re.sub(r"\$[\d.]+", "$N", re.sub(r"[\d.]+ m?s\b", "N ms", text))


def test_without_a_key_a_script_answers_and_it_says_so() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "langchain_gemini_tools"],
        capture_output=True,
        encoding="utf-8",
        env={"COLUMNS": "250", "PYTHONIOENCODING": "utf-8"},
        check=True,
    )
    said, steps, tree = done.stdout.split("\n\n", 2)
    assert said == (
        "GOOGLE_API_KEY is not set: FakeGemini answers on this machine, from a script. The answers "
        "and times are not Gemini's; the requests, tools and the trace are real."
    )
    assert f"{steps}\n" == STEPS
    assert _without_numbers(tree) == TREE
    assert done.stderr == ""


def test_a_reader_that_stops_reading_causes_no_traceback() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "langchain_gemini_tools"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PYTHONUNBUFFERED": "1"},
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.readline()
        running.stdout.close()  # as `| head -1` does
        assert running.stderr.read() == b""
    assert running.returncode == 1


@pytest.mark.usefixtures("keyboard")
@pytest.mark.parametrize("arguments", [[], ["check"]], ids=["demo", "check"])
def test_an_interrupted_command_ends_without_a_traceback(
    arguments: list[str], emulator: Emulator
) -> None:
    emulator.reply("Hi", fault=faults.slow_first_byte(600))
    with subprocess.Popen(
        [sys.executable, "-m", "langchain_gemini_tools", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={"GOOGLE_API_KEY": API_KEY, "GOOGLE_GEMINI_BASE_URL": emulator.url},
    ) as running:
        assert running.stderr is not None
        while not emulator.requests and running.poll() is None:
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        assert running.stderr.read() == b""
    assert running.returncode == 130


def test_a_terminal_with_another_encoding_shows_question_marks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    monkeypatch.setenv("COLUMNS", "250")
    assert main([]) == 0
    sys.stdout.flush()
    shown = written.getvalue().decode()
    assert ANSWER.replace("°", "?") in shown
    assert "result  -3 ?C, snow" in shown


def test_a_page_that_cannot_be_written_is_rejected_before_the_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit):
        main(["--html", str(tmp_path / "nowhere" / "run.html")])
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.endswith(
        f"error: --html: the folder {tmp_path / 'nowhere'} does not exist\n"
    )


def test_with_a_key_it_uses_the_api(
    emulator: Emulator,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", API_KEY)
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", emulator.url)
    script(emulator)
    page = tmp_path / "run.html"
    assert main(["Oslo and Rome?", "--html", str(page)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Using gemini-3.8-flash with your key.\n\nyou    Oslo and")
    assert shown.endswith(f"\nWritten to {page}\n")
    assert "check_wardrobe" in page.read_text(encoding="utf-8")
    assert len(emulator.requests) == 3


def test_a_failure_is_shown_with_what_was_done_before(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", API_KEY)
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", emulator.url)
    emulator.reply(calls=[("get_weather", {"city": "Oslo"})])
    error = {"error": {"code": 403, "message": "Not for you.", "status": "PERMISSION_DENIED"}}
    emulator.reply(body=error, status=403)
    assert main([]) == 1
    shown = capsys.readouterr().out
    assert "result  -3 °C, snow" in shown
    assert "✗ failed  GeminiPermissionError" in shown


def test_without_a_key_another_question_is_rejected(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["What should I pack for Lima?"]) == 2
    assert capsys.readouterr().err == (
        "Without a key only one question has an answer: 'What should I pack for Oslo and Rome?'. "
        "For others set GOOGLE_API_KEY (https://aistudio.google.com/apikey).\n"
    )


def test_it_needs_no_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("vcr", "rich", "genai_prices"):
        monkeypatch.setitem(sys.modules, name, None)
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert "For colours and costs: pip install 'langchain-gemini-tools[display]'\n" in shown
    assert f"└── {ANSWER[:60]}" in shown
