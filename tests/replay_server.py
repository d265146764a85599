"""A local server that answers with a recorded reply, byte for byte as the API writes it.

Unlike the emulator, it checks nothing: it answers every request with the reply that was set last. A
whole reply is indented JSON; a stream has one `data:` line per event, with CRLF.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

from langchain_core.messages import AIMessage, AIMessageChunk, message_chunk_to_message

from langchain_gemini_tools import ChatGemini
from tests.recorded_reply import remote_tools_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.messages import BaseMessage

    from tests.recordings import Exchange


class ReplayServer:
    """Answers every request with the argument of the last call of `answer`."""

    def __init__(self) -> None:
        self._status = 500
        self._replies: Sequence[Any] = ()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        """The base URL for a client."""
        return f"http://127.0.0.1:{self._http.server_port}"

    def answer(self, replies: Sequence[Any], status: int = 200) -> None:
        """Answer with these from now on: one whole reply, or the events of a stream.

        An error is sent as JSON to unary and streamed requests alike; it may be a list.
        """
        self._replies, self._status = replies, status

    def encode(self, *, is_stream: bool) -> tuple[int, str, bytes]:
        """Return status, content type and body of the answer."""
        if self._status == 200 and is_stream:
            events = (json.dumps(reply, ensure_ascii=False) for reply in self._replies)
            body = "".join(f"data: {event}\r\n\r\n" for event in events)
            return 200, "text/event-stream", body.encode()
        (reply,) = self._replies
        body = json.dumps(reply, ensure_ascii=False, indent=2) + "\n"
        return self._status, "application/json; charset=UTF-8", body.encode()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class Replay:
    """`ChatGemini` in front of a `ReplayServer`: ask, and read a recorded answer.

    Two models (one a backend) serve all exchanges; each call names the recorded model.
    """

    def __init__(self) -> None:
        self.server = ReplayServer()
        self._messages: dict[str, AIMessage] = {}
        settings: dict[str, Any] = {"model": "gemini-3.8-flash", "api_key": "key"}
        settings |= {"base_url": self.server.url, "max_retries": 0}
        self._models = {
            "gemini": ChatGemini(**settings),
            "vertex": ChatGemini(**settings, vertexai=True),
        }

    def model(self, exchange: Exchange, **fields: Any) -> ChatGemini:
        """The model for an exchange's backend."""
        model = self._models[exchange.backend]
        return model.model_copy(update=fields) if fields else model

    def put(self, exchange: Exchange) -> None:
        """Answer with the response of this exchange from now on."""
        self.server.answer(exchange.replies, exchange.status)

    def message(self, exchange: Exchange) -> AIMessage:
        """Return the message of an exchange's response; parsed once."""
        if exchange.id not in self._messages:
            self.put(exchange)
            self._messages[exchange.id] = self.ask(exchange)
        return self._messages[exchange.id].model_copy(deep=True)

    def ask(self, exchange: Exchange, *, is_stream: bool | None = None, **fields: Any) -> AIMessage:
        """Return the response to the recorded request, by default sent as recorded."""
        model, options = self.model(exchange, **fields), _options(exchange)
        if exchange.is_stream if is_stream is None else is_stream:
            return add_up(list(model.stream("hi", **options)))
        return model.invoke("hi", **options)

    async def aask(self, exchange: Exchange) -> AIMessage:
        """Ask as `ask` does, asynchronously."""
        model, options = self.model(exchange), _options(exchange)
        if exchange.is_stream:
            return add_up([chunk async for chunk in model.astream("hi", **options)])
        return await model.ainvoke("hi", **options)

    def ask_for_events(self, exchange: Exchange) -> AIMessage:
        """Return the message that LangChain's newest stream of events ends with."""
        events = self.model(exchange).stream_events("hi", version="v3", **_options(exchange))
        return events.output

    def __enter__(self) -> Self:
        self.server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        for model in self._models.values():
            model.close()
        self.server.__exit__()


def _options(exchange: Exchange) -> dict[str, Any]:
    remote_tools = remote_tools_of(exchange)
    return {"model": exchange.model} | ({"tools": remote_tools} if remote_tools else {})


def add_up(chunks: Sequence[BaseMessage]) -> AIMessage:
    """Return the sum of chunks, as every reader of a stream adds them."""
    assert all(isinstance(chunk, AIMessageChunk) for chunk in chunks)
    first, *others = (chunk for chunk in chunks if isinstance(chunk, AIMessageChunk))
    message = message_chunk_to_message(first + others if others else first)
    assert isinstance(message, AIMessage)
    return message


def _handler_of(server: ReplayServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1  # head and body leave together

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            is_stream = ":streamGenerateContent" in self.path
            status, content_type, body = server.encode(is_stream=is_stream)
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    return Handler
