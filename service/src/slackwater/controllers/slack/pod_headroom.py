"""Placeholders like a pod, for marked workloads, CapacityBuffers and start-time SLOs.

They request what the pod requests: amounts, selectors, affinity, tolerations, spread. They do not request what only one pod can
have (volumes, a node's name).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from slackwater.model.equivalence import Kind
from slackwater.model.objects import Labels, Pod
from slackwater.model.placeholders import a_placeholder


@dataclass(frozen=True, slots=True, kw_only=True)
class PodHeadroom:
    """`count` placeholders like a pod of `kind` with these labels. `source` says for what; a source may have several
    entries."""

    source: str
    kind: Kind
    labels: Labels
    count: int


def like(kind: Kind) -> Kind:
    """The equivalence group of a placeholder that is like a pod of this class."""
    asks = kind.pod_constraints
    if asks is None:
        return kind
    own = replace(asks, claims=(), disks=(), inline_disks=(), resource_claims=(), node_name=None)
    return replace(kind, pod_constraints=own)


def specimens(pod_headroom: Iterable[PodHeadroom]) -> list[Pod]:
    """One placeholder for each entry, so that a snapshot knows its equivalence group before any is planned."""
    return [a_placeholder(0, like(each.kind), each.labels) for each in pod_headroom]
