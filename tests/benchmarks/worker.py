"""Runs scenarios of one subject repeatedly, in its own process, and measures their CPU time.

Reads one JSON object per line, `{"scenario": …, "seconds": …}`, and writes one for each.
"""

from __future__ import annotations

import gc
import importlib
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from tests.benchmarks.scenarios import SCENARIOS

if TYPE_CHECKING:
    from tests.benchmarks.subjects import Subject, Work

_MOST = 2_000


def measure(work: Work, seconds: float) -> dict[str, Any]:
    """Return the mean CPU seconds, of all threads, over as many runs as fit into the time."""
    gc.collect()
    total, times, result = 0.0, 0, None
    while times == 0 or (total < seconds and times < _MOST):
        if times:
            work.see(result)
        state = work.set_up()
        start = time.process_time()
        result = work.run(state)
        total += time.process_time() - start
        times += 1
    return {"cpu": total / times, "times": times, "seen": work.see(result)}


def _serve(subject: Subject) -> None:
    prepared: dict[str, Work | None] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        name = asked["scenario"]
        if name not in prepared:
            prepared = {name: SCENARIOS[name].prepare(subject)}  # one at a time: little memory
        work = prepared[name]
        result = None if work is None else measure(work, asked["seconds"])
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    _, subject_name, url = sys.argv
    _serve(importlib.import_module(f"tests.benchmarks.subjects.{subject_name}").make(url))
