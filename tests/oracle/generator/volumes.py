"""Persistent volumes and the claims on them: bound, waiting, lost, going, or of nothing that exists."""

from collections.abc import Sequence
from typing import Final

from tests.oracle.generator.draw import Draw, Obj
from tests.oracle.generator.labels import HOSTNAME, NODE_LABELS, OLD_REGION, OLD_ZONE, REGION, ZONE
from tests.oracle.generator.storage import CLASSES, CSI, WAITING, named

_SIZES: Final = ("1Gi", "2Gi", "5Gi", "20Gi")
_CAPACITIES: Final = (1024, 2048, 5120, 20480)
_MODES: Final = (["ReadWriteOnce"], ["ReadWriteOnce"], ["ReadWriteMany"], ["ReadOnlyMany", "ReadWriteOnce"])
_BOUND: Final = "pv.kubernetes.io/bind-completed"
_BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
_OLD_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_ATTRIBUTES: Final = ("gold", "silver")
_LEAVING: Final = "2026-01-01T00:00:00Z"
_CORE: Final = "v1"


def volumes_and_claims(draw: Draw, namespaces: Sequence[str], node_names: Sequence[str], count: int) -> list[Obj]:
    """Up to `count` claims in the namespaces, with the volumes of those that are bound, and some that are free."""
    made: list[Obj] = []
    for i in range(count):
        claim = _claim(draw, f"claim-{draw.number(0, max(9, count))}", draw.pick(namespaces))
        if any(_same(claim, other) for other in made):
            continue
        made.append(claim)
        if volume := _settle(draw, claim, f"pv-{i}", node_names, serial=i):
            made.append(volume)
    claims = [thing for thing in made if thing["kind"] == "PersistentVolumeClaim"]
    return [*made, *(_free_volume(draw, f"free-{i}", claims, node_names, serial=count + i) for i in range(draw.number(1, 4)))]


def _free_volume(draw: Draw, name: str, claims: Sequence[Obj], node_names: Sequence[str], *, serial: int) -> Obj:
    """A volume that nobody is bound to; somebody may have reserved it for a claim, or for one of that name that is gone."""
    volume = _volume(draw, name, draw.pick(WAITING), node_names, serial=serial)
    if draw.chance(0.25):
        claim = draw.pick(claims)
        volume["spec"]["claimRef"] = _reference(claim)
        if draw.chance(0.3):
            volume["spec"]["claimRef"]["uid"] = "of-an-older-claim"
        elif draw.chance(0.3):
            del volume["spec"]["claimRef"]["uid"]
    return volume


def _reference(claim: Obj) -> Obj:
    meta = claim["metadata"]
    named_claim = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": meta["namespace"], "name": meta["name"]}
    return {**named_claim, "uid": meta["uid"]}


def _same(claim: Obj, other: Obj) -> bool:
    return all(claim["metadata"][key] == other["metadata"].get(key) for key in ("namespace", "name"))


def _claim(draw: Draw, name: str, namespace: str) -> Obj:
    modes = ["ReadWriteOncePod"] if draw.about("disks", 0.4) else draw.pick(_MODES)
    spec: Obj = {"accessModes": modes, "resources": {"requests": {"storage": draw.pick(_SIZES)}}}
    claim = named("PersistentVolumeClaim", name, group=_CORE, spec=spec, status={"phase": "Pending"})
    claim["metadata"] |= {"namespace": namespace, "annotations": {}, "uid": f"uid-{namespace}-{name}"}
    storage_class = draw.pick((*CLASSES, *WAITING, *WAITING, "", "gone"))
    if draw.chance(0.1):
        claim["metadata"]["annotations"][_OLD_CLASS] = storage_class
    elif draw.chance(0.95):
        spec["storageClassName"] = storage_class
    if draw.chance(0.1):
        spec["volumeMode"] = "Block"
    if draw.chance(0.1):
        spec["selector"] = {"matchLabels": {"speed": draw.pick(("fast", "slow"))}}
    if draw.chance(0.05):
        spec["volumeAttributesClassName"] = draw.pick(_ATTRIBUTES)
    return claim


