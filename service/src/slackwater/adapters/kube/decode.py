"""Decodes the API's JSON into `model.objects`: nodes, disruption budgets, and pods, whose `Kind` (equivalence group) is
interned.

Each event source has its own decoder instance, which keeps the values that equal objects share (kinds, labels, texts) and no
JSON. All functions raise `ValueError` for an object they cannot read (msgspec's errors and `QuantityError` are ValueErrors);
the caller skips and reports such an object.
"""

from dataclasses import dataclass, field
from typing import Final, TypeVar
from weakref import WeakValueDictionary

import msgspec

from slackwater.adapters.api_objects import ConditionWire, ObjectDecoder, ObjectMetaWire
from slackwater.adapters.kube.eviction_facts import (
    DEFAULT_GRACE_SECONDS,
    EvictionFactsReader,
    instant_of,
    overdue_at,
    time_text,
)
from slackwater.adapters.kube.pod_constraints import images, pod_constraints, read_affinity, selector_of
from slackwater.adapters.kube.pod_requests import Ask, missing_request, read_amounts, resize_pending, whole
from slackwater.adapters.kube.pod_signature import plain_signature
from slackwater.adapters.kube.structs import (
    AnnotationsWire,
    BudgetSpecWire,
    BudgetStatusWire,
    BudgetWire,
    IdentityWire,
    MetaWire,
    NodeStatusWire,
    NodeWire,
    PodWire,
    TolerationWire,
)
from slackwater.adapters.kube.vertical import read_vertical
from slackwater.model.ids import NodeName, PodKey, PodUid
from slackwater.model.interning import Shared, cached_texts
from slackwater.model.kubernetes_rules import DEFAULT_VERSION, KubernetesVersion
from slackwater.model.objects import BudgetRule, DisruptionBudget, Image, Labels, Node, Pod, Taint, read_owner, read_preempting
from slackwater.model.pod_constraints import Kind, KindInterner, Toleration
from slackwater.model.resources import LARGEST_AMOUNT, LARGEST_ON_NODE, Amounts, on_node, rounded_up
from slackwater.model.vertical import Vertical
from slackwater_protocol.durations import DurationError, parse_duration, seconds
from slackwater_protocol.names import CORDONED, DELAY_DELETION_GROUP, DO_NOT_DISRUPT, SCALE_DOWN_DISABLED

NamedMeta = TypeVar("NamedMeta", MetaWire, ObjectMetaWire)

_NODE: Final = ObjectDecoder(NodeWire)
_BUDGET: Final = ObjectDecoder(BudgetWire)
_POD: Final = ObjectDecoder(PodWire)
_TOLERATIONS: Final = ObjectDecoder(list[TolerationWire])
_IDENTITY: Final = ObjectDecoder(IdentityWire)

_CREATED: Final = "metadata.creationTimestamp"
#: Phases of pods that have ended and use no resources any more.
ENDED: Final = frozenset({"Succeeded", "Failed"})
#: How many messages of schedulers are cached: many pods share the latest few, and none needs the old ones.
_PHRASES: Final = 4_096
#: The `unhealthyPodEvictionPolicy` with which a budget lets every pod go that is not ready.
_ALWAYS_ALLOW: Final = "AlwaysAllow"
#: How many distinct lists of tolerations are cached, and the greatest length of their JSON.
_CACHED_SPECS: Final = 2_048
_LONGEST_SPEC: Final = 2_048


def read_meta(raw: bytes | msgspec.Raw) -> MetaWire:
    """Decodes only the metadata of an object. Raises ValueError.

    Used for deleted objects, for bookmarks, and for objects that cannot be decoded as a whole.
    """
    return _IDENTITY.decode(raw).metadata


#: Digits of a resource version: an unsigned 64-bit number has up to twenty.
_MOST_DIGITS: Final = 20
_LARGEST_VERSION: Final = 2**63 - 1
#: Limit of digits in a budget's number of pods.
_COUNT_DIGITS: Final = 9


