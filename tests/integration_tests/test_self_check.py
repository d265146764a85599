"""`python -m langchain_gemini_tools check`, on the fake server."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.self_check import (
    CHECKS,
    INTERACTIONS_CHECKS,
    main,
    name_of,
    run_check,
)
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


def test_the_interactions_api_is_checked_and_nothing_stays_stored(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--fake", "--api", "interactions"]) == 0
    shown = capsys.readouterr().out
    table, report = shown.split("\n**Self-test of ")
    names = [line[8:32].rstrip() for line in table.splitlines()[2:] if line]
    assert names == [name_of(check) for check in INTERACTIONS_CHECKS]
    assert "skipped error names tool" in table
    assert report.startswith(
        "`gemini-3.8-flash` on FakeGemini, Interactions API**: "
        f"{len(INTERACTIONS_CHECKS) - 1} passed, 0 failed, 1 skipped"
    )


@pytest.mark.parametrize("check", INTERACTIONS_CHECKS[len(CHECKS) :], ids=name_of)
def test_checks_of_the_interactions_api_delete_what_they_store(check: Any) -> None:
    with FakeGemini() as gemini:
        model = ChatGemini(model="gemini-3.8-flash", api="interactions")
        assert run_check(check, model).status == "passed"
        stored = [r for r in gemini.requests if r.method == "POST" and r.body.get("store")]
        deleted = [request for request in gemini.requests if request.method == "DELETE"]
        assert len(deleted) == len(stored)
        assert gemini.refusals == []


@pytest.mark.parametrize("check", INTERACTIONS_CHECKS, ids=name_of)
def test_checks_of_the_interactions_api_can_fail(check: Any) -> None:
    right = {"text", "none", "validated", "stream of text", "search beside functions"}
    right |= {"token count", "background"}
    with FakeGemini(respond=lambda _: "No."):
        model = ChatGemini(model="gemini-3.8-flash", api="interactions", max_retries=0)
        outcome = run_check(check, model)
    expected = "passed" if name_of(check) in right else "FAILED"
    assert outcome.status == ("skipped" if name_of(check) == "error names tool" else expected)


def test_a_background_check_that_has_no_answer_fails() -> None:
    with FakeGemini(respond=lambda _: ""):
        model = ChatGemini(model="gemini-3.8-flash", api="interactions", max_retries=0)
        assert run_check(INTERACTIONS_CHECKS[-2], model).status == "FAILED"


def test_a_model_that_does_not_run_in_the_background_skips_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--fake", "--api", "interactions", "--model", "gemini-2.5-flash"]) == 0
    assert "skipped background" in capsys.readouterr().out


@pytest.mark.parametrize("model", ["gemini-2.5-flash", "gemini-3.1-pro-preview"])
def test_older_models_skip_what_they_do_not_have(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--fake", "--model", model]) == 0
    skipped = "skipped search beside functions" in capsys.readouterr().out
    assert skipped is (model == "gemini-2.5-flash")


def test_a_model_without_function_calling_skips_what_needs_declarations(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--fake", "--model", "gemma-3-27b-it"]) == 0
    shown = capsys.readouterr().out
    assert "skipped error names tool" in shown
    assert "0 failed, 3 skipped" in shown


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
