"""Limits of headroom: how many placeholders a namespace gets, so that no author of a pod buys the fleet by an annotation.

- `within_quotas`: a namespace's placeholders and its pods together stay within its ResourceQuotas.
- `within_nodes`: placeholders for annotations take at most so many nodes for each namespace, and a share of the cluster in all.
- `HeadroomBudget`: the same limit, counted in nodes that are kept or bought for these placeholders alone.

A placeholder counts as the part of a node that it needs: one over the number of its like that the smallest new node takes which
takes any; a whole node if its like exclude one another. CapacityBuffers are limited by quotas only: RBAC says who may create
them. In: the requested headroom. Out: what is left of it, and what was cut, with the reason.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

from slackwater.controllers.slack.planning_input import PodHeadroom, SlackNode
from slackwater.controllers.slack.policy import HeadroomLimits
from slackwater.model.ids import PPM
from slackwater.model.objects import Pod
from slackwater.model.placeholders import ResourceQuota
from slackwater.model.pod_constraints import NO_POD_CONSTRAINTS, Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadroomCut:
    """Headroom that is not kept: of `wanted` placeholders of a source only `kept`. `pod`: the pod that gets the Event."""

    source: str
    pod: Pod | None
    wanted: int
    kept: int
    why: str

    @property
    def text(self) -> str:
        return f"{self.source}: room is kept for {self.kept} of {self.wanted} pods: {self.why}"

    def concerns(self, pod: Pod) -> bool:
        """Is `pod` the pod that asks, or one of the same controller?"""
        if self.pod is None or self.pod.key.namespace != pod.key.namespace:
            return False
        owner = self.pod.eviction_facts.owner
        return self.pod.uid == pod.uid or (owner is not None and owner == pod.eviction_facts.owner)


def joined(*stages: Iterable[HeadroomCut]) -> tuple[HeadroomCut, ...]:
    """One cut for each source, with all that the stages cut of it, one after the other. `why` is that of the last one."""
    found: dict[str, HeadroomCut] = {}
    for cut in chain(*stages):
        before = found.get(cut.source)
        found[cut.source] = cut if before is None else replace(cut, wanted=before.wanted)
    return tuple(found.values())


@dataclass(slots=True)
class LimitedHeadroom:
    """What is kept of the requested headroom, and what is cut of it."""

    pod_headroom: list[PodHeadroom] = field(default_factory=list)
    cuts: list[HeadroomCut] = field(default_factory=list)

    def keep(self, each: PodHeadroom, most: int, why: str) -> None:
        """Keeps at most so many of the placeholders. `why`: the reason for the cut, if there is one."""
        count = min(each.count, most)
        if count:
            self.pod_headroom.append(replace(each, count=count))
        if count < each.count:
            self.cuts.append(HeadroomCut(source=each.source, pod=each.pod, wanted=each.count, kept=count, why=why))


def within_quotas(asked: Iterable[PodHeadroom], quotas: Iterable[ResourceQuota]) -> LimitedHeadroom:
    """Cuts what ResourceQuotas do not leave to pods of the same namespace; in the order of `asked`."""
    left: dict[str, list[dict[str, int]]] = {}
    for quota in quotas:
        left.setdefault(quota.namespace, []).append(dict(quota.left))
    found = LimitedHeadroom()
    for each in asked:
        of_namespace = left.get(each.kind.namespace, [])
        requests = {"pods": 1, **requests_of(each.kind)}
        counts = [
            max(own.get(name, 0), 0) // amount for own in of_namespace for name, amount in requests.items() if name in own
        ]
        found.keep(each, min(counts, default=each.count), "its namespace's ResourceQuota leaves no more")
        kept = found.pod_headroom
        for own in of_namespace if kept and kept[-1].source == each.source else ():
            for name in requests.keys() & own.keys():
                own[name] -= requests[name] * kept[-1].count
    return found


def within_nodes(
    asked: Sequence[PodHeadroom], nodes: Sequence[SlackNode], limits: HeadroomLimits, *, n_nodes: int
) -> LimitedHeadroom:
    """Cuts the placeholders for annotations that need more nodes than allowed. `nodes`: a new node of each group. `n_nodes`:
    the number of the cluster's nodes. Where all namespaces together want too much, those that want least get it."""
    shares = [max(PPM // _per_node(each.kind, nodes), 1) if each.capped else 0 for each in asked]
    left = _by_namespace(asked, shares, limits, n_nodes)
    found = LimitedHeadroom()
    for each, share in zip(asked, shares, strict=True):
        namespace = each.kind.namespace
        most = left[namespace] // share if share and namespace in left else each.count
        found.keep(each, most, _why(each.kind))
        if share and namespace in left:
            left[namespace] -= share * min(most, each.count)
    return found


def _why(kind: Kind) -> str:
    return f"annotations of namespace {kind.namespace} get no more nodes (autoscaler.slack.headroomLimits)"


def _by_namespace(asked: Sequence[PodHeadroom], shares: Sequence[int], limits: HeadroomLimits, n_nodes: int) -> dict[str, int]:
    """How many millionths of a node each namespace may have; a namespace without a limit is left out."""
    wanted: dict[str, int] = {}
    for each, share in zip(asked, shares, strict=True):
        if each.capped:
            wanted[each.kind.namespace] = wanted.get(each.kind.namespace, 0) + share * each.count
    own = limits.max_nodes_per_namespace * PPM
    granted = {name: min(amount, own) if own else amount for name, amount in wanted.items()}
    in_all = limits.in_all(n_nodes)
    if in_all is None:
        return granted if own else {}
    left = in_all * PPM
    for position, name in enumerate(sorted(granted, key=lambda name: (granted[name], name))):
        granted[name] = min(granted[name], left // (len(granted) - position))
        left -= granted[name]
    return granted


def requests_of(kind: Kind) -> dict[str, int]:
    """What a pod requests of each resource, except nothing."""
    asks = dict((kind.pod_constraints or NO_POD_CONSTRAINTS).scalars)
    return {
        name: amount for name, amount in {**asks, "cpu": kind.requests.cpu, "memory": kind.requests.memory}.items() if amount
    }


#: The most pods of a node whose group does not say it.
_PODS: Final = 110


def _per_node(kind: Kind, nodes: Sequence[SlackNode]) -> int:
    """How many pods of this kind the smallest new node takes that takes any; at least 1."""
    asks = kind.pod_constraints or NO_POD_CONSTRAINTS
    if asks.host_ports or asks.anti_affinity or any(constraint.hard for constraint in asks.spread):
        return 1
    counts = []
    for each in nodes:
        has = {"pods": _PODS, **dict(each.node.scalars), "cpu": each.room.cpu, "memory": each.room.memory}
        counts.append(min(has.get(name, 0) // amount for name, amount in {"pods": 1, **requests_of(kind)}.items()))
    return min((count for count in counts if count > 0), default=1)


@dataclass(slots=True)
class HeadroomBudget:
    """Counts the nodes for annotations alone. `namespace_of`: the namespace of each limited source; `used`: nodes by
    namespace."""

    namespace_of: Mapping[str, str]
    limits: HeadroomLimits
    in_all: int | None
    used: dict[str, int] = field(default_factory=dict)
    #: How many placeholders of each source were refused a node.
    refused: Counter[str] = field(default_factory=Counter)

    def hold(self, sources: Iterable[str]) -> None:
        """Counts a node that exists or comes, with placeholders of these sources, and no others and no pods."""
        for name in self._namespaces(sources):
            self.used[name] = self.used.get(name, 0) + 1

    def take(self, sources: Sequence[str]) -> bool:
        """Counts a further node for placeholders of these sources, if it is within the limits. Returns whether it is."""
        names = self._namespaces(sources)
        allowed = not names or self.in_all is None or sum(self.used.values()) < self.in_all
        if self.limits.max_nodes_per_namespace:
            allowed &= all(self.used.get(name, 0) < self.limits.max_nodes_per_namespace for name in names)
        if allowed:
            self.hold(sources)
        else:
            self.refused.update(sources)
        return allowed

    def cuts(self, asked: Iterable[PodHeadroom]) -> tuple[HeadroomCut, ...]:
        """What was refused of the headroom `asked`."""
        return tuple(
            HeadroomCut(source=each.source, pod=each.pod, wanted=each.count, kept=each.count - refused, why=_why(each.kind))
            for each in asked
            if (refused := self.refused[each.source])
        )

    def _namespaces(self, sources: Iterable[str]) -> set[str]:
        """The namespaces for which a node counts: none if a source without a limit is among its sources."""
        found = {self.namespace_of.get(source) for source in sources}
        return set() if None in found else {name for name in found if name is not None}