def version_number(text: str) -> int:
    """A resource version as a number; 0, which is older than every other version, if the text is not a number."""
    return min(int(text), _LARGEST_VERSION) if text.isdecimal() and text.isascii() and len(text) <= _MOST_DIGITS else 0


@dataclass(slots=True)
class NodeDecoder:
    """Decodes the JSON of a Node into a `Node`."""

    _texts: Shared[str] = field(default_factory=Shared)

    def decode(self, raw: bytes | msgspec.Raw) -> Node:
        """Decodes one node. Raises ValueError."""
        wire = _NODE.decode(raw)
        meta, status = _named(wire.metadata), wire.status
        share, annotations = self._texts.share, meta.annotations or {}
        allocatable, scalars = _allocatable(status)
        return Node(
            name=NodeName(share(meta.name)),
            uid=meta.uid,
            resource_version=version_number(meta.resource_version),
            allocatable=allocatable,
            labels={share(key): share(value) for key, value in (meta.labels or {}).items()},
            taints=tuple(Taint(share(t.key), share(t.value), share(t.effect)) for t in wire.spec.taints or ()),
            unschedulable=wire.spec.unschedulable,
            ready=any(c.type == "Ready" and c.status == "True" for c in status.conditions or ()),
            scalars=scalars,
            images=self._images(status),
            features=tuple(map(share, status.declared_features or ())),
            provider_id=wire.spec.provider_id,
            created_at=None if meta.creation_timestamp is None else instant_of(_CREATED, meta.creation_timestamp),
            keep=next((name for name in (SCALE_DOWN_DISABLED, DO_NOT_DISRUPT) if annotations.get(name) == "true"), ""),
            deletion_delayed=any(name.startswith(f"{DELAY_DELETION_GROUP}/") for name in annotations),
            cordoned_by_us=CORDONED in annotations,
            owned_by=read_owner(annotations),
        )

    def _images(self, status: NodeStatusWire) -> tuple[Image, ...]:
        share = self._texts.share
        return tuple(
            Image(tuple(map(share, image.names or ())), min(image.size_bytes, LARGEST_AMOUNT)) for image in status.images or ()
        )


_NO_ANNOTATIONS: Final = AnnotationsWire()


