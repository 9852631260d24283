"""Every reason that the default profile can give an unbound pod, so that a table shows what no cluster exercised.

Texts are kube-scheduler 1.34's to 1.37's; what some versions lack is in `_ONLY_WITH`. A reason that none of these matches is a
failure too: the list is then incomplete. Deliberately absent, because a plug-in before them, or validation, makes them
impossible here:

- NodeName: an unbound pod names no node.
- VolumeBinding "persistentvolumeclaim ... not found", NodeVolumeLimits "looking up PVC ...": VolumeRestrictions or
  VolumeBinding has rejected the pod for it already.
- VolumeZone "PersistentVolumeClaim had no pv name and storageClass name", "PersistentVolume had no name",
  "VolumeBindingMode not set ...": VolumeBinding's unbound immediate claims, or defaults.
- NodeAffinity "scheduler-enforced node affinity": the default profile adds none.
- InterPodAffinity "parsing pod: ...": validation refuses the selector.
- DynamicResources "resourceclaim in use": every claim can be shared. "cannot fit resource": NodeResourcesFit rejects before.

Clusters with devices (`Size.devices`) have to exercise the texts of `WANTED_WITH_DEVICES` instead.
"""

import re
from typing import Final

from slackwater.model.kubernetes_rules import KubernetesVersion, Rule

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
    "NodeVolumeLimits": (r"node\(s\) exceed max volume count", r"\S+ CSI driver is not installed on the node"),
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
    "NodeDeclaredFeatures": (
        r"node\(s\) didn't match Pod's required features",
        r"node declared features check failed - unsatisfied requirements: \S+",
    ),
}
#: Reasons that only versions following a rule have; those with False only versions that do not.
_ONLY_WITH: Final[dict[str, tuple[tuple[Rule, bool], ...]]] = {
    _TEXTS["NodeVolumeLimits"][1]: ((Rule.VOLUME_LIMIT_SCALING, True),),
    _TEXTS["NodeDeclaredFeatures"][0]: ((Rule.NODE_DECLARED_FEATURES, True), (Rule.FEATURES_UNNAMED, True)),
    _TEXTS["NodeDeclaredFeatures"][1]: ((Rule.NODE_DECLARED_FEATURES, True), (Rule.FEATURES_UNNAMED, False)),
}
#: What only clusters with devices bring about.
_INVALID_POOL: Final = "invalid resource pools were encountered"
_DEVICE_TEXTS: Final[dict[str, tuple[str, ...]]] = {
    "NodeResourcesFit": (
        r"Insufficient example\.com/accelerator",
        r"Insufficient deviceclass\.resource\.kubernetes\.io/\S+",
    ),
    "DynamicResources": (
        "cannot allocate all claims",
        "resourceclaim not available on the node",
        _INVALID_POOL,
        r"request \S+: device class \S+ does not exist",
        r'resourceclaim "[^"]+" is being deleted',
        r'pod "[^"]+": ResourceClaim not created yet',
        r"ResourceClaim \S+ was not created for [Pp]od \S+ \([Pp]od is not owner\)",
    ),
}


def _shown(pattern: str) -> str:
    return pattern.replace('[^"]+', "*").replace(r"\S+", "*").replace("\\", "")


_PATTERNS: Final = {plugin: {_shown(text): re.compile(text) for text in texts} for plugin, texts in _TEXTS.items()}
_OF_DEVICES: Final = {plugin: {_shown(text): re.compile(text) for text in texts} for plugin, texts in _DEVICE_TEXTS.items()}
WANTED_WITH_DEVICES: Final = frozenset((plugin, shown) for plugin, patterns in _OF_DEVICES.items() for shown in patterns)


def wanted_with_devices(version: KubernetesVersion) -> frozenset[tuple[str, str]]:
    """Every (plug-in, reason) that has to occur in clusters with devices. kube-scheduler 1.34 fails at an invalid pool."""
    passes_over = version.follows(Rule.INCOMPLETE_POOLS_UNUSED)
    return frozenset(each for each in WANTED_WITH_DEVICES if passes_over or each[1] != _INVALID_POOL)


def wanted(version: KubernetesVersion) -> frozenset[tuple[str, str]]:
    """Every (plug-in, reason) that has to occur with this version; the reason as `known` words it."""
    return frozenset(
        (plugin, _shown(text))
        for plugin, texts in _TEXTS.items()
        for text in texts
        if all(version.follows(rule) == holds for rule, holds in _ONLY_WITH.get(text, ()))
    )


def known(plugin: str, reason: str) -> tuple[str, str] | None:
    """The reason as (plug-in, its words without names), None where no version has it."""
    for shown, pattern in (_PATTERNS.get(plugin, {}) | _OF_DEVICES.get(plugin, {})).items():
        if pattern.fullmatch(reason):
            return plugin, shown
    return None
