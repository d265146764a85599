"""`python -m langchain_gemini_tools.testing audit PATH...` exits with 1 if something is wrong."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from langchain_gemini_tools.testing.audit import audit, find_cassettes

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m langchain_gemini_tools.testing")
    commands = parser.add_subparsers(dest="command", required=True)
    auditing = commands.add_parser(
        "audit", help="look through cassettes for secrets, unused answers and their origin"
    )
    auditing.add_argument("paths", nargs="+", type=Path, metavar="PATH")
    auditing.add_argument(
        "--usage", type=Path, metavar="FILE", help="what `pytest --cassette-usage FILE` wrote"
    )
    given = parser.parse_args(arguments)
    if given.usage and not given.usage.is_file():
        parser.error(f"--usage: there is no file {given.usage}")
    files = find_cassettes(given.paths)
    problems = audit(given.paths, given.usage)
    for path, problem in problems:
        sys.stdout.write(f"{path}: {problem}\n")
    affected = len({path for path, _ in problems})
    sys.stdout.write(f"{len(files)} cassettes, {len(problems)} problems in {affected} of them\n")
    return 1 if problems or not files else 0


if __name__ == "__main__":
    sys.exit(main())
