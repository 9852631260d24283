"""Answers the preempt verb: kube-scheduler proposes nodes with victims; we keep those where the pod fits in our accounting too.

    the proposed victims suffice        -> the node is kept with these victims
    the proposed victims do not suffice -> as few others as needed are added, or the node is dropped

kube-scheduler chooses one of the kept nodes and deletes the victims itself. We know its choice when it nominates the pod, or at
once if only one node was kept. From then on the room on that node is kept for the pod and the victims count as leaving, as in a
preemption of ours, so neither side picks the other's victims.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Final

from slackwater.cluster.cluster_state import ClusterState
from slackwater.controllers.policy import Policy
from slackwater.controllers.preemption.state import Preemptions
from slackwater.controllers.preemption.victims import (
    Candidate,
    PotentialVictim,
    PreemptionNode,
    fits,
    freed_by,
    importance,
    needed_victims,
    runners_up,
)
from slackwater.model.ids import Instant, NodeName, PodUid, Row
from slackwater.model.objects import Pod
from slackwater.model.reasons import Reason
from slackwater.model.resources import Amounts


def suffices(wanted: Amounts, free: Amounts, proposed: Sequence[PotentialVictim]) -> bool:
    """Does a pod that needs `wanted` fit once the proposed victims are gone? `free`: the free room now; it may be negative."""
    return fits(wanted, freed_by(free, proposed))


def added_victims(
    wanted: Amounts, proposed: Sequence[PotentialVictim], preemption_node: PreemptionNode
) -> tuple[PotentialVictim, ...] | None:
    """Selects the pods of the node that have to leave in addition to the victims that kube-scheduler proposed, so that a pod
    that needs `wanted` fits; as few as possible. Returns None if the pod does not fit even without all potential victims.

    The potential victims of `preemption_node` must not contain the proposed ones. A potential victim that is leaving anyway is
    returned too if the pod fits only once it is gone.
    """
    more = needed_victims(wanted, replace(preemption_node, free=freed_by(preemption_node.free, proposed)))
    return None if more is None else (*more.victims, *more.awaited)


#: The most kept nodes that are compared with the one that kube-scheduler chose.
_MOST_COMPARED: Final = 100
#: For each kept node: its victims, the most important first, and how many of the added victims violate a budget.
Kept = dict[NodeName, tuple[tuple[PodUid, ...], int]]


class ExtenderCandidates:
    """Answers the preempt verb. `about_the_pod` returns filter's reason to refuse the pod on every node regardless of room, or
    OK."""

    def __init__(
        self,
        cluster_state: ClusterState,
        preemptions: Preemptions,
        *,
        about_the_pod: Callable[[Pod, Policy], Reason],
    ) -> None:
        self._state = cluster_state
        self._preemptions = preemptions
        self._potential_victims = preemptions.potential_victims
        self._about_the_pod = about_the_pod

    def answer(self, pod: Pod, proposed: Mapping[NodeName, Sequence[PodUid]], policy: Policy, now: Instant) -> Kept:
        """Returns the nodes that are kept, with their victims.

        A node is dropped if it is unknown, if a bind of the pod to it was denied, if a proposed victim is not on it
        (kube-scheduler would refuse the whole answer), or if not even all pods of lower priority would make room. All nodes are
        dropped if filter would refuse the pod regardless of room, while preemption is paused, and if earlier victims are
        leaving or have left since filter was asked: further victims would be deleted for nothing.
        """
        if self._about_the_pod(pod, policy) is not Reason.OK or pod.uid in self._state.reservations:
            return {}
        if policy.preemption.paused or self._preemptions.gated(pod.uid) or self._preemptions.just_opened(pod.uid):
            return {}
        if self._preemptions.accepted.overtaken(
            pod.uid, proposed, self._potential_victims.seen_on, partial(self._fits, pod, now), now
        ):
            return {}
        self._preemptions.supersede(pod.uid)
        with self._state.holds.beside(pod):
            kept = self._kept(pod, proposed, now)
        if kept:
            victims = {name: uids for name, (uids, _) in kept.items()}
            seen = (self._potential_victims.seen_on(uid, name) for name, uids in victims.items() for uid in uids)
            longest = max((victim.grace_seconds for victim in seen if victim is not None), default=0)
            self._preemptions.accepted.note(pod.uid, victims, longest, now)
        if len(kept) == 1:
            (node,) = kept
            self._chosen(pod, node, policy, now)
        return kept

    def nominated(self, pod: Pod, policy: Policy, now: Instant) -> None:
        """Handles a pending pod that the watch shows. If kube-scheduler has nominated it to a kept node, that is its choice."""
        if pod.nominated_node is not None:
            self._chosen(pod, pod.nominated_node, policy, now)

    def _chosen(self, pod: Pod, node: NodeName, policy: Policy, now: Instant) -> None:
        if self._preemptions.number_of(pod.uid) is not None:
            return
        kept = self._preemptions.accepted.victims_of(pod.uid, now)
        waiting = {uid for uid in kept.get(node, ()) if self._potential_victims.seen_on(uid, node) is not None}
        if waiting and node in self._state.nodes.row_of:
            # The cheapest of the other nodes that were kept. Victims that have left their nodes are not counted.
            found = {name: self._as_candidate(name, uids) for name, uids in islice(kept.items(), _MOST_COMPARED)}
            others = runners_up(found.get(node) or self._as_candidate(node, kept.get(node, ())), found.values())
            self._preemptions.accept_preemption(pod, node, waiting, policy.preemption, now, others=others)

    def _as_candidate(self, node: NodeName, uids: Sequence[PodUid]) -> Candidate:
        seen = (self._potential_victims.seen_on(uid, node) for uid in uids)
        victims = tuple(self._potential_victims.potential_victim(pod) for pod in seen if pod is not None)
        return Candidate(node=node, victims=victims, awaited=())

    def _fits(self, pod: Pod, now: Instant, node: NodeName) -> bool:
        """Does the pod fit on the node without victims, and was no bind of it to the node denied?"""
        row = None if node in self._state.bind_backoff.nodes_denied(pod.uid, now) else self._state.nodes.row_of.get(node)
        with self._state.holds.beside(pod):
            return row is not None and suffices(pod.need, self._potential_victims.free_for(pod.uid, row), ())

    def _kept(self, pod: Pod, proposed: Mapping[NodeName, Sequence[PodUid]], now: Instant) -> Kept:
        denied = set(self._state.bind_backoff.nodes_denied(pod.uid, now))
        kept: Kept = {}
        for name, uids in proposed.items():
            row = self._state.nodes.row_of.get(name)
            found = None if row is None or name in denied else self._victims(pod, name, row, uids, now)
            if found is None or not any(found):
                continue
            chosen, added = found
            # kube-scheduler's own order is kept if no victim was added: it knows start times that we may not have seen yet.
            ordered = sorted([*chosen, *added], key=importance) if added else chosen
            kept[name] = (tuple(victim.uid for victim in ordered), sum(victim.violates_budget for victim in added))
        return kept

    def _victims(
        self, pod: Pod, name: NodeName, row: Row, uids: Sequence[PodUid], now: Instant
    ) -> tuple[Sequence[PotentialVictim], Sequence[PotentialVictim]] | None:
        """The proposed victims, and the victims to add; None if the node is dropped."""
        seen = [found for uid in uids if (found := self._potential_victims.seen_on(uid, name)) is not None]
        if len(seen) < len(uids):
            return None
        chosen = [self._potential_victims.potential_victim(victim) for victim in seen]
        # The usual case: the proposed victims suffice, so the other pods of the node are not read.
        if suffices(pod.need, self._potential_victims.free_for(pod.uid, row), chosen):
            return chosen, ()
        others = [uid for uid in self._state.reservations.on_node(name) if uid not in uids]
        added = added_victims(pod.need, chosen, self._potential_victims.preemption_node(pod, name, others, now, after=seen))
        return None if added is None else (chosen, added)
