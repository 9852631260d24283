"""The dashboard's view: nodes as columns, removals with where each pod goes, and bounds on all of it."""

from slackwater.controllers.policy import Policy
from slackwater.model.drains import DrainOrder
from slackwater.model.events import NodeSeen, PodSeen
from slackwater.model.ids import Instant, NodeName, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.runtime import dashboard_view
from slackwater.runtime.dashboard_nodes import CORDONED, LINES, NOT_READY, changed, take_nodes
from slackwater.runtime.state_machine import StateMachine
from slackwater_protocol.names import NODE_GROUP
from tests.support.builders import a_node, a_pod

NOW = Instant(10.0)


def a_state_machine() -> StateMachine:
    state_machine = StateMachine(Policy())
    state_machine.apply(NodeSeen(a_node("a", cpu="4", labels={NODE_GROUP: "g"}, ready=False, unschedulable=True)), NOW)
    state_machine.apply(NodeSeen(a_node("b", cpu="8")), NOW)
    state_machine.apply(PodSeen(a_pod("p", on="b", cpu="3")), NOW)
    return state_machine


def test_nodes_are_columns_of_integers() -> None:
    nodes = take_nodes(a_state_machine(), None)
    numbers = dict(zip(LINES, nodes.numbers.tolist(), strict=True))
    assert nodes.names == ["a", "b"]
    assert [nodes.groups[index] for index in nodes.group] == ["g", ""]
    assert (numbers["cpu.total"], numbers["cpu.reserved"], numbers["pods"]) == ([4000, 8000], [0, 3000], [0, 1])
    assert numbers["flags"] == [NOT_READY | CORDONED, 0]


def test_only_the_node_that_changed_is_told() -> None:
    state_machine = a_state_machine()
    before = take_nodes(state_machine, None)
    state_machine.apply(PodSeen(a_pod("q", on="a", cpu="1")), NOW)
    rows = changed(before, take_nodes(state_machine, before))
    assert rows is not None
    assert rows.tolist() == [0]


def test_a_node_that_moved_to_another_group_is_everything_anew() -> None:
    state_machine = a_state_machine()
    before = take_nodes(state_machine, None)
    state_machine.apply(NodeSeen(a_node("b", cpu="8", labels={NODE_GROUP: "g"})), NOW)
    assert changed(before, take_nodes(state_machine, before)) is None


def test_a_world_without_nodes_has_a_board_too() -> None:
    nodes = take_nodes(StateMachine(Policy()), None)
    assert nodes.numbers.shape == (len(LINES), 0)


def test_a_drain_tells_where_each_pod_goes() -> None:
    state_machine = a_state_machine()
    node = state_machine.nodes.by_row[state_machine.nodes.row_of[NodeName("b")]]
    assert node is not None
    order = DrainOrder(
        node=node.name,
        uid=node.uid,
        group=GroupName("g"),
        empty=False,
        stamp=UnixTime(0.0),
        destinations=((a_pod("p").key, NodeName("a")),),
    )
    state_machine.removals.drains.begin([order], NOW)
    [drain] = dashboard_view.sections(state_machine, Instant(NOW + 3))["drains"]["entries"]
    assert (drain["node"], drain["phase"], drain["since"], drain["podsTotal"]) == ("b", "marking", 3, 1)
    assert drain["pods"] == [{"namespace": "default", "name": "p", "step": "planned", "detail": "", "destination": "a"}]


def test_a_long_section_is_cut_and_says_how_long_it_is() -> None:
    pods = [a_pod(f"p{number:05}") for number in range(dashboard_view.MOST + 5)]
    told = dashboard_view.pending(pods)
    assert (told["total"], len(told["entries"])) == (dashboard_view.MOST + 5, dashboard_view.MOST)
    assert told["entries"][0]["name"] == "p00000"
