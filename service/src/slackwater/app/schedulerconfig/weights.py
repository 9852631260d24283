"""The weights that kube-scheduler's own score plug-ins have in a profile.

Flows through: one profile of the cleaned tree. The defaults and the rules of merging are those of k8s.io/kubernetes
v1.36.3, pkg/scheduler/apis/config/v1/default_plugins.go and framework/runtime/framework.go: `score` goes before
`multiPoint`, a plug-in that is enabled again without a weight has weight 1, `*` disables all that is not enabled again.
Deliberately absent: plug-ins of others.
"""

from collections.abc import Mapping
from typing import Any, Final

#: Plug-ins that carry what a user asked for (tolerations, affinity, spread) or saves (image locality), and their
#: default weights. A node's score counts 0 to 100 times the weight.
PREFERENCES: Final[dict[str, int]] = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "ImageLocality": 1,
}
#: What each of them stands for in a Pod's or Node's own words.
MEANINGS: Final = {
    "TaintToleration": "PreferNoSchedule taints",
    "NodeAffinity": "preferred node affinity",
    "PodTopologySpread": "ScheduleAnyway spread",
    "InterPodAffinity": "preferred pod affinity",
    "ImageLocality": "image locality",
}


def in_tree_weights(profile: dict[str, Any], among: Mapping[str, int] = PREFERENCES) -> dict[str, int]:
    """Plug-in -> weight, without those that are disabled; of the plug-ins `among`, which has their default weights."""
    weights: dict[str, int] = {}
    for name, default in among.items():
        weight = _weight(name, default, profile.get("plugins", {}))
        if weight is not None:
            weights[name] = weight
    return weights


def _weight(name: str, default: int, plugins: dict[str, Any]) -> int | None:
    """None: the plug-in does not score."""
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
    """Whether a plug-in set takes the default plug-in away; enabling it in the same set again brings it back."""
    disabled = {plugin.get("name") for plugin in plugin_set.get("disabled", [])}
    return bool(disabled & {name, "*"}) and _enabled(name, plugin_set) is None
