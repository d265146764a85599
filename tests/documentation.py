"""The programs of the documentation: `python -m tests.documentation` runs them.

The blocks of a page run from top to bottom in one namespace, in an empty folder, on
`FakeGemini`. The command writes what a block prints into the `text` block that follows it, if there
is one. `test_docs.py` checks that running the blocks again prints the same.

Most answers come from the fake's model of simple rules. Where a page needs a better one, it is in
`ANSWERS`, by the prompt. The files that programs read are here as well.
"""

from __future__ import annotations

import base64
import contextlib
import io
import logging
import os
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.testing import FakeGemini, Reply

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from langchain_gemini_tools.testing import Request


ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

_BLOCK = re.compile(
    r"^(?:<!-- skip: (?P<skip>[^\n]*) -->\n)?```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
_VOLATILE = (
    (re.compile(r"\$[\d.]+"), "$N"),
    (re.compile(r"\b\d[\d,.]* (ms|s)\b"), r"N \1"),
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    text: str
    skip: str | None
    """Why it is not run, if it is not."""
    line: int
    """The line of its first line of text, from 1."""
    start: int
    end: int
    """Where its text is in the page."""


def pages() -> list[Path]:
    """Every page that is written by hand."""
    found = sorted(DOCS.rglob("*.md"))
    return [page for page in found if page.parent.name != "project"]


def name_of(page: Path) -> str:
    """Return a page's path in the documentation, without its suffix."""
    return page.relative_to(DOCS).with_suffix("").as_posix()


def blocks_of(page: Path) -> list[Block]:
    """Return the fenced blocks of a page."""
    source = page.read_text(encoding="utf-8")
    return [
        Block(
            found["language"],
            found["text"],
            found["skip"],
            source[: found.start("text")].count("\n") + 1,
            found.start("text"),
            found.end("text"),
        )
        for found in _BLOCK.finditer(source)
    ]


def programs_of(page: Path) -> Iterator[tuple[Block, Block | None]]:
    """Yield each program of a page, with the block that shows its output, if there is one."""
    blocks = blocks_of(page)
    following: Block | None
    for block, following in zip(blocks, [*blocks, None][1:], strict=True):
        if block.language == "python" and block.skip is None:
            shows = following is not None and following.language == "text"
            yield block, following if shows else None


def source_of(page: Path) -> str:
    """Return all programs of a page as one module, with the line numbers of the page."""
    lines = ["# pyright: reportTypedDictNotRequiredAccess=false"]  # optional keys of content blocks
    lines += [""] * page.read_text(encoding="utf-8").count("\n")
    for block, _ in programs_of(page):
        program = block.text.splitlines()
        lines[block.line - 1 : block.line - 1 + len(program)] = program
    return "\n".join(lines)


def run_page(page: Path) -> Iterator[tuple[Block, Block | None, str]]:
    """Run the programs of a page; yield each with the block for its output, and its output."""
    names: dict[str, Any] = {"__name__": "__main__"}
    with _folder(), _same_logger(), FakeGemini(respond=Responder(ANSWERS.get(name_of(page), {}))):
        for block, shown in programs_of(page):
            output = io.StringIO()
            program = "\n" * (block.line - 1) + block.text  # tracebacks have the page's lines
            with contextlib.redirect_stdout(output):
                exec(compile(program, str(page), "exec"), names)
            yield block, shown, output.getvalue()


class Responder:
    """Answers a prompt with the replies that are listed for it, one after the other."""

    def __init__(self, answers: dict[str, Sequence[Reply]]) -> None:
        self._answers = {prompt: list(replies) for prompt, replies in answers.items()}

    def __call__(self, request: Request) -> Reply | None:
        replies = self._answers.get(request.prompt)
        return replies.pop(0) if replies else None


@contextlib.contextmanager
def _folder() -> Iterator[None]:
    """Run in an empty folder with the files that the pages read."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        for name, data in FILES.items():
            Path(folder, name).write_bytes(data)
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


@contextlib.contextmanager
def _same_logger() -> Iterator[None]:
    """Take the handlers away that a page adds to the logger."""
    logger = logging.getLogger("langchain_gemini_tools")
    handlers, propagates = logger.handlers[:], logger.propagate
    try:
        yield
    finally:
        logger.handlers[:] = handlers
        logger.propagate = propagates


def stable(text: str) -> str:
    """Return an output without its times and prices, which differ from run to run."""
    for pattern, replacement in _VOLATILE:
        text = pattern.sub(replacement, text)
    return text.rstrip("\n")


def update(page: Path) -> bool:
    """Write the outputs of a page's programs into it; return whether it changed."""
    source = page.read_text(encoding="utf-8")
    outputs = [(shown, output) for _, shown, output in run_page(page) if shown]
    written = source
    for shown, output in reversed(outputs):
        if stable(shown.text) != stable(output):
            written = f"{written[: shown.start]}{output.rstrip()}\n{written[shown.end :]}"
    page.write_text(written, encoding="utf-8")
    return written != source


def main() -> None:
    chosen = [DOCS / f"{name}.md" for name in sys.argv[1:]] or pages()
    for page in chosen:
        print(f"{name_of(page)}: {'updated' if update(page) else 'unchanged'}")


PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)

FILES: Mapping[str, bytes] = {
    "photo.png": PNG,
    "report.pdf": b"%PDF-1.4\n%%EOF\n",
    "meeting.mp3": b"ID3\x03\x00",
}
"""Files in the folder where a page's programs run."""

_OSLO = Reply(calls=[("get_weather", {"city": "Oslo"})])
_BOTH = Reply(calls=[("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Rome"})])
_SUNNY_OSLO = Reply("It is sunny in Oslo.", chunks=["It is sunny", " in Oslo."])
_SUNNY_BOTH = Reply("It is sunny in both cities, Oslo and Rome.")
_FJORDS = Reply(chunks=["Sogne", "fjord, Hard", "anger", "fjord and Geiranger", "fjord."])

