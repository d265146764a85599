"""Checks whether the tests notice bugs: puts in one small bug at a time and runs the tests.

    python -m tests.mutation --modules langchain_gemini_tools/retry.py --tests tests/unit_tests \
        --variants "" FULL_MATRIX=1 --nested --sample 40

Each mutant is one changed operator, constant, condition, return or raise. It runs in a copy of the
repository, once for each variant of the environment. A mutant that no test notices survives. Two
variants that kill the same mutants detect the same bugs.

A first run of each variant must pass, and records which tests enter which function. A mutant is
tried on those tests only, in a fork of this process, which has loaded the dependencies.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
}
_DEPENDENCIES = (
    "google.genai",
    "hypothesis",
    "langchain_core.language_models.chat_models",
    "langchain_core.messages",
    "langchain_core.tools",
    "langchain_tests.integration_tests",
)
_SECONDS_OF_A_MUTANT = 900
_SECONDS_OF_A_FIRST_RUN = 3600
_MODULE = 0
"""Stands for the line of a function where a mutant is outside of all functions."""

Reach = dict[str, list[list[int]]]


@dataclass(frozen=True)
class Mutant:
    """One change of a module."""

    path: Path
    number: int
    """Of the node, in the order of `ast.walk`."""
    line: int
    function: int
    """The first line of the function around the change."""
    change: str

    def source(self) -> str:
        """The module with the change."""
        tree = ast.parse(self.path.read_text())
        target = next(node for index, node in enumerate(ast.walk(tree)) if index == self.number)
        _apply(target, self.change)
        return ast.unparse(ast.fix_missing_locations(tree))


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Every mutant of a module."""
    tree = ast.parse(path.read_text())
    functions = _functions_in(tree, _MODULE)
    for number, node in enumerate(ast.walk(tree)):
        for change in _changes(node):
            yield Mutant(path, number, getattr(node, "lineno", 0), functions[node], change)


def _functions_in(node: ast.AST, around: int) -> dict[ast.AST, int]:
    """Map every node to the first line of the innermost function around it."""
    found = {node: around}
    inside = around
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        inside = min(each.lineno for each in (node, *node.decorator_list))
    for child in ast.iter_child_nodes(node):
        in_body = inside != around and isinstance(child, ast.stmt)
        found |= _functions_in(child, inside if in_body else around)
    return found


def _changes(node: ast.AST) -> list[str]:
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in _SWAPPED:
            return ["other comparison"]
        case ast.BoolOp() | ast.BinOp() if type(node.op) in _SWAPPED:
            return ["other operator"]
        case ast.UnaryOp(op=ast.Not()):
            return ["without not"]
        case ast.Constant(value=bool()):
            return ["other constant"]
        case ast.Constant(value=int() | float()):
            return ["constant + 1"]
        case ast.Return(value=ast.expr()):
            return ["return None"]
        case ast.Raise(exc=ast.expr()):
            return ["other exception"]
        case ast.If() | ast.IfExp() | ast.While():
            return ["condition is never true"]
    return []


def _apply(node: ast.AST, change: str) -> None:
    match node:
        case ast.Compare():
            node.ops = [_SWAPPED[type(node.ops[0])]()]  # type: ignore[list-item]
        case ast.BoolOp() | ast.BinOp():
            node.op = _SWAPPED[type(node.op)]()  # type: ignore[assignment]
        case ast.UnaryOp():
            node.op, node.operand = ast.Not(), ast.UnaryOp(ast.Not(), node.operand)
        case ast.Constant(value=bool(value)):
            node.value = not value
        case ast.Constant(value=int(value) | float(value)):
            node.value = value + 1
        case ast.Return():
            node.value = ast.Constant(None)
        case ast.Raise():
            node.exc, node.cause = ast.Name("RuntimeError", ast.Load()), None
        case ast.If() | ast.IfExp() | ast.While():
            node.test = ast.Constant(value=False)
        case _:
            raise ValueError(change)


class _Recorder:
    """A pytest plugin that records which functions of the modules each test enters."""

    def __init__(self, modules: dict[str, int]) -> None:
        self._modules = modules
        self._entered: set[tuple[int, int]] = set()
        self.reach: Reach = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        """Record what is entered between the set-up and the end of a test."""
        self._entered.clear()
        threading.settrace(self._trace)
        sys.settrace(self._trace)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            self.reach[item.nodeid] = [[*place] for place in self._entered]

    def _trace(self, frame: FrameType, *_: object) -> None:
        module = self._modules.get(frame.f_code.co_filename)
        if module is not None:
            self._entered.add((module, frame.f_code.co_firstlineno))


