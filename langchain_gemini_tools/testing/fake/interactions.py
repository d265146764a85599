"""The Interactions API: steps in, steps out, whole or streamed, stored or not.

A request is read as the equivalent generateContent call (`Ask`) and answered by the same model.
The answer is written as steps. The order of events and the fields of each are recorded;
`rules.interactions` says what is refused. Interactions are stored until the server stops. GET,
cancel and DELETE were not recorded: they follow the SDK and Google's documentation.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.testing.fake.answer import part_pieces, prompt_tokens, usage_counts
from langchain_gemini_tools.testing.fake.ask import Ask, Model
from langchain_gemini_tools.testing.fake.responses import (
    JsonObject,
    Outgoing,
    Refusal,
    documented,
    event_stream,
    invalid,
    reading,
    whole,
)
from langchain_gemini_tools.testing.fake.rules import interactions as rules
from langchain_gemini_tools.testing.fake.rules import run_checks
from langchain_gemini_tools.testing.fake.rules.declarations import check_declarations
from langchain_gemini_tools.testing.fake.rules.payload import camel, check_length, check_model
from langchain_gemini_tools.testing.fake.script import LongAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from langchain_gemini_tools.testing.fake.answer import Answer, Memory
    from langchain_gemini_tools.testing.fake.request import Request, Route
    from langchain_gemini_tools.testing.fake.script import Reply
    from langchain_gemini_tools.testing.fake.server import Emulator

    NextReply = Callable[[Ask], Reply | LongAnswer]

_TIME = "2026-01-31T12:00:00Z"
_USAGE = {
    "promptTokenCount": "total_input_tokens",
    "candidatesTokenCount": "total_output_tokens",
    "thoughtsTokenCount": "total_thought_tokens",
    "toolUsePromptTokenCount": "total_tool_use_tokens",
    "cachedContentTokenCount": "total_cached_tokens",
    "totalTokenCount": "total_tokens",
}
_MODALITIES = {
    "promptTokensDetails": "input_tokens_by_modality",
    "candidatesTokensDetails": "output_tokens_by_modality",
}
_STATUSES = {"STOP": "completed", "MAX_TOKENS": "incomplete"}
_MEDIA = ("image", "audio", "video")
_WORDS = {400: "invalid_request", 404: "not_found", 504: "gateway_timeout"}
_RUNNING = ("queued", "in_progress")


class Interactions:
    """The interactions of an emulator."""

    def __init__(self, emulator: Emulator, judge: Callable[[Refusal], None]) -> None:
        self.stored: dict[str, Stored] = {}
        self._emulator = emulator
        self._judge = judge
        self._memory = emulator.memory

    def serve(self, route: Route, request: Request, answer: NextReply) -> Outgoing:
        """Return what one request gets back; `answer` finds the next reply."""
        if route.method == "create":
            if not isinstance(request.body, dict):
                raise invalid("The body is not a JSON object")
            return self._create(route, request.body, answer)
        known = self._find(route.name)
        if route.method == "delete":
            del self.stored[route.name]
            return whole(200, {})
        if route.method == "cancel":
            if known.body["status"] in _RUNNING:
                known.body |= {"status": "cancelled"}
                known.later = None
            return whole(200, known.body)
        return _read_stored(known, request.query)

    def _find(self, name: str) -> Stored:
        if name not in self.stored:
            raise rules.unknown_interaction(name)
        return self.stored[name]

    def _create(self, route: Route, body: JsonObject, answer: NextReply) -> Outgoing:
        with reading():
            ask, stored = self._read(route, body)
        return self._answer(body, ask, stored, answer(ask))

    def _read(self, route: Route, body: JsonObject) -> tuple[Ask, Stored]:
        """The equivalent call, and what is stored of the conversation before the answer."""
        run_checks([lambda: rules.check_fields(body)], self._judge)
        model = self._model(body, route)
        named = None if body.get("agent") else model
        rules.check_thinking(body, named)
        rules.check_background(body, named)
        given = rules.read_steps(body["input"]) if "input" in body else []
        previous = body.get("previous_interaction_id")
        steps = [*(self._find(previous).steps if previous is not None else []), *given]

        def check_conversation() -> None:
            foreign = self._emulator.accepts_foreign_signatures
            rules.check_steps(steps, model, self._memory, accepts_foreign=foreign)
            rules.check_end(body, steps, self.stored)

        run_checks([check_conversation], self._judge)
        ask = Ask(read_call(body, steps), model, route.backend, route.version)
        check_declarations(ask)
        check_length(prompt_tokens(ask), 1_048_576)
        return ask, Stored({}, steps, given)

    def _model(self, body: JsonObject, route: Route) -> Model:
        if agent := body.get("agent"):
            return Model(agent)
        name = str(body.get("model", ""))
        if name.startswith("models/"):
            raise invalid("A model is named without `models/`")
        extra = self._emulator.models
        return check_model(name, route.version, route.backend, "interactions", extra)

    def _answer(
        self, body: JsonObject, ask: Ask, stored: Stored, reply: Reply | LongAnswer
    ) -> Outgoing:
        if isinstance(reply, LongAnswer):
            words = "FakeGemini has no long answers for interactions. Script reply(...) instead."
            raise Refusal(words, status="FAILED_PRECONDITION")
        if reply.body is not None or reply.events is not None:
            return reply.finish(self._raw(body, reply, stored))
        said = reply.answer_to(ask)
        steps = _write_steps(said, ask, self._memory)
        name = f"v1_{self._memory.new_id()}"
        keys = ("previous_interaction_id", "agent")
        extra = {key: body[key] for key in keys if key in body}
        interaction = _write_interaction(said, ask, steps, name, extra)
        if body.get("agent"):
            del interaction["model"]
        if body.get("store") is False and not body.get("stream"):
            del interaction["id"]  # recorded once, in a fixture of vercel/ai; of a stream not known
        self._store(body, stored, interaction)
        if body.get("background"):
            stored.later = interaction
            # Recorded: an agent's first reply has neither steps nor usage.
            running = {**interaction, "status": "in_progress"}
            stored.body = {k: v for k, v in running.items() if k not in {"steps", "usage"}}
            stored.events = _write_events(interaction, ask, said, has_ids=True)
            streams = body.get("stream")
            outgoing = event_stream(stored.events) if streams else whole(200, stored.body)
        elif body.get("stream"):
            outgoing = event_stream(_write_events(interaction, ask, said))
        else:
            outgoing = whole(200, interaction)
        return reply.finish(outgoing)

    def _raw(self, body: JsonObject, reply: Reply, stored: Stored) -> Outgoing:
        """Return a reply that a test wrote as the API spells it."""
        if reply.events is not None and body.get("stream"):
            said = [event.get("interaction") for event in reply.events if isinstance(event, dict)]
            ended: JsonObject = next((each for each in reversed(said) if each), {})
            if "id" in ended:
                self._store(body, stored, ended)
            return event_stream(list(reply.events))
        if isinstance(reply.body, dict) and "id" in reply.body:
            self._store(body, stored, reply.body)
        return whole(reply.status, reply.body)

    def _store(self, body: JsonObject, stored: Stored, interaction: JsonObject) -> None:
        if body.get("store") is not False:  # documented: true by default
            stored.body = interaction
            stored.steps = [*stored.steps, *interaction.get("steps", [])]
            self.stored[interaction["id"]] = stored


def _read_stored(known: Stored, query: Mapping[str, str]) -> Outgoing:
    """Return what GET returns: the interaction, or its events after one of them.

    The parameters are the SDK's. It says that a stream continues "from the chunk after the event
    marked by the event id". What the API says about an unknown id is not known.
    """
    last = query.get("last_event_id")
    if query.get("stream") != "true":
        if last is not None:
            raise documented("last_event_id needs stream=true")
        return whole(200, known.read())
    ids = [f"e{n}" for n in range(1, len(known.events))]
    if not known.events or last not in (None, *ids):
        raise invalid("last_event_id is the id of an event of this interaction")
    return event_stream(known.events[ids.index(last) + 1 if last else 0 :])


@dataclass
class Stored:
    """An interaction that can be read, continued and deleted."""

    body: JsonObject
    """As `GET` returns it, without the steps of the user."""
    steps: list[JsonObject] = field(default_factory=list)
    """The whole conversation, the interactions before it included."""
    given: list[JsonObject] = field(default_factory=list)
    """The steps of the user."""
    later: JsonObject | None = None
    """The final state of one that runs in the background: the second GET returns it."""
    events: list[bytes] = field(default_factory=list)
    """Of one that is streamed from the background: its events. The n-th has the id `e<n>`."""
    _reads: int = 0

    def read(self) -> JsonObject:
        """Return what `GET` returns. Documented: it includes the steps of the user."""
        self._reads += 1
        if self.later is not None and self._reads > 1:
            self.body, self.later = self.later, None
        steps = {"steps": [*self.given, *self.body["steps"]]} if "steps" in self.body else {}
        return {**self.body, **steps}


def refuse(refusal: Refusal) -> Outgoing:
    """Return a refusal in the form of this API: `code` is a word (recorded for 400)."""
    word = _WORDS.get(refusal.code, refusal.status.lower())
    return whole(refusal.code, {"error": {"message": refusal.message, "code": word}})


# Requests


def read_call(body: JsonObject, steps: Sequence[JsonObject]) -> JsonObject:
    """Return the body of the equivalent generateContent call."""
    tools = body.get("tools", [])
    functions = [_declaration(tool) for tool in tools if tool["type"] == "function"]
    builtin: list[JsonObject] = [
        {camel(tool["type"]): {}} for tool in tools if tool["type"] != "function"
    ]
    call: JsonObject = {"contents": [*_contents(steps)], "generationConfig": _config(body)}
    call["tools"] = [*([{"functionDeclarations": functions}] if functions else []), *builtin]
    if instruction := body.get("system_instruction"):
        call["systemInstruction"] = {"parts": [{"text": instruction}]}
    if calling := _calling(body.get("generation_config", {}).get("tool_choice")):
        call["toolConfig"] = {"functionCallingConfig": calling}
    if builtin:
        call.setdefault("toolConfig", {})["includeServerSideToolInvocations"] = True
    return call


def _declaration(tool: JsonObject) -> JsonObject:
    names = {"name": "name", "description": "description", "parameters": "parametersJsonSchema"}
    return {names[key]: value for key, value in tool.items() if key in names}


def _calling(choice: Any) -> JsonObject:
    match choice:
        case str():
            return {"mode": choice.upper()}
        case {"allowed_tools": {"mode": str(mode), "tools": list(names)}}:
            return {"mode": mode.upper(), "allowedFunctionNames": names}
    return {}


def _config(body: JsonObject) -> JsonObject:
    given = body.get("generation_config", {})
    config: JsonObject = {
        camel(key): given[key] for key in ("max_output_tokens", "stop_sequences") if key in given
    }
    if given.get("thinking_summaries") == "auto":
        config["thinkingConfig"] = {"includeThoughts": True}
    formats = body.get("response_format") or []
    for each in formats if isinstance(formats, list) else [formats]:
        if each.get("mime_type") == "application/json":
            config["responseMimeType"] = "application/json"
            config |= {"responseJsonSchema": each["schema"]} if "schema" in each else {}
    return config


def _contents(steps: Sequence[JsonObject]) -> Iterator[JsonObject]:
    names = {step["id"]: step["name"] for step in steps if step["type"] == "function_call"}
    for step in steps:
        match step:
            case {"type": "user_input"}:
                yield {"role": "user", "parts": [*map(_part, step["content"])]}
            case {"type": "model_output"}:
                yield {"role": "model", "parts": [*map(_part, step.get("content", []))]}
            case {"type": "function_call"}:
                call = {"id": step["id"], "name": step["name"], "args": step["arguments"]}
                yield {"role": "model", "parts": [{"functionCall": call}]}
            case {"type": "function_result"}:
                yield {"role": "user", "parts": [_response(step, names)]}


def _response(step: JsonObject, names: dict[str, str]) -> JsonObject:
    call_id, result = step["call_id"], step["result"]
    if isinstance(result, list):
        result = " ".join(part.get("text", f"({part['type']})") for part in result)
    key = "error" if step.get("is_error") else "output"
    name = step.get("name") or names.get(call_id, "")
    return {"functionResponse": {"id": call_id, "name": name, "response": {key: result}}}


def _part(content: JsonObject) -> JsonObject:
    if content["type"] == "text":
        return {"text": content["text"]}
    mime = content.get("mime_type", "")
    if "data" in content:
        return {"inlineData": {"mimeType": mime, "data": content["data"]}}
    return {"fileData": {"fileUri": content.get("uri", ""), "mimeType": mime}}


# Answers


def _write_steps(answer: Answer, ask: Ask, memory: Memory) -> list[JsonObject]:
    """Return the answer as steps. Recorded: the first one is a thought with a signature."""
    thought: JsonObject = {"type": "thought", "signature": memory.new_signature()}
    summary = [part for part in answer.parts if part.get("thought")]
    if summary:
        thought["summary"] = [{"type": "text", "text": part["text"]} for part in summary]
    steps = [thought]
    for part in answer.parts:
        if part.get("thought"):
            continue
        step = _write_step(part, memory, is_signed=ask.model.is_3)
        if step["type"] == "model_output" and steps[-1]["type"] == "model_output":
            steps[-1]["content"] += step["content"]
        else:
            steps.append(step)
    _learn(steps, ask, memory)
    return steps


def _write_step(part: JsonObject, memory: Memory, *, is_signed: bool) -> JsonObject:
    # Recorded for search: Gemini 3 signs both of its steps, 2.5 signs neither.
    signed = {"signature": memory.new_signature()} if is_signed else {}
    match part:
        case {"functionCall": call}:
            call_id = call.get("id") or memory.new_id()
            named = {"id": call_id, "name": call["name"], "arguments": call.get("args", {})}
            return {"type": "function_call", **named}
        case {"executableCode": code}:
            arguments = {"code": code["code"], "language": "python"}
            named = {"id": "code_1", "arguments": arguments}
            return {"type": "code_execution_call", **named, **signed}
        case {"codeExecutionResult": result}:
            done = {"call_id": "code_1", "result": result.get("output", ""), "is_error": False}
            return {"type": "code_execution_result", **done, **signed}
        case {"toolCall": call}:
            return {
                "type": "google_search_call",
                "id": "search_1",
                "arguments": call["args"],
                "search_type": "web_search",
                **signed,
            }
        case {"toolResponse": response}:
            found = {"call_id": "search_1", "result": [response["response"]], "is_error": False}
            return {"type": "google_search_result", **found, **signed}
        case {"inlineData": blob}:
            major = blob["mimeType"].partition("/")[0]
            kind = major if major in _MEDIA else "document"
            content = {"type": kind, "mime_type": blob["mimeType"], "data": blob["data"]}
            return {"type": "model_output", "content": [content]}
    return {"type": "model_output", "content": [{"type": "text", "text": part.get("text", "")}]}


def _learn(steps: list[JsonObject], ask: Ask, memory: Memory) -> None:
    """Remember signatures and calls, so that the next request is held against them."""
    for step in steps:
        if step["type"] == "function_call":
            memory.interaction_calls[step["id"]] = step["name"], step["arguments"]
    signed = [step["signature"] for step in steps if "signature" in step]
    memory.learn([{"text": "", "thoughtSignature": signature} for signature in signed], ask)


def _write_interaction(
    answer: Answer, ask: Ask, steps: list[JsonObject], name: str, extra: JsonObject
) -> JsonObject:
    """Return the interaction as `create` returns it: only the model's new steps."""
    counts = usage_counts(answer, ask, 0, answer.parts)
    usage: JsonObject = {ours: counts.get(key, 0) for key, ours in _USAGE.items()}
    for key, ours in _MODALITIES.items():
        if key in counts:
            usage[ours] = [
                {"modality": each["modality"].lower(), "tokens": each["tokenCount"]}
                for each in counts[key]
            ]
    has_calls = any(step["type"] == "function_call" for step in steps)
    reason = answer.finish_reason or "completed"
    status = _STATUSES.get(reason, reason)
    if status == "completed" and has_calls:
        status = "requires_action"
    if status.isupper():  # how a blocked answer looks is not known
        extra = {**extra, "errors": [{"code": 13, "message": reason}]}
        status = "failed"
    return {
        "id": name,
        "object": "interaction",
        "model": ask.model.name,
        "status": status,
        "created": _TIME,
        "updated": _TIME,
        "service_tier": "standard",
        **extra,
        "steps": steps,
        "usage": usage,
    }


