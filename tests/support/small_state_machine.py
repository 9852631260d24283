"""A state machine of two nodes, and its clock: for scenarios of single pods. The state machine's laws are looked at after each
step."""

import numpy as np

from slackwater.controllers.policy import Policy
from slackwater.model.effects import Effect
from slackwater.model.events import Event, NodeSeen, PodSeen, Synced, TimePassed
from slackwater.model.ids import Instant, NodeName
from slackwater.model.objects import Pod
from slackwater.runtime.state_machine import StateMachine
from tests.support.builders import a_node
from tests.support.invariants import violations

N, M = NodeName("n"), NodeName("m")


class SmallStateMachine:
    """Two nodes of 4 CPUs and 16 GiB."""

    def __init__(self, policy: Policy) -> None:
        self.state_machine = StateMachine(policy)
        self.now = Instant(1000.0)
        self.effects: list[Effect] = []
        for name in (N, M):
            self.apply(NodeSeen(a_node(name)))
        self.apply(Synced())

    def apply(self, event: Event) -> list[Effect]:
        effects = self.state_machine.apply(event, self.now)
        self.effects += effects
        assert violations(self.state_machine) == []
        return effects

    def comes(self, pod: Pod) -> Pod:
        self.apply(PodSeen(pod))
        return pod

    def ask(self, pod: Pod, *nodes: NodeName) -> list[int]:
        """What filter answers: a code for each node, 0 where it fits."""
        rows = np.array([self.state_machine.state.nodes.row_of[node] for node in nodes], np.intp)
        codes: list[int] = self.state_machine.filter(pod, rows, self.now).tolist()
        assert violations(self.state_machine) == []
        return codes

    def after(self, seconds: float) -> list[Effect]:
        self.now = Instant(self.now + seconds)
        return self.apply(TimePassed())

    def held(self, node: NodeName = N) -> int:
        return int(self.state_machine.state.ledger.columns.held[0, self.state_machine.state.nodes.row_of[node]])
