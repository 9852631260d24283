"""The `autoscaler.slack` section of the configuration file: how much room is kept for pods to come, on which nodes, and when.

The docstring under each key becomes its description in docs and schema: its unit, its default and why. docs/slack.md explains
the feature.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import Field

from slackwater.configuration.values import (
    Count,
    Cpu,
    Delay,
    GroupName,
    LabelText,
    Memory,
    Name,
    Namespace,
    Percent,
    Priority,
    QualifiedName,
    Section,
    Switch,
    Timeout,
    Weight,
    Width,
    ZoneName,
)
from slackwater_protocol.durations import SECOND, Duration
from slackwater_protocol.units import Bytes, MilliCpu

#: The name under which the slack of the whole cluster is reported.
WHOLE_CLUSTER: Final = "cluster"


Day = Literal["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
DAYS: Final[tuple[Day, ...]] = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
TimeOfDay = Annotated[
    str, Name(pattern=r"([01][0-9]|2[0-3]):[0-5][0-9]", longest=5, words="a time of the day such as 07:30 (text: quote it)")
]


class ExtraAmounts(Section):
    """Amounts of slack."""

    cpu: Cpu = Field(default=MilliCpu(0), examples=["0", "16"])
    """Quantity of CPU. 0 by default."""
    memory: Memory = Field(default=Bytes(0), examples=["0", "64Gi"])
    """Quantity of memory. 0 by default."""


class ExtraCapacity(Section):
    """How much slack is kept. Placeholders keep it: they exist only in plans, so no pause pods have to run."""

    min_rate: Weight = Field(default=0.0, examples=[0.0, 0.1])
    """Slack as a share of the nodes' allocatable CPU and memory. 0.0 by default: none."""
    min: ExtraAmounts = ExtraAmounts()
    """Amounts of slack at least, if `minRate` gives less."""


class SlackOfAll(ExtraCapacity):
    """How much slack the whole cluster has, and how all slack is divided."""

    granularity: Width = Field(default=5, examples=[5])
    """Placeholders that fill an average node, which decides their size. 5 by default: small enough to fit, few enough to plan
    quickly."""
    sizing: Literal["v1", "v2"] = Field(default="v2", examples=["v2"])
    """How placeholders are sized: `v1` by the average node, `v2` also by the largest pod. v2 by default: the largest pod must
    find room too."""


class SlackGroup(Section):
    """Slack on nodes with certain labels, in addition to that of the whole cluster."""

    name: GroupName = Field(examples=["batch"])
    """Name under which this slack is reported; unique. No default."""
    node_labels: Mapping[QualifiedName, LabelText] = Field(examples=[{"pool": "batch"}], min_length=1)
    """Labels of the nodes: the slack is on nodes that have all of them, and its rate is a share of their capacity. No
    default."""
    extra_capacity: ExtraCapacity = ExtraCapacity()
    """How much slack."""


class SlackSchedule(Section):
    """Slack at certain times, in addition to the slack at all times."""

    name: GroupName = Field(examples=["mornings"])
    """Name under which this slack is reported; unique. No default."""
    days: tuple[Day, ...] = Field(default=DAYS, examples=[["Mon", "Tue", "Wed", "Thu", "Fri"]], min_length=1)
    """Days on which the schedule starts. All seven by default."""
    start: TimeOfDay = Field(examples=["07:30"])
    """Time at which the schedule starts, hours and minutes. No default."""
    end: TimeOfDay = Field(examples=["19:00"])
    """Time at which the schedule ends; on the next day if it is not later than `start`. No default."""
    time_zone: ZoneName = Field(default="UTC", examples=["Europe/Berlin"])
    """Time zone of `start` and `end`, a name of the tz database. UTC by default."""
    node_labels: Mapping[QualifiedName, LabelText] = Field(default={}, examples=[{"pool": "batch"}])
    """Labels of the nodes: the slack is on nodes that have all of them. Empty by default: every node."""
    extra_capacity: ExtraCapacity = ExtraCapacity()
    """How much slack."""


