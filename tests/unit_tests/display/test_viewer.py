"""What a user sees of a run, as plain text: whole trees."""

from __future__ import annotations

import io
from base64 import b64encode
from html import escape
from itertools import dropwhile
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel

from langchain_gemini_tools import RunClock, trace
from langchain_gemini_tools.errors import TruncatedStreamError
from tests.unit_tests.display.runs import HOSTILE, answer, call, weather_clock, weather_run

if TYPE_CHECKING:
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig


def _shown(source: Any, **options: Any) -> list[str]:
    """The tree without its first lines, which sum up the run."""
    lines = str(trace(source, **options)).split("\n")
    return list(dropwhile(lambda line: line[0] not in "├└", lines))


def test_a_run_is_a_tree_of_turns_calls_and_results() -> None:
    assert str(trace(weather_run())) == (
        "gemini-2.0-flash\n"
        "2 turns, 2 calls (1 failed) · 2,000 → 400 tokens · $0.00036\n"
        "├── you  What is the weather?\n"
        "├── turn 1  1,000 → 200 tokens · $0.00018 · 2 parallel calls\n"
        '│   ├── get_weather(city="Oslo")\n'
        "│   │   └── result  -3 °C, snow\n"
        '│   └── ✗ get_weather(city="Rome")\n'
        "│       └── ✗ error  no such city\n"
        "└── turn 2  1,000 → 200 tokens · $0.00018\n"
        "    └── Snow in Oslo; I do not know about Rome."
    )


def test_a_clock_adds_times_first_tokens_and_retries() -> None:
    shown = str(trace(weather_run(), weather_clock())).split("\n")
    assert [line for line in shown if " ms" in line] == [
        "2 turns, 2 calls (1 failed) · 800 ms · 2,000 → 400 tokens · $0.00036",
        "├── turn 1  100 ms · 1,000 → 200 tokens · $0.00018 · 2 parallel calls",
        '│   ├── get_weather(city="Oslo")  200 ms',
        '│   └── ✗ get_weather(city="Rome")  200 ms',
        "    200 ms · first token 100 ms · 1,000 → 200 tokens · $0.00018 · 1 retry",
    ]


def test_a_run_without_a_clock_is_timed_as_well() -> None:
    model = GenericFakeChatModel(messages=iter([AIMessage("One"), AIMessage("Two")]))
    assert " ms" in str(trace(model.invoke("Hi")))
    measured = RunClock()
    message = model.invoke("Hi", config={"callbacks": [measured]})
    assert " ms" in str(trace(message, measured))
    assert " ms" in str(trace(message))
    assert " ms" not in str(trace(AIMessage("Three", id="three")))


def test_a_call_id_of_another_run_brings_no_time() -> None:
    tool(lambda: "x", description="X.").invoke(
        {"name": "x", "args": {}, "id": "a", "type": "tool_call"}
    )
    assert " ms" not in str(trace([answer(tool_calls=[call("x", "a")], id="unmeasured")]))


def test_short_json_stays_on_one_line() -> None:
    messages = [
        answer(tool_calls=[call("x", "a"), call("y", "b")]),
        ToolMessage('{\n  "a": 1,\n  "b": "ä"\n}', tool_call_id="a"),
        ToolMessage("{\n not JSON\n}", tool_call_id="b"),
    ]
    assert _shown(messages)[2:] == [
        '    │   └── result  {"a": 1, "b": "ä"}',
        "    └── y()",
        "        └── result",
        "            {",
        "             not JSON",
        "            }",
    ]


@pytest.mark.parametrize(
    "wrap",
    [
        lambda messages: messages,
        tuple,
        lambda messages: {"messages": messages},
        lambda messages: SimpleNamespace(messages=messages),
    ],
    ids=["list", "tuple", "agent state", "result with messages"],
)
def test_messages_are_found_in_what_executors_return(wrap: Any) -> None:
    assert str(trace(wrap(weather_run()))) == str(trace(weather_run()))


