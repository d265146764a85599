"""The client without sockets: the HTTP library's own mock transport answers."""

from __future__ import annotations

import asyncio
import copy
import importlib.util
import json
import pickle
import ssl
import subprocess
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any

import pytest
from google import genai
from google.auth import credentials as google_credentials
from google.auth import exceptions as auth_errors
from pydantic import SecretStr

from langchain_gemini_tools.client import ClientSettings, GeminiClient
from langchain_gemini_tools.client.pool import HttpPool
from langchain_gemini_tools.errors import (
    GeminiAPIError,
    GeminiAuthenticationError,
    GeminiConnectionError,
    GeminiServerError,
    GeminiTimeoutError,
    GeminiToolsError,
    InvalidOptionError,
    TruncatedStreamError,
    UnreadableResponseError,
)
from langchain_gemini_tools.facts.json_values import MAX_DEPTH
from tests.rotation import rotated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LIBRARIES = [
    importlib.import_module(name) for name in ("httpx2", "httpx") if importlib.util.find_spec(name)
]
hx = LIBRARIES[0]

KEY = "AIza" + "SyA1234567890abcdefghijklmnopqrstuv"
BODY = b'{"contents": [{"parts": [{"text": "hi"}]}], "unknownField": [1.0]}'
REPLY = {
    "candidates": [{"finishMessage": "kept", "finishReason": "NEW_REASON"}],
    "new": {"a": None},
}


def answering(
    answer: Callable[[Any], Any] | bytes, *, library: Any = hx, **settings: Any
) -> GeminiClient:
    """A client whose requests are answered by this function, or with these bytes."""

    def respond(request: Any) -> Any:
        if isinstance(answer, bytes):
            return library.Response(200, content=answer)
        return answer(request)

    async def arespond(request: Any) -> Any:
        return respond(request)

    settings.setdefault("api_key", SecretStr(KEY))
    return GeminiClient(
        ClientSettings(
            client_args={"transport": library.MockTransport(respond)},
            async_client_args={"transport": library.MockTransport(arespond)},
            **settings,
        )
    )


WAYS = ["send", "asend", "stream", "astream"]


def run(client: GeminiClient, way: str, model: str = "gemini-3-flash", **options: Any) -> Any:
    """Call one of the four methods and gather what it gives."""
    options.setdefault("timeout_seconds", 5.0)
    method = getattr(client, way)
    match way:
        case "send":
            return method(model, BODY, **options)
        case "stream":
            return list(method(model, BODY, **options))
        case "asend":
            return asyncio.run(method(model, BODY, **options))

    async def gather() -> list[Any]:
        return [reply async for reply in method(model, BODY, **options)]

    return asyncio.run(gather())


every_way = pytest.mark.parametrize("way", WAYS)
streaming_way = pytest.mark.parametrize("way", ["stream", "astream"])


@every_way
@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.__name__)
def test_the_body_goes_out_and_the_json_comes_back_unchanged(way: str, library: Any) -> None:
    seen: list[Any] = []

    def answer(request: Any) -> Any:
        seen.append(request)
        text = json.dumps(REPLY)
        return library.Response(
            200, text=f"data: {text}\r\n\r\n" if "alt=sse" in str(request.url) else text
        )

    result = run(answering(answer, library=library), way)
    assert result == (REPLY if way.endswith("send") else [REPLY])
    (request,) = seen
    assert request.content == BODY
    assert request.headers["content-length"] == str(len(BODY))
    assert request.headers["x-goog-api-key"] == KEY
    assert "langchain-gemini-tools/" in request.headers["user-agent"]
    method = "generateContent" if way.endswith("send") else "streamGenerateContent?alt=sse"
    assert str(request.url).endswith(f"/v1beta/models/gemini-3-flash:{method}")


