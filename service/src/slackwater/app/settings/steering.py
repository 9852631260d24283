"""The `steering` section of the configuration file: nomination and node choice, under the feature gate `Steering`."""

from pydantic import Field

from slackwater.app.settings.section import Section
from slackwater.app.settings.values import Count, Few, Share, Switch, Timeout, Width
from slackwater_protocol.durations import MINUTE, SECOND, Duration


class Steering(Section):
    """How kube-scheduler learns where pods go. Of effect where `featureGates.Steering` is true; or where it is not set, and
    `extender.bind` is false."""

    percentage_of_nodes_to_score: Few = Field(default=1, examples=[1, 0])
    """Of the same name in kube-scheduler's file, which `slackwater scheduler-config` writes: kube-scheduler filters nodes until
    so large a share of all fits, 100 of them at least. 1 by default, since the fewer it offers the faster it is, and the best
    of 100 is about as good as that of 500; 0 leaves it out, and kube-scheduler takes 5 % to 50 % by the cluster's size."""
    min_nodes: Count = Field(default=1500, examples=[1500, 0])
    """Nodes from which on pods are nominated at all. 1500 by default: in smaller clusters kube-scheduler's own search costs no
    more than the nomination that would spare it."""
    max_ahead: Width = Field(default=5000, examples=[5000, 256])
    """Nominations that kube-scheduler has not come to yet. 5000 by default: what it takes in ten seconds. When it starts it
    takes the pods that wait already in no order at all, so it meets as many nominations as the share of them that has one. More
    keeps room for pods whose turn is far off."""
    max_concurrent_writes: Width = Field(default=16, examples=[16])
    """Nominations being written at the same time. 16 by default: enough for 700 a second."""
    hold_timeout: Timeout = Field(default=Duration(MINUTE), examples=["1m"])
    """Duration for which the room of a nomination is kept where kube-scheduler takes no pods; while it does, ten times as long
    at most. 1m by default: what is nominated ahead takes it about half a second, and it restarts in less."""
    gates: Switch = True
    """Whether pods behind Slackwater's own scheduling gate are told before the gate is taken away, so that kube-scheduler never
    searches for them. true by default."""
    gate_timeout: Timeout = Field(default=Duration(2 * SECOND), examples=["2s"])
    """Duration for which such a pod waits to be told; then its gate is opened all the same. 2s by default."""
    max_miss_share: Share = Field(default=0.2, examples=[0.2])
    """Share of nominations that may be missed; above it fewer are made, and in the end none for up to 30 s. 0.2 by default."""
    slow_write: Timeout = Field(default=Duration(SECOND), examples=["1s"])
    """Duration of writing a nomination, in the mean, above which fewer are made. 1s by default: an API server that is this slow
    has better things to do."""
