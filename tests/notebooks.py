"""Executes the notebooks of this repository, and decides what is kept of their outputs."""

from __future__ import annotations

import os
import re
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import nbformat
from nbmake.nb_run import NotebookRun

from langchain_gemini_tools.demo import RECORDINGS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parents[1]
NOTEBOOKS = {path.stem: path for path in sorted((ROOT / "notebooks").glob("*.ipynb"))}
NEEDS = {"14_many_inputs_on_dask_workers": "distributed"}
"""Packages that a notebook needs and that the development environment does not have."""
CASSETTES = {
    name: RECORDINGS / f"{name}.yaml"
    for name in NOTEBOOKS
    if "fake_gemini" not in name and name not in NEEDS
}
"""What each notebook replays. `FakeGemini` needs no recording."""
OFFLINE = Path(__file__).with_name("offline")
"""A folder that blocks the network of a process if it is on its PYTHONPATH."""

_TIMEOUT_SECONDS = 120
_SURROUNDINGS = ("GOOGLE_", "GEMINI_", "LANGSMITH_", "LANGCHAIN_", "PYTEST_", "PYTHON")
_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
_NUMBER = r"\d(?:[\d.,]|#46;)*"  # mermaid text has its dots as #46;
_TIME = re.compile(rf"\b{_NUMBER} ?m?s\b|(?<![\d:])\d:\d\d:\d\d\b")
_BAR = re.compile(r'(<span class="bar"><i style=")[^"]*')
_SCALE = re.compile(r'(<span class="scale" data-end=")[^"]*')
_GAP = re.compile(r"[\s│]+")
"""Where a line of a trace ends depends on how long its times are."""
_COST = re.compile(rf"(?:\$|#36;){_NUMBER}|\b(?:free|n/a)\b")


class NotebookError(Exception):
    """A cell raised; the message is its traceback."""


def read(path: Path) -> Any:
    """Return a notebook from its file."""
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def write(notebook: Any, path: Path) -> None:
    """Save a notebook."""
    nbformat.write(notebook, path)  # type: ignore[no-untyped-call]


def is_runnable(name: str) -> bool:
    """Return whether the packages that a notebook needs are installed."""
    return name not in NEEDS or find_spec(NEEDS[name]) is not None


def execute(path: Path, own_folder: Path, environment: Mapping[str, str]) -> Any:
    """Run the cells of a notebook from top to bottom, and return it with the new outputs.

    Args:
        path: The notebook; its cells run in its folder, as they do in Jupyter.
        own_folder: Where IPython and Jupyter keep their files, instead of the home directory.
        environment: Variables of the kernel, added to the harmless ones of this process.
    """
    with _environment(own_folder, environment):
        return _execute(path)


def replay(path: Path, own_folder: Path) -> Any:
    """Run a notebook without a key and without a network."""
    return execute(path, own_folder, {"PYTHONPATH": str(OFFLINE)})


def replays(paths: Mapping[str, Path], own_folder: Path) -> dict[str, Future[Any]]:
    """`replay` for many notebooks, two at a time; all are done when it returns."""
    with (
        _environment(own_folder, {"PYTHONPATH": str(OFFLINE)}),
        ThreadPoolExecutor(2) as threads,
    ):
        return {name: threads.submit(_execute, path) for name, path in paths.items()}


@contextmanager
def _environment(own_folder: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """Set the environment of a kernel: harmless variables of this process, and the given ones."""
    harmless = {k: v for k, v in os.environ.items() if not k.upper().startswith(_SURROUNDINGS)}
    ours = dict.fromkeys(("IPYTHONDIR", "JUPYTER_RUNTIME_DIR"), str(own_folder))
    with mock.patch.dict(os.environ, {**harmless, **ours, **environment}, clear=True):
        yield


def _execute(path: Path) -> Any:
    done = NotebookRun(path, _TIMEOUT_SECONDS).execute()
    if done.error:
        raise NotebookError(done.error.trace)
    return clean(done.nb)


def clean(notebook: Any) -> Any:
    """Return the notebook without what differs between machines."""
    notebook.metadata = dict(_METADATA)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = _joined(cell.outputs)
    return notebook


def _joined(outputs: list[Any]) -> list[Any]:
    """Return the outputs with adjacent printed texts joined."""
    joined: list[Any] = []
    for output in outputs:
        is_printed = output["output_type"] == "stream"
        if is_printed and joined and joined[-1].get("name") == output["name"]:
            joined[-1]["text"] += output["text"]
        else:
            joined.append(output)
    return joined


def seen(notebook: Any) -> list[Any]:
    """What a reader sees of each cell, without times and prices, which differ."""
    return [
        [cell.source, *(_without_numbers(dict(output)) for output in cell.get("outputs", []))]
        for cell in notebook.cells
    ]


def _without_numbers(value: Any) -> Any:
    if isinstance(value, str):
        text = _SCALE.sub(r"\g<1>", _BAR.sub(r"\g<1>", value))
        return _GAP.sub(" ", _COST.sub("$N", _TIME.sub("N ms", text)))
    if isinstance(value, dict):
        return {key: _without_numbers(item) for key, item in value.items()}
    return value
