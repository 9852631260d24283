"""The objects that the service has in common with a shadow: those that observe the cluster, explain it, and answer people.

`ObservingService` has no object that writes, and its client only reads. `app.wiring` adds what decides and writes, `app.shadow`
what a shadow has in place of that.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
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

from slackwater.adapters.api_calls import ApiReader
from slackwater.adapters.http.application import Application
from slackwater.adapters.http.certificates import Certificates, certificate_families
from slackwater.adapters.http.dashboard.routes import OpenStreams
from slackwater.adapters.http.ops import ops_app
from slackwater.adapters.http.state_metrics import state_families
from slackwater.adapters.http.status import SettingsView
from slackwater.adapters.kube.audit_reads import ApiAuditReads
from slackwater.adapters.kube.config_maps import pauses
from slackwater.adapters.kube.decode import PodDecoder
from slackwater.adapters.kube.neon import machines, migrations
from slackwater.adapters.kube.reflector import Reflector, ReflectorConfig
from slackwater.adapters.kube.resource_type import budgets, nodes, pods
from slackwater.app.counterfactual.lines import SIDES
from slackwater.app.counterfactual.metrics import report_families
from slackwater.app.counterfactual.service import WrittenLog
from slackwater.app.disagreement import judge_of
from slackwater.app.event_sources import BrokenObjects, families, status_of
from slackwater.app.explain.service import ExplainService, HeldBack
from slackwater.app.history import ServiceHistory
from slackwater.app.labelled_groups import BY_LABELS, by_labels
from slackwater.app.node_use import NodeUseLoop
from slackwater.app.observing_autoscaler import ObservingAutoscaler
from slackwater.app.policies import audit_config_of, policy_of
from slackwater.app.scheduler_config.filters_and_scores import filter_profiles_of
from slackwater.app.settings import Settings, SettingsChange, SettingsError, as_file, live, watch_settings
from slackwater.app.settings.reload import NO_OVERRIDES, Overrides
from slackwater.app.shared_replica import MakeReplica, Replica, replica_process
from slackwater.app.whatif.question import GroupRegistryView, WhatIfService
from slackwater.controllers.audit.loop import Audit
from slackwater.controllers.audit.metrics import audit_families
from slackwater.controllers.disagreement.loop import DisagreementLoop
from slackwater.controllers.history.metrics import history_families
from slackwater.controllers.leadership.metrics import LeaderStatus, leader_families
from slackwater.controllers.policy import Policy
from slackwater.controllers.scaledown.drains.running_drains import CancelAnswer
from slackwater.model.effects import Effect
from slackwater.model.ids import NodeName
from slackwater.model.kubernetes_rules import KubernetesVersion
from slackwater.model.nodegroups import NodeGroup
from slackwater.model.pod_constraints import KindInterner
from slackwater.ports.clock import SteadyClock, Times
from slackwater.ports.metric_families import Families, gauge
from slackwater.runtime.autoscaler.metrics import autoscaler_families, planner_families
from slackwater.runtime.decision_log import DecisionLog
from slackwater.runtime.dispatcher import DispatcherStats
from slackwater.runtime.intake import Intake
from slackwater.runtime.planner.replica_feed import ReplicaFeed
from slackwater.runtime.record.recording import RecordedStateMachine
from slackwater.runtime.record_file import RecordWriter
from slackwater.runtime.state_machine import StateMachine

_log = structlog.get_logger(__name__)


class ObservingService(ABC):
    """What observes the cluster and answers people. `times` are the clocks of all objects. `certificates` has the TLS files of
    listeners, by listener name.

    A subclass sets `history` and `autoscaler_service`, then calls `_observe`, and at last builds `registry` and `ops`.
    """

    shadow = False
    history: ServiceHistory
    autoscaler_service: ObservingAutoscaler[Any] | None
    replica: Replica
    extender_application: Application
    agents_application: Application
    disagreement_loop: DisagreementLoop
    ops: FastAPI

    def __init__(
        self,
        settings: Settings,
        client: ApiReader,
        rng: Random,
        times: Times,
        *,
        certificates: Mapping[str, Certificates],
        kubernetes: KubernetesVersion,
        standby: bool,
    ) -> None:
        """`kubernetes` is the version of Kubernetes whose rules are followed."""
        self.settings = settings  #: those in force
        self._reader = client
        self._kubernetes = kubernetes
        self._policy_of = partial(policy_of, kubernetes=kubernetes, profiles=filter_profiles_of(settings))
        self._certificates = certificates
        self._times = times
        self._view = SettingsView(as_file(settings))
        self._kinds, self._broken_objects = KindInterner(packs=True), BrokenObjects()
        self._reflectors = self._kube_event_sources(client, self._kinds, rng, kubernetes)
        record = settings.recording
        self.recording = None if record.file is None else RecordWriter(record.file, max_bytes=record.max_bytes, keep=1)
        self.state_machine = _state_machine(self._policy_of(settings), rng.getrandbits(63), self.recording)
        self.intake = self._intake(standby=standby)
        self.decision_log = DecisionLog(times.wall)
        self.dashboards = OpenStreams()
        self.node_use = NodeUseLoop(client) if settings.kube.node_use else None

    def _observe(self, make_replica: MakeReplica | None) -> None:
        """Builds what needs the autoscaler: the replica, and the audit."""
        self.replica = (make_replica or replica_process)(self._feed(), self.settings, self._times)
        self.report_log = self._report_log()
        truth = ApiAuditReads(self._reader, PodDecoder(self._kinds, self._kubernetes))
        config, measure = audit_config_of(self.settings), self._times.monotonic
        self.audit = Audit(self.state_machine.state, truth, self.intake.take, config=config, measure=measure)
        self.explaining = self._explaining()

    def _feed(self) -> ReplicaFeed:
        auxiliary = None if self.autoscaler_service is None else self.autoscaler_service.intake.reader()
        return ReplicaFeed(self.state_machine, auxiliary)

    def _report_log(self) -> WrittenLog | None:
        """What writes the log for `slackwater report`; None without an autoscaler, and if nobody wants it."""
        if self.autoscaler_service is None or not (self.shadow or self.settings.report.enabled):
            return None
        return WrittenLog(
            self.settings,
            self._feed(),
            sides=SIDES if self.shadow else ("real",),
            registry=self._group_registry_view,
            pods_came=lambda: self.state_machine.state.pods.came,
            times=self._times,
        )

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

    def _kube_event_sources(
        self, client: ApiReader, kinds: KindInterner, rng: Random, kubernetes: KubernetesVersion
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

    def _group_registry_view(self) -> GroupRegistryView | None:
        return None if self.autoscaler_service is None else self.autoscaler_service.view()

    def _held_back(self, node: NodeName, group: NodeGroup) -> HeldBack:
        return (None, ()) if self.autoscaler_service is None else self.autoscaler_service.held_back(node, group)

    def _intake(self, *, standby: bool) -> Intake:
        return Intake(
            self.state_machine,
            self._times.monotonic,
            self._reflectors,
            standby=standby,
            # A late bind of kube-scheduler could take room that we give away if our accounting is stricter than its own.
            settles=lambda: not self.state_machine.policy.bind and self.state_machine.state.counts_more_than_scheduler(),
        )

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._times.wall(), UTC)

    def _registry(self) -> CollectorRegistry:
        disable_created_metrics()  # the `_created` series would double the counters' series to no use
        registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
        registry.register(Families(self._families))
        return registry

    def _families(self) -> Iterator[Metric]:
        machine, writes, dropped = self.state_machine, self._writes(), self._dropped_events()
        yield from state_families(machine, listed=self.intake.ready, writes=writes, dropped_events=dropped)
        yield from families(self._every_reflector(), self.intake.failed)
        yield from audit_families(self.audit.counts, len(machine.state.quarantine))
        yield gauge("slackwater_shadow", "1 if the service only watches, and writes nothing.", self.shadow)
        yield from leader_families(self._leader(), self._forwards())
        yield from certificate_families(self._certificates)
        yield from history_families(self.history.history.counts(), self.history.loop.writes)
        yield from planner_families(self.replica.observation())
        if self.autoscaler_service is not None:
            yield from autoscaler_families(self.autoscaler_service.last, self.autoscaler_service.counts)
        if self.report_log is not None:
            yield from report_families(self.report_log.process)

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
            shadow=self.shadow,
            assumed=BY_LABELS if by_labels(self.settings) else "",
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
            report_log=self.report_log,
            node_use=lambda: None if self.node_use is None else self.node_use.latest,
            certificates=self._certificates,
        )

    def _disagreement_loop(self, submit: Callable[[Iterable[Effect]], None]) -> DisagreementLoop:
        state_machine, autoscaled = self.state_machine, self.settings.autoscaler.enabled
        return DisagreementLoop(
            state_machine.disagreements,
            judge_of(state_machine, self.replica, watched=lambda: self._group_registry_view() is not None),
            submit,
            is_promised=state_machine.is_promised,
            clock=self._times.monotonic,
            binds=autoscaled,
        )

    # --- what a service that writes has more to say about ----------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Can the service answer: has everything been listed?"""
        return not self.unlisted

    @property
    def unlisted(self) -> Sequence[str]:
        """What readiness waits for."""
        return self.intake.unlisted

    @abstractmethod
    def _leader(self) -> LeaderStatus: ...

    def _forwards(self) -> Mapping[str, int]:
        """The agents' requests that were forwarded to the leader, by outcome."""
        return {}

    def _writes(self) -> DispatcherStats:
        return DispatcherStats()

    def _dropped_events(self) -> int:
        """The Kubernetes Events that were dropped under load."""
        return 0

    def _cancel_drain(self, _node: NodeName) -> CancelAnswer:
        return "none"

    # --- settings, metrics -----------------------------------------------------------------------------------------------

    def _every_reflector(self) -> dict[str, Reflector[Any]]:
        return {**self._reflectors, **({} if self.autoscaler_service is None else self.autoscaler_service.reflectors)}

    async def watch_settings(self, path: Path, overrides: Overrides = NO_OVERRIDES) -> None:
        """Follows changes of the file until cancelled. `overrides`: what the command line says in place of the file."""
        await watch_settings(path, self._settings_changed, self._settings_refused, current=self.settings, overrides=overrides)

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
