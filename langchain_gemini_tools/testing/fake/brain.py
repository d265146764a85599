"""The rule-based model: answers when no reply is scripted. The same request gets the same answer.

It calls a function when the prompt names it or what it is about, several at once when the prompt
names several things, and after the function responses it answers with a text that quotes them.
`Filler` writes the arguments of a call from its schema and the prompt.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.testing.fake.answer import Answer, count_tokens
from langchain_gemini_tools.testing.fake.prompted import read_prompted, write_prompted

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake.ask import Ask, Turn
    from langchain_gemini_tools.testing.fake.responses import JsonObject


_FILLERS = re.compile(
    r"a|an|and|by|call|create|do|fetch|find|for|from|function|get|in|info|list|look|lookup|make|new"
    r"|of|on|or|read|run|search|send|set|show|tell|the|to|tool|up|update|use|with|write"
)
"""Words in a tool's name that do not say what it is about."""
_SIGNS = {"add": "+", "sum": "+", "plus": "+", "subtract": "-", "multiply": "*", "divide": "/"}
_THOUGHT = "**Reading the question**\n\nI look at what you asked and pick what answers it."


def think(ask: Ask) -> Answer:
    """The answer to a valid request."""
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
    """The calls to make now; none if the model answers with text."""
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
    """One call, or one for each place if the tool has a parameter for places."""
    schema = tool.get("parametersJsonSchema") or tool.get("parameters") or {}
    places: list[str | None] = [*places_in(prompt)] or [None]
    if not has_place(schema):
        places = places[:1]
    filled = [Filler(prompt, place, root=schema).fill(schema) for place in places if schema]
    return [{"name": tool["name"], "args": args} for args in filled or [{}]]


def _mentioned(tools: list[JsonObject], prompt: str) -> list[JsonObject]:
    """The tools named in the prompt, else those whose subject is."""
    named = [tool for tool in tools if _says(prompt, tool["name"])]
    return named or [tool for tool in tools if _is_about(tool["name"], prompt)]


def _is_about(name: str, prompt: str) -> bool:
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])|[_.:-]", " ", name).lower()
    words = set(spaced.split())
    if any(sign in prompt for word, sign in _SIGNS.items() if word in words):
        return bool(re.search(r"\d", prompt))
    subjects = [word for word in words if not _FILLERS.fullmatch(word)]
    return any(_says(prompt, word) or _says(prompt, word + "s") for word in subjects)


def _says(prompt: str, word: str) -> bool:
    return bool(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", prompt, re.IGNORECASE))


def _prompt(ask: Ask) -> str:
    """The text of the last user turn that says something."""
    ordinary = [turn for turn in ask.turns if not turn.is_model and turn.is_ordinary]
    return " ".join(ordinary[-1].of_kind("text")) if ordinary else ""


def _responses(ask: Ask) -> list[JsonObject]:
    """The function responses of the last turn."""
    last: Turn = ask.turns[-1]
    return last.of_kind("functionResponse")


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
    value: Any = response.get("response", {})
    for key in ("output", "error"):
        if key in value:
            value = value[key]
            break
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"{response['name']} says: {text}"


def _json_text(ask: Ask) -> str:
    schema = ask.config.get("responseJsonSchema") or ask.config.get("responseSchema")
    if schema:
        value = Filler(_prompt(ask), next(iter(places_in(_prompt(ask))), None), schema).fill(schema)
    else:
        value = {word: f"The {word}." for word in quoted_in(_prompt(ask))} or {"answer": _text(ask)}
    return json.dumps(value, ensure_ascii=False)


def _cut(text: str, ask: Ask) -> tuple[str, str]:
    """The text up to the first stop sequence, or to the last token allowed."""
    for stop in ask.config.get("stopSequences", []):
        text = text.partition(stop)[0]
    limit = ask.config.get("maxOutputTokens")
    if limit is not None and count_tokens(text) > limit:
        return text[: int(limit) * 4], "MAX_TOKENS"
    return text, "STOP"


def _with_limits(answer: Answer, ask: Ask) -> Answer:
    """An answer whose calls are text, cut as text is cut."""
    *others, last = answer.parts
    text, finish_reason = _cut(last.get("text", ""), ask)
    if answer.finish_reason != "STOP" or finish_reason == "STOP":
        return answer
    return replace(answer, parts=[*others, {"text": text}], finish_reason=finish_reason)


def _server_parts(ask: Ask) -> tuple[list[JsonObject], int]:
    """The parts of built-in tools, if the prompt asks for them."""
    prompt = _prompt(ask)
    if "codeExecution" in ask.builtin_tools and re.search(r"\bcode\b|\d", prompt):
        return [
            {"executableCode": {"language": "PYTHON", "code": "print(6 * 7)"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "42\n"}},
        ], 12
    circulates = ask.circulates_server_tools
    if "googleSearch" in ask.builtin_tools and circulates and _says(prompt, "search"):
        search = {"toolType": "GOOGLE_SEARCH_WEB"}
        return [
            {"toolCall": search | {"args": {"queries": [prompt]}}},
            {"toolResponse": search | {"response": {"search_suggestions": "<div></div>"}}},
        ], 20
    return [], 0


def _with_thoughts(answer: Answer, ask: Ask) -> Answer:
    if not ask.thinks:
        return answer
    parts = answer.parts
    if ask.config.get("thinkingConfig", {}).get("includeThoughts"):
        parts = [{"text": _THOUGHT, "thought": True}, *parts]
    return Answer(
        parts,
        answer.finish_reason,
        answer.finish_message,
        thoughts_tokens=count_tokens(_THOUGHT),
        tool_use_tokens=answer.tool_use_tokens,
    )


_QUOTED = re.compile(r"(?<!\w)(?:'([^']+)'|\"([^\"]+)\"|“([^”]+)”)(?!\w)")
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w])")
_PLACE = r"[A-ZÀ-ÞŁŚŻ][\w'.-]*(?: [A-ZÀ-ÞŁŚŻ][\w'.-]*)*(?:, [A-Z]{2}\b)?"
_PLACES = re.compile(rf"\b(?:in|for|at|of|from) ({_PLACE}(?:(?:,? and |,? or |, | & ){_PLACE})*)")
_PLACE_KEYS = ("location", "city", "place", "town", "country", "address", "where", "destination")
_DEEP = 6
"""Lists inside lists are empty from this depth on: a schema may be recursive."""
_SAMPLES = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "email": "ada@example.org",
    "uri": "https://example.org/",
    "uuid": "0d4f1a52-8f63-4a7e-9f0e-3f3f3f3f3f3f",
}


