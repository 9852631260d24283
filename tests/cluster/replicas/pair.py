"""Two Pods as they are deployed, each a kube-scheduler and the service: as processes, with the host names that Pods have.

The two of a Pod are stopped, ended and begun together. Their agents' listeners have the same port at two addresses, as those of
Pods have.
"""

import shutil
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from signal import SIGTERM
from types import TracebackType
from typing import Any, Final, Self

import anyio

from slackwater.app import rbac
from slackwater.app.settings import load
from slackwater.sandbox.free_ports import FreePorts
from tests.cluster.support.ground import MERGE_PATCH, Ground
from tests.cluster.support.slackwater_process import SlackwaterProcess
from tests.controlplane.talk import create
from tests.support.controlplane.stack import ControlPlane
from tests.support.waiting import eventually

_NAMESPACE: Final = "kube-system"
_ROLES: Final = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system"
_ENDED_WITHIN_SECONDS: Final = 60.0
LEADS_WITHIN_SECONDS: Final = 60.0


class Replica:
    """One Pod: `name` is its host's."""

    def __init__(self, name: str, address: str, control_plane: ControlPlane, service: SlackwaterProcess) -> None:
        self.name = name
        self.address = address
        self.service = service
        self._control_plane = control_plane
        self.scheduler = f"kube-scheduler-{name}"

    async def start(self) -> None:
        await self.service.start()
        text = await self.service.scheduler_config()
        await self._control_plane.start_scheduler(text, name=self.scheduler, leader_elect=True, run_by=as_host(self.name))

    def stop(self) -> None:
        """SIGSTOP, to both."""
        self._control_plane.pause(self.scheduler)
        self.service.pause()

    def go_on(self) -> None:
        self.service.resume()
        self._control_plane.resume(self.scheduler)

    def terminate(self) -> None:
        """SIGTERM, to both, as the kubelet ends a Pod."""
        self._control_plane.kill(self.scheduler, SIGTERM)
        self.service.terminate()

    async def ended(self) -> None:
        """In good order."""
        assert await self.service.ended(within_seconds=_ENDED_WITHIN_SECONDS) == 0
        with anyio.fail_after(_ENDED_WITHIN_SECONDS):
            await self._control_plane.ended(self.scheduler)

    async def start_scheduler_again(self) -> None:
        """One that has lost its Lease ends, and the kubelet starts it again."""
        with anyio.fail_after(_ENDED_WITHIN_SECONDS):
            await self._control_plane.ended(self.scheduler)
        await self._control_plane.start(self.scheduler)

    async def leads(self) -> bool:
        return bool((await self.service.metrics()).value("slackwater_leader"))


class Pair:
    """An async context manager: two Pods, and the right to their Lease."""

    def __init__(self, control_plane: ControlPlane, ground: Ground, *, folder: Path, ports: FreePorts) -> None:
        self._control_plane = control_plane
        self._ground = ground
        self._folder = folder
        self._ports = ports
        self._cleanup = AsyncExitStack()
        self.replicas: list[Replica] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            for replica in self.replicas:
                replica.go_on()
                await self._control_plane.stop(replica.scheduler)
            await self._cleanup.aclose()
            for replica in self.replicas:
                await self._ground.api.delete(f"/api/v1/namespaces/{_NAMESPACE}/pods/{replica.name}", params=_AT_ONCE)

    async def up(self, election: Mapping[str, Any]) -> None:
        """Both run, and one leads."""
        port = self._ports.take()
        for letter, address in (("a", "127.0.0.2"), ("b", "127.0.0.3")):
            name = f"{self._ground.name}-{letter}"
            service = await self._service(name, f"{address}:{port}", election)
            replica = Replica(name, address, self._control_plane, service)
            self.replicas.append(replica)
            if letter == "a":
                await self._give_rights(service)
            await self._make_pod(replica)
        for replica in self.replicas:
            await replica.start()
        await self.leader()

    async def _service(self, name: str, agents: str, election: Mapping[str, Any]) -> SlackwaterProcess:
        folder = self._folder / name
        folder.mkdir()
        settings = {
            "leaderElection": {"mode": "scheduler", "resourceName": self._ground.name, **election},
            "listeners": {"agents": {"address": agents}},
        }
        kubeconfig = self._control_plane.kubeconfig("slackwater")
        process = SlackwaterProcess(
            folder=folder, kubeconfig=kubeconfig, ports=self._ports, settings=settings, run_by=as_host(name)
        )
        return await self._cleanup.enter_async_context(process)

    async def _give_rights(self, service: SlackwaterProcess) -> None:
        """Of the Pods' one account, to the two that play it here."""
        role = rbac.lease_role(load(str(service.config)))
        assert role is not None
        role["metadata"]["name"] = self._ground.name
        await create(self._ground.api, f"{_ROLES}/roles", role)
        binding = rbac.binding(role, rbac.user("slackwater"))
        binding["subjects"].append(rbac.user("system:kube-scheduler"))
        await create(self._ground.api, f"{_ROLES}/rolebindings", binding)

    async def _make_pod(self, replica: Replica) -> None:
        """As a kubelet would tell of it."""
        path = f"/api/v1/namespaces/{_NAMESPACE}/pods"
        spec = {"schedulerName": "nobody", "containers": [{"name": "slackwater", "image": "example/slackwater"}]}
        meta = {"name": replica.name, "labels": {"name": "slackwater"}}
        await create(self._ground.api, path, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        status = {"status": {"podIP": replica.address, "podIPs": [{"ip": replica.address}]}}
        async with self._ground.api.patch(f"{path}/{replica.name}/status", json=status, headers=MERGE_PATCH) as answer:
            assert answer.status == 200, await answer.text()

    async def leader(self, *, of: "list[Replica] | None" = None) -> Replica:
        """The one that leads, of those that answer."""
        asked = self.replicas if of is None else of

        async def look() -> list[Replica]:
            return [replica for replica in asked if await replica.leads()]

        found = await eventually(
            look, lambda leading: len(leading) == 1, within_seconds=LEADS_WITHIN_SECONDS, wanted="one that leads"
        )
        return found[0]

    def other(self, replica: Replica) -> Replica:
        return next(one for one in self.replicas if one is not replica)

    def logs(self) -> list[tuple[str, str]]:
        """The end of each log."""
        return [(f"end of the log of {one.name}", "\n".join(one.service.log.splitlines()[-60:])) for one in self.replicas]


_AT_ONCE: Final = {"gracePeriodSeconds": "0"}


def as_host(name: str) -> list[str]:
    """A command that runs a program under another host name, as a Pod has its own."""
    unshare = shutil.which("unshare")
    assert unshare is not None, "util-linux' unshare is needed, to give each process a host name"
    return [unshare, "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', name]
