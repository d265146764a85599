"""Arguments, folders and results of batch jobs that are wrong, damaged, odd, or of another job."""

from __future__ import annotations

import gc
import json
import pickle
import re
import shutil
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.prompt_values import StringPromptValue

from langchain_gemini_tools import errors
from langchain_gemini_tools.batch.folder import Folder, JobPart, Limits, Manifest
from langchain_gemini_tools.batch.service import DeveloperService
from langchain_gemini_tools.testing.fake.responses import whole
from tests.integration_tests.test_batch_jobs import (
    FEW,
    MANY,
    check_answers,
    questions,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_gemini_tools import ChatGemini
    from langchain_gemini_tools.batch import BatchStatus
    from langchain_gemini_tools.testing.fake import Emulator
    from langchain_gemini_tools.testing.fake.batches import FakeFile
    from langchain_gemini_tools.testing.fake.responses import Outgoing
    from tests.conftest import MakeModel


pytestmark = pytest.mark.usefixtures("without_delays")


@pytest.fixture
def make_model(make_model: MakeModel) -> Any:
    """Models that retry, as models do by default."""
    return lambda **settings: make_model(**{"max_retries": 6} | settings)


def test_another_model_does_not_take_over_a_folder(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    make_model(model="gemini-3.8-flash").batch_job(questions(FEW), path=tmp_path)
    other = make_model(model="gemini-2.5-flash")
    for inputs in (questions(FEW), None):
        with pytest.raises(errors.InvalidOptionError, match=re.escape("gemini-3.8-flash")):
            other.batch_job(inputs, path=tmp_path)
    assert emulator.batches.created == 1


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"{}", b'{"version": 1, "parts": [{}]}', b'{"version": 9}']
)
def test_a_damaged_state_is_a_typed_error(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, content: bytes
) -> None:
    make_model().batch_job(questions(FEW), path=tmp_path)
    (tmp_path / "batch.json").write_bytes(content)
    for inputs in (questions(FEW), None):
        with pytest.raises(errors.InvalidOptionError, match=r"batch\.json"):
            make_model().batch_job(inputs, path=tmp_path)
    assert emulator.batches.created == 1


def test_any_error_of_the_api_can_be_stored_and_read_again(tmp_path: Path) -> None:
    deep: dict[str, Any] = {}
    for _ in range(101):
        deep = {"details": [deep]}
    error = {"message": "\ud800", "\ud800": 1, **deep}
    manifest = Manifest("run", "model", 1, parts=(JobPart(0, 1, first=0, error=error),))
    Folder(tmp_path).save(manifest)
    assert Folder(tmp_path).load() == manifest


def test_inputs_beside_the_name_of_a_job_are_rejected(make_model: MakeModel) -> None:
    with pytest.raises(errors.InvalidOptionError, match="needs a path, or the name of a job"):
        make_model().batch_job(questions(FEW), name="batches/other")


@pytest.mark.parametrize("state", ["FAILED", "EXPIRED", "CANCELLED"])
def test_a_job_of_elsewhere_without_results_is_an_error(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, state: str
) -> None:
    emulator.batches.end(state)
    (name,) = make_model().batch_job(questions(FEW), path=tmp_path).names
    handle = make_model().batch_job(name=name)
    with pytest.raises(errors.BatchJobError, match=f"ended as {state}"):
        list(handle.results())
    with pytest.raises(errors.InvalidOptionError, match="created elsewhere"):
        handle.resend()


