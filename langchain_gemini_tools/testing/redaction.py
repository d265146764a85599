"""What must not be in a cassette: credentials, in requests, responses and addresses.

Only a few harmless headers are kept. Everything else is redacted with `facts.credentials.redact`.
What still looks like a credential afterwards, for example inside base64, is found by `leaks`, and
the cassette is not saved. `render_recording` returns what is saved.

For Google, the query parameter `key` is a credential. For another API it may be a search term:
there, plain words are kept, and other values are replaced by a mark that depends on the value.
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import json
import re
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from langchain_gemini_tools.facts.credentials import (
    AMBIGUOUS_PARAMETERS,
    MIN_LENGTH,
    REDACTED,
    SECRET_PARAMETERS,
    forms,
    is_credential,
    kinds_in,
    oauth_secrets,
    private_values,
    redact,
    redact_json,
)
from langchain_gemini_tools.facts.environment import environment_secrets
from langchain_gemini_tools.testing.cassettes import CassetteError, SecretFoundError
from langchain_gemini_tools.testing.files import (
    LOOPBACK,
    joined_text,
    parse_body,
    parse_json,
    render_body,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from langchain_gemini_tools.facts.json_values import JsonObject

REQUEST_HEADERS = frozenset({"content-type"})
RESPONSE_HEADERS = frozenset({"content-type", "content-encoding", "retry-after", "server"})
"""The headers that are kept. Headers that a replay does not need are left out."""


class Redactor:
    """Removes credentials from anything that is about to be written to a cassette."""

    def __init__(self, secrets: Iterable[str] = (), maybe: Iterable[str] = ()) -> None:
        """Remember what to remove.

        Args:
            secrets: Credentials.
            maybe: Query parameters that may be credentials or search terms. In an address they are
                replaced by a mark.
        """
        self._known = _long_enough(secrets)
        self._secrets = tuple(sorted(self._known | _long_enough(maybe)))

    def text(self, text: str) -> str:
        """Redact a text."""
        return redact(text, self._secrets)

    def value(self, value: Any) -> Any:
        """Redact a JSON value, names of fields included."""
        return redact_json(value, self._secrets)

    def uri(self, uri: str) -> str:
        """Redact an address; also remove the name of a Google Cloud project."""
        split = urlsplit(uri)
        kept = [
            (name, self._parameter(name, value, uri))
            for name, value in parse_qsl(split.query, keep_blank_values=True)
            if not (is_gemini(uri) and _may_be_credential(name, value, uri))
        ]
        host = split.netloc.rpartition("@")[2]
        path = self.text(PROJECT.sub("project", split.path))
        return urlunsplit((split.scheme, host, path, urlencode(kept, safe="$"), ""))

    def _parameter(self, name: str, value: str, uri: str) -> str:
        if not _may_be_credential(name, value, uri):
            return self.text(value)
        if value.strip() in self._known or is_credential(value) or _is_credential(name, uri):
            return REDACTED
        # 16 bits of a hash do not help to find a key, and fit hundreds of passwords.
        mark = hashlib.sha256(value.encode(errors="surrogatepass")).hexdigest()[:4]
        return f"[redacted-{mark}]"

    def leaks(self, value: Any, place: str = "") -> Iterator[str]:
        """Describe what still looks like a credential, also where it is encoded.

        Args:
            value: A text or a JSON value.
            place: Where the value is, for the descriptions: `request.body`.
        """
        match value:
            case str():
                for kind, how in self._find_kinds(value).items():
                    yield f"{place or 'the text'}: {kind}{how}"
            case dict():
                for key, item in value.items():
                    yield from self.leaks(str(key), f"{place}, a field's name")
                    yield from self.leaks(item, f"{place}.{key}" if place else str(key))
            case list():
                for number, item in enumerate(value):
                    yield from self.leaks(item, f"{place}[{number}]")

    def interaction_leaks(self, found: JsonObject) -> Iterator[str]:
        """Yield the leaks of a request and its response, also across the pieces of a text."""
        yield from self.leaks(found)
        for side in ("request", "response"):
            yield from self.leaks(joined_text(found[side].get("body")), f"{side}.joined text")

    def _find_kinds(self, text: str) -> dict[str, str]:
        """Return the kinds of credentials in a text, and how the first of each is encoded."""
        found: dict[str, str] = {}
        known = forms(self._secrets)
        for how, decoded in _decodings(text):
            for kind in kinds_in(decoded):
                found.setdefault(kind, how)
            if any(form in decoded for form in known):
                found.setdefault("the credential that was used", how)
        return found


def check_secrets(values: Collection[str]) -> list[str]:
    """Return the user's `secrets` without empty ones, which come from variables that are not set.

    Raises:
        CassetteError: A value is not a string, or is too short to be found in other text.
    """
    if isinstance(values, str):
        raise CassetteError("secrets must be a list of strings. Put a single secret into a list.")
    given = [value for value in values if value]
    for value in given:
        if not isinstance(value, str):
            raise CassetteError(f"secrets must be a list of strings, not a {type(value).__name__}.")
        if len(value.strip()) < MIN_LENGTH:
            raise CassetteError(
                f"A value in secrets has {len(value)} characters; at least {MIN_LENGTH} are needed "
                "to find it in other text. Keep shorter secrets out of what the program sends."
            )
    return given


def credentials_in(headers: Mapping[str, Any], uri: str = "") -> list[str]:
    """Return the credentials in a request's headers and address."""
    return private_values(headers) + credentials_in_address(uri)


