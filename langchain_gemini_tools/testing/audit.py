"""Look through cassettes that somebody wants to publish: secrets, unused answers, provenance."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.testing.bodies import joined_text
from langchain_gemini_tools.testing.errors import CassetteFileError
from langchain_gemini_tools.testing.files import FIRST_KEY, deserialize, load, recorded_against
from langchain_gemini_tools.testing.secrets import (
    REQUEST_HEADERS,
    RESPONSE_HEADERS,
    Scrubber,
    credentials_of_the_environment,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    JsonObject = dict[str, Any]

_SUFFIXES = (".yaml", ".yml")


def find_cassettes(paths: Iterable[Path]) -> list[Path]:
    """The files named, and all YAML files under the folders named."""
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.suffix in _SUFFIXES and p.is_file())
            found |= dict.fromkeys(inside)
        else:
            found[path] = None
    return list(found)


def audit_file(path: Path, unused: Iterable[int] = ()) -> Iterator[str]:
    """What is wrong with a cassette, one line each.

    Args:
        path: The cassette.
        unused: The numbers of interactions that no test asked for, as far as known.
    """
    try:
        text = path.read_text(encoding="utf-8")
        data = load(text)
        deserialize(text)
    except (OSError, UnicodeError) as error:
        yield f"cannot be read: {error}"
        return
    except CassetteFileError as error:
        yield f"is no cassette to load: {error}"
        return
    yield from _provenance(data)
    secrets = [
        f"interaction {number}, {problem}"
        for number, found in enumerate(data["interactions"], start=1)
        for problem in _secrets(found)
    ]
    if not secrets:  # comments, and whatever else stands beside the interactions
        scrubber = Scrubber(credentials_of_the_environment())
        secrets = list(scrubber.leaks(text, "beside the interactions"))
    yield from secrets
    for number in unused:
        yield f"interaction {number} was not asked for by any test"
    if path.name.endswith(".failed.yaml"):
        yield "was left by a run that failed: rename it, or remove it"


def _provenance(data: JsonObject) -> Iterator[str]:
    said = data.get(FIRST_KEY)
    if not said:
        yield f"does not say where it comes from (no {FIRST_KEY!r}): record it again"
        return
    found = [
        {**one, "response": {**one["response"], "headers": one["response"].get("headers") or {}}}
        for one in data["interactions"]
    ]
    actual = recorded_against(found)
    if said != actual:
        yield f"says it was recorded against {said!r}, and its addresses say {actual!r}"


def _secrets(found: JsonObject) -> Iterator[str]:
    for side, allowed in (("request", REQUEST_HEADERS), ("response", RESPONSE_HEADERS)):
        for name in found[side].get("headers") or {}:
            if name.lower() not in allowed:
                yield f"{side}: the header {name!r} is not one of {', '.join(sorted(allowed))}"
    scrubber = Scrubber(credentials_of_the_environment())
    yield from scrubber.leaks(found)
    for side in ("request", "response"):
        together = joined_text(found[side].get("body"))
        yield from scrubber.leaks(together, f"{side}.texts together")
    uri = found["request"]["uri"]
    if scrubber.uri(uri) != uri and "/projects/" not in uri:
        yield "request: the address holds a credential"


def read_usage(path: Path) -> dict[Path, list[int]]:
    """What `--cassette-usage` wrote: for each cassette, what none of the tests asked for."""
    unused: dict[Path, set[int]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        noted = json.loads(line)
        cassette = Path(noted["cassette"])
        left = set(noted["unused"])
        unused[cassette] = unused[cassette] & left if cassette in unused else left
    return {cassette: sorted(left) for cassette, left in unused.items()}


def audit(paths: Iterable[Path], usage: Path | None = None) -> list[tuple[Path, str]]:
    """Everything that is wrong, by file."""
    unused = read_usage(usage) if usage else {}
    problems = []
    for path in find_cassettes(paths):
        absolute = path.resolve()
        problems += [(path, problem) for problem in audit_file(path, unused.get(absolute, ()))]
        if usage and absolute not in unused:
            problems.append((path, "was not opened by any test"))
    return problems
