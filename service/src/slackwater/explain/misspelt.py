"""Finds what a pending pod names and the cluster does not have, where a slip of the fingers is the likely cause.

- Labels: a node selector or a required node affinity wants a key or a value that neither nodes nor templates of node groups
  have, and they have one that is nearly the same.
- StorageClasses: a claim that has no volume names a class that does not exist, and no volume has that class either.

A finding says what may have been meant. For a label there is the change that writes it right, to be tried like any other.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import numpy as np

from slackwater.explain.explain_input import Change
from slackwater.explain.findings import MOST_OBJECTS, Finding, PodQuery, of_reason
from slackwater.model.near_names import near_name
from slackwater.model.objects import Node
from slackwater.model.pod_constraints import Kind, NodeSelectorTerm
from slackwater.model.reasons import WaitReason
from slackwater.model.selectors import Requirement

#: Of a pod that requires more labels, the first are looked at: an affinity may list thousands of values.
_MOST_LABELS: Final = 32
#: A required label: its key, and its value or None if any value will do.
_Label = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class Slip:
    """Something that the pod names wrongly. `change` writes it right; None if the pod is not what has to change."""

    finding: Finding
    change: Change | None = None


def misspelt(asked: PodQuery) -> list[Slip]:
    """What the pod names wrongly, classes first."""
    return [*_classes(asked), *_labels(asked)]


def _classes(asked: PodQuery) -> Iterator[Slip]:
    table, namespace = asked.snapshot.volumes, asked.pod.key.namespace
    classes, volumes = table.objects.classes, table.objects.volumes
    if classes is None:
        return
    for mount in asked.asks.claims:
        claim = table.claim((namespace, mount.claim))
        if claim is None or claim.volume or not claim.storage_class or claim.storage_class in classes:
            continue
        if any(volume.storage_class == claim.storage_class for volume in (volumes or {}).values()):
            continue  # volumes made by hand name classes that need not exist
        near = near_name(claim.storage_class, classes)
        known = ", ".join(sorted(classes)[:MOST_OBJECTS]) or "none"
        detail = f"did you mean {near}?" if near else f"known are {known}"
        objects = (f"storageclass {claim.storage_class}", f"claim {namespace}/{claim.name}")
        yield Slip(of_reason(WaitReason.CLASS_UNKNOWN, objects=objects, detail=detail))


def _labels(asked: PodQuery) -> Iterator[Slip]:
    facts = asked.snapshot.facts
    nodes = [facts.nodes[row] for row in np.flatnonzero(facts.live[: facts.n_rows]).tolist()]
    nodes += [each.template.node for each in asked.explain_input.groups.values() if each.template is not None]
    for key, value in islice(dict.fromkeys(_required(asked.pod.kind)), _MOST_LABELS):
        meant = _meant(nodes, key, value)
        if meant is not None:
            wrong, right = _text(key, value), _text(*meant)
            finding = of_reason(WaitReason.LABEL_UNKNOWN, objects=(f"label {wrong}",), detail=f"did you mean {right}?")
            words = f"let pod {asked.pod.key} want label {right} in place of {wrong}"
            yield Slip(finding, asked.edit_kind(words, _corrected((key, value), meant)))


def _required(kind: Kind) -> Iterator[_Label]:
    yield from kind.node_selector
    for term in kind.node_affinity or ():
        for requirement in term.labels:
            if requirement.operator == "In":
                yield from ((requirement.key, value) for value in requirement.values)
            elif requirement.operator == "Exists":
                yield requirement.key, None


def _meant(nodes: Sequence[Node], key: str, value: str | None) -> _Label | None:
    """The label that was likely meant; None if the cluster has this one, or none that is nearly the same."""
    values = {node.labels[key] for node in nodes if key in node.labels}
    if values:
        near = None if value is None else near_name(value, sorted(values))
        return None if near is None else (key, near)
    near = near_name(key, sorted({label for node in nodes for label in node.labels}))
    if near is None:
        return None
    if value is None:
        return near, None
    values = {node.labels[near] for node in nodes if near in node.labels}
    fitting = value if value in values else near_name(value, sorted(values))
    return None if fitting is None else (near, fitting)


def _text(key: str, value: str | None) -> str:
    return key if value is None else f"{key}={value}"


def _corrected(wrong: _Label, right: _Label) -> Callable[[Kind], Kind]:
    def requirement(each: Requirement) -> Requirement:
        if each.key != wrong[0]:
            return each
        if each.operator == "Exists" and wrong[1] is None:
            return Requirement(right[0], "Exists", ())
        if each.operator != "In" or wrong[1] not in each.values:
            return each
        values = dict.fromkeys(right[1] or "" if value == wrong[1] else value for value in each.values)
        return Requirement(right[0], "In", tuple(values))

    def edit(kind: Kind) -> Kind:
        terms = kind.node_affinity
        if terms is not None:
            terms = tuple(NodeSelectorTerm(tuple(map(requirement, term.labels)), term.fields) for term in terms)
        selector = tuple((right[0], right[1] or "") if pair == wrong else pair for pair in kind.node_selector)
        return replace(kind, node_selector=selector, node_affinity=terms)

    return edit
