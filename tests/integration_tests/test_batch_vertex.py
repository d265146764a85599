"""Batch jobs on Vertex AI: requests and results in a bucket, for which a folder stands.

No recording has such a job. `testing/fake/vertex_batches.py` says where its rules come from.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from typing import TYPE_CHECKING, Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from pydantic import BaseModel

from langchain_gemini_tools import ChatGemini, errors, run_in_batches
from langchain_gemini_tools.batch.folder import Limits
from langchain_gemini_tools.batch.vertex import VertexService
from langchain_gemini_tools.testing import FakeGemini
from langchain_gemini_tools.testing.fake import ACCESS_TOKEN
from langchain_gemini_tools.testing.fake.batches import VertexBatch
from tests.integration_tests.play import get_weather
from tests.integration_tests.test_batch_faults import (
    check_killed,
    count_and_kill,
    fail_some_once,
    kill_after_write,
)
from tests.integration_tests.test_batch_jobs import (
    FEW,
    MANY,
    answered_once,
    check_answers,
    questions,
)
from tests.rotation import LIBRARIES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from langchain_gemini_tools.testing.fake import Emulator
    from tests.conftest import MakeModel

STORAGE = "gs://my-bucket/runs"


class LocalBuckets(LocalFileSystem):  # type: ignore[misc]
    """`gs://bucket/a` is `folder/bucket/a`."""

    protocol = ("gs", "gcs")
    folder: ClassVar[str] = ""
    options: ClassVar[dict[str, Any]] = {}
    fails: ClassVar[Any] = staticmethod(lambda _: None)
    """Called before a file is opened, with the mode and its name."""

    def __init__(self, **options: Any) -> None:
        super().__init__(auto_mkdir=True)
        type(self).options = options

    @classmethod
    def _strip_protocol(cls, path: Any) -> str:
        text = str(path)
        return (f"{cls.folder}/{text[5:]}" if text.startswith("gs://") else text).rstrip("/")

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        self.fails(f"{mode} {os.path.basename(path)}")  # noqa: PTH119
        return super()._open(path, mode, **options)


@pytest.fixture(autouse=True)
def bucket(emulator: Emulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for Cloud Storage, for fsspec and for the emulator."""
    monkeypatch.setenv("GEMINI_RETRY_DELAYS", "off")
    folder = tmp_path / "buckets"
    emulator.batches.bucket_folder = folder
    monkeypatch.setattr(LocalBuckets, "folder", str(folder))
    LocalBuckets.clear_instance_cache()
    fsspec.register_implementation("gs", LocalBuckets, clobber=True)
    return folder


class Credentials:
    """What `google.auth` credentials have, as far as the SDK uses it."""

    token = ACCESS_TOKEN
    expired = False
    quota_project_id = None

    def refresh(self, _: Any) -> None:
        raise AssertionError


@pytest.fixture
def make_vertex(make_model: MakeModel) -> Any:
    """Models on Vertex AI that retry, as models do by default."""
    place = {"vertexai": True, "project": "my-project", "location": "europe-west4"}
    own = {"max_retries": 6, "api_key": None}
    return lambda **more: make_model(**{**own, **place, "credentials": Credentials(), **more})


def lines_of(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_bytes().splitlines()]


# What is sent and returned


@pytest.mark.parametrize("echoes", [True, False], ids=["custom_id", "request only"])
@pytest.mark.parametrize("files", [1, 3], ids=["one file", "three files"])
def test_results_come_in_the_order_of_the_inputs(
    *,
    emulator: Emulator,
    make_vertex: MakeModel,
    tmp_path: Path,
    bucket: Path,
    files: int,
    echoes: bool,
) -> None:
    """The service returns rows in another order, with sorted keys and added nulls."""
    emulator.batches.shuffles, emulator.batches.result_files = True, files
    emulator.batches.echoes_siblings = echoes
    inputs: list[Any] = [
        *questions(MANY),
        [("system", "Be terse."), ("human", f"Question {MANY}?")],
    ]
    made = make_vertex(seed=5).batch_job(inputs, path=tmp_path / "job", storage=STORAGE)
    check_answers(made.results(), MANY + 1)
    assert answered_once(emulator, MANY + 1)
    (created,) = emulator.batches.jobs.values()
    assert [beside for beside, _ in created.items[:2]] == [
        {"custom_id": "input-0"},
        {"custom_id": "input-1"},
    ]
    written = [*bucket.rglob("predictions*.jsonl")]
    assert len(written) == files
    assert b'"systemInstruction": null' in written[0].read_bytes()
    assert str(made.status) == "41/41 · done"


