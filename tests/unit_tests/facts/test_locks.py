from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

HELD = """
import os, sys, threading
{setup}
is_held, may_go_on = threading.Event(), threading.Event()
thread = threading.Thread(target=hold, daemon=True)
thread.start()
assert is_held.wait(30)
if (pid := os.fork()) == 0:
    threading.Timer(20, os._exit, [2]).start()
    use()
    os._exit(0)
status = os.waitpid(pid, 0)[1]
may_go_on.set()
thread.join()
use()
sys.exit(os.waitstatus_to_exitcode(status))
"""


def run_with_fork(setup: str) -> None:
    program = HELD.format(setup=setup)
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=90)


def test_a_child_does_not_wait_for_a_thread_of_its_parent() -> None:
    run_with_fork("""
from langchain_gemini_tools.facts.locks import ForkSafeLock
lock = ForkSafeLock()

def hold():
    with lock:
        is_held.set()
        may_go_on.wait()

def use():
    with lock:
        pass
""")


def test_a_model_works_in_a_child_that_is_forked_while_another_thread_uses_it() -> None:
    """It compares credentials at that moment, which must not happen under a plain lock."""
    run_with_fork("""
from langchain_gemini_tools import ChatGemini

class Slow:
    token = "t"

    def __eq__(self, other):
        if threading.current_thread() is not threading.main_thread():
            is_held.set()
            may_go_on.wait()
        return True

    __hash__ = None

def model(credentials):
    return ChatGemini(model="gemini-3.8-flash", vertexai=True, project="p",
                      location="global", credentials=credentials)

chat, other = model(Slow()), model(Slow())
chat.client
chat.credentials = Slow()

def hold():
    chat.client

def use():
    other.client
""")


def test_media_can_be_fetched_in_a_child_that_is_forked_while_another_thread_looks_them_up() -> (
    None
):
    run_with_fork("""
from langchain_gemini_tools.media_fetch import FetchedMedia, FetchLimits

class Slow(FetchLimits):
    def __hash__(self):
        if threading.current_thread() is not threading.main_thread():
            is_held.set()
            may_go_on.wait()
        return 1

cache, limits = FetchedMedia(), Slow()

def hold():
    cache.find("https://a", None, limits)

def use():
    cache.find("https://b", None, limits)
""")
