"""The record of a loop as people read it: JSON for /dumpstate, and the text of Cluster Autoscaler's status."""

from dataclasses import replace
from typing import Any

import yaml

from slackwater.cluster.nodegroups.status import LostInstance, NodeGroupBackoff, NodeGroupStatus, ScaleUpInfo
from slackwater.controllers.loop_plans import PendingCounts
from slackwater.controllers.scaleup.costs import GroupCost
from slackwater.model.ids import Generation, Instant, NodeName, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.prices import Price
from slackwater.runtime.autoscaler.loop_record import LoopRecord
from slackwater.runtime.autoscaler.status_document import StatusText, record_document
from tests.support.nodegroups import a_group, an_instance

FIRST = UnixTime(1787306400.123)


def a_group_status(name: str = "a", **more: Any) -> NodeGroupStatus:
    whole = NodeGroupStatus(
        group=a_group(name, target=9, max_size=20),
        known=True,
        ready=tuple(NodeName(f"{name}{number}") for number in range(4)),
        unready=(NodeName("u"),),
        starting=(NodeName("s"),),
        coming=2,
        missing=0,
        lost=(LostInstance(an_instance("l"), "timeout", "late", given_up=False),),
        leaving=0,
    )
    return replace(whole, **more)


def a_record(*group_status: NodeGroupStatus, at: float = FIRST, instant: float = 100.0, **more: Any) -> LoopRecord:
    whole = LoopRecord(
        number=3,
        at=UnixTime(at),
        instant=Instant(instant),
        generation=Generation(7),
        group_status={each.name: each for each in group_status},
        pending=PendingCounts(helped=5, unhelpable=2, not_looked_at=10),
    )
    return replace(whole, **more)


BACKOFF = NodeGroupBackoff(until=Instant(160.0), seconds=300.0, failed_at=Instant(0.0), code="STOCKOUT", message="none left")


def test_the_status_has_cluster_autoscalers_keys() -> None:
    text = StatusText().of(a_record(a_group_status(), a_group_status("b", backoff=BACKOFF)))
    document = yaml.safe_load(text)
    assert document["time"] == "2026-08-21 10:00:00.123 +0000 UTC"
    assert document["autoscalerStatus"] == "Running"
    counts = document["clusterWide"]["health"]["nodeCounts"]
    assert counts["registered"] == {"total": 12, "ready": 8, "notStarted": 2, "unready": {"total": 2, "resourceUnready": 0}}
    assert (counts["unregistered"], counts["longUnregistered"]) == (4, 2)
    first, second = document["nodeGroups"]
    assert (first["name"], first["health"]["cloudProviderTarget"], first["health"]["maxSize"]) == ("a", 9, 20)
    assert first["scaleUp"]["status"] == "InProgress"
    assert second["scaleUp"]["status"] == "Backoff"
    assert second["scaleUp"]["backoffInfo"] == {"errorCode": "STOCKOUT", "errorMessage": "none left"}
    assert document["slackwater"]["pending"]["notLookedAt"] == 10


def test_a_transition_is_a_change_of_the_status_alone() -> None:
    status = StatusText()
    times = []
    for seconds, coming in ((0, 2), (10, 1), (20, 0)):
        group_status = a_group_status(coming=coming, starting=())
        document = yaml.safe_load(status.of(a_record(group_status, at=FIRST + seconds)))
        scale_up = document["nodeGroups"][0]["scaleUp"]
        times.append((scale_up["status"], scale_up["lastTransitionTime"][17:19]))
    assert times == [("InProgress", "00"), ("InProgress", "00"), ("NoActivity", "20")]


def test_too_many_unready_nodes_are_unhealthy() -> None:
    unready = tuple(NodeName(f"u{number}") for number in range(4))
    assert not a_record(a_group_status(unready=unready)).healthy
    assert a_record(a_group_status(unready=unready[:3])).healthy


def test_the_record_says_what_waits_and_why_a_group_is_closed() -> None:
    queued = ScaleUpInfo(group=GroupName("a"), nodes=40, priority=5, waits_for="nodes in creation in the cluster")
    document = record_document(a_record(a_group_status(backoff=BACKOFF), queued=(queued,)))
    assert document["at"] == "2026-08-21T10:00:00.123Z"
    assert document["queued"] == [{"group": "a", "nodes": 40, "priority": 5, "waitsFor": "nodes in creation in the cluster"}]
    (group,) = document["groups"]
    assert group["closed"] == "backing off after: STOCKOUT"
    assert group["backoff"] == {"code": "STOCKOUT", "message": "none left", "endsInSeconds": 60.0}
    assert group["lost"] == [{"instance": "i-l", "code": "timeout", "message": "late"}]
    assert document["pending"]["total"] == 17


def test_money_is_there_where_prices_are_configured_and_only_there() -> None:
    table = Price(micros=192_000, currency="USD", basis="table")
    formula = replace(table, basis="formula")
    costs = {
        GroupName("a"): GroupCost(node=table, present=table, planned=None),
        GroupName("b"): GroupCost(node=formula, present=formula, planned=formula),
    }
    record = a_record(a_group_status(), a_group_status("b"), costs=costs)
    document = record_document(record)
    one = {"perHour": "0.192", "currency": "USD", "basis": "table"}
    assert document["groups"][0]["cost"] == {"node": one, "present": one}
    want = {"present": {**one, "perHour": "0.384", "basis": "formula"}, "planned": {**one, "basis": "formula"}}
    assert document["cost"] == want
    assert yaml.safe_load(StatusText().of(record))["slackwater"]["cost"] == want

    document = record_document(a_record(a_group_status()))
    assert "cost" not in document
    assert "cost" not in document["groups"][0]
