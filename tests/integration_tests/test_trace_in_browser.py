"""A trace in a real browser: no stranger's script runs, nothing is fetched, folds need no script.

Without a Chromium on the machine these are skipped; `GEMINI_TOOLS_BROWSER` names another one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest
from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage

from langchain_gemini_tools import trace
from tests.unit_tests.display.runs import HOSTILE, answer, call

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = os.environ.get("GEMINI_TOOLS_BROWSER") or next(
    filter(None, map(shutil.which, _NAMES)), ""
)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
pytestmark = pytest.mark.skipif(not BROWSER, reason="Chromium is not installed (Debian: chromium)")


def _dom(path: Path, profile: Path) -> str:
    """What the browser made of a page, after its scripts, if any, have run."""
    done = subprocess.run(
        [BROWSER, *FLAGS, f"--user-data-dir={profile}", "--dump-dom", path.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout


@contextmanager
def _listener() -> Iterator[tuple[str, list[str]]]:
    """A server that notes what it is asked for."""
    asked: list[str] = []

    class Noting(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Noting) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


def _hostile_run(address: str) -> list[BaseMessage]:
    evil = (
        f"{HOSTILE}<script src='{address}/script'></script><img src='{address}/image'>"
        f"<style>@import '{address}/style';</style><iframe src='{address}/frame'></iframe>"
    )
    return [
        HumanMessage(evil),
        answer(
            [{"type": "thinking", "thinking": evil}, {"type": "text", "text": evil}],
            model=evil,
            tool_calls=[call(evil, "a", text=evil)],
        ),
        ToolMessage(evil, tool_call_id="a"),
    ]


def test_strangers_scripts_do_not_run_and_nothing_is_fetched(tmp_path: Path) -> None:
    with _listener() as (address, asked):
        page = trace(_hostile_run(address)).to_html(tmp_path / "run.html")
        dom = _dom(page, tmp_path / "profile")
    assert "<title>owned</title>" not in dom
    assert "&lt;script&gt;document.title='owned'&lt;/script&gt;" in dom
    assert not [tag for tag in ("<script", "<img", "<iframe") if tag in dom]
    assert asked == []


def test_the_policy_of_the_page_stops_even_a_script_that_got_in(tmp_path: Path) -> None:
    with _listener() as (address, asked):
        page = trace(_hostile_run(address)).to_html()
        script = f"<script>document.title='owned'</script><img src='{address}/image'>"
        path = tmp_path / "run.html"
        for policed in (True, False):
            body = page if policed else page.replace("Content-Security-Policy", "x-none")
            path.write_text(body.replace("</body>", f"{script}</body>"), encoding="utf-8")
            dom = _dom(path, tmp_path / f"profile {policed}")
            assert ("<title>owned</title>" in dom) is not policed
        assert asked == ["/image"]  # of the page whose policy was taken away


def test_folding_needs_no_script(tmp_path: Path) -> None:
    path = trace(_hostile_run("http://127.0.0.1")).to_html(tmp_path / "run.html")
    page = path.read_text(encoding="utf-8")
    # A page of ours has no script; this one asks the browser what it laid out, then says so.
    probe = (
        "<script>document.title = [...document.querySelectorAll('details')].map(fold => {"
        "const summary = fold.querySelector('summary');"
        "const isOpen = () => fold.offsetHeight > summary.offsetHeight + 9;"
        "const before = isOpen(); summary.click(); const after = isOpen(); summary.click();"
        "return `${before}/${after}`}).join(' ')</script>"
    )
    probed = page.replace("Content-Security-Policy", "x-none").replace("</body>", f"{probe}</body>")
    path.write_text(probed, encoding="utf-8")
    title = _dom(path, tmp_path / "profile").partition("<title>")[2].partition("</title>")[0]
    run_turn_thinking_call = ["true/false", "true/false", "false/true", "true/false"]
    assert title.split() == run_turn_thinking_call
