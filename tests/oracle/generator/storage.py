"""Storage of a cluster: classes, drivers, capacities, what each node may attach and has attached."""

from collections.abc import Sequence
from typing import Final

from tests.oracle.generator.draw import Draw, Obj
from tests.oracle.generator.labels import NODE_LABELS, RACK, ZONE

CSI: Final = "csi.example.com"
EBS_CSI: Final = "ebs.csi.aws.com"
#: Drivers that attach what other plug-ins of old did.
_OTHER_DRIVERS: Final = ("pd.csi.storage.gke.io", "disk.csi.azure.com", "cinder.csi.openstack.org", "pxd.portworx.com")
#: Plug-ins of old that kubelets hand over to CSI drivers, node by node.
MIGRATED: Final = ("kubernetes.io/aws-ebs", "kubernetes.io/gce-pd", "kubernetes.io/azure-disk", "kubernetes.io/cinder")
#: Storage classes, and what is peculiar about each: one whose topology allows nothing, one that provisions nothing ...
CLASSES: Final = ("now", "later", "zoned", "static", "ebs", "metered", "default-mode")
#: The classes whose unbound claims wait for a pod.
WAITING: Final = ("later", "zoned", "static", "ebs", "metered")
_VOLUMES: Final = 8


def storage_objects(draw: Draw, node_names: Sequence[str]) -> list[Obj]:
    """Everything but volumes and claims."""
    return [
        *(_class(draw, name) for name in CLASSES if draw.chance(0.97)),
        *_drivers(draw),
        *_capacities(draw),
        *(node for name in node_names if (node := _csi_node(draw, name))),
        *_attachments(draw, node_names),
    ]


def named(kind: str, name: str, *, group: str = "storage.k8s.io/v1", **rest: object) -> Obj:
    return {"apiVersion": group, "kind": kind, "metadata": {"name": name, "uid": f"uid-{kind}-{name}".lower()}, **rest}


def _class(draw: Draw, name: str) -> Obj:
    provisioner = {"static": "kubernetes.io/no-provisioner", "ebs": "kubernetes.io/aws-ebs"}.get(name, CSI)
    made = named("StorageClass", name, provisioner=provisioner)
    if name != "default-mode":
        made["volumeBindingMode"] = "Immediate" if name == "now" else "WaitForFirstConsumer"
    if name == "zoned":
        terms = [_topology(draw) for _ in range(draw.number(1, 2))]
        made["allowedTopologies"] = terms if terms[0] != terms[-1] else terms[:1]
    return made


def _topology(draw: Draw) -> Obj:
    expressions = [{"key": ZONE, "values": sorted(draw.some(NODE_LABELS[ZONE], 1, 2))}]
    if draw.chance(0.3):
        expressions.append({"key": RACK, "values": sorted(draw.some(NODE_LABELS[RACK], 1, 2))})
    return {"matchLabelExpressions": expressions}


def _drivers(draw: Draw) -> list[Obj]:
    made = []
    if draw.chance(0.8):
        made.append(named("CSIDriver", CSI, spec={"attachRequired": True, "storageCapacity": draw.chance(0.6)}))
    if draw.chance(0.3):
        made.append(named("CSIDriver", EBS_CSI, spec={"storageCapacity": False}))
    return made


def _capacities(draw: Draw) -> list[Obj]:
    made = []
    for i in range(draw.number(1, 4)):
        capacity = named(
            "CSIStorageCapacity", f"capacity-{i}", storageClassName=draw.pick(("metered", "metered", "later", "zoned"))
        )
        capacity["metadata"]["namespace"] = "default"
        if draw.chance(0.85):
            zone = {"matchLabels": {ZONE: draw.pick(NODE_LABELS[ZONE])}}
            capacity["nodeTopology"] = draw.pick((zone, zone, {}))
        if draw.chance(0.9):
            capacity["capacity"] = draw.pick(("1Gi", "10Gi", "100Gi"))
        if draw.chance(0.3):
            capacity["maximumVolumeSize"] = draw.pick(("1Gi", "5Gi", "50Gi"))
        made.append(capacity)
    return made


def _csi_node(draw: Draw, name: str) -> Obj | None:
    if draw.chance(0.1):
        return None
    drivers = []
    for driver in (CSI, EBS_CSI, *_OTHER_DRIVERS):
        if draw.chance(0.3 if driver in _OTHER_DRIVERS else 0.85):
            made: Obj = {"name": driver, "nodeID": name, "topologyKeys": [ZONE]}
            if draw.about("limits", 0.9):
                made["allocatable"] = {"count": draw.pick((0, 1, 1, 1, 2))} if draw.chance(0.95) else {}
            drivers.append(made)
    node = named("CSINode", name, spec={"drivers": drivers})
    if draw.chance(0.6):
        plugins = draw.some(MIGRATED, 1, 4)
        node["metadata"]["annotations"] = {"storage.alpha.kubernetes.io/migrated-plugins": ",".join(plugins)}
    return node


def _attachments(draw: Draw, node_names: Sequence[str]) -> list[Obj]:
    made = []
    for i in range(draw.number(0, 4) if draw.about("limits", 0.6) else 0):
        source: Obj = {"persistentVolumeName": draw.pick([f"pv-{n}" for n in range(_VOLUMES)])}
        if draw.chance(0.1):
            disk = {"driver": CSI, "volumeHandle": "inline"}
            source = {"inlineVolumeSpec": {"accessModes": ["ReadWriteOnce"], "csi": disk}}
        spec = {"attacher": draw.pick((CSI, CSI, EBS_CSI)), "nodeName": draw.pick(node_names), "source": source}
        made.append(named("VolumeAttachment", f"attachment-{i}", spec=spec, status={"attached": draw.chance(0.9)}))
    return made
