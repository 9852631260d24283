"""What a column of counts counts, and which namespaces a term of pod affinity covers.

- `PodsMatching`, `TermCarriers`: what a column counts (`snapshot.counters`).
- `carried`: the terms that a pod of an equivalence group has.
- `Namespaces`: which namespaces a term of pod affinity covers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from slackwater.model.kubernetes_rules import DEFAULT_VERSION, KubernetesVersion, Rule
from slackwater.model.pod_constraints import PodTerm
from slackwater.model.selectors import Selector, selects
from slackwater.snapshot.equivalence_groups import NumberedGroup

_NO_LABELS: Mapping[str, str] = {}


class Namespaces:
    """The namespaces with their labels: decides which of them a term of pod affinity covers. An unknown namespace has no
    labels.

    kube-scheduler decides this in two ways, and so does this class. For a term of an existing pod, kube-scheduler looks up the
    labels of the incoming pod's namespace. For a term of the incoming pod, it lists the selected namespaces. Before 1.37 it
    then applies the selector once more to empty labels: a selector that selects an unlabelled namespace (NotIn, DoesNotExist)
    therefore covers every namespace (`Rule.NAMESPACES_LISTED`).
    """

    def __init__(self, labels: Mapping[str, Mapping[str, str]], kubernetes: KubernetesVersion = DEFAULT_VERSION) -> None:
        self._labels = dict(labels)
        self._listed = kubernetes.follows(Rule.NAMESPACES_LISTED)
        self._reached: dict[PodTerm, frozenset[str] | None] = {}

    def of_incoming(self, term: PodTerm) -> frozenset[str] | None:
        """The namespaces whose pods a term of the incoming pod counts; None for all."""
        if term.namespace_selector is None:
            return frozenset(term.namespaces)
        if not term.namespace_selector or (not self._listed and selects(term.namespace_selector, _NO_LABELS)):
            return None
        if term not in self._reached:
            selected = [name for name, labels in self._labels.items() if selects(term.namespace_selector, labels)]
            self._reached[term] = frozenset((*term.namespaces, *selected))
        return self._reached[term]

    def reached_by_existing(self, term: PodTerm, namespace: str) -> bool:
        """Whether a term of an existing pod covers pods of this namespace."""
        if namespace in term.namespaces:
            return True
        return selects(term.namespace_selector, self._labels.get(namespace, _NO_LABELS))


@dataclass(frozen=True, slots=True)
class PodsMatching:
    """The pods that match every part. A part is (namespaces, selector); namespaces of None stand for all. With `living`, pods
    that are being deleted do not match."""

    parts: tuple[tuple[frozenset[str] | None, Selector], ...]
    living: bool = False

    def weight(self, numbered: NumberedGroup) -> int:
        if self.living and numbered.deleting:
            return 0
        namespace = numbered.kind.namespace
        return int(
            all(
                (namespaces is None or namespace in namespaces) and selects(selector, numbered.labels)
                for namespaces, selector in self.parts
            )
        )

    def pairs(self) -> tuple[tuple[str, str], ...] | None:
        """Labels of which a pod must have at least one to match; None if no such list can be given."""
        return next((found for _, selector in self.parts if (found := label_pairs(selector)) is not None), None)


#: anti: required anti-affinity. affinity: required affinity. preferred: preferred affinity and anti-affinity, by weight.
Role = Literal["anti", "affinity", "preferred"]


@dataclass(frozen=True, slots=True)
class TermCarriers:
    """The pods that have a certain term of pod affinity or anti-affinity; a pod with a preferred term counts by the term's
    weight."""

    role: Role
    term: PodTerm


def carried(numbered: NumberedGroup) -> Mapping[TermCarriers, int]:
    """Every term of pod affinity or anti-affinity of an equivalence group, with what a pod of the group counts by it."""
    asks = numbered.asks
    found: dict[TermCarriers, int] = {}
    terms = chain(
        ((TermCarriers("anti", term), 1) for term in asks.anti_affinity),
        ((TermCarriers("affinity", term), 1) for term in asks.affinity),
        ((TermCarriers("preferred", weighted.term), weighted.weight) for weighted in asks.preferred_pods),
    )
    for key, weight in terms:
        found[key] = found.get(key, 0) + weight
    return found


def label_pairs(selector: Selector) -> tuple[tuple[str, str], ...] | None:
    """Labels of which a pod must have at least one to match the selector; None if no such list can be given."""
    for requirement in selector or ():
        if requirement.operator == "In":
            return tuple((requirement.key, value) for value in requirement.values)
    return () if selector is None else None
