"""Agents in waves when things go wrong: every request is answered, once, whatever is killed."""

from __future__ import annotations

import getpass
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import xxhash
from langchain.agents import create_agent
from langchain.agents.middleware import dynamic_prompt
from langgraph.graph import START, MessagesState, StateGraph

from langchain_gemini_tools import ToolLoop, errors, run_in_batches
from langchain_gemini_tools.batch.waves import Waves
from langchain_gemini_tools.testing import FakeGemini, Reply
from tests.integration_tests.play import get_weather
from tests.integration_tests.test_waves import ASKED, check_nothing_else, sent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_gemini_tools.testing.fake import Emulator
    from tests.conftest import MakeModel

AGENTS = int(os.environ.get("WAVES_AGENTS", "30"))
"""`WAVES_AGENTS=1000` runs as many as the documentation speaks of."""
MANY: list[Any] = [{"messages": f"Weather in City{number}?"} for number in range(40)]


@pytest.fixture(autouse=True)
def _without_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_RETRY_DELAYS", "off")


@pytest.fixture
def make_model(make_model: MakeModel) -> Any:
    """Models that retry, as models do by default."""
    return lambda **settings: make_model(**{"max_retries": 6} | settings)


@pytest.fixture
def agent(make_model: MakeModel) -> Any:
    return create_agent(make_model(), [get_weather])


def run(agent: Any, path: Path, given: Any = ASKED, **options: Any) -> Any:
    return run_in_batches(agent, given, path=path, progress=False, **options)


def check(emulator: Emulator, results: Any, count: int) -> None:
    assert not results.errors
    for number, state in enumerate(results):
        assert f"City{number}" in state["messages"][-1].text
    assert len(emulator.batches.answered) == 2 * count
    check_nothing_else(emulator)


# The service


@pytest.mark.parametrize("operation", ["create", "get", "upload", "download"])
def test_a_lost_reply_makes_no_second_job(
    emulator: Emulator, agent: Any, tmp_path: Path, operation: str
) -> None:
    emulator.batches.lose(operation)
    check(emulator, run(agent, tmp_path, MANY), 40)
    assert sent(emulator) == [40, 40]


@pytest.mark.parametrize("operation", ["create", "get", "upload", "download"])
def test_a_refusal_is_retried(
    emulator: Emulator, agent: Any, tmp_path: Path, operation: str
) -> None:
    emulator.batches.refuse(operation, 429, times=2)
    check(emulator, run(agent, tmp_path, MANY), 40)
    assert sent(emulator) == [40, 40]


