"""Answers `slackwater simulate placement`: on which nodes each pending pod of a cluster fits, and why not on the others."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from msgspec import UNSET, structs

from slackwater.app.offline.cluster import Cluster, read_cluster
from slackwater.app.policies import policy_of
from slackwater.app.settings import Settings
from slackwater.cluster.reservations import as_counted
from slackwater.fit.binpacking import NOWHERE, place_pods
from slackwater.fit.feasible_nodes import Verdicts, feasible, words
from slackwater.fit.plugins.node_accounting import EVERY_SCHEDULER
from slackwater.model.columns import NodeColumns, Rows
from slackwater.model.devices import ResourceClaim
from slackwater.model.ids import Row
from slackwater.model.ledger import Ledger, NodePolicy
from slackwater.model.objects import Pod
from slackwater.model.reasons import Reason
from slackwater.ports.whatif_answers import PlacedDevice, PlacementLine, Rejection
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId
from slackwater_protocol.names import GATE


def placement_lines(
    cluster: Mapping[str, Any] | Cluster,
    *,
    sequential: bool = False,
    accounting: bool = False,
    policy: NodePolicy | None = None,
    missing_requests: str = "reject",
) -> Iterator[PlacementLine]:
    """Yields one line for each pending pod, in the order of the file. An ended pod is not pending.

    A line has the feasible nodes, and why each other node is not feasible. With `sequential` it has one node only: each pod is
    placed on its first feasible node, in the order of the file, and takes room there from the pods after it. `skipped` lists
    rules that could not be judged. `accounting` adds our own rules: missing requests, system amounts, Reserved. Raises
    `ClusterError`.
    """
    decoded = cluster if isinstance(cluster, Cluster) else read_cluster(cluster)
    decoded = as_accounted(decoded) if accounting else decoded
    snapshot = snapshot_of(decoded, policy=(policy or policy_of(Settings()).nodes) if accounting else None)
    snapshot.strict_for = EVERY_SCHEDULER if missing_requests == "reject" else None
    pending = pending_pods(decoded)
    kinds = snapshot.number(pending)
    if sequential:
        yield from _one_after_another(snapshot, decoded, pending, kinds)
        return
    whole = _Whole(snapshot, decoded)
    for pod, kind in zip(pending, kinds.tolist(), strict=True):
        yield whole.line(pod, KindId(kind))


def as_accounted(cluster: Cluster) -> Cluster:
    """The cluster in which each pod that grows in place requests at least what it counts for in our own accounting."""
    return replace(cluster, pods=tuple(pod if pod.ended else as_counted(pod, None) for pod in cluster.pods))


def pending_pods(cluster: Cluster) -> list[Pod]:
    return [pod for pod in cluster.pods if pod.pending]


def snapshot_of(cluster: Cluster, *, policy: NodePolicy | None = None) -> ClusterSnapshot:
    """The snapshot of a cluster. With a policy it has our own accounting too, which the feasibility check then applies."""
    return ClusterSnapshot.build(
        cluster.nodes,
        cluster.pods,
        namespaces=cluster.namespaces,
        storage=cluster.storage,
        kubernetes=cluster.kubernetes.version,
        devices=cluster.devices,
        profiles=cluster.profiles,
        also=[each.pod.kind for each in cluster.headroom.examples()],
        ledger=None if policy is None else _ledger(cluster, policy),
    )


def _ledger(cluster: Cluster, policy: NodePolicy) -> NodeColumns:
    ledger = Ledger()
    row_of: dict[str | None, int] = {}
    for row, node in enumerate(cluster.nodes):
        ledger.open_row(Row(row), node.allocatable, policy)
        row_of[node.name] = row
    for pod in cluster.pods:
        if pod.node in row_of and not pod.ended:
            ledger.columns.reserved[:, row_of[pod.node]] += pod.kind.requests
    return ledger.columns


def _one_after_another(snapshot: ClusterSnapshot, cluster: Cluster, pods: list[Pod], kinds: Rows) -> Iterator[PlacementLine]:
    """Places each pod on its first feasible node; yields the lines. Pods that no scheduler tries take no room."""
    untried = [_untried(pod) for pod in pods]
    tried = np.flatnonzero([not why for why in untried])
    placed = place_pods(snapshot, kinds[tried], rows=np.arange(snapshot.n_rows))
    failed = {at for left in placed.left if dict(left.reasons).get(Reason.DEVICES_FAILED) for at in left.pods}
    turn, remarks = 0, _Remarks(cluster)
    for pod, kind, why in zip(pods, kinds.tolist(), untried, strict=True):
        if why:
            yield PlacementLine(pod=str(pod.key), node=None, untried=why)
            continue
        row = int(placed.rows[turn])
        yield PlacementLine(
            pod=str(pod.key),
            node=None if row == NOWHERE else snapshot.facts.nodes[row].name,
            devices=tuple(_devices(placed.claims[turn])) if turn in placed.claims else UNSET,
            failed=Reason.DEVICES_FAILED.text if turn in failed else "",
            skipped=_skipped(snapshot, KindId(kind), cluster),
            remarks=remarks.of(pod),
        )
        turn += 1


def _untried(pod: Pod) -> str:
    """Why no scheduler tries a pending pod; empty if one does. Slackwater opens its own gate once there is room."""
    if pod.deleting:
        return "terminating"
    gates = [gate for gate in pod.gates if gate != GATE]
    return f"gated: {', '.join(gates)}" if gates else ""


def _devices(claims: Sequence[ResourceClaim]) -> Iterator[PlacedDevice]:
    """The devices of a placed pod, in the order of its claims."""
    for claim in claims:
        for each in claim.allocation.devices if claim.allocation is not None else ():
            yield PlacedDevice(claim=claim.name.partition(" of ")[0], request=each.request, device=str(each.device))


class _Whole:
    """Judges each pod against the unchanged cluster, once for each equivalence group."""

    def __init__(self, snapshot: ClusterSnapshot, cluster: Cluster) -> None:
        self._snapshot = snapshot
        self._cluster = cluster
        self._remarks = _Remarks(cluster)
        self._answers: dict[KindId, PlacementLine] = {}

    def line(self, pod: Pod, kind: KindId) -> PlacementLine:
        if kind not in self._answers:
            self._answers[kind] = self._answer(kind)
        return structs.replace(self._answers[kind], pod=str(pod.key), remarks=self._remarks.of(pod))

    def _answer(self, kind: KindId) -> PlacementLine:
        verdicts = feasible(self._snapshot, kind)
        names = [node.name for node in self._snapshot.facts.nodes]
        gave_up = verdicts.refusal is not None and verdicts.refusal.reason is Reason.DEVICES_FAILED
        return PlacementLine(
            pod="",
            feasible=[names[row] for row in verdicts.rows.tolist()],
            rejected={
                names[row]: self._rejection(kind, Row(row), Reason(code), verdicts)
                for row, code in enumerate(verdicts.codes.tolist())
                if code
            },
            failed=verdicts.refusal.text if verdicts.refusal is not None and gave_up else "",
            skipped=_skipped(self._snapshot, kind, self._cluster),
        )

    def _rejection(self, kind: KindId, row: Row, reason: Reason, verdicts: Verdicts) -> Rejection:
        reasons = words(self._snapshot, kind, row, reason, verdicts.refusal)
        return Rejection.of(reason.plugin, reasons, resolvable=reason.resolvable)


def _skipped(snapshot: ClusterSnapshot, kind: KindId, cluster: Cluster) -> tuple[str, ...]:
    return *cluster.skipped(snapshot.of(kind)), *cluster.unread


class _Remarks:
    """Which pods were added to the file's, the line's own or on nodes, and which would not be admitted."""

    def __init__(self, cluster: Cluster) -> None:
        self._made = cluster.made
        placed = [pod.key for pod in cluster.pods if pod.node is not None] if cluster.made else []
        self._others = *dict.fromkeys(cluster.made[key] for key in placed if key in cluster.made), *cluster.refused

    def of(self, pod: Pod) -> tuple[str, ...]:
        own = (self._made[pod.key],) if pod.key in self._made else ()
        return *own, *self._others
