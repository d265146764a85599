"""What an editor shows about `ChatGemini(...)`, from pyright's language server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVER = Path(sys.executable).with_name("pyright-langserver")
pytestmark = pytest.mark.skipif(not SERVER.exists(), reason="pyright is not installed")

PROGRAM = """\
from langchain_gemini_tools import ChatGemini

model = ChatGemini(model="gemini-3.8-flash", temperature=0.5, service_tier="flex")
typed = ChatGemini(model="gemini-3.8-flash", reason)
"""


class Editor:
    """A client of the language server, with one open file."""

    def __init__(self, folder: Path) -> None:
        self._last_id = 0
        self._server = subprocess.Popen(
            [SERVER, "--stdio"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._uri = (folder / "program.py").as_uri()
        (folder / "program.py").write_text(PROGRAM)
        capabilities = {
            "workspace": {"configuration": True},
            "textDocument": {"hover": {"contentFormat": ["plaintext"]}},
        }
        folders = [{"uri": folder.as_uri(), "name": "project"}]
        self._ask("initialize", capabilities=capabilities, workspaceFolders=folders)
        self._send(method="initialized", params={})
        document = {"uri": self._uri, "languageId": "python", "version": 1, "text": PROGRAM}
        self._send(method="textDocument/didOpen", params={"textDocument": document})

    def completions(self, before: str) -> list[str]:
        """The names that are offered after a text."""
        found = self._ask("textDocument/completion", **self._place(before, len(before)))
        return [item["label"] for item in found["items"]]

    def hover(self, word: str) -> str:
        """What is shown for a word."""
        return str(self._ask("textDocument/hover", **self._place(word, 1))["contents"]["value"])

    def close(self) -> None:
        """Stop the server."""
        self._server.kill()
        self._server.communicate()

    def _place(self, text: str, offset: int) -> dict[str, Any]:
        lines = PROGRAM.split("\n")
        number = max(number for number, line in enumerate(lines) if text in line)
        position = {"line": number, "character": lines[number].index(text) + offset}
        return {"textDocument": {"uri": self._uri}, "position": position}

    def _ask(self, method: str, **params: Any) -> Any:
        self._last_id += 1
        self._send(id=self._last_id, method=method, params=params)
        while True:
            message = self._receive()
            if "method" not in message and message.get("id") == self._last_id:
                return message["result"]
            if "method" in message and "id" in message:
                self._send(id=message["id"], result=self._configuration(message))

    @staticmethod
    def _configuration(message: dict[str, Any]) -> Any:
        if message["method"] != "workspace/configuration":
            return None
        interpreter = {"pythonPath": sys.executable}
        items = message["params"]["items"]
        return [interpreter if item.get("section") == "python" else {} for item in items]

    def _send(self, **message: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._server.stdin is not None
        self._server.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self._server.stdin.flush()

    def _receive(self) -> Any:
        assert self._server.stdout is not None
        length = 0
        while line := self._server.stdout.readline().strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        return json.loads(self._server.stdout.read(length))


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    editor = Editor(tmp_path_factory.mktemp("project"))
    yield editor
    editor.close()


def test_arguments_are_completed(editor: Editor) -> None:
    assert "reasoning_effort=" in editor.completions("reason")


def test_hovering_shows_the_type_of_an_argument(editor: Editor) -> None:
    assert "temperature: float" in editor.hover("temperature")
    assert "service_tier" in editor.hover("service_tier")


def test_hovering_shows_the_docstring_of_the_model(editor: Editor) -> None:
    assert "A LangChain chat model for Google Gemini, built for tool calling." in editor.hover(
        "ChatGemini(model"
    )
