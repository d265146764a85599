"""The programs of the documentation: `python -m tests.documentation` runs them.

The blocks of a page run from top to bottom in one namespace, in an empty folder, on
`FakeGemini`. The command writes what a block prints into the `text` block that follows it, if there
is one. `test_docs.py` checks that running the blocks again prints the same.

Most answers come from the fake's model of simple rules. Where a page needs a better one, it is in
`ANSWERS`, by the prompt.
"""

from __future__ import annotations

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
from tests.documentation_answers import ANSWERS, FILES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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


if __name__ == "__main__":
    main()
