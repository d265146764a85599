"""Send a request, and continue its response in further requests until it is complete.

Gemini 4 ends a request at its token limit with a token; the same request with that token continues
the response. The events of a stream carry such tokens as well, so that a stream that was cut can be
resumed. Each request is a hop, and all hops give one message. `wire` joins them; this module
decides when to send the next one.

- `timeout`, `stream_timeout` and `max_retries` apply to each hop.
- A hop that fails is retried as long as none of its output was passed on.
- A stream that fails after a token is resumed from it, whatever `max_retries` is, because no work
  is repeated. Timeouts, and errors that a retry cannot help, are final. If a token covers all that
  was passed on, it is in the `response_metadata` of the error's `partial`.

The sync and async methods differ only by `async` and `await`.
"""

from __future__ import annotations

import logging
from contextlib import aclosing, closing, suppress
from itertools import chain
from typing import TYPE_CHECKING, Any

from langchain_core.exceptions import ModelError, ModelTimeoutError

from langchain_gemini_tools.errors import GeminiAPIError, ResponseError
from langchain_gemini_tools.wire.function_calls import whole_call
from langchain_gemini_tools.wire.hops import (
    ENDS_OF_A_HOP,
    MAX_HOPS,
    block_reason_of,
    find_next_token,
    has_more,
    shows_output,
    token_of,
)
from langchain_gemini_tools.wire.metadata import truncated_stream_error

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Iterable

    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGenerationChunk, ChatResult

    from langchain_gemini_tools.background import BackgroundRun
    from langchain_gemini_tools.client import GeminiClient
    from langchain_gemini_tools.retry import RetryPolicy
    from langchain_gemini_tools.wire import shapes as gemini
    from langchain_gemini_tools.wire.request import RenderedRequest
    from langchain_gemini_tools.wire.response import StreamParser

logger = logging.getLogger(__name__)


