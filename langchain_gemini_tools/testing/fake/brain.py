"""The rule-based model: answers when no reply is scripted. The same request gets the same answer.

It calls a function when the prompt names it or what it is about, several at once when the prompt
names several things, and after the function responses it answers with a text that quotes them.
`Filler` writes the arguments of a call from its schema and the prompt.

Where a prompt declares tools, the calls of the answer are written as text; see `prompted`.
"""

from __future__ import annotations

import base64
import json
import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.testing.fake.answer import (
    Answer,
    code_parts,
    count_tokens,
    search_parts,
)
from langchain_gemini_tools.testing.fake.prompted import read_prompted, write_prompted
from langchain_gemini_tools.testing.fake.rules.declarations import resolve_reference

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake.ask import Ask
    from langchain_gemini_tools.testing.fake.responses import JsonObject


_FILLERS = re.compile(
    r"a|an|and|by|call|create|do|fetch|find|for|from|function|get|in|info|list|look|lookup|make|new"
    r"|of|on|or|read|run|search|send|set|show|tell|the|to|tool|up|update|use|with|write"
)
"""Words in a tool's name that do not say what it is about."""
_SIGNS = {"add": "+", "sum": "+", "plus": "+", "subtract": "-", "multiply": "*", "divide": "/"}
_THOUGHT = "**Reading the question**\n\nI look at what you asked and pick what answers it."


def think(ask: Ask) -> Answer:
    """Return the answer to a valid request."""
    if ask.mixes_responses and (3, 0) <= ask.model.generation < (3, 6):
        # Reported for gemini-3.5-flash (pydantic/pydantic-ai, issue 4210); inferred for the earlier
        # ones of Gemini 3, of which no recording has such a content. Recorded on 2.5: an answer.
        return _with_thoughts(Answer([]), ask)
    if twin := read_prompted(ask):
        return _with_limits(write_prompted(_think(twin)), ask)
    return _think(ask)


def _think(ask: Ask) -> Answer:
    if calls := _calls(ask):
        called = [{"functionCall": call} for call in calls]
        says_so = ask.backend == "gemini" and ask.model.thinks
        message = "Model generated function call(s)." if says_so else None
        return _with_thoughts(Answer(called, finish_message=message), ask)
    if ask.model.speaks:
        return Answer([_spoken(_prompt(ask))])
    text = _json_text(ask) if ask.is_json else _text(ask)
    text, finish_reason = _cut(text, ask)
    server_parts, tool_use = _server_parts(ask)
    parts: list[JsonObject] = [*server_parts, {"text": text}] if text else server_parts
    answer = Answer(parts, finish_reason, tool_use_tokens=tool_use)
    return _with_thoughts(answer, ask)


def _spoken(text: str) -> JsonObject:
    """Raw samples, a hundred for each character."""
    samples = b"".join(bytes([ord(each) % 128, 0]) * 100 for each in text)
    data = base64.b64encode(samples).decode()
    # Reported by many: 16 bits, little-endian, one channel
    return {"inlineData": {"mimeType": "audio/L16;codec=pcm;rate=24000", "data": data}}


def _calls(ask: Ask) -> list[JsonObject]:
    """Return the calls to make now; none if the model answers with text."""
    mode = ask.calling_config.get("mode", "AUTO")
    if mode == "NONE" or not ask.declarations:
        return []
    allowed = ask.calling_config.get("allowedFunctionNames")
    tools = [tool for tool in ask.declarations if not allowed or tool["name"] in allowed]
    prompt = _prompt(ask)
    called = {
        call.get("name") for turn in ask.current_turn for call in turn.of_kind("functionCall")
    }
    if mode == "ANY":
        # Once a function has answered, one that was not called yet: agents that force a call
        # would never reach the one that ends their run.
        fresh = [tool for tool in tools if tool["name"] not in called] or tools
        chosen = _mentioned(fresh, prompt) or fresh[-1:]
    else:
        chosen = [] if _responses(ask) else _mentioned(tools, prompt)
    return [call for tool in chosen for call in _calls_of(tool, prompt)]


def _calls_of(tool: JsonObject, prompt: str) -> list[JsonObject]:
    """Return one call, or one for each place if the tool has a parameter for places."""
    schema = tool.get("parametersJsonSchema") or tool.get("parameters") or {}
    places: list[str | None] = [*places_in(prompt)] or [None]
    if not any(name.lower() in _PLACE_KEYS for name in schema.get("properties", {})):
        places = places[:1]
    filled = [Filler(prompt, place, schema).fill(schema) for place in places if schema]
    return [{"name": tool["name"], "args": args} for args in filled or [{}]]


