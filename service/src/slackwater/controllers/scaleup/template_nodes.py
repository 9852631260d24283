"""Template nodes: an empty new node of each group, and which equivalence groups of the demand it would take.

In a trial, one template node of each group is added to the snapshot with its DaemonSet pods, and every equivalence group is
judged on it by every rule. What is free on a template node is free on each new node of its group. Deliberately absent: how pods
of the demand affect one another (`inter_pod_constraints`, `new_nodes`).

`RefusalSearch` finds why no node group helps pods that are left over: for each node group, why a new node of it would not take
them. Equivalence groups whose refusals are the same share one mapping, however many they are. At most `_MOST_REFUSALS` are
found; which equivalence groups got none is known from the answer.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import numpy as np

from slackwater.controllers.scaleup.groups import GrowableGroup, Template, add_nodes
from slackwater.controllers.scaleup.inter_pod_constraints import AlikePods, InterPodConstraints, topology_keys
from slackwater.controllers.scaleup.outcome import GroupRefusal
from slackwater.fit.failure import concerning
from slackwater.fit.feasible_nodes import feasible, words
from slackwater.fit.plugins import Predicate, Refusal
from slackwater.fit.plugins.dynamic_resources import backed_resources
from slackwater.fit.plugins.inter_pod_affinity import POD_AFFINITY
from slackwater.fit.plugins.node_accounting import LEDGER, lacks_request
from slackwater.fit.plugins.node_resources import RESOURCES_FIT, ignored_lines, lacking_everywhere
from slackwater.fit.plugins.pod_topology_spread import TOPOLOGY_SPREAD, hard_constraints, rows_with_labels
from slackwater.model.columns import Codes, Int64, Mask, Rows
from slackwater.model.ids import NodeName, Row
from slackwater.model.reasons import Reason
from slackwater.model.resources import Amounts
from slackwater.model.scheduler_profile import profile_of
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId, NumberedGroup
from slackwater.snapshot.node_facts import CPU, HOSTNAME, MEMORY

#: Constants, because looking up a member of an enum costs more than comparing the verdicts of an equivalence group.
_OK: Final = np.uint8(Reason.OK)
_SHORT: Final = np.uint8(Reason.RESOURCES_SHORT)
#: Verdicts on a node that may change when a pod is placed on another node.
MOVING: Final = (
    Reason.OK,
    Reason.SPREAD_SKEW,
    Reason.POD_AFFINITY,
    Reason.POD_ANTI_AFFINITY,
    Reason.EXISTING_ANTI_AFFINITY,
    Reason.VOLUME_BIND_CONFLICT,
    Reason.VOLUME_NODE_CONFLICT,
    Reason.STORAGE_SHORT,
)
#: Whether a verdict is one of these, by its number.
IS_MOVING: Final = np.isin(np.arange(256), MOVING)


class TemplateNodes:
    """The template nodes of the groups, with verdicts on them. Groups are given by position; one without a template takes no
    pod.

    `empty`: what is free on a new node; shape (lines, groups), with one line for each resource of the snapshot; if our
    accounting is judged too, then one line for its CPU and one for its memory. `total`: the same for a node without pods.
    `codes[kind]`: the verdicts on the template
    nodes, shape (groups,). `inter_pod_constraints`: how the equivalence groups affect one another. `alike`: which of them an
    estimate places in the same way.
    """

    def __init__(
        self, snapshot: ClusterSnapshot, groups: Sequence[GrowableGroup], kinds: Sequence[KindId], *, system: Amounts
    ) -> None:
        self.snapshot = snapshot
        self.groups = groups
        self.system = system
        self._templates = [(at, group.template) for at, group in enumerate(groups) if group.template is not None]
        self._with_template = np.array([at for at, _ in self._templates], np.intp)
        self.codes: dict[KindId, Codes] = {}
        self._amounts: dict[KindId, list[tuple[int, int]]] = {}
        self._takers: Mask | None = None
        self.inter_pod_constraints = InterPodConstraints(snapshot, kinds)
        #: The equivalence groups of the DaemonSet pods that come with a new node of each group.
        self.running_kinds: list[set[KindId]] = [set() for _ in groups]
        for group, template in self._templates:
            self.running_kinds[group].update(map(KindId, snapshot.number(template.running_pods).tolist()))
        self._running_pods = set[KindId]().union(*self.running_kinds)
        self.alike = AlikePods(snapshot, kinds if self.inter_pod_constraints.moving else (), self._running_pods)
        with self.template_rows() as rows:
            self.empty, self.total = _left(snapshot, rows, len(groups))
            #: Verdicts by what a group demands of a node, for groups that no rule about other pods affects: only amounts are
            #: compared for each of them.
            known: dict[object, Codes] = {}
            for kind in sorted(kinds):
                with concerning(kind):
                    self.codes[kind] = self._on_empty(kind, range(snapshot.n_rows - len(rows), snapshot.n_rows), known)

    def _on_empty(self, kind: KindId, rows: range, known: dict[object, Codes]) -> Codes:
        numbered = self.snapshot.of(kind)
        alone = not self.inter_pod_constraints.is_free_on_empty(kind, self._running_pods)
        if alone or lacks_request(self.snapshot, numbered.kind):
            return self._codes(numbered, rows)
        asks = _of_the_node(numbered), profile_of(self.snapshot.facts.profiles, numbered.kind)
        if asks not in known:
            known[asks] = self._codes(numbered, rows, without=(POD_AFFINITY, TOPOLOGY_SPREAD, RESOURCES_FIT, LEDGER))
        # RESOURCES_SHORT where the other rules accept the node and a pod of the group needs more than `empty`.
        codes, short = known[asks], np.full(len(self.groups), bool(lacking_everywhere(self.snapshot, numbered)))
        for line, amount in self.amounts(kind):
            short |= self.empty[line] < amount
        short &= codes == _OK
        return np.where(short, _SHORT, codes) if short.any() else codes

    def _codes(self, kind: NumberedGroup, rows: range, *, without: Sequence[Predicate] = (TOPOLOGY_SPREAD,)) -> Codes:
        """The verdicts on the template nodes; shape (groups,).

        The verdict of a topology spread may change with every pod, and the template node of one group affects those of others.
        So for a spread only the verdict that a node lacks its label is used.
        """
        found = feasible(self.snapshot, kind.id, without=without).codes
        if self.spreads(kind.id):
            labelled = rows_with_labels(self.snapshot, hard_constraints(kind))
            found[~labelled & IS_MOVING[found]] = Reason.SPREAD_LABEL_MISSING
        codes = np.full(len(self.groups), Reason.NODE_UNKNOWN, np.uint8)
        codes[self._with_template] = found[rows.start : rows.stop]
        return codes

    def spreads(self, kind: KindId) -> bool:
        """Does a hard topology spread limit pods of the group?"""
        return any(constraint.hard for constraint in self.snapshot.of(kind).asks.spread)

    def template(self, group: int) -> Template:
        template = self.groups[group].template
        assert template is not None
        return template

    def all_or_nothing(self, group: int) -> bool:
        """Does the group grow either to its maximum or not at all?"""
        return bool(self.groups[group].group.options.all_or_nothing)

    def amounts(self, kind: KindId) -> list[tuple[int, int]]:
        """What a pod of the group takes of a node: (line of `empty`, amount) for each amount > 0. The pod itself takes 1 of the
        resource `pods`."""
        found = self._amounts.get(kind)
        if found is None:
            n_lines = len(self.snapshot.facts.resource)
            asked = self.snapshot.kinds.requests[:n_lines, kind].tolist()
            if self.snapshot.ledger is not None:
                asked += [asked[CPU], asked[MEMORY]]
            numbered = self.snapshot.of(kind)
            # Extended resources that DRA devices may provide: a trial on the snapshot finds how many pods a node takes.
            backed = backed_resources(self.snapshot.devices, numbered.asks.container_devices)
            line_of = self.snapshot.facts.resource
            left_out = {line_of[name] for name in backed if name in line_of} | ignored_lines(self.snapshot, numbered)
            found = [(line, amount) for line, amount in enumerate(asked) if amount and line not in left_out]
            self._amounts[kind] = found
        return found

    def copies(self, kind: KindId, groups: Sequence[int]) -> list[int]:
        """How many pods of the equivalence group an empty new node of each group takes now, as far as the pods' own amounts and
        marks decide; 0 if it takes none."""
        at = np.array(groups, np.intp)
        return self._most(kind, at, self.codes[kind][at] == _OK)

    def most_copies(self, kind: KindId, groups: Sequence[int]) -> list[int]:
        """How many pods of the equivalence group an empty new node of each group may take at most, wherever other pods are
        placed; 0 if it can never take one."""
        at = np.array(groups, np.intp)
        return self._most(kind, at, IS_MOVING[self.codes[kind][at]])

    def _most(self, kind: KindId, at: Rows, taken: Mask) -> list[int]:
        most = taken.astype(np.int64)
        if not self.inter_pod_constraints.is_alone(kind):
            fitting = [self.empty[line, at] // amount for line, amount in self.amounts(kind)]
            most *= np.min(fitting, axis=0)
        found: list[int] = most.tolist()
        return found

    def kinds_that_fit(self, groups: Sequence[int]) -> list[KindId]:
        """The equivalence groups of the demand whose pods a new node of at least one of the groups may take."""
        if self._takers is None:
            everywhere = range(len(self.groups))
            each = [
                np.array(self.most_copies(kind, everywhere)) > 0 if kind in self.inter_pod_constraints.moving else codes == _OK
                for kind, codes in self.codes.items()
            ]
            self._takers = np.array(each, np.bool_).reshape(len(each), len(self.groups)).T.copy()
        kinds = list(self.codes)
        return [kinds[at] for at in np.flatnonzero(self._takers[list(groups)].any(axis=0)).tolist()]

    def refused_for_good(self, kind: KindId) -> bool:
        """Will no new node ever take a pod of the equivalence group, wherever other pods are placed?"""
        return not IS_MOVING[self.codes[kind]].any()

    @contextmanager
    def template_rows(self, some: Collection[int] | None = None) -> Iterator[dict[int, int]]:
        """Adds template nodes to the snapshot while the block runs: those of all groups, or of some. Yields their rows by the
        group's position."""
        with self.snapshot.fork():
            rows = {}
            for at, template in self._templates:
                if some is not None and at not in some:
                    continue
                name = NodeName(f"specimen:{self.groups[at].name}")
                with concerning(self.groups[at].name):
                    rows[at] = add_nodes(self.snapshot, template, [name], system=self.system).start
            yield rows