def test_the_results_of_langgraph_are_shown() -> None:
    builder = StateGraph(MessagesState)
    builder.add_node("model", lambda _: {"messages": weather_run()[1:]})
    builder.add_edge(START, "model")
    graph = builder.compile(checkpointer=InMemorySaver())
    config: RunnableConfig = {"configurable": {"thread_id": "1"}}
    question: Any = {"messages": [weather_run()[0]]}
    shown = str(trace(weather_run()))
    assert str(trace(graph.invoke(question, config, version="v2"))) == shown
    assert str(trace(graph.get_state(config))) == shown


def test_one_message_is_a_run_of_one_turn() -> None:
    assert _shown(answer("Hello")) == [
        "└── turn 1  1,000 → 200 tokens · $0.00018",
        "    └── Hello",
    ]


def test_the_chunks_of_a_stream_are_one_turn() -> None:
    chunks = [AIMessageChunk(content=text, id="run-1") for text in ("Good ", "morn", "ing")]
    assert _shown([HumanMessage("Hi"), *chunks]) == [
        "├── you  Hi",
        "└── turn 1",
        "    └── Good morning",
    ]


def test_the_chunks_of_two_parallel_streams_are_two_turns() -> None:
    texts = [("1", "Good "), ("2", "Good "), ("1", "morn"), ("2", "night"), ("1", "ing")]
    chunks = [AIMessageChunk(content=text, id=f"run-{number}") for number, text in texts]
    assert _shown([*chunks[:2], HumanMessage("Hi"), *chunks[2:]]) == [
        "├── turn 1",
        "│   └── Good morning",
        "├── turn 2",
        "│   └── Good night",
        "└── you  Hi",
    ]


def test_adjacent_chunks_without_an_id_are_one_turn() -> None:
    chunks = [AIMessageChunk(content=text) for text in ("Good ", "morning", "Bye")]
    assert _shown([*chunks[:2], HumanMessage("Hi"), chunks[2]]) == [
        "├── turn 1",
        "│   └── Good morning",
        "├── you  Hi",
        "└── turn 2",
        "    └── Bye",
    ]


def test_a_source_without_messages_is_rejected() -> None:
    with pytest.raises(TypeError, match="found no messages in this int"):
        trace(3)
    updates = [{"model": {"messages": [answer("Hi")]}}]  # what an agent streams by default
    with pytest.raises(TypeError, match=r"no message in item 0, of type dict.*stream_mode"):
        trace(updates)


def test_an_item_of_a_stream_of_messages_is_a_message() -> None:
    item = (answer("Hi"), {"langgraph_node": "model"})
    assert str(trace(item)) == str(trace([item])) == str(trace((("sub:1",), item)))


def test_a_refusal_is_shown_once() -> None:
    blocked = {"finish_reason": "SAFETY", "finish_message": "Unsafe."}
    derived = {"type": "refusal", "refusal": "Unsafe.", "extras": {"finish_reason": "SAFETY"}}
    text = {"type": "text", "text": "I think"}
    stored = {"model_provider": "google_genai", "output_version": "v1", **blocked}
    lines = _shown([HumanMessage("Hi"), answer([text, derived], response_metadata=stored)])
    assert [line.strip("│├└─ ") for line in lines][-2:] == [
        "I think",
        "! finish reason  SAFETY: Unsafe.",
    ]
    refused = answer([{"type": "refusal", "refusal": "I can't help with that."}])
    assert _shown([HumanMessage("Hi"), refused])[-1].strip("│├└─ ") == (
        "refusal  I can't help with that."
    )


def test_blocks_that_langchain_has_wrapped_are_shown_as_they_are() -> None:
    """A conversation that langchain-google-genai 3.0 stored."""
    wrapped = [
        {"type": "text", "text": "I will look.", "extras": {"signature": "c2ln"}},
        {"type": "function_call_signature", "signature": "c2ln"},
    ]
    blocks = [{"type": "non_standard", "value": block} for block in wrapped]
    asked = answer(blocks, tool_calls=[call("f", "a")], response_metadata={"output_version": "v1"})
    shown = _shown([HumanMessage("Hi"), asked, ToolMessage("Done", tool_call_id="a")])
    assert [line.strip(" │├└─") for line in shown[2:]] == ["I will look.", "f()", "result  Done"]


