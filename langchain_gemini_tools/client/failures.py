"""What failed: errors of the HTTP library and error responses -> our errors, without secrets.

`MappingErrors` is around everything that is sent, and `RedactingErrors` around everything that is
read from a response.
"""

from __future__ import annotations

import json
import math
import re
import ssl
import sys
import traceback
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn

from langchain_gemini_tools.client import network
from langchain_gemini_tools.client.pool import LIBRARIES
from langchain_gemini_tools.errors import (
    GeminiAuthenticationError,
    GeminiConnectionError,
    GeminiTimeoutError,
    GeminiToolsError,
    InvalidOptionError,
    ResponseError,
    UnreadableResponseError,
    map_api_error,
)
from langchain_gemini_tools.facts.credentials import (
    private_values,
    redact,
    redact_json,
    secrets_in_use,
)
from langchain_gemini_tools.facts.http import parse_error_body
from langchain_gemini_tools.facts.json_values import LARGE, is_deep

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx  # its types also stand for those of httpx2

    from langchain_gemini_tools.client.sdk import ClientSettings

_SHOWN_LENGTH = 200


# Errors of a call.


class RedactingErrors:
    """Redacts an error about a response that is raised inside the block."""

    # A class, because a generator would add frames again.

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, frames: object) -> None:
        if isinstance(error, ResponseError):
            redact_error(error, self._settings)


def secrets_of(settings: ClientSettings) -> list[str]:
    """Return all credentials that an error may quote, those of the call's own headers included."""
    return list(dict.fromkeys([*settings.secrets, *secrets_in_use()]))


def redact_error(error: ResponseError, settings: ClientSettings) -> None:
    """Redact what an error shows, and drop the frames that contain the response.

    The content of its `partial` message stays as it is.
    """
    secrets = secrets_of(settings)
    error.args = tuple(redact_json([*error.args], secrets))
    partial = error.partial
    shown = {name: value for name, value in vars(error).items() if name != "partial"}
    vars(error).update(redact_json(shown, secrets))
    if partial is not None:
        partial.response_metadata = redact_json(partial.response_metadata, secrets)
    _drop_frames(error)


