"""A controller of Cluster API's objects that behaves towards an autoscaler as the real ones do, over any API server.

`step` looks once: a MachineDeployment gets its MachineSet, a MachineSet or MachinePool as many Machines as its size says; where
it has too many, marked ones go first, then those without a node, then the youngest. `settle` lets machines boot, and those that
are being deleted go. Deliberately absent: infrastructure, versions and roll-outs.
"""

from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

import msgspec

from slackwater.adapters.api_calls import MERGE_PATCH, ApiCalls, Response, ask, get

Json = dict[str, Any]

GROUP_PATH: Final = "/apis/cluster.x-k8s.io/v1beta1"
MARK: Final = "cluster.x-k8s.io/delete-machine"
NODES: Final = "/api/v1/nodes"
_FINALIZER: Final = "machine.cluster.x-k8s.io"
_FINE: Final = frozenset({200, 201, 202, 404, 409})
PLURALS: Final = {"MachineDeployment": "machinedeployments", "MachineSet": "machinesets", "MachinePool": "machinepools"}


@dataclass
class MachineController:
    """Of one namespace. `deleted` are the names of the Machines that it chose itself, in order."""

    api: ApiCalls
    namespace: str
    node_labels: dict[str, str] = field(default_factory=dict)
    #: What a new Node has; nothing: whoever plays the kubelet says.
    capacity: dict[str, str] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    _numbers: "count[int]" = field(default_factory=count)

    async def step(self) -> None:
        for deployment in await self.items("machinedeployments"):
            await self._keep_set(deployment)
        for kind in ("MachineSet", "MachinePool"):
            for group in await self.items(PLURALS[kind]):
                await self._keep_machines(kind, group)

    async def settle(self) -> None:
        """Until nothing is left to do."""
        await self.step()
        for machine in await self.items("machines"):
            if "deletionTimestamp" in machine["metadata"]:
                await self._go(machine)
            elif not machine.get("status", {}).get("nodeRef") and "failureReason" not in machine.get("status", {}):
                await self._boot(machine)
        await self.step()

    async def fail(self, reason: str) -> None:
        """What has no node will not get one."""
        for machine in await self.items("machines"):
            if not machine.get("status", {}).get("nodeRef"):
                status = {"failureReason": reason, "failureMessage": "the machine did not start", "phase": "Failed"}
                await self._patch(f"{self._path('machines')}/{machine['metadata']['name']}/status", {"status": status})

    async def items(self, plural: str) -> list[Json]:
        answer = await get(self.api, self._path(plural))
        assert answer.status in (200, 404), answer
        return list(msgspec.json.decode(answer.body)["items"]) if answer.status == 200 else []

    async def create(self, plural: str, body: Json) -> None:
        await self._send("POST", self._path(plural), body)

    # How it is done.

    async def _keep_set(self, deployment: Json) -> None:
        meta, spec = deployment["metadata"], deployment["spec"]
        mine = [item for item in await self.items("machinesets") if _owned_by(item, meta["uid"])]
        if not mine:
            body = _object("MachineSet", f"{meta['name']}-1", _owner("MachineDeployment", meta))
            await self.create("machinesets", {**body, "spec": {"replicas": spec["replicas"], "template": spec["template"]}})
        elif mine[0]["spec"]["replicas"] != spec["replicas"]:
            path = f"{self._path('machinesets')}/{mine[0]['metadata']['name']}"
            await self._patch(path, {"spec": {"replicas": spec["replicas"]}})

    async def _keep_machines(self, kind: str, group: Json) -> None:
        meta = group["metadata"]
        mine = [item for item in await self.items("machines") if _owned_by(item, meta["uid"])]
        alive = [item for item in mine if "deletionTimestamp" not in item["metadata"]]
        missing = group["spec"]["replicas"] - len(alive)
        for _ in range(missing):
            body = _object("Machine", f"{meta['name']}-{next(self._numbers):03}", _owner(kind, meta))
            body["metadata"]["finalizers"] = [_FINALIZER]
            await self.create("machines", {**body, "spec": {"clusterName": "here"}})
        for machine in sorted(alive, key=_last)[: max(-missing, 0)]:
            self.deleted.append(machine["metadata"]["name"])
            await self._send("DELETE", f"{self._path('machines')}/{machine['metadata']['name']}", {})

    async def _boot(self, machine: Json) -> None:
        name = machine["metadata"]["name"]
        path, id_ = f"{self._path('machines')}/{name}", f"machines://{self.namespace}/{name}"
        meta = {"name": f"node-{name}", "labels": self.node_labels}
        status = {"capacity": self.capacity, "allocatable": self.capacity}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {"providerID": id_}, "status": status}
        await self._send("POST", NODES, node)
        await self._patch(path, {"spec": {"providerID": id_}})
        await self._patch(f"{path}/status", {"status": {"nodeRef": {"name": f"node-{name}"}, "phase": "Running"}})

    async def _go(self, machine: Json) -> None:
        name = machine["metadata"]["name"]
        await self._send("DELETE", f"{NODES}/node-{name}", {})
        await self._patch(f"{self._path('machines')}/{name}", {"metadata": {"finalizers": None}})

    async def _patch(self, path: str, patch: Json) -> None:
        await self._send("PATCH", path, patch, MERGE_PATCH)

    async def _send(self, method: str, path: str, body: Json, content_type: str = "application/json") -> Response:
        answer = await ask(self.api, method, path, body=body, content_type=content_type)
        assert answer.status in _FINE, f"{method} {path}: {answer}"
        return answer

    def _path(self, plural: str) -> str:
        return f"{GROUP_PATH}/namespaces/{self.namespace}/{plural}"


def a_scaled(kind: str, name: str, *, replicas: int, annotations: dict[str, str], labels: dict[str, str] | None = None) -> Json:
    """A MachineDeployment, MachineSet or MachinePool."""
    body = _object(kind, name, None)
    body["metadata"] |= {"annotations": annotations, "labels": labels or {}}
    return {**body, "spec": {"clusterName": "here", "replicas": replicas, "template": {"spec": {"clusterName": "here"}}}}


def sizes(smallest: int, largest: int) -> dict[str, str]:
    """The annotations that opt a group in."""
    prefix = "cluster.x-k8s.io/cluster-api-autoscaler-node-group"
    return {f"{prefix}-min-size": str(smallest), f"{prefix}-max-size": str(largest)}


def _object(kind: str, name: str, owner: Json | None) -> Json:
    meta: Json = {"name": name, "ownerReferences": [] if owner is None else [owner]}
    return {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": kind, "metadata": meta}


def _owner(kind: str, meta: Json) -> Json:
    ids = {"name": meta["name"], "uid": meta["uid"]}
    return {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": kind, **ids, "controller": True}


def _owned_by(item: Json, uid: str) -> bool:
    return any(owner["uid"] == uid for owner in item["metadata"].get("ownerReferences", ()))


def _last(machine: Json) -> tuple[bool, bool, str]:
    """Who goes first."""
    meta = machine["metadata"]
    has_node = bool(machine.get("status", {}).get("nodeRef"))
    return MARK not in meta.get("annotations", {}), has_node, "".join(chr(0x10FFFF - ord(c)) for c in meta["name"])
