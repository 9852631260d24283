"""The allocator: finds which devices of a node the claims of a pod would get.

    found = Allocator.of(snapshot).on(snapshot.facts, row, specs)         # picks, or why there are none
    allocations = Allocator.of(snapshot).allocations(snapshot.facts, row, specs)

Answers of selectors, boards of nodes, and results of searches are cached with the snapshot's devices. Nodes share one search if
their devices have the same properties for the claims and the same devices are in use.
"""

from collections.abc import Sequence
from typing import Self

from slackwater.fit.devices.board import Board, Layout, Usage, lay_out, rules_of
from slackwater.fit.devices.pools import NodePools, PoolDevice, pools_of
from slackwater.fit.devices.search import PickedDevice, Unallocatable, search
from slackwater.fit.devices.selectors import Selectors
from slackwater.model.devices import AllocatedDevice, Allocation, ClaimSpec, NodeChoice
from slackwater.model.ids import Row
from slackwater.model.kubernetes_rules import Rule
from slackwater.model.pod_constraints import NodeSelectorTerm
from slackwater.model.selectors import Requirement
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.device_table import DeviceTable
from slackwater.snapshot.node_facts import NodeFacts
from slackwater.snapshot.node_selector import NAME_FIELD

#: The most cached boards and results.
_MOST_KEPT = 200_000
#: The numbers of the specs of the claims to allocate (`Allocator.number`).
Specs = tuple[int, ...]


