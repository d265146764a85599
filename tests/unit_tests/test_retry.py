from __future__ import annotations

import logging
from dataclasses import dataclass, field
from itertools import count
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from langchain_gemini_tools.errors import (
    EmptyResponseError,
    GeminiAPIError,
    GeminiConnectionError,
    GeminiTimeoutError,
    map_api_error,
)
from langchain_gemini_tools.retry import RetryLog, RetryPolicy, RunReports

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator

    from tenacity import RetryCallState

BUSY = map_api_error(503, {"error": {"message": "busy"}})
RPC = "type.googleapis.com/google.rpc."


def error_with_delay(delay: str, quota_id: str = "PerMinute") -> GeminiAPIError:
    details = [
        {"@type": RPC + "RetryInfo", "retryDelay": delay},
        {"@type": RPC + "QuotaFailure", "violations": [{"quotaId": quota_id}]},
    ]
    return map_api_error(429, {"error": {"message": "quota", "details": details}})


@dataclass
class Scripted:
    """Gives or raises one of the steps at each call; a list is a stream, errors in it included."""

    steps: list[Any]
    calls: int = 0
    closed: int = 0
    slept: list[float] = field(default_factory=list)

    def policy(self, max_retries: int = 3, **options: Any) -> RetryPolicy:
        async def asleep(seconds: float) -> None:
            self.slept.append(seconds)

        return RetryPolicy(
            max_retries, sleep=self.slept.append, asleep=asleep, jitter=lambda: 1.0, **options
        )

    def next_step(self) -> Any:
        self.calls += 1
        return self.steps[self.calls - 1]

    def __call__(self) -> Any:
        step = self.next_step()
        if isinstance(step, Exception):
            raise step
        return step

    async def acall(self) -> Any:
        return self()

    def stream(self) -> Generator[Any]:
        try:
            for item in self():
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            self.closed += 1

    async def astream(self) -> AsyncGenerator[Any]:
        try:
            for item in self():
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            self.closed += 1


async def called(scripted: Scripted, way: str, **options: Any) -> Any:
    policy = scripted.policy(**options)
    return policy.call(scripted) if way == "sync" else await policy.acall(scripted.acall)


async def streamed(scripted: Scripted, way: str, **options: Any) -> list[Any]:
    policy = scripted.policy(**options)
    items: list[Any] = []
    if way == "sync":
        items.extend(policy.open_stream(scripted.stream))
    else:
        async for item in policy.aopen_stream(scripted.astream):
            items.append(item)  # noqa: PERF401
    return items


both_ways = pytest.mark.parametrize("way", ["sync", "async"])


@both_ways
async def test_retryable_errors_are_retried(way: str) -> None:
    scripted = Scripted([BUSY, GeminiConnectionError("gone"), "ok"])
    assert await called(scripted, way) == "ok"
    assert scripted.slept == [1.0, 2.0]


@both_ways
async def test_a_recording_is_retried_without_delay(way: str) -> None:
    replayed = SimpleNamespace(headers={"x-cassette": "replayed", "retry-after": "26"})
    scripted = Scripted([map_api_error(429, {}, replayed), "ok"])
    assert await called(scripted, way) == "ok"
    assert scripted.slept == [0.0]


@both_ways
async def test_a_recorded_delay_over_the_limit_fails_as_it_did_live(way: str) -> None:
    replayed = SimpleNamespace(headers={"x-cassette": "replayed", "retry-after": "61"})
    scripted = Scripted([map_api_error(429, {}, replayed), "ok"])
    with pytest.raises(GeminiAPIError, match="429"):
        await called(scripted, way)
    assert scripted.slept == []


@both_ways
async def test_mistakes_of_the_model_are_not_retried_unchanged(way: str) -> None:
    scripted = Scripted([EmptyResponseError("nothing"), "ok"])
    with pytest.raises(EmptyResponseError):
        await called(scripted, way)
    assert scripted.slept == []


@both_ways
@pytest.mark.parametrize(("max_retries", "requests"), [(0, 1), (1, 2), (3, 4)])
async def test_max_retries_counts_requests_after_the_first(
    way: str, max_retries: int, requests: int
) -> None:
    scripted = Scripted([BUSY] * 9)
    with pytest.raises(GeminiAPIError, match="busy"):
        await called(scripted, way, max_retries=max_retries)
    assert scripted.calls == requests


@both_ways
@pytest.mark.parametrize(
    "error",
    [
        map_api_error(400, {"error": {"message": "wrong"}}),
        GeminiTimeoutError("late"),
        error_with_delay("1s", "RequestsPerDay"),
        ValueError("a bug"),
    ],
    ids=["invalid", "timeout", "daily-quota", "no-model-error"],
)
async def test_final_errors_are_raised_at_once(way: str, error: Exception) -> None:
    scripted = Scripted([error, "never"])
    with pytest.raises(type(error)) as raised:
        await called(scripted, way)
    assert raised.value is error
    assert (scripted.calls, scripted.slept) == (1, [])


