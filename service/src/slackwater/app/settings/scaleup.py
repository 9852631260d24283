"""The `autoscaler.scaleUp` section: for which pods nodes are added, within which limits, and how long they may take.

Under each key: its unit, why its default is what it is. Deliberately absent: the groups themselves (`autoscaling.py`).
"""

from collections.abc import Mapping

from pydantic import Field

from slackwater.app.settings.section import Section
from slackwater.app.settings.values import (
    Count,
    Delay,
    LabelText,
    ObjectName,
    Priority,
    QualifiedName,
    Quantity,
    Switch,
    Timeout,
)
from slackwater_protocol.durations import HOUR, MINUTE, SECOND, Duration


class Backoff(Section):
    """How long a group is left alone after it failed: another one is tried meanwhile."""

    initial: Timeout = Field(default=Duration(5 * MINUTE), examples=["5m"])
    """Duration after a first failure. 5m by default, the figure of Cluster Autoscaler."""
    max: Timeout = Field(default=Duration(30 * MINUTE), examples=["30m"])
    """Duration that doubling ends at, while failures follow one another. 30m by default."""
    reset: Timeout = Field(default=Duration(3 * HOUR), examples=["3h"])
    """Duration without a failure after which the next one counts as the first. 3h by default."""


class Quota(Section):
    """The most that some nodes may have together."""

    name: QualifiedName = Field(examples=["gpus"])
    """How messages name it. No default."""
    match_labels: Mapping[QualifiedName, LabelText] = Field(default={}, examples=[{"pool": "gpu"}])
    """Labels of the nodes that count. Empty by default: every node of the cluster."""
    limits: Mapping[QualifiedName, Quantity] = Field(default={}, examples=[{"nodes": "100", "cpu": "3200", "memory": "12Ti"}])
    """Quantity of each resource that these nodes may have allocatable; `nodes` counts them. Empty by default: no limit."""


class ScaleUp(Section):
    """Nodes for pods that fit nowhere."""

    settle_time: Delay = Field(default=Duration(2 * SECOND), examples=["2s"])
    """Duration for which the pods of one controller are waited for, from its first pending one on: a burst is planned as a
    whole. 2s by default, the figure of Cluster Autoscaler."""
    gpu_settle_time: Delay = Field(default=Duration(30 * SECOND), examples=["30s"])
    """The same for pods that ask for a GPU. 30s by default: such nodes are dear."""
    new_pod_delay: Delay = Field(default=Duration(0), examples=["0s"])
    """Duration after its creation in which no node is added for a pod; its annotation
    `cluster-autoscaler.kubernetes.io/pod-scale-up-delay` may ask for more. 0s by default."""
    priority_cutoff: Priority = Field(default=-10, examples=[-10])
    """Priority below which a pod is expendable: no node is added for it. -10 by default, the figure of Cluster Autoscaler."""
    max_pods: Count = Field(default=50_000, examples=[50_000, 0])
    """Pending pods that one loop looks at, the most important and oldest first; the status says how many were left; 0: no
    limit. 50000 by default, twice of what is planned within a second or two."""
    balance_similar_groups: Switch = True
    """Whether groups that differ by zone and name alone grow alike. true by default: zones then fail one at a time."""
    quotas: tuple[Quota, ...] = Field(default=(), examples=[[{"name": "all", "limits": {"nodes": "2000", "cpu": "64000"}}]])
    """Limits of the cluster, or of some of its nodes. Empty by default: only the groups' own."""
    provision_time: Timeout = Field(default=Duration(15 * MINUTE), examples=["15m"])
    """Duration that a node may take to register and to become ready; then it is deleted and replaced. 15m by default. A
    provider may state another one for a group."""
    call_timeout: Timeout = Field(default=Duration(30 * SECOND), examples=["30s"])
    """Duration that one call to a provider may take. 30s by default."""
    backoff: Backoff = Backoff()
    """How long a group is left alone after it failed."""
    status_config_map: ObjectName = Field(default="slackwater-autoscaler-status", examples=["cluster-autoscaler-status"])
    """Name of the ConfigMap in namespace kube-system that says how the last loop went, in the words of Cluster Autoscaler's.
    slackwater-autoscaler-status by default: another name than theirs, so that both may run for a while."""
    priority_config_map: ObjectName = Field(
        default="cluster-autoscaler-priority-expander", examples=["cluster-autoscaler-priority-expander"]
    )
    """Name of the ConfigMap in namespace kube-system that the expander `priority` reads: its key `priorities` holds YAML,
    a map of numbers to lists of expressions. By default the name that Cluster Autoscaler reads: users have it already."""
