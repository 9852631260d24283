"""Nodes and pods as JSON for the API server. Pure: the same number gives the same object."""

from typing import Any, Final

NAMESPACE: Final = "default"
#: CPU and memory that pods of the throughput bench ask for, in turn.
_SIZES: Final = (("250m", "512Mi"), ("1", "2Gi"), ("500m", "4Gi"), ("100m", "1Gi"))
_ZONES: Final = ("a", "b", "c")


def node_name(number: int) -> str:
    return f"node-{number:05}"


def a_node(number: int, *, cpu: str = "32", memory: str = "128Gi", pods: int = 250) -> dict[str, Any]:
    capacity = {"cpu": cpu, "memory": memory, "pods": str(pods), "ephemeral-storage": "100Gi"}
    name = node_name(number)
    labels = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": name,
        "node.kubernetes.io/instance-type": "bench",
        "topology.kubernetes.io/zone": _ZONES[number % len(_ZONES)],
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": capacity, "allocatable": capacity},
    }


def a_ready_node(number: int, *, cpu: str = "32", memory: str = "128Gi", pods: int = 250) -> dict[str, Any]:
    """A node for a control plane without kubelets."""
    node = a_node(number, cpu=cpu, memory=memory, pods=pods)
    condition = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "made so"}
    return node | {"status": node["status"] | {"conditions": [condition]}}


def a_plain_pod(number: int, *, node: str | None = None, scheduler: str = "slackwater") -> dict[str, Any]:
    """About 1 kB: what a pod of a small Deployment looks like to kube-scheduler. With `node` it is bound from the start."""
    cpu, memory = _SIZES[number % len(_SIZES)]
    app = f"app-{number % 40}"
    container = {"name": "app", "image": f"registry.example/{app}:1", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{number:06}", "namespace": NAMESPACE, "labels": {"app": app, "tier": "bench"}},
        "spec": {"schedulerName": scheduler, "containers": [container]} | ({"nodeName": node} if node else {}),
    }


def a_realistic_pod(number: int, *, cpu: str, memory: str) -> dict[str, Any]:
    """About 6 kB as kube-scheduler sends it: an app with a sidecar, environment, probes, volumes, annotations."""
    pod = a_plain_pod(number)
    pod["metadata"]["annotations"] = {f"example.dev/annotation-{i}": "x" * 60 for i in range(6)}
    pod["spec"] |= {
        "containers": [_a_realistic_container("app", cpu, memory), _a_realistic_container("proxy", "10m", "16Mi")],
        "volumes": [{"name": f"volume-{i}", "configMap": {"name": f"configuration-{i}"}} for i in range(4)],
        "tolerations": [{"key": f"example.dev/pool-{i}", "operator": "Exists", "effect": "NoSchedule"} for i in range(3)],
        "securityContext": {"runAsNonRoot": True, "fsGroup": 2000},
    }
    return pod


def _a_realistic_container(name: str, cpu: str, memory: str) -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": memory}
    probe = {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10, "failureThreshold": 3}
    return {
        "name": name,
        "image": f"registry.example/team/{name}@sha256:{'0123456789abcdef' * 4}",
        "args": [f"--option-{i}=value-of-option-{i}" for i in range(8)],
        "env": [{"name": f"VARIABLE_{i}", "value": f"value of variable {i}"} for i in range(14)],
        "ports": [{"containerPort": 8080, "name": "http"}],
        "resources": {"requests": amounts, "limits": amounts},
        "livenessProbe": probe,
        "readinessProbe": probe,
        "volumeMounts": [{"name": f"volume-{i}", "mountPath": f"/etc/configuration-{i}", "readOnly": True} for i in range(4)],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
