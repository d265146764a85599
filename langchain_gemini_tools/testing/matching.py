"""Whether a request is the recorded one, and what differs if it is not.

The question decides: method, path, query and body. Who asks does not: neither headers nor, for
Gemini, host and project. Ids of calls that a client made up are different in each run, so calls are
known by their order.
"""

from __future__ import annotations

import functools
import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from langchain_gemini_tools.testing.addresses import GEMINI_PATH, REDACTED, is_called_credential
from langchain_gemini_tools.testing.bodies import parse_json
from langchain_gemini_tools.testing.secrets import (
    Scrubber,
    credentials_in,
    credentials_of_the_environment,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    Matcher = Callable[[Any, Any], None]

_MIN_ID_LENGTH = 8  # shorter ones may be words of the text
_CALLS = ("functionCall", "functionResponse")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SHOWN = 90
_NAME_IT = " (a credential that may differ is named in `secrets` when it is recorded)"


def matchers(secrets: Collection[str] = ()) -> list[Matcher]:
    """What vcrpy calls with the request that is made and with a recorded one.

    Args:
        secrets: Values that were taken out of the recording, besides the credentials.
    """
    scrubber = Scrubber(secrets)

    def method(now: Any, recorded: Any) -> None:
        _agree(recorded.method.upper(), now.method.upper())  # aiohttp is given small letters

    def address(now: Any, recorded: Any) -> None:
        _agree(place_of(recorded, scrubber), place_of(now, scrubber))

    def query(now: Any, recorded: Any) -> None:
        old = _query(recorded, scrubber)
        new = _as_recorded(_query(now, scrubber), dict(old))
        hint = _NAME_IT if "[redacted-" in repr(old) else ""
        _agree(repr(old), repr(new), hint)

    def question(now: Any, recorded: Any) -> None:
        found = list(differences(normal_body(recorded, secrets), normal_body(now, secrets)))
        if found:
            raise AssertionError("\n".join(found))

    return [method, address, query, question]


def place_of(request: Any, scrubber: Scrubber) -> str:
    """The path, after the host where that matters: Gemini is one place, whoever stands for it."""
    split = urlsplit(scrubber.uri(request.uri))
    path = unquote(split.path)
    return path if GEMINI_PATH.search(path) else f"{split.scheme}://{split.netloc}{path}"


def _query(request: Any, scrubber: Scrubber) -> list[tuple[str, str]]:
    """The parameters in any order, Gemini's credentials aside."""
    return sorted(parse_qsl(urlsplit(scrubber.uri(request.uri)).query))


def _as_recorded(query: list[tuple[str, str]], recorded: dict[str, str]) -> list[tuple[str, str]]:
    """The parameters, with another credential where the recorded one is known to be one.

    One that was not recorded at all may have been left out of the file, as it used to be.
    """
    same = [
        (name, REDACTED if is_called_credential(name) and recorded.get(name) == REDACTED else value)
        for name, value in query
    ]
    return [
        (name, value)
        for name, value in same
        if name in recorded or value != REDACTED or not is_called_credential(name)
    ]


def _agree(recorded: str, now: str, hint: str = "") -> None:
    if recorded != now:
        raise AssertionError(f"recorded {_short(recorded)}, now {_short(now)}{hint}")


# Bodies.


def normal_body(request: Any, secrets: Collection[str] = ()) -> Any:
    """What is asked: the same for all runs of a program that ask the same."""
    used = [*credentials_in(request.headers, request.uri), *credentials_of_the_environment()]
    return _normal_body(body_bytes(request), (*secrets, *used))


def body_bytes(request: Any) -> bytes:
    """The body, in whichever form an HTTP library gave it to vcrpy."""
    body = request.body
    if isinstance(body, (dict, list)):
        return json.dumps(body).encode()
    if hasattr(body, "read"):
        body = body.read()
    if body is not None and not isinstance(body, (str, bytes, bytearray)):
        body = b"".join(part.encode() if isinstance(part, str) else part for part in body)
    return body.encode() if isinstance(body, str) else bytes(body or b"")


@functools.lru_cache(maxsize=64)
def _normal_body(raw: bytes, secrets: tuple[str, ...]) -> Any:
    scrubber = Scrubber(secrets)
    value = parse_json(raw)
    if value is None:
        return scrubber.text(raw.decode("utf-8", errors="surrogateescape"))
    if isinstance(value, dict) and value.get("generationConfig") == {}:
        del value["generationConfig"]  # the SDK adds it where there is none
    return scrubber.value(rename_calls(value))


def rename_calls(body: Any, kept: Collection[str] = ()) -> Any:
    """The body with its calls' ids replaced by numbers, in the order in which they come.

    Args:
        body: A request.
        kept: Ids that stay, because they were not made up by the client.
    """
    names: dict[str, str] = {}
    for call_id in ids_of_calls(body):
        if call_id not in kept:
            names.setdefault(call_id, f"call-{len(names) + 1}")
    return _renamed(body, names) if names else body


def made_up(call_id: str) -> bool:
    """Whether an id looks like one that a client makes up where the API gives none."""
    return bool(_UUID.fullmatch(call_id))


def ids_of_calls(value: Any) -> Iterator[str]:
    """The ids of the calls in a body, and of the responses to them."""
    match value:
        case dict():
            for key, item in value.items():
                if key in _CALLS and isinstance(item, dict) and isinstance(item.get("id"), str):
                    yield item["id"]
                yield from ids_of_calls(item)
        case list():
            for item in value:
                yield from ids_of_calls(item)


def _renamed(value: Any, names: dict[str, str]) -> Any:
    match value:
        case str():
            for call_id, name in names.items():
                if len(call_id) >= _MIN_ID_LENGTH:
                    value = value.replace(call_id, name)
            return value
        case dict():
            return {
                key: _renamed(item, names) | _new_id(item, names)
                if key in _CALLS and isinstance(item, dict)
                else _renamed(item, names)
                for key, item in value.items()
            }
        case list():
            return [_renamed(item, names) for item in value]
        case _:
            return value


def _new_id(call: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {"id": names[call["id"]]} if call.get("id") in names else {}


# What differs.


def differences(recorded: Any, now: Any, place: str = "body") -> Iterator[str]:
    """Each value that is not the same, by its place: `body.contents[0].parts[0].text: ...`."""
    match recorded, now:
        case dict(), dict():
            for key in [*recorded, *(key for key in now if key not in recorded)]:
                there = f"{place}.{key}"
                if key not in now:
                    yield f"{there}: recorded {_show(recorded[key])}, now missing"
                elif key not in recorded:
                    yield f"{there}: not recorded, now {_show(now[key])}"
                else:
                    yield from differences(recorded[key], now[key], there)
        case list(), list():
            for number, (old, new) in enumerate(zip(recorded, now, strict=False)):
                yield from differences(old, new, f"{place}[{number}]")
            if len(recorded) != len(now):
                yield f"{place}: recorded {len(recorded)} items, now {len(now)}"
        case str(), str() if recorded != now:
            old, new = _around_the_difference(recorded, now)
            yield f"{place}: recorded {_show(old)}, now {_show(new)}"
        case _:
            # Not `==` alone: to Python 1, 1.0 and true are equal.
            if type(recorded) is not type(now) or recorded != now:
                yield f"{place}: recorded {_show(recorded)}, now {_show(now)}"


def _around_the_difference(recorded: str, now: str) -> tuple[str, str]:
    """Two texts, without a long beginning that they share."""
    pairs = zip(recorded, now, strict=False)
    shared = next((n for n, (old, new) in enumerate(pairs) if old != new), len(recorded))
    if shared <= _SHOWN // 2:
        return recorded, now
    start = shared - _SHOWN // 4
    return f"...{recorded[start:]}", f"...{now[start:]}"


def _show(value: Any) -> str:
    return _short(json.dumps(value, ensure_ascii=False))


def _short(text: str) -> str:
    """The text, cut where it is too long for a line."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"
