"""The refusal of a pod before any node is judged (kube-scheduler's PreFilter). It holds for every node."""

from dataclasses import dataclass

from slackwater.model.reasons import Reason


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why PreFilter refuses the pod on every node. `text` is kube-scheduler's message; it mostly names the object at fault,
    such as a missing PersistentVolumeClaim."""

    reason: Reason
    text: str