class SLOPods(Section):
    """The pods of a class: those that meet all of these conditions. Pods of DaemonSets belong to no class."""

    namespaces: tuple[Namespace, ...] = Field(default=(), examples=[["shop"]])
    """Namespaces, of which the pod's must be one. Empty by default: any."""
    labels: Mapping[QualifiedName, LabelText] = Field(default={}, examples=[{"tier": "web"}])
    """Labels, all of which the pod must have. Empty by default."""
    min_priority: Priority | None = Field(default=None, examples=[1000])
    """Lowest priority of the pods. Unset by default: no bound."""
    max_priority: Priority | None = Field(default=None, examples=[100000])
    """Highest priority of the pods. Unset by default: no bound."""


class SlackSLO(Section):
    """A start-time SLO: how soon new pods of a class have a node. The class's past arrivals decide how much room is kept: the
    least that meets the SLO."""

    name: GroupName = Field(examples=["web"])
    """Name under which the class is reported; unique. No default."""
    pods: SLOPods = SLOPods()
    """The pods of the class. A pod belongs to the first class that it fits. All pods by default."""
    percent: Percent = Field(examples=[95])
    """Percentage of the new pods that have a node in time, more than 0 and less than 100: no room is enough for all pods. No
    default."""
    within: Timeout = Field(examples=["10s"])
    """Duration from a pod's creation until it has a node, without the kubelet's work. No default."""


class HeadroomLimitsSettings(Section):
    """How much room the annotation `slackwater.dev/slack` may ask for, which any author of a pod can write. CapacityBuffers
    have no such limit, because RBAC says who may create them."""

    max_nodes_per_namespace: Count = Field(default=2, examples=[2])
    """Nodes for the annotations of one namespace. 2 by default: room for a few pods; 0: no limit."""
    max_cluster_share: Weight = Field(default=0.05, examples=[0.05])
    """Nodes for all annotations together, as a share of the cluster's nodes; at least `maxNodesPerNamespace`. 0.05 by
    default; 0: no limit."""


class Slack(Section):
    """How much room is kept for future pods (slack)."""

    extra_capacity: SlackOfAll = SlackOfAll()
    """Slack of the whole cluster."""
    groups: tuple[SlackGroup, ...] = Field(default=(), examples=[[{"name": "batch", "nodeLabels": {"pool": "batch"}}]])
    """Slack on nodes with certain labels. Empty by default."""
    schedules: tuple[SlackSchedule, ...] = Field(
        default=(), examples=[[{"name": "mornings", "start": "07:30", "end": "10:00", "extraCapacity": {"minRate": 0.2}}]]
    )
    """Slack at certain times. A schedule should start early, because nodes take a while to start. Empty by default."""
    start_time_slos: tuple[SlackSLO, ...] = Field(
        alias="startTimeSLOs",
        default=(),
        max_length=16,
        examples=[[{"name": "web", "pods": {"labels": {"tier": "web"}}, "percent": 95, "within": "10s"}]],
    )
    """Start-time SLOs, at most 16 classes of pods. The arrival history of the classes is written into the ConfigMap
    `slackwater-arrivals` in namespace kube-system every five minutes. Empty by default."""
    max_nodes: Count = Field(default=0, examples=[0, 20])
    """Nodes above their groups' minimum that may exist only for slack; 0: no limit. 0 by default: the amount of slack is limit
    enough."""
    keep_nodes: Delay = Field(default=Duration(3600 * SECOND), examples=["1h"])
    """Duration for which nodes that slack needed stay after pods request less, if by at most the amount of slack: a load that
    rises and falls within the slack then buys no node again and again. While pods request as much, they stay. 1h by default; 0
    lets scale-down remove them as soon as the placeholders fit elsewhere."""
    headroom_limits: HeadroomLimitsSettings = HeadroomLimitsSettings()
    """Limits of the room that annotations ask for."""
    headroom: Switch = True
    """Whether workloads with the annotation `slackwater.dev/slack`, and CapacityBuffer objects, get placeholders like their
    pods. true by default: without such objects it has no effect."""
