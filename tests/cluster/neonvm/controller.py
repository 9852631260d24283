"""A controller of virtual machines that behaves as NeonVM's does, towards a scheduler (neondatabase/autoscaling v0.36.1).

It looks at everything again and again and does the next step of what it finds. Each machine has a runner Pod, which bears the
machine's labels and annotations and no others; a migration makes a second one, and ends with the first one's deletion.
Deliberately absent: machines. KWOK says that the Pods run.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import aiohttp
import anyio

from tests.cluster.neonvm.crds import GROUP_PATH

Json = dict[str, Any]

MERGE: Final = {"content-type": "application/merge-patch+json"}
_LOOK_EVERY_SECONDS: Final = 0.15
_OK: Final = frozenset({200, 201, 202, 404, 409})
_NAME_LABEL: Final = "vm.neon.tech/name"
_RESOURCES: Final = "vm.neon.tech/resources"


@dataclass
class Controller:
    """`fails`: migrations of these machines end as Failed. `seconds`: how long a migration runs once its target does."""

    api: aiohttp.ClientSession
    namespace: str
    rng: Random
    seconds: float = 0.5
    fails: set[str] = field(default_factory=set)
    migrated: list[tuple[str, str]] = field(default_factory=list)  #: (machine, phase) of migrations that ended
    _running_since: dict[str, float] = field(default_factory=dict)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._look()
            await anyio.sleep(_LOOK_EVERY_SECONDS)

    async def _look(self) -> None:
        machines = await self._by_name(self._path("virtualmachines"))
        migrations = await self._by_name(self._path("virtualmachinemigrations"))
        pods = await self._by_name(self._pods)
        for machine in machines.values():
            await self._keep(machine, pods)
        for migration in migrations.values():
            moving = machines.get(migration["spec"]["vmName"])
            if moving is not None and "deletionTimestamp" not in migration["metadata"]:
                await self._migrate(migration, moving, pods)

    # --- machines ---------------------------------------------------------------------------------------------------------

    async def _keep(self, machine: Json, pods: Json) -> None:
        """The machine has a runner, which says what the machine says."""
        status = machine.get("status") or {}
        if not status.get("podName"):
            name = self._a_name(machine)
            await self._send("POST", self._pods, self._runner(name, machine, [_owner(machine, controller=True)]))
            await self._set_status(machine, podName=name, phase="Pending")
            return
        for pod in pods.values():
            if (pod["metadata"].get("labels") or {}).get(_NAME_LABEL) == machine["metadata"]["name"]:
                await self._same(machine, pod)
        runner = pods.get(status["podName"])
        if status["phase"] == "Pending" and runner is not None and runner["status"].get("phase") == "Running":
            await self._set_status(machine, phase="Running", **_place_of(runner))

    async def _same(self, machine: Json, pod: Json) -> None:
        """What was written on the pod alone goes."""
        want = _copied(machine)
        found = {part: pod["metadata"].get(part) or {} for part in ("labels", "annotations")}
        changes = {
            part: {
                **{key: value for key, value in want[part].items() if found[part].get(key) != value},
                **dict.fromkeys(found[part].keys() - want[part].keys()),
            }
            for part in want
        }
        if any(changes.values()):
            await self._patch(f"{self._pods}/{pod['metadata']['name']}", {"metadata": changes})

    def _runner(self, name: str, machine: Json, owners: Iterable[Json], **spec: Any) -> Json:
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "ownerReferences": list(owners), **_copied(machine)},
            "spec": {
                "schedulerName": machine["spec"]["schedulerName"],
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "neonvm-runner", "image": "example/runner"}],
                **spec,
            },
        }

    # --- migrations -------------------------------------------------------------------------------------------------------

    async def _migrate(self, migration: Json, machine: Json, pods: Json) -> None:
        phase = (migration.get("status") or {}).get("phase", "")
        if phase == "" and machine["status"].get("phase") == "Running":
            await self._begin(migration, machine, pods)
        elif phase == "Pending":
            await self._await_target(migration, machine, pods)
        elif phase == "Running" and anyio.current_time() >= self._running_since.get(migration["metadata"]["uid"], 0):
            await self._end(migration, machine, pods)

    async def _begin(self, migration: Json, machine: Json, pods: Json) -> None:
        name, source = self._a_name(machine), pods.get(machine["status"]["podName"])
        if source is None:
            return
        await self._set_status(machine, phase="PreMigrating")
        owned = {"metadata": {"ownerReferences": [_owner(machine, controller=True)]}}
        await self._patch(f"{self._path('virtualmachinemigrations')}/{migration['metadata']['name']}", owned)
        status = {"sourcePodName": source["metadata"]["name"], "sourceNode": source["spec"]["nodeName"], "targetPodName": name}
        await self._set_status(migration, phase="Pending", **status)
        apart = {
            "labelSelector": {"matchLabels": {_NAME_LABEL: machine["metadata"]["name"]}},
            "topologyKey": "kubernetes.io/hostname",
        }
        affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
        owners = [_owner(migration, controller=True), _owner(machine, controller=False)]
        await self._send("POST", self._pods, self._runner(name, machine, owners, affinity=affinity))
        both = [_owner(machine, controller=True), _owner(migration, controller=False)]
        await self._own(source["metadata"]["name"], both)

    async def _await_target(self, migration: Json, machine: Json, pods: Json) -> None:
        target = pods.get(migration["status"]["targetPodName"])
        if target is not None and target["status"].get("phase") == "Running":
            self._running_since[migration["metadata"]["uid"]] = anyio.current_time() + self.seconds * self.rng.uniform(0.5, 1.5)
            await self._set_status(machine, phase="Migrating")
            await self._set_status(migration, phase="Running", targetNode=target["spec"]["nodeName"])

    async def _end(self, migration: Json, machine: Json, pods: Json) -> None:
        name, status = machine["metadata"]["name"], migration["status"]
        failed = name in self.fails
        source, target = pods.get(status["sourcePodName"]), pods.get(status["targetPodName"])
        leaving = target if failed else source
        if failed:
            self.fails.discard(name)
            await self._set_status(machine, phase="Running")
            await self._own(status["sourcePodName"], [_owner(machine, controller=True)])
        elif target is not None:
            await self._own(status["targetPodName"], [_owner(machine, controller=True)])
            await self._set_status(machine, phase="Running", podName=status["targetPodName"], **_place_of(target))
            await self._own(status["sourcePodName"], [_owner(migration, controller=False), _owner(machine, controller=False)])
        self.migrated.append((name, "Failed" if failed else "Succeeded"))
        await self._set_status(migration, phase=self.migrated[-1][1])
        if leaving is not None:
            await self._send("DELETE", f"{self._pods}/{leaving['metadata']['name']}", {})

    # --- the API ----------------------------------------------------------------------------------------------------------

    @property
    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def _path(self, plural: str) -> str:
        return f"{GROUP_PATH}/namespaces/{self.namespace}/{plural}"

    def _a_name(self, machine: Json) -> str:
        return f"{machine['metadata']['name']}-{self.rng.getrandbits(24):06x}"

    async def _own(self, pod: str, owners: list[Json]) -> None:
        await self._patch(f"{self._pods}/{pod}", {"metadata": {"ownerReferences": owners}})

    async def _set_status(self, item: Json, **status: Any) -> None:
        plural = "virtualmachines" if item["kind"] == "VirtualMachine" else "virtualmachinemigrations"
        item["status"] = {**(item.get("status") or {}), **status}
        await self._patch(f"{self._path(plural)}/{item['metadata']['name']}/status", {"status": status})

    async def _patch(self, path: str, patch: Json) -> None:
        await self._send("PATCH", path, patch, headers=MERGE)

    async def _send(self, method: str, path: str, body: Json, **more: Any) -> None:
        async with self.api.request(method, path, json=body, **more) as answer:
            assert answer.status in _OK, f"{method} {path}: {answer.status} {await answer.text()}"

    async def _by_name(self, path: str) -> dict[str, Json]:
        async with self.api.get(path) as answer:
            assert answer.status == 200, await answer.text()
            return {item["metadata"]["name"]: item for item in (await answer.json())["items"]}


def _copied(machine: Json) -> dict[str, dict[str, str]]:
    """What the machine's runners have to say."""
    meta, guest = machine["metadata"], machine["spec"]["guest"]
    resources = json.dumps({part: guest[part] for part in ("cpus", "memorySlots", "memorySlotSize")})
    return {
        "labels": {**(meta.get("labels") or {}), _NAME_LABEL: meta["name"]},
        "annotations": {**(meta.get("annotations") or {}), _RESOURCES: resources},
    }


def _place_of(pod: Json) -> dict[str, str]:
    return {"node": pod["spec"]["nodeName"], "podIP": pod["status"].get("podIP", "")}


def _owner(item: Json, *, controller: bool) -> Json:
    return {
        "apiVersion": "vm.neon.tech/v1",
        "kind": "VirtualMachine" if "vmName" not in item["spec"] else "VirtualMachineMigration",
        "name": item["metadata"]["name"],
        "uid": item["metadata"]["uid"],
        "controller": controller,
    }
