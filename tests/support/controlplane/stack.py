"""Runs a control plane: etcd, kube-apiserver and, as the caller chooses, KWOK, the controller manager and schedulers.

    async with ControlPlane(build()) as cp:
        await cp.start_scheduler(config_text)
        async with cp.session() as api, api.get("/api/v1/nodes") as answer: ...

All components listen on free ports of loopback, and are stopped in reverse order at the end of the block. `session` is an HTTP
session with the API server; there is no other client. This module does not use any other part of Slackwater's service.
"""

import random
import shutil
import ssl
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from signal import SIGCONT, Signals
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
import anyio
import yaml

from slackwater.sandbox.free_ports import FreePorts
from tests.support.controlplane import launches
from tests.support.controlplane.build import Binaries
from tests.support.controlplane.component import Component, Launch
from tests.support.controlplane.errors import ControlPlaneError, NotReady
from tests.support.controlplane.layout import Layout
from tests.support.controlplane.pki import ApiUser, make_accounts, make_pki, write_kubeconfig, write_token_file


def with_kubeconfig(config: str | Path, kubeconfig: Path) -> str:
    """Sets `clientConnection.kubeconfig` in a kube-scheduler configuration (text or file), unless it is set; returns the text.

    Needed because kube-scheduler ignores --kubeconfig if --config is given. Raises ValueError if `config` is not a
    KubeSchedulerConfiguration.
    """
    text = config.read_text() if isinstance(config, Path) else config
    document = yaml.safe_load(text)
    kind = document.get("kind") if isinstance(document, dict) else type(document).__name__
    if kind != "KubeSchedulerConfiguration":
        raise ValueError(f"scheduler configuration: got kind {kind!r}, want KubeSchedulerConfiguration")
    connection = document.get("clientConnection") or {}
    document["clientConnection"] = {"kubeconfig": str(kubeconfig), **connection}
    return yaml.safe_dump(document, sort_keys=False)


_ASK_EVERY_SECONDS: Final = 0.05
#: The timeout of one readiness request. The kernel accepts connections even for a paused process, which then never answers.
_ANSWER_WITHIN: Final = aiohttp.ClientTimeout(total=2)
_READY: Final = "ready"


async def until_ready(component: Component, session: aiohttp.ClientSession, *, within_seconds: float) -> None:
    """Returns when the component has answered all its `ready_paths` with 200.

    Raises ComponentFailed if the component ends before, and NotReady, with the last answer, after `within_seconds`.
    """
    seen = "not asked yet"
    with anyio.move_on_after(within_seconds):
        while True:
            component.check()
            seen = await _ask(component, session)
            if seen == _READY:
                return
            await anyio.sleep(_ASK_EVERY_SECONDS)
    raise NotReady(component.name, seconds=within_seconds, seen=seen, output=component.tail(), log=component.log)


async def _ask(component: Component, session: aiohttp.ClientSession) -> str:
    for path in component.launch.ready_paths:
        url = component.launch.url + path
        try:
            async with session.get(url, timeout=_ANSWER_WITHIN) as answer:
                if answer.status != 200:
                    return f"{path} answered {answer.status}: {(await answer.text())[:300]}"
        except (aiohttp.ClientError, TimeoutError) as err:
            return f"{path}: {type(err).__name__}: {err}"
    return _READY


_STOP_WITHIN_SECONDS: Final = 10.0
_PORT_ATTEMPTS: Final = 5
_PORT_TAKEN: Final = "address already in use"


