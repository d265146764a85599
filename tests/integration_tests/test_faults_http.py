"""Every refusal of the API or of a proxy before it: the error it becomes, and how often we try.

Each fault is met by `ChatGemini` in its four ways and on each HTTP library, with two retries; what
it must become is in the table. aiohttp is installed, and must make no difference.
"""

from __future__ import annotations

import logging
import pickle
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from google.genai import errors as sdk
from langchain_core import exceptions as core

from langchain_gemini_tools import errors
from langchain_gemini_tools.testing.fake import API_KEY, faults
from tests.integration_tests.invoking import TWICE, ask, logged_retries, raw
from tests.rotation import WAYS, rotated

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake import Emulator
    from langchain_gemini_tools.testing.fake.script import Fault
    from tests.conftest import MakeModel

RPC = "type.googleapis.com/google.rpc."
pytestmark = pytest.mark.usefixtures("no_pauses")


@dataclass(frozen=True)
class Case:
    """A fault, and what must be true of the error that it becomes."""

    fault: Fault
    error: type[errors.GeminiToolsError]
    core: type[core.ModelError]
    sdk: type[Exception] | None
    line: str
    code: int | None
    status: str | None = None
    requests: int = 1
    """1: not repeated; 3: repeated twice, as often as allowed."""
    retry_after: float | None = None
    request_id: str | None = None
    is_daily_quota: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def is_retried(self) -> bool:
        return self.requests > 1


def _detail(kind: str, **fields: Any) -> dict[str, Any]:
    return {"@type": RPC + kind, **fields}


INVALID = (errors.GeminiInvalidRequestError, core.ModelInvalidRequestError, sdk.ClientError)
UNAUTHENTICATED = (errors.GeminiAuthenticationError, core.ModelAuthenticationError, sdk.ClientError)
RATE_LIMIT = (errors.GeminiRateLimitError, core.ModelRateLimitError, sdk.ClientError)
SERVER = (errors.GeminiServerError, core.ModelAPIError, sdk.ServerError)
TOO_LONG = (
    "Not retried: the API asks for a delay of {} s, which is longer than max_retry_delay ({} s)."
)
QUOTA = (
    "429 RESOURCE_EXHAUSTED: You exceeded your current quota, please check your plan and billing "
    "details. For more information on this error, head to: "
    "https://ai.google.dev/gemini-api/docs/rate-limits. * Quota exceeded for metric: "
    "generativelanguage.googleapis.com/generate_content_free_tier_requests, limit: 10, model: "
    "gemini-3-flash Please retry in {0:g}s. [retry after {0:g} s]"
)

