"""Errors, logs, cassettes and traces hide the same credentials, because all use one `redact`."""

from __future__ import annotations

import base64
import html
import json
import logging
import pickle
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus

import pytest
import requests
from google.oauth2.credentials import Credentials
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_gemini_tools import errors, trace
from langchain_gemini_tools.facts import credentials
from langchain_gemini_tools.facts.credentials import Pattern
from langchain_gemini_tools.testing import StaleCassetteError, cassette
from langchain_gemini_tools.testing.fake import faults
from tests.integration_tests.invoking import raw
from tests.integration_tests.raw_server import SUNNY, Connection, RawServer
from tests.integration_tests.taping import FILE, interactions

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_gemini_tools.testing.fake import Emulator
    from tests.conftest import MakeModel

pytestmark = pytest.mark.usefixtures("own_folder", "no_pauses")

KEY = "k/ey+with=signs&<more>'-123"
"""The key in use, when it matches no pattern."""

CREDENTIALS = {
    "Google API key": "AI" + "za" + "Sy0123456789abcdefghij-KLMNOPQRS_",
    "OAuth token": "ya" + "29." + "a0AfB_byC-12",
    "OAuth secret": "GOC" + "SPX-0123456789abcdefghijklmn",
    "private key": "-----BEGIN "
    "PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEF\n-----END PRIVATE KEY-----",
    "JWT": "ey" + "JhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVPmB92K27u",
    "another vendor's key": "sk-" + "proj-0123456789abcdefghij",
    "the key in use": KEY,
    "percent-encoded": quote(KEY, safe=""),
    "percent-encoded for forms": quote_plus(KEY),
    "base64": base64.b64encode(KEY.encode()).decode(),
    "inside base64": base64.b64encode(f"x:{KEY}".encode()).decode(),
    "base64url": base64.urlsafe_b64encode(KEY.encode()).decode(),
    "HTML-escaped": html.escape(KEY),
    "hex": KEY.encode().hex(),
}


class Places:
    """Where a server's words may end up."""

    def __init__(
        self, emulator: Emulator, make_model: MakeModel, caplog: pytest.LogCaptureFixture
    ) -> None:
        self.emulator = emulator
        self.caplog = caplog
        self.model: Any = make_model(max_retries=1, additional_headers={"X-Gateway-Key": KEY})
        assert self.model.client  # from here on, its credentials are known: a trace calls no model

    def in_an_error(self, words: str) -> str:
        """Everything that an error shows."""
        details = [{"@type": "x", "metadata": {words: words}}]
        self.emulator.reply(fault=faults.http_error(400, words, details=details))
        with pytest.raises(errors.GeminiAPIError) as caught:
            self.model.invoke("Hello")
        error = caught.value
        shown = (error.args, error.details, error.response, str(pickle.loads(pickle.dumps(error))))
        return f"{error} {error!r} {shown} {error.response.text}"

    def in_a_log(self, words: str) -> str:
        """All records of a request that is retried."""
        self.caplog.set_level(logging.DEBUG)
        self.emulator.reply(fault=faults.http_error(503, words))
        self.emulator.reply("Hi")
        self.model.invoke("Hello")
        records = [r for r in self.caplog.records if r.name.startswith("langchain_gemini_tools")]
        assert records
        return "\n".join(f"{record.getMessage()} {record.args}" for record in records)

    def in_a_cassette(self, words: str) -> str:
        """The file of a recording in which both sides say it."""
        self.emulator.reply(words)
        with cassette("weather", record_mode="all"):
            self.model.invoke(words)
        text = FILE.read_text()
        return text + re.sub(r"\s+", " ", text)

    def in_a_trace(self, words: str) -> str:
        """A run in plain text and mermaid."""
        self.model.invoke("Hello")
        shown = _trace(words)
        return f"{shown} {shown!r} {shown.to_mermaid()}"

    def in_a_page(self, words: str) -> str:
        """A run in HTML, as it is written and as it is read."""
        self.model.invoke("Hello")
        page: str = _trace(words).to_html()
        return page + html.unescape(page)


def _trace(words: str) -> Any:
    call = {"name": "f", "args": {"x": words, "n": [words]}, "id": "1"}
    return trace(
        [
            HumanMessage(words),
            AIMessage([{"type": "text", "text": words}], tool_calls=[call]),
            ToolMessage(words, tool_call_id="1", status="error"),
            AIMessage(words),
        ],
        unfold=True,
    )


PLACES: dict[str, Callable[[Places, str], str]] = {
    "error": Places.in_an_error,
    "log": Places.in_a_log,
    "cassette": Places.in_a_cassette,
    "trace": Places.in_a_trace,
    "page": Places.in_a_page,
}


@pytest.fixture
def places(emulator: Emulator, make_model: MakeModel, caplog: pytest.LogCaptureFixture) -> Places:
    return Places(emulator, make_model, caplog)


@pytest.mark.parametrize("credential", CREDENTIALS.values(), ids=CREDENTIALS)
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_a_credential_is_redacted_everywhere(
    places: Places, place: Callable[[Places, str], str], credential: str
) -> None:
    shown = place(places, f"It is {credential} .")
    assert "redacted" in shown
    assert [piece for piece in _pieces(credential) if piece in shown] == []


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_a_header_of_a_call_is_redacted_everywhere(
    places: Places, place: Callable[[Places, str], str], make_model: MakeModel
) -> None:
    tenant = "blue/tenant+7&<more>"
    places.model = make_model(max_retries=1).bind(additional_headers={"X-Tenant": tenant})
    shown = place(places, f"It is {tenant} .")
    assert "redacted" in shown
    assert tenant not in shown


