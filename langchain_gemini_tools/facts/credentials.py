"""Credentials: what they look like, which are in use, and the only function that hides them.

Errors, logs, cassettes and traces all call `redact`. To hide another kind of credential, add a row
to `PATTERNS`. Loggers of other packages that show credentials are silenced.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import quote, quote_plus, unquote
from weakref import WeakValueDictionary

from langchain_gemini_tools.facts.environment import environment_secrets

if TYPE_CHECKING:
    from collections.abc import Collection

REDACTED = "[redacted]"

FAKE_KEY, FAKE_TOKEN = "fake-gemini-key", "fake-gemini-token"
"""What `FakeGemini` puts in place of a key or a token. They are sent to this machine only."""

MIN_LENGTH = 8
"""Shorter values are not treated as secrets: replacing them would damage unrelated words."""

SECRET_PARAMETERS = frozenset({"api_key", "apikey", "access_token", "signature"})
"""Query parameters that are always credentials."""
AMBIGUOUS_PARAMETERS = frozenset({"key", "token"})
"""Query parameters that are credentials for Google, but may be search terms for other APIs."""

CREDENTIALS_SECRETS = ("token", "refresh_token", "client_secret", "id_token")
"""Attributes of the credentials of `google.auth`. All but the first are sent to the token endpoint,
whose errors may quote them."""

_ISSUED = ("access_token", "id_token", "refresh_token")
_PRESENTED = ("assertion", "client_assertion", "client_secret", "code", "password", "subject_token")
"""Fields of OAuth (RFC 6749, 7521, 8693): what a token endpoint returns, and what it is sent."""

KEY_HEADER, TOKEN_HEADER = "x-goog-api-key", "authorization"
_SECRET_HEADERS = re.compile(r"auth|key|token|cookie|secret|password|signature", re.IGNORECASE)
_HARMLESS_HEADERS = frozenset(
    {
        "accept",
        "accept-encoding",
        "accept-language",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "host",
        "transfer-encoding",
        "user-agent",
        "x-goog-api-client",
        "x-goog-request-params",
        "x-goog-user-project",
        "x-vertex-ai-llm-request-type",
        "x-vertex-ai-llm-shared-request-type",
        "x-server-timeout",
    }
)
"""Headers whose values are known to be harmless. Gateways use any other name for credentials."""
_NEW_IN_EACH_REQUEST = frozenset(
    {
        "baggage",
        "traceparent",
        "tracestate",
        "x-cloud-trace-context",
        "x-correlation-id",
        "x-request-id",
    }
)
"""Headers that identify one request, not what is requested or by whom."""
_AUTH_SCHEME = re.compile(r"^[A-Za-z-]+ +(?=\S+$)")  # "Bearer ", "Basic "


# Patterns.

_IN_BASE64 = ("[A-Za-z0-9+/]{16}", r"[\w-]{64}")
"""Thought signatures and images are base64, and long enough to contain any start by chance. Names
with hyphens look like base64url: only a longer run of it is certain to be data."""
_IN_WORD = (r"[\w+/-]",)
"""For short starts, which ordinary words and base64url contain."""


class Pattern(NamedTuple):
    """A credential that can be recognized by how it begins."""

    kind: str
    """What the credential is, for messages: "a Google API key"."""
    start: str
    """How it begins, literally. Texts without it are not searched any further."""
    rest: str
    """A regular expression for the rest; its cost must grow linearly with the text."""
    not_after: tuple[str, ...] = _IN_BASE64
    """What must not stand before it: regular expressions of fixed width. Empty: anything may."""


PATTERNS = (
    Pattern("a Google API key", "AIza", r"[\w-]{10,}"),
    Pattern("a Google API key", "AQ.", r"[\w-]{20,}", _IN_WORD),
    Pattern("a Google OAuth token", "ya29.", r"[\w.-]{8,}", _IN_WORD),
    Pattern("a Google OAuth secret", "GOCSPX-", r"[\w-]{10,}"),
    *(
        # Words such as "Bearer authentication" are shorter and have no digits.
        Pattern(
            "a bearer token",
            word,
            r"\s+(?:[\w.~+/-]{16,}|(?=[\w.~+/-]*\d)[\w.~+/-]{8,})=*",
            not_after=(),
        )
        for word in ("Bearer", "bearer", "BEARER")
    ),
    Pattern(
        "a private key",
        "-----BEGIN ",
        r"[A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*-----|(?=-----END)|\Z)",
        not_after=(),
    ),
    Pattern("a signed token (JWT)", "eyJ", r"[\w-]{10,1000}+\.eyJ[\w-]{10,}+\.[\w-]{10,}"),
    Pattern(
        "another vendor's key",
        "sk-",
        r"(?=[\w-]*(?:\d|\w{20}))[\w-]{20,}",  # not a name such as sk-learn-text-classifier
        _IN_WORD,
    ),
    Pattern("another vendor's key", "gh", r"[oprsu]_\w{36}", _IN_WORD),
    Pattern("another vendor's key", "github_pat_", r"\w{40,}"),
    Pattern("another vendor's key", "AKIA", r"[0-9A-Z]{16}"),
    Pattern("another vendor's key", "lsv2_", r"\w{20,}"),
    Pattern("another vendor's key", "xox", r"[abprs]-[\w-]{20,}"),
)
"""Strings that are treated as credentials wherever they appear. One row per pattern."""


@lru_cache(maxsize=256)
def _compiled(pattern: Pattern) -> re.Pattern[str]:
    """Compile a row. Its literal start comes first, which lets `re` skip to it quickly."""
    start = re.escape(pattern.start)
    if not pattern.not_after:
        return re.compile(start + pattern.rest, re.ASCII)
    # The letters of an escape (%3D, \n, \u0041) are not part of the text before the credential.
    escapes = (r"%[0-9A-Fa-f]{2}", r"\\[bfnrt/]", r"\\u[0-9A-Fa-f]{4}")
    allowed = "|".join(f"(?<={escape}{start})" for escape in escapes)
    outside = "".join(f"(?<!{before}{start})" for before in pattern.not_after)
    place = f"(?:{outside}|{allowed})"
    return re.compile(start + place + pattern.rest, re.ASCII)


def kinds_in(text: str) -> list[str]:
    """Return the kinds of credentials that appear in a text, such as "a Google API key"."""
    found = (
        pattern.kind
        for pattern in PATTERNS
        if pattern.start in text and _compiled(pattern).search(text)
    )
    return list(dict.fromkeys(found))


def is_credential(value: str) -> bool:
    """Return whether the whole value matches one of the patterns."""
    return any(_compiled(pattern).fullmatch(value) for pattern in PATTERNS)


# Redaction.

# Characters that JSON may escape but need not: Google's servers escape those of HTML. An escaped
# backslash is skipped, because what follows it is not an escape.
_NEEDLESS_ESCAPE = re.compile(r"\\\\|\\/|\\u00(?!22|5c|7f)([2-7][0-9a-f])", re.IGNORECASE)
# HTML templates write the signs of base64 as numbers. "&" is left: it may begin one.
_NUMBERED_SIGN = re.compile(
    r"&#(?:x0*(?!22|26|5c|7f)([2-7][0-9a-f])|0*(?!34|38|92)(3[2-9]|[4-9]\d|1[01]\d|12[0-6]));",
    re.IGNORECASE,
)


def redact(text: str, secrets: Collection[str] = ()) -> str:
    """Replace credentials in a text by `[redacted]`; leave everything else as it is.

    Args:
        text: Any text. The cost grows linearly with its length.
        secrets: Credentials in use. They are replaced in every form of `forms`; what matches one
            of `PATTERNS` is replaced in any case.
    """
    return _redact(text, forms(secrets))


def redact_json(value: Any, secrets: Collection[str] = ()) -> Any:
    """Redact every string of a JSON value, names of fields included."""
    return _redact_json(value, forms(secrets))


def _redact_json(value: Any, known: tuple[str, ...]) -> Any:
    if isinstance(value, str):
        return _redact(value, known)
    if isinstance(value, dict):
        return {_redact_json(key, known): _redact_json(item, known) for key, item in value.items()}
    if isinstance(value, list):
        return [_redact_json(item, known) for item in value]
    return value


def _redact(text: str, known: tuple[str, ...]) -> str:
    plain = text = _replace(text, known)
    for start, escape in (("\\", _NEEDLESS_ESCAPE), ("&#", _NUMBERED_SIGN)):
        if start in plain:
            plain = escape.sub(_unescape, plain)
            redacted = _replace(plain, known)
            if redacted != plain:  # an escape was hiding something
                plain = text = redacted
    return text


def _replace(text: str, known: tuple[str, ...]) -> str:
    for form in known:
        text = text.replace(form, REDACTED)
    for pattern in PATTERNS:
        if pattern.start in text:
            text = _compiled(pattern).sub(REDACTED, text)
    return text


def _unescape(escape: re.Match[str]) -> str:
    if escape.lastindex:
        return chr(int(escape[escape.lastindex], 16 if escape.lastindex == 1 else 10))
    return "/" if escape[0] == "\\/" else escape[0]


# Forms of a secret.

_HTML = {ord(sign): name for sign, name in zip("&<>", ("&amp;", "&lt;", "&gt;"), strict=True)}
_HTML_QUOTES: tuple[dict[int, str], ...] = (
    {ord('"'): "&quot;", ord("'"): "&#x27;"},
    {ord('"'): "&#34;", ord("'"): "&#39;"},
    {ord('"'): "&quot;", ord("'"): "&apos;"},
    {},
)
_HTML_SIGNS = re.compile("[<>&='\"]")
_PERCENT = re.compile("%[0-9A-F]{2}")


def forms(secrets: Collection[str], min_length: int = MIN_LENGTH) -> tuple[str, ...]:
    """Return the ways in which secrets may be written, longest first.

    As they are, without surrounding space, as Python and JSON quote them, percent-encoded,
    HTML-escaped, in hex, and in base64, also where the secret is part of what is encoded.

    Args:
        secrets: The secrets.
        min_length: Shorter ones are ignored.
    """
    return _all_forms(tuple(secrets), min_length) if secrets else ()


@lru_cache(maxsize=64)
def _all_forms(secrets: tuple[str, ...], min_length: int) -> tuple[str, ...]:
    usable = {secret for secret in secrets if len(secret.strip()) >= min_length}
    found = {
        form
        for secret in usable | {secret.strip() for secret in usable}
        for form in (
            *quoted_forms(secret),
            *_in_html(secret),
            *_in_addresses(secret),
            *_encoded(secret),
        )
    }
    useful = (form for form in found if form not in REDACTED)
    return tuple(sorted(useful, key=lambda form: (-len(form), form)))


def quoted_forms(secret: str) -> Iterator[str]:
    """Yield a secret as it is, and as Python and JSON quote it."""
    yield repr(secret)[1:-1]
    html_signs = _HTML_SIGNS.sub(lambda sign: f"\\u{ord(sign[0]):04x}", secret)
    for written in (secret, html_signs, secret.replace("/", "\\/"), json.dumps(secret)[1:-1]):
        yield from (written, json.dumps(written)[1:-1])  # and as JSON inside JSON


def _in_html(secret: str) -> Iterator[str]:
    for quotes in _HTML_QUOTES:
        yield secret.translate(_HTML | quotes)


def _in_addresses(secret: str) -> Iterator[str]:
    for encoded in (
        quote(secret, safe="", errors="surrogatepass"),
        quote(secret, errors="surrogatepass"),
        quote(secret, safe="!'()*", errors="surrogatepass"),  # as JavaScript does
        quote_plus(secret, errors="surrogatepass"),
    ):
        for written in (encoded, _PERCENT.sub(lambda code: code[0].lower(), encoded)):
            yield from (written, written.replace("%", "%25"))  # and in an address in an address


def _encoded(secret: str) -> Iterator[str]:
    raw = secret.encode(errors="surrogatepass")
    yield from (raw.hex(), raw.hex().upper())
    yield from _both_alphabets(base64.b64encode(raw).decode().rstrip("="))
    for shift in range(3):
        # Three bytes are four letters. The letters at both ends also depend on their neighbours.
        shifted = b"\0" * shift + raw
        letters = base64.b64encode(shifted[: len(shifted) // 3 * 3]).decode()
        core = letters[4:] if shift else letters
        if len(core) >= MIN_LENGTH:
            yield from _both_alphabets(core)


def _both_alphabets(letters: str) -> tuple[str, str]:
    return letters, letters.replace("+", "-").replace("/", "_")


# Secrets in use.


class HasSecrets(Protocol):
    """What has credentials, such as the settings of a client."""

    @property
    def secrets(self) -> Collection[str]:
        """The credentials."""


_in_use: WeakValueDictionary[int, HasSecrets] = WeakValueDictionary()


def remember(owner: HasSecrets) -> None:
    """Count the secrets of an object among those in use, for as long as the object exists."""
    _in_use[id(owner)] = owner


def secrets_in_use() -> list[str]:
    """Return the keys of the environment and the credentials of all clients that exist."""
    found = dict.fromkeys(environment_secrets())
    for owner in list(_in_use.values()):
        found.update(dict.fromkeys(owner.secrets))
    return list(found)


def private_values(headers: Mapping[Any, Any]) -> list[str]:
    """Return what may be a credential in the headers of a request, whatever their names say.

    Args:
        headers: Names and values, as text or bytes; a value may be a list. "Bearer x" counts as
            "x".
    """
    return [
        value
        for name, value in _values(headers)
        if _SECRET_HEADERS.search(name)
        or (name.lower() not in _HARMLESS_HEADERS and len(value) >= MIN_LENGTH)
    ]


def oauth_secrets(fields: Mapping[str, Any]) -> list[str]:
    """Return the credentials in a request to a token endpoint, or in its response.

    A word in lower case, such as "password" in an example, is not a credential.
    """
    names = (*_ISSUED, *_PRESENTED) if "grant_type" in fields else _ISSUED
    values = [value for name in names if isinstance(value := fields.get(name), str)]
    return [value for value in values if not (value.isalpha() and value.islower())]


def argument_secrets(arguments: Mapping[str, Any]) -> list[str]:
    """Return what may be a credential in the arguments of an HTTP client.

    Args:
        arguments: `headers`, `cookies`, `auth`, `proxy` and others, as httpx takes them.
    """
    found = private_values(_pairs(arguments.get("headers")))
    found += [_as_text(value) for value in _pairs(arguments.get("cookies")).values()]
    proxy = arguments.get("proxy")
    for auth in (arguments.get("auth"), getattr(proxy, "auth", None)):
        found += _auth_secrets(auth)
    if isinstance(proxy, str):  # not parsed: it may be invalid
        password = proxy.partition("://")[2].rpartition("@")[0].partition(":")[2]
        found += [password, unquote(password)]
    return [value for value in found if len(value) >= MIN_LENGTH]


def _auth_secrets(auth: Any) -> list[str]:
    """Return the password of a tuple, or what an object of an HTTP library holds, such as one."""
    if isinstance(auth, tuple):
        return [_as_text(auth[1])] if len(auth) == 2 else []
    held = [
        _AUTH_SCHEME.sub("", _as_text(value))
        for name, value in getattr(auth, "__dict__", {}).items()
        if isinstance(value, str | bytes) and "user" not in name
    ]
    return held + [password for value in held if (password := _basic_password(value))]


def _basic_password(value: str) -> str:
    """Return the password of "user:password" in base64, as HTTP's Basic scheme writes it."""
    try:
        return base64.b64decode(value, validate=True).decode().partition(":")[2]
    except ValueError:
        return ""


