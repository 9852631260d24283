"""kube-scheduler asks filter about many nodes and is told one: room is held there alone, and whoever comes back is told all."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import anyio
import numpy as np
import pytest
from msgspec import structs

from slackwater.cluster.nodes import NO_ROW
from slackwater.controllers.placement.loop import FilterNodeChooser, ScoringLoop
from slackwater.controllers.placement.scoring_snapshot import is_scorable
from slackwater.controllers.policy import Policy
from slackwater.model.authority import HandedOverPods
from slackwater.model.events import Event, NodeGone, NodeSeen, PodGone, PodRead, PodSeen, Synced, TimePassed
from slackwater.model.ids import Instant, NodeName, Row
from slackwater.model.objects import Image, Pod, Taint
from slackwater.model.pod_constraints import ClaimMount, ClaimUse, PodConstraints, PodTerm, WeightedPodTerm
from slackwater.model.reasons import Reason
from slackwater.model.scheduler_profile import FilterProfile
from slackwater.model.selectors import Requirement
from slackwater.runtime.change_collector import ChosenChangeCollector
from slackwater.runtime.state_machine import StateMachine
from tests.faults.virtualloop import run_virtually
from tests.support import installed
from tests.support.builders import a_node, a_pod, a_vertical, amounts
from tests.support.invariants import violations

NODES = ("n-0", "n-1", "n-2", "n-3")
#: Our own score says the same of all nodes, so that kube-scheduler's decide: the emptier node is the better one.
FLAT = replace(installed.SCORE, min_usage=1.0, max_usage=1.0)
#: All pods of all namespaces on one node.
ANYWHERE = PodTerm(topology_key="kubernetes.io/hostname", selector=(), namespaces=(), namespace_selector=())


class Cluster:
    """Four equal nodes, and kube-scheduler's questions."""

    def __init__(self, policy: Policy) -> None:
        self.state_machine = StateMachine(policy)
        self.loop = ScoringLoop(self.state_machine, clock=self.clock, weight=1)
        self.choosing = FilterNodeChooser(self.state_machine, self.loop, self.clock)
        for name in NODES:
            self.apply(NodeSeen(structs.replace(a_node(name), scalars=(("pods", 100),))))
        self.apply(Synced())

    def clock(self) -> Instant:
        return Instant(anyio.current_time())

    def apply(self, event: Event) -> None:
        self.state_machine.apply(event, self.clock())
        assert violations(self.state_machine) == []
        self.loop.after_event()

    def comes(self, pod: Pod) -> Pod:
        self.apply(PodSeen(pod))
        return pod

    def ask(self, pod: Pod, *nodes: str) -> list[str]:
        """The nodes that kube-scheduler is told, all of them asked about unless some are named."""
        asked = nodes or NODES
        rows = np.array([self.state_machine.state.nodes.row_of[NodeName(name)] for name in asked], np.intp)
        at = self.choosing.of(pod, rows)
        assert violations(self.state_machine) == []
        if at is not None:
            return [asked[at]]
        codes = self.state_machine.filter(pod, rows, self.clock())
        assert violations(self.state_machine) == []
        return [name for name, code in zip(asked, codes, strict=True) if code == Reason.OK]

    def bind(self, pod: Pod, node: str) -> Reason:
        return self.state_machine.bind(pod.uid, pod.key, NodeName(node), self.clock()).reason

    def bound(self, pod: Pod, node: str) -> None:
        self.apply(PodSeen(structs.replace(pod, node=NodeName(node), resource_version=pod.resource_version + 10)))

    def held(self) -> dict[str, int]:
        """CPU that is held, of the nodes where some is."""
        held = {
            name: int(self.state_machine.state.ledger.columns.held[0, row])
            for name, row in self.state_machine.state.nodes.row_of.items()
        }
        return {name: cpu for name, cpu in held.items() if cpu}

    @property
    def counts(self) -> tuple[int, int]:
        return self.state_machine.chosen_nodes.made, self.state_machine.chosen_nodes.met


