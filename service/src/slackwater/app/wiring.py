"""Builds and connects the objects of the service. `process` starts and stops them."""

import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random
from types import MappingProxyType

import structlog
from prometheus_client import (
    CollectorRegistry,
)
from prometheus_client.core import Metric

from slackwater.adapters.api_calls import ApiPort
from slackwater.adapters.http.agents import AgentLimits, AgentsApp
from slackwater.adapters.http.application import Application
from slackwater.adapters.http.certificates import Certificates
from slackwater.adapters.http.extender import ExtenderApp, ExtenderMetrics
from slackwater.adapters.http.standby import LedAgents, LedExtender
from slackwater.adapters.kube.client import LedApi
from slackwater.adapters.kube.config_maps import ArrivalsStore
from slackwater.adapters.kube.decode import PodDecoder
from slackwater.adapters.kube.event_recorder import Recorder
from slackwater.adapters.kube.history import ConfigMapHistory
from slackwater.adapters.kube.writer import ApiWriter
from slackwater.app.autoscaler import AutoscalerService
from slackwater.app.history import ServiceHistory
from slackwater.app.leader_election import Election, authenticator
from slackwater.app.notifications import notification_loop
from slackwater.app.observing import ObservingService
from slackwater.app.policies import answer_seconds_of, backpressure_seconds_of, dispatcher_config_of
from slackwater.app.scheduler_config.filters_and_scores import score_profiles_of
from slackwater.app.settings import Settings
from slackwater.app.shared_replica import MakeReplica
from slackwater.controllers.leadership.metrics import LeaderStatus, alone
from slackwater.controllers.leadership.state import LeadershipTerm
from slackwater.controllers.notifications.loop import NotificationLoop
from slackwater.controllers.notifications.metrics import notification_families
from slackwater.controllers.permits.metrics import AgentMetrics
from slackwater.controllers.permits.service import PermitService
from slackwater.controllers.placement.loop import FilterNodeChooser, ScoringLoop
from slackwater.controllers.scaledown.drains.running_drains import CancelAnswer
from slackwater.model.effects import DrainEnd, DrainReport, Effect
from slackwater.model.ids import NodeName
from slackwater.model.kubernetes_rules import DEFAULT_VERSION, KubernetesVersion
from slackwater.model.reasons import UnremovableReason
from slackwater.ports.clock import Times
from slackwater.runtime.decision_log import DecisionLoggingWriter
from slackwater.runtime.dispatcher import Dispatcher, DispatcherStats
from slackwater.runtime.filter_backpressure import FilterBackpressure
from slackwater.runtime.wait_events import WaitEvents
from slackwater_protocol.durations import seconds
from slackwater_protocol.names import SCHEDULER_NAMESPACE

_log = structlog.get_logger(__name__)


