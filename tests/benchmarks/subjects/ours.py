"""ChatGemini."""

from __future__ import annotations

from langchain_gemini_tools import ChatGemini
from tests.benchmarks.subjects.chat_models import ChatModelSubject
from tests.benchmarks.workload import API_KEY


def make(url: str) -> ChatModelSubject:
    return ChatModelSubject(
        url, lambda model: ChatGemini(model=model, api_key=API_KEY, base_url=url)
    )
