"""Check cassettes before they are published: secrets, unused responses, where they come from."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from langchain_gemini_tools.facts.credentials import environment_keys
from langchain_gemini_tools.testing.errors import CassetteFileError
from langchain_gemini_tools.testing.files import (
    FIRST_KEY,
    deserialize,
    joined_text,
    load_yaml,
    recorded_against,
)
from langchain_gemini_tools.testing.redaction import REQUEST_HEADERS, RESPONSE_HEADERS, Redactor

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from langchain_gemini_tools.testing.files import JsonObject

_SUFFIXES = (".yaml", ".yml")


def find_cassettes(paths: Iterable[Path]) -> list[Path]:
    """Return the given files, and all YAML files in the given folders."""
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.suffix in _SUFFIXES and p.is_file())
            found |= dict.fromkeys(inside)
        else:
            found[path] = None
    return list(found)


def audit(paths: Iterable[Path], usage: Path | None = None) -> list[tuple[Path, str]]:
    """Return all problems, each with its file.

    Args:
        paths: Cassettes, or folders of cassettes.
        usage: The file that `pytest --cassette-usage` wrote.
    """
    unused = read_usage(usage) if usage else {}
    problems = []
    for path in find_cassettes(paths):
        absolute = path.resolve()
        problems += [(path, problem) for problem in audit_file(path, unused.get(absolute, ()))]
        if usage and absolute not in unused:
            problems.append((path, "was not opened by any test"))
    return problems


def audit_file(path: Path, unused: Iterable[int] = ()) -> Iterator[str]:
    """Yield the problems of a cassette, one line each.

    Args:
        path: The cassette.
        unused: The numbers of interactions that no test used, as far as known.
    """
    try:
        text = path.read_text(encoding="utf-8")
        data = load_yaml(text)
        deserialize(text)
    except (OSError, UnicodeError) as error:
        yield f"cannot be read: {error}"
        return
    except CassetteFileError as error:
        yield f"cannot be loaded: {error}"
        return
    yield from _check_provenance(data)
    secrets = [
        f"interaction {number}, {problem}"
        for number, found in enumerate(data["interactions"], start=1)
        for problem in _find_secrets(found)
    ]
    if not secrets:  # comments and other text outside the interactions
        redactor = Redactor(environment_keys())
        secrets = list(redactor.leaks(text, "outside the interactions"))
    yield from secrets
    for number in unused:
        yield f"interaction {number} was not used by any test"
    if path.name.endswith(".failed.yaml"):
        yield "was left by a failed run: rename it or delete it"


def _check_provenance(data: JsonObject) -> Iterator[str]:
    stated = data.get(FIRST_KEY)
    if not stated:
        yield f"does not say where it comes from (no {FIRST_KEY!r}): record it again"
        return
    found = [
        {**one, "response": {**one["response"], "headers": one["response"].get("headers") or {}}}
        for one in data["interactions"]
    ]
    actual = recorded_against(found)
    if stated != actual:
        yield f"says it was recorded against {stated!r}, but its addresses say {actual!r}"


def _find_secrets(found: JsonObject) -> Iterator[str]:
    for side, allowed in (("request", REQUEST_HEADERS), ("response", RESPONSE_HEADERS)):
        for name in found[side].get("headers") or {}:
            if name.lower() not in allowed:
                yield f"{side}: the header {name!r} is not one of {', '.join(sorted(allowed))}"
    redactor = Redactor(environment_keys())
    yield from redactor.leaks(found)
    for side in ("request", "response"):
        joined = joined_text(found[side].get("body"))
        yield from redactor.leaks(joined, f"{side}.joined text")
    uri = found["request"]["uri"]
    if redactor.uri(uri) != uri and "/projects/" not in uri:
        yield "request: the address contains a credential"


def read_usage(path: Path) -> dict[Path, list[int]]:
    """Read what `--cassette-usage` wrote: for each cassette, the interactions no test used."""
    unused: dict[Path, set[int]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        noted = json.loads(line)
        cassette = Path(noted["cassette"])
        left = set(noted["unused"])
        unused[cassette] = unused[cassette] & left if cassette in unused else left
    return {cassette: sorted(left) for cassette, left in unused.items()}


def run(given: argparse.Namespace) -> int:
    """Print the problems and return the exit code."""
    files = find_cassettes(given.paths)
    problems = audit(given.paths, given.usage)
    for path, problem in problems:
        sys.stdout.write(f"{path}: {problem}\n")
    affected = len({path for path, _ in problems})
    sys.stdout.write(f"{len(files)} cassettes, {len(problems)} problems in {affected} of them\n")
    return 1 if problems or not files else 0