def test_steps_of_the_interactions_api_are_shown_as_calls_and_results() -> None:
    steps: list[Any] = [
        {"type": "google_search_call", "id": "s", "arguments": {"queries": ["cats"]}},
        {"type": "google_search_result", "call_id": "s", "result": [{"x": 1}], "signature": "c2ln"},
        {"type": "mcp_server_tool_call", "id": "m", "name": "look", "arguments": {"at": "cats"}},
        {"type": "mcp_server_tool_result", "call_id": "m", "result": "Gone", "is_error": True},
        {"type": "processing_call", "id": "p", "signature": "c2ln"},
    ]
    blocks = [{"type": "gemini_part", "part": {"interactionStep": step}} for step in steps]
    shown = _shown([HumanMessage("Hi"), answer([*blocks, {"type": "text", "text": "A cat."}])])
    assert [line.strip(" │├└─") for line in shown[2:]] == [
        'google_search  queries=["cats"]',
        'server result  [{"x": 1}]',
        'look  at="cats"',
        "server result  error: Gone",
        'processing_call  {"id": "p"}',
        "A cat.",
    ]


@pytest.mark.parametrize("is_named", [False, True])
@pytest.mark.parametrize(
    ("vendor", "block"),
    [
        ("anthropic", {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}),
        ("bedrock_converse", {"type": "reasoning_content", "reasoning_content": {"text": "Hm."}}),
        ("openai", {"type": "reasoning", "id": "r", "summary": [{"type": "x", "text": "Hm."}]}),
        ("google_genai", {"type": "thinking", "thinking": "Hm."}),
        ("mistralai", {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}),
    ],
)
def test_thoughts_and_calls_of_other_vendors_are_shown_once(
    vendor: str, block: dict[str, Any], *, is_named: bool
) -> None:
    """Messages that were made by hand, or by old versions of LangChain, name no provider."""
    metadata = {"model_provider": vendor} if is_named else {}
    use = {"type": "tool_use", "id": "a", "name": "book", "input": {"city": "Oslo"}}
    content: list[Any] = [block, {"type": "text", "text": "Let me see."}, use]
    calls = [call("book", "a", city="Oslo")]
    message = AIMessage(content, tool_calls=calls, response_metadata=metadata)
    assert _shown([message, ToolMessage("done", tool_call_id="a")]) == [
        "└── turn 1",
        "    ├── thinking  Hm.",
        "    ├── Let me see.",
        '    └── book(city="Oslo")',
        "        └── result  done",
    ]


@pytest.mark.parametrize("vendor", ["openai", "anthropic", None])
def test_a_call_of_a_custom_tool_is_shown_once(vendor: str | None) -> None:
    block = {"type": "custom_tool_call", "id": "ctc", "call_id": "a", "name": "run", "input": "1"}
    metadata = {"model_provider": vendor} if vendor else {}
    calls = [call("run", "a", __arg1="1")]  # as langchain-openai lists it
    message = AIMessage([block], tool_calls=calls, response_metadata=metadata)
    assert _shown([message, ToolMessage("done", tool_call_id="a")]) == [
        "└── turn 1",
        '    └── run(__arg1="1")',
        "        └── result  done",
    ]


def test_what_only_the_content_of_a_message_says_is_shown() -> None:
    """Unlisted calls, encrypted thoughts, and OpenAI's refusals and searches."""
    use = {"type": "tool_use", "id": "a", "name": "book", "input": {}}
    encrypted = {"type": "redacted_thinking", "data": "eW91IHNob3VsZCBub3QgcmVhZCB0aGlz"}
    refusal = AIMessage("", additional_kwargs={"refusal": "I will not help with that."})
    search = {"type": "web_search_call", "id": "s", "action": {"query": "fjords"}}
    searched = AIMessage([search], response_metadata={"model_provider": "openai"})
    assert _shown([AIMessage([encrypted, use]), refusal, searched]) == [
        "├── turn 1",
        '│   ├── redacted_thinking  {"data": "eW91IHNob3VsZCBub3QgcmVhZCB0aGlz"}',
        '│   └── tool_use  {"id": "a", "name": "book", "input": {}}',
        "├── turn 2",
        "│   └── refusal  I will not help with that.",
        "└── turn 3",
        '    ├── web_search  {"query": "fjords"}',
        "    └── server result  (empty)",
    ]


