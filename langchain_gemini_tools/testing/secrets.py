"""What no file may hold: credentials, and whatever is shaped like one.

Headers are kept from a short list of harmless ones. Everything else that is written is searched for
the values of the credentials that were used, in every form they are likely to have, and for known
shapes. What is still found afterwards (inside base64, for one) is a reason not to save.
"""

from __future__ import annotations

import base64
import json
import os
import re
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlencode, urlsplit, urlunsplit

from langchain_gemini_tools.testing.addresses import (
    MIN_LENGTH,
    PROJECT,
    REDACTED,
    credentials_in_address,
    is_gemini,
    may_be_credential,
    redacted,
)
from langchain_gemini_tools.testing.errors import CassetteError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

KEY_VARIABLES = ("GOOGLE_API_KEY", "GEMINI_API_KEY")

REQUEST_HEADERS = frozenset({"content-type"})
RESPONSE_HEADERS = frozenset({"content-type", "content-encoding", "retry-after", "server"})
"""The headers that are kept. What a client does not need to replay is left out."""


def _shape(start: str, rest: str, before: str = "A-Za-z0-9+/") -> re.Pattern[str]:
    """What begins like this, but not in the middle of base64.

    Thought signatures are long enough to hold anything by chance. The start stands first, so that
    megabytes are searched at once.
    """
    return re.compile(rf"{start}(?<![{before}]{start}){rest}")


_NOR_AFTER_SIGNS = r"\w+/-"  # for short starts: base64 for addresses has - and _ in it

SHAPES = {
    "a Google API key": [_shape("AIza", r"[\w-]{30,}"), _shape("AQ[.]", r"[\w-]{20,}")],
    "a Google OAuth token": [_shape("ya29[.]", r"[\w.-]{10,}")],
    "a Google OAuth secret": [_shape("GOCSPX-", r"[\w-]{20,}")],
    "a bearer token": [re.compile(r"[Bb](?:earer|EARER)\s+[\w.~+/-]{16,}=*")],
    "a private key": [
        re.compile(
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:(?!-----END).)*(?:-----END [A-Z ]*-----)?",
            re.DOTALL,
        )
    ],
    "a signed token (JWT)": [_shape("eyJ", r"[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}")],
    "another vendor's key": [
        _shape("sk-", r"[\w-]{20,}", _NOR_AFTER_SIGNS),
        _shape("gh[oprsu]_", r"\w{36}", _NOR_AFTER_SIGNS),
        _shape("github_pat_", r"\w{40,}"),
        _shape("AKIA", "[0-9A-Z]{16}"),
        _shape("lsv2_", r"\w{20,}"),
        _shape("xox[abprs]-", r"[\w-]{20,}"),
    ],
}
"""Strings that are taken for credentials wherever they stand."""

