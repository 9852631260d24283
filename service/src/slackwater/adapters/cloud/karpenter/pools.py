"""What a NodePool says, as node groups: its variants, the template and the NodeClaim of each, its limits and options.

A group is a variant of a NodePool: an instance type in a zone, of a capacity type. The variants are those offerings of the file
of instance types that meet the NodePool's requirements, and those that its NodeClaims show. Pure functions.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import msgspec

from slackwater.adapters.cloud.karpenter.instance_types import Offering
from slackwater.adapters.cloud.karpenter.objects import BudgetWire, ClaimWire, PoolWire, encoded, nanos
from slackwater.adapters.cloud.read_groups import template_node
from slackwater.model.disruption_budgets import DisruptionReason, NodeDisruptionBudget, schedule_problem
from slackwater.model.nodegroups import GroupName, GroupOptions
from slackwater.model.objects import CAPACITY_TYPE, INSTANCE_TYPE, NODE_POOL, ZONE, Node, Taint
from slackwater.model.selectors import holds, karpenter_requirement
from slackwater_protocol.durations import SECOND, parse_duration
from slackwater_protocol.units import NANO

_NEVER: Final = "Never"
#: The resource that counts nodes in limits.
_NODES: Final = "nodes"
#: Annotations that Karpenter compares with its NodePool's: a NodeClaim with others has drifted.
_HASHES: Final = ("karpenter.sh/nodepool-hash", "karpenter.sh/nodepool-hash-version")
#: The labels of a variant. A NodeClaim names exactly one value of each.
_CHOSEN: Final = (INSTANCE_TYPE, ZONE, CAPACITY_TYPE)
_HOSTNAME: Final = "kubernetes.io/hostname"
#: Kubernetes' default of a node's pods.
_PODS: Final = 110 * NANO
#: What a NodePool without limits may have; no cluster is as large.
UNLIMITED: Final = 100_000
#: A number of nodes, or a percentage.
_BUDGET: Final = re.compile(r"[0-9]{1,9}|[0-9]{1,3}%")
_REASONS: Final[tuple[DisruptionReason, ...]] = ("Empty", "Underutilized", "Drifted", "Expired")


class VariantId(NamedTuple):
    """What tells the groups apart. An empty zone: the NodeClaim leaves it to Karpenter's provider."""

    pool: str
    type: str
    zone: str
    capacity_type: str

    @property
    def group(self) -> GroupName:
        return GroupName("/".join(self))


def read_variant_id(group: GroupName) -> VariantId | None:
    parts = group.split("/")
    return VariantId(*parts) if len(parts) == len(VariantId._fields) and parts[0] else None


def variant_of(claim: ClaimWire) -> VariantId | None:
    """The variant of a NodeClaim; None if it is not of a NodePool, or may still become one of several types."""
    labels = claim.metadata.labels or {}
    only = {
        each.key: each.values[0]
        for each in claim.spec.requirements or ()
        if each.operator == "In" and each.values is not None and len(each.values) == 1
    }
    pool, (type_, zone, capacity_type) = labels.get(NODE_POOL, ""), (labels.get(key, only.get(key, "")) for key in _CHOSEN)
    return VariantId(pool, type_, zone, capacity_type or "on-demand") if pool and type_ else None


def is_leaving(claim: ClaimWire) -> bool:
    return claim.metadata.deletion_timestamp is not None


def offerings_of(pool: PoolWire, offerings: Iterable[Offering]) -> dict[VariantId, Offering]:
    """The offerings that meet the NodePool's requirements. A requirement on a label of the user's own gives it its value, as
    in Karpenter; one on a label of Karpenter's cloud provider needs a type that has it. Raises ValueError."""
    meets, found = rule_of(pool), dict[VariantId, Offering]()
    for each in offerings:
        if meets(each):
            found.setdefault(VariantId(pool.metadata.name, each.type, each.zone, each.capacity_type), each)
    return found


def rule_of(pool: PoolWire) -> Callable[[Offering], bool]:
    """Whether a new node of an offering meets the NodePool's requirements. Raises ValueError."""
    own = _own_labels(pool)
    listed = pool.spec.template.spec.requirements or ()
    requirements = [karpenter_requirement(each.key, each.operator, each.values) for each in listed]

    def meets(offering: Offering) -> bool:
        labels = {**offering.labels, **own}
        return all(holds(one, labels) for one in requirements)

    return meets


def shown_by(claims: Iterable[ClaimWire]) -> dict[VariantId, Offering]:
    """The offerings that launched NodeClaims show. Karpenter says in their status what their nodes have."""
    found: dict[VariantId, Offering] = {}
    for claim in claims:
        id_, status = variant_of(claim), claim.status
        if id_ is None or not {"cpu", "memory"} <= (status.allocatable or {}).keys():
            continue
        allocatable = nanos(status.allocatable)
        labels = {key: value for key, value in (claim.metadata.labels or {}).items() if key != _HOSTNAME}
        capacity = allocatable | nanos(status.capacity)
        found[id_] = Offering(
            type=id_.type,
            zone=id_.zone,
            capacity_type=id_.capacity_type,
            labels=labels,
            capacity=capacity,
            allocatable=allocatable,
        )
    return found


