"""The contract with google-genai, over real sockets and for whichever version is installed.

What these tests pin is what `client.py` relies on and no documentation promises. Run them with each
new version of the SDK.
"""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import json
import socket
import threading
import time
import warnings
import weakref
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from google import genai
from google.auth import credentials as google_credentials
from pydantic import SecretStr

from langchain_gemini_tools.client import ClientSettings, GeminiClient
from langchain_gemini_tools.errors import (
    GeminiAPIError,
    GeminiConnectionError,
    GeminiServerError,
    GeminiTimeoutError,
    GeminiToolsError,
)
from tests.growth import assert_linear
from tests.rotation import rotated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

KEY = (
    "AIza" + "SyA1234567890abcdefghijklmnopqrstuv"
)  # in two: so that no scan reports it as a real key
TOKEN = "ya29.a0AfH6SMBx-1234_abc"

# Not what json.dumps would write: the SDK must not have touched it.
BODY = '{ "contents":[ {"parts":[{"text":"é 🌍"}]} ],"newField" : 1e2,"newField":null}\n'.encode()

REPLIES: list[dict[str, Any]] = [
    {"candidates": [{"content": {"parts": [{"text": "a\u2028b\u0085c é 🌍"}]}}], "n": None},
    {
        "candidates": [
            {
                "content": {"parts": [{"newKindOfPart": {"x": [1, 2.5, None]}}]},
                "finishReason": "A_NEW_REASON",
                "finishMessage": "kept",
            }
        ],
        "usageMetadata": {"serviceTier": "priority", "promptTokenCount": 1},
        "newField": {"deep": [{}]},
    },
]


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Server:
    """One answer for every request, written to the socket as raw bytes."""

    answer: Callable[[socket.socket, Request], None]
    requests: list[Request] = field(default_factory=list)
    open_connections: int = 0
    arrived: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        self.open_connections += 1
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            with connection, connection.makefile("rb") as reader:
                while request := self._read(reader):
                    self.requests.append(request)
                    self.arrived.set()
                    self.answer(connection, request)
        except OSError:
            pass
        finally:
            self.open_connections -= 1

    def _read(self, reader: Any) -> Request | None:
        if not (first := reader.readline()):
            return None
        headers = {}
        while (line := reader.readline()) not in {b"\r\n", b""}:
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        body = reader.read(int(headers.get("content-length", 0)))
        return Request(first.split()[1].decode(), headers, body)

    def wait_until_idle(self) -> bool:
        """Whether all connections are closed, at the latest after half a minute."""
        deadline = time.monotonic() + 30
        while self.open_connections and time.monotonic() < deadline:
            time.sleep(0.01)
        return self.open_connections == 0

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # closing alone lets the last accept go on
        self._listener.close()


@contextmanager
def serving(answer: Callable[[socket.socket, Request], None]) -> Iterator[Server]:
    server = Server(answer)
    try:
        yield server
    finally:
        server.close()


def whole(body: bytes, status: str = "200 OK") -> bytes:
    return b"HTTP/1.1 %b\r\ncontent-length: %d\r\n\r\n%b" % (status.encode(), len(body), body)


def chunked(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece)


STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)


def events(*replies: Any) -> bytes:
    return b"".join(
        b"data: %b\r\n\r\n" % json.dumps(reply, ensure_ascii=False).encode() for reply in replies
    )


def reply_as_asked(connection: socket.socket, request: Request) -> None:
    """Events when events are asked for, else one object."""
    if "alt=sse" in request.path:
        connection.sendall(STREAM_HEAD + chunked(events(*REPLIES)) + b"0\r\n\r\n")
    else:
        connection.sendall(whole(json.dumps(REPLIES[1]).encode()))


