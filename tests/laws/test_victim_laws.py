"""The victims are those that brute force finds: enough, none too many, and the cheapest of all nodes."""

from dataclasses import replace
from itertools import combinations

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from slackwater.controllers.preemption.extender_candidates import added_victims, suffices
from slackwater.controllers.preemption.victims import Candidate, PotentialVictim, PreemptionNode, cheapest, needed_victims
from slackwater.model.ids import NodeName, PodUid, Row
from slackwater.model.ledger import NEVER, PriorityShares
from slackwater.model.resources import NOTHING, Amounts
from slackwater_protocol.units import Bytes, MilliCpu


def of(cpu: int, memory: int) -> Amounts:
    return Amounts(MilliCpu(cpu), Bytes(memory))


few = st.integers(0, 4)
sizes = st.builds(of, few, few)
rooms = st.builds(of, st.integers(-3, 4), st.integers(-3, 4))
starts = st.sampled_from(["", "2026-01-01", "2026-01-02"])
traits = st.tuples(st.integers(-2, 2), starts, sizes, st.booleans(), st.booleans())
#: Alike but for their start: so that the last criterion decides.
twins = st.tuples(st.just(1), starts, st.just(of(1, 1)), st.just(False), st.just(False))


def a_site(number: int, free: Amounts, pods: list[tuple[int, str, Amounts, bool, bool]]) -> PreemptionNode:
    potential_victims = [
        PotentialVictim(
            uid=PodUid(f"{number}-{at}"),
            priority=priority,
            started_at=started,
            reserved=reserved,
            leaving=leaving,
            violates_budget=violates and not leaving,
        )
        for at, (priority, started, reserved, leaving, violates) in enumerate(pods)
    ]
    return PreemptionNode(node=NodeName(f"n{number}"), free=free, potential_victims=potential_victims)


preemption_nodes = st.lists(
    st.tuples(rooms, st.lists(traits, max_size=5) | st.lists(twins, max_size=3)), min_size=1, max_size=3
).map(lambda drawn: [a_site(number, *one) for number, one in enumerate(drawn)])


def is_enough(wanted: Amounts, free: Amounts, gone: list[PotentialVictim]) -> bool:
    room = [free[r] + sum(potential_victim.reserved[r] for potential_victim in gone) for r in range(2)]
    return all(not wanted[r] or wanted[r] <= room[r] for r in range(2))


def by_brute_force(wanted: Amounts, preemption_node: PreemptionNode) -> list[PotentialVictim] | None:
    """Of all sets of victims that suffice, beside those who leave anyway, the one that spares the most important ones, the
    violators of budgets before all."""
    leaving = [o for o in preemption_node.potential_victims if o.leaving]
    staying = sorted(
        (o for o in preemption_node.potential_victims if not o.leaving),
        key=lambda o: (not o.violates_budget, -o.priority, o.started_at or "9", o.uid),
    )
    enough = [
        [potential_victim in dying for potential_victim in staying]
        for count in range(len(staying) + 1)
        for dying in map(list, combinations(staying, count))
        if is_enough(wanted, preemption_node.free, [*leaving, *dying])
    ]
    if not enough:
        return None
    return [potential_victim for potential_victim, dies in zip(staying, min(enough), strict=True) if dies]


def kubernetes_order(preemption_node: PreemptionNode, victims: list[PotentialVictim]) -> tuple[object, ...]:
    """pickOneNodeForPreemption, criterion by criterion, as one would say it."""
    highest = max((v.priority for v in victims), default=-(1 << 31))
    starts = [v.started_at or "now" for v in victims if v.priority == highest]
    latest = ["now", "2026-01-02", "2026-01-01"]
    return (
        sum(v.violates_budget for v in victims),
        highest,
        sum(v.priority + (1 << 31) for v in victims),
        len(victims),
        latest.index(min(starts)),
    )


@given(wanted=sizes, preemption_node=preemption_nodes.map(lambda found: found[0]))
def test_the_victims_of_a_node_are_those_of_brute_force(wanted: Amounts, preemption_node: PreemptionNode) -> None:
    found, want = needed_victims(wanted, preemption_node), by_brute_force(wanted, preemption_node)
    assert (found is None) == (want is None)
    if found is not None and want is not None:
        assert {v.uid for v in found.victims} == {v.uid for v in want}
        assert [-v.priority for v in found.victims] == sorted(-v.priority for v in found.victims)