class Service(ObservingService):
    """All objects of the service, connected with each other. `times` are the clocks of all of them. `certificates` has the TLS
    files of listeners, by listener name. `election` is None if this is the only replica."""

    autoscaler_service: AutoscalerService | None

    def __init__(
        self,
        settings: Settings,
        client: ApiPort,
        rng: Random,
        times: Times = Times(),
        *,
        certificates: Mapping[str, Certificates] = MappingProxyType({}),
        election: Election | None = None,
        make_replica: MakeReplica | None = None,
        kubernetes: KubernetesVersion = DEFAULT_VERSION,
    ) -> None:
        """`make_replica` creates the replica, which makes plans and answers questions; None: `replica_process` does.
        `kubernetes` is the version of Kubernetes whose rules are followed."""
        self._election = election
        #: None if there is no election: this replica always leads.
        self.notifications: NotificationLoop | None = None
        self.leadership_term = None if election is None or election.mode == "none" else LeadershipTerm(election.leadership)
        self._leads: Callable[[], bool] = (lambda: True) if self.leadership_term is None else self.leadership_term.leads
        client = LedApi(client, self._leads)
        standby = self.leadership_term is not None
        super().__init__(settings, client, rng, times, certificates=certificates, kubernetes=kubernetes, standby=standby)
        decoder = PodDecoder(self._kinds, kubernetes)
        self._recorder = Recorder(client, instance=socket.gethostname(), now=self._now, clock=times.monotonic)
        writer = ApiWriter(client, decoder, self._recorder, stamp=lambda: self._now().isoformat())
        store = ConfigMapHistory(client, namespace=SCHEDULER_NAMESPACE) if settings.history.persist else None
        self.history = ServiceHistory(self.state_machine, store, times=times, leads=self._leads)
        self.dispatcher = Dispatcher(
            self.history.loop.noting(DecisionLoggingWriter(writer, self.decision_log)),
            self.intake.take,
            dispatcher_config_of(settings),
            rng=rng,
            leads=self._leads,
            on_report=self._report,
        )
        self.permit_service = PermitService(self.state_machine, self.dispatcher.submit_all, times.monotonic)
        self.autoscaler_service = self._autoscaler_service(client, rng) if settings.autoscaler.enabled else None
        self._observe(make_replica)
        self.scoring_loop = None if settings.extender.bind else self._scoring_loop()
        after_event = (each.after_event for each in (self.autoscaler_service, self.scoring_loop) if each is not None)
        self.intake.connect(self.dispatcher, self.permit_service.wake, *after_event)
        self.registry = registry = self._registry()
        self.extender = self._extender(decoder, registry)
        self.agents = self._agents(client, registry)
        self.extender_application, self.agents_application = self._applications()
        self.wait_events = self._wait_events()
        self.disagreement_loop = self._disagreement_loop(self.dispatcher.submit_all)
        self.ops = self._ops(registry)
        self.notifications = notification_loop(settings, registry, leads=self._leads, clock=times.monotonic)

    def _agents(self, client: ApiPort, registry: CollectorRegistry) -> AgentsApp:
        listener = self.settings.listeners.agents
        return AgentsApp(
            permit_service=self.permit_service,
            readiness=self.intake,
            metrics=AgentMetrics(registry, lambda: self.state_machine.state.nodes.row_of),
            authenticator=authenticator(listener.authentication, client),
            limits=AgentLimits(max_wait_seconds=seconds(listener.max_wait)),
        )

    def _applications(self) -> tuple[Application, Application]:
        """The applications of the extender and the agents listener. On a standby, the first refuses its calls and the second
        forwards them to the leader."""
        if self.leadership_term is None or self._election is None:
            return self.extender, self.agents
        holder, forwarder = self._election.holder, self._election.forwarder
        extender = LedExtender(self.extender, self.leadership_term, holder=holder)
        return extender, LedAgents(self.agents, self.leadership_term, holder=holder, forwarder=forwarder)

    def _extender(self, decoder: PodDecoder, registry: CollectorRegistry) -> ExtenderApp:
        return ExtenderApp(
            state_machine=self.state_machine,
            submitter=self.dispatcher,
            binds=self.permit_service,
            readiness=self,
            decode_pod=decoder.decode,
            clock=self._times.monotonic,
            metrics=ExtenderMetrics(registry),
            backpressure=FilterBackpressure(
                self.dispatcher.binds_are_queued, most_seconds=backpressure_seconds_of(self.settings)
            ),
            choice=None
            if self.scoring_loop is None
            else FilterNodeChooser(self.state_machine, self.scoring_loop, self._times.monotonic),
            wait_seconds=answer_seconds_of(self.settings),
            stopwatch=self._times.monotonic,
        )

    def _wait_events(self) -> WaitEvents | None:
        """Builds the writer of Events on waiting pods; None if the settings turn them off. With the autoscaler, pods of all
        schedulers get Events, otherwise only those of our scheduler."""
        after = seconds(self.settings.explain.events_after)
        only_of = None if self.settings.autoscaler.enabled else self.settings.scheduler_name
        pods, submit, clock = self.state_machine.state.pods, self.dispatcher.submit_all, self._times.monotonic
        events = WaitEvents(pods, self.explaining, submit, clock=clock, after_seconds=after, only_of=only_of)
        return events if after else None

    def _report(self, report: DrainReport) -> None:
        if isinstance(report, DrainEnd):
            self.history.loop.drained(report)
        if self.autoscaler_service is not None:
            self.autoscaler_service.take(report)

    def _cancel_drain(self, node: NodeName) -> CancelAnswer:
        now = self._times.monotonic()
        if not self._leads():  # only the leader drains nodes
            return "none"
        answer, effects = self.state_machine.cancel_drain(node, UnremovableReason.CANCELLED, "asked for over HTTP", now)
        self.dispatcher.submit_all(effects)
        _log.info("drain cancelled" if answer == "cancelled" else "drain not cancelled", node=node, answer=answer)
        return answer

    @property
    def unlisted(self) -> Sequence[str]:
        """What readiness waits for: filter can answer once everything is listed and the scoring snapshot is up to date."""
        if self.intake.ready and self.scoring_loop is not None and not self.scoring_loop.caught_up.is_set():
            return ["scores of nodes"]
        return self.intake.unlisted

    def _scoring_loop(self) -> ScoringLoop:
        weight, profiles = self.settings.extender.weight, score_profiles_of(self.settings)
        return ScoringLoop(self.state_machine, clock=self._times.monotonic, weight=weight, profiles=profiles)

    def _leader(self) -> LeaderStatus:
        return alone() if self._election is None else self._election.status(leads=self._leads())

    def _forwards(self) -> Mapping[str, int]:
        return {} if self._election is None else self._election.forwards()

    def _families(self) -> Iterator[Metric]:
        yield from super()._families()
        if self.notifications is not None:
            yield from notification_families(self.notifications.counts)

    def _writes(self) -> DispatcherStats:
        return self.dispatcher.stats

    def _dropped_events(self) -> int:
        return self.dispatcher.stats.dropped_announcements + self._recorder.dropped

    def _autoscaler_service(self, client: ApiPort, rng: Random) -> AutoscalerService:
        return AutoscalerService(
            self.settings,
            client,
            self.state_machine,
            self._kinds,
            arrivals=ArrivalsStore(client, namespace=SCHEDULER_NAMESPACE),
            submit=self._submit_decided,
            on_broken=self._broken_objects,
            on_record=self.decision_log.loop,
            rng=rng,
            times=self._times,
            leads=self._leads,
            evicted_before=self.history.evicted_before,
        )

    def _submit_decided(self, effects: Iterable[Effect]) -> None:
        """Submits the autoscaler's effects. The history takes its decisions from the Events among them."""
        effects = tuple(effects)
        self.history.loop.announced(effects)
        self.dispatcher.submit_all(effects)
