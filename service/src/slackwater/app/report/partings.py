"""What the sides' differences cost, by the decision that made them: the money of each node that exists on one side only.

A node that comes or goes on one side makes the sides differ, or agree again. The time between counts for the decision behind
the first of the two. With one side only, the other one is the cluster as it was when the window began.
Invariant: every millisecond of a node that exists on one side only is counted once.
"""

from collections import Counter
from dataclasses import dataclass, field

from slackwater.app.counterfactual.lines import SIDES, NodeCame, NodeWent, Side

#: A decision's side and number, and when the sides had begun: a service that starts again may number its decisions again. None
#: in place of the number: nobody decided.
Cause = tuple[Side, int | None, float]


def cause_of(side: Side, number: int | None, began: float) -> Cause:
    return (side, number, 0.0 if number is None else began)


@dataclass(slots=True)
class _Node:
    """`micros`: its price on each side that has it. `cause`: of the difference between the sides. `since`: from where on it is
    not added up."""

    micros: dict[Side, int] = field(default_factory=dict)
    cause: Cause = ("real", None, 0.0)
    since: int = 0


class Partings:
    """`money`: what each cause costs its side, in micros an hour times milliseconds; below 0, it saves."""

    def __init__(self) -> None:
        self.money = Counter[Cause]()
        #: The nodes of the real cluster, as far as the log goes.
        self._nodes: dict[str, _Node] = {}
        self._began = 0.0
        self._alone = False
        self._frozen = False

    def begin(self, at: float, *, alone: bool) -> None:
        """Both sides begin with no nodes. `alone`: only one is written."""
        self._nodes.clear()
        self._began, self._alone, self._frozen = at, alone, False

    def freeze(self) -> None:
        """The window, or a part of it, begins: if one side is written, the other one stays as it is now."""
        self._frozen = True

    def came(self, line: NodeCame, counted: int) -> None:
        node = self._nodes.setdefault(line.node, _Node())
        self._add(node, counted)
        for side in self._sides(line.side):
            self._change(node, side, line.micros, cause_of(line.side, line.decision, self._began))

    def went(self, line: NodeWent, counted: int) -> None:
        if (node := self._nodes.get(line.node)) is None:
            return
        self._add(node, counted)
        for side in self._sides(line.side):
            self._change(node, side, None, cause_of(line.side, line.decision, self._began))
        if not node.micros:
            del self._nodes[line.node]

    def finish(self, counted: int) -> None:
        """Adds all differences up to now."""
        for node in self._nodes.values():
            self._add(node, counted)

    def exists(self, node: str) -> bool:
        """Is the node in the real cluster?"""
        return node in self._nodes and "real" in self._nodes[node].micros

    def _sides(self, side: Side) -> tuple[Side, ...]:
        return SIDES if self._alone and not self._frozen else (side,)

    @staticmethod
    def _change(node: _Node, side: Side, micros: int | None, cause: Cause) -> None:
        agreed = len(node.micros) != 1
        if micros is None:
            node.micros.pop(side, None)
        else:
            node.micros[side] = micros
        if agreed and len(node.micros) == 1:
            node.cause = cause

    def _add(self, node: _Node, counted: int) -> None:
        gone, node.since = counted - node.since, counted
        if len(node.micros) == 1:
            ((side, micros),) = node.micros.items()
            self.money[node.cause] += micros * gone if side == node.cause[0] else -micros * gone
