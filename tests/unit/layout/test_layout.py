"""The layout holds: known folders, capabilities complete, and retired words do not come back."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[3]
SERVICE: Final = ROOT / "service" / "src" / "slackwater"
LAYERS: Final = {
    "adapters", "app", "cli", "cluster", "configuration", "controllers", "explain", "fit", "model", "ports", "runtime",
    "sandbox", "snapshot",
}  # fmt: skip
CAPABILITIES: Final = {
    "audit", "consolidation", "disagreement", "history", "leadership", "migration", "notifications", "permits",
    "placement", "preemption", "scaledown", "scaleup", "slack",
}  # fmt: skip
#: Words that this project used for what the field has a word for, as parts of identifiers and of file names.
RETIRED: Final = {
    "agreements": "accepted preemptions",
    "askers": "headroom requests",
    "books": "cluster state",
    "ceiling": "permit limit",
    "ceilings": "permit limits",
    "census": "group status",
    "company": "affinities",
    "contradictions": "permit conflicts",
    "crowd": "connection limiter",
    "desk": "permit service",
    "doomed": "marked victim",
    "excess": "over-reservation",
    "fate": "outcome",
    "fleet": "node group registry",
    "foresight": "forecast",
    "gatekeeper": "authenticator, scheduling gates",
    "guests": "pods of a node",
    "hindrance": "unremovable reason",
    "hindrances": "unremovable reasons",
    "landing": "target node",
    "landings": "target nodes",
    "lend": "state",
    "likeness": "signature",
    "lodger": "placeholder",
    "lodgers": "placeholders",
    "occupant": "potential victim",
    "occupants": "potential victims",
    "owed": "deferred effects",
    "parcel": "frame",
    "particulars": "pod constraints",
    "picture": "snapshot",
    "reign": "leadership term",
    "sacrifice": "candidate",
    "sight": "observation",
    "sights": "observations",
    "specimens": "example pods",
    "spine": "framed types",
    "standing": "running pods",
    "standings": "vertical pods",
    "standstill": "wait reason",
    "surroundings": "auxiliary objects",
    "tally": "event counts",
    "tells": "differs",
    "tenant": "running pod",
    "tenants": "running pods",
    "ties": "eviction facts",
    "told": "notified, nominated, answered",
    "turnstile": "request queue",
    "untold": "not nominated",
    "wakeups": "activations",
    "weather": "provider simulation",
    "world": "state machine, cluster state",
}
_PARTS: Final = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")


def modules() -> Iterator[Path]:
    """Those of the service and of its tests."""
    every = (*SERVICE.rglob("*.py"), *(ROOT / "tests").rglob("*.py"))
    yield from (path for path in every if not path.name.endswith("_pb2.py"))


def parts(name: str) -> set[str]:
    return {part.lower() for part in _PARTS.findall(name)}


def identifiers(module: ast.Module) -> Iterator[str]:
    """Names that a module gives: to functions, classes, arguments, attributes and variables."""
    for node in ast.walk(module):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case _:
                pass


def test_the_folders_are_the_layers() -> None:
    assert {folder.name for folder in SERVICE.iterdir() if (folder / "__init__.py").exists()} == LAYERS


def test_each_capability_is_a_folder() -> None:
    assert {folder.name for folder in (SERVICE / "controllers").iterdir() if (folder / "__init__.py").exists()} == CAPABILITIES


def test_every_folder_says_what_it_is_for() -> None:
    inits = [path for path in SERVICE.rglob("__init__.py") if path.parent.name != "wire"]
    assert [str(path.relative_to(ROOT)) for path in inits if not ast.get_docstring(ast.parse(path.read_text()))] == []


def test_retired_words_are_in_no_file_name() -> None:
    names = {path.relative_to(ROOT): parts(path.stem) & RETIRED.keys() for path in modules()}
    assert {str(path): found for path, found in names.items() if found} == {}


def test_retired_words_are_in_no_identifier() -> None:
    found: dict[str, set[str]] = {}
    for path in modules():
        for name in identifiers(ast.parse(path.read_text("utf-8"))):
            if parts(name) & RETIRED.keys():
                found.setdefault(str(path.relative_to(ROOT)), set()).add(name)
    assert found == {}


@pytest.mark.parametrize(
    ("name", "want"), [("NodeTallyOf", {"tally"}), ("_world_now", {"world"}), ("worldly", set()), ("AWorld", {"world"})]
)
def test_a_word_is_found_in_every_way_of_writing(name: str, want: set[str]) -> None:
    assert parts(name) & RETIRED.keys() == want
