"""Builds the dashboard's sections as JSON values: preemptions, migrations, nominations and drains; and its matrix of nodes.

    after = take_nodes(state_machine, before)  # reuses the parts of `before` that did not change
    columns = changed(before, after)           # None if the set of nodes changed: positions then mean other nodes

Each section is `{"total": ..., "entries": [...]}` with at most `MOST` entries, so the size of an answer is bounded. Entries
contain Unix times, not ages, so an entry that does not change is sent once. All nodes are one matrix of integers: 5,000 nodes
take a few milliseconds, whatever the number of pods. Deliberately absent: pending pods (`pending`), node groups (the
autoscaler's loop provides them), HTTP.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import is_
from typing import Any, Final

import numpy as np
from msgspec import structs

from slackwater.controllers.migration.state import Migration
from slackwater.controllers.preemption.state import Preemption
from slackwater.controllers.scaledown.drains.drain import Drain
from slackwater.fit.remaining_pdb_tracker import Disruptions
from slackwater.model.columns import Int64, Rows
from slackwater.model.ids import Instant, NodeName, PodKey, PodUid, UnixTime
from slackwater.model.objects import Node
from slackwater.model.prices import instance_type_of, zone_of
from slackwater.model.resources import NOTHING, RESOURCES
from slackwater.runtime.dump_answer import NodeNumbers, named
from slackwater.runtime.state_machine import StateMachine
from slackwater_protocol.names import NODE_GROUP

#: The most entries of one section.
MOST: Final = 2000
#: The most names within one entry: victims of a preemption, pods of a drain.
MOST_NAMES: Final = 200

Json = dict[str, Any]


def sections(state_machine: StateMachine, now: Instant, wall: UnixTime) -> dict[str, Json]:
    """All sections. `wall` is the Unix time at `now`."""
    offset = wall - now
    return {
        "migrationQueue": _cut(_queue(state_machine), len(state_machine.migrating.choice.queue)),
        "migrations": _listed(
            [_migration(state_machine, migration) for _, migration in sorted(state_machine.migrating.migrations.items())]
        ),
        "preemptions": _listed([_preemption(state_machine, found, offset) for _, found in state_machine.preemptions.items()]),
        "nominations": _listed(
            [
                {**named(sample_miss.key), "node": sample_miss.nominated, "tried": len(sample_miss.tried)}
                for _, sample_miss in state_machine.sample_misses.items()
                if sample_miss.nominated is not None
            ]
        ),
        "drains": _listed(_drains(state_machine, offset)),
    }


def _listed(entries: Sequence[Json]) -> Json:
    return _cut(entries, len(entries))


def _cut(entries: Iterable[Json], total: int) -> Json:
    return {"total": total, "entries": list(islice(entries, MOST))}


def _queue(state_machine: StateMachine) -> Iterable[Json]:
    for node, uid, load, _ in state_machine.migrating.choice.queue.entries():
        yield {**named(_key_of(state_machine, uid)), "node": node, "load1Micro": load}


def _key_of(state_machine: StateMachine, uid: PodUid) -> PodKey | None:
    reservation = state_machine.state.reservations.get(uid)
    if reservation is not None:
        return reservation.key
    pod = state_machine.state.pods.known(uid)
    return None if pod is None else pod.key


def _migration(state_machine: StateMachine, migration: Migration) -> Json:
    found = state_machine.migrating.objects.get(migration.key)
    pod = None if migration.pod is None else _key_of(state_machine, migration.pod)
    return {
        **named(migration.key),
        "machine": migration.machine.name,
        "pod": None if pod is None else str(pod),
        "source": migration.source,
        "why": _why_migrated(state_machine, migration),
        "targetNode": migration.target_node,
        **dict(zip(RESOURCES, migration.amounts, strict=True)),
        "phase": ("asked" if migration.created else "decided") if found is None else found.phase or "created",
        "landed": migration.landed,
    }


def _why_migrated(state_machine: StateMachine, migration: Migration) -> str:
    """Why the machine leaves its node, as far as the node's present state shows it."""
    if migration.source is None:
        return ""
    if any(drain.order.node == migration.source for drain in state_machine.drains.active):
        return "its node is being removed"
    row = state_machine.state.nodes.row_of.get(migration.source)
    columns = state_machine.state.ledger.columns
    if row is None:
        return ""
    if (columns.reserved[:, row] > columns.watermark[:, row]).any():
        return "its node is above the Watermark"
    return "growth was denied on its node" if columns.capacity_pressure[:, row].any() else ""


def _preemption(state_machine: StateMachine, found: Preemption, offset: float) -> Json:
    waiting = sorted(str(_key_of(state_machine, uid) or uid) for uid in found.waiting)
    held = [reservation for uid in found.waiting if (reservation := state_machine.state.reservations.get(uid)) is not None]
    frees = NOTHING
    for reservation in held:
        frees = frees.plus(reservation.pod_resources.reserved)
    return {
        **named(found.pod.key),
        "node": found.node,
        "priority": found.pod.priority,
        "needs": dict(zip(RESOURCES, found.pod.need, strict=True)),
        "phase": found.phase,
        "gateShut": found.shut,
        "waitingFor": waiting[:MOST_NAMES],
        "waitingForTotal": len(waiting),
        "victimPriority": max((reservation.priority for reservation in held), default=None),
        "others": [other.text for other in found.others],
        "frees": dict(zip(RESOURCES, frees, strict=True)),
        "began": int(found.since + offset),
        "ends": int(found.deadline + offset),
    }


def _drains(state_machine: StateMachine, offset: float) -> list[Json]:
    active = list(state_machine.drains.active)
    if not active:
        return []
    disruptions = Disruptions(state_machine.state.budgets)
    return [_drain(state_machine, drain, disruptions, offset) for drain in active]