def test_a_used_up_quota_ends_the_run_and_the_same_call_goes_on(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    agent = create_agent(make_model(max_retries=0), [get_weather])
    emulator.batches.refuse("create", 429)
    with pytest.raises(errors.GeminiRateLimitError) as raised:
        run(agent, tmp_path, MANY)
    assert "make the same call again later" in raised.value.__notes__[0]
    check(emulator, run(agent, tmp_path, MANY), 40)
    assert sent(emulator) == [40, 40]


def test_failed_items_join_the_next_wave(emulator: Emulator, agent: Any, tmp_path: Path) -> None:
    failed: Counter[str] = Counter()

    def fail_every_tenth_once(number: int, body: Any) -> Any:
        key = json.dumps(body["contents"])
        failed[key] += 1
        is_failed = number % 10 == 0 and failed[key] == 1
        return {"code": 13, "message": "It failed."} if is_failed else None

    emulator.batches.fail_items(fail_every_tenth_once)
    results = run(agent, tmp_path, MANY)
    check(emulator, results, 40)
    # Four fail in the first wave. Their second attempt and the next turn of the others are one job.
    assert sent(emulator)[:2] == [40, 40]
    assert sum(sent(emulator)) == 80 + sum(wave.failed for wave in results.waves)
    assert results.waves[0].failed == 4
    assert results.waves[0].answered == 36


def test_an_item_that_keeps_failing_is_an_error_in_place_until_the_next_call(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    agent = create_agent(make_model(max_retries=2), [get_weather])
    emulator.batches.fail_items(
        lambda _, body: {"code": 14, "message": "Down."} if "Rome" in str(body) else None
    )
    results = run(agent, tmp_path)
    assert isinstance(results[1], errors.GeminiServerError)
    assert "Down." in str(results[1])
    assert [type(results[0]), type(results[2])] == [dict, dict]
    assert sent(emulator) == [3, 3, 1]
    emulator.batches.fail_items(lambda _number, _body: None)
    again = run(agent, tmp_path)
    assert "Sunny in Rome" in again[1]["messages"][-1].text
    assert sent(emulator) == [3, 3, 1, 1, 1]
    check_nothing_else(emulator)


@pytest.mark.parametrize("kind", ["agent", "loop"])
def test_a_response_that_cannot_be_used_is_an_error_in_place_until_the_next_call(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, kind: str
) -> None:
    emulator.reply(parts=[], finish_reason="SAFETY")
    runner: Any = ToolLoop(make_model()) if kind == "loop" else create_agent(make_model())
    given: Any = ["Hello"] if kind == "loop" else ASKED[:1]
    (result,) = run(runner, tmp_path, given)
    assert isinstance(result, errors.ResponseError)
    assert sent(emulator) == [1]
    assert not run(runner, tmp_path, given).errors
    assert sent(emulator) == [1, 1]


def test_an_item_that_failed_is_sent_again_although_the_system_prompt_has_the_time(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    ticks = itertools.count()

    @dynamic_prompt
    def clock(request: Any) -> str:
        return f"It is {next(ticks)} o'clock."

    agent = create_agent(make_model(max_retries=0), [get_weather], middleware=[clock])
    emulator.batches.fail_items(lambda _number, _body: {"code": 14, "message": "Down."})
    (failed,) = run(agent, tmp_path, ASKED[:1])
    assert isinstance(failed, errors.GeminiServerError)
    emulator.batches.fail_items(lambda _number, _body: None)
    (state,) = run(agent, tmp_path, ASKED[:1])
    assert "Sunny in Oslo" in state["messages"][-1].text
    assert sent(emulator) == [1, 1, 1]


def test_odd_counts_of_tokens_do_not_end_the_run(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    agent = create_agent(make_model())
    with pytest.raises(errors.GeminiTimeoutError):
        run(agent, tmp_path, ASKED[:2], timeout_seconds=0)
    (known,) = emulator.batches.jobs.values()
    while known.state != "SUCCEEDED":
        make_model().client.batches.get(name=known.name)
    known.results[0]["response"]["usageMetadata"] = [1]
    results = run(agent, tmp_path, ASKED[:2])
    assert not results.errors
    assert results.output_tokens == results[1]["messages"][-1].usage_metadata["output_tokens"]


def test_an_expired_job_is_sent_again(emulator: Emulator, agent: Any, tmp_path: Path) -> None:
    emulator.batches.end("SUCCEEDED", "EXPIRED")
    check(emulator, run(agent, tmp_path, MANY), 40)
    assert sent(emulator) == [40, 40, 40]


def test_jobs_that_always_expire_end_the_run(
    emulator: Emulator, agent: Any, tmp_path: Path
) -> None:
    emulator.batches.end(*["EXPIRED"] * 3)
    with pytest.raises(errors.BatchJobError, match="returned no responses"):
        run(agent, tmp_path)
    assert not run(agent, tmp_path).errors
    assert len(sent(emulator)) == 5


@pytest.mark.parametrize("state", ["FAILED", "CANCELLED"])
def test_a_job_that_failed_ends_the_run_and_the_same_call_sends_it_again(
    emulator: Emulator, agent: Any, tmp_path: Path, state: str
) -> None:
    emulator.batches.end("SUCCEEDED", state)
    with pytest.raises(errors.BatchJobError, match=f"wave 2 ended as {state}"):
        run(agent, tmp_path, MANY)
    check(emulator, run(agent, tmp_path, MANY), 40)
    assert sent(emulator) == [40, 40, 40]


def test_a_job_that_was_deleted_can_be_given_up(
    emulator: Emulator, agent: Any, tmp_path: Path
) -> None:
    emulator.batches.refuse("get", 403)
    with pytest.raises(errors.GeminiPermissionError):
        run(agent, tmp_path)
    emulator.batches.jobs.clear()
    with pytest.raises(errors.GeminiNotFoundError) as raised:
        run(agent, tmp_path)
    (folder,) = tmp_path.glob("wave-*")
    assert str(folder) in str(raised.value.__notes__)
    shutil.rmtree(folder)
    assert not run(agent, tmp_path).errors
    assert sent(emulator) == [3, 3]


def test_a_run_that_takes_too_long_goes_on_later(
    emulator: Emulator, agent: Any, tmp_path: Path
) -> None:
    emulator.batches.polls_until_done = 100_000
    with pytest.raises(errors.GeminiTimeoutError, match="make the same call again later"):
        run(agent, tmp_path, timeout_seconds=0.2)
    next(iter(emulator.batches.jobs.values())).states.clear()
    next(iter(emulator.batches.jobs.values())).states.append("SUCCEEDED")
    emulator.batches.polls_until_done = 1
    assert not run(agent, tmp_path).errors
    assert sent(emulator) == [3, 3]
    check_nothing_else(emulator)


def test_an_agent_that_was_changed_in_between_is_rejected(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    emulator.batches.refuse("get", 403)
    with pytest.raises(errors.GeminiPermissionError):
        run(create_agent(make_model(), [get_weather]), tmp_path)
    other = create_agent(make_model(model="gemini-2.5-flash"), [get_weather])
    with pytest.raises(errors.InvalidOptionError, match=r"gemini-3\.8-flash, which the agent"):
        run(other, tmp_path)


def test_a_model_that_was_changed_after_its_answer_came_is_rejected_until_it_is_back(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, rename = create_agent(make_model(), [get_weather]), os.replace

    def die_with_results(source: Any, target: Any) -> None:
        rename(source, target)
        if '"is_collected": true' in Path(target).read_text():
            raise Killed

    monkeypatch.setattr(os, "replace", die_with_results)
    with pytest.raises(Killed):
        run(agent, tmp_path)
    monkeypatch.setattr(os, "replace", rename)
    other = create_agent(make_model(model="gemini-2.5-flash"), [get_weather])
    results = run(other, tmp_path)
    assert {type(result) for result in results} == {errors.InvalidOptionError}
    assert "If the agent was changed" in str(results[0])
    assert not run(agent, tmp_path).errors
    assert sent(emulator) == [3, 3]
    check_nothing_else(emulator)


def test_a_damaged_folder_is_named(emulator: Emulator, agent: Any, tmp_path: Path) -> None:
    run(agent, tmp_path)
    (tmp_path / "run.json").write_text('{"version": 99}')
    with pytest.raises(errors.InvalidOptionError, match=r"run\.json is damaged"):
        run(agent, tmp_path)


def test_a_full_disk_is_an_error_of_the_system_that_says_what_to_do(
    emulator: Emulator, agent: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_almost_full(waves: Waves) -> None:
        open_waves(waves)
        waves._pending.execute("PRAGMA max_page_count = 3")  # noqa: SLF001

    open_waves = Waves.open
    with monkeypatch.context() as patch:
        patch.setattr(Waves, "open", open_almost_full)
        with pytest.raises(OSError, match="SQLITE_TMPDIR"):
            run(agent, tmp_path, MANY)
    check(emulator, run(agent, tmp_path, MANY), 40)
    assert sent(emulator) == [40, 40]


def test_what_a_run_needs_survives_the_end_of_the_machine(
    agent: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[int] = set()
    renamed: set[Path] = set()
    sync, rename = os.fsync, os.replace

    def note_sync(file: int) -> None:
        sync(file)
        synced.add(os.fstat(file).st_ino)
        renamed.difference_update([each for each in renamed if each.stat().st_ino in synced])

    def note_rename(source: Any, target: Any) -> None:
        rename(source, target)
        renamed.add(Path(target).parent)
        synced.discard(Path(target).parent.stat().st_ino)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "replace", note_rename)
    run(agent, tmp_path)
    assert renamed == set()  # each new name is on disk
    assert (tmp_path / "inputs.txt").stat().st_ino in synced


def test_two_calls_at_once_make_one_run(emulator: Emulator, agent: Any, tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: run(agent, tmp_path), range(2))
    assert list(first) == list(second)
    assert sent(emulator) == [3, 3]
    check_nothing_else(emulator)


# Killed processes


class Killed(BaseException):
    """The process ends here. Nothing of ours catches it."""


@pytest.mark.parametrize("kind", ["agent", "loop"])
def test_a_process_killed_while_it_stores_something_loses_and_repeats_nothing(
    emulator: Emulator,
    make_model: MakeModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    """The first process is killed at its first write to the disk, the next at its second, ..."""
    is_loop = kind == "loop"
    runner: Any = ToolLoop(make_model(), [get_weather]) if is_loop else None
    runner = runner or create_agent(make_model(), [get_weather])
    given: Any = [each["messages"] for each in ASKED] if is_loop else ASKED
    fsync, rename = os.fsync, os.replace
    counted = [0]

    def count() -> None:
        counted[0] += 1
        if counted[0] > kills:
            raise Killed

    def dying_fsync(file: int) -> None:
        fsync(file)
        count()

    def dying_rename(source: Any, target: Any) -> None:
        rename(source, target)
        count()

    monkeypatch.setattr(os, "fsync", dying_fsync)
    monkeypatch.setattr(os, "replace", dying_rename)
    kills, results = 0, None
    while results is None:
        try:
            counted[0] = 0
            results = run(runner, tmp_path, given)
        except Killed:
            kills += 1
            assert kills < 100
    assert kills > 5
    assert not results.errors
    assert sent(emulator) == [3, 3]
    check_nothing_else(emulator)


@pytest.fixture(params=["own ids", "shared ids"])
def _ids(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before 1.2.20, LangGraph gave all interrupts of a task the same id."""
    if request.param == "shared ids":
        monkeypatch.setattr(
            "langgraph.types._interrupt_id",
            lambda namespace, _: xxhash.xxh3_128_hexdigest(namespace.encode()),
            raising=False,
        )


def _run_killed_once(
    agent: Any, path: Path, given: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """Yield the state of an agent for each place where it was killed: before a `run.json`."""
    rename, left = os.replace, [0]

    def dying_rename(source: Any, target: Any) -> None:
        left[0] -= Path(target).name == "run.json"
        if left[0] < 0:
            raise Killed
        rename(source, target)

    monkeypatch.setattr(os, "replace", dying_rename)
    for writes in range(100):
        try:
            left[0] = writes
            run(agent, path / str(writes), given)
        except Killed:
            left[0] = 1000
            yield run(agent, path / str(writes), given)[0]
        else:
            assert writes > 3
            return


@pytest.mark.usefixtures("_ids")
def test_a_process_killed_between_two_calls_of_one_node_does_not_mix_up_their_answers(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model()

    def node(state: MessagesState) -> Any:
        return {"messages": [model.invoke(f"Say {word}.") for word in ("one", "two")]}

    graph = StateGraph(MessagesState)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    for state in _run_killed_once(graph.compile(), tmp_path, ASKED[:1], monkeypatch):
        _, one, two = state["messages"]
        assert ("one" in one.text, "two" in two.text) == (True, True)
        assert sent(emulator) == [1, 1]
        emulator.batches.jobs.clear()


@pytest.mark.usefixtures("_ids")
def test_a_process_killed_inside_a_long_response_does_not_repeat_a_part_of_it(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "One two three four five."
    for _ in range(20):
        emulator.reply_long(text, hop_size=2)
    agent = create_agent(make_model(model="gemini-4-flash"))
    states = _run_killed_once(agent, tmp_path, [{"messages": "Count."}], monkeypatch)
    assert {state["messages"][-1].text for state in states} == {text}


def test_a_process_killed_while_parallel_nodes_go_on_repeats_no_request(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    model, is_killed = make_model(), False

    def slow(state: MessagesState) -> Any:
        nonlocal is_killed
        answer = model.invoke("Say one.")
        if not is_killed:
            is_killed = True
            time.sleep(0.5)  # until the second call of the other node waits
            raise Killed
        return {"messages": [answer]}

    def quick(state: MessagesState) -> Any:
        return {"messages": [model.invoke("Say two."), model.invoke("Say three.")]}

    graph = StateGraph(MessagesState)
    for node in (slow, quick):
        graph.add_node(node)
        graph.add_edge(START, node.__name__)
    agent = graph.compile()
    with pytest.raises(Killed):
        run(agent, tmp_path, ASKED[:1])
    (state,) = run(agent, tmp_path, ASKED[:1])
    assert len(state["messages"]) == 4
    assert sent(emulator) == [2, 1]
    check_nothing_else(emulator)


PLAN = ["start", *["intent", "create", "job", "results", "tool"] * 2]


def _respond(request: Any) -> Any:
    step = len(request.function_responses)
    number = int(str(request.body["contents"][0]["parts"][0]["text"]).split()[1])
    return Reply(calls=[("look", {"agent": number, "step": step})]) if step < 2 else "done"


def _run_killed(gemini: FakeGemini, path: Path, **settings: Any) -> dict[str, Any]:
    settings = {"path": str(path), "count": AGENTS, "kind": "agent", "plan": PLAN} | settings
    gemini.batches.polls_until_done = 1
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration_tests.wave_worker", json.dumps(settings)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _check_killed(gemini: FakeGemini, path: Path, most_repeats: int) -> None:
    assert gemini.batches.created == 3
    answered = gemini.batches.answered
    assert len(answered) == 3 * AGENTS
    assert set(answered.values()) == {1}
    events = Counter((path / "tools.txt").read_text().split("\n"))
    begun = {name: n for name, n in events.items() if name.startswith("begin")}
    assert len(begun) == 2 * AGENTS
    assert sum(begun.values()) - 2 * AGENTS <= most_repeats


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_agents_killed_at_eleven_points_lose_and_repeat_nothing(tmp_path: Path) -> None:
    """Tools run one at a time, so that only the two that were killed run again."""
    with FakeGemini(_respond) as gemini:
        found = _run_killed(gemini, tmp_path)
        assert found["killed"] == PLAN
        assert found["shown"].startswith(f"{AGENTS:,} done · 3 waves, {3 * AGENTS:,} requests")
        _check_killed(gemini, tmp_path, most_repeats=2)
        events = Counter((tmp_path / "tools.txt").read_text().splitlines())
        repeated = {name for name, count in events.items() if count > 1}
        assert repeated == {f"begin {AGENTS // 2}.0", f"begin {AGENTS // 2}.1"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_agents_killed_while_many_tools_run_repeat_only_those(tmp_path: Path) -> None:
    with FakeGemini(_respond) as gemini:
        plan = ["start", "results", "tool", "create", "results"]
        found = _run_killed(gemini, tmp_path, max_concurrency=8, plan=plan)
        assert found["killed"] == plan
        _check_killed(gemini, tmp_path, most_repeats=8 * len(plan))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_loops_killed_at_ten_points_lose_and_repeat_nothing(tmp_path: Path) -> None:
    with FakeGemini(_respond) as gemini:
        found = _run_killed(gemini, tmp_path, kind="loop", plan=PLAN[1:])
        assert "tool" in found["killed"]
        # A tool that has ended runs again if its process is killed before its result is stored.
        _check_killed(gemini, tmp_path, most_repeats=len(PLAN))


# PostgreSQL


def _postgres_bin() -> Path | None:
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return folders[-1].parent if folders else None


@pytest.fixture
def postgres() -> Iterator[str]:
    """A server of Debian's PostgreSQL, in a folder of its own."""
    pytest.importorskip("langgraph.checkpoint.postgres", reason="langgraph-checkpoint-postgres")
    programs = _postgres_bin()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (apt-get install postgresql)")
    owner: Any = {}
    # Not in pytest's folder, which only its owner may enter.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if getpass.getuser() == "root":  # PostgreSQL refuses to run as root
            owner = {"user": "postgres", "group": "postgres", "extra_groups": []}
            try:
                shutil.chown(folder, "postgres", "postgres")
            except LookupError:
                pytest.skip("PostgreSQL does not run as root, and there is no user for it")
        data = str(folder / "data")
        subprocess.run(
            [programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-sync"],
            check=True,
            capture_output=True,
            cwd="/",
            **owner,
        )
        settings = ["listen_addresses=", f"unix_socket_directories={folder}", "fsync=off"]
        options = [part for setting in settings for part in ("-c", setting)]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(
                [programs / "postgres", "-D", data, *options],
                stdout=log,
                stderr=log,
                cwd="/",
                **owner,
            )
        try:
            ready = [str(programs / "pg_isready"), "-h", name, "-q"]
            while subprocess.run(ready, check=False, cwd="/").returncode:
                assert server.poll() is None, (folder / "log").read_text()
                time.sleep(0.1)
            yield f"postgresql:///postgres?host={folder}&user=postgres"
        finally:
            server.send_signal(signal.SIGINT)  # a fast shutdown
            server.wait(30)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_another_process_takes_over_on_postgres(tmp_path: Path, postgres: str) -> None:
    with FakeGemini(_respond) as gemini:
        plan = ["start", "create", "results", "tool"]
        found = _run_killed(gemini, tmp_path, postgres=postgres, plan=plan)
        assert found["killed"] == plan
        _check_killed(gemini, tmp_path, most_repeats=1)
