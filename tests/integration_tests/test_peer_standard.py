"""LangChain's standard suite for langchain-google-genai's own class, against `FakeGemini`.

It runs in `make test-clients`. What is left out or fails is the class's doing, not the server's:
it takes no model per call, and it puts the media of a tool message before the function response,
which Gemini refuses with these words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain_tests.integration_tests import ChatModelIntegrationTests

from langchain_gemini_tools.testing import FakeGemini
from tests.integration_tests.test_standard import local_assets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_core.language_models import BaseChatModel

peer = pytest.importorskip(
    "langchain_google_genai", reason="not installed; `make test-clients` installs it"
)


__all__ = ["local_assets"]  # a fixture for every test


MEDIA_FIRST = "function response turn comes immediately after a function call turn"


class TestPeer(ChatModelIntegrationTests):
    @pytest.fixture(autouse=True)
    def _fake_gemini(self) -> Iterator[None]:
        with FakeGemini():
            yield

    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        model: type[BaseChatModel] = peer.ChatGoogleGenerativeAI
        return model

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"model": "gemini-3.8-flash"}

    @property
    def supports_json_mode(self) -> bool:
        return True

    @property
    def supports_image_inputs(self) -> bool:
        return True

    @property
    def supports_pdf_inputs(self) -> bool:
        return True

    @property
    def supports_audio_inputs(self) -> bool:
        return True

    @property
    def supports_image_tool_message(self) -> bool:
        return True

    @property
    def supports_pdf_tool_message(self) -> bool:
        return True

    @pytest.mark.xfail(reason=MEDIA_FIRST, strict=True)
    def test_image_tool_message(self, model: BaseChatModel) -> None:
        super().test_image_tool_message(model)

    @pytest.mark.xfail(reason=MEDIA_FIRST, strict=True)
    def test_pdf_tool_message(self, model: BaseChatModel) -> None:
        super().test_pdf_tool_message(model)
