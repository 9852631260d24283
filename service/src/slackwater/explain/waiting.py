"""Passing taints, which describe a node's present state, and given labels, which describe the machine. People change neither.

A node that is not ready does not become ready when its taint is removed, and a pod that tolerates the taint would not run
there. What helps is the end of the state, so that is the change that is proposed and tried.
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
#: Prefixes of labels that kubelets, clouds and storage drivers set by the machine.
_GIVEN: Final = ("kubernetes.io/", "beta.kubernetes.io/", "failure-domain.beta.kubernetes.io/", "topology.")
_GIVEN_KEYS: Final = frozenset({"node.kubernetes.io/instance-type", NODE_GROUP})


def is_passing(key: str) -> bool:
    """Does a taint of this key describe a passing state of the node?"""
    return key in _ENDS or key.startswith(_STARTING)


def until_over(node: Node, key: str) -> Change:
    """The end of the state as a change: all taints of the key go."""
    words = _ENDS.get(key, f"wait until node {{}} has started, which takes taint {key} off").format(node.name)

    def edit(node: Node) -> Node:
        taints = tuple(taint for taint in node.taints if taint.key != key)
        if key == UNSCHEDULABLE:
            return replace(node, taints=taints, unschedulable=False)
        return replace(node, taints=taints)

    return NodeEdit(words=words, node=node.name, edit=edit)


def is_given(key: str) -> bool:
    """Does a label of this key describe the machine, so that setting it by hand makes no sense?"""
    return key in _GIVEN_KEYS or key.startswith(_GIVEN)
