"""Inter-pod constraints: how pods of the demand affect one another on new nodes, found before any of them is placed.

There are three cases. Most equivalence groups do not affect others: a node takes their pods until its amounts are used up. Some
groups must not share a node, because of anti-affinity on the hostname or of host ports: a pod of theirs leaves a mark on its
node, and other pods avoid nodes with that mark (`leaves`, `avoids`). For the rest a pod placed on one node may change verdicts
on other nodes (spread, affinity, terms over zones, volumes): these groups are `moving`, and are judged on the snapshot each
time. A rule that no other pod of the demand can affect is judged once, on an empty new node.

Equivalence groups are alike (`AlikePods`) if an estimate places them in the same way, because they differ only in whose pods
they are. A hundred workloads with a topology spread over their own pods, or five hundred pods with a claim of their own each,
are as many equivalence groups. In an estimate they take room from one another and affect one another in nothing else, so what
is found for one serves the next (`new_nodes.TrackedNodes.fill_alike`).

Invariant of `AlikePods`: of groups with equal keys none affects the verdicts on
another but by the room that it takes, and all of them get the same verdicts on the present snapshot. A group of which pods are
placed already is alike no other one: its pods are where no other's are.
"""

import collections
from collections.abc import Hashable, Iterable, Iterator, Sequence, Set
from dataclasses import replace

from slackwater.fit.assumed_claims import has_claims
from slackwater.fit.failure import concerning
from slackwater.fit.feasible_nodes import refused
from slackwater.fit.plugins.dynamic_resources import needs_devices
from slackwater.fit.plugins.inter_pod_affinity import matches_all_its_terms, repelling_counters, term_counter
from slackwater.fit.plugins.node_accounting import lacks_request
from slackwater.fit.plugins.pod_topology_spread import hard_constraints, spread_counter
from slackwater.fit.plugins.volume_binding import binding_part, gets_new_volumes
from slackwater.fit.plugins.volume_rules import VOLUME_ZONE, volume_limits_part, volume_restrictions_part
from slackwater.model.columns import Rows
from slackwater.model.pod_constraints import EVERY_ADDRESS, PodTerm
from slackwater.model.scheduler_profile import profile_of
from slackwater.model.selectors import selects
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.counted_pods import TermCarriers
from slackwater.snapshot.counters import Counter
from slackwater.snapshot.equivalence_groups import KindId, NumberedGroup
from slackwater.snapshot.node_facts import HOSTNAME
from slackwater.snapshot.storage_table import ClaimKey

#: The number of a mark. Thousands of equivalence groups under the same rule share a mark.
Mark = int


