"""Checks that all subjects do the same work, because only then can their times be compared.

Ours, the floor and the limit must send the body of `workload.request_body`, ours and the limit byte
for byte. The peer and the SDK spell the body differently, and the peer leaves out the ids of calls,
so only the meaning of their bodies is compared.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.benchmarks import workload

if TYPE_CHECKING:
    from tests.benchmarks.scenarios import Scenario

_BYTE_FOR_BYTE = {"ours", "limit"}
_SCHEMAS = ("parametersJsonSchema", "parameters_json_schema", "parameters")


class DifferentWorkError(Exception):
    """A subject did not do the same as the others, so their times cannot be compared."""


def check_sent(subject: str, scenario: Scenario, body: str) -> None:
    """Compare the last body that a subject sent with the expected one.

    Raises:
        DifferentWorkError: They differ.
    """
    expected = workload.request_body(scenario.turns, scenario.tools)
    if subject in _BYTE_FOR_BYTE:
        is_same = body == json.dumps(expected, ensure_ascii=False, separators=(",", ":"))
    else:
        is_same = meaning(json.loads(body)) == meaning(expected)
    if not is_same:
        raise DifferentWorkError(f"{subject} sent something else for {scenario.title!r}: {body}")


def check_seen(scenario: Scenario, seen: dict[str, Any]) -> None:
    """Compare the results of all subjects.

    Raises:
        DifferentWorkError: They differ.
    """
    values = list(seen.values())
    if any(value != values[0] for value in values[1:]):
        raise DifferentWorkError(f"The results differ for {scenario.title!r}: {seen}")


def meaning(body: dict[str, Any]) -> dict[str, Any]:
    """Return the meaning of a body, without differences in spelling."""
    return {
        "contents": [
            (content["role"], [*map(_part, content["parts"])]) for content in body["contents"]
        ],
        "tools": [
            _declaration(declaration)
            for tool in body.get("tools", ())
            for declaration in tool["functionDeclarations"]
        ],
    }


def _part(part: dict[str, Any]) -> Any:
    match part:
        case {"functionCall": call}:
            return "call", call["name"], call["args"], part["thoughtSignature"]
        case {"functionResponse": {"name": name, "response": {"output": value}}}:
            return "result", name, value
        case {"functionResponse": {"name": name, "response": value}}:
            return "result", name, value  # the peer sends an object without a key around it
    return part


def _declaration(declaration: dict[str, Any]) -> Any:
    schema = next(declaration[key] for key in _SCHEMAS if key in declaration)
    described = {name: item["description"] for name, item in schema["properties"].items()}
    return declaration["name"], declaration["description"], described, schema["required"]