@dataclass(slots=True)
class PodDecoder:
    """Decodes the JSON of a Pod into a `Pod`; pods of one equivalence group share its `Kind`."""

    kinds: KindInterner
    #: What a pod requests depends on the version while the pod is resized.
    kubernetes: KubernetesVersion = DEFAULT_VERSION
    #: Kinds of plain pods by namespace and pod signature, while anybody uses them: most pods equal an earlier one.
    _plain: WeakValueDictionary[tuple[str, tuple[object, ...]], Kind] = field(default_factory=WeakValueDictionary)
    _names: Shared[str] = field(default_factory=Shared)
    _labels: Shared[Labels] = field(default_factory=lambda: Shared(unit=1))
    _phrases: Shared[str] = field(default_factory=lambda: Shared(_PHRASES))
    _eviction_facts: EvictionFactsReader = field(default_factory=EvictionFactsReader)

    def decode(self, raw: bytes | msgspec.Raw) -> Pod:
        """Decodes one pod. Raises ValueError."""
        wire = _POD.decode(raw)
        meta, spec, status = _named(wire.metadata), wire.spec, wire.status
        notes = meta.annotations or _NO_ANNOTATIONS
        namespace = self._names.share(meta.namespace)
        labels = self._labels.share(tuple(sorted(meta.labels.items()))) if meta.labels else ()
        unschedulable, ready, disruption = _conditions(status.conditions)
        vertical, vertical_problem = _vertical(wire, self.kubernetes)
        exempt = vertical is not None
        kind = self._kind(namespace, labels, wire, exempt=exempt)
        return Pod(
            uid=PodUid(meta.uid),
            key=PodKey(namespace, meta.name),
            resource_version=version_number(meta.resource_version),
            labels=labels,
            kind=kind,
            successor=self._successor(kind, labels, wire, exempt=exempt),
            node=self._node_name(spec.node_name),
            ended=status.phase in ENDED,
            starting=status.phase == "Pending",
            deleting=meta.deletion_timestamp is not None,
            priority=spec.priority or 0,
            created_at=time_text(_CREATED, meta.creation_timestamp),
            started_at=time_text("status.startTime", status.start_time),
            nominated_node=self._node_name(status.nominated_node_name),
            unschedulable_message=None if unschedulable is None else self._phrases.share(unschedulable),
            vertical=vertical,
            vertical_problem=vertical_problem,
            eviction_facts=self._eviction_facts.read(wire),
            ready=ready,
            overdue_at=overdue_at(wire),
            grace_seconds=_grace_seconds(wire),
            preempting=read_preempting(notes.preempting),
            gates=tuple(gate.name for gate in spec.scheduling_gates) if spec.scheduling_gates else (),
            scale_up_delay_seconds=_delay(notes.scale_up_delay),
            preemption_delay_seconds=_delay(notes.preemption_delay) or 0.0,
            provisioning_request=notes.provisioning_request or notes.provisioning_request_old or "",
            disruption=disruption,
        )

    def _kind(self, namespace: str, labels: Labels, wire: PodWire, *, exempt: bool) -> Kind:
        """The pod's `Kind`. `exempt`: the pod grows in place, so it needs no requests: it counts by its own annotations."""
        plain = plain_signature(wire)
        if plain is None or exempt:
            return self.kinds.intern(_kind(namespace, labels, wire, self.kubernetes, exempt=exempt))
        key = (namespace, plain)
        kind = self._plain.get(key)
        if kind is None:
            kind = self.kinds.intern(_kind(namespace, labels, wire, self.kubernetes))
            if kind.packed_rules is None:  # else the signature would keep what was packed
                self._plain[key] = kind
        return kind

    def _successor(self, kind: Kind, labels: Labels, wire: PodWire, *, exempt: bool) -> Kind | None:
        if not wire.spec.node_name or resize_pending(wire.status) != "Infeasible":
            return None
        new_kind = self.kinds.intern(_kind(kind.namespace, labels, wire, self.kubernetes, exempt=exempt, granted=True))
        return None if new_kind == kind else new_kind

    def _node_name(self, name: str) -> NodeName | None:
        return NodeName(self._names.share(name)) if name else None


def _grace_seconds(wire: PodWire) -> int:
    """How long the pod may take to terminate: by its deletion if that has begun, else by its spec."""
    begun, spec = wire.metadata.deletion_grace_period_seconds, wire.spec.termination_grace_period_seconds
    return next((said for said in (begun, spec) if said is not None), DEFAULT_GRACE_SECONDS)


def _delay(text: str | None) -> float | None:
    """The delay in seconds; None without one. A text that is no duration gives None too: a typing mistake delays nothing."""
    try:
        return None if text is None else seconds(parse_duration(text))
    except DurationError:
        return None


def _vertical(wire: PodWire, kubernetes: KubernetesVersion) -> tuple[Vertical | None, str | None]:
    """Returns the pod's vertical limits and None, or None and why the limits cannot be read.

    The rest of a pod with unreadable limits is decoded, since the pod must still count on its node.
    """
    try:
        return read_vertical(wire, kubernetes), None
    except ValueError as error:
        return None, str(error)


def decode_budget(raw: bytes | msgspec.Raw) -> DisruptionBudget:
    """Decodes the JSON of a PodDisruptionBudget. Raises ValueError."""
    wire = _BUDGET.decode(raw)
    meta, status = _named(wire.metadata), wire.status or BudgetStatusWire()
    healthy, rule = status.current_healthy >= status.desired_healthy > 0, _budget_rule(wire.spec)
    return DisruptionBudget(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=version_number(meta.resource_version),
        selector=selector_of(wire.spec.selector),
        disruptions_allowed=status.disruptions_allowed or 0,
        unready_may_go=healthy or wire.spec.unhealthy_pod_eviction_policy == _ALWAYS_ALLOW,
        is_counted=status.observed or rule is None,
        disrupted=tuple(sorted(status.disrupted_pods or ())),
        rule=rule or _NO_DISRUPTION,
        lacking=max(status.desired_healthy - status.current_healthy, 0),
    )