def _mentioned(tools: list[JsonObject], prompt: str) -> list[JsonObject]:
    """Return the tools that the prompt names, or those whose subject it names."""
    named = [tool for tool in tools if _says(prompt, tool["name"])]
    return named or [tool for tool in tools if _is_about(tool["name"], prompt)]


def _is_about(name: str, prompt: str) -> bool:
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])|[_.:-]", " ", name).lower()
    words = set(spaced.split())
    if any(sign in prompt for word, sign in _SIGNS.items() if word in words):
        return bool(re.search(r"\d", prompt))
    subjects = [word for word in words if not _FILLERS.fullmatch(word)]
    return any(_says(prompt, form) for word in subjects for form in _singular_and_plural(word))


def _singular_and_plural(word: str) -> tuple[str, ...]:
    """`flight` and `flights`; but not `new` for `news`."""
    single = word.removesuffix("s")
    return (word, single) if word != single and len(single) > 3 else (word, word + "s")


def _says(prompt: str, word: str) -> bool:
    return bool(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", prompt, re.IGNORECASE))


def _prompt(ask: Ask) -> str:
    """Return the text of the last user turn that says something."""
    ordinary = [turn for turn in ask.turns if not turn.is_model and turn.is_ordinary]
    return " ".join(ordinary[-1].of_kind("text")) if ordinary else ""


def _responses(ask: Ask) -> list[JsonObject]:
    """Return the function responses of the last turn."""
    return ask.turns[-1].of_kind("functionResponse")


def _text(ask: Ask) -> str:
    if responses := _responses(ask):
        quotes = "; ".join(_quote(response) for response in responses)
        return f"Here is what I found for you. {quotes}. Is there more that you would like to know?"
    said = f"Hello! How can I help you today? You said: {_prompt(ask) or 'nothing'}."
    kinds = [
        part[kind].get("mimeType", "a file")
        for turn in ask.turns
        for _, _, part in turn.parts
        for kind in ("inlineData", "fileData")
        if kind in part
    ]
    return f"{said} You showed me: {', '.join(kinds)}." if kinds else said


def _quote(response: JsonObject) -> str:
    given: JsonObject = response.get("response", {})
    value = given.get("output", given.get("error", given))
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"{response['name']} says: {text}"


def _json_text(ask: Ask) -> str:
    prompt = _prompt(ask)
    if schema := ask.config.get("responseJsonSchema") or ask.config.get("responseSchema"):
        value = Filler(prompt, next(iter(places_in(prompt)), None), schema).fill(schema)
    else:
        value = {word: f"The {word}." for word in quoted_in(prompt)} or {"answer": _text(ask)}
    return json.dumps(value, ensure_ascii=False)


def _cut(text: str, ask: Ask) -> tuple[str, str]:
    """Return the text up to the first stop sequence, or to the last token allowed."""
    for stop in filter(None, ask.config.get("stopSequences", [])):
        text = text.partition(stop)[0]
    limit = ask.config.get("maxOutputTokens")
    if limit is not None and count_tokens(text) > limit:
        return text[: int(limit) * 4], "MAX_TOKENS"
    return text, "STOP"


def _with_limits(answer: Answer, ask: Ask) -> Answer:
    """Return an answer whose calls are text, cut at the limits of text."""
    *others, last = answer.parts
    text, finish_reason = _cut(last.get("text", ""), ask)
    if answer.finish_reason != "STOP" or finish_reason == "STOP":
        return answer
    return replace(answer, parts=[*others, {"text": text}], finish_reason=finish_reason)


def _server_parts(ask: Ask) -> tuple[list[JsonObject], int]:
    """Return the parts of built-in tools, if the prompt asks for them."""
    prompt = _prompt(ask)
    if "codeExecution" in ask.builtin_tools and re.search(r"\bcode\b|\d", prompt):
        return code_parts("print(6 * 7)", "42\n"), 12
    circulates = ask.circulates_server_tools
    if "googleSearch" in ask.builtin_tools and circulates and _says(prompt, "search"):
        return search_parts([prompt]), 20
    return [], 0


def _with_thoughts(answer: Answer, ask: Ask) -> Answer:
    if not ask.thinks:
        return answer
    parts = answer.parts
    if ask.config.get("thinkingConfig", {}).get("includeThoughts"):
        parts = [{"text": _THOUGHT, "thought": True}, *parts]
    return replace(answer, parts=parts, thoughts_tokens=count_tokens(_THOUGHT))


_QUOTED = re.compile(r"(?<!\w)(?:'([^']+)'|\"([^\"]+)\"|“([^”]+)”)(?!\w)")
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w])")
_PLACE = r"[A-ZÀ-ÞŁŚŻ][\w'.-]*(?: [A-ZÀ-ÞŁŚŻ][\w'.-]*)*(?:, [A-Z]{2}\b)?"
_PLACES = re.compile(rf"\b(?:in|for|at|of|from) ({_PLACE}(?:(?:,? and |,? or |, | & ){_PLACE})*)")
_PLACE_KEYS = ("location", "city", "place", "town", "country", "address", "where", "destination")
_PROMPT_KEYS = ("query", "question", "prompt", "text", "input", "request", "task", "message")
_DEEP = 6  # lists inside lists are empty from this depth on: a schema may be recursive
_SAMPLES = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "email": "ada@example.org",
    "uri": "https://example.org/",
    "duration": "P1D",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uuid": "0d4f1a52-8f63-4a7e-9f0e-3f3f3f3f3f3f",
}


