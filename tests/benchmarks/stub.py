"""A server of canned replies. It does as little as possible, so that it is not the bottleneck.

The model's name in the path selects the reply (see `workload.replies`). `/__take` returns the
checksums of the bodies that arrived since its last call, and the last body.
"""

from __future__ import annotations

import asyncio
import json
import sys
import zlib

from tests.benchmarks.workload import replies

_UNARY = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
_STREAM = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)


class _Arrived:
    """What arrived since the last call of `take`."""

    def __init__(self) -> None:
        self.checksums: list[int] = []
        self.last = b""
        self.turn = 0

    def take(self) -> bytes:
        seen = {"checksums": self.checksums, "last": self.last.decode("utf-8")}
        self.checksums, self.last, self.turn = [], b"", 0
        return json.dumps(seen).encode()


class _Connection(asyncio.Protocol):
    def __init__(self, arrived: _Arrived, canned: dict[str, list[bytes]]) -> None:
        self._arrived = arrived
        self._canned = canned
        self._pieces: list[bytes] = []
        self._missing = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._pieces.append(data)
        if self._missing:
            self._missing -= len(data)
            if self._missing > 0:
                return
        whole = b"".join(self._pieces)
        self._pieces = [whole]
        end = whole.find(b"\r\n\r\n")
        if end < 0:
            return
        length = _content_length(whole[:end])
        self._missing = max(end + 4 + length - len(whole), 0)
        if not self._missing:
            self._pieces = []
            self._answer(whole[:end], whole[end + 4 :])

    def _answer(self, head: bytes, body: bytes) -> None:
        path = head.split(b" ", 2)[1].decode()
        if path == "/__take":
            taken = self._arrived.take()
            self._transport.write(_UNARY % (len(taken), taken))
            return
        self._arrived.checksums.append(zlib.crc32(body))
        self._arrived.last = body
        model, _, method = path.rpartition("/")[2].partition("?")[0].partition(":")
        canned = self._canned[model]
        if method == "generateContent":
            reply = canned[self._arrived.turn % len(canned)]
            self._arrived.turn += 1
            self._transport.write(_UNARY % (len(reply), reply))
        else:
            self._transport.writelines([_STREAM, *canned])


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


def _chunked(events: list[bytes]) -> list[bytes]:
    """Events as the chunks of a stream, each in a write of its own, as a server flushes them."""
    lines = [b"data: %s\r\n\r\n" % event for event in events]
    return [*(b"%x\r\n%s\r\n" % (len(line), line) for line in lines), b"0\r\n\r\n"]


async def _serve() -> None:
    arrived = _Arrived()
    canned = {
        model: _chunked(bodies) if "stream" in model else bodies
        for model, bodies in replies().items()
    }
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(arrived, canned), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)  # until the parent process closes the pipe
    server.close()


if __name__ == "__main__":
    asyncio.run(_serve())
