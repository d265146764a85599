"""HTTP as it is found elsewhere: HTTP/2, and proxies between the model and the API."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import ssl
import sys
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import pytest

from langchain_gemini_tools import errors
from langchain_gemini_tools.testing.fake import API_KEY
from tests.integration_tests.invoking import ask, logged_retries
from tests.integration_tests.raw_server import (
    SUNNY,
    Connection,
    RawServer,
    is_streaming,
    make_certificate,
    response,
)
from tests.rotation import WAYS, rotated

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from langchain_gemini_tools.testing.fake import Emulator
    from tests.conftest import MakeModel

pytestmark = pytest.mark.usefixtures("no_pauses")

# HTTP/2.

Answer = list[tuple[str, Any]]
"""What is sent for one request: `("headers", status)`, `("data", bytes)`, `("end", None)`, …"""


def _http2(answer: Callable[[int, bool], Answer]) -> Callable[[Connection], None]:
    """A server that answers with frames; the function gets the number of the request."""
    from h2.config import H2Configuration
    from h2.connection import H2Connection
    from h2.events import RequestReceived, StreamEnded
    from h2.exceptions import ProtocolError

    count = iter(range(1000))

    def serve(connection: Connection) -> None:
        h2 = H2Connection(H2Configuration(client_side=False))
        h2.initiate_connection()
        connection.send(h2.data_to_send())
        streams: dict[int, bool] = {}
        while data := connection.peer.recv(65536):
            try:
                events = h2.receive_data(data)
            except ProtocolError:  # after it said goodbye
                return
            for event in events:
                if isinstance(event, RequestReceived):
                    fields = dict(event.headers)
                    assert fields[b"x-goog-api-key"] == API_KEY.encode()
                    streams[event.stream_id] = b"alt=sse" in fields[b":path"]
                if isinstance(event, StreamEnded):
                    for step in answer(next(count), streams[event.stream_id]):
                        _act(h2, event.stream_id, *step)
                        connection.send(h2.data_to_send())
            connection.send(h2.data_to_send())

    return serve


def _act(h2: Any, stream: int, action: str, value: Any) -> None:
    match action:
        case "headers":
            h2.send_headers(stream, [(":status", str(value)), ("content-type", "application/json")])
        case "data":
            h2.send_data(stream, value)
        case "end":
            h2.end_stream(stream)
        case "reset":
            h2.reset_stream(stream, error_code=value)
        case "goaway":
            h2.close_connection(error_code=value)


def _sunny(streams: bool) -> Answer:
    text = json.dumps(SUNNY).encode()
    pieces = [b"data: " + text[:9], text[9:] + b"\r\n\r\n"] if streams else [text[:9], text[9:]]
    return [("headers", 200), *(("data", piece) for piece in pieces), ("end", None)]


@pytest.fixture
def http2(make_model: MakeModel, tmp_path: Path) -> Any:
    """Makes a server and a model that speak HTTP/2 with each other."""
    tls, trusted = make_certificate(tmp_path)
    tls.set_alpn_protocols(["h2"])

    def make(answer: Callable[[int, bool], Answer], **settings: Any) -> tuple[RawServer, Any]:
        server = RawServer(_http2(answer), tls)
        client = {"http2": True, "verify": ssl.create_default_context(cafile=trusted)}
        return server, make_model(base_url=server.url, client_args=client, **settings)

    return make


@rotated(way=WAYS)
async def test_http2_is_spoken_over_one_connection(http2: Any, library: str, way: str) -> None:
    server, chat = http2(lambda _, streams: _sunny(streams))
    with server:
        for _ in range(3):
            assert (await ask(chat, way)).text == "Sunny"
        both = await asyncio.gather(ask(chat, "ainvoke"), ask(chat, "astream"))
        assert [message.text for message in both] == ["Sunny", "Sunny"]
        await chat.aclose()
        assert server.connections <= 2  # one of the threads, one of the event loop


@rotated(way=WAYS)
async def test_no_header_of_http2_is_logged(
    http2: Any, caplog: pytest.LogCaptureFixture, library: str, way: str
) -> None:
    caplog.set_level(logging.DEBUG)
    server, chat = http2(lambda _, streams: _sunny(streams), additional_headers={"x-team": "blue"})
    with server:
        for _ in range(2):
            assert (await ask(chat, way)).text == "Sunny"
        await chat.aclose()
    assert "send_request_headers" in caplog.text  # DEBUG is on
    assert API_KEY not in caplog.text
    assert "x-team" not in caplog.text
    assert not [record for record in caplog.records if record.name.startswith("hpack")]


ERROR = json.dumps({"error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}})
TRANSIENT: dict[str, Answer] = {
    "503": [("headers", 503), ("data", ERROR.encode()), ("end", None)],
    "reset before the head": [("reset", 2)],
    "reset after the head": [("headers", 200), ("reset", 2)],
    "reset inside the body": [("headers", 200), ("data", b'{"candid'), ("reset", 8)],
    "connection ends": [("goaway", 0)],
}


@rotated(fault=TRANSIENT, way=WAYS)
async def test_a_fault_of_http2_is_retried(
    http2: Any, caplog: pytest.LogCaptureFixture, library: str, fault: Answer, way: str
) -> None:
    server, chat = http2(lambda n, streams: fault if n == 0 else _sunny(streams), max_retries=2)
    with server:
        assert (await ask(chat, way)).text == "Sunny"
        await chat.aclose()
    assert logged_retries(caplog) == ["retry 1 of 2"]


@rotated(way=WAYS)
async def test_the_timeout_ends_a_silent_stream_of_http2(
    http2: Any, library: str, way: str
) -> None:
    server, chat = http2(lambda n, streams: [("headers", 200)], timeout=0.5, stream_timeout=5)
    with server:
        with pytest.raises(errors.GeminiTimeoutError, match=r"within 0\.5 s"):
            await ask(chat, way)
        await chat.aclose()


# A proxy in the middle.


class Proxy(RawServer):
    """Forwards requests, and makes tunnels for `CONNECT`; keeps the heads that it saw."""

    def __init__(self, target: str, password: str | None = None) -> None:
        super().__init__(self._forward)
        self._target = urlsplit(target)
        self._password = password

    def _forward(self, connection: Connection) -> None:
        while head := connection.read_request():
            if self._password and f"Basic {self._password}".encode() not in head:
                connection.send(
                    b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n"
                )
                continue
            if head.startswith(b"CONNECT"):
                self._tunnel(connection)
                return
            connection.send(response(is_stream=is_streaming(head)))

    def _tunnel(self, connection: Connection) -> None:
        address = (self._target.hostname, self._target.port)
        with socket.create_connection(address) as server:
            connection.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(target=_copy, args=[server, connection.peer], daemon=True)
            back.start()
            _copy(connection.peer, server)
            back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return


def _sunny_server(connection: Connection) -> None:
    while head := connection.read_request():
        connection.send(response(is_stream=is_streaming(head)))


@rotated(way=WAYS)
@pytest.mark.parametrize("by", ["argument", "environment"])
async def test_a_tunnel_through_a_proxy_shows_it_neither_key_nor_prompt(
    *,
    make_model: MakeModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    library: str,
    way: str,
    by: str,
) -> None:
    tls, trusted = make_certificate(tmp_path)
    with RawServer(_sunny_server, tls) as server, Proxy(server.url) as proxy:
        args: dict[str, Any] = {"verify": ssl.create_default_context(cafile=trusted)}
        if by == "argument":
            args["proxy"] = proxy.url
        else:
            monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        chat = make_model(base_url="https://gemini.test:443", client_args=args)
        for _ in range(2):
            assert (await ask(chat, way)).text == "Sunny"
        await chat.aclose()
    assert [head.split(b"\r\n")[0] for head in proxy.requests] == [
        b"CONNECT gemini.test:443 HTTP/1.1"
    ]
    assert API_KEY.encode() not in b"".join(proxy.requests)
    assert len(server.requests) == 2
    assert all(API_KEY.encode() in head for head in server.requests)


@rotated(way=WAYS)
async def test_a_proxy_forwards_plain_requests(
    emulator: Emulator, make_model: MakeModel, library: str, way: str
) -> None:
    with Proxy(emulator.url) as proxy:
        chat = make_model(base_url="http://gemini.test", client_args={"proxy": proxy.url})
        assert (await ask(chat, way)).text == "Sunny"
        await chat.aclose()
    assert proxy.requests[0].startswith(b"POST http://gemini.test/v1beta/models/")
    assert emulator.requests == []


@rotated(way=WAYS)
async def test_a_proxy_that_needs_a_password_is_not_asked_twice(
    *, make_model: MakeModel, caplog: pytest.LogCaptureFixture, library: str, way: str
) -> None:
    with Proxy("http://127.0.0.1:9", password="dXNlcjpwYXNzd29yZA==") as proxy:  # user:password
        wrong = proxy.url.replace("http://", "http://user:a-wrong-password@")
        chat = make_model(
            base_url="https://gemini.test", client_args={"proxy": wrong}, max_retries=6
        )
        with pytest.raises(errors.GeminiConnectionError, match=r"407.*proxy") as raised:
            await ask(chat, way)
        await chat.aclose()
    assert not raised.value.is_retryable
    assert "a-wrong-password" not in repr(raised.value) + str(raised.value.__cause__)
    assert len(proxy.requests) == 1
    assert logged_retries(caplog) == []


@rotated(way=WAYS)
async def test_the_timeout_ends_a_proxy_that_drips_its_answer(
    make_model: MakeModel, library: str, way: str
) -> None:
    def drip(connection: Connection) -> None:
        connection.read_request()
        connection.send(b"HTTP/1.1 200 Connection established\r\n")
        connection.drip(b"x-padding: still here\r\n" * 1000)

    with RawServer(drip) as proxy:
        chat = make_model(
            base_url="https://gemini.test",
            client_args={"proxy": proxy.url},
            timeout=0.5,
            stream_timeout=5,
        )
        with pytest.raises(errors.GeminiTimeoutError, match=r"within 0\.5 s"):
            await ask(chat, way)
        await chat.aclose()


PASSWORD = "pass/word+of=socks"


class SocksProxy(RawServer):
    """A SOCKS5 proxy that asks for a password, with the API behind it."""

    def __init__(self, reply_code: int = 0) -> None:
        super().__init__(self._serve_socks)
        self._reply_code = reply_code

    def _serve_socks(self, connection: Connection) -> None:
        peer = connection.peer
        peer.recv(257)  # the ways to log in
        peer.sendall(b"\x05\x02")
        is_right = peer.recv(513).endswith(PASSWORD.encode())
        peer.sendall(b"\x01" + bytes([not is_right]))
        peer.recv(262)  # the address
        peer.sendall(b"\x05" + bytes([self._reply_code]) + b"\x00\x01" + bytes(6))
        _sunny_server(connection)

    def url_for(self, login: str) -> str:
        return f"socks5://{login}{self.address}"


@rotated(way=WAYS)
@pytest.mark.parametrize("by", ["argument", "environment"])
async def test_the_password_of_a_socks_proxy_is_not_logged(
    *,
    make_model: MakeModel,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    library: str,
    way: str,
    by: str,
) -> None:
    caplog.set_level(logging.DEBUG)
    with SocksProxy() as proxy:
        url = proxy.url_for(f"user:{quote(PASSWORD, safe='')}@")
        args: dict[str, Any] = {"proxy": url} if by == "argument" else {}
        if by == "environment":
            monkeypatch.setenv("ALL_PROXY", url)
        chat = make_model(base_url="http://gemini.test", client_args=args)
        assert (await ask(chat, way)).text == "Sunny"
        await chat.aclose()
    assert "send_request_headers" in caplog.text  # DEBUG is on
    assert "word+of" not in caplog.text
    assert "word%2Bof" not in caplog.text


@rotated(way=WAYS)
@pytest.mark.parametrize(
    ("login", "reply_code"),
    [("user:a-wrong-one@", 0), ("", 0), (f"user:{quote(PASSWORD, safe='')}@", 2)],
    ids=["wrong password", "no password", "rule"],
)
async def test_a_socks_proxy_that_refuses_is_not_asked_twice(
    *, make_model: MakeModel, library: str, way: str, login: str, reply_code: int
) -> None:
    with SocksProxy(reply_code) as proxy:
        args = {"proxy": proxy.url_for(login)}
        chat = make_model(base_url="http://gemini.test", client_args=args, max_retries=6)
        with pytest.raises(errors.GeminiConnectionError, match="its credentials") as e:
            await ask(chat, way)
        await chat.aclose()
        assert proxy.connections == 1
    assert not e.value.is_retryable


@rotated(way=WAYS)
@pytest.mark.parametrize("by", ["argument", "environment"])
async def test_a_package_that_a_socks_proxy_needs_is_named(
    *, make_model: MakeModel, monkeypatch: pytest.MonkeyPatch, library: str, way: str, by: str
) -> None:
    monkeypatch.setitem(sys.modules, "socksio", None)  # not installed
    url = f"socks5://user:{quote(PASSWORD, safe='')}@127.0.0.1:9"
    if by == "environment":
        monkeypatch.setenv("ALL_PROXY", url)
    args = {"proxy": url} if by == "argument" else {}
    source = "client_args" if by == "argument" else "ALL_PROXY"
    with pytest.raises(errors.InvalidOptionError, match=f"{source}.*cannot be used.*socksio") as e:
        await ask(make_model(base_url="http://gemini.test", client_args=args), way)
    assert "word" not in str(e.value)
