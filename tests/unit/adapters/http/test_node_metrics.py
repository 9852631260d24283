"""/metrics tells each node's six numbers as they are when it is asked for."""

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from slackwater.runtime.state_machine import StateMachine
from tests.support.builders import a_node, a_vertical, amounts
from tests.support.growing import Growing
from tests.support.ops import ops_app

pytestmark = pytest.mark.anyio

CPU, MEM = "slackwater_node_cpu_resources_current", "slackwater_node_mem_resources_current"


async def scraped(state_machine: StateMachine) -> dict[tuple[str, str, str], float]:
    """By (metric, node, field)."""
    app = ops_app(state_machine=state_machine)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://ops") as http:
        text = (await http.get("/metrics")).text
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    assert all(set(sample.labels) == {"node", "node_group", "availability_zone", "field"} for sample in samples)
    return {(sample.name, sample.labels["node"], sample.labels["field"]): sample.value for sample in samples}


async def test_each_number_of_each_node_is_there_and_right() -> None:
    cluster = Growing()
    cluster.has_node(a_node("n", cpu="10", memory="40Gi"))
    cluster.has_node(a_node("empty"))
    found = cluster.has_machine("found", on="n", vertical=a_vertical())
    asks = cluster.places("asks", on="n", vertical=a_vertical(maximum=amounts("20", "80Gi")))
    before = await scraped(cluster.state_machine)
    assert (before[CPU, "n", "Reserved"], before[CPU, "n", "Buffer"]) == (5.0, 3.0)

    cluster.ask(found, amounts("1", "4Gi"))
    cluster.ask(asks, amounts("12", "48Gi"))
    after = await scraped(cluster.state_machine)
    want_cpu = {"Total": 10, "Watermark": 9, "Reserved": 10, "Buffer": 0, "CapacityPressure": 2 + 1, "PressureAccountedFor": 0}
    assert {field: after[CPU, "n", field] for field in want_cpu} == want_cpu
    assert after[MEM, "n", "Reserved"] == 40 << 30
    assert after[CPU, "empty", "Reserved"] == 0


async def test_labels_are_escaped_and_taken_from_the_node() -> None:
    cluster = Growing()
    labels = {"topology.kubernetes.io/zone": "zone-a", "slackwater.dev/node-group": 'odd"group\\'}
    cluster.has_node(a_node("n", labels=labels))
    app = ops_app(state_machine=cluster.state_machine)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://ops") as http:
        families = list(text_string_to_metric_families((await http.get("/metrics")).text))
    reported = {(s.labels["node_group"], s.labels["availability_zone"]) for family in families for s in family.samples}
    assert reported == {('odd"group\\', "zone-a")}
