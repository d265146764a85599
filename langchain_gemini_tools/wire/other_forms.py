"""The same request in another form, for an endpoint that rejects the first one.

Each row is something that the API documents and some endpoints reject. Without another form, a
conversation or a set of tools would be rejected forever.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from langchain_gemini_tools.wire.replay import skip_signatures, without_call_ids

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_gemini_tools.wire.shapes import JsonObject

_SCHEMAS_OF_TOOLS = ("parametersJsonSchema", "parameters")
_SCHEMAS_OF_OUTPUT = ("responseJsonSchema", "responseSchema")


def find_other_form(body: JsonObject, message: str) -> tuple[JsonObject, str] | None:
    """Return the body in another form, and what was changed; `None` if there is no other form.

    Args:
        body: The body that was rejected.
        message: What the endpoint says about it.
    """
    for form in _FORMS:
        if form.rejection.search(message) and (changed := form.change(body)) != body:
            return changed, form.explanation
    return None


def _skip_signatures(body: JsonObject) -> JsonObject:
    return {**body, "contents": skip_signatures(body["contents"])}


def _leave_out_ids(body: JsonObject) -> JsonObject:
    return {**body, "contents": without_call_ids(body["contents"])}


def _describe_item_limits(body: JsonObject) -> JsonObject:
    """Write how many items arrays have into their descriptions."""
    changed = dict(body)
    if "tools" in body:
        changed["tools"] = [_describe_in_tool(tool) for tool in body["tools"]]
    if "generationConfig" in body:
        changed["generationConfig"] = _describe_in(body["generationConfig"], _SCHEMAS_OF_OUTPUT)
    return changed


def _describe_in_tool(tool: JsonObject) -> JsonObject:
    if "functionDeclarations" not in tool:
        return tool
    declarations = tool["functionDeclarations"]
    described = [_describe_in(each, _SCHEMAS_OF_TOOLS) for each in declarations]
    return {**tool, "functionDeclarations": described}


def _describe_in(fields: JsonObject, names: tuple[str, ...]) -> JsonObject:
    # Loads what is known about schemas, which a request without them never needs.
    from langchain_gemini_tools.wire.schema.render import describe_item_limits

    return {
        name: describe_item_limits(value) if name in names else value
        for name, value in fields.items()
    }


class OtherForm(NamedTuple):
    """What an endpoint says, and the form that it may accept."""

    rejection: re.Pattern[str]
    change: Callable[[JsonObject], JsonObject]
    explanation: str


_FORMS = (
    # "Corrupted thought signature.", "Invalid thought signature."; Vertex AI: "Unable to submit
    # request because Thought signature is not valid." Reported for signatures that came back
    # unchanged, too: theopenco/llmgateway, issue 3252.
    OtherForm(
        re.compile(r"(?i)(corrupted|invalid) thought.?signature|thought.?signature is not valid"),
        _skip_signatures,
        "The API rejected thought signatures; retrying without them",
    ),
    # Reported for version v1 of Vertex AI (looplj/axonhub, issue 874) and for proxies.
    OtherForm(
        re.compile(r"""Unknown name "id" at '[^']*function_(call|response)'"""),
        _leave_out_ids,
        "The endpoint does not know ids of tool calls; retrying without them",
    ),
    # The limits of all arrays together have a limit, which changes: googleapis/python-genai,
    # issue 2170; vercel/ai, issue 21192. The API gives no reason, or "The specified schema
    # produces a constraint that has too many states for serving."
    OtherForm(
        re.compile(r"^Request contains an invalid argument\.$|too many states for serving"),
        _describe_item_limits,
        "The API may have rejected the limits of arrays; retrying with them in descriptions",
    ),
)