class ControlPlane:
    """An async context manager that runs a control plane; the module's docstring has an example.

    Files are written to `directory`, where the logs remain; None: to a temporary folder, which is removed unless the block ends
    with an error. `arguments` are appended to the command line of each component, by its name. `audited`: the rules of the
    audit policy. Entering raises ComponentFailed or NotReady, with the end of the log in the message.
    """

    def __init__(
        self,
        binaries: Binaries,
        *,
        directory: Path | None = None,
        controllers: bool = False,
        kwok: bool = True,
        arguments: Mapping[str, Sequence[str]] | None = None,
        audited: Sequence[Mapping[str, Any]] = launches.AUDIT_RULES,
        ports: FreePorts | None = None,
        ready_within_seconds: float = 60.0,
    ) -> None:
        self._binaries = binaries
        self._wanted_directory = directory
        self._controllers = controllers
        self._kwok = kwok
        self._arguments = arguments or {}
        self._audited = audited
        self._ports = ports or FreePorts(random.Random())
        self._ready_within_seconds = ready_within_seconds
        self._components: dict[str, Component] = {}
        self._accounts: dict[str, ApiUser] = {}
        self._cleanup = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._prepare()
        try:
            self._asking = await self._cleanup.enter_async_context(self._session("admin"))
            await self._start_everything()
        except BaseException as err:
            await self._close(err)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._close(error)

    # --- addresses and files ----------------------------------------------------------------------------------------------

    @property
    def api_url(self) -> str:
        """The address of the API server, as "https://127.0.0.1:PORT"."""
        return self.url("kube-apiserver")

    @property
    def ca_file(self) -> Path:
        """The file with the CA's certificate, which verifies every HTTPS address of the control plane."""
        return self._place.pki.ca_file

    @property
    def logs(self) -> Path:
        """The folder of the components' logs."""
        return self._layout.logs

    @property
    def audit_log(self) -> Path:
        """The API server's audit log, by default of all writes; `launches.bind_requests` reads it."""
        return self._layout.audit_log

    def kubeconfig(self, account: str) -> Path:
        """The kubeconfig file of `account`: admin, scheduler, slackwater (no rights), controller-manager, kwok."""
        return self._layout.kubeconfig(self._account(account).name)

    def session(self, account: str = "admin", *, connections: int = 40) -> aiohttp.ClientSession:
        """A new HTTP session with the API server as `account`. Requests give only the path. The caller closes the session."""
        return self._session(account, base_url=self.api_url, connections=connections)

    def url(self, component: str) -> str:
        """The address of `component` (health, metrics), without a path."""
        return self._component(component).launch.url

    def pid(self, component: str) -> int:
        """The process ID of `component`."""
        return self._component(component).pid

    def running(self) -> list[str]:
        """The names of the running components, in the order of their start."""
        return [name for name, component in self._components.items() if component.running]

    # --- actions ----------------------------------------------------------------------------------------------------------

    async def start_scheduler(
        self,
        config: str | Path,
        *,
        name: str = "kube-scheduler",
        leader_elect: bool = False,
        arguments: Sequence[str] = (),
        run_by: Sequence[str] = (),
    ) -> None:
        """Starts a kube-scheduler with a KubeSchedulerConfiguration (text or file) and waits until it is ready. `run_by`: a
        command, such as `nice`, to which the program and its arguments are appended.

        A config without a kubeconfig gets that of account `scheduler`. Several schedulers may run under different names. One
        that was stopped may be started again with another config.
        """
        if name in self._components and self._components[name].running:
            raise ControlPlaneError(f"{name} is running already; stop it first, or start another under its own name")
        file = self._layout.scheduler_config(name)
        file.write_text(with_kubeconfig(config, self.kubeconfig("scheduler")))

        def launch() -> Launch:
            scheduler = launches.kube_scheduler(
                self._place, name=name, port=self._ports.take(), config=file, leader_elect=leader_elect
            )
            return replace(scheduler, arguments=(*scheduler.arguments, *arguments)).run_by(run_by)

        await self._launch(launch)

    async def stop(self, component: str) -> None:
        """Stops `component` with SIGTERM, then with SIGKILL if it does not end."""
        await self._component(component).stop(within_seconds=_STOP_WITHIN_SECONDS)

    async def start(self, component: str) -> None:
        """Restarts a component that was stopped or killed, on the same port, and waits until it is ready."""
        found = self._component(component)
        if found.running:
            raise ControlPlaneError(f"{component} is running already")
        await found.start()
        await self._until_ready(found)

    async def restart(self, component: str) -> None:
        """Stops a component if it runs, and starts it again with the same data, port and log."""
        await self.stop(component)
        await self.start(component)

    async def ended(self, component: str) -> int:
        """Waits until a component has ended. Returns its exit status, negative for a signal."""
        return await self._component(component).ended()

    def kill(self, component: str, number: Signals) -> None:
        """Sends a signal to a component."""
        self._component(component).send(number)

    def pause(self, component: str) -> None:
        """Pauses a component: its connections stay open, and it answers nothing."""
        self._component(component).pause()

    def resume(self, component: str) -> None:
        """Lets a paused component continue."""
        self.kill(component, SIGCONT)

    async def wait_ready(self) -> None:
        """Waits until all components that were not stopped are ready, and the API's default objects exist.

        Raises ComponentFailed if a component has ended by itself, and NotReady if one takes too long.
        """
        for component in [component for component in self._components.values() if component.wanted]:
            await self._until_ready(component)

    # --- implementation ---------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        directory = self._wanted_directory or Path(tempfile.mkdtemp(prefix="slackwater-controlplane-"))
        self._layout = Layout(root=directory.absolute())
        self._layout.make()
        pki = make_pki(self._layout.pki, now=datetime.now(UTC))
        self._place = launches.LaunchContext(binaries=self._binaries, layout=self._layout, pki=pki)
        self._tls = ssl.create_default_context(cafile=str(pki.ca_file))
        self._accounts = make_accounts()
        write_token_file(self._layout.tokens, list(self._accounts.values()))
        self._layout.audit_policy.write_text(yaml.safe_dump(launches.audit_policy(self._audited)))

    async def _start_everything(self) -> None:
        place, take = self._place, self._ports.take
        etcd = await self._launch(lambda: launches.etcd(place, port=take(), peer_port=take()))
        api = await self._launch(
            lambda: launches.kube_apiserver(place, port=take(), etcd_url=etcd.launch.url, controllers=self._controllers)
        )
        for name, account in self._accounts.items():
            write_kubeconfig(self._layout.kubeconfig(name), account, server=api.launch.url, ca_file=self._place.pki.ca_file)
        if self._controllers:
            await self._launch(lambda: launches.kube_controller_manager(place, port=take()))
        if self._kwok:
            await self._launch(lambda: launches.kwok(place, port=take()))

    async def _launch(self, make: Callable[[], Launch]) -> Component:
        """Starts the program that `make` returns and waits until it is ready. If another process has taken a port, calls `make`
        again, which chooses other ports."""
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            component = await self._start(make())
            try:
                await self._until_ready(component)
            except ControlPlaneError as err:
                del self._components[component.name]
                await component.stop(within_seconds=_STOP_WITHIN_SECONDS)
                if attempt == _PORT_ATTEMPTS or _PORT_TAKEN not in str(err):
                    raise
            else:
                return component
        raise AssertionError("the last attempt returns or raises")

    async def _start(self, launch: Launch) -> Component:
        launch = replace(launch, arguments=(*launch.arguments, *self._arguments.get(launch.name, ())))
        component = Component(launch, log=self._layout.log(launch.name), home=self._layout.root)
        self._components.pop(launch.name, None)  # a stopped component of this name; the new one is added at the end
        self._components[launch.name] = component
        self._cleanup.push_async_callback(component.stop, within_seconds=_STOP_WITHIN_SECONDS)
        await component.start()
        return component

    async def _until_ready(self, component: Component) -> None:
        await until_ready(component, self._asking, within_seconds=self._ready_within_seconds)

    def _session(self, account: str, *, base_url: str | None = None, connections: int = 4) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            base_url,
            headers={"Authorization": f"Bearer {self._account(account).token}"},
            connector=aiohttp.TCPConnector(ssl=self._tls, limit=connections),
        )

    async def _close(self, error: BaseException | None) -> None:
        # Shielded without a deadline, because each stop has its own.
        with anyio.CancelScope(shield=True):
            await self._cleanup.aclose()
        # The logs are kept only after an error. Ctrl-C and cancellation are no errors.
        if self._wanted_directory is None and not isinstance(error, Exception):
            shutil.rmtree(self._layout.root, ignore_errors=True)
            return
        shutil.rmtree(self._layout.etcd_data, ignore_errors=True)
        if error is not None:
            error.add_note(f"logs of the control plane: {self._layout.logs}")

    def _component(self, name: str) -> Component:
        if name not in self._components:
            raise ControlPlaneError(f"no component {name!r} was started; there are {', '.join(self._components)}")
        return self._components[name]

    def _account(self, name: str) -> ApiUser:
        if name not in self._accounts:
            raise ControlPlaneError(f"no account {name!r}; there are {', '.join(self._accounts)}")
        return self._accounts[name]
