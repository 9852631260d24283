"""Giving up removals for pods that need the room: finds the nodes under removal where homeless pods would fit.

    given_up = room_in_leaving(planning_input, leaving, homeless)

Each such node is reopened in a trial, those whose removal began last first, since the least is lost there; pods that fit stay
placed. This is tried before new nodes are added: an existing node is ready sooner.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from slackwater.controllers.scaledown.planning_input import PlanningInput
from slackwater.fit.packing import NOWHERE, place_pods
from slackwater.model.columns import Rows
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.objects import Node, Pod
from slackwater_protocol.names import TO_BE_DELETED_TAINT

#: The taint that the node lifecycle controller adds to a cordoned node, and removes again.
_CORDON: Final = "node.kubernetes.io/unschedulable"


def room_in_leaving(
    planning_input: PlanningInput, leaving: Mapping[NodeName, UnixTime], homeless: Sequence[Pod]
) -> tuple[NodeName, ...]:
    """The nodes whose removal is to be given up for pods that fit nowhere else, the latest removal first."""
    if not homeless or not leaving:
        return ()
    snapshot, found = planning_input.snapshot, list[NodeName]()
    pods = sorted(homeless, key=lambda pod: (-pod.priority, pod.key))
    kinds: Rows = np.array([snapshot.kind_id(pod.kind, pod.labels) for pod in pods], np.intp)
    with snapshot.fork():
        for name in sorted(leaving, key=lambda name: (-leaving[name], name)):
            row = snapshot.facts.row_of.get(name)
            if row is None or not snapshot.facts.live[row] or not len(kinds):
                continue
            with snapshot.fork() as trial:
                snapshot.put_node(row, kept_after_all(snapshot.facts.nodes[row]))
                placed = place_pods(snapshot, kinds, rows=np.array([row], np.intp)).rows
                if (placed != NOWHERE).any():
                    trial.commit()
                    found.append(name)
                    kinds = kinds[placed == NOWHERE]
    return tuple(found)


def kept_after_all(node: Node) -> Node:
    """The node as it is once its removal is given up: without our taint, and without the cordon if that was ours."""
    ours = {TO_BE_DELETED_TAINT, _CORDON} if node.cordoned_by_us else {TO_BE_DELETED_TAINT}
    taints = tuple(taint for taint in node.taints if taint.key not in ours)
    return replace(node, taints=taints, unschedulable=node.unschedulable and not node.cordoned_by_us)
