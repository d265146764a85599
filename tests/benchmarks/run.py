"""The whole measurement: `make bench`, or `python -m tests.benchmarks.run --help`.

In each round, all subjects run the same scenario one after the other, so that a busy moment of the
machine affects all of them. The report has the median of the ratios inside a round.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import statistics
import subprocess
import sys
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tests.benchmarks import memory, start_up
from tests.benchmarks.checking import DifferentWorkError, check_seen, check_sent
from tests.benchmarks.picture import render_picture
from tests.benchmarks.report import render_table, summarise
from tests.benchmarks.scenarios import SCENARIOS
from tests.benchmarks.subjects import NAMES

if TYPE_CHECKING:
    from tests.benchmarks.scenarios import Scenario

_RESULTS = Path(__file__).parent / "results"


class Stub:
    """The server of canned replies; it runs until the end of the `with` block."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.stub"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout
        self.url = f"http://127.0.0.1:{self._process.stdout.readline().strip()}"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def take(self) -> dict[str, Any]:
        """Return what the server has received since the last call."""
        with urllib.request.urlopen(f"{self.url}/__take") as response:
            taken: dict[str, Any] = json.load(response)
        return taken


class Worker:
    """A subject that runs in its own process."""

    def __init__(
        self, name: str, python: str, stub: Stub, environment: dict[str, str] | None = None
    ) -> None:
        self.name = name
        self._stub = stub
        self._checksums: dict[str, set[int]] = {}
        self._process = subprocess.Popen(
            [python, "-m", "tests.benchmarks.worker", name, stub.url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def rehearse(self, scenario_name: str) -> dict[str, Any] | None:
        """Run a scenario once, untimed, and remember what was sent; None if it is not possible."""
        result = self._ask(scenario_name, 0.0)
        taken = self._stub.take()
        scenario = SCENARIOS[scenario_name]
        if result is not None and scenario.sends:
            check_sent(self.name, scenario, taken["last"])
        self._checksums[scenario_name] = set(taken["checksums"])
        return result

    def measure(self, scenario_name: str, seconds: float) -> dict[str, Any]:
        """Return the CPU time of one run.

        Raises:
            DifferentWorkError: The subject sent something else than in the rehearsal.
        """
        result = self._ask(scenario_name, seconds)
        if result is None or set(self._stub.take()["checksums"]) != self._checksums[scenario_name]:
            raise DifferentWorkError(f"{self.name} sent something new in {scenario_name!r}.")
        return result

    def _ask(self, scenario_name: str, seconds: float) -> dict[str, Any] | None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps({"scenario": scenario_name, "seconds": seconds}))
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        result: dict[str, Any] | None = json.loads(self._process.stdout.readline())
        return result


def _run_scenario(name: str, workers: list[Worker], args: argparse.Namespace) -> dict[str, Any]:
    """Return the CPU seconds of every round by subject, and for the loop those of every turn."""
    scenario: Scenario = SCENARIOS[name]
    seen = {worker.name: result["seen"] for worker in workers if (result := worker.rehearse(name))}
    is_loop = name == "loop"
    if not is_loop:  # its result is a list of times
        check_seen(scenario, seen)
    able = [worker for worker in workers if worker.name in seen]
    rounds: list[dict[str, float]] = []
    growth: dict[str, list[list[float]]] = {worker.name: [] for worker in able}
    for number in range(args.heavy_rounds if scenario.is_heavy else args.rounds):
        first = number % len(able)
        cpu: dict[str, float] = {}
        for worker in [*able[first:], *able[:first]]:
            result = worker.measure(name, args.seconds)
            cpu[worker.name] = result["cpu"]
            if is_loop:
                growth[worker.name].append(result["seen"])
        rounds.append(cpu)
    marks = {
        subject: [statistics.median(step) for step in zip(*runs, strict=True)]
        for subject, runs in growth.items()
        if runs
    }
    return {"rounds": rounds, **({"growth": marks} if is_loop else {})}


def _run_start_up(pythons: dict[str, str], stub: Stub, rounds: int) -> dict[str, Any]:
    result = [
        {name: start_up.measure(name, pythons[name], stub.url) for name in start_up.SUBJECTS}
        for _ in range(rounds + 1)
    ][1:]  # the first one writes bytecode
    return {
        "import": {"rounds": [{n: one[n]["import"] for n in one} for one in result]},
        "first_byte": {"rounds": [{n: one[n]["first_byte"] for n in one} for one in result]},
        "sdk_is_loaded_by_import": result[0]["ours"]["sdk_is_loaded"],
    }


def _run_memory(pythons: dict[str, str], stub: Stub) -> dict[str, Any]:
    found: dict[str, Any] = {"image": {}, "growth": {}}
    for what, by_subject in found.items():
        for name in memory.SUBJECTS:
            command = [pythons[name], "-m", "tests.benchmarks.memory", what, name, stub.url]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            by_subject[name] = json.loads(done.stdout)
    return found


def _environment(pythons: dict[str, str]) -> dict[str, Any]:
    packages = ("langchain-core", "google-genai", "httpx2", "pydantic", "langchain-google-genai")
    script = (
        "import importlib.metadata as m, json, sys\nfound = {}\nfor name in sys.argv[1:]:\n"
        "    try: found[name] = m.version(name)\n"
        "    except m.PackageNotFoundError: pass\nprint(json.dumps(found))"
    )
    versions = {
        name: json.loads(subprocess.check_output([pythons[name], "-c", script, *packages]))
        for name in ("ours", "peer")
    }
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "langchain-gemini-tools": importlib.metadata.version("langchain-gemini-tools"),
        "packages": versions,
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="CPU time of ChatGemini next to others.")
    parser.add_argument("--peer-python", required=True, help="interpreter that has the peer")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--heavy-rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.2, help="CPU for a subject in a round")
    parser.add_argument("--only", nargs="*", choices=SCENARIOS, help="only these scenarios")
    parser.add_argument("--output", type=Path, default=_RESULTS, help="folder for the results")
    return parser.parse_args()


def main() -> None:
    args = _arguments()
    pythons = dict.fromkeys(NAMES, sys.executable) | {"peer": args.peer_python}
    measured: dict[str, Any] = {"environment": _environment(pythons), "scenarios": {}}
    with ExitStack() as stack:
        stub = stack.enter_context(Stub())
        workers = [stack.enter_context(Worker(name, pythons[name], stub)) for name in NAMES]
        for name in args.only or SCENARIOS:
            measured["scenarios"][name] = _run_scenario(name, workers, args)
            print(f"{name} done", file=sys.stderr, flush=True)
        if not args.only:
            measured["start_up"] = _run_start_up(pythons, stub, args.rounds)
            measured["memory"] = _run_memory(pythons, stub)
    summary = summarise(measured)
    print(render_table(summary))
    if args.only:
        return
    args.output.mkdir(parents=True, exist_ok=True)
    (args.output / "latest.json").write_text(json.dumps(summary, indent=1) + "\n")
    (args.output / "loop.svg").write_text(render_picture(measured["scenarios"]["loop"]["growth"]))


if __name__ == "__main__":
    main()
