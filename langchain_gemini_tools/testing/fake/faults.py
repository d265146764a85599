"""Faults of responses: pass one with a scripted reply.

    emulator.reply("It is sunny in", fault=cut_connection())
    emulator.reply(fault=too_many_requests(retry_seconds=26))

A fault rewrites the response before it is sent. It works for whole responses and streams, unless
its name says otherwise.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from langchain_gemini_tools.testing.fake.responses import (
    Cut,
    JsonObject,
    Outgoing,
    Pause,
    Step,
    error_body,
    event_bytes,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_gemini_tools.testing.fake.script import Fault

_QUOTA = "type.googleapis.com/google.rpc.QuotaFailure"
_HELP = "type.googleapis.com/google.rpc.Help"
_RETRY = "type.googleapis.com/google.rpc.RetryInfo"
_RATE_LIMITS = "https://ai.google.dev/gemini-api/docs/rate-limits"


def both(first: Fault, second: Fault) -> Fault:
    """Return one fault that applies two, one after the other."""
    return lambda outgoing: second(first(outgoing))


# Refusals: the reply never begins.


def http_error(
    code: int,
    message: str,
    *,
    details: list[JsonObject] | None = None,
    as_list: bool = False,
    headers: dict[str, str] | None = None,
) -> Fault:
    """Return an error in the API's own JSON; `as_list` wraps it the way streams sometimes do."""
    body: Any = error_body(code, message, details=details)
    refused = whole(code, [body] if as_list else body).with_headers(**headers or {})
    return lambda _: refused


_USUAL_MESSAGES = {
    400: "Request contains an invalid argument.",
    401: "Request had invalid authentication credentials.",
    403: "The caller does not have permission",
    404: "Requested entity was not found.",
    429: "Resource has been exhausted (e.g. check quota).",
    499: "The operation was cancelled.",
    500: "An internal error has occurred. Please retry or report in "
    "https://developers.generativeai.google/guide/troubleshooting",
    503: "The model is overloaded. Please try again later.",
    504: "Deadline expired before operation could complete.",
}


def http_failure(
    code: int, message: str | None = None, *, retry_after: float | None = None
) -> Fault:
    """Return an error of any status, by default with the API's usual message, and a delay."""
    details: list[JsonObject] | None = None
    if retry_after is not None:
        details = [{"@type": _RETRY, "retryDelay": f"{retry_after:g}s"}]
    return http_error(code, message or _USUAL_MESSAGES.get(code, f"HTTP {code}"), details=details)


def too_many_requests(
    *,
    retry_seconds: float | None = 26,
    per: Literal["minute", "day"] = "minute",
    model: str = "gemini-3-flash",
) -> Fault:
    """429 of a quota, with the quota's name and, unless None, the time to wait."""
    metric = "generativelanguage.googleapis.com/generate_content_free_tier_requests"
    message = (
        "You exceeded your current quota, please check your plan and billing details. For more "
        f"information on this error, head to: {_RATE_LIMITS}. "
        f"\n* Quota exceeded for metric: {metric}, limit: 10, model: {model}"
    )
    violation = {
        "quotaMetric": metric,
        "quotaId": f"GenerateRequestsPer{per.capitalize()}PerProjectPerModel-FreeTier",
        "quotaDimensions": {"location": "global", "model": model},
        "quotaValue": "10",
    }
    link = {"description": "Learn more about Gemini API quotas", "url": _RATE_LIMITS}
    details: list[JsonObject] = [
        {"@type": _HELP, "links": [link]},
        {"@type": _QUOTA, "violations": [violation]},
    ]
    if retry_seconds is not None:
        message += f"\nPlease retry in {retry_seconds:g}s."
        details.append({"@type": _RETRY, "retryDelay": f"{retry_seconds:g}s"})
    return http_error(429, message, details=details)


def exhausted() -> Fault:
    """429 without details."""
    return http_failure(429)


def internal_error() -> Fault:
    """500."""
    return http_failure(500)


def overloaded() -> Fault:
    """503."""
    return http_failure(503)


def deadline_exceeded() -> Fault:
    """504."""
    return http_failure(504)


def forbidden(key: str) -> Fault:
    """403 whose text quotes the caller's key."""
    return http_error(
        403, f"Permission denied: Consumer 'api_key:{key}' has been suspended. key={key}"
    )


def html_page(status: int = 502) -> Fault:
    """Return an error page of a proxy: HTML in place of JSON."""
    page = f"<!DOCTYPE html>\n<html><title>Error {status}</title><p>That's all we know.</html>"
    return lambda _: whole(status, page, "text/html; charset=UTF-8")


