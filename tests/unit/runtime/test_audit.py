"""The audit on cluster states that were broken on purpose: what it names, what it puts right, and what it leaves alone."""

from dataclasses import replace

import anyio
import anyio.lowlevel
import numpy as np
import pytest
from msgspec import structs

from slackwater.controllers.audit.differences import Drift
from slackwater.controllers.audit.loop import Audit
from slackwater.model.events import Event, NodeAudited, NodeGone, NodeSeen, ObjectUnreadable, PodGone, PodSeen, Synced
from slackwater.model.ids import Instant, NodeName
from slackwater.model.objects import Node, Pod
from slackwater.model.pod_resources import ordinary_resources
from slackwater.model.reasons import Reason
from slackwater.model.resources import CPU
from slackwater.runtime.state_machine import StateMachine
from tests.support import installed
from tests.support.audited import Cluster
from tests.support.builders import a_node, a_pod, amounts
from tests.support.invariants import violations

NOW = Instant(100.0)
pytestmark = pytest.mark.anyio


class Story:
    """Two nodes with a pod each and a pending pod, in the cluster state as in the cluster."""

    def __init__(self, **config: float) -> None:
        self.state_machine = StateMachine(replace(installed.POLICY, bind=True))
        self.audited = anyio.Event()
        self.cluster = Cluster()
        numbers = {"settle_seconds": 0.0, **config}
        self.audit = Audit(self.state_machine.state, self.cluster, self.take, config=replace(installed.AUDIT, **numbers))  # type: ignore[arg-type]
        self.one, self.two = a_node("n1"), a_node("n2")
        self.first, self.second = a_pod("first", on="n1"), a_pod("second", on="n2", cpu="1")
        self.waiting = a_pod("waiting", cpu="2")
        self.both(self.one, self.two, self.first, self.second, self.waiting)
        self.take(Synced())

    def take(self, event: Event) -> None:
        self.state_machine.apply(event, NOW)
        if isinstance(event, NodeAudited):
            self.audited.set()

    def both(self, *objects: Node | Pod) -> None:
        self.cluster.has(*objects)
        for each in objects:
            self.take(NodeSeen(each) if isinstance(each, Node) else PodSeen(each))

    async def found(self) -> dict[Drift, int]:
        """One audit; the cluster state is the cluster afterwards, and its sums add up."""
        before = dict(self.audit.counts.drifts)
        assert await self.audit.audit()
        assert violations(self.state_machine) == []
        assert {pod.key: pod for pod in self.state_machine.state.pods} == self.cluster.pods_now
        assert {node.name: node for _, node in self.state_machine.state.nodes} == self.cluster.nodes_now
        return {drift: n - before[drift] for drift, n in self.audit.counts.drifts.items() if n > before[drift]}

    def verdicts(self, pod: Pod) -> dict[str, Reason]:
        names = sorted(self.state_machine.state.nodes.row_of)
        codes = self.state_machine.filter(pod, self.state_machine.state.nodes.rows_of(names), NOW)
        return dict(zip(names, map(Reason, codes.tolist()), strict=True))

    def reserved(self, name: str) -> int:
        return int(self.state_machine.state.ledger.columns.reserved[CPU, self.state_machine.state.nodes.row_of[NodeName(name)]])


async def test_a_state_that_equals_the_cluster_is_left_alone() -> None:
    story = Story()
    generation = story.state_machine.generation
    assert await story.found() == {}
    assert story.state_machine.generation == generation
    assert story.cluster.reads == []


async def test_a_bound_pod_that_the_watch_missed_counts_after_the_audit() -> None:
    story = Story()
    story.cluster.has(a_pod("unheard", on="n1", cpu="1500m"))
    assert await story.found() == {Drift.UNKNOWN_POD: 1}
    assert story.reserved("n1") == 2000


async def test_a_missed_bind_is_repaired() -> None:
    story = Story()
    story.cluster.has(structs.replace(story.waiting, node=NodeName("n2"), resource_version=story.cluster.version + 1))
    assert await story.found() == {Drift.MISSED_EVENT: 1}
    assert story.reserved("n2") == 3000


async def test_a_missed_deletion_is_repaired() -> None:
    story = Story()
    del story.cluster.pods_now[story.first.key]
    assert await story.found() == {Drift.STALE_OBJECT: 1}
    assert story.reserved("n1") == 0


async def test_a_pod_replaced_under_its_name_is_another_pod() -> None:
    story = Story()
    story.cluster.has(a_pod("first", on="n2", uid="another"))
    assert await story.found() == {Drift.STALE_OBJECT: 1, Drift.UNKNOWN_POD: 1}
    assert (story.reserved("n1"), story.reserved("n2")) == (0, 1500)


async def test_nodes_are_held_against_the_cluster_too() -> None:
    story = Story()
    del story.cluster.nodes_now["n2"]
    grown = structs.replace(story.one, allocatable=amounts("8", "32Gi"), resource_version=story.cluster.version + 1)
    story.cluster.has(a_node("n3"), grown)
    assert await story.found() == {Drift.STALE_OBJECT: 1, Drift.UNKNOWN_NODE: 1, Drift.MISSED_EVENT: 1}


