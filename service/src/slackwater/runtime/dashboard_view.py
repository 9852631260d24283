"""The dashboard's sections as JSON values: preemptions, migrations, nominations, drains and pending pods.

Each section is `{"total": ..., "entries": [...]}` with at most `MOST` entries, so the size of an answer is bounded.
Deliberately absent: the nodes (`dashboard_nodes`), node groups (the autoscaler's loop provides them), HTTP.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Final

from slackwater.controllers.migration.state import Migration
from slackwater.controllers.preemption.state import Preemption
from slackwater.controllers.scaledown.drains.drain import Drain
from slackwater.model.ids import Instant, PodKey, PodUid
from slackwater.model.objects import Pod
from slackwater.model.resources import RESOURCES
from slackwater.runtime.state_machine import StateMachine

#: The most entries of one section.
MOST: Final = 2000
#: The most names within one entry: victims of a preemption, pods of a drain.
MOST_NAMES: Final = 200

Json = dict[str, Any]


def sections(state_machine: StateMachine, now: Instant) -> dict[str, Json]:
    """All sections except the pending pods. `since` is whole seconds before now, `ends` whole seconds from now."""
    return {
        "migrationQueue": _cut(_queue(state_machine), len(state_machine.migrating.choice.queue)),
        "migrations": _listed(
            [_migration(state_machine, migration) for _, migration in sorted(state_machine.migrating.migrations.items())]
        ),
        "preemptions": _listed([_preemption(state_machine, found, now) for _, found in state_machine.preemptions.items()]),
        "nominations": _listed(
            [
                {**_named(sample_miss.key), "node": sample_miss.nominated, "tried": len(sample_miss.tried)}
                for _, sample_miss in state_machine.sample_misses.items()
                if sample_miss.nominated is not None
            ]
        ),
        "drains": _listed([_drain(drain, now) for drain in state_machine.removals.drains.active]),
    }


def waits(pod: Pod) -> bool:
    """Is the pod pending: without a node, and not ended?"""
    return pod.node is None and not pod.ended


def pending(pods: Sequence[Pod]) -> Json:
    """The section of pending pods, by descending priority; among equal priorities the oldest first."""
    ordered = sorted(pods, key=lambda pod: (-pod.priority, pod.created_at, pod.key))
    return _cut((_pending(pod) for pod in ordered), len(ordered))


def _listed(entries: Sequence[Json]) -> Json:
    return _cut(entries, len(entries))


def _cut(entries: Iterable[Json], total: int) -> Json:
    return {"total": total, "entries": list(islice(entries, MOST))}


def _named(key: PodKey | None) -> dict[str, str]:
    return {"namespace": "" if key is None else key.namespace, "name": "" if key is None else key.name}


def _pending(pod: Pod) -> Json:
    return {
        **_named(pod.key),
        "priority": pod.priority,
        "scheduler": pod.kind.scheduler_name,
        **dict(zip(RESOURCES, pod.need, strict=True)),
        "gates": list(pod.gates),
        "message": pod.unschedulable_message,
        "createdAt": pod.created_at,
    }


def _queue(state_machine: StateMachine) -> Iterable[Json]:
    for node, uid, load, _ in state_machine.migrating.choice.queue.entries():
        yield {**_named(_key_of(state_machine, uid)), "node": node, "load1Micro": load}


def _key_of(state_machine: StateMachine, uid: PodUid) -> PodKey | None:
    reservation = state_machine.reservations.get(uid)
    if reservation is not None:
        return reservation.key
    pod = state_machine.pods.known(uid)
    return None if pod is None else pod.key


def _migration(state_machine: StateMachine, migration: Migration) -> Json:
    found = state_machine.migrating.objects.get(migration.key)
    pod = None if migration.pod is None else _key_of(state_machine, migration.pod)
    return {
        **_named(migration.key),
        "machine": migration.machine.name,
        "pod": None if pod is None else str(pod),
        "source": migration.source,
        "targetNode": migration.target_node,
        **dict(zip(RESOURCES, migration.amounts, strict=True)),
        "phase": ("asked" if migration.created else "decided") if found is None else found.phase or "created",
        "landed": migration.landed,
    }


def _preemption(state_machine: StateMachine, found: Preemption, now: Instant) -> Json:
    waiting = sorted(str(_key_of(state_machine, uid) or uid) for uid in found.waiting)
    return {
        **_named(found.pod.key),
        "node": found.node,
        "priority": found.pod.priority,
        "phase": found.phase,
        "gateShut": found.shut,
        "waitingFor": waiting[:MOST_NAMES],
        "waitingForTotal": len(waiting),
        "since": int(now - found.since),
        "ends": int(found.deadline - now),
    }


def _drain(drain: Drain, now: Instant) -> Json:
    pods = _leaving(drain)
    return {
        "node": drain.order.node,
        "group": drain.order.group,
        "phase": drain.phase,
        "empty": drain.order.empty,
        "since": int(now - drain.began),
        "evicted": drain.n_evicted,
        "reason": None if drain.unremovable_reason is None else str(drain.unremovable_reason),
        "detail": drain.detail,
        "pods": pods[:MOST_NAMES],
        "podsTotal": len(pods),
    }


def _leaving(drain: Drain) -> list[Json]:
    """The pods of the drain's plan with their destinations, and pods that appeared since; each with its step."""
    standing = {key: (step, detail) for key, step, detail in drain.pods.standing()}
    planned = dict(drain.order.destinations)
    begun = standing or drain.phase not in {"marking", "marked"}
    nothing = ("gone" if begun else "planned", "")
    found = []
    for key in sorted({*planned, *standing}):
        step, detail = standing.get(key, nothing)
        found.append({**_named(key), "step": step, "detail": detail, "destination": planned.get(key)})
    return found
