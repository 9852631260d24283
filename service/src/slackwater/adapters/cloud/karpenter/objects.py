"""Karpenter's NodePools and NodeClaims (karpenter.sh/v1): what is read of them, and the calls that read and write them."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import field

from slackwater.adapters.api_calls import ApiCalls, ApiReads, ask, get
from slackwater.adapters.api_objects import (
    ConditionWire,
    Int32,
    ListWire,
    ObjectDecoder,
    ObjectWire,
    Quantity,
    RequirementWire,
    Wire,
)
from slackwater.adapters.cloud.apiserver import CREATED, NOT_FOUND, OK, Undecoded, listed, refusal
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import NODE_POOL
from slackwater.ports.protocols import ProviderError
from slackwater_protocol.units import parse_nanos

_VERSION: Final = "v1"
_API_GROUP_PATH: Final = "/apis/karpenter.sh"
POOLS_PATH: Final = f"{_API_GROUP_PATH}/{_VERSION}/nodepools"
CLAIMS_PATH: Final = f"{_API_GROUP_PATH}/{_VERSION}/nodeclaims"
#: Events about objects without a namespace are in this one.
EVENTS_NAMESPACE: Final = "default"
EVENTS_PATH: Final = f"/api/v1/namespaces/{EVENTS_NAMESPACE}/events"
#: The reason of the Event after which Karpenter deletes the NodeClaim.
HOPELESS: Final = "InsufficientCapacityError"
#: Statuses of a successful deletion. 202: the NodeClaim has finalizers and is being deleted; 409: it is gone, and another one
#: has its name.
_DELETED: Final = frozenset({OK, 202, NOT_FOUND, 409})


class TaintWire(Wire, omit_defaults=True):
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeClassWire(Wire):
    group: str = ""
    kind: str = ""
    name: str = ""


class SpecWire(Wire):
    """Of a NodeClaim, and of a NodePool's template."""

    requirements: list[RequirementWire] | None = None
    taints: list[TaintWire] | None = None
    startup_taints: list[TaintWire] | None = None
    node_class_ref: NodeClassWire = field(default_factory=NodeClassWire)
    termination_grace_period: str | None = None
    expire_after: str | None = None


class TemplateWire(ObjectWire):
    spec: SpecWire = field(default_factory=SpecWire)


class BudgetWire(Wire):
    nodes: str = "10%"
    reasons: list[str] | None = None
    schedule: str | None = None
    duration: str | None = None


class DisruptionWire(Wire):
    consolidate_after: str = "0s"
    consolidation_policy: str = "WhenEmptyOrUnderutilized"
    budgets: list[BudgetWire] | None = None


class _PoolSpecWire(Wire):
    template: TemplateWire = field(default_factory=TemplateWire)
    disruption: DisruptionWire = field(default_factory=DisruptionWire)
    limits: dict[str, Quantity] | None = None
    weight: Int32 = 0
    replicas: int | None = None


class PoolWire(ObjectWire):
    spec: _PoolSpecWire = field(default_factory=_PoolSpecWire)


class _ClaimStatusWire(Wire):
    provider_id: str = field(name="providerID", default="")
    node_name: str = ""
    capacity: dict[str, Quantity] | None = None
    allocatable: dict[str, Quantity] | None = None
    conditions: list[ConditionWire] | None = None


class ClaimWire(ObjectWire):
    """`unreadable`, which is no field of the API: what of the NodeClaim cannot be read, and is left out; "" if all can."""

    spec: SpecWire = field(default_factory=SpecWire)
    status: _ClaimStatusWire = field(default_factory=_ClaimStatusWire)
    unreadable: str = field(name="", default="")

    def condition(self, kind: str) -> ConditionWire:
        """The condition of this type; an empty one if there is none."""
        return next((each for each in self.status.conditions or () if each.type == kind), ConditionWire())


class _PlaceWire(Wire):
    provider_id: str = field(name="providerID", default="")
    node_name: str = ""


class _BareClaimWire(ObjectWire):
    """What tells which machine a NodeClaim is."""

    status: _PlaceWire = field(default_factory=_PlaceWire)


class EventWire(Wire):
    reason: str = ""
    message: str = ""


class _VersionWire(Wire):
    version: str = ""


class _ApiGroupWire(Wire):
    versions: list[_VersionWire] | None = None


_POOL: Final = ObjectDecoder(PoolWire)
_CLAIM: Final = ObjectDecoder(ClaimWire)
_BARE_CLAIM: Final = ObjectDecoder(_BareClaimWire)
_GROUP: Final = ObjectDecoder(_ApiGroupWire)
_EVENTS: Final = ObjectDecoder(ListWire), ObjectDecoder(EventWire)


