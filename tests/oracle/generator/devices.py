"""Devices: slices of several kinds, classes, claims in every state, templates, and pods that use them.

Added to a cluster that exists already, with dice of its own, so that clusters without devices stay as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.oracle.generator.deviceasks import CLASSES, RESOURCE, spec
from tests.oracle.generator.draw import Draw, Obj
from tests.oracle.generator.labels import NODE_LABELS, ZONE

API: Final = "resource.k8s.io/v1"
GPU: Final = "gpu.example.com"
NIC: Final = "nic.example.com"
#: The resources that are named for classes, two of which back one resource in addition.
_IMPLICIT: Final = tuple(f"deviceclass.resource.kubernetes.io/{name}" for name in ("big", "gpu", "gpu-two"))
_TAINTS: Final = (
    {"key": "gpu.example.com/sick", "effect": "NoSchedule"},
    {"key": "gpu.example.com/sick", "value": "yes", "effect": "NoExecute"},
    {"key": "gpu.example.com/old", "effect": "None"},
)
_LEAVING: Final = "2026-01-01T00:00:00Z"
_SINCE: Final = {"lastTransitionTime": _LEAVING}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceLimits:
    """What clusters leave out because a version of kube-scheduler gets it wrong, or chooses at random.

    `one_pool`: each node reaches one pool at most. Before 1.36, and later where the older allocator is used, pools come in Go's
    random order of maps, so which device is taken, and whether a selector that fails is met, differs from run to run.
    `plain_claims`: no `distinctAttribute`, which 1.34 compares by address and the API server of 1.35 does not store; and no
    `All` among alternatives, where both lose the place. `unallocated_scores`: no allocated claims where scores are compared:
    1.35 fails on a pod that has one, and one to allocate.
    `taint_rules`: the version of the API that has DeviceTaintRules; None: none, since the gate is off.
    """

    one_pool: bool = False
    plain_claims: bool = False
    no_all: bool = False
    unallocated_scores: bool = False
    taint_rules: str | None = None


NO_LIMITS: Final = DeviceLimits()


def add_devices(draw: Draw, items: list[Obj], namespaces: Sequence[str], limits: DeviceLimits = NO_LIMITS) -> list[Obj]:
    """The items with devices, and with pods that use them."""
    nodes = [item["metadata"]["name"] for item in items if item["kind"] == "Node"]
    local, networked = _local(draw, nodes, limits), _networked(draw, nodes)
    if limits.one_pool:
        local, networked = (local, []) if draw.chance(0.8) else ([], networked[:1])
    slices = [*local, *networked]
    claims = [_claim(draw, f"claim-{i}", draw.pick(namespaces)) for i in range(draw.number(2, 8))]
    claims = list({(each["metadata"]["namespace"], each["metadata"]["name"]): each for each in claims}.values())
    pods = [item for item in items if item["kind"] == "Pod"]
    made: list[Obj] = []
    for pod in pods:
        made += _use(draw, pod, claims)
    if limits.plain_claims:
        _make_plain([*claims, *made], no_all=limits.no_all)
    _allocate(draw, [*claims, *made], slices, nodes)
    for item in items:
        if item["kind"] == "Node" and draw.chance(0.25):
            for amounts in item["status"].values():
                if isinstance(amounts, dict):
                    amounts[RESOURCE] = "2" if draw.chance(0.6) else "0"
    rules = [] if limits.taint_rules is None else _taint_rules(draw, slices, limits.taint_rules)
    return [*items, *slices, *_classes(draw), *claims, *made, *rules]


def _make_plain(claims: Sequence[Obj], *, no_all: bool) -> None:
    for claim in claims:
        devices = claim["spec"]["devices"]
        if "constraints" in devices:
            devices["constraints"] = [each for each in devices["constraints"] if "distinctAttribute" not in each]
        for request in devices["requests"]:
            asks = [*request.get("firstAvailable", ()), *([request["exactly"]] if no_all and "exactly" in request else ())]
            for ask in asks:
                if ask.get("allocationMode") == "All":
                    ask["allocationMode"] = "ExactCount"


def _object(kind: str, name: str, *, namespace: str = "", **rest: Any) -> Obj:
    meta: Obj = {"name": name, "uid": f"uid-{kind}-{namespace}-{name}"}
    if namespace:
        meta["namespace"] = namespace
    return {"apiVersion": API, "kind": kind, "metadata": meta, **rest}


def _classes(draw: Draw) -> list[Obj]:
    made = []
    for name, (selectors, resource) in CLASSES.items():
        if name == "gone" or draw.chance(0.04):
            continue
        body: Obj = {"selectors": [{"cel": {"expression": each}} for each in selectors]} if selectors else {}
        if resource:
            body["extendedResourceName"] = resource
        made.append(_object("DeviceClass", name, spec=body))
        made[-1]["metadata"]["creationTimestamp"] = draw.pick(("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"))
    return made


# --- slices -----------------------------------------------------------------------------------------------------------------


def _local(draw: Draw, nodes: Sequence[str], limits: DeviceLimits) -> list[Obj]:
    """Slices of single nodes: most nodes have one pool, of one or two slices."""
    made: list[Obj] = []
    for node in nodes:
        if draw.chance(0.2):
            continue
        if draw.chance(0.25):
            made += _partitioned(draw, node)
            if draw.chance(0.5) and not limits.one_pool:
                made += _second_driver(draw, node)
            continue
        sizes = draw.pick(([1], [2], [3], [4], [2, 1], [8], [0]))
        first = 0
        generation = draw.number(1, 3)
        for number, size in enumerate(sizes):
            devices = [gpu(draw, f"gpu-{first + i}") for i in range(size)]
            first += size
            made.append(
                slice_of(f"{node}-{number}", GPU, node, devices, generation=generation, count=len(sizes), nodeName=node)
            )
        _disturb(draw, made, node, generation)
    return made


def _disturb(draw: Draw, made: list[Obj], node: str, generation: int) -> None:
    """Makes the node's pool odd now and then: incomplete, partly of an older generation, or with a device twice."""
    how = draw.number(0, 19)
    # All slices of a pool state the same number: which of them kube-scheduler believes depends on chance.
    own = [each for each in made if each["spec"]["pool"]["name"] == node]
    if how in (0, 2):
        for each in own:
            each["spec"]["pool"]["resourceSliceCount"] += 1
    if how == 0:
        return
    if how == 1:
        made.append(slice_of(f"{node}-old", GPU, node, [gpu(draw, "gpu-0")], generation=generation - 1, count=1, nodeName=node))
    elif how == 2:
        count = own[0]["spec"]["pool"]["resourceSliceCount"]
        made.append(
            slice_of(f"{node}-twice", GPU, node, [gpu(draw, "gpu-0")], generation=generation, count=count, nodeName=node)
        )


