"""Finds what a pending pod names and the cluster does not have, where a slip of the fingers is the likely cause.

- Labels of nodes: a node selector, a required node affinity, or the topology key of a required pod affinity or of a hard spread
  constraint wants a key or a value that neither nodes nor templates of node groups have.
- StorageClasses: a claim that has no volume names a class that does not exist, and no volume has that class either.
- Other names: claims, nodes, extended resources, labels of the pods that a required pod affinity selects, and tolerations of
  which no taint is tolerated while a node has nearly that taint.

A finding says what may have been meant. There is one only if something has nearly the same name, but for StorageClasses. Where
the pod is what has to change, there is the change that writes the name right, to be tried like any other.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Final

import numpy as np

from slackwater.explain.explain_input import Change
from slackwater.explain.findings import MOST_OBJECTS, Finding, PodQuery, of_reason
from slackwater.explain.node_findings import taint_text
from slackwater.fit.plugins.node_resources import lacking_everywhere
from slackwater.fit.plugins.taint_toleration import tolerated
from slackwater.model.ids import Row
from slackwater.model.kubernetes_rules import Rule
from slackwater.model.near_names import near_name
from slackwater.model.objects import Node, Taint
from slackwater.model.pod_constraints import Kind, NodeSelectorTerm, PodConstraints, PodTerm, Toleration
from slackwater.model.reasons import WaitReason
from slackwater.model.selectors import Requirement, selects

#: Of a pod that names more of one sort, the first are looked at: an affinity may list thousands of values.
_MOST_NAMES: Final = 32
#: A required label: its key, and its value or None if any value will do.
_Label = tuple[str, str | None]
#: The labels that there are: the values by key.
_Known = Mapping[str, Set[str]]
#: The effects that keep pods away.
_KEEPING: Final = frozenset({"NoSchedule", "NoExecute"})
#: Taints of which a pod has tolerations that the API server adds.
_OF_KUBERNETES: Final = "node.kubernetes.io/"


@dataclass(frozen=True, slots=True)
class Slip:
    """Something that the pod names wrongly. `change` writes it right; None if the pod is not what has to change."""

    finding: Finding
    change: Change | None = None


def misspelt(asked: PodQuery) -> list[Slip]:
    """What the pod names wrongly, classes first."""
    nodes = _nodes(asked)
    by_names = (*_labels(asked, nodes), *_node_names(asked, nodes), *_resources(asked, nodes), *_taints(asked, nodes))
    return [*_classes(asked), *_claims(asked), *by_names, *_labels_of_pods(asked)]


def _nodes(asked: PodQuery) -> list[Node]:
    """The nodes, and what new nodes of the groups look like."""
    facts = asked.snapshot.facts
    nodes = [facts.nodes[row] for row in np.flatnonzero(facts.live[: facts.n_rows]).tolist()]
    return nodes + [each.template.node for each in asked.explain_input.groups.values() if each.template is not None]


def _slip(
    asked: PodQuery, reason: WaitReason, what: str, wrong: str, right: str, *, edit: Callable[[Kind], Kind] | None = None
) -> Slip:
    finding = of_reason(reason, objects=(f"{what} {wrong}",), detail=f"did you mean {right}?")
    words = f"let pod {asked.pod.key} want {what} {right} in place of {wrong}"
    return Slip(finding, None if edit is None else asked.edit_kind(words, edit))


# --- storage --------------------------------------------------------------------------------------------------------------


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


def _claims(asked: PodQuery) -> Iterator[Slip]:
    """Claims of the pod that do not exist. The pod's volumes cannot be changed, so there is no change to try."""
    table, namespace = asked.snapshot.volumes, asked.pod.key.namespace
    own = [mount.claim for mount in asked.asks.claims if mount.owner is None and table.claim((namespace, mount.claim)) is None]
    known = sorted(name for of, name in table.objects.claims or {} if of == namespace) if own else []
    for claim in own[:_MOST_NAMES]:
        if (near := near_name(claim, known)) is not None:
            yield _slip(asked, WaitReason.NAME_UNKNOWN, "claim", f"{namespace}/{claim}", f"{namespace}/{near}")


# --- what nodes have ------------------------------------------------------------------------------------------------------


def _labels(asked: PodQuery, nodes: Sequence[Node]) -> Iterator[Slip]:
    wanted = [*islice(dict.fromkeys(_required(asked)), _MOST_NAMES)]
    known = _values_of(node.labels for node in nodes) if wanted else {}
    for label in wanted:
        if (meant := _meant(known, *label)) is not None:
            edit = _corrected_on_nodes(label, meant)
            yield _slip(asked, WaitReason.LABEL_UNKNOWN, "label", _text(label), _text(meant), edit=edit)


