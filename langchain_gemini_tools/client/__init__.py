"""The seam to google-genai: a finished body goes in, the server's JSON comes out uninterpreted.

client.py      GeminiClient: send, stream and their async counterparts. Start reading here
sdk.py         the settings, and the SDK's client, built from them at the first request; one for all
               equal settings of a process
transport.py   the HTTP clients that the SDK sends through, which replace its bodies by ours
pool.py        the HTTP clients that do the sending: one for all threads, one per event loop
network.py     the sockets under them: time limits, and no reuse after unread bytes
responses.py   HTTP responses and server-sent events -> JSON objects, within limits of time and size
failures.py    failed connections and error responses -> our errors, without secrets
"""

from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.client.client import GeminiClient
from langchain_gemini_tools.client.sdk import ClientSettings, SdkAsyncClient, SdkClient

if TYPE_CHECKING:
    from google.genai.types import (
        ComputerUse,
        Environment,
        HarmBlockThreshold,
        HarmCategory,
        MediaResolution,
        Modality,
    )

__all__ = [
    "ClientSettings",
    "ComputerUse",
    "Environment",
    "GeminiClient",
    "HarmBlockThreshold",
    "HarmCategory",
    "MediaResolution",
    "Modality",
    "SdkAsyncClient",
    "SdkClient",
]

SDK_TYPES = (
    "ComputerUse",
    "Environment",
    "HarmBlockThreshold",
    "HarmCategory",
    "MediaResolution",
    "Modality",
)
"""Types of `google.genai.types` that langchain-google-genai exports. Their first use loads it."""


def __getattr__(name: str) -> Any:
    if name not in SDK_TYPES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from google.genai import types

    return getattr(types, name)