async def test_a_node_created_again_under_its_name_is_another_node() -> None:
    story = Story()
    story.cluster.has(structs.replace(a_node("n1", cpu="2"), uid="another"))
    assert await story.found() == {Drift.MISSED_EVENT: 1}
    assert story.reserved("n1") == 500


async def test_an_object_that_differs_in_the_same_version_is_read_again() -> None:
    story = Story()
    story.take(PodSeen(structs.replace(story.first, node=NodeName("n2"))))
    story.take(NodeSeen(structs.replace(story.one, unschedulable=True)))
    assert await story.found() == {Drift.ALTERED_OBJECT: 2}
    assert story.reserved("n1") == 500


async def test_a_pod_that_counts_for_other_amounts_counts_for_its_requests_again() -> None:
    story = Story()
    story.state_machine.state.reservations.recount(story.first.uid, ordinary_resources(amounts("3", "1Gi")))
    assert violations(story.state_machine) == []  # the sums follow; only the cluster tells
    assert await story.found() == {Drift.WRONG_ACCOUNT: 1}
    assert story.reserved("n1") == 500


async def test_a_pod_that_counts_nowhere_counts_again_and_one_that_counts_elsewhere_moves() -> None:
    story = Story()
    claim = story.state_machine.state.reservations.drop(story.first.uid)
    assert claim is not None
    moved = story.state_machine.state.reservations.get(story.second.uid)
    assert moved is not None
    story.state_machine.state.reservations.put(story.second.uid, structs.replace(moved, node=NodeName("n1")))
    story.state_machine.state.reservations.put(story.waiting.uid, structs.replace(claim, key=story.waiting.key))
    assert await story.found() == {Drift.WRONG_PLACE: 3}
    assert (story.reserved("n1"), story.reserved("n2")) == (500, 1000)


async def test_what_changed_while_it_was_listed_is_no_difference() -> None:
    story = Story()
    bound = structs.replace(story.waiting, node=NodeName("n1"), resource_version=story.cluster.version + 1)
    new = a_pod("new", on="n2")
    story.cluster.has(bound, new)
    late = structs.replace(story.second, deleting=True, resource_version=story.cluster.version + 1)

    def the_watch_catches_up() -> None:
        story.take(PodSeen(bound))
        story.take(PodSeen(new))
        story.both(late)  # newer than what was listed
        story.take(PodGone(story.first.uid, story.first.key))
        del story.cluster.pods_now[story.first.key]

    story.cluster.after_list = the_watch_catches_up
    assert await story.found() == {}
    assert story.cluster.reads == []


async def test_a_pod_that_came_and_went_while_it_was_listed_stays_gone() -> None:
    story = Story()
    brief = a_pod("brief", on="n1")
    story.cluster.has(brief)

    def it_goes_unheard() -> None:
        del story.cluster.pods_now[brief.key]

    story.cluster.after_list = it_goes_unheard
    assert await story.found() == {}
    assert story.reserved("n1") == 500


async def test_an_object_that_cannot_be_read_is_not_taken_for_a_deleted_one() -> None:
    story = Story()
    story.cluster.unreadable = ((story.first.uid, "first"), (story.one.uid, "n1"))
    del story.cluster.pods_now[story.first.key], story.cluster.nodes_now["n1"]
    assert await story.audit.audit()
    assert not story.audit.counts.drifts.total()
    assert story.reserved("n1") == 500


async def test_an_unreadable_object_that_is_gone_or_has_ended_closes_nothing_after_the_audit() -> None:
    story = Story()
    story.take(ObjectUnreadable("never-read", "pod default/never-read", NodeName("n1"), "broken"))
    story.take(ObjectUnreadable(story.second.uid, "pod default/second", NodeName("n2"), "broken"))
    story.cluster.unreadable = ((story.second.uid, "second"),)
    del story.cluster.pods_now[story.second.key]
    assert await story.audit.audit()
    assert story.verdicts(story.waiting) == {"n1": Reason.OK, "n2": Reason.NODE_QUARANTINED}, "one is there still"
    story.cluster.unreadable = ()
    await story.found()
    assert story.verdicts(story.waiting) == {"n1": Reason.OK, "n2": Reason.OK}
    assert story.reserved("n2") == 0


async def test_what_could_not_be_applied_once_is_applied_by_the_audit() -> None:
    story = Story()
    story.take(ObjectUnreadable(story.first.uid, "pod default/first", NodeName("n1"), "KeyError"))
    story.take(ObjectUnreadable(story.two.uid, "node n2", NodeName("n2"), "KeyError"))
    assert await story.found() == {Drift.ALTERED_OBJECT: 2}
    assert story.verdicts(story.waiting) == {"n1": Reason.OK, "n2": Reason.OK}


