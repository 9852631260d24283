"""Nominations ahead of kube-scheduler's search: the room is kept, and a miss is counted by its reason and harms nobody."""

from dataclasses import replace
from typing import Any

import pytest

from slackwater.controllers.nomination.aimd_window import WindowPolicy
from slackwater.controllers.nomination.counts import Miss
from slackwater.controllers.policy import NominationPolicy, Policy, PreemptionPolicy
from slackwater.model.effects import Effect, NominateInAdvance, OpenGate
from slackwater.model.events import AdvanceNominationEnded, NodeGone, NodeSeen, PodGone, PodNomination, PodsNominated
from slackwater.model.ids import NodeName
from slackwater.model.objects import Pod
from slackwater.model.reasons import Reason
from slackwater.runtime.change_collector import NominatedChangeCollector
from slackwater_protocol.names import GATE
from tests.support.builders import a_node, a_pod
from tests.support.small_state_machine import M, N, SmallStateMachine


class Cluster(SmallStateMachine):
    """Pods are nominated."""

    def __init__(self, **steering: Any) -> None:
        policy = NominationPolicy(enabled=True, hold_seconds=30.0, nomination_window=WindowPolicy(), **steering)
        super().__init__(Policy(nomination=policy))

    def tell(self, pod: Pod, node: NodeName = N) -> list[Effect]:
        return self.apply(PodsNominated((PodNomination(pod.uid, node),)))

    def written(self, pod: Pod, node: NodeName = N, *, written: bool = True) -> Pod:
        """The API server has the nomination, and the watch shows it."""
        self.apply(AdvanceNominationEnded(pod.uid, node, written))
        return self.comes(replace(pod, nominated_node=node, resource_version=pod.resource_version + 1)) if written else pod

    @property
    def missed(self) -> dict[Miss, int]:
        return {why: count for why, count in self.state_machine.advance_nominations.counts.missed.items() if count}

    @property
    def met(self) -> int:
        return self.state_machine.advance_nominations.counts.met


def bound(pod: Pod, node: NodeName = N) -> Pod:
    return replace(pod, node=node, resource_version=pod.resource_version + 10)


def test_a_pod_is_nominated_its_room_is_held_and_a_bind_there_is_a_hit() -> None:
    cluster = Cluster()
    pod = cluster.comes(a_pod("p", cpu="1"))
    assert cluster.tell(pod) == [NominateInAdvance(pod.uid, pod.key, N, pod.resource_version)]
    assert cluster.held() == 1000

    pod = cluster.written(pod)
    assert cluster.ask(pod, N) == [Reason.OK]
    assert cluster.held() == 1000, "once, not twice"
    assert cluster.state_machine.bind(pod.uid, pod.key, N, cluster.now).reason is Reason.OK
    cluster.comes(bound(pod))
    assert (cluster.met, cluster.missed, cluster.held()) == (1, {}, 0)


def test_no_other_pod_gets_the_room_of_a_nomination() -> None:
    cluster = Cluster()
    cluster.tell(cluster.comes(a_pod("p", cpu="3")))
    other = cluster.comes(a_pod("other", cpu="2"))
    assert cluster.ask(other, N, M) == [Reason.HELD_FOR_OTHERS, Reason.OK]
    third = cluster.comes(a_pod("third", cpu="2"))
    assert cluster.tell(third, N) == []
    assert cluster.state_machine.advance_nominations.counts.dropped == 1


def test_an_unused_nomination_expires_and_releases_its_room() -> None:
    cluster = Cluster()
    pod = cluster.comes(a_pod("p", cpu="1"))
    cluster.tell(pod)
    cluster.written(pod)
    cluster.after(29)
    assert cluster.held() == 1000
    cluster.after(2)
    assert (cluster.held(), cluster.missed, len(cluster.state_machine.advance_nominations)) == (0, {Miss.EXPIRED: 1}, 0)


def test_as_long_as_kube_scheduler_takes_pods_the_room_of_a_nomination_is_kept_but_not_for_ever() -> None:
    cluster = Cluster()
    cluster.tell(cluster.comes(a_pod("p", cpu="1")))
    for number in range(28):
        cluster.after(10)
        cluster.ask(cluster.comes(a_pod(f"other-{number}", cpu="1m")), M)
        assert cluster.held() == 1000
    cluster.after(29)
    assert cluster.held() == 0
    assert cluster.missed == {Miss.EXPIRED: 1}


