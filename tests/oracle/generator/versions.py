"""What only some versions of Kubernetes read: drivers that nodes must have, tolerations that compare.

Drawn from dice of its own, so that the rest of a cluster is the same whatever is added here.
"""

from collections.abc import Sequence
from typing import Final

from slackwater.adapters.kube.devices import taint_rule_api
from slackwater.model.kubernetes_rules import KubernetesVersion, Rule
from tests.oracle.generator.devices import DeviceLimits
from tests.oracle.generator.draw import Draw, Obj
from tests.oracle.generator.labels import HOSTNAME
from tests.oracle.generator.nodes import TAINT_KEYS
from tests.oracle.generator.storage import CSI, named

#: Values of taints; the last ones are no integers to kube-scheduler, which takes neither leading zeros nor more than 64 bits.
_VALUES: Final = ("5", "10", "10", "20", "0", "9223372036854775807", "9223372036854775808", "010", "a", "")
#: Limits of tolerations; the API server allows integers only.
_LIMITS: Final = ("5", "10", "10", "20", "-3", "0", "9223372036854775807")
#: The gate without which the API server refuses tolerations that compare.
COMPARISONS: Final = "TaintTolerationComparisonOperators"
#: The class of the additional claims.
_WAITING: Final = "later"
_BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_EFFECTS: Final = ("NoSchedule", "NoSchedule", "NoExecute", "PreferNoSchedule", "")


def device_limits(version: KubernetesVersion) -> DeviceLimits:
    """What kube-scheduler of this version gets wrong, or differently each time, and clusters to compare with it leave out."""
    old = version.minor < 36
    rules = taint_rule_api(version) if version.follows(Rule.DEVICE_TAINT_RULES) else None
    # The older allocator of 1.36 and 1.37, which takes pools in Go's random order.
    stable = not (version.follows(Rule.CONSUMABLE_CAPACITY) or version.follows(Rule.BINDING_CONDITIONS))
    return DeviceLimits(
        one_pool=old or stable,
        plain_claims=old,
        no_all=version.minor == 35 and version.follows(Rule.PARTITIONABLE_DEVICES),
        unallocated_scores=version.minor == 35,
        taint_rules=rules,
    )


def add_by_version(draw: Draw, nodes: Sequence[Obj], storage: list[Obj]) -> None:
    """Changes objects of a cluster in place, and adds to its storage."""
    _need_drivers(draw, nodes, storage)


def add_comparisons(draw: Draw, cluster: Obj) -> None:
    """Adds tolerations that compare, and taints for them, to some clusters: for versions where the gate is on."""
    if draw.chance(0.4):
        items = cluster["items"]
        _compare(
            draw, [thing for thing in items if thing["kind"] == "Node"], [thing for thing in items if thing["kind"] == "Pod"]
        )


def make_scorable(cluster: Obj) -> None:
    """Takes out what kube-scheduler 1.37 crashes on where VolumeBinding scores: a CSIStorageCapacity with a largest volume and
    no capacity, and a claim that names its class by an annotation only (volume_binding.go reads both fields unasked)."""
    for thing in cluster["items"]:
        if thing["kind"] == "CSIStorageCapacity" and "maximumVolumeSize" in thing:
            thing.setdefault("capacity", thing["maximumVolumeSize"])
        if thing["kind"] == "PersistentVolumeClaim":
            notes = thing["metadata"].get("annotations") or {}
            if (named_so := notes.get(_BETA_CLASS)) is not None:
                thing["spec"].setdefault("storageClassName", named_so)


def drop_allocations(cluster: Obj) -> None:
    """Takes the allocations out of all claims of devices."""
    for thing in cluster["items"]:
        if thing["kind"] == "ResourceClaim":
            thing["status"] = {}


def add_room(draw: Draw, cluster: Obj) -> None:
    """Adds what VolumeBinding scores by to some clusters: published room for new volumes, different from node to node, and pods
    that ask for such volumes."""
    items = cluster["items"]
    if draw.chance(0.8) or not any(
        thing["kind"] == "StorageClass" and thing["metadata"]["name"] == _WAITING for thing in items
    ):
        return
    for driver in (thing for thing in items if thing["kind"] == "CSIDriver"):
        driver["spec"] |= {"storageCapacity": True, "preventPodSchedulingIfMissing": False}
    for node in [thing["metadata"] for thing in items if thing["kind"] == "Node"]:
        if HOSTNAME in node["labels"]:
            made = named("CSIStorageCapacity", f"of-{node['name']}".lower(), storageClassName=_WAITING)
            made["metadata"]["namespace"] = "default"
            made["nodeTopology"] = {"matchLabels": {HOSTNAME: node["labels"][HOSTNAME]}}
            made["capacity"] = draw.pick(("20Gi", "50Gi", "100Gi", "130Gi"))
            items.append(made)
    for number in range(draw.number(1, 3)):
        items += _pod_with_claims(draw, number)


def _pod_with_claims(draw: Draw, number: int) -> list[Obj]:
    names = [f"room-{number}-{each}" for each in range(draw.number(1, 2))]
    claims = [named("PersistentVolumeClaim", name, group="v1") for name in names]
    for claim in claims:
        claim["metadata"]["namespace"] = "default"
        size = draw.pick(("1Gi", "7Gi", "15Gi", "40Gi"))
        asked = {"resources": {"requests": {"storage": size}}, "accessModes": ["ReadWriteOnce"]}
        claim["spec"] = {"storageClassName": _WAITING, **asked}
    mounts = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    pod = named("Pod", f"room-{number}", group="v1", spec={"containers": [{"name": "c", "image": "c:1"}], "volumes": mounts})
    pod["metadata"]["namespace"] = "default"
    return [*claims, pod]


def _need_drivers(draw: Draw, nodes: Sequence[Obj], storage: list[Obj]) -> None:
    csi_nodes = [thing for thing in storage if thing["kind"] == "CSINode"]
    if not csi_nodes:
        # Without any our side takes them for unknown.
        storage.append(named("CSINode", nodes[0]["metadata"]["name"], spec={"drivers": []}))
    for driver in (thing for thing in storage if thing["kind"] == "CSIDriver"):
        if draw.chance(0.4):
            driver["spec"]["preventPodSchedulingIfMissing"] = draw.chance(0.7)
    for node in csi_nodes:
        notes = node["metadata"].get("annotations")
        if notes and draw.chance(0.5):
            notes["storage.alpha.kubernetes.io/migrated-plugins"] += ",kubernetes.io/portworx-volume"
        if draw.chance(0.15):
            node["spec"]["drivers"] = [made for made in node["spec"]["drivers"] if made["name"] != CSI]


def _compare(draw: Draw, nodes: Sequence[Obj], pods: Sequence[Obj]) -> None:
    for node in nodes:
        taints = node["spec"].setdefault("taints", [])
        if not taints and draw.chance(0.5):
            taints.append({"key": draw.pick(TAINT_KEYS), "effect": draw.pick(_EFFECTS[:-1])})
        for taint in taints:
            if draw.chance(0.7):
                taint["value"] = draw.pick(_VALUES)
    for pod in pods:
        for _ in range(draw.number(0, 3)):
            toleration = {"key": draw.pick(TAINT_KEYS), "operator": draw.pick(("Gt", "Lt")), "value": draw.pick(_LIMITS)}
            if effect := draw.pick(_EFFECTS):
                toleration["effect"] = effect
            pod["spec"].setdefault("tolerations", []).append(toleration)
