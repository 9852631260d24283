"""What pods mount: claims, claims of their own (ephemeral), and disks named in the pod itself."""

from collections.abc import Sequence
from typing import Final

from tests.oracle.generator.draw import Draw, Obj
from tests.oracle.generator.nodes import IMAGES
from tests.oracle.generator.storage import CSI, WAITING, named

_DISKS: Final = ("one", "two")
#: Of volumes named in the pod itself; those that two pods cannot share come more often.
_ONE_NODE: Final = ("gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd")
_SOURCES: Final = (*_ONE_NODE, *_ONE_NODE, "azureDisk", "cinder", "portworxVolume", "csi")


def mount(draw: Draw, pod: Obj, claims: Sequence[Obj]) -> list[Obj]:
    """Sets the pod's volumes; the claims, and their volumes, made for its ephemeral ones."""
    volumes: list[Obj] = []
    own: list[Obj] = []
    here = [claim["metadata"]["name"] for claim in claims if claim["metadata"]["namespace"] == pod["metadata"]["namespace"]]
    share = 0.5 if draw.themes & {"limits", "binding", "zones"} else 0.02
    if here and (draw.chance(share) or draw.about("disks", 0.3)):
        volumes += [{"persistentVolumeClaim": {"claimName": name}} for name in draw.some(here, 1, 2)]
    if draw.chance(share * 0.04) or draw.about("disks", 0.05):
        volumes.append({"persistentVolumeClaim": {"claimName": "missing"}})
    if draw.about("disks", 0.7) or draw.about("limits", 0.2):
        volumes += [_disk(draw) for _ in range(draw.number(1, 2))]
    if draw.about("binding", 0.15) or draw.about("limits", 0.15):
        volumes.append({"ephemeral": {"volumeClaimTemplate": {"spec": _template(draw)}}})
    if draw.chance(0.2):
        volumes.append(draw.pick(({"emptyDir": {}}, {"image": {"reference": draw.pick(IMAGES)}})))
    for i, volume in enumerate(volumes):
        volume["name"] = f"v{i}"
        if "ephemeral" in volume:
            own += _owned_claim(draw, pod, volume)
    if volumes:
        pod["spec"]["volumes"] = volumes
    return own


def _disk(draw: Draw) -> Obj:
    name, read_only = draw.pick(_DISKS), draw.chance(0.4)
    made: dict[str, Obj] = {
        "gcePersistentDisk": {"pdName": name, "readOnly": read_only},
        "awsElasticBlockStore": {"volumeID": name, "readOnly": read_only},
        "iscsi": {
            "targetPortal": "10.0.0.9",
            "iqn": f"iqn.2026-01.com.example:{name}",
            "lun": draw.number(0, 2),
            "readOnly": read_only,
        },
        "rbd": {"monitors": draw.some(("m1", "m2", "m3"), 1, 2), "image": name, "readOnly": read_only}
        | ({"pool": "fast"} if draw.chance(0.3) else {}),
        "azureDisk": {"diskName": name, "diskURI": f"/subscriptions/s/disks/{name}", "kind": "Managed"},
        "cinder": {"volumeID": name, "readOnly": read_only},
        "portworxVolume": {"volumeID": name, "readOnly": read_only},
        "csi": {"driver": CSI, "readOnly": read_only},  # lives and dies with the pod; counts against no limit
    }
    source = draw.pick(_SOURCES)
    return {source: made[source]}


def _template(draw: Draw) -> Obj:
    size = {"requests": {"storage": draw.pick(("1Gi", "8Gi"))}}
    return {"accessModes": ["ReadWriteOnce"], "resources": size, "storageClassName": draw.pick(WAITING)}


def _owned_claim(draw: Draw, pod: Obj, volume: Obj) -> list[Obj]:
    bound_pod = "nodeName" in pod["spec"]
    if draw.chance(0.1):
        return []  # the controller has not made it yet
    name = f"{pod['metadata']['name']}-{volume['name']}"
    claim = named("PersistentVolumeClaim", name, group="v1", spec=dict(volume["ephemeral"]["volumeClaimTemplate"]["spec"]))
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod["metadata"]["name"],
        "uid": pod["metadata"]["uid"],
        "controller": True,
    }
    # A claim that is not the pod's own is refused; of a bound pod it makes the plug-in fail for all others.
    if draw.chance(0.1) and not bound_pod:
        owner["uid"] = "somebody-else"
    claim["metadata"] |= {"namespace": pod["metadata"]["namespace"], "ownerReferences": [owner], "annotations": {}}
    claim["status"] = {"phase": "Pending"}
    if not bound_pod and draw.chance(0.5):
        return [claim]
    return [claim, *_bind(draw, claim)]


def _bind(draw: Draw, claim: Obj) -> list[Obj]:
    spec, meta = claim["spec"], claim["metadata"]
    spec["volumeName"] = f"pv-of-{meta['namespace']}-{meta['name']}"
    meta["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    claim["status"] = {"phase": "Bound"}
    if draw.chance(0.25):
        return []  # its volume is gone
    volume = named("PersistentVolume", spec["volumeName"], group="v1", status={"phase": "Bound"})
    reference = {"kind": "PersistentVolumeClaim", "namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
    volume["spec"] = {
        "capacity": {"storage": "10Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": spec["storageClassName"],
        "csi": {"driver": CSI, "volumeHandle": spec["volumeName"]},
        "claimRef": reference,
    }
    return [volume]