def test_the_room_of_a_nomination_goes_some_time_after_the_last_pod_that_kube_scheduler_took() -> None:
    cluster = Cluster()
    cluster.tell(cluster.comes(a_pod("p", cpu="1")))
    cluster.after(20)
    cluster.ask(cluster.comes(a_pod("other", cpu="1m")), M)
    cluster.after(29)
    assert cluster.held() == 1000
    cluster.after(2)
    assert (cluster.held(), cluster.missed) == (0, {Miss.EXPIRED: 1})


def test_a_search_that_had_begun_before_the_nomination_was_written_was_missed_as_late() -> None:
    cluster = Cluster()
    pod = cluster.comes(a_pod("p", cpu="1"))
    cluster.tell(pod)
    assert cluster.ask(pod, N, M) == [Reason.OK, Reason.OK]
    assert cluster.missed == {Miss.LATE: 1}
    cluster.apply(AdvanceNominationEnded(pod.uid, N, True))
    cluster.comes(bound(pod, M))
    assert (cluster.met, cluster.missed) == (0, {Miss.LATE: 1})


@pytest.mark.parametrize(("knows", "want"), [(True, Miss.REFUSED_IN_TREE), (False, Miss.LATE)])
@pytest.mark.parametrize("seconds", [0, 5])
def test_a_search_after_the_nomination_was_seen_means_that_in_tree_filters_refused_the_node(
    knows: bool, want: Miss, seconds: int
) -> None:
    """The question has the pod as kube-scheduler knows it; on a busy machine its watch may be seconds behind ours."""
    cluster = Cluster()
    pod = cluster.comes(a_pod("p", cpu="1"))
    cluster.tell(pod)
    told = cluster.written(pod)
    cluster.after(seconds)
    cluster.ask(told if knows else pod, M, N)
    assert cluster.missed == {want: 1}


def test_our_own_filter_may_refuse_what_we_chose() -> None:
    cluster = Cluster()
    pod = cluster.comes(a_pod("p", cpu="2"))
    cluster.tell(pod)
    pod = cluster.written(pod)
    cluster.comes(a_pod("foreign", on=N, cpu="3"))
    assert cluster.ask(pod, N) == [Reason.NOT_ENOUGH_CPU]
    assert cluster.missed == {Miss.REFUSED: 1}


def test_a_refused_nomination_releases_its_room_at_once_and_may_be_made_again() -> None:
    cluster = Cluster()
    pod = cluster.comes(a_pod("p", cpu="1"))
    for told in (1, 2, 3):
        assert len(cluster.tell(pod)) == 1
        cluster.written(pod, written=False)
        assert (cluster.held(), cluster.missed) == (0, {Miss.UNWRITTEN: told})
    assert cluster.tell(pod) == [], "something is wrong with it"


def test_a_pod_is_nominated_once() -> None:
    cluster = Cluster()
    pod = cluster.comes(a_pod("p", cpu="1"))
    cluster.tell(pod)
    pod = cluster.written(pod)
    cluster.ask(pod, N, M)
    cluster.after(60)
    cluster.comes(replace(pod, nominated_node=None, resource_version=pod.resource_version + 1))
    assert cluster.tell(pod) == []


def test_a_nomination_by_others_counts_and_ours_is_forgotten() -> None:
    cluster = Cluster()
    pod = cluster.comes(a_pod("p", cpu="1"))
    cluster.tell(pod)
    cluster.comes(replace(pod, nominated_node=M, resource_version=pod.resource_version + 1))
    assert cluster.missed == {Miss.REPLACED: 1}
    assert cluster.state_machine.advance_nominations.node_of(pod.uid) is None


@pytest.mark.parametrize(
    "pod",
    [
        replace(a_pod("p"), nominated_node=M),
        a_pod("p", deleting=True),
        a_pod("p", on=M),
    ],
    ids=["nominated", "leaving", "bound"],
)
def test_a_pod_whose_node_others_decide_on_is_not_nominated(pod: Pod) -> None:
    cluster = Cluster()
    cluster.comes(pod)
    assert cluster.tell(pod) == []


def test_a_pod_that_kube_scheduler_searches_for_already_is_not_nominated() -> None:
    cluster = Cluster()
    pod = cluster.comes(a_pod("p", cpu="1"))
    cluster.ask(pod, N, M)
    assert cluster.state_machine.advance_nominations.searched == {pod.uid}
    assert cluster.tell(pod) == []


