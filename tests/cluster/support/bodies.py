"""Nodes and pods as JSON for the API server; everything not said has a value that does not matter."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

Json = dict[str, Any]

SCHEDULER: Final = "slackwater"  #: the default of `schedulerName`
N_SHAPES: Final = 8


def a_node(
    name: str,
    *,
    cpu: str = "16",
    memory: str = "64Gi",
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    taints: Iterable[Mapping[str, str]] = (),
) -> Json:
    """A node that KWOK will play."""
    amounts = {"cpu": cpu, "memory": memory, "pods": str(pods)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": {"taints": [dict(taint) for taint in taints]},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def a_container(name: str, cpu: str, memory: str) -> Json:
    return {"name": name, "image": "example/app", "resources": {"requests": {"cpu": cpu, "memory": memory}}}


def a_sidecar(name: str, cpu: str, memory: str) -> Json:
    return {**a_container(name, cpu, memory), "restartPolicy": "Always"}


def a_pod(
    name: str,
    *,
    cpu: str = "100m",
    memory: str = "128Mi",
    on: str | None = None,
    scheduler: str = SCHEDULER,
    labels: Mapping[str, str] | None = None,
    also: Sequence[Json] = (),
    inits: Sequence[Json] = (),
    **spec: Any,
) -> Json:
    """A pod of one container, or more with `also`; `on` puts it on a node past every scheduler, `spec` is added."""
    whole: Json = {
        "schedulerName": scheduler,
        "containers": [a_container("app", cpu, memory), *also],
        "initContainers": list(inits),
        "terminationGracePeriodSeconds": 1,
        **spec,
    }
    if on is not None:
        whole["nodeName"] = on
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": dict(labels or {})}, "spec": whole}


def a_deployment(name: str, replicas: int, *, cpu: str) -> Json:
    """A Deployment of pods of one container, with the label `app`."""
    labels = {"app": name}
    pod = a_pod(name, cpu=cpu, memory="64Mi", labels=labels)
    template = {"metadata": {"labels": labels}, "spec": {**pod["spec"], "restartPolicy": "Always"}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def of_every_shape(number: int, *, overhead: str) -> Json:
    """The `number`-th of pods that ask for room in each of the `N_SHAPES` ways Kubernetes has; `overhead`: a RuntimeClass.

    Each rule of the formula decides for some of them: the largest init container, the sidecars before it, the sum of
    containers, the pod's own level.
    """
    mixed = [a_sidecar("beside", "100m", "64Mi"), a_container("large", "300m", "16Mi"), a_sidecar("late", "20m", "256Mi")]
    shapes: tuple[Json, ...] = (
        {"cpu": "100m", "memory": "128Mi"},
        {"cpu": "250m", "memory": "100M", "also": [a_container("second", "0.05", "64Mi")]},
        {"cpu": "50m", "memory": "64Mi", "inits": [a_container("large", "400m", "256Mi")]},
        {"cpu": "100m", "memory": "32Mi", "inits": [a_sidecar("beside", "150m", "96Mi")]},
        {"cpu": "100m", "memory": "64Mi", "inits": mixed},
        {"cpu": "110m", "memory": "48Mi", "runtimeClassName": overhead},
        {"cpu": "50m", "memory": "64Mi", "resources": {"requests": {"cpu": "350m", "memory": "512Mi"}}},
        # Only CPU is said for the pod as a whole: memory stays the sum of its containers.
        {
            "cpu": "1m",
            "memory": "128974848",
            "also": [a_container("second", "1m", "1234567")],
            "resources": {"requests": {"cpu": "0.3335"}},
        },
    )
    return a_pod(f"p-{number:04}", **shapes[number % N_SHAPES])
