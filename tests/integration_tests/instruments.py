"""Tracing instruments with a recorder on this machine, and their spans in one common form.

Each instrument reads what its own users see: attributes with names of its own, and not the JSON
of whole messages, unless it has nothing else.
"""

from __future__ import annotations

import email
import email.policy
import gzip
import json
import pkgutil
import threading
import uuid
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path
    from typing import Self

NOT_INSTALLED = "not installed: make test-observability"
_HOOKS = ("before_model", "after_model", "before_agent", "after_agent")
_WRAPPED = (
    "langchain_core.callbacks.BaseCallbackManager.__init__",
    "langgraph.pregel.Pregel.stream",
    "langgraph.pregel.Pregel.astream",
    "langgraph.types.Command.__init__",
    "langgraph.prebuilt.create_react_agent",
    "langgraph.prebuilt.chat_agent_executor.create_react_agent",
    "langchain.agents.create_agent",
    "langchain.agents.factory.create_agent",
    *(f"langchain.agents.middleware.types.AgentMiddleware.{name}" for name in _HOOKS),
    *(f"langchain.agents.middleware.types.AgentMiddleware.a{name}" for name in _HOOKS),
)
"""What instruments replace. Traceloop's does not restore it (`uninstrument` unwraps nothing)."""


@dataclass(frozen=True)
class Span:
    """What an instrument records of one use of a model or a tool; None is not recorded."""

    kind: str
    name: str | None = None
    """The name of the model or the tool."""
    text: str | None = None
    """What the model says."""
    calls: tuple[str, ...] = ()
    """The tools that it calls."""
    input_tokens: int | None = None
    cached_tokens: int | None = None
    """A part of the input tokens."""
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    """A part of the output tokens."""
    finish_reason: str | None = None
    max_tokens: int | None = None
    has_first_token: bool = False
    """Whether the time of the first token of a stream is recorded."""
    error: str | None = None
    trace: str = field(default="", compare=False)


class Instrument:
    """An instrument that records inside a `with` block."""

    lacks: frozenset[str] = frozenset()
    """Fields of `Span` that it does not record, by a rule of its own."""
    callbacks: tuple[Any, ...] = ()
    """What has to be passed to each run, if it is not switched on for the whole program."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __enter__(self) -> Self:
        self.patch = pytest.MonkeyPatch()
        for path in _WRAPPED:
            self.patch.setattr(path, pkgutil.resolve_name(path))
        return self

    def __exit__(self, *error: object) -> None:
        self.patch.undo()

    def spans(self) -> list[Span]:
        """Return the spans of models and tools, in the order of their beginnings."""
        raise NotImplementedError

    def everything(self) -> str:
        """Return all that would leave this machine."""
        raise NotImplementedError


# OpenTelemetry


class OpenTelemetry(Instrument):
    """An instrument whose spans go to an exporter in memory."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        sdk = pytest.importorskip("opentelemetry.sdk.trace", reason=NOT_INSTALLED)
        export = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
        self.exporter = export.InMemorySpanExporter()
        self.provider = sdk.TracerProvider()
        self.processor = sdk.export.SimpleSpanProcessor(self.exporter)

    def __enter__(self) -> Self:
        self.provider.add_span_processor(self.processor)
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        self.provider.shutdown()
        super().__exit__(*error)

    def flush(self) -> None:
        """Wait until all spans are exported."""

    def spans(self) -> list[Span]:
        self.flush()
        finished = sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time)
        return [each for each in map(self._traced, finished) if each is not None]

    def _traced(self, span: Any) -> Span | None:
        read = self.read(dict(span.attributes), span)
        return read and _replace(read, error=_error_of(span), trace=str(span.context.trace_id))

    def read(self, attributes: dict[str, Any], span: Any) -> Span | None:
        """Return a span of a model or a tool in the common form."""
        raise NotImplementedError

    def everything(self) -> str:
        self.flush()
        return "\n".join(span.to_json() for span in self.exporter.get_finished_spans())


