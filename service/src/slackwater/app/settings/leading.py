"""The section `leaderElection`: how replicas agree on one that decides. The durations are called as in client-go."""

from typing import Literal

from pydantic import Field

from slackwater.app.settings.section import Section
from slackwater.app.settings.values import Namespace, ObjectName, Timeout
from slackwater_protocol.durations import SECOND, Duration


class LeaderElection(Section):
    """Which of several replicas decides and writes."""

    mode: Literal["none", "scheduler", "own"] = Field(default="none", examples=["none", "scheduler", "own"])
    """`none`: there is one replica, and it leads. `scheduler`: exactly while the Lease of the kube-scheduler beside it names
    their Pod. `own`: while it holds a Lease itself, where no scheduler stands beside it. none by default: one replica needs
    no Lease."""
    resource_namespace: Namespace = Field(default="kube-system", examples=["kube-system"])
    """Namespace of the Lease. kube-system by default, where kube-scheduler keeps its own. Written into the scheduler's file
    where `mode` is scheduler, like all that follows."""
    resource_name: ObjectName | None = Field(default=None, examples=["slackwater"])
    """Name of the Lease. `schedulerName` by default, so that each scheduler has its own."""
    lease_duration: Timeout = Field(default=Duration(15 * SECOND), examples=["15s"])
    """Duration, in whole seconds, after which a Lease that nobody renews may be taken. 15s by default, as everywhere in
    Kubernetes."""
    renew_deadline: Timeout = Field(default=Duration(10 * SECOND), examples=["10s"])
    """Duration after which a leader that could not renew stops leading; less than `leaseDuration`. 10s by default, as
    everywhere in Kubernetes."""
    retry_period: Timeout = Field(default=Duration(SECOND // 2), examples=["500ms", "2s"])
    """Duration between two renewals, and between two tries to lead; kube-scheduler takes up to 2.2 times as long. 500ms by
    default, less than the 2s that are usual: so a leader that stops in good order is followed within about a second."""
