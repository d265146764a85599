"""Supporting a keyword, or no longer supporting it, is a change of one row."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from langchain_gemini_tools.wire.schema.keywords import KEYWORDS
from tests.figures import PACKAGE, literals_of, modules

if TYPE_CHECKING:
    from langchain_gemini_tools.wire.shapes import JsonSchema


SCRIPT = """
import importlib.util
import json
import sys
from pathlib import Path

name = "langchain_gemini_tools.wire.schema.keywords"


def load(change):
    for loaded in [*sys.modules]:
        if loaded.partition(".")[0] == "langchain_gemini_tools":
            del sys.modules[loaded]
    spec = importlib.util.find_spec(name)
    sys.modules[name] = importlib.util.module_from_spec(spec)
    source = Path(spec.origin).read_text()
    assert "\\nKEYWORDS:" in source
    exec(source.replace("\\nKEYWORDS:", f"\\n{change}\\nKEYWORDS:"), vars(sys.modules[name]))


for line in sys.stdin:
    change, given = json.loads(line)
    load(change)

    from langchain_gemini_tools import check_tools
    from langchain_gemini_tools.prompted.tool_arguments import describe_parameters
    from langchain_gemini_tools.wire.schema.clean import clean_schema
    from langchain_gemini_tools.wire.schema.render import render_openapi_schema
    from langchain_gemini_tools.wire.schema.render import render_json_schema

    parameters = {"type": "object", "properties": {"x": given}}
    cleaned = clean_schema(given)
    report = check_tools([{"name": "f", "description": "F.", "parameters": parameters}])
    result = {
        "clean": cleaned,
        "json_schema": render_json_schema(cleaned),
        "openapi": render_openapi_schema(cleaned),
        "prompt": describe_parameters(clean_schema(parameters)),
        "lint": [finding.message for finding in report.findings],
    }
    print(json.dumps(result), flush=True)
"""

Changed = Callable[[str, "JsonSchema"], Any]


@pytest.fixture(scope="module")
def changed() -> Iterator[Changed]:
    """Returns what becomes of a schema with the rows of the table changed.

    One interpreter loads our modules again for each change; those of others stay.
    """
    command = [sys.executable, "-c", SCRIPT]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as interpreter:
        asked, answers = interpreter.stdin, interpreter.stdout
        assert asked is not None
        assert answers is not None

        def change_and_render(change: str, schema: JsonSchema) -> Any:
            asked.write(json.dumps([change, schema]) + "\n")
            return json.loads(answers.readline())

        yield change_and_render
        asked.close()


def test_a_new_row_for_a_constraint_is_honoured_everywhere(changed: Changed) -> None:
    row = (
        'Keyword("digits", "number", sent="unreliable", wording="Digits: {}.", prompt="{} digits")'
    )
    given = {"type": "string", "digits": 4}
    assert changed("", given) == {
        "clean": {"type": "string"},
        "json_schema": {"type": "string"},
        "openapi": {"type": "STRING"},
        "prompt": ["- x: string, optional."],
        "lint": [],
    }
    assert changed(f"_ROWS += ({row},)", given) == {
        "clean": given,
        "json_schema": given,
        "openapi": {"type": "STRING", "description": "Digits: 4."},
        "prompt": ["- x: string (4 digits), optional."],
        "lint": ["Gemini may ignore 'digits'; validate this argument yourself."],
    }


def test_a_row_decides_in_which_form_a_keyword_is_sent(changed: Changed) -> None:
    row = 'Keyword("digits", "number", sent="worded", openapi=("STRING",), wording="Digits: {}.")'
    assert changed(f"_ROWS += ({row},)", {"type": "string", "digits": 4}) == {
        "clean": {"type": "string", "digits": 4},
        "json_schema": {"type": "string", "description": "Digits: 4."},
        "openapi": {"type": "STRING", "description": "Digits: 4."},
        "prompt": ['- x: string ({"digits": 4}), optional.'],
        "lint": [],
    }


def test_a_new_row_for_a_keyword_with_schemas_is_walked_into(changed: Changed) -> None:
    row = 'Keyword("each", "schema map", "property")'
    given = {
        "type": "object",
        "each": {"a": {"const": 1}, "b": {"$ref": "#b"}},
        "$defs": {"b": {"$anchor": "b", "title": "B", "type": "string", "pattern": "^b"}},
    }
    inner = {"a": {"type": "integer", "enum": [1]}, "b": {"type": "string", "pattern": "^b"}}
    known = changed(f"_ROWS += ({row},)", {**given, "properties": {"c": {}}})
    assert known["clean"] == {"type": "object", "properties": {"c": {}}, "each": inner}
    assert known["lint"] == ["Gemini may ignore 'pattern'; validate this argument yourself."]


def test_a_keyword_without_a_row_is_removed(changed: Changed) -> None:
    given = {"type": "string", "pattern": "^a"}
    change = '_ROWS = [row for row in _ROWS if row.name != "pattern"]'
    assert changed(change, given) == {
        "clean": {"type": "string"},
        "json_schema": {"type": "string"},
        "openapi": {"type": "STRING"},
        "prompt": ["- x: string, optional."],
        "lint": [],
    }


STRUCTURE = {
    *("$defs", "$ref", "anyOf", "oneOf", "const", "default", "definitions", "description", "enum"),
    *("examples", "format", "items", "prefixItems", "properties", "required", "title", "type"),
    *("additionalProperties", "deprecated"),
}
"""What a schema is made of. Other modules may name these to build a schema, or to describe it."""
SAMPLED = {
    *("exclusiveMaximum", "exclusiveMinimum", "maxLength", "maximum", "minItems", "minLength"),
    *("minimum", "multipleOf", "pattern"),
}
"""What the sample arguments of a prompt observe, and `pattern` of jsonschema."""
ELSEWHERE = {
    "prompted/tool_arguments.py": SAMPLED,
    "wire/tools/bind.py": {"allOf"},
}


def test_no_other_module_names_a_keyword_to_decide_what_becomes_of_it() -> None:
    named: dict[str, frozenset[str]] = {}
    for path in modules():
        found = literals_of(path) & KEYWORDS.keys() - STRUCTURE
        if found and path.parent.name != "schema":
            named[str(path.relative_to(PACKAGE))] = found
    assert named == ELSEWHERE
