"""Template nodes: an empty new node of each group, and which equivalence groups of the demand it would take.

In a trial, one template node of each group is added to the snapshot with its DaemonSet pods, and every equivalence group is
judged on it by every rule. What is free on a template node is free on each new node of its group. Deliberately absent: how pods
of the demand affect one another (`inter_pod_constraints`, `new_nodes`).
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import numpy as np

from slackwater.controllers.scaleup.groups import GrowableGroup, Template, add_nodes
from slackwater.controllers.scaleup.inter_pod_constraints import AlikePods, InterPodConstraints
from slackwater.fit.devices.extended import backed_resources
from slackwater.fit.failure import concerning
from slackwater.fit.feasible_nodes import AFFINITY, LEDGER, RESOURCES, SPREAD, feasible
from slackwater.fit.plugins.node_accounting import lacks_request
from slackwater.fit.plugins.node_resources import ignored_lines, lacking_everywhere
from slackwater.fit.plugins.pod_topology_spread import hard_constraints, rows_with_labels
from slackwater.model.columns import Codes, Int64, Mask, Rows
from slackwater.model.ids import NodeName
from slackwater.model.objects import Node
from slackwater.model.reasons import Reason
from slackwater.model.resources import Amounts
from slackwater.model.scheduler_profile import profile_of
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId, NumberedGroup
from slackwater.snapshot.node_facts import CPU, MEMORY

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
        pods = [pod for _, template in self._templates for pod in template.running_pods]
        self._running_pods = set(map(KindId, snapshot.number(pods).tolist()))
        self.alike = AlikePods(snapshot, kinds if self.inter_pod_constraints.moving else (), self._running_pods)
        with self.template_rows() as rows:
            self.empty, self.total = _left(snapshot, rows, len(groups))
            self._judge(kinds, range(snapshot.n_rows - len(rows), snapshot.n_rows))

    def _judge(self, kinds: Sequence[KindId], rows: range) -> None:
        """Judges every equivalence group on the template nodes. Groups that no rule about other pods affects are judged once
        for each different set of demands on a node; only amounts are compared for each group."""
        known: dict[object, Codes] = {}
        for kind in sorted(kinds):
            with concerning(kind):
                self.codes[kind] = self._on_empty(kind, rows, known)

    def _on_empty(self, kind: KindId, rows: range, known: dict[object, Codes]) -> Codes:
        numbered = self.snapshot.of(kind)
        alone = not self.inter_pod_constraints.is_free_on_empty(kind, self._running_pods)
        if alone or lacks_request(self.snapshot, numbered.kind):
            return self._codes(numbered, rows)
        asks = _of_the_node(numbered), profile_of(self.snapshot.facts.profiles, numbered.kind)
        if asks not in known:
            known[asks] = self._codes(numbered, rows, without=(AFFINITY, SPREAD, RESOURCES, LEDGER))
        return self._with_room(kind, known[asks])

    def _with_room(self, kind: KindId, codes: Codes) -> Codes:
        """Adds verdicts on room to `codes`, the verdicts of the other rules: RESOURCES_SHORT where these accept the node and a
        pod of the group needs more than `empty`."""
        short = np.full(len(codes), bool(lacking_everywhere(self.snapshot, self.snapshot.of(kind))))
        for line, amount in self.amounts(kind):
            short |= self.empty[line] < amount
        short &= codes == _OK
        return np.where(short, _SHORT, codes) if short.any() else codes

    def _codes(self, kind: NumberedGroup, rows: range, *, without: Sequence[str] = (SPREAD,)) -> Codes:
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

    def node(self, group: int) -> Node:
        return self.template(group).node

    def takes(self, kind: KindId, group: int) -> bool:
        return not self.codes[kind][group]

    def amounts(self, kind: KindId) -> list[tuple[int, int]]:
        """What a pod of the group takes of a node: (line of `empty`, amount) for each amount > 0. The pod itself takes 1 of the
        resource `pods`."""
        found = self._amounts.get(kind)
        if found is None:
            n_lines = len(self.snapshot.facts.resource)
            asked = self.snapshot.kinds.requests[:n_lines, kind].tolist()
            if self.snapshot.ledger is not None:
                asked += [asked[CPU], asked[MEMORY]]
            left_out = self._backed_lines(kind) | ignored_lines(self.snapshot, self.snapshot.of(kind))
            found = [(line, amount) for line, amount in enumerate(asked) if amount and line not in left_out]
            self._amounts[kind] = found
        return found

    def _backed_lines(self, kind: KindId) -> set[int]:
        """The lines of extended resources that DRA devices may provide. Their amounts are not compared here: a trial on the
        snapshot finds how many pods a node takes."""
        devices, line = self.snapshot.devices, self.snapshot.facts.resource
        names = backed_resources(devices, self.snapshot.of(kind).asks.container_devices)
        return {line[name] for name in names if name in line}

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
