"""The planning process: fed and asked a piece at a time, missed at once when it ends, and never left behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

import anyio
import pytest
from msgspec import structs

from slackwater.cluster.nodegroups.status import NodeGroupStatus
from slackwater.controllers.consolidation.loop import ConsolidationInquiry
from slackwater.controllers.consolidation.outcome import ConsolidationPlan
from slackwater.controllers.loop_plans import Inquiry, ScaleUpRules
from slackwater.controllers.scaledown.replica_plan import ScaleDownInquiry
from slackwater.controllers.scaledown.state import ScaleDownState
from slackwater.model.auxiliary import AuxiliaryObjects
from slackwater.model.changes import Changes
from slackwater.model.eviction_facts import EvictionFacts, Owner
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.nodegroups import GroupName, NodeGroup
from slackwater.model.objects import Pod
from slackwater.model.prices import PriceBook
from slackwater.ports.clock import Watch
from slackwater.runtime.planner.process import COMMAND, PlanFailedError, PlannerLostError
from slackwater_protocol.names import NODE_GROUP
from tests.support import installed
from tests.support.builders import a_pod
from tests.support.questions import LONG, Asked, Whole, a_process, clock, is_alive, machine
from tests.support.waiting import eventually, until

pytestmark = pytest.mark.anyio

RULES: Final = ScaleUpRules(policy=replace(installed.SCALE_UP, pending=replace(installed.PENDING, after_scheduler=False)))
GROUP: Final = GroupName("a")
#: Ends as soon as it has read something.
MORTAL: Final = (sys.executable, "-c", "import sys; sys.stdin.buffer.read(1); sys.exit(3)")
#: Reads, and never answers.
MUTE: Final = (sys.executable, "-c", "import sys; sys.stdin.buffer.read()")


def a_group_status() -> dict[GroupName, NodeGroupStatus]:
    template = machine("template")
    group = NodeGroup(name=GROUP, provider="cloud", min_size=0, max_size=9000, target=0, instances=(), template=template)
    return {
        GROUP: NodeGroupStatus(
            group=group, known=True, ready=(), unready=(), starting=(), coming=0, missing=0, lost=(), leaving=0
        )
    }


def inquiry(group_status: dict[GroupName, NodeGroupStatus] | None = None) -> Callable[[Changes, AuxiliaryObjects], Inquiry]:
    status = a_group_status() if group_status is None else group_status
    return lambda changes, _: Inquiry(changes=changes, rules=RULES, group_status=status, now=UnixTime(2e9))


def pending(count: int, tag: str = "p") -> list[Pod]:
    """Each takes a node of the group for itself."""
    return [a_pod(f"{tag}{number}", cpu="4", memory="1Gi") for number in range(count)]


async def plan(cluster: Asked, pods: Iterable[Pod] = ()) -> tuple[int, int, tuple[str, ...]]:
    """New nodes, pods that have a place already, and what people are told, with these pods besides."""
    cluster.has(*pods)
    plans = await cluster.process.plan(inquiry(), Watch(clock))
    nodes = sum(scale_up.count for scale_up in plans.scale_ups)
    return nodes, plans.pending.schedulable, plans.notes


async def test_it_plans_and_follows_what_changed() -> None:
    pods = pending(5)
    async with a_process() as cluster:
        assert await plan(cluster, pods) == (4, 1, ())
        cluster.loses(pods[:2])
        assert await plan(cluster) == (2, 1, ())
        assert cluster.process.observation().resident_bytes > 10 << 20


async def test_scale_ups_hold_the_same_pod_objects_that_were_sent() -> None:
    pods = pending(3)
    async with a_process() as cluster:
        cluster.has(*pods)
        plans = await cluster.process.plan(inquiry(), Watch(clock))
    known = {id(pod) for pod in pods}
    assert all(id(pod) in known for scale_up in plans.scale_ups for pod in scale_up.pods)


async def test_a_process_that_is_killed_is_missed_at_once_and_the_next_one_knows_everything() -> None:
    async with a_process() as cluster:
        process = cluster.process
        await plan(cluster, pending(5))
        first = process.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await until(lambda: process.pid not in (first, None), seconds=LONG)
        nodes, placed, notes = await plan(cluster)
        assert (nodes, placed, process.observation().restarts) == (4, 1, 1)
        assert len(notes) == 1
        assert "SIGKILL" in notes[0]
        assert (await plan(cluster))[2] == ()


async def test_a_plan_during_which_the_process_is_killed_is_made_by_the_next_one() -> None:
    async with a_process() as cluster, anyio.create_task_group() as group:
        await plan(cluster, pending(5))
        first = cluster.process.pid
        assert first is not None
        os.kill(first, signal.SIGSTOP)
        found: list[tuple[int, int, tuple[str, ...]]] = []

        async def ask() -> None:
            found.append(await plan(cluster, pending(2, "more")))

        group.start_soon(ask)
        await anyio.sleep(0.05)
        os.kill(first, signal.SIGKILL)
        await until(lambda: bool(found), seconds=LONG)
    assert found[0][:2] == (6, 1)


async def test_a_question_does_not_wait_for_a_plan(tmp_path: Path) -> None:
    """The plan goes on after the questions have been answered: which of two processes is quicker is the machine's affair."""
    go_on = tmp_path / "go on"
    command = (sys.executable, "-m", "tests.support.slowplanner", str(go_on))
    async with a_process(command=command, answer_seconds=LONG) as cluster, anyio.create_task_group() as group:
        process, ended = cluster.process, list[str]()
        await process.ask(Whole)
        many = [a_pod(f"p{number}", cpu=f"{1000 + number}m", memory="1Gi") for number in range(300)]

        async def ask() -> None:
            await plan(cluster, many)
            ended.append("plan")

        group.start_soon(ask)
        await until(lambda: process._link is not None and process._link._plan is not None, seconds=LONG)
        answers = [(await process.ask(Whole)).decode() for _ in range(2)]
        ended.append("questions")
        go_on.touch()
        await until(lambda: len(ended) == 2, seconds=LONG)
    assert ended == ["questions", "plan"]
    assert all("'n1': 0" in answer and answer.count("'p") == 300 for answer in answers)