def variants(offered: Mapping[VariantId, Offering], shown: Mapping[VariantId, Offering]) -> dict[VariantId, Offering]:
    """All variants of a NodePool. What NodeClaims show of a type counts more than the file, in other zones too; the file has
    the prices."""
    of_type = {id_.type: each for id_, each in shown.items()}
    found = {
        id_: replace(each, capacity=known.capacity, allocatable=known.allocatable)
        if (known := of_type.get(id_.type)) is not None
        else each
        for id_, each in offered.items()
    }
    for id_, each in shown.items():
        said = found.get(id_)
        found[id_] = each if said is None else replace(said, labels={**said.labels, **each.labels})
    return found


# --- new NodeClaims -------------------------------------------------------------------------------------------------------


def claim_name(id_: VariantId, seen: Iterable[str], number: int) -> str:
    """A name that is the same for everybody who sees the same machines in the group, so of two processes that grow it at the
    same time only one can."""
    digest = hashlib.sha256("\n".join([id_.group, str(number), *sorted(seen)]).encode()).hexdigest()
    return f"{id_.pool[:50].rstrip('.-')}-{digest[:12]}"


def claim_body(pool: PoolWire, id_: VariantId, name: str) -> dict[str, Any]:
    """A NodeClaim as Karpenter would make it, but for one variant only, and without an expiry: within disruption budgets, we
    replace nodes that are too old. Requirements lose their minValues, which one variant could not meet."""
    template, meta = pool.spec.template, pool.metadata
    chosen = {key: value for key, value in zip(_CHOSEN, id_[1:], strict=True) if value}
    requirements = [each for each in template.spec.requirements or () if each.key not in chosen]
    hashes = {key: value for key, value in (meta.annotations or {}).items() if key in _HASHES}
    owner = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": meta.name, "uid": meta.uid}
    said = template.spec
    spec = {
        "nodeClassRef": msgspec.to_builtins(said.node_class_ref),
        "requirements": [
            *({"key": each.key, "operator": each.operator, "values": each.values or []} for each in requirements),
            *({"key": key, "operator": "In", "values": [value]} for key, value in chosen.items()),
        ],
        "taints": encoded(said.taints),
        "startupTaints": encoded(said.startup_taints),
        "expireAfter": _NEVER,
    }
    if said.termination_grace_period is not None:
        spec["terminationGracePeriod"] = said.termination_grace_period
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": name,
            "labels": {**_own_labels(pool), **chosen},
            "annotations": {**(template.metadata.annotations or {}), **hashes},
            "ownerReferences": [{**owner, "blockOwnerDeletion": True}],
        },
        "spec": spec,
    }


def _own_labels(pool: PoolWire, *, chosen: bool = False) -> dict[str, str]:
    """The labels of each of the NodePool's nodes: those of its template, its NodeClass, and of requirements on the user's own
    labels. Of a requirement with several values it is the first; with `chosen` alone these."""
    template = pool.spec.template
    ref, requirements = template.spec.node_class_ref, template.spec.requirements or ()
    own = {one.key: one.values for one in requirements if one.operator == "In" and one.values and not _is_clouds(one.key)}
    if chosen:
        return {key: values[0] for key, values in own.items() if len(values) > 1}
    return {
        **{key: values[0] for key, values in own.items()},
        **(template.metadata.labels or {}),
        NODE_POOL: pool.metadata.name,
        f"{ref.group}/{ref.kind.lower()}": ref.name,
    }


#: Domains of the labels that Karpenter's providers know of their types.
_CLOUDS: Final = ("kubernetes.io", "k8s.io", "k8s.aws", "amazonaws.com", "azure.com", "google.com", "gke.io")


def _is_clouds(key: str) -> bool:
    """Whether a label says what a machine is, so that only its type has it."""
    domain = key.partition("/")[0] if "/" in key else ""
    return "karpenter." in domain or domain.endswith(_CLOUDS)


def template_of(pool: PoolWire, id_: VariantId, offering: Offering) -> Node:
    """A new node of the variant. Start-up taints are not the group's: they go once the node has started."""
    varied = _own_labels(pool, chosen=True)
    fixed = {key: value for key, value in _own_labels(pool).items() if key not in varied}
    return template_node(
        f"template-of-{'-'.join(filter(None, id_))}",
        {"pods": _PODS, **offering.allocatable},
        labels={**_own_labels(pool), **offering.labels, **fixed},
        taints=tuple(Taint(each.key, each.value, each.effect) for each in pool.spec.template.spec.taints or ()),
    )


