"""A permit service with nodes and pods of its own: the permit formula of Neon's scheduler 0.36 and nothing around it.

Stands for the core where the listener is what is tested. Room is granted in the order of asking; who waits is asked again
whenever something changed.
"""

from dataclasses import dataclass, field

import anyio

from slackwater.model.ids import NodeName, PodKey
from slackwater.model.permits import Caller, PermitAnswer, PermitAsk, PermitRefusal
from slackwater.model.resources import NOTHING, Amounts
from slackwater_protocol.units import Bytes, MilliCpu

GIB = 2**30
UNIT = Amounts(MilliCpu(250), Bytes(GIB))


def amounts(milli_cpu: int, memory: int) -> Amounts:
    return Amounts(MilliCpu(milli_cpu), Bytes(memory))


@dataclass
class HeldPod:
    """One pod of the permit service."""

    node: NodeName
    reserved: Amounts = NOTHING
    slot_bytes: int = GIB
    is_vm: bool = True
    migrating: bool = False


@dataclass
class FormulaPermitService:
    """`asked` is every question that came, in order, unless `remember` is off."""

    remember: bool = True
    totals: dict[NodeName, Amounts] = field(default_factory=dict)
    pods: dict[PodKey, HeldPod] = field(default_factory=dict)
    asked: list[PermitAsk] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    #: Keys that learn of their migration in their next answer.
    to_migrate: set[PodKey] = field(default_factory=set)
    pending: bool = False
    _reserved: dict[NodeName, Amounts] = field(default_factory=dict)
    _changed: anyio.Event = field(default_factory=anyio.Event)
    _waited_for: anyio.Event = field(default_factory=anyio.Event)

    def has_node(self, name: str, *, milli_cpu: int, memory: int) -> None:
        self.totals[NodeName(name)] = amounts(milli_cpu, memory)

    def has_pod(self, name: str, *, on: str, reserved: Amounts = NOTHING, slot_bytes: int = GIB, is_vm: bool = True) -> PodKey:
        key = PodKey("default", name)
        pod = self.pods[key] = HeldPod(NodeName(on), reserved, slot_bytes, is_vm)
        self._add(pod.node, reserved)
        return key

    def drop_pod(self, key: PodKey) -> None:
        pod = self.pods.pop(key)
        self._add(pod.node, NOTHING.minus(pod.reserved))
        self._tell()

    async def ask(self, ask: PermitAsk, *, wait_seconds: float = 0.0, caller: Caller | None) -> PermitAnswer | PermitRefusal:
        if self.remember:
            self.asked.append(ask)
            self.waits.append(wait_seconds)
        answer = self._decide(ask, caller)
        if not wait_seconds:
            return answer
        with anyio.move_on_after(wait_seconds):
            while isinstance(answer, PermitAnswer) and not self._wanted(ask).within(answer.permit):
                self._waited_for.set()
                await self._changed.wait()
                answer = self._decide(ask, caller)
        return answer

    async def is_waited_for(self) -> None:
        """Returns once somebody waits, or has waited, for room."""
        await self._waited_for.wait()

    def _decide(self, ask: PermitAsk, caller: Caller | None) -> PermitAnswer | PermitRefusal:
        pod = self.pods.get(ask.key)
        if pod is None:
            return PermitRefusal(status=404, code="pod_not_found", message="pod not found")
        if not pod.is_vm:
            return PermitRefusal(status=400, code="not_a_vm", message="pod is not associated with a VM")
        if caller is not None and caller.node != pod.node:
            text = f"{caller.name} of node {caller.node} may not speak for pod {ask.key} of node {pod.node}"
            return PermitRefusal(status=403, code="other_node", message=text)
        size = pod.slot_bytes if ask.slots else 1
        unit = in_bytes(ask.compute_unit, size) if ask.compute_unit else UNIT
        self._settle(pod, in_bytes(ask.asked, size), unit, in_bytes(ask.last_permit or NOTHING, size))
        migrate = ask.key in self.to_migrate
        self.to_migrate.discard(ask.key)
        return PermitAnswer(permit=pod.reserved, slot_bytes=pod.slot_bytes, migrate=migrate, permit_limit_pending=self.pending)

    def _settle(self, pod: HeldPod, asked: Amounts, unit: Amounts, last_permit: Amounts) -> None:
        total, used = self.totals[pod.node], self.reserved_on(pod.node)
        before = pod.reserved
        settled = [
            _settled(q, r, max(t - u, 0) // f * f, last)
            for q, r, t, u, f, last in zip(asked, pod.reserved, total, used, unit, last_permit, strict=True)
        ]
        pod.reserved = amounts(*settled)
        if pod.reserved != before:
            self._add(pod.node, pod.reserved.minus(before))
            self._tell()

    def reserved_on(self, node: NodeName) -> Amounts:
        return self._reserved.get(node, NOTHING)

    def _add(self, node: NodeName, more: Amounts) -> None:
        self._reserved[node] = self.reserved_on(node).plus(more)

    def _wanted(self, ask: PermitAsk) -> Amounts:
        return in_bytes(ask.asked, self.pods[ask.key].slot_bytes if ask.slots else 1)

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


def _settled(asked: int, held: int, room: int, last_permit: int) -> int:
    if asked <= held:
        return asked
    return held + min(asked - held, max(room, last_permit - held, 0))


def in_bytes(amount: Amounts, slot_bytes: int) -> Amounts:
    return amounts(amount.cpu, amount.memory * slot_bytes)
