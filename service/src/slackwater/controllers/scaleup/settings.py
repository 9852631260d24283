"""The sections `autoscaler.scaleUp` and `autoscaler.prices` of the configuration file: for which pods nodes are added, the
limits of the cluster, and what nodes cost.

The docstring under each key becomes its description in docs and schema: its unit, its default and why.
"""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from slackwater.configuration.values import (
    Count,
    Currency,
    Delay,
    FilePath,
    Fraction,
    GroupName,
    LabelText,
    Money,
    Priority,
    QualifiedName,
    Quantity,
    SchedulerName,
    Section,
    Switch,
    TaintPattern,
)
from slackwater.model.node_taints import STARTUP_TAINTS, STATUS_TAINTS
from slackwater.model.prices import FORMULA, FORMULA_CURRENCY
from slackwater_protocol.durations import Duration

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
    settle_time: Delay | None = Field(default=None, examples=["2s"])
    """Duration from the first pod that a controller creates until nodes are added for any of its pods: a controller needs a
    while to create a thousand replicas, and one estimate for all is better than many for some. Unset by default: 2s, but 1s
    where a loop waits for whole bursts anyway (`maxBatchTime`)."""
    max_batch_time: Delay | None = Field(default=None, examples=["10s", "0s"])
    """Duration for which a loop waits at most until no pod has come for a second, so that one plan serves a whole burst. Pods
    of `bypassedSchedulerNames` then count once they are 1 s old. Karpenter's BATCH_MAX_DURATION. 0s: a loop waits while pods
    are refused, for 5 s at most. Unset by default: 10s with the expander `price`, whose plans are cheaper the more pods they
    are for, and otherwise 0s."""
    place_as_planned: Switch | None = Field(default=None, examples=[True])
    """Whether pods go where they were planned. A new node's room is kept for the pods that it was bought for, until a minute
    after it has become ready, and filter names that node for them; a pod that replaces an evicted one goes to the destination
    that was found for that. Pods of a higher priority may use the room. Otherwise kube-scheduler's scores choose, and pods for
    which no room is left in the end need a further node. Unset by default: true with the expander `price`, which fills nodes to
    the last CPU, and otherwise false."""
    bypassed_scheduler_names: tuple[SchedulerName, ...] | None = Field(default=None, examples=[["slackwater"], []])
    """Schedulers whose pods count before the scheduler has tried them. A pod of another scheduler counts once its scheduler has
    marked it as unschedulable, which takes minutes if twenty thousand pods wait. `schedulerName` alone by default; [] for none.
    A pod that may get its room by preemption never counts before it was tried."""
    believe_scheduler: Switch = False
    """Whether a node is added for a pod that kube-scheduler keeps refusing although it fits on a present node by the rules that
    Slackwater knows. Pods with the same needs get one such node at a time, and the next only after a pod has been placed on the
    last. false by default: the node costs money, and kube-scheduler may refuse it for the same reason. The pod gets an Event
    SchedulerDisagrees in either case."""
    max_pods: Count = Field(default=50_000, examples=[50_000, 0])
    """Pods that one loop plans for, the most important and oldest first; 0: no limit. 50000 by default, about two seconds of
    planning."""
    limits: Limits = Field(default={})
    """Quantity of each resource that all nodes together may have: `nodes`, `cpu`, `memory`, and any other resource by its name;
    allocatable amounts count. Empty by default: no limit but the groups' own."""
    quotas: tuple[Quota, ...] = Field(default=(), examples=[[{"name": "batch", "limits": {"nodes": "100"}}]])
    """Limits for nodes with certain labels. Empty by default."""


class PriceDiscount(Section):
    """A discount on the prices of nodes with certain labels."""

    node_labels: Mapping[QualifiedName, LabelText] = Field(examples=[{"karpenter.sh/capacity-type": "spot"}])
    """Labels that a node must all carry. No default."""
    factor: Fraction = Field(examples=[0.35])
    """Number by which the price is multiplied: 0.35 is a discount of 65 %. No default."""


class FormulaPrices(Section):
    """Hourly prices of CPU, memory and GPUs, in `autoscaler.prices.currency`. A node's price is computed from them if it has no
    other."""

    cpu: Money = Field(default=FORMULA.cpu, examples=["0.033174"])
    """Price of one CPU. 0.033174 by default, in USD: Cluster Autoscaler's for an unknown machine of Google Compute Engine."""
    memory: Money = Field(default=FORMULA.memory, examples=["0.004446"])
    """Price of one GiB of memory. 0.004446 by default, in USD, from the same source."""
    gpu: Money = Field(default=FORMULA.gpu, examples=["0.7"])
    """Price of one GPU of any kind. 0.70 by default, in USD, from the same source."""


class Prices(Section):
    """What nodes cost. A node's price comes from the first of these that knows one: `price` of its group, a NodeOverlay of
    Karpenter (not in a running service), the table, the provider, the formula."""

    currency: Currency = Field(default=FORMULA_CURRENCY, examples=["USD", "EUR"])
    """Currency of all prices, those of the provider too. USD by default. With another currency, set the formula's prices
    too."""
    table: FilePath | None = Field(default=None, examples=["/etc/slackwater/prices.csv"])
    """Path of a table of prices, CSV or JSON, with the columns instance type, zone, capacity type, price per hour, currency.
    Read at start. Unset by default: no table."""
    discounts: tuple[PriceDiscount, ...] = Field(
        default=(), examples=[[{"nodeLabels": {"karpenter.sh/capacity-type": "spot"}, "factor": 0.35}]]
    )
    """Discounts on prices of the table and the formula. For each node the first counts whose labels it carries. Empty by
    default."""
    formula: FormulaPrices = FormulaPrices()
    """Prices of the formula for nodes that have no other price."""
