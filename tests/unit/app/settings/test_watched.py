"""A changed file is handed on once, a bad one is reported once and kept out, whatever the file system does meanwhile."""

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from slackwater.app.settings import Settings, SettingsError, UnreadableSettings, loads, reload, watch_settings
from tests.support.configuration import HEADER

START = HEADER + "schedulerName: start\n"
OTHER = HEADER + "schedulerName: other\n"
BAD = HEADER + "extender: {weight: 0}\n"

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file system counts as hanging because the machine stands still."""
    monkeypatch.setattr(reload, "READ_DEADLINE_SECONDS", 60.0)


class Ended(Exception):
    """The script has no more steps."""


class Watch:
    """Runs the watcher over a script: one step before each read after the first, no real time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.changes: list[tuple[str, str]] = []
        self.refused: list[SettingsError] = []
        self.slept: list[float] = []

    async def run(self, *steps: Callable[[], object]) -> None:
        script = iter(steps)

        async def sleep(seconds: float) -> None:
            self.slept.append(seconds)
            step = next(script, None)
            if step is None:
                raise Ended
            step()

        with pytest.raises(Ended):
            await watch_settings(
                self.path,
                lambda old, new: self.changes.append((old.scheduler_name, new.scheduler_name)),
                self.refused.append,
                current=loads(START),
                interval_seconds=7.0,
                sleep=sleep,
            )

    def writes(self, text: str) -> Callable[[], object]:
        return lambda: self.path.write_text(text)


def nothing() -> None:
    pass


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    path = tmp_path / "slackwater.yaml"
    path.write_text(START)
    return Watch(path)


async def test_an_unchanged_file_says_nothing(watch: Watch) -> None:
    await watch.run(nothing, nothing, nothing)
    assert (watch.changes, watch.refused) == ([], [])
    assert watch.slept == [7.0] * 4


async def test_a_changed_file_is_handed_on_once(watch: Watch) -> None:
    await watch.run(nothing, watch.writes(OTHER), nothing, nothing, nothing)
    assert watch.changes == [("start", "other")]


async def test_a_change_before_the_first_read_is_seen(watch: Watch) -> None:
    watch.path.write_text(OTHER)
    await watch.run(nothing, nothing)
    assert watch.changes == [("start", "other")]


async def test_changes_follow_each_other(watch: Watch) -> None:
    await watch.run(watch.writes(OTHER), nothing, watch.writes(START), nothing)
    assert watch.changes == [("start", "other"), ("other", "start")]


async def test_a_file_in_the_middle_of_a_write_is_not_taken_even_if_it_is_valid(watch: Watch) -> None:
    truncated = HEADER
    await watch.run(nothing, watch.writes(truncated), watch.writes(OTHER), nothing)
    assert watch.changes == [("start", "other")]


async def test_an_empty_moment_of_a_rewrite_is_not_reported(watch: Watch) -> None:
    await watch.run(nothing, watch.writes(""), watch.writes(OTHER), nothing)
    assert watch.refused == []
    assert watch.changes == [("start", "other")]


async def test_a_bad_file_is_refused_once_and_the_old_settings_stay(watch: Watch) -> None:
    await watch.run(watch.writes(BAD), nothing, nothing, nothing, watch.writes(OTHER), nothing)
    (error,) = watch.refused
    assert str(error) == f"{watch.path}: extender.weight: got 0, want a whole number >= 1 and <= 100"
    assert watch.changes == [("start", "other")]


async def test_each_bad_content_is_refused(watch: Watch) -> None:
    await watch.run(watch.writes(BAD), nothing, watch.writes("a: ["), nothing, nothing, watch.writes(BAD), nothing)
    assert [type(error) for error in watch.refused] == [SettingsError, UnreadableSettings, SettingsError]


async def test_a_bad_file_that_is_put_back_is_said_to_be_good_again(watch: Watch) -> None:
    await watch.run(nothing, watch.writes(BAD), nothing, watch.writes(START), nothing, nothing)
    assert len(watch.refused) == 1
    assert watch.changes == [("start", "start")]


async def test_a_missing_file_is_reported_once(watch: Watch) -> None:
    await watch.run(nothing, watch.path.unlink, nothing, nothing, watch.writes(OTHER), nothing)
    (error,) = watch.refused
    assert str(error) == f"{watch.path}: the file: got No such file or directory, want a file to read"
    assert watch.changes == [("start", "other")]


async def test_a_comment_is_no_change(watch: Watch) -> None:
    await watch.run(watch.writes(START + "# a comment\n"), nothing, nothing)
    assert (watch.changes, watch.refused) == ([], [])


async def test_what_serve_refuses_is_refused_here_too(watch: Watch) -> None:
    await watch.run(watch.writes(HEADER + "autoscaler: {enabled: true}\n"), nothing)
    (error,) = watch.refused
    assert [problem.path for problem in error.problems] == ["autoscaler.nodeGroups"]


async def test_an_atomic_rename_is_seen(watch: Watch, tmp_path: Path) -> None:
    def rename() -> None:
        (tmp_path / "new").write_text(OTHER)
        (tmp_path / "new").rename(watch.path)

    await watch.run(nothing, rename, nothing)
    assert watch.changes == [("start", "other")]


async def test_a_config_map_is_seen_when_its_symlink_is_swapped(tmp_path: Path) -> None:
    for name, text in (("..1", START), ("..2", OTHER)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "slackwater.yaml").write_text(text)
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "slackwater.yaml").symlink_to("..data/slackwater.yaml")

    def swap() -> None:
        (tmp_path / "..data_tmp").symlink_to("..2")
        (tmp_path / "..data_tmp").rename(tmp_path / "..data")

    watch = Watch(tmp_path / "slackwater.yaml")
    await watch.run(nothing, swap, nothing)
    assert watch.changes == [("start", "other")]


async def test_a_file_system_that_hangs_is_reported_and_does_not_stop_the_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe without a writer blocks whoever opens it, as a dead network file system does."""
    monkeypatch.setattr(reload, "READ_DEADLINE_SECONDS", 0.05)
    pipe = tmp_path / "pipe"
    make_pipe(pipe)
    watch = Watch(pipe)
    with anyio.fail_after(60):
        await watch.run(nothing, nothing)
    release(pipe)
    (error,) = watch.refused
    assert "no answer from the file system" in str(error)


def make_pipe(path: Path) -> None:
    import os

    os.mkfifo(path)


def release(path: Path) -> None:
    """Lets the reader that still waits in its thread come to an end."""
    import os

    os.close(os.open(path, os.O_WRONLY))


async def test_the_watch_ends_when_it_is_cancelled(watch: Watch) -> None:
    with anyio.move_on_after(0.05) as scope:
        await watch_settings(watch.path, lambda old, new: None, watch.refused.append, current=Settings(scheduler_name="start"))
    assert scope.cancelled_caught
