"""Decodes node affinity, pod affinity and topology spread, completed the way the API server completes them.

`matchLabelKeys` and `mismatchLabelKeys` become requirements on the values of the pod's own labels. A term without namespaces
selects pods of the pod's own namespace. The API server has already added the label requirements to pods that it stored; adding
them twice changes nothing.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from slackwater.adapters.kube.wire import (
    AffinityWire,
    NodeSelectorTermWire,
    PodAffinityWire,
    PodTermWire,
    RequirementWire,
    SelectorWire,
    SpreadWire,
)
from slackwater.model.objects import Labels
from slackwater.model.pod_constraints import NodeSelectorTerm, PodTerm, SpreadConstraint, WeightedNodeTerm, WeightedPodTerm
from slackwater.model.selectors import Requirement, Selector

_AFFINITY: Final = msgspec.json.Decoder(AffinityWire | None)
_SPREAD: Final = msgspec.json.Decoder(list[SpreadWire] | None)
_NULL: Final = b"null"
#: How many distinct JSON texts of affinities are cached; each pod of a DaemonSet has its own text, with its node's name.
_CACHED_AFFINITIES: Final = 8_192


class Affinities(NamedTuple):
    """A decoded affinity: what it requires and prefers of nodes, and its terms about pods, still undecoded.

    The terms about pods also depend on the pod's namespace and labels. `nodes` is None if no node affinity is required.
    """

    nodes: tuple[NodeSelectorTerm, ...] | None = None
    preferred_nodes: tuple[WeightedNodeTerm, ...] = ()
    together: PodAffinityWire | None = None
    apart: PodAffinityWire | None = None


_NONE: Final = Affinities()


class PodTerms(NamedTuple):
    """The pod affinity, anti-affinity and preferred terms of a pod. Preferred anti-affinity has negative weights."""

    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    preferred: tuple[WeightedPodTerm, ...] = ()


@lru_cache(maxsize=_CACHED_AFFINITIES)
def read_affinity(raw: bytes) -> Affinities:
    """Decodes the JSON of an affinity, cached by its text. Raises msgspec's errors."""
    affinity = _AFFINITY.decode(raw)
    if affinity is None:
        return _NONE
    nodes = affinity.node_affinity
    required = None if nodes is None or nodes.required is None else nodes.required.node_selector_terms or ()
    preferred = () if nodes is None else nodes.preferred or ()
    return Affinities(
        nodes=None if required is None else tuple(map(node_term, required)),
        preferred_nodes=tuple(WeightedNodeTerm(p.weight, node_term(p.preference)) for p in preferred),
        together=affinity.pod_affinity,
        apart=affinity.pod_anti_affinity,
    )


def node_term(wire: NodeSelectorTermWire) -> NodeSelectorTerm:
    return NodeSelectorTerm(requirements(wire.match_expressions), requirements(wire.match_fields))


@lru_cache(maxsize=_CACHED_AFFINITIES)
def pod_terms(raw: bytes, namespace: str, labels: Labels) -> PodTerms:
    """Decodes the pod terms of an affinity. To share cached values, pass labels only if `reads_labels` is true for it."""
    affinities, own = read_affinity(raw), dict(labels)
    together, apart = affinities.together or PodAffinityWire(), affinities.apart or PodAffinityWire()

    def weighted(wire: PodAffinityWire, sign: int) -> tuple[WeightedPodTerm, ...]:
        wires = wire.preferred or ()
        return tuple(WeightedPodTerm(sign * w.weight, _pod_term(w.pod_affinity_term, namespace, own)) for w in wires)

    return PodTerms(
        affinity=tuple(_pod_term(term, namespace, own) for term in together.required or ()),
        anti_affinity=tuple(_pod_term(term, namespace, own) for term in apart.required or ()),
        preferred=weighted(together, 1) + weighted(apart, -1),
    )


def reads_labels(affinities: Affinities) -> bool:
    """True if some term depends on the pod's own labels."""
    return any(
        term.match_label_keys or term.mismatch_label_keys
        for wire in (affinities.together, affinities.apart)
        if wire is not None
        for term in (*(wire.required or ()), *(w.pod_affinity_term for w in wire.preferred or ()))
    )


def _pod_term(wire: PodTermWire, namespace: str, labels: Mapping[str, str]) -> PodTerm:
    selector = selector_of(wire.label_selector)
    selector = _with_keys(selector, "In", wire.match_label_keys or (), labels)
    selector = _with_keys(selector, "NotIn", wire.mismatch_label_keys or (), labels)
    own_only = not wire.namespaces and wire.namespace_selector is None
    return PodTerm(
        topology_key=wire.topology_key,
        selector=selector,
        namespaces=(namespace,) if own_only else tuple(sorted(set(wire.namespaces or ()))),
        namespace_selector=selector_of(wire.namespace_selector),
    )


def spread_constraints(raw: bytes, labels: Labels) -> tuple[SpreadConstraint, ...]:
    """Decodes the JSON of the topology spread constraints of a pod with these labels. Raises msgspec's errors."""
    if raw == _NULL:
        return ()
    reads = any(wire.match_label_keys for wire in _spread_wires(raw))
    return _spread_constraints(raw, labels if reads else ())


@lru_cache(maxsize=_CACHED_AFFINITIES)
def _spread_constraints(raw: bytes, labels: Labels) -> tuple[SpreadConstraint, ...]:
    own = dict(labels)
    return tuple(_spread_constraint(wire, own) for wire in _spread_wires(raw))


@lru_cache(maxsize=_CACHED_AFFINITIES)
def _spread_wires(raw: bytes) -> list[SpreadWire]:
    return _SPREAD.decode(raw) or []


def _spread_constraint(wire: SpreadWire, labels: Mapping[str, str]) -> SpreadConstraint:
    return SpreadConstraint(
        hard=wire.when_unsatisfiable != "ScheduleAnyway",
        max_skew=wire.max_skew,
        topology_key=wire.topology_key,
        selector=_with_keys(selector_of(wire.label_selector), "In", wire.match_label_keys or (), labels),
        min_domains=1 if wire.min_domains is None else wire.min_domains,
        honor_affinity=wire.node_affinity_policy != "Ignore",
        honor_taints=wire.node_taints_policy == "Honor",
    )


def _with_keys(selector: Selector, operator: str, keys: Iterable[str], labels: Mapping[str, str]) -> Selector:
    if selector is None:
        return None
    more = (Requirement(key, operator, (labels[key],)) for key in keys if key in labels)
    return (*selector, *(requirement for requirement in more if requirement not in selector))


def selector_of(wire: SelectorWire | None) -> Selector:
    if wire is None:
        return None
    exact = sorted((wire.match_labels or {}).items())
    return (*(Requirement(key, "In", (value,)) for key, value in exact), *requirements(wire.match_expressions))


def requirements(wires: Iterable[RequirementWire] | None) -> tuple[Requirement, ...]:
    return tuple(Requirement(r.key, r.operator, tuple(r.values or ())) for r in wires or ())