def _pieces(credential: str) -> set[str]:
    """All that a reader could recognize; of base64, the letters at both ends may be left."""
    return {credential[start : start + 8] for start in range(len(credential) - 7)}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_ordinary_text_is_shown_everywhere(
    places: Places, place: Callable[[Places, str], str]
) -> None:
    words = "a sketch of task-sk-0123456789-abcdefghijkl"
    assert words in place(places, words)


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_a_new_pattern_is_one_row_of_one_module(
    places: Places, place: Callable[[Places, str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = "acme-live:0123456789abcdef"
    row = Pattern("an Acme key", "acme-live:", r"[0-9a-f]{16}")
    monkeypatch.setattr(credentials, "PATTERNS", (*credentials.PATTERNS, row))
    shown = place(places, f"It is {unknown} .")
    assert "redacted" in shown
    assert [piece for piece in _pieces(unknown) if piece in shown] == []


def test_a_key_of_the_environment_is_redacted_in_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "my-own-key-0815")
    shown = str(trace([HumanMessage("It is my-own-key-0815 .")]))
    assert "It is [redacted] ." in shown


def test_a_thought_signature_is_saved_as_it_is(places: Places) -> None:
    signature = base64.b64encode(bytes(range(256)) * 8).decode()
    key = CREDENTIALS["Google API key"].replace("-", "+").replace("_", "/")
    glued = signature[:100] + key + signature[100:]
    part = {"text": "Hi", "thoughtSignature": glued}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}
    places.emulator.reply(fault=raw(200, {"candidates": [candidate]}))
    with cassette("weather", record_mode="all"):
        places.model.invoke("Hello")
    (found,) = interactions()
    assert found["response"]["body"]["json"]["candidates"] == [candidate]


def test_a_token_that_is_fetched_during_a_recording_is_not_logged(
    make_model: MakeModel, caplog: pytest.LogCaptureFixture
) -> None:
    token, refresh_token = "opaque-access-token-7", "opaque-refresh-token-8"

    def serve(connection: Connection) -> None:
        while head := connection.read_request():
            found = {"access_token": token} if head.startswith(b"POST /token") else SUNNY
            body = json.dumps(found).encode()
            connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)

    caplog.set_level(logging.DEBUG)
    with RawServer(serve) as server, cassette(FILE, record_mode="once"):
        found = Credentials(  # type: ignore[no-untyped-call]
            None,
            refresh_token=refresh_token,
            token_uri=f"{server.url}/token",
            client_id="c",
            client_secret="opaque-client-secret-9",
        )
        settings = {"api_key": None, "vertexai": True, "project": "p", "location": "l"}
        chat = make_model(base_url=server.url, credentials=found, **settings)
        assert chat.invoke("Hello").text == "Sunny"
    assert "send_request_headers" in caplog.text  # DEBUG is on
    for text in (caplog.text, FILE.read_text()):
        assert not [secret for secret in (token, refresh_token, "opaque-client") if secret in text]


def test_a_prompt_may_quote_a_secret_of_a_later_oauth_exchange(make_model: MakeModel) -> None:
    def serve(connection: Connection) -> None:
        while connection.read_request():
            body = json.dumps(SUNNY).encode()
            connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)

    def log_in(prompt: str) -> None:
        assert make_model(base_url=server.url).invoke(prompt).text == "Sunny"
        fields = {"grant_type": "password", "username": "u", "password": "Pa55word!"}
        requests.post(f"{server.url}/token", timeout=10, data=fields)

    with RawServer(serve) as server:
        with cassette(FILE, record_mode="once"):
            log_in("Log in with Pa55word! please")
        assert "Pa55" not in FILE.read_text()
        with cassette(FILE, record_mode="none"):
            log_in("Log in with Pa55word! please")
        with cassette(FILE, record_mode="none"), pytest.raises(StaleCassetteError):
            log_in("Log in without a password please")
        assert len(server.requests) == 2


def test_a_page_about_oauth_is_saved_as_it_is() -> None:
    page = b"Send client_id=a&grant_type=authorization_code&code=SplxlOBeZQ to it. Tea & tart."

    def serve(connection: Connection) -> None:
        while connection.read_request():
            head = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: %d\r\n\r\n"
            connection.send(head % len(page) + page)

    with RawServer(serve) as server:
        for mode in ("once", "none"):
            with cassette(FILE, record_mode=mode):
                assert requests.get(server.url, timeout=10).content == page
        assert len(server.requests) == 1


@pytest.mark.parametrize("form", ["data", "json"])
def test_the_secrets_of_an_oauth_exchange_are_not_saved_and_make_no_difference(form: str) -> None:
    """A tool of an agent gets its own token; the API that it calls quotes that token."""
    answer = {
        "access_token": "opaque-token-1/+",
        "refresh_token": "opaque-token-2",
        "code": "SUCCESS",
    }

    def serve(connection: Connection) -> None:
        while connection.read_request():
            body = json.dumps(answer).encode()
            connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)

    def exchange(client_secret: str) -> Any:
        fields = {"grant_type": "client_credentials", "client_secret": client_secret, "scope": "a"}
        body: dict[str, Any] = {form: fields}
        return requests.post(f"{server.url}/oauth/token", timeout=10, **body).json()

    with RawServer(serve) as server:
        with cassette(FILE, record_mode="once"):
            assert exchange("opaque/secret+3") == answer
        saved = FILE.read_text()
        assert "opaque" not in saved
        assert "SUCCESS" in saved
        with cassette(FILE, record_mode="none"):
            assert exchange("opaque/secret+3")["access_token"] == "[redacted]"
        with cassette(FILE, record_mode="none"):
            assert exchange("another one of CI")["code"] == "SUCCESS"
        assert len(server.requests) == 1