def redirect(location: str) -> Fault:
    """302 to another place."""
    return lambda _: whole(302, "", "text/html").with_headers(location=location)


# Time and connection.


def slow_first_byte(seconds: float) -> Fault:
    """Nothing, not even a status line, for a while; then everything."""
    return lambda outgoing: replace(outgoing, before=(Pause(seconds), *outgoing.before))


def slow_events(seconds: float) -> Fault:
    """Return a pause before each event of a stream."""

    def fault(outgoing: Outgoing) -> Outgoing:
        steps = [each for step in outgoing.steps for each in (Pause(seconds), step)]
        return outgoing.with_steps(*steps)

    return fault


def stall(seconds: float, after: int | None = None) -> Fault:
    """Return a silence inside the body: after that many events, or before the last one."""
    return lambda outgoing: _inside(outgoing, after, (Pause(seconds),), goes_on=True)


def drip(seconds: float = 0.05, times: int = 600) -> Fault:
    """Bytes without content before the body: comments of a stream, or white space."""

    def fault(outgoing: Outgoing) -> Outgoing:
        sign = b": still here\r\n\r\n" if outgoing.is_stream else b" "
        steps = (sign, Pause(seconds)) * times
        length = str(len(sign) * times + len(outgoing.payload))
        dripping = outgoing.with_steps(*steps, *outgoing.steps)
        return dripping if outgoing.is_stream else dripping.with_headers(content_length=length)

    return fault


def talk_on(seconds: float = 0.05, times: int = 600) -> Fault:
    """Return the first event of a stream again and again."""

    def fault(outgoing: Outgoing) -> Outgoing:
        return outgoing.with_steps(*(outgoing.steps[0], Pause(seconds)) * times)

    return fault


def endless(size: int = 1_000_000, times: int = 200) -> Fault:
    """Return a body without an end: one line of a stream, or white space."""

    def fault(outgoing: Outgoing) -> Outgoing:
        length = {} if outgoing.is_stream else {"content_length": str(size * times)}
        line = b"data: " if outgoing.is_stream else b""
        return outgoing.with_steps(line, *(b" " * size,) * times).with_headers(**length)

    return fault


def cut_before_headers() -> Fault:
    """Return the end of the connection, without an answer."""
    return lambda outgoing: replace(outgoing, before=(*outgoing.before, Cut()))


def cut_connection(after: int | None = None) -> Fault:
    """Return the end of the connection inside the body: after some events, or before the last one.

    Of a whole response, half of it arrives.
    """
    return lambda outgoing: _inside(outgoing, after, (Cut(),), goes_on=False)


