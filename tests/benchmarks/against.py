"""Compares the CPU cost with another commit: `make bench-against COMMIT=dcebdb7`.

Both run the scenarios of this checkout alternately, in two processes of the same environment. The
report has the ratio of the lowest CPU times, which other programs on the machine disturb least, and
the median of the ratios inside a round.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.run import Stub, Worker
from tests.benchmarks.scenarios import SCENARIOS

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT = Path(__file__).parents[2]
_PACKAGE = "langchain_gemini_tools"


@contextmanager
def _checked_out(commit: str) -> Iterator[Path]:
    """Yield a folder with the package of that commit and the tests of this checkout."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        archive = subprocess.check_output(["git", "archive", commit, _PACKAGE], cwd=_ROOT)
        subprocess.run(["tar", "-x"], cwd=folder, check=True, input=archive)
        (folder / "tests").symlink_to(_ROOT / "tests")
        yield folder


def _environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": str(folder),
        "PYTHONSAFEPATH": "1",
        "PYTHONHASHSEED": "0",
    }


def _measure(name: str, old: Worker, new: Worker, args: argparse.Namespace) -> str:
    """Return the CPU time of the old package and of the new one, as a row."""
    old.rehearse(name)
    new.rehearse(name)
    rounds = []
    for number in range(args.heavy_rounds if SCENARIOS[name].is_heavy else args.rounds):
        order = (old, new) if number % 2 else (new, old)
        cpu = {id(worker): worker.measure(name, args.seconds)["cpu"] for worker in order}
        rounds.append((cpu[id(old)], cpu[id(new)]))
    least_old, least_new = (1000 * min(times) for times in zip(*rounds, strict=True))
    median = statistics.median(new_time / old_time for old_time, new_time in rounds)
    return f"{least_old:10.3f} {least_new:10.3f} {least_new / least_old:7.2f} {median:7.2f}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--heavy-rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.2)
    parser.add_argument("--only", nargs="*", choices=SCENARIOS)
    return parser.parse_args()


def main() -> None:
    args = _arguments()
    with ExitStack() as stack:
        stub = stack.enter_context(Stub())
        folders = (stack.enter_context(_checked_out(args.commit)), _ROOT)
        old, new = (
            stack.enter_context(Worker("ours", sys.executable, stub, _environment(folder)))
            for folder in folders
        )
        print(f"{'':18} {'old ms':>10} {'new ms':>10} {'least':>7} {'median':>7}")
        for name in args.only or SCENARIOS:
            print(f"{name:18} {_measure(name, old, new, args)}", flush=True)


if __name__ == "__main__":
    main()
