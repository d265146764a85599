"""The key is in the request's header and nowhere else; so are tokens and headers of the user's own.

Each way of calling meets servers that quote what they were sent. Everything that a program could
print, log, store or send on is searched afterwards.
"""

from __future__ import annotations

import asyncio
import copy
import importlib
import json
import logging
import pickle
import re
import socket
import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
import requests
from google.auth.credentials import Credentials as BaseCredentials
from google.auth.exceptions import RefreshError, TransportError
from google.genai import types
from google.oauth2.credentials import Credentials
from langchain.agents import create_agent
from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.load import dumps
from langchain_core.messages import HumanMessage
from langchain_core.tracers.base import BaseTracer
from pydantic import SecretStr, ValidationError
from rich.traceback import Traceback

from langchain_gemini_tools import ChatGemini, errors, run_in_batches
from langchain_gemini_tools.testing import cassette
from langchain_gemini_tools.testing.fake import ACCESS_TOKEN, API_KEY, faults
from tests.integration_tests.invoking import QUESTION, ask, raw
from tests.rotation import LIBRARIES, WAYS, rotated

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from langchain_core.tracers.schemas import Run

    from langchain_gemini_tools.testing.fake import Emulator
    from langchain_gemini_tools.testing.fake.script import Fault
    from tests.conftest import MakeModel

httpx = importlib.import_module(LIBRARIES[0])

pytestmark = pytest.mark.usefixtures("no_pauses")

BASIC = "dXNlcjpwYXNz/d29yZA=="
GATEWAY = "gateway-secret-1"
TENANT = "blue/tenant+secret==7"


@dataclass(frozen=True)
class Caller:
    """Who is calling: settings of the model, and where its secrets may be."""

    settings: dict[str, Any]
    headers: dict[str, str]
    """What is sent, and nowhere else."""
    secrets: list[str]
    options: dict[str, Any] = field(default_factory=dict)
    """What is bound to the model."""


CALLERS = {
    "developer": Caller({}, {"x-goog-api-key": API_KEY}, [API_KEY]),
    "vertex": Caller(
        {
            "api_key": None,
            "vertexai": True,
            "project": "p",
            "location": "l",
            "credentials": Credentials(ACCESS_TOKEN),  # type: ignore[no-untyped-call]
        },
        {"authorization": f"Bearer {ACCESS_TOKEN}"},
        [ACCESS_TOKEN],
    ),
    "gateway": Caller(
        {
            "additional_headers": {"Authorization": f"Basic {BASIC}"},
            "default_metadata": [("X-Gateway-Token", GATEWAY)],
        },
        {
            "x-goog-api-key": API_KEY,
            "authorization": f"Basic {BASIC}",
            "x-gateway-token": GATEWAY,
        },
        [API_KEY, BASIC, GATEWAY],
    ),
    "tenant": Caller(
        {"additional_headers": {"X-Tenant": "replaced by the call"}},
        {"x-goog-api-key": API_KEY, "x-tenant": TENANT, "authorization": f"Basic {BASIC}"},
        [API_KEY, TENANT, BASIC],
        {"additional_headers": {"x-tenant": TENANT, "Authorization": f"Basic {BASIC}"}},
    ),
}
every_caller = pytest.mark.parametrize("caller", CALLERS.values(), ids=CALLERS)


def _as_google_escapes(text: str) -> bytes:
    """JSON with the signs of HTML as escapes, and slashes too: all of it is legal."""
    body = json.dumps({"error": {"code": 400, "message": text}})
    return body.replace("=", "\\u003d").replace("'", "\\u0027").replace("/", "\\/").encode()


def _as_nobody_has_to_escape(text: str) -> str:
    return "".join(f"\\u{ord(char):04X}" for char in text)


def _candidate(**fields: Any) -> Fault:
    return raw(200, {"candidates": [{"finishReason": "STOP", **fields}]})


