"""Faults on the way to the API: redirects, silence, lost connections, dead servers, proxies."""

from __future__ import annotations

import asyncio
import functools
import importlib
import json
import socket
import threading
import time
import tracemalloc
import zlib
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from google.genai import errors as sdk
from langchain_core import exceptions as core
from pydantic import ValidationError

from langchain_gemini_tools import errors
from langchain_gemini_tools.client import network
from langchain_gemini_tools.testing.fake import API_KEY, Emulator, faults
from tests.integration_tests.invoking import TWICE, ask, logged_retries, raw
from tests.rotation import STREAMS, WAYS, rotated

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator

    from langchain_gemini_tools.testing.fake.script import Fault
    from tests.conftest import MakeModel

pytestmark = pytest.mark.usefixtures("no_pauses")

# Redirects.


@rotated(status=[301, 302, 307, 308], way=WAYS)
async def test_no_redirect_sends_the_key_or_the_prompt_to_another_host(
    emulator: Emulator, make_model: MakeModel, library: str, status: int, way: str
) -> None:
    with Emulator() as elsewhere:
        emulator.reply(fault=raw(status, "", location=f"{elsewhere.url}/v1beta/models"))
        with pytest.raises(errors.GeminiAPIError, match=str(status)) as raised:
            await ask(make_model(max_retries=2), way)
        assert elsewhere.requests == []
    assert isinstance(raised.value, core.ModelError)
    assert isinstance(raised.value, sdk.APIError)
    assert raised.value.code == status
    assert len(emulator.requests) == 1


# Time. The error says that the call may be repeated; the call itself does not.


@rotated(fault={"head": faults.slow_first_byte(30), "body": faults.stall(30, after=0)}, way=WAYS)
async def test_silence_ends_with_the_timeout_after_one_request(
    emulator: Emulator, make_model: MakeModel, library: str, fault: Fault, way: str
) -> None:
    emulator.reply("Sunny in Oslo.", fault=fault)
    chat = make_model(max_retries=2, timeout=0.5)
    with pytest.raises(errors.GeminiTimeoutError, match=r"within 0\.5 s") as raised:
        await ask(chat, way)
    assert isinstance(raised.value, TimeoutError)
    assert isinstance(raised.value, core.ModelTimeoutError)
    assert raised.value.is_retryable
    assert raised.value.partial is None
    assert len(emulator.requests) == 1


@rotated(way=WAYS)
async def test_keep_alives_do_not_count_as_a_response(
    emulator: Emulator, make_model: MakeModel, library: str, way: str
) -> None:
    emulator.reply("Sunny in Oslo.", fault=faults.drip())
    with pytest.raises(errors.GeminiTimeoutError, match=r"within 0\.5 s \(timeout\)"):
        await ask(make_model(max_retries=2, timeout=0.5), way)
    assert len(emulator.requests) == 1


@rotated(way=STREAMS)
async def test_a_stream_that_never_ends_is_ended(
    emulator: Emulator, make_model: MakeModel, library: str, way: str
) -> None:
    emulator.reply("Sunny in Oslo.", fault=faults.talk_on())
    seen: list[Any] = []
    with pytest.raises(errors.GeminiTimeoutError, match="stream_timeout") as raised:
        await ask(make_model(max_retries=2, stream_timeout=1), way, seen)  # 1 s for the first event
    assert raised.value.partial is not None
    assert raised.value.partial.text == "".join(chunk.text for chunk in seen) != ""
    assert len(emulator.requests) == 1


SUNNY = {"candidates": [{"content": {"role": "model", "parts": [{"text": "Sunny"}]}, "index": 0}]}
SUNNY_EVENT = f"data: {json.dumps(SUNNY)}\r\n\r\n".encode()


def _silent_after(library: str, chunks: list[bytes] | None, reads: list[float]) -> dict[str, Any]:
    """Transports whose server sends headers and chunks (None: not even headers), then nothing.

    A read that finds nothing fails as the HTTP library's does when its limit is over, but at once,
    and the limit is noted: so nothing here depends on the speed of the machine.
    """
    hx = importlib.import_module(library)

    class Body(hx.SyncByteStream, hx.AsyncByteStream):  # type: ignore[misc,name-defined]
        def __iter__(self) -> Iterator[bytes]:
            yield from chunks or []
            raise hx.ReadTimeout("silence")

        async def __aiter__(self) -> AsyncIterator[bytes]:
            for chunk in self:
                yield chunk

    def respond(request: Any) -> Any:
        reads.append(request.extensions["timeout"]["read"])
        if chunks is None:
            raise hx.ReadTimeout("silence")
        return hx.Response(200, stream=Body())

    async def arespond(request: Any) -> Any:
        return respond(request)

    return {
        "client_args": {"transport": hx.MockTransport(respond)},
        "async_client_args": {"transport": hx.MockTransport(arespond)},
    }


