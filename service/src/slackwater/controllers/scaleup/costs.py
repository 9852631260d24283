"""What node groups cost an hour: the nodes that they have, and those that a plan adds.

In: the price book, the growable groups, the plan and the nodes of each group. Out: a `GroupCost` for each group; none without
a price book. A plan's nodes cost what the group's template node does.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from slackwater.controllers.scaleup.groups import GrowableGroup
from slackwater.controllers.scaleup.outcome import ScaleUp
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Node
from slackwater.model.prices import Price, PriceBook, cost_of, price_document


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCost:
    """What a group costs an hour. `node`: one new node; None if nobody knows what it looks like, or if
    its variants differ in price. `present`: its nodes.
    `planned`: the nodes that the plan adds. The latter two are None if there are no nodes."""

    node: Price | None
    present: Price | None
    planned: Price | None

    @property
    def document(self) -> dict[str, Any]:
        """The cost as JSON values."""
        each = {"node": self.node, "present": self.present, "planned": self.planned}
        return {name: price_document(price) for name, price in each.items() if price is not None}


def group_costs(
    prices: PriceBook | None,
    groups: Iterable[GrowableGroup],
    scale_ups: Iterable[ScaleUp],
    nodes: Mapping[GroupName, Iterable[Node]],
) -> dict[GroupName, GroupCost]:
    """The cost of each group, with all its variants. `nodes`: those that each group has now."""
    if prices is None:
        return {}
    added = {scale_up.group: scale_up.count for scale_up in scale_ups}
    of_owner: dict[GroupName, list[GrowableGroup]] = {}
    for group in groups:
        of_owner.setdefault(group.owner, []).append(group)
    found = {}
    for owner, parts in of_owner.items():
        said = parts[0].group.price_micros
        present = Counter(prices.of(owner, node, provider=said) for node in nodes.get(owner, ()))
        new = {part.price for part in parts}
        planned = [(part.price, added.get(part.name, 0)) for part in parts if part.price is not None]
        node = new.pop() if len(new) == 1 else None
        found[owner] = GroupCost(node=node, present=cost_of(present.items()), planned=cost_of(planned))
    return found


def total_of(costs: Iterable[Price | None]) -> Price | None:
    """The sum of the costs of several groups; None if there are no nodes."""
    return cost_of((cost, 1) for cost in costs if cost is not None)