@pytest.mark.parametrize("echoes", [True, False], ids=["custom_id", "request only"])
def test_equal_inputs_have_a_result_each(
    emulator: Emulator, make_vertex: MakeModel, tmp_path: Path, echoes: bool
) -> None:
    emulator.batches.shuffles, emulator.batches.echoes_siblings = True, echoes
    inputs = ["Question 1?", "Question 2?", "Question 1?", "Question 1?"]
    made = make_vertex().batch_job(inputs, path=tmp_path / "job", storage=STORAGE)
    found: list[Any] = list(made.results())
    assert [index for index, _ in found] == [0, 1, 2, 3]
    assert all(inputs[index] in result.text for index, result in found)
    assert emulator.batches.created == 1


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", ["gemini-3.8-flash", "publishers/google/models/gemini-3.8-flash"])
def test_a_job_is_created_as_the_sdk_creates_it(
    *, emulator: Emulator, make_vertex: MakeModel, tmp_path: Path, library: str, name: str
) -> None:
    __import__(library)
    chat = make_vertex(model=name)
    chat.batch_job(questions(FEW), path=tmp_path / "job", storage=f"{STORAGE}/")
    ours = emulator.requests[-1]
    body = json.loads(ours.raw)
    chat.client.batches.create(
        model=name,
        src=body["inputConfig"]["gcsSource"]["uris"][0],
        config={
            "dest": body["outputConfig"]["gcsDestination"]["outputUriPrefix"],
            "display_name": body["displayName"],
        },
    )
    theirs = emulator.requests[-1]
    assert (ours.method, ours.path, ours.query) == (theirs.method, theirs.path, theirs.query)
    assert body == json.loads(theirs.raw)
    assert body["inputConfig"]["gcsSource"]["uris"] == [
        f"{STORAGE}/{body['displayName']}/requests.jsonl"
    ]


class Person(BaseModel):
    name: str
    age: int


def test_tools_and_structured_outputs_work(
    emulator: Emulator, make_vertex: MakeModel, tmp_path: Path
) -> None:
    bound = make_vertex().bind_tools([get_weather])
    job = bound.batch_job(["Weather in Oslo?"], path=tmp_path / "tools", storage=STORAGE)
    ((_, result),) = job.results()
    assert isinstance(result, AIMessage)
    assert [call["name"] for call in result.tool_calls] == ["get_weather"]
    emulator.reply(structured={"name": "Ada", "age": 36})
    people = make_vertex().with_structured_output(Person, method="json_schema")
    named = people.batch_job(["Ada is 36."], path=tmp_path / "people", storage=STORAGE)
    assert list(named.results()) == [(0, Person(name="Ada", age=36))]


async def test_everything_that_waits_has_an_async_version(
    emulator: Emulator, make_vertex: MakeModel, tmp_path: Path, bucket: Path
) -> None:
    bound = make_vertex().bind(seed=1)
    made = await bound.abatch_job(questions(MANY), path=tmp_path / "job", storage=STORAGE)
    check_answers([item async for item in made.aresults()], MANY)
    await made.adelete()
    assert emulator.batches.jobs == {}


def test_lines_can_be_seen_before_they_are_sent(
    emulator: Emulator, make_vertex: MakeModel, tmp_path: Path, bucket: Path
) -> None:
    chat = make_vertex()
    made = chat.batch_job(questions(FEW), path=tmp_path / "job", storage=STORAGE, submit=False)
    assert (emulator.requests, [*bucket.rglob("*.jsonl")]) == ([], [])
    shown = made.preview(2)
    made.submit()
    (written,) = bucket.rglob("*.jsonl")
    assert lines_of(written)[:2] == shown


