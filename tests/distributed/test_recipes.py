"""The programs for Dask and Ray: each question is answered once, whatever is killed.

`make test-distributed` installs what they need. `DISTRIBUTED_ITEMS` is the number of questions.
"""

from __future__ import annotations

import signal
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langgraph.errors import InvalidUpdateError

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.errors import GeminiAuthenticationError
from langchain_gemini_tools.testing import FakeGemini

pytest.importorskip("psutil", reason="psutil is not installed: `make test-distributed` does that")

from tests.distributed.running import (
    CHUNK_SIZE,
    ITEMS,
    WORKERS,
    Job,
    Server,
    kill_program,
    recipes,
    serving,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import psutil

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(params=["dask", "ray"])
def engine(request: pytest.FixtureRequest) -> str:
    if not find_spec(request.param):
        pytest.skip(f"{request.param} is not installed: `make test-distributed` does that")
    return str(request.param)


@pytest.fixture
def server(engine: str) -> Iterator[Server]:
    with serving() as started:
        yield started


@pytest.fixture
def job(engine: str, server: Server, tmp_path: Path) -> Job:
    return Job(engine, tmp_path, server.environment)


def test_the_page_has_the_programs() -> None:
    assert recipes().keys() == {"answering.py", "with_dask.py", "with_ray.py"}


def test_each_question_is_asked_once_and_a_second_run_asks_none(job: Job, server: Server) -> None:
    items = 5 * CHUNK_SIZE + 1
    job.write(items)
    assert "0 failed" in job.run()
    job.assert_all_answered(items)
    job.run()
    assert server.stop() == items


def test_a_killed_worker_repeats_at_most_its_chunk(job: Job, server: Server) -> None:
    job.write(ITEMS)
    killed: list[psutil.Process] = []

    def kill_one_worker(program: psutil.Process) -> None:
        if not killed and job.finished_items >= ITEMS * 0.3:
            time.sleep(0.1)  # for the worker to be inside its next chunk
            worker = job.workers(program)[0]
            worker.send_signal(signal.SIGKILL)
            killed.append(worker)

    assert "0 failed" in job.run(kill_one_worker)
    assert killed
    job.assert_all_answered(ITEMS)
    repeated = server.stop() - ITEMS
    print(f"{job.engine}: {repeated} of {ITEMS} calls were made again after a worker was killed")
    assert 0 <= repeated <= CHUNK_SIZE


def test_a_killed_program_goes_on_where_it_was(job: Job, server: Server) -> None:
    job.write(ITEMS)
    with job.started() as process:
        while job.finished_items < ITEMS * 0.3:
            assert process.poll() is None
            time.sleep(0.01)
        kill_program(process)
    assert job.finished_items < ITEMS
    assert "0 failed" in job.run()
    job.assert_all_answered(ITEMS)
    repeated = server.stop() - ITEMS
    print(f"{job.engine}: {repeated} of {ITEMS} calls were made again after all was killed")
    assert 0 <= repeated <= WORKERS * CHUNK_SIZE


def test_all_workers_together_stay_below_the_limit(job: Job, server: Server) -> None:
    items, limit, bucket = 6 * CHUNK_SIZE, 100, 10
    job.write(items, limit)
    job.run()
    times = sorted(path.stat().st_mtime for path in job.folder.glob("answers/*.jsonl"))
    # What was sent after the first chunk was complete: each worker may have sent a chunk before.
    sent = items - WORKERS * CHUNK_SIZE - WORKERS * bucket
    assert times[-1] - times[0] >= sent / limit
    assert server.stop() == items


# What travels to a worker


def get_weather(city: str) -> str:
    """Current weather in a city."""
    return f"Sunny in {city}"


def make_agent() -> Any:
    return create_agent(ChatGemini(model="gemini-3.8-flash"), tools=[get_weather])


def ask_agent(question: str) -> str:
    return str(make_agent().invoke({"messages": question})["messages"][-1].text)


@pytest.fixture
def gemini() -> Iterator[FakeGemini]:
    with FakeGemini() as started:
        yield started


@pytest.fixture
def client(gemini: FakeGemini) -> Iterator[Any]:
    """A Dask client whose worker inherits the environment that leads to the server."""
    distributed = pytest.importorskip(
        "dask.distributed", reason="dask is not installed: `make test-distributed` does that"
    )
    with distributed.Client(n_workers=1, threads_per_worker=1) as started:
        yield started


def test_an_agent_is_built_in_the_worker(client: Any, gemini: FakeGemini) -> None:
    answer = client.submit(ask_agent, "What is the weather in Oslo?").result()
    assert "Sunny in Oslo" in answer
    assert len(gemini.requests) == 2


def test_an_agent_that_was_pickled_fails_as_the_page_says(gemini: FakeGemini) -> None:
    cloudpickle = pytest.importorskip(
        "cloudpickle", reason="cloudpickle is not installed: `make test-distributed` does that"
    )
    agent = cloudpickle.loads(cloudpickle.dumps(make_agent()))
    with pytest.raises(InvalidUpdateError):
        agent.invoke({"messages": "What is the weather in Oslo?"})


def test_a_model_is_sent_to_a_worker_with_its_tools(client: Any, gemini: FakeGemini) -> None:
    bound = ChatGemini(model="gemini-3.8-flash").bind_tools([get_weather])
    message = client.submit(bound.invoke, "What is the weather in Oslo?").result()
    assert message.tool_calls[0]["args"] == {"city": "Oslo"}


def test_a_key_that_was_passed_does_not_become_that_of_the_worker(
    client: Any, gemini: FakeGemini
) -> None:
    model = ChatGemini(model="gemini-3.8-flash", api_key="of another account")
    with pytest.raises(GeminiAuthenticationError, match="model_copy"):
        client.submit(model.invoke, "Hello").result()
    assert gemini.requests == []
