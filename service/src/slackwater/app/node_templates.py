"""Converts the configuration's templates of node groups to Nodes.

This module is separate from the providers, because the planning process needs it for questions but not their clients.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import structs

from slackwater.adapters.kube.decode import NodeDecoder
from slackwater.app.settings.autoscaling import Template, TemplateDevices
from slackwater.configuration.amounts import quantity_text
from slackwater.model.devices import ResourceSlice, template_slice
from slackwater.model.objects import Node
from slackwater.model.storage import CsiNode
from slackwater_protocol.units import Nanos

_KUBELETS_PODS: Final = "110"
#: Every kubelet sets these labels, so a template need not.
_KUBELETS_LABELS: Final = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}


def template_node(group: str, template: Template) -> Node:
    """The Node that a group's template from the settings describes, decoded like a Node of the API server."""
    body = node_body(template)
    named = {**body, "metadata": {**body["metadata"], "name": f"template-of-{group}", "uid": f"template-of-{group}"}}
    node = NodeDecoder().decode(msgspec.json.encode(named))
    limits = tuple(sorted(template.volume_limits.items()))
    csi = CsiNode(name="", drivers=limits) if limits else None
    return structs.replace(node, csi=csi, slices=tuple(map(_template_slice, template.devices)))


def _template_slice(devices: TemplateDevices) -> ResourceSlice:
    return template_slice(devices.driver, devices.count, attributes=devices.attributes, capacity=devices.capacity)


def node_body(template: Template) -> dict[str, Any]:
    """A template as the JSON body of a Node without a name. Capacity is allocatable unless the template says otherwise, and the
    machine runs Linux on amd64.

    A template without a `pods` capacity gets kubelet's default of 110, because a node without one takes no pods.
    """
    capacity, allocatable = _resources(template.status.capacity), _resources(template.status.allocatable)
    if capacity or allocatable:
        capacity = {"pods": _KUBELETS_PODS, **capacity}
    return {
        "metadata": {"labels": {**_KUBELETS_LABELS, **template.metadata.labels}},
        "spec": {"taints": [taint.model_dump() for taint in template.spec.taints]},
        "status": {"capacity": capacity, "allocatable": capacity | allocatable},
    }


def _resources(amounts: Mapping[str, Nanos]) -> dict[str, str]:
    return {name: str(quantity_text(amount)) for name, amount in amounts.items()}
