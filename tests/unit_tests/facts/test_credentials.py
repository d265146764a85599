"""`redact` hides credentials in every usual form, and changes nothing else."""

from __future__ import annotations

import base64
import gc
import html
import importlib
import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from langchain_gemini_tools.facts.credentials import (
    KEY_HEADER,
    PATTERNS,
    TOKEN_HEADER,
    argument_secrets,
    forms,
    is_credential,
    kinds_in,
    oauth_secrets,
    private_values,
    redact,
    redact_json,
    remember,
    secrets_in_use,
)
from tests.figures import modules_with
from tests.growth import assert_linear
from tests.recordings import exchanges, require_more_recordings, require_recordings
from tests.rotation import LIBRARIES

httpx = importlib.import_module(LIBRARIES[0])

KEY = "k/ey+with=signs&<more>'-123"
GOOGLE_KEY = "AI" + "za" + "Sy0123456789abcdefghij-KLMNOPQRS_t"
JWT = "ey" + "JhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVPmB92K27u"
PEM = "-----BEGIN " + "RSA PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END RSA PRIVATE KEY-----"
EXAMPLES = {
    "AIza": (GOOGLE_KEY, "a Google API key"),
    "AQ.": ("AQ" + ".Ab8RN6I" + "x1-_" * 8, "a Google API key"),
    "ya29": ("ya" + "29.a0AfB_byC-12", "a Google OAuth token"),
    "GOCSPX": ("GOC" + "SPX-0123456789abcdefghijklmn", "a Google OAuth secret"),
    "bearer": ("Bearer " + "abcdefgh12345678==", "a bearer token"),
    "short bearer": ("bearer " + "token-0815", "a bearer token"),
    "PEM": (PEM, "a private key"),
    "PEM, cut": (PEM[:50], "a private key"),
    "PEM, escaped": (json.dumps(PEM)[1:-1], "a private key"),
    "JWT": (JWT, "a signed token (JWT)"),
    "OpenAI": ("sk-" + "proj-0123456789abcdefghij", "another vendor's key"),
    "OpenAI, letters": ("sk-" + "abcdefghijklmnopqrstuvwxyzABCDEF", "another vendor's key"),
    "GitHub": ("gh" + "p_" + "a1B2" * 9, "another vendor's key"),
    "GitHub, fine-grained": ("github" + "_pat_" + "a1B2_" * 9, "another vendor's key"),
    "AWS": ("AK" + "IA" + "ABCD0123" * 2, "another vendor's key"),
    "LangSmith": ("lsv2" + "_pt_" + "0a1b" * 8, "another vendor's key"),
    "Slack": ("xox" + "b-0123456789-abcdefghij", "another vendor's key"),
}
every_example = pytest.mark.parametrize(("secret", "kind"), EXAMPLES.values(), ids=EXAMPLES)


@every_example
def test_a_known_pattern_is_redacted_and_named(secret: str, kind: str) -> None:
    assert redact(f"It is {secret}, indeed") in ("It is [redacted], indeed", "It is [redacted]")
    assert redact(f'"{secret}"') in ('"[redacted]"', '"[redacted]')
    assert kinds_in(f"It is {secret}.") == [kind]
    assert (kinds_in(redact(secret)), is_credential(secret)) == ([], True)


@every_example
@pytest.mark.parametrize("before", ["%3D", "%2f", "\\n", "\\u003d", "\\/", "=", ":", "é"])
def test_an_escape_before_a_credential_does_not_protect_it(
    secret: str, kind: str, before: str
) -> None:
    assert kinds_in(redact(f"key{before}{secret}")) == []
    assert "[redacted]" in redact(f"key{before}{secret}")


ORDINARY = {
    "hyphens": "task-sk-0123456789-abcdefghijkl and risk-0123456789-abcdefghijkl",
    "words": "a sketch, a desk-top, sk-learn-text-classification-pipeline, sk-SK",
    "starts": "Keys begin with AIza, ya29. or GOCSPX-; tokens with eyJ or sk-.",
    "bearer": "Use Bearer authentication. The bearer of this letter; bearer tokens expire.",
    "versions": "AQ.1 and AKIA, ghp_ and xoxb-1, github_pat_x",
    "certificate": "-----BEGIN CERTIFICATE-----\nMIID\n-----END CERTIFICATE-----",
    "escapes": r"a \\u0041 \\\u0041 \u0022 \u005c \/ \n C:\new",
    "percent": "100 %2F %41 %zz",
}


@pytest.mark.parametrize("text", ORDINARY.values(), ids=ORDINARY)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert redact(text, [KEY]) == text


def test_base64_that_contains_the_start_of_a_credential_is_left_alone() -> None:
    signature = base64.b64encode(bytes(range(256)) * 8).decode()
    for secret, _ in (EXAMPLES[name] for name in ("AIza", "AWS", "OpenAI", "GitHub")):
        glued = signature[:100] + secret.replace("-", "+").replace("_", "/") + signature[100:]
        assert redact(glued) == glued
    for_addresses = "nY_" + EXAMPLES["OpenAI"][0]
    assert redact(for_addresses) == for_addresses