def _quoted(secret: str) -> dict[str, Fault]:
    """Servers that repeat a secret, and some that only fail."""
    words = f"You sent '{secret}'."
    return {
        "403": faults.http_error(403, words),
        "details": faults.http_error(400, "No.", details=[{"@type": "x", "metadata": words}]),
        "header": raw(500, {}, x_echo=words, location=f"https://x/?key={secret}"),
        "escaped": raw(400, _as_google_escapes(words)),
        "escaped-throughout": raw(400, f'{{"error": "{_as_nobody_has_to_escape(words)}"}}'),
        "escaped-twice": raw(400, {"error": {"message": _as_nobody_has_to_escape(words)}}),
        "escaped-page": raw(502, f"<p>{_as_nobody_has_to_escape(words)}"),
        "content-type": raw(200, "no", content_type=f"text/{secret}"),
        "page": raw(502, f"<html><p>{words}</html>"),
        "page-with-200": raw(200, f"<html><p>{words}</html>"),
        "page-cut-inside-it": raw(200, "." * (200 - len(secret) // 2) + secret),
        "secrets-all-through": raw(200, secret * (2_000_000 // max(len(secret), 1))),
        "secrets-all-through-an-error": raw(500, secret * (2_000_000 // max(len(secret), 1))),
        "deep": raw(400, f'{{"error": "{secret}", "a": {"[" * 900 + "]" * 900}}}'),
        "blocked": raw(200, {"promptFeedback": {"blockReason": "X", "blockReasonMessage": words}}),
        "withheld": _candidate(finishReason="OTHER", finishMessage=words),
        "malformed": _candidate(finishReason="MALFORMED_FUNCTION_CALL", finishMessage=words),
        "empty": _candidate(finishMessage=words),
        "no-candidates": raw(200, {"candidates": [words]}),
        "no-parts": _candidate(content={"parts": words}),
        "no-part": _candidate(content={"parts": [words]}),
        "no-call": _candidate(content={"parts": [{"functionCall": words}]}),
        "no-arguments": _candidate(
            content={"parts": [{"functionCall": {"name": "f", "partialArgs": words}}]}
        ),
        "error-with-200": raw(200, {"error": {"code": 503, "message": words}}),
        "inside-a-stream": faults.error_in_stream("tail", message=words),
        "cut": faults.cut_connection(),
        "silence": faults.slow_first_byte(30),
    }


class Everything(BaseCallbackHandler):
    """Keeps everything that callbacks receive."""

    def __init__(self) -> None:
        self.received: list[Any] = []

    def _keep(self, *args: Any, **kwargs: Any) -> None:
        self.received.append((args, kwargs))

    on_chat_model_start = on_llm_new_token = on_llm_end = on_llm_error = on_retry = _keep
    on_chain_start = on_chain_end = on_chain_error = on_custom_event = _keep


@dataclass
class Runs(BaseTracer):
    """Keeps what LangSmith would be sent."""

    runs: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def _persist_run(self, run: Run) -> None:
        self.runs.append(run.model_dump())


def shown(error: BaseException) -> Iterator[str]:
    """All that an error, its causes and its frames have to show."""
    yield "".join(traceback.format_exception(error))
    frames = error.__traceback__
    while frames and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next  # this file knows the secrets
    trace = Traceback.extract(
        type(error),
        error,
        frames,
        show_locals=True,
        locals_max_length=1000,
        locals_max_string=1000,
        locals_hide_dunder=False,
        locals_hide_sunder=False,
    )
    for stack in trace.stacks:
        for frame in stack.frames:
            yield from (f"{name} = {node}" for name, node in (frame.locals or {}).items())
    links = [error]
    for link in links:
        yield f"{link} {link!r} {link.args} {getattr(link, '__notes__', [])} {vars(link)}"
        if response := getattr(link, "response", None):
            yield f"{response.headers.raw} {response.text} {vars(response)}"
        if request := getattr(link, "_request", None):  # pickles of causes contain it
            yield f"{request.headers.raw} {request.url!s}"
        # What is suppressed is there all the same: some loggers go through everything.
        others = [each for each in (link.__cause__, link.__context__) if each is not None]
        links += [each for each in others if each not in links]


def search(caller: Caller, *found: object) -> None:
    """Fail on the first secret, with the words around it."""
    for text in map(str, found):
        for secret in caller.secrets:
            # Halves count: a text may have been cut in the middle of one.
            half = secret[: max(len(secret) // 2 - 1, 5)]
            place = text.find(half)
            assert place < 0, f"{secret!r} is in: …{text[max(place - 300, 0) : place + 60]}…"


@every_caller
@rotated(way=WAYS)
async def test_a_secret_is_sent_in_its_header_and_nowhere_else(
    *,
    emulator: Emulator,
    make_model: MakeModel,
    caplog: pytest.LogCaptureFixture,
    library: str,
    caller: Caller,
    way: str,
) -> None:
    caplog.set_level(logging.DEBUG)
    handler, runs = Everything(), Runs()
    emulator.stored_credentials |= set(caller.secrets)
    chat = make_model(max_retries=2, **caller.settings)
    emulator.reply(fault=faults.overloaded())
    emulator.reply("Sunny.")
    bound = chat.bind(**caller.options)
    answer = await ask(bound.with_config(callbacks=[handler, runs]), way)
    for request in emulator.requests:
        sent = dict(request.headers)
        assert caller.headers.items() <= sent.items()
        left = {name: value for name, value in sent.items() if name not in caller.headers}
        search(caller, request.path, request.query, left, request.raw)
    records = {record.name.partition(".")[0] for record in caplog.records}
    assert {"langchain_gemini_tools", library} <= records  # they were listened to
    assert handler.received
    assert runs.runs
    search(
        caller,
        repr(chat),
        str(chat),
        chat,
        dumps(chat),
        dumps(chat.bind_tools([], **caller.options)),
        repr(bound),
        dumps(bound),
        pickle.dumps(bound),
        bound.preview(QUESTION).invocation,
        chat.model_dump(),
        chat.model_dump_json(),
        chat._identifying_params,
        chat._get_ls_params(),
        chat.client,
        chat.preview(QUESTION),
        answer.model_dump(),
        caplog.text,
        [vars(record) for record in caplog.records],
        handler.received,
        runs.runs,
    )


@every_caller
@rotated(name=list(_quoted("")), way=WAYS)
async def test_a_failure_shows_no_secret_anywhere(
    *,
    emulator: Emulator,
    make_model: MakeModel,
    caplog: pytest.LogCaptureFixture,
    caller: Caller,
    name: str,
    way: str,
) -> None:
    caplog.set_level(logging.DEBUG)
    handler, runs = Everything(), Runs()
    chat = make_model(max_retries=1, timeout=0.2, **caller.settings)
    for secret in caller.secrets:
        fault = _quoted(secret)[name]
        emulator.reply("Sunny in Oslo.", fault=fault)
        emulator.reply("Sunny in Oslo.", fault=fault)
        with pytest.raises(errors.GeminiToolsError) as raised:
            await ask(chat.bind(**caller.options).with_config(callbacks=[handler, runs]), way)
        search(caller, *shown(raised.value), pickle.dumps(raised.value))
        search(caller, *shown(pickle.loads(pickle.dumps(raised.value))))
        emulator.forget_replies()
    # What a server writes into its headers, httpcore repeats at DEBUG.
    is_header = name in {"header", "content-type"}
    logged = [r for r in caplog.records if not (is_header and r.name.startswith("httpcore"))]
    search(caller, [record.getMessage() for record in logged], handler.received, runs.runs)


@rotated(way=WAYS)
async def test_a_cookie_of_a_server_is_in_no_error_and_no_trace(
    *, emulator: Emulator, make_model: MakeModel, library: str, way: str
) -> None:
    """LangChain traces the headers of a failed response."""
    cookie = "of-this-session-only"  # no credential of another test, which would be redacted
    emulator.reply(fault=raw(403, {"error": {"message": "No."}}, **{"set-cookie": f"s={cookie}"}))
    traced = Runs()
    with pytest.raises(errors.GeminiPermissionError) as raised:
        await ask(make_model(), way, config={"callbacks": [traced]})
    assert "'status_code': 403" in str(traced.runs)
    search(Caller({}, {}, [cookie]), traced.runs, *shown(raised.value))


@every_caller
@pytest.mark.parametrize("way", ["ainvoke", "astream"])
async def test_a_call_that_is_given_up_shows_no_secret(
    emulator: Emulator, make_model: MakeModel, caller: Caller, way: str
) -> None:
    """A limit of the user's own cancels the call, and its TimeoutError shows where it was."""
    emulator.reply("Sunny.", fault=faults.slow_first_byte(30))
    chat = make_model(**caller.settings)
    await asyncio.to_thread(lambda: chat.client)  # loads the SDK
    with pytest.raises(TimeoutError) as raised:
        await asyncio.wait_for(ask(chat.bind(**caller.options), way), 0.3)
    assert len(emulator.requests) == 1
    search(caller, *shown(raised.value))


@every_caller
@pytest.mark.parametrize("way", WAYS)
async def test_an_unexpected_failure_shows_no_secret(
    make_model: MakeModel, caller: Caller, way: str
) -> None:
    """Such as one of the user's own transport. Where it was raised is kept as text."""

    def fail(request: Any) -> Any:
        raise RuntimeError("Who?")

    of_both = {"transport": httpx.MockTransport(fail)}
    chat = make_model(client_args=of_both, async_client_args=of_both, **caller.settings)
    with pytest.raises(RuntimeError, match="Who") as raised:
        await ask(chat.bind(**caller.options), way)
    search(caller, *shown(raised.value))
    assert "in fail" in "".join(traceback.format_exception(raised.value))


@every_caller
def test_a_call_that_is_interrupted_shows_no_secret(make_model: MakeModel, caller: Caller) -> None:

    def interrupt(request: Any) -> Any:
        raise KeyboardInterrupt

    chat = make_model(client_args={"transport": httpx.MockTransport(interrupt)}, **caller.settings)
    with pytest.raises(KeyboardInterrupt) as raised:
        chat.bind(**caller.options).invoke(QUESTION)
    search(caller, *shown(raised.value))


async def test_a_password_of_a_proxy_is_not_shown(
    make_model: MakeModel, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    caller = Caller({}, {}, ["proxy-password", API_KEY])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    args = {"proxy": f"http://user:proxy-password@127.0.0.1:{port}"}
    chat = make_model(base_url="https://gemini.invalid", client_args=args)
    for way in WAYS:
        with pytest.raises(errors.GeminiConnectionError) as raised:
            await ask(chat, way)
        search(caller, *shown(raised.value), pickle.dumps(raised.value), caplog.text)
    search(caller, repr(chat), dumps(chat), chat.model_dump())


@pytest.mark.parametrize(
    "proxy",
    ["http://[::1", f"http://user:{GATEWAY}/x@127.0.0.1", f"http://user:{GATEWAY}@127.0.0.1:x"],
    ids=["no address", "a slash in the password", "no port"],
)
async def test_an_address_of_a_proxy_that_is_not_valid_is_rejected(
    emulator: Emulator, make_model: MakeModel, proxy: str
) -> None:
    chat = make_model(client_args={"proxy": proxy})
    for way in WAYS:
        with pytest.raises(errors.InvalidOptionError, match=r"client_args.* proxy") as raised:
            await ask(chat, way)
        search(Caller({}, {}, [GATEWAY]), *shown(raised.value), pickle.dumps(raised.value))
    emulator.fail(400, f"Who is {API_KEY}?")  # other models are not affected
    with pytest.raises(errors.GeminiInvalidRequestError, match="redacted"):
        make_model().invoke(QUESTION)


@rotated(way=WAYS)
async def test_an_error_of_a_hook_shows_no_secret(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    """The error of `raise_for_status` has the response, and that the request with its headers."""

    def check(response: Any) -> None:
        response.read()
        response.raise_for_status()

    async def acheck(response: Any) -> None:
        await response.aread()
        response.raise_for_status()

    chat = make_model(
        max_retries=0,
        client_args={"event_hooks": {"response": [check]}},
        async_client_args={"event_hooks": {"response": [acheck]}},
    )
    emulator.fail(400, f"Who is {API_KEY}?")
    with pytest.raises(errors.GeminiConnectionError, match="400") as raised:
        await ask(chat, way)
    cause: Any = raised.value.__cause__
    assert "Who is" in cause.response.text
    search(CALLERS["developer"], *shown(raised.value), dict(cause.response.request.headers))


@pytest.mark.parametrize(
    "given",
    [
        {"headers": {"X-Gateway": GATEWAY}},
        {"headers": [("X-Gateway", GATEWAY)]},
        {"cookies": {"session": GATEWAY}},
        {"auth": ("user", GATEWAY)},
        {"auth": httpx.BasicAuth("user", GATEWAY)},
        {"auth": httpx.DigestAuth("user", GATEWAY)},
    ],
    ids=["headers", "list of headers", "cookies", "auth", "basic", "digest"],
)
@rotated(way=WAYS)
async def test_credentials_in_client_args_are_not_shown(
    emulator: Emulator, make_model: MakeModel, given: dict[str, Any], way: str
) -> None:
    chat = make_model(client_args=given, max_retries=0)
    emulator.reply(fault=faults.http_error(400, f"Who is {GATEWAY}?"))
    emulator.reply("Sunny.", fault=faults.cut_before_headers())
    for _ in range(2):
        with pytest.raises(errors.GeminiAPIError) as raised:
            await ask(chat, way)
        search(Caller({}, {}, [GATEWAY]), *shown(raised.value), pickle.dumps(raised.value))


def test_a_token_that_cannot_be_refreshed_shows_no_secret(make_model: MakeModel) -> None:
    """google.auth chains an error of requests, which has the body that was sent."""

    class Unrefreshable(BaseCredentials):
        def refresh(self, request: object) -> None:
            sent = requests.Request("POST", "https://example.com", data={"refresh_token": GATEWAY})
            error = requests.ConnectionError("No.", request=sent.prepare())
            raise TransportError(error) from error  # type: ignore[no-untyped-call]

    credentials = Unrefreshable()  # type: ignore[no-untyped-call]
    settings = {"api_key": None, "vertexai": True, "project": "p", "location": "l"}
    with pytest.raises(errors.GeminiConnectionError, match="could not be refreshed") as raised:
        make_model(max_retries=0, credentials=credentials, **settings).invoke(QUESTION)
    links = [raised.value, raised.value.__cause__]
    search(Caller({}, {}, [GATEWAY]), *shown(raised.value), *map(pickle.dumps, links))


@pytest.mark.parametrize("name", ["refresh_token", "client_secret", "id_token"])
def test_a_token_endpoint_that_quotes_a_credential_shows_none(
    make_model: MakeModel, name: str
) -> None:
    """google.auth puts the body of the endpoint's error into its own."""

    class Refused(BaseCredentials):
        def refresh(self, request: object) -> None:
            body = f"{name}={getattr(self, name)} is not valid"
            raise RefreshError(f"invalid_grant: {body}", body)  # type: ignore[no-untyped-call]

    credentials = Refused()  # type: ignore[no-untyped-call]
    setattr(credentials, name, GATEWAY)
    settings = {"api_key": None, "vertexai": True, "project": "p", "location": "l"}
    with pytest.raises(errors.GeminiAuthenticationError, match="is not valid") as raised:
        make_model(max_retries=0, credentials=credentials, **settings).invoke(QUESTION)
    search(Caller({}, {}, [GATEWAY]), *shown(raised.value), pickle.dumps(raised.value))


def test_a_query_in_client_args_is_rejected(make_model: MakeModel) -> None:
    """It would replace the one of a stream, and be shown in logs."""
    for name in ("client_args", "async_client_args"):
        chat = make_model(**{name: {"params": {"key": GATEWAY}}})
        with pytest.raises(errors.InvalidOptionError, match="must not have params") as raised:
            chat.invoke(QUESTION)
        search(Caller({}, {}, [GATEWAY]), *shown(raised.value))


MY_KEY = "a-key-of-my-own"
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no-model": ({"model": ...}, "model\n  Field required"),
    "unknown": ({"fooo": 1}, "has no option 'fooo'"),
    "misspelt": ({"api_kye": MY_KEY}, "Did you mean 'api_key'"),
    "twice": ({"google_api_key": "another"}, "are names of the same option"),
    "odd-key": ({"api_key": "\u201c" + MY_KEY}, "character 1 of 16"),
    "no-key": ({"api_key": [MY_KEY]}, "google_api_key\n  Input should be a valid string"),
    "address": (
        {"base_url": f"https://me:{MY_KEY}@gateway.example"},
        "base_url must not contain a user",
    ),
    "headers": ({"additional_headers": {"Authorization": [MY_KEY]}}, "valid string"),
    "metadata": ({"default_metadata": [("x-token", MY_KEY, 1)]}, "default_metadata"),
    "client-args": ({"client_args": [("proxy", f"http://me:{MY_KEY}@x")]}, "valid dictionary"),
    "model-kwargs": (
        {"model_kwargs": {"api_key": MY_KEY}},
        "'api_key' can only be set on the model",
    ),
    "limit": ({"temperature": 7}, "less than or equal to 2"),
}


@pytest.mark.parametrize(("given", "words"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("make", [ChatGemini, lambda **given: ChatGemini.model_validate(given)])
def test_a_rejected_argument_is_reported_without_the_key_next_to_it(
    make: Any, given: dict[str, Any], words: str
) -> None:
    settings = {"model": "gemini-3.8-flash", "api_key": MY_KEY, **given}
    settings = {name: value for name, value in settings.items() if value is not ...}
    with pytest.raises(ValidationError, match=re.escape(words)) as raised:
        make(**settings)
    error = raised.value
    received = (error.errors(), error.json(), pickle.dumps(error.errors()))
    search(Caller({}, {}, [MY_KEY]), *received, error.args, error.__cause__, error.__context__)
    if make is ChatGemini:
        search(Caller({}, {}, [MY_KEY]), *shown(error))


def test_a_rejected_number_is_shown() -> None:
    with pytest.raises(ValidationError) as raised:
        ChatGemini(model="gemini-3.8-flash", temperature=7)
    (received,) = raised.value.errors()
    assert (received["type"], received["loc"], received["input"]) == (
        "less_than_equal",
        ("temperature",),
        7,
    )
    assert received["ctx"] == {"le": 2.0}


ODD = {
    "zero-width-space": ("\u200b", "U+200B, ZERO WIDTH SPACE"),
    "letter": ("é", "U+00E9, LATIN SMALL LETTER E WITH ACUTE"),
    "nul": ("\x00", "U+0000, a control character"),
    "line-break": ("\n", "U+000A, a control character"),
    "half": ("\ud800", "U+D800, a control character"),
}


@pytest.mark.parametrize(("odd", "named"), ODD.values(), ids=ODD)
@pytest.mark.parametrize("place", [8, len(API_KEY) - 1], ids=["middle", "end"])
async def test_a_key_with_an_invalid_character_is_rejected_with_its_position(
    emulator: Emulator, make_model: MakeModel, odd: str, named: str, place: int
) -> None:
    key = API_KEY[:place] + odd + API_KEY[place:]
    received = rf"character {place + 1} of {len(key)} is {re.escape(named)}, which cannot be sent"
    with pytest.raises(ValidationError, match=rf"google_api_key\n.*{received}") as refused:
        make_model(api_key=key)
    search(CALLERS["developer"], refused.value, repr(refused.value))
    chat = make_model().model_copy(update={"api_key": key})  # as from the environment, unchecked
    for way in WAYS:
        with pytest.raises(
            errors.InvalidOptionError, match=f"google_api_key .*{received}"
        ) as raised:
            await ask(chat, way)
        search(CALLERS["developer"], *shown(raised.value), pickle.dumps(raised.value))
    assert emulator.requests == []


@pytest.mark.parametrize("odd", ["\u200b", "é", "\nx"])
async def test_a_key_of_the_environment_with_an_invalid_character_is_rejected(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch, odd: str
) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", API_KEY + odd)
    chat = ChatGemini(model="gemini-3.8-flash", base_url=emulator.url)
    for way in WAYS:
        with pytest.raises(errors.InvalidOptionError, match="GOOGLE_API_KEY") as raised:
            await ask(chat, way)
        search(CALLERS["developer"], *shown(raised.value), pickle.dumps(raised.value))
    assert emulator.requests == []


BAD_HEADERS = {
    "a character that cannot be sent": ("X-Gateway-Token", f"{GATEWAY}\u200b", "U\\+200B"),
    "a new line": ("X-Gateway-Token", f"{GATEWAY}\r\nHost: evil.example", "U\\+000D"),
    "the host": ("Host", "evil.example", "is set for each request"),
    "the length": ("content-length", "7", "is set for each request"),
    "the encoding of the body": ("Transfer-Encoding", "chunked", "is set for each request"),
    "the type of the body": ("Content-Type", "text/plain", "is set for each request"),
    "a name with a space": ("X Gateway", GATEWAY, "not a valid name"),
    "a name with a colon": (":authority", GATEWAY, "not a valid name"),
    "no name": ("", GATEWAY, "not a valid name"),
}


@rotated(bad=BAD_HEADERS, way=WAYS)
async def test_a_header_that_cannot_be_sent_is_rejected_with_its_name(
    bad: tuple[str, str, str], way: str, emulator: Emulator, make_model: MakeModel
) -> None:
    name, value, reason = bad
    given: dict[str, Any] = {"additional_headers": {"X-Other": GATEWAY, name: value}}
    with pytest.raises(ValidationError, match=f"{re.escape(name)}.*{reason}") as of_the_model:
        make_model(**given)
    with pytest.raises(errors.InvalidOptionError, match=f"{re.escape(name)}.*{reason}") as of_bind:
        make_model().bind(**given)
    with pytest.raises(errors.InvalidOptionError, match=f"{re.escape(name)}.*{reason}") as of_call:
        await ask(make_model(), way, **given)
    for raised in (of_the_model, of_bind, of_call):
        search(Caller({}, {}, [GATEWAY]), str(raised.value), repr(raised.value))
        search(Caller({}, {}, [GATEWAY]), "".join(traceback.format_exception(raised.value)))
    assert emulator.requests == []


def test_headers_that_were_bound_before_pickling_are_missed(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", API_KEY)
    chat = ChatGemini(model="gemini-3.8-flash", base_url=emulator.url)
    twin = pickle.loads(pickle.dumps(chat.bind(additional_headers={"X-Tenant": TENANT})))
    with pytest.raises(
        errors.GeminiAuthenticationError, match=r"headers X-Tenant.*Bind them again"
    ):
        twin.invoke(QUESTION)
    assert emulator.requests == []
    twin.bind(additional_headers={"X-Tenant": TENANT}).invoke(QUESTION)
    assert emulator.last.headers["x-tenant"] == TENANT


@rotated(way=WAYS)
async def test_headers_of_a_call_are_sent_with_it_alone(
    way: str, library: str, emulator: Emulator, make_model: MakeModel
) -> None:
    chat = make_model(additional_headers={"X-Team": "blue", "X-Tenant": "nobody"})
    handler, runs = Everything(), Runs()
    chat_with_callbacks = chat.with_config(callbacks=[handler, runs])
    await ask(chat, way)
    await ask(chat_with_callbacks, way, additional_headers={"x-tenant": TENANT, "X-Role": "admin"})
    http = {"headers": {"X-Tenant": BASIC}, "timeout": 30_000}
    await ask(chat_with_callbacks, way, http_options=http)
    await ask(chat, way)
    names = ("x-team", "x-tenant", "x-role")
    assert [[each.headers.get(name) for name in names] for each in emulator.requests] == [
        ["blue", "nobody", None],
        ["blue", TENANT, "admin"],
        ["blue", BASIC, None],
        ["blue", "nobody", None],
    ]
    search(Caller({}, {}, [TENANT, BASIC]), handler.received, runs.runs)
    shown_options = [run["extra"]["invocation_params"]["additional_headers"] for run in runs.runs]
    assert shown_options == [
        {"x-tenant": "[redacted]", "X-Role": "[redacted]"},
        {"X-Tenant": "[redacted]"},
    ]


SERVER = {"url": "https://w.example/mcp", "headers": {"X-Weather": TENANT}}
TYPED = {"type": "mcp_server", "name": "w", **SERVER}
LISTED = {"mcp_servers": [{"name": "w", "streamable_http_transport": SERVER}]}
PRIVATE_TOOLS = {
    f"{kind} {api}": (api, tool)
    for api in ("interactions", "generate_content")
    for kind, tool in (("typed", TYPED), ("listed", LISTED))
}


class Printer(BaseCallbackHandler):
    """Keeps what callbacks are given, as text."""

    def __init__(self) -> None:
        self.seen = ""

    def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
        self.seen += f"{args!r}{kwargs!r}"


@rotated(case=PRIVATE_TOOLS, way=WAYS)
async def test_headers_of_an_mcp_server_are_sent_and_nowhere_else(
    case: tuple[str, dict[str, Any]],
    way: str,
    make_model: MakeModel,
    emulator: Emulator,
    tmp_path: Path,
) -> None:
    printer = Printer()
    api, tool = case
    model = make_model(api=api, callbacks=[printer])
    bound: Any = model.bind_tools([tool])
    for _ in range(2):  # recorded, then replayed
        with cassette(tmp_path / "mcp.yaml", record_mode="once"):
            await ask(bound, way)
            await ask(model, way, tools=[tool])
    assert [TENANT in request.raw.decode() for request in emulator.requests] == [True, True]
    emulator.fail(400, message=f"bad header {TENANT}")
    with pytest.raises(errors.GeminiInvalidRequestError) as failure:
        await ask(bound, way)
    texts = [
        *(repr(bound), repr(bound.kwargs), dumps(bound), str(pickle.dumps(bound))),
        *(repr(bound.preview("Hi")), *shown(failure.value), printer.seen),
        (tmp_path / "mcp.yaml").read_text(),
    ]
    assert [text for text in texts if TENANT in text] == []
    with pytest.raises(errors.InvalidToolError, match="X-Weather in a built-in tool are missing"):
        pickle.loads(pickle.dumps(bound)).invoke("Hi")
    with pytest.raises(errors.InvalidToolError, match="Bind the tool again"):
        model.bind_tools([bound.kwargs["tools"][0].to_dict()]).invoke("Hi")
    other = json.loads(json.dumps(tool).replace("blue", "red"))
    assert bound.kwargs["tools"] != model.bind_tools([other]).kwargs["tools"]


@pytest.mark.parametrize("options", [{"tools": None}, {"tools": None, "tool_choice": "auto"}])
def test_bind_hides_the_credentials_of_its_tools(
    make_model: MakeModel, emulator: Emulator, options: dict[str, Any]
) -> None:
    tool = {"google_maps": {"auth_config": {"api_key": TENANT}}}
    bound = make_model().bind(**{**options, "tools": [tool]})
    again = make_model().bind(temperature=0.5).bind(tools=[tool])
    for each in (bound, again):
        texts = [repr(each), repr(each.kwargs), dumps(each), str(pickle.dumps(each))]
        assert [text for text in texts if TENANT in text] == []
        each.invoke(QUESTION)
        assert emulator.last.body["tools"] == [{"googleMaps": {"authConfig": {"apiKey": TENANT}}}]


def test_headers_of_an_mcp_server_are_not_stored_in_batches_and_caches(
    make_model: MakeModel, emulator: Emulator, tmp_path: Path
) -> None:
    model = make_model()
    with pytest.raises(errors.InvalidToolError, match=r"X-Weather may be a credential.* a batch"):
        model.bind_tools([LISTED]).batch_job(["Hi"], path=tmp_path / "job")
    with pytest.raises(errors.InvalidToolError, match=r"X-Weather may be a.* a context cache"):
        model.with_context_cache(system="x " * 5000, tools=[LISTED])
    agent = create_agent(model, [LISTED])
    for result in run_in_batches(agent, [{"messages": "Hi"}], path=tmp_path / "run"):
        assert isinstance(result, errors.InvalidToolError)
    stored = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert stored
    assert not any(TENANT.encode() in content for content in stored)
    assert emulator.requests == []


@pytest.mark.parametrize("tool", [TYPED, LISTED], ids=["typed", "listed"])
def test_headers_of_an_mcp_server_in_extra_body_are_rejected(
    make_model: MakeModel, emulator: Emulator, tool: dict[str, Any]
) -> None:
    """Everything that shows the options of a model or a call shows `extra_body`."""
    body = {"tools": [tool]}
    options: dict[str, Any]
    for options in ({"extra_body": body}, {"model_kwargs": {"extra_body": body}}):
        with pytest.raises(
            ValidationError, match=r"X-Weather of a tool may be.*bind_tools"
        ) as raised:
            make_model(**options)
        search(Caller({}, {}, [TENANT]), "".join(traceback.format_exception(raised.value)))
    for chat in (make_model(), make_model(api="interactions")):
        with pytest.raises(errors.InvalidOptionError, match="X-Weather of a tool may be"):
            chat.bind(extra_body=body)
        for options in ({"extra_body": body}, {"http_options": {"extra_body": body}}):
            printer = Printer()
            with pytest.raises(errors.InvalidOptionError, match="X-Weather of a tool may be"):
                chat.invoke("Hi", config={"callbacks": [printer]}, **options)
            assert printer.seen == ""
    assert emulator.requests == []


def test_functions_in_extra_body_may_have_a_parameter_named_headers(
    make_model: MakeModel, emulator: Emulator
) -> None:
    headers = {"type": "object", "properties": {"accept": {"type": "string"}}}
    parameters = {"type": "object", "properties": {"headers": headers}}
    function = {"name": "fetch", "description": "Fetch a page.", "parameters": parameters}
    body = {"tools": [{"functionDeclarations": [function]}, {"googleSearch": {}}]}
    assert make_model(extra_body=body).preview("Hi").body["tools"] == body["tools"]
    body = {"tools": [{"type": "function", **function}]}
    chat = make_model(api="interactions", extra_body=body)
    assert chat.preview("Hi").body["tools"] == body["tools"]
    assert emulator.requests == []


def test_callers_with_different_headers_do_not_share_cached_responses(
    emulator: Emulator, make_model: MakeModel
) -> None:
    cache = InMemoryCache()
    chat = make_model(cache=cache)
    tenants: list[dict[str, Any]] = [
        {},
        {"additional_headers": {"X-Tenant": TENANT}},
        {"additional_headers": {"X-Tenant": GATEWAY}},
        {"additional_headers": {"x-tenant": GATEWAY, "traceparent": "00-1"}},
        {"http_options": {"headers": {"X-Tenant": TENANT}}},
    ]
    for tenant in tenants:
        chat.invoke(QUESTION, **tenant)
        chat.bind(**tenant).invoke(QUESTION)
    make_model(cache=cache, additional_headers={"X-Tenant": TENANT}).invoke(QUESTION)
    assert [each.headers.get("x-tenant") for each in emulator.requests] == [None, TENANT, GATEWAY]
    search(Caller({}, {}, [TENANT, GATEWAY]), vars(cache))


def test_bodies_of_http_options_do_not_share_cached_responses(
    emulator: Emulator, make_model: MakeModel
) -> None:
    chat = make_model(cache=InMemoryCache())
    for team in ("a", "b", "b"):
        chat.invoke(QUESTION, http_options={"extraBody": {"labels": {"team": team}}})
    assert [request.body["labels"]["team"] for request in emulator.requests] == ["a", "b"]


def test_headers_of_both_options_are_sent_and_named(
    emulator: Emulator, make_model: MakeModel
) -> None:
    runs = Runs()
    http = {"headers": {"X-B": GATEWAY}}
    chat = make_model(callbacks=[runs])
    chat.invoke(QUESTION, additional_headers={"X-A": TENANT}, http_options=http)
    assert [emulator.last.headers[name] for name in ("x-a", "x-b")] == [TENANT, GATEWAY]
    shown = runs.runs[0]["extra"]["invocation_params"]["additional_headers"]
    assert shown == {"X-A": "[redacted]", "X-B": "[redacted]"}


def test_tokens_are_counted_with_the_headers_of_the_call(
    emulator: Emulator, make_model: MakeModel
) -> None:
    bound = make_model().bind(additional_headers={"X-Tenant": TENANT})
    bound.get_num_tokens_from_messages([HumanMessage(QUESTION)])
    assert emulator.last.path.endswith(":countTokens")
    assert emulator.last.headers["x-tenant"] == TENANT


def test_headers_in_model_kwargs_are_rejected(make_model: MakeModel) -> None:
    for name in ("additional_headers", "http_options"):
        with pytest.raises(ValidationError, match=f"must not contain {name}") as raised:
            make_model(model_kwargs={name: {"X-Tenant": TENANT}})
        search(Caller({}, {}, [TENANT]), "".join(traceback.format_exception(raised.value)))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"base_url": "https://x", "headers": {}}, "not base_url. Set base_url"),
        ({"retry_options": {"attempts": 3}}, "not retry_options"),
        (types.HttpOptions(api_version="v1"), "not api_version"),
        ({"timeout": "soon"}, "timeout"),
        ("headers", "must be a dict or HttpOptions, not str"),
    ],
)
def test_what_http_options_cannot_set_for_a_call_is_rejected(
    options: Any, reason: str, make_model: MakeModel
) -> None:
    with pytest.raises(errors.InvalidOptionError, match=reason):
        make_model().invoke(QUESTION, http_options=options)


def test_http_options_of_the_sdk_are_read(emulator: Emulator, make_model: MakeModel) -> None:
    options = types.HttpOptions(headers={"X-Tenant": TENANT}, extra_body={"newField": 1})
    bound = make_model().bind(http_options=options)
    assert {**bound.preview(QUESTION).body}["newField"] == 1
    assert TENANT not in repr(bound)


PICKLED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "key": ({"api_key": "a key of my own"}, ["google_api_key"]),
    "headers": (
        {"additional_headers": {"Authorization": "Bearer a key of my own"}},
        ["google_api_key", "additional_headers"],
    ),
    "metadata": (
        {"default_metadata": [("x-token", "a key of my own")]},
        ["google_api_key", "default_metadata"],
    ),
    "proxy": (
        {"client_args": {"proxy": "http://me:a%20key%20of%20my%20own@127.0.0.1:9"}},
        ["google_api_key", "client_args"],
    ),
    "auth": (
        {"async_client_args": {"auth": ("me", "a key of my own")}},
        ["google_api_key", "async_client_args"],
    ),
}


@pytest.mark.parametrize(("settings", "names"), PICKLED.values(), ids=PICKLED)
def test_a_pickle_carries_no_credential_and_a_call_says_which_one_is_missing(
    emulator: Emulator, make_model: MakeModel, settings: dict[str, Any], names: list[str]
) -> None:
    pickled = pickle.dumps(make_model(**settings).bind_tools([]))
    search(Caller({}, {}, ["a key of my own", "a%20key%20of", API_KEY]), pickled)
    twin = pickle.loads(pickled)
    with pytest.raises(errors.GeminiAuthenticationError) as raised:
        twin.invoke(QUESTION)
    assert str(raised.value) == (
        f"This model was unpickled without {', '.join(names)}: pickles carry no credentials. The "
        "key was passed to the model, so none is taken from the environment. Pass them again: "
        f'model.model_copy(update={{"{names[0]}": ...}}).'
    )
    assert emulator.requests == []


@pytest.mark.parametrize("times", [1, 2], ids=["pickled", "pickled again"])
def test_a_key_that_was_passed_is_never_replaced_by_one_of_the_environment(
    emulator: Emulator, make_model: MakeModel, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    twin = make_model(api_key="the key of account A")
    monkeypatch.setenv("GOOGLE_API_KEY", API_KEY)  # of account B
    for _ in range(times):
        twin = pickle.loads(pickle.dumps(twin))
    with pytest.raises(errors.GeminiAuthenticationError, match=r"model\.model_copy\(update="):
        twin.invoke(QUESTION)
    assert emulator.requests == []
    with twin.model_copy(update={"api_key": API_KEY}) as whole:
        whole.invoke(QUESTION)
    assert len(emulator.requests) == 1


def test_a_key_that_was_found_is_that_of_the_environment_where_a_pickle_is_loaded(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "the key of the driver")
    pickled = pickle.dumps(ChatGemini(model="gemini-3.8-flash", base_url=emulator.url))
    monkeypatch.setenv("GOOGLE_API_KEY", API_KEY)
    with pickle.loads(pickled) as twin:
        twin.invoke(QUESTION)
    assert emulator.last.headers["x-goog-api-key"] == API_KEY
    monkeypatch.delenv("GOOGLE_API_KEY")
    with pytest.raises(errors.GeminiAuthenticationError, match="Set GOOGLE_API_KEY, where the"):
        pickle.loads(pickled).invoke(QUESTION)


def test_what_a_pickle_left_behind_can_be_given_again(
    emulator: Emulator, make_model: MakeModel
) -> None:
    headers = {"x-gateway-token": GATEWAY}
    emulator.stored_credentials.add(GATEWAY)
    twin = pickle.loads(pickle.dumps(make_model(additional_headers=headers)))
    given = {"google_api_key": SecretStr(API_KEY), "additional_headers": headers}
    with twin.model_copy(update=given) as whole:
        whole.invoke(QUESTION)
    assert emulator.last.headers["x-gateway-token"] == GATEWAY


def test_headers_that_are_not_credentials_stay_in_a_pickle(make_model: MakeModel) -> None:
    settings = {"additional_headers": {"x-team": "blue"}, "client_args": {"verify": False}}
    twin = pickle.loads(pickle.dumps(make_model(**settings)))
    assert (twin.additional_headers, twin.client_args) == tuple(settings.values())


def test_a_copy_keeps_the_key(emulator: Emulator, make_model: MakeModel) -> None:
    for twin in (copy.copy(make_model()), copy.deepcopy(make_model())):
        with twin:
            twin.invoke(QUESTION)
    assert [asked.headers["x-goog-api-key"] for asked in emulator.requests] == [API_KEY] * 2


@pytest.mark.parametrize(
    "address",
    [
        "https://me:a-key-of-my-own@gateway.example/v1",
        {"api_endpoint": "https://a-key-of-my-own@gateway.example"},
        "https://gateway.example/v1?key=a-key-of-my-own",
        {"api_endpoint": "https://gateway.example", "api_key": "a-key-of-my-own"},
    ],
)
def test_an_address_that_contains_a_credential_is_rejected_without_showing_it(address: Any) -> None:
    with pytest.raises(ValueError, match=r"additional_headers|api_key") as raised:
        ChatGemini(model="gemini-3.8-flash", base_url=address)
    assert "a-key-of-my-own" not in f"{raised.value} {raised.value!r}"


def test_a_key_of_the_environment_is_not_in_a_pickle(
    emulator: Emulator, make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pickle may be stored; the process that loads it has an environment of its own."""
    monkeypatch.setenv("GOOGLE_API_KEY", API_KEY)
    chat = ChatGemini(model="gemini-3.8-flash", base_url=emulator.url)
    chat.invoke(QUESTION)
    pickled = pickle.dumps(chat)
    search(CALLERS["developer"], pickled)
    with pickle.loads(pickled) as twin:
        twin.invoke(QUESTION)
    assert emulator.last.headers["x-goog-api-key"] == API_KEY
    monkeypatch.delenv("GOOGLE_API_KEY")
    with pytest.raises(errors.GeminiAuthenticationError, match="Set GOOGLE_API_KEY"):
        pickle.loads(pickled).invoke(QUESTION)
    chat.close()


@pytest.mark.parametrize("vertexai", [True, None])
def test_a_model_without_a_key_has_none_after_a_pickle_and_stays_with_its_backend(
    make_model: MakeModel, monkeypatch: pytest.MonkeyPatch, vertexai: bool | None
) -> None:
    settings = {**CALLERS["vertex"].settings, "vertexai": vertexai, "project": None}
    pickled = pickle.dumps(make_model(**settings))
    search(CALLERS["vertex"], pickled)
    monkeypatch.setenv("GOOGLE_API_KEY", API_KEY)
    twin = pickle.loads(pickled)
    assert (twin.google_api_key, twin.credentials, twin.vertexai) == (None, None, True)