def test_a_line_that_cannot_be_read_loses_only_its_own_input(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    made = make_model().batch_job(questions(MANY), path=tmp_path)
    made.poll()
    output = output_of(emulator, make_model())
    lines = output.data.splitlines(keepends=True)
    output.data = b"".join([*lines[:5], lines[5][:20] + b"\n", *lines[6:]])
    check_answers(made.results(), MANY)
    sizes = [len(each.items) for each in emulator.batches.jobs.values()]
    assert sizes == [MANY, 1]


def test_several_threads_read_the_results_of_one_job(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    made = make_model().batch_job(questions(MANY), path=tmp_path)
    made.wait()
    with ThreadPoolExecutor(8) as threads:
        for found in threads.map(lambda _: list(made.results(wait=False)), range(40)):
            check_answers(found, MANY)


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("requests-00000.jsonl", "missing"),
        ("requests-00000.jsonl", "cut"),
        ("results-00000.jsonl", "missing"),
    ],
)
def test_a_damaged_file_is_named_before_anything_is_sent(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, file: str, damage: str
) -> None:
    is_sent = file.startswith("results")
    made = make_model().batch_job(questions(MANY), path=tmp_path, submit=is_sent)
    if is_sent:
        made.wait()
    damaged = tmp_path / file
    lines = damaged.read_bytes().splitlines(keepends=True)
    damaged.unlink()
    if damage == "cut":
        damaged.write_bytes(b"".join(lines[:20]))
    with pytest.raises(errors.InvalidOptionError, match=file):
        list(make_model().batch_job(path=tmp_path).results())
    assert emulator.batches.created == is_sent


