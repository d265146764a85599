"""Tools that a prompt declares, what it says to do now, and the calls and results of its text.

`read_prompted` makes the same question with function declarations of it; `write_prompted` writes
the calls of the answer as text.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from langchain_gemini_tools.testing.fake.answer import Answer
    from langchain_gemini_tools.testing.fake.ask import Ask
    from langchain_gemini_tools.testing.fake.responses import JsonObject

_TOOL = re.compile(r"^## (?P<name>.+)\n(?P<rest>(?:(?!## |# ).*\n?)*)", re.MULTILINE)
_ARGUMENT = re.compile(r'(?P<indent> *)- (?P<name>"(?:[^"\\]|\\.)*"|\w+): (?P<said>.*)')
_TYPE_NAME = re.compile(r"Type (?P<name>[^:]+): (?P<said>.*)")
_MARK = re.compile(r", (required|optional)[,.]")
_LIMITS = re.compile(r"(.*?) \(((?:at|format|matching|more|less|no other|no item|a multiple).*)\)")
_NOW = re.compile(r"Call (.+) now(?::|, one of these: (.+?)\. )")
_SCHEMA = re.compile(r"fit this JSON Schema:\s*(\{.*\})", re.DOTALL)
_CALL = re.compile(r"TOOL_CALL: (.+?)\((.*)\)")
_RESULT = re.compile(r"TOOL_RESULT: (.+?)(?: #\d+)?( failed)?")
_PLURALS = {"strings": "string", "integers": "integer", "numbers": "number", "objects": "object"}


def read_prompted(ask: Ask) -> Ask | None:
    """Return the question with the declarations of its prompt; None if it declares none."""
    if not (instructions := [*_instructions(ask)]):
        return None
    prompt_text = "\n".join(instructions)
    body: JsonObject = {key: value for key, value in ask.body.items() if key != "systemInstruction"}
    body["contents"] = [
        content | {"parts": [*_parts(content, instructions)]} for content in ask.contents
    ]
    if "Answer with one JSON value" in prompt_text:
        schema = _SCHEMA.search(prompt_text)
        output: JsonObject = {"responseMimeType": "application/json"}
        output |= {"responseJsonSchema": json.loads(schema[1])} if schema else {}
        body["generationConfig"] = ask.config | output
    if tools := [*_declarations(prompt_text)]:
        body["tools"] = [{"functionDeclarations": tools}]
        body["toolConfig"] = {"functionCallingConfig": _calling_config(prompt_text)}
    return replace(ask, body=body)


def write_prompted(answer: Answer) -> Answer:
    """Return the answer with its calls as lines of text."""
    calls = [part["functionCall"] for part in answer.parts if "functionCall" in part]
    if not calls:
        return answer
    written = [(call["name"], json.dumps(call["args"], ensure_ascii=False)) for call in calls]
    lines = [f"TOOL_CALL: {name}({args})" for name, args in written]
    others = [part for part in answer.parts if "functionCall" not in part]
    return replace(answer, parts=[*others, {"text": "\n".join(lines)}], finish_message=None)


def written_calls(answer: Answer) -> list[JsonObject]:
    """Return the calls of an answer, also those that are text."""
    parts = _parts({"parts": answer.parts}, [])
    return [part["functionCall"] for part in parts if "functionCall" in part]


def _instructions(ask: Ask) -> Iterator[str]:
    """Yield the texts that declare tools, or ask for JSON."""
    for content in (ask.body.get("systemInstruction", {}), *ask.contents):
        for part in content.get("parts", []) if content.get("role") != "model" else []:
            text = part.get("text", "")
            asks_for_json = "Answer with one JSON value" in text
            if asks_for_json or ("TOOL_CALL:" in text and "Arguments:" in text):
                yield text


def _parts(content: JsonObject, instructions: list[str]) -> Iterator[JsonObject]:
    """Yield the parts of a content, lines of the protocol as calls and responses."""
    waiting: JsonObject | None = None
    for part in content.get("parts", []):
        if "text" not in part:
            yield part
            continue
        if part["text"] in instructions:
            continue
        words: list[str] = []
        for line in part["text"].split("\n"):
            if call := _CALL.fullmatch(line):
                yield {"functionCall": {"name": call[1], "args": _loads(call[2], {})}}
            elif result := _RESULT.fullmatch(line):
                waiting = {"name": result[1], "key": "error" if result[2] else "output", "text": []}
            elif waiting and line == "END_TOOL_RESULT":
                response = {waiting["key"]: "\n".join(waiting["text"])}
                yield {"functionResponse": {"name": waiting["name"], "response": response}}
                waiting = None
            elif waiting:
                waiting["text"].append(line)
            else:
                words.append(line)
        if said := "\n".join(words).strip():
            yield {"text": said}


def _calling_config(prompt_text: str) -> JsonObject:
    if "Do not call a tool now" in prompt_text:
        return {"mode": "NONE"}
    if not (now := _NOW.search(prompt_text)):
        return {"mode": "AUTO"}
    names = now[2].split(", ") if now[2] else [now[1]] if now[1] != "a tool" else []
    return {"mode": "ANY"} | ({"allowedFunctionNames": names} if names else {})


def _declarations(prompt_text: str) -> Iterator[JsonObject]:
    for tool in _TOOL.finditer(prompt_text):
        _, _, arguments = tool["rest"].partition("Arguments:\n")
        schema = _read_arguments(arguments.splitlines())
        yield {"name": tool["name"]} | ({"parametersJsonSchema": schema} if schema else {})


def _read_arguments(lines: Iterable[str]) -> JsonObject | None:
    root: JsonObject = {"type": "object", "properties": {}, "required": []}
    open_objects: list[tuple[int, JsonObject]] = [(-1, root)]
    for line in lines:
        if named := _TYPE_NAME.fullmatch(line):
            schema = _read_type(named["said"].partition(".")[0])
            root.setdefault("$defs", {})[named["name"]] = schema
            open_objects = [(-1, schema)]
        elif argument := _ARGUMENT.fullmatch(line):
            depth = len(argument["indent"])
            while open_objects[-1][0] >= depth:
                open_objects.pop()
            schema = _add_argument(open_objects[-1][1], argument)
            open_objects.append((depth, schema))
    return root if root["properties"] or "$defs" in root else None


def _add_argument(parent: JsonObject, argument: re.Match[str]) -> JsonObject:
    name = argument["name"]
    name = json.loads(name) if name.startswith('"') else name
    said = argument["said"]
    mark = _MARK.search(said)
    schema = _read_type(said[: mark.start()] if mark else said.partition(".")[0])
    parent.setdefault("properties", {})[name] = schema
    if mark and mark[1] == "required":
        parent.setdefault("required", []).append(name)
    return _holder(schema)


def _holder(schema: JsonObject) -> JsonObject:
    """Return the schema that nested lines describe: of an array's items, or of an object."""
    while True:
        kinds = ("object", "array")
        options = [each for each in schema.get("anyOf", []) if each.get("type") in kinds]
        if options:
            schema = options[0]
        elif schema.get("type") == "array" and "items" in schema:
            schema = schema["items"]
        else:
            return schema


