"""What providers share when they turn an answer into node groups: templates from amounts, groups that cannot be read, problems.

A part of a group that cannot be read does not count, and is logged once.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

import structlog

from slackwater.model.devices import ResourceSlice
from slackwater.model.ids import NodeName
from slackwater.model.nodegroups import GroupName, Instance, NodeGroup, choice_of_provider
from slackwater.model.objects import Node, Taint
from slackwater.model.resources import LARGEST_ON_NODE, on_node, rounded_up
from slackwater.model.storage import CsiNode
from slackwater_protocol.units import NANO

T = TypeVar("T")
U = TypeVar("U")

_log = structlog.get_logger(__name__)

#: After this many different problems the memory of what was logged is cleared.
_REMEMBERED: Final = 1000


def template_node(
    name: str,
    nanos: Mapping[str, int],
    *,
    labels: dict[str, str],
    taints: tuple[Taint, ...],
    csi: CsiNode | None = None,
    slices: tuple[ResourceSlice, ...] = (),
) -> Node:
    """The template of a group's new nodes. `nanos`: what a node has, in 10^-9 units; without CPU or memory it has none."""
    scalars = sorted((name, amount) for name, amount in nanos.items() if name not in ("cpu", "memory"))
    return Node(
        name=NodeName(name),
        uid=name,
        resource_version=0,
        allocatable=on_node(rounded_up(cpu_nanos=nanos.get("cpu", 0), memory_nanos=nanos.get("memory", 0))),
        labels=labels,
        taints=taints,
        unschedulable=False,
        ready=True,
        scalars=tuple((name, min(-(-amount // NANO), LARGEST_ON_NODE)) for name, amount in scalars),
        csi=csi,
        slices=slices,
    )


def unreadable_group(
    provider: str,
    name: GroupName,
    why: str,
    instances: Sequence[Instance] = (),
    *,
    pool: str = "",
    zones: tuple[str, ...] = (),
) -> NodeGroup:
    """A group that keeps the instances that are known, and neither grows nor shrinks. `why` names the object."""
    count = sum(instance.state != "deleting" for instance in instances)
    return NodeGroup(
        name=name,
        provider=provider,
        min_size=0,
        max_size=count,
        target=count,
        instances=tuple(instances),
        choice=choice_of_provider(provider, name),
        pool=pool,
        zones=zones,
        unreadable=why,
    )


class ProblemLog:
    """Logs each problem of a group once, and again if it was solved meanwhile. The group "" is the whole provider."""

    def __init__(self) -> None:
        self._logged: set[tuple[str, str]] = set()

    def is_new(self, group: str, problem: str) -> bool:
        """Whether the problem is to be logged now."""
        if (group, problem) in self._logged:
            return False
        if len(self._logged) >= _REMEMBERED:
            self._logged.clear()
        self._logged.add((group, problem))
        return True

    def note(self, group: str, problem: str) -> None:
        if self.is_new(group, problem):
            _log.warning("a part of a group does not count", group=group, problem=problem)

    def solved(self, group: str) -> None:
        """The group has no problem now. One that comes back is logged again."""
        self._logged = {noted for noted in self._logged if noted[0] != group}

    def read(self, group: str, read: Callable[[], T], otherwise: U) -> T | U:
        """What `read` returns, or `otherwise` if it raises ValueError, which is logged."""
        try:
            return read()
        except ValueError as error:
            self.note(group, str(error))
            return otherwise
