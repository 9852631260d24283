"""The dump is complete, sorted, made of integers, and a copy."""

import json
from typing import Any

from slackwater.model.events import Event, NodeSeen, PodSeen
from slackwater.model.ids import Instant, NodeName
from slackwater.runtime.dump import Dump, state_of
from slackwater.runtime.restore import restore
from slackwater.runtime.state_machine import StateMachine
from tests.support import installed
from tests.support.answers import json_of
from tests.support.builders import a_node, a_pod, amounts
from tests.support.growing import Growing

EVENTS: list[Event] = [
    NodeSeen(a_node("b")),
    NodeSeen(a_node("a", cpu="2")),
    PodSeen(a_pod("placed", on="a", cpu="1")),
    PodSeen(a_pod("bound-to-an-unknown-node", on="gone")),
    PodSeen(a_pod("ended", on="a", ended=True)),
    PodSeen(a_pod("waiting", message="0/2 nodes are available")),
]


def a_state_machine(*, backwards: bool = False) -> StateMachine:
    state_machine = StateMachine(installed.POLICY)
    for event in reversed(EVENTS) if backwards else EVENTS:
        state_machine.apply(event, Instant(0))
    return state_machine


def dumped(state_machine: StateMachine, now: float = 0.0) -> dict[str, Any]:
    """As a reader sees it."""
    return json_of(state_of(Dump(state_machine, Instant(now))))  # type: ignore[no-any-return]


def test_the_dump_has_the_documented_parts() -> None:
    state_machine = a_state_machine()
    pod = a_pod("held", cpu="1")
    state_machine.filter(pod, state_machine.state.nodes.rows_of(["b"]), Instant(0))
    state_machine.bind(a_pod("waiting").uid, a_pod("waiting").key, NodeName("b"), Instant(0))
    dump = dumped(state_machine, now=4.0)
    assert [node["name"] for node in dump["nodes"]] == ["a", "b"]
    assert dump["nodes"][0]["cpu"] == {
        "total": 2000,
        "watermark": 1800,
        "reserved": 1000,
        "buffer": 0,
        "capacityPressure": 0,
        "pressureAccountedFor": 0,
        "held": 0,
    }
    assert [(pod["name"], pod["node"], pod["state"]) for pod in dump["pods"]] == [
        ("bound-to-an-unknown-node", "gone", "seen"),
        ("placed", "a", "seen"),
        ("waiting", "b", "binding"),
    ]
    assert dump["pods"][1]["cpu"] == {
        "reserved": 1000,
        "buffer": 0,
        "capacityPressure": 0,
        "accountedFor": 0,
        "min": 1000,
        "max": 1000,
    }
    assert [hold | {"amounts": None} for hold in dump["holds"]] == [
        {
            "namespace": "default",
            "name": "held",
            "uid": "uid-held",
            "cause": "bind",
            "node": "b",
            "amounts": None,
            "endsInSeconds": 71.0,
            "nominee": None,
        }
    ]
    for key in ("migrationQueue", "nominations", "gates", "migrations"):
        assert dump[key] == []


def test_equal_states_give_equal_dumps_whatever_the_order_they_came_in() -> None:
    one, other = dumped(a_state_machine()), dumped(a_state_machine(backwards=True))
    assert one == other
    assert json.loads(json.dumps(one)) == one


def test_a_taken_dump_does_not_change_with_the_state() -> None:
    state_machine = a_state_machine()
    taken = Dump(state_machine, Instant(0))
    before = state_of(taken)
    state_machine.apply(PodSeen(a_pod("late", on="a")), Instant(1))
    assert state_of(taken) == before
    assert state_of(Dump(state_machine, Instant(0))) != before


def test_what_was_written_as_the_clock_began_is_read_back_so() -> None:
    cluster = Growing()
    cluster.has_node(a_node("n", cpu="10", memory="40Gi"))
    pod = cluster.has_machine("vm", on="n")
    cluster.ask(pod, amounts("1", "4Gi"))
    cluster.decide(pod, amounts("2", "8Gi"), last=amounts("1", "4Gi"))
    dump = dumped(cluster.state_machine)
    assert dump["permits"][0]["writtenInSeconds"] == 0
    assert dumped(restore(dump, installed.POLICY, Instant(0))) == dump
