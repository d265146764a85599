"""Media by URL: left to the API, or fetched on request, past every trap that a server can lay."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import logging
import pickle
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

import pytest
from blockbuster import blockbuster_ctx
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_gemini_tools.errors import MediaFetchError
from langchain_gemini_tools.media_fetch import FetchLimits
from langchain_gemini_tools.testing.fake import API_KEY
from tests.rotation import WAYS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from langchain_gemini_tools import ChatGemini
    from langchain_gemini_tools.testing.fake import Emulator
    from tests.conftest import MakeModel

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 24
PICTURE = {
    "inlineData": {"mimeType": "image/png", "data": base64.b64encode(PNG).decode("ascii")},
}


class Files:
    """A web server on this machine; what it was asked for is in `asked`."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.paths: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                outer.asked.append((self.path, headers))
                with contextlib.suppress(OSError):  # they hung up
                    outer.paths[self.path.partition("?")[0]](self)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self._server.server_address[1]}{path}"

    def has(self, path: str, body: bytes, status: int = 200, **headers: str) -> str:
        """A file at a path; its URL."""

        def send(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(status)
            for name, value in headers.items():
                handler.send_header(name.replace("_", "-"), value)
            handler.end_headers()
            handler.wfile.write(body)

        self.paths[path] = send
        return self.url(path)


@pytest.fixture
def files() -> Iterator[Files]:
    with Files() as running:
        yield running


LOCAL = FetchLimits(allow_hosts=("127.0.0.1",), allow_http=True)


def picture(url: str) -> HumanMessage:
    return HumanMessage([{"type": "text", "text": "What is it?"}, {"type": "image", "url": url}])


async def send(chat: ChatGemini, way: str, messages: Any) -> None:
    match way:
        case "invoke":
            await asyncio.to_thread(chat.invoke, messages)
        case "ainvoke":
            await chat.ainvoke(messages)
        case "stream":
            await asyncio.to_thread(lambda: list(chat.stream(messages)))
        case _:
            async for _ in chat.astream(messages):
                pass


@pytest.mark.parametrize("way", WAYS)
async def test_a_public_url_is_left_to_the_api_unless_it_is_to_be_fetched(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    await send(make_model(), way, [picture("https://example.com/cat.png")])
    assert emulator.last.body["contents"][0]["parts"][1] == {
        "fileData": {"fileUri": "https://example.com/cat.png", "mimeType": "image/png"}
    }


@pytest.mark.parametrize("way", WAYS)
async def test_media_are_fetched_on_request_and_sent_as_bytes(
    emulator: Emulator, make_model: MakeModel, files: Files, way: str
) -> None:
    url = files.has("/cat", PNG, content_type="image/png; charset=binary")
    asked = [picture(url)]
    await send(make_model(fetch_urls=LOCAL), way, asked)
    assert emulator.last.body["contents"] == [
        {"role": "user", "parts": [{"text": "What is it?"}, PICTURE]}
    ]
    assert asked == [picture(url)]  # the caller's message stays as it was


async def test_fetching_does_not_block_the_loop(
    emulator: Emulator, make_model: MakeModel, files: Files
) -> None:
    url = files.has("/cat", PNG, content_type="image/png")
    chat = make_model(fetch_urls=LOCAL)
    await chat.ainvoke("Hello?")
    with blockbuster_ctx(excluded_modules=["tests"]):
        await chat.ainvoke([picture(url)])
    assert emulator.last.body["contents"][0]["parts"][1] == PICTURE


def test_media_of_tool_results_are_fetched(
    emulator: Emulator, make_model: MakeModel, files: Files
) -> None:
    url = files.has("/cat", PNG, content_type="image/png")
    call = {"name": "look", "args": {}, "id": "c"}
    looked = ToolMessage([{"type": "image", "url": url}], tool_call_id="c")
    quoted = {"type": "tool_result", "tool_use_id": "d", "content": [{"type": "image", "url": url}]}
    history = [
        HumanMessage("Look."),
        AIMessage("", tool_calls=[call, {**call, "id": "d"}]),
        looked,
        HumanMessage([quoted]),
    ]
    make_model(fetch_urls=LOCAL).invoke(history)
    responses = emulator.last.body["contents"][2]["parts"]
    assert [part["functionResponse"]["parts"] for part in responses] == [[PICTURE], [PICTURE]]
    assert len(files.asked) == 1


def test_the_steps_of_an_agent_fetch_a_file_once(
    emulator: Emulator, make_model: MakeModel, files: Files
) -> None:
    url = files.has("/cat", PNG, content_type="image/png")
    chat = make_model(fetch_urls=LOCAL)
    for _ in range(3):
        chat.invoke([picture(url), picture(url)])
    assert len(files.asked) == 1
    copied = pickle.loads(pickle.dumps(chat))
    copied.preview([picture(url)])
    assert len(files.asked) == 2


def test_a_copy_that_was_made_before_the_first_download_shares_the_files(
    make_model: MakeModel, files: Files
) -> None:
    asked = [picture(files.has("/cat", PNG, content_type="image/png"))]
    chat = make_model(fetch_urls=LOCAL)
    copied = chat.model_copy(update={"temperature": 0.5})
    for model in (chat, copied):
        model.invoke(asked)
    assert len(files.asked) == 1


def test_no_key_and_no_cookie_goes_to_the_server_of_a_file(
    make_model: MakeModel, files: Files
) -> None:
    files.has("/cat", PNG, content_type="image/png")
    first = files.has("/moved", b"", 302, location=files.url("/cat"), set_cookie="a=b")
    headers = {"x-gateway-token": "gateway-secret"}
    make_model(fetch_urls=LOCAL, additional_headers=headers).invoke([picture(first)])
    assert [path for path, _ in files.asked] == ["/moved", "/cat"]
    assert API_KEY not in str(files.asked)
    assert "gateway-secret" not in str(files.asked)


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("gs://bucket/cat.png", "image/png"),
        ("https://www.youtube.com/watch?v=x", None),
        ("https://generativelanguage.googleapis.com/v1beta/files/abc", None),
    ],
)
def test_what_only_google_can_read_is_never_fetched(
    emulator: Emulator, make_model: MakeModel, url: str, kept: str | None
) -> None:
    make_model(fetch_urls=True).invoke([HumanMessage([{"type": "file", "url": url}])])
    kind = {"mimeType": kept} if kept else {}
    assert emulator.last.body["contents"][0]["parts"] == [{"fileData": {"fileUri": url, **kind}}]