def played(story: Any, *, after: float = 0.5, **policy: Any) -> None:
    """The story of a cluster, on virtual time, `after` seconds since the loop was started."""

    async def main() -> None:
        cluster = Cluster(replace(installed.POLICY, **{"score": FLAT} | policy))
        async with anyio.create_task_group() as group:
            group.start_soon(cluster.loop.run)
            await anyio.sleep(after)
            await story(cluster)
            group.cancel_scope.cancel()

    run_virtually(Random(1), main)


def test_of_all_feasible_nodes_the_best_is_returned_and_room_is_held_there_alone() -> None:
    async def story(cluster: Cluster) -> None:
        first = cluster.comes(a_pod("first", cpu="1", memory="1Gi"))
        assert cluster.ask(first, "n-2", "n-3") == ["n-2"]
        assert cluster.held() == {"n-2": 1000}
        second = cluster.comes(a_pod("second", cpu="1", memory="1Gi"))
        assert cluster.ask(second, "n-2", "n-3") == ["n-3"], "the first one stands where it was chosen to, bound or not"
        assert cluster.bind(first, "n-2") is Reason.OK
        cluster.bound(first, "n-2")
        cluster.bound(second, "n-3")
        assert (cluster.counts, cluster.held()) == ((2, 2), {})

    played(story)


def test_a_node_is_chosen_for_the_first_pod_after_the_start_too() -> None:
    async def story(cluster: Cluster) -> None:
        first = cluster.comes(a_pod("first", cpu="1", memory="1Gi"))
        assert cluster.ask(first, "n-2", "n-3") == ["n-2"]

    played(story, after=0.001)


def test_a_pod_that_was_not_handed_over_passes_everywhere_and_no_room_is_held() -> None:
    async def story(cluster: Cluster) -> None:
        for number, node in enumerate(NODES[:3]):
            cluster.bound(cluster.comes(a_pod(f"p-{number}", cpu="3500m")), node)
        left = cluster.comes(a_pod("q", cpu="9", priority=10, namespace="elsewhere"))
        assert (cluster.ask(left), cluster.held()) == (list(NODES), {})
        machine, rows = cluster.state_machine, np.arange(len(NODES))
        assert not machine.prioritize(left, rows, cluster.clock()).any()
        proposed = {NodeName("n-0"): [a_pod("p-0").uid]}
        assert machine.preempt(left, proposed, cluster.clock()) == {NodeName("n-0"): ((a_pod("p-0").uid,), 0)}
        own = cluster.comes(a_pod("r", cpu="1"))
        assert (cluster.ask(own), cluster.held()) == (["n-3"], {"n-3": 1000})

    played(story, handed_over=HandedOverPods(namespaces=(a_pod("r").key.namespace,)))


def test_a_node_that_is_full_for_us_is_never_chosen() -> None:
    async def story(cluster: Cluster) -> None:
        for number, node in enumerate(NODES[:3]):
            cluster.bound(cluster.comes(a_pod(f"p-{number}", cpu="3500m")), node)
        assert cluster.ask(cluster.comes(a_pod("q", cpu="1"))) == ["n-3"]
        assert cluster.ask(cluster.comes(a_pod("r", cpu="9"))) == []

    played(story)


def test_a_changed_score_of_ours_counts_from_the_next_question_on() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.bound(cluster.comes(a_pod("there", cpu="1", memory="4Gi")), "n-2")
        assert cluster.ask(cluster.comes(a_pod("p", cpu="500m", memory="2Gi"))) == ["n-0"]
        packing = replace(installed.SCORE, min_usage=0.0, max_usage=1.0, peak=1.0)
        cluster.state_machine.adopt_policy(replace(cluster.state_machine.policy, score=packing))
        assert cluster.ask(cluster.comes(a_pod("q", cpu="500m", memory="2Gi")), "n-2", "n-3") == ["n-2"]

    played(story)


