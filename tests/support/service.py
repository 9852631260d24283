"""The extender over a real world and a real dispatcher, with an API server that answers writes as a test says."""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import anyio
import httpx
from prometheus_client import CollectorRegistry

from slackwater.adapters.http.extender import ExtenderApp, ExtenderMetrics
from slackwater.adapters.http.uvicorn_listener import listen, serve_direct
from slackwater.adapters.kube.decode import PodDecoder
from slackwater.controllers.permits.service import PermitService
from slackwater.controllers.placement.loop import FilterNodeChooser
from slackwater.controllers.policy import Policy
from slackwater.model.effects import ApiEffect, Bind
from slackwater.model.events import BindEnded, Event, NodeSeen, PodSeen, Synced
from slackwater.model.ids import Instant
from slackwater.model.objects import Node, Pod
from slackwater.model.pod_constraints import KindInterner
from slackwater.ports.protocols import Outcome, Writer
from slackwater.runtime.dispatcher import Dispatcher, DispatcherConfig
from slackwater.runtime.state_machine import StateMachine
from tests.support import installed

DONE = Outcome("done", 200)
#: How long an answer waits for deletions.
ANSWER_SECONDS = 0.3


@dataclass
class ScriptedWriter:
    """Answers each effect with the next scripted outcome, then with done. `asked` is what came, in order.

    While `open_gate` is not set, calls wait: so a test can look at what happens meanwhile.
    """

    script: list[Outcome] = field(default_factory=list)
    asked: list[ApiEffect] = field(default_factory=list)
    open_gate: anyio.Event | None = None

    async def perform(self, effect: ApiEffect, *, timeout_seconds: float | None) -> Outcome:
        assert timeout_seconds is None or timeout_seconds > 0
        self.asked.append(effect)
        if self.open_gate is not None:
            await self.open_gate.wait()
        if self.script:
            return self.script.pop(0)
        return bound(effect) if isinstance(effect, Bind) else DONE


async def perform(writer: Writer, effect: ApiEffect) -> Outcome:
    return await writer.perform(effect, timeout_seconds=60)


def bound(effect: Bind) -> Outcome:
    return Outcome("done", 201, event=BindEnded(effect.uid, effect.node, "bound", ""))


@dataclass
class Service:
    """What a test talks to. `now` is the state machine's time."""

    state_machine: StateMachine
    writer: ScriptedWriter
    dispatcher: Dispatcher
    permit_service: PermitService
    http: httpx.AsyncClient
    registry: CollectorRegistry
    ready: bool = True
    unlisted: Sequence[str] = ()
    now: float = 0.0

    def clock(self) -> Instant:
        return Instant(self.now)

    def take(self, event: Event) -> None:
        self.dispatcher.submit_all(self.state_machine.apply(event, self.clock()))
        self.permit_service.wake()

    def has(self, *objects: Node | Pod) -> None:
        for item in objects:
            self.take(NodeSeen(item) if isinstance(item, Node) else PodSeen(item))

    async def ask(self, verb: str, body: Any) -> Any:
        """The decoded answer; it must be a 200."""
        answer = await self.http.post(f"/scheduler/{verb}", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def reserved(self, node: str) -> tuple[int, int]:
        row = next(row for row, item in self.state_machine.state.nodes if item.name == node)
        cpu, memory = self.state_machine.state.ledger.columns.reserved[:, row].tolist()
        return cpu, memory


@asynccontextmanager
async def a_service(
    policy: Policy | None = None,
    *,
    max_body_bytes: int = 1 << 20,
    config: DispatcherConfig | None = None,
    wait_seconds: float = 60.0,
    choice: Callable[[StateMachine], FilterNodeChooser] | None = None,
    stopwatch: Callable[[], float] = time.perf_counter,
) -> AsyncIterator[Service]:
    state_machine = StateMachine(policy or installed.POLICY, seed=7)
    state_machine.apply(Synced(), Instant(0.0))
    writer = ScriptedWriter()
    registry = CollectorRegistry()
    service: Service

    def take(event: Event) -> None:
        service.take(event)

    dispatcher = Dispatcher(writer, take, config or replace(installed.DISPATCHER, bind_seconds=60.0), rng=Random(7))
    holder = _Readiness()
    permit_service = PermitService(state_machine, dispatcher.submit_all, lambda: Instant(service.now))
    extender = ExtenderApp(
        state_machine=state_machine,
        submitter=dispatcher,
        binds=permit_service,
        readiness=holder,
        decode_pod=PodDecoder(KindInterner()).decode,
        clock=lambda: Instant(service.now),
        metrics=ExtenderMetrics(registry),
        max_body_bytes=max_body_bytes,
        wait_seconds=wait_seconds,
        choice=None if choice is None else choice(state_machine),
        stopwatch=stopwatch,
    )
    with listen("extender", "127.0.0.1", 0) as sock:
        address = f"http://127.0.0.1:{sock.getsockname()[1]}"
        async with httpx.AsyncClient(base_url=address, verify=False, timeout=60) as http, anyio.create_task_group() as group:
            service = holder.service = Service(state_machine, writer, dispatcher, permit_service, http, registry)
            await group.start(dispatcher.run)
            await group.start(serve_direct, extender, sock, None)
            yield service
            group.cancel_scope.cancel()


class _Readiness:
    service: Service

    @property
    def ready(self) -> bool:
        return self.service.ready

    @property
    def unlisted(self) -> Sequence[str]:
        return self.service.unlisted
