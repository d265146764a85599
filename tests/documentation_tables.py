"""The parts of the documentation that are made from the code: `make docs-tables` writes them.

`<!-- generated: NAME -->` and `<!-- end -->` enclose each of them. `test_docs.py` checks that they
are up to date.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from pydantic_core import PydanticUndefined

from langchain_gemini_tools import errors
from langchain_gemini_tools.arguments import ChatGeminiArguments, Effort, Modality, Resolution
from langchain_gemini_tools.facts.models import ALL_MEDIA, FAMILIES, Capabilities, Family
from langchain_gemini_tools.field_values import Option
from langchain_gemini_tools.fields import FIELDS_BY_SYNONYM, GeminiFields
from tests.documentation import DOCS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from pydantic.fields import FieldInfo

_BLOCK = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_DEFAULTS = {
    "google_api_key": "from the environment",
    "credentials": "Google's default credentials",
}
"""Where the default value says less than this."""


def _words(alias: Any) -> str:
    """Return the strings that a type accepts; its enums have the same."""
    literal = next(one for one in get_args(alias) if get_origin(one) is Literal)
    return " | ".join(f'"{word}"' for word in get_args(literal))


_ALIASES = {
    "Config": "dict[str, Any] | BaseModel",
    "Effort": _words(Effort),
    "Modality": _words(Modality),
    "Resolution": _words(Resolution),
}
"""What the names of types in `arguments.py` stand for."""


# Models


def _families(kind: str) -> list[Family]:
    """Return the families of a kind, newest first."""
    found = [family for family in FAMILIES if _kind(family) == kind]
    return sorted(found, key=_age)


def _kind(family: Family) -> str:
    if "text" not in family.capabilities.outputs or len(family.capabilities.outputs) > 1:
        return "media"
    return family.line


def _age(family: Family) -> tuple[bool, float]:
    """Sort models that no row names first, then by the version in the first name."""
    if not family.models:
        return False, 0.0
    version = re.search(r"-(\d+(?:\.\d+)?)", family.models[0])
    return True, -float(version[1]) if version else 0.0


def _names(family: Family) -> str:
    if family.models:
        return "<br>".join(f"`{_short(name)}`" for name in family.models)
    return f"later {family.line.capitalize()} models"


def _short(name: str) -> str:
    """Leave the date of a preview out, for which a table has no room."""
    return re.sub(r"-preview-\d.*", "-…", name)


def _yes(value: object) -> str:
    return "yes" if value else "no"


def _tool_calling(known: Capabilities) -> str:
    if known.calls_functions:
        return "yes"
    return "prompted" if known.accepts_prompted_functions else "no"


def _google_tools(known: Capabilities) -> str:
    if not known.accepts_builtin_tools:
        return "no"
    beside = known.combines_builtin_tools_with_functions and known.calls_functions
    return "yes" if beside else "alone"


def _json_output(known: Capabilities) -> str:
    if not known.supports_json_output:
        return "no"
    beside = known.combines_json_output_with_functions and known.calls_functions
    return "yes" if beside else "alone"


def _levels(known: Capabilities) -> str:
    if not known.thinks:
        return "does not think"
    if not known.thinks_by_level:
        return "as budgets"
    if known.thinking_levels is None:
        return "not known"
    default = known.default_thinking_level
    return ", ".join(f"**{one}**" if one == default else one for one in known.thinking_levels)


def _budget(known: Capabilities) -> str:
    if not known.thinks or not known.accepts_thinking_budget:
        return "no"
    return "yes" if known.can_turn_thinking_off else "not 0"


def _media(media: Sequence[str]) -> str:
    if media == ALL_MEDIA:
        return "all"
    return ", ".join(medium for medium in media if medium != "text") or "text only"


def _tokens_in(known: Capabilities) -> str:
    return f"{known.max_input_tokens:,}"


def _tokens_out(known: Capabilities) -> str:
    unary = known.max_unary_output_tokens
    return f"{known.max_output_tokens:,}" + (f"<br>({unary:,})" if unary else "")


Column = tuple[str, "Callable[[Capabilities], str]"]

_TOOL_COLUMNS: tuple[Column, ...] = (
    ("function calling", _tool_calling),
    ("Google's tools", _google_tools),
    ("JSON output", _json_output),
    ("files in tool results", lambda known: _yes(known.accepts_media_in_function_response)),
    ("media", lambda known: _media(known.inputs)),
    ("tokens in", _tokens_in),
    ("tokens out", _tokens_out),
)
_RULE_COLUMNS: tuple[Column, ...] = (
    ("levels", _levels),
    ("`thinking_budget`", _budget),
    ("checks signatures", lambda known: _yes(known.checks_call_signatures)),
    ("continues its own turn", lambda known: _yes(known.accepts_prefill)),
    ("sampling", lambda k: "ignored" if k.ignores_sampling else "yes"),
    ("`n` above 1", lambda known: _yes(known.supports_several_candidates)),
    ("`cached_content`", lambda known: _yes(known.supports_cached_content)),
)
_MEDIA_COLUMNS: tuple[Column, ...] = (
    ("returns", lambda known: ", ".join(known.outputs)),
    ("media", lambda known: _media(known.inputs)),
    ("Google's tools", _google_tools),
    ("levels", _levels),
    ("tokens in", _tokens_in),
    ("tokens out", _tokens_out),
)


def _table(columns: Sequence[Column], families: Iterable[Family]) -> str:
    heads = ["model", *(head for head, _ in columns)]
    rows = [
        [_names(family), *(render(family.capabilities) for _, render in columns)]
        for family in families
    ]
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def tools_by_model() -> str:
    """Return what chat models accept: tools, output, media and tokens."""
    return _table(_TOOL_COLUMNS, [*_families("gemini"), *_families("gemma")])


def rules_by_model() -> str:
    """Return how chat models think, and which options and histories they accept."""
    return _table(_RULE_COLUMNS, [*_families("gemini"), *_families("gemma")])


def media_models() -> str:
    """Return what models that draw or speak accept."""
    return _table(_MEDIA_COLUMNS, _families("media"))


# Arguments


def arguments() -> str:
    """Return the arguments of `ChatGemini` under the headings of `fields.py`."""
    return "".join(
        f"\n### {group}\n\n{''.join(_argument(name) for name in names)}"
        for group, names in _groups().items()
    ) + _arguments_of_langchain(_groups())


def _groups() -> dict[str, list[str]]:
    """Return the fields by the comments above them; the first ones choose the model."""
    groups: dict[str, list[str]] = {"Model": []}
    for line in inspect.getsource(GeminiFields).splitlines():
        if heading := re.fullmatch(r"    # (\w[\w ]+)", line):
            groups[heading[1]] = []
        elif (field := re.match(r"    (\w+): ", line)) and field[1] in GeminiFields.model_fields:
            [*groups.values()][-1].append(field[1])
    return {group: names for group, names in groups.items() if names}


def _argument(name: str) -> str:
    field = GeminiFields.model_fields[name]
    synonyms = [f"`{other}`" for other, named in FIELDS_BY_SYNONYM.items() if named == name]
    facts = [_type(name), _default(name, field)]
    facts += [f"also {', '.join(synonyms)}"] if synonyms else []
    facts += ["per call"] if any(isinstance(mark, Option) for mark in field.metadata) else []
    lines = [f"#### `{name}` {{ #{name} }}\n", " · ".join(facts), "{ .facts }\n", field.description]
    return "\n".join([*map(str, lines), "\n"])


def _type(name: str) -> str:
    """Return the type that editors show."""
    declared = ChatGeminiArguments.__annotations__.get(name, "str")
    text = str(getattr(declared, "__forward_arg__", declared))
    for alias, meaning in _ALIASES.items():
        text = re.sub(rf"\b{alias}\b", meaning, text)
    return f"`{text}`"


def _default(name: str, field: FieldInfo) -> str:
    if name in _DEFAULTS:
        return _DEFAULTS[name]
    value: Any = field.get_default(call_default_factory=True)
    return "required" if value is PydanticUndefined else f"default `{value!r}`"


def _arguments_of_langchain(groups: dict[str, list[str]]) -> str:
    ours = {*FIELDS_BY_SYNONYM, *(name for names in groups.values() for name in names)}
    others = [f"`{name}`" for name in ChatGeminiArguments.__annotations__ if name not in ours]
    return (
        "\n### LangChain's\n\n"
        f"Every LangChain chat model has these as well: {', '.join(others)}.\n\n"
    )


# Errors


def error_tree() -> str:
    """Return the classes of errors as a nested list with links."""
    return _branch(errors.GeminiToolsError, depth=0)


def _branch(error: type[errors.GeminiToolsError], depth: int) -> str:
    module = errors.__name__
    summary = (inspect.getdoc(error) or "").split("\n")[0].rstrip(".")
    mark = " (*retryable*)" if error.is_retryable else ""
    line = f"{'    ' * depth}- [`{error.__name__}`](#{module}.{error.__name__}): {summary}{mark}\n"
    known = [each for name, each in vars(errors).items() if name in errors.__all__]  # in order
    below = [each for each in known if _parent(each) is error]
    return line + "".join(_branch(each, depth + 1) for each in below)


def _parent(error: type[errors.GeminiToolsError]) -> type:
    bases = error.__mro__[1:]
    return next((base for base in bases if base.__module__ == errors.__name__), object)


# Pages

TABLES: dict[str, Callable[[], str]] = {
    "arguments": arguments,
    "error_tree": error_tree,
    "media_models": media_models,
    "rules_by_model": rules_by_model,
    "tools_by_model": tools_by_model,
}
PAGES = (DOCS / "models.md", DOCS / "reference/chat-model.md", DOCS / "reference/errors.md")


def renewed(page: Path) -> str:
    """Return the text of a page with its generated parts made again."""
    text = page.read_text(encoding="utf-8")
    return _BLOCK.sub(lambda found: f"{found[1]}{TABLES[found[2]]()}{found[3]}", text)


def main() -> None:
    for page in PAGES:
        page.write_text(renewed(page), encoding="utf-8")


if __name__ == "__main__":
    main()
