"""The counterfactual's process, started as the service starts it: it writes the log, and another one follows one that ends."""

import json
import os
import signal
from collections.abc import Callable
from itertools import count
from pathlib import Path
from stat import S_IMODE

import anyio
import pytest

from slackwater.app.counterfactual.lines import AnyLine, Began, ModelCheck, NodeCame, Sample, read, written
from slackwater.app.counterfactual.log_file import LogFile
from slackwater.app.counterfactual.observation import Start
from slackwater.app.counterfactual.process import Arrivals, CounterfactualProcess
from slackwater.app.counterfactual.service import WrittenLog
from slackwater.app.policies import policy_of
from slackwater.app.settings import Settings, loads
from slackwater.app.whatif.question import GroupRegistryView
from slackwater.model.auxiliary import AuxiliaryObjects
from slackwater.model.events import NodeSeen
from slackwater.ports.clock import Times
from slackwater.ports.protocols import NothingThere
from slackwater.runtime.planner.replica_feed import ReplicaFeed
from slackwater.runtime.record_file import RecordError
from slackwater_protocol.names import CONFIG_API_VERSION, CONFIG_KIND
from tests.support.builders import a_node
from tests.support.planners import KnownAuxiliary
from tests.support.small_state_machine import SmallStateMachine

pytestmark = pytest.mark.anyio
EMPTY = AuxiliaryObjects(namespaces={"default": {}})


def lines_of(path: Path) -> list[AnyLine]:
    return list(read(path.read_bytes().splitlines(keepends=True))) if path.exists() else []


async def until(found: Callable[[], bool]) -> None:
    with anyio.fail_after(60.0):
        while not found():  # noqa: ASYNC110 - another process writes the file
            await anyio.sleep(0.02)


async def test_it_writes_both_sides_and_begins_again_after_its_end(tmp_path: Path) -> None:
    path, small = tmp_path / "log", SmallStateMachine(policy_of(Settings()))
    feed = ReplicaFeed(small.state_machine, KnownAuxiliary(EMPTY))
    start = Start(settings=Settings(), version="1.2.3", path=str(path), max_bytes=1 << 20)
    registry = GroupRegistryView(group_status={})
    process = CounterfactualProcess(feed, registry=lambda: registry, pods_came=lambda: 0, times=Times(), every=0.05)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(process.run, start)
        await until(lambda: len(process.newest) > 1)
        began = [line for line in lines_of(path) if isinstance(line, Began)]
        assert [(line.version, line.sides) for line in began] == [("1.2.3", ("real", "ours"))]
        assert sorted(line.node for line in lines_of(path) if isinstance(line, NodeCame)) == ["m", "m", "n", "n"]
        small.apply(NodeSeen(a_node("third")))
        os.kill(process.pid, signal.SIGKILL)
        await until(lambda: sum(isinstance(line, Began) for line in lines_of(path)) > 1)
        tasks.cancel_scope.cancel()
    assert process.restarts == 1
    assert isinstance(lines_of(path)[-1], ModelCheck), "the last hour is written although it is not over"
    assert [line.nodes for line in lines_of(path) if isinstance(line, Sample)][-2:] == [3, 3]
    assert S_IMODE(path.stat().st_mode) == 0o600


async def test_the_first_look_waits_for_the_node_groups_but_not_for_ever(tmp_path: Path) -> None:
    path, looks = tmp_path / "log", list[int]()
    feed = ReplicaFeed(SmallStateMachine(policy_of(Settings())).state_machine, KnownAuxiliary(EMPTY))

    def registry() -> GroupRegistryView | None:
        looks.append(len(lines_of(path)))
        return None if len(looks) < 3 else GroupRegistryView(group_status={})

    process = CounterfactualProcess(feed, registry=registry, pods_came=lambda: 0, times=Times(), every=0.01)
    start = Start(settings=Settings(), version="1", path=str(path), max_bytes=1 << 20, sides=("real",))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(process.run, start)
        await until(lambda: bool(process.newest))
        tasks.cancel_scope.cancel()
    assert looks[:33] == [0] * 33, "two without a registry, and thirty without groups"
    assert [line.sides for line in lines_of(path) if isinstance(line, Began)] == [("real",)]


async def test_the_times_at_which_pods_come_are_counted_between_observations() -> None:
    ever, ticks = [5], count(1)
    arrivals = Arrivals(lambda: ever[-1], Times(wall=lambda: float(next(ticks))))
    for number in (7, 7, 9):
        ever.append(number)
        await arrivals.count(0.001)
    ever.append(12)
    assert arrivals.take() == ((1.0, 2), (2.0, 4), (3.0, 7))
    assert arrivals.take() == ()
    ever.append(13)
    assert arrivals.take() == ((4.0, 1),)


def test_the_log_is_bounded_and_says_when_a_new_file_begins(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = LogFile(str(path), max_bytes=200)
    began = [number for number in range(20) if log.append(b"%02d 5678901234567890\n" % number)]
    assert began == [5, 11, 17]
    assert path.read_bytes().split()[::2] == [b"18", b"19"]
    assert sum(each.stat().st_size for each in tmp_path.iterdir()) <= 220


def test_a_line_that_a_killed_writer_left_does_not_swallow_the_next(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'{"line":"sam')
    LogFile(str(path), max_bytes=1 << 20).append(b"whole\n")
    LogFile(str(path), max_bytes=1 << 20).append(b"next\n")
    assert path.read_bytes().splitlines() == [b'{"line":"sam', b"whole", b"next"]


def settings_with(file: Path) -> Settings:
    return loads(
        json.dumps({"apiVersion": CONFIG_API_VERSION, "kind": CONFIG_KIND, "report": {"file": str(file)}}), source="test"
    )


def a_log(settings: Settings) -> WrittenLog:
    feed = ReplicaFeed(SmallStateMachine(policy_of(Settings())).state_machine, None)
    return WrittenLog(settings, feed, sides=("real",), registry=lambda: None, pods_came=lambda: 0, times=Times())


def test_a_log_that_cannot_be_written_is_named_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"report\.file: .*/no/log: cannot be written: "):
        a_log(settings_with(tmp_path / "no" / "log"))


async def test_the_log_is_read_in_parts(tmp_path: Path) -> None:
    log, began = a_log(settings_with(tmp_path / "log")), Began(at=1.0, version="1", sides=("real",), currency="USD")
    assert [part async for part in log(None)] == []
    LogFile(str(tmp_path / "log"), 1 << 20).append(written([began]))
    assert [part async for part in log(None)] == [written([began])]


async def test_before_it_runs_a_log_without_a_path_says_that_nothing_is_in_it() -> None:
    with pytest.raises(NothingThere, match="nothing is in the log yet"):
        await anext(a_log(Settings())(None))