async def test_a_process_that_always_ends_fails_the_plan_and_is_started_again_after_a_pause() -> None:
    async with a_process(command=MORTAL) as cluster:
        with pytest.raises(PlannerLostError, match="ended 2 times"):
            await plan(cluster, pending(5))
        await until(lambda: cluster.process.observation().restarts >= 2, seconds=LONG)


async def test_a_plan_has_a_deadline_and_a_process_that_misses_it_is_ended() -> None:
    async with a_process(command=MUTE, plan_seconds=0.3) as cluster:
        with pytest.raises(TimeoutError):
            await plan(cluster, pending(5))
        mute = cluster.process.pid
        assert mute is not None
        await until(lambda: not is_alive(mute), seconds=LONG)


async def test_a_process_that_hangs_is_ended_and_the_next_one_makes_its_plan() -> None:
    async with a_process(silent_seconds=2.0) as cluster, anyio.create_task_group() as group:
        process = cluster.process
        await plan(cluster, pending(5))
        first = process.pid
        assert first is not None
        os.kill(first, signal.SIGSTOP)
        found: list[tuple[int, int, tuple[str, ...]]] = []

        async def ask() -> None:
            found.append(await plan(cluster, pending(2, "more")))

        group.start_soon(ask)
        await until(lambda: process.observation().silent_seconds > 0.1, seconds=LONG)
        await until(lambda: bool(found), seconds=LONG)
    assert found[0][:2] == (6, 1)
    assert "hung" in found[0][2][0]
    assert process.observation().silent_seconds == 0


