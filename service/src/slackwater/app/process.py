"""Runs the service as a process: opens sockets, handles signals, and builds and runs one `Service` after another.

Each run of a `Service` starts the ops listener first, so that health can be read during the initial lists, then the dispatcher
and the event sources, then the other listeners. A standby stays at this point, with a current cluster state, until it leads.
The sockets stay open between two runs: new connections wait instead of being refused.

A run ends when it is cancelled. The servers finish their answers and the dispatcher its writes, both within time limits. The
Lease is released last, so that the next leader begins after this one has ended.

A replica that loses leadership discards its `Service` and builds a new one, so that no decision outlives its leadership term.
It does the same if the cluster was upgraded to a version of Kubernetes with other rules. Writes that are under way then are
safe because of their preconditions (docs/adr/0100).
"""

import gc
import resource
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack
from pathlib import Path
from random import Random
from typing import Final

import anyio
import structlog
from anyio.abc import TaskGroup

from slackwater.adapters.api_calls import ApiPort, ApiReader
from slackwater.adapters.http.certificates import Certificates
from slackwater.adapters.http.uvicorn_listener import serve_app, serve_direct
from slackwater.adapters.kube.client import KubeClient, open_client, open_reader
from slackwater.app.leader_election import Election, OpenListener, max_connections, open_election, open_listeners
from slackwater.app.observing import ObservingService
from slackwater.app.policies import dispatcher_config_of
from slackwater.app.scheduler_config.check import unfollowed
from slackwater.app.settings import Settings
from slackwater.app.settings.reload import NO_OVERRIDES, Overrides
from slackwater.app.shadow import ShadowService
from slackwater.app.version_watch import FollowedVersion
from slackwater.app.wiring import Service
from slackwater.controllers.leadership.state import LeadershipTerm
from slackwater.model.kubernetes_rules import KubernetesVersion
from slackwater.ports.clock import Times
from slackwater.ports.threads import keep_large_values_apart, return_memory
from slackwater.runtime.dispatcher import Dispatcher


