"""Every reason that the default profile can give an unbound pod, so that a table shows what no cluster exercised.

Texts are kube-scheduler 1.36's. A reason that none of these matches is a failure too: the list is then incomplete.
Deliberately absent, because a plug-in before them, or validation, makes them impossible here:

- NodeName: an unbound pod names no node.
- VolumeBinding "persistentvolumeclaim ... not found", NodeVolumeLimits "looking up PVC ...": VolumeRestrictions or
  VolumeBinding has rejected the pod for it already.
- VolumeZone "PersistentVolumeClaim had no pv name and storageClass name", "PersistentVolume had no name",
  "VolumeBindingMode not set ...": VolumeBinding's unbound immediate claims, or defaults.
- NodeAffinity "scheduler-enforced node affinity": the default profile adds none.
- InterPodAffinity "parsing pod: ...": validation refuses the selector.
- DynamicResources beyond a claim that is not there: devices are not covered, such pods are refused.
"""

import re
from typing import Final

_CLAIM: Final = r'persistentvolumeclaim "[^"]+"'
_TEXTS: Final[dict[str, tuple[str, ...]]] = {
    "NodeUnschedulable": (r"node\(s\) were unschedulable",),
    "TaintToleration": (r"node\(s\) had untolerated taint\(s\)",),
    "NodeAffinity": (
        r"node\(s\) didn't match Pod's node affinity/selector",
        r"node\(s\) didn't satisfy plugin\(s\) \[NodeAffinity\]",
        r"pod affinity terms conflict",
    ),
    "NodePorts": (r"node\(s\) didn't have free ports for the requested pod ports",),
    "NodeResourcesFit": (
        "Too many pods",
        "Insufficient cpu",
        "Insufficient memory",
        "Insufficient ephemeral-storage",
        r"Insufficient example\.com/gpu",
        r"Insufficient example\.com/fpga",
        "Insufficient hugepages-2Mi",
    ),
    "VolumeRestrictions": (
        rf"{_CLAIM} not found",
        r"node\(s\) had no available disk",
        r"node\(s\) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
    ),
    "NodeVolumeLimits": (r"node\(s\) exceed max volume count",),
    "VolumeBinding": (
        rf"waiting for ephemeral volume controller to create the {_CLAIM}",
        r"PVC \S+ was not created for pod \S+ \(pod is not owner\)",
        rf'{_CLAIM} bound to non-existent persistentvolume "[^"]+"',
        rf"{_CLAIM} is being deleted",
        "pod has unbound immediate PersistentVolumeClaims",
        r"node\(s\) didn't match PersistentVolume's node affinity",
        r"node\(s\) didn't find available persistent volumes to bind",
        r"node\(s\) did not have enough free storage",
        r"node\(s\) unavailable due to one or more pvc\(s\) bound to non-existent pv\(s\)",
    ),
    "VolumeZone": (r'persistentvolume "[^"]+" not found', r"node\(s\) had no available volume zone"),
    "PodTopologySpread": (
        r"node\(s\) didn't match pod topology spread constraints",
        r"node\(s\) didn't match pod topology spread constraints \(missing required label\)",
    ),
    "InterPodAffinity": (
        r"node\(s\) didn't match pod affinity rules",
        r"node\(s\) didn't match pod anti-affinity rules",
        r"node\(s\) didn't satisfy existing pods anti-affinity rules",
    ),
    "DynamicResources": (r'could not find ResourceClaim "[^"]+"',),
    "NodeDeclaredFeatures": (r"node\(s\) didn't match Pod's required features",),
}


def _shown(pattern: str) -> str:
    return pattern.replace('[^"]+', "*").replace(r"\S+", "*").replace("\\", "")


_PATTERNS: Final = {plugin: {_shown(text): re.compile(text) for text in texts} for plugin, texts in _TEXTS.items()}
#: Every (plug-in, reason) that has to occur; the reason as `known` words it.
WANTED: Final = frozenset((plugin, shown) for plugin, patterns in _PATTERNS.items() for shown in patterns)
PLUGINS: Final = tuple(_TEXTS)


def known(plugin: str, reason: str) -> tuple[str, str] | None:
    """The member of `WANTED` that a reason is, None where it is none of them."""
    for shown, pattern in _PATTERNS.get(plugin, {}).items():
        if pattern.fullmatch(reason):
            return plugin, shown
    return None
