"""The whole configuration file as one frozen value, with all top-level keys.

The docstring under each key becomes its description in docs and schema.
"""

from typing import Final, Literal

from pydantic import Field

from slackwater.app.settings.autoscaling import Autoscaler
from slackwater.app.settings.recording import Recording
from slackwater.app.settings.section import Section
from slackwater.app.settings.serving import Extender, Kube, Listeners, Migration, Nodes, Preemption, Vertical
from slackwater.app.settings.steering import Steering
from slackwater.app.settings.values import Delay, Namespace, ObjectName, SchedulerName, Switch, Timeout
from slackwater_protocol.durations import MINUTE, SECOND, Duration


class Audit(Section):
    """Compares the cluster state with a fresh list of the API server, and checks the nodes' sums."""

    interval: Delay = Field(default=Duration(5 * MINUTE), examples=["5m", "0s"])
    """Duration between two audits. 5m by default: a list of 150,000 pods costs the API server a second or two. 0s: no audits,
    and no samples of nodes' sums between them."""


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


API_VERSION: Final = "config.slackwater.dev/v1alpha1"
KIND: Final = "SlackwaterConfiguration"


class FeatureGates(Section):
    """Features that can be switched off one by one."""

    async_preemption: Literal[True] = Field(default=True, alias="AsyncPreemption")
    """Whether victims are deleted asynchronously, after filter is answered. true by default, and nothing else is allowed: the
    other mode reduced the rate of binds to a hundredth and was removed."""
    parallel_drain: Switch = Field(default=True, alias="ParallelDrain")
    """Whether several nodes may be drained at the same time. true by default."""
    resource_slack: Switch = Field(default=True, alias="ResourceSlack")
    """Whether slack is planned. true by default; `autoscaler.slack` says how much."""
    steering: Switch | None = Field(default=None, alias="Steering", examples=[True])
    """Whether Slackwater nominates nodes and chooses the node in filter, so that kube-scheduler searches less; see `steering`.
    Unset by default: on if `extender.bind` is false, because kube-scheduler is then faster with Slackwater than alone."""


class Settings(Section):
    """The configuration of the service. Without a file, all defaults apply."""

    api_version: Literal["config.slackwater.dev/v1alpha1"] = Field(default=API_VERSION, examples=[API_VERSION])
    """The version of this format. A file must have it, so that an old file is never read as a new one."""
    kind: Literal["SlackwaterConfiguration"] = Field(default=KIND, examples=[KIND])
    """The kind of this file. A file must have it."""
    scheduler_name: SchedulerName = Field(default="slackwater", examples=["slackwater"])
    """The scheduler's name: in pods' `spec.schedulerName`, as the profile in kube-scheduler's file, and in the label by which
    agents find Slackwater. slackwater by default, so that it runs in addition to the cluster's own scheduler."""
    feature_gates: FeatureGates = FeatureGates()
    """Features that can be switched off."""
    leader_election: LeaderElection = LeaderElection()
    """How the leader among several replicas is elected."""
    listeners: Listeners = Listeners()
    """The addresses on which the service listens."""
    extender: Extender = Extender()
    """How kube-scheduler calls Slackwater."""
    nodes: Nodes = Nodes()
    """How much of a node may be used, and which node is preferred."""
    vertical: Vertical = Vertical()
    """How workloads grow in place."""
    migration: Migration = Migration()
    """When virtual machines are migrated, and how many at the same time."""
    preemption: Preemption = Preemption()
    """Whether less important pods are deleted for more important ones, and how long that may take."""
    steering: Steering = Steering()
    """How pods are nominated before kube-scheduler searches."""
    autoscaler: Autoscaler = Autoscaler()
    """When nodes are added and removed."""
    kube: Kube = Kube()
    """How much load Slackwater puts on the API server."""
    audit: Audit = Audit()
    """How often the cluster state is compared with the API server."""
    recording: Recording = Recording()
    """Whether decisions are recorded for `slackwater replay`."""

    @property
    def steers(self) -> bool:
        """Whether steering is on: as the feature gate says; if that is unset, then if kube-scheduler binds (ADR 125)."""
        gate = self.feature_gates.steering
        return not self.extender.bind if gate is None else gate