@pytest.mark.parametrize("way", ["send", "stream"])
@pytest.mark.parametrize(
    "value",
    [
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551615",
        "-9223372036854775808",
        "0.1234567890123456789",
        "-0",
        "-0.0",
        "1e999",
        "NaN",
        "[-Infinity]",
        '"\\ud83d\\ude00\\u0000"',
        '{"a": 1, "a": 2}',
    ],
)
def test_values_are_those_that_pythons_own_parser_gives(way: str, value: str) -> None:
    body = f'{{"value": {value}}}'
    sent = body if way == "send" else f"data: {body}\n\n"
    result = run(answering(sent.encode()), way)
    assert repr(result) == repr(json.loads(body) if way == "send" else [json.loads(body)])


@every_way
@pytest.mark.parametrize("long", ["", "1" * 20], ids=["plain", "with digits"])
def test_lone_surrogates_are_replaced(way: str, long: str) -> None:
    halves = r'"whole": "\ud83d\ude00", "lone \ude00": [["a\ud83d"]]'
    text = f'{{{halves}, "long": "{long}"}}'
    sent = text if way.endswith("send") else f"data: {text}\n\n"
    result = run(answering(sent.encode()), way)
    replaced = {"whole": "😀", "lone \ufffd": [["a\ufffd"]], "long": long}
    assert result == (replaced if way.endswith("send") else [replaced])


@every_way
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
@pytest.mark.parametrize("long", ["1", "1" * 20], ids=["plain", "with digits"])
def test_a_response_that_is_nested_too_deep_is_rejected(
    way: str, long: str, opening: str, closing: str
) -> None:
    def answered(levels: int) -> Any:
        text = f'{{"long": {long}, "deep": {opening * levels}1{closing * levels}}}'
        sent = text if way.endswith("send") else f"data: {text}\n\n"
        return run(answering(sent.encode()), way)

    assert answered(MAX_DEPTH - 1)
    for levels in (MAX_DEPTH + 1, 900, 100_000):
        with pytest.raises(UnreadableResponseError, match="more than 100 levels deep") as caught:
            answered(levels)
        assert not caught.value.is_retryable


def test_tokens_are_counted_with_the_callers_body() -> None:
    def answer(request: Any) -> Any:
        assert str(request.url).endswith("/v1beta/models/m:countTokens")
        assert request.content == BODY
        return hx.Response(200, json={"totalTokens": 3, "newField": 1})

    counts = answering(answer).count_tokens("m", BODY, timeout_seconds=None)
    assert counts == {"totalTokens": 3, "newField": 1}


