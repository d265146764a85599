"""A program that runs agents in waves, and is killed at the points of a plan.

    python -m tests.integration_tests.wave_worker '{"path": ..., "count": 30, "plan": [...]}'

It loads everything once. Then it forks a child for each point of the plan; the child kills itself
there, as SIGKILL does, and the last one runs to the end. It prints one JSON object.

- `start`: while the agents begin
- `intent`: before the request that creates a job is sent
- `create`: when the response to it has come
- `job`: when the results of a job are about to be read
- `results`: when some agents have gone on with their answers
- `tool`: inside of a tool
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any, NoReturn

import google.genai  # noqa: F401 - loaded once, for all children
from langchain.agents import create_agent
from langgraph.checkpoint.sqlite import SqliteSaver

from langchain_gemini_tools import ChatGemini, ToolLoop, ToolLoopResult, run_in_batches


class Killer:
    """Counts what happens, and kills the process at a point."""

    def __init__(self, point: str | None, count: int) -> None:
        self.point = point
        self.count = count
        self.writes = 0
        self.has_results = False
        self.lock = threading.Lock()

    def die(self) -> NoReturn:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    def wrote(self) -> None:
        """A checkpoint was written."""
        with self.lock:
            self.writes += self.point == "start" or (self.point == "results" and self.has_results)
            if self.writes == self.count:
                self.die()

    def hooks(self) -> dict[str, Any]:
        return {"request": [self._before], "response": [self._after]}

    def _before(self, request: Any) -> None:
        if self.point == "intent" and "batchGenerateContent" in request.url.path:
            self.die()

    def _after(self, response: Any) -> None:
        path = response.request.url.path
        if self.point == "create" and "batchGenerateContent" in path:
            self.die()
        if path.endswith(":download"):
            if self.point == "job":
                self.die()
            self.has_results = True


def run(settings: dict[str, Any], point: str | None) -> str:
    path, count = Path(settings["path"]), settings["count"]
    killer = Killer(point, count)

    def look(agent: int, step: int) -> str:
        """Look at an agent's step."""
        with (path / "tools.txt").open("a") as file:
            file.write(f"begin {agent}.{step}\n")
        if point == "tool" and agent == count // 2:
            killer.die()
        with (path / "tools.txt").open("a") as file:
            file.write(f"end {agent}.{step}\n")
        if settings["kind"] == "loop":
            killer.wrote()
        return f"seen {agent}.{step}"

    def wrap(saver: Any) -> Any:
        put = saver.put

        def counting(*args: Any, **kwargs: Any) -> Any:
            done = put(*args, **kwargs)
            killer.wrote()
            return done

        saver.put = counting
        return saver

    model = ChatGemini(model="gemini-3.8-flash", client_args={"event_hooks": killer.hooks()})
    options: Any = {
        "path": path / "run",
        "progress": False,
        "max_concurrency": settings.get("max_concurrency", 1),
    }
    if settings["kind"] == "loop":
        inputs: Any = (f"look {number}" for number in range(count))
        return check(run_in_batches(ToolLoop(model, [look]), inputs, **options))
    inputs = ({"messages": f"look {number}"} for number in range(count))
    agent = create_agent(model, [look])
    if database := settings.get("postgres"):
        from langgraph.checkpoint.postgres import PostgresSaver

        with PostgresSaver.from_conn_string(database) as postgres:
            postgres.setup()
            return check(run_in_batches(agent, inputs, checkpointer=wrap(postgres), **options))
    with SqliteSaver.from_conn_string(str(path / "agents.db")) as saver:
        return check(run_in_batches(agent, inputs, checkpointer=wrap(saver), **options))


def check(results: Any) -> str:
    for each in results:
        if isinstance(each, Exception):
            raise each
        text = each.text if isinstance(each, ToolLoopResult) else each["messages"][-1].text
        assert text == "done", each
    return str(results)


def main() -> None:
    settings = json.loads(sys.argv[1])
    killed = []
    for point in [*settings["plan"], None]:
        child = os.fork()
        if child == 0:
            shown = run(settings, point)
            Path(settings["path"], "shown.txt").write_text(shown)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            killed.append(point)
        elif status:
            sys.exit(1)
    shown = Path(settings["path"], "shown.txt").read_text()
    print(json.dumps({"killed": killed, "shown": shown}))


if __name__ == "__main__":
    main()
