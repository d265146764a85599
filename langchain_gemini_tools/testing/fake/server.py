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
import re
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qsl, urlencode, urlsplit

from langchain_gemini_tools.testing.fake import rules
from langchain_gemini_tools.testing.fake.answer import (
    Answer,
    Foreign,
    Memory,
    decode,
    prompt_tokens,
)
from langchain_gemini_tools.testing.fake.ask import Ask, Model, find_model
from langchain_gemini_tools.testing.fake.batches import Batches
from langchain_gemini_tools.testing.fake.brain import think
from langchain_gemini_tools.testing.fake.caches import Caches
from langchain_gemini_tools.testing.fake.interactions import Interactions, refuse
from langchain_gemini_tools.testing.fake.planned_faults import PlannedFaults
from langchain_gemini_tools.testing.fake.request import (
    Request,
    Route,
    is_of_another_service,
    read_route,
    without_credentials,
)
from langchain_gemini_tools.testing.fake.responses import (
    JsonObject,
    Outgoing,
    Refusal,
    Server,
    as_array,
    error_body,
    whole,
)
from langchain_gemini_tools.testing.fake.rules import payload
from langchain_gemini_tools.testing.fake.rules.contents import check_counted
from langchain_gemini_tools.testing.fake.rules.generation import check_cached_content
from langchain_gemini_tools.testing.fake.script import (
    Call,
    Fault,
    LongAnswer,
    Reply,
    render_call,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from langchain_gemini_tools.testing.fake.ask import Backend

_LISTED = (  # documented as current in November 2026; other names of the same form work as well
    *("gemini-4-argon", "gemini-3.8-flash", "gemini-3.7-flash", "gemini-3.6-flash"),
    *("gemini-3.5-flash-lite", "gemini-3.1-pro-preview", "gemini-3-flash-preview"),
    *("gemma-4-26b-a4b-it", "gemma-4-31b-it"),
)
"""The models in the list."""
API_KEY = "unreal-key-0815"
ACCESS_TOKEN = "unreal-token-0815"


class Emulator(PlannedFaults):
    """A strict local Gemini. Use it as a context manager.

    Args:
        models: Names of more models; they behave like the newest family.
        accepts_foreign_signatures: Accept signatures that were not issued here, or those that a
            function accepts.
        accepts_any_key: Accept any key or token; otherwise only `API_KEY` and `ACCESS_TOKEN`.
        strict: False only notes in `warnings` what breaks a rule that is inferred.
        token_limit: The longest prompt, in tokens of about four characters.
        mind: Answers requests for which no reply is scripted.
        port: The port to listen on; 0 for a free one.
    """

    def __init__(
        self,
        *,
        models: Collection[str] = (),
        accepts_foreign_signatures: Foreign = False,
        accepts_any_key: bool = False,
        strict: bool = True,
        token_limit: int = 1_048_576,
        mind: Callable[[Ask], Answer] = think,
        port: int = 0,
    ) -> None:
        super().__init__()
        self.requests: list[Request] = []
        self.refusals: list[Refusal] = []
        self.warnings: list[str] = []
        self.memory = Memory()
        self.models = models
        self.accepts_foreign_signatures = accepts_foreign_signatures
        self.accepts_any_key = accepts_any_key
        self.strict = strict
        self.token_limit = token_limit
        self.stored_credentials = {API_KEY, ACCESS_TOKEN}
        """The credentials that requests keep; any other is not stored."""
        self.caches = Caches(models)
        """The context caches."""
        self.batches = Batches(self._answer_item)
        """The batch jobs and files, and what goes wrong with them."""
        self._mind = mind
        self._replies: deque[Reply | LongAnswer] = deque()
        self._failures: list[Exception] = []
        self._interactions = Interactions(self, self._judge)
        self._server: Server | None = None
        self._port = port
        self._url = ""

    def __enter__(self) -> Self:
        if self._server is not None:
            raise RuntimeError("The server is already running. Make another one, or stop it first.")
        self._server = Server(self._answer, self._port)
        self._server.start()
        self._url = f"http://127.0.0.1:{self._server.server_port}"
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if self._server:
            self._server.stop()
            self._server = None
        if self._failures and error is None:
            raise RuntimeError("The emulator itself failed.") from self._failures[0]

    @property
    def url(self) -> str:
        """The base URL, without a slash at its end."""
        if self._server is None:
            raise RuntimeError(
                "The server is not running: use it in its `with` block, or between start and stop."
            )
        return self._url

    @property
    def connection_count(self) -> int:
        """How many connections clients have opened so far."""
        return self._server.connection_count if self._server else 0

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
        thoughts: str | None = None,
        structured: Any = None,
        media: Iterable[tuple[str, bytes]] = (),
        code: tuple[str, str] | None = None,
        searches: Sequence[str] = (),
        parts: Iterable[JsonObject] | None = None,
        finish_reason: str | None = "STOP",
        finish_message: str | None = None,
        usage: JsonObject | None = None,
        candidate: JsonObject | None = None,
        chunks: int | Sequence[str] | None = None,
        body: Any = None,
        events: Sequence[Any] | None = None,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        signed: bool | None = None,
        fault: Fault | None = None,
    ) -> None:
        """Script the next reply: used once, in this order. The arguments are those of `Reply`."""
        given = {name: value for name, value in locals().items() if name != "self"}
        self.script(Reply(**given))

    def script(self, *replies: Reply | LongAnswer) -> None:
        """Script the next replies."""
        for reply in replies:
            if not isinstance(reply, Reply | LongAnswer):
                raise TypeError(f"{reply!r:.100} is not a Reply. Write script(Reply('Yes.')).")
        with self._lock:
            self._replies += replies

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
        """Script an answer that needs several requests, as of Gemini 4.

        Args:
            text: What the model says; it is cut into pieces.
            calls: The functions it calls, after the text.
            parts: All parts as the API spells them, instead of `text` and `calls`.
            hop_size: How many pieces a request sends before it ends with CONTINUATION.
            first_checkpoint: The event of each stream from which on events have a token; None for
                the last event only.
            faults: What goes wrong with the first request, the second, ...
            finish_reason: How the last request ends.
        """
        if hop_size < 1:
            raise ValueError(f"hop_size must be at least 1, not {hop_size}.")
        given = Reply(text or None, calls=calls, parts=parts)
        said = [{"text": text}] if text else []
        whole_parts = given.parts or [*said, *map(render_call, given.calls)]
        self.script(LongAnswer([*whole_parts], hop_size, first_checkpoint, faults, finish_reason))

    def forget_replies(self) -> None:
        """Drop the scripted replies that were not used."""
        with self._lock:
            self._replies.clear()

    def _answer(self, method: str, target: str, headers: Mapping[str, str], raw: bytes) -> Outgoing:
        """Return the response to one request."""
        url = urlsplit(target)
        query = dict(parse_qsl(url.query))
        route = read_route(method, url.path)
        kept = without_credentials(query, self.stored_credentials)
        request = Request(
            method,
            url.path,
            kept,
            without_credentials(headers, self.stored_credentials),
            _model_of(route, raw),
            route.backend if route else None,
            raw,
            f"{self._url}{url.path}" + (f"?{urlencode(kept)}" if kept else ""),
        )
        with self._lock:
            self.requests.append(request)
            if route is None:
                return self._not_found(method, url.path)
            try:
                # The id of an upload is a secret itself.
                if route.method != "upload" or "upload_id" not in query:
                    valid = (None, None) if self.accepts_any_key else (API_KEY, ACCESS_TOKEN)
                    payload.check_key(headers, query, route.backend, *valid)
                return self._dispatch(route, request, query)
            except Refusal as refusal:
                self._note(refusal)
                if route.service == "interactions":
                    return refuse(refusal)
                return whole(refusal.code, refusal.body)
            except Exception as failure:  # noqa: BLE001 - raised when the `with` block ends
                return self._fail_to_answer(failure)

    def _not_found(self, method: str, path: str) -> Outgoing:
        """The response to a path that is not served: Google's page, or what this server lacks."""
        if not is_of_another_service(path):
            page = "<!DOCTYPE html><title>Error 404 (Not Found)!!1</title>"
            return whole(404, page, "text/html")
        words = (
            f"FakeGemini does not implement {method} {path}. It has generateContent, streams, "
            "countTokens, interactions, context caches, batch jobs and files. Replace this call "
            "in the test in another way."
        )
        refusal = Refusal(words, 501)
        self._note(refusal)
        return whole(refusal.code, refusal.body)

    def _dispatch(self, route: Route, request: Request, query: Mapping[str, str]) -> Outgoing:
        match route.service:
            case "caches":
                return self.caches.serve(route, replace(request, query=query))
            case "batches":
                return self._serve_batch(route, replace(request, query=query))
            case "interactions":
                payload.check_deadline(request.headers)
                return self._interact(route, request)
        return self._generate(route, request)

    def _note(self, refusal: Refusal) -> None:
        self.refusals.append(refusal)

    def _fail_to_answer(self, failure: Exception) -> Outgoing:
        """Return the response when this server, or a reply of a test, is wrong."""
        self._failures.append(failure)
        return whole(500, error_body(500, f"The emulator itself failed: {failure!r}"))

    def _serve_batch(self, route: Route, request: Request) -> Outgoing:
        """Return the response to a request for a batch job or a file."""
        if route.method == "create" and route.backend == "gemini":
            payload.check_model(route.name, route.version, "gemini", "generateContent", self.models)
        elif route.method == "create":
            given = request.body if isinstance(request.body, dict) else {}
            model = str(given.get("model")).rpartition("/")[2]
            if not find_model(model, route.version) and model not in self.models:
                raise Refusal(f"The PublisherModel {model} does not exist.", 404)
        return self.batches.serve(route.method, request, route.resource, self._url)

    def _answer_item(self, model: str, body: JsonObject, job: str) -> JsonObject:
        """Return the response to one request of a batch job, by the rules of a single one."""
        is_vertex = job.startswith("projects/")
        backend: Backend = "vertex" if is_vertex else "gemini"
        version = "v1beta1" if is_vertex else "v1beta"
        route = Route(backend, version, model, "generateContent")
        raw = json.dumps(body).encode()
        request = Request("POST", f"/{version}/{job}", {}, {}, model, backend, raw)
        outgoing = self._generate(route, request)
        response: JsonObject = json.loads(outgoing.payload)
        if outgoing.status != 200:
            error = response.get("error") or {}
            raise Refusal(error.get("message", "The item failed."), outgoing.status)
        if (body.get("generationConfig") or {}).get("responseJsonSchema"):
            # Reported: 0 of 502 right, where `responseSchema` was. How they look is inferred.
            for candidate in response.get("candidates", []):
                candidate["content"] = {"role": "model", "parts": [{"text": '{"": {"": {"": '}]}
        return response

    def _generate(self, route: Route, request: Request) -> Outgoing:
        """Return the response of a model, or about one."""
        if route.method == "list":
            return whole(200, {"models": [*map(_describe, self._listed_models(route.version))]})
        model = payload.check_model(
            route.name, route.version, route.backend, route.method, self.models
        )
        if route.method == "get":
            return whole(200, _describe(model))
        payload.check_deadline(request.headers)
        if route.method == "countTokens":
            return self._count_tokens(route, model, request.raw)
        body = payload.read_payload(request.raw, backend=route.backend, version=route.version)
        is_stream = route.method == "streamGenerateContent"
        tier = request.headers.get("x-vertex-ai-llm-shared-request-type", "")
        ask = Ask(body, model, route.backend, route.version, is_stream=is_stream, tier=tier)
        if body.get("cachedContent"):
            check_cached_content(ask)
            body, cached_tokens = self.caches.join(body, model)
            ask = replace(ask, body=body, cached_tokens=cached_tokens)
        foreign = self.accepts_foreign_signatures
        rules.check(ask, self.memory, accepts_foreign=foreign, judge=self._judge)
        self.batches.check_files(ask.contents)
        payload.check_length(prompt_tokens(ask), self.token_limit)
        outgoing = self._respond(ask, request)
        return as_array(outgoing) if request.query.get("alt") != "sse" else outgoing

    def _listed_models(self, version: str) -> list[Model]:
        return [find_model(name, version) or Model(name) for name in (*_LISTED, *self.models)]

    def _interact(self, route: Route, request: Request) -> Outgoing:
        """Return the response of the Interactions API."""
        pending = self._next_fault(is_stream=request.is_stream)
        instead = pending.instead if pending else None
        if instead and instead.fault and route.method != "create":
            # Such a request has no reply to replace, and must not change what is stored.
            return instead.fault(whole(200, {}))

        def answer(ask: Ask) -> Reply | LongAnswer:
            return instead or self._next_reply(ask, request)

        outgoing = self._interactions.serve(route, request, answer)
        return pending.fault(outgoing) if pending and pending.fault else outgoing

    def _respond(self, ask: Ask, request: Request) -> Outgoing:
        """Return the response to a valid request."""
        pending = self._next_fault(is_stream=ask.is_stream)
        token = ask.body.get("continuationToken")
        issued = self.memory.tokens.get(decode(token)) if token else None
        if pending and pending.instead:
            return pending.instead.render(ask, self.memory)
        if issued and issued.answer:  # the rest of a long answer
            outgoing = issued.answer.render(ask, self.memory, issued.position)
        else:
            outgoing = self._next_reply(ask, request).render(ask, self.memory)
        return pending.fault(outgoing) if pending and pending.fault else outgoing

    def _next_reply(self, ask: Ask, request: Request) -> Reply | LongAnswer:
        """Return the next scripted reply, or the answer without a script."""
        return self._replies.popleft() if self._replies else self._unscripted(ask, request)

    def _unscripted(self, ask: Ask, request: Request) -> Reply:
        """Return the reply when nothing is scripted."""
        return Reply(answer=self._mind(ask), signed=True)

    def _judge(self, refusal: Refusal) -> None:
        """Raise a refusal; only note it if its rule is inferred and this server is not strict."""
        if self.strict or refusal.evidence != "inferred":
            raise refusal
        self.warnings.append(refusal.why or refusal.message)

    def _count_tokens(self, route: Route, model: Model, raw: bytes) -> Outgoing:
        body = payload.read_payload(
            raw, backend=route.backend, version=route.version, message="CountTokensRequest"
        )
        if route.backend == "gemini":
            check_counted(body)
        body = body.get("generateContentRequest", body)
        tokens = prompt_tokens(Ask(body, model, route.backend, route.version))
        details = [{"modality": "TEXT", "tokenCount": tokens}]
        return whole(200, {"totalTokens": tokens, "promptTokensDetails": details})


def _model_of(route: Route | None, raw: bytes) -> str:
    """Return the name of the model: in the path, or in the body of an interaction."""
    if route is None or not re.search(r"models/|interactions", route.resource):
        return ""
    if (route.service, route.method) != ("interactions", "create"):
        return route.name
    try:
        body = json.loads(raw)
        return str(body.get("model") or body.get("agent") or "")
    except (ValueError, AttributeError):
        return ""


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
