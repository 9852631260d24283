"""Potential victims: for a preemptor and a node, the free room, the pods that may be deleted for it, and what each gives back.

Pods whose deletion would not help are left out: mirror pods, which a kubelet runs from a file; pods that did not leave when
they were deleted; pods that the preemptor has to run next to (required pod affinity). Deliberately absent: which nodes are
worth a search, and which of the potential victims have to go.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import reduce

from slackwater.cluster.cluster_state import ClusterState
from slackwater.controllers.preemption.victims import PotentialVictim, PreemptionNode, fits, importance
from slackwater.model.ids import Instant, NodeName, PodUid, Row
from slackwater.model.objects import Pod
from slackwater.model.pod_constraints import MOST_RULES, NO_POD_CONSTRAINTS, Kind
from slackwater.model.resources import CPU, MEMORY, NOTHING, Amounts
from slackwater.model.selectors import selects
from slackwater_protocol.units import Bytes, MilliCpu


class PotentialVictims:
    """Finds the pods that may be evicted for a preemptor. `is_marked_victim` tells whether a pod is to leave for another
    preemptor. `immovable`: the pods that no preemption may choose as victims, and until when."""

    def __init__(
        self, cluster_state: ClusterState, *, is_marked_victim: Callable[[PodUid], bool], immovable: dict[PodUid, Instant]
    ) -> None:
        self._ledger = cluster_state.ledger
        self._nodes = cluster_state.nodes
        self._pods = cluster_state.pods
        self._reservations = cluster_state.reservations
        self._holds = cluster_state.holds
        self._budgets = cluster_state.budgets
        self._is_marked_victim = is_marked_victim
        self._immovable = immovable
        #: How many pods `preemption_node` has looked at so far: the work of searches, which callers bound.
        self.examined = 0

    def preemption_node(
        self, pod: Pod, node: NodeName, uids: Iterable[PodUid], now: Instant, *, after: Sequence[Pod] = ()
    ) -> PreemptionNode:
        """The node as a place for the preemptor `pod`: its free room, and those of the pods `uids` that may be evicted for the
        preemptor. The node must have a row.

        Whether a victim violates a PodDisruptionBudget depends on the evictions before it. These are assumed to be those of
        `after`, and then those of the potential victims that are more important.
        """
        uids = list(uids)
        self.examined += len(uids)
        possible = [
            (self.potential_victim(found), found)
            for uid in uids
            if (found := self._possible_victim(pod, uid, node, now)) is not None
        ]
        possible.sort(key=lambda one: importance(one[0]))
        potential_victims = [potential_victim for potential_victim, _ in possible]
        if len(self._budgets):
            staying = [found for one, found in possible if not one.leaving]
            violations = iter(self._budgets.violations([*after, *staying])[len(after) :])
            potential_victims = [
                one if one.leaving else replace(one, violates_budget=next(violations)) for one in potential_victims
            ]
        return PreemptionNode(
            node=node, free=self.free_for(pod.uid, self._nodes.row_of[node]), potential_victims=potential_victims
        )

    def potential_victim(self, victim: Pod) -> PotentialVictim:
        """Makes a potential victim of a pod that has a reservation, without a check of any PodDisruptionBudget."""
        reservation = self._reservations.get(victim.uid)
        assert reservation is not None
        return PotentialVictim(
            uid=victim.uid,
            priority=victim.priority,
            started_at=victim.started_at,
            reserved=reservation.pod_resources.reserved,
            leaving=victim.deleting or self._is_marked_victim(victim.uid),
        )

    def fits_by_requests(self, pod: Pod, node: NodeName, gone: Iterable[PodUid]) -> bool:
        """Would the pod fit on the node without the pods of `gone`, if only requests counted, as in kube-scheduler's
        accounting?"""
        found = self._nodes.by_row[self._nodes.row_of[node]]
        assert found is not None
        free, going = found.allocatable, set(gone)
        for uid in self._reservations.on_node(node):
            other = self._pods.get(uid)
            if other is not None and uid not in going:
                free = free.minus(other.kind.requests)
        return fits(pod.kind.requests, free)

    def seen_on(self, uid: PodUid, node: NodeName) -> Pod | None:
        """The pod, if the watch shows it on the node; else None. kube-scheduler refuses victims that it does not see on their
        node."""
        reservation = self._reservations.get(uid)
        return (
            self._pods.get(uid)
            if reservation is not None and reservation.state == "seen" and reservation.node == node
            else None
        )

    def free_for(self, uid: PodUid, row: Row) -> Amounts:
        """The room that the pod could use on the row now, its own holds included. An amount is negative if more is Reserved and
        held than the node has."""
        free = self._ledger.columns.free(row)
        own = (hold.amounts for hold in self._holds.all_of(uid) if hold.row == row)
        held = reduce(Amounts.plus, own, NOTHING)
        return Amounts(MilliCpu(int(free[CPU])), Bytes(int(free[MEMORY]))).plus(held)

    def _possible_victim(self, pod: Pod, uid: PodUid, node: NodeName, now: Instant) -> Pod | None:
        victim = self.seen_on(uid, node)
        if (
            victim is None
            or victim.priority >= pod.priority
            or victim.eviction_facts.mirror_pod
            or self._immovable.get(uid, now) > now
        ):
            return None
        return None if pod.kind.attracts and _has_to_stay(victim, pod.kind) else victim

    def expire(self, now: Instant) -> None:
        """Removes pods that are gone, or immovable no longer, from `immovable`."""
        for uid in [uid for uid, until in self._immovable.items() if until <= now or self._pods.get(uid) is None]:
            del self._immovable[uid]


def _has_to_stay(victim: Pod, kind: Kind) -> bool:
    """Does a required pod affinity term of the preemptor's kind select the victim, so that the preemptor has to run next to it?
    A term with a namespace selector counts as reaching all namespaces. With more than `MOST_RULES` nobody looks at the terms:
    any of them may.
    """
    if kind.n_rules > MOST_RULES:
        return True
    terms, labels = (kind.pod_constraints or NO_POD_CONSTRAINTS).affinity, dict(victim.labels)
    return any(
        (term.namespace_selector is not None or victim.key.namespace in term.namespaces) and selects(term.selector, labels)
        for term in terms
    )
