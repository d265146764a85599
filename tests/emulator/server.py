"""A local Gemini over real HTTP: routes, credentials, the request log, and the scripted replies.

    with Emulator() as emulator:
        emulator.reply("It is sunny in Oslo.")
        ...  # a client with base_url=emulator.url and api_key=API_KEY
        assert emulator.last.body == {...}

Requests that Gemini would refuse are refused (`rules`); the others get the next scripted reply, or
the answer of a rule-based model (`brain`).
"""

from __future__ import annotations

import json
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qsl, urlsplit

from tests.emulator import rules
from tests.emulator.answer import Answer, prompt_tokens
from tests.emulator.ask import Ask
from tests.emulator.brain import think
from tests.emulator.long_answer import LongAnswer
from tests.emulator.memory import Memory, decode
from tests.emulator.models import Backend, Model
from tests.emulator.outgoing import Outgoing, whole
from tests.emulator.refusal import JsonObject, Refusal, error_body
from tests.emulator.routes import Route, read_route
from tests.emulator.rules.door import check_deadline, check_key, check_length, check_model
from tests.emulator.rules.payload import read_payload
from tests.emulator.script import Call, Fault, Reply, render_call
from tests.emulator.sockets import SocketServer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from types import TracebackType

API_KEY = "unreal-key-0815"
ACCESS_TOKEN = "unreal-token-0815"


@dataclass(frozen=True)
class Request:
    """One request as it came in, also when it was refused."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Names in lower case."""
    model: str
    backend: Backend | None
    body: Any
    """The parsed JSON, spelled as the client spelled it; None when it was none."""
    raw: bytes

    @property
    def is_stream(self) -> bool:
        return self.path.endswith(":streamGenerateContent")


