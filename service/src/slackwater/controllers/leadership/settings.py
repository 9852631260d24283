"""The `leaderElection` section of the configuration file: which replica leads."""

from typing import Literal

from pydantic import Field

from slackwater.configuration.values import Namespace, ObjectName, Section, Timeout
from slackwater_protocol.durations import SECOND, Duration


class LeaderElection(Section):
    """How the replica that decides and writes, the leader, is elected."""

    mode: Literal["none", "scheduler", "own"] = Field(default="none", examples=["none", "scheduler", "own"])
    """`none`: the only replica leads. `scheduler`: a replica leads while the Lease of the kube-scheduler in its Pod names that
    Pod. `own`: a replica leads while it holds a Lease of its own; for Pods without a kube-scheduler. none by default: one
    replica needs no Lease."""
    resource_namespace: Namespace = Field(default="kube-system", examples=["kube-system"])
    """Namespace of the Lease. kube-system by default, where kube-scheduler keeps its own. If `mode` is scheduler, this key and
    those below are also written into kube-scheduler's file."""
    resource_name: ObjectName | None = Field(default=None, examples=["slackwater"])
    """Name of the Lease. `schedulerName` by default, so that each scheduler has its own."""
    lease_duration: Timeout = Field(default=Duration(15 * SECOND), examples=["15s"])
    """Duration, in whole seconds, after which another replica may take a Lease that was not renewed. 15s by default, as
    everywhere in Kubernetes."""
    renew_deadline: Timeout = Field(default=Duration(10 * SECOND), examples=["10s"])
    """Duration after which a leader that could not renew the Lease stops leading; less than `leaseDuration`. 10s by default, as
    everywhere in Kubernetes."""
    retry_period: Timeout = Field(default=Duration(SECOND // 2), examples=["500ms", "2s"])
    """Duration between two renewals, and between two attempts to become the leader; kube-scheduler takes up to 2.2 times as
    long. 500ms by default instead of the usual 2s: another replica then leads within about a second of an orderly stop."""
