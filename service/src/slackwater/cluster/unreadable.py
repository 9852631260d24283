"""Annotations that cannot be read: Events that report them to people, once for each text.

Such an annotation counts as missing: with unreadable sizes a pod counts by its requests, with an unreadable permit by its Max.
"""

from typing import Final

from slackwater.model.effects import Announce, Effect
from slackwater.model.objects import Pod
from slackwater.model.permit_annotation import read_written
from slackwater_protocol.names import PERMIT

_REASON: Final = "UnreadableAnnotation"


def unreadable_annotations(before: Pod | None, pod: Pod) -> list[Effect]:
    """Events for the pod's annotations that cannot be read, except texts that `before`, its last state, had already."""
    effects: list[Effect] = []
    if pod.vertical_problem is not None and (before is None or before.vertical_problem != pod.vertical_problem):
        effects.append(_unreadable(pod, pod.vertical_problem))
    permit = _permit(pod)
    return effects if before is not None and _permit(before) == permit else effects + unreadable_permit(pod, permit)


def unreadable_permit(pod: Pod, text: str | None) -> list[Effect]:
    """An Event if the text of the pod's permit annotation cannot be read."""
    if text is None or read_written(text) is not None:
        return []
    return [_unreadable(pod, f"annotation {PERMIT}: got {text:.200}, want what the service writes")]


def _permit(pod: Pod) -> str | None:
    return None if pod.vertical is None else pod.vertical.permit


def _unreadable(pod: Pod, problem: str) -> Effect:
    return Announce(pod.uid, pod.key, "Warning", _REASON, f"{problem}; it counts as missing")