def test_a_job_is_split_at_the_limits_of_the_service(
    emulator: Emulator, make_vertex: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert VertexService.limits == Limits(max_requests=200_000, max_bytes=950_000_000)
    monkeypatch.setattr(VertexService, "limits", Limits(15, 10**9))
    made = make_vertex().batch_job(questions(MANY), path=tmp_path / "job", storage=STORAGE)
    assert [len(each.items) for each in emulator.batches.jobs.values()] == [15, 15, 10]
    check_answers(made.results(), MANY)


def test_the_bucket_is_used_with_the_credentials_of_the_model(
    make_vertex: MakeModel, tmp_path: Path, bucket: Path
) -> None:
    mine = Credentials()
    chat = make_vertex(credentials=mine)
    list(chat.batch_job(questions(FEW), path=tmp_path / "job", storage=STORAGE).results())
    assert LocalBuckets.options == {"token": mine}
    stored = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert stored
    assert all(ACCESS_TOKEN.encode() not in file.read_bytes() for file in stored)


# The folder and the name


def test_the_same_call_goes_on_where_it_was(
    emulator: Emulator, make_vertex: MakeModel, tmp_path: Path
) -> None:
    make_vertex().batch_job(questions(MANY), path=tmp_path / "job", storage=STORAGE)
    again = make_vertex().batch_job(questions(MANY), path=tmp_path / "job", storage=STORAGE)
    check_answers(again.results(), MANY)
    requests = len(emulator.requests)
    check_answers(make_vertex().batch_job(path=tmp_path / "job").results(), MANY)
    assert (len(emulator.requests), emulator.batches.created) == (requests, 1)


def test_a_folder_remembers_its_storage(
    emulator: Emulator, make_vertex: MakeModel, tmp_path: Path, bucket: Path
) -> None:
    path = tmp_path / "job"
    make_vertex().batch_job(questions(FEW), path=path, storage=STORAGE, submit=False)
    with pytest.raises(errors.InvalidOptionError, match=r"uses gs://my-bucket/runs, not gs://oth"):
        make_vertex().batch_job(questions(FEW), path=path, storage="gs://other")
    check_answers(make_vertex().batch_job(questions(FEW), path=path).results(), FEW)
    assert [each.name for each in bucket.iterdir()] == ["my-bucket"]


def test_the_other_api_does_not_take_over_a_folder(
    emulator: Emulator, make_vertex: MakeModel, make_model: MakeModel, tmp_path: Path
) -> None:
    make_vertex().batch_job(questions(FEW), path=tmp_path / "vertex", storage=STORAGE)
    make_model().batch_job(questions(FEW), path=tmp_path / "developer")
    with pytest.raises(errors.InvalidOptionError, match="belongs to Vertex AI"):
        make_model().batch_job(path=tmp_path / "vertex")
    with pytest.raises(errors.InvalidOptionError, match="belongs to the Gemini Developer API"):
        make_vertex().batch_job(questions(FEW), path=tmp_path / "developer", storage=STORAGE)
    assert emulator.batches.created == 2


def test_a_job_is_found_by_its_name_from_anywhere(
    emulator: Emulator, make_vertex: MakeModel, tmp_path: Path, bucket: Path
) -> None:
    emulator.batches.shuffles = True
    made = make_vertex().batch_job(questions(MANY), path=tmp_path / "here", storage=STORAGE)
    (name,) = made.names
    assert name.startswith("projects/123456789012/locations/europe-west4/batchPredictionJobs/")
    handle = make_vertex().batch_job(name=name)
    check_answers(handle.results(), MANY)
    check_answers(make_vertex().batch_job(name=name, path=tmp_path / "there").results(), MANY)
    check_answers(make_vertex().batch_job(path=tmp_path / "there").results(), MANY)
    handle.delete()  # not the files of another program
    assert emulator.batches.jobs == {}
    assert len([*bucket.rglob("*.jsonl")]) == 2
    with pytest.raises(errors.GeminiNotFoundError):
        make_vertex().batch_job(name=name).poll()


def test_a_name_that_cannot_be_found_is_rejected_early(
    emulator: Emulator, make_vertex: MakeModel, make_model: MakeModel
) -> None:
    name = "projects/my-project/locations/us-central1/batchPredictionJobs/1"
    with pytest.raises(errors.InvalidOptionError, match="location='us-central1'"):
        make_vertex().batch_job(name=name)
    with pytest.raises(errors.InvalidOptionError, match="not the name of a batch job of Vertex"):
        make_vertex().batch_job(name="batches/1")
    with pytest.raises(errors.InvalidOptionError, match="vertexai=True"):
        make_model().batch_job(name=name)
    assert emulator.requests == []


# What is rejected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, r"Pass storage='gs://bucket/prefix'"),
        ({"storage": "my-bucket"}, r"Use 'gs://bucket/prefix'"),
        ({"storage": "gs://"}, r"Use 'gs://bucket/prefix'"),
        ({"storage": "s3://bucket/runs"}, r"Use 'gs://bucket/prefix'"),
        ({"storage": STORAGE, "webhooks": {"uris": ["https://a"]}}, "have no webhooks"),
        ({"storage": STORAGE, "cached_content": "cachedContents/1"}, "have no context caches"),
        ({"storage": STORAGE, "service_tier": "flex"}, "have no service tiers"),
    ],
)
def test_what_vertex_ai_does_not_have_is_rejected_with_the_way_out(
    emulator: Emulator,
    make_vertex: MakeModel,
    tmp_path: Path,
    arguments: dict[str, Any],
    message: str,
) -> None:
    with pytest.raises(errors.InvalidOptionError, match=message):
        make_vertex().batch_job(questions(FEW), path=tmp_path / "job", **arguments)
    assert emulator.requests == []


