"""The clusters on which Cluster Autoscaler's own code was measured, as values: integers only, the same on every run.

A number in place of chance: `mixed(seed, i)`. Pods of a group are those of one controller. Groups that differ in nothing
that is judged are one kind for us; so that 200 groups are 200 kinds, each has an image of its own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

from slackwater.model.eviction_facts import EvictionFacts, Owner
from slackwater.model.ids import NodeName, PodKey, PodUid
from slackwater.model.objects import Labels, Node, Pod
from slackwater.model.pod_constraints import Kind, NodeSelectorTerm, PodConstraints, PodTerm, SpreadConstraint
from slackwater.model.resources import Amounts, amounts_of
from slackwater.model.selectors import Requirement
from slackwater.snapshot.node_facts import HOSTNAME

GIB: Final = 1 << 30
ZONE: Final = "topology.kubernetes.io/zone"
_SEED: Final = 7
_CPU, _MEMORY, _PODS = 32_000, 128 * GIB, 110
Rule = Literal["", "node affinity", "anti-affinity", "zone spread"]


def mixed(seed: int, number: int) -> int:
    return (((seed * 1000003 + number) * 2654435761) & 0xFFFFFFFF) >> 8


def a_node(number: int) -> Node:
    """32 CPU, 128 GiB, 110 pods, one of three zones."""
    name = NodeName(f"n-{number}")
    return Node(
        name=name,
        uid=f"node-{number}",
        resource_version=1,
        allocatable=amounts_of((_CPU, _MEMORY)),
        labels={HOSTNAME: name, "pool": "a", ZONE: f"z{number % 3}"},
        taints=(),
        unschedulable=False,
        ready=True,
        scalars=(("pods", _PODS),),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """`count` pods of `groups` controllers in turn; 0: of none, each with a size of its own.

    `size` is (milliCPU, bytes) where it is fixed; else 1 to 4 CPU, with 1 to 4 GiB for each.
    """

    count: int
    groups: int
    size: tuple[int, int] | None = None
    rule: Rule = ""

    def pods(self) -> list[Pod]:
        kinds: dict[int, Kind] = {}
        made = []
        for number in range(self.count):
            group = number % self.groups if self.groups else number
            kind = kinds.get(group)
            if kind is None:
                kind = kinds[group] = self._kind(group)
            made.append(
                _pod(f"p-{number}", kind, _labels(f"app-{group}"), _eviction_facts(f"rs-{group}" if self.groups else None))
            )
        return made

    def _kind(self, group: int) -> Kind:
        cores = 1 + mixed(_SEED, group) % 4
        own_size = (1000 * cores, cores * (1 + mixed(_SEED + 1, group) % 4) * GIB)
        own = (Requirement("app", "In", (f"app-{group}",)),)
        asks = None
        if self.rule == "anti-affinity":
            asks = PodConstraints(anti_affinity=(PodTerm(topology_key=HOSTNAME, selector=own, namespaces=("default",)),))
        elif self.rule == "zone spread":
            asks = PodConstraints(spread=(SpreadConstraint(hard=True, max_skew=1, topology_key=ZONE, selector=own),))
        in_pool = (NodeSelectorTerm((Requirement("pool", "In", ("a",)),), ()),)
        return Kind(
            namespace="default",
            requests=amounts_of(self.size or own_size),
            node_affinity=in_pool if self.rule == "node affinity" else None,
            images=(f"app-{group}:1" if self.groups else "app:1",),
            pod_constraints=asks,
        )


def full(nodes: int, each: int, *, free_cpu: int) -> Iterator[Pod]:
    """`each` pods on every node, of 500 controllers, that leave `free_cpu` milliCPU."""
    return _running(nodes, each, [amounts_of(((_CPU - free_cpu) // each, 4 * GIB))])


def half_used(nodes: int, each: int = 30) -> Iterator[Pod]:
    """Nodes in turn at 37.5 % and 75 %."""
    mib = 1 << 20
    return _running(nodes, each, [amounts_of((400, 1600 * mib)), amounts_of((800, 3200 * mib))])


def _running(nodes: int, each: int, sizes: Sequence[Amounts]) -> Iterator[Pod]:
    kinds = [Kind(namespace="default", requests=size) for size in sizes]
    for row in range(nodes):
        name = NodeName(f"n-{row}")
        for number in range(each):
            owner = f"run-{(row * each + number) % 500}"
            yield _pod(f"r-{row}-{number}", kinds[row % len(kinds)], _labels(owner), _eviction_facts(owner), node=name)


# Pods of one controller share what is equal, as they do where the API's JSON was decoded.


@cache
def _labels(app: str) -> Labels:
    return (("app", app),)


@cache
def _eviction_facts(owner: str | None) -> EvictionFacts:
    return EvictionFacts(owner=None if owner is None else Owner("apps", "ReplicaSet", owner))


def _pod(name: str, kind: Kind, labels: Labels, eviction_facts: EvictionFacts, *, node: NodeName | None = None) -> Pod:
    return Pod(
        uid=PodUid(name),
        key=PodKey("default", name),
        resource_version=1,
        labels=labels,
        kind=kind,
        node=node,
        ended=False,
        deleting=False,
        priority=0,
        created_at="2026-01-01T00:00:00Z",
        started_at="",
        nominated_node=None,
        unschedulable_message=None,
        eviction_facts=eviction_facts,
    )


def a_pod(name: str, kind: Kind, app: str, *, node: NodeName | None = None) -> Pod:
    """A pod of the kind and of the controller `app`, which is its label as well."""
    return _pod(name, kind, _labels(app), _eviction_facts(app), node=node)
