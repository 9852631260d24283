"""Each predicate over columns says what its slow, obvious version in `rowbyrow` says of each node by itself.

Unlike the comparison with kube-scheduler, this one also asks predicates about nodes that an earlier one has rejected.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from slackwater.app.offline import Cluster, read_cluster
from slackwater.fit.feasible_nodes import PREDICATES, refused
from slackwater.model.objects import Node, Pod
from slackwater.model.reasons import Reason
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from tests.laws.fit.rowbyrow import refusals
from tests.laws.fit.rowbyrow.binding import volume_binding
from tests.laws.fit.rowbyrow.cluster import PlainCluster, asks
from tests.laws.fit.rowbyrow.disks import node_volume_limits, volume_restrictions, volume_zone
from tests.laws.fit.rowbyrow.neighbours import inter_pod_affinity, pod_topology_spread
from tests.laws.fit.rowbyrow.nodes import (
    left_out,
    node_affinity,
    node_declared_features,
    node_name,
    node_unschedulable,
    taint_toleration,
)
from tests.laws.fit.rowbyrow.room import node_ports, node_resources_fit
from tests.oracle.generator import generate
from tests.oracle.generator.draw import Draw

Rule = Callable[[PlainCluster, Pod, Node], Reason]
ROW_BY_ROW: Final[dict[str, Rule]] = {
    "Live": lambda _cluster, _pod, _node: Reason.OK,
    "LeftOut": left_out,
    "NodeUnschedulable": node_unschedulable,
    "NodeName": node_name,
    "TaintToleration": taint_toleration,
    "NodeAffinity": node_affinity,
    "NodePorts": node_ports,
    "NodeResourcesFit": node_resources_fit,
    "VolumeRestrictions": volume_restrictions,
    "NodeVolumeLimits": node_volume_limits,
    "VolumeBinding": volume_binding,
    "VolumeZone": volume_zone,
    "PodTopologySpread": pod_topology_spread,
    "InterPodAffinity": inter_pod_affinity,
    # These clusters have no devices, so pods with claims are refused as a whole: see test_device_laws and the oracle.
    "DynamicResources": lambda _cluster, _pod, _node: Reason.OK,
    "NodeDeclaredFeatures": node_declared_features,
}
#: What clusters should be about, so that the predicate has something to say.
_THEMES: Final = {
    "NodeUnschedulable": "taints",
    "TaintToleration": "taints",
    "LeftOut": "affinity",
    "NodeAffinity": "affinity",
    "NodePorts": "ports",
    "NodeResourcesFit": "resources",
    "VolumeRestrictions": "disks",
    "NodeVolumeLimits": "limits",
    "VolumeBinding": "binding",
    "VolumeZone": "zones",
    "PodTopologySpread": "spread",
    "InterPodAffinity": "between",
    "NodeDeclaredFeatures": "extras",
}
_SEED: Final = 41
#: A cluster of the generator, by its number.
clusters = st.integers(0, 100_000)


def a_cluster(number: int) -> Cluster:
    """Every third pod that waits names a node, which pods of a file do not."""
    cluster = read_cluster(generate(_SEED, number))
    pods = (_naming(pod, f"n{index}") if index % 3 == 0 else pod for index, pod in enumerate(cluster.pods))
    return replace(cluster, pods=tuple(pods))


def _naming(pod: Pod, name: str) -> Pod:
    if pod.node is not None:
        return pod
    return structs.replace(pod, kind=replace(pod.kind, pod_constraints=replace(asks(pod), node_name=name)))


def a_snapshot(cluster: Cluster) -> ClusterSnapshot:
    return ClusterSnapshot.build(cluster.nodes, cluster.pods, namespaces=cluster.namespaces, storage=cluster.storage)


def waiting(cluster: Cluster) -> list[Pod]:
    return [pod for pod in cluster.pods if pod.node is None and not pod.ended]


def test_every_predicate_has_a_row_by_row_version() -> None:
    """The ledger's stands in test_placement_laws."""
    assert {*ROW_BY_ROW, "Ledger"} == {predicate.name for predicate in PREDICATES}


@pytest.mark.parametrize("predicate", [p for p in PREDICATES if p.name in ROW_BY_ROW], ids=lambda p: p.name)
@settings(max_examples=20, deadline=None)
@given(number=clusters, some=st.randoms(use_true_random=False))
def test_a_predicate_judges_all_rows_and_some_rows_as_each_by_itself(predicate, number, some) -> None:  # type: ignore[no-untyped-def]
    number = next(n for n in count(number) if _THEMES.get(predicate.name) in (None, *Draw(_SEED, n).themes))
    cluster = a_cluster(number)
    snapshot, plain = a_snapshot(cluster), PlainCluster.of(cluster)
    for pod in waiting(cluster):
        kind = snapshot.of(snapshot.kind_id(pod.kind, pod.labels, deleting=pod.deleting))
        want = [ROW_BY_ROW[predicate.name](plain, pod, node) for node in plain.nodes]
        if predicate.part(snapshot, kind) is None:
            assert set(want) <= {Reason.OK}, pod.key
            continue
        assert predicate.judge(snapshot, kind, slice(0, snapshot.n_rows)).tolist() == want, pod.key
        rows = sorted(some.sample(range(snapshot.n_rows), some.randint(0, snapshot.n_rows)))
        judged = predicate.judge(snapshot, kind, np.array(rows, np.intp))
        assert judged.tolist() == [want[row] for row in rows], pod.key


@settings(max_examples=25, deadline=None)
@given(number=clusters)
def test_a_pod_is_refused_as_a_whole_for_the_first_thing_that_is_wrong_with_it(number: int) -> None:
    cluster = a_cluster(number)
    snapshot, plain = a_snapshot(cluster), PlainCluster.of(cluster)
    for pod in waiting(cluster):
        refusal = refused(snapshot, snapshot.of(snapshot.kind_id(pod.kind, pod.labels, deleting=pod.deleting)))
        assert (None if refusal is None else refusal.reason) == refusals.refused(plain, pod), pod.key
