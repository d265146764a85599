"""An HTTP response on its way out, step by step: bytes, pauses, a cut. Faults rewrite it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

JSON = "application/json; charset=UTF-8"
SSE = "text/event-stream"


@dataclass(frozen=True)
class Pause:
    """Nothing is sent for a while."""

    seconds: float


@dataclass(frozen=True)
class Cut:
    """The connection ends here, in the middle of what was promised."""


Step = bytes | Pause | Cut


@dataclass(frozen=True)
class Outgoing:
    """What one request gets back."""

    status: int
    headers: Mapping[str, str]
    steps: tuple[Step, ...]
    """The body. Of a stream, one step is one event."""
    before: tuple[Step, ...] = ()
    """What happens ahead of the status line."""
    is_stream: bool = False
    is_chunked: bool = field(default=False)

    @property
    def payload(self) -> bytes:
        """The whole body."""
        return b"".join(step for step in self.steps if isinstance(step, bytes))

    def with_steps(self, *steps: Step) -> Outgoing:
        return replace(self, steps=steps)

    def with_headers(self, **headers: str) -> Outgoing:
        """More headers; `content_type` means `content-type`."""
        spelled = {name.replace("_", "-"): value for name, value in headers.items()}
        return replace(self, headers={**self.headers, **spelled})


def whole(status: int, body: Any, content_type: str = JSON) -> Outgoing:
    """One body. Text and bytes go out as they are, everything else as JSON."""
    match body:
        case bytes():
            payload = body
        case str():
            payload = body.encode()
        case _:
            payload = json.dumps(body, ensure_ascii=False).encode()
    return Outgoing(status, {"content-type": content_type}, (payload,))


def event_stream(events: list[Any]) -> Outgoing:
    """Server-sent events as Gemini writes them: `data: {json}`, CRLF CRLF, and no `[DONE]`."""
    steps = tuple(event_bytes(event) for event in events)
    return Outgoing(200, {"content-type": SSE}, steps, is_stream=True, is_chunked=True)


def event_bytes(event: Any) -> bytes:
    """One event; text and bytes go out as they are."""
    match event:
        case bytes():
            return event
        case str():
            return event.encode()
        case _:
            return b"data: " + json.dumps(event, ensure_ascii=False).encode() + b"\r\n\r\n"
