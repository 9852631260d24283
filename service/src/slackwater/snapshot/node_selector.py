"""Evaluates node selector terms and label selectors: which rows have a node that matches by its labels and its name.

A term that the API server should have refused (an unknown operator, values that no label can have) matches nothing, and does
not affect other terms.

`LabelIndex` says which of many selectors select each node, renewed only for nodes that changed. Clusters with local volumes
have one selector for each node. Evaluating every selector for every node would be quadratic. Nearly all selectors require
values of a single label; for these, the index looks up the node's value instead.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

import numpy as np

from slackwater.model.columns import Mask, Rows
from slackwater.model.ids import NodeName
from slackwater.model.pod_constraints import NodeSelectorTerm
from slackwater.model.selectors import Requirement, whole_number
from slackwater.snapshot.node_facts import ABSENT, LabelColumn, NodeFacts
from slackwater.snapshot.row_journal import Selection

#: The only node field that a term may select by.
NAME_FIELD: Final = "metadata.name"
_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", re.ASCII)


def rows_of_terms(facts: NodeFacts, terms: Iterable[NodeSelectorTerm], rows: Selection) -> Mask:
    """Which rows match at least one of the terms."""
    matching = np.zeros(facts.n_rows, np.bool_)[rows]
    for term in terms:
        matching |= rows_of_term(facts, term, rows)
    return matching


def rows_of_term(facts: NodeFacts, term: NodeSelectorTerm, rows: Selection) -> Mask:
    matching: Mask = np.ones(facts.n_rows, np.bool_)[rows]
    if not (term.labels or term.fields) or not is_well_formed(term):
        matching[:] = False
        return matching
    for requirement in term.labels:
        matching &= rows_of_requirement(facts, requirement, rows)
    for requirement in term.fields:
        matching &= _rows_of_field(facts, requirement, rows)
    return matching


def rows_of_requirement(facts: NodeFacts, requirement: Requirement, rows: Selection) -> Mask:
    """Which of `rows` have a node whose labels meet one requirement."""
    column = facts.label(requirement.key)
    ids = column.ids[: facts.n_rows][rows]
    # One answer for each value of the label, and a last one for nodes without it: ABSENT is -1.
    answers = np.zeros(len(column.values) + 1, np.bool_)
    match requirement.operator:
        case "Exists":
            answers[:-1] = True
        case "DoesNotExist":
            answers[-1] = True
        case "In":
            answers[_numbers(column, requirement.values)] = True
        case "NotIn":
            answers[:] = True
            answers[_numbers(column, requirement.values)] = False
        case "Gt" | "Lt":
            answers[:-1] = _compared(column, requirement)
        case _:
            pass  # an unknown operator accepts nothing
    accepted: Mask = answers[ids]
    return accepted


def _compared(column: LabelColumn, requirement: Requirement) -> Mask:
    bound = whole_number(requirement.values[0]) if requirement.values else None
    numbers, readable = column.as_numbers()
    if bound is None:
        return np.zeros(len(numbers), np.bool_)
    compared: Mask = (numbers > bound if requirement.operator == "Gt" else numbers < bound) & readable
    return compared


def _numbers(column: LabelColumn, values: Iterable[str]) -> list[int]:
    """The column's numbers for these label values. Values that no node has are left out: they match nothing."""
    return [number for value in values if (number := column.known(value)) != ABSENT]


def _rows_of_field(facts: NodeFacts, requirement: Requirement, rows: Selection) -> Mask:
    (value,) = requirement.values
    if requirement.key == NAME_FIELD:
        equal = np.arange(facts.n_rows)[rows] == facts.row_of.get(NodeName(value), ABSENT)
    else:
        equal = np.full(facts.n_rows, value == "", np.bool_)[rows]  # a field that nodes do not have reads as empty
    accepted: Mask = equal if requirement.operator == "In" else ~equal
    return accepted


def is_well_formed(term: NodeSelectorTerm) -> bool:
    fields_ok = all(field.operator in {"In", "NotIn"} and len(field.values) == 1 for field in term.fields)
    return fields_ok and all(_is_well_formed(requirement) for requirement in term.labels)


def _is_well_formed(requirement: Requirement) -> bool:
    values = requirement.values
    match requirement.operator:
        case "In" | "NotIn":
            return bool(values) and all(_VALUE.fullmatch(value) for value in values)
        case "Exists" | "DoesNotExist":
            return not values
        case "Gt" | "Lt":
            return len(values) == 1 and whole_number(values[0]) is not None
        case _:
            return False


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
