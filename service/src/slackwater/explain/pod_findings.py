"""Makes findings and obstacles that other pods, volumes, devices or the pod's own constraints cause, such as host ports,
topology spread, pod affinity and volume claims.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

import numpy as np
from msgspec import structs

from slackwater.explain.explain_input import Change, PodLeaves
from slackwater.explain.findings import MOST_OBJECTS, Finding, Obstacle, PodQuery
from slackwater.fit.devices.allocator import Allocator
from slackwater.fit.devices.board import AskBoard, DeviceError, Layout, Usage
from slackwater.fit.plugins.dynamic_resources import specs_on
from slackwater.fit.plugins.pod_topology_spread import judge_pod_topology_spread
from slackwater.model.devices import DeviceId
from slackwater.model.ids import Row
from slackwater.model.pod_constraints import EVERY_ADDRESS, PodConstraints, SpreadConstraint
from slackwater.model.reasons import Reason
from slackwater.model.selectors import selects
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.running_pods import RunningPod

#: The most rows of one topology value that are searched for pods that cause an obstacle, and the most such pods that get an
#: obstacle each.
_MOST_ROWS: Final = 256
_MOST_LEAVING: Final = 8
#: The most by which maxSkew is raised.
_MOST_SKEW: Final = 16

_VOLUMES: Final = frozenset(
    {
        Reason.CLAIM_NOT_FOUND,
        Reason.CLAIM_IN_USE,
        Reason.CLAIM_UNUSABLE,
        Reason.CLAIM_UNBOUND,
        Reason.VOLUME_NODE_CONFLICT,
        Reason.VOLUME_BIND_CONFLICT,
        Reason.STORAGE_SHORT,
        Reason.VOLUME_NOT_FOUND,
        Reason.VOLUME_ZONE,
        Reason.VOLUME_ZONE_UNKNOWN,
        Reason.VOLUME_LIMIT,
    }
)
_DEVICES: Final = frozenset({Reason.DEVICES_SHORT, Reason.DEVICE_POOL_INVALID, Reason.DEVICES_NOT_MODELLED})


def objects(asked: PodQuery, reason: Reason, row: Row) -> tuple[str, ...]:
    """The objects that cause the verdict on the row, as "kind name"."""
    if reason in _VOLUMES:
        return tuple(f"claim {asked.pod.key.namespace}/{mount.claim}" for mount in asked.asks.claims)
    if reason in _DEVICES:
        return devices_of(asked, row)
    if reason in _IN_THE_WAY:
        pods = islice(_IN_THE_WAY[reason](asked, row), MOST_OBJECTS)
        return tuple(dict.fromkeys(f"pod {running_pod.pod.key}" for _, running_pod in pods))
    return tuple(_asked_for(asked, reason))


def _asked_for(asked: PodQuery, reason: Reason) -> Iterator[str]:
    """The pod's constraints to which the reason belongs, as "kind name"."""
    asks = asked.asks
    match reason:
        case Reason.SPREAD_SKEW | Reason.SPREAD_LABEL_MISSING:
            yield from (f"topologySpreadConstraint {each.topology_key}" for each in asks.spread if each.hard)
        case Reason.POD_AFFINITY:
            for term in asks.affinity:
                said = ",".join(f"{r.key} {r.operator} {','.join(r.values)}".rstrip() for r in term.selector or ())
                yield f"podAffinity {f'{term.topology_key} {said}'.rstrip()}"
        case Reason.NODE_NAME:
            yield f"node {asks.node_name}"
        case Reason.NODE_FEATURES:
            yield from (f"feature {name}" for name in asks.features)
        case Reason.RESOURCE_CLAIMS | Reason.DEVICE_CLASS_MISSING | Reason.DEVICES_FAILED | Reason.CLAIM_ELSEWHERE:
            yield from (f"resourceclaim {use.claim or use.template}" for use in asks.resource_claims)
        case Reason.MISSING_REQUEST:
            yield f"container {asked.pod.kind.missing_request}"
        case _:
            return