def test_thoughts_code_media_and_sources_are_shown() -> None:
    tool_call = {"toolType": "GOOGLE_MAPS", "id": "x", "args": {"query": "cats"}}
    messages: list[BaseMessage] = [
        SystemMessage("Be brief. " * 20),
        HumanMessage(
            [
                {"type": "text", "text": "What is this?"},
                {"type": "image", "base64": "A" * 4000, "mime_type": "image/png"},
                {"type": "image", "url": "https://example.org/a.png?signature=secret"},
            ]
        ),
        answer(
            [
                {"type": "thinking", "thinking": "I see a picture.\n" + "Hm. " * 30},
                {"type": "executable_code", "executable_code": "a = 1\nprint(a)"},
                {"type": "code_execution_result", "code_execution_result": "1\n", "outcome": 1},
                {"type": "gemini_part", "part": {"toolCall": tool_call}},
                {"type": "gemini_part", "part": {"toolResponse": {"response": {"x": "y" * 500}}}},
                {"type": "gemini_part", "part": {"newKind": {"a": 1}, "thoughtSignature": "c2ln"}},
                {"type": "text", "text": "A cat."},
            ],
            response_metadata={
                "grounding_metadata": {"web_search_queries": ["cats"]},
                "url_context_metadata": {
                    "url_metadata": [
                        {"retrieved_url": "https://example.org", "url_retrieval_status": "OK"}
                    ]
                },
                "citation_metadata": {"citationSources": [{"uri": "https://example.org/cats"}]},
            },
            usage_metadata={
                "input_tokens": 1000,
                "output_tokens": 200,
                "total_tokens": 1200,
                "input_token_details": {"cache_read": 600},
                "output_token_details": {"reasoning": 150},
            },
        ),
    ]
    assert _shown(messages) == [
        "├── system  Be brief. Be brief. Be brief. Be brief. Be brief.… (200 characters)",
        "├── you",
        "│   ├── What is this?",
        "│   ├── image  image/png, 3.0 kB",
        "│   └── image  image at https://example.org/a.png",
        "└── turn 1  1,000 → 200 tokens (600 cached, 150 thinking) · ≥ $0.00014",
        "    ├── thinking  I see a picture. Hm. Hm. Hm. Hm. Hm. Hm. Hm. Hm. H… (137 characters)",
        "    ├── code_interpreter",
        "    │   a = 1",
        "    │   print(a)",
        "    ├── server result  1",
        '    ├── GOOGLE_MAPS  query="cats"',
        f'    ├── server result  {{"x": "{"y" * 43}… (509 characters)',
        '    ├── newKind  {"a": 1}',
        "    ├── A cat.",
        "    ├── google_search  cats",
        "    ├── url_context  https://example.org OK",
        "    └── source  https://example.org/cats",
    ]
    unfolded = str(trace(messages, unfold=True))
    assert "characters)" not in unfolded


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        ('unusable call]: now({"a": 1})', '✗ now({"a": 1})'),
        ('unusable call]: {"tool": "now"}', '✗ now({"tool": "now"})'),
        ('not executed]: {"a": 1}', '✗ now({"a": 1})'),
        ('{"a": ', '✗ now({"a": )'),
        (None, "✗ now(null)"),
    ],
)
def test_an_invalid_call_is_shown_as_the_model_wrote_it(args: str | None, shown: str) -> None:
    broken = {"name": "now", "args": args, "id": "c", "error": "It is not valid."}
    assert _shown(AIMessage("", invalid_tool_calls=[broken])) == [
        "└── turn 1",
        f"    └── {shown}",
        "        └── ✗ invalid tool call  It is not valid.",
    ]


