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
    """Holds the cluster state against a fresh list of the API server, and its sums against themselves."""

    interval: Delay = Field(default=Duration(5 * MINUTE), examples=["5m", "0s"])
    """Duration between two audits. 5m by default: a list of 150,000 pods costs the API server a second or two. 0s: none, and
    nodes' sums are not sampled in between either."""


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


API_VERSION: Final = "config.slackwater.dev/v1alpha1"
KIND: Final = "SlackwaterConfiguration"


class FeatureGates(Section):
    """Parts that can be switched off on their own."""

    async_preemption: Literal[True] = Field(default=True, alias="AsyncPreemption")
    """Whether victims are deleted beside the scheduling path. Always true, by default too: deleting them before filter was
    answered bound other pods at a hundredth of the speed, so that mode was removed."""
    parallel_drain: Switch = Field(default=True, alias="ParallelDrain")
    """Whether several nodes are drained at the same time. true by default."""
    resource_slack: Switch = Field(default=True, alias="ResourceSlack")
    """Whether spare room is planned. true by default; how much is said in `autoscaler.slack`."""
    steering: Switch | None = Field(default=None, alias="Steering", examples=[True])
    """Whether kube-scheduler learns where pods go, so that it searches less; how is said in `steering`. Unset by default:
    where `extender.bind` is false, since there it is faster with us than alone."""


class Settings(Section):
    """Everything the service is told. `Settings()` is the defaults, which need no file at all."""

    api_version: Literal["config.slackwater.dev/v1alpha1"] = Field(default=API_VERSION, examples=[API_VERSION])
    """The version of this format. Has to be there in a file, so that an old file is never read as a new one."""
    kind: Literal["SlackwaterConfiguration"] = Field(default=KIND, examples=[KIND])
    """The kind of this file. Has to be there in a file, as above."""
    scheduler_name: SchedulerName = Field(default="slackwater", examples=["slackwater"])
    """The scheduler's name: what pods say in `spec.schedulerName`, the profile in the scheduler's file, and the label
    by which agents find us. slackwater by default: beside the cluster's own scheduler, not instead of it."""
    feature_gates: FeatureGates = FeatureGates()
    """Parts that can be switched off."""
    leader_election: LeaderElection = LeaderElection()
    """Which of several replicas decides."""
    listeners: Listeners = Listeners()
    """Where the service listens."""
    extender: Extender = Extender()
    """What kube-scheduler asks, and how."""
    nodes: Nodes = Nodes()
    """What of a node may be used, and which node is preferred."""
    vertical: Vertical = Vertical()
    """How workloads grow in place."""
    migration: Migration = Migration()
    """When and how much is migrated."""
    preemption: Preemption = Preemption()
    """Who has to leave for more important pods, and how long they may take."""
    steering: Steering = Steering()
    """How pods are nominated before kube-scheduler searches."""
    autoscaler: Autoscaler = Autoscaler()
    """When nodes are added and removed."""
    kube: Kube = Kube()
    """How much is asked of the API server."""
    audit: Audit = Audit()
    """Whether the cluster state is held against the cluster."""
    recording: Recording = Recording()
    """Whether decisions are written down, to be repeated."""

    @property
    def steers(self) -> bool:
        """Whether steering is on: as the feature gate says; if that is unset, then if kube-scheduler binds (ADR 125)."""
        gate = self.feature_gates.steering
        return not self.extender.bind if gate is None else gate
