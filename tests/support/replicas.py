"""Two replicas of the service over one sandbox on virtual time. Each has its own clocks, its own way to the API server, and
its own election; one may be stopped as by SIGSTOP."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

import anyio
from anyio.abc import TaskGroup

from slackwater.adapters.http.application import Answer, Request
from slackwater.adapters.http.standby import Outcome
from slackwater.app.leader_election import Election, ReplicaIdentity
from slackwater.app.settings import Settings, loads
from slackwater.app.wiring import Service
from slackwater.controllers.leadership.state import LeadershipTerm
from slackwater.model.events import BudgetSeen, Event, MachineSeen, MigrationSeen, NodeSeen, PodSeen, Synced
from slackwater.model.ids import Instant
from slackwater.ports.clock import Times
from slackwater.runtime.state_machine import StateMachine
from slackwater.sandbox.embedded.extender_client import ConnectionLost
from slackwater.sandbox.embedded.server import ApiServer
from slackwater.sandbox.embedded_demo import answered
from tests.support.elections import EPOCH, StoppableApi

SETTINGS: Final = loads("""
apiVersion: config.slackwater.dev/v1alpha1
kind: SlackwaterConfiguration
leaderElection: {mode: own, leaseDuration: 15s, renewDeadline: 10s, retryPeriod: 500ms}
""")


@dataclass
class Replica:
    """`run` until cancelled: one life of the service after the other, as `app.process` has them, without listeners."""

    name: str
    server: ApiServer
    rng: Random
    settings: Settings = SETTINGS
    others: "Sequence[Replica]" = ()
    lives: int = 0
    service: Service | None = None
    api: StoppableApi = field(init=False)
    election: Election = field(init=False)
    #: Called at the moment when it begins to lead.
    on_lead: Callable[[Service, Instant], None] = lambda _service, _now: None
    _life: TaskGroup | None = None
    _goes: anyio.Event = field(default_factory=anyio.Event)

    headers = frozenset[bytes]()  #: as `adapters.http.standby.Forwarder`, with `counts`
    counts: dict[Outcome, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.api = StoppableApi(self.server)
        offset, skew = self.rng.uniform(0.0, 1e6), self.rng.uniform(-600, 600)
        self.times = Times(
            monotonic=lambda: Instant(anyio.current_time() + offset), wall=lambda: EPOCH + anyio.current_time() + skew
        )
        place = ReplicaIdentity(name=self.name, names=frozenset({self.name}), namespace="kube-system")
        self.election = Election(
            self.settings, self.api, place=place, rng=self.rng, times=self.times, identity=f"{self.name}_{self.rng.random()}"
        )
        self.election.forwarder = self  # in the place of one over sockets

    @property
    def leads(self) -> bool:
        leadership_term = None if self.service is None else self.service.leadership_term
        return leadership_term is not None and leadership_term.leads()

    async def run(self) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self.election.run)
            while True:
                await self._live()

    async def _live(self) -> None:
        self.lives += 1
        service = self.service = Service(self.settings, self.api, self.rng, self.times, election=self.election)
        leadership_term = service.leadership_term
        assert leadership_term is not None
        async with anyio.create_task_group() as life:
            self._life = life
            await life.start(service.dispatcher.run)
            life.start_soon(service.intake.run)
            await service.intake.listed()
            await leadership_term.begun()
            service.intake.lead()
            await service.intake.synced()
            if service.scoring_loop is not None:
                life.start_soon(service.scoring_loop.run)
            self.on_lead(service, self.times.monotonic())
            life.start_soon(self._end_with, leadership_term, life.cancel_scope)

    async def _end_with(self, leadership_term: LeadershipTerm, life: anyio.CancelScope) -> None:
        await leadership_term.over()
        life.cancel()

    # --- who calls --------------------------------------------------------------------------------------------------------

    async def extender(self, verb: str, body: bytes) -> tuple[int, bytes]:
        """Goes on when its caller hangs up. Raises `ConnectionLost`."""
        service, life = self.service, self._life
        if self.api.stopped:
            await anyio.sleep_forever()
        if service is None or life is None or life.cancel_scope.cancel_called:
            raise ConnectionLost("connection refused")
        found: list[Answer] = []
        done = anyio.Event()

        async def handle() -> None:
            try:
                found.append(await answered(service.extender_application, Request("POST", f"/scheduler/{verb}", body)))
            finally:
                done.set()

        life.start_soon(handle)
        await done.wait()
        if self.api.stopped:
            await anyio.sleep_forever()
        if not found:
            raise ConnectionLost("broken off")
        return found[0].status, found[0].body

    async def permit(self, body: bytes) -> tuple[int, bytes]:
        """Raises `ConnectionLost`."""
        if self.api.stopped:
            await anyio.sleep_forever()
        if self.service is None:
            raise ConnectionLost("connection refused")
        answer = await answered(self.service.agents_application, Request("POST", "/", body))
        if self.api.stopped:
            await anyio.sleep_forever()
        return answer.status, answer.body

    async def forward(self, request: Request) -> Answer:
        """To whoever leads."""
        for other in self.others:
            if other.service is not None and other.leads and not other.api.stopped:
                return await answered(other.service.agents, request)
        return Answer(503, b"nobody leads")


def as_if_begun(state_machine: StateMachine, now: Instant) -> StateMachine:
    """A state machine that knows the same objects and has just listed them."""
    fresh = StateMachine(state_machine.policy)
    events: list[Event] = [NodeSeen(node) for node in state_machine.state.nodes.by_row if node is not None]
    events += [MachineSeen(machine) for machine in state_machine.state.annotations.machines()]
    # Before the pods: a target that is seen first is known to have landed only with its next event.
    events += [MigrationSeen(migration) for migration in state_machine.migrating.objects.values()]
    events += [PodSeen(pod) for pod in state_machine.state.pods]
    events += [BudgetSeen(budget) for budget in state_machine.state.budgets]
    for event in (*events, Synced()):
        fresh.apply(event, now)
    return fresh
