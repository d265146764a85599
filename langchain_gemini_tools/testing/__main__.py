"""`python -m langchain_gemini_tools.testing audit PATH...`, or `serve`."""

from __future__ import annotations

import json
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from langchain_gemini_tools.testing.fake.script import Reply


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 1 if there is a problem."""
    import argparse

    parser = argparse.ArgumentParser(prog="python -m langchain_gemini_tools.testing")
    commands = parser.add_subparsers(dest="command", required=True)
    _add_audit(commands)
    _add_serve(commands)
    given = parser.parse_args(arguments)
    if given.command == "serve":
        return serve(given)
    if given.usage and not given.usage.is_file():
        parser.error(f"--usage: the file {given.usage} does not exist")
    from langchain_gemini_tools.testing.audit import run  # needs the extra `testing`

    return run(given)


def _add_audit(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "audit", help="check cassettes for secrets, unused responses and their origin"
    )
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH")
    parser.add_argument(
        "--usage", type=Path, metavar="FILE", help="what `pytest --cassette-usage FILE` wrote"
    )


def _add_serve(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "serve",
        help="serve a fake Gemini on this machine",
        description="Serve a strict Gemini on this machine, without a key, for notebooks, other "
        "programs and other languages. It prints the environment variables to set, and runs until "
        "it is interrupted.",
    )
    parser.add_argument("--port", type=int, default=0, help="by default a free one")
    parser.add_argument(
        "--replies",
        type=Path,
        metavar="FILE",
        help="scripted replies: one JSON object per line with the arguments of `reply`, such as "
        '{"calls": [["get_weather", {"city": "Oslo"}]]}; without it, simple rules answer',
    )
    parser.add_argument(
        "--lenient", action="store_true", help="only warn about rules that are inferred"
    )
    parser.add_argument(
        "--rules", action="store_true", help="list what is refused, and how we know it; then exit"
    )


def serve(arguments: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM; return the exit code."""
    from langchain_gemini_tools.testing.fake_gemini import FakeGemini, environment_for

    if arguments.rules:
        from langchain_gemini_tools.testing.fake.rules.listing import list_rules, render_rules

        _print(render_rules(list_rules()))
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
    gemini.start()
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
    from langchain_gemini_tools.testing.fake.script import Reply

    lines = path.read_text(encoding="utf-8").splitlines()
    return [Reply(**json.loads(line)) for line in lines if line.strip()]


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
