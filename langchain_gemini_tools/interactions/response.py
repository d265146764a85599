"""Interactions, and the events of a stream -> responses in the shape that `wire` parses.

Both ways end in whole steps: `decode_interaction` finds them in the body, `EventDecoder` puts them
together. The steps are handed on as they came, for the next request.

The status becomes the finish reason; `facts.finish_reasons` says what each one means.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.errors import (
    MalformedToolCallError,
    UnreadableResponseError,
    map_api_error,
)
from langchain_gemini_tools.facts.finish_reasons import (
    CONTINUATION,
    INTERACTION_COMPLETED,
    REQUIRES_CONTINUATION,
)
from langchain_gemini_tools.interactions.steps import HISTORY_SUM, INTERACTION_ID, Step
from langchain_gemini_tools.wire.hops import TOKEN
from langchain_gemini_tools.wire.replay import RAW_STEPS, STEP

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from langchain_gemini_tools.wire import shapes as gemini

_COUNTS = {
    "total_input_tokens": "promptTokenCount",
    "total_output_tokens": "candidatesTokenCount",
    "total_thought_tokens": "thoughtsTokenCount",
    "total_tool_use_tokens": "toolUsePromptTokenCount",
    "total_cached_tokens": "cachedContentTokenCount",
    "total_tokens": "totalTokenCount",
}
_DETAILS = {
    "input_tokens_by_modality": "promptTokensDetails",
    "output_tokens_by_modality": "candidatesTokensDetails",
    "cached_tokens_by_modality": "cacheTokensDetails",
    "tool_use_tokens_by_modality": "toolUsePromptTokensDetails",
}
_COPIED = {"service_tier": "serviceTier", "created": "createTime", "agent": "agent"}
_SENT_STEPS = ("user_input", "function_result")
"""Steps of the caller, which `GET` returns as well (documented)."""
_FAILED = "failed"
_CONTENTS = ("text", "image", "audio", "video", "document")
_OLD_EVENTS = {
    "interaction.start": "interaction.created",
    "interaction.complete": INTERACTION_COMPLETED,
    "content.start": "step.start",
    "content.delta": "step.delta",
    "content.stop": "step.stop",
}
"""Before May 2026 responses had `outputs` instead of steps, and events had these names (reported).
Gateways and recordings may still have them."""


def decode_interaction(interaction: gemini.JsonObject, history_sum: str | None) -> gemini.Response:
    """Return a whole interaction as a response.

    Args:
        interaction: The body.
        history_sum: The check sum of the messages that were sent, if the API keeps them, so that
            the id can be used later; else `None`.
    """
    steps = [step for step in _steps(interaction) if step.get("type") not in _SENT_STEPS]
    if not steps and interaction.get("status") is None:
        raise no_status(interaction)
    parts = [part for step in steps for part in parse_step(step)]
    return _response(interaction, steps, parts, history_sum)


def no_status(body: gemini.JsonObject) -> UnreadableResponseError:
    """Return the error for a response that does not say whether the interaction has ended."""
    return UnreadableResponseError("The response is not an interaction: no status.", body=body)


def continue_body(body: gemini.JsonObject, token: str) -> gemini.JsonObject:
    """Return a body that continues a response.

    By the SDK, a stored interaction is continued by its id and without input, any other by the
    same input.

    Args:
        body: The body of the first request.
        token: From a decoded response: the API's token, after the id of a stored interaction.
    """
    interaction_id, _, bare = token.rpartition(" ")
    if not interaction_id:
        return {**body, "continuation_token": bare}
    others = {key: value for key, value in body.items() if key != "input"}
    return {**others, "previous_interaction_id": interaction_id, "continuation_token": bare}


def _steps(interaction: gemini.JsonObject) -> list[Step]:
    steps = interaction.get("steps") or interaction.get("outputs") or []
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise UnreadableResponseError(
            "The interaction's `steps` are not a list of objects.", body=interaction
        )
    return [_as_step(step) for step in steps]


def _as_step(given: Step) -> Step:
    """Return a step; a content that stands in its place is one of the model's output."""
    if given.get("type") not in _CONTENTS:
        return given
    is_empty = given.keys() == {"type"}  # the start of one in a stream
    return {"type": "model_output", "content": [] if is_empty else [given]}