def test_a_pod_that_was_searched_for_in_vain_comes_to_the_end_of_the_queue() -> None:
    cluster = Cluster()
    first, second = (cluster.comes(a_pod(name)) for name in ("first", "second"))
    steering = cluster.state_machine.advance_nominations
    assert steering.sequence_of(first.uid) < steering.sequence_of(second.uid)
    cluster.ask(first, N, M)
    assert steering.sequence_of(first.uid) > steering.sequence_of(second.uid)


def test_as_long_as_their_room_is_held_the_nodes_of_pods_are_unknown() -> None:
    cluster = Cluster()
    pod = cluster.comes(a_pod("p", cpu="1"))
    cluster.ask(pod, N, M)
    assert cluster.state_machine.advance_nominations.elsewhere() == [pod]
    cluster.comes(bound(pod))
    assert cluster.state_machine.advance_nominations.elsewhere() == []


def test_a_pod_that_goes_takes_its_nomination_along() -> None:
    cluster = Cluster()
    pod = cluster.comes(a_pod("p", cpu="1"))
    cluster.tell(pod)
    cluster.apply(PodGone(pod.uid, pod.key))
    assert (cluster.held(), cluster.missed, len(cluster.state_machine.advance_nominations)) == (0, {Miss.GONE: 1}, 0)


def test_followers_of_the_state_see_a_nominated_pod_on_its_nominated_node() -> None:
    cluster = Cluster()
    collector = NominatedChangeCollector(cluster.state_machine)
    pod = cluster.comes(a_pod("p", cpu="1"))
    assert [change.pod for change in collector.rest().pods] == [pod]
    cluster.tell(pod)
    assert [change.pod and change.pod.node for change in collector.rest().pods] == [N]
    cluster.written(pod, written=False)
    assert [change.pod and change.pod.node for change in collector.rest().pods] == [None]
    foreign = cluster.comes(replace(a_pod("foreign"), nominated_node=M))
    assert [(change.uid, change.pod and change.pod.node) for change in collector.rest().pods] == [(foreign.uid, M)]


def test_a_pod_behind_our_gate_is_nominated_first_and_its_gate_is_removed_with_that() -> None:
    cluster = Cluster()
    pod = cluster.comes(replace(a_pod("p", cpu="1"), gates=(GATE,)))
    cluster.after(0.1)
    assert not [effect for effect in cluster.effects if isinstance(effect, OpenGate)], "it waits to be told"
    assert cluster.tell(pod) == [NominateInAdvance(pod.uid, pod.key, N, pod.resource_version, True)]


def test_a_gate_opens_without_a_nomination_where_none_comes_in_time_or_no_node_would_do() -> None:
    cluster = Cluster(gate_seconds=2.0)
    late = cluster.comes(replace(a_pod("late", cpu="1"), gates=(GATE,)))
    unfit = cluster.comes(replace(a_pod("unfit", cpu="9"), gates=(GATE,)))
    cluster.apply(PodsNominated((), (unfit.uid,)))
    assert [effect.uid for effect in cluster.after(0.1) if isinstance(effect, OpenGate)] == [unfit.uid]
    assert [effect.uid for effect in cluster.after(2.0) if isinstance(effect, OpenGate)] == [late.uid]


def test_the_window_bounds_nominations_that_are_unwritten_or_unused() -> None:
    cluster = Cluster(max_ahead=3)
    steering, policy = cluster.state_machine.advance_nominations, cluster.state_machine.policy.nomination
    pods = [cluster.comes(a_pod(f"p{number}", cpu="100m")) for number in range(4)]
    assert steering.may_nominate(policy, cluster.now) == 3
    for pod in pods[:3]:
        cluster.tell(pod)
    assert steering.may_nominate(policy, cluster.now) == 0
    cluster.ask(cluster.written(pods[0]), N)
    assert steering.may_nominate(policy, cluster.now) == 1


def test_small_clusters_are_not_steered() -> None:
    cluster = Cluster(min_nodes=3)
    assert cluster.state_machine.advance_nominations.may_nominate(cluster.state_machine.policy.nomination, cluster.now) == 0
    cluster.apply(NodeSeen(a_node("third")))
    assert cluster.state_machine.advance_nominations.may_nominate(cluster.state_machine.policy.nomination, cluster.now) > 0


