"""A fresh clone begins with the cache of the last check without a finding; a clone with a cache keeps its own."""

import sys
from collections.abc import Sequence
from pathlib import Path

from tests.stages.typecheck import checked


def notes(own: Path, note: str, *, status: int = 0) -> Sequence[str]:
    """A command that adds a line to a file of its cache, as a checker would add what it found."""
    script = f"import pathlib, sys; own = pathlib.Path({str(own)!r}); own.mkdir(exist_ok=True)"
    script += f"; (own / 'notes').open('a').write({note!r}); sys.exit({status})"
    return (sys.executable, "-c", script)


def check(folder: Path, clone: str, *, status: int = 0) -> str:
    """Checks in a clone; what its cache then says."""
    own = folder / clone
    assert checked(notes(own, clone, status=status), own=own, shared=folder / "shared" / "cache.tar") == status
    return (own / "notes").read_text()


def test_a_fresh_clone_begins_with_what_another_one_has_left(tmp_path: Path) -> None:
    assert check(tmp_path, "a") == "a"
    assert check(tmp_path, "b") == "ab"
    assert check(tmp_path, "c") == "abc"
    assert [path.name for path in (tmp_path / "shared").iterdir()] == ["cache.tar"]


def test_a_clone_with_a_cache_keeps_it(tmp_path: Path) -> None:
    check(tmp_path, "a")
    check(tmp_path, "b")
    assert check(tmp_path, "a") == "aa"


def test_a_check_with_a_finding_leaves_nothing(tmp_path: Path) -> None:
    check(tmp_path, "a")
    assert check(tmp_path, "b", status=1) == "ab"
    assert check(tmp_path, "c") == "ac"