def _read_type(words: str) -> JsonObject:
    words = words.strip()
    limits = _LIMITS.fullmatch(words)
    if limits and not words.startswith("array of ("):
        return _read_type(limits[1]) | _read_limits(limits[2])
    options = words.split(" or ")
    values = [_loads(option, ...) for option in options]
    if ... not in values and words != "null":
        return {"enum": values}
    if words.startswith("array of (") and words.endswith(")"):
        return {"type": "array", "items": _read_type(words[len("array of (") : -1])}
    if len(options) > 1:
        return {"anyOf": [_read_type(option) for option in options]}
    if words.startswith("array"):
        kind = _PLURALS.get(words.removeprefix("array of "))
        return {"type": "array"} | ({"items": {"type": kind}} if kind else {})
    if words.startswith("object"):
        return {"type": "object"}
    if words in ("string", "integer", "number", "boolean", "null"):
        return {"type": words}
    return {} if words == "anything" else {"$ref": f"#/$defs/{words}"}


def _read_limits(words: str) -> JsonObject:
    limits: JsonObject = {}
    for side, number, what in re.findall(r"at (least|most) (-?[\d.]+)( \w+)?", words):
        word = {"least": "min", "most": "max"}[side]
        name = {" items": "Items", " characters": "Length", " keys": "Properties"}.get(what, "imum")
        limits[word + name] = float(number) if name == "imum" else int(number)
    if form := re.search(r"format ([\w-]+)", words):
        limits["format"] = form[1]
    return limits


def _loads(text: str, default: Any) -> Any:
    """Return the value of a JSON text, or the default."""
    try:
        return json.loads(text)
    except ValueError:
        return default
