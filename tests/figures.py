"""Reads figures for ARCHITECTURE.md from the source, and which modules contain a fact.

`python -m tests.figures` writes the figures there. Code lines are lines without blanks, comments
and docstrings. A module counts an importer once, wherever the import stands.
"""

from __future__ import annotations

import ast
import functools
import io
import itertools
import re
import sys
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

import langchain_gemini_tools
from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.testing.fake import API_KEY, Emulator

if TYPE_CHECKING:
    from types import FrameType


PACKAGE = Path(langchain_gemini_tools.__file__).parent
PAGE = PACKAGE.parent / "ARCHITECTURE.md"
FAKE = {PACKAGE / "testing" / "fake", PACKAGE / "testing" / "fake_gemini.py"}
"""The fake server implements Gemini's rules independently, so it repeats facts on purpose."""
_BLOCK = re.compile(r"(?<=<!-- figures -->\n).*(?=<!-- end of figures -->)", re.DOTALL)


def code_lines(source: str) -> int:
    """Return the number of lines with code."""
    ignored = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in ignored:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines & {n for n, text in enumerate(source.split("\n"), 1) if text.strip()})


def module_name(path: Path) -> str:
    """Return the dotted name of a file of the package."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def importers(paths: list[Path]) -> dict[str, set[str]]:
    """Return the modules that import each module."""
    found: dict[str, set[str]] = {module_name(path): set() for path in paths}
    for path in paths:
        name = module_name(path)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                named = {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
                for target in named & found.keys() - {name}:
                    found[target].add(name)
    return found


def static_figures() -> dict[str, float]:
    """Return the figures that need no run."""
    server = sorted((PACKAGE / "testing" / "fake").rglob("*.py"))
    paths = [path for path in sorted(PACKAGE.rglob("*.py")) if path not in server]
    sources = [path.read_text() for path in paths]
    code = sum(map(code_lines, sources))
    names = [node for text in sources for node in ast.walk(ast.parse(text))]
    uses = sum(isinstance(node, ast.Name) and node.id == "Any" for node in names)
    single = sum(len(found) == 1 for found in importers(paths).values())
    return {
        "files": len(paths),
        "lines": sum(text.count("\n") for text in sources),
        "code lines": code,
        "`Any` per 100 code lines": round(100 * uses / code, 1),
        "modules with one importer": single,
        "the server of `FakeGemini`, not counted above: files": len(server),
        "its code lines": sum(code_lines(path.read_text()) for path in server),
    }


def invoke_figures() -> dict[str, float]:
    """Return what one `invoke` enters, with one tool and four messages, on a model in use."""

    def get_weather(city: str) -> str:
        """Current weather in a city."""
        return f"Sunny in {city}"

    messages = [
        SystemMessage("Be brief."),
        HumanMessage("Weather in Oslo?"),
        AIMessage("", tool_calls=[{"name": "get_weather", "args": {"city": "Oslo"}, "id": "1"}]),
        ToolMessage("Sunny in Oslo", tool_call_id="1"),
    ]
    with Emulator() as emulator:
        model = ChatGemini(model="gemini-2.5-flash", api_key=API_KEY, base_url=emulator.url)
        bound = model.bind_tools([get_weather])
        for _ in range(2):
            emulator.reply("It is sunny.")
        bound.invoke(messages)
        visits = _visits(lambda: bound.invoke(messages))
        model.close()
    files = [file for file, _ in visits]
    return {
        "functions entered by one `invoke`": len(set(visits)),
        "files visited": len(set(files)),
        "switches between files": sum(a != b for a, b in itertools.pairwise(files)),
    }


def _visits(run: Any) -> list[tuple[str, str]]:
    visits: list[tuple[str, str]] = []

    def profile(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        is_function = event == "call" and not code.co_name.startswith("<")  # no comprehensions
        if is_function and code.co_filename.startswith(str(PACKAGE)):
            visits.append((code.co_filename, code.co_qualname))

    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(None)
    return visits


def render(figures: dict[str, float]) -> str:
    """Return the figures as a table."""
    rows = [f"| {name} | {value:,} |" for name, value in figures.items()]
    return "\n".join(["| | |", "|---|--:|", *rows, ""])


def main() -> None:
    table = render(static_figures() | invoke_figures())
    print(table)
    text = PAGE.read_text()
    if _BLOCK.search(text):
        PAGE.write_text(_BLOCK.sub(lambda _: table, text))


def modules() -> list[Path]:
    """Return every module except those of the fake server."""
    return [path for path in sorted(PACKAGE.rglob("*.py")) if not FAKE & {path, *path.parents}]


@functools.cache
def literals_of(path: Path) -> frozenset[str]:
    """Return every string literal of a module."""
    nodes = ast.walk(ast.parse(path.read_text()))
    values = (node.value for node in nodes if isinstance(node, ast.Constant))
    return frozenset(value for value in values if isinstance(value, str))


def modules_with(*literals: str) -> set[str]:
    """Return the modules with one of these string literals, except those of the fake server."""
    naming = [path for path in modules() if not literals_of(path).isdisjoint(literals)]
    return {path.relative_to(PACKAGE).as_posix() for path in naming}


if __name__ == "__main__":
    main()