def _response(
    interaction: gemini.JsonObject,
    steps: list[Step],
    parts: list[gemini.JsonObject],
    history_sum: str | None,
) -> gemini.Response:
    """Return the response, or the last event of a stream, with all that applies to the whole."""
    status = interaction.get("status")
    if status != REQUIRES_CONTINUATION and any(_has_message(step.get("error")) for step in steps):
        status = _FAILED  # by the SDK, the error of an output that failed or was cancelled
    candidate: gemini.JsonObject = {"content": {"role": "model", "parts": parts}}
    candidate["finishReason"] = CONTINUATION if status == REQUIRES_CONTINUATION else status
    if token := interaction.get("continuation_token"):
        # A stored interaction is continued by its id; see `continue_body`.
        name = interaction.get("id") if history_sum is not None else None
        candidate[TOKEN] = f"{name} {token}" if name else token
    if message := _error_message(interaction, steps):
        candidate["finishMessage"] = message
    if grounding := parse_grounding(steps):
        candidate["groundingMetadata"] = grounding
    response = {**_identity(interaction, history_sum), "candidates": [candidate]}
    if isinstance(usage := interaction.get("usage"), dict):
        response["usageMetadata"] = parse_usage(usage)
    return {**response, RAW_STEPS: steps}


def _identity(interaction: gemini.JsonObject, history_sum: str | None) -> gemini.Response:
    """Return what identifies an interaction. An id that cannot be used again is only shown."""
    fields = {ours: interaction[key] for key, ours in _COPIED.items() if interaction.get(key)}
    if model := interaction.get("model"):
        fields["modelVersion"] = model
    if known := interaction.get("id"):
        fields["responseId"] = known
        if history_sum is not None:
            fields |= {INTERACTION_ID: known, HISTORY_SUM: history_sum}
    return fields


def _error_message(interaction: gemini.JsonObject, steps: list[Step]) -> str | None:
    """Return what the API says about a failure; by the SDK, in `errors` or in a step."""
    errors = [*_list(interaction.get("errors")), *(step.get("error") for step in steps)]
    messages = [str(error["message"]) for error in errors if _has_message(error)]
    return "; ".join(dict.fromkeys(messages)) or None


def _has_message(error: Any) -> bool:
    return isinstance(error, dict) and bool(error.get("message"))


# Steps -> parts


def parse_step(step: Step) -> list[gemini.JsonObject]:
    """Return the parts of one step.

    Signatures stay in the step: what is signed is the step as it came, not the part. A step that no
    part stands for is kept whole.
    """
    match step:
        case {"type": "thought"}:
            return [_thought(content) for content in _contents(step.get("summary"))]
        case {"type": "model_output"}:
            return [parse_content(content) for content in _contents(step.get("content"))]
        case {"type": "function_call"}:
            arguments = check_call(step, step.get("arguments"))
            call = {"id": step.get("id"), "name": step["name"], "args": arguments}
            return [{"functionCall": call}]
        case {"type": "code_execution_call", "arguments": dict(arguments)}:
            code = {"code": arguments.get("code", ""), "id": step.get("id")}
            if language := arguments.get("language"):
                code["language"] = str(language).upper()
            return [{"executableCode": code}]
        case {"type": "code_execution_result", "result": result}:
            outcome = "OUTCOME_FAILED" if step.get("is_error") else "OUTCOME_OK"
            output = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
            done = {"outcome": outcome, "output": output, "id": step.get("call_id")}
            return [{"codeExecutionResult": done}]
    return [{STEP: step}]


def check_call(step: Step, arguments: Any) -> gemini.JsonObject:
    """Return the arguments of a function call.

    Args:
        step: The call.
        arguments: Its arguments as they came.

    Raises:
        MalformedToolCallError: It has no name, or its arguments are not an object.
    """
    name = step.get("name")
    if not isinstance(name, str) or not name:
        raise MalformedToolCallError(f"A function call has no name: {step!s:.200}")
    if arguments is None:
        return {}
    if not isinstance(arguments, dict):
        raise MalformedToolCallError(
            f"The arguments of a call to {name!r} are not a JSON object: {arguments!s:.200}"
        )
    return arguments


def _thought(content: Any) -> gemini.JsonObject:
    part = parse_content(content)
    return part if STEP in part else {**part, "thought": True}


def parse_content(content: Any) -> gemini.JsonObject:
    """Return a content of a response as a part; what is not known is kept whole."""
    match content:
        case {"type": "text", "text": str(text)}:
            return {"text": text}
        case {"type": str(), "data": str(data), "mime_type": str(mime)}:
            return {"inlineData": {"mimeType": _with_rate(mime, content), "data": data}}
        case {"type": str(), "uri": str(uri), **rest}:
            mime_type = rest.get("mime_type")
            return {"fileData": {"fileUri": uri} | ({"mimeType": mime_type} if mime_type else {})}
    return {STEP: {"type": "model_output", "content": [content]}}


