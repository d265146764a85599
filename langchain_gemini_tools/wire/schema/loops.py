"""Definitions that have to hold themselves again: written so that the API takes them.

The reference: "Cyclic references are unrolled to a limited degree and, as such, may only be used
within non-required properties. (Nullable properties are not sufficient.)" The API's own refusal is
milder: "ref loops are only supported if they include optional or nullable property values, or a
potentially-zero-length array items, but a ref loop of required fields was found at $defs.And.left".
A choice with another way out (`left: Leaf | And`) is refused by both. So where every way back to a
definition is required, the property that closes the loop is sent as optional, and its description
says that it is not. A list that may be empty ends a loop: there `required` stays as it was given.

This is a rule of the API alone. Models that are told of tools in words, and the Schema message, in
which nothing refers to itself, get what the user required.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_gemini_tools.wire.schema.reading import plain_json
from langchain_gemini_tools.wire.schema.references import endless_definitions

if TYPE_CHECKING:
    from collections.abc import Iterator

Schema = dict[str, Any]

ALWAYS_GIVEN = "Always give this."
"""What the description of such a property says."""


class _Step(NamedTuple):
    """One definition needs another: by this property of this object, or without any."""

    source: str
    target: str
    holder: Schema | None
    name: str


def loosen_loops(schema: Schema) -> Schema:
    """The cleaned schema, with what closes a loop of required properties made optional.

    What no finite value fits stays: it is refused by name elsewhere.
    """
    endless = set(endless_definitions(schema))
    if not _steps_of_loops(schema.get("$defs") or {}, endless):
        return schema
    definitions: Schema = plain_json(schema["$defs"])
    for takes_any in (False, True):  # first where the property itself offers another way out
        for step in _steps_of_loops(definitions, endless):
            if step.holder is not None and (takes_any or _offers_a_choice(step)):
                _loosen(step.holder, step.name)
    return {**schema, "$defs": definitions}


def _steps_of_loops(definitions: Schema, endless: set[str]) -> list[_Step]:
    steps = [
        step
        for source in definitions.keys() - endless
        for step in _steps(source, definitions[source], None, "")
    ]
    needs: dict[str, set[str]] = {}
    for step in steps:
        needs.setdefault(step.source, set()).add(step.target)
    return [step for step in steps if step.source in _reachable(needs, step.target)]


def _steps(source: str, schema: Any, holder: Schema | None, name: str) -> Iterator[_Step]:
    """What a value of this schema cannot do without, as far as some choice asks for it."""
    if not isinstance(schema, dict):
        return
    if "$ref" in schema:
        yield _Step(source, schema["$ref"].rpartition("/")[2], holder, name)
    for keyword in ("anyOf", "oneOf", "allOf"):
        for choice in schema.get(keyword) or ():
            yield from _steps(source, choice, holder, name)
    # One item behind the first ones says as much about a loop as many.
    for item in [*schema.get("prefixItems", ()), schema.get("items")][: schema.get("minItems", 0)]:
        yield from _steps(source, item, holder, name)
    properties = schema.get("properties") or {}
    for needed in schema.get("required") or ():
        if needed in properties:
            yield from _steps(source, properties[needed], schema, needed)


def _reachable(needs: dict[str, set[str]], start: str) -> set[str]:
    seen, pending = {start}, [start]
    while pending:
        more = needs.get(pending.pop(), set()) - seen
        seen |= more
        pending += more
    return seen


def _offers_a_choice(step: _Step) -> bool:
    schema = (step.holder or {})["properties"][step.name]
    return len(schema.get("anyOf") or schema.get("oneOf") or ()) > 1


def _loosen(holder: Schema, name: str) -> None:
    required = holder.get("required", [])
    if name not in required:
        return  # two ways lead through it
    holder["required"] = [other for other in required if other != name]
    if not holder["required"]:
        del holder["required"]
    schema = holder["properties"][name]
    if "$ref" in schema:  # nothing may stand beside it
        schema = {"anyOf": [schema]}
    told = f"{schema.get('description', '')} {ALWAYS_GIVEN}".lstrip()
    holder["properties"][name] = {**schema, "description": told}
