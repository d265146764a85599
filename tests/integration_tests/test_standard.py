"""LangChain's standard integration suite against the emulator: every item, nothing skipped.

The suite runs for both ways of structured output and for both generations of models; 2.5 can do
every item as well. A model without function calling runs what it can read at all. What the suite
does not notice is in `test_what_is_sent.py` and `test_ways_agree.py`. `test_stream_time` streams,
but measures nothing: it does so only when it replays a cassette.
"""

from __future__ import annotations

import io
import struct
import wave
import zlib
from typing import TYPE_CHECKING, Any, Literal

import httpx
import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_tests.integration_tests import ChatModelIntegrationTests

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.testing import FakeGemini
from langchain_gemini_tools.testing.fake import API_KEY, Emulator

if TYPE_CHECKING:
    from collections.abc import Iterator

UsageDetail = Literal[
    "audio_input", "audio_output", "reasoning_output", "cache_read_input", "cache_creation_input"
]


@pytest.fixture(scope="module")
def vcr_config() -> dict[str, Any]:
    """`test_stream_time` asks for VCR; the emulator is local, so its requests are let through."""
    return {"ignore_localhost": True}


@pytest.fixture(autouse=True)
def local_assets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The suite downloads a picture, a PDF and a sound; here they are made on the spot."""

    def download(url: str, **_: Any) -> httpx.Response:
        kind = httpx.URL(url).path.rpartition(".")[2].lower()
        return httpx.Response(200, content=_ASSETS[kind]())

    monkeypatch.setenv("LANGCHAIN_TESTS_USER_AGENT", "langchain-gemini-tools")
    monkeypatch.setattr(httpx, "get", download)


class _Suite(ChatModelIntegrationTests):
    model_name = "gemini-3.8-flash"
    other_model_name = "gemini-3-pro-preview"

    @pytest.fixture(autouse=True)
    def _local_gemini(self, emulator: Emulator) -> Iterator[None]:
        self.emulator = emulator
        yield
        assert emulator.refusals == []

    @property
    def chat_model_class(self) -> type[ChatGemini]:
        return ChatGemini

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {
            "model": self.model_name,
            "api_key": API_KEY,
            "base_url": self.emulator.url,
            "max_retries": 0,
        }

    @property
    def model_override_value(self) -> str:
        return self.other_model_name

    @property
    def supports_json_mode(self) -> bool:
        return True

    @property
    def supports_image_inputs(self) -> bool:
        return True

    @property
    def supports_image_urls(self) -> bool:
        return True

    @property
    def supports_pdf_inputs(self) -> bool:
        return True

    @property
    def supports_audio_inputs(self) -> bool:
        return True

    @property
    def supports_video_inputs(self) -> bool:
        return True

    @property
    def supports_anthropic_inputs(self) -> bool:
        return True

    @property
    def supports_image_tool_message(self) -> bool:
        return True

    @property
    def supports_pdf_tool_message(self) -> bool:
        return True

    @property
    def enable_vcr_tests(self) -> bool:
        return True

    @property
    def supported_usage_metadata_details(
        self,
    ) -> dict[Literal["invoke", "stream"], list[UsageDetail]]:
        """All but `cache_creation_input`: Gemini does not count what it puts into its cache."""
        details: list[UsageDetail] = [
            "audio_input",
            "audio_output",
            "reasoning_output",
            "cache_read_input",
        ]
        return {"invoke": details, "stream": details}

    def invoke_with_audio_input(self, *, stream: bool = False) -> AIMessage:
        details = [
            {"modality": "TEXT", "tokenCount": 4},
            {"modality": "AUDIO", "tokenCount": 32},
        ]
        usage = {"promptTokenCount": 36, "totalTokenCount": 40, "promptTokensDetails": details}
        self.emulator.reply("I hear birds.", usage=usage)
        message = self._ask("What do you hear?", stream=stream)
        assert message.usage_metadata
        assert message.usage_metadata["input_token_details"]["audio"] == 32
        return message

    def invoke_with_audio_output(self, *, stream: bool = False) -> AIMessage:
        details = [{"modality": "AUDIO", "tokenCount": 25}]
        usage = {"candidatesTokenCount": 25, "candidatesTokensDetails": details}
        self.emulator.reply("(a song)", usage=usage)
        message = self._ask("Sing.", stream=stream)
        assert message.usage_metadata
        assert message.usage_metadata["output_token_details"]["audio"] == 25
        return message

    def invoke_with_reasoning_output(self, *, stream: bool = False) -> AIMessage:
        message = self._ask("Why is the sky blue?", stream=stream)
        assert message.usage_metadata
        assert message.usage_metadata["output_token_details"]["reasoning"] > 0
        return message

    def invoke_with_cache_read_input(self, *, stream: bool = False) -> AIMessage:
        question = "Long ago, there was a question. " * 200
        self._ask(question, stream=stream)
        message = self._ask(question, stream=stream)
        assert message.usage_metadata
        assert message.usage_metadata["input_token_details"]["cache_read"] > 1024
        return message

    def _ask(self, question: str, *, stream: bool) -> AIMessage:
        model = self.chat_model_class(**self.chat_model_params)
        if not stream:
            return model.invoke([HumanMessage(question)])
        whole: AIMessageChunk | None = None
        for chunk in model.stream([HumanMessage(question)]):
            whole = chunk if whole is None else whole + chunk
        assert whole is not None
        return whole


class TestFunctionCalling(_Suite):
    """The default: structured output by a forced call."""


class TestJsonSchema(_Suite):
    @property
    def structured_output_kwargs(self) -> dict[str, Any]:
        return {"method": "json_schema"}


class TestFunctionCallingOn25(_Suite):
    model_name = "gemini-2.5-flash"
    other_model_name = "gemini-2.5-pro"


class TestFoundByItself(_Suite):
    """`FakeGemini` as users have it: the model gets neither an address nor a key."""

    @pytest.fixture(autouse=True)
    def _local_gemini(self) -> Iterator[None]:
        with FakeGemini(lambda _: None) as gemini:  # beside scripted replies, the simple rules
            self.emulator = gemini
            yield
            assert gemini.refusals == []

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"model": self.model_name}


class TestJsonSchemaOn25(_Suite):
    model_name = "gemini-2.5-flash"
    other_model_name = "gemini-2.5-pro"

    @property
    def structured_output_kwargs(self) -> dict[str, Any]:
        return {"method": "json_schema"}


class TestInteractions(_Suite):
    """The Interactions API."""

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return super().chat_model_params | {"api": "interactions"}

    @property
    def supported_usage_metadata_details(
        self,
    ) -> dict[Literal["invoke", "stream"], list[UsageDetail]]:
        """Without the cache, whose counts on this API are not recorded."""
        details: list[UsageDetail] = ["audio_input", "audio_output", "reasoning_output"]
        return {"invoke": details, "stream": details}


class TestInteractionsStreamed(TestInteractions):
    """With JSON output, stored interactions and streams behind `invoke`."""

    @property
    def chat_model_params(self) -> dict[str, Any]:
        more = {"streaming": True, "use_previous_interaction": True}
        return super().chat_model_params | more

    @property
    def structured_output_kwargs(self) -> dict[str, Any]:
        return {"method": "json_schema"}


class TestByPrompt(_Suite):
    """Gemma 3 has prompted tools: every item about tools, structured output and streams.

    Off is what the model itself cannot do: it reads text and pictures only, and does not think.
    """

    model_name = "gemma-3-27b-it"
    other_model_name = "gemma-3-12b-it"

    @property
    def supports_image_urls(self) -> bool:
        return False

    @property
    def supports_pdf_inputs(self) -> bool:
        return False

    @property
    def supports_audio_inputs(self) -> bool:
        return False

    @property
    def supports_video_inputs(self) -> bool:
        return False

    @property
    def supports_pdf_tool_message(self) -> bool:
        return False

    @property
    def supported_usage_metadata_details(
        self,
    ) -> dict[Literal["invoke", "stream"], list[UsageDetail]]:
        return {"invoke": ["cache_read_input"], "stream": ["cache_read_input"]}


class TestJsonSchemaByPrompt(TestByPrompt):
    @property
    def structured_output_kwargs(self) -> dict[str, Any]:
        return {"method": "json_schema"}


class TestByPromptOnGemini(_Suite):
    """With `tool_calling="prompted"`, no tool is declared to Gemini 3 either."""

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return super().chat_model_params | {"tool_calling": "prompted"}


def _png() -> bytes:
    """One red pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\x00\xff\x00\x00")
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    )


def _pdf() -> bytes:
    """One empty page."""
    return (
        b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
        b"2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
        b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>endobj\n"
        b"trailer<</Root 1 0 R>>\n%%EOF\n"
    )


def _wav() -> bytes:
    """A tenth of a second of silence."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(b"\x00\x00" * 800)
    return buffer.getvalue()


_ASSETS = {"png": _png, "pdf": _pdf, "wav": _wav}
