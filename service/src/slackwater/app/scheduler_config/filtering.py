"""Reads what the profiles of kube-scheduler's file say about filters, so that every part judges pods as kube-scheduler does.

In: the file `extender.schedulerConfig`. Out: a `FilterProfile` for each `schedulerName`. Sources: k8s.io/kubernetes v1.36.3,
pkg/scheduler/scheduler.go and the plug-ins' arguments in pkg/scheduler/apis/config.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from slackwater.adapters.kube.pod_constraints import read_affinity, spread_constraints
from slackwater.app.scheduler_config.config_tree import entries, load_scheduler_file
from slackwater.app.scheduler_config.scoring import is_disabled
from slackwater.app.settings import Settings
from slackwater.configuration.problems import Problem, Steps, UnreadableSettings, json_path, show
from slackwater.model.objects import Pod
from slackwater.model.pod_constraints import NodeSelectorTerm, SpreadConstraint
from slackwater.model.scheduler_profile import NO_PROFILES, FilterProfile, Profiles

DEFAULT_SCHEDULER: Final = "default-scheduler"
#: In-tree filters, which Slackwater's filter relies on: it does not repeat what they check.
FILTERS: Final = (
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
)
#: All in-tree filters. The last two only where the version has them.
_ALL_FILTERS: Final = (*FILTERS, "DynamicResources", "NodeDeclaredFeatures")


def filter_profiles_of(settings: Settings) -> Profiles:
    """The filters of all profiles in the file `extender.schedulerConfig`; none without a file.

    Raises `UnreadableSettings` if the file cannot be read, or if arguments are not what kube-scheduler accepts.
    """
    path = settings.extender.scheduler_config
    if path is None:
        return NO_PROFILES
    tree = load_scheduler_file(path)
    ignored = frozenset(
        str(resource.get("name"))
        for _, extender in entries(tree, "extenders")
        for resource in extender.get("managedResources", ())
        if resource.get("ignoredByScheduler")
    )
    # Without profiles in the file kube-scheduler has the default one.
    profiles: list[tuple[Steps, dict[str, Any]]] = list(entries(tree, "profiles")) or [((), {})]
    return {profile.get("schedulerName", DEFAULT_SCHEDULER): _filters(profile, ignored, path, at) for at, profile in profiles}


def known_schedulers(settings: Settings, profiles: Profiles, placed: Iterable[Pod]) -> frozenset[str]:
    """The names of schedulers that exist as far as is known: ours, Kubernetes' own, those of the profiles, and those that have
    placed pods."""
    return frozenset({DEFAULT_SCHEDULER, settings.scheduler_name, *profiles, *(pod.kind.scheduler_name for pod in placed)})


def _filters(profile: Mapping[str, Any], ignored: frozenset[str], path: str, at: Steps) -> FilterProfile:
    """The filters of one profile. What extenders ignore (`ignored`) replaces `ignoredResources` of the arguments."""
    plugins = profile.get("plugins", {})
    arguments = _Arguments(profile, path, at)
    return FilterProfile(
        ignored_resources=ignored or arguments.names("NodeResourcesFit", "ignoredResources"),
        ignored_groups=arguments.names("NodeResourcesFit", "ignoredResourceGroups"),
        added_affinity=arguments.added_affinity(),
        spread=arguments.spread(),
        disabled=frozenset(name for name in _ALL_FILTERS if is_off(name, "filter", plugins)),
    )


def is_off(name: str, point: str, plugins: dict[str, Any]) -> bool:
    """True if an in-tree plug-in is disabled at an extension point. The point's own plug-in set overrides multiPoint."""
    own, everywhere = plugins.get(point, {}), plugins.get("multiPoint", {})
    if any(plugin.get("name") == name for plugin in own.get("enabled", [])):
        return False
    return is_disabled(name, own) or is_disabled(name, everywhere)


class _Arguments:
    """The arguments of a profile's plug-ins. All methods raise `UnreadableSettings`."""

    def __init__(self, profile: Mapping[str, Any], path: str, at: Steps) -> None:
        self._path = path
        self._found: dict[str, tuple[Steps, Any]] = {}
        for number, entry in enumerate(profile.get("pluginConfig", ())):
            args = entry.get("args")
            place = (*at, "pluginConfig", number, "args")
            self._found[entry.get("name", "")] = (place, args if isinstance(args, dict) else {})

    def _of(self, plugin: str, key: str) -> Any:
        return self._found.get(plugin, ((), {}))[1].get(key)

    def _refuse(self, plugin: str, key: str, wanted: str) -> UnreadableSettings:
        at, args = self._found[plugin]
        place = f"{self._path}: {json_path((*at, key))}"
        return UnreadableSettings([Problem(path=place, seen=show(args[key]), wanted=wanted)])

    def names(self, plugin: str, key: str) -> frozenset[str]:
        found = self._of(plugin, key) or []
        if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
            raise self._refuse(plugin, key, "a list of names")
        return frozenset(found)

    def added_affinity(self) -> tuple[NodeSelectorTerm, ...] | None:
        added = self._of("NodeAffinity", "addedAffinity")
        try:
            return None if added is None else read_affinity(json.dumps({"nodeAffinity": added}).encode()).nodes
        except msgspec.MsgspecError:
            raise self._refuse("NodeAffinity", "addedAffinity", "a node affinity") from None

    def spread(self) -> tuple[SpreadConstraint, ...]:
        """The default constraints, without selectors; empty unless one of them is hard. Soft ones alone only score."""
        given = self._of("PodTopologySpread", "defaultConstraints")
        if self._of("PodTopologySpread", "defaultingType") != "List" or not given:
            return ()
        try:
            # kube-scheduler replaces the selectors, and with them matchLabelKeys.
            bare = [{key: value for key, value in each.items() if key != "labelSelector"} for each in given]
            found = spread_constraints(json.dumps(bare).encode(), ())
        except (msgspec.MsgspecError, AttributeError, TypeError):
            raise self._refuse("PodTopologySpread", "defaultConstraints", "topology spread constraints") from None
        return tuple(replace(each, by_default=True) for each in found) if any(each.hard for each in found) else ()
