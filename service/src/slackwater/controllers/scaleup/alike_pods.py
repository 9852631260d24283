"""Alike equivalence groups: those that an estimate places in the same way, because they differ only in whose pods they are.

A hundred workloads with a topology spread over their own pods, or five hundred pods with a claim of their own each, are as many
equivalence groups. In an estimate they take room from one another and affect one another in nothing else, so what is found for
one serves the next (`new_nodes.TrackedNodes.fill_alike`).

In: the equivalence groups of the demand. Out: a key for each. Invariant: of groups with equal keys none affects the verdicts on
another but by the room that it takes, and all of them get the same verdicts on the present snapshot. A group of which pods are
placed already is alike no other one: its pods are where no other's are.
"""

import collections
from collections.abc import Hashable, Iterator, Sequence, Set
from dataclasses import replace

from slackwater.fit.failure import concerning
from slackwater.fit.feasible_nodes import refused
from slackwater.fit.plugins.dynamic_resources import needs_devices
from slackwater.fit.plugins.inter_pod_affinity import matches_all_its_terms, repelling_counters, term_counter
from slackwater.fit.plugins.node_accounting import lacks_request
from slackwater.fit.plugins.pod_topology_spread import hard_constraints, spread_counter
from slackwater.fit.plugins.volume_binding import binding_part, gets_new_volumes
from slackwater.fit.plugins.volume_rules import volume_limits_part, volume_restrictions_part, volume_zone_part
from slackwater.model.scheduler_profile import profile_of
from slackwater.model.selectors import selects
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.counted_pods import TermCarriers
from slackwater.snapshot.counters import Counter
from slackwater.snapshot.equivalence_groups import KindId, NumberedGroup
from slackwater.snapshot.storage_table import ClaimKey


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
        parts = (binding_part, volume_limits_part, volume_restrictions_part, volume_zone_part) if asks.claims else ()
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
        for counter in repelling_counters(snapshot, numbered):
            assert isinstance(counter.of, TermCarriers)
            yield ("repelled", counter.of.term.topology_key), counter


def _claims(numbered: NumberedGroup) -> Iterator[ClaimKey]:
    return ((numbered.kind.namespace, mount.claim) for mount in numbered.asks.claims)