class LongResponse:
    """One response, requested in as many hops as it takes. Use it once.

    Args:
        request: The request.
        client: What sends the hops.
        retries: Applies to each hop.
    """

    # Bodies and responses have no name in the frames of these methods: tracebacks would show them,
    # with the headers of MCP servers and what responses quote.

    _parser: StreamParser

    def __init__(
        self, request: RenderedRequest, client: GeminiClient, retries: RetryPolicy
    ) -> None:
        self._request = request
        self._client = client
        self._retries = retries
        self._continues = request.invocation.continues_automatically
        self._token: str | None = None
        """The token with which the next hop is requested; None for the first and after the last."""
        self._hop_count = 1
        self._hops: list[gemini.Response] = []
        """The whole responses so far."""
        self._is_finished = False
        """Whether a stream has had its last chunk."""

    # Whole responses

    def generate(self) -> ChatResult:
        """Send the request and return the parsed response.

        Raises:
            ResponseError: The response is not usable.
            GeminiAPIError: A hop failed. What the others returned is in the error's `partial`.
        """
        try:
            while self._has_next_hop():
                self._hops.append(self._send())
            return self._request.parse(self._hops[0], self._hops[1:])
        except (GeminiAPIError, ResponseError) as error:
            self._explain(error)
            raise

    async def agenerate(self) -> ChatResult:
        """Send as `generate` does, on the running event loop."""
        try:
            while self._has_next_hop():
                self._hops.append(await self._asend())
            return self._request.parse(self._hops[0], self._hops[1:])
        except (GeminiAPIError, ResponseError) as error:
            self._explain(error)
            raise

    def _send(self) -> gemini.Response:
        """Return the response to the next hop. An error has what the hops before it returned."""
        try:
            return self._retries.call(self._send_once)
        except (GeminiAPIError, ResponseError) as error:
            if self._hops:
                error.partial = self._partial()
            raise

    async def _asend(self) -> gemini.Response:
        try:
            return await self._retries.acall(self._asend_once)
        except (GeminiAPIError, ResponseError) as error:
            if self._hops:
                error.partial = self._partial()
            raise

    def _send_once(self) -> gemini.Response:
        if background := self._background():
            return self._request.decode(background.run(self._sending()))
        return self._request.decode(self._client.send(**self._sending()))

    async def _asend_once(self) -> gemini.Response:
        if background := self._background():
            return self._request.decode(await background.arun(self._sending()))
        return self._request.decode(await self._client.asend(**self._sending()))

    def _background(self) -> BackgroundRun | None:
        """Return what runs an interaction in the background; `None` for any other request."""
        options = self._request.invocation.interaction
        if options is None or not options.is_background:
            return None
        from langchain_gemini_tools.background import BackgroundRun

        # Only the first hop is read by its id: the request for a later one has to be sent.
        known = options.interaction_id if self._token is None else None
        timeout_seconds = options.background_timeout_seconds
        return BackgroundRun(self._client, self._retries, known, timeout_seconds)

    def _has_next_hop(self) -> bool:
        return not self._hops or self._advance(find_next_token(self._hops[-1]))

    def _explain(self, error: GeminiAPIError | ResponseError) -> None:
        """Redact an error about a response; name the model and the tools in one of the API."""
        if isinstance(error, ResponseError):
            self._client.redact_error(error)
        if isinstance(error, GeminiAPIError):
            self._request.name_tools(error)

    def _partial(self) -> AIMessage | None:
        parser = self._request.stream_parser()
        with suppress(ResponseError):
            for hop in self._hops:
                parser.end_hop()
                parser.feed(hop)
        return parser.partial()

    # Streams

    def stream(self) -> Generator[ChatGenerationChunk]:
        """Send the request and yield the chunks of the response as they arrive.

        Raises:
            ResponseError: The response is not usable.
            GeminiAPIError: A hop failed. What has arrived is in the error's `partial`.
        """
        events, chunks = self._retries.call(self._begin)
        while True:
            with _ExplainingErrors(self._explain), self._parser.keeping_partial(), closing(events):
                yield from chunks
                yield from chain.from_iterable(map(self._parser.feed, events))
                yield from self._finish()
            if self._token is None:
                return
            self._parser.end_hop()
            # A later hop is retried until an event can be passed on.
            events, chunks = self._retries.open_stream(self._read), []

    def _begin(self) -> tuple[Generator[gemini.Response], list[ChatGenerationChunk]]:
        """Request the first hop; return its events, and the first chunks.

        It can be retried as long as there are no chunks; each time with a new parser.
        """
        self._parser = self._request.stream_parser()
        events = self._read()
        try:
            with _ExplainingErrors(self._explain), self._parser.keeping_partial():
                for chunks in map(self._parser.feed, events):
                    if chunks:
                        return events, chunks
                return events, self._finish()
        except BaseException:
            events.close()
            raise

    def _finish(self) -> list[ChatGenerationChunk]:
        """Return the last chunks; none if another hop follows, or if they were returned before."""
        if self._token is not None or self._is_finished:
            return []
        chunks = self._parser.finish()
        self._is_finished = True
        return chunks

    def _read(self) -> Generator[gemini.Response]:
        """Yield the events of a hop that may be passed on, and find the token of the next hop."""
        hop = self._begin_hop()
        receive = self._receiver(hop)
        responses = self._events()
        try:
            with self._client.redacting_errors(), closing(responses):
                yield from chain.from_iterable(map(receive, responses))
        except ModelError as error:
            if not self._resumes(hop, error):
                raise
        else:
            self._end_hop(hop)
        yield from hop.leftovers(is_continued=self._token is not None)

    def _events(self) -> Generator[gemini.JsonObject]:
        if background := self._background():
            return background.stream(self._sending())
        return self._client.stream(**self._sending(), total_seconds=self._total_seconds)

    def _aevents(self) -> AsyncGenerator[gemini.JsonObject]:
        if background := self._background():
            return background.astream(self._sending())
        return self._client.astream(**self._sending(), total_seconds=self._total_seconds)

    async def astream(self) -> AsyncGenerator[ChatGenerationChunk]:
        """Stream as `stream` does, on the running event loop."""
        events, chunks = await self._retries.acall(self._abegin)
        event: Any = None
        try:
            while True:
                with _ExplainingErrors(self._explain), self._parser.keeping_partial():
                    async with aclosing(events):
                        for chunk in chunks:
                            yield chunk
                        async for event in events:
                            for chunk in self._parser.feed(event):
                                yield chunk
                    for chunk in self._finish():
                        yield chunk
                if self._token is None:
                    return
                self._parser.end_hop()
                events, chunks = self._retries.aopen_stream(self._aread), []
        finally:
            event = None

    async def _abegin(self) -> tuple[AsyncGenerator[gemini.Response], list[ChatGenerationChunk]]:
        self._parser = self._request.stream_parser()
        events = self._aread()
        event: Any = None
        try:
            with _ExplainingErrors(self._explain), self._parser.keeping_partial():
                async for event in events:
                    if chunks := self._parser.feed(event):
                        return events, chunks
                return events, self._finish()
        except BaseException:
            event = None
            await events.aclose()
            raise

    async def _aread(self) -> AsyncGenerator[gemini.Response]:
        hop = self._begin_hop()
        receive = self._receiver(hop)
        responses = self._aevents()
        response: Any = None
        event: Any = None
        try:
            with self._client.redacting_errors():
                async with aclosing(responses):
                    async for response in responses:
                        for event in receive(response):
                            yield event
        except ModelError as error:
            if not self._resumes(hop, error):
                raise
        else:
            self._end_hop(hop)
        finally:
            response = event = None
        for event in hop.leftovers(is_continued=self._token is not None):
            yield event

    # Hops

    def _sending(self) -> dict[str, Any]:
        """Return the arguments of the client's methods."""
        invocation = self._request.invocation
        return {
            "model": invocation.model,
            "body": self._request.continued(self._token),
            "timeout_seconds": invocation.timeout_seconds,
            "headers": invocation.sent_headers,
            "path": self._request.path,
        }

    @property
    def _total_seconds(self) -> float | None:
        return self._request.invocation.stream_timeout_seconds

    def _begin_hop(self) -> _StreamedHop:
        return _StreamedHop(is_later=self._token is not None, holds_back=self._continues)

    def _receiver(
        self, hop: _StreamedHop
    ) -> Callable[[gemini.JsonObject], Iterable[gemini.Response]]:
        """Return what decodes an event, and returns the events that may be passed on."""
        decode = self._request.event_decoder()
        if decode is None:
            return hop.receive
        return lambda event: chain.from_iterable(map(hop.receive, decode(event)))

    def _resumes(self, hop: _StreamedHop, error: ModelError) -> bool:
        """Decide whether a stream that failed is resumed from its newest token."""
        if not error.is_retryable or isinstance(error, ModelTimeoutError):
            return False
        if not self._advance(hop.next_token):
            return False
        model = self._request.invocation.model
        logger.warning("%s: the stream was interrupted and is resumed: %s", model, str(error))
        return True

    def _end_hop(self, hop: _StreamedHop) -> None:
        """Find the next token after a stream has ended as far as HTTP can tell.

        Raises:
            TruncatedStreamError: The stream was cut, and has no token to resume from.
        """
        if self._advance(hop.next_token):
            return
        if self._continues and not hop.has_ended:
            raise truncated_stream_error()
        self._token = None

    def _advance(self, token: str | None) -> bool:
        """Take the token of the next hop, if there is to be one."""
        sent = self._token or self._request.invocation.continuation_token
        # Sending the same token again would give the same output again.
        if not self._continues or token is None or token == sent:
            return False
        if self._hop_count >= MAX_HOPS:
            model = self._request.invocation.model
            logger.warning("%s: the response is not complete after %d requests.", model, MAX_HOPS)
            return False
        self._hop_count += 1
        self._token = token
        return True


