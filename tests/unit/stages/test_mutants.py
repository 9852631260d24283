"""The list of mutants stays true to the code; `python -m tests.mutants` shows that each one is noticed."""

import ast
from pathlib import Path

import pytest

from tests.mutants.listed import MUTANTS, Mutant

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_mutant_applies_and_its_test_exists(mutant: Mutant) -> None:
    ast.parse(mutant.mutated())
    file, _, name = mutant.test.partition("::")
    functions = ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8")))
    assert name in {node.name for node in functions if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