CASES = {
    "400": Case(
        faults.http_error(400, "Request contains an invalid argument."),
        *INVALID,
        "400 INVALID_ARGUMENT: Request contains an invalid argument.",
        400,
        "INVALID_ARGUMENT",
    ),
    "400-field-violations": Case(
        faults.http_error(
            400,
            "Invalid JSON payload received.\nSee the fields.",
            details=[
                _detail("BadRequest", fieldViolations=[{"field": "tools[0]", "description": "No."}])
            ],
        ),
        *INVALID,
        "400 INVALID_ARGUMENT: Invalid JSON payload received. See the fields. [tools[0]: No.]",
        400,
        "INVALID_ARGUMENT",
    ),
    "400-bad-key": Case(
        faults.http_error(
            400,
            "API key not valid. Please pass a valid API key.",
            details=[_detail("ErrorInfo", reason="API_KEY_INVALID", domain="googleapis.com")],
        ),
        *UNAUTHENTICATED,
        "400 INVALID_ARGUMENT: API key not valid. Please pass a valid API key.",
        400,
        "INVALID_ARGUMENT",
    ),
    "400-too-long": Case(
        faults.http_error(
            400,
            "The input token count (1200000) exceeds the maximum number of tokens allowed "
            "(1048576).",
        ),
        errors.GeminiContextOverflowError,
        core.ContextOverflowError,
        sdk.ClientError,
        "400 INVALID_ARGUMENT: The input token count (1200000) exceeds the maximum number of "
        "tokens allowed (1048576).",
        400,
        "INVALID_ARGUMENT",
    ),
    "401": Case(
        faults.http_error(401, "Request had invalid authentication credentials."),
        *UNAUTHENTICATED,
        "401 UNAUTHENTICATED: Request had invalid authentication credentials.",
        401,
        "UNAUTHENTICATED",
    ),
    "403-quotes-the-key": Case(
        faults.forbidden(API_KEY),
        errors.GeminiPermissionError,
        core.ModelPermissionDeniedError,
        sdk.ClientError,
        "403 PERMISSION_DENIED: Permission denied: Consumer 'api_key:[redacted]' has been "
        "suspended. key=[redacted]",
        403,
        "PERMISSION_DENIED",
    ),
    "404": Case(
        faults.http_error(404, "models/x is not found for API version v1beta."),
        errors.GeminiNotFoundError,
        core.ModelNotFoundError,
        sdk.ClientError,
        "404 NOT_FOUND: models/x is not found for API version v1beta.",
        404,
        "NOT_FOUND",
    ),
    "408": Case(
        raw(408, {"error": {"code": 408, "message": "Too slow."}}),
        errors.GeminiServerError,
        core.ModelAPIError,
        sdk.ClientError,
        "408: Too slow.",
        408,
        requests=3,
    ),
    "499": Case(
        faults.http_failure(499),
        errors.GeminiServerError,
        core.ModelAPIError,
        sdk.ClientError,
        "499 CANCELLED: The operation was cancelled.",
        499,
        "CANCELLED",
        requests=3,
    ),
    "418-unknown-4xx": Case(
        raw(418, {"error": {"code": 418, "message": "I am a teapot.", "status": "TEAPOT"}}),
        *INVALID,
        "418 TEAPOT: I am a teapot.",
        418,
        "TEAPOT",
    ),
    "429-short": Case(
        faults.too_many_requests(retry_seconds=0.01),
        *RATE_LIMIT,
        QUOTA.format(0.01),
        429,
        "RESOURCE_EXHAUSTED",
        requests=3,
        retry_after=0.01,
    ),
    "429-long": Case(
        faults.too_many_requests(retry_seconds=3600),
        *RATE_LIMIT,
        QUOTA.format(3600),
        429,
        "RESOURCE_EXHAUSTED",
        retry_after=3600,
        notes=[TOO_LONG.format(3600, 60)],
    ),
    "429-daily": Case(
        faults.too_many_requests(retry_seconds=0.01, per="day"),
        *RATE_LIMIT,
        QUOTA.format(0.01),
        429,
        "RESOURCE_EXHAUSTED",
        retry_after=0.01,
        is_daily_quota=True,
    ),
    "429-bare": Case(
        faults.exhausted(),
        *RATE_LIMIT,
        "429 RESOURCE_EXHAUSTED: Resource has been exhausted (e.g. check quota).",
        429,
        "RESOURCE_EXHAUSTED",
        requests=3,
    ),
    "429-header-long": Case(
        raw(429, {"error": {"message": "Slow down."}}, retry_after="120"),
        *RATE_LIMIT,
        "429: Slow down. [retry after 120 s]",
        429,
        retry_after=120,
        notes=[TOO_LONG.format(120, 60)],
    ),
    "500": Case(
        faults.internal_error(),
        *SERVER,
        "500 INTERNAL: An internal error has occurred. Please retry or report in "
        "https://developers.generativeai.google/guide/troubleshooting",
        500,
        "INTERNAL",
        requests=3,
    ),
    "500-request-id": Case(
        faults.http_error(500, "Oh.", details=[_detail("RequestInfo", requestId="r-1")]),
        *SERVER,
        "500 INTERNAL: Oh.",
        500,
        "INTERNAL",
        requests=3,
        request_id="r-1",
    ),
    "503": Case(
        faults.overloaded(),
        *SERVER,
        "503 UNAVAILABLE: The model is overloaded. Please try again later.",
        503,
        "UNAVAILABLE",
        requests=3,
    ),
    "503-header": Case(
        raw(503, {"error": {"message": "Busy."}}, retry_after="0", x_request_id="r-2"),
        *SERVER,
        "503: Busy. [retry after 0 s]",
        503,
        requests=3,
        retry_after=0,
        request_id="r-2",
    ),
    "504": Case(
        faults.deadline_exceeded(),
        *SERVER,
        "504 DEADLINE_EXCEEDED: Deadline expired before operation could complete.",
        504,
        "DEADLINE_EXCEEDED",
        requests=3,
    ),
    "529-unknown-5xx": Case(
        raw(529, {"error": "overloaded"}), *SERVER, "529: overloaded", 529, requests=3
    ),
    "html-page": Case(faults.html_page(502), *SERVER, "502: Error 502", 502, requests=3),
    "html-page-413": Case(faults.html_page(413), *INVALID, "413: Error 413", 413),
    "empty-body": Case(raw(500, b""), *SERVER, "500: Internal Server Error", 500, requests=3),
    "json-list": Case(
        faults.http_error(503, "The model is overloaded.", as_list=True),
        *SERVER,
        "503 UNAVAILABLE: The model is overloaded.",
        503,
        "UNAVAILABLE",
        requests=3,
    ),
    "json-without-error": Case(
        raw(500, {"message": "Gateway lost.", "status": "LOST"}),
        *SERVER,
        "500 LOST: Gateway lost.",
        500,
        "LOST",
        requests=3,
    ),
    "json-of-odd-types": Case(
        raw(400, {"error": {"code": "x", "message": {"a": 1}, "status": 7, "details": "none"}}),
        *INVALID,
        "400: {'a': 1}",
        400,
    ),
    "not-utf-8": Case(
        raw(500, b"\xff\xfe oops"), *SERVER, "500: \ufffd\ufffd oops", 500, requests=3
    ),
    "200-holds-an-error": Case(
        raw(200, {"error": {"code": 503, "message": "Busy.", "status": "UNAVAILABLE"}}),
        *SERVER,
        "503 UNAVAILABLE: Busy.",
        503,
        "UNAVAILABLE",
        requests=3,
    ),
}


