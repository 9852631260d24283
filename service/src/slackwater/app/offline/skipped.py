"""Lists the rules that could not be judged because a cluster's file has no object of a kind.

A kind without objects counts as unknown, not as absent. An answer names such a rule only if it matters for the pod.
"""

from collections.abc import Iterator, Set
from typing import Final

from slackwater.model.pod_constraints import NO_POD_CONSTRAINTS
from slackwater.snapshot.equivalence_groups import Numbered, terms_of

#: For each kind of object: the rules on pods with volume claims that need it.
_NEEDED_FOR_CLAIMS: Final = {
    "PersistentVolumeClaim": ("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"),
    "PersistentVolume": ("VolumeBinding", "VolumeZone"),
    "StorageClass": ("VolumeBinding",),
    "CSINode": ("NodeVolumeLimits",),
    "CSIDriver": ("VolumeBinding (room for new volumes)",),
    "CSIStorageCapacity": ("VolumeBinding (room for new volumes)",),
    "VolumeAttachment": ("NodeVolumeLimits (volumes of pods that have gone)",),
}


def skipped_rules(kind: Numbered, unknown: Set[str], where: str) -> list[str]:
    """One text for each missing kind of object that matters for the pod. `unknown` are the missing kinds; `where` is the end of
    the text, such as "in the file"."""
    return [f"{', '.join(rules)}: no {missing} {where}" for missing, rules in _missing(kind, unknown)]


def _missing(kind: Numbered, unknown: Set[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    if "Node" in unknown:
        yield "Node", ("all rules",)
    asks = kind.kind.pod_constraints or NO_POD_CONSTRAINTS
    if asks.claims:
        yield from ((missing, rules) for missing, rules in _NEEDED_FOR_CLAIMS.items() if missing in unknown)
    elif asks.inline_disks and "CSINode" in unknown:
        yield "CSINode", _NEEDED_FOR_CLAIMS["CSINode"]
    if "Namespace" in unknown and any(term.namespace_selector for term in terms_of(asks)):
        yield "Namespace", ("InterPodAffinity (namespaceSelector)",)
