"""Checks a KubeSchedulerConfiguration for everything that is known to go wrong with an extender.

In: the text of the file and, if known, our own configuration. Out: all findings, ordered by the file's sections. The arguments
of plug-ins are not checked: kube-scheduler validates those itself.

Of an extender it checks verbs, weight, timeout and managed resources. Sources: k8s.io/kubernetes v1.36.3,
pkg/scheduler/extender.go, schedule_one.go (scores times weight times 10, not clamped) and apis/config/validation.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from slackwater.app.scheduler_config.config_tree import Finding, Severity, entries, read_scheduler_file
from slackwater.app.scheduler_config.filters_and_scores import MEANINGS, PREFERENCES, in_tree_weights
from slackwater.app.scheduler_config.profile import file_findings, filters_differ, not_followed, profile_findings
from slackwater.app.scheduler_config.transport import PATH, CertificateNames, target_of, transport_findings
from slackwater.app.settings import Settings
from slackwater.configuration.problems import Steps, json_path, show
from slackwater_protocol.durations import SECOND, Duration, format_duration, parse_duration

#: kube-scheduler's defaults for the Lease of its leader election.
_NAME: Final = "kube-scheduler"
_NAMESPACE: Final = "kube-system"


def election_findings(tree: dict[str, Any], settings: Settings | None) -> Iterator[Finding]:
    """Findings on the leader election, in the mode in which the service leads whenever the kube-scheduler of its Pod leads."""
    if settings is None or settings.leader_election.mode != "scheduler":
        return
    election, ours = tree.get("leaderElection", {}), settings.leader_election
    if not election.get("leaderElect", True):
        yield Finding(
            path="leaderElection.leaderElect",
            trap="no-election",
            why="Slackwater leads while the scheduler's Lease names its Pod (leaderElection.mode), and there will be none: "
            "it never leads",
            fix="set leaderElect: true, as `slackwater scheduler-config` does",
        )
        return
    wanted = {
        "resourceName": (election.get("resourceName", _NAME), ours.resource_name or settings.scheduler_name),
        "resourceNamespace": (election.get("resourceNamespace", _NAMESPACE), ours.resource_namespace),
    }
    for key, (seen, want) in wanted.items():
        if seen != want:
            yield Finding(
                path=f"leaderElection.{key}",
                trap="other-lease",
                why=f"got {seen}, and Slackwater follows the Lease {ours.resource_namespace}/"
                f"{ours.resource_name or settings.scheduler_name}: it would not lead when this scheduler does",
                fix=f"want {want}, as leaderElection.{key} in Slackwater's configuration",
            )


def check(text: str, settings: Settings | None, *, certificate: CertificateNames | None = None) -> list[Finding]:
    """Returns all findings on the file. `settings` are our own configuration; if None, the defaults are assumed.

    `certificate` has the names in the extender listener's certificate; with it, it is also checked whether kube-scheduler will
    accept the certificate. Raises `UnreadableSettings` if the text is no KubeSchedulerConfiguration.
    """
    file = read_scheduler_file(text)
    extenders = list(entries(file.tree, "extenders"))
    ours = _our_places(extenders, settings)
    names_nodes = _names_nodes(extenders, ours)
    found = (
        *file_findings(file.tree),
        *election_findings(file.tree, settings),
        *profile_findings(file.tree, settings, names_nodes=names_nodes),
        *_extenders_findings(file.tree, settings, certificate),
    )
    refused = {finding.path for finding in file.findings}  # not in the tree, so the other checks report them as missing
    return [*file.findings, *(finding for finding in found if finding.path not in refused)]


def unfollowed(settings: Settings) -> list[Finding]:
    """What of the file `extender.schedulerConfig` plans and node choice do not follow; none without a file. The file can be
    read."""
    path = settings.extender.scheduler_config
    text = None if path is None else Path(path).read_text(encoding="utf-8")
    return [] if text is None else [each for each in check(text, settings) if each.trap in _UNFOLLOWED]


_UNFOLLOWED: Final = frozenset({"not-followed", "scores-not-supported", "choice-by-default-scores"})


def _extenders_findings(
    tree: dict[str, Any], settings: Settings | None, certificate: CertificateNames | None
) -> Iterator[Finding]:
    extenders = list(entries(tree, "extenders"))
    ours = _our_places(extenders, settings)
    profiles = [profile for _, profile in entries(tree, "profiles")]
    yield from _presence_findings(extenders, ours, settings or Settings())
    yield from _later_extender_findings(extenders, ours, settings or Settings())
    chosen_for_others = _names_nodes(extenders, ours) and not (settings or Settings()).extender.bind
    for at, extender in extenders:
        yield from refusal_findings(extender, at)
        if at not in ours:
            yield from _findings_on_others(extender, at, settings, chosen=chosen_for_others)
            yield from transport_findings(extender, at, None, None, ours=False)
            continue
        yield from failure_findings(extender, at, settings)
        yield from weight_findings(extender, at, profiles, settings)
        yield from transport_findings(extender, at, settings, certificate)
        yield from scope_findings(extender, at)
        yield from verb_findings(extender, at, settings or Settings(), assumed=settings is None)
        if settings is not None:
            yield from agreement_findings(extender, at, settings)


def _names_nodes(extenders: list[tuple[Steps, dict[str, Any]]], ours: list[Steps]) -> bool:
    """Does Slackwater choose nodes, by the file's extenders? It does where kube-scheduler binds."""
    return any(at in ours and not extender.get("bindVerb") for at, extender in extenders)