def places_in(prompt: str) -> list[str]:
    """The places a prompt asks about: "in Oslo and Rome" names two, "San Francisco, CA" one."""
    if not (match := _PLACES.search(prompt)):
        return []
    return [place.strip(" .?!") for place in re.findall(_PLACE, match[1])]


def has_place(schema: JsonObject) -> bool:
    """Whether a parameter of the schema is a place."""
    return any(name.lower() in _PLACE_KEYS for name in schema.get("properties", {}))


def quoted_in(prompt: str) -> list[str]:
    """Every quoted word or phrase."""
    return ["".join(groups) for groups in _QUOTED.findall(prompt)]


@dataclass
class Filler:
    """Fills one schema. Each number and each quotation of the prompt is used once, in order."""

    prompt: str
    place: str | None = None
    root: JsonObject = field(default_factory=dict)
    """Where `$ref`s point into."""
    numbers: list[float] = field(init=False)
    quotations: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.numbers = [float(number) for number in _NUMBER.findall(self.prompt)]
        self.quotations = quoted_in(self.prompt)

    def fill(self, schema: Any, key: str = "value", depth: int = 0) -> Any:
        """A value that the schema allows; of an object, the required keys."""
        schema = self._resolve(schema if isinstance(schema, dict) else {})
        if choices := schema.get("anyOf") or schema.get("oneOf"):
            useful = [choice for choice in choices if not _is_null(choice)]
            return self.fill((useful or choices)[0], key, depth + 1)
        if values := schema.get("enum") or [schema[key] for key in ("const",) if key in schema]:
            return self._choice(values)
        match _type_of(schema):
            case "object":
                properties = schema.get("properties", {})
                required = schema.get("required", [])
                return {
                    name: self.fill(properties.get(name, {}), name, depth + 1) for name in required
                }
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

    def _resolve(self, schema: JsonObject) -> JsonObject:
        while isinstance(path := schema.get("$ref"), str):
            target: Any = self.root
            for step in path.removeprefix("#").strip("/").split("/"):
                target = target[step] if step else target
            schema = target
        return schema

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
        return float(min(number, schema.get("maximum", number)))

    def _string(self, schema: JsonObject, key: str) -> str:
        if (sample := _SAMPLES.get(str(schema.get("format", "")))) is not None:
            return sample
        if self.place and key.lower() in _PLACE_KEYS:
            return self.place
        if self.quotations:
            return self.quotations.pop(0)
        if key.lower() in ("query", "question", "prompt", "text", "input"):
            return self.prompt
        text = self.place or f"The {key.replace('_', ' ')}."
        shortest, longest = int(schema.get("minLength", 0)), schema.get("maxLength")
        text = text.ljust(shortest, ".")
        return text[: int(longest)] if longest is not None else text


def _type_of(schema: JsonObject) -> str:
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):
        kind = next((name for name in kind if name != "null"), "null")
    return str(kind).lower()


def _is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and str(schema.get("type", "")).lower() == "null"
