"""Reads what the profiles of kube-scheduler's file say about filters and scores, so that every part judges and scores as
kube-scheduler does.

In: the file `extender.schedulerConfig`. Out: a `FilterProfile` and a `ScoreProfile` for each `schedulerName`, and a finding for
every argument that node choice cannot follow. Sources: k8s.io/kubernetes v1.36.3, pkg/scheduler/scheduler.go, the plug-ins'
arguments in pkg/scheduler/apis/config, and their defaults in pkg/scheduler/apis/config/v1/defaults.go.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, Literal

import msgspec

from slackwater.adapters.kube.pod_constraints import read_affinity, spread_constraints
from slackwater.app.scheduler_config.config_tree import PLACE, Finding, entries, load_scheduler_file, refused_file
from slackwater.app.settings import Settings
from slackwater.configuration.problems import Problem, Steps, UnreadableSettings, json_path, show
from slackwater.fit.node_scores import DEFAULT_WEIGHTS, ScoreProfile
from slackwater.fit.plugins.inter_pod_affinity import PodAffinityScoring
from slackwater.fit.plugins.node_resources import LEAST_ALLOCATED, ResourceScoring
from slackwater.fit.plugins.pod_topology_spread import SYSTEM_DEFAULT, DefaultSpread
from slackwater.fit.plugins.volume_binding import EMPTIEST_FIRST
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
        disabled=frozenset(name for name in _ALL_FILTERS if weight_at(name, "filter", plugins) is None),
    )


def _arguments(profile: Mapping[str, Any], at: Steps) -> dict[str, tuple[Steps, dict[str, Any]]]:
    """The arguments of a profile's plug-ins by the plug-in's name, with their places. `at` is the profile's place."""
    return {
        entry.get("name", ""): (
            (*at, "pluginConfig", number, "args"),
            args if isinstance(args := entry.get("args"), dict) else {},
        )
        for number, entry in enumerate(profile.get("pluginConfig", ()))
    }


#: The arguments that decide where pods fit, by plug-in; where only a part does, that part's name or value.
_OF_FILTERS: Final = (
    ("NodeResourcesFit", "ignoredResources", ""),
    ("NodeResourcesFit", "ignoredResourceGroups", ""),
    ("NodeAffinity", "addedAffinity", "requiredDuringSchedulingIgnoredDuringExecution"),
    ("PodTopologySpread", "defaultConstraints", "DoNotSchedule"),
)


def filter_arguments(profile: Mapping[str, Any], at: Steps) -> Iterator[Steps]:
    """The places of the arguments by which the profile's filters differ from the default profile's."""
    found = _arguments(profile, at)
    for plugin, key, part in _OF_FILTERS:
        place, args = found.get(plugin, (at, {}))
        if args.get(key) and part in json.dumps(args[key], default=str):
            yield (*place, key)