def slice_of(name: str, driver: str, pool: str, devices: list[Obj], *, generation: int, count: int, **rest: Any) -> Obj:
    """A ResourceSlice; `count` is that of its pool's slices, `rest` says where the devices are."""
    body: Obj = {
        "driver": driver,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": max(1, count)},
        **rest,
    }
    if devices:
        body["devices"] = devices
    return _object("ResourceSlice", f"slice-{name}", spec=body)


def gpu(draw: Draw, name: str) -> Obj:
    """A device that may lack any attribute, be shared, tainted, or bound late."""
    attributes: Obj = {
        "model": {"string": draw.pick(("a100", "h100", "h100"))},
        "index": {"int": draw.number(0, 3)},
        "numa": {"int": draw.number(0, 1)},
        "fast": {"bool": draw.chance(0.5)},
        "version": {"version": draw.pick(("1.2.0", "1.10.0", "2.0.0-rc.1"))},
        "rack.example.com/row": {"string": draw.pick(("r1", "r2"))},
    }
    for key in [*attributes]:
        if draw.chance(0.01 if key in ("model", "index") else 0.05):
            del attributes[key]
    device: Obj = {
        "name": name,
        "attributes": attributes,
        "capacity": {"memory": {"value": draw.pick(("40Gi", "80Gi", "1Ti"))}},
    }
    if draw.chance(0.1):
        device["taints"] = [draw.pick(_TAINTS)]
    if draw.chance(0.15):
        device["allowMultipleAllocations"] = True
        device["capacity"]["memory"]["requestPolicy"] = draw.pick(
            (
                {"default": "10Gi", "validRange": {"min": "10Gi", "max": "30Gi", "step": "10Gi"}},
                {"default": "20Gi", "validValues": ["10Gi", "20Gi", "40Gi"]},
                {"default": "40Gi", "validRange": {"min": "1Gi"}},
            )
        )
    if draw.chance(0.06):
        device["bindingConditions"], device["bindingFailureConditions"] = ["gpu.example.com/ready"], ["gpu.example.com/broken"]
        if draw.chance(0.5):
            device["bindsToNode"] = True
    return device