def _replace(span: Span, **values: Any) -> Span:
    return Span(**{**vars(span), **values})


def _error_of(span: Any) -> str | None:
    if span.status.status_code.name != "ERROR":
        return None
    messages = [event.attributes.get("exception.message") for event in span.events]
    return f"{span.status.description} {messages}"


class Instrumented(OpenTelemetry):
    """An instrument with an instrumentor of OpenTelemetry."""

    module: ClassVar[str]
    instrumentor_class: ClassVar[str]

    def __enter__(self) -> Self:
        module = pytest.importorskip(self.module, reason=NOT_INSTALLED)
        super().__enter__()
        self.instrumentor = getattr(module, self.instrumentor_class)()
        self.instrumentor.instrument(tracer_provider=self.provider)
        return self

    def __exit__(self, *error: object) -> None:
        self.instrumentor.uninstrument()
        super().__exit__(*error)


class OpenInference(Instrumented):
    """openinference-instrumentation-langchain."""

    module = "openinference.instrumentation.langchain"
    instrumentor_class = "LangChainInstrumentor"

    # It has no time of the first token.
    lacks = frozenset({"has_first_token"})

    def read(self, attributes: dict[str, Any], span: Any) -> Span | None:
        kind = attributes["openinference.span.kind"]
        if kind == "TOOL":
            return Span("tool", attributes["tool.name"])
        if kind != "LLM":
            return None
        said = "llm.output_messages.0.message."
        texts = [
            value
            for key, value in attributes.items()
            if key.startswith(said) and key.endswith("message_content.text")
        ]
        names = [key for key in attributes if key.endswith("tool_call.function.name")]
        return Span(
            "model",
            attributes["llm.model_name"],
            text="".join(texts) or attributes.get(f"{said}content"),
            calls=tuple(attributes[key] for key in names if key.startswith(said)),
            input_tokens=attributes.get("llm.token_count.prompt"),
            cached_tokens=attributes.get("llm.token_count.prompt_details.cache_read"),
            output_tokens=attributes.get("llm.token_count.completion"),
            reasoning_tokens=attributes.get("llm.token_count.completion_details.reasoning"),
            finish_reason=attributes.get("llm.finish_reason"),
            max_tokens=json.loads(attributes["llm.invocation_parameters"]).get("max_tokens"),
            has_first_token=_has_first_token(attributes, span.events),
        )


def _has_first_token(attributes: Mapping[str, Any], events: Iterable[Any]) -> bool:
    names = [*attributes, *(event.name for event in events)]
    return any("first" in name or "new_token" in name for name in names)


def _number(attributes: Mapping[str, Any], part: str) -> int | None:
    """Return a count by a part of its name, so that a new attribute is noticed."""
    found = [value for key, value in attributes.items() if part in key and isinstance(value, int)]
    return found[0] if found else None


class Traceloop(Instrumented):
    """opentelemetry-instrumentation-langchain."""

    module = "opentelemetry.instrumentation.langchain"
    instrumentor_class = "LangchainInstrumentor"

    # It reads `cache_read` of the details only, and has no time of the first token.
    lacks = frozenset({"reasoning_tokens", "has_first_token"})

    def read(self, attributes: dict[str, Any], span: Any) -> Span | None:
        operation = attributes.get("gen_ai.operation.name")
        if operation == "execute_tool":
            return Span("tool", attributes["gen_ai.tool.name"])
        if operation != "chat":
            return None
        (message,) = json.loads(attributes.get("gen_ai.output.messages", '[{"parts": []}]'))
        texts = [part["content"] for part in message["parts"] if part["type"] == "text"]
        calls = [part for part in message["parts"] if part["type"] == "tool_call"]
        # It lists a call a second time, without an id, from additional_kwargs["function_call"].
        assert len([call for call in calls if not call["id"]]) == (1 if calls else 0)
        # Where a message has no text, it shows the thoughts as text.
        is_thought = bool(calls) and '"thinking"' in "".join(texts)
        return Span(
            "model",
            attributes["gen_ai.response.model"],
            text=None if is_thought else "".join(texts) or None,
            calls=tuple(call["name"] for call in calls if call["id"]),
            input_tokens=attributes.get("gen_ai.usage.input_tokens"),
            cached_tokens=attributes.get("gen_ai.usage.cache_read.input_tokens"),
            output_tokens=attributes.get("gen_ai.usage.output_tokens"),
            reasoning_tokens=_number(attributes, "reasoning"),
            finish_reason=(attributes.get("gen_ai.response.finish_reasons") or [None])[0],
            max_tokens=attributes.get("gen_ai.request.max_tokens"),
            has_first_token=_has_first_token(attributes, span.events),
        )


