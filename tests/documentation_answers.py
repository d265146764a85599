"""What `FakeGemini` answers to the prompts of the documentation, and the files of its programs."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from langchain_gemini_tools.testing import Reply

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)

FILES: Mapping[str, bytes] = {
    "photo.png": PNG,
    "report.pdf": b"%PDF-1.4\n%%EOF\n",
    "meeting.mp3": b"ID3\x03\x00",
}
"""Files in the folder where a page's programs run."""

_OSLO = Reply(calls=[("get_weather", {"city": "Oslo"})])
_BOTH = Reply(calls=[("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Rome"})])
_SUNNY_OSLO = Reply("It is sunny in Oslo.", chunks=["It is sunny", " in Oslo."])
_SUNNY_BOTH = Reply("It is sunny in both cities, Oslo and Rome.")
_FJORDS = Reply(chunks=["Sogne", "fjord, Hard", "anger", "fjord and Geiranger", "fjord."])

_TALLEST = "The Burj Khalifa in Dubai is the tallest building, at 828 metres."
_GROUNDING = {
    "webSearchQueries": ["tallest building in the world"],
    "searchEntryPoint": {"renderedContent": '<div class="container">…</div>'},
    "groundingChunks": [{"web": {"uri": "https://example.com/tallest", "title": "example.com"}}],
    "groundingSupports": [
        {
            "segment": {"startIndex": 0, "endIndex": len(_TALLEST), "text": _TALLEST},
            "groundingChunkIndices": [0],
        }
    ],
}

ANSWERS: dict[str, dict[str, Sequence[Reply]]] = {
    "index": {
        "What is the weather in Oslo and Rome?": [_BOTH, _SUNNY_BOTH],
    },
    "how-to/agents": {
        "What is the weather in Oslo?": [_OSLO, _SUNNY_OSLO],
        "Which city did I ask about?": [Reply("You asked about Oslo.")],
        "Send a mail to ann@example.com that says hello.": [
            Reply(calls=[("send_mail", {"to": "ann@example.com", "text": "Hello!"})]),
            Reply("I have sent your mail to Ann."),
        ],
        'How many "bolts" are in stock?': [
            Reply(calls=[("stock_of", {"article": "bolts"})]),
            Reply("I cannot say: the warehouse does not answer at the moment."),
        ],
        "What is the weather in Oslo and Rome?": [_BOTH, _SUNNY_BOTH],
    },
    "how-to/streaming": {
        "Name three fjords.": [_FJORDS, _FJORDS],
        "What is the weather in Oslo?": [_OSLO, _SUNNY_OSLO] * 3,
    },
    "how-to/structured-output": {
        "What is the population of Oslo?": [
            Reply(calls=[("population_of", {"city": "Oslo"})]),
            Reply(structured={"name": "Oslo", "population": 700_000}),
        ],
    },
    "how-to/thinking": {
        "Is 221 a prime number?": [
            Reply("No: 221 = 13 * 17.", thoughts="I try the primes up to 14. 13 * 17 is 221.")
        ],
    },
    "how-to/multimodal": {
        "What do these files have in common?": [Reply("All three are about the same fjord.")],
        "Take a photo. What is on it?": [
            Reply(calls=[("take_photo", {})]),
            Reply("A single red dot."),
        ],
        "Draw a fjord at sunset.": [Reply("Here it is.", media=[("image/png", PNG)])],
    },
    "how-to/google-tools": {
        "What is the tallest building?": [
            Reply(_TALLEST, candidate={"groundingMetadata": _GROUNDING})
        ],
        "What is 6 * 7?": [Reply("6 times 7 is 42.", code=("print(6 * 7)", "42"))],
        "Search for the tallest building and save a note.": [
            Reply(
                searches=["tallest building in the world"],
                calls=[("save_note", {"text": "Burj Khalifa: 828 m"})],
            ),
            Reply("I have saved a note about the Burj Khalifa."),
        ],
    },
    "how-to/mcp": {
        "What is the current time in Europe/Oslo?": [
            Reply(calls=[("get_current_time", {"timezone": "Europe/Oslo"})]),
        ],
    },
    "how-to/logging": {
        "What is the weather in Oslo?": [_OSLO, _SUNNY_OSLO],
    },
    "how-to/scale": {
        "What is the capital of France?": [Reply("Paris")],
        "What is the capital of Japan?": [Reply("Tokyo")],
        "Hello": [Reply("Hello! How can I help you?")],
    },
}
"""By page and prompt: one reply for each request with that prompt."""