def _pairs(given: Any) -> dict[Any, Any]:
    """Return names and values of a mapping or a list of pairs; nothing of anything else."""
    try:
        return dict(given or {})
    except (TypeError, ValueError):
        return {}


def _values(headers: Mapping[Any, Any]) -> Iterator[tuple[str, str]]:
    for name, given in headers.items():
        for value in given if isinstance(given, (list, tuple)) else [given]:
            if text := _as_text(value):
                yield _as_text(name), _AUTH_SCHEME.sub("", text)


def _as_text(given: Any) -> str:
    return given.decode("latin-1") if isinstance(given, bytes) else str(given)


def headers_digest(headers: Mapping[str, str]) -> str:
    """Return a digest that differs if the headers do; "" without headers.

    A cache of responses needs it in its keys: what one tenant may see must not be returned to
    another. The values themselves do not belong there. Headers that are new in each request are
    left out, or nothing would ever be found in the cache.
    """
    lower = {name.lower(): value for name, value in headers.items()}
    given = sorted((name, lower[name]) for name in lower.keys() - _NEW_IN_EACH_REQUEST)
    return hashlib.sha256(json.dumps(given).encode()).hexdigest()[:32] if given else ""


class PrivateHeaders(Mapping[str, str]):
    """Headers of a call. Their values are not shown, not pickled, and redacted while they exist."""

    def __init__(self, headers: Mapping[str, str], *, is_complete: bool = True) -> None:
        self._headers = dict(headers)
        self.is_complete = is_complete
        """False after unpickling: the values are missing."""
        remember(self)

    @property
    def secrets(self) -> list[str]:
        """The values to redact."""
        return private_values(self._headers)

    def __getitem__(self, name: str) -> str:
        return self._headers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._headers)

    def __len__(self) -> int:
        return len(self._headers)

    def __repr__(self) -> str:
        # LangChain's cache uses it as a key.
        shown = ", ".join(map(repr, self._headers))
        return f"{type(self).__name__}({shown}, digest={headers_digest(self._headers)!r})"

    def __hash__(self) -> int:
        return hash(frozenset(self._headers.items()))

    def __copy__(self) -> PrivateHeaders:
        return self

    def __deepcopy__(self, memo: object) -> PrivateHeaders:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _without_values, (tuple(self._headers),)


def _without_values(names: tuple[str, ...]) -> PrivateHeaders:
    return PrivateHeaders(dict.fromkeys(names, ""), is_complete=False)


# Loggers of other packages.


def silence(*loggers: str) -> None:
    """Drop what loggers of other packages say below WARNING, because it contains credentials.

    Args:
        loggers: Their names. What their children say is not dropped.
    """
    for name in loggers:
        logging.getLogger(name).addFilter(_is_warning)


def _is_warning(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.WARNING
