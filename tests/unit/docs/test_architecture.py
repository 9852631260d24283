"""The walks of docs/ARCHITECTURE.md name files and functions that exist."""

import ast
import configparser
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


IMPORTS: Final = configparser.ConfigParser()
IMPORTS.read(ROOT / ".importlinter")


def listed(contract: str, key: str) -> list[str]:
    return [line for line in IMPORTS[f"importlinter:contract:{contract}"][key].splitlines() if line]


def test_the_table_has_the_layers_and_their_exceptions_as_they_are_checked() -> None:
    section = TEXT[TEXT.index("## Layers") : TEXT.index("## Six walks")]
    layers = re.findall(r"^\| `([a-z]+)/` \|", section, re.MULTILINE)
    assert [*reversed(layers)] == [layer for layer in listed("layers", "layers") if layer != "__main__"]
    excepted = {
        line.partition(" -> ")[0].removeprefix("slackwater.").replace(".", "/") for line in listed("layers", "ignore_imports")
    }
    assert {path.removesuffix(".py") for path, _ in _NAMED.findall(section.partition("| layer |")[0])} == excepted


def test_code_that_decides_draws_only_with_a_given_seed() -> None:
    """No contract of imports can say this of numpy, which that code needs for its columns."""
    for name in listed("pure", "source_modules"):
        path = SERVICE.parent / name.replace(".", "/")
        for module in path.rglob("*.py") if path.is_dir() else [path.with_suffix(".py")]:
            text = module.read_text("utf-8")
            assert set(re.findall(r"np\.random\.(\w+)", text)) <= {"default_rng", "Generator"}, module
            assert "default_rng()" not in text, module


#: What each module with worker threads does there, in the page's words. The planning process has threads of its own.
THREADS: Final = {
    "adapters/http/ops.py": "encode `/dumpstate`",
    "controllers/placement/scoring_snapshot.py": "rebuild the scoring snapshot",
    "adapters/http/extender.py": "decode large objects and pods",
    "adapters/kube/slices.py": "decode large objects and pods",
    "runtime/planner/pipe.py": "encode what the planning process and the counterfactual get",
    "app/counterfactual/process.py": "encode what the planning process and the counterfactual get",
    "app/counterfactual/service.py": "read the log for reports",
    "adapters/kube/history.py": "compress the history",
    "app/other_autoscaler.py": "read the status of Cluster Autoscaler",
    "adapters/files/shadow_files.py": "read and write a shadow's files",
    "runtime/record_file.py": "write the record",
    "app/settings/reload.py": "read the files of the configuration, of TLS, of forwarding",
    "adapters/http/certificates.py": "of TLS",
    "adapters/http/standby.py": "of forwarding",
    "adapters/http/webhook.py": "of the webhook",
    "app/node_use.py": "decode what nodes use",
}


def test_what_runs_in_worker_threads_is_named() -> None:
    threaded = {
        path.relative_to(SERVICE).as_posix()
        for path in SERVICE.rglob("*.py")
        if re.search(r"\b(to_thread\.run_sync|in_thread)\(", path.read_text("utf-8"))
    }
    assert threaded == {*THREADS, "ports/threads.py"}
    sentence = " ".join(TEXT.split()).partition("Worker threads ")[2].partition(". ")[0]
    assert [words for words in THREADS.values() if words not in sentence] == []