@rotated(case=CASES, way=WAYS)
async def test_a_rejection_becomes_its_error(
    *,
    emulator: Emulator,
    make_model: MakeModel,
    caplog: pytest.LogCaptureFixture,
    library: str,
    case: Case,
    way: str,
) -> None:
    for _ in range(case.requests):
        emulator.reply("never sent", fault=case.fault)
    caplog.set_level(logging.DEBUG, library)
    chat = make_model(max_retries=2)
    seen: list[Any] = []
    with pytest.raises(errors.GeminiAPIError) as raised:
        await ask(chat, way, seen)
    error = raised.value
    assert library in {record.name for record in caplog.records}
    assert seen == []
    assert [cls.__name__ for cls in type(error).__mro__[:2]] == [case.error.__name__] * 2
    assert isinstance(error, case.core)
    assert case.sdk is not None
    assert isinstance(error, case.sdk)
    status = f" ({error.status})" if error.status else ""
    assert str(error) == f"Error calling model {chat.model!r}{status}: {case.line}"
    assert (error.code, error.status) == (case.code, case.status)
    assert (error.retry_after, error.request_id) == (case.retry_after, case.request_id)
    assert error.is_daily_quota is case.is_daily_quota
    assert error.partial is None
    assert getattr(error, "__notes__", []) == case.notes
    assert (len(emulator.requests), emulator.pending_replies) == (case.requests, 0)
    assert logged_retries(caplog) == (TWICE if case.is_retried else [])
    assert API_KEY not in caplog.text
    twin = pickle.loads(pickle.dumps(error))
    assert (type(twin), str(twin), twin.code) == (type(error), str(error), case.code)


