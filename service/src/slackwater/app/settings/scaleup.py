"""The `autoscaler.scaleUp` section of the configuration file: for which pods nodes are added, and the limits of the cluster.

The docstring under each key becomes its description in docs and schema: its unit, its default and why.
"""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from slackwater.app.settings.section import Section
from slackwater.app.settings.values import (
    Count,
    Delay,
    GroupName,
    LabelText,
    Priority,
    QualifiedName,
    Quantity,
    SchedulerName,
    Switch,
    TaintPattern,
)
from slackwater.model.nodetaints import STARTUP_TAINTS, STATUS_TAINTS
from slackwater_protocol.durations import SECOND, Duration

Limits = Annotated[
    Mapping[QualifiedName, Quantity],
    Field(examples=[{"nodes": "2000", "cpu": "64000", "memory": "256Ti", "nvidia.com/gpu": "64"}]),
]


class Quota(Section):
    """The most that some of the nodes may have together."""

    name: GroupName = Field(examples=["batch"])
    """What the quota is called where it keeps a group from growing. No default."""
    node_labels: Mapping[QualifiedName, LabelText] = Field(default={}, examples=[{"team": "batch"}])
    """The quota counts nodes that carry all these labels. Empty by default: every node."""
    limits: Limits = Field(default={})
    """Quantity of each resource, as in `autoscaler.scaleUp.limits`. Empty by default."""


class ScaleUp(Section):
    """Adding nodes for pods that fit nowhere."""

    balance_similar_groups: Switch = True
    """Whether groups that differ in their zone alone grow alike. true by default: a workload that is spread over zones
    needs nodes in all of them."""
    balancing_ignored_labels: tuple[QualifiedName, ...] = Field(default=(), examples=[["example.com/node-pool"]])
    """Keys of labels that similar groups may differ in, beside those that are known: zones, what providers call their groups,
    what differs from node to node, and labels whose value is the group's name. Empty by default. Cluster Autoscaler's
    `--balancing-ignore-label`."""
    startup_taints: tuple[TaintPattern, ...] = Field(
        default=STARTUP_TAINTS, examples=[["*/agent-not-ready", "example.com/booting"]]
    )
    """Keys of taints that a node loses once something on it has started; `*` stands for any text. A node that carries one
    counts as on its way: nothing is bought a second time for its pods, and it is replaced after `creation.timeout`. By default
    those of CNI and CSI drivers (Cilium, the drivers of AWS, Azure and others), of Cluster API, Karpenter, the node readiness
    controller, and Cluster Autoscaler's prefixes; a list of your own replaces them. Kubernetes' own are always among them.
    Cluster Autoscaler's `--startup-taint` and `--ignore-taint`."""
    status_taints: tuple[TaintPattern, ...] = Field(default=STATUS_TAINTS, examples=[["example.com/under-repair"]])
    """Keys of taints that say how one node is for now; `*` stands for any text. A node that carries one has started, and new
    nodes of its group are planned without the taint. By default those of Cluster API, Karpenter, and Cluster Autoscaler's
    prefix; a list of your own replaces them. Kubernetes' own are always among them. Cluster Autoscaler's `--status-taint`."""
    expendable_pods_priority_cutoff: Priority = Field(default=-10, examples=[-10])
    """Pods of a lower priority get no nodes, and do not keep others from a node. -10 by default, the figure of Cluster
    Autoscaler."""
    new_pod_delay: Delay = Field(default=Duration(0), examples=["0s", "30s"])
    """Duration that a pod has to be old before a node is added for it; a longer one may stand in the pod's annotation
    `cluster-autoscaler.kubernetes.io/pod-scale-up-delay`. 0s by default."""
    settle_time: Delay = Field(default=Duration(2 * SECOND), examples=["2s"])
    """Duration from the first pod that a controller makes until nodes are added for any of them. 2s by default: a
    thousand replicas take a while to appear, and one estimate for all is better than many for some."""
    gpu_settle_time: Delay = Field(default=Duration(30 * SECOND), examples=["30s"])
    """The same for pods that ask for a GPU. 30s by default: a wrong estimate is dearer there."""
    bypassed_scheduler_names: tuple[SchedulerName, ...] | None = Field(default=None, examples=[["slackwater"], []])
    """Schedulers whose pods count before they were tried; for others a pod counts once its scheduler has said that it fits
    nowhere, which takes minutes where twenty thousand wait. `schedulerName` alone by default; [] for none. A pod that might
    get its room by preemption is always waited for."""
    untried_pod_delay: Delay = Field(default=Duration(5 * SECOND), examples=["5s"])
    """Duration that such a pod has to be old. 5s by default: the scheduler may be about to find a place for it."""
    max_pods: Count = Field(default=50_000, examples=[50_000, 0])
    """Pods that one loop looks at, the most important and oldest first; 0: no limit. 50000 by default, about two seconds of
    planning."""
    limits: Limits = Field(default={})
    """The most that all nodes may have together: `nodes`, `cpu`, `memory`, and any other resource by its name; of what
    nodes have allocatable. Empty by default: no limit but the groups' own."""
    quotas: tuple[Quota, ...] = Field(default=(), examples=[[{"name": "batch", "limits": {"nodes": "100"}}]])
    """The same for some of the nodes. Empty by default."""
