"""What one new node for all pods of a node would cost: says why a node stays although a cheaper one seems to be there.

In: the groups with their prices, and which may grow. Out: a text. Rules about other pods are left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slackwater.controllers.scaleup.template_nodes import IS_MOVING, TemplateNodes
from slackwater.model.columns import Mask
from slackwater.snapshot.equivalence_groups import KindId
from slackwater_protocol.money import decimal_text


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeNodes:
    """The groups of `template_nodes`. `prices`: of a new node of each, in micros an hour; `growing`: may it have one more node;
    `spot`: are its nodes spot nodes."""

    template_nodes: TemplateNodes
    prices: Sequence[int]
    growing: Mask
    spot: Mask

    def text(self, kinds: Mapping[KindId, int], *, spot_too: bool) -> str:
        """The price of the cheapest new node for so many pods of each kind; in brackets that of a cheaper one that may not
        come. `spot_too`: may the pods get spot nodes."""
        takes = self._takes(kinds)
        whole = self._least(takes & self.growing & (spot_too | ~self.spot))
        of_growing, of_any = self._least(takes & self.growing), self._least(takes)
        text = "no new node takes them all" if whole is None else f"a new node for them all {decimal_text(whole)}"
        if of_growing is not None and of_growing != whole:
            return f"{text} (a spot node {decimal_text(of_growing)}, and consolidation.allowSpot is false)"
        if of_any is not None and of_any != whole:
            return f"{text} (of a group that cannot grow {decimal_text(of_any)})"
        return text

    def _takes(self, kinds: Mapping[KindId, int]) -> Mask:
        """The groups of which an empty node takes the pods, by their amounts and what the kinds tolerate and select."""
        needed = np.zeros(len(self.template_nodes.empty), np.int64)
        takes = np.ones(len(self.prices), np.bool_)
        for kind, count in kinds.items():
            takes &= IS_MOVING[self.template_nodes.codes[kind]]
            for line, amount in self.template_nodes.amounts(kind):
                needed[line] += amount * count
        return np.asarray(takes & (self.template_nodes.empty >= needed[:, None]).all(axis=0))

    def _least(self, groups: Mask) -> int | None:
        return min((self.prices[at] for at in np.flatnonzero(groups).tolist()), default=None)