class Allocator:
    """Finds devices for claims on the nodes of one snapshot. It does not change the snapshot: callers enter the allocations
    that they choose (`fit.assumed_claims`)."""

    def __init__(self, table: DeviceTable) -> None:
        self._table = table
        self._selectors = Selectors()
        self._numbers: dict[ClaimSpec, int] = {}
        self._specs: list[ClaimSpec] = []
        #: The numbers of specs by identity, because hashing one takes long. Keeping the spec keeps its id unique.
        self._by_id: dict[int, tuple[ClaimSpec, int]] = {}
        self._layouts: dict[tuple[Specs, int], tuple[NodePools, Layout]] = {}
        self._boards: dict[Board, int] = {}
        #: What is in use by layout, with the revision of the table that it holds for.
        self._usages: dict[int, tuple[int, Layout, Usage]] = {}
        self._results: dict[tuple[int, Usage], tuple[PickedDevice, ...] | Unallocatable] = {}

    @classmethod
    def of(cls, snapshot: ClusterSnapshot) -> "Self":
        """The allocator of the snapshot's devices; created once for each `DeviceTable`."""
        table = snapshot.devices
        found = table.kept.get("allocator")
        if found is None:
            found = table.kept["allocator"] = cls(table)
        assert isinstance(found, cls)
        return found

    def number(self, spec: ClaimSpec) -> int:
        """The number of a spec; equal specs have the same number."""
        known = self._by_id.get(id(spec))
        if known is not None:
            return known[1]
        found = self._numbers.get(spec)
        if found is None:
            found = self._numbers[spec] = len(self._specs)
            self._specs.append(spec)
        if len(self._by_id) >= _MOST_KEPT:
            self._by_id.clear()
        self._by_id[id(spec)] = (spec, found)
        return found

    def on(self, facts: NodeFacts, row: Row, specs: Specs) -> tuple[PickedDevice, ...] | Unallocatable:
        """The devices that claims with these specs would get on a row, or why they would get none."""
        return self._search(self.layout(facts, row, specs))

    def allocations(self, facts: NodeFacts, row: Row, specs: Specs) -> list[Allocation] | Unallocatable:
        """The allocation of each claim on a row, with the devices' names and the nodes that can use them; or why there are
        none."""
        layout = self.layout(facts, row, specs)
        found = self._search(layout)
        if isinstance(found, Unallocatable):
            return found
        return [
            self._allocation(spec, at, [pick for pick in found if pick.claim == at], layout, facts.nodes[row].name)
            for at, spec in enumerate(specs)
        ]

    def usage(self, layout: Layout) -> Usage:
        """Which of a layout's devices, capacities and counters are in use."""
        known = self._usages.get(id(layout))
        if known is not None and known[0] == self._table.revision and known[1] is layout:
            return known[2]
        usage = self._usage(layout)
        if len(self._usages) >= _MOST_KEPT:
            self._usages.clear()
        self._usages[id(layout)] = (self._table.revision, layout, usage)
        return usage

    def _usage(self, layout: Layout) -> Usage:
        in_use, shares, ids = self._table.in_use, self._table.consumed, layout.ids
        if Rule.SHARES_WITHOUT_AMOUNT in layout.board.rules:
            shares = {device: shares.get(device, {}) for device in (*shares, *self._table.shares)}
        none_shared: tuple[None, ...] = (None,) * len(ids)
        return Usage(
            alone=tuple([device in in_use for device in ids]),
            consumed=(
                tuple([tuple(sorted(shares[device].items())) if device in shares else None for device in ids])
                if shares
                else none_shared
            ),
            counters=tuple(
                self._left(pool.counters, drawing) for pool, drawing in zip(layout.board.pools, layout.consumers, strict=True)
            ),
        )

    def _left(
        self, counters: tuple[int, ...], drawing: Sequence[tuple[PoolDevice, tuple[tuple[int, int], ...]]]
    ) -> tuple[int, ...]:
        if not drawing:
            return counters
        left = list(counters)
        for each, consumes in drawing:
            if each.id in self._table.in_use or each.id in self._table.shares:
                for line, amount in consumes:
                    left[line] -= amount
        return tuple(left)

    def layout(self, facts: NodeFacts, row: Row, specs: Specs) -> Layout:
        """The devices of a row's node, with what the claims ask of each."""
        pools = pools_of(self._table, facts, row)
        known = self._layouts.get((specs, id(pools)))
        if known is None:
            if len(self._boards) + len(self._results) + len(self._layouts) >= _MOST_KEPT:
                self._boards, self._results, self._layouts = {}, {}, {}
            claims = [self._specs[spec] for spec in specs]
            layout = lay_out(
                claims,
                pools,
                self._table.objects.classes,
                self._selectors,
                self._boards,
                rules=rules_of(facts.kubernetes),
            )
            known = self._layouts[specs, id(pools)] = (pools, layout)
        return known[1]

    def _search(self, layout: Layout) -> tuple[PickedDevice, ...] | Unallocatable:
        key = (layout.number, self.usage(layout))
        found = self._results.get(key)
        if found is None:
            found = self._results[key] = search(layout.board, key[1])
        return found

    def _allocation(self, spec: int, claim: int, picks: Sequence[PickedDevice], layout: Layout, node: str) -> Allocation:
        requests = layout.board.claims[claim].requests
        devices = []
        for nth, pick in enumerate(picks):
            request, chosen = requests[pick.request], layout.devices[pick.device]
            ask = request.asks[pick.ask]
            consumed = ask.consumes[pick.device] if chosen.device.shareable else None
            devices.append(
                AllocatedDevice(
                    request=f"{request.name}/{ask.name}" if request.alternatives else request.name,
                    device=chosen.id,
                    admin=ask.admin,
                    share=f"{spec}/{nth}" if chosen.device.shareable else None,
                    consumed=tuple((name, amount) for name, amount, _ in consumed or ()),
                    binding=chosen.device.binding or (),
                    failures=chosen.device.failures,
                )
            )
        return Allocation(devices=tuple(devices), terms=_terms([layout.devices[pick.device] for pick in picks], node))


def _terms(devices: Sequence[PoolDevice], node: str) -> tuple[NodeSelectorTerm, ...] | None:
    """The nodes that can use all the devices: the node itself if one of the devices is local to it; None for every node."""
    labels: dict[Requirement, None] = {}
    fields: dict[Requirement, None] = {}
    for each in devices:
        nodes = each.device.nodes if each.slice.per_device else each.slice.nodes
        choice = nodes or NodeChoice()
        if choice.name or each.device.binds_to_node:
            return (NodeSelectorTerm(labels=(), fields=(Requirement(NAME_FIELD, "In", (node,)),)),)
        if choice.terms is not None and len(choice.terms) == 1:
            labels.update(dict.fromkeys(choice.terms[0].labels))
            fields.update(dict.fromkeys(choice.terms[0].fields))
    if not labels and not fields:
        return None
    return (NodeSelectorTerm(labels=tuple(labels), fields=tuple(fields)),)
