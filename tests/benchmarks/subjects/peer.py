"""langchain-google-genai, in an environment of its own: it pins an older SDK."""

from __future__ import annotations

from langchain_google_genai import (  # type: ignore[import-not-found,unused-ignore]
    ChatGoogleGenerativeAI,
)

from tests.benchmarks.subjects.chat_models import ChatModelSubject
from tests.benchmarks.workload import API_KEY


def make(url: str) -> ChatModelSubject:
    return ChatModelSubject(
        url,
        lambda model: ChatGoogleGenerativeAI(model=model, google_api_key=API_KEY, base_url=url),
    )