@both_ways
async def test_the_delay_that_the_api_asks_for_is_used(way: str) -> None:
    scripted = Scripted([error_with_delay("26s"), error_with_delay("0.1s"), "ok"])
    assert await called(scripted, way) == "ok"
    assert scripted.slept == [26.0, 2.0]


@both_ways
async def test_a_delay_over_the_limit_ends_the_retries(way: str) -> None:
    scripted = Scripted([error_with_delay("90s"), "never"])
    with pytest.raises(GeminiAPIError, match=r"\[retry after 90 s\]") as raised:
        await called(scripted, way)
    assert "the API asks for a delay of 90 s" in "".join(raised.value.__notes__)
    assert (scripted.calls, scripted.slept) == (1, [])


def test_delays_grow_up_to_the_limit() -> None:
    scripted = Scripted([BUSY] * 6 + ["ok"])
    policy = scripted.policy(6, max_delay_seconds=5.0, initial_delay_seconds=0.5)
    assert policy.call(scripted) == "ok"
    assert scripted.slept == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]


def test_a_run_may_be_retried_for_days() -> None:
    scripted = Scripted([BUSY] * 1100 + ["ok"])
    assert scripted.policy(1100, max_delay_seconds=5.0).call(scripted) == "ok"
    assert scripted.slept[-1] == 5.0


def test_delays_are_random_down_to_zero() -> None:
    scripted = Scripted([BUSY, BUSY, "ok"])
    policy = RetryPolicy(2, sleep=scripted.slept.append, jitter=iter([0.0, 0.5]).__next__)
    assert policy.call(scripted) == "ok"
    assert scripted.slept == [0.0, 1.0]


@both_ways
async def test_a_stream_is_opened_again_until_its_first_item(way: str) -> None:
    scripted = Scripted([BUSY, [BUSY], ["a", "b"]])
    assert await streamed(scripted, way) == ["a", "b"]
    assert (scripted.calls, scripted.closed) == (3, 3)


@both_ways
async def test_a_stream_that_fails_later_is_not_retried(way: str) -> None:
    scripted = Scripted([["a", BUSY], ["never"]])
    with pytest.raises(GeminiAPIError, match="busy"):
        await streamed(scripted, way)
    assert (scripted.calls, scripted.closed, scripted.slept) == (1, 1, [])


@both_ways
async def test_an_empty_stream_is_empty(way: str) -> None:
    assert await streamed(Scripted([[]]), way) == []


async def test_an_abandoned_stream_is_closed() -> None:
    scripted = Scripted([["a", "b"], ["a", "b"]])
    held = scripted.stream()  # held here: the collector must not be what closes it
    stream = scripted.policy().open_stream(lambda: held)
    assert next(stream) == "a"
    stream.close()
    assert scripted.closed == 1
    aheld = scripted.astream()
    astream = scripted.policy().aopen_stream(lambda: aheld)
    assert await anext(astream) == "a"
    await astream.aclose()
    assert scripted.closed == 2


@both_ways
async def test_each_retry_is_logged_once_and_reported(
    caplog: pytest.LogCaptureFixture, way: str
) -> None:
    reported: list[RetryCallState] = []
    report: Callable[[RetryCallState], None] = reported.append

    async def areport(state: RetryCallState) -> None:
        reported.append(state)

    scripted = Scripted([BUSY, BUSY, "ok"])
    run = SimpleNamespace(on_retry=report if way == "sync" else areport)
    await called(scripted, way, model="gemini-x", log=RetryLog(), reports=RunReports(run))
    assert [(state.attempt_number, state.upcoming_sleep) for state in reported] == [
        (1, 1.0),
        (2, 2.0),
    ]
    assert [state.outcome.exception() for state in reported if state.outcome] == [BUSY, BUSY]
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.DEBUG, "gemini-x: retry 1 of 3 in 1.0 s: 503: busy"),
        (logging.WARNING, "gemini-x: retry 1 of 3 in 1.0 s: 503: busy"),
        (logging.DEBUG, "gemini-x: retry 2 of 3 in 2.0 s: 503: busy"),
    ]


def test_many_retries_are_summed_up_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    seconds = count()
    log = RetryLog(now=lambda: float(next(seconds)))
    for _ in range(100):
        log.add("gemini-x", "retry 1 of 6", "429: slow down")
    log.add("gemini-y", "retry 1 of 6", "429: slow down")
    warnings = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert warnings == [
        "gemini-x: retry 1 of 6: 429: slow down",
        "gemini-x: retry 1 of 6 (59 more since the last message): 429: slow down",
        "gemini-y: retry 1 of 6: 429: slow down",
    ]
