"""What is checked around the body: the key, the deadline, the model's name, the length."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from langchain_gemini_tools.testing.fake.models import Backend, Model, find_model
from langchain_gemini_tools.testing.fake.refusal import ERROR_INFO, Refusal

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_BEARER = re.compile(r"Bearer (\S+)")


def check_key(
    headers: Mapping[str, str],
    query: Mapping[str, str],
    backend: Backend,
    key: str | None,
    token: str | None,
) -> None:
    """Let in who has the key, or on Vertex the token; with None, any key or token.

    Raises:
        Refusal: 403 without credentials, 400 with a bad key (not 401), 401 with a bad token.
    """
    given = headers.get("x-goog-api-key") or query.get("key")
    bearer = _BEARER.fullmatch(headers.get("authorization", ""))
    if given is None and bearer is None:
        raise Refusal(
            "Method doesn't allow unregistered callers (callers without established identity). "
            "Please use API Key or other form of API consumer identity to call this API.",
            403,
        )
    if given is not None:
        if key is not None and given != key:
            raise _invalid_key(backend)
    elif token is not None and bearer is not None and bearer[1] != token:
        raise Refusal(
            "Request had invalid authentication credentials. Expected OAuth 2 access token, "
            "login cookie or other valid authentication credential. "
            "See https://developers.google.com/identity/sign-in/web/devconsole-project.",
            401,
        )


def _invalid_key(backend: Backend) -> Refusal:
    service = {"gemini": "generativelanguage", "vertex": "aiplatform"}[backend]
    message = "API key not valid. Please pass a valid API key."
    info = {
        "@type": ERROR_INFO,
        "reason": "API_KEY_INVALID",
        "domain": "googleapis.com",
        "metadata": {"service": f"{service}.googleapis.com"},
    }
    localized = {
        "@type": "type.googleapis.com/google.rpc.LocalizedMessage",
        "locale": "en-US",
        "message": message,
    }
    return Refusal(message, details=[info, localized])


def check_deadline(headers: Mapping[str, str]) -> None:
    """Refuse an `X-Server-Timeout` under ten seconds."""
    given = headers.get("x-server-timeout")
    if given is None:
        return
    try:
        seconds = float(given)
    except ValueError:
        raise Refusal(f'Invalid value for header X-Server-Timeout: "{given}"') from None
    if seconds < 10:
        raise Refusal(
            f"Manually set deadline {seconds:g}s is too short. Minimum allowed deadline is 10s."
        )


def check_length(tokens: int, limit: int) -> None:
    """Refuse a prompt that does not fit into the model's context."""
    if tokens > limit:
        raise Refusal(
            f"The input token count ({tokens}) exceeds the maximum number of tokens allowed "
            f"({limit})."
        )


def check_model(
    name: str, version: str, backend: Backend, method: str, extra: Collection[str] = ()
) -> Model:
    """The model of this name; `extra` names are there as well, with the newest behaviour."""
    if model := find_model(name, version):
        return model
    if name in extra:
        return Model(name)
    if backend == "vertex":
        raise Refusal(
            f"Publisher Model `projects/P/locations/L/publishers/google/models/{name}` was not "
            "found or your project does not have access to it. Please ensure you are using a valid "
            "model version. For more information, see: https://cloud.google.com/vertex-ai/"
            "generative-ai/docs/learn/model-versions",
            404,
        )
    raise Refusal(
        f"models/{name} is not found for API version {version}, or is not supported for {method}. "
        "Call ModelService.ListModels to see the list of available models and their supported "
        "methods.",
        404,
        evidence="recorded",
    )
