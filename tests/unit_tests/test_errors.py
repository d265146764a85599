from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace
from typing import Any

import pytest
from google.genai import errors as sdk_errors
from langchain_core import exceptions as core

from langchain_gemini_tools import errors
from langchain_gemini_tools.errors import map_api_error
from langchain_gemini_tools.facts.http import parse_error_body

RPC = "type.googleapis.com/google.rpc."


def body(message: str = "No.", status: str | None = None, *details: dict[str, Any]) -> Any:
    return {"error": {"message": message, "status": status, "details": list(details)}}


def quota(quota_id: str) -> dict[str, Any]:
    return {"@type": RPC + "QuotaFailure", "violations": [{"quotaId": quota_id}]}


RETRY_INFO = {"@type": RPC + "RetryInfo", "retryDelay": "26s"}
BAD_KEY_TEXT = "API key not valid. Please pass a valid API key."
BAD_KEY = {"@type": RPC + "ErrorInfo", "reason": "API_KEY_INVALID"}

TOO_LONG = "The input token count (9) exceeds the maximum number of tokens allowed (8)."
TOO_LONG_ON_VERTEX = "The input token count is 40000 but model only supports up to 32768."

INVALID = [errors.GeminiInvalidRequestError, core.ModelInvalidRequestError, sdk_errors.ClientError]
WRONG_KEY = [
    errors.GeminiAuthenticationError,
    core.ModelAuthenticationError,
    sdk_errors.ClientError,
]
OVERFLOW = [errors.GeminiContextOverflowError, core.ContextOverflowError, sdk_errors.ClientError]
DENIED = [errors.GeminiPermissionError, core.ModelPermissionDeniedError, sdk_errors.ClientError]
MISSING = [errors.GeminiNotFoundError, core.ModelNotFoundError, sdk_errors.ClientError]
LIMITED = [errors.GeminiRateLimitError, core.ModelRateLimitError, sdk_errors.ClientError]
SLOW = [errors.GeminiServerError, core.ModelAPIError, sdk_errors.ClientError]
FAILED = [errors.GeminiServerError, core.ModelAPIError, sdk_errors.ServerError]
OTHER = [errors.GeminiAPIError, core.ModelError, sdk_errors.APIError]


@pytest.mark.parametrize(
    ("code", "details", "classes", "is_retryable"),
    [
        pytest.param(400, body(), INVALID, False, id="400"),
        pytest.param(400, body("m", None, BAD_KEY), WRONG_KEY, False, id="400-bad-key"),
        pytest.param(400, body(BAD_KEY_TEXT), WRONG_KEY, False, id="400-bad-key-without-details"),
        pytest.param(400, body(TOO_LONG), OVERFLOW, False, id="400-too-long"),
        pytest.param(400, body(TOO_LONG_ON_VERTEX), OVERFLOW, False, id="400-too-long-on-vertex"),
        pytest.param(401, body(), WRONG_KEY, False, id="401"),
        pytest.param(403, body(), DENIED, False, id="403"),
        pytest.param(404, body(), MISSING, False, id="404"),
        pytest.param(408, body(), SLOW, True, id="408"),
        pytest.param(418, body(), INVALID, False, id="unknown-4xx"),
        pytest.param(429, body(), LIMITED, True, id="429"),
        pytest.param(499, body(), SLOW, True, id="499"),
        pytest.param(503, body(), FAILED, True, id="503"),
        pytest.param(599, body(), FAILED, True, id="unknown-5xx"),
        pytest.param(302, body(), OTHER, False, id="redirect"),
    ],
)
def test_an_api_error_is_caught_as_ours_as_langchains_and_as_the_sdks(
    code: int, details: Any, classes: list[type[Exception]], is_retryable: bool
) -> None:
    error = map_api_error(code, details)
    assert type(error).__name__ == classes[0].__name__
    assert [isinstance(error, cls) for cls in classes] == [True, True, True]
    assert isinstance(error, errors.GeminiToolsError)
    assert (error.code, error.is_retryable) == (code, is_retryable)


