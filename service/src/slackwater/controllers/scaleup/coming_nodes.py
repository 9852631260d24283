"""The new nodes that are on their way, and the pods that each was bought for: kept from one plan to the next.

A plan packs pods onto new nodes; the next one sees these nodes as upcoming, all alike within a group, and would place the pods
in another way, in which some may not fit. So it gets the places as hints: an upcoming node for each that was planned, or the
real node that came for it. Pure.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from slackwater.controllers.scaleup.groups import GrowableGroup, upcoming_name
from slackwater.controllers.scaleup.outcome import ScaleUpPlan
from slackwater.model.events import ComingNodes
from slackwater.model.ids import NodeName, PodUid
from slackwater.model.nodegroups import GroupName
from slackwater.snapshot.node_facts import HOSTNAME

#: For each group the pods of each of its new nodes, in the order in which the nodes are expected.
Coming = Mapping[GroupName, Sequence[tuple[PodUid, ...]]]
NO_COMING: Final[Coming] = {}


def coming_nodes(plan: ScaleUpPlan, groups: Sequence[GrowableGroup]) -> Coming:
    """The new nodes after the plan: upcoming ones for which it counts on pods, then those that it adds."""
    on: dict[NodeName, list[PodUid]] = {}
    for pod, name in plan.schedulable:
        on.setdefault(name, []).append(pod.uid)
    found: dict[GroupName, list[tuple[PodUid, ...]]] = {}
    for group in groups:
        names = (upcoming_name(group.name, number) for number in range(group.upcoming))
        found[group.name] = [tuple(on[name]) for name in names if name in on]
    for scale_up in plan.scale_ups:
        found[scale_up.group] += [tuple(pod.uid for pod in pods) for pods in scale_up.nodes if pods]
    return {name: nodes for name, nodes in found.items() if nodes}


def hints_of(
    coming: Coming, pending: Collection[PodUid], places: Mapping[PodUid, NodeName], ready: Collection[NodeName]
) -> dict[PodUid, NodeName]:
    """Where the `pending` pods should be placed: those of the new nodes, and those that have a place already, by `places`. New
    nodes that are not `ready` count as upcoming still."""
    hints: dict[PodUid, NodeName] = {}
    for group, nodes in coming.items():
        number = 0
        for pods in nodes:
            waiting = [uid for uid in pods if uid in pending]
            came = Counter(places[uid] for uid in waiting if uid in places)
            node = max(came, key=came.__getitem__, default=None)
            if waiting and node not in ready:
                node, number = upcoming_name(group, number), number + 1
            if node is not None:
                hints.update(dict.fromkeys(waiting, node))
    return hints | {uid: node for uid, node in places.items() if uid in pending and node in ready}


def announced(coming: Coming, groups: Sequence[GrowableGroup]) -> tuple[ComingNodes, ...]:
    """The new nodes with that by which they are recognised when they come."""
    found = []
    for group in groups:
        if group.name in coming and (template := group.template) is not None:
            own = {HOSTNAME, *template.differing}
            labels = tuple((key, value) for key, value in sorted(template.node.labels.items()) if key not in own)
            found.append(ComingNodes(labels, template.node.allocatable, tuple(coming[group.name])))
    return tuple(found)
