"""What a group whose nodes differ is planned as, by who chooses the variant of a new node."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest
from msgspec import structs

from slackwater.cluster.nodegroups.purchases import ZoneBalance
from slackwater.cluster.nodegroups.status import BoughtNode, NodeObservation
from slackwater.controllers.scaleup.groups import GrowableGroup, Template, similar_groups
from slackwater.controllers.scaleup.growable_groups import price_of_new
from slackwater.controllers.scaleup.outcome import ScaleUp, ScaleUpPlan
from slackwater.controllers.scaleup.template import template_of
from slackwater.controllers.scaleup.variants import Members, Own, Variant, by_variant, merged, variants_of, weakest_of
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.nodegroups import (
    AS_TEMPLATE,
    CLOUD_CHOOSES,
    EVEN_ZONES,
    GroupName,
    GroupOptions,
    NodeGroup,
    VariantChoice,
    choice_of_provider,
)
from slackwater.model.objects import Node, Taint
from slackwater.model.prices import PriceBook, PriceTable
from slackwater.model.storage import CsiNode
from tests.support.builders import a_node, a_pod

ZONE, TYPE, ARCH = "topology.kubernetes.io/zone", "node.kubernetes.io/instance-type", "kubernetes.io/arch"
WE_CHOOSE: Final = VariantChoice("plan", "plan")
LATER: Final = 10_000.0
NO_LABELS: Final[Mapping[str, str]] = {}


def node(name: str, zone: str = "a", cpu: str = "4", born: float = 1.0, labels: Mapping[str, str] = NO_LABELS) -> Node:
    said = {ZONE: zone, TYPE: f"m.{cpu}", ARCH: "amd64", **labels}
    found = a_node(name, cpu=cpu, memory="16Gi", labels={key: value for key, value in said.items() if value})
    return structs.replace(found, created_at=UnixTime(born), scalars=(("pods", 110),))


def planned(choice: VariantChoice, nodes: Sequence[Node], coming: int = 0, dead: int = 0, **fields: Any) -> list[Variant]:
    group = NodeGroup(
        name=GroupName("g"),
        provider="cloud",
        min_size=0,
        max_size=20,
        target=len(nodes) + coming + dead,
        instances=(),
        choice=choice,
    )

    def make(own: NodeGroup, some: Sequence[Node], _: Own) -> Template | None:
        return template_of(own, some, pods_on=lambda _: ())

    members = Members(nodes=nodes, by_key=by_variant(nodes), coming=coming, dead=dead)
    return variants_of(replace(group, **fields), members, make)


def new_node(found: Sequence[Variant]) -> Node:
    (one,) = found
    assert one.template is not None
    return one.template.node


@pytest.mark.parametrize("choice", [CLOUD_CHOOSES, EVEN_ZONES, WE_CHOOSE, AS_TEMPLATE])
def test_a_group_whose_nodes_do_not_differ_is_planned_as_it_is(choice: VariantChoice) -> None:
    nodes = [node("n-0"), node("n-1")]
    (one,) = planned(choice, nodes, coming=2, dead=1)
    assert (one.whole, one.coming, one.dead) == (None, 2, 1)
    assert one.template == template_of(one.group, nodes, pods_on=lambda _: ())


def test_where_the_template_says_all_nodes_that_differ_change_nothing() -> None:
    nodes = [node("n-0"), node("n-1"), node("n-2", "b", "8")]
    (one,) = planned(AS_TEMPLATE, nodes)
    assert one.template == template_of(one.group, nodes, pods_on=lambda _: ())


def test_a_new_node_has_what_every_type_has_that_may_come() -> None:
    small, large = node("n-0"), node("n-1", cpu="16", labels={ARCH: "arm64", "disk": "ssd"})
    large = structs.replace(large, taints=(Taint("x", "", "NoSchedule"),), scalars=(("gpu", 1), ("pods", 50)))
    found = new_node(planned(CLOUD_CHOOSES, [small, large]))
    assert (found.allocatable.cpu, found.scalars) == (4000, (("pods", 50),))
    assert [taint.key for taint in found.taints] == ["x"]
    assert found.labels.keys() & {TYPE, ARCH, "disk", ZONE} == {ZONE}


def test_spot_and_on_demand_machines_of_one_type_are_variants_too() -> None:
    spot = "eks.amazonaws.com/capacityType"
    found = planned(CLOUD_CHOOSES, [node("n-0", labels={spot: "SPOT"}), node("n-1", labels={spot: "ON_DEMAND"})])
    assert spot not in new_node(found).labels
    assert found[0].template is not None
    assert found[0].template.remark == "the cloud chooses the type: m.4, m.4 (spot)"


def test_where_the_cloud_chooses_no_zone_is_promised_even_if_the_provider_says_one() -> None:
    said = node("template", "a")
    found = planned(CLOUD_CHOOSES, [node("n-0"), node("n-1", "b")], template=said)
    assert ZONE not in new_node(found).labels
    assert TYPE in new_node(found).labels


def test_the_room_is_that_of_the_type_on_which_daemons_leave_the_least() -> None:
    def template(cpu: str, daemon: str) -> Template:
        return Template(node=node("t", cpu=cpu), running_pods=(a_pod("d", cpu=daemon, memory="1Gi"),))

    main, other = template("4", "1"), template("5", "3")
    found = weakest_of(main, [main, other], unsure="")
    assert found.node.allocatable.cpu - sum(pod.kind.requests.cpu for pod in found.running_pods) == 2000


def test_volumes_are_limited_as_on_the_type_that_attaches_the_fewest() -> None:
    def template(**drivers: int | None) -> Template:
        return Template(node=structs.replace(node("t"), csi=CsiNode(name="", drivers=tuple(drivers.items()))))

    found = weakest_of(template(ebs=25, efs=None, fsx=3), [template(ebs=12, efs=None)], unsure="")
    assert found.node.csi == CsiNode(name="", drivers=(("ebs", 12), ("efs", None)))


@pytest.mark.parametrize(
    ("births", "said", "cpu"),
    [
        ([1, 1, LATER, LATER, LATER], None, 8000),
        ([1, 1, LATER, LATER], None, 4000),  # two may be chance
        ([1, 1, LATER], "8", 8000),
        ([1, 1, 2, 3, 4], None, 4000),  # one purchase
        ([1, LATER, 2, LATER, LATER], None, 4000),  # in turns
    ],
)
def test_a_type_that_was_replaced_long_ago_counts_no_more(births: list[float], said: str | None, cpu: int) -> None:
    sizes = ["4", "4", "8", "8", "8"]
    nodes = [node(f"n-{at}", cpu=size, born=born) for at, (size, born) in enumerate(zip(sizes, births, strict=False))]
    template = None if said is None else node("template", cpu=said)
    assert new_node(planned(CLOUD_CHOOSES, nodes, template=template)).allocatable.cpu == cpu


def test_where_the_cloud_spreads_evenly_each_zone_is_a_group_and_what_comes_goes_to_the_smallest() -> None:
    nodes = [node("n-0"), node("n-1"), node("n-2"), node("n-3", "b"), node("n-4", "b"), node("n-5", "c")]
    found = planned(EVEN_ZONES, nodes, coming=4, dead=2, min_size=13)
    assert [each.group.name for each in found] == ["g (a)", "g (b)", "g (c)"]
    assert [each.coming for each in found] == [1, 1, 2]
    assert [each.group.target for each in found] == [4, 4, 4]
    assert sum(each.group.min_size - each.group.target for each in found) == 3  # two are dead, and one is lacking
    assert [each.template.node.labels[ZONE] for each in found if each.template] == ["a", "b", "c"]
    assert all(each.whole is not None and each.whole.max_size == 20 for each in found)


def test_a_zone_of_the_providers_template_is_no_word_on_the_other_zones() -> None:
    found = planned(EVEN_ZONES, [node("n-0"), node("n-1", "b")], template=node("template", "a"))
    assert [each.template.node.labels[ZONE] for each in found if each.template] == ["a", "b"]


@pytest.mark.parametrize("there", [[], [("n-0", "a"), ("n-1", "a")], [("n-0", "a"), ("n-1", "b")]])
def test_zones_that_the_provider_names_are_planned_before_they_have_nodes(there: list[tuple[str, str]]) -> None:
    said, disks = node("said", zone=""), "topology.ebs.csi.aws.com/zone"
    found = planned(
        EVEN_ZONES, [node(*each, labels={disks: each[1]}) for each in there], coming=3, template=said, zones=("a", "b", "c")
    )
    by_zone = {each.template.node.labels[ZONE]: each for each in found if each.template is not None}
    assert sorted(by_zone) == ["a", "b", "c"]
    assert sum(each.group.target for each in found) == len(there) + 3
    assert [len(by_zone[zone].nodes) for zone in "abc"] == [sum(at == zone for _, at in there) for zone in "abc"]
    assert by_zone["c"].group.target > 0, "what comes goes to the smallest"
    other = by_zone["c"].template
    assert other is not None
    assert (other.node.labels.get(disks), other.node.labels[TYPE]) == ("c" if there else None, "m.4")


def test_zones_that_the_provider_names_are_none_where_it_does_not_spread_evenly() -> None:
    (one,) = planned(CLOUD_CHOOSES, [], template=node("said", zone=""), zones=("a", "b"))
    assert one.whole is None


def test_an_even_spread_does_not_say_which_type_comes() -> None:
    found = planned(EVEN_ZONES, [node("n-0"), node("n-1", "b", "8")])
    assert [each.template.node.allocatable.cpu for each in found if each.template] == [4000, 4000]
    assert [each.template.node.labels[ZONE] for each in found if each.template] == ["a", "b"]


def test_we_choose_among_the_variants_that_occur() -> None:
    found = planned(WE_CHOOSE, [node("n-0"), node("n-1"), node("n-2", "b", "8")], coming=1)
    assert [(each.group.name, each.coming) for each in found] == [
        ("g (a, m.4, on-demand)", 1),
        ("g (b, m.8, on-demand)", 0),
    ]


def test_a_node_whose_zone_nobody_knows_yet_is_no_zone() -> None:
    found = planned(EVEN_ZONES, [node("n-0"), node("n-1", "b"), node("n-2", "b"), node("n-3", "")])
    assert [(each.group.name, each.group.target) for each in found] == [("g (b)", 3), ("g (a)", 1)]


def test_a_group_that_grows_as_a_whole_has_no_parts() -> None:
    found = planned(EVEN_ZONES, [node("n-0"), node("n-1", "b")], options=GroupOptions(all_or_nothing=True))
    assert ZONE not in new_node(found).labels


@pytest.mark.parametrize(
    ("choice", "labels", "cpu", "want"),
    [
        (EVEN_ZONES, {}, "4", VariantChoice("template", "evenly")),
        (EVEN_ZONES, {ZONE: "a"}, "0", VariantChoice("cloud", "template")),
        (CLOUD_CHOOSES, {ZONE: "a"}, "4", AS_TEMPLATE),
    ],
)
def test_what_a_configured_template_says_is_chosen(
    choice: VariantChoice, labels: dict[str, str], cpu: str, want: VariantChoice
) -> None:
    assert choice.settled_by(a_node("t", cpu=cpu, memory="0", labels=labels)) == want


def test_each_provider_has_its_choice() -> None:
    assert choice_of_provider("kwok", "g") == AS_TEMPLATE
    assert choice_of_provider("clusterapi", "MachineDeployment/default/md") == VariantChoice(types="template")
    assert choice_of_provider("clusterapi", "MachinePool/default/mp") == EVEN_ZONES
    assert choice_of_provider("externalgrpc", "asg-1") == EVEN_ZONES


def test_a_plan_names_the_wholes_and_their_nodes_in_turns() -> None:
    whole = NodeGroup(name=GroupName("g"), provider="cloud", min_size=0, max_size=9, target=0, instances=())
    zones = [GroupName("g (a)"), GroupName("g (b)")]
    groups = [GrowableGroup(group=replace(whole, name=name), template=None, whole=whole) for name in zones]
    pods = {name: a_pod(name, priority=5 if name == "b1" else 0) for name in ("a0", "a1", "b0", "b1")}
    scale_ups = (
        ScaleUp(group=zones[0], nodes=((pods["a0"],), (pods["a1"],))),
        ScaleUp(group=zones[1], nodes=((pods["b1"],), (pods["b0"],), ())),
    )
    (found,) = merged(ScaleUpPlan(scale_ups=scale_ups), groups).scale_ups
    assert found.group == "g"
    assert [[pod.key.name for pod in each] for each in found.nodes] == [["b1"], ["a0"], ["a1"], ["b0"], []]


def test_zones_that_the_cloud_balances_grow_together_even_if_similar_groups_do_not() -> None:
    def groups(choice: VariantChoice) -> list[GrowableGroup]:
        found = planned(choice, [node("n-0"), node("n-1", "b")])
        return [GrowableGroup(group=each.group, template=each.template, whole=each.whole) for each in found]

    for choice, want in ((EVEN_ZONES, [(0, 1)]), (WE_CHOOSE, [(0,), (1,)])):
        assert similar_groups(groups(choice), np.zeros((8, 2), np.int64), [0, 1], ranks=[None] * 2, balance=False) == want


@pytest.mark.parametrize(
    ("zones", "new", "coming", "uneven"),
    [
        ("aabbc", "c", 0, False),
        ("aaabbc", "a", 0, True),
        ("aaabbc", "a", 3, False),  # these may all go to b and c
        ("aaa", "a", 0, False),  # no other zone is known
        ("", "a", 0, False),
    ],
)
def test_a_purchase_shows_whether_the_cloud_spreads_evenly(zones: str, new: str, coming: int, uneven: bool) -> None:
    there = [node(f"n-{at}", zone) for at, zone in enumerate(zones)]
    balance = ZoneBalance()
    bought = [BoughtNode(node=node("new", new), running_pods=())]
    balance.observe(bought, [NodeObservation(NodeName(each.name), True, None, node=each) for each in there], coming)
    assert balance.uneven == uneven
    balance.observe([], [], 0)
    assert not balance.uneven, "the purchase is forgotten"


def test_a_new_node_costs_what_the_dearest_type_does() -> None:
    table = PriceTable({("m.4", "", ""): 1, ("m.16", "", ""): 7, ("m.8", "", ""): 3})
    (one,) = planned(CLOUD_CHOOSES, [node("n-0"), node("n-1", cpu="16"), node("n-2", cpu="8")])
    price = price_of_new(one.group, one.template, PriceBook(currency="USD", table=table))
    assert price is not None
    assert price.micros == 7
