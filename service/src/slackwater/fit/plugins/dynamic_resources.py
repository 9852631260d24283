"""kube-scheduler's DynamicResources: the devices that a pod's claims ask for must be free on the node.

The score prefers nodes where claims get the earlier ones of their alternatives (`firstAvailable`).

Allocated claims: the node must be among those that can use the devices. Other claims: the allocator must find devices on the
node (`fit.devices`).

Extended resources that a DeviceClass backs: on a node that offers the resource itself (by a device plug-in) nothing is claimed.
On other nodes the pod has one more claim, with a request for each container's request. Containers that end before the main
containers start share devices with each other and with later containers.

If kube-scheduler fails to judge one node (a selector reads an attribute that a device lacks), it ends the whole scheduling
cycle of the pod. So the code DEVICES_FAILED on one row concerns all rows (`fit.feasible_nodes`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.fit.devices.allocator import Allocator, Specs
from slackwater.fit.devices.search import Failure, Unallocatable
from slackwater.fit.plugins import Predicate, Refusal
from slackwater.fit.scoring import by_the_highest
from slackwater.model.columns import Codes, Int64, Rows
from slackwater.model.devices import Allocation, ClaimKey, ClaimSpec, DeviceAsk, DeviceRequest, ResourceClaim
from slackwater.model.ids import Row
from slackwater.model.kubernetes_rules import Rule
from slackwater.model.pod_constraints import ClaimUse, ContainerDevices, NodeSelectorTerm
from slackwater.model.reasons import Reason
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.device_table import DeviceTable
from slackwater.snapshot.equivalence_groups import NumberedGroup
from slackwater.snapshot.node_facts import NodeFacts
from slackwater.snapshot.node_selector import rows_of_terms
from slackwater.snapshot.row_journal import Selection

_REASONS: Final = {
    Failure.NONE_FITS: Reason.DEVICES_SHORT,
    Failure.INVALID_POOL: Reason.DEVICE_POOL_INVALID,
    Failure.FAILED: Reason.DEVICES_FAILED,
    Failure.UNSUPPORTED: Reason.DEVICES_NOT_MODELLED,
}


def needs_devices(snapshot: ClusterSnapshot, kind: NumberedGroup) -> bool:
    """Whether pods of the group use claims, or extended resources that some DeviceClass backs."""
    return bool(kind.asks.resource_claims) or bool(backed_resources(snapshot.devices, kind.asks.container_devices))


# --- claims of a pod --------------------------------------------------------------------------------------------------------


def refuse_dynamic_resources(snapshot: ClusterSnapshot, kind: NumberedGroup) -> Refusal | None:
    """The refusal of the pod on every node, if one of its claims cannot be used anywhere; else None."""
    for use in kind.asks.resource_claims:
        problem = _problem(snapshot, kind.kind.namespace, use)
        if problem is not None:
            return Refusal(Reason.RESOURCE_CLAIMS, problem)
    for claim in claims_of(snapshot, kind):
        if claim.allocation is None:
            for request, class_name in _classes(claim.spec):
                if class_name not in snapshot.devices.objects.classes:
                    text = f"request {request}: device class {class_name} does not exist"
                    return Refusal(Reason.DEVICE_CLASS_MISSING, text)
    return None


def _problem(snapshot: ClusterSnapshot, namespace: str, use: ClaimUse) -> str | None:
    if not use.claim:
        # If its template is known, the claim that will be made from the template is judged.
        if not use.template:
            return f'pod "{namespace}/{use.pod}", spec.resourceClaim "{use.name}": none of the supported fields are set'
        known = (namespace, use.template) in snapshot.devices.objects.templates
        return None if known else f'pod "{namespace}/{use.pod}": ResourceClaim not created yet'
    claim = snapshot.devices.claim((namespace, use.claim))
    if claim is None:
        return f'could not find ResourceClaim "{namespace}/{use.claim}"'
    if claim.deleting:
        return f'resourceclaim "{claim.name}" is being deleted'
    if use.template and claim.owner != use.owner:
        pod = "Pod" if snapshot.facts.kubernetes.follows(Rule.CLAIM_OWNER_CAPITALS) else "pod"
        return f"ResourceClaim {namespace}/{claim.name} was not created for {pod} {namespace}/{use.pod} ({pod} is not owner)"
    return None


def _classes(spec: ClaimSpec) -> Iterator[tuple[str, str]]:
    for request in spec.requests:
        for ask in request.asks:
            yield f"{request.name}/{ask.name}" if request.alternatives else request.name, ask.class_name


def claim_key(namespace: str, use: ClaimUse) -> ClaimKey:
    """The key of a claim. A claim that is not made yet gets a name that no object can have."""
    return namespace, use.claim or f"{use.name} of {use.owner}"


def claims_of(snapshot: ClusterSnapshot, kind: NumberedGroup) -> list[ResourceClaim]:
    """The claims that a pod of the group uses, in the order in which the pod names them, without missing ones."""
    namespace, found = kind.kind.namespace, []
    for use in kind.asks.resource_claims:
        key = claim_key(namespace, use)
        claim = snapshot.devices.claim(key)
        if claim is None and not use.claim:
            spec = snapshot.devices.objects.templates.get((namespace, use.template))
            claim = None if spec is None else ResourceClaim(namespace=namespace, name=key[1], spec=spec, owner=use.owner)
        if claim is not None:
            found.append(claim)
    return found


# --- verdicts ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _DevicesAsked:
    """What a pod's claims ask of a node: `specs` to allocate there, for each allocated claim the nodes that can use its devices
    (None: every node), and requests of extended resources. `failed`: the binding of an allocated device has failed."""

    specs: Specs
    allocated: tuple[tuple[NodeSelectorTerm, ...] | None, ...]
    failed: bool
    extended: tuple[ContainerDevices, ...]


def dynamic_resources_part(snapshot: ClusterSnapshot, kind: NumberedGroup) -> _DevicesAsked | None:
    """What the predicate reads of a pod of the group, as the key of cached verdicts; None if the pod needs no devices."""
    asks = kind.asks
    if not (asks.resource_claims or asks.container_devices) or not needs_devices(snapshot, kind):
        return None
    claims = claims_of(snapshot, kind)
    extended = backed_resources(snapshot.devices, kind.asks.container_devices)
    return _DevicesAsked(
        specs=_specs(snapshot, claims),
        allocated=tuple(claim.allocation.terms for claim in claims if claim.allocation is not None),
        failed=any(claim.failed for claim in claims),
        extended=kind.asks.container_devices if extended else (),
    )


def _specs(snapshot: ClusterSnapshot, claims: list[ResourceClaim]) -> Specs:
    allocator = Allocator.of(snapshot)
    return tuple(allocator.number(claim.spec) for claim in claims if claim.allocation is None)


def specs_on(snapshot: ClusterSnapshot, kind: NumberedGroup, row: Row) -> tuple[Specs, bool]:
    """The specs to allocate on a row, and whether the last of them is the claim for the pod's extended resources."""
    specs = _specs(snapshot, claims_of(snapshot, kind))
    return _with_extended(snapshot, kind, row, specs)