async def test_a_process_that_works_for_longer_is_not_taken_for_one_that_hangs(tmp_path: Path) -> None:
    """It reads the clock at each step, which shows that it works."""
    go_on = tmp_path / "go on"
    command = (sys.executable, "-m", "tests.support.slowplanner", str(go_on))
    async with a_process(command=command, silent_seconds=5.0) as cluster, anyio.create_task_group() as group:
        group.start_soon(plan, cluster, pending(5))
        await until(lambda: cluster.process._link is not None and cluster.process._link._plan is not None, seconds=LONG)
        for _ in range(3):  # waits for what happens while it works, however slow this machine is
            link = cluster.process._link
            assert link is not None
            heard = link._heard_at
            await until(lambda heard=heard, link=link: link._heard_at != heard, seconds=LONG)  # type: ignore[misc]
        go_on.touch()
    assert cluster.process.observation().restarts == 0


async def test_a_plan_that_fails_says_where_and_the_next_inquiry_may_be_sent() -> None:
    async with a_process() as cluster:
        broken = {GROUP: replace(a_group_status()[GROUP], group=cast("Any", None))}
        cluster.has(*pending(3))
        with pytest.raises(PlanFailedError, match=r"loop_plans\.py"):
            await cluster.process.plan(inquiry(broken), Watch(clock))
        cluster.process.forget()
        assert (await plan(cluster))[:2] == (2, 1)


async def test_the_process_ends_with_the_service() -> None:
    async with a_process() as cluster:
        await plan(cluster, pending(1))
        pid = cluster.process.pid
        assert pid is not None
    await until(lambda: not is_alive(pid), seconds=LONG)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
async def test_the_process_ends_when_its_parent_is_killed(how: signal.Signals) -> None:
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
    async with a_process() as cluster:
        await plan(cluster, pending(1))
        pid = cluster.process.pid
        assert pid is not None
        os.kill(pid, signal.SIGINT)
        assert (await plan(cluster, pending(3)))[:2] == (2, 1)
        assert cluster.process.pid == pid


async def test_a_consolidation_plan_arrives_by_the_way() -> None:
    """A large node with one small pod, and a group of small ones."""
    small = replace(a_group_status()[GROUP].group, name=GroupName("small"))
    large = replace(small, name=GroupName("large"), target=1, template=machine("large"))
    status = {
        group.name: replace(a_group_status()[GROUP], group=group, ready=ready)
        for group, ready in ((small, ()), (large, (NodeName("n1"),)))
    }
    book = PriceBook(configured={small.name: 1, large.name: 10})
    rules = replace(RULES, policy=replace(RULES.policy, prices=book))
    policy = replace(installed.CONSOLIDATION, enabled=True)

    def make(changes: Changes, _: AuxiliaryObjects) -> Inquiry:
        return Inquiry(
            changes=changes,
            rules=rules,
            group_status=status,
            now=UnixTime(2e9),
            scale_down=ScaleDownInquiry(state=ScaleDownState(), policy=installed.SCALE_DOWN),
            consolidation=ConsolidationInquiry(policy=policy),
        )

    async with a_process() as cluster:
        node = structs.replace(machine("n1"), labels={NODE_GROUP: "large"})
        owned = EvictionFacts(owner=Owner("apps", "ReplicaSet", "web"))
        cluster.has(node, structs.replace(a_pod("p", on="n1", cpu="1", memory="1Gi"), eviction_facts=owned))
        process, watch = cluster.process, Watch(clock)
        assert not process.consolidates
        await process.plan(make, watch)
        proposal = await process.scale_down(watch)
        assert proposal is not None
        assert process.consolidates
        plan = await eventually(
            lambda: process.consolidation(watch), lambda found: found is not None, within_seconds=60.0, wanted="a plan"
        )
        assert not process.consolidates
        assert isinstance(plan, ConsolidationPlan)
        assert [(each.uid, each.of) for move in plan.moves for each in move.pods] == [("uid-p", "n1")]
        assert [each.owner for move in plan.moves for each in move.coming] == ["small"]
