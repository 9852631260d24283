"""Builds and connects the objects of the service. `process` starts and stops them."""

import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

import structlog
from fastapi import FastAPI
from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import Metric

from slackwater.adapters.api_calls import ApiPort
from slackwater.adapters.http.agents import AgentLimits, AgentsApp
from slackwater.adapters.http.application import Application
from slackwater.adapters.http.certificates import Certificates, certificate_families
from slackwater.adapters.http.dashboard.routes import OpenStreams
from slackwater.adapters.http.extender import ExtenderApp, ExtenderMetrics
from slackwater.adapters.http.ops import ops_app
from slackwater.adapters.http.standby import LedAgents, LedExtender
from slackwater.adapters.http.state_metrics import StateCollector
from slackwater.adapters.http.status import SettingsView
from slackwater.adapters.kube.audit_reads import ApiAuditReads
from slackwater.adapters.kube.client import LedApi
from slackwater.adapters.kube.config_maps import pauses
from slackwater.adapters.kube.decode import PodDecoder
from slackwater.adapters.kube.event_recorder import Recorder
from slackwater.adapters.kube.neon import machines, migrations
from slackwater.adapters.kube.reflector import Reflector, ReflectorConfig
from slackwater.adapters.kube.resource_type import budgets, nodes, pods
from slackwater.adapters.kube.writer import ApiWriter
from slackwater.app.autoscaler import AutoscalerService
from slackwater.app.disagreement import judge_of
from slackwater.app.event_sources import BrokenObjects, families, status_of
from slackwater.app.explain.service import ExplainService, HeldBack
from slackwater.app.history import ServiceHistory
from slackwater.app.leader_election import Election, authenticator
from slackwater.app.policies import answer_seconds_of, audit_config_of, backpressure_seconds_of, dispatcher_config_of, policy_of
from slackwater.app.scheduler_config.filters_and_scores import filter_profiles_of, score_profiles_of
from slackwater.app.settings import Settings, SettingsChange, SettingsError, as_file, live, watch_settings
from slackwater.app.shared_replica import MakeReplica, replica_process
from slackwater.app.whatif.question import GroupRegistryView, WhatIfService
from slackwater.controllers.audit.loop import Audit
from slackwater.controllers.audit.metrics import audit_families
from slackwater.controllers.disagreement.loop import DisagreementLoop
from slackwater.controllers.history.metrics import history_families
from slackwater.controllers.leadership.metrics import LeaderStatus, alone, leader_families
from slackwater.controllers.leadership.state import LeadershipTerm
from slackwater.controllers.permits.metrics import AgentMetrics
from slackwater.controllers.permits.service import PermitService
from slackwater.controllers.placement.loop import FilterNodeChooser, ScoringLoop
from slackwater.controllers.policy import Policy
from slackwater.controllers.scaledown.drains.running_drains import CancelAnswer
from slackwater.model.effects import DrainEnd, DrainReport, Effect
from slackwater.model.ids import NodeName
from slackwater.model.kubernetes_rules import DEFAULT_VERSION, KubernetesVersion
from slackwater.model.nodegroups import NodeGroup
from slackwater.model.pod_constraints import KindInterner
from slackwater.model.reasons import UnremovableReason
from slackwater.ports.clock import SteadyClock, Times
from slackwater.ports.metric_families import Families
from slackwater.runtime.autoscaler.metrics import autoscaler_families, planner_families
from slackwater.runtime.decision_log import DecisionLog, DecisionLoggingWriter
from slackwater.runtime.dispatcher import Dispatcher, FilterBackpressure
from slackwater.runtime.intake import Intake
from slackwater.runtime.planner.replica_feed import ReplicaFeed
from slackwater.runtime.record.recording import RecordedStateMachine
from slackwater.runtime.record_file import RecordWriter
from slackwater.runtime.state_machine import StateMachine
from slackwater.runtime.wait_events import WaitEvents
from slackwater_protocol.durations import seconds

