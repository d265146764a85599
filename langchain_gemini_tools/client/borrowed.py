"""A `google.genai.Client` of the user's own, used through its public methods alone.

The SDK lets nobody look at a client's credentials or put another HTTP client into it. So the body
travels as `HttpOptions.extra_body`, and what this costs is:

* The SDK sends the body re-serialised, with an empty `generationConfig` where there was none.
* `send` returns the server's JSON as it is. A stream does not: the SDK offers its parsed chunks
  only, so fields and kinds of parts it does not know are missing, `finishMessage` among them, and
  a comment or a U+2028 in the stream is an `UnreadableResponseError`.
* The time of a stream is not added up: its total limits each single wait, no more than that.
* Connections, redirects, retries and TLS are that client's affair, and it is never closed here.

Everything else works as with a client of ours. Where those costs matter, give `ClientSettings` the
key, the project or the `client_args` instead.
"""

from __future__ import annotations

import asyncio
import json
import math
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.client.redaction import scrub, scrub_json
from langchain_gemini_tools.errors import UnreadableResponseError, holds_error, map_api_error
from langchain_gemini_tools.facts.json_values import is_deep, normalize_json, too_deep_error

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Iterator

    JsonObject = dict[str, Any]

# The SDK insists on contents; ours take their place on the way out.
PLACEHOLDER = "."


def generating_config(http_options: Any = None, **fields: Any) -> Any:
    """A `types.GenerateContentConfig` under which the SDK sends one request and runs no tool."""
    from google.genai import types

    if "automatic_continuation" in types.GenerateContentConfig.model_fields:
        fields["automatic_continuation"] = False
    # Not validated: for that, Pydantic builds classes that the first call can do without.
    off = types.AutomaticFunctionCallingConfig.model_construct(disable=True)
    return types.GenerateContentConfig.model_construct(
        http_options=http_options, automatic_function_calling=off, **fields
    )


def send(sdk: Any, model: str, body: bytes, timeout_seconds: float | None) -> JsonObject:
    """The reply as the server wrote it."""
    config = generating_config(_options(body, timeout_seconds), should_return_http_response=True)
    with _sdk_errors():
        reply = sdk.models.generate_content(model=model, contents=PLACEHOLDER, config=config)
        return _parse(reply)


async def asend(sdk: Any, model: str, body: bytes, timeout_seconds: float | None) -> JsonObject:
    """`send` for the running event loop."""
    config = generating_config(_options(body, timeout_seconds), should_return_http_response=True)
    with _sdk_errors():
        async with asyncio.timeout(timeout_seconds):
            reply = await sdk.aio.models.generate_content(
                model=model, contents=PLACEHOLDER, config=config
            )
        return _parse(reply)


def stream(
    sdk: Any, model: str, body: bytes, timeout_seconds: float | None
) -> Generator[JsonObject]:
    """The SDK's parsed chunks, written as JSON again."""
    config = generating_config(_options(body, timeout_seconds))
    with _sdk_errors():
        chunks = sdk.models.generate_content_stream(
            model=model, contents=PLACEHOLDER, config=config
        )
        try:
            for chunk in chunks:
                yield _dump(chunk)
        finally:
            chunks.close()


async def astream(
    sdk: Any, model: str, body: bytes, timeout_seconds: float | None
) -> AsyncGenerator[JsonObject]:
    """`stream` for the running event loop."""
    config = generating_config(_options(body, timeout_seconds))
    with _sdk_errors():
        chunks = await sdk.aio.models.generate_content_stream(
            model=model, contents=PLACEHOLDER, config=config
        )
        try:
            async for chunk in chunks:
                yield _dump(chunk)
        finally:
            await chunks.aclose()


def count_tokens(sdk: Any, model: str, body: bytes, timeout_seconds: float | None) -> JsonObject:
    """The counts that the SDK knows."""
    config = {"http_options": _options(body, timeout_seconds)}
    with _sdk_errors():
        return _dump(sdk.models.count_tokens(model=model, contents=PLACEHOLDER, config=config))


def _options(body: bytes, timeout_seconds: float | None) -> Any:
    from google.genai import types

    options = types.HttpOptions(extra_body=json.loads(body))
    if timeout_seconds is not None:
        options.timeout = math.ceil(timeout_seconds * 1000)
        # The SDK would send our limit as the server's, which the API refuses under 10 s.
        options.headers = {"X-Server-Timeout": str(max(math.ceil(timeout_seconds), 10))}
    return options


def _parse(reply: Any) -> JsonObject:
    text = reply.sdk_http_response.body or ""
    try:
        parsed = json.loads(text)
    except ValueError:
        parsed = None
    except RecursionError:
        raise too_deep_error() from None
    if holds_error(parsed):
        raise map_api_error(None, _details(parsed))
    if not isinstance(parsed, dict):
        shown = scrub(text[:1_000_000])[:200]
        raise UnreadableResponseError(
            f"The API answered with no JSON object: {shown!r}", body=shown
        )
    normalize_json(parsed)
    return parsed


def _dump(chunk: Any) -> JsonObject:
    # Unset fields, not empty ones: an argument of a call may be null on purpose.
    dumped: JsonObject = chunk.model_dump(
        mode="json", by_alias=True, exclude_unset=True, exclude={"sdk_http_response"}
    )
    normalize_json(dumped)
    return dumped


@contextmanager
def _sdk_errors() -> Iterator[None]:
    from google.genai import errors as sdk_errors

    try:
        yield
    except sdk_errors.APIError as error:
        # Not chained: the SDK's text repeats the whole body, which may quote the key.
        details = _details(error.details)
        raise map_api_error(error.code, details, _shown(error.response)) from None
    except sdk_errors.UnknownApiResponseError as error:
        raise UnreadableResponseError(scrub(str(error))[:300]) from None
    except RecursionError:
        raise too_deep_error() from None


def _details(body: Any) -> Any:
    """An error's body, as the error may show it."""
    if isinstance(body, (dict, list)) and is_deep(body):
        return {"error": {"message": "The explanation is nested too deep to be read."}}
    return scrub_json(body)


def _shown(response: Any) -> Any:
    """The response's headers, without the request that hung on it."""
    headers = getattr(response, "headers", None) or {}
    return SimpleNamespace(headers={name.lower(): value for name, value in headers.items()})