def credentials_in_body(raw: bytes, value: object) -> list[str]:
    """Return the credentials in tools, such as headers of MCP servers, and in OAuth's fields."""
    if isinstance(value, dict):
        return [*_credentials_in(value.get("tools")), *oauth_secrets(value)]
    is_form = b"grant_type=" in raw and len(raw.split()) == 1  # a form encodes its spaces
    return oauth_secrets(dict(parse_qsl(raw.decode("latin-1")))) if is_form else []


def _credentials_in(value: object) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _credentials_in(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key == "headers" and isinstance(item, dict):
                yield from private_values(item)
            elif key.lower() in {"api_key", "apikey"} and isinstance(item, str):
                yield item
            elif key != "functionDeclarations" and value.get("type") != "function":
                yield from _credentials_in(item)


def _long_enough(values: Iterable[str]) -> set[str]:
    return {value.strip() for value in values if len(value.strip()) >= MIN_LENGTH}


# Addresses.

GEMINI_PATH = re.compile(
    r"/v\d\w*/(?:projects/[^/]+/locations/|publishers/google/|cachedContents\b|interactions(?:/|$)"
    r"|(?:models|tunedModels)/[^/]+:(?:[a-z]+[A-Z]|predict))"
)
"""Paths that only Gemini has. Other APIs have `/v1/models` and `/v4/projects/7`, too."""
PROJECT = re.compile(r"(?<=/projects/)[^/]+(?=/locations/)")
"""The project in an address of Vertex AI."""

_GOOGLE = re.compile(r"(?:.+\.)?googleapis\.com")
_ALREADY_REDACTED = re.compile(r"\[redacted(?:-[0-9a-f]{4})?\]")
_MAX_WORD = 15


def is_gemini(uri: str) -> bool:
    """Return whether an address is one of Gemini's, on whichever host."""
    return bool(GEMINI_PATH.search(urlsplit(uri).path))


def credentials_in_address(uri: str) -> list[str]:
    """Return the query parameters of an address that are credentials, or may be."""
    query = parse_qsl(urlsplit(uri).query)
    return [value for name, value in query if _may_be_credential(name, value, uri)]


def has_credential_name(name: str) -> bool:
    """Return whether a query parameter of this name may be a credential."""
    return name.lower() in SECRET_PARAMETERS | AMBIGUOUS_PARAMETERS


def _may_be_credential(name: str, value: str, uri: str) -> bool:
    """Return whether a query parameter must be kept out of files."""
    if len(value) < MIN_LENGTH or _ALREADY_REDACTED.fullmatch(value):
        return False
    return has_credential_name(name) and (_is_credential(name, uri) or not _is_words(value))


def _is_credential(name: str, uri: str) -> bool:
    """Return whether a query parameter of this name can only be a credential."""
    is_google = is_gemini(uri) or bool(_GOOGLE.fullmatch(urlsplit(uri).hostname or ""))
    return name.lower() in SECRET_PARAMETERS or (is_google and name.lower() in AMBIGUOUS_PARAMETERS)


def _is_words(value: str) -> bool:
    """Return whether a value is words, such as `san-francisco`. Keys have digits or mixed case."""
    found = [word for word in re.split(r"[\W_]+", value) if word]
    return bool(found) and all(
        word.isalpha()
        and len(word) <= _MAX_WORD
        and word in (word.lower(), word.upper(), word.title())
        for word in found
    )


# Encodings in which a credential may be hidden.

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")
_BASE64_LINES = re.compile(r"(?<![A-Za-z0-9+/])(?:[A-Za-z0-9+/]{20,}+\s++)+[A-Za-z0-9+/]*+")
_HEX = re.compile(r"[0-9a-fA-F]{30,}")
_WIDE = re.compile(r"(?:[ -~]\0{1,3}){7,}[ -~]?")  # UTF-16 and UTF-32, in both byte orders
_ESCAPE = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(["\\/nrt]))')
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}
_GZIP = b"\x1f\x8b"
_MAX_INFLATED = 16_000_000
_MAX_LAYERS = 2  # a file in base64 may contain base64


def _decodings(text: str) -> Iterator[tuple[str, str]]:
    """Yield the text itself and everything that is encoded in it, each with the encoding's name."""
    views = {text: ""}
    if "%" in text:
        views.setdefault(unquote(text), " (in an address)")
    if "\\" in text:
        views.setdefault(_unescape(text), " (escaped)")
    for view, how in views.items():
        yield how, view
        yield from _decode_layers(view, _MAX_LAYERS)


def _unescape(text: str) -> str:
    """Undo JSON's escapes, also in JSON inside JSON."""
    for _ in range(3):
        text = _ESCAPE.sub(_unescape_one, text)
    return text


def _unescape_one(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16)) if escape[1] else _ESCAPED.get(escape[2], escape[2])


def _decode_layers(text: str, layers: int) -> Iterator[tuple[str, str]]:
    for found in _WIDE.findall(text):
        yield " (in UTF-16)", found.replace("\0", "")
    for how, raw in _decode_bytes(text):
        inside = raw.decode("latin-1")
        yield how, inside
        if layers > 1:
            yield from _decode_layers(inside, layers - 1)


def _decode_bytes(text: str) -> Iterator[tuple[str, bytes]]:
    """Yield the bytes that are written as base64 or hex in a text."""
    lines = ["".join(found.split()) for found in _BASE64_LINES.findall(text)]
    for encoded in (*_BASE64.findall(text), *lines):
        raw = _decode_base64(encoded)
        yield " (inside base64)", raw
        if raw.startswith(_GZIP):
            yield " (compressed)", _decompress(raw)
    for encoded in _HEX.findall(text):
        for start in (0, 1):
            whole = encoded[start : start + (len(encoded) - start) // 2 * 2]
            yield " (as hex)", bytes.fromhex(whole)


def _decode_base64(encoded: str) -> bytes:
    standard = encoded.rstrip("=").replace("-", "+").replace("_", "/")
    if len(standard) % 4 == 1:  # a letter of something else
        standard = standard[:-1]
    return base64.b64decode(standard + "=" * (-len(standard) % 4))


def _decompress(raw: bytes) -> bytes:
    with suppress(zlib.error):
        return zlib.decompressobj(wbits=31).decompress(raw, _MAX_INFLATED)
    return b""


# Saving.


def render_recording(cassette: JsonObject, serializer: Any, secrets: Iterable[str] = ()) -> str:
    """Return the text to save: everything that a replay needs, without credentials.

    Args:
        cassette: What vcrpy recorded.
        serializer: vcrpy's serializer.
        secrets: Values to redact, in addition to the credentials.

    Raises:
        SecretFoundError: The text still contains something that looks like a credential.
    """
    from vcr.serialize import serialize

    values = [*secrets, *environment_secrets()]
    for request in cassette["requests"]:
        values += credentials_in(request.headers)
    bodies = [*map(body_bytes, cassette["requests"])]
    bodies += [_decode_content(response)[0] for response in cassette["responses"]]
    values += [v for raw in bodies for v in credentials_in_body(raw, parse_json(raw))]
    maybe = [v for request in cassette["requests"] for v in credentials_in_address(request.uri)]
    redactor = Redactor(values, maybe)
    responses = [_redact_response(response, redactor) for response in cassette["responses"]]
    received = b"".join(response["body"]["string"] for response in responses)
    requests = [_redact_request(request, redactor, received) for request in cassette["requests"]]
    _check_for_secrets(requests, responses, redactor)
    redacted = {**cassette, "requests": requests, "responses": responses}
    return str(serialize(redacted, serializer))


def _redact_request(request: Any, redactor: Redactor, received: bytes) -> Any:
    headers = _harmless(request.headers, REQUEST_HEADERS, redactor)
    form = _redact_body(body_bytes(request), redactor)
    if form and "json" in form:
        ids = _tool_call_ids(form["json"])
        from_api = {one for one in ids if not _UUID.fullmatch(one) or one.encode() in received}
        form = {"json": renumber_call_ids(form["json"], from_api)}
    uri = redactor.uri(_without_local_port(request.uri))
    return type(request)(request.method.upper(), uri, parse_body(form), headers)


def _redact_response(response: JsonObject, redactor: Redactor) -> JsonObject:
    raw, headers = _decode_content(response)
    return {
        "status": response["status"],
        "headers": _harmless(headers, RESPONSE_HEADERS, redactor),
        "body": {"string": parse_body(_redact_body(raw, redactor))},
    }


def _redact_body(raw: bytes, redactor: Redactor) -> JsonObject | None:
    form = render_body(raw)
    if form is None or "base64" in form:  # binary: checked for secrets, but not changed
        return form
    redacted: JsonObject = redactor.value(form)
    return redacted


def _harmless(headers: Any, allowed: frozenset[str], redactor: Redactor) -> JsonObject:
    kept = {name.lower(): value for name, value in headers.items() if name.lower() in allowed}
    return {
        name: [redactor.text(str(v)) for v in ([value] if isinstance(value, str) else value)]
        for name, value in kept.items()
    }


def _decode_content(response: JsonObject) -> tuple[bytes, JsonObject]:
    """Return the decompressed body, and the headers that apply to it."""
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
        with suppress(library.DecodingError):  # aiohttp passes bodies on decompressed
            raw = library.Response(200, headers={"content-encoding": names}, content=raw).content
        return raw, headers
    return raw, {**headers, "content-encoding": encoding}


def _check_for_secrets(
    requests: list[Any], responses: list[JsonObject], redactor: Redactor
) -> None:
    found: list[str] = []
    for number, (request, response) in enumerate(zip(requests, responses, strict=True), start=1):
        interaction = {
            "request": {"uri": request.uri, "body": render_body(request.body)},
            "response": {**response, "body": render_body(response["body"]["string"])},
        }
        leaks = redactor.interaction_leaks(interaction)
        found += [f"interaction {number}, {leak}" for leak in leaks]
    if found:
        more = f" (and {len(found) - 5} more)" if len(found) > 5 else ""
        raise SecretFoundError(
            "The recording contains something that looks like a credential, so it was not saved: "
            f"{'; '.join(found[:5])}{more}. Remove it from what the program sends, and record "
            "again."
        )


def _without_local_port(uri: str) -> str:
    """Return an address of this machine without its port, which changes from run to run."""
    split = urlsplit(uri)
    if is_gemini(uri) and LOOPBACK.fullmatch(split.hostname or ""):
        return urlunsplit((split.scheme, "127.0.0.1", split.path, split.query, ""))
    return uri


# Bodies of requests.

_CALL_FIELDS = ("functionCall", "functionResponse")
_MIN_ID_LENGTH = 8  # shorter ones may be words of a text
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""The form of ids that a client generates where the API sends none."""


def body_bytes(request: Any) -> bytes:
    """Return the body, in whichever form an HTTP library passed it to vcrpy."""
    body = request.body
    if isinstance(body, (dict, list)):
        return json.dumps(body).encode()
    if hasattr(body, "read"):
        body = body.read()
    if body is not None and not isinstance(body, (str, bytes, bytearray)):
        body = b"".join(part.encode() if isinstance(part, str) else part for part in body)
    return body.encode() if isinstance(body, str) else bytes(body or b"")


def renumber_call_ids(body: object, kept: Collection[str] = ()) -> Any:
    """Replace the ids of tool calls by numbers, in the order in which they appear.

    Args:
        body: A request.
        kept: Ids to keep, because the API generated them.
    """
    names: dict[str, str] = {}
    for call_id in _tool_call_ids(body):
        if call_id not in kept:
            names.setdefault(call_id, f"call-{len(names) + 1}")
    return _renamed(body, names) if names else body


def _tool_call_ids(value: object) -> Iterator[str]:
    """Yield the ids of the tool calls in a body, and of the responses to them."""
    match value:
        case dict():
            for key, item in value.items():
                call_id = item.get("id") if key in _CALL_FIELDS and isinstance(item, dict) else None
                if isinstance(call_id, str):
                    yield call_id
                yield from _tool_call_ids(item)
        case list():
            for item in value:
                yield from _tool_call_ids(item)


def _renamed(value: object, names: dict[str, str]) -> Any:
    match value:
        case str():
            for call_id, name in names.items():
                if len(call_id) >= _MIN_ID_LENGTH:
                    value = value.replace(call_id, name)
            return value
        case dict():
            return {
                key: _renamed(item, names) | _new_id(item, names)
                if key in _CALL_FIELDS and isinstance(item, dict)
                else _renamed(item, names)
                for key, item in value.items()
            }
        case list():
            return [_renamed(item, names) for item in value]
        case _:
            return value


def _new_id(call: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {"id": names[call["id"]]} if call.get("id") in names else {}
