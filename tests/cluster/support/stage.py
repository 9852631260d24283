"""What nearly every test needs: the service and a real kube-scheduler that asks it, over a corner of the cluster."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import anyio
import yaml

from slackwater.sandbox.free_ports import FreePorts
from tests.cluster.support.audit_tail import AuditTail, Request, binds
from tests.cluster.support.ground import Ground
from tests.cluster.support.slackwater_process import SlackwaterProcess
from tests.support.controlplane.stack import ControlPlane
from tests.support.waiting import eventually

SCHEDULER: Final = "kube-scheduler"
_TAIL_LINES: Final = 40

Edit = Callable[[dict[str, Any]], None]


class Stage:
    """An async context manager. Inside, `up` brings the service and kube-scheduler to life; all end with the block."""

    def __init__(self, control_plane: ControlPlane, ground: Ground, *, folder: Path, ports: FreePorts) -> None:
        self.control_plane = control_plane
        self.ground = ground
        self._audit = AuditTail(control_plane.audit_log)
        self._binds: list[Request] = []
        self._folder = folder
        self._ports = ports
        self._service: SlackwaterProcess | None = None
        self._schedulers: list[str] = []
        self._cleanup = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            for name in self._schedulers:
                await self.control_plane.stop(name)
            await self._cleanup.aclose()

    @property
    def service(self) -> SlackwaterProcess:
        assert self._service is not None, "up or up_service comes first"
        return self._service

    async def up(
        self,
        settings: Mapping[str, Any] | None = None,
        *,
        edit: Edit | None = None,
        kubeconfig: Path | None = None,
        arguments: Sequence[str] = (),
    ) -> SlackwaterProcess:
        """Starts the service, and a kube-scheduler with the configuration that `slackwater scheduler-config` prints.

        `settings` is the configuration file without addresses; `edit` may change the scheduler's document;
        `kubeconfig` is another way to the API server for the service; `arguments` are more flags of kube-scheduler.
        """
        service = await self.up_service(settings, kubeconfig=kubeconfig)
        await self.up_scheduler(edit=edit, arguments=arguments)
        return service

    async def up_service(
        self, settings: Mapping[str, Any] | None = None, *, kubeconfig: Path | None = None
    ) -> SlackwaterProcess:
        """Starts the service alone."""
        kubeconfig = kubeconfig or self.control_plane.kubeconfig("slackwater")
        process = SlackwaterProcess(folder=self._folder, kubeconfig=kubeconfig, ports=self._ports, settings=settings)
        self._service = await self._cleanup.enter_async_context(process)
        await process.start()
        return process

    async def up_scheduler(self, *, edit: Edit | None = None, arguments: Sequence[str] = ()) -> None:
        """Starts a kube-scheduler with the printed configuration."""
        text = await self.service.scheduler_config()
        if edit is not None:
            document = yaml.safe_load(text)
            edit(document)
            text = yaml.safe_dump(document, sort_keys=False)
        await self.start_scheduler(text, name=SCHEDULER, arguments=arguments)

    async def start_scheduler(self, text: str, *, name: str, arguments: Sequence[str] = ()) -> None:
        """Starts a kube-scheduler with this configuration; it ends with the stage."""
        await self.control_plane.start_scheduler(text, name=name, arguments=arguments)
        self._schedulers.append(name)

    def binds(self) -> list[Request]:
        """All requests to bind a pod of this ground so far, from the API server's audit log."""
        new = self._audit.read()
        self._binds += [request for request in new if binds(request) and request.namespace == self.ground.name]
        return self._binds

    def bound_so_far(self) -> list[str]:
        """The pods of this ground that are bound so far, by the service or kube-scheduler, each as often as it was."""
        return [request.name for request in self.binds() if request.status == 201]

    async def until_bound_so_far(self, count: int, *, within_seconds: float) -> None:
        """Waits until the service has bound `count` pods of this ground in all. Quick to notice, and cheap for the API."""

        async def look() -> int:
            return len(self.bound_so_far())

        wanted = f"{count} pods bound"
        await eventually(look, lambda n: n >= count, within_seconds=within_seconds, wanted=wanted, every_seconds=0.01)

    def logs(self) -> list[tuple[str, str]]:
        """The end of each log, for the report of a failed test."""
        files = {name: self.control_plane.logs / f"{name}.log" for name in self._schedulers}
        texts = {name: file.read_text(errors="replace") for name, file in files.items()}
        if self._service is not None:
            texts["slackwater"] = self._service.log
        return [(f"end of the log of {name}", "\n".join(text.splitlines()[-_TAIL_LINES:])) for name, text in texts.items()]
