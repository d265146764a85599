"""Every declaration that a client once sent to the real API keeps its meaning through us.

What was recorded and what we would send are both written out in one plain form, with references
resolved and in one spelling, and then compared as wholes: types, enums, required names, limits,
formats, defaults, descriptions, at every depth.
"""

from __future__ import annotations

import json
from typing import Any

from langchain_gemini_tools.facts.models import capabilities_of
from langchain_gemini_tools.wire.tools.bind import bind_tools
from langchain_gemini_tools.wire.tools.choice import render_tool_config, resolve_tool_choice
from langchain_gemini_tools.wire.tools.lint import reject_unusable_tools
from langchain_gemini_tools.wire.tools.tool import render_tools
from tests.cases import each
from tests.recordings import NOT_SET, Exchange, each_exchange, exchanges, require_recordings

JsonObject = dict[str, Any]


def declarations() -> dict[str, JsonObject]:
    """Each different declaration once, under the name of the exchange that first sent it."""
    found: dict[str, tuple[str, JsonObject]] = {}
    for exchange in exchanges():
        for declaration in declared((exchange.request or {}).get("tools") or []):
            text = json.dumps(declaration, sort_keys=True)
            found.setdefault(text, (f"{exchange.id}:{declaration['name']}", declaration))
    return dict(found.values())


def declared(tools: list[JsonObject]) -> list[JsonObject]:
    keys = ("functionDeclarations", "function_declarations")
    return [item for tool in tools for key in keys for item in tool.get(key) or []]


each_declaration = each("recorded", declarations, NOT_SET)


def test_the_recordings_contain_declarations_in_every_form() -> None:
    require_recordings()
    forms = {key for item in declarations().values() for key in item}
    assert {"parameters", "parametersJsonSchema", "parameters_json_schema"} <= forms


@each_declaration
def test_a_recorded_declaration_keeps_its_meaning(recorded: JsonObject) -> None:
    [tool] = render_tools(bind_tools([{"functionDeclarations": [recorded]}]))
    [sent] = tool["functionDeclarations"]
    assert comparable(sent) == comparable(recorded)


@each_declaration
def test_it_is_the_same_in_the_words_of_openai(recorded: JsonObject) -> None:
    parameters = recorded.get(
        "parametersJsonSchema",
        recorded.get("parameters_json_schema", recorded.get("parameters", {})),
    )
    chat = {
        "type": "function",
        "function": {
            "name": recorded["name"],
            "description": recorded.get("description", ""),
            "parameters": parameters,
        },
    }
    [tool] = render_tools(bind_tools([chat]))
    [sent] = tool["functionDeclarations"]
    expected = comparable(recorded)
    expected.pop("response")
    sent_form = comparable(sent)
    sent_form.pop("response")
    assert sent_form == expected


@each_exchange(
    lambda exchange: exchange.is_answered and bool((exchange.request or {}).get("tools"))
)
def test_a_whole_recorded_set_of_tools_is_taken_and_sent(exchange: Exchange) -> None:
    request_body = exchange.request or {}
    capabilities = capabilities_of(exchange.model)
    config = request_body.get("toolConfig", request_body.get("tool_config"))
    bound = bind_tools(request_body["tools"])
    reject_unusable_tools(bound, capabilities)
    choice = resolve_tool_choice(None, bound, capabilities, config)
    sent = render_tools(bound, choice)
    is_vertex = exchange.backend == "vertex"
    sent_config = render_tool_config(
        choice,
        bound,
        capabilities,
        vertexai=is_vertex,
        streams_arguments=exchange.is_stream,
    )
    assert [item["name"] for item in declared(sent)] == [
        item["name"] for item in declared(request_body["tools"])
    ]
    assert sorted(kinds(sent)) == sorted(kinds(request_body["tools"]))
    expected = comparable_config(config)
    if not declared(sent):
        expected.pop("mode", None)  # "Function calling config is set without ..." is a 400
    assert comparable_config(sent_config) == expected


def kinds(tools: list[JsonObject]) -> list[str]:
    return [
        spelled(key)
        for tool in tools
        for key, value in tool.items()
        if spelled(key) != "functionDeclarations" and value is not None
    ]


def comparable_config(config: Any) -> JsonObject:
    calling = dict((config or {}).get("functionCallingConfig", {}))
    if "mode" in calling:
        calling["mode"] = calling["mode"].upper()
    form = {spelled(key): value for key, value in calling.items()}
    if (config or {}).get("includeServerSideToolInvocations"):
        form["flag"] = True
    return form


def spelled(key: str) -> str:
    head, *rest = key.split("_")
    return head + "".join(part.capitalize() for part in rest)


def comparable(declaration: JsonObject) -> JsonObject:
    spelled_out = {spelled(key): value for key, value in declaration.items()}
    schema = spelled_out.get("parametersJsonSchema", spelled_out.get("parameters"))
    response = spelled_out.get("responseJsonSchema", spelled_out.get("response"))
    return {
        "name": declaration["name"],
        "description": declaration.get("description") or None,
        "parameters": plain_form(schema or {}, schema or {}) or None,
        "response": plain_form(response or {}, response or {}) or None,
    } | ({"parameters": None} if takes_nothing(schema or {}) else {})


def takes_nothing(schema: JsonObject) -> bool:
    return not schema.get("properties") and not schema.get("additionalProperties")


def plain_form(schema: Any, root: JsonObject) -> Any:
    """One form for all spellings of the same meaning."""
    if isinstance(schema, bool):
        return schema
    schema = {spelled(key) if "$" not in key else key: item for key, item in schema.items()}
    if "$ref" in schema:
        target: Any = root
        for step in schema.pop("$ref").split("/")[1:]:
            target = target[step]
        schema = {**target, **schema}
    form: JsonObject = {}
    for key, value in schema.items():
        match key:
            case "$schema" | "$defs" | "title":
                continue
            case "type":
                names = value if isinstance(value, list) else [value]
                form["type"] = sorted({*form.get("type", []), *(name.lower() for name in names)})
            case "nullable":
                form["type"] = sorted({*form.get("type", []), "null"})
            case "properties":
                form[key] = {name: plain_form(item, root) for name, item in value.items()}
            case "items" | "additionalProperties":
                form[key] = plain_form(value, root)
            case "anyOf" | "oneOf":
                options = [plain_form(item, root) for item in value]
                form |= one_option_or_null(options) or {key: options}
            case "required":
                if value:
                    form[key] = sorted(value)
            case _:
                form[key] = value
    return form


def one_option_or_null(options: list[JsonObject]) -> JsonObject | None:
    """`anyOf: [X, null]` in the form of X with null as one more type."""
    others = [option for option in options if option != {"type": ["null"]}]
    if len(others) != 1 or len(options) != 2 or "type" not in others[0]:
        return None
    return {**others[0], "type": sorted({*others[0]["type"], "null"})}
