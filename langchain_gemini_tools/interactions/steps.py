"""Steps: made from the contents of a history, and parsed into the parts that `wire` parses.

| content or part | step |
|---|---|
| text and media of the user | `user_input` |
| a function response | `function_result` |
| text and media of the model | `model_output` |
| a function call | `function_call`, after a `thought` with its signature |

A message of the Interactions API has kept its steps, and they are sent back as they came. Steps
made from messages of generateContent or of another vendor have no signature that this API could
read. Where the model checks signatures, a `thought` with the documented bypass stands before their
calls (reported to work).

If interactions are stored, the last AI message with an interaction id says which one is continued.
It also has a check sum of the messages that were sent for it: if these were edited or trimmed
since, the API has kept another history, and everything is sent again.
"""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.messages import AIMessage, SystemMessage, ToolMessage

from langchain_gemini_tools.errors import (
    InvalidInputError,
    MalformedToolCallError,
    UnreadableResponseError,
)
from langchain_gemini_tools.facts.json_values import encode_json
from langchain_gemini_tools.wire.body import ContentsWriter, Pieces
from langchain_gemini_tools.wire.history import Repair, calls_of
from langchain_gemini_tools.wire.media import YOUTUBE
from langchain_gemini_tools.wire.replay import SKIP_SIGNATURE, STEP, VERTEXAI, steps_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from langchain_core.messages import BaseMessage

    from langchain_gemini_tools.wire import shapes as gemini
    from langchain_gemini_tools.wire.body import ContentKind
    from langchain_gemini_tools.wire.history import ModelMessage

Step = dict[str, Any]

_SIGNED = "signed"
"""Marks the call of a step that needs no signature in addition."""
_MEDIA = ("image", "audio", "video")
_RESOLUTION = "MEDIA_RESOLUTION_"
CONTENTS = ("text", "image", "audio", "video", "document")
"""Types of contents, which are not types of steps."""


class StepsWriter(ContentsWriter):
    """Collects contents as its base does, and encodes them as steps."""

    has_steps = True

    def restore(
        self, paired: ModelMessage, calls: list[gemini.Part], *, reads_signatures: bool
    ) -> list[gemini.Part] | None:
        """Return the steps that a message has kept, as parts; `None` if they do not fit any more.

        Args:
            paired: The message and its calls.
            calls: The calls as they are rendered, with ids that are unique in the turn.
            reads_signatures: Whether this model accepts the signatures in the steps.
        """
        named = [(call.id, call.name, call.args) for call in paired.calls]
        steps = steps_of(paired.message, named)
        if steps is None:
            return None
        ids = [step.get("id") for step in steps if step.get("type") == "function_call"]
        if ids != [part["functionCall"]["id"] for part in calls]:
            return None
        is_signed = False
        parts: list[gemini.Part] = []
        for step in map(_sendable, steps) if reads_signatures else map(_unsigned, steps):
            if step is None:
                continue
            is_signed |= step.get("type") == "thought"
            parts.append(_as_part(step, is_signed=is_signed))
        return parts

    def _encoded(self, contents: list[gemini.Content]) -> Pieces:
        if self._signs_calls:
            contents = [_with_signed_call(content) for content in contents]
        steps = [step for content in contents for step in render_steps(content)]
        return [encode_json(steps, is_large=self._is_large)[1:-1]]


class NewStepsWriter(StepsWriter):
    """Leaves out the first message, which the API has kept, together with all before it."""

    _has_begun = False

    def _begin(self, kind: ContentKind) -> None:
        if self._has_begun:
            super()._begin(kind)

    def _encoded(self, contents: list[gemini.Content]) -> Pieces:
        # A message that renders as nothing, such as an unsigned thought, has no content here.
        is_kept = not self._has_begun and contents[0]["role"] == "model"
        new = contents[1:] if is_kept else contents
        self._has_begun = True
        return super()._encoded(new)


def _as_part(step: Step, *, is_signed: bool) -> gemini.Part:
    part: Any = {STEP: step}
    if step.get("type") == "function_call":
        part["functionCall"] = {"id": step["id"], "name": step.get("name", "")}
        part |= {"thoughtSignature": _SIGNED} if is_signed else {}
    restored: gemini.Part = part
    return restored


def _sendable(step: Step) -> Step | None:
    """Return a step without an empty signature, which the API rejects (reported)."""
    if step.get("signature") != "":
        return step if step.get("type") != "thought" or step.get("signature") else None
    return _unsigned(step)


def _unsigned(step: Step) -> Step | None:
    if step.get("type") == "thought":
        return None
    return {key: value for key, value in step.items() if key != "signature"}


