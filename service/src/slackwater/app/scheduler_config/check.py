"""Checks a KubeSchedulerConfiguration for everything that is known to go wrong with an extender.

In: the text of the file and, if known, our own configuration. Out: all findings, ordered by the file's sections. The arguments
of plug-ins are not checked: kube-scheduler validates those itself.
"""

from collections.abc import Iterator
from typing import Any, Final

from slackwater.app.scheduler_config.config_tree import Finding, entries, read_scheduler_file
from slackwater.app.scheduler_config.extender import (
    agreement_findings,
    failure_findings,
    refusal_findings,
    scope_findings,
    verb_findings,
    weight_findings,
)
from slackwater.app.scheduler_config.profile import file_findings, profile_findings
from slackwater.app.scheduler_config.transport import PATH, CertificateNames, target_of, transport_findings
from slackwater.app.settings import Settings
from slackwater.configuration.problems import Steps, json_path

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
    names_nodes = any(at in ours and not extender.get("bindVerb") for at, extender in extenders)
    found = (
        *file_findings(file.tree),
        *election_findings(file.tree, settings),
        *profile_findings(file.tree, settings, names_nodes=names_nodes),
        *_extenders_findings(file.tree, settings, certificate),
    )
    refused = {finding.path for finding in file.findings}  # not in the tree, so the other checks report them as missing
    return [*file.findings, *(finding for finding in found if finding.path not in refused)]


def _extenders_findings(
    tree: dict[str, Any], settings: Settings | None, certificate: CertificateNames | None
) -> Iterator[Finding]:
    extenders = list(entries(tree, "extenders"))
    ours = _our_places(extenders, settings)
    profiles = [profile for _, profile in entries(tree, "profiles")]
    yield from _presence_findings(extenders, ours, settings or Settings())
    yield from _later_extender_findings(extenders, ours, settings or Settings())
    for at, extender in extenders:
        yield from refusal_findings(extender, at)
        if at not in ours:
            yield from transport_findings(extender, at, None, None)
            continue
        yield from failure_findings(extender, at, settings)
        yield from weight_findings(extender, at, profiles, settings)
        yield from transport_findings(extender, at, settings, certificate)
        yield from scope_findings(extender, at)
        yield from verb_findings(extender, at, settings or Settings(), assumed=settings is None)
        if settings is not None:
            yield from agreement_findings(extender, at, settings)


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
    """The places of the extender entries that are this service: those with our port, or else with our path. A single entry also
    counts as ours if it has no usable URL, which is then reported as such."""
    targets = [(at, target) for at, extender in extenders if (target := target_of(extender)) is not None]
    port = (settings or Settings()).listeners.extender.address.port
    if same_port := [at for at, target in targets if target.port == port]:
        return same_port
    if same_path := [at for at, target in targets if target.path == PATH]:
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