@given(st.binary(min_size=100, max_size=2000))
@example(base64.urlsafe_b64decode("b-" + "AI" + "za" + "Sy0123456789abcdefghij-KLMNOPQRS_tuv+/=="))
def test_random_base64_is_left_alone(raw: bytes) -> None:
    """In a run of data, which may contain any start by chance. 48 bytes are 64 characters."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        encoded = encode(bytes(48) + raw).decode()
        assert redact(encoded, [KEY]) == encoded


@pytest.mark.parametrize("before", ["", "-", "b-", "my-project_key-", "x" * 15, "a-" * 31])
def test_a_key_is_redacted_after_a_name(before: str) -> None:
    """The first characters of base64url look the same: it is redacted there, to be safe."""
    assert redact(before + GOOGLE_KEY) == f"{before}[redacted]"


def test_nothing_in_recorded_traffic_is_redacted() -> None:
    require_recordings()
    bodies = [body for found in exchanges() for body in (found.request, *found.replies)]
    assert [body for body in bodies if redact_json(body) != body] == []


def test_nothing_in_recorded_traffic_of_other_methods_is_redacted() -> None:
    recordings = require_more_recordings()
    assert [one["id"] for one in recordings if redact_json(one) != one] == []


FORMS = {
    "as it is": KEY,
    "with spaces": f"  {KEY}\n",
    "Python": repr(KEY),
    "JSON": json.dumps(KEY),
    "JSON, slashes": KEY.replace("/", "\\/"),
    "JSON, as Google does": KEY.replace("=", "\\u003d").replace("&", "\\u0026"),
    "JSON, everything": "".join(f"\\u{ord(char):04x}" for char in KEY),
    "JSON in JSON": json.dumps(KEY.replace("/", "\\/")),
    "quote": quote(KEY),
    "quote, slashes": quote(KEY, safe=""),
    "quote, small letters": re.sub("%..", lambda code: code[0].lower(), quote(KEY, safe="")),
    "quote, JavaScript": quote(KEY, safe="!'()*"),
    "quote_plus": quote_plus(KEY),
    "quote, twice": quote(quote(KEY, safe=""), safe=""),
    "address": f"https://api.example/?k={quote_plus(KEY)}&x=1",
    "HTML": html.escape(KEY),
    "HTML, quotes": html.escape(KEY, quote=False),
    "HTML, numbers": html.escape(KEY).replace("&#x27;", "&#39;"),
    "HTML, Go": html.escape(KEY).replace("&#x27;", "&#39;").replace("+", "&#43;"),
    "HTML, Mustache": html.escape(KEY).replace("/", "&#x2F;").replace("=", "&#x3D;"),
    "HTML in JSON": html.escape(KEY).replace("+", "&#43;").replace("&", "\\u0026"),
    "hex": KEY.encode().hex(),
    "hex, capitals": KEY.encode().hex().upper(),
    "base64": base64.b64encode(KEY.encode()).decode(),
    "base64url": base64.urlsafe_b64encode(KEY.encode()).decode(),
}


@pytest.mark.parametrize("written", FORMS.values(), ids=FORMS)
def test_a_secret_in_use_is_redacted_in_every_form(written: str) -> None:
    redacted = redact(f"before {written} after", [KEY])
    assert redacted.count("[redacted]") == 1
    assert redacted.startswith("before ")
    assert redacted.endswith(" after")
    assert [rest for rest in ("with", "d2l0a", "77697468", "0077") if rest in redacted] == []


@pytest.mark.parametrize("shift", range(6))
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_a_secret_is_redacted_inside_base64_wherever_it_begins(shift: int, encode: Any) -> None:
    encoded = encode(b"x" * shift + KEY.encode() + b"yz").decode()
    redacted = redact(encoded, [KEY])
    assert "[redacted]" in redacted
    padded = redacted.replace("[redacted]", "").rstrip("=")
    assert KEY[4:-4].encode() not in base64.b64decode(padded[: len(padded) // 4 * 4])


@pytest.mark.parametrize("secret", ["my-gateway-key\n", "my-gateway\nkey", "my-gateway-\udcff-key"])
def test_a_secret_with_odd_characters_is_redacted_however_it_is_quoted(secret: str) -> None:
    raw = secret.encode(errors="surrogateescape")
    quoted = f"Illegal header value {secret!r}; {secret.strip()}; {raw!r}".replace("\\xff", "")
    assert "gateway" not in redact(quoted.replace("my-gateway--key", ""), [secret])


def test_escapes_are_undone_only_where_one_hides_a_secret() -> None:
    hidden = r"\u006d\u0079-own-gateway-ke\u0079 \/ \u0022"
    assert redact(hidden, ["my-own-gateway-key"]) == r"[redacted] / \u0022"
    assert redact(hidden, ["another-gateway-key"]) == hidden


def test_values_too_short_for_a_secret_are_left_alone() -> None:
    secrets = ["test", "", "  key  ", "redacted"]
    assert redact("a test of the key [redacted]", secrets) == "a test of the key [redacted]"
    assert forms(["1234567"]) == ()


def test_json_is_redacted_with_the_names_of_its_fields() -> None:
    value = {"list": [{KEY: 1, "n": [KEY, 7, None, True, GOOGLE_KEY]}], "text": "plain"}
    assert redact_json(value, [KEY]) == {
        "list": [{"[redacted]": 1, "n": ["[redacted]", 7, None, True, "[redacted]"]}],
        "text": "plain",
    }


@given(st.text(), st.lists(st.text(max_size=20), max_size=3))
def test_redacting_twice_changes_nothing_more(text: str, secrets: list[str]) -> None:
    once = redact(text + "".join(secrets), secrets)
    assert redact(once) == once


PIECES = sorted(
    {piece for row in PATTERNS for piece in (row.start, row.start + "a1", row.start + "a" * 14)}
)


@pytest.mark.parametrize("piece", PIECES)
def test_the_cost_grows_linearly(piece: str) -> None:
    def redact_many(size: int) -> None:
        for glue in ("", "-", "_", ".", " ", "\\", "%3D", "\n"):
            redact((piece + glue) * (size // len(piece + glue)), [KEY])

    assert_linear(redact_many, 200_000)


def test_headers_are_secret_by_their_names() -> None:
    headers = {
        "X-Goog-Api-Key": "key-1",
        "Authorization": "Bearer token-2",
        "cookie": ["sid=3", b"sid=4"],
        b"x-secret": b"secret-5",
        "proxy-authorization": "Basic dXNlcg==",
        "x-token": "",
        "content-type": "application/json",
    }
    assert private_values(headers) == [
        "key-1",
        "token-2",
        "sid=3",
        "sid=4",
        "secret-5",
        "dXNlcg==",
    ]


@dataclass
class Owner:
    secrets: list[str]


PASSWORD = "pass-word%40123"


@pytest.mark.parametrize(
    ("proxy", "found"),
    [
        (f"http://user:{PASSWORD}@127.0.0.1:3128", [PASSWORD, "pass-word@123"]),
        ("http://user:pass/word-1@127.0.0.1", ["pass/word-1", "pass/word-1"]),
        ("http://[::1", []),
        ("http://127.0.0.1:3128", []),
        (httpx.Proxy(f"http://user:{PASSWORD}@127.0.0.1"), ["pass-word@123"]),
        (httpx.Proxy("http://127.0.0.1", auth=("user", PASSWORD)), [PASSWORD]),
    ],
    ids=["address", "slash", "invalid", "no password", "object", "object with auth"],
)
def test_the_password_of_a_proxy_is_a_secret(proxy: Any, found: list[str]) -> None:
    assert argument_secrets({"proxy": proxy}) == found


@pytest.mark.parametrize(
    "auth",
    [
        ("some-user", KEY),
        httpx.BasicAuth("some-user", KEY),
        httpx.BasicAuth("some-user", KEY.encode()),
        httpx.DigestAuth("some-user", KEY),
    ],
    ids=["pair", "basic", "bytes", "digest"],
)
def test_the_password_for_a_server_is_a_secret(auth: Any) -> None:
    found = argument_secrets({"auth": auth})
    assert KEY in found
    assert "some-user" not in found
    assert argument_secrets({"auth": lambda request: request}) == []


def test_secrets_are_in_use_while_their_owner_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "environment-key")
    owner = Owner(["owner-key-1", "environment-key"])
    remember(owner)
    assert {"environment-key", "owner-key-1"} <= set(secrets_in_use())
    del owner
    gc.collect()
    assert "environment-key" in secrets_in_use()
    assert "owner-key-1" not in secrets_in_use()


def test_the_key_of_the_gateway_is_in_use_while_the_gateway_is_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LANGSMITH_API_KEY", "another-key-of-langsmith")
    assert "another-key-of-langsmith" not in secrets_in_use()
    monkeypatch.setenv("LANGSMITH_GATEWAY", "true")
    assert "another-key-of-langsmith" in secrets_in_use()


def test_no_other_module_names_a_header_with_a_credential() -> None:
    assert modules_with(KEY_HEADER, TOKEN_HEADER) == {"facts/credentials.py"}


def test_a_word_in_an_oauth_exchange_is_not_a_secret() -> None:
    fields = {"grant_type": "password", "password": "password", "client_secret": "s3cret"}
    assert oauth_secrets(fields) == ["s3cret"]
    assert oauth_secrets({"code": "NOT_FOUND", "refresh_token": "r3fresh"}) == ["r3fresh"]
