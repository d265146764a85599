"""Faults below HTTP: heads that never end, unread bytes, certificates, forks, cookies."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.tools import tool
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from langchain_gemini_tools import errors
from tests.integration_tests.invoking import ask, logged_retries
from tests.integration_tests.raw_server import (
    Connection,
    RawServer,
    is_streaming,
    make_certificate,
    response,
    says,
)
from tests.rotation import WAYS, rotated

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import MakeModel

pytestmark = pytest.mark.usefixtures("no_pauses")

# Time.


def _endless_102(connection: Connection) -> None:
    connection.read_request()
    while True:
        connection.send(b"HTTP/1.1 102 Processing\r\n\r\n" * 10)


def _dripping_head(connection: Connection) -> None:
    connection.read_request()
    connection.send(b"HTTP/1.1 200 OK\r\n")
    connection.drip(b"x-padding: still here\r\n" * 1000)


def _dripping_chunk_size(connection: Connection) -> None:
    connection.read_request()
    connection.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;")
    connection.drip(b"x" * 10_000)


@rotated(
    case={
        "endless 102, unary": (_endless_102, ("invoke", "ainvoke")),
        "dripping head, streamed": (_dripping_head, ("stream", "astream")),
        "dripping chunk size, unary": (_dripping_chunk_size, ("invoke", "ainvoke")),
        "endless 102, streamed": (_endless_102, ("stream", "astream")),
        "dripping head, unary": (_dripping_head, ("invoke", "ainvoke")),
        "dripping chunk size, streamed": (_dripping_chunk_size, ("stream", "astream")),
    },
)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_the_timeout_ends_a_response_that_never_begins(
    make_model: MakeModel, library: str, case: Any, is_async: bool
) -> None:
    script, ways = case
    way = ways[is_async]

    def serve(connection: Connection) -> None:
        if head := connection.read_request():
            connection.send(response(is_stream=is_streaming(head)))
        script(connection)

    with RawServer(serve) as server:
        chat = make_model(base_url=server.url, max_retries=2)
        await ask(chat, way)  # opens the connection: what loads on the way has no limit
        with pytest.raises(errors.GeminiTimeoutError, match=r"within 0\.5 s"):
            await ask(chat, way, timeout=0.5, stream_timeout=5)
        assert (len(server.requests), server.connections) == (2, 1)


_FIRST_CALL = """
import asyncio, sys, threading, time
from langchain_gemini_tools import ChatGemini

now, passed, threads = time.monotonic, [0], set()

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("httpcore"):
            passed[0] += 1000
            threads.add(threading.current_thread())

