"""Destinations of the pods of draining nodes, on a replica.

- `put_kept_room`: places leaving pods at their destinations, so that a plan counts that room as used.
- `find_destinations`: finds where leaving pods fit now, by the whole fit.

In: a `SnapshotReplica`, within a trial of the caller or of this module. Invariant: the snapshot is as before after the trial.
"""

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slackwater.controllers.scaledown.state import ScaleDownState
from slackwater.fit.assumed_claims import assume_free_devices, release_devices
from slackwater.fit.binpacking import NOWHERE, Hints, place_pods
from slackwater.model.columns import Rows
from slackwater.model.events import Destination
from slackwater.model.ids import PodUid, Row
from slackwater.model.kept_room import group_of
from slackwater.model.objects import Pod
from slackwater.model.reasons import MEANINGS
from slackwater.snapshot.equivalence_groups import KindId
from slackwater.snapshot.snapshot_replica import SnapshotReplica
from slackwater_protocol.names import TO_BE_DELETED_TAINT


def put_kept_room(replica: SnapshotReplica, but: Collection[PodUid] = ()) -> None:
    """Places each leaving pod, except `but`, at its destination, in the trial of the caller. The pods must have been learned.

    Room that is released is left free for a pending pod of the same group: that is the replacement.
    """
    released = {group_of(kept.pod) for kept in replica.kept_room if kept.released}
    waiting = Counter(group for pod in (replica.pending.values() if released else ()) if (group := group_of(pod)) in released)
    snapshot = replica.snapshot
    for kept in replica.kept_room:
        group, row = group_of(kept.pod), snapshot.facts.live_row(kept.to)
        if kept.pod.uid in but or row is None:
            continue
        if kept.released and waiting[group]:
            waiting[group] -= 1
            continue
        kind = snapshot.kind_id(kept.pod.renewed_kind, kept.pod.labels)
        assume_free_devices(snapshot, kind, row)
        snapshot.place(kind, row)


def find_destinations(replica: SnapshotReplica, uids: Sequence[PodUid], cutoff: int) -> list[Destination]:
    """Where each pod fits, beside the others and beside the room that is kept for other leaving pods: at its kept destination
    if it still fits there. Pods with a priority below `cutoff` do not block others. No pod goes to a draining node."""
    pods = [pod for uid in uids if (pod := replica.find(uid)) is not None and pod.node in replica.nodes]
    hints = {kept.pod.uid: kept.to for kept in replica.kept_room}
    replica.learn([*pods, *(kept.pod for kept in replica.kept_room)], more=True)
    found = []
    with replica.yielding_below(cutoff):
        put_kept_room(replica, uids)
        facts = replica.snapshot.facts
        live: list[int] = np.flatnonzero(facts.live[: facts.n_rows]).tolist()
        rows: Rows = np.array([row for row in live if not _is_draining(replica, row)], np.intp)
        for pod in sorted(pods, key=lambda pod: (-pod.priority, pod.key)):
            hint = facts.row_of.get(hints[pod.uid], NOWHERE) if pod.uid in hints else NOWHERE
            found.append(_moved(replica, pod, rows, hint))
    return found


def _is_draining(replica: SnapshotReplica, row: int) -> bool:
    return any(taint.key == TO_BE_DELETED_TAINT for taint in replica.snapshot.facts.nodes[row].taints)


def _moved(replica: SnapshotReplica, pod: Pod, rows: Rows, hint: int) -> Destination:
    """Takes the pod off its node and places it on one of `rows`, `hint` first."""
    assert pod.node is not None
    snapshot, row = replica.snapshot, replica.row_of(pod.node)
    kind: KindId = next(running_pod.kind for running_pod in replica.on(row) if running_pod.pod.uid == pod.uid)
    snapshot.remove(kind, row, 1)
    release_devices(snapshot, kind, row, [pod.uid])
    renewed: Rows = np.array([snapshot.kind_id(pod.renewed_kind, pod.labels)], np.intp)
    placed = place_pods(snapshot, renewed, rows=rows[rows != row], hints=Hints(pods=np.array([hint], np.intp)))
    if placed.rows[0] != NOWHERE:
        return Destination(pod.uid, snapshot.facts.nodes[Row(int(placed.rows[0]))].name)
    why = ", ".join(f"{count} {MEANINGS[reason].text}" for left in placed.left for reason, count in left.reasons[:3])
    return Destination(pod.uid, None, why)


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationQuestion:
    """Asks the replica where pods fit; see `find_destinations`. Implements `runtime.planner.messages.PlannerQuestion`."""

    pods: tuple[PodUid, ...]
    cutoff: int

    def answer(self, replica: SnapshotReplica) -> bytes:
        return json.dumps(find_destinations(replica, self.pods, self.cutoff)).encode()


def with_kept_hints(state: ScaleDownState, replica: SnapshotReplica) -> ScaleDownState:
    """The state with the kept destinations as hints, so that the plan places leaving pods where their room is kept."""
    hints = {node: dict(found) for node, found in state.pod_destination_hints.items()}
    for kept in replica.kept_room:
        hints.setdefault(kept.of, {})[kept.pod.uid] = kept.to
    return replace(state, pod_destination_hints=hints) if replica.kept_room else state
