"""What dashboards of Cluster Autoscaler read, from the records of loops."""

from collections import Counter
from dataclasses import replace
from typing import Any, Literal

from prometheus_client import CollectorRegistry, generate_latest

from slackwater.cluster.nodegroups.status import Grow, NodeGroupBackoff, NodeGroupStatus, ScaleUpInfo
from slackwater.controllers.loop_plans import PendingCounts
from slackwater.controllers.scaledown.loop import ScaleDownRecord
from slackwater.controllers.scaleup.costs import GroupCost
from slackwater.controllers.scaleup.outcome import PlanFailure
from slackwater.model.effects import DrainEnd, DrainOrder
from slackwater.model.ids import Generation, Instant, NodeName, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.prices import Price
from slackwater.model.reasons import UnremovableReason
from slackwater.ports.metric_families import Families
from slackwater.ports.protocols import ProviderError
from slackwater.runtime.autoscaler.loop_record import LoopCounts, LoopDurations, LoopRecord
from slackwater.runtime.autoscaler.metrics import autoscaler_families
from tests.support.nodegroups import a_group

A, B = GroupName("a"), GroupName("b")
BACKOFF = NodeGroupBackoff(until=Instant(160.0), seconds=300.0, failed_at=Instant(0.0), code="STOCKOUT", message="none left")


def a_group_status(name: GroupName, backoff: NodeGroupBackoff | None = None) -> NodeGroupStatus:
    return NodeGroupStatus(
        group=a_group(name, target=7, min_size=1, max_size=20),
        known=True,
        ready=(NodeName(f"{name}1"), NodeName(f"{name}2")),
        unready=(),
        starting=(NodeName(f"{name}3"),),
        coming=4,
        missing=0,
        lost=(),
        leaving=0,
        backoff=backoff,
    )


def a_record() -> LoopRecord:
    return LoopRecord(
        number=1,
        at=UnixTime(1000.0),
        instant=Instant(100.0),
        generation=Generation(7),
        group_status={A: a_group_status(A), B: a_group_status(B, BACKOFF)},
        pending=PendingCounts(helped=5, unhelpable=2, not_looked_at=10),
        asked=[
            (Grow(group=A, provider="cloud", seen=2, to=7), None),
            (Grow(group=B, provider="cloud", seen=2, to=4), ProviderError("quota", B, "no")),
        ],
        queued=(ScaleUpInfo(group=A, nodes=40, priority=0, waits_for="x"),),
        problems=["node group b: quota: no"],
        failures=(PlanFailure(part="group", about="node group b", error="ValueError: x", trace=""),),
        failed=Counter({"timeout": 2, "BOOT_FAILED": 1}),
        spent=LoopDurations(sense=0.5, plan=0.25, act=0.25, serving=0.01),
    )


