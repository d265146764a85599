"""`with cassette(...)`: what is saved, when, and what never is. Recorded against the emulator."""

from __future__ import annotations

import base64
import gc
import gzip
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from langchain_core.messages import HumanMessage

from langchain_gemini_tools.errors import GeminiToolsError, UnreadableResponseError
from langchain_gemini_tools.testing import (
    CassetteError,
    CassetteFileError,
    CassetteInUseError,
    SecretFoundError,
    StaleCassetteError,
    cassette,
)
from langchain_gemini_tools.testing.fake import API_KEY, Emulator, faults
from tests.integration_tests.invoking import QUESTION, ask, raw
from tests.integration_tests.taping import FILE, gemini, interactions
from tests.rotation import WAYS

if TYPE_CHECKING:
    from pathlib import Path

    from langchain_gemini_tools import ChatGemini
    from tests.conftest import MakeModel

pytestmark = pytest.mark.usefixtures("own_folder")


@pytest.mark.parametrize("way", WAYS)
async def test_compressed_answers_are_saved_readable(
    way: str, model: ChatGemini, emulator: Emulator, library: str
) -> None:
    emulator.reply("Hello", fault=faults.gzipped())
    with cassette("weather", record_mode="all"):
        await ask(model, way)
    response = interactions()[0]["response"]
    assert "content-encoding" not in response["headers"]
    assert set(response["body"]) == ({"events"} if "stream" in way else {"json"})
    with cassette("weather"):
        assert (await ask(gemini(), way)).text == "Hello"


def test_a_cassette_that_is_never_closed_saves_nothing(
    model: ChatGemini, emulator: Emulator
) -> None:
    emulator.reply("Hello")
    opened = cassette("weather", record_mode="all").__enter__()
    model.invoke("Hi")
    del opened
    gc.collect()
    assert not FILE.exists()


def test_no_credential_is_in_the_file(emulator: Emulator) -> None:
    key = "unreal-key-0815"
    emulator.reply(f"Your key is {key}, in an address {key}%20", headers={"x-echo": key})
    fields = {
        "base_url": emulator.url,
        "api_key": key,
        "additional_headers": {"X-Auth": "hunter22"},
    }
    with cassette("weather", record_mode="all", secrets=["my-password"]):
        gemini(**fields).invoke(f"I am {key}, and my-password is hunter22")
    text = FILE.read_text()
    assert [
        found for found in (key, "my-password", "hunter22", "user-agent") if found in text
    ] == []
    assert text.count("[redacted]") == 5
    with cassette("weather", secrets=["my-password"]):
        gemini(**fields).invoke(f"I am {key}, and my-password is hunter22")
        with pytest.raises(StaleCassetteError) as caught:
            gemini(**fields).invoke(f"I was {key}, and my-password is hunter22")
    assert "my-password" not in str(caught.value)


def test_what_still_looks_like_a_credential_is_not_saved(model: ChatGemini) -> None:
    key = "AI" + "za" + "Sy0123456789abcdefghij-KLMNOPQRS_tuv"
    file = base64.b64encode(f"GOOGLE_API_KEY={key}\n".encode()).decode()
    block = {"type": "file", "base64": file, "mime_type": "text/plain"}
    with cassette("weather", record_mode="all"):
        model.invoke(QUESTION)
    before = FILE.read_text()
    with pytest.raises(SecretFoundError) as caught, cassette("weather", record_mode="all"):
        model.invoke([HumanMessage([block])])
    assert str(caught.value) == (
        "The recording contains something that looks like a credential, so it was not saved: "
        "interaction 1, request.body.json.contents[0].parts[0].inlineData.data: "
        "a Google API key (inside base64). Remove it from what the program sends, and record again."
    )
    assert FILE.read_text() == before
    assert [path.name for path in FILE.parent.iterdir()] == ["weather.yaml"]
    model.invoke(QUESTION)  # the HTTP library is itself again
    assert FILE.read_text() == before


def test_a_credential_in_binary_data_is_not_saved(model: ChatGemini, emulator: Emulator) -> None:
    emulator.reply(fault=raw(200, b"\xff\xfe" + API_KEY.encode()))
    with (
        pytest.raises(SecretFoundError, match=r"base64: the credential that was used"),
        cassette("weather", record_mode="all"),
        pytest.raises(UnreadableResponseError),
    ):
        model.invoke(QUESTION)
    assert not FILE.exists()


def _body(*texts: str) -> bytes:
    parts = [{"text": text} for text in texts]
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
    return json.dumps({"candidates": [candidate]}).encode()


