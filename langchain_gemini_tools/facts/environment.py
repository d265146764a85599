"""The environment variables that are read, and what they say: keys, backend, gateway, delays."""

from __future__ import annotations

import os

KEY_VARIABLES = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
"""The environment variables that hold the API key; the first one that is set is used."""

VERTEX_VARIABLES = ("GOOGLE_GENAI_USE_ENTERPRISE", "GOOGLE_GENAI_USE_VERTEXAI")
"""The environment variables that choose Vertex AI; the first one that is set is used."""

BASE_URL_VARIABLES = ("GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL")
"""The environment variables with the address of the Developer API and of Vertex AI."""

PROJECT_VARIABLES = ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION")
"""The environment variables with the project of Vertex AI and its location."""

ACCOUNT_VARIABLE = "GOOGLE_APPLICATION_CREDENTIALS"
"""The environment variable with the file of a service account."""

GATEWAY_VARIABLE = "LANGSMITH_GATEWAY"
"""The environment variable that routes LangChain's models through the LangSmith gateway: "true", or
the address of another gateway."""
GATEWAY_KEY_VARIABLES = ("LANGSMITH_GATEWAY_API_KEY", "LANGSMITH_API_KEY")
"""The environment variables with its key; the first one that is set is used."""
_GATEWAY = "https://gateway.smith.langchain.com"
_YES, _NO = {"1", "true", "yes"}, {"0", "false", "no"}

RETRY_DELAYS_VARIABLE = "GEMINI_RETRY_DELAYS"
"""Retries do not wait while this environment variable is "off", as inside `FakeGemini`."""


def environment_keys() -> list[str]:
    """Return the API keys that the environment variables hold, without white space around them."""
    return [key for name in KEY_VARIABLES if (key := os.environ.get(name, "").strip())]


def environment_secrets() -> list[str]:
    """Return the API keys of the environment, and the key of the LangSmith gateway if it is on."""
    _, key = environment_gateway() or ("", None)
    return [*environment_keys(), key] if key else environment_keys()


def environment_uses_vertexai() -> bool | None:
    """Return whether the environment chooses Vertex AI; `None` if it does not say.

    An empty variable is not set. As in langchain-google-genai, other values choose nothing.
    """
    chosen = next(filter(None, map(os.environ.get, VERTEX_VARIABLES)), "").lower()
    return chosen in _YES if chosen in _YES | _NO else None


def delays_are_off() -> bool:
    """Return whether the environment says that retries and polls do not wait."""
    return os.environ.get(RETRY_DELAYS_VARIABLE) == "off"


def environment_gateway() -> tuple[str, str | None] | None:
    """Return the address of the LangSmith gateway and its key, if the environment chooses it.

    An address of the Developer API in the environment has priority.
    """
    chosen = os.environ.get(GATEWAY_VARIABLE, "")
    if not chosen or chosen.lower() in _NO or os.environ.get(BASE_URL_VARIABLES[0]):
        return None
    host = _GATEWAY if chosen.lower() in _YES else chosen.rstrip("/")
    key = next(filter(None, map(os.environ.get, GATEWAY_KEY_VARIABLES)), None)
    return f"{host}/gemini", key
