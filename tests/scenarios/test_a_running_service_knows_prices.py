"""Prices in the configuration of the whole service, beside the sandbox cluster: what its loop, its status and its metrics say
that nodes cost."""

from pathlib import Path

import anyio
import pytest
from prometheus_client import generate_latest

from tests.scenarios.scaledown import test_the_wall_clock_jumps as service


def test_the_loop_counts_what_its_nodes_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "prices.csv"
    table.write_text("instance type,price per hour\nlarge,0.096\n")
    typed = 'template: {metadata: {labels: {node.kubernetes.io/instance-type: large}}, status: {capacity: {cpu: "4"'
    settings = service.SETTINGS.replace('template: {status: {capacity: {cpu: "4"', typed)
    monkeypatch.setattr(service, "SETTINGS", settings.replace("  creation:", f"  prices: {{table: {table}}}\n  creation:"))

    async def story(cluster: service.Cluster) -> None:
        cluster.add_pods(3, "first")
        await anyio.sleep(2 * service.MINUTES)
        autoscaler = cluster.service.autoscaler_service
        assert autoscaler is not None
        document = autoscaler.document()
        assert document is not None
        three = {"perHour": "0.288", "currency": "USD", "basis": "table"}
        assert document["cost"] == {"present": three}
        assert document["groups"][0]["cost"] == {"node": {**three, "perHour": "0.096"}, "present": three}
        series = 'slackwater_autoscaler_cost_per_hour{basis="table",currency="USD",node_group="pool",nodes="present"} 0.288'
        assert series in generate_latest(cluster.service.registry).decode().splitlines()

    service.play(story)
