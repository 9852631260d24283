"""The node groups that planning sees: what the provider says of a group, its template, and why it may not grow.

One value for each group is made again in each loop, by the code that remembers groups between loops. Deliberately absent: that
memory (back-off, cool-downs, what is in creation), and how a template is found (`template`).
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

#: switched-off: by configuration. not-ready: the group is unhealthy. backoff: it failed a while ago. no-template: it is not
#: known what a node of it looks like. limit: the group, the cluster or a quota is at its maximum. time: planning took too long.
SkipKind = Literal["switched-off", "not-ready", "backoff", "no-template", "limit", "time"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipReason:
    """Why a group may not grow, or not further; `text` is for people."""

    kind: SkipKind
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """The template of a group's new nodes: `node` stands for no real machine; `standing` are the DaemonSet pods it starts with.

    It was copied from `n_models` real nodes, 0 if it comes from the provider or the configuration. `differing` are the keys of
    labels that differ between these nodes.
    """

    node: Node
    standing: tuple[Pod, ...] = ()
    n_models: int = 0
    differing: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowableGroup:
    """A group as planning sees it, with the reason why it may not grow, if any.

    `upcoming` nodes of it are on their way and not in the snapshot: planning adds them as copies of the template.
    """

    group: NodeGroup
    template: Template | None
    upcoming: int = 0
    skip_reason: SkipReason | None = None

    @property
    def name(self) -> GroupName:
        return self.group.name


def upcoming_name(group: GroupName, number: int) -> NodeName:
    """The name in a plan of a node that has not registered, since its real name is not known yet."""
    return NodeName(f"upcoming:{group}:{number}")


def add_nodes(snapshot: ClusterSnapshot, template: Template, names: Sequence[NodeName], *, system: Amounts = NOTHING) -> range:
    """Adds nodes like the template, with its pods on them, to the snapshot; their rows. In our accounting each has `system`
    less than is allocatable."""
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