def _required(asked: PodQuery) -> Iterator[_Label]:
    """The labels of nodes that the pod requires."""
    kind = asked.pod.kind
    yield from kind.node_selector
    for term in kind.node_affinity or ():
        yield from _of_requirements(term.labels)
    yield from ((each.topology_key, None) for each in asked.asks.spread if each.hard)
    yield from ((each.topology_key, None) for each in asked.asks.affinity)


def _of_requirements(requirements: Sequence[Requirement]) -> Iterator[_Label]:
    for requirement in requirements:
        if requirement.operator == "In":
            yield from ((requirement.key, value) for value in requirement.values)
        elif requirement.operator == "Exists":
            yield requirement.key, None


def _values_of(labels: Iterable[Mapping[str, str]]) -> _Known:
    found: dict[str, set[str]] = {}
    for each in labels:
        for key, value in each.items():
            found.setdefault(key, set()).add(value)
    return found


def _meant(known: _Known, key: str, value: str | None) -> _Label | None:
    """The label that was likely meant; None if there is this one, or none that is nearly the same."""
    if key in known:
        near = None if value is None else near_name(value, sorted(known[key]))
        return None if near is None else (key, near)
    near = near_name(key, sorted(known))
    if near is None or value is None:
        return None if near is None else (near, None)
    fitting = value if value in known[near] else near_name(value, sorted(known[near]))
    return None if fitting is None else (near, fitting)


def _text(label: _Label) -> str:
    key, value = label
    return key if value is None else f"{key}={value}"


def _corrected(requirement: Requirement, wrong: _Label, right: _Label) -> Requirement:
    if requirement.key != wrong[0]:
        return requirement
    if requirement.operator == "Exists" and wrong[1] is None:
        return Requirement(right[0], "Exists", ())
    if requirement.operator != "In" or wrong[1] not in requirement.values:
        return requirement
    values = dict.fromkeys(right[1] or "" if value == wrong[1] else value for value in requirement.values)
    return Requirement(right[0], "In", tuple(values))


def _corrected_on_nodes(wrong: _Label, right: _Label) -> Callable[[Kind], Kind]:
    def key(topology_key: str) -> str:
        return right[0] if (topology_key, None) == wrong else topology_key

    def constraints(asks: PodConstraints) -> PodConstraints:
        spread = tuple(replace(each, topology_key=key(each.topology_key)) for each in asks.spread)
        affinity = tuple(replace(each, topology_key=key(each.topology_key)) for each in asks.affinity)
        return replace(asks, spread=spread, affinity=affinity)

    def edit(kind: Kind) -> Kind:
        terms, asks = kind.node_affinity, kind.pod_constraints
        if terms is not None:
            terms = tuple(
                NodeSelectorTerm(tuple(_corrected(each, wrong, right) for each in term.labels), term.fields) for term in terms
            )
        selector = tuple((right[0], right[1] or "") if pair == wrong else pair for pair in kind.node_selector)
        return replace(
            kind,
            node_selector=selector,
            node_affinity=terms,
            pod_constraints=None if asks is None else constraints(asks),
        )

    return edit


def _node_names(asked: PodQuery, nodes: Sequence[Node]) -> Iterator[Slip]:
    """Nodes that a required node affinity names by their field metadata.name, and that do not exist."""
    terms = asked.pod.kind.node_affinity or ()
    wanted = dict.fromkeys(name for term in terms for each in term.fields if each.operator == "In" for name in each.values)
    known = sorted(node.name for node in nodes) if wanted else []
    for name in islice(wanted, _MOST_NAMES):
        if (near := near_name(name, known)) is not None:
            yield _slip(asked, WaitReason.NAME_UNKNOWN, "nodeName", name, near, edit=_named_node(name, near))


def _named_node(wrong: str, right: str) -> Callable[[Kind], Kind]:
    def term(each: NodeSelectorTerm) -> NodeSelectorTerm:
        fields = (
            Requirement(field.key, field.operator, tuple(right if name == wrong else name for name in field.values))
            for field in each.fields
        )
        return NodeSelectorTerm(each.labels, tuple(fields))

    return lambda kind: replace(kind, node_affinity=tuple(map(term, kind.node_affinity or ())))


def _resources(asked: PodQuery, nodes: Sequence[Node]) -> Iterator[Slip]:
    """Resources that no node offers."""
    lacked = lacking_everywhere(asked.snapshot, asked.numbered)
    known = sorted({name for node in nodes for name, _ in node.scalars}) if lacked else []
    for name in lacked[:_MOST_NAMES]:
        if (near := near_name(name, known)) is not None:
            yield _slip(asked, WaitReason.NAME_UNKNOWN, "resource", name, near, edit=_asking(name, near))


