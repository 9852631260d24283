"""Services and controllers of pods: kube-scheduler's own default spreading scores by them."""

from typing import Final

from tests.oracle.generator.draw import Draw, Obj
from tests.oracle.generator.labels import POD_LABELS, selector

_SETS: Final = (
    ("apps/v1", "ReplicaSet", "rs"),
    ("apps/v1", "StatefulSet", "stateful"),
    ("v1", "ReplicationController", "rc"),
)


def services_and_sets(draw: Draw, pods: list[Obj]) -> list[Obj]:
    """In half of the clusters; pods get their owner's reference, whether it selects them or not."""
    if draw.chance(0.5):
        return []
    made = [_service(draw, f"service-{i}") for i in range(draw.number(0, 2))]
    sets = [_set(draw, *kind) for kind in _SETS if draw.chance(0.7)]
    for pod in pods:
        if sets and draw.chance(0.3):
            owner = draw.pick(sets)
            reference = {key: owner[key] for key in ("apiVersion", "kind")} | {
                key: owner["metadata"][key] for key in ("name", "uid")
            }
            pod["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    return [*made, *sets]


def _service(draw: Draw, name: str) -> Obj:
    spec: Obj = {"ports": [{"port": 80}]}
    if draw.chance(0.9):
        spec["selector"] = {"app": draw.pick(POD_LABELS["app"])}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def _set(draw: Draw, version: str, kind: str, name: str) -> Obj:
    app = {"app": draw.pick(POD_LABELS["app"])}
    chosen: Obj = app if kind == "ReplicationController" else draw.pick(({"matchLabels": app}, selector(draw, POD_LABELS)))
    template = {"metadata": {"labels": app}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": {"selector": chosen, "template": template}}
