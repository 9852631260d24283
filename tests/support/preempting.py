"""A cluster in which pods preempt, on virtual time: the state machine, and an API server that carries out its effects when told
to.

Nodes are ones where our accounting is stricter than kube-scheduler's, as nodes with machines that grow are.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from msgspec import structs

from slackwater.controllers.policy import Policy
from slackwater.model.effects import Activate, ApiEffect, DeleteVictim, DrainReport, Effect, Nominate, ReadPod, WritePreempting
from slackwater.model.events import (
    Event,
    NodeGone,
    NodeSeen,
    PodGone,
    PodRead,
    PodSeen,
    PreemptingNotWritten,
    PreemptingWritten,
    Synced,
    TimePassed,
    VictimEnded,
    VictimOutcome,
)
from slackwater.model.ids import Instant, NodeName, PodUid
from slackwater.model.objects import Node, Pod, read_preempting
from slackwater.model.reasons import Reason
from slackwater.runtime.state_machine import StateMachine
from tests.support import installed
from tests.support.builders import amounts
from tests.support.invariants import violations

POLICY = replace(
    installed.POLICY,
    nodes=replace(installed.NODES, system=amounts("100m", "1Mi")),
    preemption=replace(installed.PREEMPTION, enabled=True),
)


class Cluster:
    """`asked` are the effects that wait to be carried out, oldest first; `deleted` every victim that was sent for."""

    def __init__(self, *objects: Node | Pod, policy: Policy = POLICY, now: float = 0.0, synced: bool = True) -> None:
        self.state_machine = StateMachine(policy)
        self.now = now
        self.pods: dict[PodUid, Pod] = {}
        self.asked: deque[ApiEffect] = deque()
        self.deleted: list[str] = []
        self._version = 10**6
        for item in objects:
            self.has(item)
        if synced:
            self.take(Synced())

    @property
    def at(self) -> Instant:
        return Instant(self.now)

    def has(self, item: Node | Pod) -> None:
        if isinstance(item, Node):
            self.take(NodeSeen(item))
        else:
            self.pods[item.uid] = item
            self.take(PodSeen(item))

    def take(self, event: Event) -> None:
        self._keep(self.state_machine.apply(event, self.at))

    def _keep(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            assert not isinstance(effect, DrainReport)
            self.asked.append(effect)
            if isinstance(effect, DeleteVictim):
                self.deleted.append(effect.key.name)
        assert violations(self.state_machine) == []

    def filter(self, pod: Pod, *nodes: str) -> list[Reason]:
        """One cycle of kube-scheduler: what each node is answered."""
        pod = self.pods.get(pod.uid, pod)
        names = nodes or [node.name for _, node in self.state_machine.state.nodes]
        codes = [
            Reason(code)
            for code in self.state_machine.filter(pod, self.state_machine.state.nodes.rows_of(names), self.at).tolist()
        ]
        self.after(0.0)
        return codes

    def preempt(self, pod: Pod, **proposed: list[Pod]) -> list[str]:
        """The nodes that the preempt verb keeps."""
        uids = {NodeName(node): [victim.uid for victim in victims] for node, victims in proposed.items()}
        return list(self.state_machine.preempt(pod, uids, self.at))

    def after(self, seconds: float) -> None:
        self.now += seconds
        self.take(TimePassed())

    def change(self, pod: Pod, **changes: Any) -> Pod:
        """The watch shows the pod changed."""
        self._version += 1
        pod = structs.replace(self.pods[pod.uid], resource_version=self._version, **changes)
        self.has(pod)
        return pod

    def goes(self, pod: Pod) -> None:
        """The watch shows that the pod is gone."""
        self.pods.pop(pod.uid, None)
        self.take(PodGone(pod.uid, pod.key))

    def node_goes(self, name: str) -> None:
        self.take(NodeGone(NodeName(name)))

    def serve(
        self, *, victims: VictimOutcome | None = "accepted", annotations: bool = True, gone: bool = True
    ) -> list[ApiEffect]:
        """The API server carries out all that was asked. `victims`: how their deletions end; None: they are not answered.
        `gone`: accepted victims leave at once, and the watch shows it."""
        served: list[ApiEffect] = []
        while self.asked:
            effect = self.asked.popleft()
            served.append(effect)
            if isinstance(effect, WritePreempting):
                self._write(effect, annotations)
            elif isinstance(effect, DeleteVictim) and victims is not None:
                self._delete(effect, victims, gone=gone)
            elif isinstance(effect, ReadPod) and effect.uid in self.pods:
                self.take(PodRead(self.pods[effect.uid]))
        return served

    def unanswered(self) -> list[ApiEffect]:
        """What was asked and will never be carried out."""
        lost = list(self.asked)
        self.asked.clear()
        return lost

    def serve_one(self) -> None:
        """The oldest of what was asked is carried out; it is a write on a preemptor."""
        effect = self.asked.popleft()
        assert isinstance(effect, WritePreempting)
        self._write(effect, True)

    def _write(self, effect: WritePreempting, happens: bool) -> None:
        pod = self.pods.get(PodUid(effect.uid))
        if pod is None:
            self.take(PodGone(effect.uid, effect.key, read=True))
            happens = False
        elif happens:
            self.change(pod, preempting=read_preempting(effect.text))
        reported = PreemptingWritten(effect.uid, effect.text) if happens else None
        self.take(reported or PreemptingNotWritten(effect.uid, effect.text, "test"))

    def _delete(self, effect: DeleteVictim, outcome: VictimOutcome, *, gone: bool) -> None:
        pod = self.pods.get(effect.uid)
        if pod is None:
            self.take(PodGone(effect.uid, effect.key, read=True))
            return
        self.take(VictimEnded(effect.uid, outcome, "test"))
        if outcome == "accepted":
            self.change(pod, deleting=True)
            if gone:
                self.goes(pod)

    def restarted(self, policy: Policy = POLICY) -> "Cluster":
        """Another process, which knows what the API server has."""
        nodes = [node for _, node in self.state_machine.state.nodes]
        return Cluster(*nodes, *self.pods.values(), policy=policy, now=self.now)

    # --- what tests ask ---------------------------------------------------------------------------------------------------

    def touched(self, pod: Pod) -> list[str]:
        """Why the pod is to be woken, of what was not carried out yet."""
        return [effect.why for effect in self.asked if isinstance(effect, Activate) and effect.uid == pod.uid]

    def nominated(self, pod: Pod) -> list[str]:
        return [effect.node for effect in self.asked if isinstance(effect, Nominate) and effect.uid == pod.uid]

    def gated(self, pod: Pod) -> bool:
        return self.state_machine.preemptions.gated(pod.uid)

    def held(self, node: str) -> int:
        """MilliCPU held on the node."""
        return int(self.state_machine.state.ledger.columns.held[0, self.state_machine.state.nodes.row_of[NodeName(node)]])

    def at_rest(self) -> bool:
        """No gate is shut, no room kept, nobody awaited."""
        preemptions = self.state_machine.preemptions
        return not (preemptions.items() or preemptions.deleting or preemptions.awaited_by or len(preemptions.activations))
