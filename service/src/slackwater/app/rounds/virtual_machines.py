"""The machines that were ordered and have not come, on virtual time: a model of providers that never fail."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from slackwater.app.offline.cluster import Cluster
from slackwater.app.rounds.timeline import Timeline
from slackwater.app.rounds.virtual_drains import Pace
from slackwater.controllers.scaleup.groups import Template
from slackwater.model.ids import NodeName, PodUid, UnixTime
from slackwater.model.nodegroups import GroupName

#: Sums of times in seconds differ by less than this in the last digits.
_ROUNDING: Final = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """Machines of a group that were ordered together, and when. They come together, as nodes like the template. `planned`: the
    pods that each is for, as far as pods go where they were planned."""

    at: UnixTime
    group: GroupName
    template: Template
    nodes: tuple[NodeName, ...]
    planned: Sequence[Sequence[PodUid]]


class VirtualMachines:
    """`coming`: how many machines of each group are on their way. `come` is called with each order whose nodes come."""

    def __init__(self, timeline: Timeline, pace: Pace, come: Callable[[Order], None]) -> None:
        self._timeline, self._pace, self._come = timeline, pace, come
        self._orders: dict[Order, None] = {}

    @property
    def coming(self) -> Counter[GroupName]:
        found = Counter[GroupName]()
        for order in self._orders:
            found[order.group] += len(order.nodes)
        return found

    def order(
        self, group: GroupName, template: Template, nodes: Iterable[NodeName], planned: Sequence[Sequence[PodUid]] = ()
    ) -> None:
        order = Order(self._timeline.now, group, template, tuple(nodes), planned)
        self._orders[order] = None
        self._come_after(order)

    def expect(self, pace: Pace) -> None:
        """From now on machines take so long, also those that are on their way."""
        if pace == self._pace:
            return
        self._pace = pace
        for order in self._orders:
            self._come_after(order)

    def counted_in(self, cluster: Cluster) -> Cluster:
        """The cluster whose groups, if they are known by name, have the machines that are on their way."""
        coming = self.coming
        if cluster.groups is None or not coming:
            return cluster
        groups = [(found, coming[found.group.name]) for found in cluster.groups]
        return replace(
            cluster,
            groups=tuple(
                replace(found, coming=found.coming + n, group=replace(found.group, target=found.group.target + n))
                for found, n in groups
            ),
        )

    def _come_after(self, order: Order) -> None:
        self._timeline.after(max(self._due(order) - self._timeline.now, 0.0), lambda: self._come_if_due(order))

    def _come_if_due(self, order: Order) -> None:
        """The nodes come, unless they have come or take longer by now."""
        if order in self._orders and self._timeline.now >= self._due(order) - _ROUNDING:
            del self._orders[order]
            self._come(order)

    def _due(self, order: Order) -> float:
        return order.at + self._pace.boot_of(order.group)