class Emulator:
    """A strict local Gemini. Use it as a context manager.

    Args:
        models: Names beyond Gemini's own that exist here; they behave like the newest family.
        accepts_foreign_signatures: Take signatures that were never issued here.
        is_strict: False leaves the rules out, for clients that are broken on purpose.
        token_limit: The longest prompt, in tokens of about four characters.
        mind: What answers requests for which no reply is scripted.
    """

    def __init__(
        self,
        *,
        models: Collection[str] = (),
        accepts_foreign_signatures: bool = False,
        is_strict: bool = True,
        token_limit: int = 1_048_576,
        mind: Callable[[Ask], Answer] = think,
    ) -> None:
        self.requests: list[Request] = []
        self.refusals: list[Refusal] = []
        self.memory = Memory()
        self.models = models
        self.accepts_foreign_signatures = accepts_foreign_signatures
        self.is_strict = is_strict
        self.token_limit = token_limit
        self._mind = mind
        self._replies: deque[Reply | LongAnswer] = deque()
        self._failures: list[Exception] = []
        self._lock = threading.Lock()
        self._server: SocketServer | None = None

    def __enter__(self) -> Self:
        self._server = SocketServer(self._answer)
        self._server.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._server:
            self._server.stop()
        if self._failures and error is None:
            raise RuntimeError("The emulator itself failed.") from self._failures[0]

    @property
    def url(self) -> str:
        """The base URL, without a slash at its end."""
        if self._server is None:
            raise RuntimeError("The emulator runs inside its `with` block only.")
        return f"http://127.0.0.1:{self._server.port}"

    @property
    def last(self) -> Request:
        """The newest request."""
        if not self.requests:
            raise LookupError("No request has come in yet.")
        return self.requests[-1]

    @property
    def pending_replies(self) -> int:
        """How many scripted replies have not been used yet."""
        return len(self._replies)

    def reply(
        self,
        text: str | None = None,
        *,
        calls: Iterable[Call] = (),
        parts: Iterable[JsonObject] | None = None,
        finish_reason: str | None = "STOP",
        finish_message: str | None = None,
        usage: JsonObject | None = None,
        candidate: JsonObject | None = None,
        body: Any = None,
        events: Sequence[Any] | None = None,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        signed: bool | None = None,
        fault: Fault | None = None,
    ) -> None:
        """Script the next reply. Used once, in the order given, whole or streamed alike.

        Args:
            text: What the model says.
            calls: The functions it calls, after the text: `("get_weather", {"city": "Oslo"})`.
            parts: All parts as the wire spells them, instead of `text` and `calls`.
            finish_reason: As the wire spells it; None leaves it out.
            finish_message: Stands beside the finish reason.
            usage: Counts that replace the counted ones; None for a count takes it away.
            candidate: More fields of the candidate.
            body: The whole response: a dict is JSON, text and bytes go out as they are.
            events: The events of a stream: dicts are JSON after `data: `, text and bytes go raw.
            status: The HTTP status, with `body`.
            headers: More response headers, `retry_after="3"` for `retry-after`.
            signed: Gemini 3 signs, unless False; True makes 2.5 sign its calls as well, as it does
                in real life.
            fault: What goes wrong on the way; see `faults.py`.
        """
        if parts is None:
            parts = [{"text": text}] if text is not None else []
            parts = [*parts, *(render_call(call) for call in calls)]
        answer = Answer(
            list(parts), finish_reason, finish_message, usage=usage, candidate=candidate or {}
        )
        reply = Reply(answer, body, events, status, headers or {}, signed=signed, fault=fault)
        with self._lock:
            self._replies.append(reply)

    def reply_long(
        self,
        text: str = "",
        *,
        calls: Iterable[Call] = (),
        parts: Iterable[JsonObject] | None = None,
        hop_size: int = 3,
        first_checkpoint: int | None = None,
        faults: Sequence[Fault | None] = (),
        finish_reason: str = "STOP",
    ) -> None:
        """Script an answer that takes several requests, as of Gemini 4.

        Args:
            text: What the model says; it is cut into pieces.
            calls: The functions it calls, after the text.
            parts: All parts as the wire spells them, instead of `text` and `calls`.
            hop_size: How many pieces a request sends before it ends with CONTINUATION.
            first_checkpoint: The event of each stream from which on events have a token; None for
                the last event only.
            faults: What goes wrong with the first request, the second, ...
            finish_reason: How the last request ends.
        """
        if parts is None:
            parts = [{"text": text}] if text else []
            parts = [*parts, *(render_call(call) for call in calls)]
        answer = LongAnswer([*parts], hop_size, first_checkpoint, faults, finish_reason)
        with self._lock:
            self._replies.append(answer)

    def forget_replies(self) -> None:
        """Drop the scripted replies that were not asked for."""
        with self._lock:
            self._replies.clear()

    def _answer(self, method: str, target: str, headers: Mapping[str, str], raw: bytes) -> Outgoing:
        """One request, from its path to what it gets back."""
        url = urlsplit(target)
        query = dict(parse_qsl(url.query))
        route = read_route(method, url.path)
        request = Request(
            method,
            url.path,
            query,
            headers,
            route.model if route else "",
            route.backend if route else None,
            _parse(raw),
            raw,
        )
        with self._lock:
            self.requests.append(request)
            try:
                return self._dispatch(route, request)
            except Refusal as refusal:
                self.refusals.append(refusal)
                return whole(refusal.code, refusal.body)
            except Exception as failure:  # noqa: BLE001 - raised when the `with` block ends
                self._failures.append(failure)
                return whole(500, error_body(500, f"The emulator itself failed: {failure!r}"))

    def _dispatch(self, route: Route | None, request: Request) -> Outgoing:
        if route is None:
            return whole(404, "<!DOCTYPE html><title>Error 404 (Not Found)!!1</title>", "text/html")
        check_key(request.headers, request.query, route.backend, API_KEY, ACCESS_TOKEN)
        if route.method == "list":
            return whole(200, {"models": [_describe(Model("gemini-3-flash-preview"))]})
        model = check_model(route.model, route.version, route.backend, route.method, self.models)
        if route.method == "get":
            return whole(200, _describe(model))
        check_deadline(request.headers)
        if route.method == "countTokens":
            return self._count_tokens(route, model, request.raw)
        body = read_payload(request.raw, backend=route.backend, version=route.version)
        is_stream = route.method == "streamGenerateContent"
        ask = Ask(body, model, route.backend, route.version, is_stream=is_stream)
        if is_stream and request.query.get("alt") != "sse":
            raise Refusal("The emulator streams server-sent events only: ?alt=sse", 501)
        if self.is_strict:
            rules.check(ask, self.memory, accepts_foreign=self.accepts_foreign_signatures)
            check_length(prompt_tokens(ask), self.token_limit)
        token = body.get("continuationToken")
        issued = self.memory.tokens.get(decode(token)) if token else None
        if issued and issued.answer:
            return issued.answer.render(ask, self.memory, issued.position)
        reply = self._replies.popleft() if self._replies else Reply(self._mind(ask), signed=True)
        return reply.render(ask, self.memory)

    def _count_tokens(self, route: Route, model: Model, raw: bytes) -> Outgoing:
        body = read_payload(
            raw, backend=route.backend, version=route.version, message="CountTokensRequest"
        )
        body = body.get("generateContentRequest", body)
        tokens = prompt_tokens(Ask(body, model, route.backend, route.version))
        return whole(200, {"totalTokens": tokens})


def _parse(raw: bytes) -> Any:
    try:
        return json.loads(raw) if raw else None
    except ValueError:
        return None


def _describe(model: Model) -> JsonObject:
    return {
        "name": model.resource,
        "version": "001",
        "displayName": model.name,
        "inputTokenLimit": 1048576,
        "outputTokenLimit": 65536,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
        "thinking": model.thinks,
    }