def test_a_link_in_the_folder_is_not_written_through(make_model: MakeModel, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("Mine.")
    (tmp_path / "job").mkdir()
    for name in ("batch.json.tmp", "requests-00000.jsonl.tmp", "results-00000.jsonl.tmp"):
        (tmp_path / "job" / name).symlink_to(other)
    check_answers(make_model().batch_job(questions(FEW), path=tmp_path / "job").results(), FEW)
    assert other.read_text() == "Mine."


@pytest.mark.parametrize(
    "odd", [{"key": "9" * 5000}, {"key": "0", "error": {"code": [1]}}, {"key": "-1"}, {"key": 7}]
)
def test_an_odd_result_does_not_hide_the_others(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, odd: Any
) -> None:
    made = make_model().batch_job(questions(MANY), path=tmp_path)
    output = output_of(emulator, make_model())
    output.data = json.dumps(odd).encode() + b"\n" + output.data
    check_answers(made.results(), MANY)


def test_results_that_stay_unreadable_end_the_waiting(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    made = make_model().batch_job(questions(MANY), path=tmp_path)
    emulator.batches.refuse("download", 403, times=1000)
    with pytest.raises(errors.GeminiPermissionError) as raised:
        made.wait(timeout_seconds=60)
    assert "Use another path" in raised.value.__notes__[0]
    emulator.batches.forgive()
    check_answers(made.results(), MANY)


def test_the_error_of_an_item_shows_no_key(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    key = "unreal-key-0815"
    emulator.batches.fail_items(lambda _number, _body: {"code": 3, "message": f"Bad: {key}."})
    chat = make_model(api_key=key)
    for _, result in chat.batch_job(questions(FEW), path=tmp_path).results():
        assert isinstance(result, errors.GeminiInvalidRequestError)
        assert "Bad: [redacted]" in str(result)
        assert key not in repr(vars(result))


def test_a_result_that_is_not_json_shows_no_key(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    key = "unreal-key-0815"
    chat = make_model(api_key=key)
    (name,) = chat.batch_job(questions(MANY), path=tmp_path).names
    output_of(emulator, chat).data = f"<p>The key {key} is blocked.</p>".encode()
    with pytest.raises(errors.UnreadableResponseError, match="not JSON") as raised:
        chat.batch_job(name=name).wait()
    assert key not in "".join(traceback.format_exception(raised.value))


def test_unreadable_results_do_not_hide_those_of_other_jobs(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DeveloperService, "limits", Limits(21, 10**9))
    made = make_model().batch_job(questions(42), path=tmp_path)
    chat = make_model()
    for name in made.names * 2:
        chat.client.batches.get(name=name)
    first = emulator.batches.files[f"files/batch-{made.names[0].removeprefix('batches/')}"]
    first.data, before = b"<html>", first.data
    with pytest.raises(errors.BatchJobError, match="names its input"):
        made.wait()
    assert [index for index, _ in made.results(wait=False)] == list(range(21, 42))
    first.data = before
    check_answers(made.results(), 42)
    assert emulator.batches.created == 2


def test_a_deleted_job_does_not_hide_the_results_of_the_others(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DeveloperService, "limits", Limits(20, 10**9))
    made = make_model().batch_job(questions(MANY), path=tmp_path)
    make_model().client.batches.delete(name=made.names[0])
    for _ in range(2):
        with pytest.raises(errors.GeminiNotFoundError) as raised:
            made.poll()
        assert made.names[0] in raised.value.__notes__[0]
    assert [index for index, _ in made.results(wait=False)] == list(range(20, MANY))


# Arguments


@pytest.mark.parametrize(
    ("inputs", "kind"),
    [
        ("Hello?", "str"),
        (b"Hello?", "bytes"),
        (HumanMessage("Hello?"), "HumanMessage"),
        (StringPromptValue(text="Hello?"), "StringPromptValue"),
        ({"question": "Hello?"}, "dict"),
        ({"Hello?", "Hi?"}, "set"),
        (5, "int"),
    ],
)
def test_inputs_that_are_not_a_list_are_rejected(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, inputs: Any, kind: str
) -> None:
    with pytest.raises(
        errors.InvalidOptionError,
        match=f"inputs must be a list or another ordered iterable, not {kind}",
    ):
        make_model().batch_job(inputs, path=tmp_path / "job")
    assert emulator.requests == []
    assert not (tmp_path / "job").exists()


@pytest.mark.parametrize("path", ["", 5, b"job", "a\0b"])
def test_a_path_that_is_not_one_is_rejected(
    *,
    emulator: Emulator,
    make_model: MakeModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    path: Any,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(errors.InvalidOptionError, match=re.escape(f"path={path!r}")):
        make_model().batch_job(questions(FEW), path=path)
    assert emulator.requests == []


def test_a_job_stays_where_it_is_when_the_process_goes_elsewhere(
    make_model: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = make_model().batch_job(questions(FEW), path="runs/job")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir("other")
    check_answers(made.results(), FEW)


@pytest.mark.parametrize("below", ["", "further/below"])
def test_a_path_that_cannot_be_a_folder_is_named(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, below: str
) -> None:
    file = tmp_path / "file"
    file.write_text("Mine.")
    with pytest.raises(errors.InvalidOptionError, match=re.escape(f"path='{file / below}'")):
        make_model().batch_job(questions(FEW), path=file / below)
    assert emulator.requests == []


def test_a_path_without_a_job_is_left_as_it_is(make_model: MakeModel, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "mistyped"):
        with pytest.raises(errors.InvalidOptionError, match="Pass its inputs"):
            make_model().batch_job(path=path)
    assert list(tmp_path.iterdir()) == []
    made = make_model().batch_job(questions(FEW), path=tmp_path / "job")
    shutil.rmtree(tmp_path / "job")
    with pytest.raises(errors.InvalidOptionError, match="no batch job at"):
        made.poll()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [5, "", "batches/", "batches/../files/1", "batches/a b"])
def test_a_name_that_no_job_has_is_rejected(
    emulator: Emulator, make_model: MakeModel, name: Any
) -> None:
    with pytest.raises(errors.InvalidOptionError, match=re.escape(f"{name!r} is not the name")):
        make_model().batch_job(name=name)
    assert emulator.requests == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"config": "secret"}, "config must be a dict, not str"),
        ({"webhooks": "https://secret@host"}, "webhooks must be a dict, not str"),
        (
            {"webhooks": {"uris": type("secret", (), {})()}},
            "webhooks must be a dict of JSON values",
        ),
    ],
)
def test_an_argument_of_another_type_is_rejected_before_anything_is_written(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, arguments: Any, message: str
) -> None:
    with pytest.raises(errors.InvalidOptionError, match=message) as raised:
        make_model().batch_job(questions(FEW), path=tmp_path, **arguments)
    assert "secret" not in str(raised.value)  # a value may be one
    assert emulator.requests == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("seconds", [-1, "30", float("nan")])
@pytest.mark.parametrize("argument", ["poll_seconds", "timeout_seconds"])
def test_times_that_are_not_numbers_of_seconds_are_rejected(
    make_model: MakeModel, tmp_path: Path, argument: str, seconds: Any
) -> None:
    made = make_model().batch_job(questions(FEW), path=tmp_path)
    with pytest.raises(errors.InvalidOptionError, match=re.escape(f"{argument}={seconds!r}")):
        made.wait(**{argument: seconds})


def test_a_job_that_has_ended_needs_no_time(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    emulator.batches.polls_until_done = 1
    made = make_model().batch_job(questions(FEW), path=tmp_path)
    assert made.wait(timeout_seconds=0).is_done


def test_a_job_cannot_be_pickled_and_says_what_can(make_model: MakeModel, tmp_path: Path) -> None:
    made = make_model().batch_job(questions(FEW), path=tmp_path)
    with pytest.raises(TypeError, match=re.escape("model.batch_job(path=")):
        pickle.dumps(made)


def test_no_file_is_left_open(
    emulator: Emulator, make_model: MakeModel, recwarn: pytest.WarningsRecorder, tmp_path: Path
) -> None:
    gc.collect()  # what other tests left is not counted here
    recwarn.clear()
    warnings.simplefilter("always")
    made = make_model().batch_job(questions(MANY), path=tmp_path)
    (name,) = made.names
    check_answers(made.results(), MANY)
    handle = make_model().batch_job(name=name)
    check_answers(handle.results(), MANY)
    folder = Path(re.findall("path='(.*?)'", repr(handle))[0])
    assert folder.exists()
    del made, handle
    gc.collect()
    assert not folder.exists()
    messages = [str(each.message) for each in recwarn]
    assert [message for message in messages if "unclosed file" in message] == []


async def test_what_has_no_result_is_sent_again_without_blocking(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    emulator.batches.end("FAILED")
    made = await make_model().abatch_job(questions(FEW), path=tmp_path)
    await made.async_wait()
    await made.aresend()
    check_answers([each async for each in made.aresults()], FEW)


# What a service may answer


def output_of(emulator: Emulator, chat: ChatGemini) -> FakeFile:
    """Finish the only job, and return its results."""
    (known,) = emulator.batches.jobs.values()
    while known.state != "SUCCEEDED":
        chat.client.batches.get(name=known.name)
    return emulator.batches.files[f"files/batch-{known.name.removeprefix('batches/')}"]


def answer_with(emulator: Emulator, change: Callable[[dict[str, Any]], object]) -> None:
    """Change what the emulator says about its only job."""
    (known,) = emulator.batches.jobs.values()
    describe = known.describe

    def changed(**options: Any) -> dict[str, Any]:
        described = describe(**options)
        change(described)
        return described

    known.describe = changed  # type: ignore[method-assign]


def test_a_job_that_never_names_its_results_ends_the_waiting(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    made = make_model().batch_job(questions(FEW), path=tmp_path)

    def hide_results(described: dict[str, Any]) -> None:
        described.pop("response", None)
        described["metadata"].pop("output", None)

    (known,) = emulator.batches.jobs.values()
    describe = known.describe
    answer_with(emulator, hide_results)
    seen: list[BatchStatus] = []
    with pytest.raises(errors.GeminiNotFoundError, match="is SUCCEEDED, but names no results"):
        made.wait(on_poll=seen.append)
    assert 10 < len(seen) < 30
    known.describe = describe  # type: ignore[method-assign]
    check_answers(made.results(), FEW)
    assert emulator.batches.created == 1


@pytest.mark.parametrize(
    "results",
    [
        lambda data: data.replace(b'"key": "', b'"key": "other-'),
        lambda data: data.replace(b'"key": "', b'"other": "'),
        lambda data: data.replace(b'"key": "', b'"key": "77'),
        lambda _: b"<html>Sign in</html>\n",
    ],
    ids=["unknown keys", "no keys", "other numbers", "a page"],
)
def test_results_without_known_keys_are_not_paid_for_again(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, results: Callable[[bytes], bytes]
) -> None:
    made = make_model().batch_job(questions(MANY), path=tmp_path)
    output = output_of(emulator, make_model())
    before = output.data
    output.data = results(before)
    with pytest.raises(errors.BatchJobError, match="names its input"):
        made.wait()
    output.data = before
    check_answers(made.results(), MANY)
    assert emulator.batches.created == 1


def test_a_result_that_names_no_input_is_logged(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = make_model().batch_job(questions(MANY), path=tmp_path)
    output = output_of(emulator, make_model())
    output.data = output.data.replace(b'"key": "3"', b'"key": "9999"')
    check_answers(made.results(), MANY)
    assert f"1 of {MANY} results of" in caplog.text
    assert str(made.status) == f"{MANY}/{MANY} · done"


def test_keys_may_be_numbers_and_results_may_come_twice(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    made = make_model().batch_job(questions(MANY), path=tmp_path)
    output = output_of(emulator, make_model())
    output.data = re.sub(rb'"key": "(\d+)"', rb'"key": \1', output.data) * 2
    check_answers(made.results(), MANY)
    assert emulator.batches.created == 1


@pytest.mark.parametrize("file", [5, "https://other.example/x", "files/../keys", ["files/a"]])
def test_results_in_an_odd_place_are_not_read(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, file: Any
) -> None:
    made = make_model().batch_job(questions(MANY), path=tmp_path)
    answer_with(emulator, lambda job: job.update(response={"responsesFile": file}))
    with pytest.raises(errors.UnreadableResponseError, match="responsesFile"):
        made.wait()


def test_an_answer_about_another_job_is_an_error(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    made = make_model().batch_job(questions(FEW), path=tmp_path)
    names = made.names
    answer_with(emulator, lambda job: job.update(name="batches/other"))
    with pytest.raises(errors.UnreadableResponseError, match="batches/other"):
        made.poll()
    assert made.names == names


@pytest.mark.parametrize("count", ["9" * 5000, "-5", "many", -5, 1.5, None, []])
def test_odd_counts_are_not_counted(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, count: Any
) -> None:
    made = make_model().batch_job(questions(FEW), path=tmp_path)
    stats = {"successfulRequestCount": count, "failedRequestCount": count}
    answer_with(emulator, lambda job: job["metadata"].update(batchStats=stats))
    assert str(made.wait()) == f"0/{FEW} · done"


@pytest.mark.parametrize("state", ["BATCH_STATE_UNSPECIFIED", "BATCH_STATE_NEW", None, 4])
def test_a_job_that_is_done_has_ended_whatever_its_state(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, state: Any
) -> None:
    made = make_model().batch_job(questions(FEW), path=tmp_path)
    answer_with(emulator, lambda job: job["metadata"].update(state=state))
    check_answers(made.results(), FEW)


def test_a_state_that_is_not_known_is_logged_once(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    emulator.batches.polls_until_done = 5
    made = make_model().batch_job(questions(FEW), path=tmp_path)

    def change(job: dict[str, Any]) -> None:
        if "done" not in job:
            job["metadata"]["state"] = "BATCH_STATE_ASLEEP"

    answer_with(emulator, change)
    check_answers(made.results(), FEW)
    assert caplog.text.count("ASLEEP") == 1


def test_the_error_of_an_item_may_be_a_text(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    made = make_model(max_retries=0).batch_job(questions(MANY), path=tmp_path)
    output = output_of(emulator, make_model())
    output.data = output.data.replace(b'"response": {', b'"error": "The disk is full.", "x": {', 1)
    (_, result), *_ = made.results()
    assert "The disk is full." in str(result)


def test_a_list_of_jobs_that_never_ends_is_an_error(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulator.batches.lose("create", times=10)
    serve = emulator.batches.serve
    page = whole(200, {"operations": [5, {}, None], "nextPageToken": "again"})

    def list_again(operation: str, *more: Any) -> Outgoing:
        return page if operation == "list" else serve(operation, *more)

    monkeypatch.setattr(emulator.batches, "serve", list_again)
    with pytest.raises(errors.UnreadableResponseError, match="list of batch jobs"):
        make_model().batch_job(questions(FEW), path=tmp_path)
    assert emulator.batches.created == 1


def test_a_full_disk_is_not_a_failed_connection(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    made = make_model().batch_job(questions(MANY), path=tmp_path)
    resource = pytest.importorskip("resource", reason="limits of a process")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (9000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            made.wait()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "results-00000.jsonl" in "".join(caught.value.__notes__)
    downloads = [each for each in emulator.requests if ":download" in each.path]
    assert len(downloads) == 1
    check_answers(made.results(), MANY)