class InterPodConstraints:
    """How pods of the demand affect one another on new nodes. `kinds`: the equivalence groups of the demand. `moving`: those
    whose verdicts depend on where other pods are placed."""

    def __init__(self, snapshot: ClusterSnapshot, kinds: Sequence[KindId]) -> None:
        self._snapshot = snapshot
        self._here = frozenset(kinds)
        self._touched: dict[Counter, bool] = {}
        self._numbers: dict[object, Mark] = {}
        self._leaves: dict[KindId, dict[Mark, None]] = {}
        self._avoids: dict[KindId, dict[Mark, None]] = {}
        #: The groups that leave or avoid each mark; None until somebody asks.
        self._mark_users: dict[Mark, set[KindId]] | None = None
        moving = []
        for kind in kinds:
            with concerning(kind):
                self._mark(snapshot.of(kind))
                if self._moves(snapshot.of(kind)):
                    moving.append(kind)
        self.moving = frozenset(moving)

    def leaves(self, kind: KindId) -> Iterable[Mark]:
        """The marks that a pod of the group leaves on its node."""
        return self._leaves.get(kind, ())

    def avoids(self, kind: KindId) -> Iterable[Mark]:
        """The marks that pods of the group avoid: no pod of the group may go to a node with one of them."""
        return self._avoids.get(kind, ())

    def is_alone(self, kind: KindId) -> bool:
        """Does a node take at most one pod of the group, because pods of the group avoid one another?"""
        left = self._leaves.get(kind, {})
        return any(mark in left for mark in self.avoids(kind))

    def is_independent(self, kind: KindId) -> bool:
        """Do pods of the group affect no pods of other groups, and no others them, wherever they are placed?"""
        if kind in self.moving:
            return False
        if self._mark_users is None:
            self._mark_users = collections.defaultdict(set)
            for users in (self._leaves, self._avoids):
                for user, marks in users.items():
                    for mark in marks:
                        self._mark_users[mark].add(user)
        return all(self._mark_users[mark] == {kind} for mark in (*self.leaves(kind), *self.avoids(kind)))

    def is_free_on_empty(self, kind: KindId, running_pods: Set[KindId]) -> bool:
        """Do the constraints between pods, except topology spreads, admit a pod of the group to every new node where only pods
        of `running_pods` run?

        They do if all of them are about the hostname, and none of them matches a group of `running_pods`.
        """
        numbered = self._snapshot.of(kind)
        asks = numbered.asks
        if asks.affinity or asks.disks or asks.inline_disks or has_claims(self._snapshot, numbered):
            return False
        counters = [(term, term_counter(self._snapshot, term)) for term in asks.anti_affinity]
        counters += repelling(self._snapshot, numbered)
        return all(
            term.topology_key == HOSTNAME and not any(other in counter.kinds for other in running_pods)
            for term, counter in counters
        )

    def _moves(self, kind: NumberedGroup) -> bool:
        asks = kind.asks
        claims = has_claims(self._snapshot, kind)
        if claims or asks.disks or asks.inline_disks or any(constraint.hard for constraint in asks.spread):
            return True
        if asks.affinity and self._counts_demand(term_counter(self._snapshot, *asks.affinity)):
            return True
        if asks.affinity and matches_all_its_terms(self._snapshot, kind):
            return True
        own = (term for term in asks.anti_affinity if term.topology_key != HOSTNAME)
        if any(self._counts_demand(term_counter(self._snapshot, term)) for term in own):
            return True
        return any(
            term.topology_key != HOSTNAME and self._counts_demand(counter) for term, counter in repelling(self._snapshot, kind)
        )

    def _counts_demand(self, counter: Counter) -> bool:
        """Does the counter count pods of the demand?"""
        if counter not in self._touched:
            self._touched[counter] = not self._here.isdisjoint(counter.kinds)
        return self._touched[counter]

    def _mark(self, kind: NumberedGroup) -> None:
        """Notes the marks that pods of the group leave and avoid, because of required anti-affinity on the hostname and of host
        ports.

        Each term makes two marks, since it keeps its pods away from others and others away from them. The pods that the term
        selects leave a mark, which the pods that have the term avoid. The pods that have the term leave another mark, which the
        pods that it selects avoid.
        """
        for term in kind.asks.anti_affinity:
            if term.topology_key == HOSTNAME:
                matched = self._left_by(term_counter(self._snapshot, term))
                self._avoids.setdefault(kind.id, {})[matched] = None
        for term, counter in repelling(self._snapshot, kind):
            if term.topology_key == HOSTNAME:
                self._avoids.setdefault(kind.id, {})[self._left_by(counter)] = None
        # A pod that takes a port on every address avoids all other pods with the port. A pod that names an address avoids pods
        # that take the port on every address or on the same one.
        for port in kind.asks.host_ports:
            own, everywhere, any_address = (
                self._numbers.setdefault((port.protocol, port.port, ip), len(self._numbers))
                for ip in (port.ip, EVERY_ADDRESS, None)
            )
            self._leaves.setdefault(kind.id, {}).update({own: None, any_address: None})
            avoided = (any_address,) if own == everywhere else (own, everywhere)
            self._avoids.setdefault(kind.id, {}).update(dict.fromkeys(avoided))

    def _left_by(self, counter: Counter) -> Mark:
        """The mark of a counter: every group whose pods the counter counts leaves it. Makes the mark at the first call."""
        mark = self._numbers.get(counter)
        if mark is None:
            mark = self._numbers[counter] = len(self._numbers)
            for kind in counter.kinds:
                if kind in self._here:
                    self._leaves.setdefault(kind, {})[mark] = None
        return mark


def repelling(snapshot: ClusterSnapshot, kind: NumberedGroup) -> Iterator[tuple[PodTerm, Counter]]:
    """The terms of other pods' required anti-affinity that keep pods of the group away, each with its counter."""
    for counter in repelling_counters(snapshot, kind):
        if isinstance(counter.of, TermCarriers):
            yield counter.of.term, counter


def topology_keys(snapshot: ClusterSnapshot, kind: NumberedGroup) -> set[str]:
    """The keys of node labels that rules about other pods read for the group."""
    asks = kind.asks
    terms = (*asks.affinity, *asks.anti_affinity, *(term for term, _ in repelling(snapshot, kind)))
    return {each.topology_key for each in asks.spread} | {term.topology_key for term in terms}


def representatives(snapshot: ClusterSnapshot, kinds: Rows) -> Rows:
    """Replaces each equivalence group by the first one of `kinds` that is the same for planning; shape (len(kinds),).

    Images do not matter for planning, and of the scheduler only its profile. So 22,000 pods without controllers become a few
    groups.
    """
    first: dict[object, int] = {}
    known: dict[int, int] = {}
    found = kinds.copy()
    for at, number in enumerate(kinds.tolist()):
        kind = known.get(number)
        if kind is None:
            kind = known[number] = first.setdefault(_alike(snapshot, snapshot.of(KindId(number))), number)
        found[at] = kind
    return found


