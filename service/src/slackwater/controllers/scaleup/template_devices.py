"""Devices of new nodes: finds the ResourceSlices that a new node of a group will have, from the group's nodes or its template.

Without them a new node would seem to have no devices, and no plan would add a node for a pod with a claim.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from msgspec import structs

from slackwater.controllers.scaleup.groups import Template
from slackwater.model.devices import ResourceSlice
from slackwater.model.ids import NodeName
from slackwater.model.objects import Node

Published = Mapping[str, Sequence[ResourceSlice]]


def publishing(
    template: Template | None, published: Published, nodes: Iterable[NodeName], *, said: tuple[ResourceSlice, ...]
) -> Template | None:
    """Returns the template with the ResourceSlices that the group's nodes usually have. `published`: the slices by node name.
    `nodes`: the group's nodes that have started. `said`: the slices to use if none of these nodes has any."""
    if template is None:
        return None
    found = usual_slices([published[name] for name in nodes if name in published]) or said
    return replace(template, node=structs.replace(template.node, slices=found))


def usual_slices(each: Sequence[Sequence[ResourceSlice]]) -> tuple[ResourceSlice, ...]:
    """The slices of one node with the most frequent combination of drivers and numbers of devices. Among equally frequent
    combinations, the one with the fewest devices; () if no node has complete slices. `each`: the slices of each node.

    Nodes on which a driver is still publishing its slices do not count. A pool that has its node's name gets the name "".
    """
    whole = [slices for slices in each if _is_whole(slices)]
    makes = Counter(map(_make, whole))
    best = max(whole, key=lambda slices: (makes[_make(slices)], -sum(len(one.devices) for one in slices)), default=())
    return tuple(replace(one, pool="" if one.pool == one.nodes.name else one.pool) for one in best)


def awaits_slices(node: Node, template: Node, published: Published) -> bool:
    """Does the node lack ResourceSlices that the nodes of its group have? Then it counts as upcoming: a driver publishes the
    devices of a node only once the driver runs there."""
    return bool(template.slices) and node.name not in published


def _make(slices: Sequence[ResourceSlice]) -> tuple[tuple[str, int], ...]:
    counts: Counter[str] = Counter()
    for one in slices:
        counts[one.driver] += len(one.devices)
    return tuple(sorted(counts.items()))


def _is_whole(slices: Sequence[ResourceSlice]) -> bool:
    """Do all pools have all slices of one generation, and none of another?"""
    found = Counter((one.driver, one.pool, one.generation) for one in slices)
    pools = {(one.driver, one.pool) for one in slices}
    return len(found) == len(pools) and all(found[one.driver, one.pool, one.generation] == one.slices for one in slices)