HALVES = (API_KEY[:9], API_KEY[9:])
EVENTS = b"".join(b"data: " + _body(half) + b"\r\n\r\n" for half in HALVES)
IN_PIECES = {
    "parts": (_body(*HALVES), "joined text: the credential that was used"),
    "events": (EVENTS, "joined text: the credential that was used"),
    "events, cut": (EVENTS + b"data: {", "joined text: the credential that was used"),
    "lines of base64": (
        _body(base64.encodebytes(b"x" * 46 + API_KEY.encode()).decode()),
        "the credential that was used (inside base64)",
    ),
    "UTF-16": (_body(API_KEY).decode().encode("utf-16"), "that was used (in UTF-16)"),
    "gzip": (gzip.compress(_body(API_KEY)), "that was used (compressed)"),
}


@pytest.mark.parametrize(("body", "words"), IN_PIECES.values(), ids=IN_PIECES)
@pytest.mark.parametrize("way", ["invoke", "stream"])
async def test_a_credential_in_pieces_or_encoded_is_not_saved(
    way: str, body: bytes, words: str, model: ChatGemini, emulator: Emulator
) -> None:
    emulator.reply(fault=raw(200, body))
    with (
        pytest.raises(SecretFoundError, match=re.escape(words)),
        cassette("weather", record_mode="all"),
        suppress(GeminiToolsError),  # what the model makes of it does not matter here
    ):
        await ask(model, way)
    assert not FILE.exists()


def test_the_key_is_taken_out_of_hex(model: ChatGemini, emulator: Emulator) -> None:
    emulator.reply(f"It is {API_KEY.encode().hex()}.")
    with cassette("weather", record_mode="all"):
        model.invoke(QUESTION)
    assert "It is [redacted]." in FILE.read_text()


def test_two_cassettes_at_once_are_rejected(model: ChatGemini) -> None:
    with cassette("weather", record_mode="all"):
        with pytest.raises(CassetteInUseError, match=r"'cassettes/b\.yaml' cannot be opened while"):
            cassette("b").__enter__()
        model.invoke(QUESTION)
    with cassette("weather"):
        gemini().invoke(QUESTION)


def test_a_replay_writes_nothing(model: ChatGemini) -> None:
    with cassette("weather", record_mode="all"):
        model.invoke(QUESTION)
    before = FILE.read_bytes(), FILE.stat().st_mtime_ns
    with cassette("weather"):
        gemini().invoke(QUESTION)
    assert (FILE.read_bytes(), FILE.stat().st_mtime_ns) == before
    assert [path.name for path in FILE.parent.iterdir()] == ["weather.yaml"]


def record_and_fail(model: ChatGemini, failure: BaseException) -> None:
    with cassette("weather", record_mode="all"):
        model.invoke("Good evening")
        raise failure


@pytest.mark.parametrize("failure", [ZeroDivisionError("mine"), KeyboardInterrupt()], ids=repr)
def test_a_failed_recording_leaves_the_old_file_whole_and_is_kept_beside_it(
    failure: BaseException, model: ChatGemini, caplog: pytest.LogCaptureFixture
) -> None:
    with cassette("weather", record_mode="all"):
        model.invoke("Hello")
    before = FILE.read_text()
    with pytest.raises(type(failure)) as caught:
        record_and_fail(model, failure)
    assert FILE.read_text() == before
    beside = FILE.with_name("weather.failed.yaml")
    assert "Good evening" in beside.read_text()
    note = [
        "The run failed, so the cassette cassettes/weather.yaml was not changed. What was recorded "
        "before the failure is in cassettes/weather.failed.yaml; rename it to use it."
    ]
    assert caught.value.__notes__ == note
    assert [r.getMessage() for r in caplog.records] == note


def test_a_first_recording_that_fails_is_kept(model: ChatGemini) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        record_and_fail(model, ZeroDivisionError())
    assert caught.value.__notes__ == [
        "The run failed. What was recorded before the failure is in cassettes/weather.yaml."
    ]
    with cassette("weather"):
        gemini().invoke("Good evening")


def test_a_recording_that_cannot_be_written_says_so_and_hides_no_other_error(
    model: ChatGemini, own_folder: Path
) -> None:
    file = own_folder / "weather.yaml"
    expected = r"The recording was not saved: .*weather\.yaml cannot be written"
    with pytest.raises(CassetteFileError, match=expected):  # noqa: SIM117, PT012
        with cassette(file, record_mode="once"):
            model.invoke(QUESTION)
            file.mkdir()
    file.rmdir()
    with pytest.raises(ValueError, match="mine") as raised:  # noqa: SIM117, PT012
        with cassette(file, record_mode="once"):
            model.invoke(QUESTION)
            (own_folder / "weather.failed.yaml").mkdir()
            file.mkdir()
            raise ValueError("mine")
    assert re.search("The recording was not saved", raised.value.__notes__[0])


