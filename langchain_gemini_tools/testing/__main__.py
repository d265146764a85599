"""The commands of `python -m langchain_gemini_tools.testing`: `audit PATH...` and `serve`.

`audit` checks cassettes before they are published: secrets, unused responses, and where they come
from. `serve` runs a `FakeGemini` for other programs.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from langchain_gemini_tools.facts.environment import environment_secrets
from langchain_gemini_tools.testing.cassettes import CassetteFileError
from langchain_gemini_tools.testing.files import (
    FIRST_KEY,
    deserialize,
    load_yaml,
    recorded_against,
)
from langchain_gemini_tools.testing.redaction import REQUEST_HEADERS, RESPONSE_HEADERS, Redactor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from langchain_gemini_tools.facts.json_values import JsonObject
    from langchain_gemini_tools.testing.fake.script import Reply


_RULES = Path(__file__).with_name("fake") / "RULES.txt"


class _ArgumentError(Exception):
    """An argument cannot be used."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 1 if there is a problem."""
    parser = _parser()
    given = parser.parse_args(arguments)
    try:
        return serve(given) if given.command == "serve" else _run_audit(given)
    except _ArgumentError as error:
        parser.error(str(error))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m langchain_gemini_tools.testing",
        description="Serve a fake Gemini, or check cassettes.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    audit = commands.add_parser(
        "audit",
        help="check cassettes for secrets, unused responses and their origin",
        description="Check cassettes for secrets, for files that do not say where they come from, "
        "and with --usage for responses that no test used. The exit code is 1 if there is a "
        "problem, or if there are no cassettes.",
    )
    add = audit.add_argument
    add("paths", nargs="+", type=Path, metavar="PATH", help="a cassette, or a folder of cassettes")
    usage = "the file that `pytest --cassette-usage FILE` wrote"
    add("--usage", type=Path, metavar="FILE", help=usage)
    serve = commands.add_parser(
        "serve",
        help="serve a fake Gemini on this machine",
        description="Serve a strict Gemini on this machine, without a key, for notebooks, other "
        "programs and other languages. It prints the environment variables to set, and runs until "
        "it is interrupted.",
    )
    replies = (
        "scripted replies: one JSON object per line with the arguments of `reply`, such as "
        '{"calls": [["get_weather", {"city": "Oslo"}]]}; without it, simple rules answer'
    )
    rules = "list the rules with their evidence, and exit"
    add = serve.add_argument
    add("--port", type=int, default=0, help="default: a free port")
    add("--replies", type=Path, metavar="FILE", help=replies)
    add("--lenient", action="store_true", help="only warn where a rule is inferred")
    add("--rules", action="store_true", help=rules)
    return parser


def serve(arguments: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM; return the exit code."""
    from langchain_gemini_tools.testing.fake_gemini import FakeGemini, environment_for

    if arguments.rules:
        _print(_RULES.read_text(encoding="utf-8").rstrip())
        return 0
    gemini = FakeGemini(
        strict=not arguments.lenient,
        allow_unused=True,
        set_environment=False,
        port=arguments.port,
    )
    if arguments.replies:
        gemini.script(*_read_replies(arguments.replies))
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    try:
        gemini.start()
    except (OSError, OverflowError) as error:
        raise _ArgumentError(f"--port {arguments.port}: {error}") from error
    _print(f"FakeGemini listens at {gemini.url}. Set these variables for its clients:\n")
    for name, value in environment_for(gemini.url).items():
        _print(f"export {name}={value}" if value is not None else f"unset {name}")
    _print("\nCtrl-C stops it.")
    stopped.wait()
    gemini.stop(check=False)
    _print(f"\n{len(gemini.requests)} requests, {len(gemini.refusals)} refused.")
    for refusal in gemini.refusals:
        _print(f"  {refusal.code}: {refusal.why or refusal.message}")
    return 0


def _read_replies(path: Path) -> list[Reply]:
    replies = []
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise _ArgumentError(f"--replies {path}: {error}") from error
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                replies.append(_read_reply(line))
            except (TypeError, ValueError) as error:
                raise _ArgumentError(f"--replies {path}, line {number}: {error}") from error
    return replies


def _read_reply(line: str) -> Reply:
    from langchain_gemini_tools.testing.fake.script import Reply

    arguments = json.loads(line)
    if not isinstance(arguments, dict):
        raise TypeError('each line is one JSON object, such as {"text": "Yes."}')
    return Reply(**arguments)


def find_cassettes(paths: Iterable[Path]) -> list[Path]:
    """Return the given files, and all YAML files in the given folders."""
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            files = (file for file in path.rglob("*") if file.suffix in (".yaml", ".yml"))
            found |= dict.fromkeys(sorted(filter(Path.is_file, files)))
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
        unused: The numbers of interactions that no test used, if known.
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
        redactor = Redactor(environment_secrets())
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
    actual = recorded_against(data["interactions"])
    if stated != actual:
        yield f"says it was recorded against {stated!r}, but its addresses say {actual!r}"


def _find_secrets(found: JsonObject) -> Iterator[str]:
    for side, allowed in (("request", REQUEST_HEADERS), ("response", RESPONSE_HEADERS)):
        others = [name for name in found[side].get("headers") or {} if name.lower() not in allowed]
        if others:
            words = "header {} is not" if len(others) == 1 else "headers {} are not"
            named = words.format(", ".join(map(repr, others)))
            yield f"{side}: the {named} one of {', '.join(sorted(allowed))}"
    redactor = Redactor(environment_secrets())
    yield from redactor.interaction_leaks(found)
    uri = found["request"]["uri"]
    if redactor.uri(uri) != uri and "/projects/" not in uri:
        yield "request: the address contains a credential"


def read_usage(path: Path) -> dict[Path, list[int]]:
    """Read what `--cassette-usage` wrote: for each cassette, the interactions no test used."""
    unused: dict[Path, set[int]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            noted = json.loads(line)
            cassette, left = Path(noted["cassette"]), set(noted["unused"])
        except (ValueError, KeyError, TypeError) as error:
            raise _ArgumentError(
                f"--usage {path}, line {number}: pytest --cassette-usage did not write this"
            ) from error
        unused[cassette] = unused[cassette] & left if cassette in unused else left
    return {cassette: sorted(left) for cassette, left in unused.items()}


def _run_audit(given: argparse.Namespace) -> int:
    """Print the problems and return the exit code."""
    if given.usage and not given.usage.is_file():
        raise _ArgumentError(f"--usage: the file {given.usage} does not exist")
    files = find_cassettes(given.paths)
    problems = audit(given.paths, given.usage)
    for path, problem in problems:
        _print(f"{path}: {problem}")
    _print(f"{_count(files, 'cassette')}, {_count(problems, 'problem')}")
    return 1 if problems or not files else 0


def _print(text: str) -> None:
    if sys.stdout is not None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def _count(items: Sequence[object], noun: str) -> str:
    return f"{len(items)} {noun}" if len(items) == 1 else f"{len(items)} {noun}s"


def _run() -> int:
    try:
        return main()
    except KeyboardInterrupt:
        return 130  # as shells report it
    except BrokenPipeError:  # as of `| head`: Python would write to it again at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":
    sys.exit(_run())
