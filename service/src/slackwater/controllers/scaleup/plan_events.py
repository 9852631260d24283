"""Makes the Kubernetes Events about a scale-up plan, on pods and on the status ConfigMap, and limits how many are sent.

The reasons are Cluster Autoscaler's: TriggeredScaleUp, NotTriggerScaleUp and ScaleUpTimedOut. The text of NotTriggerScaleUp
says for each node group why a node of this group would not help.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from slackwater.cluster.nodegroups.status import Grow, NodeGroupStatus
from slackwater.controllers.scaleup.groups import SkipReason
from slackwater.controllers.scaleup.outcome import GroupRefusal, ScaleUp, Unhelpable
from slackwater.model.effects import Announce
from slackwater.model.ids import Instant, PodKey, PodUid, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Pod
from slackwater.model.placeholders import is_placeholder
from slackwater.model.texts import first_few

#: The most Events chosen by one call of `select`.
_MOST_EVENTS: Final = 200
#: Seconds before an Event with the same text about the same object is repeated.
_AGAIN_SECONDS: Final = 600.0
_MOST_REMEMBERED: Final = 16_384
#: The most groups named in one text.
_MOST_GROUPS: Final = 10
#: The most causes named for one group.
_MOST_WHYS: Final = 3


class Announcer:
    """Chooses the Events to send, and remembers which it has chosen and when. All calls must use the same clock."""

    def __init__(self) -> None:
        self._announced: OrderedDict[tuple[PodUid, str], Instant | UnixTime] = OrderedDict()

    def select(self, announcements: Iterable[Announce], now: Instant | UnixTime) -> tuple[list[Announce], int]:
        """The Events to send: those not sent recently, up to the limit. Also returns how many the limit left out."""
        chosen: list[Announce] = []
        left_out = 0
        for words in announcements:
            key = (words.uid, words.note)
            said = self._announced.get(key)
            if said is not None and now - said < _AGAIN_SECONDS:
                continue
            if len(chosen) >= _MOST_EVENTS:
                left_out += 1
                continue
            chosen.append(words)
            self._announced[key] = now
            self._announced.move_to_end(key)
        while len(self._announced) > _MOST_REMEMBERED:
            self._announced.popitem(last=False)
        return chosen, left_out


def triggered(scale_ups: Iterable[tuple[ScaleUp, Grow, int]]) -> Iterator[Announce]:
    """The Event TriggeredScaleUp for each pod of the requested nodes. Each tuple is a planned scale-up, the call to the
    provider for it, and the group's maximum size."""
    for scale_up, call, most in scale_ups:
        note = f"pod triggered scale-up: [{{{call.group} {call.seen}->{call.to} (max: {most})}}]"
        for pods in scale_up.nodes[: call.nodes]:
            for pod in pods:
                if not is_placeholder(pod):  # placeholders are not API objects
                    yield _event(pod, "TriggeredScaleUp", note)


def not_triggered(unhelpable: Iterable[Unhelpable]) -> Iterator[Announce]:
    """The Event NotTriggerScaleUp for each pod that no group helps, with the reason of each group."""
    for found in unhelpable:
        note = why_not(found.groups)
        for pod in found.pods:
            yield _event(pod, "NotTriggerScaleUp", note)


def stuck(group_status: Iterable[NodeGroupStatus], status: PodKey) -> Iterator[Announce]:
    """The Event ScaleUpTimedOut on object `status`, for each group with nodes that missed their deadline, could not be replaced
    and no longer count as upcoming."""
    for each in group_status:
        if each.stuck:
            yield Announce(PodUid(""), status, "Warning", "ScaleUpTimedOut", stuck_note(each), about="ConfigMap")


def stuck_note(group_status: NodeGroupStatus) -> str:
    """The note for a group with stuck nodes: their number and the causes."""
    whys = dict.fromkeys(f"{lost.code}: {lost.message}" for lost in (*group_status.late, *group_status.lost))
    if group_status.overdue:
        whys["timeout: asked for, and never created"] = None
    shown = first_few(list(whys), _MOST_WHYS, separator="; ")
    stuck = f"{group_status.stuck} nodes did not come in time and no longer count as in creation"
    return f"node group {group_status.name}: {stuck}: {shown}"


def why_not(groups: Mapping[GroupName, GroupRefusal | SkipReason]) -> str:
    """The text of NotTriggerScaleUp. Groups with the same reason are listed together."""
    by_word: dict[str, list[GroupName]] = {}
    for name, why in sorted(groups.items()):
        word = why.text if isinstance(why, SkipReason) else "; ".join(why.words) or why.reason.name.lower()
        by_word.setdefault(word, []).append(name)
    if not by_word:
        return "pod didn't trigger scale-up: there are no node groups"
    parts = [f"{len(names)} {word} ({first_few(names, _MOST_GROUPS)})" for word, names in by_word.items()]
    return f"pod didn't trigger scale-up: {', '.join(parts)}"


def _event(pod: Pod, reason: str, note: str) -> Announce:
    return Announce(pod.uid, pod.key, "Normal", reason, note)
