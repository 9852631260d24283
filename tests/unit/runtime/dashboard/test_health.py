"""The problems that the overview shows: advice is given only where a plan found that it helps."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

from slackwater.cluster.nodegroups.status import NodeGroupStatus
from slackwater.controllers.loop_plans import _counts
from slackwater.controllers.scaleup.groups import GrowableGroup
from slackwater.controllers.scaleup.growable_groups import skip_reason_of
from slackwater.controllers.scaleup.plan import plan_scale_up
from slackwater.model.ids import Generation, Instant, UnixTime
from slackwater.model.objects import Pod
from slackwater.runtime.autoscaler.loop_record import LoopRecord
from slackwater.runtime.autoscaler.status_document import record_document
from slackwater.runtime.dashboard.health import _of_loop
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from tests.support import installed
from tests.support.builders import a_pod
from tests.support.scalingup import a_group, a_template, demand_of


def advice(*pods: Pod, seconds: float = 0.0) -> Iterator[str]:
    """The advice about group `large`, which is at its maximum of one node of 4 CPUs, while these pods wait. `seconds`:
    how long each step of the plan takes, of one second in all; 0: no limit."""
    group = a_group("large", a_template("t", cpu="4"), size=1, largest=1).group
    status = NodeGroupStatus(
        group=group, known=True, ready=(), unready=(), starting=(), coming=0, missing=0, lost=(), leaving=0
    )
    growable = GrowableGroup(
        group=group,
        template=a_group("large", a_template("t", cpu="4")).template,
        skip_reason=skip_reason_of(status, status.closed(Instant(0.0)) or "at its maximum of 1 nodes"),
    )
    snapshot = ClusterSnapshot.build([], pods)
    clock, policy = partial(next, count(step=seconds)), replace(installed.SCALE_UP, plan_seconds=1.0 if seconds else 0.0)
    plan = plan_scale_up(snapshot, demand_of(list(pods)), [growable], policy=policy, clock=clock)
    record = LoopRecord(
        number=1,
        at=UnixTime(0.0),
        instant=Instant(0.0),
        generation=Generation(1),
        group_status={group.name: status},
        pending=_counts(plan, {}),
    )
    loop: dict[str, Any] = record_document(record)
    return (problem.text for problem in _of_loop(loop) if problem.code == "limit large")


def test_a_higher_maximum_is_advised_where_a_new_node_would_take_pods() -> None:
    pods = [a_pod("a", cpu="2"), a_pod("b", cpu="2"), a_pod("huge", cpu="64")]
    assert list(advice(*pods)) == ["Node group large is at its limit of 1 node, and one more would take 2 pods"]


def test_a_higher_maximum_is_not_advised_where_no_node_of_the_group_takes_the_pods() -> None:
    assert list(advice(a_pod("huge", cpu="64"), a_pod("picky", node_selector={"disk": "ssd"}))) == []


def test_a_higher_maximum_is_not_advised_where_there_was_no_time_for_a_trial() -> None:
    assert list(advice(a_pod("a", cpu="2"), seconds=10.0)) == []
