"""HTTP responses of the emulator: bytes step by step, and the errors of the API.

An `Outgoing` is sent as steps: bytes, pauses, a closed connection. Faults rewrite these steps. A
`Refusal` is raised where the API rejects a request, and has the JSON that the API would send.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


JSON = "application/json; charset=UTF-8"
SSE = "text/event-stream"


@dataclass(frozen=True)
class Pause:
    """Nothing is sent for a while."""

    seconds: float


@dataclass(frozen=True)
class Cut:
    """The connection is closed before the response is complete."""


Step = bytes | Pause | Cut


@dataclass(frozen=True)
class Outgoing:
    """What one request gets back."""

    status: int
    headers: Mapping[str, str]
    steps: tuple[Step, ...]
    """The body. Of a stream, one step is one event."""
    before: tuple[Step, ...] = ()
    """What happens before the status line."""
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
    """One body. Text and bytes are sent as they are, everything else as JSON."""
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
    """One event; text and bytes are sent as they are."""
    match event:
        case bytes():
            return event
        case str():
            return event.encode()
        case _:
            return b"data: " + json.dumps(event, ensure_ascii=False).encode() + b"\r\n\r\n"


JsonObject = dict[str, Any]

Evidence = Literal["recorded", "documented", "reported", "inferred"]
"""How we know a rule, best first.

recorded: recorded traffic has such a refusal. documented: Google's documents state the rule.
reported: users of the API quote the message. inferred: it follows from the other three.
"""

BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"
ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"

_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}

INVALID_ARGUMENT = "Request contains an invalid argument."
"""The message of the API when it does not say what is wrong. `Refusal.why` says it then."""


class Refusal(Exception):  # noqa: N818 - a response of the API
    """A request that the API would not have answered.

    Args:
        message: The message of the API.
        code: The HTTP status, also in the body.
        why: What is wrong, if the message does not say it. It is not in the body.
        details: The `details` of the body.
        evidence: How the rule is known. The message was at least reported.
    """

    def __init__(
        self,
        message: str,
        code: int = 400,
        *,
        why: str = "",
        status: str | None = None,
        details: list[JsonObject] | None = None,
        evidence: Evidence = "reported",
    ) -> None:
        super().__init__(why or message)
        self.message = message
        self.code = code
        self.why = why
        self.status = status or _STATUSES.get(code, "UNKNOWN")
        self.details = details
        self.evidence = evidence

    @property
    def body(self) -> JsonObject:
        """The whole error JSON."""
        return error_body(self.code, self.message, status=self.status, details=self.details)


def error_body(
    code: int, message: str, *, status: str | None = None, details: list[JsonObject] | None = None
) -> JsonObject:
    """The JSON around an error; `status` follows from the code unless given."""
    error: JsonObject = {"code": code, "message": message}
    error["status"] = status or _STATUSES.get(code, "UNKNOWN")
    return {"error": error | {"details": details} if details else error}


def invalid_request(*problems: tuple[str, str]) -> Refusal:
    """Violations in the form of the API's validator: the place, and the problem."""
    return Refusal(
        "".join(f"* GenerateContentRequest.{field}: {problem}\n" for field, problem in problems)
    )


def refuse_all(problems: Iterable[tuple[str, str]]) -> None:
    """Raise all problems together, if there are any."""
    if found := list(problems):
        raise invalid_request(*found)


def invalid(why: str, *, evidence: Evidence = "inferred") -> Refusal:
    """A violation for which the message of the API is not known, or says nothing."""
    return Refusal(INVALID_ARGUMENT, why=why, evidence=evidence)