def _alike(snapshot: ClusterSnapshot, numbered: NumberedGroup) -> object:
    kind = numbered.kind
    labels = tuple(sorted(numbered.labels.items()))
    return (
        kind.namespace,
        kind.requests,
        kind.node_selector,
        kind.node_affinity,
        kind.tolerations,
        lacks_request(snapshot, kind),
        profile_of(snapshot.facts.profiles, kind),
        kind.preempts,
        kind.pod_constraints,
        labels,
        numbered.deleting,
    )


class AlikePods:
    """The keys of equivalence groups. `running_pods`: the groups of DaemonSet pods that come with new nodes."""

    def __init__(self, snapshot: ClusterSnapshot, kinds: Sequence[KindId], running_pods: Set[KindId]) -> None:
        self._snapshot = snapshot
        self._keys: dict[KindId, int] = {}
        self._numbers: dict[Hashable, int] = {}
        #: Groups that a rule about pods connects with another group.
        self._connected: set[KindId] = set()
        #: How many groups use each claim.
        self._users = collections.Counter[ClaimKey]()
        here = running_pods | set(kinds)
        counted_by: dict[Counter, list[KindId]] = {}
        for kind in kinds:
            with concerning(kind):
                numbered = snapshot.of(kind)
                self._users.update(set(_claims(numbered)))
                for _, counter in self._rules(numbered):
                    counted = counted_by.get(counter)
                    if counted is None:
                        counted = counted_by[counter] = [other for other in counter.kinds if other in here]
                        self._connected.update(counted if len(counted) > 1 else ())
                    if counted not in ([], [kind]):
                        self._connected.update((kind, counted[0]))

    def forget(self) -> None:
        """Forgets what depends on the pods that are placed."""
        self._keys.clear()

    def key(self, kind: KindId) -> int:
        """The key of an equivalence group on the present snapshot."""
        found = self._keys.get(kind)
        if found is None:
            with concerning(kind):
                demands = None if kind in self._connected else self._demands(self._snapshot.of(kind))
            found = -1 - kind if demands is None else self._numbers.setdefault(demands, len(self._numbers))
            self._keys[kind] = found
        return found

    def counted_for(self, kind: KindId) -> set[KindId]:
        """The equivalence groups whose pods the rules about pods that apply to the group count, or that have such rules."""
        return {other for _, counter in self._rules(self._snapshot.of(kind)) for other in counter.kinds}

    def _demands(self, numbered: NumberedGroup) -> Hashable | None:
        """All that verdicts read of a group but its owner; None if the group is alike to no other one."""
        snapshot, kind, asks = self._snapshot, numbered.kind, numbered.asks
        if asks.host_ports or asks.disks or asks.inline_disks or needs_devices(snapshot, numbered):
            return None
        rules: list[object] = []
        for rule, counter in self._rules(numbered):
            if any(snapshot.counters.rows_of(other) for other in counter.kinds):
                return None
            rules.append((rule, counter.kinds.get(numbered.id, 0)))
        if asks.claims and not self._has_new_volumes(numbered):
            return None
        parts = (binding_part, volume_limits_part, volume_restrictions_part, VOLUME_ZONE.part) if asks.claims else ()
        volumes = tuple(part(snapshot, numbered) for part in parts)
        others = replace(asks, spread=(), affinity=(), anti_affinity=(), preferred_pods=(), spread_by_default=None, claims=())
        node = (kind.node_selector, kind.node_affinity, kind.tolerations, profile_of(snapshot.facts.profiles, kind))
        room = (kind.requests, kind.preempts, lacks_request(snapshot, kind), numbered.deleting)
        return (node, room, others, tuple(rules), volumes)

    def _has_new_volumes(self, numbered: NumberedGroup) -> bool:
        """Will all volumes of a group's pods be made, and for no other group?"""
        alone = all(self._users[claim] == 1 for claim in _claims(numbered))
        return alone and refused(self._snapshot, numbered) is None and gets_new_volumes(self._snapshot, numbered)

    def _rules(self, numbered: NumberedGroup) -> Iterator[tuple[Hashable, Counter]]:
        """The hard rules about pods that apply to a group, and the counter that each reads."""
        snapshot, asks = self._snapshot, numbered.asks
        for each in hard_constraints(numbered):
            nobody = replace(each, selector=None)
            counts = each.selector == (), selects(each.selector, numbered.labels)
            yield (nobody, counts), spread_counter(snapshot, numbered, each)
        if asks.affinity:
            keys = tuple(term.topology_key for term in asks.affinity)
            yield ("near", keys, matches_all_its_terms(snapshot, numbered)), term_counter(snapshot, *asks.affinity)
        for term in asks.anti_affinity:
            yield ("apart", term.topology_key), term_counter(snapshot, term)
        for term, counter in repelling(snapshot, numbered):
            yield ("repelled", term.topology_key), counter


def _claims(numbered: NumberedGroup) -> Iterator[ClaimKey]:
    return ((numbered.kind.namespace, mount.claim) for mount in numbered.asks.claims)
