"""The dashboard's view: nodes as columns, removals with where each pod goes, and bounds on all of it."""

from collections.abc import Iterable
from typing import Any

import pytest

from slackwater.model.effects import DrainOrder
from slackwater.model.events import NodeSeen, PodSeen
from slackwater.model.ids import Instant, NodeName, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Pod
from slackwater.runtime.dashboard import view
from slackwater.runtime.dashboard.pending import MOST_GROUPS, PendingGroups
from slackwater.runtime.dashboard.view import CORDONED, LINES, NOT_READY, changed, take_nodes
from slackwater.runtime.state_machine import StateMachine
from slackwater_protocol.names import NODE_GROUP
from tests.support import installed
from tests.support.builders import a_node, a_pod

NOW = Instant(10.0)


def _grouped(pods: Iterable[Pod]) -> dict[str, Any]:
    groups = PendingGroups()
    groups.add(pods)
    return groups.section()


def a_state_machine() -> StateMachine:
    state_machine = StateMachine(installed.POLICY)
    state_machine.apply(NodeSeen(a_node("a", cpu="4", labels={NODE_GROUP: "g"}, ready=False, unschedulable=True)), NOW)
    state_machine.apply(NodeSeen(a_node("b", cpu="8")), NOW)
    state_machine.apply(PodSeen(a_pod("p", on="b", cpu="3")), NOW)
    return state_machine


def test_nodes_are_columns_of_integers() -> None:
    nodes = take_nodes(a_state_machine(), None)
    numbers = dict(zip(LINES, nodes.numbers.tolist(), strict=True))
    assert nodes.names == ["a", "b"]
    assert [nodes.facets["group"].texts[index] for index in nodes.facets["group"].of] == ["g", ""]
    assert (numbers["cpu.total"], numbers["cpu.reserved"], numbers["pods"]) == ([4000, 8000], [0, 3000], [0, 1])
    assert numbers["flags"] == [NOT_READY | CORDONED, 0]


@pytest.mark.parametrize("names", [("web-1", "web-2"), ("web-2", "web-1")])
def test_a_group_of_equally_old_pods_is_named_by_the_first_name_whatever_their_order(names: tuple[str, str]) -> None:
    assert [entry["name"] for entry in _grouped(a_pod(name) for name in names)["entries"]] == ["web-1"]


def test_only_the_node_that_changed_is_sent() -> None:
    state_machine = a_state_machine()
    before = take_nodes(state_machine, None)
    state_machine.apply(PodSeen(a_pod("q", on="a", cpu="1")), NOW)
    rows = changed(before, take_nodes(state_machine, before))
    assert rows is not None
    assert rows.tolist() == [0]


def test_a_node_that_moved_to_another_group_needs_a_whole_frame() -> None:
    state_machine = a_state_machine()
    before = take_nodes(state_machine, None)
    state_machine.apply(NodeSeen(a_node("b", cpu="8", labels={NODE_GROUP: "g"})), NOW)
    assert changed(before, take_nodes(state_machine, before)) is None


def test_a_cluster_without_nodes_has_a_view_too() -> None:
    nodes = take_nodes(StateMachine(installed.POLICY), None)
    assert nodes.numbers.shape == (len(LINES), 0)


def test_a_drain_shows_where_each_pod_goes() -> None:
    state_machine = a_state_machine()
    node = state_machine.state.nodes.by_row[state_machine.state.nodes.row_of[NodeName("b")]]
    assert node is not None
    order = DrainOrder(
        node=node.name,
        uid=node.uid,
        group=GroupName("g"),
        empty=False,
        stamp=UnixTime(0.0),
        destinations=((a_pod("p").key, NodeName("a")),),
    )
    state_machine.drains.begin([order], NOW)
    [drain] = view.sections(state_machine, Instant(NOW + 3), UnixTime(1003.0))["drains"]["entries"]
    assert (drain["node"], drain["phase"], drain["began"], drain["podsTotal"]) == ("b", "marking", 1000, 1)
    assert drain["pods"] == [
        {"namespace": "default", "name": "p", "step": "planned", "detail": "", "destination": "a", "blockedBy": ""}
    ]


def test_pods_of_one_job_that_wait_for_one_reason_are_one_entry() -> None:
    short = "0/{} nodes are available: {} Insufficient cpu."
    pods = [a_pod(f"report-{number}", cpu="2", message=short.format(number, number)) for number in range(1, 31)]
    reported = _grouped([*pods, a_pod("other", message="0/9 nodes are available: 9 Insufficient memory.")])
    assert (reported["total"], reported["groups"]) == (31, 2)
    assert sorted(entry["count"] for entry in reported["entries"]) == [1, 30]


def test_a_long_section_is_cut_and_says_how_long_it_is() -> None:
    n_groups = MOST_GROUPS + 5
    reported = _grouped(a_pod(f"p{number:05}x", cpu=f"{number + 1}m") for number in range(n_groups))
    assert (reported["total"], reported["groups"], len(reported["entries"])) == (n_groups, n_groups, MOST_GROUPS)