def _of_the_node(numbered: NumberedGroup) -> object:
    """What an equivalence group demands of a node, without amounts and without rules about other pods; groups with equal
    results share verdicts."""
    kind, asks = numbered.kind, numbered.asks
    labels = (kind.node_selector, kind.node_affinity, kind.tolerations, asks.node_name, asks.features)
    spread = tuple(constraint.topology_key for constraint in asks.spread if constraint.hard)
    return (asks.host_ports, asks.resource_claims, labels, spread)


def _left(snapshot: ClusterSnapshot, rows: dict[int, int], n_groups: int) -> tuple[Int64, Int64]:
    """What is free on the template nodes, and what they have without any pod; shape (lines, groups) each."""
    lines = len(snapshot.facts.resource)
    total = np.zeros((lines + (0 if snapshot.ledger is None else 2), n_groups), np.int64)
    left = total.copy()
    for at, row in rows.items():
        total[:lines, at] = snapshot.facts.allocatable[:lines, row]
        left[:lines, at] = total[:lines, at] - snapshot.used[:lines, row]
        if snapshot.ledger is not None:
            total[lines:, at] = snapshot.ledger.total[:, row]
            left[lines:, at] = snapshot.ledger.free(row)
    return left, total


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
        self._shared: dict[object, Refusals] = {}

    def of(self, kinds: Iterable[KindId], stop: Callable[[], bool] = lambda: False) -> dict[KindId, Refusals]:
        """The refusals of each equivalence group, by the node group's position. Those for which the bound, or `stop`, left
        none are missing. A node group that would take the pods is missing in the refusals."""
        most = max(_MOST_REFUSALS // max(len(self._of.groups), 1), _FEWEST)
        shared = self._shared
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
                        moving += [kind] if self._of.spreads(kind) and IS_MOVING[self._of.codes[kind]].any() else []
                    found[kind] = shared[key]
        for kind in moving:
            with concerning(kind):
                found[kind] = {**found[kind], **self._one_by_one(kind)}
        return found

    def _shared_by(self, kind: KindId) -> object:
        """A key that is the same for equivalence groups with the same refusals; the group itself if others may differ."""
        asks, amounts = self._snapshot.of(kind).asks, self._of.amounts(kind)
        own = asks.claims or asks.resource_claims or asks.container_devices or asks.disks or asks.inline_disks
        moves = kind in self._of.inter_pod_constraints.moving and IS_MOVING[self._of.codes[kind]].any()
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
        verdicts = feasible(self._snapshot, kind, without=(TOPOLOGY_SPREAD,) if spreads else ())
        short = self._short(kind)
        found: dict[int, GroupRefusal] = {}
        alike: dict[tuple[int, int, str], GroupRefusal] = {}
        here = verdicts.codes[list(rows.values())]
        here[codes[list(rows)] == Reason.SPREAD_LABEL_MISSING] = Reason.SPREAD_LABEL_MISSING
        for at, code, bits in zip(rows, here.tolist(), short[list(rows)].tolist(), strict=True):
            if code == Reason.OK or (spreads and IS_MOVING[code]):
                continue
            remark = self._of.template(at).remark
            refusal = alike.get((code, bits, remark))
            if refusal is None:
                refusal = self._refusal(kind, Row(rows[at]), Reason(code), verdicts.refusal, remark)
                if refusal.reason not in _TEXTS_DIFFER:
                    alike[code, bits, remark] = refusal
            found[at] = refusal
        return found

    def _refusal(self, kind: KindId, row: Row, reason: Reason, of_pod: Refusal | None, remark: str) -> GroupRefusal:
        """The refusal for a verdict. `remark`: what is to be said of the group's new nodes, or ""."""
        said = tuple(words(self._snapshot, kind, row, reason, of_pod)) + ((remark,) if remark else ())
        return self._known.setdefault((reason, said), GroupRefusal(reason=reason, words=said))

    def _one_by_one(self, kind: KindId) -> Refusals:
        """The refusals by node groups whose verdict depends on other nodes. Each template node is judged alone in the snapshot,
        and once for those that have the same labels as far as rules about other pods read them."""
        keys = sorted(topology_keys(self._snapshot, self._snapshot.of(kind)) - {HOSTNAME})  # each new node has its own hostname
        alike: dict[object, list[int]] = {}
        for at in np.flatnonzero(IS_MOVING[self._of.codes[kind]]).tolist():
            template = self._of.template(at)
            labels, remark = template.node.labels, template.remark
            alike.setdefault((remark, *(labels.get(key) for key in keys)), []).append(at)
        found: dict[int, GroupRefusal] = {}
        for same in alike.values():
            with self._of.template_rows(same[:1]) as rows:
                verdicts = feasible(self._snapshot, kind)
                reason = Reason(verdicts.codes[rows[same[0]]])
                if reason is not Reason.OK:
                    remark = self._of.template(same[0]).remark
                    refusal = self._refusal(kind, Row(rows[same[0]]), reason, verdicts.refusal, remark)
                    found.update(dict.fromkeys(same, refusal))
        return found