def test_missing_and_failed_steps_are_marked() -> None:
    broken = {"name": "pay", "args": "{amount:", "id": "c", "error": "no JSON"}
    messages = [
        answer(
            tool_calls=[call("book", "a"), call("pay", "b", amount=10)],
            invalid_tool_calls=[{**broken, "type": "invalid_tool_call"}],
        ),
        ToolMessage("", tool_call_id="b"),
        ToolMessage("late", tool_call_id="z", name="old"),
        answer("Half a", response_metadata={"finish_reason": "MAX_TOKENS"}),
        answer(response_metadata={"finish_reason": "SAFETY", "block_reason": "OTHER"}),
        answer(response_metadata={"empty_response": True}),
    ]
    assert [line for line in _shown(messages) if "tokens ·" not in line] == [
        "│   ├── book()",
        "│   │   └── ! no result",
        "│   ├── pay(amount=10)",
        "│   │   └── result  (empty)",
        "│   └── ✗ pay({amount:)",
        "│       └── ✗ invalid tool call  no JSON",
        "├── result of old  late",
        "│   └── ! no tool call with this id",
        "│   ├── Half a",
        "│   └── ! finish reason  MAX_TOKENS: The response reached the token limit.",
        "│   ├── ! finish reason  SAFETY: The safety filters withheld the response.",
        "│   └── ✗ blocked  OTHER",
        "    └── ! empty response",
    ]


@pytest.mark.parametrize(
    ("metadata", "shown"),
    [
        ({"finish_reason": "STOP"}, []),
        ({"finish_reason": "FINISH_REASON_UNSPECIFIED"}, []),
        ({"finish_reason": ""}, []),
        ({"model_provider": "anthropic", "finish_reason": "", "stop_reason": "end_turn"}, []),
        ({"model_provider": "groq", "finish_reason": "a_new_word"}, ["a_new_word"]),
        (
            {"model_provider": "anthropic", "finish_reason": "", "stop_reason": "max_tokens"},
            ["max_tokens: The response reached the token limit."],
        ),
        (
            {"finish_reason": "NEW"},
            ["NEW: The finish reason 'NEW' is not known to this version."],
        ),
        ({"finish_reason": "NEW", "finish_message": "Why."}, ["NEW: Why."]),
    ],
)
def test_a_finish_reason_is_shown_unless_the_response_is_complete(
    metadata: dict[str, Any], shown: list[str]
) -> None:
    lines = _shown([answer("Yes.", response_metadata=metadata)])
    notes = [line.partition("! finish reason  ")[2] for line in lines if "finish reason  " in line]
    assert notes == shown


CREDENTIALS = {
    "OAuth secret": "GOCSPX" + "-" + "a1B2c3D4" * 3,
    "short OAuth token": "ya29" + "." + "a1B2c3D4e5F6",
    "API key": "AIza" + "Sy" + "x1-_" * 8,
    "private key": "-----BEGIN " + "RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----",
    "JWT": "eyJ"
    + "hbGciOiJIUzI1NiJ9"
    + ".eyJ"
    + "zdWIiOiIxMjM0NTY3ODkw"
    + "."
    + "c2lnbmF0dXJl" * 3,
    "another vendor's key": "sk" + "-" + "a1B2c3D4" * 5,
}
KEY = "a key/in <use> & more"
FORMS = {
    "plain": KEY,
    "percent-encoded": quote(KEY, safe=""),
    "base64": b64encode(KEY.encode()).decode(),
    "HTML": escape(KEY),
}


