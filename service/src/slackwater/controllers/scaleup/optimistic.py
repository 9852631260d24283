"""Optimistic options: what an estimate of a bundle could find at best, without making it. An option that beats the optimistic
ones of all other bundles is the best, so these need no estimate (branch and bound).

In: the verdicts on template nodes, and the pods that are left. Out: an option for a bundle. Invariant: no expander measures the
bundle's estimate as better than its optimistic option. There is none where pods may go to nodes that are there already, since
nobody knows beforehand how many do; and none where no verdict moves, since such an estimate costs little.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slackwater.controllers.scaleup.estimate import Option, Run
from slackwater.controllers.scaleup.template_nodes import IS_MOVING, TemplateNodes
from slackwater.fit.failure import concerning
from slackwater.fit.feasible_nodes import feasible
from slackwater.model.columns import Int64
from slackwater.snapshot.equivalence_groups import KindId

Floats = npt.NDArray[np.float64]
#: Rounds shares up, so that a bound stays a bound.
_MORE = 1 + 1e-9


class OptimisticOptions:
    """Makes optimistic options on the present snapshot; `forget` what is known when it changes."""

    def __init__(self, template_nodes: TemplateNodes) -> None:
        self._of = template_nodes
        self._stays: dict[int, bool] = {}
        self._shares: dict[tuple[KindId, ...], tuple[Int64, Floats]] = {}

    def forget(self) -> None:
        self._stays.clear()

    def of(self, bundle: Sequence[int], runs: Sequence[Run]) -> Option | None:
        """The optimistic option of a bundle. `runs`: the pods that a new node of the bundle may take."""
        of = self._of
        kinds = tuple(run.kind for run in runs)
        moving = [kind for kind in kinds if kind in of.inter_pod_constraints.moving]
        if not moving or any(self._may_stay(kind) for kind in moving):
            return None
        names = list(of.snapshot.facts.resource)
        total = of.total[: len(names), list(bundle)]
        offered = total.min(axis=1)
        asked = np.ceil((self._most(kinds, bundle) * (offered[:, None] / np.maximum(total, 1))).max(axis=1) * _MORE)
        if not np.isfinite(asked).all():
            return None
        return Option(
            bundle=tuple(bundle),
            names=tuple(of.groups[group].name for group in bundle),
            groups=np.array(bundle[:1], np.intp),
            kinds=kinds,
            pods=np.concatenate([run.pods for run in runs]),
            at=np.zeros(0, np.intp),
            asked=dict(zip(names, map(int, asked.tolist()), strict=True)),
            offered=dict(zip(names, offered.tolist(), strict=True)),
            left_out=False,
            cut=False,
            moving=True,
        )

    def _may_stay(self, kind: KindId) -> bool:
        """May pods of the equivalence group go to nodes that are in the snapshot, once other pods are placed?"""
        key = self._of.alike.key(kind)
        if key not in self._stays:
            with concerning(kind):
                found = feasible(self._of.snapshot, kind)
            self._stays[key] = found.refusal is not None or bool(IS_MOVING[found.codes].any())
        return self._stays[key]

    def _most(self, kinds: tuple[KindId, ...], bundle: Sequence[int]) -> Floats:
        """The most that pods on one new node of each group request of each resource, shape (resources, groups).

        Each line of `empty` limits it: what fits of the line, in units of the pods' greatest common divisor, times the most of
        the resource that a pod requests for each unit of the line."""
        if kinds not in self._shares:
            self._shares[kinds] = self._compared(kinds)
        units, shares = self._shares[kinds]
        room = np.maximum(self._of.empty[:, list(bundle)], 0) // units[:, None] * units[:, None]
        with np.errstate(invalid="ignore"):
            found: Floats = np.fmin.reduce(shares[:, :, None] * room, axis=1)
        return found

    def _compared(self, kinds: tuple[KindId, ...]) -> tuple[Int64, Floats]:
        """For each line of `empty`, the greatest common divisor of the pods' amounts, shape (lines,); and the most that a pod
        requests of each resource for each unit of the line, shape (resources, lines)."""
        of, n_lines = self._of, len(self._of.empty)
        amounts = np.zeros((n_lines, len(kinds)), np.int64)
        for at, kind in enumerate(kinds):
            for line, amount in of.amounts(kind):
                amounts[line, at] = amount
        requests = of.snapshot.kinds.requests[: len(of.snapshot.facts.resource), list(kinds)]
        with np.errstate(divide="ignore", invalid="ignore"):
            each = requests[:, None, :] / amounts
        return np.maximum(np.gcd.reduce(amounts, axis=1), 1), np.where(requests[:, None, :] > 0, each, 0).max(axis=2)