def _findings_on_others(extender: dict[str, Any], at: Steps, settings: Settings | None, *, chosen: bool) -> Iterator[Finding]:
    """Findings on what we do not follow of another extender. `chosen`: Slackwater names one node."""
    name = f"the extender at {show(extender.get('urlPrefix'))}"
    if extender.get("filterVerb"):
        yield not_followed((*at, "filterVerb"), f"what {name} refuses")
    if extender.get("prioritizeVerb") and chosen:
        yield Finding(
            path=json_path((*at, "prioritizeVerb")),
            trap="choice-by-default-scores",
            why=f"Slackwater names one node, and does not know the scores of {name}",
            fix="set extender.bind: true where its scores matter",
            severity="warning",
        )
    ignored = any(resource.get("ignoredByScheduler") for resource in extender.get("managedResources", ()))
    if ignored and (settings is None or settings.extender.scheduler_config is None):
        yield filters_differ((*at, "managedResources"))


def _later_extender_findings(
    extenders: list[tuple[Steps, dict[str, Any]]], ours: list[Steps], settings: Settings
) -> Iterator[Finding]:
    """Reports each extender that kube-scheduler calls after ours and that may refuse or score the node that ours names."""
    if settings.extender.bind or not ours:
        return
    places = [at for at, _ in extenders]
    for at, extender in extenders[places.index(ours[0]) + 1 :]:
        if at not in ours and extender.get("filterVerb"):
            yield Finding(
                path=json_path(at),
                trap="extender-after-choice",
                why="it is called after Slackwater, which names one node: if it refuses that one, the pod is tried again later",
                fix="put it before Slackwater, or set extender.bind: true",
                severity="warning",
            )


def _our_places(extenders: list[tuple[Steps, dict[str, Any]]], settings: Settings | None) -> list[Steps]:
    """The places of the extender entries that are this service: those with our port, or else those with our path and a verb
    that others on this path (HAMi) have not. A single entry also counts as ours if it has no usable URL, which is then reported
    as such."""
    targets = [(at, target, extender) for at, extender in extenders if (target := target_of(extender)) is not None]
    port = (settings or Settings()).listeners.extender.address.port
    if same_port := [at for at, target, _ in targets if target.port == port]:
        return same_port
    own = [(key, VERBS[key][0]) for key in ("prioritizeVerb", "preemptVerb")]
    if same_path := [at for at, target, each in targets if target.path == PATH and any(each.get(k) == verb for k, verb in own)]:
        return same_path
    return [at for at, extender in extenders if len(extenders) == 1 and target_of(extender) is None]


def _presence_findings(
    extenders: list[tuple[Steps, dict[str, Any]]], ours: list[Steps], settings: Settings
) -> Iterator[Finding]:
    if not ours:
        port = settings.listeners.extender.address.port
        yield Finding(
            path="extenders",
            trap="no-extender",
            why=f"none of the extenders is Slackwater (port {port}, path {PATH}), so it is never asked",
            fix="add the entry that `slackwater scheduler-config` prints",
        )
    if len(ours) > 1:
        yield Finding(
            path=json_path(ours[1]),
            trap="extender-twice",
            why=f"{json_path(ours[0])} is Slackwater too: each pod is held and scored twice",
            fix="remove one of the two",
        )
    binders = [at for at, extender in extenders if extender.get("bindVerb")]
    if len(binders) > 1:
        yield Finding(
            path=json_path((*binders[1], "bindVerb")),
            trap="two-binders",
            why=f"{json_path(binders[0])} binds too; kube-scheduler refuses to start with two",
            fix="leave bindVerb to one of them",
        )


