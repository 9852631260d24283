"""Taints that say how a node is for a while, and labels that say what it is: nobody has to take them off, or put them on.

A node that is not ready does not become so by losing its taint, and a pod that tolerates it would not run there. What helps is
that the state ends; that is what is told, and tried.
"""

from dataclasses import replace
from typing import Final

from slackwater.explain.changes import Change, NodeEdit
from slackwater.model.objects import Node
from slackwater_protocol.names import NODE_GROUP, TO_BE_DELETED_TAINT

#: The node controller's taint of a cordoned node.
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_ENDS: Final = {
    "node.kubernetes.io/not-ready": "wait until node {} is ready",
    "node.kubernetes.io/unreachable": "wait until node {} answers again, or remove the node",
    "node.kubernetes.io/memory-pressure": "wait until node {} has memory to spare again",
    "node.kubernetes.io/disk-pressure": "wait until node {} has disk space to spare again",
    "node.kubernetes.io/pid-pressure": "wait until node {} has process ids to spare again",
    "node.kubernetes.io/network-unavailable": "wait until the network of node {} is set up",
    "node.kubernetes.io/out-of-service": "bring node {} back into service",
    "node.cloudprovider.kubernetes.io/uninitialized": "wait until the cloud provider has initialized node {}",
    "node.cloudprovider.kubernetes.io/shutdown": "start the machine of node {}",
    UNSCHEDULABLE: "uncordon node {}",
    TO_BE_DELETED_TAINT: "cancel the removal of node {}",
}
_STARTING: Final = ("startup-taint.cluster-autoscaler.kubernetes.io/", "ignore-taint.cluster-autoscaler.kubernetes.io/")
#: What kubelets, clouds and storage drivers say about a machine.
_GIVEN: Final = ("kubernetes.io/", "beta.kubernetes.io/", "failure-domain.beta.kubernetes.io/", "topology.")
_GIVEN_KEYS: Final = frozenset({"node.kubernetes.io/instance-type", NODE_GROUP})


def is_passing(key: str) -> bool:
    """Does a taint of this key say how the node is for a while?"""
    return key in _ENDS or key.startswith(_STARTING)


def until_over(node: Node, key: str) -> Change:
    """The state ends: all taints of the key go."""
    words = _ENDS.get(key, f"wait until node {{}} has started, which takes taint {key} off").format(node.name)

    def edit(node: Node) -> Node:
        taints = tuple(taint for taint in node.taints if taint.key != key)
        if key == UNSCHEDULABLE:
            return replace(node, taints=taints, unschedulable=False)
        return replace(node, taints=taints)

    return NodeEdit(words=words, node=node.name, edit=edit)


def is_given(key: str) -> bool:
    """Does a label of this key say what the machine is, whatever anybody writes there?"""
    return key in _GIVEN_KEYS or key.startswith(_GIVEN)
