"""A strict local Gemini over real HTTP, for tests of everything above the wire.

    with Emulator() as emulator:                      # or the fixture `emulator`
        model = ChatGemini(..., api_key=API_KEY, base_url=emulator.url)
        emulator.reply("Let me see.", calls=[("get_weather", {"city": "Oslo"})])
        emulator.reply("It is sunny in", fault=faults.cut_connection())
        ...
        assert emulator.last.body == {...}            # what was sent
        assert emulator.refusals == []                # and nothing that Gemini would refuse

- `server`: the emulator. Start reading here
- `request`: what came in, where it goes, and views for assertions; `ask`: what it asks for, and of
  which model
- `rules`: what the real API rejects, rejected with its messages
- `script`: scripted replies; `planned_faults`: faults of the next requests; `faults`: what can go
  wrong
- `brain`: the rule-based model that answers when nothing is scripted; `prompted`: how it reads
  tools that a prompt declares
- `answer`: an answer as one body or as a stream, and what is remembered of it
- `responses`: HTTP responses, errors, and their server
- `caches`, `batches`, `vertex_batches`, `interactions`: the other services
"""

from langchain_gemini_tools.testing.fake.request import Request
from langchain_gemini_tools.testing.fake.server import ACCESS_TOKEN, API_KEY, Emulator

__all__ = ["ACCESS_TOKEN", "API_KEY", "Emulator", "Request"]