@rotated(way=WAYS, version=["v1", "v1beta", "v1beta/"])
async def test_a_404_says_that_the_address_has_two_versions(
    emulator: Emulator, make_model: MakeModel, way: str, version: str
) -> None:
    chat = make_model(base_url=f"{emulator.url}/proxy/{version}")
    with pytest.raises(errors.GeminiNotFoundError) as raised:
        await ask(chat, way)
    name = version.rstrip("/")
    assert str(raised.value).endswith(
        f"(base_url ends with the version {name!r}, and 'v1beta' follows it. Leave it out of "
        f"base_url; for this version, pass api_version={name!r}.)"
    )


@rotated(
    name=[*(name for name, case in CASES.items() if case.is_retried), "cut-before-headers"],
    way=WAYS,
)
async def test_what_is_worth_repeating_is_repeated_until_it_is_answered(
    emulator: Emulator, make_model: MakeModel, name: str, way: str
) -> None:
    fault = CASES[name].fault if name in CASES else faults.cut_before_headers()
    emulator.reply(fault=fault)
    emulator.reply("Sunny.")
    answer = await ask(make_model(max_retries=2), way)
    assert answer.text == "Sunny."
    assert len(emulator.requests) == 2
    assert emulator.requests[0].raw == emulator.requests[1].raw


@rotated(way=WAYS)
async def test_no_retries_means_one_request(
    emulator: Emulator, make_model: MakeModel, way: str
) -> None:
    emulator.reply(fault=faults.overloaded())
    with pytest.raises(errors.GeminiServerError):
        await ask(make_model(max_retries=0), way)
    assert len(emulator.requests) == 1


# Unusable responses with status 200.


@rotated(
    case={
        "login-page": (
            "<!DOCTYPE html><title>Sign in</title>",
            errors.UnreadableResponseError,
            errors.UnreadableResponseError,
        ),
        "empty-body": (b"", errors.UnreadableResponseError, errors.TruncatedStreamError),
        "empty-list": ("[]", errors.UnreadableResponseError, errors.TruncatedStreamError),
        "json-null": ("null", errors.UnreadableResponseError, errors.UnreadableResponseError),
    },
    way=WAYS,
)
async def test_a_200_that_is_not_a_response_is_an_error(
    *,
    emulator: Emulator,
    make_model: MakeModel,
    library: str,
    case: tuple[Any, type[errors.ResponseError], type[errors.ResponseError]],
    way: str,
) -> None:
    body, unary, streamed = case
    for _ in range(3):
        emulator.reply(fault=raw(200, body))
    with pytest.raises(streamed if way.endswith("stream") else unary) as raised:
        await ask(make_model(max_retries=2), way)
    assert isinstance(raised.value, core.ModelError)
    assert "\n" not in str(raised.value)
    assert raised.value.partial is None
    assert len(emulator.requests) == 3
    assert emulator.pending_replies == 0


@rotated(way=WAYS)
async def test_a_gateway_that_explains_itself_with_status_200_is_quoted(
    *, emulator: Emulator, make_model: MakeModel, library: str, way: str
) -> None:
    for filler in ("", "." * 160):  # the second text is cut inside the key
        said = {"message": f"Blocked: {filler} key {API_KEY} has no budget."}
        for _ in range(2):
            emulator.reply(fault=raw(200, said))
        with pytest.raises(errors.UnreadableResponseError, match=r"Blocked.*Check base_url") as e:
            await ask(make_model(max_retries=1), way)
        assert API_KEY[:9] not in f"{e.value} {e.value.body}"
        assert "has no budget" in e.value.body["message"]
        assert e.value.partial is None
        assert emulator.pending_replies == 0  # it was asked twice
