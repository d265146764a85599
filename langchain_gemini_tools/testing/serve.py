"""`python -m langchain_gemini_tools.testing serve`: a `FakeGemini` for other programs."""

from __future__ import annotations

import json
import signal
import sys
import threading
from typing import TYPE_CHECKING

from langchain_gemini_tools.testing.fake.rules.listing import list_rules, render_rules
from langchain_gemini_tools.testing.fake.script import Reply
from langchain_gemini_tools.testing.fake_gemini import FakeGemini, environment_for

if TYPE_CHECKING:
    import argparse
    from pathlib import Path


def serve(arguments: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM; return the exit code."""
    if arguments.rules:
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
    lines = path.read_text(encoding="utf-8").splitlines()
    return [Reply(**json.loads(line)) for line in lines if line.strip()]


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
