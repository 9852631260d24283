"""Evacuating nodes one after another equals placing their pods one by one on snapshots rebuilt each time."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import NamedTuple

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from slackwater.fit.assumed_claims import assume_claims
from slackwater.fit.drainability import DrainabilityOutcome, RuleFacts, judge
from slackwater.fit.evacuation import Evacuated, Evacuations, NotEvacuated
from slackwater.fit.feasible_nodes import feasible
from slackwater.fit.remaining_pdb_tracker import Disruptions
from slackwater.model.eviction_facts import EvictionFacts, Owner
from slackwater.model.ids import NodeName, PodUid, Row, UnixTime
from slackwater.model.objects import Labels, Pod, Taint
from slackwater.model.pod_constraints import Kind
from slackwater.model.reasons import UnremovableReason
from slackwater.model.storage import Storage
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.running_pods import RunningPods
from tests.support import installed
from tests.support.builders import a_budget
from tests.support.rows import mounts_on, pods_on
from tests.support.seeds import examples
from tests.support.smallclusters import SmallCluster, small_clusters

#: Drawing a cluster takes a while on a busy machine.
LAW = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
NOW = UnixTime(1e9)
NAMESPACES = {"default": {"team": "x"}, "other": {}}
OWNED = EvictionFacts(owner=Owner("apps", "ReplicaSet", "web"))
FACTS = (OWNED, OWNED, OWNED, OWNED, EvictionFacts(), EvictionFacts(mirror_pod=True), replace(OWNED, safe_to_evict="false"))
BUDGETS = ("a", "b")


@st.composite
def clusters(draw: st.DrawFn) -> SmallCluster:
    """Standing pods of several priorities that may, as a rule, be moved."""
    cluster = draw(small_clusters(most_running=14))
    varied = [
        structs.replace(
            pod,
            priority=draw(st.sampled_from((0, 0, 0, 10))),
            eviction_facts=draw(st.sampled_from(FACTS)),
            deleting=draw(st.sampled_from((False, False, False, True))),
            ready=draw(st.sampled_from((True, True, False))),
        )
        for pod in cluster.running_pods
    ]
    return replace(cluster, running_pods=varied)


def a_snapshot(cluster: SmallCluster, running_pods: Sequence[Pod], storage: Storage) -> ClusterSnapshot:
    known = [pod.kind for pod in (*cluster.running_pods, *cluster.pending)]
    return ClusterSnapshot.build(cluster.nodes, running_pods, also=known, namespaces=NAMESPACES, storage=storage)


class Outcome(NamedTuple):
    """What the obvious way finds: moves in order, or who is in the way and why."""

    moves: list[tuple[PodUid, int]] | None
    blocked_by: tuple[PodUid, UnremovableReason] | None = None


#: Pods that nothing could tell apart.
Like = tuple[Kind, Labels, bool]


@dataclass
class Obvious:
    """Where every pod is, told without forks, kinds or columns: each evacuation looks at a snapshot of its own."""

    cluster: SmallCluster
    facts: RuleFacts
    hints: dict[PodUid, NodeName]
    storage: Storage
    at: dict[PodUid, int] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)
    last: dict[Like, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        row_of = {node.name: row for row, node in enumerate(self.cluster.nodes)}
        self.home = {pod.uid: row_of[pod.node] for pod in self.cluster.running_pods if pod.node}

    def evacuate(self, row: int, rows: list[int]) -> Outcome:
        own = [pod for pod in self.cluster.running_pods if self.home[pod.uid] == row]
        verdicts = [judge(pod, self.facts) for pod in own]
        for pod, verdict in zip(own, verdicts, strict=True):
            if verdict.unremovable_reason is not None:
                return Outcome(None, (pod.uid, verdict.unremovable_reason))
        moving = [pod for pod, verdict in zip(own, verdicts, strict=True) if verdict.outcome is DrainabilityOutcome.MOVE]
        rescheduled_pods = [pod for pod in self.cluster.running_pods if self.at.get(pod.uid) == row]
        snapshot = self._without(row)
        found = self._placed(snapshot, row, [*moving, *rescheduled_pods], [r for r in rows if r != row and r not in self.gone])
        if isinstance(found, Pod):
            return Outcome(None, (found.uid, UnremovableReason.NO_PLACE))
        self.gone.add(row)
        self.storage = snapshot.volumes.assumed()
        self.at |= {pod.uid: to for pod, to in found}
        self.last |= {self._like(snapshot, pod): to for pod, to in found}
        assert self.facts.disruptions is not None
        self.facts.disruptions.spend(moving)
        return Outcome([(pod.uid, to) for pod, to in found])

    def _without(self, row: int) -> ClusterSnapshot:
        """The cluster as it is now, the node tainted and empty."""
        nodes = list(self.cluster.nodes)
        nodes[row] = structs.replace(
            nodes[row], taints=(*nodes[row].taints, Taint("ToBeDeletedByClusterAutoscaler", "", "NoSchedule"))
        )
        running_pods = []
        for pod in self.cluster.running_pods:
            at = self.at.get(pod.uid, self.home[pod.uid])
            moved = pod.uid in self.at
            if at != row and at not in self.gone:
                running_pods.append(structs.replace(pod, node=nodes[at].name, deleting=pod.deleting and not moved))
        snapshot = a_snapshot(replace(self.cluster, nodes=nodes), running_pods, self.storage)
        for gone in self.gone:
            snapshot.close(Row(gone))
        return snapshot

    def _placed(self, snapshot: ClusterSnapshot, row: int, movers: list[Pod], rows: list[int]) -> list[tuple[Pod, int]] | Pod:
        """Where each goes, in order; or the first that finds no place."""
        room = self.cluster.nodes[row].allocatable
        kinds = {pod.uid: snapshot.kind_id(pod.kind, pod.labels) for pod in movers}

        def importance(pod: Pod) -> tuple[object, ...]:
            size = pod.kind.requests.cpu * room.memory + pod.kind.requests.memory * room.cpu
            first = min(i for i, other in enumerate(movers) if kinds[other.uid] == kinds[pod.uid])
            return -pod.priority, -size, first, pod.key

        placed: dict[PodUid, tuple[Pod, int]] = {}
        in_order = sorted(movers, key=importance)
        for pod in in_order:
            hint = snapshot.facts.row_of.get(self.hints.get(pod.uid, NodeName("")))
            if hint is not None:
                self._put(snapshot, pod, [to for to in rows if to == hint], placed)
        for pod in in_order:
            last = self.last.get(self._like(snapshot, pod))
            if pod.uid not in placed:
                last_first = [*(to for to in rows if to == last), *(to for to in rows if to != last)]
                self._put(snapshot, pod, last_first, placed)
        return next((pod for pod in in_order if pod.uid not in placed), list(placed.values()))

    @staticmethod
    def _put(snapshot: ClusterSnapshot, pod: Pod, rows: list[int], placed: dict[PodUid, tuple[Pod, int]]) -> None:
        kind = snapshot.kind_id(pod.kind, pod.labels)
        verdicts = feasible(snapshot, kind)
        for row in rows:
            if verdicts.feasible[row]:
                assume_claims(snapshot, kind, Row(row))
                snapshot.place(kind, row)
                placed[pod.uid] = (pod, row)
                return

    @staticmethod
    def _like(snapshot: ClusterSnapshot, pod: Pod) -> Like:
        return pod.kind, snapshot.kinds.read_part(pod.labels), False


def reported(found: Evacuated | NotEvacuated | None) -> Outcome:
    assert found is not None
    if isinstance(found, NotEvacuated):
        return Outcome(None, (found.pod.uid, found.unremovable_reason))
    return Outcome([(move.pod.uid, move.to) for move in found.moves])


def comparable(outcome: Outcome) -> Outcome:
    """Of several pods without a place, either may be named: a snapshot rebuilt may tell their kinds apart otherwise, and the
    order among pods of one size follows the kinds."""
    if outcome.blocked_by is None or outcome.blocked_by[1] is not UnremovableReason.NO_PLACE:
        return outcome
    return Outcome(None, (PodUid("one of them"), UnremovableReason.NO_PLACE))


def facts_with(disruptions: Disruptions) -> RuleFacts:
    return RuleFacts(now=NOW, policy=installed.BLOCKED_BY, disruptions=disruptions)


@LAW
@given(st.data(), clusters())
def test_evacuations_equal_the_obvious_way(data: st.DataObject, cluster: SmallCluster) -> None:
    n_nodes = len(cluster.nodes)
    allowed = data.draw(st.lists(st.sampled_from((0, 1, 2, 9)), min_size=2, max_size=2))
    of_apps = [a_budget(app, allowed=count, app=app) for app, count in zip(BUDGETS, allowed, strict=True)]
    names = st.sampled_from([node.name for node in cluster.nodes])
    uids = st.sampled_from([pod.uid for pod in cluster.running_pods] or [PodUid("none")])
    hints = data.draw(st.dictionaries(uids, names, max_size=5))
    snapshot = a_snapshot(cluster, cluster.running_pods, cluster.storage)
    evacuations = Evacuations(
        snapshot, RunningPods(snapshot, cluster.running_pods), facts=facts_with(Disruptions(of_apps)), hints=hints
    )
    obvious = Obvious(cluster=cluster, facts=facts_with(Disruptions(of_apps)), hints=hints, storage=cluster.storage)
    for row in data.draw(st.permutations(range(n_nodes))):
        rows = data.draw(st.permutations(range(n_nodes)))
        ours, theirs = reported(evacuations.evacuate(Row(row), rows=np.array(rows))), obvious.evacuate(row, rows)
        assert comparable(ours) == comparable(theirs)
    assert evacuations.destinations == obvious.at
    assert not obvious.gone & set(evacuations.destinations.values())


@LAW
@given(st.data(), clusters())
def test_what_is_evacuated_is_as_if_it_had_always_been_so(data: st.DataObject, cluster: SmallCluster) -> None:
    """The snapshot afterwards equals one built with the pods where they went; dropped, it is as it was before."""
    snapshot = a_snapshot(cluster, cluster.running_pods, cluster.storage)
    before = state(snapshot)
    with snapshot.fork():
        evacuations = Evacuations(snapshot, RunningPods(snapshot, cluster.running_pods), facts=facts_with(Disruptions(())))
        found = [
            evacuations.evacuate(Row(row), rows=np.arange(len(cluster.nodes)))
            for row in data.draw(st.permutations(range(len(cluster.nodes))))
        ]
        gone = {each.row for each in found if isinstance(each, Evacuated)}
        nodes = cluster.nodes
        moved = [
            structs.replace(pod, deleting=False, node=nodes[evacuations.destinations[pod.uid]].name)
            for pod in cluster.running_pods
            if pod.uid in evacuations.destinations
        ]
        stayed = [
            pod
            for pod in cluster.running_pods
            if pod.uid not in evacuations.destinations and snapshot.facts.row_of[pod.node or NodeName("")] not in gone
        ]
        want = a_snapshot(cluster, [*moved, *stayed], snapshot.volumes.assumed())
        assert state(snapshot) == state(want)
        assert [bool(live) for live in snapshot.facts.live[: len(nodes)]] == [row not in gone for row in range(len(nodes))]
    assert state(snapshot) == before


@LAW
@given(clusters(), st.integers(0, 6))
def test_an_evacuation_that_is_cut_off_changes_nothing(cluster: SmallCluster, calls: int) -> None:
    snapshot = a_snapshot(cluster, cluster.running_pods, cluster.storage)
    evacuations = Evacuations(snapshot, RunningPods(snapshot, cluster.running_pods), facts=facts_with(Disruptions(())))
    before = state(snapshot)
    asked = count()
    found = evacuations.evacuate(Row(0), rows=np.arange(snapshot.n_rows), stop=lambda: next(asked) >= calls)
    if not isinstance(found, Evacuated):
        assert state(snapshot) == before
        assert not evacuations.destinations
    if found is None:
        with snapshot.fork():
            others = Evacuations(snapshot, RunningPods(snapshot, cluster.running_pods), facts=facts_with(Disruptions(())))
            want = others.evacuate(Row(0), rows=np.arange(snapshot.n_rows))
        assert evacuations.evacuate(Row(0), rows=np.arange(snapshot.n_rows)) == want


def state(snapshot: ClusterSnapshot) -> dict[str, object]:
    """What stands where; kinds by what they are, since snapshots number them on their own."""

    def named(row: int) -> set[tuple[object, ...]]:
        found = ((snapshot.of(kind), copies) for kind, copies in pods_on(snapshot, row).items())
        return {(kind.kind, tuple(kind.labels.items()), kind.deleting, copies) for kind, copies in found}

    lines = sorted(snapshot.facts.resource.items())
    return {
        "used": [snapshot.used[line, : snapshot.n_rows].tolist() for name, line in lines],
        "pods": [named(row) for row in range(snapshot.n_rows)],
        "mounts": [mounts_on(snapshot, row) for row in range(snapshot.n_rows)],
    }
