"""Places pending pods on existing and upcoming nodes. A pod that fits there needs no new node.

In: the `Demand`. Out: the row of each pod that fits. Higher priorities are placed first. Within a priority, pods for which an
earlier plan found a node (their hint) are tried there before the others are placed. Deliberately absent: scores. It does not
matter which node kube-scheduler will choose, only that there is one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from slackwater.controllers.scaleup.pending import Demand, importance
from slackwater.fit.assumed_claims import assume_free_devices
from slackwater.fit.binpacking import NO_HINTS, NOWHERE, Hints, place_pods
from slackwater.fit.failure import concerning
from slackwater.model.columns import Rows
from slackwater.model.ids import NodeName, PodUid
from slackwater.model.objects import Node, Pod
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId

#: Part of the names of devices, which a node reports later than its CPU and memory.
_DEVICE_MARK: Final = "/"


def place_existing(
    snapshot: ClusterSnapshot,
    pods: Sequence[Pod],
    kinds: Rows,
    *,
    hints: Mapping[PodUid, NodeName],
    stop: Callable[[], bool] = lambda: False,
    together: bool = True,
) -> Rows:
    """Places the pods in the snapshot. Returns the row of each pod, NOWHERE if it fits on none; shape (pods,). `pods` are in
    the order of importance, `kinds` are their equivalence groups. With `together`, pods that need one another on one node are
    placed only where all of them fit."""
    rows: Rows = np.full(len(pods), NOWHERE, np.intp)
    if not snapshot.n_rows:
        return rows
    everywhere = np.arange(snapshot.n_rows)
    hinted = _hinted_rows(snapshot, pods, hints)
    for part in _by_priority(pods) if hints else [np.arange(len(pods))]:
        order = part[_kinds_together(pods, kinds, part)]
        given = NO_HINTS if hinted is None else Hints(pods=hinted[order])
        rows[order] = place_pods(
            snapshot, kinds[order], rows=everywhere, hints=given, stop=stop, reasons=False, together=together
        ).rows
    return rows


def without_lost_nominations(snapshot: ClusterSnapshot, demand: Demand) -> Demand:
    """Returns the demand with an ordinary pod in place of each pod that is nominated to a node that is gone."""
    known = tuple(pod for pod in demand.nominated if pod.nominated_node in snapshot.facts.row_of)
    if len(known) == len(demand.nominated):
        return demand
    lost = (pod for pod in demand.nominated if pod.nominated_node not in snapshot.facts.row_of)
    return replace(demand, nominated=known, counted=tuple(sorted((*demand.counted, *lost), key=importance)))


def place_nominated(snapshot: ClusterSnapshot, pods: Sequence[Pod]) -> list[tuple[Pod, NodeName]]:
    """Places nominated pods on their nominated nodes, whether or not they fit now: preemption makes room for them there. These
    nodes must exist. Returns the pods with their nodes."""
    placed = [(pod, pod.nominated_node) for pod in pods if pod.nominated_node is not None]
    for kind, (_, name) in zip(snapshot.number(pods).tolist(), placed, strict=True):
        row = snapshot.facts.row_of[name]
        with concerning(KindId(kind)):
            assume_free_devices(snapshot, KindId(kind), row)
        snapshot.place(KindId(kind), row)
    return placed


def awaits_devices(node: Node, template: Node) -> bool:
    """Does the node not report yet a device that the nodes of its group have? Then it counts as upcoming.

    A GPU appears on a node only once its device plug-in runs there, minutes after the node is Ready.
    """
    has = dict(node.scalars)
    return any(_DEVICE_MARK in name and amount and not has.get(name) for name, amount in template.scalars)


def _hinted_rows(snapshot: ClusterSnapshot, pods: Sequence[Pod], hints: Mapping[PodUid, NodeName]) -> Rows | None:
    if not hints:
        return None
    row_of = snapshot.facts.row_of
    names = (hints.get(pod.uid) for pod in pods)
    return np.fromiter((NOWHERE if name is None else row_of.get(name, NOWHERE) for name in names), np.intp, len(pods))


def _by_priority(pods: Sequence[Pod]) -> list[Rows]:
    priorities = np.fromiter((pod.priority for pod in pods), np.int64, len(pods))
    cuts = np.flatnonzero(priorities[1:] != priorities[:-1]) + 1
    return np.split(np.arange(len(pods)), cuts)


def _kinds_together(pods: Sequence[Pod], kinds: Rows, part: Rows) -> Rows:
    """Sorts a part of the pods (`part`: their positions) by priority, and within a priority by equivalence group, in the order
    of the groups' first pods. Returns indices into `part`."""
    priorities = np.fromiter((-pods[pod].priority for pod in part.tolist()), np.int64, len(part))
    _, first, of = np.unique(kinds[part], return_index=True, return_inverse=True)
    order: Rows = np.lexsort((np.arange(len(part)), first[of], priorities))
    return order