_log = structlog.get_logger(__name__)


class Service:
    """All objects of the service, connected with each other. `times` are the clocks of all of them. `certificates` has the TLS
    files of listeners, by listener name. `election` is None if this is the only replica."""

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
        self.settings = settings  #: those in force
        self._policy_of = partial(policy_of, kubernetes=kubernetes, profiles=filter_profiles_of(settings))
        self._certificates = certificates
        self._times = times
        self._election = election
        #: None if there is no election: this replica always leads.
        self.leadership_term = None if election is None or election.mode == "none" else LeadershipTerm(election.leadership)
        self._leads: Callable[[], bool] = (lambda: True) if self.leadership_term is None else self.leadership_term.leads
        client = LedApi(client, self._leads)
        self._view = SettingsView(as_file(settings))
        kinds, self._broken_objects = KindInterner(packs=True), BrokenObjects()
        self._reflectors = self._kube_event_sources(client, kinds, rng, kubernetes)
        record = settings.recording
        self.recording = None if record.file is None else RecordWriter(record.file, max_bytes=record.max_bytes, keep=1)
        self.state_machine = _state_machine(self._policy_of(settings), rng.getrandbits(63), self.recording)
        self.intake = self._intake()
        decoder = PodDecoder(kinds, kubernetes)
        self._recorder = Recorder(client, instance=socket.gethostname(), now=self._now, clock=times.monotonic)
        writer = ApiWriter(client, decoder, self._recorder, stamp=lambda: self._now().isoformat())
        self.decision_log = DecisionLog(times.wall)
        self.dashboards = OpenStreams()
        self.history = ServiceHistory(settings, client, self.state_machine, times=times, leads=self._leads)
        self.dispatcher = Dispatcher(
            self.history.loop.noting(DecisionLoggingWriter(writer, self.decision_log)),
            self.intake.take,
            dispatcher_config_of(settings),
            rng=rng,
            leads=self._leads,
            on_report=self._report,
        )
        self.permit_service = PermitService(self.state_machine, self.dispatcher.submit_all, times.monotonic)
        self.autoscaler_service = self._autoscaler_service(client, kinds, rng) if settings.autoscaler.enabled else None
        feed = ReplicaFeed(self.state_machine, None if self.autoscaler_service is None else self.autoscaler_service.intake)
        self.replica = (make_replica or replica_process)(feed, settings, times)
        self.scoring_loop = None if settings.extender.bind else self._scoring_loop()
        after_event = (each.after_event for each in (self.autoscaler_service, self.scoring_loop) if each is not None)
        self.intake.connect(self.dispatcher, self.permit_service.wake, *after_event)
        truth, config = ApiAuditReads(client, PodDecoder(kinds, kubernetes)), audit_config_of(settings)
        self.audit = Audit(self.state_machine.state, truth, self.intake.take, config=config, measure=times.monotonic)
        self.registry = registry = self._registry()
        self.extender = self._extender(decoder, registry)
        self.agents = self._agents(client, registry)
        self.extender_application, self.agents_application = self._applications()
        self.explaining = self._explaining()
        self.wait_events, self.disagreement_loop = self._wait_events(), self._disagreement_loop()
        self.ops = self._ops(registry)

    def _explaining(self) -> ExplainService:
        return ExplainService(
            self.state_machine,
            self.replica,
            group_registry=self._group_registry_view,
            settings=lambda: self.settings,
            held_back=self._held_back,
            clock=self._times.monotonic,
            steady=SteadyClock(self._times),
            history=self.history.newest,
        )

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

    def _leader(self) -> LeaderStatus:
        return alone() if self._election is None else self._election.status(leads=self._leads())

    def _kube_event_sources(
        self, client: ApiPort, kinds: KindInterner, rng: Random, kubernetes: KubernetesVersion
    ) -> dict[str, Reflector[Any]]:
        """The reflectors of the objects that are always watched, by type."""
        config = ReflectorConfig()
        resources = (
            nodes(self._broken_objects),
            pods(kinds, self._broken_objects, kubernetes),
            budgets(self._broken_objects),
            machines(self._broken_objects),
            migrations(self._broken_objects),
            pauses(self._broken_objects),
        )
        return {each.name: Reflector(client, each, rng=rng, config=config, clock=self._times.monotonic) for each in resources}

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

    def _ops(self, registry: CollectorRegistry) -> FastAPI:
        return ops_app(
            state_machine=self.state_machine,
            readiness=self,
            registry=registry,
            settings=self._view,
            clock=self._times.monotonic,
            wall=self._times.wall,
            autoscaler=lambda: None if self.autoscaler_service is None else self.autoscaler_service.document(),
            event_sources=lambda: {name: status_of(each) for name, each in self._every_reflector().items()},
            leader=self._leader,
            decision_log=self.decision_log,
            listeners=self.dashboards,
            cancel_drain=self._cancel_drain,
            what_if=WhatIfService(
                self.state_machine,
                self.replica,
                group_registry=self._group_registry_view,
                settings=lambda: self.settings,
                clock=self._times.monotonic,
            ),
            explain=self.explaining,
            what_happened=self.history,
            report_log=None,
            certificates=self._certificates,
        )

    def _group_registry_view(self) -> GroupRegistryView | None:
        return None if self.autoscaler_service is None else self.autoscaler_service.view()

    def _wait_events(self) -> WaitEvents | None:
        """Builds the writer of Events on waiting pods; None if the settings turn them off. With the autoscaler, pods of all
        schedulers get Events, otherwise only those of our scheduler."""
        after = seconds(self.settings.explain.events_after)
        only_of = None if self.settings.autoscaler.enabled else self.settings.scheduler_name
        pods, submit, clock = self.state_machine.state.pods, self.dispatcher.submit_all, self._times.monotonic
        events = WaitEvents(pods, self.explaining, submit, clock=clock, after_seconds=after, only_of=only_of)
        return events if after else None

    def _disagreement_loop(self) -> DisagreementLoop:
        state_machine, autoscaled = self.state_machine, self.settings.autoscaler.enabled
        return DisagreementLoop(
            state_machine.disagreements,
            judge_of(state_machine, self.replica, watched=lambda: self._group_registry_view() is not None),
            self.dispatcher.submit_all,
            is_promised=state_machine.is_promised,
            clock=self._times.monotonic,
            binds=autoscaled,
        )

    def _report(self, report: DrainReport) -> None:
        if isinstance(report, DrainEnd):
            self.history.loop.drained(report)
        if self.autoscaler_service is not None:
            self.autoscaler_service.take(report)

    def _held_back(self, node: NodeName, group: NodeGroup) -> HeldBack:
        return (None, ()) if self.autoscaler_service is None else self.autoscaler_service.held_back(node, group)

    def _cancel_drain(self, node: NodeName) -> CancelAnswer:
        now = self._times.monotonic()
        if not self._leads():  # only the leader drains nodes
            return "none"
        answer, effects = self.state_machine.cancel_drain(node, UnremovableReason.CANCELLED, "asked for over HTTP", now)
        self.dispatcher.submit_all(effects)
        _log.info("drain cancelled" if answer == "cancelled" else "drain not cancelled", node=node, answer=answer)
        return answer

    def _autoscaler_service(self, client: ApiPort, kinds: KindInterner, rng: Random) -> AutoscalerService:
        return AutoscalerService(
            self.settings,
            client,
            self.state_machine,
            kinds,
            submit=self._submit_decided,
            on_broken=self._broken_objects,
            on_record=self.decision_log.loop,
            rng=rng,
            times=self._times,
            leads=self._leads,
        )

    def _submit_decided(self, effects: Iterable[Effect]) -> None:
        """Submits the autoscaler's effects. The history takes its decisions from the Events among them."""
        effects = tuple(effects)
        self.history.loop.announced(effects)
        self.dispatcher.submit_all(effects)

    def _intake(self) -> Intake:
        return Intake(
            self.state_machine,
            self._times.monotonic,
            self._reflectors,
            standby=self.leadership_term is not None,
            # A late bind of kube-scheduler could take room that we give away if our accounting is stricter than its own.
            settles=lambda: not self.state_machine.policy.bind and self.state_machine.state.counts_more_than_scheduler(),
        )

    @property
    def ready(self) -> bool:
        """Can filter answer: has everything been listed, and is the scoring snapshot up to date?"""
        return not self.unlisted

    @property
    def unlisted(self) -> Sequence[str]:
        """What readiness waits for."""
        if self.intake.ready and self.scoring_loop is not None and not self.scoring_loop.caught_up.is_set():
            return ["scores of nodes"]
        return self.intake.unlisted

    def _scoring_loop(self) -> ScoringLoop:
        weight, profiles = self.settings.extender.weight, score_profiles_of(self.settings)
        return ScoringLoop(self.state_machine, clock=self._times.monotonic, weight=weight, profiles=profiles)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._times.wall(), UTC)

    def _registry(self) -> CollectorRegistry:
        disable_created_metrics()  # the `_created` series would double the counters' series to no use
        registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
        registry.register(
            StateCollector(
                self.state_machine,
                listed=lambda: self.intake.ready,
                writes=lambda: self.dispatcher.stats,
                dropped_events=lambda: self.dispatcher.stats.dropped_announcements + self._recorder.dropped,
                event_sources=lambda: families(self._every_reflector(), self.intake.failed),
                audits=lambda: audit_families(self.audit.counts, len(self.state_machine.state.quarantine)),
            )
        )
        registry.register(Families(self._families))
        return registry

    def _families(self) -> Iterator[Metric]:
        yield from leader_families(self._leader(), {} if self._election is None else self._election.forwards())
        yield from certificate_families(self._certificates)
        yield from history_families(self.history.history.counts(), self.history.loop.writes)
        yield from planner_families(self.replica.observation())
        if self.autoscaler_service is not None:
            yield from autoscaler_families(self.autoscaler_service.last, self.autoscaler_service.counts)

    def _every_reflector(self) -> dict[str, Reflector[Any]]:
        return {**self._reflectors, **({} if self.autoscaler_service is None else self.autoscaler_service.reflectors)}

    async def watch_settings(self, path: Path) -> None:
        await watch_settings(path, self._settings_changed, self._settings_refused, current=self.settings)

    def _settings_changed(self, _before: Settings, new: Settings) -> None:
        """Applies the changes that need no restart. It compares with the settings in force, not with the file's last state, so
        that a change that needs a restart stays pending."""
        change = live(self.settings, new)
        self.settings = change.settings
        self.state_machine.adopt_policy(self._policy_of(change.settings))
        self._view.in_force = as_file(change.settings)
        self._view.problem = _waiting_for_restart(change)
        _log.info("settings changed", in_force=list(change.live), wait_for_restart=list(change.restart))

    def _settings_refused(self, error: SettingsError) -> None:
        self._view.problem = str(error)
        _log.error("settings refused, the old ones stay", problem=str(error))


def _waiting_for_restart(change: SettingsChange) -> str | None:
    if not change.restart:
        return None
    waiting = f"these changes wait for a restart: {', '.join(change.restart)}"
    if not change.scheduler:
        return waiting
    named = ", ".join(change.scheduler)
    return f"{waiting}; kube-scheduler's file depends on {named}: write it again with `slackwater scheduler-config`"


def _state_machine(policy: Policy, seed: int, recording: RecordWriter | None) -> StateMachine:
    if recording is None:
        return StateMachine(policy, seed=seed)
    return RecordedStateMachine(policy, seed=seed, write_frame=recording.write_frame)