@pytest.mark.parametrize(
    ("settings", "environment", "path"),
    [
        pytest.param({}, None, "/v1beta/models/m", id="default"),
        pytest.param({"api_version": "v1"}, "beta", "/v1/models/m", id="setting"),
        pytest.param({}, "v1", "/v1/models/m", id="environment"),
        pytest.param({}, "beta", "/v1beta/models/m", id="environment-beta"),
        pytest.param(
            {"vertexai": True}, "beta", "/v1beta1/publishers/google/models/m", id="express-beta"
        ),
        pytest.param({"vertexai": True}, None, "/v1beta1/publishers/google/models/m", id="express"),
        pytest.param(
            {"base_url": "http://h/proxy/"}, None, "/proxy/v1beta/models/m", id="base-url-path"
        ),
    ],
)
def test_the_version_of_the_api(
    settings: Any, environment: str | None, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if environment:
        monkeypatch.setenv("GOOGLE_GENAI_API_VERSION", environment)
    urls: list[Any] = []

    def answer(request: Any) -> Any:
        urls.append(request.url)
        return hx.Response(200, json={})

    run(answering(answer, **settings), "send", "m")
    assert [url.path for url in urls] == [f"{path}:generateContent"]


def test_the_environment_may_choose_vertex_ai(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")

    def answer(request: Any) -> Any:
        assert request.url.path == "/v1beta1/publishers/google/models/m:generateContent"
        return hx.Response(200, json={})

    client = answering(answer)
    assert run(client, "send", "m") == {}
    assert client.uses_vertexai


RefreshError: Any = auth_errors.RefreshError  # untyped
TransportError: Any = auth_errors.TransportError


class BrokenCredentials(google_credentials.Credentials):
    def __init__(self, failure: Exception) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.failure = failure

    def refresh(self, request: Any) -> None:
        raise self.failure


@every_way
@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (RefreshError(f"invalid_grant {KEY}"), GeminiAuthenticationError),
        (TransportError("no route"), GeminiConnectionError),
    ],
    ids=["rejected", "unreachable"],
)
def test_invalid_credentials_are_an_error_of_ours(
    way: str, failure: Any, error: type[Exception]
) -> None:
    vertex = {"vertexai": True, "project": "p", "location": "l", "api_key": None}
    client = answering(b"{}", credentials=BrokenCredentials(failure), **vertex)
    with pytest.raises(error, match="credentials") as raised:
        run(client, way)
    assert KEY not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize(
    ("way", "seconds", "header"),
    [
        ("send", 9.9, None),
        ("send", 10, "10"),
        ("asend", 30.5, "31"),
        ("send", None, None),
        ("stream", 30, None),  # a limit for each wait, not for the whole answer
    ],
)
def test_the_server_is_never_given_less_than_ten_seconds(
    way: str, seconds: float | None, header: str | None
) -> None:
    seen: list[Any] = []

    def answer(request: Any) -> Any:
        seen.append(request.headers.get("x-server-timeout"))
        return hx.Response(200, json={})

    run(answering(answer), way, timeout_seconds=seconds)
    assert seen == [header]


