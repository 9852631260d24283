"""Why no node group helps pods that are left over: for each node group, why a new node of it would not take them.

In: the verdicts on template nodes (`template_nodes`), and the equivalence groups that are left, the most important first. Out:
the refusals of each. Equivalence groups whose refusals are the same share one mapping, however many they are. At most
`_MOST_REFUSALS` are found; which equivalence groups got none is known from the answer. Deliberately absent: why a node group
may not grow (`groups.SkipReason`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from slackwater.controllers.scaleup.outcome import GroupRefusal
from slackwater.controllers.scaleup.template_nodes import IS_MOVING, TemplateNodes
from slackwater.fit.failure import concerning
from slackwater.fit.feasible_nodes import SPREAD, feasible
from slackwater.fit.plugins import Refusal
from slackwater.fit.plugins.inter_pod_affinity import repelling_counters
from slackwater.fit.reason_texts import words
from slackwater.model.columns import Int64, Mask
from slackwater.model.ids import Row
from slackwater.model.reasons import Reason
from slackwater.snapshot.counted_pods import TermCarriers
from slackwater.snapshot.equivalence_groups import KindId
from slackwater.snapshot.node_facts import HOSTNAME

#: The most refusals found in one plan, one for each node group and each different set of refusals; but at least `_FEWEST` sets.
_MOST_REFUSALS: Final = 100_000
_FEWEST: Final = 100
#: Verdicts whose texts depend on the node, or on more of the pod than its requests.
_TEXTS_DIFFER: Final = frozenset(
    {
        Reason.VOLUME_NODE_CONFLICT,
        Reason.VOLUME_BIND_CONFLICT,
        Reason.STORAGE_SHORT,
        Reason.VOLUME_NOT_FOUND,
        Reason.CSI_DRIVER_MISSING,
        Reason.NODE_FEATURES,
        Reason.DEVICES_NOT_MODELLED,
    }
)
#: So many requested resources fit the bits of a number.
_MOST_LINES: Final = 60
Refusals = Mapping[int, GroupRefusal]


class RefusalSearch:
    """Finds the refusals of equivalence groups on the present snapshot."""

    def __init__(self, template_nodes: TemplateNodes) -> None:
        self._of = template_nodes
        self._snapshot = template_nodes.snapshot
        self._known: dict[tuple[Reason, tuple[str, ...]], GroupRefusal] = {}

    def of(self, kinds: Iterable[KindId], stop: Callable[[], bool]) -> dict[KindId, Refusals]:
        """The refusals of each equivalence group, by the node group's position. Those for which the bound, or `stop`, left
        none are missing. A node group that would take the pods is missing in the refusals."""
        most = max(_MOST_REFUSALS // max(len(self._of.groups), 1), _FEWEST)
        shared: dict[object, Refusals] = {}
        found: dict[KindId, Refusals] = {}
        moving: list[KindId] = []
        with self._of.template_rows() as rows:
            for kind in kinds:
                with concerning(kind):
                    key = self._shared_by(kind)
                    if key not in shared and (len(shared) >= most or stop()):
                        continue
                    if key not in shared:
                        shared[key] = self._on_templates(kind, rows)
                        moving += [kind] if self._of.spreads(kind) and self._moving(kind).any() else []
                    found[kind] = shared[key]
        for kind in moving:
            with concerning(kind):
                found[kind] = {**found[kind], **self._one_by_one(kind)}
        return found

    def _moving(self, kind: KindId) -> Mask:
        """The node groups, shape (groups,), whose verdict depends on where other pods are."""
        return IS_MOVING[self._of.codes[kind]]

    def _shared_by(self, kind: KindId) -> object:
        """A key that is the same for equivalence groups with the same refusals; the group itself if others may differ."""
        asks, amounts = self._snapshot.of(kind).asks, self._of.amounts(kind)
        own = asks.claims or asks.resource_claims or asks.container_devices or asks.disks or asks.inline_disks
        moves = kind in self._of.inter_pod_constraints.moving and self._moving(kind).any()
        if own or moves or len(amounts) > _MOST_LINES:
            return kind
        lines = tuple(line for line, _ in amounts)
        return (asks.features, lines, self._of.codes[kind].tobytes(), self._short(kind).tobytes())

    def _short(self, kind: KindId) -> Int64:
        """Which resources are short on an empty new node of each node group: bit 2n for the nth that a pod requests, and bit
        2n + 1 if a node without any pod lacks it too; shape (groups,)."""
        short = np.zeros(len(self._of.groups), np.int64)
        for number, (line, amount) in enumerate(self._of.amounts(kind)):
            lacking = (self._of.empty[line] < amount).astype(np.int64)
            if lacking.any():
                short += (lacking + 2 * (self._of.total[line] < amount)) << (2 * number)
        return short

    def _on_templates(self, kind: KindId, rows: Mapping[int, int]) -> Refusals:
        """The refusals by the template nodes, which are all in the snapshot. If pods of the group are spread, only those by
        rules that no other node affects."""
        spreads, codes = self._of.spreads(kind), self._of.codes[kind]
        verdicts = feasible(self._snapshot, kind, without=(SPREAD,) if spreads else ())
        short = self._short(kind)
        found: dict[int, GroupRefusal] = {}
        alike: dict[tuple[int, int, str], GroupRefusal] = {}
        here = verdicts.codes[list(rows.values())]
        here[codes[list(rows)] == Reason.SPREAD_LABEL_MISSING] = Reason.SPREAD_LABEL_MISSING
        for at, code, bits in zip(rows, here.tolist(), short[list(rows)].tolist(), strict=True):
            if code == Reason.OK or (spreads and IS_MOVING[code]):
                continue
            broken = self._of.template(at).broken_promise
            refusal = alike.get((code, bits, broken))
            if refusal is None:
                refusal = self._refusal(kind, Row(rows[at]), Reason(code), verdicts.refusal, broken)
                if refusal.reason not in _TEXTS_DIFFER:
                    alike[code, bits, broken] = refusal
            found[at] = refusal
        return found

    def _refusal(self, kind: KindId, row: Row, reason: Reason, of_pod: Refusal | None, broken: str) -> GroupRefusal:
        """The refusal for a verdict. `broken`: in what the group's nodes differ from its template, or ""."""
        said = tuple(words(self._snapshot, kind, row, reason, of_pod)) + ((broken,) if broken else ())
        return self._known.setdefault((reason, said), GroupRefusal(reason=reason, words=said))

    def _one_by_one(self, kind: KindId) -> Refusals:
        """The refusals by node groups whose verdict depends on other nodes. Each template node is judged alone in the snapshot,
        and once for those that have the same labels as far as rules about other pods read them."""
        keys = self._keys(kind)
        alike: dict[object, list[int]] = {}
        for at in np.flatnonzero(self._moving(kind)).tolist():
            labels = self._of.node(at).labels
            broken = self._of.template(at).broken_promise
            alike.setdefault((broken, *(labels.get(key) for key in keys)), []).append(at)
        found: dict[int, GroupRefusal] = {}
        for same in alike.values():
            with self._of.template_rows(same[:1]) as rows:
                verdicts = feasible(self._snapshot, kind)
                reason = Reason(verdicts.codes[rows[same[0]]])
                if reason is not Reason.OK:
                    broken = self._of.template(same[0]).broken_promise
                    refusal = self._refusal(kind, Row(rows[same[0]]), reason, verdicts.refusal, broken)
                    found.update(dict.fromkeys(same, refusal))
        return found

    def _keys(self, kind: KindId) -> Sequence[str]:
        """The labels that rules about other pods read, without the hostname, which is new on every new node."""
        numbered = self._snapshot.of(kind)
        keys = {constraint.topology_key for constraint in numbered.asks.spread}
        keys.update(term.topology_key for term in (*numbered.asks.affinity, *numbered.asks.anti_affinity))
        counters = (counter.of for counter in repelling_counters(self._snapshot, numbered))
        keys.update(of.term.topology_key for of in counters if isinstance(of, TermCarriers))
        return sorted(keys - {HOSTNAME})
