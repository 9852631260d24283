"""A rival of consolidation: replaces one node at a time, by room on other nodes and at most one cheaper node.

Nodes are tried in the order of what they save for what they disturb, again and again, until none pays. The rule is that
of the service: a share of all money saved of at least `ratio` of the share of all disruption, and no pod moves twice. Pods go
to other nodes first-fit, the largest first, the fullest nodes first. Disruption: two for each pod, its age, and one for the
node.
"""

from dataclasses import dataclass

import numpy as np

from slackwater.model.columns import Int64, Mask
from tests.bench.simulation.grown_clusters import Generated

#: Pods of the generated clusters are older than a day: one for the move, one for the restart, one for the age.
_EACH = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class OneByOne:
    """Micros an hour after the last replacement of a day, and evictions until then."""

    cost: int
    evictions: int


def one_by_one(generated: Generated, ratio: float, *, allow_spot: bool, days: int) -> list[OneByOne]:
    """Plays the rival until nothing pays, on each of at most so many days, until one on which nothing moves. Pods that moved on
    one day may move on the next. At least one day."""
    rival, found = _Rival(generated, ratio, allow_spot), list[OneByOne]()
    while len(found) < days:
        played = rival.play()
        before = found[-1].evictions if found else 0
        found.append(OneByOne(cost=played.cost, evictions=before + played.evictions))
        if not played.evictions:
            break
    return found


class _Rival:
    def __init__(self, generated: Generated, ratio: float, allow_spot: bool) -> None:
        self._mix, self._ratio, self._allow_spot = generated.mix, ratio, allow_spot
        self._on, self._held = generated.on.copy(), generated.held.copy()
        self._free: Int64 = self._mix.offered[self._on] - self._held @ self._mix.asked
        self._live: Mask = np.ones(len(self._on), np.bool_)
        self._got: Mask = np.zeros(len(self._on), np.bool_)
        self._cost = generated.cost
        self._disruption = float(len(self._on) + _EACH * self._held.sum())
        self._whole = self._cost
        self._apart = np.array([each.apart for each in self._mix.workloads])
        self._spot = np.array([each.spot for each in self._mix.variants])
        size = (self._mix.asked / np.maximum(self._mix.offered.max(axis=0), 1)).sum(axis=1)
        self._largest = np.argsort(-size, kind="stable")

    def play(self) -> OneByOne:
        evictions = 0
        self._got[:] = False
        while True:
            moved = 0
            pods = self._held.sum(axis=1)
            score = self._mix.prices[self._on] / (1 + _EACH * pods)
            for node in np.argsort(-score, kind="stable").tolist():
                if self._live[node] and not self._got[node]:
                    moved += self._replace(node)
            evictions += moved
            if not moved:
                return OneByOne(cost=self._cost, evictions=evictions)

    def _replace(self, node: int) -> int:
        """Empties the node if that pays; how many pods moved, at least 1 if so."""
        wanted, price = self._held[node].copy(), int(self._mix.prices[self._on[node]])
        pods = int(wanted.sum())
        least = self._ratio * (1 + _EACH * pods) / self._disruption * self._whole
        free = self._free.copy()
        put: list[tuple[int, int, int]] = []
        others = np.flatnonzero(self._live)
        others = others[others != node]
        others = others[np.argsort((free[others, :2] / np.maximum(self._mix.offered[self._on[others], :2], 1)).sum(axis=1))]
        for kind in self._largest.tolist():
            if not wanted[kind]:
                continue
            asked = self._mix.asked[kind]
            used = asked > 0
            fit = (free[others][:, used] // asked[used]).min(axis=1)
            fit = np.where(self._mix.takes[self._on[others], kind], fit, 0)
            if self._apart[kind]:
                fit = np.minimum(fit, self._held[others, kind] == 0)
            given = np.clip(wanted[kind] - (np.cumsum(fit) - fit), 0, fit)
            for at in np.flatnonzero(given).tolist():
                put.append((int(others[at]), kind, int(given[at])))
                free[others[at]] -= given[at] * asked
            wanted[kind] -= given.sum()
        variant = self._variant(wanted, node) if wanted.any() else None
        if wanted.any() and variant is None:
            return 0
        saved = price - (int(self._mix.prices[variant]) if variant is not None else 0)
        if saved <= 0 or saved < least:
            return 0
        self._free = free
        self._live[node] = False
        for other, kind, count in put:
            self._held[other, kind] += count
            self._got[other] = True
        if variant is not None:
            self._on = np.append(self._on, variant)
            self._held = np.vstack([self._held, wanted])
            self._free = np.vstack([self._free, self._mix.offered[variant] - wanted @ self._mix.asked])
            self._live, self._got = np.append(self._live, True), np.append(self._got, True)
        self._cost -= saved
        return max(pods, 1)

    def _variant(self, wanted: Int64, node: int) -> int | None:
        """The cheapest variant of which one node holds the pods."""
        takes = self._mix.takes[:, wanted > 0].all(axis=1) & (wanted[self._apart] <= 1).all()
        fits = takes & (self._mix.offered >= wanted @ self._mix.asked).all(axis=1)
        if not (self._allow_spot or self._spot[self._on[node]]):
            fits &= ~self._spot
        able = np.flatnonzero(fits)
        return int(able[self._mix.prices[able].argmin()]) if len(able) else None
