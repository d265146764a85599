"""What tracing instruments record of agents, loops, streams, errors and batch jobs.

LangSmith is always installed; `make test-observability` installs the others. What an instrument
lacks by a rule of its own is listed there (`lacks`), and a test fails when that changes.
"""

from __future__ import annotations

import base64
import html
import json
import logging
import os
import re
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from langchain.agents import create_agent

from langchain_gemini_tools import ChatGemini, ToolLoop, errors
from langchain_gemini_tools.testing import FakeGemini
from tests.documentation import DOCS, ROOT, blocks_of
from tests.integration_tests.instruments import (
    INSTRUMENTS,
    NOT_INSTALLED,
    Instrument,
    LangSmith,
    OpenTelemetry,
    Sink,
    Span,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig

MODEL = "gemini-3.8-flash"
KEY = "unreal/key+0815=="
TENANT = "blue/tenant+secret==7"
QUESTION = "How is the weather in Oslo?"
USAGE = {
    "promptTokenCount": 100,
    "cachedContentTokenCount": 40,
    "candidatesTokenCount": 12,
    "thoughtsTokenCount": 30,
    "totalTokenCount": 142,
}
both = pytest.mark.parametrize("way", ["sync", "async"])


def get_weather(city: str) -> str:
    """Current weather in a city."""
    if city == "Atlantis":
        raise ValueError(f"{city} is lost.")
    return f"Sunny in {city}"


@pytest.fixture
def gemini() -> Iterator[FakeGemini]:
    with FakeGemini() as running:
        yield running


@pytest.fixture(params=INSTRUMENTS)
def instrument(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Instrument]:
    """Each instrument; afterwards, what it has recorded is searched for secrets."""
    with INSTRUMENTS[request.param](tmp_path / "traces") as running:
        yield running
        recorded = running.everything()
    assert QUESTION in recorded  # it was recorded, and is searched
    assert [form for form in forms(KEY) | forms(TENANT) if form in recorded] == []


def forms(secret: str) -> set[str]:
    """Return the ways in which a secret may be written, and its first half."""
    in_json = json.dumps(secret)[1:-1]
    return {
        secret,
        secret[: len(secret) // 2 + 1],
        quote(secret),
        quote(secret, safe=""),
        quote(quote(secret, safe=""), safe=""),
        in_json.replace("/", "\\/"),
        in_json.replace("=", "\\u003d"),
        html.escape(secret),
        secret.encode().hex(),
        base64.b64encode(secret.encode()).decode().rstrip("="),
        base64.urlsafe_b64encode(secret.encode()).decode().rstrip("="),
    }


def make_model(**settings: Any) -> ChatGemini:
    return ChatGemini(
        model=MODEL,
        api_key=KEY,
        max_tokens=500,
        additional_headers={"X-Tenant": TENANT},
        **{"max_retries": 0} | settings,
    )


def config_of(instrument: Instrument) -> RunnableConfig:
    return {"callbacks": list(instrument.callbacks)}


def script_one_call(gemini: FakeGemini, city: str = "Oslo") -> None:
    thinking: dict[str, Any] = {"thoughts": "The tool knows.", "usage": USAGE}
    gemini.reply(calls=[("get_weather", {"city": city})], **thinking)
    gemini.reply("It is sunny.", **thinking)


def answered(instrument: Instrument, **values: Any) -> Span:
    """Return the span of a response, as far as the instrument records it."""
    complete: dict[str, Any] = {
        "name": MODEL,
        "input_tokens": 100,
        "cached_tokens": 40,
        "output_tokens": 42,
        "reasoning_tokens": 30,
        "finish_reason": "STOP",
        "max_tokens": 500,
    }
    return recordable(instrument, **complete | values)


def recordable(instrument: Instrument, **values: Any) -> Span:
    return Span("model", **{k: v for k, v in values.items() if k not in instrument.lacks})


def one_call(instrument: Instrument) -> list[Span]:
    return [
        answered(instrument, calls=("get_weather",)),
        Span("tool", "get_weather"),
        answered(instrument, text="It is sunny."),
    ]


@both
async def test_an_agent(gemini: FakeGemini, instrument: Instrument, way: str) -> None:
    script_one_call(gemini)
    agent: Any = create_agent(make_model(), [get_weather])
    asked = {"messages": [{"role": "user", "content": QUESTION}]}
    if way == "sync":
        agent.invoke(asked, config_of(instrument))
    else:
        await agent.ainvoke(asked, config_of(instrument))
    spans = instrument.spans()
    assert spans == one_call(instrument)
    assert len({span.trace for span in spans}) == 1


@both
async def test_a_tool_loop(gemini: FakeGemini, instrument: Instrument, way: str) -> None:
    script_one_call(gemini)
    loop = ToolLoop(make_model(), [get_weather])
    if way == "sync":
        loop.invoke(QUESTION, config_of(instrument))
    else:
        await loop.ainvoke(QUESTION, config_of(instrument))
    spans = instrument.spans()
    assert spans == one_call(instrument)
    assert len({span.trace for span in spans}) == 1


def test_a_tool_that_fails(gemini: FakeGemini, instrument: Instrument) -> None:
    script_one_call(gemini, city="Atlantis")
    ToolLoop(make_model(), [get_weather]).invoke(QUESTION, config_of(instrument))
    first, tool, last = instrument.spans()
    assert [first, last] == one_call(instrument)[::2]
    assert (tool.kind, tool.name) == ("tool", "get_weather")
    assert "Atlantis is lost." in str(tool.error)


@both
async def test_a_stream(gemini: FakeGemini, instrument: Instrument, way: str) -> None:
    gemini.reply("It is sunny.", thoughts="The tool knows.", usage=USAGE, chunks=3)
    bound = make_model().bind(additional_headers={"X-Other": TENANT})
    if way == "sync":
        chunks = list(bound.stream(QUESTION, config_of(instrument)))
    else:
        chunks = [chunk async for chunk in bound.astream(QUESTION, config_of(instrument))]
    assert len(chunks) > 3
    expected = answered(instrument, text="It is sunny.", has_first_token=True)
    assert instrument.spans() == [expected]


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
def test_an_error_that_quotes_the_key(
    gemini: FakeGemini, instrument: Instrument, is_stream: bool
) -> None:
    gemini.fail(429, f"Quota of {KEY} exceeded, see https://x.example/?key={quote(KEY, safe='')}.")
    model, config = make_model(), config_of(instrument)
    with pytest.raises(errors.GeminiRateLimitError):
        list(model.stream(QUESTION, config)) if is_stream else model.invoke(QUESTION, config)
    (span,) = instrument.spans()
    assert "429 RESOURCE_EXHAUSTED: Quota of [redacted] exceeded" in str(span.error)
    assert span == recordable(instrument, name=MODEL, max_tokens=500, error=span.error)


def test_a_stream_that_breaks(gemini: FakeGemini, instrument: Instrument) -> None:
    gemini.reply("It is sunny in Oslo, and in Rome.", chunks=4)
    gemini.cut_stream()
    with pytest.raises(errors.GeminiConnectionError):
        list(make_model().stream(QUESTION, config_of(instrument)))
    (span,) = instrument.spans()
    assert span.error


def test_a_response_that_is_cut_off(gemini: FakeGemini, instrument: Instrument) -> None:
    gemini.reply("It is", finish_reason="MAX_TOKENS", usage=USAGE, thoughts="The tool knows.")
    make_model().invoke(QUESTION, config_of(instrument))
    expected = answered(instrument, text="It is", finish_reason="MAX_TOKENS")
    assert instrument.spans() == [expected]


def test_a_retry_is_one_span(gemini: FakeGemini, instrument: Instrument) -> None:
    gemini.fail(503, f"Busy with {KEY}.", times=2)
    gemini.reply("It is sunny.", thoughts="The tool knows.", usage=USAGE)
    make_model(max_retries=3).invoke(QUESTION, config_of(instrument))
    assert len(gemini.requests) == 3
    assert instrument.spans() == [answered(instrument, text="It is sunny.")]
    if isinstance(instrument, LangSmith):
        (run,) = instrument.sink.runs().values()
        assert [event["name"] for event in run["events"]] == ["start", "retry", "retry", "end"]


def test_a_batch_job(gemini: FakeGemini, instrument: Instrument, tmp_path: Path) -> None:
    """Each input is a run of its own, when its result is read."""
    gemini.batches.fail_items(
        lambda number, _: {"code": 3, "message": f"Not with {KEY}."} if number == 1 else None
    )
    bound = make_model().bind_tools([get_weather])
    config = config_of(instrument)
    job = bound.batch_job([QUESTION, "Hello"], path=tmp_path / "job", config=config)
    (_, message), (_, error) = job.results()
    assert isinstance(error, errors.GeminiInvalidRequestError)
    assert not isinstance(message, Exception)
    assert message.usage_metadata
    answer, failure = instrument.spans()
    expected = answered(
        instrument,
        calls=("get_weather",),
        input_tokens=message.usage_metadata["input_tokens"],
        output_tokens=message.usage_metadata["output_tokens"],
        reasoning_tokens=message.usage_metadata["output_token_details"]["reasoning"],
        cached_tokens=None,
    )
    assert answer == expected
    assert "400 INVALID_ARGUMENT: Not with [redacted]." in str(failure.error)
    assert failure == recordable(instrument, name=MODEL, max_tokens=500, error=failure.error)
    assert answer.trace != failure.trace


def test_a_batch_job_that_is_found_by_its_name(
    gemini: FakeGemini, instrument: Instrument, tmp_path: Path
) -> None:
    """Its requests are not known here, so its runs have no input."""
    model = make_model()
    job = model.batch_job([QUESTION], path=tmp_path / "job")
    config = config_of(instrument)
    found = model.batch_job(name=job.names[0], config=config)
    ((_, message),) = found.results()
    assert not isinstance(message, Exception)
    (span,) = instrument.spans()
    assert (span.name, span.text, span.error) == (MODEL, message.text, None)
    assert span.input_tokens
    model.invoke(QUESTION, config)  # what the fixture looks for


def test_an_instrument_of_the_sdk_sees_an_empty_call(gemini: FakeGemini, tmp_path: Path) -> None:
    """Why LangChain is to be instrumented: our body passes through the SDK's HTTP client."""
    module = pytest.importorskip("openinference.instrumentation.google_genai", reason=NOT_INSTALLED)
    instrumentor = module.GoogleGenAIInstrumentor()
    recorder = OpenTelemetry(tmp_path)
    with recorder:
        instrumentor.instrument(tracer_provider=recorder.provider)
        try:
            gemini.fail(429)
            model = make_model()
            with pytest.raises(errors.GeminiRateLimitError):
                model.invoke(QUESTION)
        finally:
            instrumentor.uninstrument()
    (span,) = recorder.exporter.get_finished_spans()
    assert span.status.status_code.name == "OK"
    assert QUESTION not in recorder.everything()
    assert not [name for name in span.attributes if "token_count" in name]


# Logging


def test_hundreds_of_retries_are_not_hundreds_of_warnings(
    gemini: FakeGemini, caplog: pytest.LogCaptureFixture
) -> None:
    gemini.fail(429, times=300)
    model = make_model(max_retries=400)
    model.batch([QUESTION] * 20, config={"max_concurrency": 4})
    retries = [each for each in caplog.records if each.name == "langchain_gemini_tools.retry"]
    levels = Counter(each.levelno for each in retries)
    assert levels[logging.DEBUG] == 300
    # The first one, unless another test has had it, and one more if a minute ends meanwhile.
    assert levels[logging.WARNING] <= 2


# The documentation

PAGE = DOCS / "how-to/observability.md"
PREAMBLE = f"""
from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.testing import FakeGemini

gemini = FakeGemini().start()
model = ChatGemini(model="{MODEL}")
"""
INVOKE = f"""
model.invoke("{QUESTION}")
from langchain_core.tracers.langchain import wait_for_all_tracers
wait_for_all_tracers()
gemini.stop()
"""


def programs() -> dict[str, str]:
    """Return the programs of the page that need an instrument, by the package they begin with."""
    blocks = [block.text for block in blocks_of(PAGE) if block.skip]
    named = {block.replace("import", "from").split()[1].split(".")[0]: block for block in blocks}
    (first, *_) = blocks
    provider = first.partition("LangChainInstrumentor()")[0]
    return named | {"opentelemetry": provider + named["opentelemetry"]}


def variables() -> list[dict[str, str]]:
    """Return the environment variables that the page sets, block by block."""
    blocks = [block.text for block in blocks_of(PAGE) if block.language == "bash"]
    return [dict(re.findall(r"^export (\w+)=(\S+)$", block, re.MULTILINE)) for block in blocks]


def run_program(program: str, folder: Path, environment: dict[str, str]) -> None:
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-c", PREAMBLE + program + INVOKE]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    subprocess.run(
        command, check=True, cwd=folder, env={**os.environ, "PYTHONPATH": path, **environment}
    )


def settings_for(package: str, sink: Sink, store: Path) -> dict[str, str]:
    """Return the variables that the page names, and what keeps it on this machine."""
    return {
        "openinference": {"OTEL_EXPORTER_OTLP_ENDPOINT": sink.url},
        "opentelemetry": {"OTEL_EXPORTER_OTLP_ENDPOINT": sink.url},
        "langfuse": {
            "LANGFUSE_BASE_URL": sink.url,
            "LANGFUSE_PUBLIC_KEY": "not-used",
            "LANGFUSE_SECRET_KEY": "not-used",
        },
        "mlflow": {"MLFLOW_TRACKING_URI": store.as_uri(), "MLFLOW_ALLOW_FILE_STORE": "true"},
    }[package]


@pytest.mark.parametrize("package", ["openinference", "opentelemetry", "langfuse", "mlflow"])
def test_a_program_of_the_page_switches_an_instrument_on(package: str, tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.sdk", reason=NOT_INSTALLED)
    store = tmp_path / "store"
    with Sink() as sink:
        run_program(programs()[package], tmp_path / "empty", settings_for(package, sink, store))
        sent = [body for _, body in sink.received]
    stored = [path.read_bytes() for path in store.rglob("*") if path.is_file()]
    assert any(MODEL.encode() in body for body in sent + stored)


@pytest.mark.parametrize("mode", ["langsmith", "otel"])
def test_the_variables_of_the_page_switch_langsmith_on(mode: str, tmp_path: Path) -> None:
    plain, otel = variables()
    if mode == "otel":
        pytest.importorskip("opentelemetry.sdk", reason=NOT_INSTALLED)
        plain = plain | otel
    with Sink() as sink:
        to_sink = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{sink.url}/v1/traces"}
        environment = plain | to_sink | {"LANGSMITH_ENDPOINT": sink.url}
        run_program("", tmp_path, environment)
        types = {kind.partition(";")[0] for kind, body in sink.received if MODEL.encode() in body}
    assert types == {"application/x-protobuf" if mode == "otel" else "multipart/form-data"}
