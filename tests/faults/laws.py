"""What must hold: the safety laws after every step, the liveness laws when the storm is over (field notes, section 6)."""

from collections import Counter
from collections.abc import Container, Iterator

import numpy as np

from slackwater.app.settings import Settings
from slackwater.model.ids import Instant, NodeName
from slackwater.runtime.dump import Dump, state_of
from slackwater.runtime.restore import restore
from slackwater.runtime.state_machine import StateMachine
from slackwater.sandbox.embedded.kinds import NODES, PODS
from slackwater.sandbox.embedded.queue import allows, node_observation, pod_observation
from slackwater.sandbox.embedded.server import ApiServer
from slackwater_protocol.names import NODE_GROUP
from tests.faults.truth import Truth
from tests.support.answers import json_of
from tests.support.invariants import violations

#: The node group of runs that have one.
POOL = "pool"


#: After its deadline a hold ends with a tick, and a bind is asked about.
_LATE_SECONDS = 1.0


class Broken(BaseException):
    """A law that does not hold. No Exception: the service must not take it for one of its own."""

    def __init__(self, law: str, what: str) -> None:
        super().__init__(f"{law}: {what}")
        self.law = law
        self._what = what

    def __reduce__(self) -> tuple[type["Broken"], tuple[str, str]]:
        """It goes from one process to another."""
        return Broken, (self.law, self._what)


def check_state(state_machine: StateMachine, meddled: Container[str]) -> None:
    """S2, S4: one life's own sums; not of nodes that others have `meddled` with. Quick: it is asked after every step."""
    columns = state_machine.state.ledger.columns
    over = columns.reserved - columns.buffer > columns.total
    if over.any():
        for row in np.flatnonzero(over.any(axis=0)):
            node = state_machine.state.nodes.by_row[int(row)]
            if node is not None and node.name not in meddled:
                text = f"Reserved {columns.reserved[:, row].tolist()} - Buffer {columns.buffer[:, row].tolist()}"
                raise Broken("S2", f"node {node.name}: {text} > Total {columns.total[:, row].tolist()}")
    for key, hold in state_machine.state.holds:
        if key.cause in ("bind", "former try") and state_machine.state.reservations.get(key.uid) is not None:
            raise Broken("S4", f"pod {hold.key} has a hold and a reservation")


def check_sums(state_machine: StateMachine) -> None:
    """S1: what is counted is the sum of what is there."""
    if found := violations(state_machine):
        raise Broken("S1", found[0])


def check_truth(truth: Truth) -> None:
    """S1, for all lives: nobody's promises together exceed a node."""
    if found := truth.too_full():
        raise Broken("S1", found[0])


def check_group(server: ApiServer, settings: Settings) -> None:
    """S6: a group has no more nodes than it may."""
    for group in settings.autoscaler.node_groups:
        found = [s for s in server.store.each(NODES) if (s.body["metadata"].get("labels") or {}).get(NODE_GROUP) == group.name]
        if len(found) > group.max_size:
            raise Broken("S6", f"group {group.name} has {len(found)} nodes, want at most {group.max_size}")


def check_dump(state_machine: StateMachine, now: Instant) -> None:
    """S9: what is written of the state is the state. But preemptions begin again, as after a restart, and
    pods that the watch has not shown are not told (see `state_machine.restore`)."""
    if state_machine.preemptions.items() or any(
        state_machine.state.pods.get(uid) is None for uid in state_machine.state.reservations.copy()
    ):
        return
    written = json_of(state_of(Dump(state_machine, now)))
    again = json_of(state_of(Dump(restore(written, state_machine.policy, now), now)))
    if again != written:
        parts = sorted(part for part in written if written[part] != again.get(part))
        parts = [f"{part} {_differing(written[part], again.get(part))}" for part in parts]
        raise Broken("S9", f"a dump read back differs in {', '.join(parts)}")


def _differing(one: object, other: object) -> str:
    if isinstance(one, list) and isinstance(other, list):
        return f"{[x for x in one if x not in other]} {[x for x in other if x not in one]}"
    return f"{one} {other}"


def check_healed(state_machine: StateMachine, server: ApiServer) -> None:
    """L5: after the storm the cluster state is the cluster."""
    nodes = {stored.body["metadata"]["name"] for stored in server.store.each(NODES)}
    if set(state_machine.state.nodes.row_of) != nodes:
        raise Broken(
            "L5",
            f"the cluster state has nodes {sorted(set(state_machine.state.nodes.row_of) ^ nodes)} otherwise than the cluster",
        )
    want = {}
    for stored in server.store.each(PODS):
        pod = pod_observation(stored)
        if pod.node and stored.body["status"].get("phase") not in {"Succeeded", "Failed"}:
            want[pod.uid] = (pod.key[1], pod.node)
    have = {str(uid): (claim.key.name, str(claim.node)) for uid, claim in state_machine.state.reservations.copy().items()}
    if have != want:
        differ = sorted({name for uid in have.keys() ^ want.keys() for name, _ in [have.get(uid) or want[uid]]})
        wrong = sorted(want[uid][0] for uid in have.keys() & want.keys() if have[uid] != want[uid])
        raise Broken("L5", f"the cluster state has pods {differ} {wrong} otherwise than the cluster")
    unsure = [claim.key.name for claim in state_machine.state.reservations.copy().values() if claim.state != "seen"]
    if unsure:
        raise Broken("L5", f"pods {unsure} are not confirmed")


def check_times(state_machine: StateMachine, now: Instant) -> None:
    """L5: no promise outlives its time, and no bind stays uncertain beyond it."""
    before = Instant(now - _LATE_SECONDS)
    late = sorted(hold.key.name for _, hold in state_machine.state.holds if hold.deadline < before)
    if late:
        raise Broken("L5", f"holds of {late} have not ended in their time")
    unsure = sorted(claim.key.name for _, claim in state_machine.state.reservations.overdue(before))
    if unsure:
        raise Broken("L5", f"nobody asks what became of the binds of {unsure}")


def waiting_in_vain(server: ApiServer, truth: Truth, state_machine: StateMachine) -> Iterator[str]:
    """L1: pending pods that some node would take, room for room, by the strictest count of both."""
    used = truth.used()
    counts = Counter(placed.node for placed in truth.placed.values())
    columns = state_machine.state.ledger.columns
    for stored in server.store.all(PODS):
        pod = pod_observation(stored)
        if pod.node or not pod.alive or pod.spec.get("schedulingGates"):
            continue
        asks = state_machine.state.pods.get(stored.body["metadata"]["uid"])
        need = (pod.cpu, pod.memory)
        if asks is not None and asks.vertical is not None:
            need = (int(asks.vertical.using.cpu), int(asks.vertical.using.memory))
        for node in server.store.all(NODES):
            observation = node_observation(node)
            row = state_machine.state.nodes.row_of.get(NodeName(observation.name))
            if (
                row is None
                or not allows(pod, observation)
                or pod.spec.get("affinity")
                or counts[observation.name] >= observation.pods
            ):
                continue
            there = used.get(observation.name, (0, 0))
            taken = columns.reserved[:, row] + columns.held[:, row]
            fits = all(
                max(there[r], int(taken[r])) + need[r]
                <= min((observation.cpu, observation.memory)[r], int(columns.total[r, row]))
                for r in (0, 1)
            )
            if fits:
                yield f"pod {pod.key[1]} waits although node {observation.name} has room for {need}"
                break
