"""What a person learns of a group that has not grown."""

from dataclasses import replace

from msgspec import structs

from slackwater.cluster.nodegroups.registry import NodeGroupRegistry
from slackwater.cluster.nodegroups.status import NodeGroupPolicy
from slackwater.controllers.scaleup.groups import NodeQuota, SkipReason
from slackwater.controllers.scaleup.growable_groups import skip_reason_of
from slackwater.explain.node_groups import explain_group
from slackwater.model.ids import Instant
from slackwater.model.nodegroups import GroupName
from tests.support import installed
from tests.support.builders import a_node, a_pod
from tests.support.explaining import StatusSources
from tests.support.nodegroups import a_group as a_provided_group
from tests.support.scalingup import a_group, a_template

POOL = GroupName("pool")
NODE = structs.replace(a_node("n1", cpu="1"), scalars=(("pods", 110),))


def test_a_full_group_is_reported_with_the_number_that_would_do() -> None:
    reported = StatusSources(
        nodes=(NODE,),
        pending=(a_pod("web", cpu="3"),),
        groups=(
            a_group(
                "pool",
                a_template(cpu="4"),
                size=10,
                largest=10,
                skip_reason=SkipReason(kind="limit", text="at its maximum size"),
            ),
        ),
    )
    answer = explain_group(reported.explain_input(), POOL, {"target": 10})
    assert (answer.state, answer.reasons[0].code) == ("stuck", "limit")
    assert [remedy.change for remedy in answer.remedies] == ["raise max of group pool from 10 to 11"]


def test_a_quota_is_raised_by_what_one_node_needs() -> None:
    reported = StatusSources(
        nodes=(NODE,),
        pending=(a_pod("web", cpu="3"),),
        groups=(a_group("pool", a_template(cpu="4")),),
        scale_up=replace(installed.SCALE_UP, quotas=(NodeQuota(name="all", limits={"cpu": 4000}),)),
    )
    answer = explain_group(reported.explain_input(), POOL, {})
    assert [remedy.change for remedy in answer.remedies] == ["raise quota all of cpu from 4000 to 5000"]


def test_a_group_that_pods_do_not_fit_says_what_is_short() -> None:
    reported = StatusSources(nodes=(NODE,), pending=(a_pod("web", cpu="3"),), groups=(a_group("pool", a_template(cpu="2")),))
    answer = explain_group(reported.explain_input(), POOL, {})
    assert (answer.reasons[0].code, answer.reasons[0].short) == ("resources_above_node", {"milliCPU": 1000})
    assert answer.remedies == ()


def test_a_group_is_not_needed_without_pending_pods() -> None:
    reported = StatusSources(nodes=(NODE,), groups=(a_group("pool"),))
    answer = explain_group(reported.explain_input(), POOL, {})
    assert (answer.state, answer.reasons[0].code) == ("idle", "not_needed")


def test_a_group_that_a_plan_would_grow_says_so() -> None:
    reported = StatusSources(nodes=(NODE,), pending=(a_pod("web", cpu="3"),), groups=(a_group("pool", a_template(cpu="4")),))
    assert explain_group(reported.explain_input(), POOL, {}).reasons[0].code == "grows"


def test_a_group_that_cannot_be_read_says_what_of_it() -> None:
    """It is not at its maximum, though its sizes are not known."""
    registry = NodeGroupRegistry(NodeGroupPolicy())
    odd = replace(a_provided_group("pool", max_size=0), unreadable="NodePool pool: limits: cpu: much", template=None)
    registry.observe([odd], {}, Instant(0.0))
    status = registry.group_status[POOL]
    why = skip_reason_of(status, status.closed(Instant(0.0)))
    reported = StatusSources(nodes=(NODE,), pending=(a_pod("web", cpu="3"),), groups=(a_group("pool", skip_reason=why),))
    answer = explain_group(reported.explain_input(), POOL, {})
    assert (answer.reasons[0].code, answer.reasons[0].detail, answer.remedies) == (
        "not-ready",
        "it cannot be read: NodePool pool: limits: cpu: much",
        (),
    )
