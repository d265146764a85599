"""The scenarios, and their limits: ratios of CPU time within one round."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.benchmarks import workload

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.benchmarks.subjects import Subject, Work

HISTORY_TOOLS = 2


@dataclass(frozen=True)
class Scenario:
    """One row of the table."""

    title: str
    prepare: Callable[[Subject], Work | None]
    must: Mapping[str, float] = field(default_factory=dict)
    """The most that ours may cost, by subject: 0.8 for `peer` is 0.8 times what the peer costs."""
    aim: Mapping[str, float] = field(default_factory=dict)
    tools: int = 0
    turns: int = 0
    """With `tools`, the size of the request; see `workload.request_body`."""
    sends: bool = True
    is_heavy: bool = False
    """Whether it takes so long that fewer rounds are run."""


def _call(
    title: str,
    tools: int,
    turns: int,
    must: Mapping[str, float] | None = None,
    aim: Mapping[str, float] | None = None,
) -> Scenario:
    prepare: Callable[[Subject], Work | None] = lambda s: s.call(tools, turns)  # noqa: E731
    return Scenario(title, prepare, must or {}, aim or {}, tools=tools, turns=turns)


SCENARIOS: dict[str, Scenario] = {
    "invoke": _call("invoke, no tools", 0, 0, {"peer": 0.8, "sdk": 1.0}, {"floor": 1.5}),
    "invoke_10": _call("invoke, 10 tools bound once", 10, 0, {"peer": 0.35}, {"floor": 1.5}),
    "invoke_100": _call("invoke, 100 tools bound once", 100, 0, {"peer": 0.12}, {"floor": 1.2}),
    "bind_new": Scenario(
        "bind 10 new functions",
        lambda s: s.bind_new("functions", 10),
        {"peer": 1.3},
        {"floor": 1.2},
        sends=False,
    ),
    "bind_again": Scenario(
        "bind the same 10 functions again",
        lambda s: s.bind_again("functions", 10),
        {"peer": 0.05},
        {"peer": 0.01},
        sends=False,
    ),
    "bind_tools_new": Scenario(
        "bind 10 new LangChain tools",
        lambda s: s.bind_new("tools", 10),
        {"peer": 0.75},
        {"floor": 1.05},
        sends=False,
    ),
    "bind_tools_again": Scenario(
        "bind the same 10 LangChain tools again", lambda s: s.bind_again("tools", 10), sends=False
    ),
    "bind_classes_new": Scenario(
        "bind 10 new Pydantic classes", lambda s: s.bind_new("classes", 10), sends=False
    ),
    "turns_20": _call(
        "one call on 20 tool turns", HISTORY_TOOLS, 20, {"peer": 0.08}, {"floor": 1.5}
    ),
    "turns_200": _call("one call on 200 tool turns", HISTORY_TOOLS, 200),
    "turns_1000": Scenario(
        "one call on 1,000 tool turns, seen before",
        lambda s: s.call(HISTORY_TOOLS, 1_000),
        {"peer": 0.025, "limit": 4.0},
        {"floor": 1.2},
        tools=HISTORY_TOOLS,
        turns=1_000,
        is_heavy=True,
    ),
    "turns_1000_new": Scenario(
        "one call on 1,000 tool turns, never seen",
        lambda s: s.call_on_new_messages(HISTORY_TOOLS, 1_000) or s.call(HISTORY_TOOLS, 1_000),
        {"peer": 0.025, "limit": 4.0},
        {"floor": 1.2},
        tools=HISTORY_TOOLS,
        turns=1_000,
        is_heavy=True,
    ),
    "loop": Scenario(
        "agent loop 0 → 200 tool turns",
        lambda s: s.loop(HISTORY_TOOLS),
        {"peer": 0.05},
        {"floor": 1.5},
        tools=HISTORY_TOOLS,
        turns=workload.LOOP_TURNS - 1,
        is_heavy=True,
    ),
    "stream": Scenario(
        "stream of 1,000 text chunks",
        lambda s: s.stream(workload.STREAM_MODEL),
        {"peer": 0.22},
        {"floor": 1.3},
    ),
    "astream": Scenario(
        "stream of 1,000 text chunks, async",
        lambda s: s.astream(workload.STREAM_MODEL),
        {"peer": 0.22},
        {"floor": 1.3},
    ),
    "stream_calls": Scenario(
        "stream of 50 function calls",
        lambda s: s.stream(workload.CALLS_MODEL),
        {"peer": 0.28},
        {"floor": 1.3},
    ),
    "first_chunk": Scenario(
        "first chunk after a history of 200 turns",
        lambda s: s.first_chunk(200),
        {"peer": 0.03},
        {"floor": 1.5},
        turns=200,
    ),
    "concurrent": Scenario(
        "200 concurrent async calls, 10 tools",
        lambda s: s.concurrently(10),
        {"peer": 0.45},
        {"floor": 1.3},
        tools=10,
    ),
    "threads": Scenario(
        "128 calls over 32 threads, 10 tools",
        lambda s: s.in_threads(10),
        {"peer": 0.35},
        {"floor": 1.3},
        tools=10,
    ),
}
