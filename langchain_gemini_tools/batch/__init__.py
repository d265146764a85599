"""Batch jobs: many requests at half the price, answered within a day.

job.py       BatchJob: creates the jobs, waits, collects, sends what follows. Start reading here
items.py     one input -> its request; its responses -> its result, or the next request
service.py   the API's operations: create without creating twice, poll, upload, download
vertex.py    the same on Vertex AI, where requests and results are files in a bucket
folder.py    what is kept on disk: the requests, the jobs, the results

A job's folder is its only state. Everything in it is written to a temporary file first and then
renamed, so a process that is killed leaves the old state or the new one.

Agents in waves of batch jobs:

agents.py        run_in_batches: its arguments and results. Start reading here
driver.py        runs all agents, wave after wave
runner.py        one agent, from one call of its model to the next
graph_runner.py  LangGraph agents
loop_runner.py   ToolLoops
waves.py         what the agents wait for, sent together; what is kept of it on disk

This module decides whether a call belongs to an agent in a batch. A program without batches loads
none of the others.
"""

from __future__ import annotations

import importlib
import warnings
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from langchain_core.runnables.config import var_child_runnable_config

if TYPE_CHECKING:
    from langchain_gemini_tools.batch.items import BatchSource
    from langchain_gemini_tools.batch.job import BatchJob
    from langchain_gemini_tools.batch.runner import Asker
    from langchain_gemini_tools.batch.service import BatchStatus

__all__ = ["BatchJob", "BatchSource", "BatchStatus"]

_MODULES = {"BatchJob": "job", "BatchSource": "items", "BatchStatus": "service"}

CONFIG_KEY = "gemini_batch"
"""The key in `configurable` that switches batches on: an `Asker`, or True in LangGraph."""
is_in_run: ContextVar[bool] = ContextVar("is_in_run", default=False)
"""Whether the code runs in a step of `run_in_batches`."""


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)


def find_asker() -> Asker | None:
    """Return what answers the calls of this run; None if they are sent as usual."""
    config = var_child_runnable_config.get()
    configurable = config.get("configurable", {}) if config else {}
    found = configurable.get(CONFIG_KEY)
    if not found:
        if is_in_run.get() and CONFIG_KEY not in configurable:
            warnings.warn(
                "A call of the model in run_in_batches is sent at once, at the standard price. It "
                "is in a graph that is called with a thread_id, which LangGraph runs separately. "
                "Call it without a thread_id, or with the config of the node or tool.",
                stacklevel=2,
            )
        return None
    if found is not True:
        asker: Asker = found
        return asker
    from langchain_gemini_tools.batch.graph_runner import GraphStep

    return GraphStep()