def places_in(prompt: str) -> list[str]:
    """Return the places in a prompt: "in Oslo and Rome" has two, "San Francisco, CA" is one."""
    if not (match := _PLACES.search(prompt)):
        return []
    return [place.strip(" .?!") for place in re.findall(_PLACE, match[1])]


def quoted_in(prompt: str) -> list[str]:
    """Return every quoted word or phrase."""
    return ["".join(groups) for groups in _QUOTED.findall(prompt)]


class Filler:
    """Fills one schema. Each number and each quotation of the prompt is used once, in order."""

    def __init__(self, prompt: str, place: str | None, root: JsonObject) -> None:
        self.prompt = prompt
        self.place = place
        self.root = root  # where `$ref`s point into
        self.numbers = [float(number) for number in _NUMBER.findall(prompt)]
        self.quotations = quoted_in(prompt)

    def fill(self, schema: Any, key: str = "value", depth: int = 0) -> Any:
        """Return a value that the schema allows; of an object, the required keys."""
        given = schema if isinstance(schema, dict) else {}
        schema = resolve_reference(given, self.root, key)
        if choices := schema.get("anyOf") or schema.get("oneOf"):
            useful = [choice for choice in choices if _type_of(choice) != "null"]
            return self.fill((useful or choices)[0], key, depth + 1)
        if values := schema.get("enum") or [schema[key] for key in ("const",) if key in schema]:
            return self._choice(values)
        match _type_of(schema):
            case "object":
                fields = schema.get("properties", {})
                names = schema.get("required", [])
                return {name: self.fill(fields.get(name, {}), name, depth + 1) for name in names}
            case "array":
                return self._array(schema, key, depth)
            case "integer":
                return int(self._number(schema))
            case "number":
                return self._number(schema)
            case "boolean":
                return True
            case "null":
                return None
            case _:
                return self._string(schema, key)

    def _choice(self, values: list[Any]) -> Any:
        said = [value for value in values if str(value).lower() in self.prompt.lower()]
        return (said or values)[0]

    def _array(self, schema: JsonObject, key: str, depth: int) -> list[Any]:
        if prefix := schema.get("prefixItems"):
            return [self.fill(item, key, depth + 1) for item in prefix]
        size = 0 if depth > _DEEP else 1
        size = max(size, int(schema.get("minItems", size)))
        return [self.fill(schema.get("items", {}), key, depth + 1) for _ in range(size)]

    def _number(self, schema: JsonObject) -> float:
        number = self.numbers.pop(0) if self.numbers else 1.0
        number = max(number, schema.get("minimum", number))
        number = min(number, schema.get("maximum", number))
        if step := schema.get("multipleOf"):
            number = math.ceil(number / step) * step
        return float(number)

    def _string(self, schema: JsonObject, key: str) -> str:
        if (sample := _SAMPLES.get(str(schema.get("format", "")))) is not None:
            return sample
        if self.place and key.lower() in _PLACE_KEYS:
            return self.place
        if self.quotations:
            return self.quotations.pop(0)
        if key.lower() in _PROMPT_KEYS:
            return self.prompt
        text = self.place or f"The {key.replace('_', ' ')}."
        shortest, longest = int(schema.get("minLength", 0)), schema.get("maxLength")
        text = text.ljust(shortest, ".")
        return text[: int(longest)] if longest is not None else text


def _type_of(schema: Any) -> str:
    given: JsonObject = schema if isinstance(schema, dict) else {}
    kind = given.get("type", "object" if "properties" in given else "string")
    if isinstance(kind, list):
        kind = next((name for name in kind if name != "null"), "null")
    return str(kind).lower()
