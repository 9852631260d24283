"""Soft taints: which nodes get and which lose the taint of candidates, whose value keeps their time over a restart.

kube-scheduler then prefers other nodes. A few taints change in each loop, removals first, so that no node is avoided for longer
than necessary. A node under removal has another taint and is left alone.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from slackwater.controllers.scaledown.state import ScaleDownState, taint_time
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.objects import Node
from slackwater_protocol.names import DELETION_CANDIDATE_TAINT, TO_BE_DELETED_TAINT


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftTaints:
    """The taints to write and to remove. `mark`: since when each node has been a candidate, in whole seconds."""

    mark: tuple[tuple[NodeName, UnixTime], ...] = ()
    clear: tuple[NodeName, ...] = ()


def soft_taints(nodes: Iterable[Node], state: ScaleDownState, *, most: int) -> SoftTaints:
    """The changes in the order of the nodes, at most `most` in all. A taint with another time than the state's is rewritten."""
    clear: list[NodeName] = []
    mark: list[tuple[NodeName, UnixTime]] = []
    for node in nodes:
        keys = {taint.key for taint in node.taints}
        since = state.since(node.name)
        if TO_BE_DELETED_TAINT in keys or node.name in state.deleted_set:
            continue
        if since is None and DELETION_CANDIDATE_TAINT in keys:
            clear.append(node.name)
        elif since is not None and taint_time(node, DELETION_CANDIDATE_TAINT) != (at := UnixTime(float(int(since)))):
            mark.append((node.name, at))
    clear = clear[:most]
    return SoftTaints(clear=tuple(clear), mark=tuple(mark[: most - len(clear)]))