def _partitioned(draw: Draw, node: str) -> list[Obj]:
    """One GPU, whole or in parts that share its memory."""
    parts = [
        {
            **gpu(draw, f"part-{i}"),
            "consumesCounters": [{"counterSet": "gpu", "counters": {"memory": {"value": draw.pick(("20Gi", "40Gi", "80Gi"))}}}],
        }
        for i in range(draw.number(2, 5))
    ]
    counters = [{"name": "gpu", "counters": {"memory": {"value": draw.pick(("80Gi", "60Gi"))}, "engines": {"value": "7"}}}]
    if draw.chance(0.5):
        parts[0]["consumesCounters"][0]["counters"]["engines"] = {"value": draw.pick(("3", "7"))}
    if draw.chance(0.05):
        parts[-1]["consumesCounters"][0]["counterSet"] = "no-such-set"
    return [
        slice_of(f"{node}-counters", GPU, node, [], generation=1, count=2, nodeName=node, sharedCounters=counters),
        slice_of(f"{node}-parts", GPU, node, parts, generation=1, count=2, nodeName=node),
    ]


def _second_driver(draw: Draw, node: str) -> list[Obj]:
    """A pool of another driver that has the same name, with counters of the same name or another."""
    return _counted(draw, node, draw.pick(("gpu", "nic")), nodeName=node)


def _counted(draw: Draw, pool: str, counters: str, **where: Any) -> list[Obj]:
    """A pool of network cards that draw on counters; now and then one that is not complete, or whose counters are on the nodes
    of another zone."""
    nics = _nics(draw, 4)
    for nic in nics:
        amount = {"value": draw.pick(("20Gi", "30Gi", "40Gi"))}
        nic["consumesCounters"] = [{"counterSet": counters, "counters": {"memory": amount}}]
    shared = [{"name": counters, "counters": {"memory": {"value": draw.pick(("40Gi", "80Gi"))}}}]
    count = 3 if draw.chance(0.1) else 2
    elsewhere = {"nodeSelector": _in(draw, draw.pick(NODE_LABELS[ZONE]))} if draw.chance(0.15) else where
    return [
        slice_of(f"{pool}-nic-counters", NIC, pool, [], generation=1, count=count, sharedCounters=shared, **elsewhere),
        slice_of(f"{pool}-nics", NIC, pool, nics, generation=1, count=count, **where),
    ]


