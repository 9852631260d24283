"""Devices of new nodes: the ResourceSlices that a new node of a group will have, copied from a node of the group, else by the
template.

Without them a new node would seem to have no devices, and no plan would add one for a claim.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from slackwater.controllers.scaleup.groups import Template
from slackwater.model.devices import ResourceSlice
from slackwater.model.ids import NodeName
from slackwater.model.objects import Node

Published = Mapping[str, Sequence[ResourceSlice]]


def publishing(
    template: Template | None, published: Published, nodes: Iterable[NodeName], *, said: tuple[ResourceSlice, ...]
) -> Template | None:
    """The template with the slices of its nodes. `published` are the slices by node, `nodes` those of the group that have
    started; `said` counts where none of them has slices."""
    if template is None:
        return None
    found = usual_slices([published[name] for name in nodes if name in published]) or said
    return replace(template, node=replace(template.node, slices=found))


def usual_slices(each: Sequence[Sequence[ResourceSlice]]) -> tuple[ResourceSlice, ...]:
    """The slices of a node that has as many devices of each driver as most others; of equally frequent makes the smallest.

    Nodes on which a driver is still publishing its slices do not count. A pool that is called like its node has no name then.
    """
    whole = [slices for slices in each if _is_whole(slices)]
    makes = Counter(map(_make, whole))
    best = max(whole, key=lambda slices: (makes[_make(slices)], -sum(len(one.devices) for one in slices)), default=())
    return tuple(replace(one, pool="" if one.pool == one.nodes.name else one.pool) for one in best)


def awaits_slices(node: Node, template: Node, published: Published) -> bool:
    """Has the node no slices yet, though the nodes of its group have some? Then it counts as upcoming: a driver publishes the
    devices of a node only once it runs there."""
    return bool(template.slices) and node.name not in published


def _make(slices: Sequence[ResourceSlice]) -> tuple[tuple[str, int], ...]:
    counts: Counter[str] = Counter()
    for one in slices:
        counts[one.driver] += len(one.devices)
    return tuple(sorted(counts.items()))


def _is_whole(slices: Sequence[ResourceSlice]) -> bool:
    """Whether all pools have all their slices, and none of an older generation."""
    found = Counter((one.driver, one.pool, one.generation) for one in slices)
    pools = {(one.driver, one.pool) for one in slices}
    return len(found) == len(pools) and all(found[one.driver, one.pool, one.generation] == one.slices for one in slices)
