"""What a recorded reply contains, read from its raw JSON without the code of the package.

`Recorded` is what a user must see, and `echo_of` what must be sent back in the next request.
`joined` and `split` turn a stream into one body, and a body into a stream.
"""

from __future__ import annotations

import re
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.recordings import Exchange, JsonObject

_OUTSIDE_METADATA = {"candidates", "usageMetadata", "content", "index", "modelVersion"}


@dataclass(frozen=True)
class Call:
    """A function call as recorded; `id` is `None` if the API gave none, or the same one twice."""

    name: str
    args: JsonObject
    id: str | None
    signature: str | None


class Recorded:
    """The content of a reply: one of its candidates."""

    def __init__(self, exchange: Exchange, index: int = 0) -> None:
        self.bodies = [body for body in exchange.replies if isinstance(body, dict)]
        self.candidates = [
            body["candidates"][index]
            for body in self.bodies
            if len(body.get("candidates") or ()) > index
        ]
        self.parts: list[JsonObject] = [
            part
            for candidate in self.candidates
            for part in (candidate.get("content") or {}).get("parts") or ()
        ]
        self.runs_remote_tools = bool(remote_tools_of(exchange))

    def last(self, key: str) -> Any:
        """Return the last value of a field of the candidate or, if it has none, of the body."""
        for source in (*reversed(self.candidates), *reversed(self.bodies)):
            if source.get(key) is not None:
                return source[key]
        return None

    @property
    def text(self) -> str:
        return "".join(
            part["text"] for part in self.parts if "text" in part and not part.get("thought")
        )

    @property
    def reasoning(self) -> str:
        return "".join(
            part["text"] for part in self.parts if "text" in part and part.get("thought")
        )

    @property
    def calls(self) -> list[Call]:
        if self.runs_remote_tools:
            return []
        calls: list[Call] = []
        for part in whole_calls(self.parts):
            call = part["functionCall"]
            seen = {known.id for known in calls}
            call_id = call.get("id") if call.get("id") not in seen else None
            signature = part.get("thoughtSignature")
            calls.append(Call(call["name"], call.get("args") or {}, call_id or None, signature))
        return calls

    @property
    def server_parts(self) -> list[JsonObject]:
        """Return the parts of server-side tools, for which LangChain has no block."""
        keys = {"toolCall", "toolResponse", "functionResponse"}
        keys |= {"functionCall"} if self.runs_remote_tools else set()
        return [part for part in self.parts if set(part) & keys]

    @property
    def block_reason(self) -> str | None:
        feedback = self.last("promptFeedback") or {}
        return None if self.candidates else feedback.get("blockReason")

    @property
    def usage(self) -> dict[str, Any] | None:
        """Return the last value of each count; input includes server tools, output thoughts."""
        counts: dict[str, Any] = {}
        for body in self.bodies:
            counts |= body.get("usageMetadata") or {}
        if not counts:
            return None
        count_of = counts.get
        input_tokens = count_of("promptTokenCount", 0) + count_of("toolUsePromptTokenCount", 0)
        output_tokens = count_of("candidatesTokenCount", 0) + count_of("thoughtsTokenCount", 0)
        return {
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "total_tokens": count_of("totalTokenCount") or input_tokens + output_tokens,
            "cache_read": count_of("cachedContentTokenCount"),
            "reasoning": count_of("thoughtsTokenCount"),
        }

    @property
    def metadata(self) -> JsonObject:
        """Return every field beside the parts, with its last value that is not empty."""
        fields: JsonObject = {}
        for source in (*self.bodies, *self.candidates):
            fields |= {key: value for key, value in source.items() if value not in (None, {}, [])}
        if self.citations:
            fields["citationMetadata"] = self.citations
        return {key: value for key, value in fields.items() if key not in _OUTSIDE_METADATA}

    @property
    def citations(self) -> JsonObject:
        """Return the citations of all events: each event has those of its own text."""
        return _all_citations(self.candidates)

    @property
    def is_empty(self) -> bool:
        return not any(part.get("text") != "" and not part.get("thought") for part in self.parts)


def _all_citations(candidates: Iterable[JsonObject]) -> JsonObject:
    citations: JsonObject = {}
    for candidate in candidates:
        for key, found in (candidate.get("citationMetadata") or {}).items():
            known = citations.setdefault(key, [])
            known += [citation for citation in found if citation not in known]
    return citations


