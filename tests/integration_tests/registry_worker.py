"""A registry of tools in a separate process: it lists specifications, and runs tools by name.

It uses one JSON object per line over stdio, or `POST` with `--http`; it knows nothing of LangChain.
"""

from __future__ import annotations

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SPECS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Add numbers.",
            "parameters": {
                "type": "object",
                "properties": {"numbers": {"type": "array", "items": {"type": "number"}}},
                "required": ["numbers"],
            },
        },
    },
    {
        "name": "find",
        "description": "Find a person.",
        "input_schema": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "config": {"type": "object"}},
            "required": ["name"],
        },
    },
    {"functionDeclarations": [{"name": "die", "description": "End this process."}]},
]


def add(numbers: list[float]) -> float:
    return sum(numbers)


def find(name: str, config: dict[str, Any] | None = None) -> dict[str, Any]:
    if name == "Nobody":
        raise LookupError("There is no such person.")
    return {"name": name, "config": config}


def die() -> None:
    os._exit(1)


def answer(question: dict[str, Any]) -> dict[str, Any]:
    if "name" not in question:
        return {"specs": SPECS}
    try:
        return {"result": globals()[question["name"]](**question["args"])}
    except (LookupError, TypeError) as error:
        return {"error": str(error)}


class Door(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        body = json.dumps(answer(json.loads(self.rfile.read(length)))).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None: ...


if __name__ == "__main__":
    if "--http" in sys.argv:
        with ThreadingHTTPServer(("127.0.0.1", 0), Door) as server:
            print(f"http://127.0.0.1:{server.server_port}/", flush=True)
            server.serve_forever()
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