class MappingErrors:
    """Maps errors inside the block to ours, and drops the frames that they came through.

    The frames' locals are headers and bodies, some with the API key, and tracebacks may show them.
    """

    def __init__(self, settings: ClientSettings, *limits: float | None) -> None:
        self._settings = settings
        self._limits = limits

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, frames: object) -> None:
        if error is None:
            return
        ours = self._map(error)
        _drop_frames(error)
        if ours is None:
            return
        try:
            raise ours
        finally:
            # Otherwise the original error stays in the context and in this frame.
            ours.__context__ = None
            del error, frames, ours

    def _map(self, error: BaseException) -> GeminiToolsError | None:
        """Return our error to raise instead; None if the original error is raised."""
        if not isinstance(error, Exception) or isinstance(error, GeminiToolsError):
            return None  # a cancellation or an interrupt, or already one of ours
        text = redact(str(error), secrets_of(self._settings))
        ours = _map_transport_error(error, text, *self._limits)
        if self._settings.is_for_fake and _is_refused_connection(error):
            ours = fake_has_stopped()
        if ours is None and isinstance(error, ValueError):
            # The SDK raises it for arguments that it rejects, such as a model named "a?b".
            ours = InvalidOptionError(text)
        if ours is not None:
            # Tracebacks print the cause as well, and some causes quote an illegal header.
            ours.__cause__ = None if self._is_quoted_in(error) else error
        elif not getattr(error, "explains_itself", False):  # as errors of cassettes do
            # Unexpected: keep where it came from as text, which shows no locals.
            error.add_note("".join(["Raised at:\n", *traceback.format_tb(error.__traceback__)]))
        return ours

    def _is_quoted_in(self, error: BaseException) -> bool:
        """Return whether the text of the error, or of an error in its chain, contains a secret."""
        secrets = secrets_of(self._settings)
        texts = [(link, str(link)) for link in _chain(error)]
        return any(
            isinstance(link, UnicodeError) or redact(text, secrets) != text for link, text in texts
        )


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, its cause or context, the cause of that, and so on."""
    link: BaseException | None = error
    seen: set[int] = set()
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__


def _drop_frames(error: BaseException) -> None:
    """Drop what the error and its chain keep: tracebacks, requests, contexts that are not shown."""
    for link in _chain(error):
        link.__traceback__ = None
        _drop_request(link)
        if link.__suppress_context__:
            link.__context__ = None  # it may contain the whole body that is not JSON


def _drop_request(error: Any) -> None:
    """Drop the headers and the body of the request that an error of an HTTP library keeps."""
    if type(error).__module__.startswith("requests."):  # google.auth: the body is a credential
        error.request = None
        return
    try:
        sent = error.request
        error.request = type(sent)(sent.method, sent.url.copy_with(query=None))
        response, body = error.response, b""  # of `raise_for_status` in a hook
        with suppress(RuntimeError):  # the body was not read
            body = response.content
        error.response = _redacted(response, _redacted_text(response, body))
    except (AttributeError, RuntimeError):  # not an error of httpx, or one without a request
        return


# The connection.


def _map_transport_error(
    error: Exception, text: str, seconds: float | None, total_seconds: float | None = None
) -> GeminiToolsError | None:
    """Return our error for a failed connection; None for any other error.

    Args:
        error: The error of the HTTP library, of `google.auth` or of the operating system.
        text: Its text, redacted.
        seconds: The timeout of the request, or between two events of a stream.
        total_seconds: The timeout of the stream.
    """
    reason = text or type(error).__name__
    limit = network.shorter(seconds, total_seconds)
    if advice := _advice_on_lasting_failure(error):
        lasting = GeminiConnectionError(f"The connection to the API failed: {reason}. {advice}")
        lasting.is_retryable = False
        return lasting
    for library in filter(None, map(sys.modules.get, LIBRARIES)):
        if isinstance(error, library.ConnectTimeout) and (limit or 0) > network.CONNECT_SECONDS:
            return GeminiConnectionError(
                f"No connection to the API within {network.CONNECT_SECONDS:g} s."
            )
        if isinstance(error, library.TimeoutException):
            return _timeout_error(type(error).__name__, seconds, total_seconds)
        if isinstance(error, library.LocalProtocolError):
            return InvalidOptionError(f"The request cannot be sent: {reason}")
        if isinstance(error, (library.UnsupportedProtocol, library.InvalidURL)):
            return InvalidOptionError(f"base_url is not a valid URL: {reason}")
        if isinstance(error, library.HTTPError):
            return GeminiConnectionError(f"The connection to the API failed: {reason}")
    if isinstance(error, TimeoutError):
        return _timeout_error("timeout", seconds, total_seconds)
    if _is_of(error, "google.auth.exceptions", "TransportError"):
        return GeminiConnectionError(f"The Google credentials could not be refreshed: {reason}")
    if _is_of(error, "google.auth.exceptions", "GoogleAuthError"):
        return GeminiAuthenticationError(f"The Google credentials cannot be used: {reason}")
    if isinstance(error, OSError):
        return GeminiConnectionError(f"The connection to the API failed: {reason}")
    return None


def _is_refused_connection(error: Exception) -> bool:
    """Return whether nothing listens at the address."""
    libraries = filter(None, map(sys.modules.get, LIBRARIES))
    return any(isinstance(error, library.ConnectError) for library in libraries)


_PASSING_TLS_ERRORS = (
    ssl.SSLEOFError,
    ssl.SSLZeroReturnError,
    ssl.SSLSyscallError,
    ssl.SSLWantReadError,
    ssl.SSLWantWriteError,
)
"""The connection was lost. All other errors of a TLS handshake occur again in the next one."""
_CONNECT_ERRORS = {"ConnectError", "ProxyError", "TransportError"}
"""Names in the HTTP libraries and in `google.auth`."""
_REFUSED_BY_PROXY = re.compile(
    r"4(?!08|29)\d\d\b|Invalid username/password|Requested |.*not allowed by ruleset"
)
"""The status of an HTTP proxy, or what the HTTP libraries write about a SOCKS proxy."""


def _advice_on_lasting_failure(error: BaseException) -> str | None:
    """Return what to do about a failure that every retry would meet; None for other errors."""
    if type(error).__name__ == "ProxyError" and _REFUSED_BY_PROXY.match(str(error)):
        return "The proxy refused the connection. Check its address, its credentials and its rules."
    link: BaseException | None = error if type(error).__name__ in _CONNECT_ERRORS else None
    while link is not None and not isinstance(link, ssl.SSLError):
        link = link.__cause__ or link.__context__
    if link is None or isinstance(link, _PASSING_TLS_ERRORS):
        return None
    if link.reason == "TLSV1_ALERT_INTERNAL_ERROR":
        return None
    if isinstance(link, ssl.SSLCertVerificationError):
        return (
            "If the server is the right one, trust its certificate: set SSL_CERT_FILE, or pass "
            "client_args={'verify': ssl.create_default_context(cafile=...)}."
        )
    return (
        "The server does not support TLS, or no version of it that Python accepts. Check base_url."
    )


def _is_of(error: Exception, module: str, name: str) -> bool:
    """Return whether the error is an instance of a class whose module may not be loaded."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(error, getattr(loaded, name))


def _timeout_error(
    phase: str, seconds: float | None, total_seconds: float | None
) -> GeminiTimeoutError:
    if total_seconds is not None and total_seconds < (math.inf if seconds is None else seconds):
        return stream_timeout_error(total_seconds)
    limit = "in time" if seconds is None else f"within {seconds:g} s"
    return GeminiTimeoutError(f"The API did not respond {limit} ({phase}).")


def redact_transport_error(error: httpx.RequestError, request: httpx.Request) -> Exception:
    """Return the same error without secrets in its text and without the request's headers."""
    text = redact(str(error), private_values(request.headers))
    return type(error)(text, request=type(request)(request.method, request.url))


