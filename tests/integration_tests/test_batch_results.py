"""What the results of batch jobs are: the messages of `invoke`, and the same at every reading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.exceptions import OutputParserException
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from pydantic import BaseModel

from langchain_gemini_tools.errors import MalformedToolCallError
from langchain_gemini_tools.testing import Reply
from tests.integration_tests.play import get_weather

if TYPE_CHECKING:
    from pathlib import Path

    from langchain_gemini_tools.batch import BatchJob
    from langchain_gemini_tools.testing.fake import Emulator
    from tests.conftest import MakeModel

pytestmark = pytest.mark.usefixtures("without_delays")


class Label(BaseModel):
    """The label of a review."""

    sentiment: str


OF_ONE_CALL = {"id", "response_id", "raw_usage"}


def _described(message: AIMessage) -> dict[str, Any]:
    """A message without what differs between two calls."""
    blocks = [block["type"] if isinstance(block, dict) else block for block in message.content]
    metadata = {k: v for k, v in message.response_metadata.items() if k not in OF_ONE_CALL}
    calls = [(call["name"], call["args"]) for call in message.tool_calls]
    return {"content": blocks, "metadata": metadata, "calls": calls, "text": message.text}


@pytest.mark.parametrize("question", ["Weather in Oslo?", "Hello!"])
@pytest.mark.parametrize("version", [None, "v1"])
def test_a_result_has_the_content_and_the_metadata_of_invoke(
    make_model: MakeModel, tmp_path: Path, version: str | None, question: str
) -> None:
    bound = make_model(output_version=version).bind_tools([get_weather])
    single = bound.invoke(question)
    ((_, result),) = bound.batch_job([question], path=tmp_path).results()
    assert isinstance(result, AIMessage)
    assert _described(result) == _described(single)


def test_what_has_fallbacks_still_has_previews_and_batch_jobs(
    make_model: MakeModel, tmp_path: Path
) -> None:
    """LangChain reads the annotations of a method that is called on a model with fallbacks."""
    model, other = make_model(), make_model(model="gemini-3.7-flash")
    kinds: list[tuple[Any, Any]] = [
        (model, other),
        (model.bind_tools([get_weather]), other.bind_tools([get_weather])),
        (model.with_structured_output(Label), other.with_structured_output(Label)),
    ]
    for number, (first, second) in enumerate(kinds):
        safe: Any = first.with_fallbacks([second])
        assert safe.preview("Hello!").body["contents"]
        job = safe.batch_job(["Hello!"], path=tmp_path / str(number))
        assert str(job.wait()) == "1/1 · done"


def test_what_could_not_be_parsed_can_be_sent_again(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    emulator.script(Reply("good"), Reply('{"sentiment": "good"}'))
    labels = make_model().with_structured_output(Label, method="json_schema")
    job = labels.batch_job(["One", "Two"], path=tmp_path)
    (_, first), (_, second) = job.results()
    assert (type(first), second) == (OutputParserException, Label(sentiment="good"))
    emulator.script(Reply('{"sentiment": "bad"}'))
    job.resend()
    sent = [len(each.items) for each in emulator.batches.jobs.values()]
    assert sent == [2, 1]
    assert list(job.results()) == [(0, Label(sentiment="bad")), (1, Label(sentiment="good"))]


def test_what_was_malformed_twice_starts_over_when_it_is_sent_again(
    emulator: Emulator, make_model: MakeModel, tmp_path: Path
) -> None:
    malformed = Reply(finish_reason="MALFORMED_FUNCTION_CALL", finish_message="Bad call.")
    emulator.script(malformed, malformed)
    job = (
        make_model(max_retries=6)
        .bind_tools([get_weather])
        .batch_job(["Weather in Oslo?"], path=tmp_path)
    )
    ((_, failed),) = job.results()
    assert isinstance(failed, MalformedToolCallError)
    emulator.script(malformed, Reply(calls=[("get_weather", {"city": "Oslo"})]))
    job.resend()
    ((_, result),) = job.results()
    assert isinstance(result, AIMessage)
    assert result.tool_calls[0]["args"] == {"city": "Oslo"}
    bodies = [body for each in emulator.batches.jobs.values() for _, body in each.items]
    assert bodies[2] == bodies[0]
    assert bodies[3] == bodies[1] != bodies[0]  # with feedback


def test_a_conversation_goes_on_after_a_crash_although_calls_have_no_ids(
    make_model: MakeModel, tmp_path: Path
) -> None:
    """Gemini 2.5 and Vertex AI give calls no ids: those made here are the same at every reading."""
    bound = make_model(model="gemini-2.5-flash").bind_tools([get_weather])
    question = "Weather in Oslo and Rome?"

    def next_turn() -> BatchJob[AIMessage]:
        ((_, message),) = bound.batch_job([question], path=tmp_path / "first").results()
        assert isinstance(message, AIMessage)
        ids = [call["id"] for call in message.tool_calls]
        assert len({*ids}) == len(ids) == 2
        results = [ToolMessage("Sunny", tool_call_id=name) for name in ids]
        history = [HumanMessage(question), message, *results]
        return bound.batch_job([history], path=tmp_path / "second")

    next_turn()
    assert str(next_turn().wait()) == "1/1 · done"
