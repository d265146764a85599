"""Records the cassettes of the notebooks, and saves their outputs.

`python -m tests.record_notebooks [NAME...]` executes each notebook: against Gemini if there is a
key, else against the emulator, whose answers are scripted here. Then it executes it from the
recording, as a user without a key will, and compares the outputs. The emulator takes as long for an
answer as a model might, so that the times in the saved outputs are plausible.
"""

from __future__ import annotations

import base64
import os
import sys
import tempfile
import zlib
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.testing.fake import API_KEY, Emulator, faults
from langchain_gemini_tools.testing.fake.answer import Memory
from langchain_gemini_tools.testing.fake.script import Reply
from tests.notebooks import CASSETTES, NOTEBOOKS, execute, is_runnable, replay, seen, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from langchain_gemini_tools.testing.fake.script import Fault, LongAnswer

KEYS = ("GOOGLE_API_KEY", "GEMINI_API_KEY")


def first_agent(emulator: Emulator) -> None:
    emulator.reply(calls=[("get_weather", {"city": "Lisbon"}), ("get_weather", {"city": "Rome"})])
    emulator.reply(calls=[("find_flight", {"origin": "Oslo", "destination": "Rome"})])
    emulator.reply(
        "Rome is warmer: 19 °C and sun, against 16 °C and rain in Lisbon. The cheapest flight from "
        "Oslo costs 89 € and leaves at 07:40."
    )
    emulator.reply("Light clothes and sunglasses for Rome, and a jacket for the morning in Oslo.")


def tool_choice_and_structured_output(emulator: Emulator) -> None:
    weather, time = (("get_weather", {"city": "Oslo"}), ("get_time", {"city": "Oslo"}))
    for call in (weather, weather, time, weather):
        emulator.reply(calls=[call])
    emulator.reply("I cannot look that up right now.")
    ticket = {"subject": "Missing parcels", "urgency": 4, "order_numbers": ["A-17", "B-4"]}
    emulator.reply(calls=[("Ticket", ticket)])
    emulator.reply('{"subject": "Missing parcels", "urgency": 4, "order_numbers": ["A-17", "B-4"]}')


def streaming_and_tool_loop(emulator: Emulator) -> None:
    rome, lisbon = ({"destination": city} for city in ("Rome", "Lisbon"))
    emulator.reply(calls=[("find_flight", rome)])
    emulator.reply("A flight from Oslo to Rome costs 89 €.")

    emulator.reply(calls=[("find_flight", {"destination": "Bergen"})])
    emulator.reply(calls=[("find_flight", lisbon)])
    emulator.reply("I found no flight to Bergen. The one to Lisbon costs 120 €.")

    emulator.reply(calls=[("find_flight", rome)])
    emulator.reply(calls=[("find_flight", lisbon)])
    emulator.reply("Rome costs 89 € and Lisbon 120 €, so Rome is 31 € cheaper.")

    emulator.reply(calls=[("book_flight", lisbon | {"price": 120})])
    emulator.reply(calls=[("book_flight", rome | {"price": 89})])
    emulator.reply("Lisbon was over the budget, so I booked the flight to Rome for 89 €.")

    emulator.reply(calls=[("book_flight", rome | {"price": 89})])
    emulator.reply("Your flight to Rome is booked for 89 €.")


def langgraph_with_a_person(emulator: Emulator) -> None:
    friday, saturday = ({"destination": "Rome", "day": day} for day in ("Friday", "Saturday"))
    emulator.reply(calls=[("find_flight", friday)])
    emulator.reply("A flight from Oslo to Rome on Friday costs 89 €.")
    emulator.reply(calls=[("book_flight", friday | {"price": 89})])
    emulator.reply(calls=[("find_flight", saturday)])
    emulator.reply(calls=[("book_flight", saturday | {"price": 64})])
    emulator.reply("Done: you fly to Rome on Saturday, for 64 €.")


def images_documents_and_speech(emulator: Emulator) -> None:
    emulator.reply(
        "The chart shows three bars, each higher than the one before. The page is an invoice, "
        "number 17, over 74 euros for three parcels. The sound is a steady, low tone."
    )
    emulator.reply(calls=[("find_chart", {"year": 2026})])
    emulator.reply("The third quarter: its bar is the highest of the three so far.")
    emulator.reply(media=[("image/png", CHART)])
    emulator.reply(media=[("audio/L16;codec=pcm;rate=24000", _chime())])