def _write_events(
    interaction: JsonObject, ask: Ask, answer: Answer, *, has_ids: bool = False
) -> list[bytes]:
    """Return the same as a stream, as recorded: step after step, usage and status at the end.

    Documented: each event has an id in a stream from the background. No recorded event of another
    stream has one.
    """
    keys = ("id", "object", "model", "agent")
    common = {key: interaction[key] for key in keys if key in interaction}
    begun = {**common, "status": "in_progress"}
    named = {"interaction_id": common["id"], "status": "in_progress"}
    events: list[JsonObject] = [
        {"event_type": "interaction.created", "interaction": begun},
        {"event_type": "interaction.status_update", **named},
    ]
    for index, step in enumerate(interaction["steps"]):
        events += _step_events(step, index, ask, answer)
    ended = {key: value for key, value in interaction.items() if key != "steps"}
    events.append({"event_type": "interaction.completed", "interaction": ended})
    if has_ids:
        events = [{**event, "event_id": f"e{n}"} for n, event in enumerate(events, start=1)]
    return [*map(_event_bytes, events), b"event: done\ndata: [DONE]\n\n"]


def _event_bytes(event: JsonObject) -> bytes:
    data = json.dumps(event, ensure_ascii=False)
    return f"event: {event['event_type']}\ndata: {data}\n\n".encode()


