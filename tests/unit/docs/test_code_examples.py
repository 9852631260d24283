"""Code examples in docstrings and pages are Python, and what they call and import exists."""

import ast
import builtins
import importlib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Final

import pytest

from tests.unit.docs.test_names_in_pages import PAGES

_BLOCK: Final = re.compile(r"(?:^|\n\n)((?:    .*(?:\n|$)|\n(?=    ))+)")
#: What is no diagram, list or formula: a statement that begins so, or a call and nothing else on the line.
_CODE: Final = re.compile(
    r"(?:async |await |with |for |return |from \w|import \w|(?:\w+, )*\w+ = \w[\w.]*\()|[\w.]+\(.*\)(?: *#.*| ->.*)?$",
    re.MULTILINE,
)


@cache
def modules() -> Mapping[Path, ast.Module]:
    """Read when a test needs them: each worker imports this file, and few of its tests run there."""
    files = (path for root in ("service/src", "protocol/src") for path in sorted(Path(root).rglob("*.py")))
    return {path: ast.parse(path.read_text("utf-8")) for path in files}


@cache
def defined() -> frozenset[str]:
    """Every name that a module defines or assigns, and every method and attribute."""
    return frozenset(
        name
        for module in modules().values()
        for node in ast.walk(module)
        for name in (
            getattr(node, "name", None),
            getattr(node, "attr", None) if isinstance(getattr(node, "ctx", None), ast.Store) else None,
            node.target.id if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else None,
        )
        if name
    )


def examples(text: str) -> Iterator[str]:
    """The indented blocks of a docstring that are meant as code."""
    for found in _BLOCK.findall(text):
        block = dedent(found)
        if _CODE.match(block):
            yield block


def unknown_calls(example: str) -> set[str]:
    """The functions and methods that an example calls and that nothing defines. Raises SyntaxError."""
    found = ast.parse(example)
    own = {node.id for node in ast.walk(found) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    called = {
        getattr(node.func, "id", getattr(node.func, "attr", "")) for node in ast.walk(found) if isinstance(node, ast.Call)
    }
    return {name for name in called - own - defined() if not hasattr(builtins, name)} - _LIBRARIES


#: Functions of libraries and arguments that examples call.
_LIBRARIES: Final = {"start_soon", "partial", "read", "ceil"}


_DOCUMENTED: Final = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def docstrings() -> Iterator[tuple[str, str]]:
    for path, module in modules().items():
        for node in ast.walk(module):
            if isinstance(node, _DOCUMENTED) and (text := ast.get_docstring(node)):
                yield f"{path}: {getattr(node, 'name', '')}", text


def test_examples_in_docstrings_compile_and_call_what_exists() -> None:
    checked, wrong = 0, {}
    for place, text in docstrings():
        for example in examples(text):
            checked += 1
            try:
                problem: object = unknown_calls(example)
            except SyntaxError as error:
                problem = f"{error.msg}: {error.text}"
            if problem:
                wrong[place] = problem
    assert wrong == {}
    assert checked > 38


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("x\n\n    demand = which_count(pods, rules=rules)\n", {"which_count"}),
        ("x\n\n    holds.no_such_method(pod)\n", {"no_such_method"}),
        ("x\n\n    plan = plan_scale_up(snapshot, demand, groups)\n", set()),
    ],
)
def test_a_call_of_what_does_not_exist_is_found(text: str, want: set[str]) -> None:
    (example,) = examples(text)
    assert unknown_calls(example) == want


def test_examples_in_pages_compile_and_import_what_exists() -> None:
    checked = 0
    for page in (*PAGES, Path("protocol/README.md"), Path("service/README.md")):
        for example in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
            checked += 1
            for node in ast.walk(ast.parse(example)):
                if isinstance(node, ast.ImportFrom) and node.module:
                    module = importlib.import_module(node.module)
                    assert [name.name for name in node.names if not hasattr(module, name.name)] == [], page
    assert checked >= 3