def test_the_developer_api_has_no_storage(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    with pytest.raises(errors.InvalidOptionError, match="Leave it out"):
        make_model().batch_job(questions(FEW), path=tmp_path / "job", storage=STORAGE)
    assert emulator.requests == []


_WITHOUT = """
import sys
sys.modules[sys.argv[1]] = None
from langchain_gemini_tools import ChatGemini, errors
model = ChatGemini(model="gemini-3.8-flash", vertexai=True, project="p", location="l")
try:
    model.batch_job(iter(lambda: 1 / 0, 1), path="job", storage="gs://bucket")
except errors.InvalidOptionError as error:
    print(error)
"""


@pytest.mark.parametrize("missing", ["fsspec", "gcsfs"])
def test_a_missing_package_is_named_before_inputs_are_rendered(
    tmp_path: Path, missing: str
) -> None:
    run = subprocess.run(
        [sys.executable, "-c", _WITHOUT, missing],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert "pip install 'langchain-gemini-tools[vertex-batch]'" in run.stdout
    assert not (tmp_path / "job").exists()


# The connection and the service


@pytest.mark.parametrize("operation", ["create", "get"])
def test_a_lost_reply_makes_no_second_job(
    emulator: Emulator, make_vertex: MakeModel, tmp_path: Path, operation: str
) -> None:
    emulator.batches.lose(operation)
    made = make_vertex().batch_job(questions(MANY), path=tmp_path / "job", storage=STORAGE)
    check_answers(made.results(), MANY)
    assert emulator.batches.created == 1
    assert answered_once(emulator, MANY)


def test_a_lost_job_is_found_by_its_name_in_the_list(
    emulator: Emulator, make_vertex: MakeModel, tmp_path: Path
) -> None:
    emulator.batches.lose("create")
    with pytest.raises(errors.GeminiConnectionError):
        make_vertex(max_retries=0).batch_job(
            questions(FEW), path=tmp_path / "mine", storage=STORAGE
        )
    make_vertex().batch_job(["Other?"], path=tmp_path / "other", storage=STORAGE)
    check_answers(make_vertex().batch_job(questions(FEW), path=tmp_path / "mine").results(), FEW)
    assert emulator.batches.created == 2
    (listed,) = [each for each in emulator.requests if "filter" in each.query]
    first = next(iter(emulator.batches.jobs.values()))
    assert listed.query["filter"] == f'display_name="{first.display_name}"'


@pytest.mark.parametrize("operation", ["create", "get"])
@pytest.mark.parametrize("code", [429, 503])
def test_a_refusal_is_retried(
    emulator: Emulator, make_vertex: MakeModel, tmp_path: Path, operation: str, code: int
) -> None:
    emulator.batches.refuse(operation, code, times=2)
    made = make_vertex().batch_job(questions(FEW), path=tmp_path / "job", storage=STORAGE)
    check_answers(made.results(), FEW)
    assert emulator.batches.created == 1


@pytest.mark.parametrize("file", ["wb requests.jsonl", "rb predictions.jsonl"])
def test_a_failure_of_the_storage_is_retried(
    emulator: Emulator,
    make_vertex: MakeModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    file: str,
) -> None:
    failures = [OSError("reset"), RuntimeError("503")]

    def fail_twice(opened: str) -> None:
        if opened == file and failures:
            raise failures.pop()

    monkeypatch.setattr(LocalBuckets, "fails", staticmethod(fail_twice))
    made = make_vertex().batch_job(questions(FEW), path=tmp_path / "job", storage=STORAGE)
    check_answers(made.results(), FEW)
    assert (failures, emulator.batches.created) == ([], 1)


def test_results_that_were_read_in_part_are_read_from_their_beginning(
    emulator: Emulator, make_vertex: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulator.batches.result_files = 2
    made = make_vertex().batch_job(questions(MANY), path=tmp_path / "job", storage=STORAGE)
    failures = [OSError("reset")]

    def fail_once(opened: str) -> None:
        if opened == "rb predictions_00002.jsonl" and failures:
            raise failures.pop()

    monkeypatch.setattr(LocalBuckets, "fails", staticmethod(fail_once))
    check_answers(make_vertex().batch_job(name=made.names[0]).results(), MANY)
    assert failures == []


def test_a_bucket_without_access_is_a_typed_error_and_nothing_is_created(
    emulator: Emulator, make_vertex: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(_: str) -> None:
        raise PermissionError("storage.objects.create")

    path = tmp_path / "job"
    with monkeypatch.context() as patched:
        patched.setattr(LocalBuckets, "fails", staticmethod(deny))
        with pytest.raises(errors.GeminiPermissionError, match=r"gs://my-bucket/runs/.* denied"):
            make_vertex().batch_job(questions(FEW), path=path, storage=STORAGE)
    assert emulator.requests == []
    check_answers(make_vertex().batch_job(questions(FEW), path=path).results(), FEW)


def test_an_error_of_the_storage_shows_no_token(
    make_vertex: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: str) -> None:
        raise OSError(f"Authorization: Bearer {ACCESS_TOKEN}")

    monkeypatch.setattr(LocalBuckets, "fails", staticmethod(fail))
    with pytest.raises(errors.GeminiConnectionError, match=r"gs://my-bucket/runs/.*redacted") as it:
        make_vertex(max_retries=0).batch_job(["Hi?"], path=tmp_path / "job", storage=STORAGE)
    shown = "".join(traceback.format_exception(it.value))
    assert ACCESS_TOKEN not in shown


def test_results_that_came_while_the_job_ran_are_not_counted_twice(
    emulator: Emulator, make_vertex: MakeModel, tmp_path: Path, bucket: Path
) -> None:
    made = make_vertex().batch_job(questions(FEW), path=tmp_path / "job", storage=STORAGE)
    made.wait()
    (output,) = bucket.rglob("predictions.jsonl")
    early = output.parent / "incremental_predictions" / "predictions_00001.jsonl"
    early.parent.mkdir()
    early.write_bytes(output.read_bytes())
    check_answers(make_vertex().batch_job(name=made.names[0]).results(), FEW)


def test_a_result_that_names_no_input_is_logged_and_the_input_sent_again(
    *,
    emulator: Emulator,
    make_vertex: MakeModel,
    tmp_path: Path,
    bucket: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = make_vertex().batch_job(questions(FEW), path=tmp_path / "job", storage=STORAGE)
    made.poll()
    (known,) = emulator.batches.jobs.values()
    make_vertex().client.batches.get(name=known.name)
    (output,) = bucket.rglob("predictions.jsonl")
    odd = output.read_bytes().replace(b'"input-1"', b"null").replace(b"tion 1?", b"tion?")
    output.write_bytes(odd + b"\n[]\n")
    check_answers(made.results(), FEW)
    assert f"2 of 4 results of {known.name} do not name an input of the job." in caplog.messages
    assert [len(each.items) for each in emulator.batches.jobs.values()] == [FEW, 1]


def test_results_may_be_readable_only_after_the_end(
    emulator: Emulator, make_vertex: MakeModel, tmp_path: Path, bucket: Path
) -> None:
    made = make_vertex().batch_job(questions(FEW), path=tmp_path / "job", storage=STORAGE)
    made.poll()
    (known,) = emulator.batches.jobs.values()
    make_vertex().client.batches.get(name=known.name)
    (output,) = bucket.rglob("predictions.jsonl")
    hidden = output.rename(tmp_path / "hidden")
    assert not made.poll().is_done
    hidden.rename(output)
    check_answers(made.results(), FEW)
    assert emulator.batches.created == 1


# Items and jobs


DOCUMENTED = (
    'Bad Request: {"error": {"code": 400, "message": "Please use a valid role: user, model.", '
    '"status": "INVALID_ARGUMENT"}}'
)


@pytest.mark.parametrize(
    ("status", "kind", "text"),
    [
        (DOCUMENTED, errors.GeminiInvalidRequestError, "Please use a valid role"),
        ("Bad Request: no JSON", errors.GeminiInvalidRequestError, "Bad Request: no JSON"),
        ("Something else {", errors.GeminiServerError, "Something else {"),
        ('{"error": {"code": 429, "message": "Full."}}', errors.GeminiRateLimitError, "Full."),
        ('Deep {"a":' + "[" * 100_000, errors.GeminiServerError, "Deep"),
    ],
    ids=["documented", "no JSON", "a brace", "only JSON", "deep"],
)
def test_a_failed_line_is_its_typed_error_in_place(
    *,
    emulator: Emulator,
    make_vertex: MakeModel,
    tmp_path: Path,
    status: str,
    kind: type[Exception],
    text: str,
) -> None:
    emulator.batches.fail_items(
        lambda _, body: {"text": status} if "Question 1?" in str(body["contents"]) else None
    )
    chat = make_vertex(max_retries=0)
    made = chat.batch_job(questions(FEW), path=tmp_path / "job", storage=STORAGE)
    found = [result for _, result in made.results()]
    assert [isinstance(result, AIMessage) for result in found] == [True, False, True]
    assert isinstance(found[1], kind)
    assert text in str(found[1])
    assert str(made.status) == "2/3 · 1 failed · done"


@pytest.mark.parametrize("code", [1, 8, 13, 14])
def test_items_fail_alone_and_are_sent_again_alone(
    emulator: Emulator, make_vertex: MakeModel, tmp_path: Path, code: int
) -> None:
    emulator.batches.fail_items(fail_some_once(code))
    made = make_vertex().batch_job(questions(MANY), path=tmp_path / "job", storage=STORAGE)
    check_answers(made.results(), MANY)
    assert [len(each.items) for each in emulator.batches.jobs.values()] == [MANY, 4]
    assert answered_once(emulator, MANY)


@pytest.mark.parametrize("state", ["EXPIRED", "PARTIALLY_SUCCEEDED"])
def test_what_a_job_has_finished_is_kept_and_the_rest_is_sent_again(
    emulator: Emulator, make_vertex: MakeModel, tmp_path: Path, state: str
) -> None:
    emulator.batches.end(state)
    emulator.batches.rows_before_end = 25
    made = make_vertex().batch_job(questions(MANY), path=tmp_path / "job", storage=STORAGE)
    check_answers(made.results(), MANY)
    assert [len(each.items) for each in emulator.batches.jobs.values()] == [MANY, 15]
    assert answered_once(emulator, MANY)


def test_a_cancelled_job_keeps_what_it_has_finished(
    emulator: Emulator, make_vertex: MakeModel, tmp_path: Path
) -> None:
    emulator.batches.rows_before_end = 25
    made = make_vertex().batch_job(questions(MANY), path=tmp_path / "job", storage=STORAGE)
    made.cancel()
    kinds = [type(result) for _, result in made.results()]
    assert kinds == [AIMessage] * 25 + [errors.BatchJobError] * 15
    made.resend()
    check_answers(made.results(), MANY)
    assert answered_once(emulator, MANY)


def test_cancelling_a_job_that_has_ended_keeps_its_results(
    emulator: Emulator, make_vertex: MakeModel, tmp_path: Path
) -> None:
    made = make_vertex().batch_job(questions(FEW), path=tmp_path / "job", storage=STORAGE)
    (known,) = emulator.batches.jobs.values()
    while known.state != "SUCCEEDED":
        make_vertex().client.batches.get(name=known.name)
    made.cancel()
    check_answers(made.results(), FEW)


def test_the_reason_of_a_failed_job_is_in_its_error(
    emulator: Emulator, make_vertex: MakeModel, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Users report that an empty object fails the whole job. It is warned of, and not billed."""
    search = make_vertex().bind_tools([{"google_search": {}}])
    made = search.batch_job(questions(FEW), path=tmp_path / "job", storage=STORAGE)
    assert [each.getMessage() for each in caplog.records if "import" in each.getMessage()] == [
        "Input 0 of the batch job: request.tools[0].googleSearch is an empty object. Vertex AI "
        "imports requests into a table. It is reported to fail the whole job in this case. Change "
        "the request, or use the Gemini Developer API."
    ]
    for _, result in made.results():
        assert isinstance(result, errors.BatchJobError)
        assert "ended as FAILED" in str(result)
        assert "Cannot store struct 'request.tools.googleSearch'" in str(result)
    assert emulator.batches.created == 1


def test_a_call_without_arguments_is_sent_in_a_form_that_can_be_imported(
    emulator: Emulator, make_vertex: MakeModel, tmp_path: Path
) -> None:
    called = AIMessage("", tool_calls=[{"name": "get_weather", "args": {}, "id": "1"}])
    history = [
        HumanMessage('Weather? {"functionCall":{"name":"a","args":{}}}'),
        called,
        ToolMessage("Sunny.", tool_call_id="1"),
    ]
    bound = make_vertex().bind_tools([get_weather])
    made = bound.batch_job([history], path=tmp_path / "job", storage=STORAGE)
    ((_, result),) = made.results()
    assert isinstance(result, AIMessage)
    ((_, sent),) = next(iter(emulator.batches.jobs.values())).items
    assert "args" not in sent["contents"][1]["parts"][0]["functionCall"]
    assert sent["contents"][0]["parts"][0]["text"] == history[0].text


def test_results_that_name_no_input_are_not_paid_for_again(
    emulator: Emulator, make_vertex: MakeModel, tmp_path: Path, bucket: Path
) -> None:
    emulator.batches.echoes_siblings = False
    made = make_vertex().batch_job(questions(FEW), path=tmp_path / "job", storage=STORAGE)
    made.poll()
    (known,) = emulator.batches.jobs.values()
    make_vertex().client.batches.get(name=known.name)
    (output,) = bucket.rglob("predictions.jsonl")
    output.write_bytes(output.read_bytes().replace(b'"Question', b'"Changed'))
    with pytest.raises(errors.BatchJobError, match="None of the 3 results of projects/"):
        made.wait()
    assert emulator.batches.created == 1


@pytest.mark.parametrize("folder", ["/etc", "file:///etc", "https://other.example/x", 5])
def test_results_outside_of_cloud_storage_are_not_read(
    emulator: Emulator, make_vertex: MakeModel, tmp_path: Path, folder: Any
) -> None:
    made = make_vertex().batch_job(questions(FEW), path=tmp_path / "job", storage=STORAGE)
    (known,) = emulator.batches.jobs.values()
    assert isinstance(known, VertexBatch)
    known.output = folder
    with pytest.raises(errors.UnreadableResponseError, match="gcsOutputDirectory"):
        made.poll()


def test_deleting_removes_the_files_of_the_job_and_no_others(
    emulator: Emulator, make_vertex: MakeModel, tmp_path: Path, bucket: Path
) -> None:
    other = bucket / "my-bucket" / "runs" / "other.txt"
    other.parent.mkdir(parents=True)
    other.write_text("Mine.")
    made = make_vertex().batch_job(questions(FEW), path=tmp_path / "job", storage=STORAGE)
    with pytest.raises(errors.GeminiInvalidRequestError) as raised:
        made.delete()
    assert "cancel the job first" in raised.value.__notes__[0]
    made.wait()
    made.delete()
    made.delete()
    assert emulator.batches.jobs == {}
    assert [file for file in bucket.rglob("*") if file.is_file()] == [other]
    check_answers(made.results(), FEW)


# Killed processes


def start_killed(make_vertex: MakeModel, tmp_path: Path, **settings: Any) -> Callable[[], Any]:
    def start() -> Any:
        chat = make_vertex(**settings)
        return chat.batch_job(questions(MANY), path=tmp_path / "job", storage=STORAGE).results()

    return start


@pytest.mark.parametrize("at", range(1, 13))
def test_a_process_killed_while_it_stores_something_loses_and_repeats_nothing(
    emulator: Emulator,
    make_vertex: MakeModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    at: int,
) -> None:
    kill_after_write(monkeypatch, at)
    check_killed(emulator, start_killed(make_vertex, tmp_path))


@pytest.mark.parametrize("moment", ["request", "response"])
@pytest.mark.parametrize("at", range(1, 7))
def test_a_process_killed_around_a_request_loses_and_repeats_nothing(
    emulator: Emulator, make_vertex: MakeModel, tmp_path: Path, moment: str, at: int
) -> None:
    counted = [0]
    hooks = {moment: [lambda _: count_and_kill(at, counted)]}
    check_killed(emulator, start_killed(make_vertex, tmp_path, client_args={"event_hooks": hooks}))


@pytest.mark.parametrize("at", range(1, 5))
def test_a_process_killed_around_the_bucket_loses_and_repeats_nothing(
    emulator: Emulator,
    make_vertex: MakeModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    at: int,
) -> None:
    counted = [0]
    dying = staticmethod(lambda _: count_and_kill(at, counted))
    monkeypatch.setattr(LocalBuckets, "fails", dying)
    assert check_killed(emulator, start_killed(make_vertex, tmp_path)) == 1


def test_a_folder_stands_for_the_bucket_while_fake_gemini_runs(tmp_path: Path) -> None:
    before = fsspec.get_filesystem_class("gs")
    with FakeGemini(bucket_folder=tmp_path / "cloud") as gemini:
        model = ChatGemini(
            model="gemini-3.8-flash",
            vertexai=True,
            project="p",
            location="global",
            credentials=gemini.credentials,
        )
        job = model.batch_job(["Hi!"], path=tmp_path / "run", storage="gs://mine/batches")
        ((_, answer),) = job.results()
    assert isinstance(answer, AIMessage)
    names = {path.name for path in (tmp_path / "cloud" / "mine" / "batches").rglob("*.jsonl")}
    assert "requests.jsonl" in names
    assert fsspec.get_filesystem_class("gs") is before


def test_a_stopped_fake_gemini_leaves_no_bucket_behind(tmp_path: Path) -> None:
    """Where gcsfs is not installed, nothing opens `gs://` after the block."""
    program = (
        "import sys; sys.modules['gcsfs'] = None\n"
        "import fsspec\n"
        "from langchain_gemini_tools.testing import FakeGemini\n"
        "with FakeGemini(bucket_folder=sys.argv[1]):\n"
        "    fsspec.open('gs://a/b', 'wb').open().close()\n"
        "try:\n"
        "    fsspec.open('gs://a/c', 'wb').open()\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "gs:// needs gcsfs.\n"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]


# Agents in waves


def test_agents_run_in_waves_on_vertex(
    emulator: Emulator, make_vertex: Any, tmp_path: Path, bucket: Path
) -> None:
    agent = create_agent(make_vertex(), [get_weather])
    given = [{"messages": f"Weather in {city}?"} for city in ("Oslo", "Rome")]
    with pytest.raises(errors.InvalidOptionError, match="storage="):
        run_in_batches(agent, given, path=tmp_path / "run")
    assert emulator.batches.created == 0
    results = run_in_batches(agent, given, path=tmp_path / "run", storage=STORAGE)
    for city, state in zip(("Oslo", "Rome"), results, strict=True):
        assert f"Sunny in {city}" in state["messages"][-1].text
    assert emulator.batches.created == 2
    assert set(emulator.batches.answered.values()) == {1}
    assert len(list(bucket.rglob("requests.jsonl"))) == 2
