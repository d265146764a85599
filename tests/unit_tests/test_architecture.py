"""The import rules of ARCHITECTURE.md, and what importing costs."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import langchain_gemini_tools
from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.fields import GeminiFields

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(langchain_gemini_tools.__file__).parent
NAME = "langchain_gemini_tools"

BOTTOM = {"errors", "facts"}
"""The bottom layer: every module may import it, and it imports nothing else of ours."""

LAYERS = {
    "errors": set(),
    "facts": set(),
    "retry": set(),
    "client": set(),
    "wire": set(),
    "background": {"client", "retry", "wire"},
    "batch": {"client", "display", "retry", "tool_loop", "wire"},
    "continuation": {"background", "client", "retry", "wire"},
    "binding": {"batch", "chat_model", "options", "prompted", "structured_output", "wire"},
    "structured_output": {"batch", "binding", "chat_model", "options", "prompted", "wire"},
    "prompted": {"wire"},
    "interactions": {"wire"},
    "media_fetch": {"wire"},
    "arguments": {"wire"},
    "field_values": {"wire"},
    "fields": {"field_values", "arguments", "options", "prompted", "wire"},
    "access": {
        "client",
        "continuation",
        "field_values",
        "fields",
        "interactions",
        "media_fetch",
        "options",
        "prompted",
        "retry",
        "wire",
    },
    "services": {
        "access",
        "batch",
        "options",
        "prompted",
        "retry",
        "wire",
    },
    "options": {"access", "field_values", "fields", "wire"},
    "chat_model": {
        "access",
        "arguments",
        "batch",
        "binding",
        "options",
        "services",
        "structured_output",
        "wire",
    },
    "tool_loop": set(),
    "tools": {"wire"},
    "__init__": {
        "batch",
        "client",
        "chat_model",
        "display",
        "media_fetch",
        "prompted",
        "services",
        "tool_loop",
        "tools",
    },
    "testing": set(),
    "display": set(),
    "demo": {"chat_model", "display", "testing", "tool_loop"},
    "self_check": {"chat_model", "display", "testing"},
    "__main__": {"demo", "self_check"},
}
"""What each module or package of the top level may import of ours, besides the bottom layer."""

SDK_LAYERS = {"client", "errors"}
"""The layers that may load google-genai, inside a function."""


def _modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def _layer(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def _top(module: str) -> str:
    return module.removeprefix(f"{NAME}.").split(".")[0]


def _top_level_imports(path: Path) -> set[str]:
    return {
        getattr(node, "module", None) or node.names[0].name
        for node in ast.parse(path.read_text()).body
        if isinstance(node, (ast.Import, ast.ImportFrom))
    }


@functools.cache
def _imports(path: Path) -> frozenset[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


def test_a_layer_imports_only_the_layers_below_it() -> None:
    layers = {_layer(path) for path in _modules()}
    assert layers == set(LAYERS)
    wrong = {}
    for path in _modules():
        layer = _layer(path)
        imported = {_top(name) for name in _imports(path) if name.startswith(f"{NAME}.")} & layers
        if too_high := imported - {layer} - LAYERS[layer] - BOTTOM:
            wrong[str(path.relative_to(PACKAGE))] = too_high
    assert wrong == {}


def test_files_have_at_most_500_lines_and_functions_at_most_50() -> None:
    """A function's signature and docstring do not count."""
    too_long = []
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_text()
        if source.count("\n") > 500:
            too_long.append(str(path.relative_to(PACKAGE)))
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                start = node.body[len(node.body) > 1 and ast.get_docstring(node) is not None]
                if (node.end_lineno or 0) - start.lineno >= 50:
                    too_long.append(f"{path.relative_to(PACKAGE)}: {node.name}")
    assert too_long == []


COUNTERPARTS = {"__init__.py", "__main__.py", "blocks.py", "request.py", "response.py"}


