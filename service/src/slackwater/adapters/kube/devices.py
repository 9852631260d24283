"""Decodes objects of dynamic resource allocation (resource.k8s.io/v1) into `model.devices`.

All functions raise ValueError for an object that they cannot read. They leave out the fields of feature gates that are off.
Before Kubernetes 1.36 most gates of dynamic resource allocation are off by default, and an API server drops their fields when
an object is created (pkg/registry/resource). A file from a newer cluster may have them. One such field stays:
`distinctAttribute`, at which kube-scheduler without the gate fails (`fit.devices`).
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeVar

import msgspec

from slackwater.adapters.api_objects import ObjectDecoder, Quantity
from slackwater.adapters.kube.device_structs import (
    AskWire,
    AttributeWire,
    CapacityWire,
    CelSelectorWire,
    ClaimSpecWire,
    ClaimTemplateWire,
    ClaimWire,
    ClassWire,
    ConstraintWire,
    CounterWire,
    DeviceStatusWire,
    DeviceWire,
    PolicyWire,
    RangeWire,
    RequestWire,
    ResultWire,
    SliceSpecWire,
    SliceWire,
    TaintRuleWire,
    TaintSelectorWire,
)
from slackwater.adapters.kube.pod_constraints import node_term
from slackwater.adapters.kube.structs import NodeSelectorWire
from slackwater.model.devices import (
    AllocatedDevice,
    Allocation,
    Attribute,
    Capacity,
    ClaimSpec,
    CounterSet,
    Device,
    DeviceAsk,
    DeviceClass,
    DeviceConstraint,
    DeviceId,
    DeviceRequest,
    DeviceTaintRule,
    DeviceTaintSelector,
    NodeChoice,
    RequestPolicy,
    ResourceClaim,
    ResourceSlice,
    Version,
)
from slackwater.model.kubernetes_rules import DEFAULT_VERSION, KubernetesVersion, Rule
from slackwater.model.pod_constraints import NodeSelectorTerm
from slackwater_protocol.units import is_integer_text, parse_nanos

#: The gates whose fields an API server drops while they are off.
_GATED: Final = (Rule.PARTITIONABLE_DEVICES, Rule.DEVICE_TAINTS, Rule.BINDING_CONDITIONS, Rule.CONSUMABLE_CAPACITY)
_Gates = frozenset[Rule]
V = TypeVar("V", SliceWire, ClassWire, ClaimWire, ClaimTemplateWire)
_API: Final = "resource.k8s.io/v1"
#: The versions of the API that serve DeviceTaintRules: since 1.37, in 1.36, and before. Their fields are equal.
TAINT_RULE_APIS: Final = (_API, "resource.k8s.io/v1beta2", "resource.k8s.io/v1alpha3")
_EXTENDED_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"
_STABLE_SINCE: Final = 37
_BETA_SINCE: Final = 36
_SLICE: Final = ObjectDecoder(SliceWire)
_TAINT_RULE: Final = ObjectDecoder(TaintRuleWire)
_CLASS: Final = ObjectDecoder(ClassWire)
_CLAIM: Final = ObjectDecoder(ClaimWire)
_TEMPLATE: Final = ObjectDecoder(ClaimTemplateWire)


def _of_v1(wire: V) -> V:
    """Checks that the object is of version v1, and returns it.

    Objects of beta versions have other fields; reading them as v1 would lose devices silently.
    """
    if wire.api_version not in ("", _API):
        raise ValueError(f"got apiVersion {wire.api_version}, want {_API} (kubectl get resourceslices.v1.resource.k8s.io)")
    return wire


@lru_cache
def _gates(kubernetes: KubernetesVersion) -> _Gates:
    """Those of `_GATED` that are on."""
    return frozenset(filter(kubernetes.follows, _GATED))


# --- slices -----------------------------------------------------------------------------------------------------------------


def decode_slice(raw: bytes | msgspec.Raw, kubernetes: KubernetesVersion = DEFAULT_VERSION) -> ResourceSlice:
    """Decodes a ResourceSlice. If the slice names its nodes in no way that is known, no node can use it."""
    wire, on = _of_v1(_SLICE.decode(raw)), _gates(kubernetes)
    spec, partitioned = wire.spec, Rule.PARTITIONABLE_DEVICES in on
    per_device = bool(spec.per_device_node_selection) and partitioned
    counters = tuple(CounterSet(each.name, _counters(each.counters)) for each in spec.shared_counters or ())
    return ResourceSlice(
        name=wire.metadata.name,
        driver=spec.driver,
        pool=spec.pool.name,
        generation=spec.pool.generation,
        slices=spec.pool.resource_slice_count,
        nodes=_choice(spec),
        per_device=per_device,
        devices=tuple(_device(device, on, per_device=per_device) for device in spec.devices or ()),
        counters=counters if partitioned else (),
    )


def _device(wire: DeviceWire, on: _Gates, *, per_device: bool) -> Device:
    consumes = tuple(CounterSet(each.counter_set, _counters(each.counters)) for each in wire.consumes_counters or ())
    shared, binds = Rule.CONSUMABLE_CAPACITY in on, Rule.BINDING_CONDITIONS in on
    return Device(
        name=wire.name,
        attributes=tuple((name, _attribute(value)) for name, value in sorted((wire.attributes or {}).items())),
        capacity=tuple(_capacity(name, value, shared=shared) for name, value in sorted((wire.capacity or {}).items())),
        taints=tuple(wire.taints or ()) if Rule.DEVICE_TAINTS in on else (),
        consumes=consumes if Rule.PARTITIONABLE_DEVICES in on else (),
        nodes=_choice(wire) if per_device else None,
        shareable=bool(wire.allow_multiple_allocations) and shared,
        binds_to_node=bool(wire.binds_to_node) and binds,
        binding=tuple(wire.binding_conditions) if wire.binding_conditions is not None and binds else None,
        failures=tuple(wire.binding_failure_conditions or ()) if binds else (),
    )


def _choice(wire: SliceSpecWire | DeviceWire) -> NodeChoice:
    return NodeChoice(name=wire.node_name or "", every=bool(wire.all_nodes), terms=_terms(wire.node_selector))


def _terms(wire: NodeSelectorWire | None) -> tuple[NodeSelectorTerm, ...] | None:
    return None if wire is None else tuple(map(node_term, wire.node_selector_terms or ()))


def _attribute(wire: AttributeWire) -> Attribute:
    if wire.int_ is not None:
        return wire.int_
    if wire.bool_ is not None:
        return wire.bool_
    if wire.string is not None:
        return wire.string
    return None if wire.version is None else Version(wire.version)


def _capacity(name: str, wire: CapacityWire, *, shared: bool) -> Capacity:
    policy = wire.request_policy if shared else None
    amount = parse_nanos(wire.value)
    return Capacity(
        name=name,
        amount=amount,
        policy=None if policy is None else _policy(policy),
        unreduced=amount % 10**9 == 0 and not is_integer_text(wire.value),
    )


def _policy(wire: PolicyWire) -> RequestPolicy:
    span = wire.valid_range or RangeWire()
    return RequestPolicy(
        default=_nanos(wire.default),
        values=tuple(map(parse_nanos, wire.valid_values or ())),
        ranged=wire.valid_range is not None,
        least=_nanos(span.min),
        most=_nanos(span.max),
        step=_step(span.step),
    )


def _nanos(quantity: Quantity | None) -> int | None:
    return None if quantity is None else parse_nanos(quantity)


def _step(quantity: Quantity | None) -> int | None:
    step = _nanos(quantity)
    if step is not None and step <= 0:
        raise ValueError(f"a step of {quantity!r}, want more than 0")
    return step


def _counters(wire: Mapping[str, CounterWire] | None) -> tuple[tuple[str, int], ...]:
    return tuple((name, parse_nanos(counter.value)) for name, counter in sorted((wire or {}).items()))


# --- rules of taints --------------------------------------------------------------------------------------------------------


def taint_rule_api(kubernetes: KubernetesVersion) -> str:
    """The version of the API by which kube-scheduler of this version reads DeviceTaintRules."""
    stable, beta, alpha = TAINT_RULE_APIS
    return stable if kubernetes.minor >= _STABLE_SINCE else beta if kubernetes.minor >= _BETA_SINCE else alpha


def decode_device_taint_rule(raw: bytes | msgspec.Raw, kubernetes: KubernetesVersion = DEFAULT_VERSION) -> DeviceTaintRule:
    """A DeviceTaintRule. Selectors by class and by CEL expression, which only Kubernetes 1.34 has, are refused: read without
    them the rule would taint more devices than it does."""
    wire = _TAINT_RULE.decode(raw)
    if wire.api_version not in ("", *TAINT_RULE_APIS):
        raise ValueError(f"got apiVersion {wire.api_version:.60}, want one of {', '.join(TAINT_RULE_APIS)}")
    return DeviceTaintRule(
        name=wire.metadata.name, taint=wire.spec.taint, selector=_taint_selector(wire.spec.device_selector, kubernetes)
    )


def _taint_selector(wire: TaintSelectorWire | None, kubernetes: KubernetesVersion) -> DeviceTaintSelector | None:
    if wire is None:
        return None if kubernetes.follows(Rule.NO_SELECTOR_TAINTS_NOTHING) else DeviceTaintSelector()
    if wire.device_class_name is not None or wire.selectors:
        raise ValueError("spec.deviceSelector has deviceClassName or selectors, want driver, pool and device only")
    return DeviceTaintSelector(wire.driver, wire.pool, wire.device)


# --- classes, claims, templates ---------------------------------------------------------------------------------------------


def decode_device_class(raw: bytes | msgspec.Raw, kubernetes: KubernetesVersion = DEFAULT_VERSION) -> DeviceClass:
    wire = _of_v1(_CLASS.decode(raw))
    backs = kubernetes.follows(Rule.DEVICE_CLASS_RESOURCES)
    return DeviceClass(
        name=wire.metadata.name,
        selectors=_expressions(wire.spec.selectors),
        extended_resource=wire.spec.extended_resource_name if backs else None,
        created=wire.metadata.creation_timestamp or "",
    )


def decode_resource_claim(raw: bytes | msgspec.Raw, kubernetes: KubernetesVersion = DEFAULT_VERSION) -> ResourceClaim:
    wire, on = _of_v1(_CLAIM.decode(raw)), _gates(kubernetes)
    meta, status, allocation = wire.metadata, wire.status, wire.status.allocation
    results = [] if allocation is None else allocation.devices.results or []
    return ResourceClaim(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        spec=_spec(wire.spec, on),
        allocation=None
        if allocation is None
        else Allocation(devices=tuple(_allocated(result, on) for result in results), terms=_terms(allocation.node_selector)),
        users=tuple(user.uid for user in status.reserved_for or ()),
        owner=next((owner.uid for owner in meta.owner_references or () if owner.controller), None),
        deleting=meta.deletion_timestamp is not None,
        failed=Rule.BINDING_CONDITIONS in on and _has_failed(results, status.devices or ()),
        extended=(meta.annotations or {}).get(_EXTENDED_CLAIM) == "true",
    )


def decode_claim_template(raw: bytes | msgspec.Raw, kubernetes: KubernetesVersion = DEFAULT_VERSION) -> ClaimSpec:
    """Decodes a ResourceClaimTemplate: the spec of the claims that are made from it."""
    return _spec(_of_v1(_TEMPLATE.decode(raw)).spec.spec, _gates(kubernetes))


def _spec(wire: ClaimSpecWire, on: _Gates) -> ClaimSpec:
    devices = wire.devices
    return ClaimSpec(
        requests=tuple(_request(request, on) for request in devices.requests or ()),
        constraints=tuple(map(_constraint, devices.constraints or ())),
    )


def _request(wire: RequestWire, on: _Gates) -> DeviceRequest:
    if wire.exactly is not None:
        return DeviceRequest(name=wire.name, asks=(_ask(wire.exactly, wire.name, on),))
    if not wire.first_available:
        raise ValueError(f"request {wire.name!r} has neither exactly nor firstAvailable, want one of them")
    asks = tuple(_ask(ask, ask.name, on) for ask in wire.first_available)
    return DeviceRequest(name=wire.name, asks=asks, alternatives=True)


def _ask(wire: AskWire, name: str, on: _Gates) -> DeviceAsk:
    if wire.allocation_mode not in ("", "ExactCount", "All"):
        raise ValueError(f"allocationMode {wire.allocation_mode!r} of request {name!r}, want ExactCount or All")
    if not wire.device_class_name:
        raise ValueError(f"request {name!r} names no device class, want one")
    consumes = (wire.capacity.requests if wire.capacity else None) or {}
    return DeviceAsk(
        name=name,
        class_name=wire.device_class_name,
        selectors=_expressions(wire.selectors),
        count=None if wire.allocation_mode == "All" else wire.count or 1,
        admin=bool(wire.admin_access),
        tolerations=tuple(wire.tolerations or ()),
        consumes=_amounts(consumes) if Rule.CONSUMABLE_CAPACITY in on else (),
    )


def _expressions(selectors: list[CelSelectorWire] | None) -> tuple[str, ...]:
    return tuple(selector.cel.expression for selector in selectors or ())


def _constraint(wire: ConstraintWire) -> DeviceConstraint:
    attribute = wire.match_attribute if wire.match_attribute is not None else wire.distinct_attribute
    if attribute is None:
        raise ValueError("a constraint has neither matchAttribute nor distinctAttribute, want one of them")
    return DeviceConstraint(attribute=attribute, distinct=wire.match_attribute is None, requests=tuple(wire.requests or ()))


def _amounts(quantities: Mapping[str, Quantity]) -> tuple[tuple[str, int], ...]:
    return tuple((name, parse_nanos(quantity)) for name, quantity in sorted(quantities.items()))


def _allocated(wire: ResultWire, on: _Gates) -> AllocatedDevice:
    shared, binds = Rule.CONSUMABLE_CAPACITY in on, Rule.BINDING_CONDITIONS in on
    return AllocatedDevice(
        request=wire.request,
        device=DeviceId(wire.driver, wire.pool, wire.device),
        admin=bool(wire.admin_access),
        share=wire.share_id if shared else None,
        consumed=_amounts(wire.consumed_capacity or {}) if shared else (),
        binding=tuple(wire.binding_conditions or ()) if binds else (),
        failures=tuple(wire.binding_failure_conditions or ()) if binds else (),
    )


def _has_failed(results: Sequence[ResultWire], statuses: Sequence[DeviceStatusWire]) -> bool:
    """True if an allocated device with binding conditions reports one of its binding failure conditions.

    As in kube-scheduler, devices are checked in order, and the first whose binding conditions are not all true ends the check.
    """
    by_device = {(s.driver, s.pool, s.device, s.share_id): s for s in reversed(statuses)}
    for each in results:
        if not each.binding_conditions:
            continue
        status = by_device.get((each.driver, each.pool, each.device, each.share_id))
        if status is None:
            return False
        true = {condition.type for condition in status.conditions or () if condition.status == "True"}
        if true & set(each.binding_failure_conditions or ()):
            return True
        if not set(each.binding_conditions) <= true:
            return False
    return False