def _with_signed_call(content: gemini.Content) -> gemini.Content:
    """Return a content whose first call has a signature, in older turns as well.

    generateContent checks the current turn only. Whether this API does so, too, is not known.
    """
    for number, part in enumerate(content["parts"]):
        if "functionCall" in part:
            if "thoughtSignature" in part:
                return content
            signed: Any = {**part, "thoughtSignature": SKIP_SIGNATURE}
            return {
                **content,
                "parts": [*content["parts"][:number], signed, *content["parts"][number + 1 :]],
            }
    return content


def render_steps(content: gemini.Content) -> Iterator[Step]:
    """Yield the steps of one content; adjacent texts and media are one step.

    Calls come last, next to their results, unless the API has sent these steps in another order.
    """
    kind = "user_input" if content["role"] == "user" else "model_output"
    parts = content["parts"]
    if kind == "model_output" and not any(STEP in part for part in parts):
        parts = sorted(parts, key=lambda part: "functionCall" in part)
    said: list[Any] = []
    for part in parts:
        if (shown := _render_said(part, kind)) is not None:
            said += shown
            continue
        if said:
            yield {"type": kind, "content": said}
            said = []
        yield from _render_step(part)
    if said:
        yield {"type": kind, "content": said}


def _render_said(part: Any, kind: str) -> list[Any] | None:
    """Return what a part adds to the text and media of a turn; `None` if it is a step."""
    if STEP in part or "functionCall" in part or "functionResponse" in part:
        return None
    if part.get("thought"):
        return []  # a thought counts only with a signature of this API
    if content := render_content(part):
        return [] if kind == "model_output" and content.get("text") == "" else [content]
    shown = {key: value for key, value in part.items() if key != "thoughtSignature"}
    return [{"type": "text", "text": json.dumps(shown, ensure_ascii=False)}]


def _render_step(part: Any) -> Iterator[Step]:
    if "functionResponse" in part:
        yield _render_result(part["functionResponse"])
        return
    if part.get("thoughtSignature") == SKIP_SIGNATURE:
        yield {"type": "thought", "signature": SKIP_SIGNATURE}
    if STEP in part:
        yield part[STEP]
        return
    call = part["functionCall"]
    yield {
        "type": "function_call",
        "id": call["id"],
        "name": call["name"],
        "arguments": call.get("args") or {},
    }


def _render_result(response: gemini.FunctionResponse) -> Step:
    """Render a function response. By the SDK, a result is an object, a string or contents."""
    result: Any = response["response"]
    is_error = set(result) == {"error"}
    if set(result) in ({"output"}, {"error"}):
        [result] = result.values()
    step: Step = {
        "type": "function_result",
        "call_id": response.get("id", ""),
        "name": response["name"],
        "result": _with_files(result, response.get("parts") or ()),
    }
    return step | ({"is_error": True} if is_error else {})


def _with_files(result: Any, files: Sequence[gemini.Part]) -> Any:
    if not files:
        # A list would be read as contents.
        return result if isinstance(result, (str, dict)) else {"output": result}
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    contents = [content for part in files if (content := render_content(part))]
    return [{"type": "text", "text": text}, *contents]


# Parts -> contents


def render_content(part: gemini.Part) -> gemini.JsonObject | None:
    """Render a part as a content; `None` if there is no content for it.

    Raises:
        InvalidInputError: The part has a setting that contents do not have.
    """
    match dict(part):
        case {"text": str(text)}:
            return {"type": "text", "text": text}
        case {"inlineData": {"mimeType": str(mime), "data": str(data)}}:
            return {"type": _kind(mime), "data": data, "mime_type": mime} | _settings(part)
        case {"fileData": {"fileUri": str(uri), **rest}}:
            mime = str(rest.get("mimeType") or ("video/mp4" if YOUTUBE.match(uri) else ""))
            typed = {"mime_type": mime} if rest.get("mimeType") else {}
            return {"type": _kind(mime), "uri": uri, **typed} | _settings(part)
    return None


def _kind(mime_type: str) -> str:
    major = mime_type.partition("/")[0].lower()
    return major if major in _MEDIA else "document"


def _settings(part: gemini.Part) -> gemini.JsonObject:
    """Return the settings of a media part as contents spell them."""
    if "videoMetadata" in part:
        raise InvalidInputError(
            "The Interactions API has no videoMetadata (start, end, fps). Leave it out, or use "
            "api='generate_content'."
        )
    level = (part.get("mediaResolution") or {}).get("level")
    if not level:
        return {}
    return {"resolution": str(level).removeprefix(_RESOLUTION).lower()}


# Steps of a response -> parts


