"""A conversation through whatever may happen to one: nothing is refused, lost or said twice.

Hypothesis writes the story: who speaks, which model answers in which way, what breaks on the way,
where the history is stored and read again. After every answer the newest request is searched for
every word of the user and every result of a tool. `make fuzz` tells many more stories.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import json
import operator
import pickle
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from langchain_core.load import dumps, loads
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
    message_chunk_to_message,
    messages_from_dict,
    messages_to_dict,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic import TypeAdapter

from langchain_gemini_tools import ChatGemini, errors
from langchain_gemini_tools.testing.fake import API_KEY, Emulator, faults
from tests.integration_tests.play import get_weather
from tests.properties import PROFILE, STORIES

pytestmark = pytest.mark.filterwarnings("ignore:The function `load:Warning")

GEMMA = "gemma-3-27b-it"
MODELS = ["gemini-3.8-flash", "gemini-2.5-flash", GEMMA]
WAYS = st.sampled_from(["invoke", "ainvoke", "stream", "astream"])

PASSING = {
    "overloaded": faults.overloaded(),
    "reset": faults.cut_before_headers(),
    "internal": faults.internal_error(),
    "a proxy's page": faults.html_page(502),
    "slow down": faults.too_many_requests(retry_seconds=0),
}
"""What is tried again."""

HARMLESS = {
    "none": None,
    "keep-alive": faults.keep_alive_comments(),
    "in crumbs": faults.split_anywhere(97),
    "gzip": faults.gzipped(),
}
"""What makes no difference."""

FINAL: dict[str, tuple[dict[str, Any], type[Exception]]] = {
    "refused": ({"fault": faults.http_error(403, "No.")}, errors.GeminiPermissionError),
    "no time": ({"fault": faults.too_many_requests(per="day")}, errors.GeminiRateLimitError),
    "blocked": (
        {"body": {"promptFeedback": {"blockReason": "SAFETY"}}},
        errors.BlockedError,
    ),
    "cut short": (
        {"text": "It is", "finish_reason": None, "fault": faults.ended_early()},
        errors.TruncatedStreamError,
    ),
    "nonsense": ({"body": "<p>Hello"}, errors.UnreadableResponseError),
}
"""What raises; the story goes on with the history as it was."""

MESSAGES: TypeAdapter[list[Any]] = TypeAdapter(list[AnyMessage])
SERIALIZER = JsonPlusSerializer()
STORES: dict[str, Any] = {
    "dicts": lambda history: messages_from_dict(json.loads(json.dumps(messages_to_dict(history)))),
    "dumps": lambda history: [loads(dumps(message), allowed_objects="all") for message in history],
    "pydantic": lambda history: MESSAGES.validate_json(MESSAGES.dump_json(history)),
    "pickle": lambda history: pickle.loads(pickle.dumps(history)),
    "checkpoint": lambda history: SERIALIZER.loads_typed(SERIALIZER.dumps_typed(history)),
    "deepcopy": copy.deepcopy,
}


class Story(RuleBasedStateMachine):
    """One thread of messages, three models, a strict server, and a lot of bad luck."""

    @initialize()
    def begin(self) -> None:
        self.emulator = Emulator()
        self.emulator.__enter__()
        self.models = {
            name: ChatGemini(model=name, api_key=API_KEY, base_url=self.emulator.url, max_retries=3)
            for name in MODELS
        }
        self.history: list[BaseMessage] = []
        self.words: list[str] = []
        """What the user said and tools returned: each has to be in every later request, once."""
        self.asked_with = 0
        """How many of the words there were when a model was last asked."""
        self.number = 0

    def teardown(self) -> None:
        if hasattr(self, "emulator"):
            for model in self.models.values():
                model.close()
            self.emulator.__exit__(None, None, None)

    def _new(self, kind: str) -> str:
        self.number += 1
        self.words.append(f"{kind}-{self.number}-end")
        return self.words[-1]

    def _open_calls(self) -> list[Any]:
        answered = {m.tool_call_id for m in self.history if isinstance(m, ToolMessage)}
        asked = [m for m in self.history if isinstance(m, AIMessage)]
        return [call for m in asked for call in m.tool_calls if call["id"] not in answered]

    # What people and tools do

    @rule(blocks=st.booleans())
    def a_user_speaks(self, *, blocks: bool) -> None:
        """Also while calls are open, which then count as not executed."""
        said = self._new("words")
        self.history.append(HumanMessage([{"type": "text", "text": said}] if blocks else said))

    @precondition(lambda self: hasattr(self, "history") and bool(self._open_calls()))
    @rule(data=st.data(), fails=st.booleans(), shape=st.sampled_from(["text", "json", "blocks"]))
    def a_tool_returns(self, data: st.DataObject, *, fails: bool, shape: str) -> None:
        """Any open call, in any order; perhaps late, after another message."""
        call = data.draw(st.sampled_from(self._open_calls()))
        found = self._new("result")
        content: Any = {
            "text": found,
            "json": json.dumps({"found": found}),
            "blocks": [{"type": "text", "text": found}],
        }[shape]
        status: Any = "error" if fails else "success"
        self.history.append(ToolMessage(content, tool_call_id=call["id"], status=status))

    @rule(name=st.sampled_from(sorted(STORES)))
    def the_history_is_stored_and_read_again(self, name: str) -> None:
        before = [(type(m), m.content, getattr(m, "tool_calls", None)) for m in self.history]
        self.history = STORES[name](self.history)
        after = [(type(m), m.content, getattr(m, "tool_calls", None)) for m in self.history]
        assert after == before

    @rule(name=st.sampled_from(MODELS), how=st.sampled_from(["copy", "deepcopy", "pickle"]))
    def a_model_is_replaced_by_its_copy(self, name: str, how: str) -> None:
        model = self.models[name]
        if how == "pickle":
            twin = pickle.loads(pickle.dumps(model)).model_copy(update={"api_key": API_KEY})
        else:
            twin = getattr(copy, how)(model)
        model.close()
        self.models[name] = twin

    # What models do

    @precondition(lambda self: bool(getattr(self, "words", None)))
    @rule(
        model=st.sampled_from(MODELS),
        way=WAYS,
        before=st.lists(st.sampled_from(sorted(PASSING)), max_size=3),
        form=st.sampled_from(sorted(HARMLESS)),
        calls=st.integers(0, 3),
        says=st.booleans(),
        thinks=st.booleans(),
    )
    def a_model_answers(  # noqa: PLR0917
        self,
        model: str,
        way: str,
        before: list[str],
        form: str,
        calls: int,
        says: bool,
        thinks: bool,
    ) -> None:
        for fault in before:
            self.emulator.reply(fault=PASSING[fault])
        self.number += 1
        cities = [f"City {self.number}.{number}" for number in range(calls)]
        said = ["Let me see."] if says or not calls else []
        if model == GEMMA:
            lines = [*said, *(f'TOOL_CALL: get_weather({{"city": "{city}"}})' for city in cities)]
            parts: list[Any] = [{"text": "\n".join(lines)}]
        else:
            parts = [{"text": "Hm.", "thought": True}] if thinks else []
            parts += [{"text": text} for text in said]
            parts += [{"functionCall": self._function_call(model, city)} for city in cities]
        self.emulator.reply(parts=parts, fault=HARMLESS[form])
        asked = len(self.emulator.requests)
        answer = self._ask(model, way)
        assert len(self.emulator.requests) == asked + len(before) + 1
        assert [call["args"]["city"] for call in answer.tool_calls] == cities
        self.history.append(answer)

    def _function_call(self, model: str, city: str) -> dict[str, Any]:
        call: dict[str, Any] = {"name": "get_weather", "args": {"city": city}}
        return call | ({"id": f"call-{city}"} if model == MODELS[0] else {})

    @precondition(lambda self: bool(getattr(self, "words", None)))
    @rule(model=st.sampled_from(MODELS), way=WAYS, name=st.sampled_from(sorted(FINAL)))
    def a_model_fails(self, model: str, way: str, name: str) -> None:
        reply, kind = FINAL[name]
        if name == "cut short" and "stream" not in way:
            return  # a whole reply has its length history
        self.emulator.reply(**reply)
        with pytest.raises(kind):
            self._ask(model, way, max_retries=0)

    @precondition(lambda self: bool(getattr(self, "words", None)))
    @rule(model=st.sampled_from(MODELS), way=WAYS)
    def a_model_makes_no_sense_at_first(self, model: str, way: str) -> None:
        if model == GEMMA:
            self.emulator.reply("TOOL_CALL: get_wether({})")
        else:
            self.emulator.reply(
                parts=[], finish_reason="MALFORMED_FUNCTION_CALL", finish_message="print(get_"
            )
        self.emulator.reply("Now I see.")
        self.history.append(self._ask(model, way))

    def _ask(self, model: str, way: str, **options: Any) -> AIMessage:
        # Random numbers are 0, and so the pauses between retries.
        random.setstate((3, (0,) * 624 + (624,), None))
        bound = self.models[model].bind_tools([get_weather], **options)
        self.asked_with = len(self.words)
        match way:
            case "invoke":
                answer: Any = bound.invoke(self.history)
            case "ainvoke":
                answer = asyncio.run(bound.ainvoke(self.history))
            case "stream":
                answer = functools.reduce(operator.add, bound.stream(self.history))
            case _:

                async def gather() -> Any:
                    chunks = [chunk async for chunk in bound.astream(self.history)]
                    return functools.reduce(operator.add, chunks)

                answer = asyncio.run(gather())
        whole = message_chunk_to_message(answer)
        assert isinstance(whole, AIMessage)
        return whole

    # What always holds

    @invariant()
    def every_request_was_one_that_the_api_takes(self) -> None:
        if hasattr(self, "emulator"):
            assert [(str(found), found.why) for found in self.emulator.refusals] == []
            assert self.emulator.pending_replies == 0

    @invariant()
    def nothing_was_lost_and_nothing_was_said_twice(self) -> None:
        if not hasattr(self, "emulator") or not self.emulator.requests:
            return
        sent = json.dumps(self.emulator.last.body["contents"])
        known = self.words[: self.asked_with]
        assert {word: sent.count(word) for word in known} == dict.fromkeys(known, 1)


Story.TestCase.settings = settings(
    PROFILE, max_examples=STORIES, stateful_step_count=25, suppress_health_check=list(HealthCheck)
)
TestStory = Story.TestCase
