"""Placeholders that are like a pod: for workloads that somebody marked, and for CapacityBuffer objects.

They ask for what the pod asks: amounts, selectors, affinity, tolerations, spread. What only one pod can have (volumes, a node's
name) they do not ask for.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from slackwater.model.equivalence import Kind
from slackwater.model.objects import Labels, Pod
from slackwater.model.placeholders import a_placeholder


@dataclass(frozen=True, slots=True, kw_only=True)
class PodHeadroom:
    """`count` placeholders like a pod of `kind` with these labels. `source` says for whom; one may ask for several kinds."""

    source: str
    kind: Kind
    labels: Labels
    count: int


def like(kind: Kind) -> Kind:
    """The kind of a placeholder that is like a pod of this kind."""
    asks = kind.pod_constraints
    if asks is None:
        return kind
    own = replace(asks, claims=(), disks=(), inline_disks=(), resource_claims=(), node_name=None)
    return replace(kind, pod_constraints=own)


def specimens(pod_headroom: Iterable[PodHeadroom]) -> list[Pod]:
    """A placeholder like each: what a snapshot has to know before any is planned for."""
    return [a_placeholder(0, like(each.kind), each.labels) for each in pod_headroom]