def _with_rate(mime_type: str, content: Any) -> str:
    """Return the type of a media content; for audio with its rate, as generateContent writes it."""
    if content["type"] != "audio" or ";" in mime_type:
        return mime_type
    given = {
        "rate": content.get("sample_rate", content.get("rate")),
        "channels": content.get("channels"),
    }
    return ";".join([mime_type, *(f"{key}={n}" for key, n in given.items() if type(n) is int)])


def _contents(value: Any) -> list[Any]:
    """Return a list of contents, of which one may stand alone, also as text."""
    if isinstance(value, str):
        return [{"type": "text", "text": value}] if value else []
    return [value] if isinstance(value, dict) else _list(value)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def parse_usage(usage: gemini.JsonObject) -> gemini.JsonObject:
    """Return the token counts under the names of generateContent; others keep their names."""
    counts = {_COUNTS.get(key, key): value for key, value in usage.items() if key not in _DETAILS}
    for key, ours in _DETAILS.items():
        items = [item for item in _list(usage.get(key)) if isinstance(item, dict)]
        if items:
            counts[ours] = [
                {"modality": item.get("modality"), "tokenCount": item.get("tokens")}
                for item in items
            ]
    return counts


# Citations


def parse_grounding(steps: Iterable[Step]) -> gemini.JsonObject | None:
    """Return the citations of all texts, the queries and the search suggestions."""
    grounding = _Grounding()
    for step in steps:
        grounding.add(step)
    return grounding.metadata()


class _Grounding:
    """Collects what generateContent has in `groundingMetadata`."""

    def __init__(self) -> None:
        self._size = 0
        """Bytes of the texts so far: indices count UTF-8 bytes (reported) of one text."""
        self._sources: list[gemini.JsonObject] = []
        self._supports: list[gemini.JsonObject] = []
        self._queries: list[Any] = []
        self._suggestions: list[str] = []

    def add(self, step: Step) -> None:
        match step:
            case {"type": "model_output", "content": list(contents)}:
                for content in contents:
                    if isinstance(content, dict) and isinstance(content.get("text"), str):
                        self._add_text(content)
            case {"type": "google_search_call", "arguments": {"queries": list(queries)}}:
                self._queries += queries
            case {"type": "google_search_result", "result": list(results)}:
                found = [item.get("search_suggestions") for item in results if _is_object(item)]
                self._suggestions += [text for text in found if isinstance(text, str)]

    def _add_text(self, content: gemini.JsonObject) -> None:
        for note in _list(content.get("annotations")):
            if _is_object(note) and (source := _source(note)):
                self._add_citation(note, source)
        self._size += len(content["text"].encode("utf-8", "surrogatepass"))

    def _add_citation(self, note: gemini.JsonObject, source: gemini.JsonObject) -> None:
        if source not in self._sources:
            self._sources.append(source)
        start, end = note.get("start_index", 0), note.get("end_index")
        if type(start) is int and type(end) is int:
            segment = {"startIndex": start + self._size, "endIndex": end + self._size}
            indices = [self._sources.index(source)]
            self._supports.append({"segment": segment, "groundingChunkIndices": indices})

    def metadata(self) -> gemini.JsonObject | None:
        entry = {"renderedContent": "".join(self._suggestions)} if self._suggestions else None
        fields = {
            "webSearchQueries": self._queries,
            "searchEntryPoint": entry,
            "groundingChunks": self._sources,
            "groundingSupports": self._supports,
        }
        return {key: value for key, value in fields.items() if value} or None


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _source(note: gemini.JsonObject) -> gemini.JsonObject | None:
    match note:
        case {"type": "url_citation", "url": str(url)}:
            return {"web": {"uri": url, "title": note.get("title", "")}}
        case {"type": "place_citation"}:
            place = {"uri": note.get("url"), "title": note.get("name")}
            return {"maps": {**place, "placeId": note.get("place_id")}}
        case {"type": "file_citation"}:
            file = {"uri": note.get("document_uri"), "title": note.get("file_name")}
            return {"retrievedContext": file}
    return None


# Streams


