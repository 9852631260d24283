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
from slackwater.adapters.cloud.apiserver import CREATED, NOT_FOUND, OK, listed, refusal
from slackwater.model.nodegroups import GroupName

POOLS_PATH: Final = "/apis/karpenter.sh/v1/nodepools"
CLAIMS_PATH: Final = "/apis/karpenter.sh/v1/nodeclaims"
#: Events about objects without a namespace are in this one.
EVENTS_NAMESPACE: Final = "default"
EVENTS_PATH: Final = f"/api/v1/namespaces/{EVENTS_NAMESPACE}/events"
POOL_LABEL: Final = "karpenter.sh/nodepool"
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
    spec: SpecWire = field(default_factory=SpecWire)
    status: _ClaimStatusWire = field(default_factory=_ClaimStatusWire)

    def condition(self, kind: str) -> ConditionWire:
        """The condition of this type; an empty one if there is none."""
        return next((each for each in self.status.conditions or () if each.type == kind), ConditionWire())


class EventWire(Wire):
    reason: str = ""
    message: str = ""


_POOL: Final = ObjectDecoder(PoolWire)
_CLAIM: Final = ObjectDecoder(ClaimWire)
_EVENTS: Final = ObjectDecoder(ListWire), ObjectDecoder(EventWire)


def pools(api: ApiReads) -> AsyncIterator[PoolWire]:
    return listed(api, POOLS_PATH, PoolWire)


def claims(api: ApiReads, pool: str | None = None) -> AsyncIterator[ClaimWire]:
    """All NodeClaims, or those of one NodePool."""
    return listed(api, CLAIMS_PATH, ClaimWire, selector="" if pool is None else f"{POOL_LABEL}={pool}")


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
