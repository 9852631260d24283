"""Whose pods kube-scheduler spreads by default: those of the same Services, and of the same controller.

The selector of a pod without spread constraints of its own, from the Services that select it and the ReplicaSet,
StatefulSet or ReplicationController that owns it.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from slackwater.edge.kube.affinities import selector_of
from slackwater.edge.kube.wire import SelectorWire
from slackwater.model.selectors import Requirement, Selector

Object = Mapping[str, Any]
#: Kinds whose objects are read here, and the API group that an owner reference must name.
OWNERS: Final = {"ReplicationController": "v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1"}
SERVICE: Final = "Service"


class Spreading:
    """Services and controllers of a file."""

    def __init__(self, objects: Iterable[tuple[str, Object]]) -> None:
        self._services: dict[str, list[Mapping[str, str]]] = {}
        self._owners: dict[tuple[str, str, str], Object] = {}
        for kind, body in objects:
            meta = body["metadata"]
            namespace = meta.get("namespace") or "default"
            if kind == SERVICE:
                selector = (body.get("spec") or {}).get("selector")
                if selector:
                    self._services.setdefault(namespace, []).append(selector)
            else:
                self._owners[kind, namespace, meta["name"]] = body

    def selector_for(self, pod: Object) -> Selector:
        """None where nothing selects the pod."""
        meta = pod["metadata"]
        labels, namespace = meta.get("labels") or {}, meta.get("namespace") or "default"
        exact: dict[str, str] = {}
        for service in self._services.get(namespace, ()):
            if all(labels.get(key) == value for key, value in service.items()):
                exact.update(service)
        more: tuple[Requirement, ...] = ()
        owner = next((o for o in meta.get("ownerReferences") or () if o.get("controller")), None)
        if owner is not None and OWNERS.get(owner.get("kind", "")) == owner.get("apiVersion"):
            found = self._owners.get((owner["kind"], namespace, owner.get("name", "")))
            selector = ((found or {}).get("spec") or {}).get("selector") or {}
            if owner["kind"] == "ReplicationController":
                exact.update(selector)
            else:
                more = selector_of(msgspec.convert(selector, SelectorWire)) or ()
        merged = (*(Requirement(key, "In", (value,)) for key, value in sorted(exact.items())), *more)
        return merged or None
