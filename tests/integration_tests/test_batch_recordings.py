"""Recorded traffic of batch jobs, replayed through the reader.

No recording has tools in a batch, a failed item, an expired or cancelled job, or Vertex AI.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from langchain_gemini_tools import ChatGemini
from tests.rotation import LIBRARIES

FOLDER = Path(os.environ.get("GEMINI_RECORDINGS_MORE", "no recordings")) / "batch"
pytestmark = [
    pytest.mark.usefixtures("without_delays"),
    pytest.mark.skipif(
        not FOLDER.is_dir(), reason="GEMINI_RECORDINGS_MORE names no folder of recordings"
    ),
]


class Replayed:
    """A transport that answers with the responses of a recording, in their order."""

    def __init__(self, library: str, name: str) -> None:
        (path,) = FOLDER.glob(f"{name}*.json")
        self._library: Any = __import__(library)
        self.exchanges: list[Any] = json.loads(path.read_bytes())["exchanges"]
        self.asked: list[tuple[str, str]] = []

    def model(self, **settings: Any) -> ChatGemini:
        transport = self._library.MockTransport(self._answer)
        named: dict[str, Any] = {"model": "gemini-3.5-flash", "api_key": "not used"}
        named |= {"max_retries": 0, "client_args": {"transport": transport}}
        return ChatGemini(**named | settings)

    def _answer(self, request: Any) -> Any:
        self.asked.append((request.method, request.url.path))
        exchange = self.exchanges.pop(0)
        assert exchange["http_method"] == request.method
        text = exchange.get("response_text") or json.dumps(exchange["response_json"])
        return self._library.Response(exchange["status"], text=text, request=request)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_recorded_life_of_a_job_is_read(library: str, tmp_path: Path) -> None:
    """Created inline, polled until it is done, and read; the recorded client polled once more."""
    replayed = Replayed(library, "ruby_llm--batch")
    inputs = [
        "What is 2 + 2? Just the number.",
        "Name the largest planet in our solar system. One word.",
    ]
    created = replayed.exchanges[0]["request_json"]["batch"]["inputConfig"]["requests"]["requests"]
    recorded = [each["request"]["contents"] for each in created]
    # The recorded client calls its key `custom_id`.
    for exchange in replayed.exchanges:
        text = json.dumps(exchange["response_json"])
        exchange["response_json"] = json.loads(text.replace('"custom_id"', '"key"'))
    reports: list[str] = []
    job = replayed.model(model="gemini-2.5-flash").batch_job(inputs, path=tmp_path)
    found = list(job.results(on_poll=lambda status: reports.append(str(status))))
    assert [line["request"]["contents"] for line in job.preview()] == recorded
    assert [result.text for _, result in found if isinstance(result, AIMessage)] == ["4", "Jupiter"]
    assert all(result.usage_metadata for _, result in found if isinstance(result, AIMessage))
    assert set(reports[:-1]) == {"0/2 · RUNNING"}
    assert (reports[-1], len(reports), len(replayed.exchanges)) == ("2/2 · done", 26, 1)


def test_a_recorded_job_with_a_file_is_read_by_its_name() -> None:
    replayed = Replayed(LIBRARIES[0], "ellmer--tests")
    name = replayed.exchanges[0]["response_json"]["name"]
    job = replayed.model().batch_job(name=name)
    found = [result for _, result in job.results()]
    assert [type(each) for each in found] == [AIMessage] * 4
    assert "Des Moines" in [each.text for each in found if isinstance(each, AIMessage)]
    assert str(job.status) == "4/4 · done"


def test_a_recorded_creation_without_a_name_is_read(tmp_path: Path) -> None:
    replayed = Replayed(LIBRARIES[0], "chatlas--test-batch")
    inputs = ["What's the capital of France?", "What's the capital of Germany?"]
    job = replayed.model().batch_job(inputs, path=tmp_path)
    assert (str(job.status), len(job.names)) == ("0/2 · PENDING", 1)