class LangSmithOpenTelemetry(OpenTelemetry):
    """LangSmith in OpenTelemetry mode."""

    # It reads finish reasons of OpenAI's and Anthropic's outputs only: ours is in the JSON of
    # `gen_ai.completion`. It does not export the events of a run.
    lacks = frozenset({"finish_reason", "has_first_token"})

    def __enter__(self) -> Self:
        from langsmith import Client
        from langsmith.run_helpers import tracing_context

        self.client = Client(
            api_url="http://127.0.0.1:9",
            api_key="not-used",
            otel_tracer_provider=self.provider,
            tracing_mode="otel",
        )
        self.context = tracing_context(enabled=True, client=self.client)
        self.context.__enter__()
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        self.context.__exit__(None, None, None)
        self.client.close()
        super().__exit__(*error)

    def flush(self) -> None:
        self.client.flush()

    def read(self, attributes: dict[str, Any], span: Any) -> Span | None:
        kind = attributes["langsmith.span.kind"]
        if kind == "tool":
            return Span("tool", attributes["gen_ai.tool.name"])
        if kind != "llm":
            return None
        usage = json.loads(attributes.get("langsmith.metadata.usage_metadata", "{}"))
        said = _said(json.loads(attributes["gen_ai.completion"]))
        return Span(
            "model",
            attributes["gen_ai.request.model"],
            text=said.text,
            calls=said.calls,
            input_tokens=attributes.get("gen_ai.usage.input_tokens"),
            cached_tokens=usage.get("input_token_details", {}).get("cache_read"),
            output_tokens=attributes.get("gen_ai.usage.output_tokens"),
            reasoning_tokens=usage.get("output_token_details", {}).get("reasoning"),
            finish_reason=(attributes.get("gen_ai.response.finish_reasons") or [None])[0],
            max_tokens=attributes.get("langsmith.metadata.ls_max_tokens"),
            has_first_token=_has_first_token(attributes, span.events),
        )


def _said(outputs: dict[str, Any] | None) -> Span:
    """Read LangChain's form of a result, which LangSmith stores."""
    generations = (outputs or {}).get("generations") or [[]]
    if not generations[0]:
        return Span("model")
    (generation,) = generations[0]
    message = generation["message"].get("kwargs") or generation["message"]
    usage = message.get("usage_metadata") or {}
    return Span(
        "model",
        text=generation["text"] or None,
        calls=tuple(call["name"] for call in message.get("tool_calls") or ()),
        input_tokens=usage.get("input_tokens"),
        cached_tokens=usage.get("input_token_details", {}).get("cache_read"),
        output_tokens=usage.get("output_tokens"),
        reasoning_tokens=usage.get("output_token_details", {}).get("reasoning"),
        finish_reason=(generation.get("generation_info") or {}).get("finish_reason"),
    )


