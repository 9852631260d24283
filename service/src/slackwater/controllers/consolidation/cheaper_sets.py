"""Replaces sets of nodes by cheaper sets, as long as that saves enough for what it disturbs.

1. `choice` chooses a set of candidates by what they save for the room and the disruption that they cost.
2. In a trial (`trial`) the set is closed, and scale-up places its pods: on present nodes first, the others on new ones at the
   lowest price, within all limits of groups and quotas.
3. `moves` divides the set into small moves, each of which saves enough for what it disturbs. `made_moves` makes them.

These steps are repeated with the nodes that are left.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.controllers.consolidation.candidates import Candidate
from slackwater.controllers.consolidation.choice import FEW, Knapsack
from slackwater.controllers.consolidation.made_moves import MadeMoves
from slackwater.controllers.consolidation.market import Market
from slackwater.controllers.consolidation.moves import Draft, divided
from slackwater.controllers.consolidation.trial import Found, SetNode
from slackwater.controllers.scaleup.packing.problem import Floats
from slackwater.model.columns import Int64, Rows
from slackwater.model.ids import NodeName
from slackwater.model.reasons import UnremovableReason
from slackwater.snapshot.equivalence_groups import KindId

#: The most sets that are tried, one after another.
_MOST_ROUNDS: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class _Divided:
    """A set that was tried, and its moves."""

    nodes: Sequence[SetNode]
    found: Found
    drafts: Sequence[Draft]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheaperSets:
    """`market`: what room costs. `positions`: those of the equivalence groups in it."""

    made: MadeMoves
    market: Market
    positions: Mapping[KindId, int]

    def replace(self) -> None:
        """Makes all moves that pay, of at most so many sets."""
        for _ in range(_MOST_ROUNDS):
            before = len(self.made.moves)
            best = self._best()
            if best is None:
                return
            nodes, found, drafts, names = best.nodes, best.found, best.drafts, dict[int, NodeName]()
            closed: Rows = np.array([node.candidate.row for node in nodes], np.intp)
            for draft in drafts:
                if self.made.steps.over():
                    return
                self.made.make(draft, nodes, found, names, closed=closed)
            if len(self.made.moves) == before:
                return

    def _best(self) -> "_Divided | None":
        """The set that promises most of those that save something; of few candidates, the set that saves most, less what its
        disruption costs. None if there is none."""
        best, most = None, 0.0
        self.made.free = [node for node in self.made.free if self._is_free(node.candidate)]
        for chosen in self._knapsack().sets():
            if self.made.steps.over():
                return best
            nodes = [self.made.free[at] for at in chosen.tolist()]
            found = self.made.trials().of(nodes)
            values = self.market.values[[self.positions[kind] for kind in found.places.kinds]]
            drafts = divided([node.candidate for node in nodes], found.places, values, self.made.pays_of(found))
            net = sum(self._net([nodes[at].candidate for at in draft.leaving], draft, found) for draft in drafts)
            if drafts and (best is None or net > most):
                best, most = _Divided(nodes=nodes, found=found, drafts=drafts), net
            if best is not None and len(self.made.free) > FEW:
                break
        return best

    def _net(self, leaving: Sequence[Candidate], draft: Draft, found: Found) -> float:
        saved = sum(each.price for each in leaving) - sum(found.places.prices[new] for new in draft.coming)
        return saved - self.made.disruption_price() * sum(each.disruption for each in leaving)

    def _is_free(self, candidate: Candidate) -> bool:
        if candidate.node in self.made.gone:
            return False
        if candidate.node in self.made.planning_input.arriving or self.made.evacuations.has_rescheduled_pods(candidate.row):
            self.made.keep(candidate.node, UnremovableReason.DESTINATION)
        return candidate.node not in self.made.kept

    def _knapsack(self) -> Knapsack:
        snapshot, weights = self.made.planning_input.snapshot, self.market.weights
        n_lines = len(snapshot.facts.resource)
        values, taken = np.zeros(len(self.made.free)), np.zeros((len(self.made.free), n_lines))
        requests: Int64 = snapshot.kinds.requests[:n_lines]
        for at, node in enumerate(self.made.free):
            kinds = [mover.kind for mover in node.movers]
            values[at] = self.market.values[[self.positions[kind] for kind in kinds]].sum()
            taken[at] = requests[:, kinds].sum(axis=1)
        live = snapshot.facts.live[: snapshot.n_rows]
        left = (snapshot.facts.allocatable[:n_lines] - snapshot.used[:n_lines])[:, : snapshot.n_rows]
        free: Floats = (np.maximum(left, 0) * live).T.astype(np.float64)
        candidates = [node.candidate for node in self.made.free]
        return Knapsack(
            prices=np.array([each.price for each in candidates], np.float64),
            disruptions=np.array([each.disruption for each in candidates]),
            values=values,
            taken=taken,
            free=free[[each.row for each in candidates]],
            room=free.sum(axis=0),
            weights=weights[:n_lines],
            disruption_price=self.made.disruption_price(),
        )
