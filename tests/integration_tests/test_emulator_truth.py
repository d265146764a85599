"""The emulator is held to the truth: it accepts what Gemini accepted, and refuses what it refused.

Recorded requests carry signatures that this emulator never issued, and media that were cut: neither
is held against them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.emulator import rules
from tests.emulator.ask import Ask
from tests.emulator.refusal import Refusal
from tests.emulator.rules.door import check_model
from tests.emulator.rules.payload import read_message
from tests.recordings import each_exchange, require_recordings

if TYPE_CHECKING:
    from tests.recordings import Exchange

OUTSIDE_THE_REQUEST = {
    "You exceeded your current quota": "the quota of the account",
    "Resource exhausted. Please try again later": "the load of the service",
    "Cannot fetch content from the provided URL": "a web site that forbids robots",
}
"""Beginnings of refusals whose reason no request shows; the emulator accepts these requests."""


@each_exchange(lambda exchange: exchange.is_answered)
def test_what_gemini_accepted_is_accepted(exchange: Exchange) -> None:
    check(exchange)


@each_exchange(lambda exchange: exchange.status != 200)
def test_what_gemini_refused_is_refused_alike(exchange: Exchange) -> None:
    recorded = exchange.replies[0]["error"]
    if recorded["message"].startswith(tuple(OUTSIDE_THE_REQUEST)):
        check(exchange)
        return
    with pytest.raises(Refusal) as refusal:
        check(exchange)
    told = refusal.value.body["error"]
    assert (told["code"], told["status"]) == (recorded["code"], recorded["status"])
    assert told["message"].partition(" Call ")[0] == recorded["message"].partition(" Call ")[0]


def test_the_recordings_hold_every_listed_reason() -> None:
    """A reason that no recording shows any more leaves the table."""
    messages = [
        exchange.replies[0]["error"]["message"]
        for recording in require_recordings()
        for exchange in recording.exchanges
        if exchange.status != 200
    ]
    for beginning in OUTSIDE_THE_REQUEST:
        assert any(message.startswith(beginning) for message in messages)


def check(exchange: Exchange) -> None:
    """Put a recorded request before the rules."""
    assert exchange.request is not None
    backend, version = exchange.backend, exchange.version
    model = check_model(exchange.model, version, backend, "generateContent")
    body = read_message(exchange.request, backend=backend, version=version)
    ask = Ask(body, model, backend, version, is_stream=exchange.is_stream)
    rules.check(ask, accepts_foreign=True)