@rotated(
    case={
        "headers, between": (None, 400.0),
        "body, no limit between": ([], None),
        "later, between": ([SUNNY_EVENT], 400.0),
        "headers, no limit between": (None, None),
        "body, between": ([], 400.0),
        "later, no limit between": ([SUNNY_EVENT], None),
    },
    way=STREAMS,
)
async def test_a_silent_stream_ends_with_the_stream_timeout(
    make_model: MakeModel, library: str, case: tuple[list[bytes] | None, float | None], way: str
) -> None:
    chunks, between = case
    reads: list[float] = []
    chat = make_model(
        max_retries=2, timeout=between, stream_timeout=300, **_silent_after(library, chunks, reads)
    )
    seen: list[Any] = []
    with pytest.raises(errors.GeminiTimeoutError, match=r"300 s \(stream_timeout\)"):
        await ask(chat, way, seen)
    assert "".join(chunk.text for chunk in seen) == ("Sunny" if chunks else "")
    assert reads == [300]


@rotated(way=STREAMS)
async def test_silence_inside_a_stream_keeps_what_had_arrived(
    make_model: MakeModel, library: str, way: str
) -> None:
    reads: list[float] = []
    chat = make_model(max_retries=2, timeout=300, **_silent_after(library, [SUNNY_EVENT], reads))
    seen: list[Any] = []
    with pytest.raises(errors.GeminiTimeoutError) as raised:
        await ask(chat, way, seen)
    assert "".join(chunk.text for chunk in seen) == "Sunny"
    assert raised.value.partial is not None
    assert raised.value.partial.text == "Sunny"
    assert reads == [300]


