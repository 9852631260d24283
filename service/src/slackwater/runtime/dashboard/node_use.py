"""What nodes use at one moment, as the dashboard shows it beside what is reserved on them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slackwater.model.ids import NodeName
from slackwater.model.resources import RESOURCES, Amounts


@dataclass(frozen=True, slots=True)
class NodeUse:
    """`of`: what each node uses, without nodes that were not measured; `total`: their sum."""

    of: Mapping[NodeName, Amounts]
    total: Amounts

    def section(self, names: Sequence[NodeName]) -> dict[str, Any]:
        """For each resource, what each of the nodes uses, in their order; None where it was not measured."""
        found = [self.of.get(name) for name in names]
        return {resource: [None if used is None else used[r] for used in found] for r, resource in enumerate(RESOURCES)}
