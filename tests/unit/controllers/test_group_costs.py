"""What a loop's plans cost, from the price book in the policy to the costs of each group."""

from dataclasses import replace

from msgspec import structs

from slackwater.cluster.nodegroups.status import NodeGroupStatus
from slackwater.controllers.loop_plans import Inquiry, PlanMaker, Plans, ScaleUpRules
from slackwater.model.changes import Changes, NodeChange, PodChange
from slackwater.model.ids import Generation, NodeName, UnixTime
from slackwater.model.nodegroups import GroupName, NodeGroup
from slackwater.model.objects import Node
from slackwater.model.prices import ANY, Price, PriceBook
from tests.support import installed
from tests.support.builders import a_node, a_pod

G = GroupName("g")
BOOK = PriceBook(table={("large", ANY, ANY): 7, ("old", ANY, ANY): 5})


def machine(name: str, kind: str) -> Node:
    node = a_node(name, cpu="4", memory="16Gi", labels={"node.kubernetes.io/instance-type": kind})
    return structs.replace(node, scalars=(("pods", 110),))


def plans_of(prices: PriceBook | None, *, said: int | None = None) -> Plans:
    """Plans for two pods of which each needs a new node, where the group has a full node of another type."""
    group = NodeGroup(
        name=G,
        provider="cloud",
        min_size=0,
        max_size=9,
        target=1,
        instances=(),
        template=machine("t", "large"),
        price_micros=said,
    )
    status = NodeGroupStatus(
        group=group, known=True, ready=(), unready=(NodeName("n"),), starting=(), coming=0, missing=0, lost=(), leaving=0
    )
    policy = replace(installed.SCALE_UP, pending=replace(installed.PENDING, after_scheduler=False), prices=prices)
    pods = [a_pod("full", on="n", cpu="3"), a_pod("p", cpu="3"), a_pod("q", cpu="3")]
    changes = Changes(
        generation=Generation(1),
        nodes=[NodeChange(NodeName("n"), machine("n", "old"))],
        pods=[PodChange(pod.uid, pod) for pod in pods],
    )
    inquiry = Inquiry(changes=changes, rules=ScaleUpRules(policy=policy), group_status={G: status}, now=UnixTime(2e9))
    return PlanMaker(lambda: 0.0).make(inquiry)


def test_each_node_that_is_there_and_each_that_is_planned_has_its_own_price() -> None:
    cost = plans_of(BOOK).costs[G]
    assert cost.node == Price(micros=7, currency="USD", basis="table")
    assert cost.planned == Price(micros=2 * 7, currency="USD", basis="table")
    assert cost.present == Price(micros=5, currency="USD", basis="table")


def test_the_providers_price_counts_where_the_table_has_none() -> None:
    cost = plans_of(replace(BOOK, table={("old", ANY, ANY): 5}), said=9).costs[G]
    assert cost.planned == Price(micros=2 * 9, currency="USD", basis="provider")
    assert cost.present == Price(micros=5, currency="USD", basis="table")


def test_a_plan_without_prices_is_the_same_and_has_no_costs() -> None:
    plans, priced = plans_of(None), plans_of(BOOK)
    assert plans.costs == {}
    for one, other in zip(plans.scale_ups, priced.scale_ups, strict=True):
        assert (one.group, [pod.key for pod in one.pods]) == (other.group, [pod.key for pod in other.pods])
    assert plans.pending == priced.pending
