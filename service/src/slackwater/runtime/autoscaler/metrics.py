"""Prometheus metrics of the autoscaler: those of Cluster Autoscaler, so that its dashboards work, and our own.

They are read from the newest loop record at each scrape. Names, labels and values with the prefix `cluster_autoscaler_` are
Cluster Autoscaler's; its metrics of things that do not exist here are omitted.
"""

from collections.abc import Iterator
from typing import Final, get_args

from prometheus_client.core import Metric

from slackwater.controllers.consolidation.running_moves import Outcome
from slackwater.controllers.loop_plans import OUTCOMES
from slackwater.controllers.scaleup.outcome import FailedPart
from slackwater.controllers.slack.report import slack_shares
from slackwater.model.reasons import UnremovableReason
from slackwater.ports.metric_families import counter, gauge, histogram
from slackwater.runtime.autoscaler.loop_record import FUNCTIONS, LoopCounts, LoopRecord, node_counts
from slackwater.runtime.planner.messages import PlannerObservation
from slackwater_protocol.money import MICROS

_PREFIX: Final = "cluster_autoscaler_"


def autoscaler_families(record: LoopRecord | None, counts: LoopCounts) -> Iterator[Metric]:
    """Yields the metric families. `record` is the newest loop's, None before the first loop."""
    yield from _cluster(record)
    yield from _groups(record)
    yield from _counted(counts)
    yield from _scale_down_loop(record, counts)
    yield from _own(record, counts)
    yield from _consolidation(record, counts)
    yield from _slack(record)
    yield _costs(record)
    yield from _slos(record)


def planner_families(observation: PlannerObservation) -> Iterator[Metric]:
    """Yields the metric families of the planning process, which also answers questions where no autoscaler runs."""
    meaning = "How often the planning process ended and was started again."
    yield counter("slackwater_planner_restarts", meaning, observation.restarts)
    meaning = "Resident memory of the planning process."
    yield gauge("slackwater_planner_resident_memory_bytes", meaning, observation.resident_bytes)
    meaning = "For how long the planning process has given no sign of progress while it makes a plan."
    yield gauge("slackwater_planner_silent_seconds", meaning, observation.silent_seconds)


def _cluster(record: LoopRecord | None) -> Iterator[Metric]:
    every = [] if record is None else list(record.group_status.values())
    safe = {} if record is None else {(): record.healthy}
    yield gauge(_PREFIX + "cluster_safe_to_autoscale", "1 unless too many nodes are unready.", safe)
    yield gauge(_PREFIX + "nodes_count", "Nodes by state.", node_counts(every) if record else {}, "state")
    groups = {"autoscaled": sum(not group_status.off for group_status in every)} if record else {}
    yield gauge(_PREFIX + "node_groups_count", "Node groups.", groups, "node_group_type")
    pods = {"unschedulable": record.pending.helped + record.pending.unhelpable} if record else {}
    yield gauge(_PREFIX + "unschedulable_pods_count", "Pending pods for which nodes may be added.", pods, "type")
    most = {(): sum(group_status.group.max_size for group_status in every)} if record else {}
    yield gauge(_PREFIX + "max_nodes_count", "Nodes that all groups may have together.", most)


def _groups(record: LoopRecord | None) -> Iterator[Metric]:
    every = [] if record is None else list(record.group_status.values())
    groups = [group_status.group for group_status in every]
    for name, meaning, values in (
        ("node_group_min_count", "Least nodes of the group.", {group.name: group.min_size for group in groups}),
        ("node_group_max_count", "Most nodes of the group.", {group.name: group.max_size for group in groups}),
        (
            "node_group_target_count",
            "Nodes that the group has or was asked to have.",
            {group.name: group.target for group in groups},
        ),
        (
            "node_group_healthiness",
            "1 if the group's provider answers, and can read the group.",
            {each.group.name: each.known for each in every},
        ),
    ):
        yield gauge(_PREFIX + name, meaning, values, "node_group")
    backoffs = {
        (each.group.name, each.backoff.code): each.backoff.holds(record.instant)
        for each in every
        if each.backoff is not None and record is not None
    }
    meaning = "1 while the group backs off after a failed scale-up, by reason."
    yield gauge(_PREFIX + "node_group_backoff_status", meaning, backoffs, "node_group", "reason")