def test_a_credential_in_the_recording_of_a_run_that_failed_hides_no_other_error(
    model: ChatGemini, own_folder: Path
) -> None:
    hidden = base64.b64encode(b"AIzaSy" + b"B" * 33).decode()
    with pytest.raises(ValueError, match="mine") as raised:  # noqa: SIM117, PT012
        with cassette("weather", record_mode="once"):
            model.invoke(f"What does {hidden} mean?")
            raise ValueError("mine")
    assert re.search("looks like a credential, so it was not saved", raised.value.__notes__[0])
    assert list(own_folder.rglob("*.yaml")) == []


def test_a_recording_that_is_killed_leaves_the_old_file_whole(
    model: ChatGemini, emulator: Emulator
) -> None:
    with cassette("weather", record_mode="all"):
        model.invoke("Hello")
    before = FILE.read_text()
    script = (
        "import os, signal\n"
        "from langchain_gemini_tools import ChatGemini\n"
        "from langchain_gemini_tools.testing import cassette\n"
        "with cassette('weather', record_mode='all'):\n"
        "    ChatGemini(model='gemini-3.8-flash').invoke('Good evening')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    environment = {**os.environ, "GOOGLE_API_KEY": API_KEY, "GOOGLE_GEMINI_BASE_URL": emulator.url}
    done = subprocess.run([sys.executable, "-c", script], env=environment, check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL
    assert len(emulator.requests) == 2
    assert {path.name: path.read_text() for path in FILE.parent.iterdir()} == {FILE.name: before}


def test_new_episodes_are_added(model: ChatGemini, emulator: Emulator) -> None:
    with cassette("weather", record_mode="all"):
        model.invoke("Hello")
    with cassette("weather", record_mode="new_episodes"):
        model.invoke("Hello")
        model.invoke("Good evening")
    assert [len(emulator.requests), len(interactions())] == [2, 2]


def test_all_records_everything_again(model: ChatGemini) -> None:
    with cassette("weather", record_mode="all"):
        model.invoke("Hello")
        model.invoke("Goodbye")
    with cassette("weather", record_mode="all"):
        model.invoke("Hello")
    assert len(interactions()) == 1


@pytest.mark.parametrize(
    ("variable", "has_key", "mode"),
    [
        (None, False, "none"),
        (None, True, "once"),
        ("all", False, "all"),
        ("none", True, "none"),
        ("rewrite", True, "all"),
    ],
)
def test_the_mode_comes_from_the_environment_else_from_the_key(
    variable: str | None, has_key: bool, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable:
        monkeypatch.setenv("GEMINI_RECORD_MODE", variable)
    if has_key:
        monkeypatch.setenv("GEMINI_API_KEY", API_KEY)
    assert cassette("weather").record_mode == mode
    assert cassette("weather", record_mode="new_episodes").record_mode == "new_episodes"


def test_an_unknown_mode_is_rejected() -> None:
    with pytest.raises(CassetteError, match="'replay' is not a record mode"):
        cassette("weather", record_mode="replay")


def test_examples_may_prefer_the_api_where_there_is_a_key(
    make_model: MakeModel, emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model()
    with cassette("weather", record_mode="all"):
        model.invoke(QUESTION)
    before = FILE.read_text()
    monkeypatch.setenv("GOOGLE_API_KEY", API_KEY)
    with cassette("weather", prefer_live=True) as tape:
        make_model().invoke(QUESTION)
        assert not tape.is_replaying
    assert len(emulator.requests) == 2
    assert FILE.read_text() == before
    monkeypatch.delenv("GOOGLE_API_KEY")
    with cassette("weather", prefer_live=True) as tape:
        gemini().invoke(QUESTION)
        assert tape.is_replaying


def test_a_replay_leaves_the_environment_as_it_was(model: ChatGemini) -> None:
    with cassette("weather", record_mode="all"):
        model.invoke(QUESTION)
    before = dict(os.environ)
    with cassette("weather"):
        assert os.environ["GOOGLE_API_KEY"] == "replayed-without-a-key"
    assert dict(os.environ) == before


def test_a_bad_file_is_named(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.mkdir()
    with pytest.raises(CassetteFileError, match=r"bad\.yaml cannot be replayed\. .*directory"):
        cassette(bad).__enter__()
    bad.rmdir()
    bad.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CassetteFileError, match=r"bad\.yaml cannot be replayed\. .*utf-8"):
        cassette(bad).__enter__()
    bad.write_text(
        "interactions:\n- request: {method: GET, uri: 'http://[x'}\n"
        "  response: {status: {code: 200}}\n"
    )
    with pytest.raises(CassetteFileError, match=r"bad\.yaml cannot be replayed\. Invalid IPv6"):
        cassette(bad).__enter__()
    bad.write_text("interactions: &a [*a]")
    with pytest.raises(
        CassetteFileError, match=r"bad\.yaml cannot be replayed\. .* YAML reference"
    ):
        cassette(bad).__enter__()
    bad.write_text("a: 1")
    with pytest.raises(CassetteFileError, match="no list 'interactions'"):
        cassette(bad).__enter__()
