"""Prometheus metrics of the autoscaler: those of Cluster Autoscaler, so that its dashboards work, and our own.

They are read from the newest loop record at each scrape. Names, labels and values with the prefix `cluster_autoscaler_` are
Cluster Autoscaler's; its metrics of things that do not exist here are omitted.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from slackwater.controllers.scaleup.outcome import FailedPart
from slackwater.controllers.slack.report import slack_shares
from slackwater.model.reasons import UnremovableReason
from slackwater.ports.histograms import histogram
from slackwater.runtime.autoscaler.loop_record import FUNCTIONS, LoopCounts, LoopRecord
from slackwater.runtime.planner.messages import PlannerObservation

_PREFIX: Final = "cluster_autoscaler_"


class AutoscalerCollector(Collector):
    """Collects the families at each scrape. `last` returns the newest loop record, None before the first loop."""

    def __init__(
        self,
        last: Callable[[], LoopRecord | None],
        counts: LoopCounts,
    ) -> None:
        self._last = last
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        record = self._last()
        yield from _cluster(record)
        yield from _groups(record)
        yield from _counted(self._counts)
        yield from _scale_down_loop(record, self._counts)
        yield from _own(record, self._counts)
        yield from _slack(record)
        yield from _slos(record)


class PlannerCollector(Collector):
    """Collects the families of the planning process, which also answers questions where no autoscaler runs."""

    def __init__(self, observation: Callable[[], PlannerObservation]) -> None:
        self._observation = observation

    def collect(self) -> Iterator[Metric]:
        yield from _planner(self._observation())


def _gauge(name: str, meaning: str, *, labels: tuple[str, ...] = ()) -> GaugeMetricFamily:
    return GaugeMetricFamily(_PREFIX + name, meaning, labels=labels)


def _cluster(record: LoopRecord | None) -> Iterator[Metric]:
    safe = _gauge("cluster_safe_to_autoscale", "1 unless too many nodes are unready.")
    nodes = _gauge("nodes_count", "Nodes by state.", labels=("state",))
    groups = _gauge("node_groups_count", "Node groups.", labels=("node_group_type",))
    pods = _gauge("unschedulable_pods_count", "Pending pods for which nodes may be added.", labels=("type",))
    most = _gauge("max_nodes_count", "Nodes that all groups may have together.")
    if record is not None:
        every = list(record.group_status.values())
        safe.add_metric([], int(record.healthy))
        for state, count in (
            ("ready", sum(len(group_status.ready) for group_status in every)),
            ("unready", sum(len(group_status.unready) for group_status in every)),
            ("notStarted", sum(len(group_status.starting) for group_status in every)),
            ("unregistered", sum(group_status.coming for group_status in every)),
            ("longUnregistered", sum(not lost.given_up for group_status in every for lost in group_status.lost)),
        ):
            nodes.add_metric([state], count)
        groups.add_metric(["autoscaled"], sum(not group_status.off for group_status in every))
        pods.add_metric(["unschedulable"], record.pending.helped + record.pending.unhelpable)
        most.add_metric([], sum(group_status.group.max_size for group_status in every))
    yield from (safe, nodes, groups, pods, most)


def _groups(record: LoopRecord | None) -> Iterator[Metric]:
    label = ("node_group",)
    least = _gauge("node_group_min_count", "Least nodes of the group.", labels=label)
    most = _gauge("node_group_max_count", "Most nodes of the group.", labels=label)
    target = _gauge("node_group_target_count", "Nodes that the group has or was asked to have.", labels=label)
    health = _gauge("node_group_healthiness", "1 if the group's provider answers.", labels=label)
    backoff = _gauge(
        "node_group_backoff_status",
        "1 while the group backs off after a failed scale-up, by reason.",
        labels=("node_group", "reason"),
    )
    for group_status in record.group_status.values() if record is not None else ():
        group = group_status.group
        least.add_metric([group.name], group.min_size)
        most.add_metric([group.name], group.max_size)
        target.add_metric([group.name], group.target)
        health.add_metric([group.name], int(group_status.known))
        if group_status.backoff is not None and record is not None:
            backoff.add_metric([group.name, group_status.backoff.code], int(group_status.backoff.holds(record.instant)))
    yield from (least, most, target, health, backoff)


def _counted(counts: LoopCounts) -> Iterator[Metric]:
    activity = _gauge("last_activity", "Time of the last run of each activity, Unix seconds.", labels=("activity",))
    for name, at in counts.last_activity.items():
        activity.add_metric([name], at)
    yield activity
    yield histogram(
        _PREFIX + "function_duration_seconds",
        "Duration of each part of a loop.",
        [((name,), counts.durations[name]) for name in FUNCTIONS],
        labels=["function"],
    )
    yield _by(counts.errors, "errors", "Failed loops and calls, by kind.", "type")
    yield CounterMetricFamily(_PREFIX + "scaled_up_nodes", "Nodes requested from providers.", value=counts.nodes_asked)
    yield _by(
        counts.failed_scale_ups,
        "failed_scale_ups",
        "Scale-ups that the provider refused or did not answer, by reason.",
        "reason",
    )
    yield _by(counts.failed_nodes, "failed_node_creations", "Requested nodes that were not created, by reason.", "reason")
    yield CounterMetricFamily(
        _PREFIX + "old_unregistered_nodes_removed",
        "Machines deleted because they did not become nodes in time.",
        value=counts.late_removed,
    )


def _scale_down_loop(record: LoopRecord | None, counts: LoopCounts) -> Iterator[Metric]:
    scale_down = None if record is None else record.scale_down
    yield _by(counts.nodes_removed, "scaled_down_nodes", "Removed nodes, by reason.", "reason")
    yield _by(counts.gpu_nodes_removed, "scaled_down_gpu_nodes", "Removed nodes with GPUs, by reason.", "reason")
    yield CounterMetricFamily(_PREFIX + "evicted_pods", "Pods evicted to remove their nodes.", value=counts.pods_evicted)
    yield _by(counts.removals_given_up, "failed_scale_downs", "Removals that were rolled back, by reason.", "reason")
    unneeded = _gauge("unneeded_nodes_count", "Nodes that could be removed together.")
    unremovable = _gauge("unremovable_nodes_count", "Nodes that cannot be removed, by reason.", labels=("reason",))
    pending = _gauge("pending_node_deletions", "Nodes that are being removed.")
    cooling = _gauge("scale_down_in_cooldown", "1 while removable nodes wait only for the cool-downs of their groups.")
    if scale_down is not None:
        unneeded.add_metric([], sum(scale_down.unneeded.values()))
        for unremovable_reason in UnremovableReason:
            unremovable.add_metric([unremovable_reason], scale_down.reasons.get(unremovable_reason, 0))
        pending.add_metric([], scale_down.under_way[0])
        cooling.add_metric([], int(scale_down.status == "cooldown"))
    yield from (unneeded, unremovable, pending, cooling)


def _by(values: Mapping[str, int], name: str, meaning: str, label: str) -> CounterMetricFamily:
    family = CounterMetricFamily(_PREFIX + name, meaning, labels=[label])
    for key, count in sorted(values.items()):
        family.add_metric([key], count)
    return family


def _own(record: LoopRecord | None, counts: LoopCounts) -> Iterator[Metric]:
    yield CounterMetricFamily("slackwater_autoscaler_loops", "Completed loops.", value=counts.loops)
    yield CounterMetricFamily("slackwater_autoscaler_failed_loops", "Loops that failed.", value=counts.failed_loops)
    left_out = CounterMetricFamily(
        "slackwater_autoscaler_plan_failures", "What was left out of a scale-up plan because of an error.", labels=["part"]
    )
    for part in get_args(FailedPart):
        left_out.add_metric([part], counts.left_out_of_plans[part])
    yield left_out
    creating = GaugeMetricFamily("slackwater_autoscaler_nodes_in_creation", "Nodes in creation.", labels=["node_group"])
    stuck = GaugeMetricFamily(
        "slackwater_autoscaler_nodes_stuck",
        "Nodes that were not created in time and could not be deleted. They do not count as in creation.",
        labels=["node_group"],
    )
    queued = GaugeMetricFamily(
        "slackwater_autoscaler_nodes_queued", "Nodes whose creation waits for a limit.", labels=["node_group"]
    )
    pending = GaugeMetricFamily(
        "slackwater_autoscaler_pending_pods", "Pending pods, by what the last loop found for them.", labels=["outcome"]
    )
    if record is not None:
        for group_status in record.group_status.values():
            creating.add_metric([group_status.name], group_status.in_creation)
            stuck.add_metric([group_status.name], group_status.stuck)
        for wait in record.queued:
            queued.add_metric([wait.group], wait.nodes)
        for outcome in ("helped", "schedulable", "unhelpable", "passed_over", "not_looked_at"):
            pending.add_metric([outcome], getattr(record.pending, outcome))
    yield from (creating, stuck, queued, pending)
    yield GaugeMetricFamily(
        "slackwater_autoscaler_serving_loop_seconds",
        "Seconds that the last loop took on the event loop that answers kube-scheduler.",
        value=0.0 if record is None else record.spent.serving,
    )


def _planner(observation: PlannerObservation) -> Iterator[Metric]:
    yield CounterMetricFamily(
        "slackwater_planner_restarts", "How often the planning process ended and was started again.", value=observation.restarts
    )
    yield GaugeMetricFamily(
        "slackwater_planner_resident_memory_bytes", "Resident memory of the planning process.", value=observation.resident_bytes
    )
    yield GaugeMetricFamily(
        "slackwater_planner_silent_seconds",
        "For how long the planning process has given no sign of progress while it makes a plan.",
        value=observation.silent_seconds,
    )


def _slos(record: LoopRecord | None) -> Iterator[Metric]:
    label = ["slo"]
    pods = CounterMetricFamily(
        "slackwater_slack_slo_pods",
        "New pods of a class with a start-time SLO, by whether they got a node in time.",
        labels=["slo", "outcome"],
    )
    wanted = GaugeMetricFamily(
        "slackwater_slack_slo_wanted_ratio", "Share of the pods that should get a node in time.", labels=label
    )
    kept = GaugeMetricFamily(
        "slackwater_slack_slo_kept_ratio", "Share of the last day's pods that got a node in time.", labels=label
    )
    room = GaugeMetricFamily("slackwater_slack_slo_room_pods", "Pods for which room is wanted now.", labels=label)
    lead = GaugeMetricFamily(
        "slackwater_slack_slo_lead_seconds", "Assumed time from the request for a node until it is ready.", labels=label
    )
    start = GaugeMetricFamily(
        "slackwater_node_start_seconds", "Start time of the slowest of the group's last nodes.", labels=["node_group"]
    )
    slack = None if record is None else record.slack
    for name, each in slack.headroom.slos.rooms.items() if slack is not None else ():
        seen = each.observed
        pods.add_metric([name, "in_time"], seen.kept.all_in_time)
        pods.add_metric([name, "late"], seen.kept.all_late)
        wanted.add_metric([name], seen.of.share_ppm / 1_000_000)
        if seen.kept.share is not None:
            kept.add_metric([name], seen.kept.share)
        room.add_metric([name], each.forecast.room)
        lead.add_metric([name], each.lead_seconds)
    for group_status in record.group_status.values() if record is not None else ():
        if group_status.starts:
            start.add_metric([group_status.name], max(group_status.starts))
    yield from (pods, wanted, kept, room, lead, start)


def _slack(record: LoopRecord | None) -> Iterator[Metric]:
    plan = None if record is None else record.slack
    count = GaugeMetricFamily(
        "slackwater_slack_placeholders", "Placeholders for slack, by source and state.", labels=["source", "state"]
    )
    cpu = GaugeMetricFamily("slackwater_slack_cpu_cores", "CPU that placeholders hold on nodes now.", labels=["source"])
    memory = GaugeMetricFamily(
        "slackwater_slack_memory_bytes", "Memory that placeholders hold on nodes now.", labels=["source"]
    )
    for source, share in slack_shares(plan).items() if plan is not None else ():
        for state in ("placed", "coming", "homeless"):
            count.add_metric([source, state], getattr(share, state))
        cpu.add_metric([source], share.placed_amount.cpu / 1000)
        memory.add_metric([source], share.placed_amount.memory)
    yield from (count, cpu, memory)
    yield GaugeMetricFamily(
        "slackwater_slack_nodes", "Nodes that exist only for slack.", value=0 if plan is None else plan.alone
    )
    yield GaugeMetricFamily(
        "slackwater_slack_pushed_off",
        "Placeholders that had to leave their node in the last loop.",
        value=0 if plan is None else len(plan.pushed),
    )
