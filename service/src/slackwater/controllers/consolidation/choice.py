"""Chooses the set of nodes whose replacement is tried next.

A node that goes saves its price. It costs disruption, each unit of which has to save `disruption_price` at least. And it takes
room of the nodes that stay, for its pods, and its own free room goes with it. That is a knapsack whose capacity is the free
room: nodes go in the order of what they save for the room, until the room is used up. Of few candidates, sets are then improved
by exchanges.
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
        if 0 < len(self.prices) <= FEW:
            found += [whole[:size] for size in range(1, len(whole)) if size & (size - 1) == 0 or size >= len(whole) - 2]
            found += [self._exchanged(into_room), self._exchanged(whole)]
        each = {tuple(chosen.tolist()): chosen for chosen in found if len(chosen)}
        return sorted(each.values(), key=self._promised, reverse=True)

    def _chosen(self, usable: float) -> tuple[Rows, Rows]:
        """The candidates whose pods are to use that part of the free room, and those beyond it, whose pods get new nodes."""
        net, free, order = self._net, usable * self.free, self._order(usable)
        order = order[net[order] > 0]
        used = np.cumsum(self.taken[order], axis=0)
        has = usable * self.room - np.cumsum(free[order], axis=0)
        fitting: Mask = np.minimum.accumulate((used <= has).all(axis=1)) if len(order) else np.zeros(0, np.bool_)
        into_room = int(np.count_nonzero(fitting))
        share = float((used[into_room - 1] / np.maximum(has[into_room - 1], 1e-9)).max()) if into_room else 0.0
        rest = order[into_room:]
        dear = rest[net[rest] > self.values[rest] + min(share, 1.0) * (free[rest] @ self.weights)]
        return order[:into_room], dear

    def _order(self, usable: float) -> Rows:
        """The candidates in the order of what they save for the room."""
        key = self._net / np.maximum((self.taken + usable * self.free) @ self.weights, 1e-9)
        return np.argsort(-key, kind="stable")

    def _exchanged(self, chosen: Rows) -> Rows:
        """The set after the exchanges that promise most: one candidate joins it, leaves it, or takes the place of another. By
        what it saves for its room alone, a small full node goes where a large one could go in its place."""
        one = np.eye(len(self.prices), dtype=np.bool_)
        now, order = np.isin(np.arange(len(one)), chosen), self._order(_USABLE)
        most = self._promises(now[None])[0]
        while True:
            others = np.concatenate([now ^ one, (now ^ one[now][:, None] ^ one[~now]).reshape(-1, len(one))])
            promises = self._promises(others)
            best = int(promises.argmax())
            if promises[best] <= most:
                return order[now[order]]
            now, most = others[best], promises[best]

    def _promised(self, chosen: Rows) -> float:
        return float(self._promises(np.isin(np.arange(len(self.prices)), chosen)[None])[0])

    def _promises(self, sets: Mask) -> Floats:
        """What each set saves, less what its disruption costs: pods without room elsewhere cost what new room for them costs.
        `sets`: which candidates go, shape (sets, candidates)."""
        used, has = sets @ self.taken, _USABLE * (self.room - sets @ self.free)
        parts = np.divide(has, used, out=np.ones_like(used), where=used > 0)
        found: Floats = sets @ self._net - (1 - np.clip(parts.min(axis=1), 0.0, 1.0)) * (sets @ self.values)
        return found