def _settle(draw: Draw, claim: Obj, volume_name: str, node_names: Sequence[str], *, serial: int) -> Obj | None:
    """Says how far the claim got; the volume that it is bound to, or would be, where there is one."""
    spec, meta, status = claim["spec"], claim["metadata"], claim["status"]
    shares = (("bound", 12), ("waiting", 8), ("selected", 1), ("prebound", 1), ("lost", 1), ("leaving", 1), ("dangling", 2))
    how = draw.pick([state for state, share in shares for _ in range(share)])
    storage_class = meta["annotations"].get(_OLD_CLASS, spec.get("storageClassName", ""))
    if how == "waiting":
        return None
    if how == "selected":
        meta["annotations"][_SELECTED_NODE] = draw.pick(node_names)
        return None
    spec["volumeName"] = volume_name
    if how != "prebound":
        meta["annotations"] |= {_BOUND: "yes", _BOUND_BY_CONTROLLER: "yes"}
    status["phase"] = "Lost" if how == "lost" else "Bound"
    if how == "leaving":
        meta |= {"deletionTimestamp": _LEAVING, "finalizers": ["kubernetes.io/pvc-protection"], "deletionGracePeriodSeconds": 0}
    if how in ("lost", "dangling"):
        return None
    volume = _volume(draw, volume_name, storage_class, node_names, serial=serial)
    volume["spec"]["claimRef"] = _reference(claim)
    volume["status"] = {"phase": "Bound"}
    return volume


def _volume(draw: Draw, name: str, storage_class: str, node_names: Sequence[str], *, serial: int) -> Obj:
    # No two of the same size: which of them a claim gets, kube-scheduler leaves to chance.
    spec: Obj = {"capacity": {"storage": f"{draw.pick(_CAPACITIES) + serial}Mi"}, "accessModes": draw.pick(_MODES)}
    volume = named("PersistentVolume", name, group=_CORE, spec=spec, status={"phase": "Available"})
    if storage_class and draw.chance(0.05):
        volume["metadata"]["annotations"] = {_OLD_CLASS: storage_class}
        spec["storageClassName"] = draw.pick(CLASSES)
    elif storage_class:
        spec["storageClassName"] = storage_class
    if draw.chance(0.05):
        volume["status"] = {"phase": draw.pick(("Released", "Failed", "Pending"))}
    if draw.chance(0.1):
        spec["volumeMode"] = "Block"
    _source(draw, spec, name)
    if "csi" in spec and draw.chance(0.05):
        spec["volumeAttributesClassName"] = draw.pick(_ATTRIBUTES)
    labels = {"speed": draw.pick(("fast", "slow"))}
    if draw.about("zones", 0.7):
        labels |= _zone_labels(draw)
    volume["metadata"]["labels"] = labels
    if "local" in spec or draw.about("binding", 0.4):
        spec["nodeAffinity"] = {
            "required": {"nodeSelectorTerms": [_reachable(draw, node_names) for _ in range(draw.number(1, 2))]}
        }
    if draw.chance(0.03):
        volume["metadata"] |= {"deletionTimestamp": _LEAVING, "finalizers": ["kubernetes.io/pv-protection"]}
    return volume


def _source(draw: Draw, spec: Obj, name: str) -> None:
    kind = draw.pick(("csi", "csi", "csi", "csi", "ebs", "gce", "azure", "cinder", "local", "nfs"))
    match kind:
        case "csi":
            spec["csi"] = {"driver": CSI, "volumeHandle": name if draw.chance(0.9) else "shared-handle"}
        case "ebs":
            spec["awsElasticBlockStore"] = {"volumeID": draw.pick((f"vol-{name}", f"aws://eu-west1-a/vol-{name}"))}
        case "gce":
            spec["gcePersistentDisk"] = {"pdName": f"disk-{name}"}
        case "azure":
            spec["azureDisk"] = {"diskName": name, "diskURI": f"/subscriptions/s/disks/{name}", "kind": "Managed"}
        case "cinder":
            spec["cinder"] = {"volumeID": name}
        case "local":
            spec["local"] = {"path": "/mnt"}
        case _:
            spec["nfs"] = {"server": "nfs.test", "path": "/"}


def _zone_labels(draw: Draw) -> dict[str, str]:
    zones = draw.some(NODE_LABELS[ZONE], 1, 2)
    # A volume may be in several zones, which its label joins with two underscores.
    labels = {draw.pick((ZONE, ZONE, OLD_ZONE)): "__".join(zones)}
    if draw.chance(0.3):
        labels[draw.pick((REGION, OLD_REGION))] = draw.pick(NODE_LABELS[REGION])
    return labels


def _reachable(draw: Draw, node_names: Sequence[str]) -> Obj:
    expressions: list[Obj] = [
        {"key": ZONE, "operator": draw.pick(("In", "In", "NotIn")), "values": draw.some(NODE_LABELS[ZONE], 1, 2)}
    ]
    if draw.chance(0.3):
        expressions = [{"key": HOSTNAME, "operator": "In", "values": draw.some(node_names, 1, 3)}]
    if draw.chance(0.1):
        return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [draw.pick(node_names)]}]}
    return {"matchExpressions": expressions}
