"""A word on the pod itself, before any node is looked at: it holds for every node (kube-scheduler's PreFilter)."""

from dataclasses import dataclass

from slackwater.model.reasons import Reason


@dataclass(frozen=True, slots=True)
class Refusal:
    """`text` names the object; it is what kube-scheduler says."""

    reason: Reason
    text: str