class _Selection:
    """A pytest plugin that runs some of the collected tests."""

    def __init__(self, chosen: set[str]) -> None:
        self._chosen = chosen

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out the others."""
        items[:] = [item for item in items if item.nodeid in self._chosen]


@dataclass(frozen=True)
class Runs:
    """Runs tests in a copy of the repository, each time in a new fork of this process."""

    folder: Path
    modules: list[Path]
    tests: list[str]

    def reach(self, variant: str) -> Reach:
        """Run everything once, without a mutant, and return which functions each test enters."""
        recorder = _Recorder({str(self.folder / path): at for at, path in enumerate(self.modules)})
        if self._fails(variant, self.tests, recorder, _SECONDS_OF_A_FIRST_RUN):
            raise SystemExit(f"The tests fail without a mutant ({variant or 'default'}).")
        reach: Reach = json.loads((self.folder / "reach.json").read_text())
        return reach

    def kill(self, mutant: Mutant, variant: str, reach: Reach) -> bool:
        """Whether a test fails on the mutant."""
        place = [self.modules.index(mutant.path), mutant.function]
        chosen = {
            test
            for test, entered in reach.items()
            if mutant.function == _MODULE or place in entered
        }
        if not chosen:
            return False
        target = self.folder / mutant.path
        original = target.read_text()
        target.write_text(mutant.source())
        files = sorted({test.partition("::")[0] for test in chosen})
        try:
            return self._fails(variant, files, _Selection(chosen), _SECONDS_OF_A_MUTANT)
        finally:
            target.write_text(original)

    def _fails(self, variant: str, tests: list[str], plugin: object, seconds: float) -> bool:
        """Whether a run fails, or does not end in time."""
        arguments = ["-q", "-x", "-p", "no:cacheprovider", *tests]
        context = multiprocessing.get_context("fork")
        process = context.Process(target=self._run, args=(variant, arguments, plugin))
        process.start()
        process.join(seconds)
        if process.is_alive():
            process.kill()
            process.join()
        return process.exitcode != 0

    def _run(self, variant: str, arguments: list[str], plugin: object) -> None:
        silent = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silent, stream)
        name, _, value = variant.partition("=")
        os.environ |= {name: value} if name else {}
        os.environ["PYTHONPATH"] = str(self.folder)
        os.chdir(self.folder)
        sys.dont_write_bytecode = True
        sys.path.insert(0, str(self.folder))
        for module in [each for each in sys.modules if each.partition(".")[0] == "tests"]:
            del sys.modules[module]
        code = pytest.main(arguments, plugins=[plugin])
        if isinstance(plugin, _Recorder):
            Path("reach.json").write_text(json.dumps(plugin.reach))
        os._exit(code)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--modules", nargs="+", type=Path, required=True)
    parser.add_argument("--tests", nargs="+", required=True)
    parser.add_argument("--variants", nargs="+", default=[""])
    parser.add_argument(
        "--nested",
        action="store_true",
        help="each variant runs all tests of the one before: run it on the survivors only",
    )
    parser.add_argument("--sample", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lines", nargs="*", default=[], help="only these, as path:line")
    options = parser.parse_args()
    mutants = [mutant for path in options.modules for mutant in mutants_of(path)]
    if options.lines:
        mutants = [each for each in mutants if f"{each.path}:{each.line}" in options.lines]
    chosen = random.Random(options.seed).sample(mutants, min(options.sample, len(mutants)))
    print(f"{len(chosen)} of {len(mutants)} mutants", flush=True)
    for dependency in _DEPENDENCIES:
        importlib.import_module(dependency)
    with tempfile.TemporaryDirectory() as folder:
        ignored = shutil.ignore_patterns(".git", ".venv*", ".mypy_cache", "__pycache__")
        shutil.copytree(Path.cwd(), Path(folder) / "copy", ignore=ignored)
        runs = Runs(Path(folder).resolve() / "copy", options.modules, options.tests)
        compare(runs, chosen, options.variants, is_nested=options.nested)


def compare(runs: Runs, mutants: list[Mutant], variants: list[str], *, is_nested: bool) -> None:
    """Print which variant kills which mutant."""
    reach = {variant: runs.reach(variant) for variant in variants}
    killed = dict.fromkeys(variants, 0)
    differences = 0
    for mutant in mutants:
        results: dict[str, bool] = {}
        for variant in variants:
            is_known = is_nested and any(results.values())
            results[variant] = is_known or runs.kill(mutant, variant, reach[variant])
        differences += len(set(results.values())) > 1
        for variant, result in results.items():
            killed[variant] += result
        words = ", ".join(
            f"{variant or 'default'}: {'killed' if result else 'survived'}"
            for variant, result in results.items()
        )
        print(f"{mutant.path}:{mutant.line} {mutant.change}: {words}", flush=True)
    print({variant or "default": count for variant, count in killed.items()}, end="; ")
    print(f"{differences} mutants were killed by one variant only")


if __name__ == "__main__":
    main()