def _networked(draw: Draw, nodes: Sequence[str]) -> list[Obj]:
    """Slices that several nodes can use: by labels, everywhere, or device by device."""
    made: list[Obj] = []
    made += [
        slice_of(f"net-{zone}", NIC, f"net-{zone}", _nics(draw, 2), generation=1, count=1, nodeSelector=_in(draw, zone))
        for zone in NODE_LABELS[ZONE]
        if draw.chance(0.5)
    ]
    if draw.chance(0.4):
        zone = draw.pick(NODE_LABELS[ZONE])
        made += _counted(draw, f"counted-{zone}", "nic", nodeSelector=_in(draw, zone))
    if draw.chance(0.4):
        made.append(slice_of("everywhere", NIC, "everywhere", _nics(draw, 2), generation=1, count=1, allNodes=True))
    if draw.chance(0.4):
        devices = _nics(draw, 4)
        for device in devices:
            device.update(
                draw.pick(
                    (
                        {"allNodes": True},
                        {"nodeName": draw.pick(nodes)},
                        {"nodeSelector": _in(draw, draw.pick(NODE_LABELS[ZONE]))},
                    )
                )
            )
        made.append(slice_of("each", NIC, "each", devices, generation=1, count=1, perDeviceNodeSelection=True))
    return made


def _nics(draw: Draw, most: int) -> list[Obj]:
    return [
        {
            "name": f"nic-{i}",
            "attributes": {"speed": {"int": draw.pick((10, 100))}, "rack.example.com/row": {"string": draw.pick(("r1", "r2"))}},
        }
        for i in range(draw.number(1, most))
    ]


def _in(draw: Draw, zone: str) -> Obj:
    return {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": ZONE, "operator": draw.pick(("In", "In", "NotIn")), "values": [zone]}]}
        ]
    }


def _taint_rules(draw: Draw, slices: Sequence[Obj], api: str) -> list[Obj]:
    """Rules that taint a device, the devices of a pool or of a driver, those of one name, none, or now and then all."""
    made = []
    for number in range(draw.pick((0, 1, 1, 2, 4)) if slices else 0):
        body: Obj = {"taint": {"timeAdded": _LEAVING, **draw.pick(_TAINTS)}}
        if draw.chance(0.9):
            body["deviceSelector"] = _taint_selector(draw, draw.pick(slices)["spec"])
        made.append({**_object("DeviceTaintRule", f"rule-{number}", spec=body), "apiVersion": api})
    return made


def _taint_selector(draw: Draw, body: Obj) -> Obj:
    """A selector by some of the names of a device, one of them wrong now and then."""
    devices = [each["name"] for each in body.get("devices", ())]
    names = {"driver": body["driver"], "pool": body["pool"]["name"], "device": draw.pick(devices) if devices else "gpu-0"}
    wanted = draw.pick((("device",), ("pool",), ("pool",), ("driver", "pool"), ("pool", "device"), tuple(names), tuple(names)))
    if draw.chance(0.1):
        wanted = draw.pick(((), ("driver",)))
    return {key: "no-such-name" if draw.chance(0.05) else names[key] for key in wanted}


# --- claims and pods --------------------------------------------------------------------------------------------------------


def _claim(draw: Draw, name: str, namespace: str) -> Obj:
    claim = _object("ResourceClaim", name, namespace=namespace, spec=spec(draw), status={})
    if draw.chance(0.04):
        claim["metadata"] |= {"deletionTimestamp": _LEAVING, "finalizers": ["resource.kubernetes.io/delete-protection"]}
    return claim


def _use(draw: Draw, pod: Obj, claims: Sequence[Obj]) -> list[Obj]:
    """Lets the pod use devices in one of several ways; the claims that were made for it."""
    meta, body = pod["metadata"], pod["spec"]
    made: list[Obj] = []
    uses: list[Obj] = []
    for i in range(draw.pick((0, 1, 1, 1, 1, 2, 3))):
        name = f"use-{i}"
        if draw.chance(0.35):
            # A pod may name a claim twice; kube-scheduler then allocates devices twice, of which one set is lost.
            known = [use.get("resourceClaimName") for use in uses]
            here = [each["metadata"] for each in claims if each["metadata"]["namespace"] == meta["namespace"]]
            near = [each["name"] for each in here if each["name"] not in known]
            uses.append({"name": name, "resourceClaimName": draw.pick(near) if near and draw.chance(0.95) else "no-such-claim"})
            continue
        uses.append({"name": name, "resourceClaimTemplateName": "template"})
        made += _made_for(draw, pod, name)
    if uses:
        body["resourceClaims"] = uses
    if draw.chance(0.25):
        container = draw.pick([*body["containers"], *body.get("initContainers", ())])
        amounts = {draw.pick((RESOURCE, RESOURCE, *_IMPLICIT)): draw.pick(("1", "1", "2"))}
        resources = container.setdefault("resources", {})
        for key in ("requests", "limits"):
            resources[key] = {**resources.get(key, {}), **amounts}
    return made