def _counted(counts: LoopCounts) -> Iterator[Metric]:
    meaning = "Time of the last run of each activity, Unix seconds."
    yield gauge(_PREFIX + "last_activity", meaning, counts.last_activity, "activity")
    durations = {name: counts.durations[name] for name in FUNCTIONS}
    yield histogram(_PREFIX + "function_duration_seconds", "Duration of each part of a loop.", durations, "function")
    yield counter(_PREFIX + "scaled_up_nodes", "Nodes requested from providers.", counts.nodes_asked)
    meaning = "Machines deleted because they did not become nodes in time."
    yield counter(_PREFIX + "old_unregistered_nodes_removed", meaning, counts.late_removed)
    for name, meaning, label, values in (
        ("errors", "Failed loops and calls, by kind.", "type", counts.errors),
        (
            "failed_scale_ups",
            "Scale-ups that the provider refused or did not answer, by reason.",
            "reason",
            counts.failed_scale_ups,
        ),
        ("failed_node_creations", "Requested nodes that were not created, by reason.", "reason", counts.failed_nodes),
        ("scaled_down_nodes", "Removed nodes, by reason.", "reason", counts.nodes_removed),
        ("scaled_down_gpu_nodes", "Removed nodes with GPUs, by reason.", "reason", counts.gpu_nodes_removed),
        ("failed_scale_downs", "Removals that were rolled back, by reason.", "reason", counts.removals_given_up),
    ):
        yield counter(_PREFIX + name, meaning, dict(sorted(values.items())), label)


def _scale_down_loop(record: LoopRecord | None, counts: LoopCounts) -> Iterator[Metric]:
    found = None if record is None else record.scale_down
    yield counter(_PREFIX + "evicted_pods", "Pods evicted to remove their nodes.", counts.pods_evicted)
    unneeded = {} if found is None else {(): sum(found.unneeded.values())}
    yield gauge(_PREFIX + "unneeded_nodes_count", "Nodes that could be removed together.", unneeded)
    kept = {} if found is None else {str(reason): found.reasons.get(reason, 0) for reason in UnremovableReason}
    yield gauge(_PREFIX + "unremovable_nodes_count", "Nodes that cannot be removed, by reason.", kept, "reason")
    pending = {} if found is None else {(): found.under_way[0]}
    yield gauge(_PREFIX + "pending_node_deletions", "Nodes that are being removed.", pending)
    meaning = "1 while removable nodes wait only for the cool-downs of their groups."
    yield gauge(_PREFIX + "scale_down_in_cooldown", meaning, {} if found is None else {(): found.status == "cooldown"})


def _own(record: LoopRecord | None, counts: LoopCounts) -> Iterator[Metric]:
    yield counter("slackwater_autoscaler_loops", "Completed loops.", counts.loops)
    yield counter("slackwater_autoscaler_failed_loops", "Loops that failed.", counts.failed_loops)
    left_out = {part: counts.left_out_of_plans[part] for part in get_args(FailedPart)}
    meaning = "What was left out of a scale-up plan because of an error."
    yield counter("slackwater_autoscaler_plan_failures", meaning, left_out, "part")
    every = [] if record is None else list(record.group_status.values())
    creating = {each.name: each.in_creation for each in every}
    yield gauge("slackwater_autoscaler_nodes_in_creation", "Nodes in creation.", creating, "node_group")
    meaning = "Nodes that were not created in time and could not be deleted. They do not count as in creation."
    yield gauge("slackwater_autoscaler_nodes_stuck", meaning, {each.name: each.stuck for each in every}, "node_group")
    queued = {} if record is None else {wait.group: wait.nodes for wait in record.queued}
    yield gauge("slackwater_autoscaler_nodes_queued", "Nodes whose creation waits for a limit.", queued, "node_group")
    pending = {} if record is None else {outcome: getattr(record.pending, outcome) for outcome in OUTCOMES}
    meaning = "Pending pods, by what the last loop found for them."
    yield gauge("slackwater_autoscaler_pending_pods", meaning, pending, "outcome")
    meaning = "Seconds that the last loop took on the event loop that answers kube-scheduler."
    yield gauge("slackwater_autoscaler_serving_loop_seconds", meaning, 0.0 if record is None else record.spent.serving)