#: Bounds of httpTimeout. A shorter one is too short for a bind, which includes a write to the API server. With a longer one, a
#: lost call stops all scheduling for that time, because scheduling is serial.
SHORTEST_TIMEOUT: Final = Duration(SECOND)
LONGEST_TIMEOUT: Final = Duration(30 * SECOND)

#: For each key of the entry: the verb that the listener serves, and what goes wrong without it.
VERBS: Final = {
    "filterVerb": ("filter", "nodes without room are offered, and most binds are refused"),
    "prioritizeVerb": ("prioritize", "which node fills first is decided without our accounting"),
    "bindVerb": ("bind", "kube-scheduler binds, and a pod's room is confirmed only when the watch shows the bind"),
    "preemptVerb": ("preempt", "in-tree preemption picks nodes whose accounting the pod does not fit"),
}


def refusal_findings(extender: dict[str, Any], at: Steps) -> Iterator[Finding]:
    """Findings that apply to every extender, not only to ours.

    With some of these settings kube-scheduler does not start. With others it binds pods itself when the extender refuses.
    """
    if extender.get("ignorable") and extender.get("bindVerb"):
        yield Finding(
            path=json_path((*at, "ignorable")),
            trap="ignorable-with-bind",
            why="a bind that fails or is refused falls through to kube-scheduler's own: the pod runs without reservation",
            fix="remove ignorable",
        )
    if extender.get("prioritizeVerb") and extender.get("weight", 0) <= 0:
        yield Finding(
            path=json_path((*at, "weight")),
            trap="weight",
            why=f"got {extender.get('weight', 0)}; with a prioritizeVerb kube-scheduler refuses to start unless it is > 0",
            fix="want 1",
        )


def failure_findings(extender: dict[str, Any], at: Steps, settings: Settings | None) -> Iterator[Finding]:
    """Findings on `ignorable` and `httpTimeout`, which decide what happens when a call to us fails."""
    wanted = settings is not None and settings.extender.ignorable
    if wanted and not extender.get("ignorable"):
        yield _differs((*at, "ignorable"), "false", "extender.ignorable is true")
    if extender.get("ignorable") and not extender.get("bindVerb") and not wanted:
        yield Finding(
            path=json_path((*at, "ignorable")),
            trap="ignorable",
            why="while Slackwater does not answer, pods are placed without it and nodes go over their total",
            fix="remove ignorable, or set extender.ignorable: true in Slackwater's configuration if that is wanted",
            severity="warning",
        )
    yield from _timeout_findings(extender, at)


def _timeout_findings(extender: dict[str, Any], at: Steps) -> Iterator[Finding]:
    path = json_path((*at, "httpTimeout"))
    timeout = parse_duration(extender["httpTimeout"]) if "httpTimeout" in extender else Duration(0)
    seen = format_duration(timeout)
    if timeout == 0:
        yield Finding(
            path=path,
            trap="http-timeout",
            why="it is not set, so kube-scheduler's built-in default decides when a call counts as failed",
            fix="set what extender.httpTimeout says in Slackwater's configuration (5s)",
            severity="warning",
        )
    elif timeout < SHORTEST_TIMEOUT:
        yield Finding(
            path=path,
            trap="http-timeout",
            why=f"{seen} is too short: a bind includes a write to the API server, and a filter that times out fails its pod",
            fix="want at least 1s; 5s is usual",
        )
    elif timeout > LONGEST_TIMEOUT:
        yield Finding(
            path=path,
            trap="http-timeout",
            why=f"{seen} is too long: scheduling is serial, so one lost call stops all pods for that time",
            fix="want at most 30s; 5s is usual",
            severity="warning",
        )