class EventDecoder:
    """Decodes the events of one stream. Call it with each event.

    An interaction that is read instead of streamed arrives as a whole, in one piece.

    Recorded order: `interaction.created`, for each step `step.start`, `step.delta`, `step.stop`,
    then `interaction.completed` with the status and the usage. Other events are skipped, as the
    documentation demands. Steps never overlap in recordings. If they do, the parts of one that
    begins inside a function call wait until that call has ended.
    """

    def __init__(self, history_sum: str | None) -> None:
        self._history_sum = history_sum
        self._steps: dict[int, _StreamedStep] = {}
        """By index, in the order in which they began."""
        self._open_call: int | None = None
        self._waiting: dict[int, list[gemini.JsonObject]] = {}
        """Parts of steps that began while a call was open."""
        self._usage: Any = None
        """The newest counts of an event other than the last one."""
        self._has_ended = False

    def __call__(self, event: gemini.JsonObject) -> list[gemini.Response]:
        """Return what an event adds: nothing, or one event in the shape that `wire` parses."""
        kind = event.get("event_type")
        interaction = event.get("interaction")
        if self._has_ended:
            return []
        if kind is None and "status" in event:
            return [decode_interaction(event, self._history_sum)]
        if kind in _OLD_EVENTS:
            kind = _OLD_EVENTS[kind]
            event = {**event, "step": event.get("content")}
        if kind == "error":
            raise map_api_error(None, {"error": event.get("error") or {}})
        if kind == INTERACTION_COMPLETED and isinstance(interaction, dict):
            self._has_ended = True
            return [self._end({"usage": self._usage} | interaction)]
        if kind == "interaction.created" and isinstance(interaction, dict):
            return [_identity(interaction, self._history_sum)]
        self._usage = _usage_of(event) or self._usage
        parts = list(self._parts(kind, event))
        return [{"candidates": [{"content": {"role": "model", "parts": parts}}]}] if parts else []

    def _end(self, interaction: gemini.JsonObject) -> gemini.Response:
        """Return the last event. Its interaction has no steps, unless no other event had any."""
        if not self._steps:
            return decode_interaction(interaction, self._history_sum)
        steps = [step.whole() for step in self._steps.values()]
        left = [part for index in sorted(self._waiting) for part in self._waiting[index]]
        return _response(interaction, steps, left, self._history_sum)

    def _parts(self, kind: Any, event: gemini.JsonObject) -> Iterator[gemini.JsonObject]:
        if kind not in ("step.start", "step.delta", "step.stop"):
            return
        index = _index_of(event)
        match event:
            case {"step": dict(step)} if kind == "step.start":
                self._steps[index] = started = _StreamedStep(_as_step(step))
                yield from self._in_turn(index, started.start())
                if started.is_call and self._open_call is None:
                    self._open_call = index
            case {"delta": dict(delta)} if kind == "step.delta":
                yield from self._in_turn(index, self._step(index, event).feed(delta))
            case _ if kind == "step.stop":
                yield from self._in_turn(index, self._step(index, event).stop())
                if self._open_call == index:
                    yield from self._end_call()

    def _in_turn(
        self, index: int, parts: Iterable[gemini.JsonObject]
    ) -> Iterable[gemini.JsonObject]:
        """Return the parts of a step, unless they have to wait for the end of a call."""
        if self._open_call in (None, index):
            return parts
        self._waiting.setdefault(index, []).extend(parts)
        return ()

    def _end_call(self) -> Iterator[gemini.JsonObject]:
        """Yield what has waited for the end of a call; the next call may still be open."""
        self._open_call = None
        for index in sorted(self._waiting):
            yield from self._waiting.pop(index)
            if self._steps[index].is_open_call:
                self._open_call = index
                return

    def _step(self, index: int, event: gemini.JsonObject) -> _StreamedStep:
        if index not in self._steps:
            raise UnreadableResponseError(
                f"The stream continues step {index}, which has not begun.", body=event
            )
        return self._steps[index]


def _index_of(event: gemini.JsonObject) -> int:
    """Return the number of a step; JSON of protocol buffers may leave out a zero."""
    match event.get("index"):
        case None:
            return 0
        case int(index):
            return index
        case str(text) if text.isdecimal() and len(text) < 10:
            return int(text)
    raise UnreadableResponseError("The index of a step is not a number.", body=event)


def _usage_of(event: gemini.JsonObject) -> Any:
    """Return the counts of the whole interaction so far; by the SDK, some events have them."""
    match event:
        case {"usage": dict(usage)} | {"metadata": {"total_usage": dict(usage)}}:
            return usage
    return None


