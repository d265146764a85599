"""Function declarations: names, duplicates, numbers, and one schema each."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from langchain_gemini_tools.testing.fake.refusal import Refusal, invalid, refuse_all
from langchain_gemini_tools.testing.fake.rules.json_schemas import check_json_schema
from langchain_gemini_tools.testing.fake.rules.schemas import parameters_problems, vertex_problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_gemini_tools.testing.fake.ask import Ask
    from langchain_gemini_tools.testing.fake.refusal import JsonObject

# Newer servers allow colons, and the newest reference 128 characters; the older texts do not.
# What passes here passes everywhere.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_NAME_RULE = (
    "Invalid function name. Must start with a letter or an underscore. Must be alphameric "
    "(a-z, A-Z, 0-9), underscores (_), dots (.) or dashes (-), with a maximum length of 64."
)
_MAX_DECLARATIONS = 512


def check_declarations(ask: Ask) -> None:
    """Refuse declarations that Gemini cannot offer to the model."""
    _check_number(ask)
    refuse_all(_problems(ask))
    _check_duplicates(ask)
    for _, _, declaration in ask.placed_declarations():
        name = declaration["name"]
        if "behavior" in declaration:
            raise invalid(f"{name}: behavior belongs to the Live API", evidence="documented")
        for own, json_schema in (
            ("parameters", "parametersJsonSchema"),
            ("response", "responseJsonSchema"),
        ):
            if own in declaration and json_schema in declaration:
                raise invalid(
                    f"{name}: {own} and {json_schema} exclude each other", evidence="documented"
                )
        if ask.backend == "vertex" and (own_schema := declaration.get("parameters")):
            _check_on_vertex(own_schema, name)
        if (schema := declaration.get("parametersJsonSchema")) is not None:
            check_json_schema(schema, name, is_parameters=True)


def _check_on_vertex(schema: JsonObject, name: str) -> None:
    if problem := vertex_problem(schema, "parameters"):
        raise Refusal(
            f"Unable to submit request because `{name}` functionDeclaration {problem} Learn more: "
            "https://cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling"
        )


def _check_number(ask: Ask) -> None:
    for number, tool in enumerate(ask.body.get("tools", [])):
        if len(tool.get("functionDeclarations", [])) > _MAX_DECLARATIONS:
            raise Refusal(
                "The GenerateContentRequest proto is invalid:\n"
                f"  * tools[{number}].function_declarations: [FIELD_INVALID] "
                f"At most {_MAX_DECLARATIONS} function declarations can be specified."
            )


def _problems(ask: Ask) -> Iterator[tuple[str, str]]:
    for t, d, declaration in ask.placed_declarations():
        path = f"tools[{t}].function_declarations[{d}]"
        if not _NAME.fullmatch(declaration.get("name", "")):
            yield f"{path}.name", _NAME_RULE
        if "parameters" in declaration:
            yield from parameters_problems(declaration["parameters"], f"{path}.parameters")


def _check_duplicates(ask: Ask) -> None:
    seen: set[str] = set()
    for declaration in ask.declarations:
        if declaration["name"] in seen:
            raise Refusal(f"Duplicate function declaration found: {declaration['name']}")
        seen.add(declaration["name"])
