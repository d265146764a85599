"""The documentation: its programs run, and what is made from the code is up to date."""

from __future__ import annotations

import importlib
import pkgutil
import re
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

import langchain_gemini_tools
from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.arguments import ChatGeminiArguments
from langchain_gemini_tools.client import SDK_TYPES
from langchain_gemini_tools.facts.models import FAMILIES
from langchain_gemini_tools.fields import FIELDS_BY_SYNONYM, GeminiFields
from tests.documentation import DOCS, ROOT, blocks_of, name_of, pages, programs_of, run_page, stable
from tests.documentation_tables import PAGES, renewed

if TYPE_CHECKING:
    from pathlib import Path

INTERNAL = {
    "langchain_gemini_tools.client",
    "langchain_gemini_tools.testing.fake",
    "langchain_gemini_tools.testing.fake.rules",
}
"""Modules with an `__all__` whose names are not for users."""
WITHOUT_ALL = {
    "langchain_gemini_tools.arguments": ["ChatGeminiArguments"],
    "langchain_gemini_tools.binding": ["GeminiBinding"],
    "langchain_gemini_tools.structured_output": ["RawOutput", "StructuredOutput"],
    "langchain_gemini_tools.wire.request": ["RenderedRequest"],
}
"""Public names of modules without an `__all__` that the package lists."""

with_programs = [page for page in pages() if any(programs_of(page))]


# Programs


@pytest.mark.parametrize("page", with_programs, ids=name_of)
def test_the_programs_of_a_page_print_what_it_shows(page: Path) -> None:
    if name_of(page) == "how-to/mcp":
        pytest.importorskip("mcp_server_time", reason="mcp-server-time is not installed")
    shown = [stable(block.text) if block else "" for _, block in programs_of(page)]
    assert [stable(output) for _, _, output in run_page(page)] == shown


def test_every_program_is_run_or_says_why_not() -> None:
    for page in pages():
        text = page.read_text(encoding="utf-8")
        programs = [block for block in blocks_of(page) if block.language in {"python", "py"}]
        # Blocks that are indented, or have another name, would not be run.
        assert len(re.findall(r"^\s*(?:```|~~~) ?py", text, re.MULTILINE)) == len(programs), page
        assert all(block.language == "python" for block in programs)
        skipped = [block for block in programs if block.skip is not None]
        assert all(len(block.skip or "") > 10 for block in skipped), page
        assert text.count("<!-- skip") == len(skipped), page


def test_every_output_follows_a_program() -> None:
    for page in pages():
        outputs = [block for block in blocks_of(page) if block.language == "text"]
        assert outputs == [shown for _, shown in programs_of(page) if shown], page


# What is made from the code


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_generated_parts_are_up_to_date(page: Path) -> None:
    assert page.read_text(encoding="utf-8") == renewed(page), "run `make docs-tables`"


def test_every_model_that_the_code_names_is_in_the_table() -> None:
    text = (DOCS / "models.md").read_text(encoding="utf-8")
    names = [re.sub(r"-preview-\d.*", "", name) for row in FAMILIES for name in row.models]
    assert [name for name in names if name not in text] == []


def test_the_migration_page_has_every_argument() -> None:
    text = (DOCS / "migration.md").read_text(encoding="utf-8")
    rows = text.partition("<!-- arguments -->")[2].partition("<!-- end of arguments -->")[0]
    named = set(re.findall(r"`(\w+)`", rows))
    known = {*ChatGemini.model_fields, *ChatGeminiArguments.__annotations__}
    assert named <= known
    ours = {name for name in GeminiFields.__annotations__ if not name.startswith("_")}
    assert ours - {FIELDS_BY_SYNONYM.get(name, name) for name in named} == set()


# The reference


def public_names() -> dict[str, list[str]]:
    """Return the public names by module."""
    found = dict(WITHOUT_ALL)
    walked = pkgutil.walk_packages(langchain_gemini_tools.__path__, "langchain_gemini_tools.")
    names = ["langchain_gemini_tools", *(module.name for module in walked)]
    for name in names:
        if name.endswith("__main__") or name in INTERNAL:
            continue
        if listed := getattr(importlib.import_module(name), "__all__", None):
            others = {"__version__", *SDK_TYPES}
            found[name] = [each for each in listed if each not in others]
    return found


def _directives() -> set[str]:
    texts = [page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.md")]
    return {name for text in texts for name in re.findall(r"^::: (\S+)", text, re.MULTILINE)}


def _resolve(path: str) -> Any:
    """Return the object at a dotted path."""
    module, _, name = path.rpartition(".")
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        return getattr(importlib.import_module(module), name)


def test_every_public_name_is_in_the_reference() -> None:
    directives = _directives()
    documented = [_resolve(path) for path in directives]
    missing = [
        f"{module}.{name}"
        for module, names in public_names().items()
        for name in names
        if f"{module}.{name}" not in directives
        and f"{module}.{name}" != "langchain_gemini_tools.tool_loop.events"  # its names are there
        and not any(_resolve(f"{module}.{name}") is each for each in documented)
    ]
    assert missing == []


def test_the_types_of_the_sdk_are_named_in_the_reference() -> None:
    text = (DOCS / "reference/chat-model.md").read_text(encoding="utf-8")
    assert [name for name in SDK_TYPES if f"`{name}`" not in text] == []


def test_the_modules_that_the_package_lists_are_known_here() -> None:
    assert langchain_gemini_tools.__doc__
    listed = set(re.findall(r"\bin\s`([a-z_.]+)`", langchain_gemini_tools.__doc__))
    modules = {f"langchain_gemini_tools.{name}" for name in listed}
    assert len(modules) > 5
    assert modules - public_names().keys() == set()


# Navigation


def _navigation() -> dict[str, str]:
    """Return the titles of all pages in the navigation, by their paths."""
    settings = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))
    found: dict[str, str] = {}
    waiting: list[dict[str, Any]] = list(settings["project"]["nav"])
    while waiting:
        for title, target in waiting.pop(0).items():
            if isinstance(target, str):
                found[target] = title
            else:
                waiting += target
    return found


def test_every_page_is_in_the_navigation() -> None:
    files = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert _navigation().keys() == files


def test_llms_txt_lists_every_page_with_its_title() -> None:
    text = (DOCS / "llms.txt").read_text(encoding="utf-8")
    listed = {
        f"{target.removeprefix('./').rstrip('/') or 'index'}.md": title
        for title, target in re.findall(r"^- \[(.+?)\]\((.+?)\): \S", text, re.MULTILINE)
    }
    assert listed == _navigation()
