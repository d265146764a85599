from __future__ import annotations

import base64
from typing import Any

import pytest

from langchain_gemini_tools.testing.fake.answer import (
    SKIP_VALUES,
    Answer,
    Memory,
    may_be_foreign,
    render_responses,
    with_ids_and_signatures,
)
from langchain_gemini_tools.testing.fake.responses import Refusal
from langchain_gemini_tools.testing.fake.rules import check
from tests.unit_tests.testing.fake.requests import (
    CATCH_ALL,
    GEMINI_2,
    GEMINI_3,
    HELLO,
    WEATHER,
    ask,
    call,
    model,
    refusal_of,
    refused,
    response,
    user,
    why_refused,
)

SKIP = base64.b64encode(SKIP_VALUES[0]).decode()
CORRUPTED = "Corrupted thought signature."
FLAG = {"includeServerSideToolInvocations": True}
Part = dict[str, Any]


@pytest.fixture
def memory() -> Memory:
    return Memory()


def issue(memory: Memory, *parts: Part, name: str = GEMINI_3, **fields: Any) -> list[Part]:
    """What the emulator answered with: these parts, as Gemini 3 signs them."""
    request = ask(model=name, **fields)
    answer = with_ids_and_signatures(Answer(list(parts)), request, memory, signed=True)
    parts_sent: list[Part] = render_responses(answer, request, memory)[0]["candidates"][0][
        "content"
    ]["parts"]
    return parts_sent


def answers(parts: list[Part]) -> Part:
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    return user(*(response(each["name"], id=each["id"]) for each in calls))


def missing(name: str, position: int) -> str:
    return (
        "Function call is missing a thought_signature in functionCall parts. This is required for "
        "tools to work correctly, and missing thought_signature may lead to degraded model "
        f"performance. Additional data, function call `default_api:{name}` , position {position}. "
        "Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures for more details."
    )


def test_our_own_calls_come_back_as_they_left(memory: Memory) -> None:
    parts = issue(memory, call("f"), call("g"))
    assert ["thoughtSignature" in part for part in parts] == [True, False]
    assert why_refused(ask(user("a"), model(*parts), answers(parts)), memory) is None


def test_either_alphabet_will_do(memory: Memory) -> None:
    parts = issue(memory, call())
    signature = parts[0]["thoughtSignature"]
    assert "+" in signature
    parts[0]["thoughtSignature"] = signature.replace("+", "-").replace("/", "_")
    assert why_refused(ask(user("a"), model(*parts), answers(parts)), memory) is None


def test_a_call_without_its_signature_is_rejected(memory: Memory) -> None:
    parts = issue(memory, call("f"))
    bare = [{"functionCall": parts[0]["functionCall"]}]
    contents = [user("a"), model(*bare), answers(parts)]
    assert refusal_of(ask(*contents), memory).body == refused(missing("f", 2))
    assert refusal_of(ask(*contents, backend="vertex"), memory).body == refused(
        "Unable to submit request because function call `f` in the 2. content block is missing a "
        "`thought_signature`. Learn more: "
        "https://docs.cloud.google.com/vertex-ai/generative-ai/docs/thought-signatures"
    )


def test_every_step_of_the_current_turn_is_checked(memory: Memory) -> None:
    first, second = issue(memory, call("f")), issue(memory, call("g"))
    bare = [{"functionCall": second[0]["functionCall"]}]
    contents = [user("a"), model(*first), answers(first), model(*bare), answers(second)]
    assert refusal_of(ask(*contents), memory).body == refused(missing("g", 4))


def test_older_turns_may_lack_signatures(memory: Memory) -> None:
    assert (
        why_refused(ask(user("a"), model(call()), user(response()), model("b"), user("c")), memory)
        is None
    )


def test_gemini_2_asks_for_none(memory: Memory) -> None:
    assert (
        why_refused(ask(user("a"), model(call()), user(response()), model=GEMINI_2), memory) is None
    )


@pytest.mark.parametrize("value", SKIP_VALUES)
def test_the_skip_value_stands_in_for_calls_of_others(memory: Memory, value: bytes) -> None:
    skipped = call(signature=base64.b64encode(value).decode())
    assert (
        why_refused(ask(user("a"), model(skipped, call()), user(response(), response())), memory)
        is None
    )


