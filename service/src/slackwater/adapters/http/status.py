"""`GET /statusz` on the ops listener: a short status of the service, for people and the dashboard. `/metrics` has more."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field

from slackwater import __version__
from slackwater.adapters.http.certificates import Certificates
from slackwater.controllers.leadership.metrics import LeaderStatus, alone
from slackwater.model.ids import Instant
from slackwater.ports.protocols import Readiness
from slackwater.runtime.state_machine import StateMachine


class EventSourceStatus(BaseModel):
    """The watch of one resource type."""

    model_config = ConfigDict(frozen=True)

    alive: Annotated[bool, Field(description="From an answer of the API server until a break.")]
    absent: Annotated[bool, Field(description="The optional type is not installed in this cluster.")]
    events: int
    lists: int
    watches: int
    brokenObjects: Annotated[int, Field(description="Objects skipped as unreadable.")]


class CertificateStatus(BaseModel):
    """The TLS files of one listener."""

    model_config = ConfigDict(frozen=True)

    notAfter: Annotated[str, Field(description="When the certificate in use ends, RFC 3339.")]
    renewals: Annotated[int, Field(description="Contents of the files that were taken into use since the start.")]
    refusals: Annotated[int, Field(description="Contents that could not be used.")]
    problem: Annotated[str | None, Field(description="Why the present content of the files is not in use.")]


class LoopStatus(BaseModel):
    """The autoscaler's last loop."""

    model_config = ConfigDict(frozen=True)

    number: int
    at: Annotated[str, Field(description="When it began, RFC 3339.")]
    healthy: Annotated[bool, Field(description="False while so many nodes are unready that none is removed. Growth goes on.")]
    seconds: Annotated[float, Field(description="How long it took.")]
    problems: list[str]


class Status(BaseModel):
    """What `/statusz` answers."""

    model_config = ConfigDict(frozen=True)

    version: Annotated[str, Field(description="Version of the service.")]
    uptimeSeconds: int
    ready: Annotated[bool, Field(description="Everything was listed once.")]
    waitingFor: Annotated[list[str], Field(description="Resource types not listed yet.")]
    leader: Annotated[LeaderStatus, Field(description="Which of several replicas decides.")]
    generation: Annotated[int, Field(description="Counts the changes of the cluster state.")]
    nodes: int
    pods: int
    reservations: Annotated[int, Field(description="Pods that count on a node.")]
    unconfirmed: Annotated[int, Field(description="Reservations that the watch has not shown yet.")]
    holds: int
    bindBackoff: int
    schedulingAttempts: int
    schedulingFailures: int
    adopted: Annotated[int, Field(description="Pods found bound that this service did not bind.")]
    eventSources: Annotated[dict[str, EventSourceStatus], Field(description="What is watched, by resource type.")]
    certificates: Annotated[dict[str, CertificateStatus], Field(description="By listener; those that speak TLS.")]
    paused: Annotated[dict[str, str], Field(description="Activities that a person has paused, with the note of each.")]
    loop: Annotated[LoopStatus | None, Field(description="Null where the autoscaler does not run, or before its first loop.")]
    settings: Annotated[dict[str, Any], Field(description="The configuration in force.")]
    settingsProblem: Annotated[str | None, Field(description="Why a changed configuration file was refused.")]


class SettingsView:
    """The configuration that the ops listener shows. `app.wiring` updates it when the configuration file changes."""

    def __init__(self, in_force: dict[str, Any]) -> None:
        self.in_force = in_force
        self.problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusSources:
    """Sources of the status other than the state machine.

    `autoscaler` returns the autoscaler's last loop as JSON values, None if it does not run.
    """

    settings: SettingsView
    autoscaler: Callable[[], dict[str, Any] | None] = lambda: None
    event_sources: Callable[[], Mapping[str, EventSourceStatus]] = field(default=dict)
    leader: Callable[[], LeaderStatus] = alone
    certificates: Mapping[str, Certificates] = field(default_factory=dict)


class StatusOf:
    """Builds the answer of `/statusz` at each call. The uptime counts from the creation of this object."""

    def __init__(
        self, state_machine: StateMachine, readiness: Readiness, sources: StatusSources, clock: Callable[[], Instant]
    ) -> None:
        self._state_machine = state_machine
        self._readiness = readiness
        self._sources = sources
        self._clock = clock
        self._began = clock()

    def __call__(self) -> Status:
        state_machine, sources = self._state_machine, self._sources
        return Status(
            version=__version__,
            uptimeSeconds=int(self._clock() - self._began),
            ready=self._readiness.ready,
            waitingFor=list(self._readiness.unlisted),
            leader=sources.leader(),
            generation=state_machine.generation,
            nodes=len(state_machine.state.nodes),
            pods=len(state_machine.state.pods),
            reservations=len(state_machine.state.reservations),
            unconfirmed=state_machine.state.reservations.unconfirmed(),
            holds=len(state_machine.state.holds),
            bindBackoff=len(state_machine.state.bind_backoff),
            schedulingAttempts=state_machine.state.event_counts.attempts,
            schedulingFailures=state_machine.state.event_counts.failures,
            adopted=state_machine.state.event_counts.adopted,
            eventSources=dict(sources.event_sources()),
            certificates={name: _certificate(held) for name, held in sources.certificates.items()},
            paused={pause.activity: pause.note for pause in state_machine.pausing.pauses},
            loop=_loop(sources.autoscaler()),
            settings=sources.settings.in_force,
            settingsProblem=sources.settings.problem,
        )


def _certificate(held: Certificates) -> CertificateStatus:
    return CertificateStatus(
        notAfter=datetime.fromtimestamp(held.not_after, UTC).isoformat(),
        renewals=held.renewals,
        refusals=held.refusals,
        problem=held.problem,
    )


def _loop(record: Mapping[str, Any] | None) -> LoopStatus | None:
    if record is None:
        return None
    return LoopStatus(
        number=record["loop"],
        at=record["at"],
        healthy=record["healthy"],
        seconds=record["seconds"]["whole"],
        problems=record["problems"],
    )


def add_status(app: FastAPI, status: StatusOf) -> None:
    @app.get("/statusz", summary="A short state of the service")
    async def statusz() -> Status:
        return status()
