"""Single nodes emptied: who goes where, who is in the way, and what the next node finds."""

from typing import Any

import numpy as np
import pytest
from msgspec import structs

from slackwater.fit.drainability import RuleFacts
from slackwater.fit.evacuation import Evacuated, Evacuations, NotEvacuated
from slackwater.fit.remaining_pdb_tracker import Disruptions
from slackwater.model.eviction_facts import EvictionFacts, Owner
from slackwater.model.ids import NodeName, PodUid, Row, UnixTime
from slackwater.model.objects import DisruptionBudget, Pod
from slackwater.model.reasons import Reason, UnremovableReason
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.running_pods import RunningPods
from tests.support import installed
from tests.support.builders import a_budget, a_node, a_pod

NOW = UnixTime(1e9)
REPLICA = EvictionFacts(owner=Owner("apps", "ReplicaSet", "web"))


def a_replica(name: str, on: str, cpu: str = "1", **more: Any) -> Pod:
    return structs.replace(a_pod(name, on=on, cpu=cpu, labels={"app": "web"}), eviction_facts=REPLICA, **more)


def evacuations(
    *pods: Pod, budgets: tuple[DisruptionBudget, ...] = (), nodes: int = 3, hints: dict[str, str] | None = None
) -> Evacuations:
    snapshot = ClusterSnapshot.build(
        [structs.replace(a_node(f"n{row}"), scalars=(("pods", 110),)) for row in range(nodes)], pods
    )
    facts = RuleFacts(now=NOW, policy=installed.BLOCKED_BY, disruptions=Disruptions(budgets))
    named = {PodUid(f"uid-{pod}"): NodeName(node) for pod, node in (hints or {}).items()}
    return Evacuations(snapshot, RunningPods(snapshot, pods), facts=facts, hints=named)


def emptied(found: Evacuated | NotEvacuated | None) -> Evacuated:
    assert isinstance(found, Evacuated), found
    return found


def moves(found: Evacuated | NotEvacuated | None) -> list[tuple[str, int]]:
    return [(move.pod.key.name, int(move.to)) for move in emptied(found).moves]


ALL = np.arange(3)


def test_important_pods_find_their_place_first_and_large_ones_before_small_ones() -> None:
    three = (a_replica("small", "n0"), a_replica("large", "n0", "2"), a_replica("important", "n0", priority=5))
    ours = evacuations(*three, a_replica("there", "n1", "3"))
    assert moves(ours.evacuate(Row(0), rows=ALL)) == [("important", 1), ("large", 2), ("small", 2)]


def test_a_pod_needs_the_room_that_its_successor_may_ask() -> None:
    held = a_replica("a", "n0", "500m")
    refused = structs.replace(held, successor=a_replica("a", "n0", "3").kind)
    there = [a_replica("b", "n1", "2"), a_replica("c", "n2", "2")]
    assert moves(evacuations(held, *there).evacuate(Row(0), rows=ALL)) == [("a", 1)]
    assert isinstance(evacuations(refused, *there).evacuate(Row(0), rows=ALL), NotEvacuated)


def test_a_pod_goes_where_an_earlier_plan_saw_it() -> None:
    ours = evacuations(a_replica("a", "n0"), a_replica("b", "n0"), hints={"b": "n2", "a": "n9"})
    assert sorted(moves(ours.evacuate(Row(0), rows=ALL))) == [("a", 1), ("b", 2)]


def test_a_pod_goes_where_the_last_of_its_kind_went() -> None:
    ours = evacuations(a_replica("a", "n0"), a_replica("b", "n1"), hints={"a": "n2"})
    assert moves(ours.evacuate(Row(0), rows=ALL)) == [("a", 2)]
    assert moves(ours.evacuate(Row(1), rows=ALL)) == [("b", 2)]