def weight_findings(
    extender: dict[str, Any], at: Steps, profiles: list[dict[str, Any]], settings: Settings | None
) -> Iterator[Finding]:
    """The finding that the extender's weight overrides users' preferences; reported for the first profile where it does."""
    weight = extender.get("weight", 0)
    if not extender.get("prioritizeVerb") or weight <= 0:
        return
    # A weight that our own configuration asks for is intended.
    severity: Severity = "advice" if settings is not None and settings.extender.weight == weight else "warning"
    for profile in profiles or [{}]:
        outweighed = {name: own for name, own in in_tree_weights(profile).items() if own < weight}
        if outweighed:
            names = ", ".join(f"{MEANINGS[name]} ({100 * outweighed[name]})" for name in PREFERENCES if name in outweighed)
            equals = [MEANINGS[name] for name, own in in_tree_weights(profile).items() if own == weight]
            level = f", and equals {', '.join(equals)}" if equals else ""
            points = f"scores of 0 to 10 times 10 times {weight} make up to {100 * weight} points"
            yield Finding(
                path=json_path((*at, "weight")),
                trap="weight",
                why=f"{points}: that overrides {names}{level}",
                fix=f"want {min(in_tree_weights(profile).values())}: as much as one more in-tree plug-in",
                severity=severity,
            )
            return


def scope_findings(extender: dict[str, Any], at: Steps) -> Iterator[Finding]:
    """Findings on `managedResources` and `nodeCacheCapable`, which decide which pods are sent to us, and how nodes are sent."""
    if extender.get("managedResources"):
        yield Finding(
            path=json_path((*at, "managedResources")),
            trap="managed-resources",
            why="only pods that request one of these resources are shown to us; all others are placed and bound past us",
            fix="remove managedResources",
        )
    if not extender.get("nodeCacheCapable"):
        yield Finding(
            path=json_path((*at, "nodeCacheCapable")),
            trap="node-cache",
            why="every call carries whole Node objects, tens of megabytes in a large cluster, which Slackwater has anyway",
            fix="set nodeCacheCapable: true",
            severity="warning",
        )


def verb_findings(extender: dict[str, Any], at: Steps, settings: Settings, *, assumed: bool) -> Iterator[Finding]:
    """Findings on verbs that are missing, or that the listener does not serve. `assumed`: `settings` are the defaults, since
    Slackwater's own configuration was not given."""
    for key, (verb, lost) in VERBS.items():
        seen = extender.get(key, "")
        if seen and seen.strip("/") != verb:
            yield Finding(
                path=json_path((*at, key)),
                trap="verb",
                why=f"got {show(seen)}, which Slackwater does not serve: every such call fails",
                fix=f"want {verb}",
            )
        elif not seen and (key != "bindVerb" or settings.extender.bind):
            yield Finding(
                path=json_path((*at, key)),
                trap="verb",
                why=f"it is missing: {lost}",
                fix=f"want {verb}",
                severity="error" if key == "filterVerb" else "warning",
            )
    if extender.get("bindVerb") and not settings.extender.bind:
        yield Finding(
            path=json_path((*at, "bindVerb")),
            trap="differs-from-config",
            why="it is set, but extender.bind is false"
            + (" by default" if assumed else " in Slackwater's configuration")
            + ": "
            "Slackwater binds when it is called, at half of kube-scheduler's speed",
            fix="remove bindVerb, or set extender.bind: true in Slackwater's configuration",
            severity="advice" if assumed else "warning",
        )


def agreement_findings(extender: dict[str, Any], at: Steps, settings: Settings) -> Iterator[Finding]:
    """Findings on values that differ from our configuration, mostly because the file was not generated again after a change."""
    wanted = settings.extender
    if extender.get("prioritizeVerb") and 0 < extender.get("weight", 0) != wanted.weight:
        yield _differs((*at, "weight"), extender["weight"], f"extender.weight is {wanted.weight}")
    timeout = parse_duration(extender.get("httpTimeout", "0"))
    if timeout not in (0, wanted.http_timeout):
        configured = format_duration(wanted.http_timeout)
        yield _differs((*at, "httpTimeout"), format_duration(timeout), f"extender.httpTimeout is {configured}")


def _differs(at: Steps, seen: object, configured: str) -> Finding:
    return Finding(
        path=json_path(at),
        trap="differs-from-config",
        why=f"got {seen}, but {configured} in Slackwater's configuration, which counts on it",
        fix="write the same in both, or generate the file again",
        severity="warning",
    )
