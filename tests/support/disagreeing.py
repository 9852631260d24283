"""The looks for disagreements with kube-scheduler, second by second, on a replica in this process."""

from collections.abc import Callable
from typing import Any

from msgspec import structs

from slackwater.app.disagreement import judge_of
from slackwater.controllers.disagreement.loop import DisagreementLoop
from slackwater.controllers.disagreement.state import Disagreement
from slackwater.model.effects import Announce
from slackwater.model.events import NodeSeen, PodSeen, Synced
from slackwater.model.ids import Instant, PodUid
from slackwater.model.objects import Node, Pod
from slackwater.runtime.planner.process import MakeQuestion
from slackwater.runtime.state_machine import StateMachine
from tests.support import installed
from tests.support.builders import a_node
from tests.support.destinations import Destinations


def a_machine(name: str, **node: Any) -> Node:
    """A node that takes 110 pods."""
    return structs.replace(a_node(name, **node), scalars=(("pods", 110),))


class Looking:
    """`said`: the Events so far."""

    def __init__(self, state_machine: StateMachine | None = None) -> None:
        self.now = 0.0
        self.state_machine = StateMachine(installed.POLICY) if state_machine is None else state_machine
        self.said: list[Announce] = []
        self._replica = Destinations(self.state_machine)
        self._loop = DisagreementLoop(
            self.state_machine.disagreements,
            judge_of(self.state_machine, self, watched=lambda: True),
            self.said.extend,
            is_promised=self.state_machine.is_promised,
            clock=self.at,
            binds=True,
        )

    def at(self) -> Instant:
        return Instant(self.now)

    async def ask(self, make: MakeQuestion) -> bytes:
        return self._replica.answer(make())

    def sees(self, *objects: Node | Pod) -> None:
        """What the watch shows now."""
        for each in objects:
            self.state_machine.apply(NodeSeen(each) if isinstance(each, Node) else PodSeen(each), self.at())

    async def begins(self, *objects: Node | Pod) -> None:
        """What was there long before."""
        self.sees(*objects)
        self.state_machine.apply(Synced(), self.at())
        await self.goes_on(10.0)

    async def goes_on(self, seconds: float, each_second: Callable[[], None] = lambda: None) -> None:
        end = self.now + seconds
        while self.now < end:
            await self._loop.look()
            self.now += 1.0
            each_second()

    def about(self, pod: Pod) -> Disagreement | None:
        return self.state_machine.disagreements.about(PodUid(pod.uid))