class Langfuse(OpenTelemetry):
    """The callback handler of Langfuse."""

    # It stores the content, tool calls and usage of a message, but not its metadata.
    lacks = frozenset({"finish_reason"})

    def __enter__(self) -> Self:
        langfuse = pytest.importorskip("langfuse", reason=NOT_INSTALLED)
        callback = pytest.importorskip("langfuse.langchain", reason=NOT_INSTALLED)
        public_key = f"pk-{uuid.uuid4()}"  # clients are kept by their key
        self.client = langfuse.Langfuse(
            public_key=public_key,
            secret_key="not-used",
            base_url="http://127.0.0.1:9",
            tracer_provider=self.provider,
            span_exporter=self.exporter,
        )
        self.callbacks = (callback.CallbackHandler(public_key=public_key),)
        return Instrument.__enter__(self)  # its own processor exports the spans

    def __exit__(self, *error: object) -> None:
        self.client.shutdown()
        super().__exit__(*error)

    def flush(self) -> None:
        self.client.flush()

    def read(self, attributes: dict[str, Any], span: Any) -> Span | None:
        named = {key.removeprefix("langfuse.observation."): attributes[key] for key in attributes}
        if named["type"] == "tool":
            return Span("tool", span.name)
        if named["type"] != "generation":
            return None
        usage = json.loads(named.get("usage_details", "{}"))
        said: Any = json.loads(named.get("output", "{}"))
        content = said.get("content") or []
        texts = [content] if isinstance(content, str) else [b.get("text", "") for b in content]
        # Its counts add up to the total: cached tokens are not among the others.
        cached, reasoning = usage.get("input_cache_read"), usage.get("output_reasoning")
        return Span(
            "model",
            named["model.name"],
            text="".join(texts) or None,
            calls=tuple(call["name"] for call in said.get("tool_calls") or ()),
            input_tokens=usage["input"] + (cached or 0) if usage else None,
            cached_tokens=cached,
            output_tokens=usage["output"] + (reasoning or 0) if usage else None,
            reasoning_tokens=reasoning,
            finish_reason=next((named[key] for key in named if "finish" in key), None)
            or said.get("finish_reason"),
            max_tokens=json.loads(named["model.parameters"]).get("max_tokens"),
            has_first_token="completion_start_time" in named,
        )


# LangSmith


class LangSmith(Instrument):
    """LangSmith, with a server on this machine that keeps what it is sent."""

    def __enter__(self) -> Self:
        from langsmith import Client
        from langsmith.run_helpers import tracing_context

        self.sink = Sink()
        self.client = Client(api_url=self.sink.url, api_key="not-used")
        self.context = tracing_context(enabled=True, client=self.client)
        self.context.__enter__()
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self.context.__exit__(None, None, None)
        self.client.close()
        self.sink.__exit__(*error)

    def spans(self) -> list[Span]:
        self.client.flush()
        runs = sorted(self.sink.runs().values(), key=lambda run: str(run["start_time"]))
        return [_of_run(run) for run in runs if run["run_type"] in {"llm", "tool"}]

    def everything(self) -> str:
        self.client.flush()
        return "\n".join(body.decode(errors="replace") for _, body in self.sink.received)


def _of_run(run: dict[str, Any]) -> Span:
    trace, error = run["trace_id"], run.get("error")
    if run["run_type"] == "tool":
        return Span("tool", run["name"], error=error, trace=trace)
    metadata = run["extra"]["metadata"]
    return _replace(
        _said(run["outputs"]),
        name=metadata["ls_model_name"],
        max_tokens=metadata.get("ls_max_tokens"),
        has_first_token=any(event["name"] == "new_token" for event in run["events"]),
        error=error,
        trace=trace,
    )


class Sink:
    """A server that accepts everything and keeps it."""

    def __init__(self) -> None:
        self.received: list[tuple[str, bytes]] = []
        """The type of the content, and the body, of each POST and PATCH."""
        received = self.received

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers["content-encoding"] == "gzip":
                    body = gzip.decompress(body)
                received.append((self.headers["content-type"], body))
                self._answer()

            do_PATCH = do_POST  # noqa: N815 - the name is Python's

            def _answer(self) -> None:
                self.send_response(200)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def runs(self) -> dict[str, dict[str, Any]]:
        """Return LangSmith's runs by their ids: parts are named `post.ID` or `patch.ID.field`."""
        found: dict[str, dict[str, Any]] = {}
        for content_type, body in self.received:
            header = f"Content-Type: {content_type}\r\n\r\n".encode()
            message = email.message_from_bytes(header + body, policy=email.policy.HTTP)
            for part in message.iter_parts():
                name = str(part.get_param("name", header="content-disposition"))
                _, run_id, *fields = name.split(".")
                value = json.loads(part.get_content())
                run = found.setdefault(run_id, {})
                run.update({fields[0]: value} if fields else value)
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()


