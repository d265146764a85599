"""Projects of users with the built wheel: recorded and replayed, or tested with `FakeGemini`."""

from __future__ import annotations

import email
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

import pytest

from langchain_gemini_tools.testing.fake import API_KEY, Emulator

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]
NAME = "langchain-gemini-tools"

SETTINGS = """\
[pytest]
addopts = -p langchain_gemini_tools.testing.plugin
"""

TEST = '''\
import pytest
from langchain.agents import create_agent

from langchain_gemini_tools import ChatGemini


def get_weather(city: str) -> str:
    """Current weather in a city."""
    return f"Sunny in {city}"


@pytest.mark.vcr
def test_the_agent_asks_for_both_cities():
    agent = create_agent(ChatGemini(model="gemini-3.8-flash"), tools=[get_weather])
    result = agent.invoke({"messages": "What is the weather in Oslo and Rome?"})
    tool_results = [message.text for message in result["messages"] if message.type == "tool"]
    assert tool_results == ["Sunny in Oslo", "Sunny in Rome"]
'''


FAKE_TEST = """\
from langchain.agents import create_agent

from langchain_gemini_tools import ChatGemini
from tests.helpers import get_weather


def test_my_agent(fake_gemini):
    fake_gemini.reply(calls=[("get_weather", {"city": "Oslo"})])
    fake_gemini.fail(429, times=2)
    fake_gemini.reply("It is sunny in Oslo.")
    agent = create_agent(ChatGemini(model="gemini-3.8-flash"), tools=[get_weather])
    result = agent.invoke({"messages": "Weather in Oslo?"})
    assert result["messages"][-1].text == "It is sunny in Oslo."
    assert fake_gemini.requests[-1].function_responses == [("get_weather", "Sunny in Oslo")]


def test_a_smoke_test_without_a_script(fake_gemini):
    agent = create_agent(ChatGemini(model="gemini-3.8-flash"), tools=[get_weather])
    result = agent.invoke({"messages": "Weather in Oslo and Rome?"})
    assert [m.text for m in result["messages"] if m.type == "tool"] == [
        "Sunny in Oslo",
        "Sunny in Rome",
    ]
"""

HELPERS = '''\
def get_weather(city: str) -> str:
    """Current weather in a city."""
    return f"Sunny in {city}"
'''


def run(*command: str | Path, **settings: object) -> str:
    """What a command prints; it has to succeed."""
    done = subprocess.run(  # type: ignore[call-overload]
        [*map(str, command)], capture_output=True, text=True, check=False, timeout=170, **settings
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return str(done.stdout)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it is published."""
    pytest.importorskip("hatchling", reason="hatchling, which builds the wheel, is not installed")
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the built wheel, and this one's other packages."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv")
    (packages,) = folder.glob("venv/lib/*/site-packages")
    # Not the site: the links of editable installs in it would lead back to the sources.
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
    python = folder / "venv" / "bin" / "python"
    pip: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--quiet",
        "--no-index",
    ]
    run(*pip, "--no-deps", "--force-reinstall", wheel)
    run(*pip, f"{NAME}[testing]")  # all that it needs is there, or this fails
    return python


def test_the_wheel_contains_the_package_and_nothing_else(wheel: Path) -> None:
    package = ROOT / "langchain_gemini_tools"
    sources = {
        path.relative_to(ROOT).as_posix()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with ZipFile(wheel) as archive:
        names = set(archive.namelist())
        about = next(name for name in names if name.endswith("/METADATA"))
        metadata = email.message_from_bytes(archive.read(about))
    assert {name for name in names if ".dist-info/" not in name} == sources
    assert {Path(name).suffix for name in sources} <= {".css", ".py", ".yaml", ".txt", ".typed"}
    extras = metadata.get_all("Provides-Extra") or []
    assert sorted(extras) == ["all", "display", "mcp", "testing", "vertex-batch"]
    assert metadata["Author"]
    assert {url.split(",")[0] for url in metadata.get_all("Project-URL") or []} == {
        "Changelog",
        "Documentation",
        "Homepage",
        "Issues",
    }


@pytest.mark.timeout(500)  # an environment, a wheel and three more interpreters
def test_a_user_records_once_and_replays_with_the_network_blocked(
    python: Path, tmp_path: Path, emulator: Emulator
) -> None:
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_agent.py").write_text(TEST)
    offline = {**without_python(os.environ), "PYTEST_ADDOPTS": "-p no:hypothesispytest"}  # slow
    online = {**offline, "GOOGLE_API_KEY": API_KEY, "GOOGLE_GEMINI_BASE_URL": emulator.url}

    where = "import langchain_gemini_tools as package; print(package.__file__)"
    assert str(python.parents[1]) in run(python, "-c", where, cwd=tmp_path, env=offline)

    recorded = run(python, "-m", "pytest", "--record-mode=once", cwd=tmp_path, env=online)
    assert re.search(r"1 passed", recorded)
    assert len(emulator.requests) == 2

    replayed = run(python, "-m", "pytest", "--block-network", cwd=tmp_path, env=offline)
    assert re.search(r"1 passed", replayed)
    assert len(emulator.requests) == 2

    audit: list[str | Path] = [
        python,
        "-m",
        "langchain_gemini_tools.testing",
        "audit",
        "tests/cassettes",
    ]
    assert run(*audit, cwd=tmp_path, env=offline) == "1 cassette, 0 problems\n"
    (file,) = (tmp_path / "tests" / "cassettes").rglob("*.yaml")
    assert API_KEY not in file.read_text()


@pytest.mark.timeout(500)
def test_a_user_tests_an_agent_with_the_fixture_and_the_network_blocked(
    python: Path, tmp_path: Path
) -> None:
    """The project has a package `tests` of its own, and neither a key nor a recording."""
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "__init__.py").touch()
    (tmp_path / "tests" / "helpers.py").write_text(HELPERS)
    (tmp_path / "tests" / "test_agent.py").write_text(FAKE_TEST)
    offline = {**without_python(os.environ), "PYTEST_ADDOPTS": "-p no:hypothesispytest"}
    options = ("--block-network", "--disable-socket", "--allow-unix-socket")
    printed = run(python, "-m", "pytest", *options, cwd=tmp_path, env=offline)
    assert re.search(r"2 passed", printed)
    listed = run(
        python,
        "-m",
        "langchain_gemini_tools.testing",
        "serve",
        "--rules",
        cwd=tmp_path,
        env=offline,
    )
    assert "  reported    the number of stop_sequences must not exceed 5" in listed


def without_python(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith("PYTHON")}
