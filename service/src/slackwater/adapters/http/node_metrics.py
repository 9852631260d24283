"""Metrics of each node as Prometheus text, six numbers for CPU and six for memory, from a copy of the columns.

A cluster of 5,000 nodes has 60,000 of these series. They are written here, a few nodes at a time, because the client library
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

#: (name, meaning, factor from the column's unit to the metric's).
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
#: Nodes written before other tasks run: about half a millisecond.
_SLICE: Final = 64


def node_families() -> list[GaugeMetricFamily]:
    """The families, without series."""
    return [GaugeMetricFamily(name, meaning, labels=_LABELS) for name, meaning, _ in _FAMILIES]


async def node_metrics(state_machine: StateMachine) -> bytes:
    """The text of all nodes at one moment, sorted by name."""
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
