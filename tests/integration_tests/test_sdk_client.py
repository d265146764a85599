"""`model.client` and `model.async_client`: the rest of the API, through the model's own client.

A small server records what arrives, and answers for files, caches, batches and models.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import io
import json
import pickle
import traceback
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from google import genai
from google.genai import errors as sdk_errors

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.errors import (
    GeminiAuthenticationError,
    InvalidOptionError,
    UnreadableResponseError,
)
from langchain_gemini_tools.testing.fake import faults
from tests.integration_tests.raw_server import Connection, RawServer
from tests.rotation import rotated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_gemini_tools.testing.fake import Emulator
    from tests.conftest import MakeModel

KEY = (
    "AIza" + "SyA1234567890abcdefghijklmnopqrstuv"
)  # in two: so that no scan reports it as a real key
TOKEN = "ya29." + "a-token-that-is-long-enough"  # in two as well
LIBRARIES = [name for name in ("httpx2", "httpx") if importlib.util.find_spec(name)]
WAYS = ["sync", "async"]
MEDIA = bytes(range(256)) * 40

Json = dict[str, Any]


@dataclass
class Sent:
    """One request, as the server saw it."""

    method: str
    path: str
    headers: dict[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def line(self) -> str:
        return f"{self.method} {self.path}"


@dataclass
class Answer:
    body: bytes | Json = field(default_factory=dict)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass
class Stub:
    """The answers by "METHOD /path", and the requests that came."""

    answers: dict[str, Answer]
    url: str = ""
    requests: list[Sent] = field(default_factory=list)

    @property
    def lines(self) -> list[str]:
        return [request.line for request in self.requests]


@contextmanager
def serving(answers: dict[str, Answer]) -> Iterator[Stub]:
    stub = Stub(answers)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def respond(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            sent = Sent(self.command, self.path, headers, body)
            stub.requests.append(sent)
            answer = stub.answers.get(sent.line.partition("?")[0], Answer(status=404))
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        do_GET = do_POST = do_DELETE = do_PATCH = respond  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    stub.url = f"http://127.0.0.1:{server.server_port}"
    Thread(target=server.serve_forever, daemon=True, kwargs={"poll_interval": 0.01}).start()
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("GOOGLE_GENAI_HTTP_CLIENT", request.param)
    return str(request.param)


def model_of(stub: Stub, **options: Any) -> ChatGemini:
    options = {"api_key": KEY, "base_url": stub.url, **options}
    return ChatGemini(model="gemini-3.8-flash", **options)


def run(chat: ChatGemini, way: str, service: str, method: str, **arguments: Any) -> Any:
    """Call `model.client.SERVICE.METHOD` in either way; a pager comes as a list."""
    if way == "sync":
        found = getattr(getattr(chat.client, service), method)(**arguments)
        return list(found) if hasattr(found, "page_size") else found

    async def call() -> Any:
        found = getattr(getattr(chat.async_client, service), method)(**arguments)
        found = await found if inspect.isawaitable(found) else found
        found = [item async for item in found] if hasattr(found, "page_size") else found
        await chat.aclose()
        return found

    return asyncio.run(call())


FILE: Json = {"name": "files/abc", "mimeType": "text/plain", "state": "ACTIVE"}
CACHE: Json = {"name": "cachedContents/c", "model": "models/gemini-3-flash"}
BATCH: Json = {
    "name": "batches/b",
    "metadata": {"model": "models/m", "state": "BATCH_STATE_PENDING"},
}

SERVICES: dict[str, tuple[str, str, Json, Json | bytes, Any]] = {
    "GET /v1beta/files/abc": ("files", "get", {"name": "files/abc"}, FILE, None),
    "GET /v1beta/files": ("files", "list", {}, {"files": [FILE]}, None),
    "DELETE /v1beta/files/abc": ("files", "delete", {"name": "files/abc"}, {}, None),
    "GET /v1beta/files/abc:download": ("files", "download", {"file": "files/abc"}, MEDIA, None),
    "GET /v1beta/cachedContents/c": ("caches", "get", {"name": "cachedContents/c"}, CACHE, None),
    "GET /v1beta/cachedContents": ("caches", "list", {}, {"cachedContents": [CACHE]}, None),
    "POST /v1beta/cachedContents": (
        "caches",
        "create",
        {"model": "gemini-3-flash", "config": {"contents": ["Once."], "ttl": "60s"}},
        CACHE,
        {
            "model": "models/gemini-3-flash",
            "contents": [{"role": "user", "parts": [{"text": "Once."}]}],
            "ttl": "60s",
        },
    ),
    "PATCH /v1beta/cachedContents/c": (
        "caches",
        "update",
        {"name": "cachedContents/c", "config": {"ttl": "9s"}},
        CACHE,
        {"ttl": "9s"},
    ),
    "DELETE /v1beta/cachedContents/c": ("caches", "delete", {"name": "cachedContents/c"}, {}, None),
    "POST /v1beta/models/m:batchGenerateContent": (
        "batches",
        "create",
        {"model": "m", "src": "files/abc", "config": {"display_name": "d"}},
        BATCH,
        {"batch": {"inputConfig": {"fileName": "files/abc"}, "displayName": "d"}},
    ),
    "GET /v1beta/batches/b": ("batches", "get", {"name": "batches/b"}, BATCH, None),
    "GET /v1beta/batches": ("batches", "list", {}, {"operations": [BATCH]}, None),
    "POST /v1beta/batches/b:cancel": ("batches", "cancel", {"name": "batches/b"}, {}, None),
    "DELETE /v1beta/batches/b": ("batches", "delete", {"name": "batches/b"}, {}, None),
    "GET /v1beta/models": ("models", "list", {}, {"models": [{"name": "models/m"}]}, None),
    "GET /v1beta/models/m": ("models", "get", {"model": "m"}, {"name": "models/m"}, None),
}


@rotated(line=list(SERVICES), way=WAYS)
def test_requests_pass_through_with_the_models_key_and_settings(
    line: str, way: str, library: str
) -> None:
    service, method, arguments, body, expected = SERVICES[line]
    with serving({line: Answer(body)}) as stub:
        chat = model_of(stub, additional_headers={"x-team": "a"})
        found = run(chat, way, service, method, **arguments)
        chat.close()
    assert [each.partition("?")[0] for each in stub.lines] == [line]
    (sent,) = stub.requests
    assert KEY not in sent.path
    assert KEY.encode() not in sent.body
    holding = [name for name, value in sent.headers.items() if KEY in value]
    assert holding == ["x-goog-api-key"]
    assert sent.headers["x-team"] == "a"
    assert "langchain-gemini-tools/" in sent.headers["user-agent"]
    assert (json.loads(sent.body) if expected else sent.body.strip(b"{}")) == (expected or b"")
    if method == "download":
        assert found == MEDIA
    elif method == "list":
        assert [item.name for item in found] == [
            item["name"] for item in next(iter(json.loads(json.dumps(body)).values()))
        ]
    elif method in {"get", "create", "update"}:
        assert found.name == body["name"]  # type: ignore[call-overload]


UPLOAD = "POST /upload/v1beta/files"


@rotated(way=WAYS)
def test_a_file_is_uploaded_in_two_steps(way: str, library: str) -> None:
    answers = {
        UPLOAD: Answer(),
        "POST /upload/here": Answer({"file": FILE}, headers={"x-goog-upload-status": "final"}),
    }
    with serving(answers) as stub:
        answers[UPLOAD].headers["x-goog-upload-url"] = f"{stub.url}/upload/here?upload_id=1"
        chat = model_of(stub)
        config = {"mime_type": "text/plain", "display_name": "notes"}
        uploaded = run(chat, way, "files", "upload", file=io.BytesIO(MEDIA), config=config)
        chat.close()
    assert uploaded.name == "files/abc"
    begin, transfer = stub.requests
    assert [begin.line, transfer.line] == [UPLOAD, "POST /upload/here?upload_id=1"]
    upload = {
        name.removeprefix("x-goog-upload-"): value
        for name, value in (begin.headers | transfer.headers).items()
        if name.startswith("x-goog-upload-")
    }
    assert upload == {
        "protocol": "resumable",
        "header-content-length": str(len(MEDIA)),
        "header-content-type": "text/plain",
        "command": "upload, finalize",
        "offset": "0",
    }
    assert begin.headers["x-goog-upload-command"] == "start"
    assert "notes" in json.loads(begin.body)["file"].values()
    assert transfer.body == MEDIA
    assert begin.headers["x-goog-api-key"] == KEY
    for sent in stub.requests:
        assert KEY not in sent.path
        assert {name for name, value in sent.headers.items() if KEY in value} <= {"x-goog-api-key"}


@rotated(way=WAYS)
def test_a_stream_of_the_sdk_passes_through(way: str, library: str) -> None:
    line = "POST /v1beta/models/m:streamGenerateContent"
    part = {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hi"}]}}]}
    body = f"data: {json.dumps(part)}\r\n\r\n".encode() * 2
    with serving({line: Answer(body, headers={"content-type": "text/event-stream"})}) as stub:
        chat = model_of(stub)
        asked: Json = {"model": "m", "contents": "Hello"}
        if way == "sync":
            texts = [chunk.text for chunk in chat.client.models.generate_content_stream(**asked)]
        else:

            async def stream() -> list[Any]:
                chunks = await chat.async_client.models.generate_content_stream(**asked)
                return [chunk.text async for chunk in chunks]

            texts = asyncio.run(stream())
        chat.close()
    assert texts == ["Hi", "Hi"]
    assert json.loads(stub.requests[0].body)["contents"][0]["parts"] == [{"text": "Hello"}]


def test_vertex_ai_is_reached_with_the_models_project() -> None:
    line = "GET /v1beta1/projects/p/locations/l/cachedContents/c"
    with serving({line: Answer(CACHE)}) as stub:
        token = genai_credentials()
        options: Json = {"vertexai": True, "project": "p", "location": "l", "credentials": token}
        chat = model_of(stub, api_key=None, **options)
        assert chat.client.caches.get(name="cachedContents/c").name == "cachedContents/c"
        chat.close()
    assert stub.lines == [line]
    assert stub.requests[0].headers["authorization"] == f"Bearer {TOKEN}"
    assert "x-goog-api-key" not in stub.requests[0].headers


def genai_credentials() -> Any:
    from google.auth.credentials import Credentials

    class Fixed(Credentials):
        def refresh(self, request: Any) -> None:
            raise AssertionError("A valid token is not refreshed.")

    found = Fixed()  # type: ignore[no-untyped-call]
    found.token = TOKEN
    return found


def test_version_and_address_are_the_models() -> None:
    with serving({"GET /proxy/v1/files/abc": Answer(FILE)}) as stub:
        chat = model_of(stub, base_url=f"{stub.url}/proxy/", api_version="v1")
        assert chat.client.files.get(name="files/abc").name == "files/abc"
        chat.close()


@rotated(way=WAYS)
def test_the_model_and_its_client_share_connections_and_calls(way: str, library: str) -> None:
    generate = "POST /v1beta/models/gemini-3.8-flash:generateContent"
    part = {"content": {"role": "model", "parts": [{"text": "Hi"}]}, "finishReason": "STOP"}
    answers = {"GET /v1beta/files/abc": Answer(FILE), generate: Answer({"candidates": [part]})}
    with serving(answers) as stub:
        chat = model_of(stub)
        for _ in range(2):
            assert run(chat, way, "files", "get", name="files/abc").name == "files/abc"
            assert chat.invoke("Hello").text == "Hi"
        chat.close()
    assert stub.lines == ["GET /v1beta/files/abc", generate] * 2


# Errors.


@rotated(way=WAYS, method=["get", "download"])
@pytest.mark.parametrize("kind", ["json", "text"])
def test_errors_are_the_sdks_without_secrets(
    kind: str, method: str, way: str, library: str
) -> None:
    message = f"{KEY} is not allowed"
    details = {"error": {"code": 403, "message": message, "status": "PERMISSION_DENIED"}}
    body: Any = details if kind == "json" else f"<p>{message}</p>".encode()
    rejected = Answer(body, 403, {"x-echo": KEY, "retry-after": "7"})
    arguments: Json = {"name": "files/abc"} if method == "get" else {"file": "files/abc"}
    line = "GET /v1beta/files/abc" + (":download" if method == "download" else "")
    with serving({line: rejected}) as stub:
        chat = model_of(stub)
        with pytest.raises(sdk_errors.ClientError) as raised:
            run(chat, way, "files", method, **arguments)
        chat.close()
    error: Any = raised.value
    assert error.code == 403
    assert "[redacted] is not allowed" in str(error)
    assert error.response.headers["retry-after"] == "7"
    shown = "".join(traceback.format_exception(error)) + repr(vars(error))
    shown += repr(error.response.headers.raw) + repr(error.response.request.headers.raw)
    assert KEY not in shown + error.response.text


@rotated(way=WAYS)
def test_a_connection_that_fails_quotes_no_key(way: str, library: str) -> None:
    hx = importlib.import_module(library)

    def fail(request: Any) -> Any:
        raise hx.LocalProtocolError(f"Illegal header value b'{KEY}'", request=request)

    async def afail(request: Any) -> Any:
        fail(request)

    chat = ChatGemini(
        model="gemini-3.8-flash",
        api_key=KEY,
        client_args={"transport": hx.MockTransport(fail)},
        async_client_args={"transport": hx.MockTransport(afail)},
    )
    with pytest.raises(
        hx.LocalProtocolError, match=r"Illegal header value b'\[redacted\]'"
    ) as raised:
        run(chat, way, "files", "get", name="files/abc")
    assert KEY not in "".join(traceback.format_exception(raised.value))
    assert KEY not in repr(raised.value.request.headers.raw)
    assert raised.value.__context__ is None


@rotated(way=WAYS)
def test_mounted_transports_of_either_library_are_used(
    way: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_GENAI_HTTP_CLIENT")
    hx = importlib.import_module(library)
    seen: list[Any] = []

    def respond(request: Any) -> Any:
        seen.append(type(request))
        return hx.Response(200, json=FILE)

    async def arespond(request: Any) -> Any:
        return respond(request)

    chat = ChatGemini(
        model="gemini-3.8-flash",
        api_key=KEY,
        client_args={"mounts": {"all://": hx.MockTransport(respond)}},
        async_client_args={"mounts": {"all://": hx.MockTransport(arespond)}},
    )
    run(chat, way, "files", "get", name="files/abc")
    assert seen == [hx.Request]


def test_a_client_without_a_key_is_an_error_of_ours() -> None:
    with pytest.raises(GeminiAuthenticationError, match="GOOGLE_API_KEY"):
        ChatGemini(model="gemini-3.8-flash").client  # noqa: B018


# Redirects and cookies.


@rotated(way=WAYS)
def test_a_download_follows_redirects_on_the_same_server(way: str, library: str) -> None:
    moved = Answer(status=302, headers={"location": "/download/abc?alt=media"})
    answers = {"GET /v1beta/files/abc:download": moved, "GET /download/abc": Answer(MEDIA)}
    with serving(answers) as stub:
        chat = model_of(stub)
        assert run(chat, way, "files", "download", file="files/abc") == MEDIA
        chat.close()
    assert stub.lines[1:] == ["GET /download/abc?alt=media"]
    assert [sent.headers["x-goog-api-key"] for sent in stub.requests] == [KEY, KEY]


@rotated(way=WAYS, method=["download", "delete"])
def test_no_redirect_sends_the_key_to_another_server(method: str, way: str, library: str) -> None:
    with serving({}) as elsewhere:
        moved = Answer(status=307, headers={"location": f"{elsewhere.url}/x?signature=1"})
        answers = {"GET /v1beta/files/abc:download": moved, "DELETE /v1beta/files/abc": moved}
        with serving(answers) as stub:
            chat = model_of(stub)
            name = {"file" if method == "download" else "name": "files/abc"}
            with pytest.raises(sdk_errors.APIError, match="was not followed") as raised:
                run(chat, way, "files", method, **name)
            chat.close()
        assert elsewhere.requests == []
    assert raised.value.code == 307
    assert f"redirected the request to {elsewhere.url}" in str(raised.value)
    assert len(stub.requests) == 1


@rotated(way=WAYS)
def test_a_redirect_in_a_circle_ends(way: str, library: str) -> None:
    path = "/v1beta/files/abc"
    with serving({f"GET {path}": Answer(status=302, headers={"location": path})}) as stub:
        chat = model_of(stub)
        with pytest.raises(sdk_errors.APIError) as raised:
            run(chat, way, "files", "get", name="files/abc")
        chat.close()
    assert raised.value.code == 302
    assert len(stub.requests) == 6


@pytest.mark.parametrize("given", [{}, {"cookies": {"mine": "1"}}], ids=["none", "given"])
def test_cookies_of_the_server_are_not_kept(given: Json, library: str) -> None:
    answer = Answer(FILE, headers={"set-cookie": "session=s; Path=/"})
    with serving({"GET /v1beta/files/abc": answer}) as stub:
        chat = model_of(stub, client_args=given)
        for _ in range(2):
            chat.client.files.get(name="files/abc")
        chat.close()
    cookies = [sent.headers.get("cookie") for sent in stub.requests]
    assert cookies == ["mine=1" if given else None] * 2


# Time and life.


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("options", "config", "expected"),
    [
        ({"timeout": 30}, None, {"connect": 20.0, "read": 30, "write": 30, "pool": 30}),
        ({"timeout": 5}, None, dict.fromkeys(["connect", "read", "write", "pool"], 5)),
        ({"timeout": None}, None, dict.fromkeys(["connect", "read", "write", "pool"])),
        (
            {"timeout": 30},
            {"http_options": {"timeout": 7000}},
            dict.fromkeys(["connect", "read", "write", "pool"], 7.0),
        ),
    ],
    ids=["long", "short", "none", "of the request"],
)
def test_the_timeout_is_the_models_unless_the_request_has_one(
    options: Json, config: Any, expected: Json, way: str, library: str
) -> None:
    hx = importlib.import_module(library)
    seen: list[Any] = []

    def respond(request: Any) -> Any:
        seen.append((request.extensions["timeout"], request.headers.get("x-server-timeout")))
        return hx.Response(200, json=FILE)

    async def arespond(request: Any) -> Any:
        return respond(request)

    chat = ChatGemini(
        model="gemini-3.8-flash",
        api_key=KEY,
        client_args={"transport": hx.MockTransport(respond)},
        async_client_args={"transport": hx.MockTransport(arespond)},
        **options,
    )
    run(chat, way, "files", "get", name="files/abc", config=config)
    assert seen == [(expected, "7" if config else None)]


def _drip_head(connection: Connection) -> None:
    connection.read_request()
    connection.send(b"HTTP/1.1 200 OK\r\n")
    connection.drip(b"x-padding: still here\r\n" * 1000)


def _drip_body(connection: Connection) -> None:
    connection.read_request()
    connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
    connection.drip(b" " * 100_000)


def _drip_error(connection: Connection) -> None:
    connection.read_request()
    connection.send(b"HTTP/1.1 404 Not Found\r\ncontent-length: 100000\r\n\r\n")
    connection.drip(b" " * 100_000)


@rotated(
    case={
        "a head": (_drip_head, "get"),
        "a body": (_drip_body, "get"),
        "an error": (_drip_error, "get"),
        "the head of a download": (_drip_head, "download"),
        "the error of a download": (_drip_error, "download"),
    }
)
@pytest.mark.parametrize("way", WAYS)
def test_the_timeout_ends_a_response_that_arrives_in_single_bytes(
    case: Any, way: str, library: str
) -> None:
    script, method = case
    given = {"get": {"name": "files/abc"}, "download": {"file": "files/abc"}}[method]
    hx = importlib.import_module(library)
    with RawServer(script) as server:
        chat = ChatGemini(
            model="gemini-3.8-flash", api_key=KEY, base_url=server.url, timeout=0.5, max_retries=3
        )
        with pytest.raises(hx.ReadTimeout, match=r"within 0\.5 s") as caught:
            run(chat, way, "files", method, **given)
        assert KEY not in "".join(traceback.format_exception(caught.value))
        assert server.connections == 1


@pytest.mark.parametrize("way", WAYS)
def test_a_download_may_take_longer_than_the_timeout(way: str, library: str) -> None:
    """As long as each wait is shorter."""

    def send_slowly(connection: Connection) -> None:
        connection.read_request()
        connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: 16\r\n\r\n")
        connection.drip(b"0123456789abcdef", seconds=0.1)

    with RawServer(send_slowly) as server:
        chat = ChatGemini(model="gemini-3.8-flash", api_key=KEY, base_url=server.url, timeout=1)
        found = run(chat, way, "files", "download", file="files/abc")
        assert found == b"0123456789abcdef"


def test_the_client_goes_on_after_the_model_was_closed() -> None:
    with serving({"GET /v1beta/files/abc": Answer(FILE)}) as stub:
        chat = model_of(stub)
        client = chat.client
        assert isinstance(client, genai.Client)
        for close in (chat.close, client.close, lambda: asyncio.run(chat.aclose())):
            assert client.files.get(name="files/abc").name == "files/abc"
            close()
            assert chat.client is client
        assert client.files.get(name="files/abc").name == "files/abc"
        chat.close()
    assert len(stub.requests) == 4


def test_copies_share_the_client_until_a_setting_differs() -> None:
    chat = ChatGemini(model="gemini-3.8-flash", api_key=KEY)
    client = chat.client
    assert chat.async_client is client.aio
    assert chat.model_copy(update={"temperature": 0.5}).client is client
    assert chat.model_copy(update={"api_key": "another key, quite long"}).client is not client
    assert pickle.loads(pickle.dumps(chat)).temperature is None


def test_a_client_cannot_be_given() -> None:
    options: Json = {"client": genai.Client(api_key=KEY)}
    with pytest.raises(ValueError, match="no option 'client'"):
        ChatGemini(model="gemini-3.8-flash", **options)
    with pytest.raises(InvalidOptionError, match="no option 'client'"):
        ChatGemini(model="gemini-3.8-flash").invoke("Hello", client=1)


@pytest.mark.parametrize("coding", ["zstd", "gzip, gzip"])
def test_a_body_that_is_compressed_in_another_way_is_not_read(
    emulator: Emulator, make_model: MakeModel, coding: str
) -> None:
    """A few kilobytes could decompress to gigabytes."""
    emulator.reply(fault=faults.packed(coding, b"x"))
    chat = make_model()
    with pytest.raises(UnreadableResponseError, match="was not requested"):
        chat.client.models.generate_content(model="gemini-3.8-flash", contents="Hi")