# Traps


def test_private_addresses_are_rejected(emulator: Emulator, make_model: MakeModel) -> None:
    chat = make_model(fetch_urls=FetchLimits(allow_http=True))
    for host in ("127.0.0.1", "localhost", "169.254.169.254", "[::ffff:10.0.0.1]", "0x7f000001"):
        with pytest.raises(MediaFetchError, match="not allowed") as raised:
            chat.invoke([picture(f"http://{host}/cat.png?signature=secret")])
        assert "secret" not in str(raised.value)
    assert emulator.requests == []


@pytest.mark.parametrize(
    "address",
    [
        "2002:7f00:1::",  # 6to4 of 127.0.0.1
        "2002:a00:1::1",  # 6to4 of 10.0.0.1
        "64:ff9b::a9fe:a9fe",  # NAT64 of 169.254.169.254
        "64:ff9b:1::a00:1",  # NAT64 with a local prefix
        "64:ff9b:1:7f00:0:100:808:808",  # the same, with the address in front
        "2001:0:4136:e378:8000:63bf:f5ff:fffe",  # Teredo
        "fec0::1",  # site-local
        "::ffff:0:7f00:1",  # 127.0.0.1, translated
        "5f00::1",  # segment routing
        "100::1",  # discard-only
    ],
)
@pytest.mark.parametrize("is_name", [False, True], ids=["address", "name"])
def test_private_addresses_inside_of_others_are_rejected(
    *,
    emulator: Emulator,
    make_model: MakeModel,
    monkeypatch: pytest.MonkeyPatch,
    address: str,
    is_name: bool,
) -> None:
    found = [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", (address, 80, 0, 0))]
    resolve = socket.getaddrinfo

    def look_up(host: Any, *args: Any, **kwargs: Any) -> Any:
        return found if host in {"tunnel.example", address} else resolve(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    chat = make_model(fetch_urls=FetchLimits(allow_http=True, timeout_seconds=2))
    host = "tunnel.example" if is_name else f"[{address}]"
    with pytest.raises(MediaFetchError, match="not allowed"):
        chat.invoke([picture(f"http://{host}/cat.png")])
    assert emulator.requests == []


def test_no_cookie_is_stored_or_sent_back(make_model: MakeModel, files: Files) -> None:
    files.has("/cat", PNG, content_type="image/png", set_cookie="b=2")
    url = files.has("/moved", b"", 302, location="/cat", set_cookie="a=1")
    make_model(fetch_urls=LOCAL).invoke([picture(url)])
    assert [path for path, _ in files.asked] == ["/moved", "/cat"]
    assert [headers for _, headers in files.asked if "cookie" in headers] == []


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_the_signature_of_an_address_is_not_logged(
    make_model: MakeModel, files: Files, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    caplog.set_level(logging.INFO)
    cat = files.has("/cat", PNG, content_type="image/png")
    url = files.has("/moved", b"", 302, location=f"{cat}?X-Amz-Signature=5160a7")
    await send(make_model(fetch_urls=LOCAL), way, [picture(f"{url}?sig=f00d")])
    assert [path for path, _ in files.asked] == ["/moved?sig=f00d", "/cat?X-Amz-Signature=5160a7"]
    assert f'GET {url} "HTTP/1.0 302 Found"' in caplog.text
    assert f'GET {cat} "HTTP/1.0 200 OK"' in caplog.text


def test_plain_http_is_rejected_unless_it_is_allowed(make_model: MakeModel, files: Files) -> None:
    url = files.has("/cat", PNG, content_type="image/png")
    limits = FetchLimits(allow_hosts=["127.0.0.1"])
    with pytest.raises(MediaFetchError, match="scheme 'http' not allowed"):
        make_model(fetch_urls=limits).invoke([picture(url)])
    assert files.asked == []


@pytest.mark.parametrize(
    "target", ["http://169.254.169.254/latest/meta-data", "http://localhost/cat", "file:///etc"]
)
@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_a_redirect_to_a_private_address_is_not_followed(
    emulator: Emulator, make_model: MakeModel, files: Files, target: str, way: str
) -> None:
    url = files.has("/moved", b"", 302, location=target)
    with pytest.raises(MediaFetchError, match="was not fetched"):
        await send(make_model(fetch_urls=LOCAL), way, [picture(url)])
    assert len(files.asked) == 1
    assert emulator.requests == []


@pytest.mark.parametrize("is_redirected", [False, True], ids=["given", "redirected"])
@pytest.mark.parametrize("host", ["127.0.0.1", "93.184.215.14"], ids=["allowed", "public"])
@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_a_port_that_does_not_exist_is_an_error_of_the_fetch(
    *, make_model: MakeModel, files: Files, host: str, is_redirected: bool, way: str
) -> None:
    url = f"http://{host}:99999/cat"
    if is_redirected:
        url = files.has("/moved", b"", 302, location=url)
    with pytest.raises(MediaFetchError, match=r"Check the URL, or send the bytes\.$"):
        await send(make_model(fetch_urls=LOCAL), way, [picture(url)])


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_redirects_between_public_servers_are_followed(
    emulator: Emulator,
    make_model: MakeModel,
    files: Files,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
) -> None:
    """The name has a public address, and connections to it lead to this machine."""
    public = "93.184.215.14"
    resolve, connect = socket.getaddrinfo, asyncio.BaseEventLoop.create_connection

    def look_up(host: Any, *args: Any, **kwargs: Any) -> Any:
        return resolve(public if host == "cat.example" else host, *args, **kwargs)

    def connect_here(loop: Any, protocol: Any, host: Any = None, *args: Any, **kwargs: Any) -> Any:
        host = "127.0.0.1" if host == public else host
        return connect(loop, protocol, host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(asyncio.BaseEventLoop, "create_connection", connect_here)
    cat = files.has("/cat", PNG, content_type="image/png").replace("127.0.0.1", "cat.example")
    url = files.has("/moved", b"", 302, location=cat).replace("127.0.0.1", "cat.example")
    limits = FetchLimits(allow_http=True)
    await send(make_model(fetch_urls=limits), way, [picture(url)])
    assert [path for path, _ in files.asked] == ["/moved", "/cat"]
    assert emulator.last.body["contents"][0]["parts"] == [{"text": "What is it?"}, PICTURE]


def test_a_name_that_does_not_exist_is_not_called_forbidden(
    make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look_up(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with pytest.raises(MediaFetchError) as raised:
        make_model(fetch_urls=True).invoke([picture("https://cat.example/cat.png")])
    assert str(raised.value) == (
        "https://cat.example/cat.png was not fetched: its name, or one that it redirects to, was "
        "not found. Check the URL, or send the bytes."
    )


def test_redirects_in_a_circle_end(make_model: MakeModel, files: Files) -> None:
    url = files.has("/moved", b"", 302, location="/moved")
    with pytest.raises(MediaFetchError, match="too many redirects"):
        make_model(fetch_urls=LOCAL).invoke([picture(url)])
    assert len(files.asked) == 1 + LOCAL.max_redirects


@pytest.mark.parametrize(
    "answers", [["127.0.0.1"], ["93.184.215.14", "127.0.0.1"]], ids=["at once", "the second time"]
)
def test_a_name_that_resolves_to_a_private_address_is_rejected(
    make_model: MakeModel, files: Files, monkeypatch: pytest.MonkeyPatch, answers: list[str]
) -> None:
    """DNS rebinding: the address that was checked is the one that is connected to."""
    url = files.has("/cat", PNG, content_type="image/png").replace("127.0.0.1", "rebind.example")
    resolve = socket.getaddrinfo

    def lie(host: Any, *args: Any, **kwargs: Any) -> Any:
        if host == "rebind.example":
            host = answers.pop(0) if len(answers) > 1 else answers[0]
        return resolve(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", lie)
    limits = FetchLimits(allow_http=True, timeout_seconds=0.5)
    with pytest.raises(MediaFetchError):
        make_model(fetch_urls=limits).invoke([picture(url)])
    assert files.asked == []


def drip(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("content-type", "image/png")
    handler.end_headers()
    for _ in range(400):
        handler.wfile.write(b"\x00")
        time.sleep(0.05)


def drip_headers(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nx-a: ")
    for _ in range(400):
        handler.wfile.write(b"a")
        time.sleep(0.05)


def test_a_name_lookup_that_hangs_ends_with_the_timeout(
    make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_over = threading.Event()
    given_up: list[str] = []

    def look_up(*_: object, **__: object) -> None:
        is_over.wait(10)
        given_up.append("the name server")
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    chat = make_model(fetch_urls=FetchLimits(timeout_seconds=0.2))
    picture = HumanMessage([{"type": "image", "url": "https://pictures.example/a.png"}])
    try:
        with pytest.raises(MediaFetchError, match=r"was not fetched within 0\.2 s"):
            chat.preview([picture])
        assert given_up == []
    finally:
        is_over.set()


@pytest.mark.parametrize("server", [drip, drip_headers])
@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_a_slow_drip_ends(
    emulator: Emulator, make_model: MakeModel, files: Files, server: Any, way: str
) -> None:
    files.paths["/cat"] = server
    limits = FetchLimits(allow_hosts=("127.0.0.1",), allow_http=True, timeout_seconds=0.3)
    with pytest.raises(MediaFetchError, match=r"not fetched within 0\.3 s"):
        await send(make_model(fetch_urls=limits), way, [picture(files.url("/cat"))])
    assert emulator.requests == []


SMALL = FetchLimits(allow_hosts=("127.0.0.1",), allow_http=True, max_bytes=1000)
TRAPS: dict[str, tuple[dict[str, Any], str]] = {
    "too large": ({"body": PNG * 100, "content_type": "image/png"}, "larger than 1000 bytes"),
    "too large by its own word": (
        {"body": b"", "content_type": "image/png", "content_length": "5000"},
        "larger than 1000 bytes",
    ),
    "a bomb": (
        {
            "body": gzip.compress(b"\x00" * 5_000_000)[:900],
            "content_type": "image/png",
            "content_encoding": "gzip",
        },
        "the response is compressed",
    ),
    "a page": ({"body": b"<p>Log in", "content_type": "text/html"}, "text/html, but the block"),
    "a drawing": ({"body": b"<svg/>", "content_type": "image/svg+xml"}, "Allowed types"),
    "a program": ({"body": b"MZ", "content_type": "application/x-msdownload"}, "Allowed types"),
    "nothing known": ({"body": b"??"}, "its type is unknown"),
    "not there": ({"body": b"", "status": 404, "content_type": "image/png"}, "status 404"),
}


@pytest.mark.parametrize(("file", "words"), TRAPS.values(), ids=TRAPS)
def test_files_beyond_the_limits_are_rejected(
    *, emulator: Emulator, make_model: MakeModel, files: Files, file: dict[str, Any], words: str
) -> None:
    url = files.has("/cat", **file)
    with pytest.raises(MediaFetchError, match=words):
        make_model(fetch_urls=SMALL).invoke([picture(url)])
    assert emulator.requests == []


def test_all_files_of_a_request_share_the_size_limit(make_model: MakeModel, files: Files) -> None:
    urls = [files.has(f"/{n}", PNG * 10, content_type="image/png") for n in range(4)]
    chat = make_model(fetch_urls=SMALL)
    for url in urls:
        chat.preview([picture(url)])
    with pytest.raises(MediaFetchError, match="together"):
        chat.preview([picture(url) for url in urls])


def test_an_unknown_type_is_read_from_the_bytes(
    emulator: Emulator, make_model: MakeModel, files: Files
) -> None:
    url = files.has("/cat", PNG, content_type="application/octet-stream")
    make_model(fetch_urls=LOCAL).invoke([HumanMessage([{"type": "file", "url": url}])])
    assert emulator.last.body["contents"][0]["parts"] == [PICTURE]


async def test_a_fetch_that_is_given_up_leaves_no_task(make_model: MakeModel, files: Files) -> None:
    files.paths["/cat"] = drip
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(
            make_model(fetch_urls=LOCAL).ainvoke([picture(files.url("/cat"))]), 0.3
        )
    assert len(asyncio.all_tasks()) == 1
