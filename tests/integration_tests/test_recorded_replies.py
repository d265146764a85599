"""Parse: what a user sees of a reply equals what the real API sent, for every recorded exchange.

A local server replays the recorded bytes to `ChatGemini`. What has to be seen is read here from the
raw JSON (`Recorded`), by nothing of the package. A reply is asked for in every way there is: whole,
streamed, async, and streamed part by part although it was recorded whole.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.load import dumps, loads
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    ToolMessage,
    messages_from_dict,
    messages_to_dict,
)

from langchain_gemini_tools import errors
from langchain_gemini_tools.wire.replay import CALL_SIGNATURES
from tests.recorded_reply import Recorded, echo_of, joined, split, without_ids
from tests.recordings import each_exchange, require_more_exchanges
from tests.replay_server import Replay

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.recordings import Exchange, JsonObject

SCORE = "parse"
ERRORS_BY_STATUS: dict[int, type[errors.GeminiAPIError]] = {
    400: errors.GeminiInvalidRequestError,
    401: errors.GeminiAuthenticationError,
    403: errors.GeminiPermissionError,
    404: errors.GeminiNotFoundError,
    429: errors.GeminiRateLimitError,
    500: errors.GeminiServerError,
    503: errors.GeminiServerError,
    504: errors.GeminiServerError,
}
CALL_FAILURES = {
    "MALFORMED_FUNCTION_CALL",
    "MALFORMED_RESPONSE",
    "UNEXPECTED_TOOL_CALL",
    "TOO_MANY_TOOL_CALLS",
    "MISSING_THOUGHT_SIGNATURE",
}
LISTS = ("grounding_chunks", "grounding_supports", "web_search_queries", "image_search_queries")
"""Of grounding metadata: they are empty if the API omits them."""
MAY_BE_EMPTY = {"STOP", "MAX_TOKENS"}


@dataclass(frozen=True)
class Failure:
    """The error that an exchange must raise, with what it must say."""

    kind: type[errors.GeminiToolsError]
    described: tuple[str, ...]
    attributes: JsonObject

    def check(self, error: errors.GeminiToolsError) -> None:
        text = " ".join(str(error).split())
        for words in self.described:
            assert " ".join(words.split()) in text
        assert {name: getattr(error, name) for name in self.attributes} == self.attributes


def failure_of(exchange: Exchange) -> Failure | None:
    if exchange.status != 200:
        body = exchange.replies[0]
        error = (body[0] if isinstance(body, list) else body)["error"]
        message = str(error.get("message"))
        kind = ERRORS_BY_STATUS.get(exchange.status, errors.GeminiAPIError)
        if message.startswith("API key not valid"):  # at the Developer API a 400
            kind = errors.GeminiAuthenticationError
        attributes = {"code": exchange.status, "status": error.get("status"), "message": message}
        return Failure(kind, (message,), attributes)
    recorded = Recorded(exchange)
    if recorded.block_reason:
        explanation = recorded.last("promptFeedback").get("blockReasonMessage", "")
        return Failure(errors.BlockedError, (recorded.block_reason, explanation), {})
    reason, message = recorded.last("finishReason"), recorded.last("finishMessage")
    described = (str(reason), str(message or ""))
    attributes = {"finish_reason": reason, "finish_message": message}
    if reason in CALL_FAILURES:  # five recorded ones have calls, which must not be executed
        return Failure(errors.MalformedToolCallError, described, attributes)
    if recorded.is_empty and reason not in MAY_BE_EMPTY:
        return Failure(errors.BlockedError, described, attributes)
    return None


@pytest.fixture(scope="module")
def replay() -> Iterator[Replay]:
    with Replay() as running:
        yield running


@each_exchange()
def test_the_user_sees_what_was_recorded(exchange: Exchange, replay: Replay) -> None:
    if failure := failure_of(exchange):
        with pytest.raises(failure.kind) as raised:
            replay.message(exchange)
        failure.check(raised.value)
    else:
        check_message(replay.message(exchange), Recorded(exchange))


def test_responses_that_use_caches_and_files_are_seen_as_recorded(replay: Replay) -> None:
    for exchange in require_more_exchanges("generate"):
        check_message(replay.message(exchange), Recorded(exchange))


@each_exchange()
@pytest.mark.asyncio(loop_scope="module")
async def test_async_callers_see_the_same(exchange: Exchange, replay: Replay) -> None:
    replay.put(exchange)
    if failure := failure_of(exchange):
        with pytest.raises(failure.kind) as raised:
            await replay.aask(exchange)
        failure.check(raised.value)
    else:
        check_message(await replay.aask(exchange), Recorded(exchange))


@each_exchange(lambda exchange: exchange.status == 200)
def test_whole_or_streamed_makes_no_difference(exchange: Exchange, replay: Replay) -> None:
    """A recorded stream as one body, and a recorded body as a stream of its parts."""
    other = [joined(exchange.replies)] if exchange.is_stream else split(exchange.replies[0])
    if failure := failure_of(exchange):
        replay.server.answer(other)
        with pytest.raises(failure.kind) as raised:
            replay.ask(exchange, is_stream=not exchange.is_stream)
        failure.check(raised.value)
        return
    recorded = replay.message(exchange)
    replay.server.answer(other)
    transposed = replay.ask(exchange, is_stream=not exchange.is_stream)
    assert without_invented_ids(transposed) == without_invented_ids(recorded)


@each_exchange(lambda exchange: failure_of(exchange) is None)
def test_the_message_survives_json(exchange: Exchange, replay: Replay) -> None:
    message = replay.message(exchange)
    assert messages_from_dict(json.loads(json.dumps(messages_to_dict([message])))) == [message]
    assert loads(dumps(message), allowed_objects="messages") == message


@each_exchange(lambda exchange: failure_of(exchange) is None)
def test_standard_blocks_contain_everything(exchange: Exchange, replay: Replay) -> None:
    check_blocks(replay.message(exchange), Recorded(exchange))


@each_exchange(lambda exchange: failure_of(exchange) is None)
def test_the_reply_goes_back_as_it_came(exchange: Exchange, replay: Replay) -> None:
    """Also for replies that no recorded request echoes; signatures stay on their parts."""
    check_echo(replay.message(exchange), exchange, replay)


@each_exchange(lambda exchange: failure_of(exchange) is None)
def test_version_1_content_says_the_same(exchange: Exchange, replay: Replay) -> None:
    replay.put(exchange)
    recorded, message = Recorded(exchange), replay.ask(exchange, output_version="v1")
    assert message.text == recorded.text
    check_blocks(message, recorded)
    check_calls(message, recorded)
    check_echo(message, exchange, replay)


@each_exchange(lambda exchange: exchange.is_stream and failure_of(exchange) is None)
def test_events_contain_the_same(exchange: Exchange, replay: Replay) -> None:
    replay.put(exchange)
    recorded, message = Recorded(exchange), replay.ask_for_events(exchange)
    check_blocks(message, recorded)
    check_calls(message, recorded)
    check_usage(message, recorded)
    check_echo(message, exchange, replay)


@each_exchange(lambda exchange: bool(Recorded(exchange, 1).candidates))
def test_every_candidate_is_a_generation(exchange: Exchange, replay: Replay) -> None:
    replay.put(exchange)
    (generations,) = replay.model(exchange).generate([[HumanMessage("hi")]]).generations
    assert len(generations) == len(exchange.replies[0]["candidates"])
    for index, generation in enumerate(generations):
        assert generation.text == Recorded(exchange, index).text


def check_message(message: AIMessage, recorded: Recorded) -> None:
    assert message.text == recorded.text
    check_calls(message, recorded)
    check_usage(message, recorded)
    described = dict(message.response_metadata)
    assert described["finish_reason"] == recorded.last("finishReason")
    assert described.get("finish_message") == recorded.last("finishMessage")
    if version := recorded.last("modelVersion"):
        assert described["model_name"] == version
    assert described.get("response_id") == recorded.last("responseId")
    assert described.get("empty_response", False) == recorded.is_empty
    for key, value in recorded.metadata.items():
        given = without_places(value)
        if key == "groundingMetadata" and given:
            given = {name: [] for name in LISTS} | given
        assert without_places(described[snake(key)]) == given, key
    check_citations(message, recorded)
    if is_plain(recorded):
        assert isinstance(message.content, str)  # what classic agents and parsers rely on


def check_citations(message: AIMessage, recorded: Recorded) -> None:
    """Every citation stands where its words are: the API counts in bytes, LangChain does not."""
    texts: list[Any] = [block for block in message.content_blocks if block["type"] == "text"]
    cited = [citation for block in texts for citation in block.get("annotations", [])]
    for citation in cited:
        place = slice(citation["start_index"], citation["end_index"])
        assert message.text[place] == citation["cited_text"]
    grounding = recorded.metadata.get("groundingMetadata", {})
    assert len(cited) == sum(
        len(support.get("groundingChunkIndices", ()))
        for support in grounding.get("groundingSupports", ())
    )


def check_calls(message: AIMessage, recorded: Recorded) -> None:
    assert [(call["name"], call["args"]) for call in message.tool_calls] == [
        (call.name, call.args) for call in recorded.calls
    ]
    assert message.invalid_tool_calls == []
    ids = [call["id"] for call in message.tool_calls]
    assert all(ids)
    assert len(set(ids)) == len(ids)
    for given, call in zip(ids, recorded.calls, strict=True):
        assert call.id in (given, None)
    assert message.additional_kwargs.get(CALL_SIGNATURES, {}) == {
        given: call.signature
        for given, call in zip(ids, recorded.calls, strict=True)
        if call.signature
    }


def check_usage(message: AIMessage, recorded: Recorded) -> None:
    if recorded.usage is None:
        assert message.usage_metadata is None
        return
    assert message.usage_metadata is not None
    usage: dict[str, Any] = dict(message.usage_metadata)
    details = usage.pop("input_token_details", {}) | usage.pop("output_token_details", {})
    usage |= {key: details.get(key) for key in ("cache_read", "reasoning")}
    assert usage == recorded.usage


def check_blocks(message: AIMessage, recorded: Recorded) -> None:
    """Everything that was recorded is in `content_blocks`, in a form LangChain knows."""
    blocks: list[JsonObject] = [dict(block) for block in message.content_blocks]
    of_type: dict[str, list[JsonObject]] = {}
    for block in blocks:
        of_type.setdefault(block["type"], []).append(block)
    assert "".join(block["text"] for block in of_type.pop("text", [])) == recorded.text
    thoughts = [block.get("reasoning", "") for block in of_type.pop("reasoning", [])]
    assert "".join(thoughts) == recorded.reasoning
    assert [(call["name"], call["args"]) for call in of_type.pop("tool_call", [])] == [
        (call.name, call.args) for call in recorded.calls
    ]
    code = [part["executableCode"]["code"] for part in recorded.parts if "executableCode" in part]
    assert [block["args"]["code"] for block in of_type.pop("server_tool_call", [])] == code
    outputs = [
        part["codeExecutionResult"].get("output", "")
        for part in recorded.parts
        if "codeExecutionResult" in part
    ]
    assert [block["output"] for block in of_type.pop("server_tool_result", [])] == outputs
    blobs = [part["inlineData"]["data"] for part in recorded.parts if "inlineData" in part]
    media = [b for kind in ("image", "audio", "file") for b in of_type.pop(kind, [])]
    assert [block["base64"] for block in media] == blobs
    others = recorded.server_parts
    assert [block["value"]["part"] for block in of_type.pop("non_standard", [])] == others
    assert of_type == {}


def check_echo(reply: AIMessage, exchange: Exchange, replay: Replay) -> None:
    """The next request holds the reply's parts again, even if it was stored as JSON meanwhile."""
    (message,) = messages_from_dict(json.loads(json.dumps(messages_to_dict([reply]))))
    assert isinstance(message, AIMessage)
    results = [ToolMessage("done", tool_call_id=call["id"]) for call in message.tool_calls]
    history = [HumanMessage("hi"), message, *results, HumanMessage("go on")]
    contents = replay.model(exchange).preview(history, model=exchange.model).body["contents"]
    sent = next((content["parts"] for content in contents if content["role"] == "model"), [])
    assert without_ids(sent) == without_ids(echo_of(Recorded(exchange)))


