"""`python -m langchain_gemini_tools check`, on the fake server."""

from __future__ import annotations

import subprocess
import sys

import pytest

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.self_check import CHECKS, main, name_of, run_check
from langchain_gemini_tools.testing import FakeGemini

NAMES = [name_of(check) for check in CHECKS]


def test_the_command_passes_on_the_fake_server() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "langchain_gemini_tools", "check", "--fake"],
        capture_output=True,
        text=True,
        check=False,
    )
    table, report = done.stdout.split("\n**Self-test of ")
    lines = table.splitlines()[2:]
    assert [line[8:32].rstrip() for line in lines if line] == NAMES
    assert {line.split()[0] for line in lines if line} == {"passed"}
    assert report.startswith(f"`gemini-3.8-flash` on FakeGemini**: {len(NAMES)} passed, 0 failed")
    assert done.returncode == 0


@pytest.mark.parametrize("model", ["gemini-2.5-flash", "gemini-3.1-pro-preview"])
def test_older_models_skip_what_they_do_not_have(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--fake", "--model", model]) == 0
    skipped = "skipped search beside functions" in capsys.readouterr().out
    assert skipped is (model == "gemini-2.5-flash")


def test_without_a_key_it_says_what_it_would_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("GOOGLE_API_KEY is not set.")
    assert all(name in shown for name in NAMES)


def test_a_failure_is_reported_without_the_key(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "AIza" + "b" * 35
    with FakeGemini() as gemini:
        gemini.fail(403, message=f"API key {key} is not valid", times=None)
        monkeypatch.setenv("GOOGLE_API_KEY", key)
        assert main([]) == 1
    shown = capsys.readouterr().out
    assert "FAILED" in shown
    assert "is not valid" in shown
    assert key not in shown


@pytest.mark.parametrize("check", CHECKS, ids=NAMES)
def test_an_answer_that_is_wrong_fails(check: object) -> None:
    """Each check can fail: here the model says a word of text, whatever it is asked."""
    right = {
        "text",
        "none",
        "validated",
        "stream of text",
        "search beside functions",
        "token count",
    }
    with FakeGemini(respond=lambda _: "No.") as gemini:
        outcome = run_check(check, ChatGemini(model="gemini-3.8-flash", max_retries=0))  # type: ignore[arg-type]
        del gemini
    expected = "passed" if name_of(check) in right | {"error names tool"} else "FAILED"  # type: ignore[arg-type]
    assert outcome.status == expected