class _ExplainingErrors:
    """Explains an error of the API, or about a response, that is raised inside the block."""

    # A class, because a generator would add the frames again that redacting drops.

    def __init__(self, explain: Callable[[GeminiAPIError | ResponseError], None]) -> None:
        self._explain = explain

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, frames: object) -> None:
        if isinstance(error, (GeminiAPIError, ResponseError)):
            self._explain(error)


class _StreamedHop:
    """The events of one stream, and which of them may be passed on.

    Once an event has a token, those without one wait for the next token or for the end: if the
    stream is cut, it is resumed from the token, and they are generated again. Streams of Gemini 4
    are reported to have a token on every event after the first one that has one, so in practice
    only the last event waits.

    In a later hop, events also wait until one has output that the parser passes on, so that the hop
    can be retried.

    Args:
        is_later: Whether this is not the first hop.
        holds_back: Whether events may wait at all.
    """

    def __init__(self, *, is_later: bool, holds_back: bool) -> None:
        self._is_unseen = is_later
        """Whether nothing was passed on, and a retry depends on that."""
        self._holds_back = holds_back
        self._held: list[gemini.Response] = []
        self._token: str | None = None
        self._is_complete = False
        self.has_ended = False
        """Whether a finish reason has arrived, or the prompt was blocked."""

    @property
    def next_token(self) -> str | None:
        """The newest token, unless the response is complete."""
        return None if self._is_complete else self._token

    def receive(self, response: gemini.Response) -> Iterable[gemini.Response]:
        """Return the events that may be passed on now that this one has arrived."""
        if not self._holds_back:
            return (response,)
        candidates = response.get("candidates")
        candidate = candidates[0] if isinstance(candidates, list) and candidates else {}
        if not isinstance(candidate, dict):
            candidate = {}
        is_marked = "promptFeedback" in response or not ENDS_OF_A_HOP.isdisjoint(candidate)
        if not (is_marked or self._is_unseen or self._token):
            return (response,)  # nearly every event
        is_blocked = block_reason_of(response.get("promptFeedback")) is not None
        self._is_complete |= is_blocked or not has_more(candidate)
        self.has_ended |= is_blocked or candidate.get("finishReason") is not None
        if token := token_of(candidate):
            self._token = token
        elif not self._is_complete and self._waits(candidate):
            self._held.append(response)
            return ()
        self._is_unseen = False
        if not self._held:
            return (response,)
        released, self._held = [*self._held, response], []
        return released

    def _waits(self, candidate: gemini.JsonObject) -> bool:
        if self._token is not None:
            return bool(self._held) or shows_output(candidate)
        return self._is_unseen and not shows_output(candidate, ignoring=whole_call)

    def leftovers(self, *, is_continued: bool) -> list[gemini.Response]:
        """Return the events that still wait; only their usage if they are generated again."""
        if not is_continued:
            return self._held
        usages = [each["usageMetadata"] for each in self._held if "usageMetadata" in each]
        return [{"usageMetadata": usages[-1]}] if usages else []
