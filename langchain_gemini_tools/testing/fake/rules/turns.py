"""The order of turns: calls after the user, responses after calls, each call answered once."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from langchain_gemini_tools.testing.fake.refusal import Refusal, invalid, refuse_all

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_gemini_tools.testing.fake.ask import Ask, Turn
    from langchain_gemini_tools.testing.fake.refusal import JsonObject

_CALL_ORDER = (
    "Please ensure that function call turn comes immediately after a user turn or after a function "
    "response turn."
)
_RESPONSE_ORDER = (
    "Please ensure that function response turn comes immediately after a function call turn."
)
_COUNT = (
    "Please ensure that the number of function response parts is equal to the number of function "
    "call parts of the function call turn."
)


def check_turns(ask: Ask) -> None:
    """Refuse a conversation that is out of order. Neighbours of one role count as one turn."""
    turns = ask.turns
    refuse_all(_empty_names(ask))
    for number, turn in enumerate(turns):
        before = turns[number - 1] if number else None
        after = turns[number + 1] if number + 1 < len(turns) else None
        if turn.is_model:
            _check_model_turn(turn, before, after, ask)
        else:
            _check_user_turn(turn, before, ask)
    if turns[-1].is_model and not ask.model.takes_prefill:
        # Reported for 3.5-flash-lite, 3.6-flash and 3.8-flash, with and without the full stop
        raise Refusal("Requests ending with a model turn are not supported.")
    if turns[-1].is_model and turns[-1].has_calls:
        raise invalid("The last turn is a call of the model")


def _empty_names(ask: Ask) -> Iterator[tuple[str, str]]:
    for turn in ask.turns:
        for c, p, part in turn.parts:
            for kind, path in (
                ("functionCall", "function_call"),
                ("functionResponse", "function_response"),
            ):
                if kind in part and not part[kind].get("name"):
                    yield f"contents[{c}].parts[{p}].{path}.name", "Name cannot be empty."


def _check_model_turn(turn: Turn, before: Turn | None, after: Turn | None, ask: Ask) -> None:
    if turn.has_responses:
        _check_answered_by_the_server(turn, ask)
        return
    if not turn.has_calls:
        return
    if before is None:
        raise Refusal(_CALL_ORDER)
    if _call_content_follows_another(turn):
        raise Refusal(_CALL_ORDER, why="model(text), then model(call): put them into one content")
    # Recorded on 2.0: a call, then a user text without a response
    unanswered = after is not None and not after.has_responses
    if unanswered and ask.model.generation >= (2, 5):
        raise Refusal(_COUNT, why="a call without a response")


def _check_answered_by_the_server(turn: Turn, ask: Ask) -> None:
    # Recorded: with `mcpServers` the API calls and answers by itself, all in the model's turn
    if "mcpServers" not in ask.builtin_tools:
        raise Refusal(_RESPONSE_ORDER, why="a function response in a model turn")
    if len(turn.of_kind("functionCall")) != len(turn.of_kind("functionResponse")):
        raise Refusal(_COUNT)


def _call_content_follows_another(turn: Turn) -> bool:
    contents: dict[int, bool] = {}
    for number, _, part in turn.parts:
        contents[number] = contents.get(number, False) or "functionCall" in part
    kinds = list(contents.values())
    return any(is_call and not kinds[n] for n, is_call in enumerate(kinds[1:]))


def _check_user_turn(turn: Turn, before: Turn | None, ask: Ask) -> None:
    if turn.has_calls:
        raise Refusal(_CALL_ORDER, why="a function call in a user turn")
    if not turn.has_responses:
        return
    if before is None or not before.has_calls:
        raise Refusal(_RESPONSE_ORDER)
    is_response = ["functionResponse" in part for _, _, part in turn.parts]
    if is_response != sorted(is_response, reverse=True):
        raise Refusal(_RESPONSE_ORDER, why="something stands before a function response")
    calls, responses = before.of_kind("functionCall"), turn.of_kind("functionResponse")
    if len(calls) != len(responses):
        raise Refusal(_COUNT)
    for response in responses:
        if response.keys() & {"scheduling", "willContinue"}:
            raise invalid(
                "scheduling and willContinue belong to the Live API", evidence="documented"
            )
    _check_ids(calls, responses, ask)
    _check_names(calls, responses)


def _check_ids(calls: list[JsonObject], responses: list[JsonObject], ask: Ask) -> None:
    call_ids = [call.get("id") for call in calls]
    response_ids = [response.get("id") for response in responses]
    if ask.backend == "vertex" and not any(call_ids):
        return  # recorded on 3: a call without an id, answered with one
    if not any(response_ids):
        return  # Google's own SDK answers so when it calls functions by itself
    if Counter(call_ids) != Counter(response_ids):
        raise invalid(f"responses to {response_ids}, but calls {call_ids}")
    if any(call_ids) and len(set(call_ids)) < len(call_ids):
        raise invalid(f"ids that stand twice in one turn: {call_ids}")


def _check_names(calls: list[JsonObject], responses: list[JsonObject]) -> None:
    """By id in any order; without ids, the order is the only link."""
    names = {call.get("id"): call["name"] for call in calls}
    for call, response in zip(calls, responses, strict=True):
        expected = names.get(response["id"], call["name"]) if response.get("id") else call["name"]
        if response["name"] != expected:
            raise invalid(f"{response['name']} answers a call of {expected}")
