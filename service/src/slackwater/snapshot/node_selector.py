"""Evaluates node selector terms on columns: which rows have a node that matches by its labels and its name.

A term that the API server should have refused (an unknown operator, values that no label can have) matches nothing, and does
not affect other terms.
"""

import re
from collections.abc import Iterable
from typing import Final

import numpy as np

from slackwater.model.columns import Mask
from slackwater.model.ids import NodeName
from slackwater.model.pod_constraints import NodeSelectorTerm
from slackwater.model.selectors import Requirement, whole_number
from slackwater.snapshot.node_facts import ABSENT, LabelColumn, NodeFacts
from slackwater.snapshot.row_journal import Selection

#: The only node field that a term may select by.
NAME_FIELD: Final = "metadata.name"
_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", re.ASCII)


def rows_of_terms(facts: NodeFacts, terms: Iterable[NodeSelectorTerm], rows: Selection, *, fields: bool = True) -> Mask:
    """Which rows match at least one of the terms. Without `fields`, requirements on node fields are ignored."""
    matching = np.zeros(facts.n_rows, np.bool_)[rows]
    for term in terms:
        matching |= rows_of_term(facts, term, rows, fields=fields)
    return matching


def rows_of_term(facts: NodeFacts, term: NodeSelectorTerm, rows: Selection, *, fields: bool = True) -> Mask:
    matching: Mask = np.ones(facts.n_rows, np.bool_)[rows]
    if not (term.labels or term.fields) or not is_well_formed(term):
        matching[:] = False
        return matching
    for requirement in term.labels:
        matching &= rows_of_requirement(facts, requirement, rows)
    for requirement in term.fields if fields else ():
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