def _drain(state_machine: StateMachine, drain: Drain, disruptions: Disruptions, offset: float) -> Json:
    pods = _leaving(drain)
    blocked = _blocked_by(state_machine, drain, disruptions)
    for pod in pods:
        pod["blockedBy"] = blocked.get(PodKey(pod["namespace"], pod["name"]), "")
    return {
        "node": drain.order.node,
        "group": drain.order.group,
        "phase": drain.phase,
        "empty": drain.order.empty,
        "began": int(drain.began + offset),
        "evicted": drain.n_evicted,
        "reason": None if drain.unremovable_reason is None else str(drain.unremovable_reason),
        "detail": drain.detail,
        "pods": pods[:MOST_NAMES],
        "podsTotal": len(pods),
        "gone": sum(pod["step"] == "gone" for pod in pods),
        "blocked": sum(bool(pod["blockedBy"]) for pod in pods),
    }


def _blocked_by(state_machine: StateMachine, drain: Drain, disruptions: Disruptions) -> Mapping[PodKey, str]:
    """For each pod of the drain that waits for its eviction, the names of the disruption budgets that forbid the eviction
    now."""
    found = {}
    for uid, eviction in drain.pods.evictions.items():
        pod = state_machine.state.pods.get(uid)
        budgets = [] if pod is None or eviction.step not in {"waiting", "refused"} else disruptions.against(pod)
        if budgets:
            found[eviction.pod.key] = ", ".join(f"{namespace}/{name}" for namespace, name in budgets)
    return found


def _leaving(drain: Drain) -> list[Json]:
    """The pods that the drain has to move, each with its step: those of its plan with their destinations, and pods that
    appeared on the node since."""
    running_pods = {key: (step, detail) for key, step, detail in drain.pods.running_pods()}
    planned = dict(drain.order.destinations)
    begun = running_pods or drain.phase not in {"marking", "marked"}
    nothing = ("gone" if begun else "planned", "")
    found = []
    for key in sorted({*planned, *running_pods}):
        step, detail = running_pods.get(key, nothing)
        found.append({**named(key), "step": step, "detail": detail, "destination": planned.get(key)})
    return found


#: The columns of each resource, in the names of `/dumpstate`.
_COLUMNS: Final = tuple((field.encode_name, field.name) for field in structs.fields(NodeNumbers))
#: What each line of the matrix `DashboardNodes.numbers` contains: amounts (milliCPU, bytes), the number of pods, flags.
LINES: Final = (*(f"{resource}.{name}" for resource in RESOURCES for name, _ in _COLUMNS), "pods", "flags")
NOT_READY: Final = 1
CORDONED: Final = 2
QUARANTINED: Final = 4


#: By what the page sorts nodes, and how each is read; "" where a node does not say.
_FACETS: Final[Mapping[str, Callable[[Node], str]]] = {
    "group": lambda node: node.labels.get(NODE_GROUP, ""),
    "zone": zone_of,
    "type": instance_type_of,
}


@dataclass(frozen=True, slots=True)
class Facet:
    """What the nodes say of one thing, such as their zone: the texts, sorted, and for each node the index of its text."""

    texts: Sequence[str]
    of: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardNodes:
    """One copy of all nodes, in the order of their rows, with their group, zone and type in `facets`. `numbers` has shape
    (len(LINES), nodes). `version` changes with the set of node names."""

    version: int
    nodes: Sequence[Node]
    names: Sequence[NodeName]
    facets: Mapping[str, Facet]
    numbers: Int64


def take_nodes(state_machine: StateMachine, before: DashboardNodes | None) -> DashboardNodes:
    """Copies the nodes. If no node object has changed since `before`, reuses the names, facets and flags of `before`."""
    version = state_machine.state.nodes.names_version
    nodes = [node for node in state_machine.state.nodes.by_row if node is not None]
    rows = np.fromiter(
        (row for row, node in enumerate(state_machine.state.nodes.by_row) if node is not None), np.intp, len(nodes)
    )
    same = before is not None and before.version == version
    # A changed node is a new Python object, so identity is enough.
    if same and before is not None and len(before.nodes) == len(nodes) and all(map(is_, before.nodes, nodes)):
        names, facets = before.names, before.facets
        flags = before.numbers[-1] & ~QUARANTINED
    else:
        names = [node.name for node in nodes]
        facets = {name: _facet([read(node) for node in nodes]) for name, read in _FACETS.items()}
        flags = np.array([NOT_READY * (not node.ready) + CORDONED * node.unschedulable for node in nodes], np.int64)
    flags = flags | QUARANTINED * np.isin(rows, state_machine.state.quarantine.rows)
    columns = state_machine.state.ledger.columns
    amounts = [getattr(columns, column)[r, rows] for r in range(len(RESOURCES)) for _, column in _COLUMNS]
    pods = np.array([state_machine.state.reservations.count_on(name) for name in names], np.int64)
    numbers = np.vstack([*amounts, pods, flags]) if nodes else np.zeros((len(LINES), 0), np.int64)
    return DashboardNodes(version=version, nodes=nodes, names=names, facets=facets, numbers=numbers)


def _facet(texts: Sequence[str]) -> Facet:
    ordered = sorted(set(texts))
    index = {text: number for number, text in enumerate(ordered)}
    return Facet(ordered, [index[text] for text in texts])


def changed(before: DashboardNodes, after: DashboardNodes) -> Rows | None:
    """Positions (indices into `nodes`) whose numbers differ; None if the set of nodes or one of their facets changed."""
    if before.version != after.version or before.names != after.names or before.facets != after.facets:
        return None
    return np.flatnonzero((before.numbers != after.numbers).any(axis=0))