def obstacles(asked: PodQuery, row: Row, reason: Reason, finding: Finding) -> Iterator[Obstacle]:
    """The obstacles that cause the verdict: one for each violated spread constraint or pod in the way; else one for
    `finding`."""
    if reason is Reason.SPREAD_SKEW or reason is Reason.SPREAD_LABEL_MISSING:
        yield from _spread(asked, row, finding)
    elif reason in _IN_THE_WAY:
        yield from _blocking_pods(asked, row, reason, finding)
    else:
        yield Obstacle(finding, tuple(_constraint_edits(asked, reason)))


def _constraint_edits(asked: PodQuery, reason: Reason) -> Iterator[Change]:
    pod = asked.pod.key
    match reason:
        case Reason.POD_AFFINITY:
            yield asked.edit_asks(f"let pod {pod} require no pod affinity", lambda asks: replace(asks, affinity=()))
        case Reason.NODE_NAME:
            yield asked.edit_asks(f"let pod {pod} name no node", lambda asks: replace(asks, node_name=None))
        case Reason.NODE_LEFT_OUT:
            yield asked.without_node_affinity()
        case Reason.MISSING_REQUEST:
            words = f"give pod {pod} a request for {asked.pod.kind.missing_request}"
            yield asked.edit_kind(words, lambda kind: replace(kind, missing_request=None))
        case _:
            return


# --- spread ---------------------------------------------------------------------------------------------------------------


def _spread(asked: PodQuery, row: Row, finding: Finding) -> Iterator[Obstacle]:
    """One obstacle for each constraint that is violated by itself. If none is, one for each hard constraint."""
    hard = [constraint for constraint in asked.asks.spread if constraint.hard]
    broken = [each for each in hard if _violates(asked, row, each)] or hard
    for constraint in broken:
        named = structs.replace(finding, objects=(f"topologySpreadConstraint {constraint.topology_key}",))
        yield Obstacle(named, tuple(_loosen(asked, row, constraint)))


def _violates(asked: PodQuery, row: Row, constraint: SpreadConstraint) -> bool:
    """Is the constraint violated by itself? All others are made soft, because hard ones restrict which nodes are counted."""
    spread = tuple(each if each is constraint else replace(each, hard=False) for each in asked.asks.spread)
    return _rejects(asked, row, spread)


def _rejects(asked: PodQuery, row: Row, spread: tuple[SpreadConstraint, ...]) -> bool:
    """Would the row be refused if the pod had these constraints?"""
    snapshot, pod = asked.snapshot, asked.pod
    kind = replace(pod.kind, pod_constraints=replace(asked.asks, spread=spread))
    numbered = snapshot.of(snapshot.kind_id(kind, pod.labels))
    return bool(judge_pod_topology_spread(snapshot, numbered, np.array([row], np.intp))[0])


def _loosen(asked: PodQuery, row: Row, constraint: SpreadConstraint) -> Iterator[Change]:
    pod, key = asked.pod.key, constraint.topology_key
    for skew in range(constraint.max_skew + 1, constraint.max_skew + 1 + _MOST_SKEW):
        wider = replace(constraint, max_skew=skew)
        alone = tuple(wider if each is constraint else replace(each, hard=False) for each in asked.asks.spread)
        if not _rejects(asked, row, alone):
            words = f"raise maxSkew of pod {pod} over {key} from {constraint.max_skew} to {skew}"
            yield asked.edit_asks(words, _instead(constraint, wider))
            break
    words = f"let the spread of pod {pod} over {key} be a preference (ScheduleAnyway)"
    yield asked.edit_asks(words, _instead(constraint, replace(constraint, hard=False)))


def _instead(before: SpreadConstraint, now: SpreadConstraint) -> Callable[[PodConstraints], PodConstraints]:
    return lambda asks: replace(asks, spread=tuple(now if each == before else each for each in asks.spread))


# --- pods that cause a verdict --------------------------------------------------------------------------------------------


