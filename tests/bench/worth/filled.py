"""A cluster of `workload` with its pods on nodes, without a control plane: for sizes that take too long to fill.

Pure: the same arguments give the same objects, as `kubectl get ... -o json` prints them. Pods are on nodes that take them,
drawn by lot; pods that keep apart do, and those that spread take zones in turn.
"""

import random
from collections import defaultdict
from collections.abc import Iterator
from itertools import cycle
from typing import Final

from slackwater_protocol.units import byte_count, milli_cpu, whole
from tests.bench.worth.workload import ZONES, Json, nodes, workloads

_ZONE: Final = "topology.kubernetes.io/zone"
_CREATED: Final = "2026-01-01T00:00:00Z"
_READY: Final = [{"type": "Ready", "status": "True"}]
#: So many nodes are drawn for a pod, until one takes it; if none does, there is no such pod.
_TRIES: Final = 400


def filled(size: float, seed: int, density: int) -> Iterator[Json]:
    """All objects. Arguments as of `workloads`."""
    draw = random.Random(seed)
    made = [_NodeRoom(node) for node in nodes(size)]
    by_zone = {zone: [each for each in made if each.zone == zone] for zone in ZONES}
    yield from ({**each.node, "status": {**each.node["status"], "conditions": _READY}} for each in made)
    healthy = dict[str, int]()
    for item in workloads(size, seed, density):
        name, kind = item["metadata"]["name"], item["kind"]
        if kind == "PodDisruptionBudget":
            most, least = item["spec"].get("maxUnavailable"), item["spec"].get("minAvailable")
            yield {**item, "status": {"disruptionsAllowed": healthy[name] - least if most is None else most}}
            continue
        yield item
        turn = cycle(by_zone.values() if "topologySpreadConstraints" in item["spec"]["template"]["spec"] else [made])
        taken, count = defaultdict[str, list[Json]](list), item["spec"].get("replicas")
        for number in range(len(made) if count is None else count):
            among = [made[number]] if count is None else draw.choices(next(turn), k=_TRIES)
            if (room := next((each for each in among if each.takes(item, taken)), None)) is not None:
                taken[room.name].append(pod := _pod(item, number, room.name))
                room.take(pod)
                yield pod
        healthy[name] = sum(map(len, taken.values()))


class _NodeRoom:
    """A node, and what is left on it: milliCPU, bytes, pods and GPUs."""

    def __init__(self, node: Json) -> None:
        self.node, self.name = node, node["metadata"]["name"]
        self.zone = node["metadata"]["labels"][_ZONE]
        self._left = _amounts(node["status"]["allocatable"])

    def takes(self, item: Json, taken: dict[str, list[Json]]) -> bool:
        """May a further pod of the controller come, which has others on the nodes of `taken`?"""
        spec, labels = item["spec"]["template"]["spec"], self.node["metadata"]["labels"]
        if "affinity" in spec and taken.get(self.name):
            return False
        if any(labels.get(key) != value for key, value in spec.get("nodeSelector", {}).items()):
            return False
        keys = {each.get("key") for each in spec.get("tolerations", ())}
        if None not in keys and not {each["key"] for each in self.node["spec"]["taints"]} <= keys:
            return False
        return all(want <= left for want, left in zip(_needs(spec), self._left, strict=True))

    def take(self, pod: Json) -> None:
        self._left = tuple(left - need for left, need in zip(self._left, _needs(pod["spec"]), strict=True))


def _pod(item: Json, number: int, node: str) -> Json:
    """A running pod of a controller. A Deployment's ReplicaSet has its name."""
    meta, template = item["metadata"], item["spec"]["template"]
    kind = "ReplicaSet" if item["kind"] == "Deployment" else item["kind"]
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": meta["name"], "uid": meta["name"], "controller": True}
    name = f"{meta['name']}-{number}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "uid": name,
            "creationTimestamp": _CREATED,
            "labels": template["metadata"]["labels"],
            "ownerReferences": [owner],
        },
        "spec": {**template["spec"], "nodeName": node},
        "status": {"phase": "Running", "conditions": _READY},
    }


def _needs(spec: Json) -> tuple[int, ...]:
    requests = spec["containers"][0]["resources"]["requests"]
    return _amounts({**requests, "pods": 1})


def _amounts(quantities: Json) -> tuple[int, ...]:
    gpus = whole(quantities.get("nvidia.com/gpu", 0))
    return milli_cpu(quantities["cpu"]), byte_count(quantities["memory"]), whole(quantities["pods"]), gpus