@pytest.mark.parametrize("keeps_id", [True, False])
def test_the_skip_value_does_not_stand_in_for_ours(memory: Memory, keeps_id: bool) -> None:
    parts = issue(memory, call("f"))
    identifier = {"id": parts[0]["functionCall"]["id"]} if keeps_id else {}
    skipped = call("f", signature=SKIP, **identifier)
    request = ask(user("a"), model(skipped), user(response("f", **identifier)))
    assert refusal_of(request, memory).body == refused(CORRUPTED)


def test_calls_without_ids_are_known_by_what_they_say(memory: Memory) -> None:
    (first,) = issue(memory, call("f", args={"x": 1}), backend="vertex")
    (second,) = issue(memory, call("f", args={"x": 1}), backend="vertex")
    answered = user(response("f", id="ours"))
    for part in (first, second):
        own = {**part, "functionCall": {**part["functionCall"], "id": "ours"}}
        check(ask(user("a"), model(own), answered, backend="vertex"), memory)
    skipped = call("f", args={"x": 1}, id="ours", signature=SKIP)
    request = ask(user("a"), model(skipped), answered, backend="vertex")
    assert refusal_of(request, memory).body == refused(CORRUPTED)


def test_calls_of_another_model_line_are_calls_of_others(memory: Memory) -> None:
    issue(memory, call("f"), name=GEMINI_2)
    assert (
        why_refused(ask(user("a"), model(call("f", signature=SKIP)), user(response("f"))), memory)
        is None
    )


def test_a_signature_stays_on_its_call(memory: Memory) -> None:
    first, second = issue(memory, call("f"), call("g"))
    moved = [
        {"functionCall": first["functionCall"], "thoughtSignature": first["thoughtSignature"]},
        {"functionCall": second["functionCall"], "thoughtSignature": first["thoughtSignature"]},
    ]
    request = ask(user("a"), model(*moved), answers([first, second]))
    assert refusal_of(request, memory).body == refused(CORRUPTED)


def test_an_unknown_signature_is_rejected_unless_foreign_ones_are_accepted(memory: Memory) -> None:
    request = ask(user("a"), model(call(signature="Er" * 20)), user(response()))
    assert refusal_of(request, memory).body == refused(CORRUPTED)
    check(request, memory, accepts_foreign=True)
    check(request, memory, accepts_foreign=may_be_foreign)
    short = ask(user("a"), model(call(signature="AAAA")), user(response()))
    with pytest.raises(Refusal, match="never issued"):
        check(short, memory, accepts_foreign=may_be_foreign)


def test_a_signature_of_a_text_is_checked_as_well(memory: Memory) -> None:
    (part,) = issue(memory, {"text": "Hi"})
    assert why_refused(ask(user("a"), model(part), user("b")), memory) is None
    assert why_refused(ask(user("a"), model({"text": "Hi"}), user("b")), memory) is None
    altered = {"text": "Hi", "thoughtSignature": "AAAA"}
    assert refusal_of(ask(user("a"), model(altered), user("b")), memory).body == refused(CORRUPTED)


def test_signatures_belong_to_one_backend_and_model_line(memory: Memory) -> None:
    parts = issue(memory, call("f"))
    contents = [user("a"), model(*parts), answers(parts)]
    for elsewhere in (ask(*contents, backend="vertex"), ask(*contents, model=GEMINI_2)):
        refusal = refusal_of(elsewhere, memory)
        assert refusal.body == refused(CORRUPTED)
        assert "another backend or model line" in refusal.why