def _rows_at(asked: PodQuery, row: Row, key: str) -> list[Row]:
    """Up to `_MOST_ROWS` rows whose nodes have the same value of label `key` as the node of this row."""
    facts = asked.snapshot.facts
    ids = facts.label(key).ids[: facts.n_rows]
    if ids[row] < 0:
        return []
    return [Row(at) for at in np.flatnonzero((ids == ids[row]) & facts.live[: facts.n_rows])[:_MOST_ROWS].tolist()]


def _excluded_by_own_terms(asked: PodQuery, row: Row) -> Iterator[tuple[Row, RunningPod]]:
    """Pods to which the pod's own required anti-affinity applies, in the row's topology domains."""
    snapshot = asked.snapshot
    for term in asked.asks.anti_affinity:
        namespaces = snapshot.namespaces.of_incoming(term)
        for at in _rows_at(asked, row, term.topology_key):
            for running_pod in asked.explain_input.running_pods.on(at):
                inside = namespaces is None or running_pod.pod.key.namespace in namespaces
                if inside and selects(term.selector, dict(running_pod.pod.labels)):
                    yield at, running_pod


def _repelling(asked: PodQuery, row: Row) -> Iterator[tuple[Row, RunningPod]]:
    """Pods whose required anti-affinity applies to this pod, in the row's topology domains."""
    snapshot, pod = asked.snapshot, asked.pod
    labels = dict(pod.labels)
    terms = {
        term
        for numbered in snapshot.kinds.all
        for term in numbered.asks.anti_affinity
        if selects(term.selector, labels) and snapshot.namespaces.reached_by_existing(term, pod.key.namespace)
    }
    for term in sorted(terms, key=repr):
        for at in _rows_at(asked, row, term.topology_key):
            for running_pod in asked.explain_input.running_pods.on(at):
                if term in snapshot.of(running_pod.kind).asks.anti_affinity:
                    yield at, running_pod


def _with_same_ports(asked: PodQuery, row: Row) -> Iterator[tuple[Row, RunningPod]]:
    for running_pod in asked.explain_input.running_pods.on(row):
        theirs = asked.snapshot.of(running_pod.kind).asks.host_ports
        pairs = ((mine, their) for mine in asked.asks.host_ports for their in theirs)
        if any(
            (mine.protocol, mine.port) == (their.protocol, their.port)
            and (mine.ip == their.ip or EVERY_ADDRESS in (mine.ip, their.ip))
            for mine, their in pairs
        ):
            yield row, running_pod


def _with_my_disks(asked: PodQuery, row: Row) -> Iterator[tuple[Row, RunningPod]]:
    mine = {(disk.source, disk.disk) for disk in asked.asks.disks}
    for running_pod in asked.explain_input.running_pods.on(row):
        if any((disk.source, disk.disk) in mine for disk in asked.snapshot.of(running_pod.kind).asks.disks):
            yield row, running_pod


def _with_devices(asked: PodQuery, row: Row) -> Iterator[tuple[Row, RunningPod]]:
    """Pods on the row whose claims have devices allocated."""
    for running_pod in asked.explain_input.running_pods.on(row):
        claims = asked.snapshot.devices.claims_of(running_pod.pod.uid)
        if any(claim.allocation is not None and claim.allocation.devices for claim in claims):
            yield row, running_pod


#: For each reason, the pods that cause it as (row, pod); a pod may occur twice.
_IN_THE_WAY: Final[dict[Reason, Callable[[PodQuery, Row], Iterator[tuple[Row, RunningPod]]]]] = {
    Reason.POD_ANTI_AFFINITY: _excluded_by_own_terms,
    Reason.EXISTING_ANTI_AFFINITY: _repelling,
    Reason.HOST_PORTS: _with_same_ports,
    Reason.DISK_CONFLICT: _with_my_disks,
    Reason.DEVICES_SHORT: _with_devices,
}


def _blocking_pods(asked: PodQuery, row: Row, reason: Reason, finding: Finding) -> Iterator[Obstacle]:
    """One obstacle for each pod that causes the verdict. If there are more than `_MOST_LEAVING`, one obstacle that only a
    change of the asking pod removes."""
    pods = {running_pod.pod.uid: (at, running_pod) for at, running_pod in _IN_THE_WAY[reason](asked, row)}
    own = tuple(_own_claims(asked, reason))
    if not pods or len(pods) > _MOST_LEAVING:
        yield Obstacle(finding, own)
        return
    for at, running_pod in pods.values():
        key, node = running_pod.pod.key, asked.name_of(at)
        named = structs.replace(finding, objects=(f"pod {key}", f"node {node}"))
        yield Obstacle(named, (PodLeaves(words=f"move pod {key} off node {node}", pod=running_pod.pod, row=at), *own))


