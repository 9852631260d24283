"""The cluster that the bench of `worth` generates is one that kube-scheduler could have made, and has configured prices."""

import yaml

from slackwater.app.rounds.virtual_cluster import VirtualCluster
from slackwater.app.simulation import from_objects
from slackwater.fit.feasible_nodes import feasible
from tests.bench.contenders import HEADER
from tests.bench.worth.__main__ import configuration
from tests.bench.worth.filled import filled


def test_pods_of_the_generated_cluster_are_where_they_fit_and_its_nodes_have_prices() -> None:
    config = yaml.safe_load(HEADER + configuration(consolidation=True, quick=False))
    simulation = from_objects(filled(0.1, 1, 2), config=config)
    book = {group.name: group.price for group in simulation.settings.autoscaler.node_groups}
    assert {node.labels["slackwater.dev/node-group"] for node in simulation.cluster.nodes} < book.keys()
    cluster = VirtualCluster(simulation.cluster)
    pods = [pod for node in simulation.cluster.nodes for pod in cluster.pods_on(node.name)]
    for pod in pods:
        assert pod.node is not None
        cluster.drop(pod)
        snapshot = cluster.replica.snapshot
        assert cluster.replica.row_of(pod.node) in feasible(snapshot, snapshot.kind_id(pod.kind, pod.labels)).rows, pod.key
        cluster.bind(pod, pod.node)
    assert len(pods) > 300
    assert len({pod.kind for pod in pods}) > 10