# --- limits, and who acts on the NodePool ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Limits:
    """What is left of a NodePool's limits, in 10^-9 units; without those of no node, which only stop Karpenter."""

    left: Mapping[str, int]

    def nodes(self, capacity: Mapping[str, int]) -> int:
        """How many more nodes of this capacity it has room for."""
        needs = {**capacity, _NODES: NANO}
        rooms = (max(left, 0) // needs[name] for name, left in self.left.items() if needs.get(name))
        return min(rooms, default=UNLIMITED)


def limits_of(pool: PoolWire, claims: Iterable[ClaimWire], known: Mapping[VariantId, Offering]) -> Limits:
    """Counts all NodeClaims of the NodePool that are not being deleted, as Karpenter does. While it is not known what one of
    them has, nothing is left."""
    left = limits_said(pool)
    if left.get(_NODES) == 0:
        del left[_NODES]
    if left:
        for claim in claims:
            id_ = variant_of(claim)
            has = nanos(claim.status.capacity) or (known[id_].capacity if id_ is not None and id_ in known else {})
            for name in left if not is_leaving(claim) else ():
                left[name] -= left[name] if claim.unreadable and not has else NANO if name == _NODES else has.get(name, 0)
    return Limits(left)


def limits_said(pool: PoolWire) -> dict[str, int]:
    """The NodePool's limits in 10^-9 units. Raises ValueError."""
    try:
        return nanos(pool.spec.limits)
    except ValueError as error:
        raise ValueError(f"limits: {error}") from error


def is_static(pool: PoolWire) -> bool:
    """Whether Karpenter itself keeps the NodePool at `spec.replicas` nodes, whoever creates and deletes them."""
    return pool.spec.replicas is not None


def still_karpenters(pool: PoolWire) -> str:
    """What Karpenter still does with the NodePool, and what would stop it, as a text; "" if it only serves NodeClaims."""
    name, wanted = pool.metadata.name, []
    if limits_said(pool).get(_NODES) != 0:
        wanted.append('spec.limits.nodes: "0", so that Karpenter creates no node')
    if not any(stops(each) for each in pool.spec.disruption.budgets or ()):
        wanted.append('an entry nodes: "0" in spec.disruption.budgets, so that Karpenter removes none')
    return f"it is Karpenter's NodePool {name}; handing it over needs {' and '.join(wanted)}" if wanted else ""


def stops(budget: BudgetWire) -> bool:
    """Whether the budget keeps Karpenter from removing any node at any time."""
    return budget.nodes in ("0", "0%") and not budget.reasons and budget.schedule is None


# --- options --------------------------------------------------------------------------------------------------------------


def options_of(pool: PoolWire) -> GroupOptions:
    """The NodePool's settings of removals, and its weight. Raises ValueError."""
    disruption, expire = pool.spec.disruption, pool.spec.template.spec.expire_after
    budgets = [budget for each in disruption.budgets or () if not stops(each) and (budget := _budget(each)) is not None]
    reasons: tuple[DisruptionReason, ...] = ()
    if disruption.consolidate_after == _NEVER:
        reasons = ("Empty", "Underutilized")
    elif disruption.consolidation_policy == "WhenEmpty":
        reasons = ("Underutilized",)
    if reasons:
        budgets.append(NodeDisruptionBudget(nodes=0, reasons=reasons))
    return GroupOptions(
        unneeded_time=None
        if disruption.consolidate_after == _NEVER
        else _seconds("disruption.consolidateAfter", disruption.consolidate_after),
        expire_after=0.0 if expire is None or expire == _NEVER else _seconds("template.spec.expireAfter", expire),
        disruption_budgets=tuple(budgets),
        priority=pool.spec.weight,
    )


def _budget(said: BudgetWire) -> NodeDisruptionBudget | None:
    """None if it limits only what we do not do, such as Unhealthy. As in Karpenter, what cannot be read allows nothing."""
    reasons = tuple(each for each in _REASONS if each in (said.reasons or ()))
    if said.reasons and not reasons:
        return None
    timed = said.schedule is None or (said.duration is not None and not schedule_problem(said.schedule))
    if not timed or not _BUDGET.fullmatch(said.nodes):
        return NodeDisruptionBudget(nodes=0, reasons=reasons)
    return NodeDisruptionBudget(
        nodes=int(said.nodes) if said.nodes.isdecimal() else said.nodes,
        reasons=reasons,
        schedule=said.schedule,
        duration=None if said.duration is None else _seconds("disruption.budgets.duration", said.duration),
    )


def _seconds(field: str, text: str) -> float:
    try:
        return parse_duration(text) / SECOND
    except ValueError as error:
        raise ValueError(f"{field}: {error}") from error
