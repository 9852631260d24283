"""Room that is kept for pods of draining nodes, as plans read it.

- `KeptRoom`: the destination of one leaving pod.
- `group_of`: what a pod and its replacement have in common.
"""

from typing import NamedTuple

from slackwater.model.ids import NodeName
from slackwater.model.objects import Labels, Pod
from slackwater.model.pod_constraints import Kind


class KeptRoom(NamedTuple):
    """Room for `pod` on the node `to`, because the node `of` is being drained. `released`: the pod leaves or has left, and its
    replacement, a pod of the same group, may use the room."""

    pod: Pod
    of: NodeName
    to: NodeName
    released: bool


def group_of(pod: Pod) -> tuple[Kind, Labels, int]:
    """What the pod has in common with the pod that its controller makes after it: needs, labels and priority."""
    return pod.renewed_kind, pod.labels, pod.priority
