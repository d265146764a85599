"""The responses in `tests/data/text_calls`, each with the expected pieces."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from langchain_gemini_tools.prompted.parser import ToolCallParser
from langchain_gemini_tools.prompted.text import BrokenToolCall, ParsedPiece, join_texts

FOLDER = Path(__file__).parents[2] / "data" / "text_calls"


@dataclass(frozen=True)
class ModelResponse:
    """One response of a model, with the pieces that a human reader expects."""

    id: str
    tools: list[str]
    text: str
    pieces: list[dict[str, Any]]


# In C it takes a tenth of the time; each test process reads the whole corpus.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_book(path: Path) -> Any:
    """Return a file of model responses as YAML has it."""
    return yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)


def _load(path: Path) -> list[ModelResponse]:
    book = read_book(path)
    return [
        ModelResponse(
            id=f"{path.stem}/{entry['id']}",
            tools=entry.get("tools", book["tools"]),
            text=entry["answer"],
            pieces=[{"text": entry["answer"]}] if entry["pieces"] == "same" else entry["pieces"],
        )
        for entry in book["answers"]
    ]


RESPONSES = [response for path in sorted(FOLDER.glob("*.yaml")) for response in _load(path)]


def show(piece: ParsedPiece, wanted: dict[str, Any]) -> dict[str, Any]:
    """A piece in the notation of the corpus; of a reason, the expected words that it contains."""
    if isinstance(piece, str):
        return {"text": piece}
    if not isinstance(piece, BrokenToolCall):
        return {"call": piece.name, "args": piece.args}
    said = [words for words in wanted.get("says", []) if words in piece.reason]
    return {"broken": piece.name, "says": said} | ({"cut": True} if piece.is_cut else {})


def parse_pieces(texts: list[str], tools: list[str]) -> list[ParsedPiece]:
    """Parse a response that arrives in these chunks."""
    parser = ToolCallParser(tools)
    pieces = [piece for text in texts for piece in parser.feed(text)]
    return join_texts([*pieces, *parser.finish()])