def test_a_body_in_single_bytes_ends_with_the_timeout_on_any_transport(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Transports that are not ours limit each read, if any, and not all of them together."""
    clock, passed = time.monotonic, 0.0
    monkeypatch.setattr(time, "monotonic", lambda: clock() + passed)

    def body() -> Iterator[bytes]:
        nonlocal passed
        for byte in b'{"a": "long"}':
            passed += 100.0
            yield bytes([byte])

    client = answering(lambda _: hx.Response(200, content=body()))
    with pytest.raises(GeminiTimeoutError, match="within 450 s"):
        run(client, "send", timeout_seconds=450.0)
    assert passed == 500.0
    assert run(client, "send", timeout_seconds=1500.0) == {"a": "long"}


@pytest.mark.parametrize("name", ["user-agent", "User-Agent"])
def test_headers_of_the_user_are_added(name: str) -> None:
    def answer(request: Any) -> Any:
        assert request.headers["x-team"] == "a"
        assert len(request.headers.get_list("user-agent")) == 1
        assert request.headers["user-agent"].endswith("mine/1")
        assert request.headers["x-goog-api-client"].endswith("gemini-tools/0.1.0")
        return hx.Response(200, json={})

    run(answering(answer, headers={"x-team": "a", name: "mine/1"}), "send")


@every_way
def test_each_status_becomes_its_error(way: str) -> None:
    def answer(request: Any) -> Any:
        details = {"error": {"code": 503, "message": f"busy {KEY}", "status": "UNAVAILABLE"}}
        return hx.Response(503, json=details, headers={"retry-after": "3", "x-request-id": "r"})

    with pytest.raises(GeminiServerError) as raised:
        run(answering(answer), way)
    error = raised.value
    assert isinstance(error, genai.errors.ServerError)
    assert str(error) == "503 UNAVAILABLE: busy [redacted] [retry after 3 s]"
    assert (error.code, error.retry_after, error.request_id) == (503, 3.0, "r")
    assert error.response.json()["error"]["message"] == "busy [redacted]"
    assert KEY not in "".join(traceback.format_exception(error)) + repr(pickle.dumps(error))


@rotated(
    answer={
        "rejected": lambda _: hx.Response(403, json={"error": {"message": f"{KEY} is bad"}}),
        "at-200": lambda _: hx.Response(200, json={"error": {"message": f"{KEY} is bad"}}),
        "unreadable": lambda _: hx.Response(200, text=f"<p>{KEY}</p>"),
        "late": lambda _: _raise(hx.ReadTimeout("late")),
        "gone": lambda _: _raise(hx.ConnectError("gone")),
    },
    way=WAYS,
)
def test_a_traceback_that_shows_locals_shows_no_key(way: str, answer: Any) -> None:
    with pytest.raises(GeminiToolsError) as raised:
        run(answering(answer), way)
    shown = traceback.TracebackException.from_exception(raised.value, capture_locals=True)
    assert KEY not in "".join(shown.format())


def _raise(error: Exception) -> Any:
    raise error


@rotated(status=[301, 302, 307, 308], way=WAYS)
def test_redirects_are_not_followed(way: str, status: int) -> None:
    asked: list[str] = []

    def answer(request: Any) -> Any:
        asked.append(request.url.host)
        return hx.Response(status, headers={"location": f"http://{KEY}@elsewhere:81/{KEY}?{KEY}"})

    client = answering(answer)
    client.settings.client_args["follow_redirects"] = True  # type: ignore[index]
    with pytest.raises(GeminiAPIError) as raised:
        run(client, way)
    assert str(raised.value) == (
        f"{status} REDIRECTED: The API redirected the request to http://elsewhere:81. This "
        "redirect was not followed, so that credentials are not sent elsewhere. Check base_url."
    )
    assert asked == ["generativelanguage.googleapis.com"]


ERROR = {"error": {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}}
FIRST = b'data: {"a": 1}\r\n\r\n'


@streaming_way
@pytest.mark.parametrize(
    "tail",
    [
        pytest.param(b"data: " + json.dumps(ERROR).encode() + b"\r\n\r\n", id="event"),
        pytest.param(json.dumps(ERROR, indent=2).encode() + b"\r\n", id="bare"),
        pytest.param(json.dumps([ERROR], indent=2).encode(), id="bare-list"),
        pytest.param(b"data: " + json.dumps([ERROR]).encode() + b"\n\n", id="list-event"),
        pytest.param(b"data: " + json.dumps({"x": 1, **ERROR}).encode() + b"\n\n", id="not-first"),
    ],
)
@pytest.mark.parametrize("before", [b"", FIRST], ids=["at-once", "later"])
def test_an_error_inside_a_stream_is_raised(way: str, tail: bytes, before: bytes) -> None:
    with pytest.raises(GeminiAPIError, match="429 RESOURCE_EXHAUSTED: slow down") as raised:
        run(answering(before + tail), way)
    assert isinstance(raised.value, genai.errors.ClientError)


@pytest.mark.parametrize("way", ["send", "asend"])
@pytest.mark.parametrize("body", [ERROR, [ERROR]], ids=["object", "list"])
def test_an_error_with_status_200_is_an_error(way: str, body: Any) -> None:
    with pytest.raises(GeminiAPIError, match="429"):
        run(answering(json.dumps(body).encode()), way)


@every_way
@pytest.mark.parametrize(
    "body", [b"<html>\n<p>log in</p></html>", b'data: {"a": }\n\n', b"data: 7\n\n", b"\xff\xfe"]
)
def test_what_is_not_json_is_unreadable(way: str, body: bytes) -> None:
    with pytest.raises(UnreadableResponseError, match="not a JSON object") as raised:
        run(answering(body), way)
    assert ("This is a web page: check base_url" in str(raised.value)) is (b"html" in body)


@pytest.mark.parametrize("way", ["send", "asend"])
@pytest.mark.parametrize("body", [b"", b"[]", b'"text"', b'{"a": ', b"[" * 1_000 + b"]" * 1_000])
def test_a_whole_response_must_be_an_object(way: str, body: bytes) -> None:
    with pytest.raises(UnreadableResponseError):
        run(answering(body), way)


@streaming_way
def test_a_stream_that_ends_inside_an_event_is_truncated(way: str) -> None:
    with pytest.raises(TruncatedStreamError):
        run(answering(FIRST + b'data: {"a": "no e'), way)


@streaming_way
def test_a_list_of_responses_is_read_like_events(way: str) -> None:
    assert run(answering(b'[{"a": 1},\n{"a": 2}\n]'), way) == [{"a": 1}, {"a": 2}]
    assert run(answering(b""), way) == []


FAILURES = [
    (hx.ConnectError("refused"), GeminiConnectionError),
    (hx.RemoteProtocolError("gone"), GeminiConnectionError),
    (hx.ProxyError("407"), GeminiConnectionError),
    (OSError("no route"), GeminiConnectionError),
    (hx.ReadTimeout("slow"), GeminiTimeoutError),
    (hx.LocalProtocolError(f"Illegal header value b'{KEY}'"), InvalidOptionError),
]


@rotated(case={type(failure).__name__: (failure, error) for failure, error in FAILURES}, way=WAYS)
def test_connection_failures_become_errors_of_ours(
    way: str, case: tuple[Exception, type[Exception]]
) -> None:
    failure, error = case

    def answer(request: Any) -> Any:
        raise failure

    with pytest.raises(error) as raised:
        run(answering(answer), way)
    assert KEY not in "".join(traceback.format_exception(raised.value))


@every_way
def test_a_missing_key_names_the_environment_variables(way: str) -> None:
    with pytest.raises(GeminiAuthenticationError, match=r"GOOGLE_API_KEY.*GEMINI_API_KEY"):
        run(GeminiClient(ClientSettings()), way)


def test_a_key_may_come_later(monkeypatch: pytest.MonkeyPatch) -> None:
    client = answering(b"{}", api_key=None)
    with pytest.raises(GeminiAuthenticationError):
        run(client, "send")
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    assert run(client, "send") == {}


@rotated(
    case={
        "model": ({"api_key": SecretStr(KEY)}, "a?b"),
        "no-model": ({"api_key": SecretStr(KEY)}, ""),
        "base-url": ({"api_key": SecretStr(KEY), "base_url": "nonsense"}, "m"),
        "no-url": ({"api_key": SecretStr(KEY), "base_url": "http://["}, "m"),
        "project": ({"api_key": SecretStr(KEY), "project": "p"}, "m"),
        "key": ({"api_key": SecretStr("ключ-к-API")}, "m"),
        "args": ({"api_key": SecretStr(KEY), "client_args": {"foo": 1}}, "m"),
        "verify": ({"api_key": SecretStr(KEY), "client_args": {"verify": "/no/such"}}, "m"),
    },
    way=WAYS,
)
def test_invalid_settings_are_rejected(way: str, case: tuple[dict[str, Any], str]) -> None:
    settings, model = case
    with pytest.raises(InvalidOptionError) as raised:
        run(GeminiClient(ClientSettings(**settings)), way, model)
    assert KEY not in "".join(traceback.format_exception(raised.value))


@rotated(
    case={
        "certificates": ("SSL_CERT_FILE", "/no/such/file", "No such file"),
        "scheme": ("HTTPS_PROXY", "ftp://user:proxy-password@proxy.test", "Unknown scheme"),
        "password": ("HTTPS_PROXY", "http://user:proxy/password@proxy.test", "%2F and %40"),
    },
    way=WAYS,
)
def test_an_invalid_variable_of_the_environment_is_not_blamed_on_client_args(
    monkeypatch: pytest.MonkeyPatch, way: str, case: tuple[str, str, str]
) -> None:
    name, value, reason = case
    monkeypatch.setenv(name, value)
    with pytest.raises(InvalidOptionError, match=reason) as raised:
        run(GeminiClient(ClientSettings(api_key=SecretStr(KEY))), way)
    assert name in str(raised.value)
    assert "client_args" not in str(raised.value)
    assert "password@" not in "".join(traceback.format_exception(raised.value))


@rotated(
    place={
        "base_url": {"base_url": "http://127.0.0.1:99999"},
        "proxy": {"base_url": "http://x.test", "client_args": {"proxy": "http://127.0.0.1:99999"}},
    },
    way=WAYS,
)
def test_a_port_that_does_not_exist_is_rejected(way: str, place: dict[str, Any]) -> None:
    client = GeminiClient(ClientSettings(api_key=SecretStr(KEY), **place))
    with pytest.raises(InvalidOptionError, match=r"port 99999 does not exist\..*base_url.*proxy"):
        run(client, way)


def test_making_a_client_loads_nothing() -> None:
    program = """
import sys, copy
from pydantic import SecretStr
from langchain_gemini_tools.client import ClientSettings, GeminiClient
client = GeminiClient(ClientSettings(api_key=SecretStr("k")))
copy.deepcopy(client), repr(client), client.close()
loaded = {"google.genai", "google.auth", "httpx", "httpx2"} & set(sys.modules)
assert not loaded, loaded
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_loading_the_sdk_does_not_count_as_waiting_for_the_api() -> None:
    program = f"""
import importlib.abc, sys, time

clock, later = time.monotonic, [0]
time.monotonic = lambda: clock() + later[0]

class SlowDisk(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "google.genai":
            later[0] += 1000

import {hx.__name__} as library
from pydantic import SecretStr
from langchain_gemini_tools.client import ClientSettings, GeminiClient
sys.meta_path.insert(0, SlowDisk())
transport = library.MockTransport(lambda request: library.Response(200, content=b"{{}}"))
settings = ClientSettings(api_key=SecretStr("k"), client_args={{"transport": transport}})
print(GeminiClient(settings).send("gemini-3-flash", b"{{}}", timeout_seconds=100.0))
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "{}\n", done.stderr


@pytest.mark.skipif(
    not genai.types.Content.model_config.get("defer_build"), reason="this SDK builds them at import"
)
def test_opening_the_sdk_has_pydantic_build_no_class_for_contents() -> None:
    program = """
from pydantic import SecretStr
from langchain_gemini_tools.client import ClientSettings, GeminiClient
assert not GeminiClient(ClientSettings(api_key=SecretStr("k"))).uses_vertexai  # opened
from google.genai import types
built = [cls for cls in (types.GenerateContentConfig, types.Content, types.Part)
         if cls.__pydantic_complete__]
assert not built, built
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_repr_shows_no_secret() -> None:
    settings = ClientSettings(
        api_key=SecretStr(KEY),
        headers={"authorization": "Bearer secret-header"},
        client_args={"proxy": "http://user:secret-proxy@h"},
    )
    shown = repr(GeminiClient(settings)) + repr(settings)
    assert KEY not in shown
    assert "secret-" not in shown


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy], ids=["copy", "deepcopy"])
def test_a_copy_has_a_share_of_its_own(copied: Callable[[GeminiClient], GeminiClient]) -> None:
    client = GeminiClient(ClientSettings(api_key=SecretStr(KEY), headers={"a": "b"}))
    opened = client.sdk
    twin = copied(client)
    assert twin.settings == client.settings
    assert twin is not client
    assert twin.sdk is client.sdk is opened