async def test_a_node_whose_sums_are_wrong_takes_no_new_pods_until_the_audit_has_repaired_it() -> None:
    story = Story()
    row = story.state_machine.state.nodes.row_of[NodeName("n1")]
    story.state_machine.state.ledger.columns.reserved[CPU, row] -= 400
    story.audit.sample()
    assert story.verdicts(story.waiting) == {"n1": Reason.NODE_QUARANTINED, "n2": Reason.OK}
    refused = story.state_machine.bind(story.waiting.uid, story.waiting.key, NodeName("n1"), NOW)
    assert refused.reason is Reason.NODE_QUARANTINED
    assert story.audit.counts.quarantines == 1
    assert await story.found() == {Drift.WRONG_SUM: 1}
    assert story.verdicts(story.waiting) == {"n1": Reason.OK, "n2": Reason.OK}
    assert story.reserved("n1") == 500


def test_wrong_held_amounts_are_found_by_the_fourth_sample_at_the_latest() -> None:
    story = Story()
    story.audit.sample()
    row = story.state_machine.state.nodes.row_of[NodeName("n1")]
    story.state_machine.state.ledger.columns.held[CPU, row] += 7
    for _ in range(4):
        story.audit.sample()
    assert {name for name, _ in story.state_machine.state.quarantine.items()} == {"n1"}


async def test_wrong_held_amounts_and_a_wrong_total_are_found_and_repaired() -> None:
    story = Story(round_seconds=0.25)
    one, two = (story.state_machine.state.nodes.row_of[NodeName(name)] for name in ("n1", "n2"))
    assert story.verdicts(a_pod("asks"))["n1"] is Reason.OK
    story.state_machine.state.ledger.columns.held[CPU, one] += 7
    story.state_machine.state.ledger.columns.total[CPU, two] += 1
    story.audit.sample()
    assert {name for name, _ in story.state_machine.state.quarantine.items()} == {"n1", "n2"}
    assert await story.found() == {Drift.WRONG_HELD: 1, Drift.WRONG_TOTAL: 1}
    assert len(story.state_machine.state.quarantine) == 0


async def test_a_doubted_node_in_order_leaves_quarantine_and_pods_are_activated() -> None:
    story = Story()
    story.take(NodeGone(NodeName("n2")))
    del story.cluster.nodes_now["n2"]
    story.state_machine.state.quarantine.put(NodeName("n1"), "a test says so", NOW)
    assert story.verdicts(story.waiting) == {"n1": Reason.NODE_QUARANTINED}
    freed = story.state_machine.state.nodes.room_version[story.state_machine.state.nodes.row_of[NodeName("n1")]]
    assert await story.found() == {}
    assert len(story.state_machine.state.quarantine) == 0
    assert story.state_machine.state.nodes.room_version[story.state_machine.state.nodes.row_of[NodeName("n1")]] > freed


async def test_a_node_stays_in_quarantine_while_its_pods_are_not_all_looked_at() -> None:
    story = Story(most_read=1)
    story.cluster.has(a_pod("x", on="n1"), a_pod("y", on="n1"))
    story.state_machine.state.quarantine.put(NodeName("n1"), "a test says so", NOW)
    assert await story.audit.audit()
    assert (story.audit.counts.last_left, len(story.state_machine.state.quarantine)) == (1, 1)
    assert await story.found() == {Drift.UNKNOWN_POD: 1}
    assert (story.audit.counts.last_left, len(story.state_machine.state.quarantine)) == (0, 0)


async def test_without_an_answer_nothing_is_decided() -> None:
    story = Story()
    story.state_machine.state.quarantine.put(NodeName("n1"), "a test says so", NOW)
    story.cluster.has(a_pod("unheard", on="n1"))
    story.cluster.down = True
    assert not await story.audit.audit()
    assert (story.audit.counts.failed, len(story.state_machine.state.quarantine), len(story.state_machine.state.pods)) == (
        1,
        1,
        3,
    )


async def test_a_wrong_sum_is_found_by_sampling_and_repaired_long_before_the_interval_is_over() -> None:
    story = Story(interval=3600.0, sample_seconds=0.01)
    row = story.state_machine.state.nodes.row_of[NodeName("n2")]
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(story.audit.run)
            story.state_machine.state.ledger.columns.buffer[CPU, row] += 5
            await story.audited.wait()
            group.cancel_scope.cancel()
    assert (story.audit.counts.quarantines, len(story.state_machine.state.quarantine)) == (1, 0)
    assert not np.any(story.state_machine.state.ledger.columns.buffer)


async def test_a_node_that_could_not_be_cleared_is_cleared_as_soon_as_the_api_server_answers() -> None:
    story = Story(interval=3600.0, sample_seconds=0.01, spacing_seconds=0.01)
    story.cluster.down = True
    row = story.state_machine.state.nodes.row_of[NodeName("n2")]
    story.state_machine.state.ledger.columns.reserved[CPU, row] += 5
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(story.audit.run)
            while story.audit.counts.failed < 3:
                await anyio.lowlevel.checkpoint()
            assert len(story.state_machine.state.quarantine) == 1
            story.cluster.down = False
            await story.audited.wait()
            group.cancel_scope.cancel()
    assert (story.audit.counts.quarantines, len(story.state_machine.state.quarantine)) == (1, 0)


async def test_an_interval_of_zero_is_no_audit() -> None:
    story = Story(interval=0.0)
    with anyio.fail_after(60):
        await story.audit.run()
    assert story.audit.counts.audits == 0
