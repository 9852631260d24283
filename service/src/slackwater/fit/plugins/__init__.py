"""The only definition of "fits", and the scores of kube-scheduler's default profile: its plug-ins, each with its filter and its
score. Verdicts are codes of `model.reasons.Reason`."""

from dataclasses import dataclass

from slackwater.model.reasons import Reason


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why PreFilter refuses the pod before any node is judged; it holds for every node. `text` is kube-scheduler's message; it
    mostly names the object at fault, such as a missing PersistentVolumeClaim."""

    reason: Reason
    text: str