def test_a_pod_that_is_asked_about_again_is_named_nodes_that_were_not_named_yet_by_the_same_scores() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.bound(cluster.comes(a_pod("there", cpu="1")), "n-1")
        pod = cluster.comes(a_pod("p", cpu="1"))
        assert [cluster.ask(pod) for _ in range(5)] == [["n-0"], ["n-2"], ["n-3"], ["n-1"], ["n-0"]]
        assert cluster.held() == {"n-0": 1000}, "kube-scheduler counts as we do, and asks again: no bind of a former try comes"
        cluster.bound(pod, "n-0")
        assert cluster.counts == (5, 1)

    played(story)


def test_a_hold_that_ends_unused_is_released_after_a_read_and_the_pod_counts_nowhere() -> None:
    async def story(cluster: Cluster) -> None:
        pod = cluster.comes(a_pod("p", cpu="1"))
        (chosen,) = cluster.ask(pod)
        await anyio.sleep(120)
        cluster.apply(TimePassed())
        assert cluster.held() == {chosen: 1000}, "a bind may come"
        cluster.apply(PodRead(pod))
        assert cluster.held() == {}

    played(story)


def test_a_pod_or_a_node_that_goes_leaves_nothing_behind() -> None:
    async def story(cluster: Cluster) -> None:
        gone, left = cluster.comes(a_pod("gone", cpu="1")), cluster.comes(a_pod("left", cpu="1"))
        cluster.ask(gone)
        (node,) = cluster.ask(left)
        cluster.apply(PodGone(gone.uid, gone.key))
        cluster.apply(NodeGone(NodeName(node)))
        assert cluster.held() == {}
        rest = [name for name in NODES if name != node]
        assert len(cluster.ask(left, *rest)) == 1

    played(story)


def _asking(pod: Pod, asks: PodConstraints) -> Pod:
    return structs.replace(pod, kind=replace(pod.kind, pod_constraints=asks))


@pytest.mark.parametrize(
    "changed",
    [
        lambda pod: structs.replace(pod, nominated_node=NodeName("n-1")),
        lambda pod: _asking(pod, PodConstraints(claims=(ClaimMount("c"),))),
        lambda pod: _asking(pod, PodConstraints(resource_claims=(ClaimUse(name="gpu", claim="gpu"),))),
        lambda pod: _asking(pod, PodConstraints(anti_affinity=(ANYWHERE,))),
    ],
    ids=["nominated", "with a claim", "with a resource claim", "apart from pods of namespaces by label"],
)
def test_a_node_is_chosen_where_only_kube_schedulers_filters_judge_the_constraints(
    changed: Callable[[Pod], Pod],
) -> None:
    async def story(cluster: Cluster) -> None:
        pod = cluster.comes(changed(a_pod("p", cpu="1")))
        await anyio.sleep(1.0)
        (chosen,) = cluster.ask(pod)
        assert cluster.held() == {chosen: 1000}

    played(story)


@pytest.mark.parametrize(
    "changed",
    [
        lambda pod: _asking(pod, PodConstraints(preferred_pods=(WeightedPodTerm(1, ANYWHERE),))),
        lambda pod: structs.replace(pod, kind=replace(pod.kind, scheduler_name="other")),
    ],
    ids=["prefers pods of namespaces by label", "of another profile whose scores are not known"],
)
def test_where_kube_schedulers_scores_are_not_known_the_best_by_ours_is_named(changed: Callable[[Pod], Pod]) -> None:
    async def story(cluster: Cluster) -> None:
        cluster.bound(cluster.comes(a_pod("there", cpu="1", memory="4Gi")), "n-2")
        assert cluster.ask(cluster.comes(changed(a_pod("p", cpu="500m", memory="2Gi")))) == ["n-2"]

    packing = replace(installed.SCORE, min_usage=0.0, max_usage=1.0, peak=1.0)
    played(story, score=packing, profiles={"other": FilterProfile()})