def _with_extended(snapshot: ClusterSnapshot, kind: NumberedGroup, row: Row, specs: Specs) -> tuple[Specs, bool]:
    spec = extended_spec(snapshot.devices, kind.asks.container_devices, snapshot.facts, row)
    return (specs, False) if spec is None else ((*specs, Allocator.of(snapshot).number(spec)), True)


def judge_dynamic_resources(snapshot: ClusterSnapshot, kind: NumberedGroup, rows: Selection) -> Codes:
    asked = dynamic_resources_part(snapshot, kind)
    wanted = np.arange(snapshot.n_rows)[rows]
    codes = np.zeros(len(wanted), np.uint8)
    if asked is None:
        return codes
    for terms in asked.allocated:
        if terms is not None:
            codes[~rows_of_terms(snapshot.facts, terms, wanted)] = Reason.CLAIM_ELSEWHERE
    if asked.failed:
        codes[:] = Reason.CLAIM_ELSEWHERE
    if asked.specs or asked.extended:
        for at, row in enumerate(wanted.tolist()):
            found = _unallocatable(snapshot, kind, Row(row), asked.specs)
            if found is not None:
                codes[at] = _REASONS[found.failure]
    return codes


def _unallocatable(snapshot: ClusterSnapshot, kind: NumberedGroup, row: Row, specs: Specs) -> Unallocatable | None:
    """Why the claims cannot be allocated on a row; None where they can."""
    if kind.asks.container_devices:
        specs, _ = _with_extended(snapshot, kind, row, specs)
    if not specs:
        return None
    found = Allocator.of(snapshot).on(snapshot.facts, row, specs)
    return found if isinstance(found, Unallocatable) else None


def dynamic_resources_reasons(snapshot: ClusterSnapshot, kind: NumberedGroup, row: Row, reason: Reason) -> list[str]:
    """The texts that say why the row is not feasible."""
    found = _unallocatable(snapshot, kind, row, _specs(snapshot, claims_of(snapshot, kind)))
    if found is None or found.failure not in (Failure.FAILED, Failure.UNSUPPORTED):
        return [reason.text]
    return [found.text if found.failure is Failure.FAILED else f"Slackwater: {found.text}"]