def test_a_client_is_not_pickled_because_it_has_a_key() -> None:
    client = GeminiClient(ClientSettings(api_key=SecretStr(KEY)))
    for held in (client, client.settings):
        with pytest.raises(pickle.PicklingError, match="credentials"):
            pickle.dumps(held)


def test_many_threads_build_one_client(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[Any] = []

    class CountingClient(genai.Client):
        def __init__(self, **options: Any) -> None:
            built.append(self)
            super().__init__(**options)

    monkeypatch.setattr(genai, "Client", CountingClient)
    client, barrier, results = answering(b"{}"), threading.Barrier(16), []

    def work() -> None:
        barrier.wait()
        results.append(run(client, "send"))

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(built), results) == (1, [{}] * 16)


def test_a_child_process_starts_fresh() -> None:
    program = f"""
import os, threading
from google import genai
from pydantic import SecretStr
from langchain_gemini_tools.client import ClientSettings, GeminiClient

parent, is_opening, may_go_on = os.getpid(), threading.Event(), threading.Event()
opened, opening = (
    GeminiClient(ClientSettings(api_key=SecretStr("{KEY}"), headers={{"x-number": number}}))
    for number in "12"
)
of_parent = opened.sdk

class SlowClient(genai.Client):
    def __init__(self, **options):
        if os.getpid() == parent:
            is_opening.set()
            may_go_on.wait()
        super().__init__(**options)

genai.Client = SlowClient
thread = threading.Thread(target=lambda: opening.sdk)
thread.start()
is_opening.wait()  # this thread holds a lock at the moment of the fork
if (pid := os.fork()) == 0:
    os._exit(1 if opened.sdk is of_parent or opening.uses_vertexai else 0)
assert os.waitpid(pid, 0)[1] == 0
assert opened.sdk is of_parent
may_go_on.set()
thread.join()
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=60)


@every_way
def test_a_client_can_be_closed_twice_and_used_again(way: str) -> None:
    client = answering(b"{}")
    client.close()
    assert run(client, way) in ({}, [{}])
    client.close()
    client.close()
    asyncio.run(client.aclose())
    asyncio.run(client.aclose())
    assert run(client, way) in ({}, [{}])


@every_way
def test_an_sdk_that_sends_nothing_is_noticed(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer_at_once(self: Any, **_: Any) -> Any:
        return iter(())

    async def aanswer_at_once(self: Any, **_: Any) -> Any:
        async def nothing() -> Any:
            for item in []:  # type: ignore[var-annotated]
                yield item

        return nothing()

    for method in ("generate_content", "generate_content_stream"):
        monkeypatch.setattr(genai.models.Models, method, answer_at_once)
        monkeypatch.setattr(genai.models.AsyncModels, method, aanswer_at_once)
    with pytest.raises(GeminiToolsError, match=r"google-genai .* did not send the request"):
        run(answering(b"{}"), way)


def test_a_request_sent_twice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    once = genai.models.Models.generate_content

    def twice(self: Any, **options: Any) -> Any:
        once(self, **options)
        return once(self, **options)

    monkeypatch.setattr(genai.models.Models, "generate_content", twice)
    with pytest.raises(GeminiToolsError, match="twice"):
        run(answering(b"{}"), "send")


def test_an_address_without_tls_loads_no_certificates_and_trusts_no_server() -> None:
    context = HttpPool({}, {}, "HTTP://localhost:8080").tls_context
    assert context.cert_store_stats() == {"x509": 0, "crl": 0, "x509_ca": 0}
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname


@pytest.mark.parametrize(
    ("args", "base_url"),
    [
        pytest.param({}, None, id="the API's own address"),
        pytest.param({}, "https://localhost:8080", id="https"),
        pytest.param({}, "localhost:8080", id="no scheme"),
        pytest.param({"event_hooks": {}}, "http://localhost", id="hooks may send elsewhere"),
    ],
)
def test_certificates_are_loaded_once_for_every_other_address(args: Any, base_url: Any) -> None:
    assert HttpPool({}, args, base_url).tls_context is HttpPool({}, {}).tls_context


def test_a_pool_that_outlives_its_module_closes_silently() -> None:
    """At its end the interpreter empties modules, and collects what they held after that."""
    program = """
from langchain_gemini_tools.client import pool
kept = pool.HttpPool({}, {})
kept.sync_client()
for name in [name for name in vars(pool) if not name.startswith("__")]:
    setattr(pool, name, None)
del kept
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
