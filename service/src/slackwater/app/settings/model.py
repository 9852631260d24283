"""The whole configuration file as one frozen value, with all top-level keys.

The docstring under each key becomes its description in docs and schema.
"""

from typing import Literal

from pydantic import Field

from slackwater.app.settings.autoscaling import Autoscaler
from slackwater.app.settings.serving import Explain, Extender, Kube, Listeners, Nodes, Recording, Report, Scheduler, Shadow
from slackwater.configuration.values import SchedulerName, Section, Switch
from slackwater.controllers.audit.settings import Audit
from slackwater.controllers.history.settings import History
from slackwater.controllers.leadership.settings import LeaderElection
from slackwater.controllers.migration.settings import Migration
from slackwater.controllers.notifications.settings import Notifications
from slackwater.controllers.permits.settings import Vertical
from slackwater.controllers.preemption.settings import Preemption
from slackwater_protocol.names import CONFIG_API_VERSION, CONFIG_KIND


class FeatureGates(Section):
    """Features that can be switched off one by one."""

    async_preemption: Switch = Field(default=True, alias="AsyncPreemption")
    """Whether Slackwater preempts by itself, asynchronously (KEP-4832): where only our accounting leaves no room. true by
    default. With false it deletes no pod; kube-scheduler's preempt verb is still answered."""
    parallel_drain: Switch = Field(default=True, alias="ParallelDrain")
    """Whether several nodes may be drained at the same time. true by default."""
    resource_slack: Switch = Field(default=True, alias="ResourceSlack")
    """Whether slack is planned. true by default; `autoscaler.slack` says how much."""


class Settings(Section):
    """The configuration of the service. Without a file, all defaults apply."""

    api_version: Literal["config.slackwater.dev/v1alpha1"] = Field(default=CONFIG_API_VERSION, examples=[CONFIG_API_VERSION])
    """The version of this format. A file must have it, so that an old file is never read as a new one."""
    kind: Literal["SlackwaterConfiguration"] = Field(default=CONFIG_KIND, examples=[CONFIG_KIND])
    """The kind of this file. A file must have it."""
    mode: Literal["serve", "shadow"] = Field(default="serve", examples=["serve", "shadow"])
    """What the service does with its decisions. serve by default: it carries them out. shadow: it watches, decides, plans and
    explains, and writes nothing; kube-scheduler and agents get 503. `slackwater serve --shadow` says the same."""
    shadow: Shadow = Shadow()
    """What is only decided and shown while the rest is carried out."""
    scheduler_name: SchedulerName = Field(default="slackwater", examples=["slackwater"])
    """The scheduler's name: in pods' `spec.schedulerName`, as the profile in kube-scheduler's file, and in the label by which
    agents find Slackwater. slackwater by default, so that it runs in addition to the cluster's own scheduler."""
    scheduler: Scheduler = Scheduler()
    """Which kube-scheduler's rules are followed."""
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
    autoscaler: Autoscaler = Autoscaler()
    """When nodes are added and removed."""
    kube: Kube = Kube()
    """How much load Slackwater puts on the API server."""
    audit: Audit = Audit()
    """How often the cluster state is compared with the API server."""
    recording: Recording = Recording()
    """Whether decisions are recorded for `slackwater replay`."""
    history: History = History()
    """Whether what happened to pods and nodes is persisted."""
    report: Report = Report()
    """Whether what happened is logged for `slackwater report`."""
    explain: Explain = Explain()
    """When pods that wait are explained by Events."""
    notifications: Notifications = Notifications()
    """Whether messages about alerts are sent to a webhook."""