def scraped(record: LoopRecord | None) -> dict[str, float]:
    counts = LoopCounts()
    if record is not None:
        counts.begun(record.at)
        counts.ended(record)
    registry = CollectorRegistry()
    registry.register(Families(lambda: autoscaler_families(record, counts)))
    lines = [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_the_names_labels_and_values_are_cluster_autoscalers() -> None:
    seen = scraped(a_record())
    want = {
        "cluster_autoscaler_cluster_safe_to_autoscale": 1,
        'cluster_autoscaler_nodes_count{state="ready"}': 4,
        'cluster_autoscaler_nodes_count{state="notStarted"}': 2,
        'cluster_autoscaler_nodes_count{state="unregistered"}': 8,
        'cluster_autoscaler_node_groups_count{node_group_type="autoscaled"}': 2,
        'cluster_autoscaler_unschedulable_pods_count{type="unschedulable"}': 7,
        "cluster_autoscaler_max_nodes_count": 40,
        'cluster_autoscaler_node_group_min_count{node_group="a"}': 1,
        'cluster_autoscaler_node_group_target_count{node_group="a"}': 7,
        'cluster_autoscaler_node_group_healthiness{node_group="b"}': 1,
        'cluster_autoscaler_node_group_backoff_status{node_group="b",reason="STOCKOUT"}': 1,
        'cluster_autoscaler_last_activity{activity="scaleUp"}': 1000,
        'cluster_autoscaler_function_duration_seconds_sum{function="main"}': 1,
        'cluster_autoscaler_function_duration_seconds_count{function="scaleUp"}': 1,
        "cluster_autoscaler_scaled_up_nodes_total": 5,
        'cluster_autoscaler_failed_scale_ups_total{reason="quota"}': 1,
        'cluster_autoscaler_failed_node_creations_total{reason="timeout"}': 2,
        "cluster_autoscaler_old_unregistered_nodes_removed_total": 2,
        'cluster_autoscaler_errors_total{type="cloudProviderError"}': 1,
        'slackwater_autoscaler_nodes_in_creation{node_group="a"}': 5,
        'slackwater_autoscaler_nodes_queued{node_group="a"}': 40,
        'slackwater_autoscaler_pending_pods{outcome="not_looked_at"}': 10,
        'slackwater_autoscaler_plan_failures_total{part="group"}': 1,
        'slackwater_autoscaler_plan_failures_total{part="pods"}': 0,
        "slackwater_autoscaler_loops_total": 1,
    }
    assert {name: seen.get(name) for name in want} == want


def test_before_the_first_loop_there_is_nothing_wrong_to_read() -> None:
    seen = scraped(None)
    assert seen["slackwater_autoscaler_loops_total"] == 0
    assert not any(name.startswith("cluster_autoscaler_nodes_count") for name in seen)


def an_end(name: str, outcome: Literal["removed", "gone", "rolled-back"], *, evicted: int = 0, **order: Any) -> DrainEnd:
    return DrainEnd(
        order=DrainOrder(node=NodeName(name), uid=name, group=A, stamp=UnixTime(900.0), **order),
        outcome=outcome,
        unremovable_reason=UnremovableReason.EVICTION_TIMEOUT if outcome == "rolled-back" else None,
        detail="",
        seconds=10.0,
        evicted=evicted,
    )


def test_removals_have_cluster_autoscalers_names_empty_and_drained_nodes_apart() -> None:
    scale_down = ScaleDownRecord(
        status="throttled",
        unneeded={A: 3, B: 1},
        reasons={UnremovableReason.NO_PLACE: 2, UnremovableReason.NOT_UNDERUTILIZED: 9},
        ended=(
            an_end("n1", "removed", empty=True),
            an_end("n2", "removed", empty=False, evicted=4, gpu=True),
            an_end("n3", "removed", empty=False, evicted=1, ready=False),
            an_end("n4", "rolled-back", empty=False, evicted=2),
        ),
        under_way=(5, 3),
        seconds=0.5,
    )
    seen = scraped(replace(a_record(), scale_down=scale_down))
    want = {
        'cluster_autoscaler_scaled_down_nodes_total{reason="empty"}': 1,
        'cluster_autoscaler_scaled_down_nodes_total{reason="underutilized"}': 1,
        'cluster_autoscaler_scaled_down_nodes_total{reason="unready"}': 1,
        'cluster_autoscaler_scaled_down_gpu_nodes_total{reason="underutilized"}': 1,
        'cluster_autoscaler_scaled_down_gpu_nodes_total{reason="empty"}': 0,
        'cluster_autoscaler_function_duration_seconds_count{function="scaleDown:empty"}': 1,
        'cluster_autoscaler_function_duration_seconds_sum{function="scaleDown:drain"}': 20,
        'cluster_autoscaler_function_duration_seconds_sum{function="findUnneeded"}': 0.5,
        "cluster_autoscaler_evicted_pods_total": 7,
        'cluster_autoscaler_failed_scale_downs_total{reason="EvictionTimeout"}': 1,
        "cluster_autoscaler_unneeded_nodes_count": 4,
        'cluster_autoscaler_unremovable_nodes_count{reason="NoPlaceToMovePods"}': 2,
        'cluster_autoscaler_unremovable_nodes_count{reason="NotEnoughPdb"}': 0,
        "cluster_autoscaler_pending_node_deletions": 5,
    }
    assert {name: seen.get(name) for name in want} == want


def test_the_cost_of_each_group_says_its_currency_and_where_its_prices_come_from() -> None:
    price = Price(micros=192_001, currency="EUR", basis="formula")
    costs = {A: GroupCost(node=price, present=price, planned=None), B: GroupCost(node=None, present=None, planned=None)}
    found = scraped(replace(a_record(), costs=costs))
    name = "slackwater_autoscaler_cost_per_hour"
    labels = 'basis="formula",currency="EUR",node_group="a",nodes="present"'
    assert {series: value for series, value in found.items() if series.startswith(name)} == {f"{name}{{{labels}}}": 0.192001}
    assert not any(series.startswith(name) for series in scraped(a_record()))