class FixedCredentials(google_credentials.Credentials):
    """Credentials of `google.auth` that need no refresh."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.token = TOKEN

    def refresh(self, request: Any) -> None:
        raise AssertionError("A valid token is not refreshed.")


BACKENDS: dict[str, tuple[dict[str, Any], str, dict[str, str]]] = {
    "developer": ({"api_key": SecretStr(KEY)}, "/v1beta/models/m", {"x-goog-api-key": KEY}),
    "vertex": (
        {"vertexai": True, "project": "p", "location": "l", "credentials": FixedCredentials()},
        "/v1beta1/projects/p/locations/l/publishers/google/models/m",
        {"authorization": f"Bearer {TOKEN}"},
    ),
    "express": (
        {"vertexai": True, "api_key": SecretStr(KEY)},
        "/v1beta1/publishers/google/models/m",
        {"x-goog-api-key": KEY},
    ),
}

LIBRARIES = [name for name in ("httpx2", "httpx") if importlib.util.find_spec(name)]

CLIENT_WAYS = ["send", "asend", "stream", "astream"]
every_way = pytest.mark.parametrize("way", CLIENT_WAYS)
streaming_way = pytest.mark.parametrize("way", ["stream", "astream"])


def client_of(server: Server, **settings: Any) -> GeminiClient:
    settings = settings or {"api_key": SecretStr(KEY)}
    return GeminiClient(ClientSettings(base_url=server.url, **settings))


async def called(
    client: GeminiClient, way: str, timeout_seconds: float | None = 10, **limits: Any
) -> Any:
    """What one of the four methods gives; sync ones run beside the loop, as LangChain runs them."""
    match way:
        case "send":
            return await asyncio.to_thread(client.send, "m", BODY, timeout_seconds=timeout_seconds)
        case "asend":
            return await client.asend("m", BODY, timeout_seconds=timeout_seconds)
        case "stream":
            stream = client.stream("m", BODY, timeout_seconds=timeout_seconds, **limits)
            return await asyncio.to_thread(list, stream)
    stream_here = client.astream("m", BODY, timeout_seconds=timeout_seconds, **limits)
    return [reply async for reply in stream_here]


@rotated(way=CLIENT_WAYS, backend=list(BACKENDS))
async def test_both_bodies_pass_the_sdk_untouched(way: str, backend: str, library: str) -> None:
    settings, path, credentials = BACKENDS[backend]
    seen: list[Any] = []

    async def see(request: Any) -> None:
        seen.append(request)

    hooks = {
        "client_args": {
            "limits": importlib.import_module(library).Limits(),
            "event_hooks": {"request": [seen.append]},
        },
        "async_client_args": {"event_hooks": {"request": [see]}},
    }
    with serving(reply_as_asked) as server:
        result = await called(client_of(server, **hooks, **settings), way)
    assert [type(request).__module__.partition(".")[0] for request in seen] == [library]
    streams = way.endswith("stream")
    assert result == (REPLIES if streams else REPLIES[1])
    (request,) = server.requests
    assert request.body == BODY
    method = ":streamGenerateContent?alt=sse" if streams else ":generateContent"
    assert request.path == path + method
    sent = request.headers
    assert credentials.items() <= sent.items()
    assert sent["content-type"] == "application/json"
    assert f"google-genai-sdk/{genai.__version__}" in sent["user-agent"]
    assert f"google-genai-sdk/{genai.__version__}" in sent["x-goog-api-client"]
    assert {"x-goog-api-key", "authorization"} & sent.keys() == credentials.keys()


@every_way
@pytest.mark.parametrize("backend", BACKENDS)
async def test_later_calls_are_sent_as_the_sdk_sent_the_first(way: str, backend: str) -> None:
    settings, *_ = BACKENDS[backend]
    with serving(reply_as_asked) as server:
        client = client_of(server, **settings)
        results = [await called(client, way) for _ in range(3)]
        await client.aclose()
    assert results[1:] == results[:1] * 2
    assert server.requests[1:] == server.requests[:1] * 2


@every_way
async def test_with_a_key_the_sdk_writes_the_same_at_every_call(way: str) -> None:
    with serving(reply_as_asked) as server:
        for _ in range(2):
            client = client_of(server)  # a new one asks the SDK again
            await called(client, way)
            await client.aclose()
    assert server.requests[0] == server.requests[1]


@every_way
async def test_a_token_that_was_refreshed_is_sent(way: str) -> None:
    credentials = FixedCredentials()
    vertex = {"vertexai": True, "project": "p", "location": "l", "credentials": credentials}
    with serving(reply_as_asked) as server:
        client = client_of(server, **vertex)
        for token in ("ya29.first-token", "ya29.second-token"):
            credentials.token = token
            await called(client, way)
        await client.aclose()
    sent = [request.headers["authorization"] for request in server.requests]
    assert sent == ["Bearer ya29.first-token", "Bearer ya29.second-token"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_tokens_are_counted_over_the_same_seam(backend: str) -> None:
    settings, path, credentials = BACKENDS[backend]
    with serving(reply_as_asked) as server:
        client = client_of(server, **settings)
        assert client.count_tokens("m", BODY, timeout_seconds=5) == REPLIES[1]
        assert client.uses_vertexai is (backend != "developer")
    (request,) = server.requests
    assert (request.path, request.body) == (path + ":countTokens", BODY)
    assert credentials.items() <= request.headers.items()


def test_one_request_is_sent_even_if_the_response_calls_a_function_or_continues() -> None:
    """Automatic function calling and automatic continuation of the SDK stay off."""
    call = {"functionCall": {"name": "f", "args": {}}}
    candidate = {"content": {"parts": [call]}, "finishReason": "CONTINUATION"}
    reply = {"candidates": [candidate | {"continuationToken": "t"}]}
    with serving(lambda c, _: c.sendall(whole(json.dumps(reply).encode()))) as server:
        assert client_of(server).send("m", BODY, timeout_seconds=5) == reply
    assert len(server.requests) == 1


@pytest.mark.parametrize("size", [1, 7, 100_000], ids=lambda size: f"pieces-of-{size}")
@rotated(
    body={
        "crlf": events(*REPLIES),
        "lf": events(*REPLIES).replace(b"\r\n", b"\n"),
        "no-space": events(*REPLIES).replace(b"data: ", b"data:"),
        "comments": b": hello\r\n\r\n" + events(REPLIES[0]) + b":\r\n" + events(REPLIES[1]),
        "other-fields": b"event: message\r\nid: 1\r\n" + events(*REPLIES),
    },
    way=["stream", "astream"],
)
async def test_events_are_read_however_they_are_written_and_cut(
    way: str, body: bytes, size: int
) -> None:
    pieces = [body[i : i + size] for i in range(0, len(body), size)]
    with serving(lambda c, _: c.sendall(STREAM_HEAD + chunked(*pieces) + b"0\r\n\r\n")) as server:
        assert await called(client_of(server), way) == REPLIES


@streaming_way
def test_an_event_of_20_mb_is_read_in_linear_time(way: str) -> None:
    def read_one_event(size: int) -> None:
        reply = {"data": "x" * size}
        sent = STREAM_HEAD + chunked(events(reply)) + b"0\r\n\r\n"
        with serving(lambda c, _: c.sendall(sent)) as server:
            assert asyncio.run(called(client_of(server), way)) == [reply]

    assert_linear(read_one_event, 20_000_000)


@streaming_way
async def test_responses_arrive_one_by_one(way: str) -> None:
    released = threading.Event()

    def answer(connection: socket.socket, _: Request) -> None:
        connection.sendall(STREAM_HEAD + chunked(events(REPLIES[0])))
        released.wait(5)
        connection.sendall(chunked(events(REPLIES[1])) + b"0\r\n\r\n")

    with serving(answer) as server:
        client = client_of(server)
        if way == "stream":
            stream = client.stream("m", BODY, timeout_seconds=10)
            first, last = await asyncio.to_thread(next, stream), None
            released.set()
            (last,) = stream
        else:
            astream = client.astream("m", BODY, timeout_seconds=10)
            first = await anext(astream)
            released.set()
            (last,) = [reply async for reply in astream]
    assert [first, last] == REPLIES


def test_several_event_loops_in_a_row_and_threads_between() -> None:
    with serving(reply_as_asked) as server:
        client, loops = client_of(server), []

        async def called_here() -> Any:
            loops.append(weakref.ref(asyncio.get_running_loop()))
            return await called(client, "asend")

        for _ in range(4):
            assert asyncio.run(called_here()) == REPLIES[1]
            assert asyncio.run(called(client, "astream")) == REPLIES
            assert client.send("m", BODY, timeout_seconds=5) == REPLIES[1]
            client.close()
            assert server.wait_until_idle()  # the connections end with their loop
        gc.collect()
        assert [loop() for loop in loops] == [None] * 4


def test_concurrent_loops_have_separate_clients() -> None:
    with serving(reply_as_asked) as server:
        client = client_of(server)
        results: list[Any] = []

        async def several() -> list[Any]:
            return await asyncio.gather(*(called(client, "asend") for _ in range(5)))

        threads = [
            threading.Thread(target=lambda: results.extend(asyncio.run(several())))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == [REPLIES[1]] * 20


def send_and_hang(connection: socket.socket, request: Request) -> None:
    """One event, and then nothing until the other side goes away."""
    connection.sendall(STREAM_HEAD + chunked(events(REPLIES[0])))
    connection.recv(1)


def test_an_abandoned_stream_leaves_no_socket_open() -> None:
    with serving(send_and_hang) as server:
        client = client_of(server)
        stream = client.stream("m", BODY, timeout_seconds=10)
        assert next(stream) == REPLIES[0]
        stream.close()
        assert server.wait_until_idle()

        async def abandon() -> bool:
            astream = client.astream("m", BODY, timeout_seconds=10)
            assert await anext(astream) == REPLIES[0]
            await astream.aclose()
            return await asyncio.to_thread(server.wait_until_idle)

        assert asyncio.run(abandon())


def test_a_cancelled_call_leaves_no_socket_open() -> None:
    async def cancel(server: Server, way: str) -> bool:
        task = asyncio.create_task(called(client_of(server), way))
        await asyncio.to_thread(server.arrived.wait, 5)
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await asyncio.to_thread(server.wait_until_idle)

    for way in ("asend", "astream"):
        with serving(send_and_hang) as server:
            assert asyncio.run(cancel(server, way))


def test_connections_are_used_again_and_closed_on_request() -> None:
    with serving(reply_as_asked) as server:
        client = client_of(server)
        for _ in range(3):
            client.send("m", BODY, timeout_seconds=5)
            list(client.stream("m", BODY, timeout_seconds=5))
        assert server.open_connections == 1
        client.close()
        assert server.wait_until_idle()
        assert client.send("m", BODY, timeout_seconds=5) == REPLIES[1]
        client.close()
        assert server.wait_until_idle()

        async def use_and_close() -> None:
            for _ in range(3):
                await client.asend("m", BODY, timeout_seconds=5)
            assert server.open_connections == 1
            await client.aclose()
            assert await asyncio.to_thread(server.wait_until_idle)

        asyncio.run(use_and_close())


def test_the_connection_of_a_forgotten_client_serves_the_next_equal_one() -> None:
    gc.collect()  # what other tests left is not counted here
    with serving(reply_as_asked) as server, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", ResourceWarning)
        client = client_of(server)
        client.send("m", BODY, timeout_seconds=5)
        asyncio.run(called(client, "asend"))
        del client
        gc.collect()
        next_client = client_of(server)
        next_client.send("m", BODY, timeout_seconds=5)
        assert server.open_connections == 1
        next_client.close()
        assert server.wait_until_idle()
    assert [str(warning.message) for warning in warned] == []


def test_a_loop_that_was_not_shut_down_is_dropped() -> None:
    with serving(reply_as_asked) as server:
        client, loops = client_of(server), []
        for _ in range(4):
            loop = asyncio.new_event_loop()
            loops.append(weakref.ref(loop))
            assert loop.run_until_complete(called(client, "asend")) == REPLIES[1]
            if len(loops) < 4:
                loop.close()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
        assert [each() for each in loops] == [None, None, None, loop]
        loop.run_until_complete(loop.shutdown_asyncgens())  # and is used all the same
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert loop.run_until_complete(called(client, "asend")) == REPLIES[1]
        loop.run_until_complete(client.aclose())
        loop.close()


def drip(connection: socket.socket, request: Request) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
    for _ in range(1000):
        connection.sendall(b" ")
        time.sleep(0.05)


def silent(connection: socket.socket, request: Request) -> None:
    connection.recv(1)


@pytest.mark.parametrize(
    ("way", "answer"),
    [
        ("send", drip),
        ("asend", drip),
        ("send", silent),
        ("asend", silent),
        ("stream", silent),
        ("astream", silent),
        ("stream", send_and_hang),
        ("astream", send_and_hang),
    ],
)
async def test_a_silent_or_slow_server_ends_with_the_timeout(way: str, answer: Any) -> None:
    with serving(answer) as server:
        client = client_of(server)
        started = time.monotonic()
        with pytest.raises(GeminiTimeoutError, match=r"within 0\.5 s"):
            await called(client, way, timeout_seconds=0.5)
        assert time.monotonic() - started > 0.4
        assert await asyncio.to_thread(server.wait_until_idle)
    assert "x-server-timeout" not in server.requests[0].headers


@every_way
async def test_a_lost_connection_is_a_connection_error(way: str) -> None:
    def cut(connection: socket.socket, request: Request) -> None:
        head = STREAM_HEAD if "alt=sse" in request.path else whole(b"x" * 99)[:-99]
        connection.sendall(head + chunked(events(REPLIES[0]))[:40])
        connection.shutdown(socket.SHUT_RDWR)

    with serving(cut) as server, pytest.raises(GeminiConnectionError):
        await called(client_of(server), way)
    assert len(server.requests) == 1


@every_way
async def test_an_unreachable_server_is_a_connection_error(way: str) -> None:
    with serving(reply_as_asked) as server:
        pass
    with pytest.raises(GeminiConnectionError) as raised:
        await called(client_of(server), way)
    assert isinstance(raised.value, ConnectionError)


@every_way
async def test_an_error_keeps_body_and_headers(way: str) -> None:
    details = {"error": {"code": 503, "message": f"busy, {KEY}", "status": "UNAVAILABLE"}}
    answer = whole(json.dumps(details).encode(), "503 Busy\r\nretry-after: 4")
    with (
        serving(lambda c, _: c.sendall(answer)) as server,
        pytest.raises(GeminiServerError) as raised,
    ):
        await called(client_of(server), way)
    error = raised.value
    assert isinstance(error, genai.errors.ServerError)
    assert (error.code, error.status, error.retry_after) == (503, "UNAVAILABLE", 4.0)
    assert error.details["error"]["message"] == "busy, [redacted]"
    assert len(server.requests) == 1


@every_way
async def test_no_redirect_sends_the_key_elsewhere(way: str) -> None:
    with serving(reply_as_asked) as elsewhere:
        moved = whole(b"", f"307 Moved\r\nlocation: {elsewhere.url}/")
        with (
            serving(lambda c, _: c.sendall(moved)) as server,
            pytest.raises(GeminiAPIError, match="307"),
        ):
            await called(client_of(server), way)
    assert elsewhere.requests == []


@pytest.mark.parametrize("way", ["asend", "astream"])
async def test_nothing_is_sent_by_aiohttp_which_the_sdk_prefers(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[Any] = []
    monkeypatch.setattr("aiohttp.ClientSession._request", lambda *given, **_: used.append(given))
    with serving(reply_as_asked) as server:
        assert await called(client_of(server), way)
    assert (used, len(server.requests)) == ([], 1)


async def test_nothing_blocks_the_event_loop() -> None:
    blockbuster = pytest.importorskip("blockbuster")
    with serving(reply_as_asked) as server, blockbuster.blockbuster_ctx():
        client = client_of(server)
        assert await client.asend("m", BODY, timeout_seconds=5) == REPLIES[1]
        stream = client.astream("m", BODY, timeout_seconds=5)
        assert [reply async for reply in stream] == REPLIES
        await client.aclose()


@every_way
async def test_an_sdk_that_sends_another_way_is_noticed(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forget_our_clients(options: Any) -> Any:
        return options.model_copy(update={"httpx_client": None, "httpx_async_client": None})

    class NewerClient(genai.Client):
        def __init__(self, **options: Any) -> None:
            super().__init__(
                **options | {"http_options": forget_our_clients(options["http_options"])}
            )

    monkeypatch.setattr(genai, "Client", NewerClient)
    with (
        serving(lambda c, _: c.sendall(whole(b"{}"))) as server,
        pytest.raises(GeminiToolsError, match="did not send the request through"),
    ):
        await called(client_of(server), way)


@every_way
async def test_a_cassette_records_and_replays_what_passed(way: str, tmp_path: Path) -> None:
    vcr = pytest.importorskip("vcr")
    cassette = str(tmp_path / "cassette.yaml")
    with serving(reply_as_asked) as server:
        settings = vcr.VCR(match_on=["method", "path", "query", "body"])
        with settings.use_cassette(cassette, record_mode="once"):
            recorded = await called(client_of(server), way)
    sent = len(server.requests)
    assert sent == 1
    with settings.use_cassette(cassette, record_mode="none") as played:
        assert await called(client_of(server), way) == recorded
        assert played.play_count == 1
        assert played.requests[0].body == BODY
    assert len(server.requests) == sent
