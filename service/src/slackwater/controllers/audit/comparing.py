"""Compares one object as the API server lists it with the same object in the cluster state, for the audit.

The cluster state changes while the list is read, so resource versions are compared first. An object that is newer in the
cluster state has changed since the list and is correct. For an object that is older, the watch may only lag: the caller
compares it again later. Nothing is changed here.
"""

from slackwater.cluster.cluster_state import ClusterState
from slackwater.cluster.recomputed_sums import Drift, SumDifference
from slackwater.model.ids import NodeName, PodUid
from slackwater.model.ledger.ledger import ordinary_resources
from slackwater.model.objects import Node, Pod


def compare_node(state: ClusterState, fresh: Node) -> SumDifference | None:
    """The difference between the node in the cluster state and the listed one, `fresh`; None if there is none."""
    name = f"node {fresh.name}"
    row = state.nodes.row_of.get(fresh.name)
    known = None if row is None else state.nodes.by_row[row]
    if known is None:
        return SumDifference(Drift.UNKNOWN_NODE, name, f"absent, want version {fresh.resource_version}")
    if known.uid == fresh.uid and known.resource_version > fresh.resource_version:
        return None
    if known.resource_version != fresh.resource_version or known.uid != fresh.uid:
        return SumDifference(Drift.MISSED_EVENT, name, f"version {known.resource_version}, want {fresh.resource_version}")
    if known != fresh or state.quarantine.has_object(fresh.uid):
        return SumDifference(Drift.ALTERED_OBJECT, name, f"version {fresh.resource_version} says otherwise")
    return None


def compare_pod(state: ClusterState, fresh: Pod) -> SumDifference | None:
    """The difference between the pod in the cluster state and the listed one, `fresh`; None if there is none."""
    name = f"pod {fresh.key}"
    known = state.pods.get(fresh.uid)
    if known is None:
        gone = state.pods.is_gone(fresh.uid)
        return None if gone else SumDifference(Drift.UNKNOWN_POD, name, f"absent, want version {fresh.resource_version}")
    if known.resource_version > fresh.resource_version:
        return None
    if known.resource_version < fresh.resource_version:
        return SumDifference(Drift.MISSED_EVENT, name, f"version {known.resource_version}, want {fresh.resource_version}")
    if known != fresh or state.quarantine.has_object(fresh.uid):  # it could not be applied before
        return SumDifference(Drift.ALTERED_OBJECT, name, f"version {fresh.resource_version} says otherwise")
    return _compare_reservation(state, fresh, name)


def _compare_reservation(state: ClusterState, fresh: Pod, name: str) -> SumDifference | None:
    """The difference between the pod's reservation and the listed pod; None if there is none. The reservation of a bind in
    progress is no difference: the API server need not show the bind yet."""
    reservation = state.reservations.get(fresh.uid)
    place = None if fresh.ended else fresh.node
    if place is None:
        wrong = reservation is not None and (fresh.ended or reservation.state == "seen")
        return (
            SumDifference(Drift.WRONG_PLACE, name, f"counts on node {reservation.node}, want nowhere")
            if wrong and reservation
            else None
        )
    if reservation is None or reservation.node != place:
        seen = "nowhere" if reservation is None else f"on node {reservation.node}"
        return SumDifference(Drift.WRONG_PLACE, name, f"counts {seen}, want on node {place}")
    if fresh.vertical is None and fresh.vertical_problem is None:
        want = ordinary_resources(fresh.kind.requests)
        if reservation.pod_resources != want:
            return SumDifference(Drift.WRONG_ACCOUNT, name, f"counts {reservation.pod_resources}, want {want}")
    return None


def compare_absent_pod(state: ClusterState, uid: PodUid, version: int) -> SumDifference | None:
    """The difference for a pod that a list of this `version` lacks, if the cluster state still has it. None if the cluster
    state lacks it too, or has it in a newer version."""
    known = state.pods.get(uid)
    if known is None or known.resource_version > version:
        return None
    return SumDifference(Drift.STALE_OBJECT, f"pod {known.key}", f"version {known.resource_version}, and absent at {version}")


def compare_absent_node(state: ClusterState, name: NodeName, version: int) -> SumDifference | None:
    """The difference for a node that a list of this `version` lacks, if the cluster state still has it. None if the cluster
    state lacks it too, or has it in a newer version."""
    row = state.nodes.row_of.get(name)
    known = None if row is None else state.nodes.by_row[row]
    if known is None or known.resource_version > version:
        return None
    return SumDifference(Drift.STALE_OBJECT, f"node {name}", f"version {known.resource_version}, and absent at {version}")
