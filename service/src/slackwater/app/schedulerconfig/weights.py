"""Computes the weights that kube-scheduler's in-tree score plug-ins have in a profile.

In: one profile of the cleaned tree. Defaults and merging follow k8s.io/kubernetes v1.36.3,
pkg/scheduler/apis/config/v1/default_plugins.go and framework/runtime/framework.go: `score` takes precedence over `multiPoint`;
a plug-in that is enabled again without a weight has weight 1; `*` disables every plug-in that is not enabled again.
"""

from collections.abc import Mapping
from typing import Any, Final

#: Plug-ins that score users' preferences (tolerations, affinity, spread) or the use of images already on the node, with their
#: default weights. A plug-in adds a score of 0 to 100 times its weight.
PREFERENCES: Final[dict[str, int]] = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "ImageLocality": 1,
}
#: The field of a Pod or Node that each plug-in scores, as findings name it.
MEANINGS: Final = {
    "TaintToleration": "PreferNoSchedule taints",
    "NodeAffinity": "preferred node affinity",
    "PodTopologySpread": "ScheduleAnyway spread",
    "InterPodAffinity": "preferred pod affinity",
    "ImageLocality": "image locality",
}


def in_tree_weights(profile: dict[str, Any], among: Mapping[str, int] = PREFERENCES) -> dict[str, int]:
    """The weights of the plug-ins that score in a profile, by name. `among` has the plug-ins in question with their default
    weights; disabled ones are left out."""
    weights: dict[str, int] = {}
    for name, default in among.items():
        weight = _weight(name, default, profile.get("plugins", {}))
        if weight is not None:
            weights[name] = weight
    return weights


def _weight(name: str, default: int, plugins: dict[str, Any]) -> int | None:
    """The weight of one plug-in; None if it does not score."""
    everywhere, scoring = plugins.get("multiPoint", {}), plugins.get("score", {})
    for plugin_set in (scoring, everywhere):
        if (weight := _enabled(name, plugin_set)) is not None:
            return weight
        if is_disabled(name, plugin_set):
            return None
    return default


def _enabled(name: str, plugin_set: dict[str, Any]) -> int | None:
    for plugin in plugin_set.get("enabled", []):
        if plugin.get("name") == name:
            return plugin.get("weight") or 1
    return None


def is_disabled(name: str, plugin_set: dict[str, Any]) -> bool:
    """Does a plug-in set disable a default plug-in? It does not if the same set enables the plug-in again."""
    disabled = {plugin.get("name") for plugin in plugin_set.get("disabled", [])}
    return bool(disabled & {name, "*"}) and _enabled(name, plugin_set) is None
