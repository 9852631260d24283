"""The `steering` section of the configuration file: nomination and node choice, under the feature gate `Steering`."""

from pydantic import Field

from slackwater.configuration.section import Section
from slackwater.configuration.values import Count, Few, Share, Switch, Timeout, Width
from slackwater_protocol.durations import MINUTE, SECOND, Duration


class Steering(Section):
    """How Slackwater nominates nodes for pods, so that kube-scheduler searches less. In effect if `featureGates.Steering` is
    true, or if that is not set and `extender.bind` is false."""

    percentage_of_nodes_to_score: Few = Field(default=1, examples=[1, 0])
    """Value of the same key in kube-scheduler's file, which `slackwater scheduler-config` writes: kube-scheduler filters nodes
    until this percentage of all nodes fits, and at least 100 nodes. 1 by default: kube-scheduler is faster the fewer nodes it
    offers, and the best of 100 nodes is about as good as the best of 500. 0 leaves the key out; kube-scheduler then takes 5 %
    to 50 %, depending on the cluster's size."""
    min_nodes: Count = Field(default=1500, examples=[1500, 0])
    """Nodes that the cluster must have before pods are nominated in advance. 1500 by default: in smaller clusters the
    nomination costs as much as the search of kube-scheduler that it saves."""
    max_ahead: Width = Field(default=5000, examples=[5000, 256])
    """Nominations for pods that kube-scheduler has not tried yet. 5000 by default: what it schedules in ten seconds. After its
    start kube-scheduler takes the waiting pods in no particular order, so the share of hits is the share of them that is
    nominated. More would keep room for pods that are tried much later."""
    max_concurrent_writes: Width = Field(default=16, examples=[16])
    """Writes of nominations in flight. 16 by default: enough for 700 a second."""
    hold_timeout: Timeout = Field(default=Duration(MINUTE), examples=["1m"])
    """Duration for which the room of a nomination is kept while kube-scheduler schedules no pods; while it does, at most ten
    times as long. 1m by default: kube-scheduler restarts in less."""
    gates: Switch = True
    """Whether a pod behind Slackwater's own scheduling gate is nominated before the gate is removed, so that kube-scheduler
    never searches for it. true by default."""
    gate_timeout: Timeout = Field(default=Duration(2 * SECOND), examples=["2s"])
    """Duration for which a pod behind the gate waits for its nomination; then the gate is removed anyway. 2s by default."""
    max_miss_share: Share = Field(default=0.2, examples=[0.2])
    """Share of nominations that may miss; above it fewer are made, and in the end none for up to 30 s. 0.2 by default."""
    slow_write: Timeout = Field(default=Duration(SECOND), examples=["1s"])
    """Mean duration of a nomination's write above which fewer nominations are made. 1s by default: an API server this slow is
    overloaded."""