def test_before_the_loop_knows_the_cluster_our_score_chooses() -> None:
    async def main() -> None:
        cluster = Cluster(replace(installed.POLICY, score=replace(installed.SCORE, min_usage=0.0, max_usage=1.0, peak=1.0)))
        cluster.bound(cluster.comes(a_pod("there", cpu="1", memory="4Gi")), "n-2")
        assert cluster.ask(cluster.comes(a_pod("p", cpu="500m", memory="2Gi"))) == ["n-2"]
        assert not cluster.loop.caught_up.is_set()

    run_virtually(Random(1), main)


def test_a_selector_that_reads_new_labels_waits_for_a_snapshot_that_has_them() -> None:
    async def story(cluster: Cluster) -> None:
        term = PodTerm(
            topology_key="kubernetes.io/hostname", selector=(Requirement("new", "Exists", ()),), namespaces=("default",)
        )
        asks = PodConstraints(anti_affinity=(term,))
        pods = [
            structs.replace(a_pod(name, labels={"new": "x"}), kind=replace(a_pod(name).kind, pod_constraints=asks))
            for name in "ab"
        ]
        assert cluster.loop.best_of(cluster.comes(pods[0]), np.arange(4)) is None
        await anyio.sleep(0.5)
        assert cluster.loop.best_of(cluster.comes(pods[1]), np.arange(4)) is not None

    played(story)