def is_plain(recorded: Recorded) -> bool:
    """Nothing but visible text and calls."""
    return not recorded.server_parts and all(
        ("text" in part and not part.get("thought")) or "functionCall" in part
        for part in recorded.parts
    )


def without_invented_ids(message: AIMessage) -> JsonObject:
    """A message as plain values, its run id left out, and what we made up replaced.

    That is ids of calls, and the name of an answer to which the API gave no id.
    """
    dumped = json.dumps(message.model_dump(exclude={"id"}))
    if "response_id" not in message.response_metadata:
        dumped = re.sub(r'"(lc_part_)?[0-9a-f]{8}([._][0-9]+)"', r'"\1\2"', dumped)
    for number, call in enumerate(message.tool_calls):
        dumped = dumped.replace(f'"{call["id"]}"', f'"call {number}"')
    plain: JsonObject = json.loads(dumped)
    return plain


def snake(key: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).lower()


def without_places(value: Any, key: str = "") -> Any:
    """A value with its keys in one spelling, and without the places of what is cited."""
    if isinstance(value, dict):
        unplaced = {"start_index", "end_index"} if key == "segment" else set()
        spelled = {snake(name): item for name, item in value.items()}
        return {k: without_places(v, k) for k, v in spelled.items() if k not in unplaced}
    return [without_places(item) for item in value] if isinstance(value, list) else value
