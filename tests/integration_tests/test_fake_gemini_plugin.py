"""The fixture `fake_gemini` in projects of users, also where plugins block the network."""

from __future__ import annotations

import pytest

PLUGINS = ("-p", "pytest_recording.plugin", "-p", "langchain_gemini_tools.testing.plugin")
TEST = """
    import asyncio
    import socket

    import pytest
    from langchain_gemini_tools import ChatGemini
    from langchain_gemini_tools.testing import FakeGemini

    def new_model():
        return ChatGemini(model="gemini-3.8-flash")

    def test_my_agent(fake_gemini: FakeGemini) -> None:
        fake_gemini.fail(429, times=2)
        fake_gemini.reply("Sunny.")
        fake_gemini.reply("Rainy.")
        assert new_model().invoke("Weather?").text == "Sunny."
        assert asyncio.run(new_model().ainvoke("Weather?")).text == "Rainy."
        assert len(fake_gemini.requests) == 4
"""
OUTSIDE = """
    import socket

    import pytest

    def connect():
        socket.create_connection(("192.0.2.1", 9), timeout=0.01)

    def test_other_connections_stay_blocked(fake_gemini):
        with pytest.raises(Exception, match="(?i)network is disabled|socket"):
            connect()

    def test_and_also_after_it():
        with pytest.raises(Exception, match="(?i)network is disabled|socket"):
            connect()
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project without other plugins, in the current folder."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # others would cost seconds a run
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:cacheprovider")
    return pytester


@pytest.mark.parametrize(
    "options",
    [
        ("--block-network",),
        ("-p", "pytest_socket", "--disable-socket", "--allow-unix-socket"),
        ("-p", "pytest_socket", "--allow-hosts=192.0.2.7"),
    ],
    ids=["block-network", "disable-socket", "allow-hosts"],
)
def test_the_fixture_works_under_every_block(
    project: pytest.Pytester, options: tuple[str, ...]
) -> None:
    project.makepyfile(test_agent=TEST, test_outside=OUTSIDE)
    result = project.runpytest_subprocess(*PLUGINS, *options)
    result.assert_outcomes(passed=3)


def test_replies_that_are_left_over_are_an_error_after_a_test_that_passed(
    project: pytest.Pytester,
) -> None:
    project.makepyfile("""
        import pytest

        def test_passes(fake_gemini):
            fake_gemini.reply("Never asked for.")

        def test_fails(fake_gemini):
            fake_gemini.reply("Never asked for.")
            assert False, "the real reason"

        def test_skips(fake_gemini):
            fake_gemini.reply("Never asked for.")
            pytest.skip("not today")

        def test_allows_it(fake_gemini):
            fake_gemini.allow_unused = True
            fake_gemini.reply("Never asked for.")

        @pytest.mark.xfail
        def test_is_expected_to_fail(fake_gemini):
            fake_gemini.reply("Never asked for.")
            assert False
    """)
    result = project.runpytest_subprocess(*PLUGINS)
    result.assert_outcomes(passed=2, failed=1, errors=1, skipped=1, xfailed=1)
    result.stdout.fnmatch_lines(["*the real reason*"])
    result.stdout.fnmatch_lines(["*FakeGeminiError: 1 scripted reply not used after*"])


def test_a_marked_test_replays_what_was_recorded_with_the_fixture(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import pytest
        from langchain_gemini_tools import ChatGemini

        @pytest.mark.vcr
        def test_weather(fake_gemini):
            fake_gemini.reply("Sunny.")
            assert ChatGemini(model="gemini-3.8-flash").invoke("Weather?").text == "Sunny."
    """)
    recorded = project.runpytest_subprocess(*PLUGINS, "--record-mode=once")
    recorded.assert_outcomes(passed=1)
    (file,) = project.path.rglob("*.yaml")
    file.write_text(file.read_text().replace("Sunny.", "Rainy."))
    replayed = project.runpytest_subprocess(*PLUGINS, "--block-network")
    replayed.assert_outcomes(failed=1)
    replayed.stdout.fnmatch_lines(["*Rainy*"])
