"""Addresses are redacted, and credentials that are left are found, however they are encoded."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any
from urllib.parse import quote

import pytest
from pydantic import SecretStr

from langchain_gemini_tools.testing.cassettes import CassetteError
from langchain_gemini_tools.testing.redaction import (
    Redactor,
    check_secrets,
    credentials_in,
    renumber_call_ids,
)
from tests.growth import assert_linear
from tests.recordings import exchanges, require_recordings

KEY = "k/ey+with=signs&<more>-123"
GOOGLE = "AI" + "za" + "Sy0123456789abcdefghij-KLMNOPQRS_tuv"
EXAMPLES = {
    "a Google API key": GOOGLE,
    "a Google OAuth token": "ya" + "29.a0AfB_byC-123456789",
    "a Google OAuth secret": "GOC" + "SPX-0123456789abcdefghijklmn",
    "a bearer token": "Bearer abcdefgh12345678",
    "a private key": "-----BEGIN " + "PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END PRIVATE KEY-----",
    "a signed token (JWT)": "ey" + "JhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVPmB92K27u",
    "another vendor's key": "sk-" + "proj-0123456789abcdefghij",
}


@pytest.mark.parametrize(("kind", "secret"), EXAMPLES.items(), ids=EXAMPLES)
def test_what_is_left_is_reported_with_its_place(kind: str, secret: str) -> None:
    hidden = base64.b64encode(f"file: {secret}.".encode()).decode()
    assert list(Redactor().leaks({"parts": [{"data": hidden}, {"text": secret}]})) == [
        f"parts[0].data: {kind} (inside base64)",
        f"parts[1].text: {kind}",
    ]


def test_escaped_credentials_are_found() -> None:
    escaped = "".join(f"\\u{ord(sign):04x}" for sign in GOOGLE[:4]) + GOOGLE[4:]
    percent = f"%{ord('A'):02X}" + GOOGLE[1:]
    assert [*Redactor().leaks({"a": escaped, "b": percent, GOOGLE: 1})] == [
        "a: a Google API key (escaped)",
        "b: a Google API key (in an address)",
        ", a field's name: a Google API key",
    ]


IN_LINES = base64.encodebytes(b"key: " * 10 + GOOGLE.encode()).decode()
ENCODED = {
    "base64 in lines": (IN_LINES, " (inside base64)"),
    "base64 in lines, with other words": (f"The file:\r\n{IN_LINES}\r\nEnd", " (inside base64)"),
    "base64 in lines, escaped": (json.dumps(IN_LINES), " (inside base64)"),
    "base64 in base64": (
        base64.b64encode(b"a: " + base64.b64encode(GOOGLE.encode())).decode(),
        " (inside base64)",
    ),
    "base64 in an address": (
        quote(base64.b64encode(b"\xff" * 9 + GOOGLE.encode()), safe=""),
        " (inside base64)",
    ),
    "compressed": (base64.b64encode(gzip.compress(GOOGLE.encode())).decode(), " (compressed)"),
    "hex": (GOOGLE.encode().hex(), " (as hex)"),
    "hex after another digit": ("0" + GOOGLE.encode().hex(), " (as hex)"),
    "UTF-16": (GOOGLE.encode("utf-16-le").decode("latin-1"), " (in UTF-16)"),
    "UTF-16 from the other end": (GOOGLE.encode("utf-16-be").decode("latin-1"), " (in UTF-16)"),
    "UTF-16 in base64": (base64.b64encode(GOOGLE.encode("utf-16")).decode(), " (in UTF-16)"),
    "UTF-32 in base64": (base64.b64encode(GOOGLE.encode("utf-32")).decode(), " (in UTF-16)"),
}


@pytest.mark.parametrize(("written", "how"), ENCODED.values(), ids=ENCODED)
def test_encoded_credentials_are_found(written: str, how: str) -> None:
    assert [*Redactor().leaks(written)] == [f"the text: a Google API key{how}"]


@pytest.mark.parametrize(
    "encode", [base64.encodebytes, gzip.compress, lambda raw: raw.decode().encode("utf-16")]
)
@pytest.mark.parametrize("before", range(40, 60))
def test_the_key_in_use_is_found_at_any_place_of_a_file(encode: Any, before: int) -> None:
    file = base64.b64encode(encode(b"x" * before + KEY.encode())).decode()
    assert len([*Redactor([KEY]).leaks(file)]) == 1
    lines = base64.encodebytes(b"x" * before + KEY.encode()).decode()
    redactor = Redactor([KEY])
    assert "[redacted]" in redactor.text(lines) or [*redactor.leaks(lines)]


@pytest.mark.parametrize("piece", ["QUJD", "QUJD\n", "0\\u00"])
def test_a_large_file_is_searched_in_time_that_grows_with_it(piece: str) -> None:
    def search(count: int) -> None:
        assert [*Redactor([KEY]).leaks(piece * count)] == []

    assert_linear(search, 200_000)


def test_no_credential_is_found_in_recorded_traffic() -> None:
    require_recordings()
    redactor = Redactor()
    bodies = [body for found in exchanges() for body in (found.request, *found.replies)]
    assert [leak for body in bodies for leak in redactor.leaks(body)] == []


@pytest.mark.parametrize(
    ("uri", "clean"),
    [
        (
            "https://h/v1/models/m:generateContent?key=abcdefgh&alt=sse",
            "https://h/v1/models/m:generateContent?alt=sse",
        ),
        ("https://h/x?access_token=abcdefgh", "https://h/x?access_token=%5Bredacted%5D"),
        ("https://maps.googleapis.com/x?key=a-dummy", "https://maps.googleapis.com/x?key=a-dummy"),
        (
            "https://maps.googleapis.com/x?key=some-dummy",
            "https://maps.googleapis.com/x?key=%5Bredacted%5D",
        ),
        (f"https://h/x?key={GOOGLE}", "https://h/x?key=%5Bredacted%5D"),
        ("https://h/x?key=abcdefgh-1", "https://h/x?key=%5Bredacted-77e3%5D"),
        ("https://h/x?token=kAbCdEfGh", "https://h/x?token=%5Bredacted-1e60%5D"),
        ("https://h/x?key=qwertyuiopasdfgh", "https://h/x?key=%5Bredacted-c912%5D"),
        ("https://h/x?key=san-francisco", "https://h/x?key=san-francisco"),
        ("https://me:password@h:8080/x", "https://h:8080/x"),
        (
            "https://h/v1/projects/my-project/locations/l",
            "https://h/v1/projects/project/locations/l",
        ),
        ("https://h/api/v4/projects/11/issues", "https://h/api/v4/projects/11/issues"),
        ("https://h/values?key=oslo", "https://h/values?key=oslo"),
        (f"https://h/{KEY.replace('/', '%2F')}", "https://h/k%2Fey+with=signs&<more>-123"),
        ("https://h/x?$alt=json&q=a%20b", "https://h/x?$alt=json&q=a+b"),
    ],
)
def test_an_address_is_redacted(uri: str, clean: str) -> None:
    assert Redactor().uri(uri) == clean
    assert Redactor().uri(clean) == clean


def test_a_known_credential_gets_no_mark() -> None:
    uri = "https://h/x?key=my-own-key-1"
    assert Redactor(["my-own-key-1"]).uri(uri) == "https://h/x?key=%5Bredacted%5D"
    assert Redactor((), ["my-own-key-1"]).uri(uri) != "https://h/x?key=%5Bredacted%5D"


def test_credentials_are_found_in_headers_and_address() -> None:
    headers = {
        "x-goog-api-key": "key-1",
        "Authorization": "Bearer token-2",
        "cookie": ["sid=3", b"sid=4"],
        "x-secret": b"secret-5",
        "content-type": "application/json",
    }
    assert credentials_in(headers, "https://h/?key=long-key-6&alt=sse") == [
        "key-1",
        "token-2",
        "sid=3",
        "sid=4",
        "secret-5",
        "long-key-6",
    ]


def test_secrets_that_cannot_be_found_are_rejected() -> None:
    assert check_secrets(["my-password", ""]) == ["my-password"]
    with pytest.raises(CassetteError, match="Put a single secret into a list"):
        check_secrets("my-password")
    for given in (SecretStr("my-password"), 12345678):
        with pytest.raises(CassetteError, match=f"not a {type(given).__name__}"):
            check_secrets([given])  # type: ignore[list-item]
    with pytest.raises(CassetteError, match=r"A value in secrets has 4 characters; at least 8"):
        check_secrets(["my-password", "1234"])


def test_ids_that_the_api_gave_are_kept_in_files() -> None:
    def body(*ids: str) -> dict[str, Any]:
        calls = [{"functionCall": {"name": "f", "id": each}} for each in ids]
        return {"contents": [*calls, {"functionResponse": {"name": "f", "id": ids[-1]}}]}

    sent = body("given-by-api", "made-up-here")
    assert renumber_call_ids(sent, kept={"given-by-api"}) == body("given-by-api", "call-1")
