"""What is saved of a recording: everything that a replay needs, and no credential."""

from __future__ import annotations

import importlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from vcr.request import Request
from vcr.serialize import serialize

from langchain_gemini_tools.testing.addresses import credentials_in_address, is_gemini
from langchain_gemini_tools.testing.bodies import joined_text, read_body, write_body
from langchain_gemini_tools.testing.errors import SecretFoundError
from langchain_gemini_tools.testing.files import LOOPBACK
from langchain_gemini_tools.testing.matching import (
    body_bytes,
    ids_of_calls,
    made_up,
    rename_calls,
)
from langchain_gemini_tools.testing.secrets import (
    REQUEST_HEADERS,
    RESPONSE_HEADERS,
    Scrubber,
    credentials_in,
    credentials_of_the_environment,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    JsonObject = dict[str, Any]


def render_file(kept: tuple[JsonObject, Any], secrets: Iterable[str] = ()) -> str:
    """The text to save.

    Raises:
        SecretFoundError: It still holds something that looks like a credential.
    """
    cassette, serializer = kept
    values = [*secrets, *credentials_of_the_environment()]
    for request in cassette["requests"]:
        values += credentials_in(request.headers)
    maybe = [v for request in cassette["requests"] for v in credentials_in_address(request.uri)]
    scrubber = Scrubber(values, maybe)
    responses = [_clean_response(response, scrubber) for response in cassette["responses"]]
    answered = b"".join(response["body"]["string"] for response in responses)
    requests = [_clean_request(request, scrubber, answered) for request in cassette["requests"]]
    _refuse_secrets(requests, responses, scrubber)
    clean = {**cassette, "requests": requests, "responses": responses}
    return str(serialize(clean, serializer))


def _clean_request(request: Any, scrubber: Scrubber, answered: bytes) -> Any:
    headers = _harmless(request.headers, REQUEST_HEADERS, scrubber)
    form = _clean_body(body_bytes(request), scrubber)
    if form and "json" in form:
        ids = ids_of_calls(form["json"])
        given = {name for name in ids if not made_up(name) or name.encode() in answered}
        form = {"json": rename_calls(form["json"], given)}
    uri = scrubber.uri(_without_local_port(request.uri))
    return Request(request.method.upper(), uri, read_body(form), headers)


def _clean_response(response: JsonObject, scrubber: Scrubber) -> JsonObject:
    raw, headers = _decompressed(response)
    return {
        "status": response["status"],
        "headers": _harmless(headers, RESPONSE_HEADERS, scrubber),
        "body": {"string": read_body(_clean_body(raw, scrubber))},
    }


def _clean_body(raw: bytes, scrubber: Scrubber) -> JsonObject | None:
    form = write_body(raw)
    if form is None or "base64" in form:  # in which nothing can be replaced; it may be refused
        return form
    cleaned: JsonObject = scrubber.value(form)
    return cleaned


def _harmless(headers: Any, allowed: frozenset[str], scrubber: Scrubber) -> JsonObject:
    kept = {name.lower(): value for name, value in headers.items() if name.lower() in allowed}
    return {
        name: [scrubber.text(str(v)) for v in ([value] if isinstance(value, str) else value)]
        for name, value in kept.items()
    }


def _decompressed(response: JsonObject) -> tuple[bytes, JsonObject]:
    """The body as the client read it, and the headers that are true of it."""
    raw = response["body"].get("string") or b""
    raw = raw.encode() if isinstance(raw, str) else bytes(raw)
    headers = {name.lower(): value for name, value in response["headers"].items()}
    encoding = headers.pop("content-encoding", None)
    if not encoding:
        return raw, headers
    for name in ("httpx2", "httpx"):
        try:
            library = importlib.import_module(name)
        except ModuleNotFoundError:
            continue
        names = ", ".join([encoding] if isinstance(encoding, str) else encoding)
        with suppress(library.DecodingError):  # aiohttp hands bodies over decompressed
            raw = library.Response(200, headers={"content-encoding": names}, content=raw).content
        return raw, headers
    return raw, {**headers, "content-encoding": encoding}


def _refuse_secrets(requests: list[Any], responses: list[JsonObject], scrubber: Scrubber) -> None:
    found: list[str] = []
    for number, (request, response) in enumerate(zip(requests, responses, strict=True), start=1):
        question = write_body(request.body)
        answer = write_body(response["body"]["string"])
        sides = {
            "request": {
                "uri": request.uri,
                "body": question,
                "texts together": joined_text(question),
            },
            "response": {
                "status": response["status"],
                "headers": response["headers"],
                "body": answer,
                "texts together": joined_text(answer),
            },
        }
        found += [f"interaction {number}, {leak}" for leak in scrubber.leaks(sides)]
    if found:
        more = f" (and {len(found) - 5} more)" if len(found) > 5 else ""
        raise SecretFoundError(
            "What was recorded holds something that looks like a credential, so it was not saved: "
            f"{'; '.join(found[:5])}{more}. Take it out of what the program sends, and record "
            "again."
        )


def _without_local_port(uri: str) -> str:
    """An address of this machine without its port, which is another one in each run."""
    split = urlsplit(uri)
    if is_gemini(uri) and LOOPBACK.fullmatch(split.hostname or ""):
        return urlunsplit((split.scheme, "127.0.0.1", split.path, split.query, ""))
    return uri
