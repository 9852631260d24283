"""Which groups are alike, so that they grow together and stay of a size: as a rule one group for each zone.

The tolerances are Cluster Autoscaler's. Two differences, both on purpose. Groups of different priority (expander `priority`)
are never alike, since their owner prefers one. And groups need not take the very same pods: each pod goes to a group of the
bundle that takes it, so one pod with a volume in one zone does not end the balancing of all others.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from slackwater.decide.scaleup.limits import amount_of
from slackwater.decide.scaleup.sites import Sites
from slackwater.model.objects import Node
from slackwater.simulate.nodefacts import CPU, MEMORY, PODS

#: Labels that similar groups may differ in: names, places, and what providers write of their own groups.
IGNORED_LABELS: Final = frozenset(
    {
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "beta.kubernetes.io/fluentd-ds-ready",
        "kops.k8s.io/instancegroup",
        "slackwater.dev/node-group",
        "alpha.eksctl.io/nodegroup-name",
        "eks.amazonaws.com/nodegroup",
        "k8s.amazonaws.com/eniConfig",
        "topology.ebs.csi.aws.com/zone",
        "topology.k8s.aws/zone-id",
        "agentpool",
        "kubernetes.azure.com/agentpool",
        "topology.disk.csi.azure.com/zone",
        "cloud.google.com/gke-nodepool",
        "topology.gke.io/zone",
    }
)
#: How far amounts may differ, of the larger one: CPU and memory that pods may use, and what DaemonSets leave of them.
_ALLOCATABLE_PERCENT: Final = 5
_FREE_PERCENT: Final = 5


def bundles(sites: Sites, groups: Sequence[int], *, ranks: Sequence[int | None], balance: bool) -> list[tuple[int, ...]]:
    """Each of the groups with those alike, every bundle once; the groups of a bundle are in order. Positions throughout."""
    if not balance:
        return [(group,) for group in groups]
    found: dict[tuple[int, ...], None] = {}
    for group in groups:
        found[tuple(other for other in groups if other == group or _alike(sites, ranks, group, other))] = None
    return list(found)


def _alike(sites: Sites, ranks: Sequence[int | None], one: int, other: int) -> bool:
    first, second = sites.node(one), sites.node(other)
    return (
        ranks[one] == ranks[other]
        and not sites.all_or_nothing(one)
        and not sites.all_or_nothing(other)
        and _labels(first) == _labels(second)
        and sorted(map(str, first.taints)) == sorted(map(str, second.taints))
        and _other_resources(first) == _other_resources(second)
        and all(_near(amount_of(first, name), amount_of(second, name), _ALLOCATABLE_PERCENT) for name in ("cpu", "memory"))
        and all(
            _near(int(sites.empty[line, one]), int(sites.empty[line, other]), _FREE_PERCENT) for line in (CPU, MEMORY, PODS)
        )
    )


def _labels(node: Node) -> dict[str, str]:
    return {key: value for key, value in node.labels.items() if key not in IGNORED_LABELS}


def _other_resources(node: Node) -> frozenset[tuple[str, int]]:
    return frozenset(_but(node.scalars, ("pods", "ephemeral-storage")))


def _but(scalars: Iterable[tuple[str, int]], names: Sequence[str]) -> Iterable[tuple[str, int]]:
    return ((name, amount) for name, amount in scalars if amount and name not in names)


def _near(one: int, other: int, percent: int) -> bool:
    return 100 * abs(one - other) <= percent * max(one, other)
