"""The API's JSON into `model.objects`: nodes, disruption budgets, and pods with their kind interned.

One decoder instance serves one feed: it keeps what equal objects share (kinds, labels, texts), and nothing of the JSON.
All raise `ValueError` for an object they cannot read (msgspec's errors and `QuantityError` are such); the caller skips
and reports it.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import msgspec

from slackwater.edge.kube.ask import missing_request, pod_requests
from slackwater.edge.kube.shared import Shared
from slackwater.edge.kube.wire import (
    AffinityWire,
    AmountsWire,
    BudgetWire,
    ConditionWire,
    IdentityWire,
    MetaWire,
    NodeWire,
    PodWire,
    RequirementWire,
    SelectorWire,
    TolerationWire,
)
from slackwater.model.ids import NodeName, PodKey, PodUid
from slackwater.model.kinds import Kind, KindInterner, Toleration
from slackwater.model.objects import DisruptionBudget, Labels, Node, Pod, Taint
from slackwater.model.particulars import NodeSelectorTerm
from slackwater.model.resources import Amounts
from slackwater.model.selectors import Requirement
from slackwater_protocol.units import byte_count, milli_cpu

_NODE: Final = msgspec.json.Decoder(NodeWire)
_BUDGET: Final = msgspec.json.Decoder(BudgetWire)
_POD: Final = msgspec.json.Decoder(PodWire)
_AFFINITY: Final = msgspec.json.Decoder(AffinityWire | None)
_TOLERATIONS: Final = msgspec.json.Decoder(list[TolerationWire] | None)
_IDENTITY: Final = msgspec.json.Decoder(IdentityWire)

#: Texts of schedulers and times: many pods share the latest few, none needs the old ones.
_PHRASES: Final = 4_096
#: Distinct affinities, and tolerations, that are kept read; a DaemonSet brings one affinity for each node.
_CACHED_SPECS: Final = 8_192


def read_meta(raw: bytes | msgspec.Raw) -> MetaWire:
    """Name, namespace, UID and version alone: of a deleted object, of a bookmark, of one that cannot be read whole.

    Raises ValueError.
    """
    return _IDENTITY.decode(raw).metadata


#: Of a resource version: an unsigned 64-bit number has twenty.
_MOST_DIGITS: Final = 20


def version_number(text: str) -> int:
    """A resource version as a number; 0 where it is none, which is then older than every other."""
    return int(text) if text.isdecimal() and text.isascii() and len(text) <= _MOST_DIGITS else 0


@dataclass(slots=True)
class NodeDecoder:
    """JSON of a Node into `Node`."""

    _texts: Shared[str] = field(default_factory=Shared)

    def decode(self, raw: bytes | msgspec.Raw) -> Node:
        """Raises ValueError."""
        wire = _NODE.decode(raw)
        meta, status = _named(wire.metadata), wire.status
        share = self._texts.share
        return Node(
            name=NodeName(share(meta.name)),
            uid=meta.uid,
            resource_version=version_number(meta.resource_version),
            allocatable=_allocatable(status.allocatable, status.capacity),
            labels={share(key): share(value) for key, value in (meta.labels or {}).items()},
            taints=tuple(Taint(share(t.key), share(t.value), share(t.effect)) for t in wire.spec.taints or ()),
            unschedulable=wire.spec.unschedulable,
            ready=any(c.type == "Ready" and c.status == "True" for c in status.conditions or ()),
        )


@dataclass(slots=True)
class PodDecoder:
    """JSON of a Pod into `Pod`; pods of one kind share it."""

    kinds: KindInterner
    _names: Shared[str] = field(default_factory=Shared)
    _labels: Shared[Labels] = field(default_factory=Shared)
    _phrases: Shared[str] = field(default_factory=lambda: Shared(_PHRASES))

    def decode(self, raw: bytes | msgspec.Raw) -> Pod:
        """Raises ValueError."""
        wire = _POD.decode(raw)
        meta, spec, status = _named(wire.metadata), wire.spec, wire.status
        namespace = self._names.share(meta.namespace)
        unschedulable = _unschedulable_message(status.conditions)
        return Pod(
            uid=PodUid(meta.uid),
            key=PodKey(namespace, meta.name),
            resource_version=version_number(meta.resource_version),
            labels=self._labels.share(tuple(sorted(meta.labels.items()))) if meta.labels else (),
            kind=self.kinds.intern(_kind(namespace, wire)),
            node=self._node_name(spec.node_name),
            ended=status.phase in ("Succeeded", "Failed"),
            deleting=meta.deletion_timestamp is not None,
            priority=spec.priority or 0,
            created_at=self._phrases.share(meta.creation_timestamp or ""),
            started_at=self._phrases.share(status.start_time or ""),
            nominated_node=self._node_name(status.nominated_node_name),
            unschedulable_message=None if unschedulable is None else self._phrases.share(unschedulable),
        )

    def _node_name(self, name: str) -> NodeName | None:
        return NodeName(self._names.share(name)) if name else None


def decode_budget(raw: bytes | msgspec.Raw) -> DisruptionBudget:
    """JSON of a PodDisruptionBudget. Raises ValueError."""
    wire = _BUDGET.decode(raw)
    meta = _named(wire.metadata)
    return DisruptionBudget(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=version_number(meta.resource_version),
        selector=_selector(wire.spec.selector),
        disruptions_allowed=wire.status.disruptions_allowed,
    )


def _named(meta: MetaWire) -> MetaWire:
    if not meta.name or not meta.uid:
        raise ValueError(f"metadata has name {meta.name!r} and uid {meta.uid!r}, want both")
    return meta


def _allocatable(allocatable: AmountsWire | None, capacity: AmountsWire | None) -> Amounts:
    found = allocatable or capacity or AmountsWire()
    return Amounts(milli_cpu(found.cpu or 0), byte_count(found.memory or 0))


def _kind(namespace: str, wire: PodWire) -> Kind:
    spec = wire.spec
    return Kind(
        namespace=namespace,
        requests=pod_requests(wire),
        node_selector=tuple(sorted(spec.node_selector.items())) if spec.node_selector else (),
        node_affinity=_node_affinity(bytes(spec.affinity)),
        tolerations=_tolerations(bytes(spec.tolerations)),
        scheduler_name=spec.scheduler_name,
        preempts=spec.preemption_policy != "Never",
        missing_request=missing_request(spec),
    )


@lru_cache(maxsize=_CACHED_SPECS)
def _tolerations(raw: bytes) -> tuple[Toleration, ...]:
    return tuple(Toleration(t.key, t.operator or "Equal", t.value, t.effect) for t in _TOLERATIONS.decode(raw) or ())


@lru_cache(maxsize=_CACHED_SPECS)
def _node_affinity(raw: bytes) -> tuple[NodeSelectorTerm, ...] | None:
    affinity = _AFFINITY.decode(raw)
    if affinity is None or affinity.node_affinity is None or affinity.node_affinity.required is None:
        return None
    terms = affinity.node_affinity.required.node_selector_terms or ()
    return tuple(NodeSelectorTerm(_requirements(t.match_expressions), _requirements(t.match_fields)) for t in terms)


def _requirements(wires: list[RequirementWire] | None) -> tuple[Requirement, ...]:
    return tuple(Requirement(r.key, r.operator, tuple(r.values or ())) for r in wires or ())


def _selector(wire: SelectorWire | None) -> tuple[Requirement, ...] | None:
    if wire is None:
        return None
    exact = sorted((wire.match_labels or {}).items())
    return (*(Requirement(key, "In", (value,)) for key, value in exact), *_requirements(wire.match_expressions))


def _unschedulable_message(conditions: list[ConditionWire] | None) -> str | None:
    for condition in conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False" and condition.reason == "Unschedulable":
            return condition.message
    return None
