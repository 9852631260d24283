"""Nodes and pods as kubectl prints them; everything not said has a value that does not matter."""

from collections.abc import Mapping
from typing import Any, Final

Obj = dict[str, Any]

#: The label of our own that names a node's group.
GROUP: Final = "slackwater.dev/node-group"


def node_labels(name: str, group: str | None = None) -> Obj:
    """The labels of a node: its host name, and its group if it has one."""
    return {"kubernetes.io/hostname": name, **({} if group is None else {GROUP: group})}


def node_manifest(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "16Gi",
    labels: Mapping[str, str] | None = None,
    has: Mapping[str, str] | None = None,
    meta: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Obj:
    """A node. `labels` None: its host name alone. `has`: further allocatable amounts."""
    amounts = {"cpu": cpu, "memory": memory, "pods": "110", **(has or {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": node_labels(name) if labels is None else dict(labels), **(meta or {})},
        "spec": spec,
        "status": {"allocatable": amounts, **(status or {})},
    }


def pod_manifest(
    name: str,
    *,
    cpu: str = "1",
    memory: str = "1Gi",
    on: str | None = None,
    asks: Mapping[str, str] | None = None,
    meta: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Obj:
    """A pod of one container in the namespace shop. `asks`: further requests. `on`: its node."""
    requests = {"cpu": cpu, "memory": memory, **(asks or {})}
    container = {"name": "app", "image": "app:1", "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", **(meta or {})},
        "spec": {"containers": [container], **({} if on is None else {"nodeName": on}), **spec},
    }


def owned_by(replica_set: str, *, uid: str = "u") -> Obj:
    """The metadata of a pod whose controller is this ReplicaSet."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": replica_set, "uid": uid, "controller": True}
    return {"ownerReferences": [owner]}