_SECRET_NAMES = re.compile(r"auth|key|token|cookie|secret|password|signature", re.IGNORECASE)
_SCHEME = re.compile(r"^[A-Za-z-]+ +(?=\S+$)")  # "Bearer ", "Basic "
_HTML_SIGNS = re.compile("[<>&='\"]")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")
_BASE64_LINES = re.compile(r"(?<![A-Za-z0-9+/])(?:[A-Za-z0-9+/]{20,}+\s++)++[A-Za-z0-9+/]*+")
_HEX = re.compile(r"[0-9a-fA-F]{30,}")
_WIDE = re.compile(r"(?:[ -~]\0{1,3}){7,}[ -~]?")  # UTF-16 and UTF-32, from either end
_ESCAPE = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(["\\/nrt]))')
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}
_GZIP = b"\x1f\x8b"
_MAX_INFLATED = 16_000_000
_MAX_LAYERS = 2  # a file in base64 may hold base64


class Scrubber:
    """Takes credentials out of anything that is about to be written."""

    def __init__(self, values: Iterable[str] = (), maybe: Iterable[str] = ()) -> None:
        """Take out these values.

        Args:
            values: Credentials.
            maybe: What may be one, or what is asked for; in an address it is marked.
        """
        self._known = _long_enough(values)
        forms = {form for value in self._known | _long_enough(maybe) for form in _forms(value)}
        self._forms = sorted(forms, key=len, reverse=True)

    def text(self, text: str) -> str:
        """The text without them."""
        for form in self._forms:
            text = text.replace(form, REDACTED)
        for shapes in SHAPES.values():
            for shape in shapes:
                text = shape.sub(REDACTED, text)
        return text

    def value(self, value: Any) -> Any:
        """JSON without them, names of fields included."""
        match value:
            case str():
                return self.text(value)
            case dict():
                return {self.text(str(key)): self.value(item) for key, item in value.items()}
            case list():
                return [self.value(item) for item in value]
            case _:
                return value

    def uri(self, uri: str) -> str:
        """The address without credentials, and without the project that pays for the call."""
        split = urlsplit(uri)
        kept = [
            (name, self._parameter(name, value, uri))
            for name, value in parse_qsl(split.query, keep_blank_values=True)
            if not (is_gemini(uri) and may_be_credential(name, value, uri))
        ]
        host = split.netloc.rpartition("@")[2]
        path = self.text(PROJECT.sub("project", split.path))
        return urlunsplit((split.scheme, host, path, urlencode(kept, safe="$"), ""))

    def _parameter(self, name: str, value: str, uri: str) -> str:
        if not may_be_credential(name, value, uri):
            return self.text(value)
        is_known = value.strip() in self._known or _is_shaped(value)
        return REDACTED if is_known else redacted(name, value, uri)

    def leaks(self, value: Any, place: str = "") -> Iterator[str]:
        """Where something is left that looks like a credential, and what it looks like."""
        match value:
            case str():
                for kind in dict.fromkeys(self._kinds_in(value)):
                    yield f"{place or 'the text'}: {kind}"
            case dict():
                for key, item in value.items():
                    yield from self.leaks(str(key), f"{place}, a field's name")
                    yield from self.leaks(item, f"{place}.{key}" if place else str(key))
            case list():
                for number, item in enumerate(value):
                    yield from self.leaks(item, f"{place}[{number}]")

    def _kinds_in(self, text: str) -> Iterator[str]:
        found: dict[str, str] = {}
        for how, read in _readings(text):
            for kind, shapes in SHAPES.items():
                if kind not in found and any(shape.search(read) for shape in shapes):
                    found[kind] = how
            if any(form in read for form in self._forms):
                found.setdefault("the credential that was used", how)
        yield from (kind + how for kind, how in found.items())


def checked_secrets(values: Collection[str]) -> list[str]:
    """The values that a user wants to see in no file; a variable that is not set gives none.

    Raises:
        CassetteError: A value that cannot be told from other text.
    """
    if isinstance(values, str):
        raise CassetteError("secrets has to be a list of values: put a single one into a list.")
    given = [value for value in values if value]
    for value in given:
        if len(value.strip()) < MIN_LENGTH:
            raise CassetteError(
                f"One of secrets has {len(value)} characters. It takes {MIN_LENGTH} to tell a "
                "secret from other text: keep a shorter one out of what the program sends."
            )
    return given


def credentials_in(headers: Mapping[str, Any], uri: str = "") -> list[str]:
    """The values in a request that are credentials."""
    found = [
        text
        for name, value in headers.items()
        if _SECRET_NAMES.search(_as_text(name))
        for text in map(_as_text, value if isinstance(value, (list, tuple)) else [value])
    ]
    return [_SCHEME.sub("", value) for value in [*found, *credentials_in_address(uri)]]


def _long_enough(values: Iterable[str]) -> set[str]:
    return {value.strip() for value in values if len(value.strip()) >= MIN_LENGTH}


def _is_shaped(value: str) -> bool:
    return any(shape.fullmatch(value) for shapes in SHAPES.values() for shape in shapes)


def _as_text(given: Any) -> str:
    return given.decode("latin-1") if isinstance(given, bytes) else str(given)


def credentials_of_the_environment() -> list[str]:
    """The keys that calls are made with when nothing else is said."""
    return [value for value in map(os.environ.get, KEY_VARIABLES) if value]


def _forms(secret: str) -> Iterator[str]:
    """The secret as it is, as JSON may write it, in an address, as hex, and inside base64."""
    as_html = _HTML_SIGNS.sub(lambda sign: f"\\u{ord(sign[0]):04x}", secret)
    for written in (secret, as_html, secret.replace("/", "\\/"), json.dumps(secret)[1:-1]):
        yield from (written, json.dumps(written)[1:-1])  # and as JSON inside JSON
    yield from (quote(secret, safe=""), quote(secret), quote_plus(secret))
    yield from (secret.encode().hex(), secret.encode().hex().upper())
    for shift in range(3):
        # Three bytes are four letters. The letters at both ends also depend on their neighbours.
        raw = b"\0" * shift + secret.encode()
        whole = base64.b64encode(raw[: len(raw) // 3 * 3]).decode()
        core = whole[4:] if shift else whole
        if len(core) >= MIN_LENGTH:
            yield from (core, core.replace("+", "-").replace("/", "_"))


def _readings(text: str) -> Iterator[tuple[str, str]]:
    """The text, and what it hides from a simple search."""
    views = {text: ""}
    if "%" in text:
        views.setdefault(unquote(text), " (in an address)")
    if "\\" in text:
        views.setdefault(_unescaped(text), " (escaped)")
    for view, how in views.items():
        yield how, view
        yield from _hidden_in(view, _MAX_LAYERS)


def _unescaped(text: str) -> str:
    """The text as JSON means it, also where JSON stands inside of JSON."""
    for _ in range(3):
        text = _ESCAPE.sub(_meant, text)
    return text


def _meant(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16)) if escape[1] else _ESCAPED.get(escape[2], escape[2])


def _hidden_in(text: str, layers: int) -> Iterator[tuple[str, str]]:
    """What is encoded in a text, and what is encoded in that."""
    for found in _WIDE.findall(text):
        yield " (in UTF-16)", found.replace("\0", "")
    for how, raw in _decoded(text):
        inside = raw.decode("latin-1")
        yield how, inside
        if layers > 1:
            yield from _hidden_in(inside, layers - 1)


def _decoded(text: str) -> Iterator[tuple[str, bytes]]:
    """The bytes that are written as base64 or hex in a text."""
    lines = ["".join(found.split()) for found in _BASE64_LINES.findall(text)]
    for encoded in (*_BASE64.findall(text), *lines):
        raw = _from_base64(encoded)
        yield " (inside base64)", raw
        if raw.startswith(_GZIP):
            yield " (compressed)", _inflated(raw)
    for encoded in _HEX.findall(text):
        for start in (0, 1):
            whole = encoded[start : start + (len(encoded) - start) // 2 * 2]
            yield " (as hex)", bytes.fromhex(whole)


def _from_base64(encoded: str) -> bytes:
    standard = encoded.rstrip("=").replace("-", "+").replace("_", "/")
    if len(standard) % 4 == 1:  # a letter of something else
        standard = standard[:-1]
    return base64.b64decode(standard + "=" * (-len(standard) % 4))


def _inflated(raw: bytes) -> bytes:
    with suppress(zlib.error):
        return zlib.decompressobj(wbits=31).decompress(raw, _MAX_INFLATED)
    return b""
