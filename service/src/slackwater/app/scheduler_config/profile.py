"""Checks the profiles, and the fields that concern the whole scheduler.

In: the cleaned tree and, if known, our own configuration. Plug-ins that are not part of kube-scheduler are not checked.
"""

from collections.abc import Iterator
from typing import Any, Final

from slackwater.app.scheduler_config.config_tree import Finding, entries
from slackwater.app.scheduler_config.filters_and_scores import (
    DEFAULT_SCHEDULER,
    FILTERS,
    filter_arguments,
    profile_scores,
    weight_at,
)
from slackwater.app.settings import Settings
from slackwater.configuration.problems import Steps, json_path, show
from slackwater.fit.node_scores import DEFAULT_WEIGHTS, ScoreProfile

_SHARED_LEASE: Final = "kube-scheduler"
#: A lower client rate is reported. kube-scheduler's defaults are 50 requests a second, 100 in a burst.
_LOW_QPS: Final = 100

#: Names of all plug-ins of k8s.io/kubernetes v1.36.3, pkg/scheduler/framework/plugins/names/names.go.
IN_TREE: Final = frozenset(FILTERS) | {
    *DEFAULT_WEIGHTS,
    "DefaultBinder",
    "DefaultPreemption",
    "DynamicResources",
    "GangScheduling",
    "NodeDeclaredFeatures",
    "PodGroupPodsCount",
    "PrioritySort",
    "SchedulingGates",
    "TopologyPlacementGenerator",
}


def file_findings(tree: dict[str, Any]) -> Iterator[Finding]:
    """Findings on the fields outside profiles and extenders."""
    yield from _percentage_findings(tree, ())
    yield from _election_findings(tree)
    qps = tree.get("clientConnection", {}).get("qps", 0)
    if 0 <= qps < _LOW_QPS:
        yield Finding(
            path="clientConnection.qps",
            trap="client-qps",
            why=f"got {qps:g} (0: 50); each pod that fits nowhere costs a write inside the serial scheduling cycle",
            fix="want a few hundred or more: the API server limits by itself",
            severity="advice",
        )


def _election_findings(tree: dict[str, Any]) -> Iterator[Finding]:
    election = tree.get("leaderElection", {})
    names = {profile.get("schedulerName", DEFAULT_SCHEDULER) for _, profile in entries(tree, "profiles")}
    shared = election.get("resourceName", _SHARED_LEASE) == _SHARED_LEASE
    if election.get("leaderElect", True) and shared and names and DEFAULT_SCHEDULER not in names:
        yield Finding(
            path="leaderElection.resourceName",
            trap="shared-lease",
            why=f"the Lease {_SHARED_LEASE} is the one of the cluster's own scheduler: beside it, this one never schedules",
            fix="set leaderElect: false for one replica, or a resourceName of its own (and RBAC for that Lease)",
            severity="advice",
        )


def _percentage_findings(part: dict[str, Any], at: Steps) -> Iterator[Finding]:
    percentage = part.get("percentageOfNodesToScore", 0)
    path = json_path((*at, "percentageOfNodesToScore"))
    if not 0 <= percentage <= 100:
        yield Finding(path=path, trap="percentage", why=f"got {percentage}; kube-scheduler refuses it", fix="leave it out")
    elif percentage == 100:
        yield Finding(
            path=path,
            trap="percentage",
            why="every cycle then filters all nodes and sends them all to us: 40 % less throughput at 1,000 nodes",
            fix="leave it out; Slackwater notices when the sample hides the nodes that fit, and nominates one",
            severity="warning",
        )
    elif percentage:
        yield Finding(
            path=path,
            trap="percentage",
            why=f"got {percentage}; a fixed share is too large a sample for big clusters or too small for full ones",
            fix="leave it out",
            severity="advice",
        )


def wanted_percentage(settings: Settings) -> int:
    """The value of `percentageOfNodesToScore` that our profile should have; 0: the field is left out."""
    return 0 if settings.extender.bind else settings.extender.percentage_of_nodes_to_score


def _is_ours(profile: dict[str, Any], settings: Settings) -> bool:
    return bool(profile.get("schedulerName", DEFAULT_SCHEDULER) == settings.scheduler_name)


def _choice_findings(profile: dict[str, Any], at: Steps, settings: Settings | None, *, names_nodes: bool) -> Iterator[Finding]:
    """Findings on scores that the choice of a node does not follow. Without our configuration the defaults are assumed, and
    each profile counts as ours if Slackwater names nodes."""
    assumed, settings = settings is None, settings or Settings()
    ours = names_nodes if assumed else _is_ours(profile, settings)
    if settings.extender.bind or not (ours or settings.extender.scheduler_config):
        return
    scores, findings = profile_scores(profile, at)
    yield from findings
    if not ours:
        return
    if scores != ScoreProfile() and settings.extender.scheduler_config is None:
        yield Finding(
            path=json_path(at),
            trap="choice-by-default-scores",
            why="it scores otherwise than by default, but Slackwater chooses the node, by the default weights and arguments",
            fix="set extender.schedulerConfig in Slackwater's configuration to the path of this file"
            + (", and name that configuration here with --config" if assumed else ""),
            severity="warning",
        )
    if foreign := _foreign(profile, "score"):
        yield Finding(
            path=json_path((*at, "plugins")),
            trap="choice-by-default-scores",
            why=f"{', '.join(foreign)} is not in-tree: Slackwater names one node, and does not know its scores",
            fix="set extender.bind: true where its scores matter",
            severity="warning",
        )