class TestServerTools:
    """`toolCall` and `toolResponse` are echoed with the flag, unchanged."""

    search = (
        {"toolCall": {"id": "s1", "toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["a"]}}},
        {"toolResponse": {"id": "s1", "toolType": "GOOGLE_SEARCH_WEB", "response": {"x": 1}}},
    )

    def test_they_come_back_as_they_left(self, memory: Memory) -> None:
        parts = issue(memory, *self.search, {"text": "Found."})
        assert all("thoughtSignature" in part for part in parts)
        check(ask(user("a"), model(*parts), user("b"), toolConfig=FLAG), memory)

    def test_they_need_the_flag_every_time(self, memory: Memory) -> None:
        parts = issue(memory, *self.search)
        refusal = refusal_of(ask(user("a"), model(*parts), user("b")), memory)
        assert refusal.body == refused(CATCH_ALL)

    def test_they_keep_their_signature_and_id_and_stay_in_pairs(self, memory: Memory) -> None:
        parts = issue(memory, *self.search)
        bare = [dict(part) for part in parts]
        bare[0].pop("thoughtSignature")
        renamed = [{**parts[0], "toolCall": {**parts[0]["toolCall"], "id": "s2"}}, parts[1]]
        for broken in (bare, renamed, parts[:1]):
            request = ask(user("a"), model(*broken), user("b"), toolConfig=FLAG)
            assert refusal_of(request, memory).body == refused(CATCH_ALL)

    def test_older_models_accept_none_of_them(self) -> None:
        request = ask(user("a"), model(*self.search), user("b"), model=GEMINI_2)
        assert refusal_of(request).body == refused(
            f"Tool call context circulation is not enabled for models/{GEMINI_2}"
        )


ARGON = "gemini-4-argon"
TOKEN = "dG9rZW4="
PARTIAL = {"role": "model", "parts": [{"text": "Half a"}]}
GO_ON = {"role": "user", "parts": [{"text": "Go on."}]}


def remembering(**fields: Any) -> Memory:
    memory = Memory()
    memory.learn_token(TOKEN, ask(model=ARGON, **fields))
    return memory


@pytest.mark.parametrize(
    ("contents", "fields", "why"),
    [
        pytest.param([], {"continuationToken": "b3RoZXI="}, "never issued", id="unknown"),
        pytest.param([], {"model": "gemini-5-pro"}, "one of gemini-4-argon", id="other-model"),
        pytest.param([HELLO, PARTIAL, GO_ON], {}, "Contents were added", id="partial-text"),
        pytest.param([GO_ON], {}, "other contents", id="other-contents"),
        pytest.param([], {"tools": [WEATHER]}, "other tools", id="other-tools"),
        pytest.param(
            [], {"generationConfig": {"seed": 1}}, "other generationConfig", id="other-config"
        ),
    ],
)
def test_a_token_is_for_the_same_request(
    contents: list[Any], fields: dict[str, Any], why: str
) -> None:
    request = ask(*contents, **{"model": ARGON, "continuationToken": TOKEN, **fields})
    refusal = refusal_of(request, remembering())
    assert refusal.body == refused(CATCH_ALL)
    assert why in refusal.why


def test_a_token_is_no_base64() -> None:
    with pytest.raises(Exception, match="Base64 decoding failed"):
        ask(continuationToken="not a token")


def test_more_output_may_be_asked_for_than_before() -> None:
    memory = remembering(generationConfig={"maxOutputTokens": 10})
    config = {"maxOutputTokens": 20}
    assert (
        why_refused(ask(model=ARGON, continuationToken=TOKEN, generationConfig=config), memory)
        is None
    )


def test_a_signature_that_was_alone_does_not_come_back(memory: Memory) -> None:
    request = ask(backend="vertex")
    step = {"thoughtSignature": memory.new_signature()}
    memory.learn([step], request)
    for returned in ({"text": "", **step}, {"text": "Yes.", **step}):
        again = ask(user("a"), model(returned), user("b"), backend="vertex")
        assert refusal_of(again, memory).body == refused("Invalid thought signature")


def test_a_step_that_another_server_signed_is_not_compared_with_an_equal_one_of_ours(
    memory: Memory,
) -> None:
    """Two equal calls: Vertex AI sends no ids, so the history may be the real API's."""
    issue(memory, call("f"), name=GEMINI_3, backend="vertex")
    foreign = base64.b64encode(b"a signature of the real API").decode()
    history = [user("a"), model(call("f", signature=foreign), call("f"))]
    answered = user(response("f"), response("f"))

    request = ask(*history, answered, backend="vertex")
    check(request, memory, accepts_foreign=may_be_foreign)
    with pytest.raises(Refusal, match="Corrupted"):
        check(request, memory)


def test_a_call_made_by_hand_may_equal_one_of_ours(memory: Memory) -> None:
    issue(memory, call("f"))
    request = ask(user("a"), model(call("f", signature=SKIP)), user(response("f")))
    check(request, memory, accepts_foreign=may_be_foreign)
    assert refusal_of(request, memory).body == refused(CORRUPTED)
