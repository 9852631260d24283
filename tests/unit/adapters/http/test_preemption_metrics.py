"""The metrics say what became of preemptions, and are there before the first."""

from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from slackwater.controllers.preemption.metrics import preemption_families
from slackwater.runtime.dump import Dump, state_of
from slackwater.runtime.restore import restore
from tests.support.answers import json_of
from tests.support.builders import a_node, a_pod
from tests.support.preempting import POLICY, Cluster

ENDS = "slackwater_goroutines_execution_total"


def scraped(cluster: Cluster) -> CollectorRegistry:
    class Collects(Collector):
        def collect(self):  # type: ignore[no-untyped-def]
            return preemption_families(cluster.state_machine.preemptions)

    registry = CollectorRegistry()
    registry.register(Collects())
    return registry


def a_cluster() -> tuple[Cluster, str]:
    victim, pod = a_pod("v", on="n", cpu="3"), a_pod("p", cpu="2", priority=9)
    cluster = Cluster(a_node("n"), victim, pod)
    assert scraped(cluster).get_sample_value(ENDS, {"operation": "preemption", "result": "error"}) == 0
    cluster.filter(pod)
    return cluster, victim.uid


def test_a_success_and_its_duration() -> None:
    cluster, _ = a_cluster()
    assert scraped(cluster).get_sample_value("slackwater_gates_shut") == 1
    cluster.now += 3.0
    cluster.serve()
    metrics, operation = scraped(cluster), {"operation": "preemption"}
    assert metrics.get_sample_value("slackwater_preemption_attempts_total") == 1
    assert metrics.get_sample_value(ENDS, operation | {"result": "success"}) == 1
    assert metrics.get_sample_value("slackwater_goroutines_duration_seconds_sum", operation) == 3.0
    assert metrics.get_sample_value("slackwater_goroutines_duration_seconds_bucket", operation | {"le": "2.56"}) == 0
    assert metrics.get_sample_value("slackwater_goroutines_duration_seconds_bucket", operation | {"le": "5.12"}) == 1
    assert metrics.get_sample_value("slackwater_preemption_victims_bucket", {"le": "1.0"}) == 1
    assert metrics.get_sample_value("slackwater_gates_shut") == 0


def test_an_error() -> None:
    cluster, _ = a_cluster()
    cluster.serve(victims="refused")
    assert scraped(cluster).get_sample_value(ENDS, {"operation": "preemption", "result": "error"}) == 1


def test_a_shut_gate_is_in_the_dump_and_a_dump_read_back_keeps_no_room() -> None:
    cluster, victim = a_cluster()
    cluster.now += 2.0
    dump = json_of(state_of(Dump(cluster.state_machine, cluster.at)))
    assert dump["gates"] == [
        {
            "namespace": "default",
            "name": "p",
            "uid": "uid-p",
            "shut": True,
            "phase": "announcing",
            "node": "n",
            "priority": 9,
            "waitingFor": [victim],
            "sinceSeconds": 2.0,
            "endsInSeconds": 298.0,
        }
    ]
    assert restore(dump, POLICY, cluster.at).state.ledger.columns.held.sum() == 0