def test_where_choosing_fails_our_score_chooses_until_the_snapshot_is_built_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(cluster: Cluster) -> None:
        pods = [cluster.comes(a_pod(name, cpu="1")) for name in "abc"]
        with monkeypatch.context() as broken:
            broken.setattr("slackwater.fit.best_node.Samples.best_of", lambda *_: 1 // 0)
            assert cluster.ask(pods[0]) == ["n-0"]
        assert cluster.loop.best_of(pods[1], np.arange(4)) is None
        await anyio.sleep(0.5)
        assert cluster.loop.best_of(pods[2], np.arange(4)) is not None

    played(story)


def test_what_filter_would_refuse_cannot_be_chosen_and_changes_nothing() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.bound(cluster.comes(a_pod("there", cpu="3500m")), "n-0")
        pod, asked = cluster.comes(a_pod("p", cpu="1")), cluster.comes(a_pod("asked", cpu="1"))
        cluster.ask(asked, "n-3")
        before = cluster.state_machine.state.holds.all_of(asked.uid)
        for which, row in ((pod, Row(0)), (pod, NO_ROW), (asked, Row(0))):
            assert not cluster.state_machine.choose(which, row, cluster.clock())
        assert (cluster.counts, cluster.held()) == ((1, 0), {"n-3": 1000})
        assert cluster.state_machine.state.holds.all_of(asked.uid) == before
        assert cluster.ask(pod, "n-1", "n-2") == ["n-1"]

    played(story)


def test_where_the_best_node_by_requests_is_full_by_our_accounting_the_next_best_is_returned() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.apply(NodeGone(NodeName("n-3")))
        cluster.bound(cluster.comes(a_pod("there", cpu="1")), "n-1")
        cluster.bound(cluster.comes(a_pod("there, too", cpu="500m")), "n-2")
        waits = cluster.comes(a_pod("waits", cpu="4"))
        cluster.state_machine.filter(waits, np.array([0], np.intp), cluster.clock())
        assert cluster.held() == {"n-0": 4000}, "no request of it shows in any state of nodes yet"
        assert cluster.ask(cluster.comes(a_pod("p", cpu="1")), "n-0", "n-1", "n-2") == ["n-2"]

    played(story)


def test_what_we_refuse_is_not_compared_with_what_passes() -> None:
    """The node that is full for us has three taints to avoid: beside it the one with one taint would look good."""

    async def story(cluster: Cluster) -> None:
        image = Image(names=("app:latest",), size=3_000_000_000)
        for name, taints, images in (("n-0", "abc", ()), ("n-1", "a", (image,)), ("n-2", "", ())):
            avoided = tuple(Taint(key, "", "PreferNoSchedule") for key in taints)
            node = structs.replace(a_node(name), scalars=(("pods", 100),), taints=avoided, images=images)
            cluster.apply(NodeSeen(node))
        cluster.bound(cluster.comes(a_pod("there", cpu="3500m", memory="14Gi")), "n-2")
        cluster.state_machine.filter(cluster.comes(a_pod("waits", cpu="4")), np.array([0], np.intp), cluster.clock())
        await anyio.sleep(0.5)
        pods = [cluster.comes(a_pod(name, cpu="100m", memory="100Mi")) for name in "pq"]
        pods = [structs.replace(pod, kind=replace(pod.kind, images=("app:latest",))) for pod in pods]
        assert cluster.ask(pods[0], "n-0", "n-1", "n-2") == ["n-2"]
        assert cluster.ask(pods[1], "n-1", "n-2") == ["n-2"]

    played(story)


def test_a_node_that_we_do_not_know_is_left_out() -> None:
    async def story(cluster: Cluster) -> None:
        pod = cluster.comes(a_pod("p", cpu="1"))
        rows = np.array([NO_ROW, 1, 2], np.intp)
        assert cluster.choosing.of(pod, rows) == 1
        assert cluster.held() == {"n-1": 1000}

    played(story)


def test_a_pod_that_grows_gets_no_room_that_others_may_be_bound_to() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.state_machine.filter(cluster.comes(a_pod("a", cpu="3")), np.array([0, 1], np.intp), cluster.clock())
        grows = structs.replace(a_pod("v", cpu="2"), vertical=a_vertical(using=amounts("2", "4Gi")))
        assert cluster.ask(cluster.comes(grows), "n-0", "n-1") == ["n-1"]
        assert cluster.held() == {"n-0": 3000, "n-1": 2000}

    played(story)


def test_followers_of_the_state_see_a_pod_on_its_chosen_or_nominated_node() -> None:
    async def story(cluster: Cluster) -> None:
        collector = ChosenChangeCollector(cluster.state_machine)

        def shown() -> list[str | None]:
            return [None if change.pod is None else change.pod.node for change in collector.rest().pods]

        pod = cluster.comes(a_pod("p", cpu="1"))
        assert shown() == [None]
        (chosen,) = cluster.ask(pod)
        assert shown() == [chosen]
        (again,) = cluster.ask(pod)
        assert shown() == [again]
        cluster.state_machine.filter(pod, np.array([NO_ROW], np.intp), cluster.clock())
        assert shown() == [None], "no bind can come any more: kube-scheduler has asked again, and was refused"
        cluster.comes(structs.replace(a_pod("foreign"), nominated_node=NodeName("n-1")))
        assert shown() == ["n-1"]

    played(story)


def test_more_changes_than_filter_would_apply_itself_are_applied_without_a_pause() -> None:
    async def story(cluster: Cluster) -> None:
        pods = [cluster.comes(a_pod(f"p-{number}", cpu="1m")) for number in range(300)]
        assert cluster.loop.best_of(pods[0], np.arange(4)) is None
        await anyio.sleep(0.01)
        assert cluster.loop.best_of(pods[1], np.arange(4)) is not None

    played(story)


@pytest.mark.parametrize(("volumes_scored", "scorable"), [(False, True), (True, False)])
def test_claims_may_be_mounted_where_no_score_reads_them(volumes_scored: bool, scorable: bool) -> None:
    claims = _asking(a_pod("c"), PodConstraints(claims=(ClaimMount("c"),)))
    assert is_scorable(claims, volumes_scored=volumes_scored) is scorable
