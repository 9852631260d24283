"""The walks of docs/ARCHITECTURE.md name files and functions that exist."""

import ast
import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[3]
SERVICE: Final = ROOT / "service" / "src" / "slackwater"
TEXT: Final = (ROOT / "docs" / "ARCHITECTURE.md").read_text("utf-8")
#: `folder/file.py`, or `folder/file.py:Class.function`.
_NAMED: Final = re.compile(r"`((?:[a-z_0-9]+/)+[a-z_0-9]+\.py)(?::([A-Za-z_.]+))?`")
#: A file of the table without its folder, and a file or folder of the diagram.
_IN_TABLE: Final = re.compile(r"`([a-z_0-9]+\.py)`")
_IN_DIAGRAM: Final = re.compile(r"\b((?:[a-z]+/)+[a-z_]+)")
NAMED: Final = sorted({(path, name) for path, name in _NAMED.findall(TEXT) if not path.startswith("tests/")})


def defined(path: Path) -> set[str]:
    """The functions and classes of a module, and `Class.method` for each method."""
    found: set[str] = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = (each for each in node.body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)))
            found.update(f"{node.name}.{method.name}" for method in methods)
    return found


@pytest.mark.parametrize(("path", "name"), NAMED, ids=[f"{path}:{name}" for path, name in NAMED])
def test_what_the_page_names_exists(path: str, name: str) -> None:
    assert (SERVICE / path).exists()
    assert not name or name in defined(SERVICE / path)


def test_files_that_the_table_names_without_a_folder_exist() -> None:
    rows = TEXT[TEXT.index("## Where to change what") : TEXT.index("## What must stay true")]
    names = {
        name for row in rows.splitlines() if row.startswith("|") and "tests/" not in row for name in _IN_TABLE.findall(row)
    }
    assert names
    assert sorted(names - {path.name for path in SERVICE.rglob("*.py")}) == []


def test_what_the_diagram_names_exists() -> None:
    places = _IN_DIAGRAM.findall(TEXT[TEXT.index("```") : TEXT.index("## Layers")])
    assert len(places) >= 8
    assert [place for place in places if not ((SERVICE / place).is_dir() or (SERVICE / f"{place}.py").exists())] == []


def test_every_walk_names_functions() -> None:
    walks = TEXT[TEXT.index("## Six walks") : TEXT.index("## Where to change what")]
    for walk in ("A bind", "A permit", "A preemption", "A drain", "A scale-up plan"):
        start = walks.index(f"**{walk}**")
        assert len(re.findall(r"\.py:[A-Za-z]", walks[start : walks.find("\n**", start + 1)])) >= 3, walk
