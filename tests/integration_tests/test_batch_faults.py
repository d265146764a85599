"""Batch jobs that go wrong: every input is answered, once, whatever fails and is killed."""

from __future__ import annotations

import errno
import os
import stat
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage

from langchain_gemini_tools import errors
from langchain_gemini_tools.batch.folder import Limits
from langchain_gemini_tools.batch.service import DeveloperService
from tests.integration_tests.play import get_weather
from tests.integration_tests.test_batch_jobs import (
    FEW,
    MANY,
    answered_once,
    check_answers,
    questions,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from langchain_gemini_tools.testing.fake import Emulator
    from tests.conftest import MakeModel


pytestmark = pytest.mark.usefixtures("without_delays")


@pytest.fixture
def make_model(make_model: MakeModel) -> Any:
    """Models that retry, as models do by default."""
    return lambda **settings: make_model(**{"max_retries": 6} | settings)


# The connection and the service


@pytest.mark.parametrize("operation", ["create", "get", "upload", "download"])
def test_a_lost_reply_makes_no_second_job(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, operation: str
) -> None:
    emulator.batches.lose(operation)
    check_answers(make_model().batch_job(questions(MANY), path=tmp_path).results(), MANY)
    assert emulator.batches.created == 1
    assert answered_once(emulator, MANY)


def test_a_lost_reply_is_found_by_the_next_process(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    emulator.batches.lose("create")
    with pytest.raises(errors.GeminiConnectionError):
        make_model(max_retries=0).batch_job(questions(MANY), path=tmp_path)
    check_answers(make_model().batch_job(questions(MANY), path=tmp_path).results(), MANY)
    assert emulator.batches.created == 1


def test_a_refusal_does_not_make_a_lost_job_forgotten(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    """The list lags behind once, and the second creation is refused."""
    hidden: dict[str, Any] = {}

    def lag_behind(request: Any) -> None:
        is_list = request.method == "GET" and request.url.path.endswith("/batches")
        if is_list and not hidden:
            hidden.update(emulator.batches.jobs)
            emulator.batches.jobs.clear()
            emulator.batches.refuse("create", times=1)
        elif is_list:
            emulator.batches.jobs.update(hidden)

    emulator.batches.lose("create")
    chat = make_model(client_args={"event_hooks": {"request": [lag_behind]}})
    check_answers(chat.batch_job(questions(FEW), path=tmp_path).results(), FEW)
    assert emulator.batches.created == 1


def test_the_job_is_found_among_many_others(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    emulator.batches.lose("create")
    with pytest.raises(errors.GeminiConnectionError):
        make_model(max_retries=0).batch_job(questions(FEW), path=tmp_path / "mine")
    for number in range(120):  # more than one page of the list
        make_model().batch_job([f"Other {number}?"], path=tmp_path / str(number))
    check_answers(make_model().batch_job(questions(FEW), path=tmp_path / "mine").results(), FEW)
    assert emulator.batches.created == 121


@pytest.mark.parametrize("operation", ["create", "get", "upload", "download"])
@pytest.mark.parametrize("code", [429, 503])
def test_a_refusal_is_retried(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, operation: str, code: int
) -> None:
    emulator.batches.refuse(operation, code, times=2)
    check_answers(make_model().batch_job(questions(MANY), path=tmp_path).results(), MANY)
    assert emulator.batches.created == 1
    assert answered_once(emulator, MANY)


def test_a_used_up_quota_says_to_call_again(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    emulator.batches.refuse("create", times=1)
    with pytest.raises(errors.GeminiRateLimitError) as raised:
        make_model(max_retries=0).batch_job(questions(FEW), path=tmp_path)
    assert "make the same call again later" in raised.value.__notes__[0]
    check_answers(make_model().batch_job(questions(FEW), path=tmp_path).results(), FEW)
    assert emulator.batches.created == 1


def test_a_job_beyond_the_quota_waits_for_the_others(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DeveloperService, "limits", Limits(20, 10**9))
    chat = make_model(max_retries=0)
    made = chat.batch_job(questions(MANY), path=tmp_path, submit=False)
    hook_calls = [0]

    def refuse_the_second(_: Any) -> None:
        hook_calls[0] += 1
        if emulator.batches.created == 1 and hook_calls[0] < 20:
            emulator.batches.refuse("create", times=1)

    refusing = make_model(
        max_retries=0, client_args={"event_hooks": {"request": [refuse_the_second]}}
    )
    made = refusing.batch_job(path=tmp_path)
    assert len(made.names) == 1  # the other one was refused, and waits
    emulator.batches.forgive()
    check_answers(chat.batch_job(path=tmp_path).results(), MANY)
    assert emulator.batches.created == 2
    assert answered_once(emulator, MANY)


# Items and jobs


@pytest.mark.parametrize("code", [1, 8, 13, 14])
def test_items_fail_alone_and_are_sent_again_alone(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, code: int
) -> None:
    emulator.batches.fail_items(fail_some_once(code))
    check_answers(make_model().batch_job(questions(MANY), path=tmp_path).results(), MANY)
    assert [len(each.items) for each in emulator.batches.jobs.values()] == [MANY, 4]
    assert answered_once(emulator, MANY)


@pytest.mark.parametrize(
    ("status", "kind", "jobs"),
    [
        ({"code": 3, "message": "Bad."}, errors.GeminiInvalidRequestError, 1),
        ({"code": 13, "message": "Bad."}, errors.GeminiServerError, 3),
        ({"code": 8, "message": "Bad."}, errors.GeminiRateLimitError, 3),
    ],
    ids=["invalid", "internal", "exhausted"],
)
def test_an_item_that_keeps_failing_has_its_typed_error_in_place(
    *,
    emulator: Emulator,
    make_model: MakeModel,
    tmp_path: Path,
    status: Any,
    kind: type[Exception],
    jobs: int,
) -> None:
    emulator.batches.fail_items(
        lambda _, body: status if "Question 1?" in str(body["contents"]) else None
    )
    chat = make_model(max_retries=2)
    found = list(chat.batch_job(questions(FEW), path=tmp_path).results())
    assert [type(result).__name__ for _, result in found] == [
        "AIMessage",
        kind.__name__,
        "AIMessage",
    ]
    assert isinstance(found[1][1], kind)
    assert "Bad." in str(found[1][1])
    assert emulator.batches.created == jobs


def test_an_item_that_is_refused_names_the_model_and_the_tool(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    words = "GenerateContentRequest.tools[0].function_declarations[0].parameters.properties[city]"
    emulator.batches.fail_items(lambda _number, _body: {"code": 3, "message": words})
    bound = make_model().bind_tools([get_weather])
    ((_, result),) = bound.batch_job(["Weather in Oslo?"], path=tmp_path).results()
    assert isinstance(result, errors.GeminiInvalidRequestError)
    assert "Error calling model 'gemini-3.8-flash'" in str(result)
    assert "(That is tool 'get_weather', parameter 'city'.)" in str(result)


def test_the_inputs_of_an_expired_job_are_sent_again(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    emulator.batches.end("EXPIRED")
    check_answers(make_model().batch_job(questions(MANY), path=tmp_path).results(), MANY)
    assert emulator.batches.created == 2
    assert answered_once(emulator, MANY)


@pytest.mark.parametrize("state", ["FAILED", "CANCELLED"])
def test_a_job_that_failed_is_an_error_in_place_and_can_be_sent_again(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, state: str
) -> None:
    emulator.batches.end(state)
    made = make_model().batch_job(questions(FEW), path=tmp_path)
    for _, result in made.results():
        assert isinstance(result, errors.BatchJobError)
        assert f"ended as {state}" in str(result)
    assert emulator.batches.created == 1
    made.resend()
    check_answers(made.results(), FEW)
    assert emulator.batches.created == 2


def test_a_job_can_be_cancelled_and_the_rest_sent_again(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DeveloperService, "limits", Limits(20, 10**9))
    made = make_model().batch_job(questions(MANY), path=tmp_path)
    second = emulator.batches.jobs[made.names[1]]
    second.states.extendleft(["RUNNING"] * 5)
    made.poll()
    made.poll()  # the first job has ended
    made.cancel()
    found = list(made.results())
    kinds = [type(result) for _, result in found]
    assert kinds == [AIMessage] * 20 + [errors.BatchJobError] * 20
    made.resend()
    check_answers(made.results(), MANY)
    assert answered_once(emulator, MANY)


def test_a_job_may_be_done_before_its_results_are_readable(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    emulator.batches.refuse("download", 404, times=3)
    check_answers(make_model().batch_job(questions(MANY), path=tmp_path).results(), MANY)


def test_a_job_cancelled_before_it_exists_is_an_error_in_place(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    made = make_model().batch_job(questions(FEW), path=tmp_path, submit=False)
    made.cancel()
    kinds = [type(result) for _, result in made.results()]
    assert kinds == [errors.BatchJobError] * FEW
    assert emulator.batches.created == 0
    made.resend()
    check_answers(made.results(), FEW)
    assert answered_once(emulator, FEW)


def test_a_job_whose_creation_was_lost_is_cancelled_too(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    emulator.batches.lose("create")
    with pytest.raises(errors.GeminiConnectionError):
        make_model(max_retries=0).batch_job(questions(FEW), path=tmp_path)
    made = make_model().batch_job(path=tmp_path, submit=False)
    made.cancel()
    made.wait()
    (known,) = emulator.batches.jobs.values()
    assert known.state == "CANCELLED"
    assert made.names == [known.name]


def test_a_job_that_is_gone_does_not_keep_the_others_from_being_cancelled(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DeveloperService, "limits", Limits(20, 10**9))
    made = make_model().batch_job(questions(MANY), path=tmp_path)
    gone, other = made.names
    del emulator.batches.jobs[gone]
    with pytest.raises(errors.GeminiNotFoundError):
        made.cancel()
    assert emulator.batches.jobs[other].state == "CANCELLED"


def test_a_long_response_of_a_cancelled_job_is_an_error_until_it_is_sent_again(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    text = "One two three four five six seven eight nine."
    emulator.reply_long(text, hop_size=1)
    made = make_model(model="gemini-4-flash").batch_job(["Count."], path=tmp_path)
    (known,) = emulator.batches.jobs.values()
    while known.state != "SUCCEEDED":  # it ends before it is cancelled
        make_model().client.batches.get(name=known.name)
    made.cancel()
    ((_, result),) = made.results()
    assert isinstance(result, errors.BatchJobError)
    assert "continue" in str(result)
    made.resend()
    ((_, result),) = made.results()
    assert isinstance(result, AIMessage)
    assert result.text == text


def test_a_long_response_that_starts_over_has_no_text_twice(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    text = "One two three four five six seven eight nine."
    emulator.reply_long(text, hop_size=1)
    emulator.batches.end("SUCCEEDED", "FAILED")  # the second job would have continued it
    made = make_model(model="gemini-4-flash").batch_job(["Count."], path=tmp_path)
    ((_, result),) = made.results()
    assert isinstance(result, errors.BatchJobError)
    emulator.reply_long(text, hop_size=1)
    made.resend()
    ((_, result),) = made.results()
    assert isinstance(result, AIMessage)
    assert result.text == text


def test_a_job_can_be_deleted_again(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DeveloperService, "limits", Limits(25, 10**9))
    made = make_model().batch_job(questions(2 * MANY), path=tmp_path)
    made.wait()
    make_model().client.batches.delete(name=made.names[0])
    make_model().client.files.delete(name=next(iter(emulator.batches.files)))
    made.delete()
    made.delete()
    assert emulator.batches.jobs == {}
    check_answers(made.results(), 2 * MANY)


def test_a_file_system_that_cannot_sync_folders_is_enough_for_a_job(
    make_model: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some network file systems answer `fsync` of a folder with EINVAL."""
    sync = os.fsync

    def sync_files(file: int) -> None:
        if stat.S_ISDIR(os.fstat(file).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")
        sync(file)

    monkeypatch.setattr(os, "fsync", sync_files)
    check_answers(make_model().batch_job(questions(FEW), path=tmp_path).results(), FEW)


# Killed processes


class Killed(BaseException):
    """The process ends here. Nothing of ours catches it."""


def count_and_kill(at: int, counted: list[int]) -> None:
    counted[0] += 1
    if counted[0] == at:
        raise Killed


def kill_after_write(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """Kill the process after its nth write to the disk: a flushed file, or a renamed one."""
    counted = [0]
    for name in ("fsync", "replace"):
        write = getattr(os, name)

        def dying(*arguments: Any, write: Callable[..., None] = write) -> None:
            write(*arguments)
            count_and_kill(at, counted)

        monkeypatch.setattr(os, name, dying)


def check_killed(emulator: Emulator, start: Callable[[], Any]) -> int:
    """Start the program again after each kill, and return how many kills there were.

    Args:
        emulator: Some items fail once, so that there are two jobs.
        start: Returns the results of a job with `MANY` inputs.
    """
    emulator.batches.fail_items(fail_some_once())
    kills = 0
    while True:
        try:
            found = list(start())
            break
        except Killed:
            kills += 1
            assert kills < 50
    check_answers(found, MANY)
    assert emulator.batches.created == 2  # the second one has the items that failed
    assert answered_once(emulator, MANY)
    return kills


def fail_some_once(code: int = 13) -> Callable[[int, Any], Any]:
    """A fault of items: one of ten fails when it is sent for the first time."""
    failed: Counter[str] = Counter()

    def fault(_: int, body: Any) -> Any:
        text = body["contents"][0]["parts"][0]["text"]
        failed[text] += text.endswith("0?")
        return {"code": code, "message": "It failed."} if failed[text] == 1 else None

    return fault


@pytest.mark.parametrize("at", range(1, 13))
def test_a_process_killed_while_it_stores_something_loses_and_repeats_nothing(
    emulator: Emulator,
    make_model: MakeModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    at: int,
) -> None:
    kill_after_write(monkeypatch, at)
    check_killed(emulator, lambda: make_model().batch_job(questions(MANY), path=tmp_path).results())


@pytest.mark.parametrize("moment", ["request", "response"])
@pytest.mark.parametrize("at", range(1, 9))
def test_a_process_killed_around_a_request_loses_and_repeats_nothing(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, moment: str, at: int
) -> None:
    counted = [0]
    hooks = {moment: [lambda _: count_and_kill(at, counted)]}
    check_killed(
        emulator,
        lambda: (
            make_model(client_args={"event_hooks": hooks})
            .batch_job(questions(MANY), path=tmp_path)
            .results()
        ),
    )
