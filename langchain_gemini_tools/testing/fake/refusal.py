"""How the emulator says no: one exception, and the JSON that the API would have sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

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
"""What the API says when it does not say what is wrong. `Refusal.why` then tells us."""


class Refusal(Exception):  # noqa: N818 - the API's answer, not a failure of ours
    """A request that the API would not have answered.

    Args:
        message: The API's words.
        code: The HTTP status, also in the body.
        why: For our own eyes, where the API's words tell nothing. It never reaches the body.
        details: The `details` of the body.
        evidence: How we know the rule. The API's words were at least reported.
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
    """Violations as the request's own validator words them: where, and what."""
    return Refusal(
        "".join(f"* GenerateContentRequest.{field}: {problem}\n" for field, problem in problems)
    )


def refuse_all(problems: Iterable[tuple[str, str]]) -> None:
    """Raise all problems together; without any, go on."""
    if found := list(problems):
        raise invalid_request(*found)


def invalid(why: str, *, evidence: Evidence = "inferred") -> Refusal:
    """A violation for which the API's words are not known, or tell nothing."""
    return Refusal(INVALID_ARGUMENT, why=why, evidence=evidence)
