"""Nodes: labels, taints, what they have, which CSI drivers they run."""

from typing import Final

from tests.oracle.generator.draw import Draw, Obj
from tests.oracle.generator.labels import DRIVER_ZONES, HOSTNAME, NODE_LABELS, OLD_REGION, OLD_ZONE, REGION, ZONE, labels

TAINT_KEYS: Final = (
    "dedicated",
    "example.com/gpu",
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/unschedulable",
)
TAINT_VALUES: Final = ("", "a", "b")
IMAGES: Final = ("registry.test/big:v1", "registry.test/middle", "registry.test/small:latest")
_EFFECTS: Final = ("NoSchedule", "NoSchedule", "NoExecute", "PreferNoSchedule")
_CPU: Final = ("8", "16", "31500m", "12.5")
_LITTLE_CPU: Final = ("2", "4", "3500m", "8", "0.5", "1500001u", "16")
_MEMORY: Final = ("16Gi", "20G", "64424509440", "17.5Gi")
_LITTLE_MEMORY: Final = ("4Gi", "8Gi", "4G", "6442450944", "1.5Gi", "8e9", "3000000000500m")
_PODS: Final = ("110", "110", "32", "20")
_FEW_PODS: Final = ("0", "1", "2", "3", "5")
_FEATURE: Final = "RestartAllContainersOnContainerExits"
_OTHER_FEATURE: Final = "UserNamespacesHostNetworkSupport"


def nodes(draw: Draw, count: int) -> list[Obj]:
    """In some clusters every node has a zone, in others only some."""
    zoned, hosted = draw.pick((1.0, 0.9, 0.5)), draw.pick((1.0, 1.0, 0.7))
    names = [f"{draw.pick(('n', 'node-', 'worker.'))}{i}" for i in range(count)]
    return [_node(draw, name, zoned=zoned, hosted=hosted) for name in names]


def _node(draw: Draw, name: str, *, zoned: float, hosted: float) -> Obj:
    spec: Obj = {}
    if draw.about("taints", 0.12):
        spec["unschedulable"] = True
    if taints := _taints(draw):
        spec["taints"] = taints
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": _labels(draw, name, zoned=zoned, hosted=hosted)},
        "spec": spec,
        "status": _status(draw),
    }


def _labels(draw: Draw, name: str, *, zoned: float, hosted: float) -> dict[str, str]:
    made = labels(draw, NODE_LABELS, each=0.7)
    made.pop(ZONE, None)
    if draw.chance(zoned):
        made[ZONE] = draw.pick(NODE_LABELS[ZONE])
    if draw.chance(hosted):
        made[HOSTNAME] = name if draw.chance(0.95) else "shared-host"
    if draw.about("binding", 0.6):
        made |= {key: made[ZONE] if ZONE in made and draw.chance(0.9) else draw.pick(NODE_LABELS[ZONE]) for key in DRIVER_ZONES}
    if draw.about("zones", 0.3):
        made[OLD_ZONE] = draw.pick(NODE_LABELS[ZONE])
        if draw.chance(0.5):
            made[OLD_REGION] = draw.pick(NODE_LABELS[REGION])
    return made


def _taints(draw: Draw) -> list[Obj]:
    made: dict[tuple[str, str], Obj] = {}
    # Spreading asks which nodes count by their taints.
    while (draw.about("taints", 0.35) or draw.about("spread", 0.1)) and len(made) < 4:
        key, effect = draw.pick(TAINT_KEYS), draw.pick(_EFFECTS)
        taint: Obj = {"key": key, "effect": effect}
        if value := draw.pick(TAINT_VALUES):
            taint["value"] = value
        made[key, effect] = taint
    return list(made.values())


def _status(draw: Draw) -> Obj:
    has = _has(draw)
    # Without allocatable the API server copies capacity.
    status: Obj = {"capacity": has} if draw.chance(0.1) else {"allocatable": has, "capacity": has}
    if draw.about("extras", 0.6):
        status["declaredFeatures"] = draw.pick(([_FEATURE], [_FEATURE], [_FEATURE, _OTHER_FEATURE], [_OTHER_FEATURE], []))
    images = [{"names": [image], "sizeBytes": draw.number(10, 900) * 1024 * 1024} for image in draw.some(IMAGES, 0, 3)]
    if images:
        status["images"] = images
    return status


def _has(draw: Draw) -> dict[str, str]:
    has = {"cpu": draw.pick(_CPU), "memory": draw.pick(_MEMORY), "pods": draw.pick(_PODS)}
    if draw.chance(0.1) or draw.about("resources", 0.9):
        has |= {"cpu": draw.pick(_LITTLE_CPU), "memory": draw.pick(_LITTLE_MEMORY)}
    if draw.about("resources", 0.25):
        has["pods"] = draw.pick(_FEW_PODS)
    for resource, values in (
        ("ephemeral-storage", ("10Gi", "1Gi", "0", "20e9")),
        ("example.com/gpu", ("0", "1", "2", "4")),
        ("hugepages-2Mi", ("0", "64Mi", "256Mi")),
    ):
        if draw.chance(0.8):
            has[resource] = draw.pick(values)
    if draw.about("resources", 0.05):
        del has[draw.pick(sorted(has))]
    return has