def _inside(
    outgoing: Outgoing, after: int | None, happening: tuple[Step, ...], *, goes_on: bool
) -> Outgoing:
    steps = outgoing.steps
    if not outgoing.is_stream:
        payload = outgoing.payload
        outgoing = outgoing.with_headers(content_length=str(len(payload)))
        steps = (payload[: len(payload) // 2], payload[len(payload) // 2 :])
        after = 1
    place = len(steps) - 1 if after is None else after
    return outgoing.with_steps(*steps[:place], *happening, *(steps[place:] if goes_on else ()))


# The body itself.


def ended_early() -> Fault:
    """Return a complete HTTP response that ends before its finish reason."""

    def fault(outgoing: Outgoing) -> Outgoing:
        if outgoing.is_stream:
            return outgoing.with_steps(*outgoing.steps[:-1])
        body = json.loads(outgoing.payload)
        for candidate in body.get("candidates", []):
            candidate.pop("finishReason", None)
        return whole(outgoing.status, body)

    return fault


def broken_json() -> Fault:
    """Return a complete HTTP response with half of its JSON; of a stream, in the last event."""

    def fault(outgoing: Outgoing) -> Outgoing:
        last = outgoing.steps[-1]
        if not isinstance(last, bytes):
            raise TypeError("The response has no event that could be cut.")
        broken = last[: len(last) // 2] + (b"\r\n\r\n" if outgoing.is_stream else b"")
        return outgoing.with_steps(*outgoing.steps[:-1], broken)

    return fault


def error_in_stream(
    form: Literal["event", "tail", "list"] = "event",
    *,
    code: int = 503,
    message: str = "The model is overloaded. Please try again later.",
    after: int | None = None,
) -> Fault:
    """Return an error in place of the next event: as an event, as bare JSON, or as a JSON list.

    A reply that is not streamed is refused with it.
    """
    body = error_body(code, message)
    errors = {
        "event": event_bytes(body),
        "tail": json.dumps(body, indent=2).encode() + b"\n",
        "list": json.dumps([body], indent=2).encode() + b"\n",
    }

    def fault(outgoing: Outgoing) -> Outgoing:
        if not outgoing.is_stream:
            return whole(code, body)
        return _inside(outgoing, after, (errors[form],), goes_on=False)

    return fault


def keep_alive_comments() -> Fault:
    """Comment lines before every event, as proxies add them."""
    return _each_event(lambda event: b": keep-alive\r\n\r\n" + event)


def empty_events() -> Fault:
    """Return an event without data before every event."""
    return _each_event(lambda event: b"data:\r\n\r\n" + event)


def no_space_after_data() -> Fault:
    """`data:{...}`: the space is optional in server-sent events."""
    return _each_event(lambda event: event.replace(b"data: ", b"data:", 1))


def bare_line_feeds() -> Fault:
    """LF in place of CRLF."""
    return _each_event(lambda event: event.replace(b"\r\n", b"\n"))


def several_data_lines() -> Fault:
    """Return one event spread over several `data:` lines."""

    def spread(event: bytes) -> bytes:
        lines = json.dumps(_data(event), indent=1, ensure_ascii=False).splitlines()
        return "".join(f"data: {line}\r\n" for line in lines).encode() + b"\r\n"

    return _each_event(spread)


def split_anywhere(size: int = 7) -> Fault:
    """Return a stream in small writes that end anywhere, also inside a character."""

    def fault(outgoing: Outgoing) -> Outgoing:
        payload = outgoing.payload
        pieces = [payload[start : start + size] for start in range(0, len(payload), size)]
        return outgoing.with_steps(*(step for piece in pieces for step in (piece, Pause(0.0005))))

    return fault


def two_finishes() -> Fault:
    """Return the last event of a stream, twice."""
    return _of_events(lambda events: [*events, events[-1]])


def falling_usage() -> Fault:
    """Usage counters that shrink from event to event."""

    def rewrite(events: list[JsonObject]) -> list[JsonObject]:
        for number, event in enumerate(events):
            for name, count in event.get("usageMetadata", {}).items():
                if isinstance(count, int):
                    event["usageMetadata"][name] = count + len(events) - number
        return events

    return _of_events(rewrite)


def line_separators() -> Fault:
    """Line separators of Unicode before every text: no line ends there for server-sent events."""

    def rewrite(events: list[JsonObject]) -> list[JsonObject]:
        for event in events:
            for part in event["candidates"][0]["content"].get("parts", []):
                if part.get("text"):
                    part["text"] = "\u2028\u0085" + part["text"]
        return events

    return _of_events(rewrite)


def huge_event(size: int = 20_000_000) -> Fault:
    """Return an event of many megabytes, in a field that no client knows."""
    return _of_events(lambda events: [events[0] | {"padding": "x" * size}, *events[1:]])


def wrong_content_type(content_type: str = "text/plain") -> Fault:
    """Return a fault that sends the right bytes under a wrong name."""
    return lambda outgoing: outgoing.with_headers(content_type=content_type)


def packed(coding: str, body: bytes) -> Fault:
    """This body, said to be packed like that."""
    return lambda _: whole(200, body).with_headers(content_encoding=coding)


def gzipped() -> Fault:
    """Compressed; a stream keeps its writes, one for each event."""

    def fault(outgoing: Outgoing) -> Outgoing:
        packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
        steps = [_pack(step, packer) for step in outgoing.steps]
        return outgoing.with_steps(*steps, packer.flush()).with_headers(content_encoding="gzip")

    return fault


def _pack(step: Step, packer: zlib._Compress) -> Step:
    if not isinstance(step, bytes):
        return step
    return packer.compress(step) + packer.flush(zlib.Z_SYNC_FLUSH)


def _each_event(rewrite: Callable[[bytes], bytes]) -> Fault:
    """Return a fault in how events are written; a reply that is not streamed passes as it is."""

    def fault(outgoing: Outgoing) -> Outgoing:
        steps = (rewrite(step) if isinstance(step, bytes) else step for step in outgoing.steps)
        return outgoing.with_steps(*steps) if outgoing.is_stream else outgoing

    return fault


def _of_events(rewrite: Callable[[list[JsonObject]], list[JsonObject]]) -> Fault:
    """Return a fault in what events say; a reply that is not streamed passes as it is."""

    def fault(outgoing: Outgoing) -> Outgoing:
        if not outgoing.is_stream:
            return outgoing
        events = [_data(step) for step in outgoing.steps if isinstance(step, bytes)]
        return outgoing.with_steps(*(event_bytes(event) for event in rewrite(events)))

    return fault


def _data(event: bytes) -> Any:
    return json.loads(event.removeprefix(b"data:"))
