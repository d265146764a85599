"""HTTP and JSON alone, with a body that exists already: no library can be faster."""

from __future__ import annotations

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2

from tests.benchmarks import workload
from tests.benchmarks.subjects import (
    CONCURRENT_CALLS,
    THREADED_CALLS,
    THREADS,
    Subject,
    Work,
    seen,
)

_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=100)


def _request(body: Any) -> dict[str, Any]:
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return {"content": text.encode(), "headers": {"content-type": "application/json"}}


def _see(reply: Any) -> Any:
    parts = reply["candidates"][0]["content"]["parts"]
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    return seen(
        "".join(part.get("text", "") for part in parts), [(c["name"], c["args"]) for c in calls]
    )


def _see_all(replies: list[Any]) -> Any:
    return [_see(reply) for reply in replies]


def _see_stream(replies: list[Any]) -> Any:
    whole = _see_all(replies)
    return {
        "text": "".join(reply["text"] for reply in whole),
        "calls": [call for reply in whole for call in reply["calls"]],
    }


class _Events:
    """Bytes of a stream -> JSON of its events."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> list[Any]:
        *events, self._rest = (self._rest + piece).split(b"\r\n\r\n")
        return [json.loads(event[5:]) for event in events]


class LimitSubject(Subject):
    """An HTTP client and `json`."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._client = httpx2.Client(timeout=600, limits=_LIMITS)
        self._async_client = httpx2.AsyncClient(timeout=600, limits=_LIMITS)

    def _url(self, model: str, method: str = "generateContent") -> str:
        return f"{self.url}/v1beta/models/{model}:{method}"

    def _post(self, model: str, body: Any) -> Any:
        return json.loads(self._client.post(self._url(model), **_request(body)).content)

    def call(self, tools: int, turns: int) -> Work:
        body = workload.request_body(turns, tools)
        return Work(lambda _: self._post(workload.TEXT_MODEL, body), see=_see)

    def loop(self, tools: int) -> Work:
        def run(_: Any) -> list[float]:
            start = time.process_time()
            body = workload.request_body(0, tools)
            marks: list[float] = []
            for number in range(workload.LOOP_TURNS):
                reply = self._post(workload.LOOP_MODEL, body)
                said = reply["candidates"][0]["content"]
                body["contents"] += [
                    {"role": "model", "parts": said["parts"]},
                    workload.result_content(number),
                ]
                marks.append(time.process_time() - start)
            return marks

        return Work(run)

    def _stream(self, model: str, body: Any) -> Any:
        url = self._url(model, "streamGenerateContent?alt=sse")
        events = _Events()
        with self._client.stream("POST", url, **_request(body)) as response:
            for piece in response.iter_bytes():
                yield from events.feed(piece)

    def stream(self, model: str) -> Work:
        body = workload.request_body()
        return Work(lambda _: list(self._stream(model, body)), see=_see_stream)

    def astream(self, model: str) -> Work:
        body = workload.request_body()

        async def read() -> list[Any]:
            url = self._url(model, "streamGenerateContent?alt=sse")
            events = _Events()
            read: list[Any] = []
            async with self._async_client.stream("POST", url, **_request(body)) as response:
                async for piece in response.aiter_bytes():
                    read += events.feed(piece)
            return read

        return Work(lambda _: self.wait_for(read()), see=_see_stream)

    def first_chunk(self, turns: int) -> Work:
        body = workload.request_body(turns)

        def run(_: Any) -> Any:
            chunks = self._stream(workload.STREAM_MODEL, body)
            return next(chunks), chunks

        def see(result: Any) -> Any:
            first, chunks = result
            chunks.close()
            return _see(first)["text"]

        return Work(run, see=see)

    def concurrently(self, tools: int) -> Work:
        body = workload.request_body(0, tools)

        async def post() -> Any:
            url = self._url(workload.TEXT_MODEL)
            return json.loads((await self._async_client.post(url, **_request(body))).content)

        async def ask() -> list[Any]:
            return list(await asyncio.gather(*(post() for _ in range(CONCURRENT_CALLS))))

        return Work(lambda _: self.wait_for(ask()), see=_see_all)

    def in_threads(self, tools: int) -> Work:
        body = workload.request_body(0, tools)

        def run(_: Any) -> list[Any]:
            with ThreadPoolExecutor(THREADS) as pool:
                return list(
                    pool.map(lambda _: self._post(workload.TEXT_MODEL, body), range(THREADED_CALLS))
                )

        return Work(run, see=_see_all)


def make(url: str) -> LimitSubject:
    return LimitSubject(url)
