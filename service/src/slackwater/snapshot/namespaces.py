"""Which namespaces a term of pod affinity speaks about.

kube-scheduler 1.36 answers this differently in its two directions, and so do we. For the terms of existing pods the
labels of the incoming pod's namespace are looked up. For the terms of the incoming pod the selected namespaces are
listed, and then the selector is tried once more on empty labels: one that selects an unlabelled namespace (NotIn,
DoesNotExist) therefore reaches every namespace.
"""

from collections.abc import Mapping

from slackwater.model.pod_constraints import PodTerm
from slackwater.model.selectors import selects

_NO_LABELS: Mapping[str, str] = {}


class Namespaces:
    """Namespaces with their labels; one that is not known has none."""

    def __init__(self, labels: Mapping[str, Mapping[str, str]]) -> None:
        self._labels = dict(labels)
        self._reached: dict[PodTerm, frozenset[str] | None] = {}

    def of_incoming(self, term: PodTerm) -> frozenset[str] | None:
        """The namespaces whose pods a term of the pod to be placed counts; None for all."""
        if term.namespace_selector is None:
            return frozenset(term.namespaces)
        if selects(term.namespace_selector, _NO_LABELS):
            return None
        if term not in self._reached:
            selected = [name for name, labels in self._labels.items() if selects(term.namespace_selector, labels)]
            self._reached[term] = frozenset((*term.namespaces, *selected))
        return self._reached[term]

    def reached_by_existing(self, term: PodTerm, namespace: str) -> bool:
        """Does a term of a pod that is placed already speak about pods of this namespace?"""
        if namespace in term.namespaces:
            return True
        return selects(term.namespace_selector, self._labels.get(namespace, _NO_LABELS))