def _own_claims(asked: PodQuery, reason: Reason) -> Iterator[Change]:
    pod = asked.pod.key
    match reason:
        case Reason.POD_ANTI_AFFINITY:
            words = f"let pod {pod} require no pod anti-affinity"
            yield asked.edit_asks(words, lambda asks: replace(asks, anti_affinity=()))
        case Reason.HOST_PORTS:
            ports = ", ".join(f"{port.protocol}/{port.port}" for port in asked.asks.host_ports)
            yield asked.edit_asks(f"let pod {pod} do without host ports {ports}", lambda asks: replace(asks, host_ports=()))
        case _:
            return


#: A device's line names so many rules.
_MOST_RULES: Final = 3


def devices_of(asked: PodQuery, row: Row) -> tuple[str, ...]:
    """The devices that the row's node can use, as texts: each with the reason why it does not suit, or "free" if it suits a
    request by itself."""
    specs, _ = specs_on(asked.snapshot, asked.numbered, row)
    if not specs:
        return ()
    allocator = Allocator.of(asked.snapshot)
    layout = allocator.layout(asked.snapshot.facts, row, specs)
    usage = allocator.usage(layout)
    described = (f"device {each.id}: {_why(asked.snapshot, layout, usage, at)}" for at, each in enumerate(layout.devices))
    return tuple(islice(described, MOST_OBJECTS)) or ("no device that the node can use",)


def _why(snapshot: ClusterSnapshot, layout: Layout, usage: Usage, at: int) -> str:
    """Why no request can use the device: it is in use, its pool is unusable, or the reason of the first request whose selectors
    accept it. "free" if there is no reason."""
    asks = [ask for claim in layout.board.claims for request in claim.requests for ask in request.asks]
    if usage.alone[at] and not any(ask.admin for ask in asks):
        return f"in use{_user(snapshot, layout.ids[at])}"
    pool = layout.board.pools[layout.board.devices[at].pool]
    if pool.state != "usable":
        return f"its pool is {pool.state}"
    accepting = next((ask for ask in asks if ask.selectable[at] is True), None)
    if accepting is not None and not accepting.tolerated[at]:
        return f"a taint is not tolerated by request {accepting.name}{_rules(snapshot, layout.ids[at])}"
    if accepting is not None:
        return _short_of(accepting, usage, at)
    troubles = (ask.selectable[at] for ask in asks)
    trouble = next((each.text for each in troubles if isinstance(each, DeviceError)), None)
    return trouble or f"not selected by request {asks[0].name}" if asks else "free"


def _short_of(ask: AskBoard, usage: Usage, at: int) -> str:
    consumes, taken = ask.consumes[at], dict(usage.consumed[at] or ())
    if consumes is None:
        return f"request {ask.name} asks more capacity than it has"
    short = [name for name, more, amount in consumes if taken.get(name, 0) + more > amount]
    return f"too little {short[0]} left" if short else "free"


def _rules(snapshot: ClusterSnapshot, device: DeviceId) -> str:
    """The DeviceTaintRules that taint the device."""
    found = snapshot.devices.rule_taints.selecting(device)
    return f"; it is tainted by DeviceTaintRule {', '.join(rule.name for rule in found[:_MOST_RULES])}" if found else ""


def _user(snapshot: ClusterSnapshot, device: DeviceId) -> str:
    """The claim to which the device is allocated, as the text " by claim ..."; empty if there is none."""
    for claim in snapshot.devices.assumed().claims.values():
        if claim.allocation is not None and any(each.device == device for each in claim.allocation.devices):
            return f" by claim {claim.namespace}/{claim.name.partition(' of ')[0]}"
    return ""
