"""Chooses the set of nodes whose replacement is tried next.

A node that goes saves its price. It costs disruption, each unit of which has to save `disruption_price` at least. And it takes
room of the nodes that stay, for its pods, and its own free room goes with it. That is a knapsack whose capacity is the free
room: nodes go in the order of what they save for the room, until the room is used up.
Beyond that, a node goes if it costs more than room for its pods at today's prices.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.controllers.scaleup.packing.problem import Floats
from slackwater.model.columns import Mask, Rows

#: So much of the free room pods can use, because they cannot be divided.
_USABLE: Final = 0.95
#: Of up to so many candidates more sets are tried, and all of them, since what is promised holds for many nodes only.
FEW: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Knapsack:
    """Of each candidate: its price, its disruption, and what room for its pods costs at today's prices (`values`), in micros an
    hour, shape (candidates,); what its pods take, and what is free on it, shape (candidates, lines). `room`: what is free on
    all nodes, `weights`: micros an hour of one unit, shape (lines,). `disruption_price`: see the module."""

    prices: Floats
    disruptions: Floats
    values: Floats
    taken: Floats
    free: Floats
    room: Floats
    weights: Floats
    disruption_price: float

    @property
    def _net(self) -> Floats:
        return self.prices - self.disruption_price * self.disruptions

    def sets(self) -> list[Rows]:
        """The sets of candidates to try, that which promises most first; each as positions, in the order of what they save."""
        into_room, beyond = self._chosen(_USABLE)
        whole = np.concatenate([into_room, beyond])
        found = [into_room, whole, self._chosen(0.0)[1]]
        if len(self.prices) <= FEW:
            found += [whole[:size] for size in range(1, len(whole)) if size & (size - 1) == 0 or size >= len(whole) - 2]
        each = {tuple(chosen.tolist()): chosen for chosen in found if len(chosen)}
        return sorted(each.values(), key=self._promised, reverse=True)

    def _chosen(self, usable: float) -> tuple[Rows, Rows]:
        """The candidates whose pods are to use that part of the free room, and those beyond it, whose pods get new nodes."""
        net, free = self._net, usable * self.free
        key = net / np.maximum((self.taken + free) @ self.weights, 1e-9)
        order = np.argsort(-key, kind="stable")
        order = order[net[order] > 0]
        used = np.cumsum(self.taken[order], axis=0)
        has = usable * self.room - np.cumsum(free[order], axis=0)
        fitting: Mask = np.minimum.accumulate((used <= has).all(axis=1)) if len(order) else np.zeros(0, np.bool_)
        into_room = int(np.count_nonzero(fitting))
        share = float((used[into_room - 1] / np.maximum(has[into_room - 1], 1e-9)).max()) if into_room else 0.0
        rest = order[into_room:]
        dear = rest[net[rest] > self.values[rest] + min(share, 1.0) * (free[rest] @ self.weights)]
        return order[:into_room], dear

    def _promised(self, chosen: Rows) -> float:
        """What the set saves, less what its disruption costs: pods without room elsewhere cost what new room for them
        costs."""
        used, has = self.taken[chosen].sum(axis=0), _USABLE * (self.room - self.free[chosen].sum(axis=0))
        asked = used > 0
        share = float(np.clip((has[asked] / used[asked]).min(initial=1.0), 0.0, 1.0))
        return float(self._net[chosen].sum() - (1 - share) * self.values[chosen].sum())