async def pools(api: ApiReads) -> AsyncIterator[PoolWire | Undecoded]:
    """All NodePools. Raises `ProviderError`, also if the API server has Karpenter's types in other versions alone."""
    found = False
    async for each in listed(api, POOLS_PATH, PoolWire):
        found = True
        yield each
    if not found and (answer := await get(api, _API_GROUP_PATH)).status == OK:
        served = [each.version for each in _GROUP.decode(answer.body).versions or ()]
        if _VERSION not in served:
            detail = (
                f"NodePools: the API server has {', '.join(served)} of karpenter.sh, want {_VERSION} (Karpenter 1.0 or newer)"
            )
            raise ProviderError("other", None, detail)


async def claims(api: ApiReads, pool: str | None = None) -> AsyncIterator[ClaimWire | Undecoded]:
    """All NodeClaims, or those of one NodePool. One is `Undecoded` if not even its machine can be told."""
    async for each in listed(api, CLAIMS_PATH, ClaimWire, selector="" if pool is None else f"{NODE_POOL}={pool}"):
        yield _bare(each) if isinstance(each, Undecoded) else _checked(each)


def _checked(claim: ClaimWire) -> ClaimWire:
    """The NodeClaim without amounts that are none."""
    status = claim.status
    try:
        nanos(status.capacity)
        nanos(status.allocatable)
    except ValueError as error:
        claim.unreadable = f"status: {error}"
        status.capacity = status.allocatable = None
    return claim


def _bare(undecoded: Undecoded) -> ClaimWire | Undecoded:
    try:
        place = _BARE_CLAIM.decode(undecoded.raw).status
    except (msgspec.MsgspecError, RecursionError):
        return undecoded
    status = _ClaimStatusWire(provider_id=place.provider_id, node_name=place.node_name)
    return ClaimWire(metadata=undecoded.metadata, status=status, unreadable=undecoded.problem)


def nanos(amounts: Mapping[str, Quantity] | None) -> dict[str, int]:
    """Amounts in 10^-9 units. Raises ValueError, which names the resource."""
    found = {}
    for name, amount in (amounts or {}).items():
        try:
            found[name] = int(parse_nanos(amount))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    return found


async def pool(api: ApiReads, group: GroupName, name: str) -> PoolWire | None:
    body = await _object(api, group, f"{POOLS_PATH}/{name}", f"NodePool {name}")
    return None if body is None else _POOL.decode(body)


async def claim(api: ApiReads, group: GroupName, name: str) -> ClaimWire | None:
    body = await _object(api, group, f"{CLAIMS_PATH}/{name}", f"NodeClaim {name}")
    return None if body is None else _CLAIM.decode(body)


async def _object(api: ApiReads, group: GroupName, path: str, title: str) -> bytes | None:
    """The object at the path; None if there is none. Raises `ProviderError`."""
    answer = await get(api, path)
    if answer.status == NOT_FOUND:
        return None
    if answer.status != OK:
        raise refusal(group, f"get {title}", answer)
    return answer.body


async def failure(api: ApiReads, name: str) -> EventWire | None:
    """Why the launch of a NodeClaim was hopeless: Karpenter deletes it then, and only an Event says so. None: no such Event."""
    selector = f"involvedObject.kind=NodeClaim,involvedObject.name={name},reason={HOPELESS}"
    answer = await get(api, EVENTS_PATH, params={"fieldSelector": selector})
    if answer.status != OK:
        raise refusal(None, f"list {EVENTS_PATH}", answer)
    page, event = _EVENTS
    found = [event.decode(each) for each in page.decode(answer.body).items or ()]
    return found[-1] if found else None


async def create(api: ApiCalls, group: GroupName, body: Mapping[str, Any]) -> bool:
    """Creates a NodeClaim. False: there is one of this name."""
    answer = await ask(api, "POST", CLAIMS_PATH, body=body)
    if answer.status == 409:
        return False
    if answer.status != CREATED:
        raise refusal(group, f"create NodeClaim {body['metadata']['name']}", answer)
    return True


async def delete(api: ApiCalls, group: GroupName, item: ClaimWire, *, unchanged: bool = False) -> bool:
    """Deletes a NodeClaim. With `unchanged` it does nothing, and returns False, if the NodeClaim was written since it was
    read."""
    meta = item.metadata
    only = {"uid": meta.uid} | ({"resourceVersion": meta.resource_version} if unchanged else {})
    answer = await ask(api, "DELETE", f"{CLAIMS_PATH}/{meta.name}", body={"preconditions": only})
    if unchanged and answer.status == 409:
        return False
    if answer.status not in _DELETED:
        raise refusal(group, f"delete NodeClaim {meta.name}", answer)
    return True


def encoded(wires: list[TaintWire] | None) -> list[dict[str, str]]:
    """Taints as JSON values."""
    found: list[dict[str, str]] = msgspec.to_builtins(wires or [])
    return found