@given(wanted=sizes, preemption_node=preemption_nodes.map(lambda found: found[0]))
def test_victims_and_awaited_suffice_and_none_could_stay(wanted: Amounts, preemption_node: PreemptionNode) -> None:
    found = needed_victims(wanted, preemption_node)
    if found is None:
        return
    going = [*found.victims, *found.awaited]
    assert is_enough(wanted, preemption_node.free, going)
    assert all(potential_victim.leaving for potential_victim in found.awaited)
    assert not any(potential_victim.leaving or potential_victim.reserved == NOTHING for potential_victim in found.victims)
    for potential_victim in found.awaited:
        assert not is_enough(wanted, preemption_node.free, [other for other in going if other is not potential_victim])
    everybody_leaving = [*found.victims, *(o for o in preemption_node.potential_victims if o.leaving)]
    for victim in found.victims:
        assert not is_enough(wanted, preemption_node.free, [other for other in everybody_leaving if other is not victim])


@given(wanted=sizes, nodes=preemption_nodes)
def test_no_other_node_is_cheaper_by_kubernetes_order(wanted: Amounts, nodes: list[PreemptionNode]) -> None:
    found = next(iter(cheapest(wanted, nodes)), None)
    costs = {
        preemption_node.node: (preemption_node, victims)
        for preemption_node in nodes
        if (victims := by_brute_force(wanted, preemption_node)) is not None
    }
    assert (found is None) == (not costs)
    if found is None:
        return
    assert isinstance(found, Candidate)
    preemption_node, victims = costs[found.node]
    best = min(kubernetes_order(s, v) if v else () for s, v in costs.values())
    assert (kubernetes_order(preemption_node, victims) if victims else ()) == best


@given(wanted=sizes, nodes=preemption_nodes)
def test_the_choice_does_not_depend_on_the_order_of_anything(wanted: Amounts, nodes: list[PreemptionNode]) -> None:
    backwards = [
        PreemptionNode(node=s.node, free=s.free, potential_victims=list(reversed(s.potential_victims))) for s in reversed(nodes)
    ]
    assert cheapest(wanted, nodes) == cheapest(wanted, backwards)


@given(wanted=sizes, chosen=st.lists(traits, max_size=4), preemption_node=preemption_nodes.map(lambda found: found[0]))
def test_to_victims_proposed_by_others_those_are_added_that_brute_force_adds(
    wanted: Amounts, chosen: list[tuple[int, str, Amounts, bool, bool]], preemption_node: PreemptionNode
) -> None:
    proposed = list(a_site(7, NOTHING, chosen).potential_victims)
    room = of(*(preemption_node.free[r] + sum(victim.reserved[r] for victim in proposed) for r in range(2)))
    want = by_brute_force(
        wanted, PreemptionNode(node=preemption_node.node, free=room, potential_victims=preemption_node.potential_victims)
    )
    added = added_victims(wanted, proposed, preemption_node)
    assert suffices(wanted, preemption_node.free, proposed) == is_enough(wanted, preemption_node.free, proposed)
    assert (added is None) == (want is None)
    if added is None or want is None:
        return
    assert [victim.uid for victim in added if not victim.leaving] == [
        victim.uid for victim in sorted(want, key=lambda v: (-v.priority, v.started_at or "9", v.uid))
    ]
    assert is_enough(wanted, preemption_node.free, [*proposed, *added])
    if suffices(wanted, preemption_node.free, proposed):
        assert not added
    for victim in added:
        if victim.leaving:
            assert not is_enough(wanted, preemption_node.free, [*proposed, *(other for other in added if other is not victim)])


@given(wanted=sizes, preemption_node=preemption_nodes.map(lambda found: found[0]), below=st.integers(-2, 3))
def test_the_search_over_all_nodes_predicts_the_most_important_victim(
    wanted: Amounts, preemption_node: PreemptionNode, below: int
) -> None:
    potential_victims = [replace(one, leaving=False, violates_budget=False) for one in preemption_node.potential_victims]
    priority_shares = PriorityShares()
    for one in potential_victims:
        priority_shares.add(Row(1), one.priority, one.reserved, pods=1)
    takeable = [one for one in potential_victims if one.priority < below]
    free = np.array([[0, preemption_node.free.cpu], [0, preemption_node.free.memory]], np.int64)
    _, level = priority_shares.levels(wanted, free, np.array([0, 1], np.intp), below=below).tolist()
    found = needed_victims(
        wanted, PreemptionNode(node=preemption_node.node, free=preemption_node.free, potential_victims=takeable)
    )
    if is_enough(wanted, preemption_node.free, []):
        return  # nobody has to go
    assert (level == NEVER) == (found is None)
    if found is not None:
        assert level == max(victim.priority for victim in found.victims)
    for one in potential_victims:
        priority_shares.add(Row(1), one.priority, NOTHING.minus(one.reserved), pods=-1)
    assert not priority_shares.total(2).any()