@pytest.mark.parametrize("secret", (CREDENTIALS | FORMS).values(), ids=(CREDENTIALS | FORMS).keys())
def test_credentials_are_redacted_wherever_they_appear(
    secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", KEY)
    error = ValueError(f"with {secret} in it")
    error.tool_loop_result = SimpleNamespace(  # type: ignore[attr-defined]
        messages=[
            HumanMessage(f"with {secret} in it"),
            answer(
                [
                    {"type": "thinking", "thinking": f"with {secret} in it"},
                    {"type": "text", "text": f"with {secret} in it"},
                ],
                tool_calls=[call("look", "1", text=f"with {secret} in it")],
            ),
            ToolMessage(f"with {secret} in it", tool_call_id="1"),
        ]
    )
    shown = trace(error, unfold=True)
    lines = secret.split("\n")
    for text in (str(shown), shown.to_html(), shown.to_mermaid()):
        assert not [line for line in lines if line in text]
    assert str(shown).count("with [redacted] in it") == 6


def test_a_result_belongs_to_the_nearest_call_with_its_id() -> None:
    messages = [
        answer(tool_calls=[call("look", "call_0", at="first")]),
        ToolMessage("one", tool_call_id="call_0"),
        answer(tool_calls=[call("look", "call_0", at="second")]),
        ToolMessage("two", tool_call_id="call_0"),
    ]
    assert [line for line in _shown(messages) if "tokens ·" not in line] == [
        '│   └── look(at="first")',
        "│       └── result  one",
        '    └── look(at="second")',
        "        └── result  two",
    ]


def test_the_raw_response_of_prompted_calls_is_folded() -> None:
    raw = 'I look.\nTOOL_CALL: look(at="it")'
    message = answer("I look.", response_metadata={"raw_text": raw})
    assert _shown(message)[-1] == '    └── raw response  I look. TOOL_CALL: look(at="it")'
    assert "raw response" not in str(trace(answer(raw, response_metadata={"raw_text": raw})))


class City(BaseModel):
    name: str
    people: int


def test_structured_output_is_shown_and_its_call_needs_no_result() -> None:
    raw = answer(tool_calls=[call("City", "a", name="Oslo", people=700_000)])
    city = City(name="Oslo", people=700_000)
    assert _shown({"raw": raw, "parsed": city, "parsing_error": None}) == [
        "├── turn 1  1,000 → 200 tokens · $0.00018",
        '│   └── City(name="Oslo", people=700000)',
        "│       └── used as structured output",
        '└── structured output  {"name": "Oslo", "people": 700000}',
    ]
    state = {"messages": [answer(tool_calls=[call("look", "b")]), raw], "structured_response": city}
    assert _shown(state)[1:3] == ["│   └── look()", "│       └── ! no result"]
    assert _shown(state)[-1] == '└── structured output  {"name": "Oslo", "people": 700000}'


def test_the_records_of_a_tool_loop_are_shown() -> None:
    messages = weather_run()

    def record(call_id: str, status: str, attempts: int, duration: float) -> SimpleNamespace:
        return SimpleNamespace(
            call={"id": call_id}, status=status, attempts=attempts, duration=duration
        )

    result = SimpleNamespace(
        messages=messages,
        stop_reason="turn_limit",
        calls=[record("a", "succeeded", 3, 1.5), record("b", "timed_out", 1, 30.0)],
    )
    shown = _shown(result)
    assert [line for line in shown if "get_weather" in line] + shown[-1:] == [
        '│   ├── get_weather(city="Oslo")  1.50 s · 3 attempts',
        '│   └── ✗ get_weather(city="Rome")  30.00 s · timed out',
        "└── ! stopped  turn limit",
    ]
    error = RuntimeError("the network is gone")
    error.tool_loop_result = result  # type: ignore[attr-defined]
    assert _shown(error)[-1] == "└── ✗ failed  RuntimeError: the network is gone"


def test_an_error_is_shown_with_its_partial_message() -> None:
    error = TruncatedStreamError("The stream ended.", partial=AIMessage("It is sunn"))
    assert _shown(error) == [
        "├── turn 1",
        "│   └── It is sunn",
        "└── ✗ failed  TruncatedStreamError: The stream ended.",
    ]


def test_long_arguments_have_one_line_each() -> None:
    args = {"name": "x", "lines": ["word " * 15], "text": "word " * 15}
    messages = [answer(tool_calls=[call("write", "a", **args)])]
    assert _shown(messages)[1:] == [
        "    └── write(…)",
        "        ├── arguments",
        '        │   name="x"',
        f'        │   lines=["{"word " * 15}"]',
        f'        │   text="{"word " * 15}"',
        "        └── ! no result",
    ]


def test_long_texts_are_cut_with_a_note() -> None:
    assert _shown(answer("a" * 10_000_000), max_chars=5) == [
        "└── turn 1  1,000 → 200 tokens · $0.00018",
        "    └── aaaaa… (9,999,995 more characters)",
    ]
    assert _shown(answer("a\nb\nc\nd"), max_lines=3)[1:] == [
        "    └── a",
        "        b",
        "        … (2 more lines)",
    ]


def test_no_terminal_escape_is_printed() -> None:
    shown = str(trace([HumanMessage(HOSTILE), answer(HOSTILE, tool_calls=[call(HOSTILE, "a")])]))
    assert "⟨U+001B⟩]0;owned⟨U+0007⟩ ⟨U+202E⟩left" in shown
    assert {char for char in shown if not char.isprintable()} == {"\n"}


def test_a_name_cannot_start_a_new_line() -> None:
    forged = "look\n└── turn 2  0 ms"
    assert _shown(answer(tool_calls=[call(forged, "a")]))[1:] == [
        "    └── look⟨U+000A⟩└── turn 2  0 ms()",
        "        └── ! no result",
    ]


def test_the_sum_is_partial_when_a_turn_is_not_counted() -> None:
    messages = [answer("One"), answer("Two", model="gemini-99"), AIMessage("Three")]
    assert str(trace(messages)).split("\n")[:2] == [
        "gemini-2.0-flash, gemini-99",
        "3 turns, 0 calls · ≥ 2,000 → 400 tokens · ≥ $0.00018",
    ]


def test_show_prints_the_tree_and_repr_the_totals() -> None:
    out = io.StringIO()
    trace(answer("Hello")).show(out)
    assert out.getvalue().split() == str(trace(answer("Hello"))).split()
    assert repr(trace(answer("Hello"))) == (
        "<Trace: 1 turn, 0 calls · 1,000 → 200 tokens · $0.00018>"
    )


def test_without_rich_show_falls_back_to_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "rich.console", None)
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    trace(answer("Hello")).show(out)
    out.seek(0)
    assert out.read() == (
        "gemini-2.0-flash  1 turn, 0 calls ? 1,000 ? 200 tokens ? $0.00018\n"
        "??? turn 1  1,000 ? 200 tokens ? $0.00018\n"
        "    ??? Hello\n"
    )


