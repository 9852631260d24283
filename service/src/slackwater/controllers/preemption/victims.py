"""Victims: the pods of a node that may be deleted for a preemptor, the fewest that have to leave, and the cheapest node.

- `PotentialVictims`: for a preemptor and a node, the free room, the pods that may be deleted, and what each gives back.
- `needed_victims`: the fewest of these that have to leave so that the preemptor fits: a `Candidate`.
- `cheapest`, `runners_up`: the candidates of several nodes in order of their cost, with the reason why each ranked lower.

As in kube-scheduler's reprieve pass, all potential victims are assumed gone at first. Then each is spared if the preemptor fits
beside it: first those whose deletion would violate a budget, and the most important first. Pods that are leaving anyway take no
part in this: their room costs nothing. A pod gives back what is Reserved for it, not its request: a virtual machine that has
grown gives back all of it. Which nodes to search, `Preemptors` decides.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from heapq import nsmallest
from typing import Final

from slackwater.cluster.cluster_state import ClusterState
from slackwater.model.ids import Instant, NodeName, PodUid, Row
from slackwater.model.objects import Pod
from slackwater.model.pod_constraints import MOST_RULES, NO_POD_CONSTRAINTS, Kind
from slackwater.model.resources import CPU, MEMORY, NOTHING, Amounts
from slackwater.model.selectors import selects
from slackwater.model.texts import count_text
from slackwater_protocol.units import Bytes, MilliCpu

#: Sorts after every start time: a pod that has not started loses least.
_NOT_YET: Final = "9999"


@dataclass(frozen=True, slots=True, kw_only=True)
class PotentialVictim:
    """A pod on a node that may be deleted for the preemptor. `reserved`: the room that this frees.

    `started_at`: RFC 3339, always in the same zone, so that texts compare as instants; "" if the pod has not started.
    `leaving`: the pod leaves anyway. `violates_budget`: its deletion would violate a PodDisruptionBudget.
    """

    uid: PodUid
    priority: int
    started_at: str
    reserved: Amounts
    leaving: bool = False
    violates_budget: bool = False

    @property
    def start(self) -> str:
        return self.started_at or _NOT_YET


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionNode:
    """A node where the preemptor lacks nothing but room. `free`: the free room, which may be negative. `potential_victims` are
    in any order."""

    node: NodeName
    free: Amounts
    potential_victims: Sequence[PotentialVictim]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A node with the pods that have to leave so that the preemptor fits. `victims`, the most important first, are to be
    deleted; `awaited` leave anyway."""

    node: NodeName
    victims: tuple[PotentialVictim, ...]
    awaited: tuple[PotentialVictim, ...]

    @property
    def violations(self) -> int:
        return sum(victim.violates_budget for victim in self.victims)

    @property
    def highest(self) -> int:
        """The priority of the most important victim; 0 without a victim."""
        return max((victim.priority for victim in self.victims), default=0)

    @property
    def first_start(self) -> str:
        """The earliest start of the victims of the highest priority, as RFC 3339; "" without a victim."""
        highest = self.highest
        return min((victim.start for victim in self.victims if victim.priority == highest), default="")


def importance(potential_victim: PotentialVictim) -> tuple[int, str, PodUid]:
    """The sort key of pods, the most important first, as in kube-scheduler: 1. higher priority;  2. earlier start;  3. UID:
    arbitrary, but the same on every run."""
    return (-potential_victim.priority, potential_victim.start, potential_victim.uid)


def reprieve_order(potential_victim: PotentialVictim) -> tuple[bool, bool, int, str, PodUid]:
    """The sort key of the reprieve pass, the first to be spared first: 1. pods that stay, since the preemptor waits only for
    those leaving pods whose room it still needs;  2. pods whose deletion would violate a budget;  3. importance."""
    leaving = potential_victim.leaving
    return leaving, leaving or not potential_victim.violates_budget, *importance(potential_victim)