def list_new_steps(interaction: gemini.JsonObject, sent_results: Collection[str]) -> list[Step]:
    """Return the steps that the model has added, without those that were sent.

    `GET` returns the caller's steps as well (documented). There is no recording of whether
    these are all steps of the request; if so, calls in the history must not be taken for new ones.

    Raises:
        UnreadableResponseError: The steps are not a list of objects.
    """
    given = interaction.get("steps") or interaction.get("outputs") or []
    if not isinstance(given, list) or not all(isinstance(step, dict) for step in given):
        raise UnreadableResponseError(
            "The interaction's `steps` are not a list of objects.", body=interaction
        )
    steps = [as_step(step) for step in given]
    begin = 0
    for number, step in enumerate(steps, 1):
        match step:
            case {"type": "user_input"}:
                begin = number
            case {"type": "function_result", "call_id": str(name)} if name in sent_results:
                begin = number
    return [step for step in steps[begin:] if step.get("type") != "function_result"]


def as_step(given: Step) -> Step:
    """Return a step; a content that stands in its place is one of the model's output."""
    if given.get("type") not in CONTENTS:
        return given
    is_empty = given.keys() == {"type"}  # the start of one in a stream
    return {"type": "model_output", "content": [] if is_empty else [given]}


def parse_step(step: Step) -> list[gemini.JsonObject]:
    """Return the parts of one step.

    Signatures stay in the step: what is signed is the step as it came, not the part. A step that no
    part stands for is kept whole.
    """
    match step:
        case {"type": "thought"}:
            return [parse_thought(content) for content in list_contents(step.get("summary"))]
        case {"type": "model_output"}:
            return [parse_content(content) for content in list_contents(step.get("content"))]
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


def parse_thought(content: Any) -> gemini.JsonObject:
    """Return a content of a thought's summary as a part."""
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


def list_contents(value: Any) -> list[Any]:
    """Return a list of contents, of which one may stand alone, also as text."""
    if isinstance(value, str):
        return [{"type": "text", "text": value}] if value else []
    return [value] if isinstance(value, dict) else as_list(value)


def as_list(value: Any) -> list[Any]:
    """Return a list, which is empty for anything else."""
    return value if isinstance(value, list) else []


# What the API has kept

INTERACTION_ID = "interaction_id"
"""Key in `response_metadata`: the id of an interaction that the API has kept."""
HISTORY_SUM = "history_sum"
"""Key in `response_metadata`: the check sum of the messages before it."""


class KeptHistory(NamedTuple):
    """The part of a history that the API has kept."""

    interaction_id: str
    position: int
    """The index of the message that ends it."""


def find_kept(messages: Sequence[BaseMessage], *, vertexai: bool) -> KeptHistory | Repair | None:
    """Return what the API has kept; a repair if the messages do not fit it; else `None`.

    Args:
        messages: The history.
        vertexai: Whether the request goes to Vertex AI, which has its own interactions.
    """
    for position in range(len(messages) - 1, -1, -1):
        message = messages[position]
        if not isinstance(message, AIMessage):
            continue
        metadata = message.response_metadata
        if not isinstance(known := metadata.get(INTERACTION_ID), str):
            continue
        if metadata.get(VERTEXAI, False) is not vertexai:
            return _everything(position, "another backend has kept it")
        if metadata.get(HISTORY_SUM) != sum_of(messages[:position]) or _is_changed(message):
            return _everything(position, "the messages have been changed since")
        if isinstance(messages[-1], AIMessage) or isinstance(messages[position + 1], AIMessage):
            return _everything(position, "another message of the model follows it")
        return KeptHistory(known, position)
    return None


def _is_changed(message: AIMessage) -> bool:
    return (
        steps_of(message, ((call.id, call.name, call.args) for call in calls_of(message))) is None
    )


def _everything(position: int, reason: str) -> Repair:
    explanation = f"The previous interaction is not used, and all messages are sent: {reason}."
    return Repair("previous_interaction", position, explanation)


def sum_of(messages: Sequence[BaseMessage]) -> str:
    """Return a check sum of messages except for system messages, which every request sends."""
    total = 0
    for message in messages:
        if not isinstance(message, SystemMessage):
            text = json.dumps(_shown(message), sort_keys=True, default=str)
            total = zlib.crc32(text.encode("utf-8", "surrogatepass"), total)
    return f"{total:08x}"


def _shown(message: BaseMessage) -> list[Any]:
    """Return what a request shows of a message; ids of messages are not part of it."""
    if isinstance(message, AIMessage):
        calls = [[call.id, call.name, call.args] for call in calls_of(message)]
        return ["ai", str(message.text), calls]
    if isinstance(message, ToolMessage):
        return ["tool", message.content, message.tool_call_id, message.status]
    return [message.type, message.content]