def test_notebooks_get_text_and_html_and_files_a_page(tmp_path: Path) -> None:
    shown = trace(weather_run())
    bundle = shown._repr_mimebundle_()
    assert bundle == {"text/plain": str(shown), "text/html": shown._repr_html_()}
    written = shown.to_html(tmp_path / "run.html")
    assert written.read_text(encoding="utf-8") == shown.to_html()
    assert "<title>Trace: gemini-2.0-flash</title>" in shown.to_html()


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=6,
)
_TYPES = ["text", "thinking", "image", "image_url", "media", "executable_code", "gemini_part", "x"]
_BLOCK = st.builds(
    lambda kind, fields: {"type": kind, **fields},
    st.sampled_from(_TYPES),
    st.dictionaries(
        st.sampled_from(["text", "thinking", "url", "base64", "image_url", "part", "annotations"]),
        _JSON,
        max_size=3,
    ),
)
_FIELDS = ["finish_reason", "grounding_metadata", "url_context_metadata", "citation_metadata"]
_FIELDS += ["model_name", "model_provider", "block_reason", "raw_text"]
_METADATA = st.dictionaries(
    st.sampled_from(_FIELDS),
    _JSON | st.dictionaries(st.sampled_from(["web_search_queries", "url_metadata"]), _JSON),
)


@given(st.lists(_BLOCK, max_size=3), _METADATA, st.dictionaries(st.text(max_size=5), _JSON))
def test_any_message_is_shown(
    content: list[Any], metadata: dict[str, Any], args: dict[str, Any]
) -> None:
    calls = [{"name": "look", "args": args, "id": "a"}]
    said = answer(content, response_metadata=metadata, tool_calls=calls)
    shown = trace([HumanMessage(content), said, ToolMessage(content, tool_call_id="a")])
    assert "look(" in str(shown)
    assert "look" in shown.to_html()
    assert shown.to_mermaid().startswith("flowchart TD\n")


def test_an_exception_whose_str_fails_is_shown_with_its_type() -> None:
    class Unspeakable(Exception):  # noqa: N818 - a stranger's
        def __str__(self) -> str:
            raise ValueError("no words")

    assert str(trace(Unspeakable())) == "run  0 turns, 0 calls\n└── ✗ failed  Unspeakable"
