"""Batch jobs against the emulator: what is sent, what comes back, and what is stored."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler, get_usage_metadata_callback
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from pydantic import BaseModel

from langchain_gemini_tools import BatchProgress, errors
from langchain_gemini_tools.batch.folder import Limits
from langchain_gemini_tools.batch.items import schema_rewriter
from langchain_gemini_tools.batch.service import DeveloperService
from tests.integration_tests.play import get_weather

if TYPE_CHECKING:
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig

    from langchain_gemini_tools.batch import BatchStatus
    from langchain_gemini_tools.testing.fake import Emulator
    from tests.conftest import MakeModel

FEW, MANY = 3, 40
pytestmark = pytest.mark.usefixtures("without_delays")


@pytest.fixture
def make_model(make_model: MakeModel) -> Any:
    """Models that retry, as models do by default."""
    return lambda **settings: make_model(**{"max_retries": 6} | settings)


def questions(count: int) -> list[str]:
    return [f"Question {number}?" for number in range(count)]


def check_answers(found: Any, count: int) -> None:
    """Every input has its own answer, in order."""
    pairs = list(found)
    assert [index for index, _ in pairs] == list(range(count))
    for (_, message), question in zip(pairs, questions(count), strict=True):
        assert isinstance(message, AIMessage), message
        assert question in message.text


def answered_once(emulator: Emulator, count: int) -> bool:
    answered = emulator.batches.answered
    return len(answered) == count and set(answered.values()) == {1}


# What is sent and returned


@pytest.mark.parametrize("shuffles", [False, True], ids=["in order", "shuffled"])
@pytest.mark.parametrize("count", [FEW, MANY], ids=["inline", "file"])
def test_results_come_in_the_order_of_the_inputs(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, count: int, shuffles: bool
) -> None:
    emulator.batches.shuffles = shuffles
    chat = make_model(seed=5)
    check_answers(chat.batch_job(iter(questions(count)), path=tmp_path).results(), count)
    assert answered_once(emulator, count)
    (created,) = emulator.batches.jobs.values()
    single: Any = chat.preview("Question 1?").body
    assert [body for _, body in created.items][1] == single
    assert (created.input_file is None) == (count == FEW)


def test_a_result_is_the_message_that_invoke_returns(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    bound = make_model().bind_tools([get_weather])
    ((_, result),) = bound.batch_job(["Weather in Oslo?"], path=tmp_path).results()
    single = bound.invoke("Weather in Oslo?")
    assert isinstance(result, AIMessage)
    assert [(call["name"], call["args"]) for call in result.tool_calls] == [
        (call["name"], call["args"]) for call in single.tool_calls
    ]
    assert result.usage_metadata is not None
    assert single.usage_metadata is not None
    assert result.usage_metadata["output_tokens"] == single.usage_metadata["output_tokens"]
    assert result.response_metadata["finish_reason"] == "STOP"
    # Schemas of tools are sent in the older form, which is the careful choice in batches.
    ((_, sent),) = next(iter(emulator.batches.jobs.values())).items
    assert "parameters" in sent["tools"][0]["functionDeclarations"][0]


class Person(BaseModel):
    name: str
    age: int


@pytest.mark.parametrize("include_raw", [False, True])
@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_a_structured_output_returns_parsed_objects(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, method: Any, include_raw: bool
) -> None:
    emulator.reply(structured={"name": "Ada", "age": 36})
    people: Any = make_model().with_structured_output(
        Person, method=method, include_raw=include_raw
    )
    ((_, result),) = people.batch_job(["Ada is 36."], path=tmp_path).results()
    assert (result["parsed"] if include_raw else result) == Person(name="Ada", age=36)
    ((_, sent),) = next(iter(emulator.batches.jobs.values())).items
    if method == "json_schema":
        assert sent["generationConfig"].keys() == {"responseMimeType", "responseSchema"}


def test_only_the_schema_of_a_request_is_written_again(make_model: MakeModel) -> None:
    request = make_model().preview(
        "Hi", response_schema={"type": "string"}, response_mime_type="application/json"
    )
    head, _, rest = request.encoded.partition(b'"responseJsonSchema":{"type":"string"}')
    head = head.replace(b"Hi", b"\\u0048i")  # parsing it, and a large image beside it, costs time
    rewritten = schema_rewriter(request)(head + b'"responseJsonSchema":{"type":"string"}' + rest)
    assert rewritten == head + b'"responseSchema":{"type":"STRING"}' + rest


def test_a_result_that_cannot_be_parsed_is_an_error_in_place(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    emulator.reply(structured={"name": "Ada"})
    emulator.reply(structured={"name": "Ada", "age": 36})
    people = make_model().with_structured_output(Person, method="json_schema")
    found = list(people.batch_job(["One.", "Two."], path=tmp_path).results())
    assert isinstance(found[0][1], ValueError)
    assert found[1] == (1, Person(name="Ada", age=36))


class Counts(BaseModel):
    by_name: dict[str, int]


class Node(BaseModel):
    children: list[Node]


@pytest.mark.parametrize(
    ("schema", "keyword"), [(Counts, "additionalProperties"), (Node, r"\$ref to a schema")]
)
def test_a_schema_that_a_batch_cannot_hold_is_rejected_by_keyword(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, schema: Any, keyword: str
) -> None:
    output = make_model().with_structured_output(schema, method="json_schema")
    with pytest.raises(errors.InvalidOptionError, match=keyword):
        output.batch_job(["Hello?"], path=tmp_path)
    assert emulator.requests == []


def test_lines_can_be_seen_before_they_are_sent(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    made = make_model().batch_job(questions(FEW), path=tmp_path, submit=False)
    body = {"contents": [{"role": "user", "parts": [{"text": "Question 0?"}]}]}
    assert made.preview(1) == [{"key": "0", "request": body}]
    assert (emulator.requests, str(made.status)) == ([], "0/3 · PREPARED")
    made.submit()
    check_answers(made.results(), FEW)


def test_webhooks_are_passed_on(emulator: Emulator, make_model: MakeModel, tmp_path: Path) -> None:
    hooks = {"uris": ["https://example.com/hook"]}
    made = make_model().batch_job(questions(FEW), path=tmp_path, webhooks=hooks)
    assert emulator.batches.jobs[made.names[0]].webhook == hooks


def test_an_input_that_cannot_be_sent_is_named_before_anything_is_sent(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    with pytest.raises(errors.InvalidInputError) as raised:
        make_model().batch_job(["Hello?", []], path=tmp_path)
    assert raised.value.__notes__ == ["This is input 1 of the batch job. Nothing was sent."]
    assert emulator.requests == []


def test_a_job_is_split_at_the_limits_of_the_service(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DeveloperService, "limits", Limits(15, 10**9))
    made = make_model().batch_job(questions(MANY), path=tmp_path)
    assert [len(each.items) for each in emulator.batches.jobs.values()] == [15, 15, 10]
    check_answers(made.results(), MANY)
    assert answered_once(emulator, MANY)


def test_a_progress_bar_shows_the_counts_of_the_service(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    shown = io.StringIO()
    with BatchProgress(description="labels", file=shown) as progress:
        job_with_bar = make_model().batch_job(questions(FEW), path=tmp_path)
        job_with_bar.wait(on_poll=progress.show_job)
    assert (progress.counts.total, progress.counts.done) == (FEW, FEW)
    assert shown.getvalue() == "labels: 3/3\n"


class Seen(BaseCallbackHandler):
    def __init__(self) -> None:
        self.starts: list[str] = []
        self.ends: list[Any] = []
        self.messages: list[Any] = []
        self.has_foreign_metadata: list[bool] = []
        """Whether the metadata of a run begins with that of another one."""
        self.details: dict[str, Any] = {}

    def on_chat_model_start(self, serialized: Any, messages: Any, **details: Any) -> None:
        self.starts.append(messages[0][-1].text)
        self.messages, self.details = messages[0], details
        self.has_foreign_metadata.append("usage" in details["metadata"])

    def on_llm_end(self, response: Any, **_: Any) -> None:
        self.details["metadata"]["usage"] = "as LangSmith's tracer writes it"
        self.ends.append(response.generations[0][0].message.usage_metadata["total_tokens"])

    def on_llm_error(self, error: BaseException, **_: Any) -> None:
        self.ends.append(type(error))


def test_callbacks_see_each_item(emulator: Emulator, make_model: MakeModel, tmp_path: Path) -> None:
    emulator.batches.fail_items(
        lambda number, _: {"code": 3, "message": "Bad."} if number == 1 else None
    )
    seen = Seen()
    chat = make_model().with_config(callbacks=[seen])
    list(chat.batch_job(questions(FEW), path=tmp_path).results())
    assert seen.starts == questions(FEW)
    assert isinstance(seen.ends[0], int)
    assert issubclass(seen.ends[1], errors.GeminiInvalidRequestError)
    assert seen.has_foreign_metadata == [False] * FEW


def test_callbacks_see_the_conversation_the_model_and_its_tools(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    bound = make_model(max_tokens=500).bind_tools([get_weather], additional_headers={"x-t": "no"})
    asked = [SystemMessage("Be brief."), HumanMessage("How is the weather in Oslo?")]
    called = bound.invoke(asked)
    (call,) = called.tool_calls
    history = [*asked, called, ToolMessage("Sunny.", tool_call_id=call["id"])]
    seen = Seen()
    config: RunnableConfig = {
        "callbacks": [seen],
        "run_name": "labels",
        "tags": ["nightly"],
        "metadata": {"team": "blue"},
    }
    list(bound.batch_job([history], path=tmp_path, config=config).results())
    assert [(message.type, message.text) for message in seen.messages] == [
        ("system", "Be brief."),
        ("human", "How is the weather in Oslo?"),
        ("ai", called.text),
        ("tool", '{"output":"Sunny."}'),
    ]
    (shown,) = seen.messages[2].tool_calls
    assert (shown["name"], shown["args"]) == (call["name"], call["args"])
    assert seen.messages[3].tool_call_id == shown["id"]
    assert (seen.details["name"], seen.details["tags"]) == ("labels", ["nightly"])
    seen.details["metadata"].pop("lc_versions", None)  # of later versions of langchain-core
    seen.details["metadata"].pop("usage")
    assert seen.details["metadata"] == {
        "team": "blue",
        "ls_provider": "google_genai",
        "ls_model_name": "gemini-3.8-flash",
        "ls_model_type": "chat",
        "ls_max_tokens": 500,
    }
    params = seen.details["invocation_params"]
    assert params["max_tokens"] == 500
    assert params["tools"][0]["function"]["name"] == "get_weather"
    assert params["additional_headers"] == {"x-t": "[redacted]"}


def test_callbacks_see_items_of_a_structured_output(make_model: MakeModel, tmp_path: Path) -> None:
    seen = Seen()
    labels = make_model().with_structured_output(Person, method="json_schema")
    list(labels.batch_job(["Fine."], path=tmp_path, config={"callbacks": [seen]}).results())
    params = seen.details["invocation_params"]
    assert set(params["response_schema"]["properties"]) == set(Person.model_fields)
    assert "ls_structured_output_format" not in params
    assert json.loads(json.dumps(params)) == params


def test_callbacks_of_the_model_and_of_the_context_see_each_item(
    make_model: MakeModel, tmp_path: Path
) -> None:
    """As with `invoke`: tracers that are switched on for a whole program pass no config."""
    seen = Seen()
    job = make_model(callbacks=[seen]).batch_job(questions(FEW), path=tmp_path)
    job.wait()
    with get_usage_metadata_callback() as usage:
        list(job.results())
    assert seen.starts == questions(FEW)
    assert usage.usage_metadata["gemini-3.8-flash"]["total_tokens"] == sum(seen.ends)


def test_items_that_are_read_inside_a_run_are_its_children(
    make_model: MakeModel, tmp_path: Path
) -> None:
    seen = Seen()
    job = make_model().batch_job(questions(FEW), path=tmp_path)
    read: RunnableLambda[str, int] = RunnableLambda(lambda _: len(list(job.results())))
    run_id = uuid.uuid4()
    assert read.invoke("all", {"callbacks": [seen], "run_id": run_id}) == FEW
    assert seen.starts == questions(FEW)
    assert seen.details["parent_run_id"] == run_id


async def test_a_job_is_sent_polled_cancelled_and_sent_again_from_async_code(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    made = await make_model().abatch_job(questions(FEW), path=tmp_path)
    await made.asubmit()
    assert emulator.batches.created == 1
    assert str(await made.apoll()) == f"0/{FEW} · RUNNING"
    await made.acancel()
    assert [job.state for job in emulator.batches.jobs.values()] == ["CANCELLED"]
    assert (await made.apoll()).is_done
    await made.aresend()
    assert emulator.batches.created == 2
    check_answers([item async for item in made.aresults()], FEW)


async def test_everything_that_waits_has_an_async_version(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    reports: list[BatchStatus] = []
    made = await make_model().bind(seed=1).abatch_job(questions(MANY), path=tmp_path)
    check_answers([item async for item in made.aresults(on_poll=reports.append)], MANY)
    assert [str(each) for each in reports] == ["0/40 · RUNNING", "40/40 · done"]
    assert (await made.async_wait()).is_done
    await made.adelete()
    assert emulator.batches.jobs == {}
    assert [file.is_output for file in emulator.batches.files.values()] == [True]


# The folder


def test_the_same_call_goes_on_where_it_was(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    make_model().batch_job(questions(MANY), path=tmp_path)
    check_answers(make_model().batch_job(questions(MANY), path=tmp_path).results(), MANY)
    requests = len(emulator.requests)
    check_answers(make_model().batch_job(path=tmp_path).results(), MANY)  # from the folder alone
    assert (len(emulator.requests), emulator.batches.created) == (requests, 1)


@pytest.mark.parametrize(
    ("others", "options", "message"),
    [
        (["Question 0?", "Another?", "Question 2?"], {}, "Input 1 differs"),
        (questions(2), {}, "inputs is 2, but the batch job at .* has 3"),
        (questions(4), {}, "inputs is more than 3, but the batch job at .* has 3"),
        (questions(3), {"seed": 15}, "Input 0 differs"),
    ],
    ids=["text", "fewer", "more", "options"],
)
def test_inputs_that_differ_from_those_of_the_folder_are_an_error(
    *,
    emulator: Emulator,
    make_model: MakeModel,
    tmp_path: Path,
    others: list[str],
    options: dict[str, Any],
    message: str,
) -> None:
    make_model().batch_job(questions(FEW), path=tmp_path)
    with pytest.raises(errors.InvalidOptionError, match=message):
        make_model().batch_job(others, path=tmp_path, **options)
    assert emulator.batches.created == 1


def test_several_processes_share_one_job(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    """Threads here: the lock of a file excludes them in the same way."""
    chat = make_model()

    def run(_: int) -> list[Any]:
        return list(chat.batch_job(questions(MANY), path=tmp_path).results())

    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(run, range(4)):
            check_answers(found, MANY)
    assert emulator.batches.created == 1
    assert answered_once(emulator, MANY)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_process_that_is_forked_meanwhile_does_not_keep_the_folder(
    make_model: MakeModel, tmp_path: Path
) -> None:
    children: list[int] = []

    def fork(_: Any) -> None:
        if not children and (child := os.fork()) == 0:
            time.sleep(60)
            os._exit(0)
        elif not children:
            children.append(child)

    chat = make_model(client_args={"event_hooks": {"request": [fork]}})
    with ThreadPoolExecutor(1) as thread:
        try:
            job = chat.batch_job(questions(FEW), path=tmp_path)
            check_answers(thread.submit(list, job.results()).result(30), FEW)
        finally:
            os.kill(children[0], signal.SIGKILL)
            os.waitpid(children[0], 0)


def test_a_job_is_found_by_its_name_from_anywhere(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    emulator.batches.shuffles = True
    (name,) = make_model().batch_job(questions(MANY), path=tmp_path / "here").names
    handle = make_model().batch_job(name=name)
    check_answers(handle.results(), MANY)
    check_answers(make_model().batch_job(name=name, path=tmp_path / "there").results(), MANY)
    with pytest.raises(errors.GeminiNotFoundError):
        make_model().batch_job(name="batches/unknown").poll()


@pytest.mark.parametrize("arguments", [{}, {"inputs": ["Hello?"]}])
def test_a_job_without_a_place_is_an_error(make_model: MakeModel, arguments: Any) -> None:
    with pytest.raises(errors.InvalidOptionError, match="needs a path, or the name of a job"):
        make_model().batch_job(**arguments)


def test_a_folder_without_a_job_is_an_error(make_model: MakeModel, tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidOptionError, match="Pass its inputs"):
        make_model().batch_job(path=tmp_path)
    with pytest.raises(errors.InvalidOptionError, match="has no inputs"):
        make_model().batch_job([], path=tmp_path)


def test_the_interactions_api_is_rejected_with_the_way_out(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    chat = make_model(api="interactions")
    with pytest.raises(errors.InvalidOptionError, match="api='generate_content'"):
        chat.batch_job(["Hello?"], path=tmp_path)
    with pytest.raises(errors.InvalidOptionError, match="api='generate_content'"):
        chat.with_context_cache("Hello?")
    assert emulator.requests == []


def test_no_key_is_in_the_folder(emulator: Emulator, make_model: MakeModel, tmp_path: Path) -> None:
    chat = make_model(api_key="unreal-key-0815")
    list(chat.batch_job(questions(MANY), path=tmp_path).results())
    assert all(b"unreal-key-0815" not in file.read_bytes() for file in tmp_path.iterdir())


# What follows


def test_a_long_response_is_continued_in_a_further_job(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    emulator.reply_long("One two three four five six seven eight nine.", hop_size=1)
    made = make_model(model="gemini-4-flash").batch_job(["Count.", "Question 1?"], path=tmp_path)
    found = list(made.results())
    assert isinstance(found[0][1], AIMessage)
    assert found[0][1].text == "One two three four five six seven eight nine."
    sizes = [len(each.items) for each in emulator.batches.jobs.values()]
    assert sizes[0] == 2
    assert set(sizes[1:]) == {1}
    assert len(sizes) > 1


@pytest.mark.parametrize("answers", [True, False], ids=["then good", "never good"])
def test_a_malformed_response_goes_into_a_further_job_with_feedback(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path, answers: bool
) -> None:
    emulator.reply(parts=[], finish_reason="MALFORMED_FUNCTION_CALL", finish_message="Bad call.")
    emulator.reply("Fine.")
    if answers:
        emulator.reply("Sunny.")
    else:
        emulator.reply(parts=[], finish_reason="MALFORMED_FUNCTION_CALL", finish_message="Again.")
    bound = make_model().bind_tools([get_weather])
    (_, first), (_, second) = bound.batch_job(["One?", "Two?"], path=tmp_path).results()
    assert isinstance(second, AIMessage)
    if answers:
        assert isinstance(first, AIMessage)
        assert first.text == "Sunny."
    else:
        assert isinstance(first, errors.MalformedToolCallError)
    jobs = list(emulator.batches.jobs.values())
    assert [len(each.items) for each in jobs] == [2, 1]
    assert "could not be used" in json.dumps(jobs[1].items[0][1])


def test_waiting_ends_with_its_time_and_the_job_continues(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    made = make_model().batch_job(questions(FEW), path=tmp_path)
    with pytest.raises(errors.GeminiTimeoutError, match="It continues to run"):
        made.wait(timeout_seconds=0)
    assert list(made.results(wait=False)) == []
    assert asyncio.run(made.async_wait()).is_done
