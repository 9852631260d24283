"""The namespaces that a term of pod affinity covers.

kube-scheduler 1.36 decides this differently in its two directions, and so does this module. For a term of an existing pod it
looks up the labels of the incoming pod's namespace. For a term of the incoming pod it lists the selected namespaces, then
applies the selector once more to empty labels: a selector that selects an unlabelled namespace (NotIn, DoesNotExist) therefore
covers every namespace.
"""

from collections.abc import Mapping

from slackwater.model.pod_constraints import PodTerm
from slackwater.model.selectors import selects

_NO_LABELS: Mapping[str, str] = {}


class Namespaces:
    """The namespaces with their labels; an unknown namespace has none."""

    def __init__(self, labels: Mapping[str, Mapping[str, str]]) -> None:
        self._labels = dict(labels)
        self._reached: dict[PodTerm, frozenset[str] | None] = {}

    def of_incoming(self, term: PodTerm) -> frozenset[str] | None:
        """The namespaces whose pods a term of the incoming pod counts; None for all."""
        if term.namespace_selector is None:
            return frozenset(term.namespaces)
        if selects(term.namespace_selector, _NO_LABELS):
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