CHART = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAKAAAABkBAMAAADzmCa8AAAAD1BMVEX///9aWlovX9CKP7MfekWeXN1SAAAAS0lEQVR42u3Z"
    "MQ0AIBDAQCSABSxgAf+amD+sEMjnKuAMtBTpnyoQuDdDQCAQCAQmAUcICAQCgcAkYA8BgUAgEAgEAi+B7US2lPSsBT+Y5aXy"
    "fqOkAAAAAElFTkSuQmCC"
)


def _chime() -> bytes:
    """Return two short tones as samples of 16 bits."""
    halves = [half for half in (27, 18) for _ in range(1500 // half)]
    return b"".join(
        level.to_bytes(2, "little", signed=True) * half
        for half in halves
        for level in (2000, -2000)
    )


def google_search_with_citations(emulator: Emulator) -> None:
    queries = ["height of Galdhøpiggen", "height of Glittertind"]
    search = {"toolType": "GOOGLE_SEARCH_WEB"}
    call = {"name": "metres_to_feet", "args": {"metres": 2469}}
    emulator.reply(
        parts=[
            {"toolCall": search | {"args": {"queries": queries}}},
            {"toolResponse": search | {"response": {"search_suggestions": "<div></div>"}}},
            {"functionCall": call},
        ]
    )
    said = ("Galdhøpiggen is 2,469 metres high", "Glittertind 2,452 metres, without its ice")
    answer = f"{said[0]} (8,100 feet). {said[1]}."
    segments = [(said[0], [0, 1]), (said[1], [2])]
    supports = [
        {"segment": _segment(answer, text), "groundingChunkIndices": chunks}
        for text, chunks in segments
    ]
    pages = ("norway-in-numbers.example", "peaks.example", "glaciers.example")
    chunks = [{"web": {"uri": f"https://{page}/jotunheimen", "title": page}} for page in pages]
    grounding = {
        "webSearchQueries": queries,
        "groundingChunks": chunks,
        "groundingSupports": supports,
    }
    emulator.reply(answer, candidate={"groundingMetadata": grounding})


def _segment(text: str, part: str) -> dict[str, Any]:
    """Return the position of a part in a text, in bytes."""
    start = len(text[: text.index(part)].encode())
    return {"startIndex": start, "endIndex": start + len(part.encode()), "text": part}


def thinking_and_signatures(emulator: Emulator) -> None:
    emulator.reply(
        "The ball costs 0.05 €, and the bat 1.05 €.",
        thoughts="**Setting up the equation**\n\nIf the ball costs x, the bat costs x + 1. "
        "Together 2x + 1 = 1.10, so x = 0.05. The tempting 0.10 would make 1.20 together.",
    )
    emulator.reply(calls=[("get_price", {"item": "bat"}), ("get_price", {"item": "ball"})])
    emulator.reply("The bat costs 1.05 € and the ball 0.05 €: the shop and the puzzle agree.")


def mcp_tools(emulator: Emulator) -> None:
    emulator.reply(calls=[("list_resources", {})])
    queue = {"name": "mails", "kind": "queue", "region": "europe-north1"}
    emulator.reply(calls=[("plan_resource", queue)])
    emulator.reply(calls=[("create_resource", {"confirmation_token": QUEUE_TOKEN})])
    emulator.reply(
        "A database called 'orders' was running already. I have created the queue 'mails' in the "
        "same region, europe-north1; it costs 1.0 a month."
    )


QUEUE_TOKEN = "abc313a0"
"""What the server returns for the plan of this queue: a hash of it."""


def models_without_function_calling(emulator: Emulator) -> None:
    emulator.reply(
        "I will look up both cities.\n"
        'TOOL_CALL: get_weather({"city": "Oslo"})\n'
        'TOOL_CALL: get_weather({"city": "Rome"})'
    )
    emulator.reply("It is warmer in Rome: 17 °C and sun, against -3 °C and snow in Oslo.")
    emulator.reply("A warm coat, a hat and boots: it is -3 °C and snowing.")
    emulator.reply("A light jacket is enough there, at 17 °C and sun.")


def testing_with_cassettes(emulator: Emulator) -> None:
    for _ in range(2):  # the notebook asks once for itself, and once to record
        emulator.reply(calls=[("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Rome"})])
        emulator.reply("It is warmer in Rome: 17 °C and sun, against -3 °C and snow in Oslo.")


def measuring(emulator: Emulator) -> None:
    emulator.reply(
        calls=[
            ("get_weather", {"city": "Oslo"}),
            ("get_weather", {"city": "Rome"}),
            ("count_days", {"start": "2027-01-30", "end": "2027-02-03"}),
        ]
    )
    emulator.reply("Four days: in Oslo it will be -3 °C with snow, in Rome 17 °C with sun.")
    for capital in ("Oslo", "Rome", "Lisbon"):
        emulator.reply(capital)


def interactions_api(emulator: Emulator) -> None:
    for _ in range(2):  # without state, and with it
        emulator.reply(calls=[("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Rome"})])
        emulator.reply("It is warmer in Rome: 17 °C and sun, against -3 °C and snow in Oslo.")
    emulator.reply("A warm coat, a hat and boots.")
    emulator.reply("Oslo has snow for months; in Rome it rains, and rarely freezes.")
    emulator.reply("Oslo is mild and light until late; Rome is hot and dry.", chunks=4)


