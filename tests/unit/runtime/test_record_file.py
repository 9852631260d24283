"""The file of a record: what is told is read back, its bound holds, and a cut or a change shows."""

import gzip
import os
import sys
from dataclasses import replace
from pathlib import Path

import anyio
import msgspec
import numpy as np
import pytest

from slackwater.cli.main import main
from slackwater.model.columns import Rows
from slackwater.model.events import BindEnded, NodeSeen, PodSeen, Synced, TimePassed
from slackwater.model.ids import Instant, NodeName
from slackwater.runtime.record.recording import RecordedStateMachine
from slackwater.runtime.record.replay import Replay
from slackwater.runtime.record_file import RecordError, RecordWriter, frames_of
from tests.support import installed
from tests.support.builders import a_node, a_pod

pytestmark = pytest.mark.anyio


def lives(recording: RecordWriter, pods: int) -> RecordedStateMachine:
    """Some nodes, and pods that are filtered, scored and bound, with randomised scores."""
    state_machine = RecordedStateMachine(replace(installed.POLICY, randomize=True), seed=7, write_frame=recording.write_frame)
    for number in range(5):
        state_machine.apply(NodeSeen(a_node(f"n{number}")), Instant(0.0))
    state_machine.apply(Synced(), Instant(0.0))
    rows: Rows = np.arange(5)
    for number in range(pods):
        now = Instant(1.0 + number / 7)
        pod = a_pod(f"p{number}", cpu="100m")
        state_machine.apply(PodSeen(pod), now)
        codes = state_machine.filter(pod, rows, now)
        state_machine.prioritize(pod, rows[codes == 0], now)
        node = NodeName(f"n{number % 5}")
        state_machine.bind(pod.uid, pod.key, node, now)
        state_machine.apply(BindEnded(pod.uid, node, "bound", ""), now)
        state_machine.apply(TimePassed(), now)
    return state_machine


async def recorded(path: Path, *, pods: int = 20, max_bytes: int = 1 << 20, keep: int = 0) -> RecordWriter:
    recording = RecordWriter(str(path), max_bytes=max_bytes, keep=keep)
    async with anyio.create_task_group() as group:
        group.start_soon(recording.run)
        lives(recording, pods)
        await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    return recording


async def test_recorded_frames_are_read_back_and_replay(tmp_path: Path) -> None:
    path = tmp_path / "r.rec"
    recording = await recorded(path)
    replay = Replay(frames_of(str(path)))
    assert list(replay.differences()) == []
    assert (replay.ended, replay.decisions) == ("the service ended", 60)
    assert replay.frames == recording.frames  # the start is not counted, the end is


@pytest.mark.parametrize("seed", ["1", "2"])
async def test_another_process_with_another_hash_seed_decides_the_same(tmp_path: Path, seed: str) -> None:
    path = tmp_path / "r.rec"
    await recorded(path)
    done = await anyio.run_process(
        [sys.executable, "-m", "slackwater", "replay", str(path)], env={**os.environ, "PYTHONHASHSEED": seed}, check=False
    )
    assert (done.returncode, done.stdout.decode().splitlines()[-1]) == (0, "decisions=60 differences=0"), done.stderr


async def test_the_bound_holds_and_what_was_recorded_by_then_replays(tmp_path: Path) -> None:
    path = tmp_path / "r.rec"
    recording = await recorded(path, pods=1000, max_bytes=40_000)
    assert path.stat().st_size <= 40_000
    replay = Replay(frames_of(str(path)))
    assert list(replay.differences()) == []
    assert replay.ended == recording.ended == "the file has reached 40000 bytes"
    assert replay.decisions > 0


async def test_a_file_that_a_killed_process_left_replays_up_to_there(tmp_path: Path) -> None:
    path = tmp_path / "r.rec"
    await recorded(path, pods=200)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    replay = Replay(frames_of(str(path)))
    assert list(replay.differences()) == []
    assert replay.ended == ""
    assert 0 < replay.decisions < 600


def tampered(path: Path, what: str) -> int:
    """Turns the answer of the first call of that name into another; its number."""
    frames = list(frames_of(str(path)))
    for number, raw in enumerate(frames):
        called, now, given, answer = msgspec.msgpack.decode(raw)
        if called != what:
            continue
        changed = ["uint8", [5], b"\x02" * 5] if what == "filter" else [2, None, False]
        assert answer != changed
        frames[number] = msgspec.msgpack.encode((called, now, given, changed))
        with gzip.open(path, "wb") as file:
            for each in frames:
                file.write(len(each).to_bytes(4, "big") + each)
        return number
    raise AssertionError(what)


@pytest.mark.parametrize("what", ["filter", "bind"])
async def test_a_changed_answer_is_the_first_difference(tmp_path: Path, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "r.rec"
    await recorded(path)
    number = tampered(path, what)
    assert main(["replay", str(path)]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith(f"first difference: frame {number}, {what} at ")
    assert said[-1] == "decisions=60 differences=1"


async def test_what_is_no_record_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    none, text, empty, other = (tmp_path / name for name in ("none", "text", "empty", "other"))
    text.write_text("not a record")
    with gzip.open(empty, "wb"):
        pass
    body = msgspec.msgpack.encode(("apply", 0.0, None, None))
    with gzip.open(other, "wb") as file:
        file.write(len(body).to_bytes(4, "big") + body)
    for path, want in ((none, "is not there"), (text, "is no record"), (empty, "no frame"), (other, "want 'start'")):
        assert main(["replay", str(path)]) == 2
        assert want in capsys.readouterr().err


async def test_events_that_are_none_are_refused_and_nothing_of_them_is_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "r.rec"
    await recorded(path, pods=1)
    frames = list(frames_of(str(path)))
    frames[1] = msgspec.msgpack.encode(("apply", 0.0, ["os.system", ["true"]], []))
    with gzip.open(path, "wb") as file:
        for each in frames:
            file.write(len(each).to_bytes(4, "big") + each)
    assert main(["replay", str(path)]) == 2
    assert "frame 1: KeyError: 'os.system'" in capsys.readouterr().err


async def test_records_of_earlier_starts_stay_and_the_oldest_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "r.rec"
    for pods in (1, 2, 3, 4):
        await recorded(path, pods=pods, keep=2)
    assert sorted(os.listdir(tmp_path)) == ["r.rec", "r.rec.1", "r.rec.2"]
    for name, pods in (("r.rec", 4), ("r.rec.1", 3), ("r.rec.2", 2)):
        replay = Replay(frames_of(str(tmp_path / name)))
        assert list(replay.differences()) == []
        assert replay.decisions == 3 * pods


async def test_without_a_number_to_keep_a_start_replaces_the_file_readable_by_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "r.rec"
    for _ in range(2):
        await recorded(path, pods=1, keep=0)
    assert os.listdir(tmp_path) == ["r.rec"]
    assert path.stat().st_mode & 0o777 == 0o600


async def test_a_file_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="cannot be written"):
        RecordWriter(str(tmp_path / "no" / "r.rec"), max_bytes=1)
