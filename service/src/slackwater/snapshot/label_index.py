"""An index of label selectors: which of many selectors select each node, renewed only for nodes that changed.

Clusters with local volumes have one selector for each node. Evaluating every selector for every node would be quadratic. Nearly
all selectors require values of a single label; for these, the index looks up the node's value instead.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Final

import numpy as np

from slackwater.model.columns import Mask, Rows
from slackwater.model.pod_constraints import NodeSelectorTerm
from slackwater.model.selectors import Requirement
from slackwater.snapshot.node_facts import NodeFacts
from slackwater.snapshot.node_selector import is_well_formed, rows_of_requirement

#: Requirements that must all hold; an empty tuple selects every node.
All = tuple[Requirement, ...]
#: A node is selected if one of the alternatives holds.
Alternatives = tuple[All, ...]

EVERY_NODE: Final[Alternatives] = ((),)


def alternatives(terms: Sequence[NodeSelectorTerm] | None) -> Alternatives:
    """The label requirements of node selector terms. If `terms` is None, every node is selected. A malformed or empty term
    selects no node."""
    if terms is None:
        return EVERY_NODE
    return tuple(term.labels for term in terms if (term.labels or term.fields) and is_well_formed(term))


def selected_rows(facts: NodeFacts, selector: Alternatives, rows: Rows) -> Mask:
    """Which of `rows` have a node that the selector selects, evaluated without an index."""
    selected = np.zeros(len(rows), np.bool_)
    for requirements in selector:
        matching = np.ones(len(rows), np.bool_)
        for requirement in requirements:
            matching &= rows_of_requirement(facts, requirement, rows)
        selected |= matching
    return selected


class LabelIndex:
    """An index of selectors, each identified by its position. One index serves one snapshot's nodes."""

    def __init__(self, selectors: Sequence[Alternatives]) -> None:
        self._everywhere: list[int] = []
        #: By key and value: selectors that require one of several values of one label.
        self._by_value: dict[str, dict[str, list[int]]] = {}
        self._others: list[tuple[int, Alternatives]] = []
        for number, selector in enumerate(selectors):
            self._add(number, selector)
        self._of_row: list[list[int]] = []
        self._position = -1
        self._flat: tuple[Rows, Rows] | None = None  # where each row's selectors begin, and the selectors

    def _add(self, number: int, selector: Alternatives) -> None:
        if () in selector:
            self._everywhere.append(number)
        elif len(selector) == 1 and len(selector[0]) == 1 and selector[0][0].operator == "In":
            (requirement,) = selector[0]
            by_value = self._by_value.setdefault(requirement.key, {})
            for value in dict.fromkeys(requirement.values):
                by_value.setdefault(value, []).append(number)
        elif selector:
            self._others.append((number, selector))

    def pairs(self, facts: NodeFacts, rows: Rows) -> tuple[Rows, Rows]:
        """Every pair of a row and a selector that selects the row's node, as two arrays: positions in `rows`, ascending, and
        numbers of selectors."""
        self._renew(facts)
        if self._flat is None:
            starts = np.zeros(len(self._of_row) + 1, np.intp)
            np.cumsum([len(found) for found in self._of_row], out=starts[1:])
            self._flat = starts, np.fromiter(chain.from_iterable(self._of_row), np.intp, int(starts[-1]))
        starts, numbers = self._flat
        lengths = starts[rows + 1] - starts[rows]
        at = np.repeat(np.arange(len(rows)), lengths)
        within = np.arange(len(at)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return at, numbers[np.repeat(starts[rows], lengths) + within]

    def _renew(self, facts: NodeFacts) -> None:
        changed = None if self._position < 0 else facts.journal.since(self._position, at_most=facts.n_rows)
        self._position = facts.journal.position
        if changed is None:
            changed = np.arange(facts.n_rows)
        changed = changed[changed < facts.n_rows]
        known = len(self._of_row)
        if not len(changed) and known == facts.n_rows:
            return
        del self._of_row[facts.n_rows :]
        self._of_row += [[] for _ in range(facts.n_rows - len(self._of_row))]
        changed = np.union1d(changed, np.arange(min(known, facts.n_rows), facts.n_rows))
        found = [self._by_label(facts.nodes[row].labels) for row in changed.tolist()]
        for number, selector in self._others:
            for at in np.flatnonzero(selected_rows(facts, selector, changed)).tolist():
                found[at].append(number)
        for row, numbers in zip(changed.tolist(), found, strict=True):
            if self._of_row[row] != numbers:
                self._of_row[row] = numbers
        self._flat = None

    def _by_label(self, labels: dict[str, str]) -> list[int]:
        found = list(self._everywhere)
        for key, by_value in self._by_value.items():
            found += by_value.get(labels.get(key, ""), ()) if key in labels else ()
        return found
