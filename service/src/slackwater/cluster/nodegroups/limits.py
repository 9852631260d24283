"""Limits and time-outs of the node group registry; the configuration file sets them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from slackwater.model.node_taints import DEFAULT_TAINT_RULES, TaintRules
from slackwater.model.nodegroups import GroupName, NodeGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class BackoffPolicy:
    """Durations of a group's back-off after failures. The back-off doubles from `first_seconds` up to `longest_seconds`, as
    long as failures follow one another within `forget_seconds`. The defaults are Cluster Autoscaler's."""

    first_seconds: float = 300.0
    longest_seconds: float = 1800.0
    forget_seconds: float = 10_800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroupPolicy:
    """Limits on the nodes that may be upcoming at the same time (0: no limit), and time-outs.

    `in_group` and `of_provider` are limits by name; other groups have the limit `in_other_groups`, other providers none.
    `provision_seconds`: how long an instance may take to register, and its node to start. `doubt_seconds`: for how long a
    scale-up whose call was not answered is requested again. `replace_seconds`: for how long a lost machine whose deletion fails
    is not replaced, and counts as in creation. `off`: groups that are not changed. `taints` says which taints mean that a node
    has not started.
    """

    in_cluster: int = 100
    in_group: Mapping[GroupName, int] = field(default_factory=dict)
    in_other_groups: int = 100
    of_provider: Mapping[str, int] = field(default_factory=dict)
    provision_seconds: float = 900.0
    doubt_seconds: float = 60.0
    replace_seconds: float = 60.0
    backoff: BackoffPolicy = field(default_factory=BackoffPolicy)
    #: After refused deletions: of one lost machine, and of nodes of a group.
    refusal_backoff: BackoffPolicy = BackoffPolicy(longest_seconds=14_400.0, forget_seconds=86_400.0)
    off: frozenset[GroupName] = frozenset()
    taints: TaintRules = DEFAULT_TAINT_RULES

    def provision_timeout_of(self, group: NodeGroup) -> float:
        """How long an instance of the group may take to register, and its node to start."""
        own = group.options.provision_seconds
        return self.provision_seconds if own is None else own