#: What a budget without a rule comes to.
_NO_DISRUPTION: Final = BudgetRule(amount=0, percent=False, unavailable=True)


def _budget_rule(spec: BudgetSpecWire) -> BudgetRule | None:
    """The rule of a budget, from minAvailable or maxUnavailable; None if neither is set, so that no disruption is allowed.

    Like the disruption controller, it prefers maxUnavailable.
    """
    unavailable = spec.max_unavailable is not None
    said = spec.max_unavailable if unavailable else spec.min_available
    if said is None:
        return None
    percent = isinstance(said, str)
    digits = str(said).removesuffix("%")
    digits = digits.lstrip("0") or digits[:1]
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _COUNT_DIGITS) or percent != str(said).endswith("%"):
        key = "maxUnavailable" if unavailable else "minAvailable"
        raise ValueError(f"spec.{key}: got {said!r:.40}, want a number of pods or a percentage")
    return BudgetRule(amount=int(digits), percent=percent, unavailable=unavailable)


def _named(meta: NamedMeta) -> NamedMeta:
    if not meta.name or not meta.uid:
        raise ValueError(f"metadata has name {meta.name!r} and uid {meta.uid!r}, want both")
    return meta


def _allocatable(status: NodeStatusWire) -> tuple[Amounts, tuple[tuple[str, int], ...]]:
    """The node's allocatable CPU and memory, and its other allocatable resources as pairs of name and amount."""
    reported = status.capacity if bytes(status.allocatable) == b"null" else status.allocatable
    found = read_amounts(reported)
    amounts = on_node(rounded_up(cpu_nanos=found.cpu or 0, memory_nanos=found.memory or 0))
    return amounts, tuple((name, min(whole(nanos), LARGEST_ON_NODE)) for name, nanos in found.rest)


def _kind(
    namespace: str,
    labels: Labels,
    wire: PodWire,
    kubernetes: KubernetesVersion,
    *,
    exempt: bool = False,
    granted: bool = False,
) -> Kind:
    spec = wire.spec
    ask = Ask(wire, kubernetes, placed=bool(spec.node_name), granted=granted)
    affinities = read_affinity(bytes(spec.affinity))
    return Kind(
        namespace=namespace,
        requests=ask.requests(),
        node_selector=tuple(sorted(spec.node_selector.items())) if spec.node_selector else (),
        node_affinity=affinities.nodes,
        tolerations=_tolerations(bytes(spec.tolerations)),
        scheduler_name=spec.scheduler_name,
        preempts=spec.preemption_policy != "Never",
        missing_request=None if exempt else missing_request(spec, kubernetes),
        images=images(wire),
        pod_constraints=pod_constraints(wire, namespace, labels, affinities, ask, kubernetes=kubernetes),
    )


@cached_texts(most=_CACHED_SPECS, longest=_LONGEST_SPEC)
def _tolerations(raw: bytes) -> tuple[Toleration, ...]:
    wires = () if raw == b"null" else _TOLERATIONS.decode(raw)
    return tuple(Toleration(t.key, t.operator or "Equal", t.value, t.effect) for t in wires)


def _conditions(conditions: list[ConditionWire] | None) -> tuple[str | None, bool, str | None]:
    """Reads a pod's conditions. Returns the message of a failed scheduling attempt, readiness, and the reason of a disruption.

    A message or reason that the conditions do not have is None. A pod without a condition `Ready` is ready.
    """
    message, ready, disruption = None, True, None
    for condition in conditions or ():
        if condition.type == "Ready":
            ready = condition.status == "True"
        elif condition.type == "PodScheduled" and condition.status == "False" and condition.reason == "Unschedulable":
            message = condition.message
        elif condition.type == "DisruptionTarget" and condition.status == "True":
            disruption = f"{condition.reason}: {condition.message}"
    return message, ready, disruption