url, way = sys.argv[1:]
model = ChatGemini(model="gemini-3.8-flash", api_key="k", base_url=url, timeout=60, max_retries=0)
sys.meta_path.insert(0, Slow())
time.monotonic = lambda: now() + passed[0]
message = model.invoke("Hi") if way == "invoke" else asyncio.run(model.ainvoke("Hi"))
print(message.text, passed[0] > 0, way == "ainvoke" and threading.main_thread() in threads)
"""


@rotated(way=["invoke", "ainvoke"])
def test_loading_the_http_library_takes_neither_time_of_the_timeout_nor_of_the_event_loop(
    library: str, way: str
) -> None:
    def serve(connection: Connection) -> None:
        connection.read_request()
        connection.send(response())

    with RawServer(serve) as server:
        program = [sys.executable, "-c", _FIRST_CALL, server.url, way]
        done = subprocess.run(program, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["Sunny", "True", "False"]


@rotated(way=WAYS)
async def test_the_timeout_ends_a_name_lookup_that_hangs(
    make_model: MakeModel, monkeypatch: pytest.MonkeyPatch, library: str, way: str
) -> None:
    done = threading.Event()
    look_up = socket.getaddrinfo

    def hang(host: Any, *args: Any, **kwargs: Any) -> Any:
        if host in {"gemini.test", b"gemini.test"}:
            done.wait(30)
        return look_up(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    chat = make_model(base_url="http://gemini.test", timeout=0.5, stream_timeout=5, max_retries=2)
    try:
        with pytest.raises(errors.GeminiTimeoutError, match=r"within 0\.5 s"):
            await ask(chat, way)
    finally:
        done.set()


@rotated(way=WAYS)
async def test_the_second_address_of_a_host_is_tried(
    make_model: MakeModel, monkeypatch: pytest.MonkeyPatch, library: str, way: str
) -> None:
    """The first one refuses connections, as IPv6 does in many networks."""
    look_up = socket.getaddrinfo

    def resolve(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        if host in {"gemini.test", b"gemini.test"}:
            found = [look_up(each, port, *args, **kwargs) for each in ("127.9.9.9", "127.0.0.1")]
            return [address for addresses in found for address in addresses]
        return look_up(host, port, *args, **kwargs)

    def serve(connection: Connection) -> None:
        while head := connection.read_request():
            connection.send(response(is_stream=is_streaming(head)))

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with RawServer(serve) as server:
        port = server.address.partition(":")[2]
        chat = make_model(base_url=f"http://gemini.test:{port}")
        assert (await ask(chat, way)).text == "Sunny"


# Unread bytes.


def _answering_twice(connection: Connection) -> None:
    """Each request gets its response and, in the same packet, one that was not requested."""
    while head := connection.read_request():
        streams = is_streaming(head)
        mine, other = (
            response(says(text), is_stream=streams)
            for text in (f"Answer {connection.number}", "for another caller")
        )
        connection.send(mine + other)


def _answering_twice_in_chunks(connection: Connection) -> None:
    while head := connection.read_request():
        streams = is_streaming(head)
        texts = (f"Answer {connection.number}", "for another caller")
        connection.send(b"".join(_chunked(response(says(t), is_stream=streams)) for t in texts))


def _chunked(whole: bytes) -> bytes:
    head, _, body = whole.partition(b"\r\n\r\n")
    status = head.partition(b"\r\n")[0]
    pieces = [body[:7], body[7:]]
    chunks = b"".join(b"%x;a=b\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return status + b"\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\nx-sum: 1\r\n\r\n"


@rotated(
    script={"length": _answering_twice, "chunked": _answering_twice_in_chunks},
    way=["invoke", "astream"],
)
@pytest.mark.parametrize("is_secure", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("other", [False, True], ids=["one", "other"])
async def test_a_connection_with_unread_bytes_is_not_used_again(
    *,
    make_model: MakeModel,
    tmp_path: Path,
    library: str,
    script: Any,
    way: str,
    is_secure: bool,
    other: bool,
) -> None:
    way = {"invoke": "stream", "astream": "ainvoke"}[way] if other else way
    tls, trusted = make_certificate(tmp_path)
    with RawServer(script, tls if is_secure else None) as server:
        verify = {"verify": ssl.create_default_context(cafile=trusted)}
        chat = make_model(base_url=server.url, client_args=verify)
        texts = [(await ask(chat, way)).text for _ in range(3)]
        await chat.aclose()
    assert texts == ["Answer 0", "Answer 1", "Answer 2"]


@rotated(
    form={
        "length": lambda whole: whole,
        "chunked": _chunked,
        "after 102": lambda whole: b"HTTP/1.1 102 Processing\r\n\r\n" + whole,
    },
    way=WAYS,
)
@pytest.mark.parametrize("is_secure", [False, True], ids=["plain", "tls"])
async def test_a_connection_without_unread_bytes_is_used_again(
    *,
    make_model: MakeModel,
    tmp_path: Path,
    library: str,
    form: Any,
    way: str,
    is_secure: bool,
) -> None:
    def serve(connection: Connection) -> None:
        while head := connection.read_request():
            whole = form(response(is_stream=is_streaming(head)))
            for start in range(0, len(whole), 11):
                connection.send(whole[start : start + 11])

    tls, trusted = make_certificate(tmp_path)
    with RawServer(serve, tls if is_secure else None) as server:
        verify = {"verify": ssl.create_default_context(cafile=trusted)}
        chat = make_model(base_url=server.url, client_args=verify)
        for _ in range(3):
            assert (await ask(chat, way)).text == "Sunny"
        await chat.aclose()
        assert server.connections == 1


@pytest.mark.parametrize("is_secure", [False, True], ids=["plain", "tls"])
def test_closing_ends_a_call_of_another_thread_that_waits(
    *, make_model: MakeModel, tmp_path: Path, library: str, is_secure: bool
) -> None:
    arrived = threading.Event()

    def serve(connection: Connection) -> None:
        if connection.read_request() and connection.number == 0:
            arrived.set()
            connection.read_request()  # sends nothing
        connection.send(response())

    tls, trusted = make_certificate(tmp_path)
    with RawServer(serve, tls if is_secure else None) as server, ThreadPoolExecutor() as threads:
        verify = {"verify": ssl.create_default_context(cafile=trusted)}
        chat = make_model(base_url=server.url, client_args=verify, timeout=60, max_retries=1)
        call = threads.submit(chat.invoke, "Hello")
        assert arrived.wait(30)
        chat.close()
        assert call.result(30).text == "Sunny"  # of the retry, on a new connection
        chat.close()
    assert server.connections == 2


# Failures that stay.


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@rotated(fault=["untrusted certificate", "another host's certificate", "no TLS"], way=WAYS[::2])
async def test_a_failure_that_stays_is_not_retried(
    *,
    make_model: MakeModel,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    library: str,
    fault: str,
    way: str,
    is_async: bool,
) -> None:
    def serve(connection: Connection) -> None:
        connection.send(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        connection.read_request()

    tls, trusted = make_certificate(tmp_path)
    context = ssl.create_default_context(cafile=None if "untrusted" in fault else trusted)
    with RawServer(serve, None if fault == "no TLS" else tls) as server:
        host = "localhost" if "another" in fault else "127.0.0.1"
        chat = make_model(
            base_url=f"https://{host}:{server.address.partition(':')[2]}",
            client_args={"verify": context},
            max_retries=6,
        )
        advice = "base_url" if fault == "no TLS" else "verify"
        with pytest.raises(errors.GeminiConnectionError, match=advice) as raised:
            await ask(chat, f"a{way}" if is_async else way)
    assert not raised.value.is_retryable
    assert server.connections == 1
    assert logged_retries(caplog) == []


@rotated(way=WAYS)
async def test_a_handshake_that_is_cut_is_retried(
    make_model: MakeModel, caplog: pytest.LogCaptureFixture, library: str, way: str
) -> None:
    def hang_up(connection: Connection) -> None:
        connection.peer.recv(65536)

    with RawServer(hang_up) as server:
        chat = make_model(base_url=f"https://{server.address}", max_retries=2)
        with pytest.raises(errors.GeminiConnectionError) as raised:
            await ask(chat, way)
        assert server.connections == 3
    assert raised.value.is_retryable
    assert len(logged_retries(caplog)) == 2


# Cookies.


@rotated(way=WAYS)
async def test_no_cookie_of_a_server_is_stored_or_sent_back(
    make_model: MakeModel, library: str, way: str
) -> None:
    def serve(connection: Connection) -> None:
        while head := connection.read_request():
            cookie = f"set-cookie: session{len(server.requests)}=of-one-caller; Path=/"
            is_list = head.startswith(b"GET")
            body: Any = {"models": []} if is_list else says("Sunny") | {"totalTokens": 1}
            connection.send(response(body, cookie, is_stream=is_streaming(head)))

    with RawServer(serve) as server:
        chat = make_model(base_url=server.url)
        for _ in range(3):
            assert (await ask(chat, way)).text == "Sunny"
            assert await asyncio.to_thread(lambda: list(chat.client.models.list())) == []
            assert [each async for each in await chat.async_client.models.list()] == []
            await asyncio.to_thread(chat.get_num_tokens, "Hi")
        await chat.aclose()
    assert len(server.requests) == 12
    assert [head for head in server.requests if b"cookie" in head.lower()] == []


# Forks.


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_the_sdk_client_of_a_forked_child_opens_its_own_connection(
    make_model: MakeModel,
) -> None:
    """The child has the SDK client of its parent, but must not read from the same socket."""

    def serve(connection: Connection) -> None:
        while connection.read_request():
            connection.send(response({"models": []}))

    with RawServer(serve) as server:
        of_parent = make_model(base_url=server.url).client
        assert list(of_parent.models.list()) == []
        if (child := os.fork()) == 0:
            try:
                os._exit(len(list(of_parent.models.list())))
            finally:
                os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        assert list(of_parent.models.list()) == []
        assert server.connections == 2


# Values.

BIG = 10**30


@rotated(way=WAYS)
async def test_a_call_with_a_huge_integer_can_be_stored_and_executed(
    make_model: MakeModel, way: str
) -> None:
    """msgpack, and so the checkpointers of LangGraph, reject integers beyond 64 bits."""
    received: list[int] = []

    def factorize(number: int) -> str:
        """Factorize a number."""
        received.append(number)
        return "done"

    def serve(connection: Connection) -> None:
        while head := connection.read_request():
            call = {"id": "a", "name": "factorize", "args": {"number": BIG}}
            content = {"role": "model", "parts": [{"functionCall": call}]}
            body = {"candidates": [{"content": content, "finishReason": "STOP"}], "vendor": BIG}
            connection.send(response(body, is_stream=is_streaming(head)))

    with RawServer(serve) as server:
        chat = make_model(base_url=server.url).bind_tools([factorize])
        message = await ask(chat, way)
    assert message.tool_calls[0]["args"] == {"number": str(BIG)}
    stored = JsonPlusSerializer()
    assert stored.loads_typed(stored.dumps_typed(message)) == message
    tool(factorize).invoke(message.tool_calls[0])
    assert received == [BIG]
