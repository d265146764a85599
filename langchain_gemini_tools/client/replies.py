"""What the server answered -> JSON objects, or the error that the answer is."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any, NoReturn

from langchain_gemini_tools.client.limits import Intake
from langchain_gemini_tools.client.sse import EventReader
from langchain_gemini_tools.errors import (
    TruncatedStreamError,
    UnreadableResponseError,
    contains_error,
    map_api_error,
    parse_error_body,
)
from langchain_gemini_tools.facts.credentials import redact, redact_json, secret_values
from langchain_gemini_tools.facts.json_values import LARGE, decode_json, is_deep

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from langchain_gemini_tools.client.limits import Patience

    JsonObject = dict[str, Any]


_CODINGS = re.compile(r"\b(?:gzip|deflate|br|zstd)\b")
"""What HTTP libraries unpack; any other word, such as a charset, they pass over."""
_BEARABLE: tuple[list[str], ...] = ([], ["gzip"], ["deflate"])


def parse_reply(response: Any, body: bytes) -> JsonObject:
    """The object that the body of a whole response is."""
    if response.status_code != 200:
        raise_api_error(response, body)
    try:
        reply = decode_json(body)
    except ValueError:
        raise _unreadable(response, body) from None
    if contains_error(reply):
        raise_api_error(response, body)
    if not isinstance(reply, dict):
        raise _unreadable(response, body)
    return reply


def read_events(response: Any, patience: Patience) -> Generator[JsonObject]:
    """The replies of a stream as they arrive; the response is closed at the end."""
    reader, intake = EventReader(), Intake()
    is_error = response.status_code != 200
    try:
        refuse_packed(response)
        patience.begin()
        for chunk in response.iter_bytes():
            patience.end()
            if is_error:
                intake.take(chunk)
                continue
            intake.count(chunk)
            for text in reader.feed(chunk):
                patience.event_came()
                yield from parse_event(response, text)
            patience.begin()
        if is_error:
            raise_api_error(response, intake.whole())
        yield from parse_event(response, reader.finish(), is_last=True)
    finally:
        response.close()


async def aread_events(response: Any, patience: Patience) -> AsyncGenerator[JsonObject]:
    """`read_events` for the running event loop."""
    reader, intake = EventReader(), Intake()
    is_error = response.status_code != 200
    try:
        refuse_packed(response)
        patience.begin()
        async for chunk in response.aiter_bytes():
            patience.end()
            if is_error:
                intake.take(chunk)
                continue
            intake.count(chunk)
            for text in reader.feed(chunk):
                patience.event_came()
                for reply in parse_event(response, text):
                    yield reply
            patience.begin()
        if is_error:
            raise_api_error(response, intake.whole())
        for reply in parse_event(response, reader.finish(), is_last=True):
            yield reply
    finally:
        await response.aclose()


def read_body(response: Any, deadline: float | None = None) -> bytes:
    """The whole body of a response, which is closed then.

    Raises:
        TimeoutError: The deadline (`time.monotonic`) passed before its end.
        UnreadableResponseError: It is too long, or compressed in a way that was not asked for.
    """
    intake = Intake()
    try:
        refuse_packed(response)
        for chunk in response.iter_bytes():
            intake.take(chunk)
            # A server that drips bytes keeps each single read alive.
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError
    finally:
        response.close()
    return intake.whole()


async def aread_body(response: Any) -> bytes:
    """`read_body` for the running event loop."""
    intake = Intake()
    try:
        refuse_packed(response)
        async for chunk in response.aiter_bytes():
            intake.take(chunk)
    finally:
        await response.aclose()
    return intake.whole()


def refuse_packed(response: Any) -> None:
    """Refuse to unpack what was not asked for, or packed twice, before any of it is read.

    The HTTP library unpacks what it has received in one go. One layer makes of that some megabytes,
    which are counted; two layers, or a newer coding, make gigabytes.

    Raises:
        UnreadableResponseError: It is packed like that.
    """
    packed = response.headers.get("content-encoding")
    if packed is None or _CODINGS.findall(packed.lower()) in _BEARABLE:
        return
    told = redact(packed, secret_values(response.request.headers))
    error = UnreadableResponseError(
        f"The API answered in an encoding that nobody asked for ({told!r:.80}); it was not read."
    )
    error.is_retryable = False
    raise error


def parse_event(response: Any, text: bytes, *, is_last: bool = False) -> list[JsonObject]:
    """The objects in the text of one event; usually one, several where a proxy made a list."""
    if not text:
        return []
    try:
        reply = decode_json(text)
    except ValueError:
        if is_last and text.lstrip().startswith((b"{", b"[")):
            raise TruncatedStreamError("The connection ended inside an event.") from None
        raise _unreadable(response, text) from None
    if contains_error(reply):
        raise_api_error(response, text)
    if isinstance(reply, dict):
        return [reply]
    if not isinstance(reply, list) or not all(isinstance(item, dict) for item in reply):
        raise _unreadable(response, text)
    return reply


_SHOWN_LENGTH = 200


def raise_api_error(response: Any, body: bytes) -> NoReturn:
    """Raise the error that an answer is: by its status, or at 200 by the one in its body."""
    secrets = secret_values(response.request.headers)
    text = _shown(response, body)
    details = parse_error_body(text, redact(response.reason_phrase, secrets))
    if is_deep(details):
        details = {"error": {"message": text[:_SHOWN_LENGTH]}}
    code = None if response.status_code == 200 else response.status_code
    raise map_api_error(code, redact_json(details, secrets), _redacted(response, text))


def redacted_response(response: Any, body: bytes) -> Any:
    """A response that is an error, as the SDK may show it."""
    if response.next_request is None:
        return _redacted(response, _shown(response, body))
    target = response.next_request.url.copy_with(path="/", query=None, fragment=None)
    message = (
        f"The API redirected the request to {target}. It was not repeated there, because it "
        "carries credentials."
    )
    details = {"code": response.status_code, "message": message, "status": "REDIRECTED"}
    return _redacted(response, json.dumps({"error": details}))


def _redacted(response: Any, text: str) -> Any:
    """A response with this text, and without the request's headers, which contain the key."""
    sent = response.request
    secrets = secret_values(sent.headers)
    headers = [
        (name, redact(value, secrets))
        for name, value in response.headers.multi_items()
        if name not in {"content-encoding", "content-length", "transfer-encoding"}
    ]
    request = type(sent)(sent.method, sent.url)
    return type(response)(response.status_code, headers=headers, text=text, request=request)


def _unreadable(response: Any, body: bytes) -> UnreadableResponseError:
    shown = _shown(response, body)[:_SHOWN_LENGTH]
    kind = response.headers.get("content-type", "no content type")
    kind = redact(kind, secret_values(response.request.headers))
    return UnreadableResponseError(
        f"The API answered with something that is not a JSON object ({kind}): {shown!r}", body=shown
    )


def _shown(response: Any, body: bytes) -> str:
    text = body[:LARGE].decode("utf-8", errors="replace")
    shown = redact(text, secret_values(response.request.headers))
    # Cut twice: a secret that the first cut halves is not recognised any more.
    return shown if len(body) <= LARGE else shown[:_SHOWN_LENGTH]