def _made_for(draw: Draw, pod: Obj, use: str) -> list[Obj]:
    """The claim that the controller made for a pod from a template: nearly always there."""
    meta = pod["metadata"]
    if draw.chance(0.02):
        return []
    statuses = pod["status"].setdefault("resourceClaimStatuses", [])
    if draw.chance(0.03):
        statuses.append({"name": use})
        return []
    name = f"{meta['name']}-{use}-x"
    statuses.append({"name": use, "resourceClaimName": name})
    if draw.chance(0.02):
        return []
    claim = _claim(draw, name, meta["namespace"])
    owner = meta["uid"] if draw.chance(0.97) else "uid-of-another"
    claim["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": owner, "controller": True}
    ]
    return [claim]


def _allocate(draw: Draw, claims: Sequence[Obj], slices: Sequence[Obj], nodes: Sequence[str]) -> None:
    """Allocates some claims, with devices that exist, whether they would suit or not."""
    free = [(each, device) for each in slices for device in each["spec"].get("devices", ())]
    for claim in claims:
        requests = claim["spec"]["devices"]["requests"]
        if not free or draw.chance(0.7):
            continue
        where, device = free.pop(draw.number(0, len(free) - 1))
        first = requests[0]
        request = first["name"] if "exactly" in first else f"{first['name']}/{first['firstAvailable'][0]['name']}"
        body = where["spec"]
        result: Obj = {"request": request, "driver": body["driver"], "pool": body["pool"]["name"], "device": device["name"]}
        if draw.chance(0.05):
            result["adminAccess"] = True
        if device.get("allowMultipleAllocations"):
            free.append((where, device))
            result |= {
                "shareID": f"00000000-0000-4000-8000-{draw.number(0, 10**12 - 1):012}",
                "consumedCapacity": {"memory": "10Gi"},
            }
        status: Obj = {"allocation": {"devices": {"results": [result]}}}
        _binding(draw, device, result, status)
        node = body.get("nodeName") or (draw.pick(nodes) if draw.chance(0.3) else None)
        if node is not None:
            fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
            status["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": fields}]}
        elif draw.chance(0.5):
            status["allocation"]["nodeSelector"] = _in(draw, draw.pick(NODE_LABELS[ZONE]))
        if draw.chance(0.7) and "deletionTimestamp" not in claim["metadata"]:
            status["reservedFor"] = [{"resource": "pods", "name": "someone", "uid": "uid-of-someone"}]
        claim["status"] = status


def _binding(draw: Draw, device: Obj, result: Obj, status: Obj) -> None:
    if "bindingConditions" not in device:
        return
    result["bindingConditions"], result["bindingFailureConditions"] = (
        device["bindingConditions"],
        device["bindingFailureConditions"],
    )
    if draw.chance(0.8):
        kinds = draw.some([*device["bindingConditions"], *device["bindingFailureConditions"]], 1, 2)
        conditions = [
            {
                "type": kind,
                "status": draw.pick(("True", "True", "False")),
                "reason": "StatusSources",
                "message": "",
                "lastTransitionTime": _LEAVING,
            }
            for kind in kinds
        ]
        named = {key: result[key] for key in ("driver", "pool", "device", "shareID") if key in result}
        status["devices"] = [{**named, "conditions": conditions}]
