"""Grounding metadata -> what core reads citations from.

LangChain's citations count characters of the text. The API counts bytes of UTF-8, and after some
marks it is off by a few; it also repeats the cited words, and where they stand is what counts.
"""

from __future__ import annotations

from typing import Any

from langchain_gemini_tools.facts.spelling import snake


def parse_grounding(grounding: Any, text: str) -> Any:
    """Grounding metadata in LangChain's spelling, its segments placed in the answer's text."""
    known = _snake_keys(grounding)
    supports = known.get("grounding_supports") if isinstance(known, dict) else None
    for support in supports if isinstance(supports, list) else ():
        if isinstance(support, dict) and isinstance(segment := support.get("segment"), dict):
            segment |= _place(segment, text)
    return known


def _place(segment: dict[str, Any], text: str) -> dict[str, int]:
    start, end = segment.get("start_index", 0), segment.get("end_index")
    if type(start) is not int or type(end) is not int:
        return {}
    raw = text.encode("utf-8", "surrogatepass")
    first = len(raw[:start].decode("utf-8", "ignore"))
    words = segment.get("text")
    if not isinstance(words, str) or not words:
        return {"start_index": first, "end_index": len(raw[:end].decode("utf-8", "ignore"))}
    places = {text.find(words, first), text.rfind(words, 0, first + len(words))} - {-1}
    first = min(places, key=lambda place: abs(place - first), default=first)
    return {"start_index": first, "end_index": first + len(words)}


def _snake_keys(value: Any) -> Any:
    """Keys as core's translator reads them; it crashes on `None`, and reads `placeId`."""
    if isinstance(value, dict):
        kept = {key: item for key, item in value.items() if item is not None}
        return {k if k == "placeId" else snake(k): _snake_keys(v) for k, v in kept.items()}
    if isinstance(value, list):
        return [_snake_keys(item) for item in value]
    return value


def is_citable(grounding: Any) -> bool:
    """Whether core's `content_blocks` can read citations out of this; otherwise it would raise."""
    match grounding:
        case {"grounding_supports": list(supports), **rest}:
            chunks = rest.get("grounding_chunks", [])
        case dict() if "grounding_supports" not in grounding:
            return True
        case _:
            return False
    return _are_chunks(chunks) and all(map(_is_support, supports))


def _are_chunks(chunks: Any) -> bool:
    return isinstance(chunks, list) and all(
        isinstance(chunk, dict)
        and all(isinstance(chunk.get(kind, {}), dict) for kind in ("web", "maps"))
        for chunk in chunks
    )


def _is_support(support: Any) -> bool:
    if not isinstance(support, dict) or not isinstance(support.get("segment", {}), dict):
        return False
    indices = support.get("grounding_chunk_indices", [])
    return isinstance(indices, list) and all(type(index) is int and index >= 0 for index in indices)
