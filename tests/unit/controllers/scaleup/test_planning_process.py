"""The planning process: fed and asked a piece at a time, missed at once when it ends, and never left behind."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

import anyio
import pytest

from slackwater.cluster.nodegroups.status import NodeGroupStatus
from slackwater.controllers.scaleup.pending import PendingRules
from slackwater.controllers.scaleup.policy import ScaleUpPolicy
from slackwater.model.changes import Changes, NodeChange, PodChange
from slackwater.model.ids import Generation, Instant, NodeName, UnixTime
from slackwater.model.nodegroups import GroupName, NodeGroup
from slackwater.model.objects import Node, Pod
from slackwater.runtime.autoscaler.clocks import Watch
from slackwater.runtime.autoscaler.planning import Inquiry, ScaleUpRules
from slackwater.runtime.planner.process import COMMAND, PlanFailedError, PlannerLostError, ProcessPlanning
from tests.support.builders import a_node, a_pod
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

#: Starting a process takes a second, or ten where many do.
LONG: Final = 60.0
RULES: Final = ScaleUpRules(policy=ScaleUpPolicy(pending=PendingRules(after_scheduler=False)))
GROUP: Final = GroupName("a")
#: Ends as soon as it has read something.
MORTAL: Final = (sys.executable, "-c", "import sys; sys.stdin.buffer.read(1); sys.exit(3)")
#: Reads, and never answers.
MUTE: Final = (sys.executable, "-c", "import sys; sys.stdin.buffer.read()")


def clock() -> Instant:
    return Instant(anyio.current_time())


def machine(name: str) -> Node:
    return replace(a_node(name, cpu="4", memory="16Gi"), scalars=(("pods", 110),))


def a_group_status() -> dict[GroupName, NodeGroupStatus]:
    template = machine("template")
    group = NodeGroup(name=GROUP, provider="cloud", min_size=0, max_size=9000, target=0, instances=(), template=template)
    return {
        GROUP: NodeGroupStatus(
            group=group, known=True, ready=(), unready=(), starting=(), coming=0, missing=0, lost=(), leaving=0
        )
    }


def inquiry(pods: Iterable[Pod], group_status: dict[GroupName, NodeGroupStatus] | None = None) -> Inquiry:
    changes = Changes(
        generation=Generation(1),
        nodes=[NodeChange(NodeName("n1"), machine("n1"))],
        pods=[PodChange(pod.uid, pod) for pod in pods],
    )
    return Inquiry(
        changes=changes, rules=RULES, group_status=a_group_status() if group_status is None else group_status, now=UnixTime(2e9)
    )


def pending(count: int, tag: str = "p") -> list[Pod]:
    """Each takes a node of the group for itself."""
    return [a_pod(f"{tag}{number}", cpu="4", memory="1Gi") for number in range(count)]


@asynccontextmanager
async def planning_of(command: Iterable[str] = COMMAND, timeout_seconds: float = LONG) -> AsyncIterator[ProcessPlanning]:
    planning = ProcessPlanning(clock=clock, timeout_seconds=timeout_seconds, command=tuple(command))
    async with anyio.create_task_group() as group:
        group.start_soon(planning.run)
        yield planning
        group.cancel_scope.cancel()


def is_alive(pid: int) -> bool:
    """A process that has ended and that nobody has waited for is none."""
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except OSError:
        return False


async def asked(planning: ProcessPlanning, question: Inquiry) -> tuple[int, int, tuple[str, ...]]:
    """New nodes, pods that have a place already, and what people are told."""
    plans = await planning.plan(question, Watch(clock))
    nodes = sum(scale_up.count for scale_up in plans.scale_up.scale_ups)
    return nodes, plans.scale_up.pending.schedulable, plans.notes


async def test_it_plans_and_follows_what_changed() -> None:
    pods = pending(5)
    async with planning_of() as planning:
        assert await asked(planning, inquiry(pods)) == (4, 1, ())
        gone = Changes(generation=Generation(2), pods=[PodChange(pod.uid, None) for pod in pods[:2]])
        assert await asked(planning, replace(inquiry(()), changes=gone)) == (2, 1, ())
        assert planning.observation().resident_bytes > 10 << 20


async def test_growths_hold_the_very_pods_that_were_told() -> None:
    pods = pending(3)
    async with planning_of() as planning:
        plans = await planning.plan(inquiry(pods), Watch(clock))
    known = {id(pod) for pod in pods}
    assert all(id(pod) in known for scale_up in plans.scale_up.scale_ups for pod in scale_up.pods)


async def test_a_process_that_is_killed_is_missed_at_once_and_the_next_one_knows_everything() -> None:
    async with planning_of() as planning:
        await asked(planning, inquiry(pending(5)))
        first = planning.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await until(lambda: planning.pid not in (first, None), seconds=LONG)
        nodes, placed, notes = await asked(planning, replace(inquiry(()), changes=Changes(generation=Generation(2))))
        assert (nodes, placed, planning.observation().restarts) == (4, 1, 1)
        assert len(notes) == 1
        assert "SIGKILL" in notes[0]
        assert (await asked(planning, replace(inquiry(()), changes=Changes(generation=Generation(3)))))[2] == ()


async def test_a_plan_during_which_the_process_is_killed_is_made_by_the_next_one() -> None:
    async with planning_of() as planning, anyio.create_task_group() as group:
        await asked(planning, inquiry(pending(5)))
        first = planning.pid
        assert first is not None
        os.kill(first, signal.SIGSTOP)
        found: list[tuple[int, int, tuple[str, ...]]] = []

        async def ask() -> None:
            found.append(await asked(planning, inquiry(pending(2, "more"))))

        group.start_soon(ask)
        await anyio.sleep(0.05)
        os.kill(first, signal.SIGKILL)
        await until(lambda: bool(found), seconds=LONG)
    assert found[0][:2] == (6, 1)


async def test_a_process_that_always_ends_fails_the_plan_and_is_started_again_after_a_pause() -> None:
    async with planning_of(MORTAL) as planning:
        with pytest.raises(PlannerLostError, match="ended 2 times"):
            await asked(planning, inquiry(pending(5)))
        await until(lambda: planning.observation().restarts >= 2, seconds=LONG)


async def test_a_plan_has_a_deadline_and_a_process_that_misses_it_is_ended() -> None:
    async with planning_of(MUTE, timeout_seconds=0.3) as planning:
        await until(lambda: planning.pid is not None, seconds=LONG)
        mute = planning.pid
        assert mute is not None
        with pytest.raises(TimeoutError):
            await asked(planning, inquiry(pending(5)))
        await until(lambda: not is_alive(mute), seconds=LONG)


async def test_a_plan_that_fails_says_where_and_the_next_inquiry_may_begin_anew() -> None:
    async with planning_of() as planning:
        broken = {GROUP: replace(a_group_status()[GROUP], group=cast("Any", None))}
        with pytest.raises(PlanFailedError, match=r"scaleup_planning\.py"):
            await asked(planning, inquiry(pending(5), broken))
        planning.forget()
        assert (await asked(planning, inquiry(pending(3))))[:2] == (2, 1)


async def test_the_process_ends_with_the_service() -> None:
    async with planning_of() as planning:
        await asked(planning, inquiry(pending(1)))
        pid = planning.pid
        assert pid is not None
    await until(lambda: not is_alive(pid), seconds=LONG)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
async def test_the_process_ends_when_whoever_started_it_is_killed(how: signal.Signals) -> None:
    """The parent has no chance to say anything: the end of the pipe says it."""
    code = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen({list(COMMAND)!r}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    async with await anyio.open_process([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=None) as parent:
        assert parent.stdout is not None
        child = int(await parent.stdout.receive())
        assert is_alive(child)
        parent.send_signal(how)
    await until(lambda: not is_alive(child), seconds=LONG)


async def test_an_interrupt_from_the_terminal_is_the_services_business() -> None:
    async with planning_of() as planning:
        await asked(planning, inquiry(pending(1)))
        pid = planning.pid
        assert pid is not None
        os.kill(pid, signal.SIGINT)
        assert (await asked(planning, inquiry(pending(3))))[:2] == (2, 1)
        assert planning.pid == pid
