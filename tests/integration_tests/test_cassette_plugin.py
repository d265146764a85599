"""The pytest plugin, in projects of users: recorded against the emulator, replayed without it."""

from __future__ import annotations

import asyncio
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.testing import cassette
from langchain_gemini_tools.testing.__main__ import main
from langchain_gemini_tools.testing.fake import API_KEY, Emulator

PLUGIN = "langchain_gemini_tools.testing.plugin"
FILE = Path("cassettes/test_agent/test_weather.yaml")

TEST = """
    import pytest
    from langchain_gemini_tools import ChatGemini

    @pytest.mark.vcr
    def test_weather():
        answer = ChatGemini(model="gemini-3.8-flash").invoke("Hello")
        assert answer.text == "Hello! How can I help you today? You said: Hello."
"""


@pytest.fixture(scope="module", autouse=True)
def everything_is_loaded(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What a run in this process loads is forgotten after it, and loaded again by the next one.

    So it is loaded before `pytester` looks at what there is.
    """
    importlib.import_module("pytest_recording._vcr")
    path = tmp_path_factory.mktemp("loading") / "hello.yaml"
    with Emulator() as emulator, cassette(path, record_mode="all"):
        model = ChatGemini(model="gemini-3.8-flash", api_key=API_KEY, base_url=emulator.url)
        model.invoke("Hello")
        asyncio.run(model.ainvoke("Hello"))
        model.close()
    with cassette(path, record_mode="none"):
        model.invoke("Hello")


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project with one test, in the current folder."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # others would cost seconds a run
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:cacheprovider")
    pytester.makepyfile(test_agent=TEST)
    return pytester


@pytest.fixture
def online(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Emulator:
    """An environment with a key."""
    monkeypatch.setenv("GOOGLE_API_KEY", API_KEY)
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", emulator.url)
    return emulator


def run(project: pytest.Pytester, *options: str) -> pytest.RunResult:
    return run_without(project, "-p", PLUGIN, *options)


def run_without(project: pytest.Pytester, *options: str) -> pytest.RunResult:
    """Run with pytest-recording, and without ours unless the options name it."""
    return project.runpytest_inprocess(*options, "-p", "recording", "-p", "asyncio")


def record(project: pytest.Pytester, *options: str, mode: str = "once") -> pytest.RunResult:
    return run(project, f"--record-mode={mode}", *options)


def go_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOOGLE_API_KEY")
    monkeypatch.delenv("GOOGLE_GEMINI_BASE_URL")


def test_a_marked_test_is_recorded_once_and_replayed_without_key_and_network(
    project: pytest.Pytester, online: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(project).assert_outcomes(passed=1)
    first_line, *rest = FILE.read_text().splitlines()
    assert first_line == (
        "recorded_against: local server Gemini-Emulator (no evidence about Gemini)"
    )
    assert "          - text: Hello" in rest
    assert API_KEY not in FILE.read_text()
    go_offline(monkeypatch)
    run(project, "--block-network").assert_outcomes(passed=1)
    assert len(online.requests) == 1


def test_with_a_key_marked_tests_still_replay(project: pytest.Pytester, online: Emulator) -> None:
    record(project)
    run(project).assert_outcomes(passed=1)
    assert len(online.requests) == 1


def test_without_the_plugin_nothing_changes(project: pytest.Pytester, online: Emulator) -> None:
    run_without(project, "--record-mode=once").assert_outcomes(passed=1)
    assert FILE.read_text().startswith("interactions:\n- request:\n    body: '{")


def test_the_plugin_may_be_named_in_conftest(
    project: pytest.Pytester, online: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.makeconftest(f"pytest_plugins = [{PLUGIN!r}]")
    run_without(project, "--record-mode=once").assert_outcomes(passed=1)
    assert FILE.read_text().startswith("recorded_against: ")
    go_offline(monkeypatch)
    run_without(project, "--block-network").assert_outcomes(passed=1)


def test_pytest_recording_may_be_named_by_its_module(
    project: pytest.Pytester, online: Emulator
) -> None:
    options = ["-p", "pytest_recording.plugin", "-p", PLUGIN, "--record-mode=once"]
    project.runpytest_inprocess(*options).assert_outcomes(passed=1)
    assert FILE.read_text().startswith("recorded_against: ")


def test_async_tests_and_classes_work_alike(
    project: pytest.Pytester, online: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.makepyfile(
        test_agent="""
        import pytest
        from langchain_gemini_tools import ChatGemini

        @pytest.mark.vcr
        class TestAgent:
            @pytest.mark.asyncio
            @pytest.mark.parametrize("name", ["Ann", "Ben"])
            async def test_hello(self, name):
                model = ChatGemini(model="gemini-3.8-flash")
                chunks = [chunk async for chunk in model.astream(f"I am {name}")]
                assert name in "".join(chunk.text for chunk in chunks)
        """
    )
    record(project).assert_outcomes(passed=2)
    go_offline(monkeypatch)
    run(project, "--block-network").assert_outcomes(passed=2)
    assert sorted(path.name for path in FILE.parent.iterdir()) == [
        "TestAgent.test_hello[Ann].yaml",
        "TestAgent.test_hello[Ben].yaml",
    ]


def test_without_a_cassette_the_test_says_how_to_record_one(project: pytest.Pytester) -> None:
    result = run(project)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E * POST *generateContent cannot be replayed: the cassette *test_weather.yaml does "
            "not exist, and this run does not record. To record it, set GOOGLE_API_KEY and run "
            "with GEMINI_RECORD_MODE=all (pytest: --record-mode=all)."
        ]
    )
    assert not Path("cassettes").exists()


def test_a_stale_cassette_says_what_differs(
    project: pytest.Pytester, online: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(project)
    project.makepyfile(test_agent=TEST.replace('"Hello"', '"Goodbye"'))
    go_offline(monkeypatch)
    result = run(project)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ['E *body.contents?0?.parts?0?.text: recorded "Hello", now "Goodbye"']
    )


def test_the_environment_sets_the_mode(
    project: pytest.Pytester, online: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_RECORD_MODE", "all")
    for _ in range(2):
        run(project, "--block-network").assert_outcomes(passed=1)
    assert len(online.requests) == 2
    run(project, "--record-mode=none").assert_outcomes(passed=1)
    assert len(online.requests) == 2
    monkeypatch.setenv("GEMINI_RECORD_MODE", "replay")
    result = run(project)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*GEMINI_RECORD_MODE: 'replay' is not a record mode*"])


def test_what_the_user_configures_wins_and_secrets_stay_out(
    project: pytest.Pytester, online: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.makeconftest(
        """
        import pytest

        def sign(request):
            request.body = request.body.replace(b"Hello", b"Hello from the hook")
            return request

        @pytest.fixture
        def vcr_config():
            return {
                "match_on": ["method", "path"],
                "before_record_request": sign,
                "secrets": ["the hook"],
            }
        """
    )
    record(project)
    text = FILE.read_text()
    assert "Hello from [redacted]" in text
    assert API_KEY not in text
    go_offline(monkeypatch)
    project.makepyfile(test_agent=TEST.replace('invoke("Hello")', 'invoke("Anything")'))
    run(project).assert_outcomes(passed=1)


def test_cassettes_opened_by_hand_follow_the_option(
    project: pytest.Pytester, online: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.makepyfile(
        test_agent="""
        from langchain_gemini_tools import ChatGemini
        from langchain_gemini_tools.testing import cassette

        def test_weather():
            with cassette("by_hand"):
                ChatGemini(model="gemini-3.8-flash").invoke("Hello")
        """
    )
    run(project).assert_outcomes(failed=1)  # although there is a key
    assert not online.requests
    record(project).assert_outcomes(passed=1)
    go_offline(monkeypatch)
    run(project).assert_outcomes(passed=1)
    assert Path("cassettes/by_hand.yaml").exists()


def test_a_cassette_in_a_marked_test_is_rejected(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_agent="""
        import pytest
        from langchain_gemini_tools.testing import cassette

        @pytest.mark.vcr
        def test_weather():
            with cassette("by_hand"):
                pass
        """
    )
    result = run(project)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*CassetteInUseError*A test marked with `vcr` already has one*"])


@pytest.mark.parametrize("mode", ["all", "rewrite"])
def test_a_test_that_fails_does_not_replace_its_cassette(
    mode: str, project: pytest.Pytester, online: Emulator
) -> None:
    record(project)
    before = FILE.read_text()
    online.reply("Something else")
    result = record(project, mode=mode)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*The run failed, so the cassette *test_weather.yaml was not changed*"]
    )
    assert FILE.read_text() == before
    assert "Something else" in FILE.with_name("test_weather.failed.yaml").read_text()
    record(project, mode=mode).assert_outcomes(passed=1)
    assert FILE.read_text() != before  # signatures are new


def test_a_test_that_is_interrupted_does_not_replace_its_cassette(
    project: pytest.Pytester, online: Emulator
) -> None:
    record(project)
    before = FILE.read_text()
    project.makepyfile(test_agent=TEST.replace("assert answer", "raise KeyboardInterrupt; answer"))
    with pytest.raises(KeyboardInterrupt):
        record(project, mode="all")
    assert len(online.requests) == 2
    assert FILE.read_text() == before


def test_a_test_that_is_expected_to_fail_is_recorded(
    project: pytest.Pytester, online: Emulator
) -> None:
    failing = TEST.replace("@pytest.mark.vcr", "@pytest.mark.vcr\n    @pytest.mark.xfail")
    project.makepyfile(test_agent=failing.replace("assert ", "assert not "))
    for _ in range(2):
        record(project, mode="all").assert_outcomes(xfailed=1)
    assert sorted(path.name for path in FILE.parent.iterdir()) == ["test_weather.yaml"]


def test_what_no_test_asks_for_is_known_to_the_audit(
    project: pytest.Pytester, online: Emulator, capsys: pytest.CaptureFixture[str]
) -> None:
    by_hand = """
    def test_by_hand():
        with cassette("by_hand"):
            {}
    """
    hello, goodbye = (
        f'ChatGemini(model="gemini-3.8-flash").invoke("{word}")' for word in ("Hello", "Goodbye")
    )
    imports = "    from langchain_gemini_tools.testing import cassette\n"
    project.makepyfile(test_agent=imports + TEST + by_hand.format(f"{hello}, {goodbye}"))
    record(project).assert_outcomes(passed=2)
    FILE.with_name("test_gone.yaml").write_text(FILE.read_text())
    project.makepyfile(test_agent=imports + TEST + by_hand.format(hello))
    run(project, "--cassette-usage=usage.jsonl").assert_outcomes(passed=2)
    capsys.readouterr()
    assert main(["audit", "cassettes", "--usage", "usage.jsonl"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "cassettes/by_hand.yaml: interaction 2 was not used by any test",
        "cassettes/test_agent/test_gone.yaml: was not opened by any test",
        "3 cassettes, 2 problems",
    ]
    assert main(["audit", "cassettes"]) == 0


@pytest.mark.parametrize("options", [[], ["-p", "no:recording"]], ids=["absent", "switched off"])
def test_without_pytest_recording_it_says_what_is_missing(
    options: list[str], project: pytest.Pytester
) -> None:
    result = project.runpytest_inprocess("-p", PLUGIN, *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*plugin needs pytest-recording: pip install*"])


def test_loading_the_plugin_loads_nothing_big() -> None:
    script = f"import sys, {PLUGIN}\nprint('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert PLUGIN in loaded
    assert not {"vcr", "yaml", "langchain_core", "pydantic", "google.genai", "httpx"} & loaded