class _Arguments:
    """The arguments of a profile's plug-ins. All methods raise `UnreadableSettings`."""

    def __init__(self, profile: Mapping[str, Any], path: str, at: Steps) -> None:
        self._path = path
        self._found = _arguments(profile, at)

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
    weights; disabled ones are left out.

    Defaults and merging follow k8s.io/kubernetes v1.36.3, pkg/scheduler/apis/config/v1/default_plugins.go and
    framework/runtime/framework.go: `score` takes precedence over `multiPoint`; a plug-in that is enabled again without a weight
    has weight 1; `*` disables every plug-in that is not enabled again.
    """
    plugins = profile.get("plugins", {})
    found = {name: weight_at(name, "score", plugins, default) for name, default in among.items()}
    return {name: weight for name, weight in found.items() if weight is not None}


def weight_at(name: str, point: str, plugins: dict[str, Any], default: int = 1) -> int | None:
    """The weight of an in-tree plug-in at an extension point; None if it is disabled there. The point's own plug-in set
    overrides multiPoint. `default`: the weight where neither names the plug-in."""
    for plugin_set in (plugins.get(point, {}), plugins.get("multiPoint", {})):
        for plugin in plugin_set.get("enabled", []):
            if plugin.get("name") == name:
                return plugin.get("weight") or 1
        if any(plugin.get("name") in {name, "*"} for plugin in plugin_set.get("disabled", [])):
            return None
    return default


_STRATEGIES: Final[dict[str, Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]]] = {
    "LeastAllocated": "LeastAllocated",
    "MostAllocated": "MostAllocated",
    "RequestedToCapacityRatio": "RequestedToCapacityRatio",
}
#: Called with the place of an argument below `args`, its value, and what is supported there.
_Refuse = Callable[[Steps, object, str], None]


def score_profile_of(settings: Settings) -> ScoreProfile:
    """The score profile for node choice: from the file `extender.schedulerConfig`, or kube-scheduler's default without a file.

    Raises `UnreadableSettings`, as `read_score_profile` does.
    """
    path = settings.extender.scheduler_config
    return ScoreProfile() if path is None else read_score_profile(path, settings.scheduler_name)


def score_profiles_of(settings: Settings) -> dict[str, ScoreProfile]:
    """The score profiles for node choice by `schedulerName`: ours, and those of other profiles in the same file whose arguments
    node choice can follow. Raises `UnreadableSettings`, as `read_score_profile` does."""
    found = {settings.scheduler_name: score_profile_of(settings)}
    path = settings.extender.scheduler_config
    for at, profile in entries(load_scheduler_file(path), "profiles") if path is not None else ():
        scores, findings = profile_scores(profile, at)
        if not findings:
            found.setdefault(profile.get("schedulerName", DEFAULT_SCHEDULER), scores)
    return found


def scores_of_pod(settings: Settings, scheduler_name: str) -> tuple[ScoreProfile, tuple[str, ...]]:
    """The score profile of the pods with this `schedulerName` as far as it can be followed, the default one if the file
    `extender.schedulerConfig` does not name it; and what cannot be followed. Raises `UnreadableSettings`."""
    path = settings.extender.scheduler_config
    for at, profile in entries(load_scheduler_file(path), "profiles") if path is not None else ():
        if profile.get("schedulerName", DEFAULT_SCHEDULER) == scheduler_name:
            scores, findings = profile_scores(profile, at)
            return scores, tuple(f"scores do not follow {each.path}: {each.why}" for each in findings)
    return ScoreProfile(), ()


def read_score_profile(path: str, scheduler_name: str) -> ScoreProfile:
    """Reads how the profile `scheduler_name` in the file at `path` scores nodes.

    Raises `UnreadableSettings` for a file that cannot be read, has no such profile, or scores in a way that is not supported.
    """
    named = [
        (at, profile)
        for at, profile in entries(load_scheduler_file(path), "profiles")
        if profile.get("schedulerName", DEFAULT_SCHEDULER) == scheduler_name
    ]
    if not named:
        wanted = f"a file with a profile of schedulerName {scheduler_name}"
        raise UnreadableSettings([Problem(path=PLACE, seen=path, wanted=wanted)])
    at, profile = named[0]
    scores, findings = profile_scores(profile, at)
    if findings:
        raise refused_file(path, findings)
    return scores


def profile_scores(profile: dict[str, Any], at: Steps) -> tuple[ScoreProfile, list[Finding]]:
    """Reads how a profile scores nodes, with a finding for each argument that node choice cannot follow.

    `at` is the profile's place in the file.
    """
    findings: list[Finding] = []
    arguments = _arguments(profile, at)

    def of(name: str) -> tuple[dict[str, Any], _Refuse]:
        place, given = arguments.get(name, (at, {}))
        return given, _refusal(name, place, findings)

    _refuse_balanced(*of("NodeResourcesBalancedAllocation"))
    affinity, refuse = of("NodeAffinity")
    added, preferred = affinity.get("addedAffinity"), "preferredDuringSchedulingIgnoredDuringExecution"
    if isinstance(added, dict) and added.get(preferred):
        refuse(("addedAffinity", preferred), added[preferred], "no preferred terms")
    volumes, refuse = of("VolumeBinding")
    points = volumes.get("shape")
    scores = ScoreProfile(
        weights=in_tree_weights(profile, among=DEFAULT_WEIGHTS),
        resources=_resources(*of("NodeResourcesFit")),
        pod_affinity=_pod_affinity(*of("InterPodAffinity")),
        spread=_spread(*of("PodTopologySpread")),
        volumes=_points(points, ("shape",), refuse) if points else EMPTIEST_FIRST,
    )
    return scores, findings


def _refusal(name: str, at: Steps, findings: list[Finding]) -> _Refuse:
    def refuse(below: Steps, value: object, wanted: str) -> None:
        findings.append(
            Finding(
                path=json_path((*at, *below)),
                trap="scores-not-supported",
                why=f"got {show(value)}; node choice cannot score {name} in this way",
                fix=f"want {wanted}, or let kube-scheduler score: extender.bind: true",
                severity="warning",
            )
        )

    return refuse


def _resources(args: dict[str, Any], refuse: _Refuse) -> ResourceScoring:
    strategy = args.get("scoringStrategy")
    if strategy is None:
        return LEAST_ALLOCATED
    at: Steps = ("scoringStrategy",)
    if not isinstance(strategy, dict):
        refuse(at, strategy, "a mapping")
        return LEAST_ALLOCATED
    name = strategy.get("type") or "LeastAllocated"
    if not isinstance(name, str) or name not in _STRATEGIES:
        refuse((*at, "type"), name, f"one of {', '.join(_STRATEGIES)}")
        return LEAST_ALLOCATED
    weights = _weights(strategy.get("resources"), (*at, "resources"), refuse)
    shape: tuple[tuple[int, int], ...] = ()
    if name == "RequestedToCapacityRatio":
        ratio = strategy.get("requestedToCapacityRatio")
        points = ratio.get("shape") if isinstance(ratio, dict) else None
        shape = _points(points, (*at, "requestedToCapacityRatio", "shape"), refuse)
    return ResourceScoring(strategy=_STRATEGIES[name], cpu=weights["cpu"], memory=weights["memory"], shape=shape)


def _weights(resources: object, at: Steps, refuse: _Refuse) -> dict[str, int]:
    """The weights of CPU and memory; 0 for one that is not listed."""
    if not resources:
        return {"cpu": 1, "memory": 1}
    found = {"cpu": 0, "memory": 0}
    for number, entry in enumerate(_mappings(resources, at, refuse)):
        name, weight = entry.get("name"), entry.get("weight") or 1
        if name not in found:
            refuse((*at, number, "name"), name, "cpu or memory")
        elif not _is_whole(weight, 1, 100):
            refuse((*at, number, "weight"), weight, "a whole number from 1 to 100")
        else:
            found[name] = weight
    return found


def _points(points: object, at: Steps, refuse: _Refuse) -> tuple[tuple[int, int], ...]:
    found = [(entry.get("utilization", 0), entry.get("score", 0)) for entry in _mappings(points or [], at, refuse)]
    valid = all(_is_whole(used, 0, 100) and _is_whole(score, 0, 10) for used, score in found)
    if not found or not valid or [used for used, _ in found] != sorted({used for used, _ in found}):
        refuse(at, points, "points of rising utilization (0-100) and score (0-10)")
        return ((0, 0),)
    return tuple(found)


def _pod_affinity(args: dict[str, Any], refuse: _Refuse) -> PodAffinityScoring:
    weight = args.get("hardPodAffinityWeight")
    if weight is None:
        weight = 1
    if not _is_whole(weight, 0, 100):
        refuse(("hardPodAffinityWeight",), weight, "a whole number from 0 to 100")
        weight = 1
    return PodAffinityScoring(hard_weight=weight, ignores_existing=args.get("ignorePreferredTermsOfExistingPods") is True)


def _spread(args: dict[str, Any], refuse: _Refuse) -> DefaultSpread:
    if args.get("defaultingType", "System") != "List":
        return SYSTEM_DEFAULT
    constraints = list(_mappings(args.get("defaultConstraints") or [], ("defaultConstraints",), refuse))
    return DefaultSpread(
        tuple(
            (str(entry.get("topologyKey", "")), int(entry.get("maxSkew", 1)))
            for entry in constraints
            if entry.get("whenUnsatisfiable") == "ScheduleAnyway"
        )
    )


def _refuse_balanced(args: dict[str, Any], refuse: _Refuse) -> None:
    resources = args.get("resources")
    if not resources:
        return
    names = {entry.get("name") for entry in _mappings(resources, ("resources",), refuse)}
    if names != {"cpu", "memory"}:
        refuse(("resources",), sorted(map(str, names)), "cpu and memory")


def _mappings(entries_: object, at: Steps, refuse: _Refuse) -> Iterator[dict[str, Any]]:
    if not isinstance(entries_, list):
        refuse(at, entries_, "a list")
        return
    for number, entry in enumerate(entries_):
        if isinstance(entry, dict):
            yield entry
        else:
            refuse((*at, number), entry, "a mapping")


def _is_whole(value: object, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
