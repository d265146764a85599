"""Interactions -> responses in the shape that `wire` parses.

The steps are handed on as they came, for the next request. The events of a stream are handed on
piece by piece, and put together to the steps that a whole response has.

The status becomes the finish reason; `facts.finish_reasons` says what each one means.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.errors import (
    UnreadableResponseError,
    map_api_error,
    missing_status,
)
from langchain_gemini_tools.facts.finish_reasons import (
    CONTINUATION,
    INTERACTION_COMPLETED,
    REQUIRES_CONTINUATION,
    lookup,
)
from langchain_gemini_tools.facts.json_values import StoredIntsText, is_storable
from langchain_gemini_tools.interactions.steps import (
    HISTORY_SUM,
    INTERACTION_ID,
    Step,
    as_list,
    as_step,
    check_call,
    list_contents,
    list_new_steps,
    parse_content,
    parse_step,
    parse_thought,
)
from langchain_gemini_tools.wire.hops import TOKEN
from langchain_gemini_tools.wire.replay import RAW_STEPS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

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
_FAILED = "failed"
_OLD_EVENTS = {
    "interaction.start": "interaction.created",
    "interaction.complete": INTERACTION_COMPLETED,
    "content.start": "step.start",
    "content.delta": "step.delta",
    "content.stop": "step.stop",
}
"""Before May 2026 responses had `outputs` instead of steps, and events had these names (reported).
Gateways and recordings may still have them."""


def decode_interaction(
    interaction: gemini.JsonObject, history_sum: str | None, sent_results: Collection[str] = ()
) -> gemini.Response:
    """Return a whole interaction as a response.

    Args:
        interaction: The body.
        history_sum: The check sum of the messages that were sent, if the API keeps them, so that
            the id can be used later; else `None`.
        sent_results: The ids of the calls whose results were sent.
    """
    steps = list_new_steps(interaction, sent_results)
    if not steps and interaction.get("status") is None:
        raise missing_status(interaction)
    parts = [part for step in steps for part in parse_step(step)]
    return _build_response(interaction, steps, parts, history_sum)


def _build_response(
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
    if grounding := _parse_grounding(steps):
        candidate["groundingMetadata"] = grounding
    response = {**_parse_identity(interaction, history_sum), "candidates": [candidate]}
    if isinstance(usage := interaction.get("usage"), dict):
        response["usageMetadata"] = _parse_usage(usage)
    return {**response, RAW_STEPS: steps}


def _parse_identity(interaction: gemini.JsonObject, history_sum: str | None) -> gemini.Response:
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
    """Return what the API says about a failure.

    By the SDK it is in `errors` or in a step; Google's samples read `error`.
    """
    errors = [
        interaction.get("error"),
        *as_list(interaction.get("errors")),
        *(step.get("error") for step in steps),
    ]
    messages = [str(error["message"]) for error in errors if _has_message(error)]
    return "; ".join(dict.fromkeys(messages)) or None


def _has_message(error: Any) -> bool:
    return isinstance(error, dict) and bool(error.get("message"))


def _parse_usage(usage: gemini.JsonObject) -> gemini.JsonObject:
    """Return the token counts under the names of generateContent; others keep their names."""
    counts = {_COUNTS.get(key, key): value for key, value in usage.items() if key not in _DETAILS}
    for key, ours in _DETAILS.items():
        items = [item for item in as_list(usage.get(key)) if isinstance(item, dict)]
        if items:
            counts[ours] = [
                {"modality": item.get("modality"), "tokenCount": item.get("tokens")}
                for item in items
            ]
    return counts


# Citations


def _parse_grounding(steps: Iterable[Step]) -> gemini.JsonObject | None:
    """Return the citations of all texts, the queries and the search suggestions."""
    queries: list[Any] = []
    suggestions: list[str] = []
    texts: list[gemini.JsonObject] = []
    for step in steps:
        match step:
            case {"type": "model_output", "content": list(contents)}:
                texts += [each for each in contents if _has_text(each)]
            case {"type": "google_search_call", "arguments": {"queries": list(found)}}:
                queries += found
            case {"type": "google_search_result", "result": list(results)}:
                for each in results:
                    match each:
                        case {"search_suggestions": str(text)}:
                            suggestions.append(text)
    sources, supports = _parse_citations(texts)
    fields = {
        "webSearchQueries": queries,
        "searchEntryPoint": {"renderedContent": "".join(suggestions)} if suggestions else None,
        "groundingChunks": sources,
        "groundingSupports": supports,
    }
    return {key: value for key, value in fields.items() if value} or None


def _has_text(content: Any) -> bool:
    return isinstance(content, dict) and isinstance(content.get("text"), str)


def _parse_citations(texts: list[gemini.JsonObject]) -> tuple[list[Any], list[Any]]:
    """Return the sources of texts, and which part of the joined texts each one supports."""
    sources: list[Any] = []
    supports: list[Any] = []
    size = 0  # indices count UTF-8 bytes (reported) of one text
    for content in texts:
        for note in as_list(content.get("annotations")):
            if (source := _source(note)) is None:
                continue
            if source not in sources:
                sources.append(source)
            start, end = note.get("start_index", 0), note.get("end_index")
            if type(start) is int and type(end) is int:
                segment = {"startIndex": start + size, "endIndex": end + size}
                indices = [sources.index(source)]
                supports.append({"segment": segment, "groundingChunkIndices": indices})
        size += len(content["text"].encode("utf-8", "surrogatepass"))
    return sources, supports


def _source(note: Any) -> gemini.JsonObject | None:
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

    def __init__(self, history_sum: str | None, sent_results: Collection[str] = ()) -> None:
        self._history_sum = history_sum
        self._sent_results = sent_results
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
        if not isinstance(kind, str | None):
            raise UnreadableResponseError("The type of an event is not text.", body=event)
        if kind is None and "status" in event:
            return [self._decode_whole(event)]
        if kind in _OLD_EVENTS:
            kind = _OLD_EVENTS[kind]
            event = {**event, "step": event.get("content")}
        if kind == "error":
            raise map_api_error(None, {"error": event.get("error") or {}})
        if kind == INTERACTION_COMPLETED and isinstance(interaction, dict):
            self._has_ended = True
            return [self._end({"usage": self._usage} | interaction)]
        if kind == "interaction.created" and isinstance(interaction, dict):
            return [_parse_identity(interaction, self._history_sum)]
        self._usage = _usage_of(event) or self._usage
        parts = list(self._parts(kind, event))
        return [{"candidates": [{"content": {"role": "model", "parts": parts}}]}] if parts else []

    def _decode_whole(self, interaction: gemini.JsonObject) -> gemini.Response:
        return decode_interaction(interaction, self._history_sum, self._sent_results)

    def _end(self, interaction: gemini.JsonObject) -> gemini.Response:
        """Return the last event. Its interaction has no steps, unless no other event had any."""
        if not self._steps:
            return self._decode_whole(interaction)
        is_complete = lookup(str(interaction.get("status")), "gemini").is_complete
        left = self._end_steps() if is_complete else []
        left += [part for index in sorted(self._waiting) for part in self._waiting[index]]
        steps = [step.whole() for step in self._steps.values()]
        return _build_response(interaction, steps, left, self._history_sum)

    def _end_steps(self) -> list[gemini.JsonObject]:
        """End the steps whose `step.stop` is missing. In recordings it never is."""
        stops = [{"index": index} for index in self._steps]
        return [part for stop in stops for part in self._parts("step.stop", stop)]

    def _parts(self, kind: Any, event: gemini.JsonObject) -> Iterator[gemini.JsonObject]:
        if kind not in ("step.start", "step.delta", "step.stop"):
            return
        index = _index_of(event)
        match event:
            case {"step": dict(step)} if kind == "step.start":
                self._steps[index] = started = _StreamedStep(as_step(step))
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
        self._arguments_text = StoredIntsText()
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
                return [self._add_thought(content) for content in list_contents(said)]
            case {"type": "thought_signature", "signature": str(signature)}:
                self._step["signature"] = signature
            case {"type": "arguments_delta", "arguments": str(piece)}:
                self._arguments.append(text := self._arguments_text.feed(piece))
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
        if text := self._whole_arguments():
            self._step["arguments"] = _parse_json(text)
        return parse_step(self.whole())

    def _end_call(self) -> str:
        """Set the arguments of a call, and return those that no delta had.

        Raises:
            MalformedToolCallError: They are not an object.
        """
        text = self._whole_arguments()
        given = _parse_json(text) if text else self._step.get("arguments")
        self._step["arguments"] = arguments = check_call(self._step, given)
        return "" if text else json.dumps(arguments)

    def _whole_arguments(self) -> str:
        self._arguments.append(self._arguments_text.finish())
        return "".join(self._arguments)

    def _add_thought(self, content: Any) -> gemini.JsonObject:
        self._add_content("summary", content)
        return parse_thought(content)

    def _add_content(self, key: str, content: gemini.JsonObject) -> None:
        """Add a content; texts in a row are one, as in a whole response."""
        if key != self._grown:
            self._join_texts()
        contents = self._step[key] = list_contents(self._step.get(key))
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
        known = as_list(text.get("annotations"))
        contents[-1] = {**text, "annotations": [*known, *annotations]}


def _parse_json(text: str) -> Any:
    """Return the value of a JSON text; the text itself if no message can contain the value."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if is_storable(value) else text