# MLflow


class MLflow(Instrument):
    """MLflow's autolog, with its store in a folder."""

    # Its token usage has no field for reasoning, and its form of a response sets no finish reason.
    lacks = frozenset({"reasoning_tokens", "finish_reason"})

    def __enter__(self) -> Self:
        self.mlflow = pytest.importorskip("mlflow", reason=NOT_INSTALLED)
        super().__enter__()
        self.patch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # it prefers a database
        self.patch.setenv("MLFLOW_ENABLE_ASYNC_TRACE_LOGGING", "false")
        self.mlflow.set_tracking_uri(self.folder.as_uri())
        self.mlflow.langchain.autolog(silent=True)
        return self

    def __exit__(self, *error: object) -> None:
        self.mlflow.langchain.autolog(disable=True, silent=True)
        super().__exit__(*error)

    def spans(self) -> list[Span]:
        traces = self.mlflow.search_traces(return_type="list")
        spans = sorted(
            (span for trace in traces for span in trace.data.spans),
            key=lambda span: span.start_time_ns,
        )
        return [each for each in map(self._read, spans) if each is not None]

    def _read(self, span: Any) -> Span | None:
        attributes = span.attributes
        error = span.status.description if span.status.status_code.name == "ERROR" else None
        if span.span_type == "TOOL":
            return Span("tool", span.name, error=error, trace=span.trace_id)
        if span.span_type != "CHAT_MODEL":
            return None
        usage = attributes.get("mlflow.chat.tokenUsage") or {}
        said = _said_to_mlflow(span.outputs or {})
        return Span(
            "model",
            attributes["mlflow.llm.model"],
            text=said.text,
            calls=said.calls,
            input_tokens=usage.get("input_tokens"),
            cached_tokens=usage.get("cache_read_input_tokens"),
            output_tokens=usage.get("output_tokens"),
            reasoning_tokens=_number(usage, "reasoning"),
            finish_reason=said.finish_reason,
            max_tokens=attributes["invocation_params"].get("max_tokens"),
            has_first_token=_has_first_token({}, span.events),
            error=error,
            trace=span.trace_id,
        )

    def everything(self) -> str:
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        return "\n".join(path.read_bytes().decode(errors="replace") for path in files)


def _said_to_mlflow(outputs: dict[str, Any]) -> Span:
    """Read a response in the form of chat completions.

    A message with thoughts has no such form. MLflow stores the JSON of `BaseMessage` instead, with
    the finish reason, but without `tool_calls`: a call is in `additional_kwargs` only.
    """
    if generations := outputs.get("generations"):
        (generation,) = generations[0]
        call = generation["message"]["additional_kwargs"].get("function_call")
        return Span("model", text=generation["text"] or None, calls=(call["name"],) if call else ())
    (choice,) = outputs.get("choices") or [{}]
    message = choice.get("message") or {}
    content = message.get("content")
    texts = [content] if isinstance(content, str) else [part["text"] for part in content or ()]
    return Span(
        "model",
        text="".join(texts) or None,
        calls=tuple(call["function"]["name"] for call in message.get("tool_calls") or ()),
        finish_reason=choice.get("finish_reason"),
    )


INSTRUMENTS = {
    "openinference": OpenInference,
    "traceloop": Traceloop,
    "langsmith": LangSmith,
    "langsmith-opentelemetry": LangSmithOpenTelemetry,
    "langfuse": Langfuse,
    "mlflow": MLflow,
}