def needed_victims(wanted: Amounts, preemption_node: PreemptionNode) -> Candidate | None:
    """The candidate for this node: the fewest potential victims whose deletion makes `wanted` fit. None if not even all of them
    make enough room.
    """
    free = freed_by(preemption_node.free, preemption_node.potential_victims)
    if not fits(wanted, free):
        return None
    needed = []
    for potential_victim in sorted(preemption_node.potential_victims, key=reprieve_order):
        without = free.minus(potential_victim.reserved)
        if fits(wanted, without):
            free = without
        else:
            needed.append(potential_victim)
    victims = tuple(sorted((each for each in needed if not each.leaving), key=importance))
    return Candidate(node=preemption_node.node, victims=victims, awaited=tuple(each for each in needed if each.leaving))


def fits(wanted: Amounts, free: Amounts) -> bool:
    """Does `wanted` fit into `free`? Equal amounts fit. A resource of which nothing is wanted always fits, even if `free` is
    negative."""
    return all(amount == 0 or amount <= room for amount, room in zip(wanted, free, strict=True))


def freed_by(free: Amounts, potential_victims: Iterable[PotentialVictim]) -> Amounts:
    """What is free once all these potential victims are gone."""
    for potential_victim in potential_victims:
        free = free.plus(potential_victim.reserved)
    return free


class PotentialVictims:
    """Finds the pods that may be evicted for a preemptor.

    Pods whose deletion would not help are left out: mirror pods, which a kubelet runs from a file; pods that did not leave when
    they were deleted; pods that the preemptor has to run next to (required pod affinity). `marked`: the pods that are to leave
    for some preemptor. `immovable`: the pods that no preemption may choose as victims, and until when.
    """

    def __init__(self, cluster_state: ClusterState, *, marked: Collection[PodUid], immovable: dict[PodUid, Instant]) -> None:
        self._state = cluster_state
        self._marked = marked
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
            if (found := self.seen_on(uid, node)) is not None
            and found.priority < pod.priority
            and not found.eviction_facts.mirror_pod
            and self._immovable.get(uid, now) <= now
            and not (pod.kind.attracts and _has_to_stay(found, pod.kind))
        ]
        possible.sort(key=lambda one: importance(one[0]))
        potential_victims = [potential_victim for potential_victim, _ in possible]
        if len(self._state.budgets):
            staying = [found for one, found in possible if not one.leaving]
            violations = iter(self._state.budgets.violations([*after, *staying])[len(after) :])
            potential_victims = [
                one if one.leaving else replace(one, violates_budget=next(violations)) for one in potential_victims
            ]
        return PreemptionNode(
            node=node, free=self.free_for(pod.uid, self._state.nodes.row_of[node]), potential_victims=potential_victims
        )

    def potential_victim(self, victim: Pod) -> PotentialVictim:
        """Makes a potential victim of a pod that has a reservation, without a check of any PodDisruptionBudget."""
        reservation = self._state.reservations.get(victim.uid)
        assert reservation is not None
        return PotentialVictim(
            uid=victim.uid,
            priority=victim.priority,
            started_at=victim.started_at,
            reserved=reservation.pod_resources.reserved,
            leaving=victim.deleting or victim.uid in self._marked,
        )

    def fits_by_requests(self, pod: Pod, node: NodeName, gone: Iterable[PodUid]) -> bool:
        """Would the pod fit on the node without the pods of `gone`, if only requests counted, as in kube-scheduler's
        accounting?"""
        found = self._state.nodes.by_row[self._state.nodes.row_of[node]]
        assert found is not None
        free, going = found.allocatable, set(gone)
        for uid in self._state.reservations.on_node(node):
            other = self._state.pods.get(uid)
            if other is not None and uid not in going:
                free = free.minus(other.kind.requests)
        return fits(pod.kind.requests, free)

    def seen_on(self, uid: PodUid, node: NodeName) -> Pod | None:
        """The pod, if the watch shows it on the node; else None. kube-scheduler refuses victims that it does not see on their
        node."""
        reservation = self._state.reservations.get(uid)
        return (
            self._state.pods.get(uid)
            if reservation is not None and reservation.state == "seen" and reservation.node == node
            else None
        )

    def free_for(self, uid: PodUid, row: Row) -> Amounts:
        """The room that the pod could use on the row now, its own holds included. An amount is negative if more is Reserved and
        held than the node has."""
        free = self._state.ledger.columns.free(row)
        own = (hold.amounts for hold in self._state.holds.all_of(uid) if hold.row == row)
        held = reduce(Amounts.plus, own, NOTHING)
        return Amounts(MilliCpu(int(free[CPU])), Bytes(int(free[MEMORY]))).plus(held)

    def expire(self, now: Instant) -> None:
        """Removes pods that are gone, or immovable no longer, from `immovable`."""
        for uid in [uid for uid, until in self._immovable.items() if until <= now or self._state.pods.get(uid) is None]:
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


