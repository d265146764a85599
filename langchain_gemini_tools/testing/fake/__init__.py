"""A strict local Gemini over real HTTP, for tests of everything above the wire.

    with Emulator() as emulator:                      # or the fixture `emulator`
        model = ChatGemini(..., api_key=API_KEY, base_url=emulator.url)
        emulator.reply("Let me see.", calls=[("get_weather", {"city": "Oslo"})])
        emulator.reply("It is sunny in", fault=faults.cut_connection())
        ...
        assert emulator.last.body == {...}            # what was sent
        assert emulator.refusals == []                # and nothing that Gemini would refuse

One question, one file:

- `server`: the emulator itself; `sockets`, `routes`: its HTTP
- `rules`: what the real API rejects, rejected in its words
- `brain`, `arguments`: the rule-based model that answers when nothing is scripted
- `script`: scripted replies; `faults`: what goes wrong on their way, `planned`: and when;
  `outgoing`: the way
- `request`: what came in, with views for assertions
- `answer`: an answer as one body or as a stream; `memory`: what was signed and called
"""

from langchain_gemini_tools.testing.fake.request import Request
from langchain_gemini_tools.testing.fake.server import ACCESS_TOKEN, API_KEY, Emulator

__all__ = ["ACCESS_TOKEN", "API_KEY", "Emulator", "Request"]