def _step_events(step: JsonObject, index: int, ask: Ask, answer: Answer) -> Iterator[JsonObject]:
    start, deltas = _cut(step, ask, answer)
    yield {"event_type": "step.start", "index": index, "step": start}
    for delta in deltas:
        yield {"event_type": "step.delta", "index": index, "delta": delta}
    yield {"event_type": "step.stop", "index": index}


def _cut(step: JsonObject, ask: Ask, answer: Answer) -> tuple[JsonObject, list[JsonObject]]:
    """Return what the start of a step says, and its deltas."""
    kind = step["type"]
    if kind == "thought":
        deltas = [
            {"type": "thought_summary", "content": content} for content in step.get("summary", [])
        ]
        signature = {"type": "thought_signature", "signature": step["signature"]}
        return {"type": kind}, [*deltas, signature]
    if kind == "model_output":
        deltas = [delta for each in step["content"] for delta in _content_deltas(each, ask, answer)]
        return {"type": kind}, deltas
    if kind == "function_call":
        text = json.dumps(step["arguments"], ensure_ascii=False)
        # Recorded in one piece; documented: it must be put together.
        half = len(text) // 2
        pieces = text[:half], text[half:]
        deltas = [{"type": "arguments_delta", "arguments": piece} for piece in pieces]
        return {**step, "arguments": {}}, deltas
    whole_delta = {key: value for key, value in step.items() if key not in {"id", "call_id"}}
    start = {key: value for key, value in step.items() if key in {"type", "id", "call_id"}}
    return {**start, "signature": ""}, [whole_delta]


def _content_deltas(content: JsonObject, ask: Ask, answer: Answer) -> list[JsonObject]:
    if content["type"] != "text":
        return [content]
    pieces = part_pieces({"text": content["text"]}, ask, answer.chunks)
    return [{"type": "text", "text": piece["text"]} for piece in pieces if piece["text"]]