def filters_differ(at: Steps) -> Finding:
    """The finding that filters are not the default profile's by what is at this place of the file, and plans do not know it."""
    return Finding(
        path=json_path(at),
        trap="filters-differ",
        why="plans for nodes apply the filters of kube-scheduler's default profile",
        fix="set extender.schedulerConfig in Slackwater's configuration to the path of this file",
        severity="warning",
    )


def _foreign(profile: dict[str, Any], point: str) -> list[str]:
    """The enabled plug-ins of an extension point that are not in-tree."""
    sets = (profile.get("plugins", {}).get(each, {}) for each in (point, "multiPoint"))
    return sorted({plugin.get("name", "") for each in sets for plugin in each.get("enabled", [])} - IN_TREE - {""})


def not_followed(at: Steps, what: str) -> Finding:
    """The finding that plans do not know `what` at this place of the file."""
    return Finding(
        path=json_path(at),
        trap="not-followed",
        why=f"plans for nodes do not know {what}: they may count on a node that kube-scheduler then refuses",
        fix="nothing, where that is rare; `slackwater explain pod` shows kube-scheduler's own message",
        severity="advice",
    )


def _profile_percentage_findings(profile: dict[str, Any], at: Steps, settings: Settings | None) -> Iterator[Finding]:
    wanted, seen = wanted_percentage(settings or Settings()), profile.get("percentageOfNodesToScore", 0)
    if seen and settings is None and seen == wanted:
        return
    if settings is None or not (wanted and _is_ours(profile, settings)):
        yield from _percentage_findings(profile, at)
    elif seen != wanted:
        yield Finding(
            path=json_path((*at, "percentageOfNodesToScore")),
            trap="differs-from-config",
            why=f"got {seen or 'nothing'}, but extender.percentageOfNodesToScore is {wanted} in Slackwater's configuration: "
            "kube-scheduler filters more nodes for each pod than Slackwater needs to choose from",
            fix="write the same in both, or generate the file again",
            severity="advice",
        )


def profile_findings(tree: dict[str, Any], settings: Settings | None, *, names_nodes: bool) -> Iterator[Finding]:
    """Findings on the profiles: names, sample size, default scores, and disabled plug-ins that Slackwater relies on.

    `names_nodes`: by the file's extenders, Slackwater is asked and kube-scheduler binds, so filter names one node."""
    profiles = list(entries(tree, "profiles"))
    yield from _name_findings(profiles)
    names = [profile.get("schedulerName") or DEFAULT_SCHEDULER for _, profile in profiles] or [DEFAULT_SCHEDULER]
    if settings is not None and settings.scheduler_name not in names:
        yield Finding(
            path="profiles[0].schedulerName" if profiles else "profiles",
            trap="profile-name",
            why=f"got {', '.join(names)}; no profile schedules the pods of schedulerName {settings.scheduler_name}",
            fix=f"want a profile with schedulerName: {settings.scheduler_name}",
        )
    for at, profile in profiles:
        yield from _profile_percentage_findings(profile, at, settings)
        yield from _choice_findings(profile, at, settings, names_nodes=names_nodes)
        yield from _plugin_findings(
            profile, at, followed=settings is not None and settings.extender.scheduler_config is not None
        )


def _name_findings(profiles: list[tuple[Steps, dict[str, Any]]]) -> Iterator[Finding]:
    first: dict[str, Steps] = {}
    for at, profile in profiles:
        path = json_path((*at, "schedulerName"))
        name = profile.get("schedulerName") or ("" if len(profiles) > 1 else DEFAULT_SCHEDULER)
        if not name:
            why = "it is missing, and kube-scheduler refuses several profiles of which one has no name"
            yield Finding(path=path, trap="profile-name", why=why, fix="give every profile a name")
        elif first.setdefault(name, at) != at:
            why = f"got {show(name)}, as in {json_path(first[name])}; kube-scheduler refuses two profiles of one name"
            yield Finding(path=path, trap="profile-name", why=why, fix="give every profile a name of its own")


def _plugin_findings(profile: dict[str, Any], at: Steps, *, followed: bool) -> Iterator[Finding]:
    """`followed`: plans go by the filters of this file."""
    if foreign := _foreign(profile, "filter"):
        yield not_followed((*at, "plugins"), f"the filters of {', '.join(foreign)}")
    plugins = profile.get("plugins", {})
    missing = [name for name in FILTERS if weight_at(name, "filter", plugins) is None]
    if missing and not followed:
        yield Finding(
            path=json_path((*at, "plugins")),
            trap="filters-disabled",
            why=f"{', '.join(missing)} disabled: plans for nodes apply these filters all the same",
            fix="set extender.schedulerConfig in Slackwater's configuration to the path of this file",
            severity="warning",
        )
    if not followed:
        yield from map(filters_differ, filter_arguments(profile, at))
    if weight_at("DefaultPreemption", "postFilter", plugins) is None:
        yield Finding(
            path=json_path((*at, "plugins")),
            trap="preemption-disabled",
            why="without DefaultPreemption kube-scheduler never calls preempt, and priority has no effect on full nodes",
            fix="do not disable DefaultPreemption",
            severity="warning",
        )
