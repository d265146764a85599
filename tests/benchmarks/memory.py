"""Memory: copies of a large image at the peak of a call, and growth over thousands of calls.

Each runs in a separate process: `python -m tests.benchmarks.memory image|growth SUBJECT URL`.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import tracemalloc
from pathlib import Path
from typing import Any

from langchain_core.messages import HumanMessage

from tests.benchmarks.workload import QUESTION

SUBJECTS = ("peer", "floor", "ours")
_IMAGE_BYTES = 10_000_000
_WARM_UP = 1_000
_CALLS = 5_000


def copies_of_an_image(model: Any) -> dict[str, float]:
    """Return the peak of a call in copies of the image's base64, including the caller's own."""
    model.invoke(QUESTION)
    gc.collect()
    tracemalloc.start()
    data = "QUJD" * (_IMAGE_BYTES // 3)
    message = HumanMessage(
        [
            {"type": "text", "text": QUESTION},
            {"type": "image", "base64": data, "mime_type": "image/png"},
        ]
    )
    tracemalloc.reset_peak()
    model.invoke([message])
    return {"copies": tracemalloc.get_traced_memory()[1] / len(data)}


def growth(model: Any) -> dict[str, Any]:
    """Return the growth of the resident memory since the warm-up, after each thousand calls."""
    marks: list[float] = []
    for number in range(_WARM_UP + _CALLS + 1):
        if number >= _WARM_UP and number % 1_000 == 0:
            gc.collect()
            marks.append(_resident_megabytes())
        model.invoke(QUESTION)
    return {"megabytes": [mark - marks[0] for mark in marks]}


def _resident_megabytes() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1e6


if __name__ == "__main__":
    _, _what, _name, _url = sys.argv
    _subject = importlib.import_module(f"tests.benchmarks.subjects.{_name}").make(_url)
    _measured = {"image": copies_of_an_image, "growth": growth}[_what](_subject.model)
    print(json.dumps(_measured))
