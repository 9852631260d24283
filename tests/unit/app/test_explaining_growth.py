"""Why an agent gets no more, why a machine does not migrate, and what a gate waits for."""

from typing import Any

import msgspec
import pytest
from msgspec import structs

from slackwater.app.explain.service import ExplainService
from slackwater.app.settings import Settings
from slackwater.model.events import PodGone, PodSeen, Synced
from slackwater.model.ids import Instant, PodKey, UnixTime
from slackwater.model.objects import Node
from slackwater.model.permits import PermitAnswer
from slackwater.ports.protocols import Explained
from slackwater.runtime.state_machine import StateMachine
from tests.support.builders import a_node, a_pod, a_vertical, amounts
from tests.support.dashboards import ten_nodes
from tests.support.growing import Growing
from tests.support.planners import Conversation, a_feed

pytestmark = pytest.mark.anyio
TWO, FOUR = amounts("2", "4Gi"), amounts("4", "8Gi")


async def explained(state_machine: StateMachine, now: Instant, what: Explained, name: str) -> dict[str, Any]:
    explaining = ExplainService(
        state_machine,
        Conversation(a_feed(state_machine)),
        group_registry=lambda: None,
        settings=Settings,
        held_back=lambda _node, _group: (None, ()),
        clock=lambda: now,
        steady=lambda: UnixTime(1e9),
    )
    answer: dict[str, Any] = msgspec.json.decode(await explaining(what, "default", name))
    return answer


def codes(answer: dict[str, Any]) -> list[str]:
    return [reason["code"] for reason in answer["reasons"]]


class Crowded:
    """Two machines and a pod fill node n1: the first machine got what it asked for, the second lacks 2 CPUs. n2 has one."""

    def __init__(self) -> None:
        self.cluster = Growing()
        self.cluster.has_node(_roomy("n1"))
        self.cluster.has_node(_roomy("n2"))
        self.full, self.side = a_pod("full", on="n2", cpu="7", memory="4Gi"), a_pod("side", on="n1", cpu="2", memory="1Gi")
        vertical = a_vertical(using=TWO, maximum=amounts("8", "16Gi"), auto_migrate=True)
        self.cluster.take(PodSeen(self.full), Synced())
        self.pods = [self.cluster.places(f"db-{number}", on="n1", vertical=vertical) for number in range(2)]
        self.cluster.take(PodSeen(self.side))
        for pod in self.pods:
            self.cluster.ask(pod, TWO)
        self.granted = [self._ask(number) for number in range(2)]

    def _ask(self, number: int) -> int:
        answer = self.cluster.ask(self.pods[number], FOUR, last=TWO)
        assert isinstance(answer, PermitAnswer)
        return answer.permit.cpu

    def ask_again(self) -> int:
        return self._ask(1)

    async def why(self, what: Explained, number: int) -> dict[str, Any]:
        return await explained(self.cluster.state_machine, Instant(self.cluster.now), what, self.pods[number].key.name)


def _roomy(name: str) -> Node:
    return structs.replace(a_node(name, cpu="8", memory="32Gi"), scalars=(("pods", 110),))


async def test_a_denied_permit_says_what_is_short_and_what_would_make_room_does() -> None:
    crowded = Crowded()
    assert crowded.granted == [4000, 2000]
    answer = await crowded.why("permit", 1)
    [reason] = answer["reasons"]
    assert (answer["state"], reason["code"], reason["short"]) == ("denied", "not_enough_cpu", {"milliCPU": 2000})
    assert [remedy["change"] for remedy in answer["remedies"]] == ["move pod default/side off node n1"]
    crowded.cluster.take(PodGone(crowded.side.uid, crowded.side.key))
    assert crowded.ask_again() == 4000, "what was told to help helps in the world itself"
    assert codes(await crowded.why("permit", 1)) == ["granted"]


async def test_a_machine_that_has_all_it_asked_for_is_reported_as_granted() -> None:
    answer = await Crowded().why("permit", 0)
    assert (answer["state"], codes(answer), answer["remedies"]) == ("granted", ["granted"], [])


async def test_a_machine_without_a_target_node_says_what_the_others_lack() -> None:
    crowded = Crowded()
    answer = await crowded.why("migration", 1)
    assert codes(answer) == ["queued", "no_target_node", "resources_short"]
    assert (answer["reasons"][-1]["short"], answer["reasons"][-1]["closest"]) == ({"milliCPU": 1000}, "n2")
    crowded.cluster.take(PodGone(crowded.full.uid, crowded.full.key))
    answer = await crowded.why("migration", 1)
    assert (codes(answer), answer["facts"]["nodesWithRoom"]) == (["queued"], ["n2"])


async def test_a_migration_under_way_is_reported() -> None:
    crowded = Crowded()
    crowded.cluster.take(PodGone(crowded.full.uid, crowded.full.key))
    for number, pod in enumerate(crowded.pods):
        crowded.cluster.ask(pod, FOUR, last=TWO, load=number * 700_000)
    [move] = crowded.cluster.state_machine.migrating.migrations.values()
    assert move.pod is not None
    number = [pod.uid for pod in crowded.pods].index(move.pod)
    answer = await crowded.why("migration", number)
    assert (answer["state"], codes(answer)) == ("under_way", ["under_way"])
    assert answer["reasons"][0]["objects"] == ["node n2"]


async def test_a_gate_names_the_victims_that_it_waits_for() -> None:
    state_machine, now = ten_nodes()
    answer = await explained(state_machine, now, "gate", "checkout")
    [reason] = answer["reasons"]
    assert reason["code"] == "gated"
    assert reason["objects"] == ["pod default/cache-11", "pod default/worker-10", "node general-1"]
    victim = state_machine.state.pods.by_key(PodKey("default", "cache-11"))
    assert victim is not None
    state_machine.apply(PodGone(victim.uid, victim.key), now)
    [reason] = (await explained(state_machine, now, "gate", "checkout"))["reasons"]
    assert reason["objects"] == ["pod default/worker-10", "node general-1"]
    assert answer["remedies"] == [], "nothing helps but their going"
