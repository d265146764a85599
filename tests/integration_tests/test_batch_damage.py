"""Folders and results of batch jobs that are damaged, odd, or of another job."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from langchain_gemini_tools import errors
from langchain_gemini_tools.batch.folder import Limits
from langchain_gemini_tools.batch.service import DeveloperService
from tests.integration_tests.test_batch_jobs import (
    FEW,
    MANY,
    check_answers,
    questions,
)

if TYPE_CHECKING:
    from pathlib import Path

    from langchain_gemini_tools.testing.fake import Emulator
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


def test_inputs_beside_the_name_of_a_job_are_rejected(make_model: MakeModel) -> None:
    with pytest.raises(errors.InvalidOptionError, match="needs inputs and a path"):
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
    (known,) = emulator.batches.jobs.values()
    make_model().client.batches.get(name=known.name)
    output = emulator.batches.files[f"files/batch-{known.name.removeprefix('batches/')}"]
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
    (known,) = emulator.batches.jobs.values()
    while known.state != "SUCCEEDED":
        make_model().client.batches.get(name=known.name)
    output = emulator.batches.files[f"files/batch-{known.name.removeprefix('batches/')}"]
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
