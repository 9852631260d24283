"""Devices as JSON, for clusters in files: slices, classes, claims, templates, and pods that use them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from slackwater.app.offline import placement_lines
from slackwater.app.offline.cluster import Cluster, read_cluster
from slackwater.app.offline.version import VersionRequest
from slackwater.model.kubernetes_rules import KubernetesVersion
from tests.support.answers import json_of
from tests.support.manifests import owned_by

Obj = dict[str, Any]
DRIVER: Final = "gpu.example.com"
GROUP: Final = "slackwater.dev/node-group"
_API: Final = "resource.k8s.io/v1"
OF_DRIVER: Final = f'device.driver == "{DRIVER}"'


def node_body(name: str, *, cpu: str = "8", group: str | None = None, **has: str) -> Obj:
    labels = {"kubernetes.io/hostname": name, **({} if group is None else {GROUP: group})}
    allocatable = {"cpu": cpu, "memory": "32Gi", "pods": "110", **{key.replace("__", "/"): value for key, value in has.items()}}
    status = {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def device(
    name: str, *, memory: str = "80Gi", taints: Sequence[Obj] = (), more: Mapping[str, Any] | None = None, **values: Any
) -> Obj:
    """A device; `values` are attributes: texts, whole numbers, true or false."""
    kinds: dict[type, str] = {bool: "bool", int: "int", str: "string"}
    attributes = {key: {kinds[type(value)]: value} for key, value in values.items()}
    body: Obj = {"name": name, "attributes": attributes, "capacity": {"memory": {"value": memory}}, **(more or {})}
    return {**body, "taints": list(taints)} if taints else body


def slice_body(node: str, *devices: Obj, name: str = "", **spec: Any) -> Obj:
    """A slice of one node, or with `spec` another one."""
    where = {} if {"allNodes", "nodeSelector", "perDeviceNodeSelection"} & spec.keys() else {"nodeName": node}
    pool = spec.pop("pool", {"name": node, "generation": 1, "resourceSliceCount": 1})
    body = {"driver": DRIVER, "pool": pool, "devices": list(devices), **where, **spec}
    return {"apiVersion": _API, "kind": "ResourceSlice", "metadata": {"name": name or f"slice-of-{node}"}, "spec": body}


def gpus(node: str, count: int, **values: Any) -> Obj:
    """A slice of so many equal devices."""
    return slice_body(node, *(device(f"gpu-{at}", model="h100", **values) for at in range(count)))


def taint_rule_body(name: str, effect: str = "NoSchedule", *, key: str = "sick", **selector: str) -> Obj:
    """A rule for all devices, or for those that the names in `selector` (driver, pool, device) select."""
    spec = {"deviceSelector": selector, "taint": {"key": key, "value": "yes", "effect": effect}}
    return {"apiVersion": _API, "kind": "DeviceTaintRule", "metadata": {"name": name}, "spec": spec}


def class_body(name: str = "gpu", *selectors: str, resource: str | None = None) -> Obj:
    spec: Obj = {"selectors": [{"cel": {"expression": each}} for each in selectors or (OF_DRIVER,)]}
    if resource is not None:
        spec["extendedResourceName"] = resource
    return {"apiVersion": _API, "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def ask(count: int | str = 1, *selectors: str, of: str = "gpu", **more: Any) -> Obj:
    """What a request asks for; `count` may be "All"."""
    how = {"allocationMode": "All"} if count == "All" else {"allocationMode": "ExactCount", "count": count}
    body: Obj = {"deviceClassName": of, **how, **more}
    return {**body, "selectors": [{"cel": {"expression": each}} for each in selectors]} if selectors else body


def devices_of(*asks: Obj | list[Obj], constraints: Sequence[Obj] = ()) -> Obj:
    """The spec of a claim with one request for each ask, named r0, r1 and so on; a list of asks are alternatives."""
    requests = [
        {"name": f"r{at}", "firstAvailable" if isinstance(each, list) else "exactly": each} for at, each in enumerate(asks)
    ]
    return {"devices": {"requests": requests, "constraints": list(constraints)}}


def template_body(spec: Obj, name: str = "template") -> Obj:
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": _API, "kind": "ResourceClaimTemplate", "metadata": meta, "spec": {"spec": spec}}


def claim_body(name: str, spec: Obj, *devices: str, node: str | None = None, users: Sequence[str] = (), **result: Any) -> Obj:
    """A claim; `devices` are those of its allocation as pool/device, `users` the UIDs of the pods that use it."""
    status: Obj = {"reservedFor": [{"resource": "pods", "name": uid, "uid": uid} for uid in users]}
    if devices:
        results = [
            {"request": "r0", "driver": DRIVER, "pool": each.split("/")[0], "device": each.split("/")[1], **result}
            for each in devices
        ]
        status["allocation"] = {"devices": {"results": results}}
    if node is not None:
        fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
        status["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": fields}]}
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return {"apiVersion": _API, "kind": "ResourceClaim", "metadata": meta, "spec": spec, "status": status}


def pod_body(name: str, *claims: str, template: str | None = None, on: str | None = None, requests: Obj | None = None) -> Obj:
    """A pod that uses the named claims, or one made from a template."""
    spec: Obj = {
        "containers": [
            {"name": "app", "image": "app:1", "resources": {"requests": {"cpu": "1", "memory": "1Gi", **(requests or {})}}}
        ]
    }
    uses = [{"name": f"use-{at}", "resourceClaimName": each} for at, each in enumerate(claims)]
    if template is not None:
        uses.append({"name": "made", "resourceClaimTemplateName": template})
    if uses:
        spec["resourceClaims"] = uses
    if on is not None:
        spec["nodeName"] = on
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", **owned_by("web")}
    status = {"phase": "Running" if on else "Pending"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}


def cluster_of(*items: Obj, version: str | None = None, **gates: bool) -> Cluster:
    """The cluster of a file with these objects, by the rules of `version` and `gates`."""
    followed = None if version is None else KubernetesVersion.parse(version, gates)
    return read_cluster({"apiVersion": "v1", "kind": "List", "items": list(items)}, request=VersionRequest(version=followed))


def judged(*items: Obj) -> list[Obj]:
    """The lines of `simulate placement` for a cluster of these objects."""
    return list(map(json_of, placement_lines(cluster_of(*items))))


def fitting(*items: Obj) -> list[str]:
    """The nodes that the only pending pod fits on."""
    (line,) = judged(*items)
    found: list[str] = line["feasible"]
    return found


def in_turn(*items: Obj) -> list[tuple[str | None, list[str]]]:
    """The node and the devices (pool/device) of each pending pod, placed one after another."""
    lines = map(json_of, placement_lines(cluster_of(*items), sequential=True))
    return [(line["node"], [each["device"].partition("/")[2] for each in line.get("devices", ())]) for line in lines]