def test_the_room_of_nominations_does_not_keep_a_more_important_pod_out() -> None:
    """It would have been refused on every node, the others bound, and then evicted for it."""
    cluster = Cluster()
    cluster.state_machine.adopt_policy(replace(cluster.state_machine.policy, preemption=PreemptionPolicy(enabled=True)))
    told = [cluster.comes(a_pod(f"p{node}", cpu="3", priority=1)) for node in (N, M)]
    for pod, node in zip(told, (N, M), strict=True):
        cluster.tell(pod, node)
        cluster.written(pod, node)
    equal, important = (cluster.comes(a_pod(f"of-{priority}", cpu="3", priority=priority)) for priority in (1, 2))
    assert cluster.ask(equal, N, M) == [Reason.HELD_FOR_OTHERS] * 2, "nobody of the same priority gets it"
    assert cluster.ask(important, N) == [Reason.OK]
    assert cluster.held() == 6000, "its own, and what it was let pass over"
    assert cluster.state_machine.bind(important.uid, important.key, N, cluster.now).reason is Reason.OK
    # Whoever had to go there is refused, and searches.
    assert cluster.ask(told[0], N) == [Reason.NOT_ENOUGH_CPU]
    assert cluster.missed == {Miss.REFUSED: 1}
    assert cluster.held() == 0
    # What kube-scheduler has asked about is no nomination any more: it is being bound.
    assert cluster.ask(told[1], M) == [Reason.OK]
    late = cluster.comes(a_pod("late", cpu="3", priority=2))
    assert cluster.ask(late, M) == [Reason.HELD_FOR_OTHERS]


def test_a_more_important_pod_is_nominated_where_a_less_important_one_was() -> None:
    cluster = Cluster()
    cluster.tell(cluster.comes(a_pod("p", cpu="3", priority=1)))
    important = cluster.comes(a_pod("important", cpu="3", priority=2))
    assert cluster.tell(important) == [NominateInAdvance(important.uid, important.key, N, important.resource_version)]
    assert cluster.held() == 6000
    cluster.apply(NodeGone(N))
    cluster.apply(NodeSeen(a_node(N)))
    assert cluster.held() == 0


def a_miss(cluster: Cluster, pod: Pod, why: Miss) -> None:
    """The pod had to go to N, and does not go there."""
    match why:
        case Miss.ELSEWHERE:
            cluster.comes(bound(pod, M))
        case Miss.LATE:
            cluster.ask(pod, N, M)
        case Miss.REFUSED_IN_TREE:
            shown = cluster.written(pod)
            cluster.comes(replace(shown, nominated_node=None, resource_version=shown.resource_version + 1))
        case Miss.REPLACED:
            cluster.comes(replace(pod, nominated_node=M, resource_version=pod.resource_version + 1))
        case Miss.UNWRITTEN:
            cluster.written(pod, written=False)
        case Miss.EXPIRED:
            cluster.written(pod)
            cluster.after(31)
        case Miss.REFUSED | Miss.GONE:
            raise AssertionError(why)
    cluster.apply(PodGone(pod.uid, pod.key))


@pytest.mark.parametrize("why", [Miss.ELSEWHERE, Miss.LATE, Miss.REFUSED_IN_TREE, Miss.REPLACED, Miss.UNWRITTEN, Miss.EXPIRED])
def test_misses_slow_steering_down_until_it_makes_a_pause_and_hits_do_not(why: Miss) -> None:
    missing, meeting = Cluster(min_nodes=0), Cluster(min_nodes=0)

    def may_tell(cluster: Cluster) -> int:
        return cluster.state_machine.advance_nominations.may_nominate(cluster.state_machine.policy.nomination, cluster.now)

    allowed = []
    for number in range(100):
        pod = a_pod(f"p{number}", cpu="1m", memory="1Mi")
        missing.comes(pod)
        if not missing.tell(pod):
            break
        a_miss(missing, pod, why)
        assert missing.missed == {why: number + 1}
        allowed.append(may_tell(missing))
        meeting.comes(pod)
        meeting.tell(pod)
        meeting.written(pod)
        meeting.comes(bound(pod))
        meeting.apply(PodGone(pod.uid, pod.key))
    assert allowed[18:20] == [32, 16], "twenty of twenty were missed"
    assert sorted(set(allowed), reverse=True) == [32, 16, 8, 4, 2, 0]
    assert may_tell(meeting) == 64
    missing.after(31)
    assert may_tell(missing) == 1, "then one is tried"
