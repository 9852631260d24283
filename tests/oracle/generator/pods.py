"""Pods: running, waiting, finished, leaving; in namespaces that exist or that the file does not list."""

from collections.abc import Sequence
from typing import Final

from tests.oracle.generator.draw import Draw, Obj
from tests.oracle.generator.labels import NAMESPACE_LABELS, POD_LABELS, labels
from tests.oracle.generator.neighbours import pod_affinity, spread
from tests.oracle.generator.nodechoice import choose_nodes, host_ports
from tests.oracle.generator.podvolumes import mount
from tests.oracle.generator.resources import containers, resize

NAMESPACES: Final = ("default", "web", "batch")
_UNLISTED: Final = "unlisted"


def namespaces(draw: Draw) -> list[Obj]:
    """The namespaces' objects; now and then one is missing from the file, though pods are in it."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": labels(draw, NAMESPACE_LABELS, each=0.7)},
        }
        for name in NAMESPACES
        if name == "default" or draw.chance(0.9)
    ]


def pods(draw: Draw, node_names: Sequence[str], claims: Sequence[Obj], count: int) -> list[Obj]:
    """Pods, about half of them on nodes; with the claims made for their ephemeral volumes."""
    made: list[Obj] = []
    for i in range(count):
        pod = _pod(draw, i, node_names)
        made += [pod, *mount(draw, pod, claims)]
    return made


def twins(draw: Draw, made: Sequence[Obj], node_names: Sequence[str]) -> list[Obj]:
    """Pods with the spec of pods that are being resized, and another status: a pod's resize is not that of its like."""
    found = []
    for pod in made:
        if "containerStatuses" in pod.get("status", ()) and draw.chance(0.5):
            meta = {**pod["metadata"], "name": f"{pod['metadata']['name']}-twin", "uid": f"{pod['metadata']['uid']}-twin"}
            twin: Obj = {**pod, "metadata": meta, "spec": {**pod["spec"]}, "status": {"phase": "Running"}}
            twin["spec"]["nodeName"] = draw.pick((pod["spec"]["nodeName"], *node_names))
            if draw.chance(0.5):
                resize(draw, twin)
            found.append(twin)
    return found


def _pod(draw: Draw, i: int, node_names: Sequence[str]) -> Obj:
    namespace = draw.pick((*("default",) * 6, *NAMESPACES, _UNLISTED))
    spec: Obj = {}
    meta: Obj = {"name": f"p{i}", "namespace": namespace, "uid": f"uid-p{i}", "labels": labels(draw, POD_LABELS, each=0.75)}
    pod: Obj = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": "Pending"}}
    containers(draw, spec)
    choose_nodes(draw, spec, node_names)
    host_ports(draw, spec)
    pod_affinity(draw, spec)
    spread(draw, spec)
    _extras(draw, spec)
    if draw.chance(0.5):
        _settle(draw, pod, node_names)
    elif draw.chance(0.03):
        pod["status"]["phase"] = draw.pick(("Succeeded", "Failed"))
    if draw.chance(0.05):
        meta |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    return pod


def _extras(draw: Draw, spec: Obj) -> None:
    if draw.about("extras", 0.4):
        container = draw.pick([*spec["containers"], *spec.get("initContainers", ())])
        container.setdefault("restartPolicy", "Never")
        codes = {"operator": "In", "values": [42]}
        container["restartPolicyRules"] = [{"action": "RestartAllContainers", "exitCodes": codes}]
    if draw.about("extras", 0.25):
        spec["resourceClaims"] = [{"name": "device", "resourceClaimName": "no-such-claim"}]


def _settle(draw: Draw, pod: Obj, node_names: Sequence[str]) -> None:
    """Binds the pod, also to a node that the file lacks; it may have finished since."""
    pod["spec"]["nodeName"] = draw.pick(node_names) if draw.chance(0.97) else "gone"
    pod["status"]["phase"] = draw.pick(("Running",) * 12 + ("Pending", "Succeeded", "Failed", "Unknown"))
    if draw.about("resources", 0.3):
        resize(draw, pod)
