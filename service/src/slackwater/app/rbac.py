"""What the service may do at the API server, and nothing else; `deploy/rbac.yaml` is written from here."""

from typing import Any, Final

import yaml

_RULES: Final[tuple[dict[str, Any], ...]] = (
    # The picture.
    {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": ["get", "list", "watch"]},
    # bind.
    {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]},
    # Touching a pending pod, so that kube-scheduler tries it again; nominating a node for it.
    {"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["patch"]},
    # Preemption: a victim gets its condition by a patch of its status, then it is deleted.
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]},
    # Removing nodes: taints and the cordon, evictions of their pods.
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
    # NeonVM: machines carry the permit of their pods, so that growth is written before it is answered. Its CRDs may be absent.
    {"apiGroups": ["vm.neon.tech"], "resources": ["virtualmachines"], "verbs": ["get", "list", "watch", "patch"]},
    # Live migrations: begun where a node has too much pressure, deleted when they have ended.
    {
        "apiGroups": ["vm.neon.tech"],
        "resources": ["virtualmachinemigrations"],
        "verbs": ["get", "list", "watch", "create", "delete"],
    },
    # Plain pods with bounds are resized in place.
    {"apiGroups": [""], "resources": ["pods/resize"], "verbs": ["patch"]},
    # Whose token an agent shows, where listeners.agents.authentication.tokens is set.
    {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
    # The autoscaler's picture: what placing pods reads beside nodes and pods, and what new nodes have from the start.
    {"apiGroups": [""], "resources": ["namespaces", "persistentvolumeclaims", "persistentvolumes"], "verbs": ["list", "watch"]},
    {
        "apiGroups": ["storage.k8s.io"],
        "resources": ["storageclasses", "csinodes", "csidrivers", "csistoragecapacities", "volumeattachments"],
        "verbs": ["list", "watch"],
    },
    {"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["list", "watch"]},
    # Its status object, the priorities of its expander, and the record of kwok's groups.
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "patch", "update"]},
    # kwok's groups: nodes without machines.
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["create", "patch", "delete"]},
    # Events for people.
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
)


def cluster_role() -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "slackwater"},
        "rules": [dict(rule) for rule in _RULES],
    }


def cluster_role_binding(subject: dict[str, str]) -> dict[str, Any]:
    """Gives the role to `subject`, as in a ClusterRoleBinding."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "slackwater"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "slackwater"},
        "subjects": [subject],
    }


def user(name: str) -> dict[str, str]:
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}


def manifest() -> str:
    """Role, account and binding as one YAML file for `kubectl apply -f`."""
    account = {"kind": "ServiceAccount", "name": "slackwater", "namespace": "kube-system"}
    objects = [
        cluster_role(),
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "slackwater", "namespace": "kube-system"}},
        cluster_role_binding(account),
    ]
    return "---\n".join(yaml.safe_dump(item, sort_keys=False) for item in objects)