@rotated(way=STREAMS)
async def test_the_time_of_the_reader_does_not_count_as_waiting(
    emulator: Emulator, make_model: MakeModel, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    chat = make_model(stream_timeout=300)
    emulator.reply("Sunny in Oslo.", chunks=3)
    clock, passed = time.monotonic, 0
    monkeypatch.setattr(time, "monotonic", lambda: clock() + passed)
    if way == "stream":
        for _ in chat.stream("Weather?"):
            passed += 400
            await asyncio.sleep(0)
    else:
        async for _ in chat.astream("Weather?"):
            passed += 400
            await asyncio.sleep(0)
    assert passed > 1000
    assert len(emulator.requests) == 1


@rotated(way=WAYS)
async def test_an_answer_without_an_end_is_not_taken_in(
    emulator: Emulator, make_model: MakeModel, library: str, way: str
) -> None:
    emulator.reply("Sunny in Oslo.", fault=faults.endless())
    with pytest.raises(errors.UnreadableResponseError, match="longer than 100 MB"):
        await ask(make_model(max_retries=2), way)
    assert len(emulator.requests) == 1


def _gzip(pieces: Iterable[bytes]) -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    return b"".join(map(packer.compress, pieces)) + packer.flush()


@functools.cache
def _twice(size: int) -> bytes:
    return _gzip([_gzip([b" " * 1_000_000] * (size // 1_000_000))])


def _zstd(size: int) -> bytes:
    """A frame of blocks that repeat one byte: four bytes for 128 kB each."""
    blocks = size // 131_072
    head = bytes.fromhex("28b52ffd") + b"\x00" + b"\x38"
    block = [((131_072 << 3) | 2 | (n == blocks - 1)).to_bytes(3, "little") for n in range(blocks)]
    return head + b"".join(each + b" " for each in block)


BOMB_BYTES = 300_000_000
BOMBS: dict[str, Callable[[], bytes]] = {
    "gzip, gzip": lambda: _twice(BOMB_BYTES),
    "GZIP,deflate": lambda: b"",
    "zstd": lambda: _zstd(BOMB_BYTES),
    "br": lambda: b"",
}


@rotated(coding=list(BOMBS), way=WAYS)
async def test_a_small_answer_does_not_unpack_to_a_huge_one(
    emulator: Emulator, make_model: MakeModel, library: str, coding: str, way: str
) -> None:
    emulator.reply("Sunny in Oslo.", fault=faults.packed(coding, BOMBS[coding]()))
    tracemalloc.start()
    with pytest.raises(errors.UnreadableResponseError, match="was not requested") as raised:
        await ask(make_model(max_retries=2), way)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert not raised.value.is_retryable
    assert emulator.last.headers["accept-encoding"] == "gzip, deflate"
    assert len(emulator.requests) == 1
    assert peak < BOMB_BYTES / 3


@rotated(word=["utf-8", "identity", "", "none"], way=WAYS)
async def test_a_word_that_packs_nothing_is_passed_over(
    emulator: Emulator, make_model: MakeModel, library: str, word: str, way: str
) -> None:
    emulator.reply("Sunny in Oslo.", fault=lambda o: o.with_headers(content_encoding=word))
    assert (await ask(make_model(), way)).text == "Sunny in Oslo."


# Connections.


@rotated(
    fault={"head": faults.cut_before_headers(), "body": faults.cut_connection(after=0)}, way=WAYS
)
async def test_a_lost_connection_is_retried_and_then_raised(
    *,
    emulator: Emulator,
    make_model: MakeModel,
    caplog: pytest.LogCaptureFixture,
    library: str,
    fault: Fault,
    way: str,
) -> None:
    for _ in range(3):
        emulator.reply("Sunny in Oslo.", fault=fault)
    with pytest.raises(errors.GeminiConnectionError, match="connection to the API") as raised:
        await ask(make_model(max_retries=2), way)
    assert isinstance(raised.value, ConnectionError)
    assert isinstance(raised.value, core.ModelConnectionError)
    assert (raised.value.code, raised.value.partial) == (None, None)
    assert (len(emulator.requests), emulator.pending_replies) == (3, 0)
    assert logged_retries(caplog) == TWICE


@rotated(way=WAYS)
async def test_a_server_that_accepts_no_connection_counts_as_unreachable(
    *,
    make_model: MakeModel,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    library: str,
    way: str,
) -> None:
    """Its queue is full: a connection is neither made nor refused."""
    monkeypatch.setattr(network, "CONNECT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, ExitStack() as waiting:
        for _ in range(3):
            one = waiting.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        chat = make_model(base_url=f"http://127.0.0.1:{full.getsockname()[1]}", max_retries=2)
        with pytest.raises(errors.GeminiConnectionError, match=r"No connection.*within 0\.2 s"):
            await ask(chat, way)
    assert logged_retries(caplog) == TWICE


@contextmanager
def _socket_that(answers: bytes | None) -> Iterator[tuple[str, list[bytes]]]:
    """An address where no server listens, or where each request gets these bytes; its requests."""
    heard: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    if answers is None:
        listener.close()
        yield address, heard
        return

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                heard.append(connection.recv(65536))
                connection.sendall(answers)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield address, heard
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


NOWHERE: dict[str, tuple[bytes | None, dict[str, Any]]] = {
    "refused": (None, {"base_url": "http://{}"}),
    "no-such-host": (None, {"base_url": "http://gemini.invalid"}),
    "garbage": (b"SSH-2.0-OpenSSH_9.6\r\n", {"base_url": "http://{}"}),
    "proxy-is-away": (
        None,
        {"base_url": "https://gemini.invalid", "client_args": {"proxy": "http://{}"}},
    ),
    "proxy-fails": (
        b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n",
        {"base_url": "https://gemini.invalid", "client_args": {"proxy": "http://{}"}},
    ),
}


@rotated(name=list(NOWHERE), way=WAYS)
async def test_an_unreachable_server_is_retried_and_then_raised(
    make_model: MakeModel, caplog: pytest.LogCaptureFixture, library: str, name: str, way: str
) -> None:
    answers, scripted = NOWHERE[name]
    with _socket_that(answers) as (address, heard):
        settings = dict(scripted)
        settings["base_url"] = settings["base_url"].format(address)
        if proxy := settings.get("client_args"):
            settings["client_args"] = {"proxy": proxy["proxy"].format(address)}
        with pytest.raises(errors.GeminiConnectionError, match="connection to the API") as raised:
            await ask(make_model(max_retries=2, **settings), way)
    assert isinstance(raised.value, ConnectionError)
    assert isinstance(raised.value, core.ModelConnectionError)
    assert "\n" not in str(raised.value)
    assert raised.value.code is None
    assert logged_retries(caplog) == TWICE
    assert len(heard) == (3 if answers else 0)
    if "https" in settings["base_url"]:
        assert API_KEY.encode() not in b"".join(heard)


@rotated(base_url=["ftp://gemini.invalid", "http://", "http://[::1", "gemini"], way=WAYS)
async def test_an_invalid_address_is_rejected_at_once(
    make_model: MakeModel, caplog: pytest.LogCaptureFixture, base_url: str, way: str
) -> None:
    # The constructor rejects what it cannot read, or what has no scheme.
    with pytest.raises((errors.InvalidOptionError, ValidationError), match="base_url"):
        await ask(make_model(max_retries=2, base_url=base_url), way)
    assert logged_retries(caplog) == []
