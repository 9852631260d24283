"""Which bundles an option that is taken affects through the snapshot: those that would be estimated differently afterwards.

A pod with a spread, affinity or volume may be judged by where any other pod is. But of twenty pools with taints and workloads
of their own, a node of one changes nothing for the others. So what an option adds is compared with what the pods of the demand
read.

Invariant: a bundle that is not affected gets the same estimate before and after the option was taken. Where this is not known,
it is affected. Deliberately absent: limits, and present rows that two options fill (`option_queue` compares both).
"""

from collections.abc import Hashable, Sequence

import numpy as np

from slackwater.controllers.scaleup.estimate import Option
from slackwater.controllers.scaleup.template_nodes import TemplateNodes
from slackwater.fit.assumed_claims import has_claims
from slackwater.fit.failure import concerning
from slackwater.fit.plugins.dynamic_resources import needs_devices
from slackwater.fit.plugins.pod_topology_spread import CountingRows, hard_constraints, rows_with_labels
from slackwater.model.columns import Mask
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId, NumberedGroup


class OptionEffects:
    """What the pods of the demand read, by what an option may add. Make it before the first option is taken: it knows which
    topology domains there are."""

    def __init__(self, template_nodes: TemplateNodes, bundles: Sequence[tuple[int, ...]]) -> None:
        self._of, snapshot = template_nodes, template_nodes.snapshot
        self._moving = template_nodes.inter_pod_constraints.moving
        #: The bundles whose new nodes pods of each equivalence group may go to, and those of each node group.
        self._taking: dict[KindId, list[tuple[int, ...]]] = {}
        self._having: dict[int, list[tuple[int, ...]]] = {}
        for bundle in bundles:
            for kind in template_nodes.kinds_that_fit(bundle):
                self._taking.setdefault(kind, []).append(bundle)
            for group in bundle:
                self._having.setdefault(group, []).append(bundle)
        #: The moving equivalence groups for whose rules about pods those of each one count.
        self._readers: dict[KindId, set[KindId]] = {}
        for kind in self._moving:
            for other in template_nodes.alike.counted_for(kind):
                self._readers.setdefault(other, set()).add(kind)
        #: The equivalence groups whose pods take volumes or devices.
        self._storing = {kind for kind in template_nodes.codes if _stores(snapshot, snapshot.of(kind))}
        self._spread, self._opening = self._new_domains()

    def of(self, taken: Option) -> set[tuple[int, ...]]:
        """The bundles that may be estimated differently once the option is in the snapshot."""
        opened = np.unique(taken.groups).tolist()
        placed = set(taken.kinds)
        affected = placed | self._moving.intersection(self._of.kinds_that_fit(opened))
        for kind in placed.union(*(self._of.running_kinds[group] for group in opened)):
            affected |= self._readers.get(kind, set())
        if not self._storing.isdisjoint(placed):
            affected |= self._storing
        affected.update(self._spread[at] for at in np.flatnonzero(self._opening[:, opened].any(axis=1)).tolist())
        found = {bundle for group in taken.bundle for bundle in self._having.get(group, ())}
        for kind in affected:
            found.update(self._taking.get(kind, ()))
        return found

    def _new_domains(self) -> tuple[list[KindId], Mask]:
        """The equivalence groups with a hard spread, and for each the node groups of which a new node is a topology domain that
        it does not have yet; shape (equivalence groups, node groups)."""
        of, snapshot = self._of, self._of.snapshot
        spread = [kind for kind in sorted(self._moving) if of.spreads(kind)]
        known: dict[Hashable, Mask] = {}
        found: list[Mask] = []
        with of.template_rows() as rows:
            for kind in spread:
                numbered = snapshot.of(kind)
                node = numbered.kind.node_selector, numbered.kind.node_affinity, numbered.kind.tolerations
                each = ((one.topology_key, one.honor_affinity, one.honor_taints) for one in hard_constraints(numbered))
                key = (node, *each)
                if key not in known:
                    opening = known[key] = np.zeros(len(of.groups), np.bool_)
                    with concerning(kind):
                        opening[list(rows)] = _opens(snapshot, numbered, list(rows.values()))
                found.append(known[key])
        return spread, np.array(found, np.bool_).reshape(len(spread), len(of.groups))


def _opens(snapshot: ClusterSnapshot, kind: NumberedGroup, new: Sequence[int]) -> Mask:
    """Which of the `new` rows count for a hard spread with a value of a topology key that no other row which counts has; shape
    (len(new),)."""
    constraints = hard_constraints(kind)
    counting = CountingRows(snapshot, kind, rows_with_labels(snapshot, constraints))
    found = np.zeros(len(new), np.bool_)
    for constraint in constraints:
        counted = counting.of(constraint)
        there = counted.copy()
        there[new] = False
        ids = snapshot.facts.label(constraint.topology_key).ids[: snapshot.n_rows]
        found |= counted[new] & ~np.isin(ids[new], ids[there])
    return found


def _stores(snapshot: ClusterSnapshot, kind: NumberedGroup) -> bool:
    return bool(kind.asks.disks or kind.asks.inline_disks or has_claims(snapshot, kind) or needs_devices(snapshot, kind))
