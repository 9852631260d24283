"""Prometheus metrics of the state machine and of its nodes, read at each scrape, so they cannot differ from the state.

- `state_families`: the families of the state machine and the dispatcher.
- `node_metrics`: six amounts of CPU and memory for each node, as text.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import anyio.lowlevel
from prometheus_client.core import GaugeMetricFamily, Metric

from slackwater.controllers.disagreement.metrics import disagreement_families
from slackwater.controllers.placement.metrics import choice_families
from slackwater.controllers.preemption.metrics import preemption_families
from slackwater.model.objects import ZONE, Node
from slackwater.model.pauses import ACTIVITIES
from slackwater.model.reasons import Reason
from slackwater.ports.metric_families import counter, gauge
from slackwater.runtime.dispatcher import DispatcherStats
from slackwater.runtime.state_machine import StateMachine
from slackwater_protocol.names import NODE_GROUP

_COUNTS = (
    ("attempts", "slackwater_scheduling_attempts", "Scheduling attempts seen: filter calls, and failures of in-tree filters."),
    ("adopted", "slackwater_pods_adopted", "Pods found bound that this service did not bind."),
    ("confirmed", "slackwater_binds_confirmed", "Bindings of this service that the watch has shown."),
    (
        "unexpected_binds",
        "slackwater_unexpected_binds",
        "Bind calls though extender.bind is false: kube-scheduler's file has a bindVerb that it should not have.",
    ),
    ("holds", "slackwater_holds_taken", "Holds taken for a bind to come, or for a nomination after a sample miss."),
    ("holds_expired", "slackwater_holds_expired", "Holds that ended by time, without a bind."),
    (
        "sample_misses",
        "slackwater_sample_misses",
        "Filter calls whose whole sample was refused although another node fits.",
    ),
    ("nominations", "slackwater_nominations", "Nominations made because of a sample miss."),
    ("nominations_met", "slackwater_nominations_met", "Nominated pods that were bound to the nominated node."),
    ("over_total", "slackwater_admissions_over_total", "Pods that others bound to a node without room for them."),
    (
        "odd_requests",
        "slackwater_agent_unaligned_requests",
        "Agent requests for resources that are no multiple of the compute unit. They are answered all the same.",
    ),
    ("permit_writes", "slackwater_permit_writes", "Writes of permit annotations."),
    (
        "permit_write_failures",
        "slackwater_permit_write_failures",
        "Writes of permit annotations that were refused, had no answer, or found another text than expected.",
    ),
    ("migrations_decided", "slackwater_migrations_decided", "Decisions that a virtual machine leaves its node."),
    ("migrations_created", "slackwater_migrations_created", "VirtualMachineMigrations created."),
    ("migration_create_fails", "slackwater_migration_create_fails", "VirtualMachineMigrations that could not be created."),
    (
        "migrations_without_target_node",
        "slackwater_migrations_without_target_node",
        "Migrations not started, because no node has room for the machine.",
    ),
)


def state_families(
    state_machine: StateMachine, *, listed: bool, writes: DispatcherStats, dropped_events: int
) -> Iterator[Metric]:
    """Yields the metric families at each scrape.

    `listed`: has every event source listed once? A standby that has is healthy, although its state machine decides nothing.
    """
    event_counts = state_machine.state.event_counts
    for field, name, meaning in _COUNTS:
        yield counter(name, meaning, getattr(event_counts, field))
    failures = {
        "slackwater": event_counts.failures - event_counts.failures_in_tree,
        "in_tree": event_counts.failures_in_tree,
    }
    yield counter("slackwater_scheduling_failures", "Failed scheduling attempts, by who refused the pod.", failures, "by")
    verdicts = {reason.label: count for reason, count in zip(Reason, event_counts.verdicts.tolist(), strict=True)}
    yield counter("slackwater_filter_verdicts", "Verdicts of filter on nodes, by reason.", verdicts, "reason")
    refusals = event_counts.bind_refusals.tolist()
    refused = {reason.label: refusals[reason] for reason in Reason if reason is not Reason.OK}
    yield counter("slackwater_bind_refusals", "Refused binds, by reason.", refused, "reason")
    for name, meaning, counts in (
        ("slackwater_migrations_deleted", "Finished VirtualMachineMigrations deleted.", event_counts.migrations_deleted),
        (
            "slackwater_migration_delete_fails",
            "Failed deletions of finished VirtualMachineMigrations.",
            event_counts.migration_delete_fails,
        ),
    ):
        yield counter(name, meaning, {phase or "unknown": count for phase, count in counts.items()}, "phase")
    # A node's count ends with the node, so the number of series is bounded.
    meaning = "Pods that others bound to a node without room for them, by node."
    yield counter("slackwater_reserve_should_deny", meaning, event_counts.over_total_on, "node")
    paused = {activity: activity in state_machine.paused for activity in ACTIVITIES}
    yield gauge("slackwater_paused", "1 while a person has paused the activity.", paused, "activity")
    yield from preemption_families(state_machine.preemptions)
    yield from choice_families(state_machine.chosen_nodes)
    yield from disagreement_families(state_machine.disagreements)
    yield from _gauges(state_machine, listed=listed)
    calls, meaning = dict(sorted(writes.calls.items())), "Attempts of API writes, by effect and verdict."
    yield counter("slackwater_api_calls", meaning, calls, "effect", "verdict")
    yield gauge("slackwater_api_calls_waiting", "Effects that have not ended.", writes.waiting)
    yield counter("slackwater_events_dropped", "Kubernetes Events that were dropped under load.", dropped_events)


def _gauges(state_machine: StateMachine, *, listed: bool) -> Iterator[Metric]:
    state, queue = state_machine.state, state_machine.migrating.choice.queue
    for name, meaning, value in (
        ("slackwater_synced", "1 once everything was listed.", listed),
        ("slackwater_nodes", "Nodes in the cluster state.", len(state.nodes)),
        ("slackwater_pods", "Pods in the cluster state, with ended ones.", len(state.pods)),
        ("slackwater_reservations", "Pods that count on a node.", len(state.reservations)),
        (
            "slackwater_reservations_unconfirmed",
            "Reservations that the watch has not shown yet.",
            state.reservations.unconfirmed(),
        ),
        ("slackwater_holds", "Holds in force now.", len(state.holds)),
        ("slackwater_vertical_pods", "Pods that grow in place and count on a node.", len(state.vertical_pods)),
        ("slackwater_permit_writes_waiting", "Permits being written now.", state_machine.permit_limits.writing()),
        ("slackwater_migrations", "Migrations decided or running now.", len(state_machine.migrating.migrations)),
        ("slackwater_migration_queue", "Machines that may migrate from their node.", len(queue)),
        ("slackwater_denied_binds", "Denied binds whose back-off has not ended.", len(state.bind_backoff)),
    ):
        yield gauge(name, meaning, value)


#: (name, meaning, units of the column in one unit of the metric).
_FAMILIES: Final = (
    ("slackwater_node_cpu_resources_current", "CPU of each node that is reserved, buffered and asked for, in CPUs.", 1000),
    ("slackwater_node_mem_resources_current", "Memory of each node that is reserved, buffered and asked for, in bytes.", 1),
)
_FIELDS: Final = (
    ("Total", "total"),
    ("Watermark", "watermark"),
    ("Reserved", "reserved"),
    ("Buffer", "buffer"),
    ("CapacityPressure", "capacity_pressure"),
    ("PressureAccountedFor", "pressure_accounted_for"),
)
_LABELS: Final = ("node", "node_group", "availability_zone", "field")
#: Nodes written before other tasks get a turn: about half a millisecond.
_SLICE: Final = 64


def node_families() -> list[GaugeMetricFamily]:
    """Returns the metric families without series, for the list of metrics."""
    return [GaugeMetricFamily(name, meaning, labels=_LABELS) for name, meaning, _ in _FAMILIES]


async def node_metrics(state_machine: StateMachine) -> bytes:
    """Returns the metrics of all nodes as text, sorted by node name. The ledger's columns are copied first, so all numbers are
    of the moment of the call.

    A cluster of 5,000 nodes has 60,000 of these series. They are written here, a few nodes at a time, since the client library
    would block the event loop for half a second. Names and fields are those of Neon's scheduler plugin
    (neondatabase/autoscaling v0.36.1).
    """
    columns = state_machine.state.ledger.columns.copy()
    nodes = sorted(state_machine.state.nodes, key=lambda item: item[1].name)
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
    group, zone = (_escaped(node.labels.get(label, "")) for label in (NODE_GROUP, ZONE))
    head = f'{name}{{node="{_escaped(node.name)}",node_group="{group}",availability_zone="{zone}",field="'
    for field, number in numbers.items():
        yield f'{head}{field}"}} {number}\n'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