def test_no_pod_goes_to_a_node_that_is_being_removed_and_pods_placed_there_move_on() -> None:
    a, b = a_replica("a", "n0"), a_replica("b", "n1")
    ours = evacuations(a, b)
    assert moves(ours.evacuate(Row(0), rows=ALL)) == [("a", 1)]
    assert ours.has_rescheduled_pods(Row(1))
    assert moves(ours.evacuate(Row(1), rows=ALL)) == [("a", 2), ("b", 2)]
    assert ours.destinations == {"uid-a": 2, "uid-b": 2}
    assert ours.evacuate(Row(2), rows=ALL) == NotEvacuated(row=Row(2), pod=a, unremovable_reason=UnremovableReason.NO_PLACE)


def test_a_pod_that_fits_nowhere_is_named_with_the_verdicts_on_the_other_nodes() -> None:
    ours = evacuations(a_replica("a", "n0", cpu="3"), a_replica("b", "n1", cpu="2"), a_replica("c", "n2", cpu="2"))
    found = ours.evacuate(Row(0), rows=ALL)
    assert isinstance(found, NotEvacuated)
    assert (found.pod.key.name, found.unremovable_reason) == ("a", UnremovableReason.NO_PLACE)
    assert found.reasons == ((Reason.RESOURCES_SHORT, 2),)


def test_a_rule_blocks_before_any_place_is_looked_for() -> None:
    alone = structs.replace(a_replica("alone", "n0"), eviction_facts=EvictionFacts())
    found = evacuations(a_replica("a", "n0"), alone).evacuate(Row(0), rows=ALL)
    assert found == NotEvacuated(row=Row(0), pod=alone, unremovable_reason=UnremovableReason.NOT_REPLICATED)


def test_pods_of_a_node_whose_removal_has_begun_need_a_place_whatever_the_rules_say() -> None:
    ours = evacuations(a_replica("a", "n0"), budgets=(a_budget("web", allowed=0, app="web"),))
    assert isinstance(ours.evacuate(Row(0), rows=ALL), NotEvacuated)
    assert moves(ours.evacuate(Row(0), rows=ALL, begun=True)) == [("a", 1)]


def test_nodes_share_what_their_budget_allows() -> None:
    ours = evacuations(a_replica("a", "n0"), a_replica("b", "n1"), budgets=(a_budget("web", allowed=1, app="web"),))
    assert not emptied(ours.evacuate(Row(0), rows=ALL)).risky
    found = ours.evacuate(Row(1), rows=ALL)
    assert isinstance(found, NotEvacuated)
    assert found.unremovable_reason == UnremovableReason.NOT_ENOUGH_PDB


def test_a_pod_that_moves_on_costs_its_budget_nothing_again() -> None:
    ours = evacuations(a_replica("a", "n0"), budgets=(a_budget("web", allowed=1, app="web"),))
    assert moves(ours.evacuate(Row(0), rows=ALL)) == [("a", 1)]
    assert moves(ours.evacuate(Row(1), rows=ALL)) == [("a", 2)]


def test_more_pods_than_the_budget_allows_make_a_node_risky() -> None:
    ours = evacuations(a_replica("a", "n0"), a_replica("b", "n0"), budgets=(a_budget("web", allowed=1, app="web"),))
    assert emptied(ours.evacuate(Row(0), rows=ALL)).risky


def test_daemons_go_with_the_node_and_the_awaited_hold_it() -> None:
    daemon = structs.replace(a_replica("daemon", "n0", cpu="4"), eviction_facts=EvictionFacts(daemon=True))
    job = structs.replace(a_replica("job", "n0"), eviction_facts=EvictionFacts(safe_to_evict="on-completion"))
    found = emptied(evacuations(daemon).evacuate(Row(0), rows=ALL))
    assert (found.moves, found.daemons, found.empty) == ((), (daemon,), True)
    found = emptied(evacuations(job).evacuate(Row(0), rows=ALL))
    assert (found.moves, found.awaited, found.empty) == ((), (job,), False)


def test_a_node_is_evacuated_once() -> None:
    ours = evacuations(a_replica("a", "n0"))
    ours.evacuate(Row(0), rows=ALL)
    with pytest.raises(ValueError, match="row 0: is evacuated already"):
        ours.evacuate(Row(0), rows=ALL)