def test_the_attributes_are_those_of_the_sdk_and_more() -> None:
    details = body("Too much.", "RESOURCE_EXHAUSTED", RETRY_INFO)
    response = SimpleNamespace(headers={"x-request-id": "r-1"})
    error = map_api_error(429, details, response)
    assert (error.code, error.status, error.message) == (429, "RESOURCE_EXHAUSTED", "Too much.")
    assert (error.details, error.response) == (details, response)
    assert (error.retry_after, error.request_id, error.is_daily_quota) == (26.0, "r-1", False)


def test_the_text_is_one_line_with_the_invalid_fields_and_the_delay() -> None:
    violations = [
        {"field": "contents[0]", "description": "must not\nbe empty"},
        {"field": "tools", "description": "Unknown name"},
    ]
    bad_request = {"@type": RPC + "BadRequest", "fieldViolations": violations}
    error = map_api_error(
        400, body("Invalid:\n Unknown name", "INVALID_ARGUMENT", bad_request, RETRY_INFO)
    )
    assert str(error) == (
        "400 INVALID_ARGUMENT: Invalid: Unknown name [contents[0]: must not be empty] "
        "[retry after 26 s]"
    )


@pytest.mark.parametrize(
    "error",
    [
        map_api_error(429, body("m", "RESOURCE_EXHAUSTED", RETRY_INFO, quota("RequestsPerDay"))),
        map_api_error(503, body()),
        errors.GeminiTimeoutError("late"),
        errors.GeminiConnectionError("gone"),
        errors.GeminiAuthenticationError("no key"),
        errors.UnknownToolError("serach", ["search"]),
        errors.UnsupportedBlockError("zork", "human", ["text"]),
        errors.BlockedError("Blocked.", finish_reason="SAFETY"),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("copied", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy])
def test_a_pickled_error_is_of_the_same_class(error: Exception, copied: Any) -> None:
    twin = copied(error)
    assert type(twin) is type(error)
    assert (str(twin), twin.__dict__) == (str(error), error.__dict__)


def test_connection_and_timeout_errors_are_builtin_errors_too() -> None:
    assert issubclass(errors.GeminiTimeoutError, (TimeoutError, core.ModelTimeoutError))
    assert issubclass(errors.GeminiConnectionError, (ConnectionError, core.ModelConnectionError))
    assert errors.GeminiTimeoutError("late").is_retryable
    assert str(errors.GeminiTimeoutError("late")) == "late"


@pytest.mark.parametrize(
    "message",
    [
        "Your prepayment credits are depleted. Please go to AI Studio at "
        "https://ai.studio/projects to manage your project and billing.",
        "Your project has exceeded its monthly spending cap. Please go to AI Studio at "
        "https://ai.studio/spend to manage your project spend cap.",
    ],
)
def test_exhausted_funds_are_not_retryable(message: str) -> None:
    error = map_api_error(429, body(message, "RESOURCE_EXHAUSTED"))
    assert isinstance(error, errors.GeminiRateLimitError)
    assert (error.is_daily_quota, error.is_retryable) == (False, False)


def test_a_daily_quota_is_not_retryable() -> None:
    daily = map_api_error(429, body("m", None, quota("GenerateRequestsPerDayPerProject-FreeTier")))
    minute = map_api_error(429, body("m", None, quota("GenerateRequestsPerMinutePerProject")))
    assert (daily.is_daily_quota, daily.is_retryable) == (True, False)
    assert (minute.is_daily_quota, minute.is_retryable) == (False, True)


@pytest.mark.parametrize(
    ("details", "headers", "seconds"),
    [
        pytest.param(body("m", None, RETRY_INFO), {"retry-after": "5"}, 26.0, id="body-first"),
        pytest.param(
            body("m", None, {**RETRY_INFO, "retryDelay": "0.25s"}), {}, 0.25, id="fraction"
        ),
        pytest.param(body(), {"retry-after": "7"}, 7.0, id="header"),
        pytest.param(body(), {"retry-after": "soon"}, None, id="unreadable"),
        pytest.param(body(), {"retry-after": "nan"}, None, id="no-number"),
        pytest.param(body(), {"retry-after": "1 Jan 99999999999999999999"}, None, id="no-year"),
        pytest.param(body(), {}, None, id="none"),
    ],
)
def test_the_delay_that_the_api_asks_for(
    details: Any, headers: dict[str, str], seconds: float | None
) -> None:
    error = map_api_error(503, details, SimpleNamespace(headers=headers))
    assert error.retry_after == seconds


@pytest.mark.parametrize("zone", ["GMT", "+0000", "-0000"])
def test_a_delay_may_be_a_date(zone: str) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    later = date.replace("GMT", zone)
    error = map_api_error(503, body(), SimpleNamespace(headers={"retry-after": later}))
    assert error.retry_after == pytest.approx(30, abs=2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "<html><head><title>502 Bad\nGateway</title></head><body>nginx</body></html>",
            "502 Bad Gateway",
            id="page",
        ),
        pytest.param("<p>upstream <b>died</b></p>", "upstream died", id="page-without-title"),
        pytest.param("upstream connect error", "upstream connect error", id="text"),
        pytest.param("", "Bad Gateway", id="empty"),
        pytest.param('[{"error": {"message": "in a list"}}]', "in a list", id="list"),
        pytest.param('{"error": "only words"}', "only words", id="words"),
        pytest.param('{"error": true, "message": "Too many."}', "Too many.", id="flag"),
        pytest.param('{"error": true}', "True", id="flag-alone"),
        pytest.param('{"error": "", "message": "Too many."}', "Too many.", id="empty-word"),
        pytest.param(
            '{"error": "bad_token", "error_description": "It has expired."}',
            "bad_token: It has expired.",
            id="word-and-description",
        ),
        pytest.param(
            '{"status": 500, "error": "Internal Server Error", "message": "No route."}',
            "Internal Server Error: No route.",
            id="word-and-message",
        ),
        pytest.param('{"message": "flat"}', "flat", id="flat"),
        pytest.param('{"detail": "Not Found"}', '{"detail": "Not Found"}', id="no-message"),
        pytest.param('{"error": {"type": "x", "code": 7}}', '{"type": "x"}', id="only-a-type"),
        pytest.param('"a string"', '"a string"', id="string"),
        pytest.param("[]", "[]", id="empty-list"),
        pytest.param('{"error": {"message": "m", "details": 7}}', "m", id="strange-details"),
    ],
)
def test_any_body_is_readable(text: str, message: str) -> None:
    error = map_api_error(502, parse_error_body(text, "Bad Gateway"))
    assert error.message == message
    assert str(error) == f"502: {message}"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ({"code": 503, "status": "UNAVAILABLE"}, 503),
        ({"status": "UNAVAILABLE"}, 503),
        ({"code": 8, "status": "RESOURCE_EXHAUSTED"}, 429),
        ({"code": "x"}, 500),
    ],
)
def test_inside_a_stream_the_body_names_the_code(error: Any, code: int) -> None:
    assert map_api_error(None, {"error": error}).code == code


def test_importing_the_errors_does_not_load_the_sdk() -> None:
    program = (
        "import sys; import langchain_gemini_tools.errors; "
        "assert not {'google.genai', 'httpx', 'httpx2'} & set(sys.modules), 'loaded'"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_documented_tree_is_the_class_tree() -> None:
    """The list at the top of `errors.py` names every class under its parent, and marks retries."""
    parents: dict[int, type[Exception]] = {}
    drawn = set()
    for line in (errors.__doc__ or "").splitlines():
        if not line.lstrip().startswith("* "):
            continue
        depth, name = line.index("*"), line.split()[1]
        found = getattr(errors, name)
        if depth:
            assert parents[depth - 2] in found.__bases__, name
        assert found.is_retryable is line.endswith("; retryable"), name
        parents[depth] = found
        drawn.add(found)
    defined = {
        value
        for value in vars(errors).values()
        if isinstance(value, type) and value.__module__ == errors.__name__
    }
    assert drawn == defined
    assert errors.__all__ == sorted(found.__name__ for found in defined)
