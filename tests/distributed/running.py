"""Runs the programs of `docs/how-to/scale.md` against a `FakeGemini` in another process.

The server counts the requests, so what is sent twice is a number.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from tests.documentation import DOCS, blocks_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ITEMS = int(os.environ.get("DISTRIBUTED_ITEMS", "2000"))
"""How many questions the larger tests ask."""
WORKERS = 2
CHUNK_SIZE = 100
NO_LIMIT = 1_000_000

_PROGRAMS = {"dask": "with_dask.py", "ray": "with_ray.py"}
_WORKER_COMMANDS = {"dask": "spawn_main", "ray": "ray::MapWorker"}


def recipes() -> dict[str, str]:
    """Return the programs of the page, by the file name in their first line."""
    blocks = [block for block in blocks_of(DOCS / "how-to/scale.md") if block.language == "python"]
    named = [(re.match(r"# (\w+\.py)\n", block.text), block.text) for block in blocks]
    return {found[1]: text for found, text in named if found}


# The server


@dataclass
class Server:
    """`python -m langchain_gemini_tools.testing serve`."""

    process: subprocess.Popen[str]
    environment: dict[str, str]
    """Ours, with the variables that lead clients to the server."""

    @property
    def cpu_seconds(self) -> float:
        """What it has used so far."""
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)

    def stop(self) -> int:
        """Stop it, and return how many requests it has received; none may be refused."""
        self.process.terminate()
        output, _ = self.process.communicate(timeout=60)
        found = re.search(r"(\d+) requests, (\d+) refused", output)
        assert found, output
        assert found[2] == "0", output
        return int(found[1])


@contextmanager
def serving() -> Iterator[Server]:
    """Serve until the end of the block."""
    command = [sys.executable, "-m", "langchain_gemini_tools.testing", "serve"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield Server(process, _read_environment(process))
    finally:
        process.kill()
        process.wait()


def _read_environment(server: subprocess.Popen[str]) -> dict[str, str]:
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    assert server.stdout
    for line in server.stdout:
        verb, _, rest = line.rstrip("\n").partition(" ")
        name, _, value = rest.partition("=")
        if verb == "export":
            environment[name] = value
        elif verb == "unset":
            environment.pop(name, None)
        elif verb == "Ctrl-C":
            break
    return environment


# The program


@dataclass
class Job:
    """A program in a folder with questions and answers."""

    engine: str
    folder: Path
    environment: dict[str, str]
    peak_megabytes: dict[int, float] = field(default_factory=dict)
    """The largest memory of each worker, by its process id."""
    cpu_seconds: float = 0.0
    """Of all processes of the program."""

    def write(self, items: int, requests_per_second: int = NO_LIMIT) -> None:
        """Write the programs and the questions."""
        programs = recipes()
        limit = "REQUESTS_PER_SECOND = 100 "
        settings = (f"WORKERS = {WORKERS}\n", f"CHUNK_SIZE = {CHUNK_SIZE}\n", limit)
        assert all(programs["answering.py"].count(setting) == 1 for setting in settings)
        changed = f"REQUESTS_PER_SECOND = {requests_per_second} "
        programs["answering.py"] = programs["answering.py"].replace(limit, changed)
        rows = [{"id": str(n), "question": question(n)} for n in range(items)]
        programs["questions.jsonl"] = "".join(json.dumps(row) + "\n" for row in rows)
        for name, text in programs.items():
            (self.folder / name).write_text(text, encoding="utf-8")

    def run(self, meanwhile: Callable[[psutil.Process], None] = lambda _: None) -> str:
        """Run the program to its end, and return what it prints."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with self.started() as process:
            program = psutil.Process(process.pid)
            while process.poll() is None:
                meanwhile(program)
                self._measure(program)
                time.sleep(0.05)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        output = (self.folder / "output.txt").read_text(encoding="utf-8")
        assert process.returncode == 0, output
        return output

    @contextmanager
    def started(self) -> Iterator[subprocess.Popen[bytes]]:
        """Start the program; the end of the block kills all its processes that are left."""
        with (
            tempfile.TemporaryDirectory(prefix="ray") as short,  # paths of sockets are short
            (self.folder / "output.txt").open("wb") as output,
        ):
            process = subprocess.Popen(
                [sys.executable, _PROGRAMS[self.engine]],
                cwd=self.folder,
                env={**self.environment, "RAY_TMPDIR": short},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            try:
                yield process
            finally:
                kill_program(process)

    def workers(self, program: psutil.Process) -> list[psutil.Process]:
        """Return the processes that send requests."""
        try:
            children = program.children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return [each for each in children if _WORKER_COMMANDS[self.engine] in _command_of(each)]

    def _measure(self, program: psutil.Process) -> None:
        for worker in self.workers(program):
            try:
                status = Path(f"/proc/{worker.pid}/status").read_text(encoding="utf-8")
            except OSError:
                continue
            if found := re.search(r"VmHWM:\s+(\d+) kB", status):
                self.peak_megabytes[worker.pid] = int(found[1]) / 1024

    # The answers

    @property
    def finished_items(self) -> int:
        """How many questions have an answer that is stored."""
        return CHUNK_SIZE * len(list(self.folder.glob("answers/*.jsonl")))

    def answers(self) -> dict[str, str]:
        """Return the answers by the id of the question; each must be there once."""
        lines = [
            json.loads(line)
            for path in self.folder.glob("answers/*.jsonl")
            for line in path.read_text(encoding="utf-8").splitlines()
        ]
        answers = {row["id"]: row["answer"] for row in lines}
        assert len(answers) == len(lines)
        return answers

    def assert_all_answered(self, items: int) -> None:
        """Check that each question has the answer to it."""
        answers = self.answers()
        assert answers.keys() == {str(n) for n in range(items)}
        assert [n for n in range(items) if question(n) not in answers[str(n)]] == []


def question(number: int) -> str:
    """Return a question that no other is a part of; the server quotes it in its answer."""
    return f"Is {number} a prime number?"


def kill_program(process: subprocess.Popen[bytes]) -> None:
    """Kill the program at once, and all processes that it started."""
    try:
        started = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        started = []
    process.kill()
    process.wait()
    for each in started:
        try:
            each.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(started, timeout=10)


def _command_of(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
