"""JSON as the API server and kube-scheduler write it."""

from typing import Any

from slackwater.model.objects import Pod


def pod_json(pod: Pod) -> dict[str, Any]:
    """The pod of a builder as the API's object; resource version and requests are the same."""
    cpu, memory = pod.kind.requests
    requests = {"cpu": f"{cpu}m", "memory": str(memory)}
    if pod.kind.missing_request is not None:
        del requests[pod.kind.missing_request.rpartition(" ")[2]]
    return {
        "metadata": {
            "name": pod.key.name,
            "namespace": pod.key.namespace,
            "uid": pod.uid,
            "resourceVersion": str(pod.resource_version),
            "labels": dict(pod.labels),
        },
        "spec": {
            "schedulerName": "slackwater",
            "priority": pod.priority,
            "nodeName": pod.node or "",
            "containers": [{"name": "app", "image": "i", "resources": {"requests": requests}}],
        },
        "status": {"phase": "Pending"},
    }


def node_json(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"node-{name}"}, "spec": {}, "status": {"allocatable": {"cpu": "4"}}}


def filter_args(pod: Pod, *names: str) -> dict[str, Any]:
    """Body of filter and prioritize, `nodeCacheCapable: true`."""
    return {"Pod": pod_json(pod), "Nodes": None, "NodeNames": list(names)}


def whole_nodes_args(pod: Pod, *names: str) -> dict[str, Any]:
    """Body of filter and prioritize, `nodeCacheCapable: false`."""
    return {"Pod": pod_json(pod), "Nodes": {"metadata": {}, "items": [node_json(n) for n in names]}, "NodeNames": None}


def bind_args(pod: Pod, node: str) -> dict[str, Any]:
    return {"PodName": pod.key.name, "PodNamespace": pod.key.namespace, "PodUID": pod.uid, "Node": node}
