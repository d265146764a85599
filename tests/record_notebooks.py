"""Records what the notebooks replay, and saves the outputs of the replay in them.

`python -m tests.record_notebooks [NAME...]` executes each notebook twice: once against Gemini if
there is a key, else against the emulator, whose answers are scripted here; then from the
recording, as a user without a key will.
"""

from __future__ import annotations

import os
import sys
import tempfile
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from langchain_gemini_tools.testing.fake import API_KEY, Emulator
from langchain_gemini_tools.testing.fake.memory import Memory
from tests.notebooks import CASSETTES, NOTEBOOKS, execute, replay, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

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
"""What the server gives for the plan of this queue: a hash of it."""


def prompted_tools_on_gemma(emulator: Emulator) -> None:
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


SCRIPTS: dict[str, Callable[[Emulator], None]] = {
    "1_first_agent": first_agent,
    "2_tool_choice_and_structured_output": tool_choice_and_structured_output,
    "3_streaming_and_tool_loop": streaming_and_tool_loop,
    "4_mcp_tools": mcp_tools,
    "5_prompted_tools_on_gemma": prompted_tools_on_gemma,
    "6_testing_with_cassettes": testing_with_cassettes,
    "7_measuring": measuring,
}


@contextmanager
def answering(name: str) -> Iterator[Mapping[str, str]]:
    """The environment in which a notebook is answered, by Gemini or by the script."""
    if key := next(filter(None, map(os.environ.get, KEYS)), None):
        yield {KEYS[0]: key}
        return
    with Emulator() as emulator:
        emulator.memory = Memory(salt=zlib.crc32(name.encode()))
        SCRIPTS[name](emulator)
        yield {KEYS[0]: API_KEY, "GOOGLE_GEMINI_BASE_URL": emulator.url}
        if emulator.refusals or emulator.pending_replies:
            raise RuntimeError(
                f"{name} and its script differ: {emulator.pending_replies} answers are left, "
                f"refused was {emulator.refusals}."
            )


def record(name: str) -> None:
    """Record one notebook's cassette, then save the outputs of its replay."""
    cassette = CASSETTES / f"{name}.yaml"
    cassette.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        with answering(name) as environment:
            # Each `with tape:` of the notebook adds to the file.
            mode = {"GEMINI_RECORD_MODE": "new_episodes"}
            execute(NOTEBOOKS[name], Path(folder), {**environment, **mode})
        notebook = replay(NOTEBOOKS[name], Path(folder))
    write(notebook, NOTEBOOKS[name])
    with cassette.open(encoding="utf-8") as file:
        print(f"{cassette.name:45} {file.readline().strip()}")


def main() -> None:
    """Record all notebooks, or those that are named."""
    for name in sys.argv[1:] or NOTEBOOKS:
        record(name)


if __name__ == "__main__":
    main()