_TALLEST = "The Burj Khalifa in Dubai is the tallest building, at 828 metres."
_GROUNDING = {
    "webSearchQueries": ["tallest building in the world"],
    "searchEntryPoint": {"renderedContent": '<div class="container">…</div>'},
    "groundingChunks": [{"web": {"uri": "https://example.com/tallest", "title": "example.com"}}],
    "groundingSupports": [
        {
            "segment": {"startIndex": 0, "endIndex": len(_TALLEST), "text": _TALLEST},
            "groundingChunkIndices": [0],
        }
    ],
}

ANSWERS: dict[str, dict[str, Sequence[Reply]]] = {
    "index": {
        "What is the weather in Oslo and Rome?": [_BOTH, _SUNNY_BOTH],
    },
    "how-to/agents": {
        "What is the weather in Oslo?": [_OSLO, _SUNNY_OSLO],
        "Which city did I ask about?": [Reply("You asked about Oslo.")],
        "Send a mail to ann@example.com that says hello.": [
            Reply(calls=[("send_mail", {"to": "ann@example.com", "text": "Hello!"})]),
            Reply("I have sent your mail to Ann."),
        ],
        'How many "bolts" are in stock?': [
            Reply(calls=[("stock_of", {"article": "bolts"})]),
            Reply("I cannot say: the warehouse does not answer at the moment."),
        ],
        "What is the weather in Oslo and Rome?": [_BOTH, _SUNNY_BOTH],
    },
    "how-to/streaming": {
        "Name three fjords.": [_FJORDS, _FJORDS],
        "What is the weather in Oslo?": [_OSLO, _SUNNY_OSLO] * 3,
    },
    "how-to/structured-output": {
        "What is the population of Oslo?": [
            Reply(calls=[("population_of", {"city": "Oslo"})]),
            Reply(structured={"name": "Oslo", "population": 700_000}),
        ],
    },
    "how-to/thinking": {
        "Is 221 a prime number?": [
            Reply("No: 221 = 13 * 17.", thoughts="I try the primes up to 14. 13 * 17 is 221.")
        ],
    },
    "how-to/multimodal": {
        "What do these files have in common?": [Reply("All three are about the same fjord.")],
        "Take a photo. What is on it?": [
            Reply(calls=[("take_photo", {})]),
            Reply("A single red dot."),
        ],
        "Draw a fjord at sunset.": [Reply("Here it is.", media=[("image/png", PNG)])],
    },
    "how-to/google-tools": {
        "What is the tallest building?": [
            Reply(_TALLEST, candidate={"groundingMetadata": _GROUNDING})
        ],
        "What is 6 * 7?": [Reply("6 times 7 is 42.", code=("print(6 * 7)", "42"))],
        "Search for the tallest building and save a note.": [
            Reply(
                searches=["tallest building in the world"],
                calls=[("save_note", {"text": "Burj Khalifa: 828 m"})],
            ),
            Reply("I have saved a note about the Burj Khalifa."),
        ],
    },
    "how-to/mcp": {
        "What is the current time in Europe/Oslo?": [
            Reply(calls=[("get_current_time", {"timezone": "Europe/Oslo"})]),
        ],
    },
    "how-to/logging": {
        "What is the weather in Oslo?": [_OSLO, _SUNNY_OSLO],
    },
    "how-to/scale": {
        "What is the capital of France?": [Reply("Paris")],
        "What is the capital of Japan?": [Reply("Tokyo")],
        "Hello": [Reply("Hello! How can I help you?")],
    },
}
"""By page and prompt: one reply for each request with that prompt."""


if __name__ == "__main__":
    main()
