"""Writes six amounts of CPU and memory for each node as Prometheus text, from a copy of the ledger's columns.

A cluster of 5,000 nodes has 60,000 of these series. They are written here, a few nodes at a time, since the client library
would block the event loop for half a second. Names and fields are those of Neon's scheduler plugin (neondatabase/autoscaling
v0.36.1).
"""

from collections.abc import Iterator, Mapping
from typing import Final

import anyio.lowlevel
from prometheus_client.core import GaugeMetricFamily

from slackwater.model.objects import Node
from slackwater.runtime.state_machine import StateMachine
from slackwater_protocol.names import NODE_GROUP

#: (name, meaning, units of the column in one unit of the metric).
_FAMILIES: Final = (
    ("slackwater_node_cpu_resources_current", "What is promised, held back and wanted of each node's CPU; CPUs.", 1000),
    ("slackwater_node_mem_resources_current", "What is promised, held back and wanted of each node's memory; bytes.", 1),
)
_FIELDS: Final = (
    ("Total", "total"),
    ("Watermark", "watermark"),
    ("Reserved", "reserved"),
    ("Buffer", "buffer"),
    ("CapacityPressure", "capacity_pressure"),
    ("PressureAccountedFor", "pressure_accounted_for"),
)
_ZONE: Final = "topology.kubernetes.io/zone"
_LABELS: Final = ("node", "node_group", "availability_zone", "field")
#: Nodes written before other tasks get a turn: about half a millisecond.
_SLICE: Final = 64


def node_families() -> list[GaugeMetricFamily]:
    """Returns the metric families without series, for the list of metrics."""
    return [GaugeMetricFamily(name, meaning, labels=_LABELS) for name, meaning, _ in _FAMILIES]


async def node_metrics(state_machine: StateMachine) -> bytes:
    """Returns the text of all nodes, sorted by name. All numbers are of the moment of the call."""
    columns = state_machine.ledger.columns.copy()
    nodes = sorted(state_machine.nodes, key=lambda item: item[1].name)
    written: list[str] = []
    for resource, (name, meaning, scale) in enumerate(_FAMILIES):
        written.append(f"# HELP {name} {meaning}\n# TYPE {name} gauge\n")
        for start in range(0, len(nodes), _SLICE):
            for row, node in nodes[start : start + _SLICE]:
                numbers = {field: getattr(columns, column).item(resource, row) / scale for field, column in _FIELDS}
                written += _lines(name, node, numbers)
            await anyio.lowlevel.checkpoint()
    return "".join(written).encode()


def _lines(name: str, node: Node, numbers: Mapping[str, float]) -> Iterator[str]:
    group, zone = (_escaped(node.labels.get(label, "")) for label in (NODE_GROUP, _ZONE))
    head = f'{name}{{node="{_escaped(node.name)}",node_group="{group}",availability_zone="{zone}",field="'
    for field, number in numbers.items():
        yield f'{head}{field}"}} {number}\n'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
