"""The refusal of a pod before any node is judged: it holds for every node (kube-scheduler's PreFilter)."""

from dataclasses import dataclass

from slackwater.model.reasons import Reason


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the pod itself is refused. `text` names the object; it is kube-scheduler's text."""

    reason: Reason
    text: str
