"""A node group as planning sees it: what its provider says, what a new node looks like, and why it may not grow.

What flows through: one value for each group, made again each loop by whoever remembers groups between loops. Deliberately
absent: that memory (back-off, cool-downs, what is in creation), and how a template is found (`template`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from slackwater.model.columns import vertical
from slackwater.model.ids import NodeName
from slackwater.model.nodegroups import GroupName, NodeGroup
from slackwater.model.objects import Node, Pod
from slackwater.model.resources import NOTHING, Amounts
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId

#: switched-off: the configuration says so. not-ready: the group is unhealthy. backoff: it failed a while ago. no-template:
#: nobody knows what a node of it looks like. limit: it, the cluster or a quota is at its maximum. time: planning took too long.
SkipKind = Literal["switched-off", "not-ready", "backoff", "no-template", "limit", "time"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipReason:
    """Why a group may not grow, or not further: `text` is for people."""

    kind: SkipKind
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A new node of a group: `node` names no machine; `standing` are the pods that it has from the start (DaemonSets').

    It was copied from `n_models` real nodes, 0 where the provider or the configuration said it. `differing` are keys of labels
    that differ between these nodes.
    """

    node: Node
    standing: tuple[Pod, ...] = ()
    n_models: int = 0
    differing: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowableGroup:
    """A group, and what keeps it from growing, where something does.

    `upcoming` of its nodes are on their way and not in the snapshot: they are planned with as copies of the template.
    """

    group: NodeGroup
    template: Template | None
    upcoming: int = 0
    skip_reason: SkipReason | None = None

    @property
    def name(self) -> GroupName:
        return self.group.name


def upcoming_name(group: GroupName, number: int) -> NodeName:
    """What a node that has not registered is called in a plan: its real name is not known yet."""
    return NodeName(f"upcoming:{group}:{number}")


def add_nodes(snapshot: ClusterSnapshot, template: Template, names: Sequence[NodeName], *, system: Amounts = NOTHING) -> range:
    """New rows like the template, with its pods on them; by our accounting they have so much less as `system` says."""
    rows = snapshot.add_copies(template.node, names)
    if not names:
        return rows
    if snapshot.ledger is not None:
        total = template.node.allocatable.minus(system).not_below_zero()
        snapshot.ledger.total[:, rows.start : rows.stop] = vertical(total)
    if not template.standing:
        return rows
    where, once = np.arange(rows.start, rows.stop), np.ones(len(rows), np.int64)
    for kind in snapshot.number(template.standing).tolist():
        snapshot.place_many(KindId(kind), where, once)
    return rows
