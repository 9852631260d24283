"""What the service has promised must not be forgotten: binds that it sent, permits that agents were told, by whichever life.

Judged between the cluster and one life's cluster state. Deliberately absent: whether it all fits (`truth`).
"""

import msgspec

from slackwater.model.ids import PodUid
from slackwater.runtime.state_machine import StateMachine
from slackwater.sandbox.embedded.agents import UNIT_CPU, UNIT_MEMORY, Agents
from tests.faults.laws import Broken
from tests.faults.truth import Truth

_CREATED = 300


class SentBinds:
    """Bindings that one life sent and the API server carried out, until its cluster state confirms them."""

    def __init__(self) -> None:
        self._nodes: dict[PodUid, str] = {}

    def carried_out(self, path: str, body: bytes | None, status: int) -> None:
        """A request of this life ended so; however late its caller hears of it, if ever."""
        if body is None or status >= _CREATED or not path.endswith("/binding"):
            return
        binding = msgspec.json.decode(body)
        self._nodes[PodUid(binding["metadata"].get("uid", ""))] = binding["target"]["name"]

    def check(self, state_machine: StateMachine, truth: Truth) -> None:
        """S1: a bind that may have happened counts. Raises `Broken`."""
        for uid, node in list(self._nodes.items()):
            placed, claim = truth.placed.get(uid), state_machine.state.reservations.get(uid)
            if placed is None or placed.node != node or (claim is not None and claim.state == "seen"):
                del self._nodes[uid]
            elif claim is None or claim.node != node:
                raise Broken("S1", f"pod {placed.name} was bound to node {node}, and counts on {claim and claim.node}")


def check_reported(state_machine: StateMachine, agents: Agents, truth: Truth) -> None:
    """S1: what an agent was told counts, after a restart too; not on nodes that are excused. Raises `Broken`."""
    for uid, placed in truth.placed.items():
        agent, claim = agents.living.get(placed.name), state_machine.state.reservations.get(PodUid(uid))
        if agent is None or claim is None or placed.node in truth.meddled:
            continue
        reported = agent.may_use[0] * UNIT_CPU, agent.may_use[1] * UNIT_MEMORY
        have = claim.pod_resources.reserved
        if reported[0] > have.cpu or reported[1] > have.memory:
            raise Broken("S1", f"pod {placed.name} was told {reported}, and counts for {have}")
