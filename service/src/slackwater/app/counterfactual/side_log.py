"""Adds up one side: its nodes, money, waits and evictions, and writes them as lines.

Both sides are added up by this code, so that they differ only in what happened.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import count
from typing import Final

from slackwater.app.counterfactual.durations import bucket_of, total
from slackwater.app.counterfactual.lines import Action, AnyLine, Decision, NodeCame, NodeWent, Sample, Side, Waits
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Node
from slackwater.model.prices import capacity_type_of, instance_type_of, zone_of

#: The price of a node of a group for an hour, in micros.
PriceOf = Callable[[GroupName, Node], int]
MINUTE: Final = 60.0
HOUR: Final = 3600.0


class SideLog:
    """`nodes`: those that the side has, as they came. `take_lines` returns what was written since its last call."""

    def __init__(self, side: Side, numbers: "count[int]", price_of: PriceOf) -> None:
        self.nodes: dict[NodeName, NodeCame] = {}
        self.evictions = 0
        self._side: Final = side
        self._numbers, self._price_of = numbers, price_of
        self._micros = 0
        self._waits: dict[int, dict[int, int]] = {}
        self._lines: list[AnyLine] = []
        self._evictions_written = 0

    def take_lines(self) -> list[AnyLine]:
        lines, self._lines = self._lines, []
        return lines

    # --- what happened ----------------------------------------------------------------------------------------------------

    def decided(
        self,
        at: UnixTime,
        action: Action,
        group: GroupName,
        nodes: int,
        *,
        by: str = "",
        why: str = "",
        pods: int = 0,
        example: str = "",
    ) -> int:
        """Notes a decision, and returns its number."""
        number = next(self._numbers)
        self._lines.append(
            Decision(
                at=at,
                side=self._side,
                number=number,
                action=action,
                by=by,
                group=group,
                nodes=nodes,
                why=why,
                pods=pods,
                example=example,
            )
        )
        return number

    def came(self, at: UnixTime, nodes: Iterable[tuple[GroupName, Node]], decision: int | None) -> None:
        for group, node in nodes:
            if node.name in self.nodes:
                continue
            came = self.nodes[node.name] = NodeCame(
                at=at,
                side=self._side,
                node=node.name,
                group=group,
                type=instance_type_of(node),
                zone=zone_of(node),
                capacity_type=capacity_type_of(node),
                micros=self._price_of(group, node),
                decision=decision,
            )
            self._micros += came.micros
            self._lines.append(came)

    def went(self, at: UnixTime, name: NodeName, decision: int | None) -> None:
        came = self.nodes.pop(name, None)
        if came is not None:
            self._micros -= came.micros
            self._lines.append(NodeWent(at=at, side=self._side, node=name, decision=decision))

    def bound(self, priority: int, seconds: float) -> None:
        """A pod got a node after so many seconds."""
        waits, bucket = self._waits.setdefault(priority, {}), bucket_of(seconds)
        waits[bucket] = waits.get(bucket, 0) + 1

    # --- what is written now and then ---------------------------------------------------------------------------------------

    def sample(self, at: UnixTime, pending: int) -> None:
        evictions, self._evictions_written = self.evictions - self._evictions_written, self.evictions
        self._lines.append(
            Sample(at=at, side=self._side, nodes=len(self.nodes), micros=self._micros, pending=pending, evictions=evictions)
        )

    def write_waits(self, at: UnixTime) -> Counter[int]:
        """Returns what it wrote, all priorities together."""
        waits, self._waits = self._waits, {}
        if waits:
            self._lines.append(Waits(at=at, side=self._side, seconds=waits))
        return total(waits.values())
