"""The rules of the Interactions API: recorded requests pass, and each rule refuses."""

from __future__ import annotations

from typing import Any

import pytest

from langchain_gemini_tools.testing.fake.answer import Memory
from langchain_gemini_tools.testing.fake.ask import find_model
from langchain_gemini_tools.testing.fake.interactions import Stored
from langchain_gemini_tools.testing.fake.responses import Refusal
from langchain_gemini_tools.testing.fake.rules.interactions import (
    check_background,
    check_end,
    check_fields,
    check_steps,
    check_thinking,
    read_steps,
)
from tests.recordings import require_more_exchanges

Json = dict[str, Any]

SAID: Json = {"type": "user_input", "content": [{"type": "text", "text": "7 + 11?"}]}
THOUGHT: Json = {"type": "thought", "signature": "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="}
CALL: Json = {"type": "function_call", "id": "c", "name": "add", "arguments": {"x": 7}}
RESULT: Json = {"type": "function_result", "call_id": "c", "name": "add", "result": {"sum": 18}}


def check(**body: Any) -> None:
    whole = {"model": "gemini-3.8-flash", "input": "Hello", **body}
    check_fields(whole)
    model = find_model(str(whole["model"]), "v1beta")
    check_thinking(whole, model)
    check_background(whole, model)
    steps = read_steps(whole["input"])
    check_steps(steps, model, Memory(), accepts_foreign=False)
    check_end(whole, steps, {})


def test_recorded_requests_pass() -> None:
    bodies = [each for each in require_more_exchanges("interactions") if each.request]
    for exchange in bodies:
        assert exchange.request
        check_fields(exchange.request)
        steps = read_steps(exchange.request["input"])
        if "previous_interaction_id" not in exchange.request:
            model = find_model(exchange.model, "v1beta") if exchange.model else None
            check_steps(steps, model, Memory(), accepts_foreign=False)
    assert len(bodies) > 15


def test_every_form_of_input_passes() -> None:
    text = {"type": "text", "text": "Hello"}
    forms = ("Hello", text, [text], [SAID], [SAID, THOUGHT, CALL, RESULT])
    for given in forms:
        check(input=given)
    assert [len(read_steps(given)) for given in forms] == [1, 1, 1, 1, 4]


BROKEN: dict[str, Json] = {
    "the request does not have sky": {"sky": "clear"},
    "generation_config does not have n": {"generation_config": {"n": 3}},
    "either a model or an agent": {"agent": "deep-research"},
    "system_instruction is a string": {"system_instruction": {"text": "Be brief."}},
    "background needs store": {"background": True, "store": False},
    "tool_choice is a mode": {"generation_config": {"tool_choice": "add"}},
    "thinking_level is a known level": {"generation_config": {"thinking_level": "none"}},
    "Allowed values are: medium, low, high.": {
        "model": "gemini-3.7-flash",
        "generation_config": {"thinking_level": "minimal"},
    },
    "A tool has a known type": {"tools": [{"functionDeclarations": []}]},
    "function does not have strict": {"tools": [{"type": "function", "name": "a", "strict": 1}]},
    "does not support background": {"background": True, "model": "gemini-2.5-flash"},
    "has no result": {"input": [SAID, THOUGHT, CALL]},
    "before the next user_input": {"input": [SAID, THOUGHT, CALL, SAID]},
    "does not belong to an open call": {"input": [SAID, RESULT]},
    "No thought with a signature": {"input": [SAID, CALL, RESULT]},
    "never issued": {"input": [SAID, {**THOUGHT, "signature": "c2ln"}, CALL, RESULT]},
    "empty signature": {"input": [SAID, {**THOUGHT, "signature": ""}, CALL, RESULT]},
    "A result is an object": {"input": [SAID, THOUGHT, CALL, {**RESULT, "result": 18}]},
    "arguments, which are an object": {
        "input": [SAID, THOUGHT, {**CALL, "arguments": "{}"}, RESULT]
    },
    "ends with the model": {"input": [SAID, {"type": "model_output", "content": []}]},
    "text of a content is a string": {"input": [{"type": "text", "text": 7}]},
    "name of a step is a string": {"input": [SAID, THOUGHT, {**CALL, "name": ["add"]}, RESULT]},
    "A step has a known type": {"input": [{"type": "dream"}]},
    "A content has a known type": {"input": [{"type": "user_input", "content": [{"type": "a"}]}]},
}


def test_a_turn_is_continued_with_its_own_token() -> None:
    stored = {"v1_a": Stored({"continuation_token": "t1"})}
    body = {"previous_interaction_id": "v1_a", "continuation_token": "t1"}
    ended = [SAID, {"type": "model_output", "content": []}]
    check_end(body, ended, stored)
    with pytest.raises(Refusal, match="not issued by the previous"):
        check_end({**body, "continuation_token": "t2"}, ended, stored)


@pytest.mark.parametrize("why", BROKEN)
def test_a_broken_rule_is_refused(why: str) -> None:
    with pytest.raises(Refusal, match=why):
        check(**BROKEN[why])
