"""The `autoscaler.slack` section of the configuration file: how much room is kept for pods to come, on which nodes, and when.

The docstring under each key becomes its description in docs and schema: its unit, its default and why. docs/slack.md explains
the feature.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import Field

from slackwater.app.settings.section import Section
from slackwater.app.settings.values import (
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
    Switch,
    Timeout,
    Weight,
    Width,
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
ZoneName = Annotated[str, Name(pattern=r"[A-Za-z0-9_+/-]+", longest=64, words="a time zone such as Europe/Berlin")]


class ExtraAmounts(Section):
    """Amounts of spare room."""

    cpu: Cpu = Field(default=MilliCpu(0), examples=["0", "16"])
    """Quantity of CPU. 0 by default."""
    memory: Memory = Field(default=Bytes(0), examples=["0", "64Gi"])
    """Quantity of memory. 0 by default."""


class ExtraCapacity(Section):
    """Spare room that is planned for, without pods that stand for it."""

    min_rate: Weight = Field(default=0.0, examples=[0.0, 0.1])
    """Spare room as a share of allocatable capacity, of CPU and of memory. 0.0 by default: none."""
    min: ExtraAmounts = ExtraAmounts()
    """Spare room that there is at least, whatever the rate comes to."""
    granularity: Width = Field(default=5, examples=[5])
    """Into how many pieces an average node is cut to size the placeholders. 5 by default: small enough to fit, few
    enough to plan quickly."""
    sizing: Literal["v1", "v2"] = Field(default="v2", examples=["v2"])
    """How placeholders are sized: `v1` by the average node, `v2` also by the largest pod. v2 by default: the largest
    pod must find room too."""


class SlackGroup(Section):
    """Spare room on some of the nodes, beside that for the whole cluster."""

    name: GroupName = Field(examples=["batch"])
    """What the room is called where it is reported, unique. No default."""
    node_labels: Mapping[QualifiedName, LabelText] = Field(examples=[{"pool": "batch"}], min_length=1)
    """The room is on nodes that carry all these labels; its rate is of their capacity. No default."""
    extra_capacity: ExtraCapacity = ExtraCapacity()
    """How much."""


class SlackSchedule(Section):
    """Spare room at certain times, beside what there is at all times."""

    name: GroupName = Field(examples=["mornings"])
    """What the room is called where it is reported, unique. No default."""
    days: tuple[Day, ...] = Field(default=DAYS, examples=[["Mon", "Tue", "Wed", "Thu", "Fri"]], min_length=1)
    """On which days the time begins. All seven by default."""
    start: TimeOfDay = Field(examples=["07:30"])
    """When it begins, hours and minutes. No default."""
    end: TimeOfDay = Field(examples=["19:00"])
    """When it ends; on the next day where that is not later than `start`. No default."""
    time_zone: ZoneName = Field(default="UTC", examples=["Europe/Berlin"])
    """By which clock, a name of the tz database. UTC by default."""
    node_labels: Mapping[QualifiedName, LabelText] = Field(default={}, examples=[{"pool": "batch"}])
    """The room is on nodes that carry all these labels. Empty by default: every node."""
    extra_capacity: ExtraCapacity = ExtraCapacity()
    """How much."""


class PromisedPods(Section):
    """The pods of a class: those for which all of these hold. Pods of DaemonSets are of none."""

    namespaces: tuple[Namespace, ...] = Field(default=(), examples=[["shop"]])
    """Their namespace is one of these. Empty by default: any."""
    labels: Mapping[QualifiedName, LabelText] = Field(default={}, examples=[{"tier": "web"}])
    """They carry all these labels. Empty by default."""
    min_priority: Priority | None = Field(default=None, examples=[1000])
    """Their priority is at least this. Unset by default."""
    max_priority: Priority | None = Field(default=None, examples=[100000])
    """Their priority is at most this. Unset by default."""


class SlackPromise(Section):
    """How soon new pods of a class have a node. Room for them is kept as the arrivals of the past tell, as much as keeps the
    promise and no more."""

    name: GroupName = Field(examples=["web"])
    """What the class is called where it is reported, unique. No default."""
    pods: PromisedPods = PromisedPods()
    """Which pods. A pod is of the first class that it fits. All by default."""
    percent: Percent = Field(examples=[95])
    """So many of a hundred new pods, more than 0 and less than 100: no room is enough for all. No default."""
    within: Timeout = Field(examples=["10s"])
    """Duration from a pod's creation until it has a node, in which the kubelet's work is not counted. No default."""


class Slack(Section):
    """Room for pods to come."""

    extra_capacity: ExtraCapacity = ExtraCapacity()
    """For the whole cluster."""
    groups: tuple[SlackGroup, ...] = Field(default=(), examples=[[{"name": "batch", "nodeLabels": {"pool": "batch"}}]])
    """For some of the nodes each. Empty by default."""
    schedules: tuple[SlackSchedule, ...] = Field(
        default=(), examples=[[{"name": "mornings", "start": "07:30", "end": "10:00", "extraCapacity": {"minRate": 0.2}}]]
    )
    """At certain times each. Nodes take a while to start: begin early. Empty by default."""
    promises: tuple[SlackPromise, ...] = Field(
        default=(),
        max_length=16,
        examples=[[{"name": "web", "pods": {"labels": {"tier": "web"}}, "percent": 95, "within": "10s"}]],
    )
    """How soon new pods have a node, at most 16 classes. Empty by default: what was observed of each class is written into the
    ConfigMap `slackwater-arrivals` in namespace kube-system every five minutes."""
    node_start_time: Timeout = Field(default=Duration(120 * SECOND), examples=["2m"])
    """Duration that a node takes from the call that asks for it until it takes pods, for promises, where none was seen to
    start. 2m by default, what many clouds take."""
    max_nodes: Count = Field(default=0, examples=[0, 20])
    """Nodes above their groups' minimum that may be there for slack alone; 0: no limit. 0 by default: the rate limits it."""
    shrink_delay: Delay = Field(default=Duration(600 * SECOND), examples=["10m"])
    """Duration that there have to be too many placeholders without a break before any goes. 10m by default, as long as a node
    has to be unneeded: the room of a node that comes back is wanted again."""
    headroom: Switch = True
    """Whether workloads that carry the annotation `slackwater.dev/slack`, and CapacityBuffer objects, get placeholders like
    their pods. true by default: nothing happens where nobody asks for it."""