#: The most runners-up that are kept for one preemption.
MOST_RUNNERS_UP: Final = 4
#: MaxInt32 + 1, added to each priority in the sum: priorities may be negative, and each further victim must add to the cost.
_OFFSET: Final = 1 << 31


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerUp:
    """A node that was not chosen: how many pods would have been deleted there, and why it ranked lower."""

    node: NodeName
    n_victims: int
    why: str

    @property
    def text(self) -> str:
        return f"{self.node}: {count_text(self.n_victims, 'victim')}, {self.why}"


def cost(candidate: Candidate) -> tuple[bool, int, int, int, int, tuple[int, ...], int, NodeName]:
    """The sort key of candidates, the cheapest first: 1. no victim at all;  2. fewest violated budgets;  3. lowest priority of
    the most important victim;  4. lowest sum of priorities;  5. fewest victims;  6. latest start of the first-started among the
    victims of the highest priority;  7. fewest pods to wait for;  8. the node's name: arbitrary, but the same on every run."""
    victims = candidate.victims
    return (
        bool(victims),
        candidate.violations,
        candidate.highest,
        sum(victim.priority + _OFFSET for victim in victims),
        len(victims),
        tuple(-ord(character) for character in candidate.first_start),
        len(candidate.awaited),
        candidate.node,
    )


def cheapest(
    wanted: Amounts, preemption_nodes: Iterable[PreemptionNode], *, beside: Iterable[Candidate] = ()
) -> list[Candidate]:
    """The cheapest candidates that make `wanted` fit on one of the nodes, in order of `cost`: the best and up to
    `MOST_RUNNERS_UP` others. Empty if no node has enough potential victims. `beside`: candidates found before, which
    compete."""
    found = (needed_victims(wanted, preemption_node) for preemption_node in preemption_nodes)
    candidates = (candidate for candidate in found if candidate is not None)
    return nsmallest(1 + MOST_RUNNERS_UP, [*beside, *candidates], key=cost)


def runners_up(chosen: Candidate, candidates: Iterable[Candidate]) -> tuple[RunnerUp, ...]:
    """The cheapest candidates on other nodes than the chosen one, the cheapest first; at most `MOST_RUNNERS_UP`. The reason of
    each is the first criterion of `cost` in which it differs from the chosen one."""
    best, few = cost(chosen), len(chosen.victims)
    found = []
    for other in nsmallest(MOST_RUNNERS_UP, (each for each in candidates if each.node != chosen.node), key=cost):
        mine, many = cost(other), len(other.victims)
        words = (
            f"none on {chosen.node}",
            f"{count_text(other.violations, 'disruption budget')} violated instead of {chosen.violations}",
            f"the most important has priority {other.highest} instead of {chosen.highest}",
            "of higher priority in sum" if many == few else f"instead of {few}",
            f"instead of {few}",
            "which started earlier",
            f"and {count_text(len(other.awaited), 'pod')} to wait for instead of {len(chosen.awaited)}",
            "equal; the name of the node decided",
        )
        differing = (text for text, one, two in zip(words, mine, best, strict=True) if one != two)
        why = "chosen otherwise by kube-scheduler" if mine < best else next(differing)
        found.append(RunnerUp(node=other.node, n_victims=many, why=why))
    return tuple(found)