def raise_limit() -> int:
    """Raises the soft limit of open files to the hard limit, as Go programs do by default. Returns the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


_log = structlog.get_logger(__name__)

#: The garbage collector's thresholds once everything is listed. The default, 700, makes thousands of collections a second.
#: A collection stops every thread: the second generation has at most 60,000 objects, which takes 20 ms. The third is as rare as
#: after 20 million objects.
_GC_THRESHOLDS: Final = (20_000, 2, 500)
#: The time limit for releasing the Lease.
_RELEASE_SECONDS: Final = 3.0


OnReady = Callable[[Service], Awaitable[None]]


async def serve(
    settings: Settings,
    *,
    config_path: str | None,
    kubeconfig: str | None,
    api: AbstractAsyncContextManager[ApiPort] | None = None,
    on_ready: OnReady | None = None,
) -> None:
    """Runs the service until SIGTERM, SIGINT or cancellation. `config_path` is watched for changes of the settings. `api`
    replaces the client of the API server that the kubeconfig names. `on_ready` is called when the service leads and is ready.

    :raises KubeConfigError: no way to the API server is configured. :raises ListenError: an address is taken.
    :raises RecordError: the file of `recording` or `report` cannot be written.
    """
    # Security: these random numbers are only used for jitter.
    rng = Random()
    raise_limit()
    keep_large_values_apart()
    for finding in unfollowed(settings):
        _log.warning("kube-scheduler's configuration not followed", detail=f"{finding.path}: {finding.why}")
    async with AsyncExitStack() as stack:
        sockets = stack.enter_context(ExitStack())
        opened = open_listeners(settings.listeners, sockets, Times().wall)
        limits = dispatcher_config_of(settings)
        most_writes = limits.max_binds + limits.max_concurrent_writes + limits.max_preemptions
        client = await stack.enter_async_context(
            open_client(kubeconfig=kubeconfig, max_calls=most_writes) if api is None else api
        )
        _log.info("listening", **_addresses(opened))
        api_server = client.url if isinstance(client, KubeClient) else "in this process"
        _log.info("connecting", api_server=api_server, scheduler_name=settings.scheduler_name)
        election = await stack.enter_async_context(open_election(settings, client, rng))
        async with anyio.create_task_group() as root:
            root.start_soon(election.run, name="leader election")
            try:
                with anyio.CancelScope() as running:
                    root.start_soon(_cancel_on_signal, running, sockets, name="signals")
                    runner = _ServiceRunner(client, election, rng, config_path=config_path, on_ready=on_ready)
                    while True:
                        settings = await runner.run_once(settings, opened)
            finally:
                with anyio.move_on_after(_RELEASE_SECONDS, shield=True):
                    await election.release()
            root.cancel_scope.cancel()
    _log.info("stopped")


async def serve_shadow(
    settings: Settings,
    *,
    config_path: str | None,
    kubeconfig: str | None,
    overrides: Overrides = NO_OVERRIDES,
    api: AbstractAsyncContextManager[ApiReader] | None = None,
    on_ready: Callable[[ShadowService], Awaitable[None]] | None = None,
) -> None:
    """Runs a shadow until SIGTERM, SIGINT or cancellation. It takes part in no election. `overrides`: what the command line
    says in place of the file. The other arguments, and what is raised, as in `serve`."""
    # Security: these random numbers are only used for jitter.
    rng = Random()
    raise_limit()
    keep_large_values_apart()
    async with AsyncExitStack() as stack:
        sockets = stack.enter_context(ExitStack())
        opened = open_listeners(settings.listeners, sockets, Times().wall)
        reader = await stack.enter_async_context(open_reader(kubeconfig=kubeconfig) if api is None else api)
        _log.info("listening", **_addresses(opened))
        _log.info("a shadow: nothing is written", scheduler_name=settings.scheduler_name)
        followed = FollowedVersion(reader)
        async with anyio.create_task_group() as root:
            with anyio.CancelScope() as running:
                root.start_soon(_cancel_on_signal, running, sockets, name="signals")
                while True:
                    gc.unfreeze()
                    kubernetes = await followed.find(settings)
                    shadow = ShadowService(settings, reader, rng, certificates=_certificates(opened), kubernetes=kubernetes)
                    async with anyio.create_task_group() as life:
                        await _start(shadow, opened, life)
                        if config_path is not None:
                            life.start_soon(shadow.watch_settings, Path(config_path), overrides, name="settings")
                        await _run_shadow(shadow, life)
                        if on_ready is not None:
                            await on_ready(shadow)
                        await followed.changed(settings, kubernetes)
                        life.cancel_scope.cancel()
                    settings = shadow.settings
            root.cancel_scope.cancel()
    _log.info("stopped")


async def _run_shadow(shadow: ShadowService, life: TaskGroup) -> None:
    """Waits until everything was listed, then starts what plans and compares."""
    await shadow.intake.listed()
    _settle(shadow)
    if shadow.autoscaler_service is not None:
        life.start_soon(shadow.autoscaler_service.intake.run, name="intake of auxiliary objects")
    _start_loops(shadow, life)


class _ServiceRunner:
    """Builds and runs one `Service` after another. It holds what all of them share."""

    def __init__(
        self, client: ApiPort, election: Election, rng: Random, *, config_path: str | None, on_ready: OnReady | None
    ) -> None:
        self._client = client
        self._election = election
        self._rng = rng
        self._config_path = config_path
        self._on_ready = on_ready
        self._followed = FollowedVersion(client)

    async def run_once(self, settings: Settings, opened: Mapping[str, OpenListener]) -> Settings:
        """Builds a `Service` and runs it until its leadership term is over. Returns the settings for the next `Service`."""
        gc.unfreeze()  # lets the garbage collector free the objects of an earlier `Service`
        kubernetes = await self._followed.find(settings)
        service = Service(
            settings,
            self._client,
            self._rng,
            certificates=_certificates(opened),
            election=self._election,
            kubernetes=kubernetes,
        )
        _log.info(
            "starting",
            binds="slackwater" if settings.extender.bind else "kube-scheduler",
            autoscaler=settings.autoscaler.enabled,
            election=self._election.mode,
            waiting_for=service.intake.unlisted,
        )
        async with anyio.create_task_group() as life:
            await _start(service, opened, life, service.dispatcher)
            if self._config_path is not None:
                life.start_soon(service.watch_settings, Path(self._config_path), name="settings")
            life.start_soon(self._end_with_version, settings, kubernetes, life.cancel_scope, name="version of Kubernetes")
            await service.intake.listed()
            _settle(service)
            if service.autoscaler_service is not None:
                life.start_soon(service.autoscaler_service.intake.run, name="intake of auxiliary objects")
            if service.scoring_loop is not None:  # a standby's too: who takes over can score at once
                life.start_soon(service.scoring_loop.run, name="scores for node choice")
                await service.scoring_loop.caught_up.wait()
            if service.leadership_term is not None:
                await self._lead(service, service.leadership_term, life)
            _start_loops(service, life)
            if service.wait_events is not None:
                life.start_soon(service.wait_events.run, name="events on waiting pods")
            if service.notifications is not None:
                life.start_soon(service.notifications.run, name="notifications")
            if self._on_ready is not None:
                await self._on_ready(service)
        return service.settings

    async def _lead(self, service: Service, leadership_term: LeadershipTerm, life: TaskGroup) -> None:
        """Waits until this replica leads, and arranges that the run of the `Service` ends with the leadership term."""
        _log.info("standing by", leader=self._election.holder())
        await leadership_term.begun()
        service.intake.lead()
        _log.info("leading", lease=str(self._election.lease), holder=self._election.holder())
        life.start_soon(self._end_with, leadership_term, life.cancel_scope, name="end of the leadership term")
        await service.intake.synced()

    async def _end_with_version(self, settings: Settings, in_force: KubernetesVersion, life: anyio.CancelScope) -> None:
        await self._followed.changed(settings, in_force)
        life.cancel()

    async def _end_with(self, leadership_term: LeadershipTerm, life: anyio.CancelScope) -> None:
        await leadership_term.over()
        _log.warning("not leading any more: what was decided is forgotten", leader=self._election.holder())
        life.cancel()


async def _start(
    service: ObservingService, opened: Mapping[str, OpenListener], life: TaskGroup, dispatcher: Dispatcher | None = None
) -> None:
    """Starts the listeners, and what keeps the cluster state current."""
    ops, extender, agents = opened["ops"], opened["extender"], opened["agents"]
    await life.start(serve_app, service.ops, ops.sock, ops.certificates, service.dashboards.close, name="ops listener")
    if service.recording is not None:
        life.start_soon(service.recording.run, name="recording")
    if dispatcher is not None:
        await life.start(dispatcher.run, name="dispatcher")
    life.start_soon(service.intake.run, name="intake")
    life.start_soon(service.replica.run, name="planning process")
    life.start_soon(service.ops.state.observer.run, name="dashboard observer")
    if service.node_use is not None:
        life.start_soon(service.node_use.run, name="what nodes use")
    await life.start(serve_direct, service.extender_application, extender.sock, extender.certificates, name="extender listener")
    front, connections = service.agents_application, max_connections()
    await life.start(serve_direct, front, agents.sock, agents.certificates, connections, name="agents listener")


def _start_loops(service: ObservingService, life: TaskGroup) -> None:
    """Starts what plans and compares, once everything was listed."""
    life.start_soon(service.history.loop.run, name="history")
    life.start_soon(service.disagreement_loop.run, name="disagreements with kube-scheduler")
    life.start_soon(service.audit.run, name="audit")
    if service.autoscaler_service is not None:
        life.start_soon(service.autoscaler_service.act, service.replica, name="autoscaler")
    if service.report_log is not None:
        life.start_soon(service.report_log.run, name="log for reports")


def _certificates(opened: Mapping[str, OpenListener]) -> dict[str, Certificates]:
    return {name: held for name, each in opened.items() if (held := each.certificates) is not None}


def _addresses(opened: Mapping[str, OpenListener]) -> dict[str, str]:
    """The addresses of the listeners, in the order in which people read them."""
    urls = {name: f"{'http' if each.certificates is None else 'https'}://{_host(each)}" for name, each in opened.items()}
    return {"extender": urls["extender"], "agents": urls["agents"], "ops": urls["ops"]}


def _host(opened: OpenListener) -> str:
    host, port, *_ = opened.sock.getsockname()
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _settle(service: ObservingService) -> None:
    """Excludes the listed objects from garbage collection: they live on, and each scan of them would delay every answer by
    tens of milliseconds. Returns what the pages of the lists took."""
    gc.collect()
    return_memory()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    _log.info("ready", nodes=len(service.state_machine.state.nodes), pods=len(service.state_machine.state.pods))


async def _cancel_on_signal(scope: anyio.CancelScope, sockets: ExitStack) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for received in signals:
            _log.info("stopping", signal=signal.Signals(received).name)
            sockets.close()  # new connections are refused at once instead of waiting in vain
            scope.cancel()
            return