def _consolidation(record: LoopRecord | None, counts: LoopCounts) -> Iterator[Metric]:
    ended = {outcome: counts.moves_ended[outcome] for outcome in get_args(Outcome)}
    meaning = "Moves that consolidation began and that ended, by outcome. A move replaces nodes by cheaper ones."
    yield counter("slackwater_consolidation_moves", meaning, ended, "outcome")
    found = None if record is None else record.consolidation
    running = 0 if found is None else len(found.running)
    yield gauge("slackwater_consolidation_running_moves", "Moves of the consolidation that are under way.", running)


def _costs(record: LoopRecord | None) -> Metric:
    costs = {
        (name, nodes, price.currency, price.basis): price.micros / MICROS
        for name, cost in ({} if record is None else record.costs).items()
        for nodes, price in (("present", cost.present), ("planned", cost.planned))
        if price is not None
    }
    meaning = "What the group's nodes cost an hour: those that are present, and those that the last loop planned."
    return gauge("slackwater_autoscaler_cost_per_hour", meaning, costs, "node_group", "nodes", "currency", "basis")


def _slos(record: LoopRecord | None) -> Iterator[Metric]:
    slack = None if record is None else record.slack
    rooms = {} if slack is None else slack.headroom.slos
    kept = {name: each.observed.kept for name, each in rooms.items()}
    pods = {(name, "in_time"): each.all_in_time for name, each in kept.items()}
    pods |= {(name, "late"): each.all_late for name, each in kept.items()}
    meaning = "New pods of a class with a start-time SLO, by whether they got a node in time."
    yield counter("slackwater_slack_slo_pods", meaning, pods, "slo", "outcome")
    wanted = {name: each.observed.of.share_ppm / 1_000_000 for name, each in rooms.items()}
    yield gauge("slackwater_slack_slo_wanted_ratio", "Share of the pods that should get a node in time.", wanted, "slo")
    shares = {name: each.share for name, each in kept.items() if each.share is not None}
    yield gauge("slackwater_slack_slo_kept_ratio", "Share of the last day's pods that got a node in time.", shares, "slo")
    room = {name: each.forecast.room for name, each in rooms.items()}
    yield gauge("slackwater_slack_slo_room_pods", "Pods for which room is wanted now.", room, "slo")
    leads = {name: each.forecast.slo.lead_seconds for name, each in rooms.items()}
    meaning = "Assumed time from the request for a node until it is ready."
    yield gauge("slackwater_slack_slo_lead_seconds", meaning, leads, "slo")
    every = () if record is None else record.group_status.values()
    starts = {each.name: max(each.starts) for each in every if each.starts}
    meaning = "Start time of the slowest of the group's last nodes."
    yield gauge("slackwater_node_start_seconds", meaning, starts, "node_group")


def _slack(record: LoopRecord | None) -> Iterator[Metric]:
    plan = None if record is None else record.slack
    shares = {} if plan is None else slack_shares(plan)
    states = ("placed", "coming", "homeless")
    counts = {(source, state): getattr(share, state) for source, share in shares.items() for state in states}
    yield gauge("slackwater_slack_placeholders", "Placeholders for slack, by source and state.", counts, "source", "state")
    cpu = {source: share.placed_amount.cpu / 1000 for source, share in shares.items()}
    yield gauge("slackwater_slack_cpu_cores", "CPU that placeholders hold on nodes now.", cpu, "source")
    memory = {source: share.placed_amount.memory for source, share in shares.items()}
    yield gauge("slackwater_slack_memory_bytes", "Memory that placeholders hold on nodes now.", memory, "source")
    yield gauge("slackwater_slack_nodes", "Nodes that exist only for slack.", 0 if plan is None else plan.alone)
    pushed, meaning = 0 if plan is None else len(plan.pushed), "Placeholders that had to leave their node in the last loop."
    yield gauge("slackwater_slack_pushed_off", meaning, pushed)
