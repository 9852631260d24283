"""The `autoscaler.scaleUp` section of the configuration file: for which pods nodes are added, and the limits of the cluster.

The docstring under each key becomes its description in docs and schema: its unit, its default and why.
"""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from slackwater.configuration.values import (
    Count,
    Delay,
    GroupName,
    LabelText,
    Priority,
    QualifiedName,
    Quantity,
    SchedulerName,
    Section,
    Switch,
    TaintPattern,
)
from slackwater.model.node_taints import STARTUP_TAINTS, STATUS_TAINTS
from slackwater_protocol.durations import SECOND, Duration

Limits = Annotated[
    Mapping[QualifiedName, Quantity],
    Field(examples=[{"nodes": "2000", "cpu": "64000", "memory": "256Ti", "nvidia.com/gpu": "64"}]),
]


class Quota(Section):
    """A limit on what the nodes with certain labels may have together."""

    name: GroupName = Field(examples=["batch"])
    """The quota's name in messages. No default."""
    node_labels: Mapping[QualifiedName, LabelText] = Field(default={}, examples=[{"team": "batch"}])
    """The quota counts nodes that carry all these labels. Empty by default: every node."""
    limits: Limits = Field(default={})
    """Quantity of each resource, like `autoscaler.scaleUp.limits`. Empty by default: no limit."""


class ScaleUp(Section):
    """How nodes are added for pods that fit nowhere."""

    balance_similar_groups: Switch = True
    """Whether groups that differ only in their zone are scaled up evenly. true by default: a workload that is spread over zones
    needs nodes in all of them."""
    balancing_ignored_labels: tuple[QualifiedName, ...] = Field(default=(), examples=[["node.kubernetes.io/instance-type"]])
    """Keys of labels in which similar groups may differ although they are compared: of those for operating system,
    architecture, instance type, accelerator and capacity type. Other labels are not compared. Empty by default. Cluster
    Autoscaler's `--balancing-ignore-label`."""
    startup_taints: tuple[TaintPattern, ...] = Field(
        default=STARTUP_TAINTS, examples=[["*/agent-not-ready", "example.com/booting"]]
    )
    """Keys of start-up taints, which are removed once a component on the node has started; `*` stands for any text. A node with
    one counts as upcoming: no further node is added for its pods, and it is replaced after `creation.timeout`. By default those
    of CNI and CSI drivers (Cilium, the drivers of AWS, Azure and others), of Cluster API, Karpenter, the node readiness
    controller, and Cluster Autoscaler's prefixes; a configured list replaces these. Kubernetes' own are always included.
    Cluster Autoscaler's `--startup-taint` and `--ignore-taint`."""
    status_taints: tuple[TaintPattern, ...] = Field(default=STATUS_TAINTS, examples=[["example.com/under-repair"]])
    """Keys of status taints, which describe a node's present state; `*` stands for any text. A node with one counts as started,
    and new nodes of its group are planned without the taint. By default those of Cluster API, Karpenter, and Cluster
    Autoscaler's prefix; a configured list replaces these. Kubernetes' own are always included. Cluster Autoscaler's
    `--status-taint`."""
    expendable_pods_priority_cutoff: Priority = Field(default=-10, examples=[-10])
    """Pods of a lower priority are expendable: no node is added for them, and they do not block other pods. -10 by default, as
    in Cluster Autoscaler."""
    new_pod_delay: Delay = Field(default=Duration(0), examples=["0s", "30s"])
    """Age that a pod must have before a node is added for it, as a duration; the pod's annotation
    `cluster-autoscaler.kubernetes.io/pod-scale-up-delay` may ask for more. 0s by default."""
    settle_time: Delay = Field(default=Duration(2 * SECOND), examples=["2s"])
    """Duration from the first pod that a controller creates until nodes are added for any of its pods. 2s by default: a
    controller needs a while to create a thousand replicas, and one estimate for all is better than many for some."""
    bypassed_scheduler_names: tuple[SchedulerName, ...] | None = Field(default=None, examples=[["slackwater"], []])
    """Schedulers whose pods count before the scheduler has tried them. A pod of another scheduler counts once its scheduler has
    marked it as unschedulable, which takes minutes if twenty thousand pods wait. `schedulerName` alone by default; [] for none.
    A pod that may get its room by preemption never counts before it was tried."""
    max_pods: Count = Field(default=50_000, examples=[50_000, 0])
    """Pods that one loop plans for, the most important and oldest first; 0: no limit. 50000 by default, about two seconds of
    planning."""
    limits: Limits = Field(default={})
    """Quantity of each resource that all nodes together may have: `nodes`, `cpu`, `memory`, and any other resource by its name;
    allocatable amounts count. Empty by default: no limit but the groups' own."""
    quotas: tuple[Quota, ...] = Field(default=(), examples=[[{"name": "batch", "limits": {"nodes": "100"}}]])
    """Limits for nodes with certain labels. Empty by default."""
