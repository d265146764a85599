"""Do the tests notice a bug? Put one small bug at a time into the code and see which runs fail.

    python -m tests.mutation --modules langchain_gemini_tools/retry.py --tests tests/unit_tests \
        --variants "" FULL_MATRIX=1 --nested --sample 40

Each mutant is one changed operator, constant, condition, return or raise. It runs in a copy of the
repository, once for each variant of the environment. A mutant that no test notices survives. Two
variants that kill the same mutants detect the same bugs.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

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


@dataclass(frozen=True)
class Mutant:
    """One changed module."""

    path: Path
    line: int
    change: str
    source: str


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Every mutant of a module."""
    tree = ast.parse(path.read_text())
    for number, node in enumerate(ast.walk(tree)):
        for change in _changes(node):
            twin = copy.deepcopy(tree)
            target = next(each for index, each in enumerate(ast.walk(twin)) if index == number)
            _apply(target, change)
            line = getattr(node, "lineno", 0)
            yield Mutant(path, line, change, ast.unparse(ast.fix_missing_locations(twin)))


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


def is_killed(mutant: Mutant, folder: Path, tests: list[str], variant: str) -> bool:
    """Whether a test run in a copy of the repository fails on the mutant."""
    environment = dict(os.environ, PYTHONPATH=str(folder), PYTHONDONTWRITEBYTECODE="1")
    if variant:
        name, _, value = variant.partition("=")
        environment[name] = value
    target = folder / mutant.path
    original = target.read_text()
    target.write_text(mutant.source)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, timeout=900, check=False
        )
        return done.returncode != 0
    except subprocess.TimeoutExpired:
        return True
    finally:
        target.write_text(original)


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
    options = parser.parse_args()
    mutants = [mutant for path in options.modules for mutant in mutants_of(path)]
    chosen = random.Random(options.seed).sample(mutants, min(options.sample, len(mutants)))
    print(f"{len(chosen)} of {len(mutants)} mutants")
    killed = dict.fromkeys(options.variants, 0)
    differences = 0
    with tempfile.TemporaryDirectory() as folder:
        ignored = shutil.ignore_patterns(".git", ".venv*", ".mypy_cache", "__pycache__")
        shutil.copytree(Path.cwd(), Path(folder) / "copy", ignore=ignored)
        for mutant in chosen:
            results: dict[str, bool] = {}
            for variant in options.variants:
                known = options.nested and any(results.values())
                results[variant] = known or is_killed(
                    mutant, Path(folder) / "copy", options.tests, variant
                )
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
