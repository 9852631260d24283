"""Entries appear whole or not at all, made by one process."""

import threading
from pathlib import Path

import pytest

from tests.support.controlplane.cache import cache_root, fill


def test_an_entry_is_made_once(tmp_path: Path) -> None:
    def make(folder: Path) -> None:
        (folder / "content").write_text("made")

    assert fill(tmp_path / "entry", make) is True
    assert fill(tmp_path / "entry", make) is False
    assert (tmp_path / "entry" / "content").read_text() == "made"


def test_of_two_that_want_an_entry_at_once_the_second_waits_and_makes_nothing(tmp_path: Path) -> None:
    making, go_on, second_waits = threading.Event(), threading.Event(), threading.Event()
    results: dict[str, bool] = {}

    def make(folder: Path) -> None:
        making.set()
        assert go_on.wait(10)

    def first() -> None:
        results["first"] = fill(tmp_path / "entry", make)

    def second() -> None:
        assert making.wait(10)
        results["second"] = fill(tmp_path / "entry", make, waiting=second_waits.set)

    threads = [threading.Thread(target=run) for run in (first, second)]
    for thread in threads:
        thread.start()
    assert second_waits.wait(10)
    go_on.set()
    for thread in threads:
        thread.join(10)

    assert results == {"first": True, "second": False}


def test_a_failed_make_leaves_no_entry_and_the_next_one_starts_from_scratch(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_text("")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        fill(tmp_path / "entry", fail)

    assert [path.name for path in tmp_path.iterdir()] == ["entry.lock"]
    assert fill(tmp_path / "entry", lambda folder: None) is True


def test_what_a_killed_maker_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "entry.tmp-killed").mkdir()

    fill(tmp_path / "entry", lambda folder: None)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["entry", "entry.lock"]


@pytest.mark.parametrize(
    ("environ", "want_root"),
    [
        ({"SLACKWATER_CACHE_DIR": "/own", "XDG_CACHE_HOME": "/shared"}, Path("/own")),
        ({"XDG_CACHE_HOME": "/shared"}, Path("/shared/slackwater")),
        ({}, Path.home() / ".cache" / "slackwater"),
    ],
    ids=["own", "xdg", "home"],
)
def test_where_the_cache_is(environ: dict[str, str], want_root: Path) -> None:
    assert cache_root(environ) == want_root
