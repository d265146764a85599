"""Measures the speed of `FakeGemini`: `python -m tests.benchmarks.fake_gemini`.

Starting and stopping, and small requests over one connection from another process.
"""

from __future__ import annotations

import json
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

from langchain_gemini_tools.testing import FakeGemini

_RESULT = Path(__file__).parent / "results" / "fake_gemini.json"
_BODY = json.dumps({"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}).encode()
_HEAD = (
    "POST /v1beta/models/gemini-3.8-flash:generateContent HTTP/1.1\r\n"
    "host: localhost\r\nx-goog-api-key: fake\r\ncontent-type: application/json\r\n"
    f"content-length: {len(_BODY)}\r\n\r\n"
).encode()


def start_and_stop(times: int) -> float:
    """Return the median time in milliseconds."""
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        with FakeGemini():
            pass
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken) * 1000


def requests_per_second(times: int) -> tuple[float, float]:
    """Return the requests per second of wall time, and the CPU milliseconds of each."""
    with FakeGemini(lambda _: "Sunny.") as gemini:
        address = urlsplit(gemini.url).netloc
        begin = time.process_time()
        command = [sys.executable, "-m", __spec__.name, address, str(times)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return float(done.stdout), (time.process_time() - begin) * 1000 / times


def send(address: str, times: int) -> float:
    """Send small requests one after the other, and return their number per second."""
    host, _, port = address.partition(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answers = connection.makefile("rb")
        begin = time.perf_counter()
        for _ in range(times):
            connection.sendall(_HEAD + _BODY)
            length = 0
            while (line := answers.readline()) != b"\r\n":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.partition(b":")[2])
            answers.read(length)
        return times / (time.perf_counter() - begin)


def main() -> None:
    if len(sys.argv) == 3:
        print(send(sys.argv[1], int(sys.argv[2])))
        return
    rounds = [requests_per_second(2000) for _ in range(5)]
    found = {
        "start and stop, ms": round(start_and_stop(50), 1),
        "requests per second": round(max(rate for rate, _ in rounds)),
        "CPU of a request, ms": round(min(cpu for _, cpu in rounds), 2),
    }
    print(json.dumps(found, indent=2))
    _RESULT.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
