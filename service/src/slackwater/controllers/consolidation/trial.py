"""Tries a set of nodes: closes them, and lets scale-up plan where their pods go.

In: the set, with the pods of each node. Out: how many pods of each equivalence group go to which present row, and to which new
node of which group (`Places`). The snapshot is left as it was. Limits of groups and quotas count the closed nodes too, since
replacements are there before the first eviction.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from msgspec import structs

from slackwater.controllers.consolidation.candidates import Candidate
from slackwater.controllers.consolidation.moves import Places
from slackwater.controllers.consolidation.spare_room import proposed_nodes
from slackwater.controllers.scaleup.expanders import packs
from slackwater.controllers.scaleup.groups import GrowableGroup, NodeQuota, SkipReason, amount_of, counts_for
from slackwater.controllers.scaleup.pending import Demand
from slackwater.controllers.scaleup.plan import plan_scale_up
from slackwater.controllers.scaleup.policy import ScaleUpPolicy
from slackwater.fit.evacuation import clear_row
from slackwater.fit.steps import PlanSteps
from slackwater.model.columns import Int64
from slackwater.model.ids import Row
from slackwater.model.objects import Node
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId
from slackwater.snapshot.node_facts import CPU, MEMORY
from slackwater.snapshot.running_pods import RunningPod

_ON_DEMAND: Final = SkipReason(kind="switched-off", text="pods of on-demand nodes get no new spot nodes")
#: The time limit of a plan whose clock says 0 until the whole plan has to end.
_HALF: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class SetNode:
    """A node of the set. `there`: all pods on it. `movers`: those that move, in the form in which they come back."""

    candidate: Candidate
    there: Sequence[RunningPod]
    movers: Sequence[RunningPod]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The result of a trial. `groups`: the position of each new node's group, in the order of `places.new`."""

    places: Places
    groups: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trials:
    """What all trials of a plan share."""

    snapshot: ClusterSnapshot
    groups: Sequence[GrowableGroup]
    policy: ScaleUpPolicy
    steps: PlanSteps
    allow_spot: bool
    #: Rows to which no pod goes.
    closed: Sequence[Row] = ()

    def of(self, nodes: Sequence[SetNode]) -> Found:
        """Tries the set."""
        kinds = list(dict.fromkeys(mover.kind for node in nodes for mover in node.movers))
        position = {kind: at for at, kind in enumerate(kinds)}
        counts = np.zeros((len(nodes), len(kinds)), np.int64)
        for at, node in enumerate(nodes):
            for kind, count in Counter([mover.kind for mover in node.movers]).items():
                counts[at, position[kind]] = count
        present: list[list[int]] = [[] for _ in kinds]
        new: list[tuple[int, Int64]] = []
        with self.snapshot.fork():
            for row in self.closed:
                self.snapshot.close(row)
            for node in nodes:
                clear_row(self.snapshot, node.candidate.row, node.there)
                self.snapshot.close(node.candidate.row)
            closed = [self.snapshot.facts.nodes[node.candidate.row] for node in nodes]
            for movers, groups in self._demands(nodes, new):
                bought = [group.template.node for at, _ in new if (group := self.groups[at]).template is not None]
                quotas = tuple(_less(quota, [*closed, *bought]) for quota in self.policy.quotas)
                policy = replace(self.policy, quotas=quotas)
                self._place(movers, groups, policy=policy, position=position, present=present, new=new)
        table = np.array([held for _, held in new], np.int64).reshape(len(new), len(kinds))
        prices = [self.groups[group].price_micros for group, _ in new]
        places = Places(kinds=kinds, present=present, prices=prices, new=table, counts=counts)
        return Found(places=places, groups=tuple(group for group, _ in new))

    def _demands(
        self, nodes: Sequence[SetNode], new: Sequence[tuple[int, Int64]]
    ) -> Iterator[tuple[list[RunningPod], Sequence[GrowableGroup]]]:
        """The pods that are placed together, and the groups that may grow for them. `new`: filled with the new nodes of the
        pods before."""
        if self.allow_spot:
            yield [mover for node in nodes for mover in node.movers], self.groups
            return
        for spot in (False, True):
            movers = [mover for node in nodes if node.candidate.spot is spot for mover in node.movers]
            if movers:
                yield movers, self._growing(Counter(group for group, _ in new), spot=spot)

    def _growing(self, added: Mapping[int, int], *, spot: bool) -> list[GrowableGroup]:
        found = []
        for at, group in enumerate(self.groups):
            grown = replace(group, group=replace(group.group, target=group.group.target + added.get(at, 0)))
            barred = group.is_spot and not spot
            found.append(replace(grown, skip_reason=group.skip_reason or _ON_DEMAND) if barred else grown)
        return found

    def _place(
        self,
        movers: Sequence[RunningPod],
        groups: Sequence[GrowableGroup],
        *,
        policy: ScaleUpPolicy,
        position: Mapping[KindId, int],
        present: list[list[int]],
        new: list[tuple[int, Int64]],
    ) -> None:
        kind_of = {mover.pod.uid: position[mover.kind] for mover in movers}
        ordered = self._in_order(movers)
        plan = plan_scale_up(
            self.snapshot,
            Demand(counted=tuple(mover.pod for mover in ordered)),
            groups,
            policy=policy,
            clock=lambda: float(self.steps.over()),
            hints=proposed_nodes(self.snapshot, ordered),
        )
        row_of = self.snapshot.facts.row_of
        for pod, name in plan.schedulable:
            present[kind_of[pod.uid]].append(row_of[name])
        at = {group.name: number for number, group in enumerate(groups)}
        for scale_up in plan.scale_ups:
            for pods in scale_up.nodes:
                if pods:
                    held = np.bincount([kind_of[pod.uid] for pod in pods], minlength=len(position))
                    new.append((at[scale_up.group], held.astype(np.int64)))

    def _in_order(self, movers: Sequence[RunningPod]) -> list[RunningPod]:
        """The pods in the order in which they are placed: by priority, then the larger first, kinds together."""
        requests, facts = self.snapshot.kinds.requests, self.snapshot.facts
        whole = np.maximum(facts.allocatable[[CPU, MEMORY], : facts.n_rows].sum(axis=1), 1)
        kinds = {mover.kind for mover in movers}
        size = {kind: float((requests[[CPU, MEMORY], kind] / whole).sum()) for kind in kinds}
        return sorted(movers, key=lambda mover: (-mover.pod.priority, -size[mover.kind], mover.kind, mover.pod.key))


def trial_policy(policy: ScaleUpPolicy) -> ScaleUpPolicy:
    """Scale-up's policy for trials: the whole demand at the lowest price, without limits on time."""
    expanders = policy.expanders if packs(policy.expanders) else ("price",)
    return replace(policy, expanders=expanders, max_planning_time=0.0, plan_seconds=_HALF, max_nodes_per_scale_up=0)


def _less(quota: NodeQuota, nodes: Sequence[Node]) -> NodeQuota:
    """The quota without what these nodes take of it."""
    counted = [node for node in nodes if counts_for(quota, node)]
    left = {name: limit - sum(amount_of(node, name) for node in counted) for name, limit in quota.limits.items()}
    return replace(quota, limits=left)


def as_new(snapshot: ClusterSnapshot, running_pod: RunningPod) -> RunningPod:
    """The pod in the form in which its controller makes it again, without a node."""
    pod = running_pod.pod
    if not pod.deleting and pod.successor is None and pod.renewed_labels is pod.labels:
        return running_pod
    renewed = structs.replace(pod, kind=pod.renewed_kind, labels=pod.renewed_labels, successor=None, deleting=False)
    return RunningPod(renewed, snapshot.kind_id(renewed.kind, renewed.labels))