#: The API's limit of alternatives in a request. A request scores this number for its first alternative, and one less for each
#: later one.
_MOST_ALTERNATIVES: Final = 8


def alternatives_differ(snapshot: ClusterSnapshot, kind: NumberedGroup) -> bool:
    return any(request.alternatives for claim in claims_of(snapshot, kind) for request in claim.spec.requests)


def score_dynamic_resources(snapshot: ClusterSnapshot, kind: NumberedGroup, rows: Rows) -> Int64:
    if not snapshot.facts.kubernetes.follows(Rule.DEVICES_SCORED) or not alternatives_differ(snapshot, kind):
        return np.zeros(len(rows), np.int64)
    return by_the_highest(np.array([_score(snapshot, kind, Row(row)) for row in rows.tolist()], np.int64))


def _score(snapshot: ClusterSnapshot, kind: NumberedGroup, row: Row) -> int:
    """The raw score of a feasible row. As in kube-scheduler, only pods with a claim that may still have to be allocated get a
    score above 0."""
    specs, _ = specs_on(snapshot, kind, row)
    if not specs and not backed_resources(snapshot.devices, kind.asks.container_devices):
        return 0
    found = Allocator.of(snapshot).allocations(snapshot.facts, row, specs)
    if isinstance(found, Unallocatable):
        return 0
    allocations = iter(found)
    claims = claims_of(snapshot, kind)
    return sum(_score_claim(claim.spec, claim.allocation or next(allocations)) for claim in claims)


def _score_claim(spec: ClaimSpec, allocation: Allocation) -> int:
    given = {each.request for each in allocation.devices}
    return sum(
        _MOST_ALTERNATIVES - at
        for request in spec.requests
        if request.alternatives
        for at, ask in enumerate(request.asks)
        if f"{request.name}/{ask.name}" in given
    )


def backed_resources(table: DeviceTable, asked: Sequence[ContainerDevices]) -> tuple[str, ...]:
    """The requested extended resources that some DeviceClass backs, sorted."""
    if not asked:
        return ()
    return tuple(sorted({each.resource for each in asked if table.class_of(each.resource) is not None}))


def extended_spec(table: DeviceTable, asked: Sequence[ContainerDevices], facts: NodeFacts, row: Row) -> ClaimSpec | None:
    """The spec of the claim that kube-scheduler would make for the pod's extended resources on the row's node. None if the node
    offers all of them itself, so that no claim is needed."""
    backed = ((name, facts.resource.get(name)) for name in backed_resources(table, asked))
    missing = tuple(name for name, line in backed if line is None or facts.allocatable[line, row] <= 0)
    if not missing:
        return None
    specs: dict[object, ClaimSpec] = table.kept.setdefault("extended", {})
    key = (tuple(asked), missing)
    if key not in specs:
        specs[key] = _spec(table, asked, missing)
    return specs[key]


def _spec(table: DeviceTable, asked: Sequence[ContainerDevices], missing: Sequence[str]) -> ClaimSpec:
    requests: list[DeviceRequest] = []
    for resource in missing:
        found = table.class_of(resource)
        assert found is not None
        requests.extend(_requests([each for each in asked if each.resource == resource], found.name))
    return ClaimSpec(requests=tuple(sorted(requests, key=lambda request: request.name)))


def _requests(asked: Sequence[ContainerDevices], class_name: str) -> list[DeviceRequest]:
    """The claim's requests for one resource: one for each container that keeps running, and one for the most that init
    containers need beyond those."""
    lasting = [each for each in asked if not each.ends]
    found = [_request(each, each.amount, class_name) for each in lasting]
    most: tuple[int, ContainerDevices] | None = None
    for each in asked:
        if each.ends:
            more = each.amount - sum(other.amount for other in lasting if other.container >= each.container)
            if more > 0 and (most is None or more > most[0]):
                most = (more, each)
    return found if most is None else [_request(most[1], most[0], class_name), *found]


def _request(each: ContainerDevices, count: int, class_name: str) -> DeviceRequest:
    name = f"container-{each.container}-request-{each.place}"
    return DeviceRequest(name=name, asks=(DeviceAsk(name=name, class_name=class_name, count=count),))


DEVICES: Final = Predicate(
    name="DynamicResources",
    part=dynamic_resources_part,
    judge=judge_dynamic_resources,
    reads="room",
    stamp=lambda snapshot, _: (snapshot.devices.version,),  # a device that several nodes can use was allocated or released
    refuse=refuse_dynamic_resources,
)
