"""The `autoscaler.consolidation` section of the configuration file.

The docstring under each key becomes its description in docs and schema: its unit, its default and why.
"""

from pydantic import Field

from slackwater.configuration.values import Delay, Money, Section, Switch, Timeout, Weight
from slackwater_protocol.durations import HOUR, SECOND, Duration


class Consolidation(Section):
    """How nodes are replaced by cheaper ones, several at a time if that saves more."""

    enabled: Switch = False
    """Whether nodes are replaced. false by default: pods are evicted for money alone. With true, scale-down by itself removes
    only empty nodes and unready ones: consolidation decides which nodes in use go, with others in their place or not. A node
    goes if every plan of `autoscaler.scaleDown.unneededTime` says so, and plans do not come to save more in that time."""
    interval: Delay = Field(default=Duration(60 * SECOND), examples=["1m"])
    """Duration between two plans. 1m by default; none is made while moves run or pods wait for new nodes."""
    min_saving_ratio: Weight = Field(default=0.5, examples=[0.5])
    """Least share of all nodes' cost that a move saves, divided by the share of all disruption that it causes. 0.5 by default,
    the rule of Karpenter's policy Balanced: a move that evicts all pods of an average node has to save half of its price."""
    horizon: Timeout = Field(default=Duration(24 * HOUR), examples=["24h"])
    """Duration over which the saving of a move must exceed what moving costs: the new nodes for as long as the old ones run
    beside them, and `evictionCost`. 24h by default, like `podRest`."""
    eviction_cost: Money = Field(default=0, examples=["0.01"])
    """What the eviction of one pod costs, a decimal number in `autoscaler.prices.currency`. 0 by default."""
    pod_rest: Delay = Field(default=Duration(24 * HOUR), examples=["24h"])
    """Duration after a move of a pod in which it is not moved again. 24h by default."""
    min_node_age: Delay = Field(default=Duration(HOUR), examples=["1h"])
    """Age below which a node is not replaced. 1h by default: demand that comes and goes within an hour replaces nothing."""
    allow_spot: Switch = False
    """Whether pods of on-demand nodes may get new spot nodes, if they tolerate and select them. false by default: spot nodes
    are taken away at short notice. Room on present nodes is used either way."""
    drift: Switch = False
    """Whether nodes are replaced that lack a label, a taint or an amount that their group's template has, if new nodes have it.
    false by default: it disturbs pods and saves nothing. Disruption budgets with reason Drifted limit it."""
    expire_after: Delay = Field(default=Duration(0), examples=["720h"])
    """Age at which a node is replaced, as `expireAfter` in Karpenter, but not by force: budgets (reason Expired),
    PodDisruptionBudgets and do-not-disrupt hold. 0s by default: never. A group's `scaleDown.expireAfter` takes precedence."""