class _StreamedStep:
    """One step of a stream: what has arrived of it, and the parts of each piece."""

    def __init__(self, step: Step) -> None:
        self._step = {key: value for key, value in step.items() if value != ""}
        self._arguments: list[str] = []
        self._texts: list[str] = []
        """Pieces that follow the last text of `_grown`."""
        self._grown = ""
        self._is_open = True

    @property
    def is_call(self) -> bool:
        """Whether this is a function call."""
        return self._is("function_call")

    @property
    def is_open_call(self) -> bool:
        """Whether this is a function call whose end has not arrived."""
        return self.is_call and self._is_open

    def whole(self) -> Step:
        """Return the step as a whole response has it."""
        self._join_texts()
        return self._step

    def start(self) -> list[gemini.JsonObject]:
        """Return what is known from the start."""
        if self.is_call:
            check_call(self._step, None)
            call = {key: self._step.get(key) for key in ("id", "name")}
            return [{"functionCall": {**call, "willContinue": True}}]
        return parse_step(self._step) if self._is_shown_in_pieces else []

    def feed(self, delta: gemini.JsonObject) -> list[gemini.JsonObject]:
        """Add a delta to the step, and return what it adds to the message."""
        match delta:
            case {"type": "text", "text": str(text)} if not self._is("thought"):
                self._add_content("content", {"type": "text", "text": text})
                return [{"text": text}]
            case {"type": "text", "text": said} | {"type": "thought_summary", "content": said}:
                return [self._add_thought(content) for content in _contents(said)]
            case {"type": "thought_signature", "signature": str(signature)}:
                self._step["signature"] = signature
            case {"type": "arguments_delta", "arguments": str(text)}:
                self._arguments.append(text)
                if self.is_call:
                    return [{"functionCall": {"argsText": text, "willContinue": True}}]
            case {"type": "arguments_delta", "arguments": dict(arguments)}:
                self._step["arguments"] = arguments
            case {"type": "text_annotation_delta", "annotations": list(annotations)}:
                self._annotate(annotations)
            case {"type": "image" | "audio" | "video" | "document"} if self._is("model_output"):
                self._add_content("content", delta)
                return [parse_content(delta)]
            case {"type": str(kind)} if self._is(kind):
                self._step |= {key: value for key, value in delta.items() if value != ""}
        return []

    def _is(self, kind: str) -> bool:
        return self._step.get("type") == kind

    @property
    def _is_shown_in_pieces(self) -> bool:
        return self._is("thought") or self._is("model_output")

    def stop(self) -> list[gemini.JsonObject]:
        """End the step, and return what is known only now."""
        if not self._is_open or self._is_shown_in_pieces:
            return []
        self._is_open = False
        if self.is_call:
            return [{"functionCall": {"argsText": self._end_call()}}]
        if self._arguments:
            self._step["arguments"] = _parse_json("".join(self._arguments))
        return parse_step(self.whole())

    def _end_call(self) -> str:
        """Set the arguments of a call, and return those that no delta had.

        Raises:
            MalformedToolCallError: They are not an object.
        """
        text = "".join(self._arguments)
        given = _parse_json(text) if text else self._step.get("arguments")
        self._step["arguments"] = arguments = check_call(self._step, given)
        return "" if text else json.dumps(arguments)

    def _add_thought(self, content: Any) -> gemini.JsonObject:
        self._add_content("summary", content)
        return _thought(content)

    def _add_content(self, key: str, content: gemini.JsonObject) -> None:
        """Add a content; texts in a row are one, as in a whole response."""
        if key != self._grown:
            self._join_texts()
        contents = self._step[key] = _contents(self._step.get(key))
        match content, contents:
            case {"type": "text", "text": str(text)}, [*_, {"type": "text", "text": str()}]:
                self._texts.append(text)
                self._grown = key
            case _:
                self._join_texts()
                contents.append(content)

    def _join_texts(self) -> None:
        """Join the pieces of a text, once: there may be very many."""
        if self._texts:
            contents = self._step[self._grown]
            joined = contents[-1]["text"] + "".join(self._texts)
            contents[-1] = {**contents[-1], "text": joined}
            self._texts.clear()

    def _annotate(self, annotations: list[Any]) -> None:
        self._add_content("content", {"type": "text", "text": ""})
        self._join_texts()
        *_, text = contents = self._step["content"]
        known = _list(text.get("annotations"))
        contents[-1] = {**text, "annotations": [*known, *annotations]}


def _parse_json(text: str) -> Any:
    """Return the value of a JSON text; the text itself if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