SCRIPTS: dict[str, Callable[[Emulator], None]] = {
    "01_first_agent": first_agent,
    "02_tool_choice_and_structured_output": tool_choice_and_structured_output,
    "03_streaming_and_tool_loop": streaming_and_tool_loop,
    "04_langgraph_with_a_person": langgraph_with_a_person,
    "05_images_documents_and_speech": images_documents_and_speech,
    "06_google_search_with_citations": google_search_with_citations,
    "07_thinking_and_signatures": thinking_and_signatures,
    "08_mcp_tools": mcp_tools,
    "09_models_without_function_calling": models_without_function_calling,
    "11_testing_with_cassettes": testing_with_cassettes,
    "12_measuring": measuring,
    "13_interactions_api": interactions_api,
}


SHOWS_A_REPLAY = {"11_testing_with_cassettes"}
"""Says itself whether it records or replays."""


class SlowEmulator(Emulator):
    """An emulator that waits before each answer, and before each piece of a stream."""

    def script(self, *replies: Reply | LongAnswer) -> None:
        for each in replies:
            super().script(replace(each, fault=self._wait()) if isinstance(each, Reply) else each)

    def _wait(self) -> Fault:
        seconds = 0.45 + 0.17 * (self.pending_replies * 3 % 5)
        return faults.both(faults.slow_first_byte(seconds), faults.slow_events(0.06))


@contextmanager
def scripted(name: str, kind: type[Emulator]) -> Iterator[Mapping[str, str]]:
    """Yield the environment in which the script answers a notebook."""
    with kind() as emulator:
        emulator.memory = Memory(salt=zlib.crc32(name.encode()))
        SCRIPTS[name](emulator)
        yield {KEYS[0]: API_KEY, "GOOGLE_GEMINI_BASE_URL": emulator.url}
        if emulator.refusals or emulator.pending_replies:
            raise RuntimeError(
                f"{name} and its script differ: {emulator.pending_replies} answers are left, "
                f"refused was {emulator.refusals}."
            )


def record(name: str, folder: Path) -> Any:
    """Record the cassette of a notebook, and return the notebook with its outputs."""
    path = NOTEBOOKS[name]
    CASSETTES[name].unlink(missing_ok=True)
    mode = {"GEMINI_RECORD_MODE": "new_episodes"}
    if key := next(filter(None, map(os.environ.get, KEYS)), None):
        return execute(path, folder, {KEYS[0]: key, **mode})
    with scripted(name, Emulator) as environment:
        execute(path, folder, {**environment, **mode})
    # Without a cassette, which would let no piece of a stream pass before its end.
    with scripted(name, SlowEmulator) as environment:
        return execute(path, folder, environment)


def save(name: str) -> None:
    """Record one notebook, and save its outputs if a replay gives the same."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        live = record(name, folder) if name in CASSETTES else None
        again = replay(NOTEBOOKS[name], folder)
    notebook = again if live is None or name in SHOWS_A_REPLAY else live
    for new, cell in zip(seen(again), seen(notebook), strict=True):
        if new != cell:
            raise RuntimeError(f"{name}: a replay gives\n{new}\ninstead of\n{cell}")
    write(notebook, NOTEBOOKS[name])
    source = (
        CASSETTES[name].read_text(encoding="utf-8").split("\n", 1)[0] if live else "no cassette"
    )
    print(f"{name:45} {source}")


def main() -> None:
    """Record the notebooks that are named, or all for which the packages are installed."""
    for name in sys.argv[1:] or filter(is_runnable, NOTEBOOKS):
        save(name)


if __name__ == "__main__":
    main()
