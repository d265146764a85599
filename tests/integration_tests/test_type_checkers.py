"""What mypy and pyright find in programs: samples, and those of the documentation."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.documentation import name_of, pages, source_of

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]

CORRECT = """
from typing import Any, TypedDict, Unpack, assert_type

from langchain_core.messages import AIMessage
from pydantic import BaseModel, SecretStr

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.arguments import ChatGeminiArguments
from langchain_gemini_tools.binding import GeminiBinding
from langchain_gemini_tools.media_fetch import FetchLimits
from langchain_gemini_tools.structured_output import RawOutput

class City(BaseModel):
    name: str

class Town(TypedDict):
    name: str

class Mine(ChatGemini):
    def __init__(self, *, model: str = "m", **arguments: Unpack[ChatGeminiArguments]) -> None:
        super().__init__(model=model, **arguments)

class Plain(ChatGemini):
    more: int = 0

def search(query: str) -> str:
    return query

ChatGemini(model="m", api_key="k", max_tokens=1, timeout=1, reasoning_effort="low")
ChatGemini(model_name="m", google_api_key=SecretStr("k"), max_output_tokens=1)
ChatGemini(model="m", gemini_api_key="k", max_completion_tokens=1, request_timeout=None)
ChatGemini(model="m", thinking_level="high", retries=1, candidate_count=1, enterprise=True)
ChatGemini(model="m", stop_sequences=["a"], stop=None, fetch_urls=FetchLimits(allow_hosts=["a"]))
ChatGemini(model="m", rate_limiter=None, tags=["a"], callbacks=None, cache=True)
ChatGemini(model="m", response_modalities=["TEXT"], thinking_config={"thinking_budget": 1})
Mine(temperature=1, api_key="k")
Plain(model="m", more=1)

model = ChatGemini(model="m")
assert_type(model.thinking_level, str | None)
assert_type(model.max_tokens, int | None)
assert_type(model.candidate_count, int)
bound = model.bind_tools([search], tool_choice="any")
assert_type(bound, GeminiBinding)
assert_type(bound.bind(temperature=1), GeminiBinding)
assert_type(model.bind(temperature=1).bind_tools([search]), GeminiBinding)
assert_type(model.with_config(tags=["a"]).bind_tools([search]), GeminiBinding)
assert_type(bound.invoke("Hi"), AIMessage)
bound.preview("Hi").body
model.bind_tools([search], tool_choice=["search"])
model.bind_tools([search], tool_choice={"type": "any"})
model.bind_tools([search], tool_choice=True)
assert_type(model.with_structured_output(City).invoke("Hi"), City)
assert_type(model.with_structured_output(list[City]).invoke("Hi"), list[City])
assert_type(model.with_structured_output(Town).invoke("Hi"), Town)
assert_type(bound.with_structured_output(City, "json_schema").invoke("Hi"), City)
assert_type(model.with_structured_output(City, include_raw=True).invoke("Hi"), RawOutput[City])
assert_type(model.with_structured_output({"title": "A"}).invoke("Hi"), Any)
assert_type(model.with_structured_output(City).binding, GeminiBinding)
"""

WRONG = """
from typing import Unpack

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.arguments import ChatGeminiArguments

class Mine(ChatGemini):
    def __init__(self, **arguments: Unpack[ChatGeminiArguments]) -> None:
        super().__init__(model="m", **arguments)

ChatGemini()  # wrong
ChatGemini(model="m", temprature=1)  # wrong
ChatGemini(model="m", max_output_token=1)  # wrong
ChatGemini(model="m", temperature="hot")  # wrong
ChatGemini(model="m", request_timeout="soon")  # wrong
ChatGemini(model="m", reasoning_effort="hihg")  # wrong
ChatGemini(model="m", thinking_level="hihg")  # wrong
ChatGemini(model="m", tool_calling="promted")  # wrong
ChatGemini(model="m", on_malformed="explode")  # wrong
ChatGemini(model="m", on_broken_history="rase")  # wrong
ChatGemini(model="m", tool_schema="opnapi")  # wrong
ChatGemini(model="m", media_resolution="hgih")  # wrong
ChatGemini(model="m", response_modalities=["TXET"])  # wrong
ChatGemini(model_name=3)  # wrong
ChatGemini(model="m").thinking_levels  # wrong
Mine(temprature=1)  # wrong
ChatGemini(model="m").bind_tools([], tool_choice=3.5)  # wrong
ChatGemini(model="m").with_structured_output({}, "jsn_schema")  # wrong
ChatGemini(model="m").with_structured_output(int).invoke("Hi").upper()  # wrong
"""


Errors = dict[str, dict[int, str]]
"""By the name of a program, then by line."""


def errors_by_mypy(folder: Path) -> Errors:
    cache = (
        ROOT / ".mypy_cache"
    )  # after `make type` LangChain is in it, which takes longest to read
    options = ["--strict", "--config-file=", f"--cache-dir={cache}", "--no-error-summary"]
    found: Errors = {}
    for line in run("mypy", *options, *map(str, folder.iterdir())).splitlines():
        # The folder may be that of an earlier run: mypy repeats what it found if nothing changed.
        if match := re.match(r"(?:.*/)?(\w+)\.py:(\d+): error: (.*)", line):
            found.setdefault(match[1], {})[int(match[2])] = match[3]
    return found


def errors_by_pyright(folder: Path) -> Errors:
    report = json.loads(run("pyright", "--outputjson", "--pythonpath", sys.executable, str(folder)))
    found: Errors = {}
    for each in report["generalDiagnostics"]:
        if each["severity"] == "error":
            line = each["range"]["start"]["line"] + 1
            found.setdefault(Path(each["file"]).stem, {})[line] = each["message"]
    return found


def run(module: str, *options: str) -> str:
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
    command = [sys.executable, "-m", module, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode not in {0, 1}:  # pyright needs node, which it may have to download
        pytest.skip(f"{module} cannot run here: {done.stderr[-200:]}")
    return done.stdout


pytestmark = pytest.mark.timeout(900)  # mypy reads LangChain when its cache is empty
CHECKERS = {"mypy": errors_by_mypy, "pyright": errors_by_pyright}


def _module(page: Path) -> str:
    return "page_" + re.sub(r"\W", "_", name_of(page))


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Errors]]]:
    """What each checker finds in all programs; the checkers run side by side."""
    folder = tmp_path_factory.mktemp("programs")
    (folder / "correct.py").write_text(CORRECT)
    (folder / "wrong.py").write_text(WRONG)
    for page in pages():
        (folder / f"{_module(page)}.py").write_text(source_of(page))
    with ThreadPoolExecutor(len(CHECKERS)) as threads:
        yield {name: threads.submit(check, folder) for name, check in CHECKERS.items()}


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_correct_program_passes(checker: str, errors: dict[str, Future[Errors]]) -> None:
    assert errors[checker].result().get("correct", {}) == {}


@pytest.mark.parametrize("checker", CHECKERS)
def test_the_programs_of_the_documentation_pass(
    checker: str, errors: dict[str, Future[Errors]]
) -> None:
    found = errors[checker].result()
    # The lines are those of the page.
    assert {name_of(page): found.get(_module(page), {}) for page in pages()} == {
        name_of(page): {} for page in pages()
    }


@pytest.mark.parametrize("checker", CHECKERS)
def test_every_mistake_is_found(checker: str, errors: dict[str, Future[Errors]]) -> None:
    marked = {n for n, line in enumerate(WRONG.splitlines(), 1) if line.endswith("# wrong")}
    assert set(errors[checker].result()["wrong"]) == marked