def stream_timeout_error(total_seconds: float) -> GeminiTimeoutError:
    """Return the error for a stream whose waits are too long together."""
    return GeminiTimeoutError(
        f"The stream did not end within {total_seconds:g} s (stream_timeout)."
    )


def fake_has_stopped() -> InvalidOptionError:
    """Return the error for a model that is used after its `FakeGemini`."""
    return InvalidOptionError(
        "This model belongs to a FakeGemini that has stopped. Make and use the model inside the "
        "same `with FakeGemini()` block or test."
    )


# Error responses.

_TWO_VERSIONS = re.compile(r"/(v\d\w*)/(v\d\w*)/")
"""The SDK adds the version to an address, and other SDKs expect it in theirs."""


def raise_api_error(response: httpx.Response, body: bytes) -> NoReturn:
    """Raise the error of a response: by its status, or for status 200 by the error in its body."""
    secrets = _secrets_in_request(response.request)
    text = _explanation(response, body)
    details = parse_error_body(text, redact(response.reason_phrase, secrets))
    if is_deep(details):
        details = {"error": {"message": text[:_SHOWN_LENGTH]}}
    code = None if response.status_code == 200 else response.status_code
    error = map_api_error(code, redact_json(details, secrets), _redacted(response, text))
    if code == 404 and (found := _TWO_VERSIONS.search(response.request.url.path)):
        given, added = found.groups()
        error.args = (
            f"{error} (base_url ends with the version {given!r}, and {added!r} follows it. Leave "
            f"it out of base_url; for this version, pass api_version={given!r}.)",
        )
    raise error


def redact_response(response: httpx.Response, body: bytes) -> httpx.Response:
    """Return an error response with its secrets redacted, for the SDK's errors."""
    return _redacted(response, _explanation(response, body))


def _explanation(response: httpx.Response, body: bytes) -> str:
    """Return the redacted body of an error response; of a redirect, an error that explains it."""
    if response.next_request is None:
        return _redacted_text(response, body)
    target = response.next_request.url
    message = (
        f"The API redirected the request to {target.scheme}://{target.netloc.decode()}. This "
        "redirect was not followed, so that credentials are not sent elsewhere. Check base_url."
    )
    details = {"code": response.status_code, "message": message, "status": "REDIRECTED"}
    return json.dumps({"error": details})


_NOT_KEPT = {"content-encoding", "content-length", "transfer-encoding", "set-cookie"}
"""Headers of the transport, and cookies: a session of a gateway is a credential."""


def _redacted(response: httpx.Response, text: str) -> httpx.Response:
    """Return a response with this text, and without the request's headers, which have the key."""
    sent = response.request
    secrets = _secrets_in_request(sent)
    headers = [
        (name, redact(value, secrets))
        for name, value in response.headers.multi_items()
        if name not in _NOT_KEPT
    ]
    request = type(sent)(sent.method, sent.url)
    return type(response)(response.status_code, headers=headers, text=text, request=request)


def unreadable_error(response: httpx.Response, body: bytes) -> UnreadableResponseError:
    """Return the error for a response that is not a JSON object."""
    shown = _redacted_text(response, body)[:_SHOWN_LENGTH]
    kind = response.headers.get("content-type", "no content type")
    kind = redact(kind, _secrets_in_request(response.request))
    advice = " This is a web page: check base_url and the proxy." if _is_page(shown) else ""
    return UnreadableResponseError(
        f"The response is not a JSON object ({kind}): {shown!r}{advice}", body=shown
    )


def _is_page(text: str) -> bool:
    return text.lstrip().lower().startswith(("<!doctype html", "<html"))


def encoding_error(response: httpx.Response, encoding: str) -> UnreadableResponseError:
    """Return the error for a content encoding that was not requested."""
    shown = redact(encoding, _secrets_in_request(response.request))
    error = UnreadableResponseError(
        f"The response has the content encoding {shown!r:.80}, which was not requested. It was not "
        "read."
    )
    error.is_retryable = False
    return error


def _secrets_in_request(request: httpx.Request) -> list[str]:
    """Return what an error must not quote; the body of a request may have credentials as well."""
    return [*private_values(request.headers), *secrets_in_use()]


def _redacted_text(response: httpx.Response, body: bytes) -> str:
    text = body[:LARGE].decode("utf-8", errors="replace")
    shown = redact(text, _secrets_in_request(response.request))
    # Cut a second time: a secret that the first cut splits is not recognized.
    return shown if len(body) <= LARGE else shown[:_SHOWN_LENGTH]


@contextmanager
def mapping_sdk_errors() -> Iterator[None]:
    """Map an error response of a request that passed through the SDK to our error."""
    from google.genai import errors as sdk_errors

    failure: GeminiToolsError | None = None
    try:
        yield
    except sdk_errors.APIError as error:
        failure = map_api_error(error.code, error.details, error.response)
    if failure:
        raise failure  # outside the `except`: its frames have headers
