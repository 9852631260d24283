"""Series by node end with the node: where nodes come and go, there would be more of them with each."""

from prometheus_client import CollectorRegistry, generate_latest

from slackwater.controllers.permits.metrics import AgentMetrics
from tests.support.containers import sizes


def test_the_series_of_20000_nodes_that_came_and_went_are_gone() -> None:
    nodes: set[str] = {"stays"}
    registry = CollectorRegistry()
    metrics = AgentMetrics(registry, lambda: nodes)
    metrics.result(200, "stays", has_metrics=True)
    metrics.result(404, "", has_metrics=False)
    for number in range(20_000):
        name = f"node-{number}"
        nodes.add(name)
        metrics.result(200, name, has_metrics=True)
        metrics.result(200, "stays", has_metrics=True)
        nodes.discard(name)
    assert sizes(metrics)["AgentMetrics._results"] < 100, "also where nobody ever scrapes"
    text = generate_latest(registry).decode()
    found = [line for line in text.splitlines() if line.startswith("slackwater_resource_requests_results_total")]
    assert found == [
        'slackwater_resource_requests_results_total{code="200",has_metrics="true",node="stays"} 20001.0',
        'slackwater_resource_requests_results_total{code="404",has_metrics="false",node="<none>"} 1.0',
    ]
