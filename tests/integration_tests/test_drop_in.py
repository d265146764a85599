"""What code that was written for langchain-google-genai reads from a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import BaseCallbackHandler

from tests.integration_tests.invoking import ask
from tests.rotation import STREAMS, WAYS, rotated

if TYPE_CHECKING:
    from langchain_core.outputs import LLMResult

    from tests.conftest import MakeModel
    from tests.emulator import Emulator

Json = dict[str, Any]

RATINGS = [{"category": "HARM_CATEGORY_HARASSMENT", "probabilityScore": 0.1}]
GROUNDING: Json = {
    "groundingChunks": [{"web": {"uri": "https://a.example", "title": "A"}}],
    "groundingSupports": [
        {
            "segment": {"startIndex": 7, "endIndex": 12, "text": "sunny"},
            "groundingChunkIndices": [0],
        }
    ],
    "webSearchQueries": ["weather oslo"],
}


class Results(BaseCallbackHandler):
    """Keeps what tracers and other callbacks receive."""

    def __init__(self) -> None:
        self.generations: list[Any] = []

    def on_llm_end(self, response: LLMResult, **_: Any) -> None:
        self.generations += response.generations[0]


# Results


@rotated(way=WAYS)
async def test_callbacks_receive_how_a_response_ended(
    way: str, emulator: Emulator, make_model: MakeModel
) -> None:
    grounded = {"groundingMetadata": GROUNDING, "safetyRatings": RATINGS}
    emulator.reply("It is sunny.", candidate=grounded)
    results = Results()
    message = await ask(make_model(callbacks=[results]), way)
    [generation] = results.generations
    assert generation.generation_info == {
        "finish_reason": "STOP",
        "model_name": "gemini-3-flash-preview",
        "safety_ratings": [{"category": "HARM_CATEGORY_HARASSMENT", "probability_score": 0.1}],
        "grounding_metadata": message.response_metadata["grounding_metadata"],
    }


@rotated(way=WAYS)
async def test_a_response_without_safety_ratings_has_an_empty_list_of_them(
    way: str, emulator: Emulator, make_model: MakeModel
) -> None:
    emulator.reply("Hello.")
    message = await ask(make_model(), way)
    assert message.response_metadata["safety_ratings"] == []


@rotated(way=WAYS)
async def test_prompted_tools_have_the_same_generation_info(
    way: str, emulator: Emulator, make_model: MakeModel
) -> None:
    emulator.reply("Hello.")
    results = Results()
    tools = [{"name": "search", "description": "Search.", "parameters": {"type": "object"}}]
    chat = make_model(callbacks=[results], tool_calling="prompted").bind_tools(tools)
    await ask(chat, way)
    [generation] = results.generations
    assert generation.generation_info["finish_reason"] == "STOP"


# Citations


@rotated(way=STREAMS, pieces=[["It is ", "sunny."], ["It is sunny."]])
async def test_citations_survive_in_streams_of_content_blocks(
    way: str, pieces: list[str], emulator: Emulator, make_model: MakeModel
) -> None:
    events = [{"candidates": [{"content": {"parts": [{"text": piece}]}}]} for piece in pieces]
    end = {"content": {"parts": []}, "finishReason": "STOP", "groundingMetadata": GROUNDING}
    streamed = [*events, {"candidates": [end]}]
    emulator.reply(events=streamed)
    emulator.reply(events=streamed)
    chat = make_model(output_version="v1")
    merged = await ask(chat, way)
    whole = await ask(chat, "invoke")
    [block] = merged.content
    assert block["text"] == "It is sunny."
    assert [each["url"] for each in block["annotations"]] == ["https://a.example"]
    without_ids = [
        [{key: each[key] for key in each if key != "id"} for each in message["annotations"]]
        for message in (block, whole.content[0])
    ]
    assert without_ids[0] == without_ids[1]


@rotated(way=STREAMS)
async def test_citations_are_on_the_first_text_block_after_thoughts(
    way: str, emulator: Emulator, make_model: MakeModel
) -> None:
    thought = {"text": "Hm.", "thought": True}
    emulator.reply(
        parts=[thought, {"text": "It is sunny."}],
        candidate={"groundingMetadata": GROUNDING},
        signed=False,
    )
    message = await ask(make_model(output_version="v1"), way)
    assert [block["type"] for block in message.content] == ["reasoning", "text"]
    assert message.content[1]["annotations"][0]["url"] == "https://a.example"


@rotated(way=STREAMS)
async def test_without_content_blocks_cited_text_stays_a_string(
    way: str, emulator: Emulator, make_model: MakeModel
) -> None:
    emulator.reply("It is sunny.", candidate={"groundingMetadata": GROUNDING})
    message = await ask(make_model(), way)
    assert message.content == "It is sunny."
    assert message.content_blocks[0]["annotations"][0]["url"] == "https://a.example"
