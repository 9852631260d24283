"""What the dashboard tells beside the nodes, as JSON values: preemptions, migrations, removals, and pods without a place.

Each section is a list of objects, cut to `MOST` entries with the number of all beside it, so that an answer is bounded whatever
the cluster does. Deliberately absent: the nodes (`board_nodes`), the autoscaler's groups (its loop tells them itself), HTTP.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Final

from slackwater.controllers.migration.state import Move
from slackwater.controllers.preemption.state import Preemption
from slackwater.controllers.scaledown.drains.drain import Drain
from slackwater.model.ids import Instant, PodKey, PodUid
from slackwater.model.objects import Pod
from slackwater.model.resources import RESOURCES
from slackwater.runtime.state_machine import World

#: Entries of one section that are told.
MOST: Final = 2000
#: Names that are told of one entry: victims, and pods on their way.
MOST_NAMES: Final = 200

Json = dict[str, Any]


def sections(world: World, now: Instant) -> dict[str, Json]:
    """All but the pending pods. `since` is seconds before now, `ends` seconds from now, to the whole second."""
    return {
        "migrationQueue": _cut(_queue(world), len(world.migrating.choice.queue)),
        "migrations": _listed([_move(world, move) for _, move in sorted(world.migrating.moves.items())]),
        "preemptions": _listed([_preemption(world, found, now) for _, found in world.preemptions.items()]),
        "nominations": _listed(
            [
                {**_named(starved.key), "node": starved.nominated, "tried": len(starved.tried)}
                for _, starved in world.starvation.items()
                if starved.nominated is not None
            ]
        ),
        "drains": _listed([_drain(drain, now) for drain in world.removals.drains.active]),
    }


def waits(pod: Pod) -> bool:
    """Is the pod one of the pending?"""
    return pod.node is None and not pod.ended


def pending(pods: Sequence[Pod]) -> Json:
    """Pods without a place, the most important first, and of pods equally important the oldest."""
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


def _queue(world: World) -> Iterable[Json]:
    for node, uid, load, _ in world.migrating.choice.queue.entries():
        yield {**_named(_key_of(world, uid)), "node": node, "load1Micro": load}


def _key_of(world: World, uid: PodUid) -> PodKey | None:
    claim = world.claims.get(uid)
    if claim is not None:
        return claim.key
    pod = world.pods.known(uid)
    return None if pod is None else pod.key


def _move(world: World, move: Move) -> Json:
    found = world.migrating.objects.get(move.key)
    pod = None if move.pod is None else _key_of(world, move.pod)
    return {
        **_named(move.key),
        "machine": move.machine.name,
        "pod": None if pod is None else str(pod),
        "source": move.source,
        "landing": move.landing,
        **dict(zip(RESOURCES, move.amounts, strict=True)),
        "phase": ("asked" if move.created else "decided") if found is None else found.phase or "created",
        "landed": move.landed,
    }


def _preemption(world: World, found: Preemption, now: Instant) -> Json:
    waiting = sorted(str(_key_of(world, uid) or uid) for uid in found.waiting)
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
        "reason": None if drain.hindrance is None else str(drain.hindrance),
        "detail": drain.detail,
        "pods": pods[:MOST_NAMES],
        "podsTotal": len(pods),
    }


def _leaving(drain: Drain) -> list[Json]:
    """The pods of the plan with where it sends them, and those that came since; each with how far it is."""
    standing = {key: (step, detail) for key, step, detail in drain.pods.standing()}
    planned = dict(drain.order.destinations)
    begun = standing or drain.phase not in {"marking", "marked"}
    nothing = ("gone" if begun else "planned", "")
    found = []
    for key in sorted({*planned, *standing}):
        step, detail = standing.get(key, nothing)
        found.append({**_named(key), "step": step, "detail": detail, "destination": planned.get(key)})
    return found
