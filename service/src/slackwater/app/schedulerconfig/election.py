"""Whether kube-scheduler's leader election is the one that this service follows."""

from collections.abc import Iterator
from typing import Any, Final

from slackwater.app.schedulerconfig.finding import Finding
from slackwater.app.settings import Settings

#: kube-scheduler's defaults.
_NAME: Final = "kube-scheduler"
_NAMESPACE: Final = "kube-system"


def election_findings(tree: dict[str, Any], settings: Settings | None) -> Iterator[Finding]:
    """Nothing unless the service follows the scheduler's Lease."""
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
