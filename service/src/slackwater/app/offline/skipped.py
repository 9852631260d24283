"""Which rules a file leaves unjudged: a kind of object of which it has none is unknown, not absent.

The answer says so for each pod that such a rule would concern; a rule that concerns no pod is not worth a word.
"""

from collections.abc import Iterator, Set
from typing import Final

from slackwater.model.pod_constraints import NO_POD_CONSTRAINTS
from slackwater.snapshot.equivalence_groups import Numbered, terms_of

#: Kinds of objects that rules about claims need, and which rules these are.
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
    """One sentence for each kind of object that is missed; `unknown` are those of which there is none `where` we look."""
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