def test_a_name_stands_for_one_file_and_one_type() -> None:
    """The types of the REST API are apart: they are imported as `gemini`."""
    places: dict[str, list[str]] = {}
    for path in _modules():
        if "fake" in path.parts or path.name == "shapes.py":
            continue
        for name in {path.name, *_public_types(path)} - COUNTERPARTS:
            places.setdefault(name, []).append(str(path.relative_to(PACKAGE)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def _public_types(path: Path) -> Iterator[str]:
    """Yield the classes and the aliases of types that a module defines, without type variables."""
    top = ast.parse(path.read_text()).body
    guarded = [inner for node in top if isinstance(node, ast.If) for inner in node.body]
    for node in [*top, *guarded]:
        match node:
            case ast.ClassDef(name=name):
                yield from [name] if not name.startswith("_") else []
            case ast.Assign(value=ast.Call(func=ast.Name(id="TypeVar"))):
                pass
            case ast.Assign(targets=[ast.Name(id=name)]) if re.match("[A-Z][a-z]", name):
                yield name


def test_only_the_client_and_the_errors_load_the_sdk_and_only_inside_functions() -> None:
    wrong = []
    for path in _modules():
        found = _top_level_imports(path) if _layer(path) in SDK_LAYERS else _imports(path)
        if any(name.startswith("google") for name in found):
            wrong.append(str(path.relative_to(PACKAGE)))
    assert wrong == []


def test_the_fake_server_is_an_independent_reading_of_gemini() -> None:
    """The rules of `FakeGemini` share no code with what they check, and need nothing installed."""
    fake = f"{NAME}.testing.fake"
    wrong = {}
    for path in sorted((PACKAGE / "testing" / "fake").rglob("*.py")):
        top_names = {name.split(".")[0] for name in _imports(path)}
        foreign = top_names - sys.stdlib_module_names - {NAME}
        ours = {name for name in _imports(path) if name.startswith(NAME)}
        if found := foreign | {name for name in ours if not f"{name}.".startswith(f"{fake}.")}:
            wrong[str(path.relative_to(PACKAGE))] = found
    assert wrong == {}


def test_importing_testing_loads_neither_the_fake_server_nor_what_it_needs() -> None:
    loaded = _loaded_after("import langchain_gemini_tools.testing")
    ours = {name for name in loaded if name.startswith(f"{NAME}.testing.fake")}
    assert not ours | ({"http.server", "socketserver", "langchain_core", "vcr"} & loaded)
    loaded = _loaded_after("from langchain_gemini_tools.testing import FakeGemini")
    assert "http.server" in loaded
    assert not {"langchain_core", "google.genai", "google.auth", "pydantic", "vcr"} & loaded


def test_the_wire_is_pure() -> None:
    impure = {"logging", "os", "socket", "time", "pathlib", "asyncio", "threading", "httpx"}
    wrong = {}
    for path in sorted((PACKAGE / "wire").rglob("*.py")):
        if found := {name.split(".")[0] for name in _imports(path)} & impure:
            wrong[path.name] = found
    assert wrong == {}


def test_contents_and_response_do_not_know_each_other() -> None:
    assert f"{NAME}.wire.response" not in _imports(PACKAGE / "wire" / "contents.py")
    assert f"{NAME}.wire.contents" not in _imports(PACKAGE / "wire" / "response.py")


def test_the_public_names_are_these() -> None:
    assert langchain_gemini_tools.__all__ == [
        "BatchProgress",
        "ChatGemini",
        "ComputerUse",
        "Environment",
        "HarmBlockThreshold",
        "HarmCategory",
        "MediaResolution",
        "Modality",
        "RunClock",
        "ToolLoop",
        "ToolLoopResult",
        "__version__",
        "arun_in_batches",
        "check_tools",
        "create_context_cache",
        "mcp_interceptor",
        "run_in_batches",
        "tools_from_specs",
        "trace",
    ]
    assert all(hasattr(langchain_gemini_tools, name) for name in langchain_gemini_tools.__all__)
    with pytest.raises(AttributeError, match="no attribute 'ChatGmini'"):
        langchain_gemini_tools.ChatGmini  # noqa: B018


def _loaded_after(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_importing_the_package_loads_neither_langchain_nor_the_sdk() -> None:
    loaded = _loaded_after("import langchain_gemini_tools")
    assert not {"langchain_core", "google.genai", "pydantic"} & loaded


def test_showing_a_run_loads_no_other_layer_and_rich_only_when_it_draws() -> None:
    loaded = _loaded_after(
        "from langchain_gemini_tools import BatchProgress, RunClock, trace\n"
        "from langchain_core.messages import HumanMessage\n"
        "trace([HumanMessage('Hello')], RunClock()).to_html()"
    )
    ours = {name.split(".")[1] for name in loaded if name.startswith(f"{NAME}.")}
    assert ours == {"display", "facts"}
    assert not {"rich", "google.genai", "IPython"} & loaded


def test_the_parser_of_prompted_calls_knows_nothing_about_gemini() -> None:
    prompted = f"{NAME}.prompted"
    modules = ("parser", "call_reader", "text", "values", "words")
    for module in modules:
        path = PACKAGE / "prompted" / f"{module}.py"
        ours = {name for name in _imports(path) if name.startswith(NAME)} - {prompted}
        known = tuple(f"{prompted}.{name}" for name in modules)
        assert all(name.startswith(known) for name in ours), module
    loaded = _loaded_after(f"import {prompted}.parser")
    assert not {"langchain_core", "google.genai", "pydantic"} & loaded


def test_the_sdk_is_not_loaded_before_the_first_call() -> None:
    loaded = _loaded_after(
        "from langchain_gemini_tools import ChatGemini\n"
        "def f(x: int) -> int:\n    'A function.'\n    return x\n"
        "model = ChatGemini(model='gemini-3.8-flash')\n"
        "bound = model.bind_tools([f], tool_choice='f')\n"
        "model.preview('Hello', **bound.kwargs)"
    )
    assert "langchain_gemini_tools.chat_model" in loaded
    assert not {"google.genai", "aiohttp"} & loaded


def test_the_loop_loads_neither_our_model_nor_the_sdk() -> None:
    loaded = _loaded_after("from langchain_gemini_tools import ToolLoop")
    assert "langchain_gemini_tools.tool_loop.loop" in loaded
    assert not {"langchain_gemini_tools.chat_model", "google.genai"} & loaded


def test_importing_the_model_loads_nothing_that_only_a_call_needs() -> None:
    loaded = _loaded_after("from langchain_gemini_tools import ChatGemini")
    assert f"{NAME}.wire.tools.bind" in loaded
    for_calls = ("client", "continuation", "media_fetch", "wire.request", "wire.response")
    assert not loaded & {f"{NAME}.{name}" for name in for_calls}
    assert not _rarely_needed(loaded)


def test_a_call_without_tools_loads_nothing_about_tools() -> None:
    loaded = _loaded_after(
        "from langchain_gemini_tools import ChatGemini\n"
        "model = ChatGemini(model='gemini-3.8-flash', temperature=0)\n"
        "model.preview('Hello', response_format={'type': 'json_object'})"
    )
    assert not _rarely_needed(loaded)


def _rarely_needed(loaded: set[str]) -> set[str]:
    """What takes long to load, and serves only tools, schemas and prompted tools."""
    ours = (
        "prompted.prompt",
        "structured_output",
        "wire.schema.clean",
        "wire.schema.python_types",
    )
    rare = {"langchain_core.tools", "langchain_core.output_parsers.json", "jsonschema", "pytest"}
    return loaded & (rare | {f"{NAME}.{name}" for name in ours})


def test_pydantic_builds_the_model_and_not_its_base_as_well() -> None:
    assert ChatGemini.__pydantic_complete__
    assert not GeminiFields.__pydantic_complete__


def test_no_pattern_repeats_a_group_possessively() -> None:
    """Python 3.11.2, which Debian 12 has, matches such groups wrongly."""
    signs = (")" + "*+", ")" + "++", ")" + "?+", "(?" + ">")
    found = [
        str(path.relative_to(PACKAGE))
        for path in _modules()
        if any(sign in path.read_text() for sign in signs)
    ]
    assert found == []
