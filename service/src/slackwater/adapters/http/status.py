"""`GET /statusz` on the ops listener: a short status of the service, for people and the dashboard. `/metrics` has more."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Response
from msgspec import Meta

from slackwater.adapters.http.answers import described, encoded
from slackwater.adapters.http.certificates import Certificates
from slackwater.controllers.disagreement.state import Disagreements
from slackwater.controllers.leadership.metrics import LeaderStatus
from slackwater.model.ids import Instant
from slackwater.model.json_answer import JsonAnswer
from slackwater.ports.protocols import Readiness
from slackwater.runtime.state_machine import StateMachine
from slackwater_protocol import __version__


class EventSourceStatus(JsonAnswer, frozen=True, kw_only=True):
    """The watch of one resource type."""

    alive: Annotated[bool, Meta(description="From an answer of the API server until a break.")]
    absent: Annotated[bool, Meta(description="The optional type is not installed in this cluster.")]
    events: int
    lists: int
    watches: int
    broken_objects: Annotated[int, Meta(description="Objects skipped as unreadable.")]


class CertificateStatus(JsonAnswer, frozen=True, kw_only=True):
    """The TLS files of one listener."""

    not_after: Annotated[str, Meta(description="When the certificate in use ends, RFC 3339.")]
    renewals: Annotated[int, Meta(description="Contents of the files that were taken into use since the start.")]
    refusals: Annotated[int, Meta(description="Contents that could not be used.")]
    problem: Annotated[str | None, Meta(description="Why the present content of the files is not in use.")]


class LoopStatus(JsonAnswer, frozen=True, kw_only=True):
    """The autoscaler's last loop."""

    number: int
    at: Annotated[str, Meta(description="When it began, RFC 3339.")]
    healthy: Annotated[bool, Meta(description="False while so many nodes are unready that none is removed. Growth goes on.")]
    seconds: Annotated[float, Meta(description="How long it took.")]
    problems: list[str]


class AgreementStatus(JsonAnswer, frozen=True, kw_only=True):
    """Whether kube-scheduler and the service agree about where pods fit."""

    pods_disputed: Annotated[int, Meta(description="Pods that kube-scheduler keeps refusing now, although they fit.")]
    binds_compared: Annotated[int, Meta(description="Sampled binds that the service judged by the rules that it knows.")]
    binds_disagreed: Annotated[int, Meta(description="Of these, binds to a node that refuses the pod by these rules.")]
    percent: Annotated[
        float | None, Meta(description="Share of the compared binds about which both agree. Null before the first.")
    ]


class Status(JsonAnswer, frozen=True, kw_only=True):
    """What `/statusz` answers."""

    version: Annotated[str, Meta(description="Version of the service.")]
    mode: Annotated[
        Literal["serve", "shadow"],
        Meta(description="serve: decisions are carried out. shadow: the service only watches, and writes nothing."),
    ]
    uptime_seconds: int
    ready: Annotated[bool, Meta(description="Everything was listed once.")]
    waiting_for: Annotated[list[str], Meta(description="Resource types not listed yet.")]
    leader: Annotated[LeaderStatus, Meta(description="Which of several replicas decides.")]
    generation: Annotated[int, Meta(description="Counts the changes of the cluster state.")]
    nodes: int
    pods: int
    reservations: Annotated[int, Meta(description="Pods that count on a node.")]
    unconfirmed: Annotated[int, Meta(description="Reservations that the watch has not shown yet.")]
    holds: int
    bind_backoff: int
    scheduling_attempts: int
    scheduling_failures: int
    adopted: Annotated[int, Meta(description="Pods found bound that this service did not bind.")]
    agreement: Annotated[AgreementStatus, Meta(description="With kube-scheduler, about where pods fit.")]
    event_sources: Annotated[dict[str, EventSourceStatus], Meta(description="What is watched, by resource type.")]
    certificates: Annotated[dict[str, CertificateStatus], Meta(description="By listener; those that speak TLS.")]
    paused: Annotated[dict[str, str], Meta(description="Activities that a person has paused, with the note of each.")]
    loop: Annotated[LoopStatus | None, Meta(description="Null where the autoscaler does not run, or before its first loop.")]
    settings: Annotated[dict[str, Any], Meta(description="The configuration in force.")]
    settings_problem: Annotated[str | None, Meta(description="Why a changed configuration file was refused.")]


class SettingsView:
    """The configuration that the ops listener shows. `app.wiring` updates it when the configuration file changes."""

    def __init__(self, in_force: dict[str, Any]) -> None:
        self.in_force = in_force
        self.problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusOf:
    """Builds the answer of `/statusz` at each call. The uptime counts from the instant `began`.

    `autoscaler` returns the autoscaler's last loop as JSON values, None if it does not run.
    """

    state_machine: StateMachine
    readiness: Readiness
    settings: SettingsView
    clock: Callable[[], Instant]
    began: Instant
    autoscaler: Callable[[], dict[str, Any] | None]
    event_sources: Callable[[], Mapping[str, EventSourceStatus]]
    leader: Callable[[], LeaderStatus]
    certificates: Mapping[str, Certificates]
    shadow: bool

    def __call__(self) -> Status:
        state_machine = self.state_machine
        return Status(
            version=__version__,
            mode="shadow" if self.shadow else "serve",
            uptime_seconds=int(self.clock() - self.began),
            ready=self.readiness.ready,
            waiting_for=list(self.readiness.unlisted),
            leader=self.leader(),
            generation=state_machine.generation,
            nodes=len(state_machine.state.nodes),
            pods=len(state_machine.state.pods),
            reservations=len(state_machine.state.reservations),
            unconfirmed=state_machine.state.reservations.unconfirmed(),
            holds=len(state_machine.state.holds),
            bind_backoff=len(state_machine.state.bind_backoff),
            scheduling_attempts=state_machine.state.event_counts.attempts,
            scheduling_failures=state_machine.state.event_counts.failures,
            adopted=state_machine.state.event_counts.adopted,
            agreement=_agreement(state_machine.disagreements),
            event_sources=dict(self.event_sources()),
            certificates={name: _certificate(held) for name, held in self.certificates.items()},
            paused={pause.activity: pause.note for pause in state_machine.pauses},
            loop=_loop(self.autoscaler()),
            settings=self.settings.in_force,
            settings_problem=self.settings.problem,
        )


def _agreement(known: Disagreements) -> AgreementStatus:
    return AgreementStatus(
        pods_disputed=known.disputed,
        binds_compared=known.binds_compared,
        binds_disagreed=known.binds_disagreed,
        percent=known.agreement_percent,
    )


def _certificate(held: Certificates) -> CertificateStatus:
    return CertificateStatus(
        not_after=datetime.fromtimestamp(held.not_after, UTC).isoformat(),
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
    @app.get("/statusz", summary="A short state of the service", response_class=Response, responses={200: described(Status)})
    async def statusz() -> Response:
        return encoded(status())