def _asking(wrong: str, right: str) -> Callable[[Kind], Kind]:
    def edit(kind: Kind) -> Kind:
        asks = kind.pod_constraints
        assert asks is not None, wrong
        amounts: dict[str, int] = {}
        for name, amount in asks.scalars:
            resource = right if name == wrong else name
            amounts[resource] = amounts.get(resource, 0) + amount
        devices = tuple(replace(each, resource=right) if each.resource == wrong else each for each in asks.container_devices)
        return replace(kind, pod_constraints=replace(asks, scalars=tuple(sorted(amounts.items())), container_devices=devices))

    return edit


def _taints(asked: PodQuery, nodes: Sequence[Node]) -> Iterator[Slip]:
    """Tolerations of no taint that any node has, while a node has nearly this taint and the pod does not tolerate it."""
    tolerations, comparing = asked.pod.kind.tolerations, asked.snapshot.facts.kubernetes.follows(Rule.COMPARING_TOLERATIONS)
    taints = list(dict.fromkeys(taint for node in nodes for taint in node.taints)) if tolerations else []

    def tolerates(toleration: Toleration, taint: Taint) -> bool:
        return tolerated(taint, (toleration,), comparing=comparing)

    keeping = [taint for taint in taints if taint.effect in _KEEPING]
    repelling = [taint for taint in keeping if not tolerated(taint, tolerations, comparing=comparing)]
    for toleration in tolerations[:_MOST_NAMES]:
        if not toleration.key or any(tolerates(toleration, taint) for taint in taints):
            continue
        for taint in repelling:
            meant = next((each for each in _nearly(toleration, taint) if tolerates(each, taint)), None)
            if meant is not None:
                wrong = taint_text(Taint(key=toleration.key, value=toleration.value, effect=toleration.effect))
                edit = _tolerating(toleration, meant)
                yield _slip(asked, WaitReason.NAME_UNKNOWN, "toleration", wrong, taint_text(taint), edit=edit)
                break


def _nearly(toleration: Toleration, taint: Taint) -> Iterator[Toleration]:
    """The toleration with one of its parts as the taint has it, where the two differ by a slip."""
    if near_name(toleration.key, (taint.key,)) is not None:
        yield replace(toleration, key=taint.key)
    if toleration.key != taint.key or toleration.key.startswith(_OF_KUBERNETES):
        return
    if near_name(toleration.value, (taint.value,)) is not None:
        yield replace(toleration, value=taint.value)
    yield replace(toleration, effect=taint.effect)


def _tolerating(wrong: Toleration, right: Toleration) -> Callable[[Kind], Kind]:
    return lambda kind: replace(kind, tolerations=tuple(right if each == wrong else each for each in kind.tolerations))


# --- what other pods have -------------------------------------------------------------------------------------------------


def _labels_of_pods(asked: PodQuery) -> Iterator[Slip]:
    """Labels in a required pod affinity that selects no pod at all."""
    for term in asked.asks.affinity[:_MOST_NAMES]:
        known = _labels_where_none_is_selected(asked, term)
        for label in islice(_of_requirements(term.selector or ()), _MOST_NAMES):
            if known is not None and (meant := _meant(known, *label)) is not None:
                edit = _corrected_of_pods(label, meant)
                yield _slip(asked, WaitReason.NAME_UNKNOWN, "podLabel", _text(label), _text(meant), edit=edit)


def _labels_where_none_is_selected(asked: PodQuery, term: PodTerm) -> _Known | None:
    """The labels of the pods in the term's namespaces; None if the term selects one of them, or this pod itself."""
    facts, namespaces = asked.snapshot.facts, asked.snapshot.namespaces.of_incoming(term)
    running = (
        running_pod.pod
        for row in np.flatnonzero(facts.live[: facts.n_rows]).tolist()
        for running_pod in asked.explain_input.running_pods.on(Row(row))
    )
    found = dict.fromkeys(
        pod.labels
        for pod in chain(asked.explain_input.pending.values(), running)
        if namespaces is None or pod.key.namespace in namespaces
    )
    labels = [*map(dict[str, str], found)]
    return None if any(selects(term.selector, each) for each in labels) else _values_of(labels)


def _corrected_of_pods(wrong: _Label, right: _Label) -> Callable[[Kind], Kind]:
    def term(each: PodTerm) -> PodTerm:
        selector = each.selector
        return replace(each, selector=None if selector is None else tuple(_corrected(part, wrong, right) for part in selector))

    def edit(kind: Kind) -> Kind:
        asks = kind.pod_constraints
        assert asks is not None, wrong
        return replace(kind, pod_constraints=replace(asks, affinity=tuple(map(term, asks.affinity))))

    return edit