def whole_calls(parts: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the parts with a call, with the pieces of their arguments joined."""
    calls: list[JsonObject] = []
    for part in parts:
        if "functionCall" not in part:
            continue
        call = part["functionCall"]
        if call.get("name"):
            args = deepcopy(call.get("args") or {})
            calls.append({**part, "functionCall": {**call, "args": args}})
        for piece in call.get("partialArgs") or ():
            put_piece(calls[-1]["functionCall"]["args"], piece)
    return calls


def put_piece(args: Any, piece: JsonObject) -> None:
    """Write `{"jsonPath": "$.a.b[0]", "stringValue": "x"}` into the arguments."""
    steps = [
        int(index) if index else name
        for name, index in re.findall(r"\.([^.\[]+)|\[(\d+)\]", piece["jsonPath"])
    ]
    here = args
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        if isinstance(here, list) and len(here) == step:
            here.append(None)
        present = here[step] if isinstance(here, list) else here.get(step)
        if following is None:
            (key,) = (key for key in piece if key.endswith("Value"))
            value: Any = None if key == "nullValue" else piece[key]
            here[step] = present + value if isinstance(present, str) else value
        elif present is None:
            here[step] = [] if isinstance(following, int) else {}
        here = here[step]


def remote_tools_of(exchange: Exchange) -> list[JsonObject]:
    """Return the MCP servers that the API calls itself; the user does not run these calls."""
    tools = (exchange.request or {}).get("tools") or []
    return [tool for tool in tools if "mcpServers" in tool]


def joined(replies: Sequence[JsonObject]) -> JsonObject:
    """Return the events of a stream as one body."""
    body: JsonObject = {}
    candidate: JsonObject = {}
    candidates: list[JsonObject] = []
    parts: list[JsonObject] = []
    usage: JsonObject = {}
    for reply in replies:
        body |= reply
        usage |= reply.get("usageMetadata") or {}
        for event in reply.get("candidates") or ():
            candidate |= {key: value for key, value in event.items() if value not in ({}, [])}
            parts += (event.get("content") or {}).get("parts") or ()
            candidates.append(event)
    candidate["content"] = {"role": "model", "parts": parts}
    if citations := _all_citations(candidates):
        candidate["citationMetadata"] = citations
    return body | {"candidates": [candidate]} | ({"usageMetadata": usage} if usage else {})


def split(reply: JsonObject) -> list[JsonObject]:
    """Return a body as a stream: one event per part, all with its id, the rest on the last one."""
    if not reply.get("candidates"):
        return [reply]
    candidate = reply["candidates"][0]
    content = candidate.get("content") or {}
    named = {key: reply[key] for key in ("responseId",) if key in reply}
    events = [
        {"candidates": [{"content": {**content, "parts": [part]}}], **named}
        for part in content.get("parts") or ()
    ]
    last = {key: value for key, value in candidate.items() if key != "content"}
    empty = {"content": {"role": "model", "parts": [{"text": ""}]}} if events else {}
    return [*events, {**reply, "candidates": [{**empty, **last}]}]


def echo_of(recorded: Recorded) -> list[JsonObject]:
    """Return the parts as they must be sent back.

    Adjacent texts without a signature may be joined, as the pieces of a stream are; nothing else
    may be. An empty text may be left out, unless it is signed.
    """
    echoed: list[JsonObject] = []
    calls = iter(whole_calls(recorded.parts))
    for part in recorded.parts:
        last = echoed[-1] if echoed else {}
        if "functionCall" in part:
            if part["functionCall"].get("name"):
                echoed.append(next(calls))
        elif set(part) <= {"text", "thought"} and set(last) == set(part):
            echoed[-1] = {**last, "text": last["text"] + part["text"]}
        elif part != {"text": ""}:
            echoed.append(part)
    return echoed


def without_ids(parts: Iterable[Any]) -> list[JsonObject]:
    """Return parts without the ids of their calls, which are compared separately."""
    return [
        {
            **part,
            "functionCall": {
                k: v for k, v in part["functionCall"].items() if k in {"name", "args"}
            },
        }
        if "functionCall" in part
        else part
        for part in parts
    ]
