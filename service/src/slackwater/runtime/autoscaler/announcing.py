"""What people learn of a plan: Events on pods, bounded, and not the same again and again.

The reasons are Cluster Autoscaler's, TriggeredScaleUp, NotTriggerScaleUp and ScaleUpTimedOut; the texts name for each group
what binds.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from slackwater.cluster.nodegroups.status import Grow, NodeGroupStatus
from slackwater.controllers.scaleup.groups import SkipReason
from slackwater.controllers.scaleup.outcome import Refused, ScaleUp, Unhelpable
from slackwater.model.effects import Announce
from slackwater.model.ids import Instant, PodKey, PodUid, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Pod
from slackwater.model.placeholders import is_placeholder

#: Events of one loop for each reason; more important pods first.
_MOST_EVENTS: Final = 200
#: The same words about the same pod are said again after so long.
_AGAIN_SECONDS: Final = 600.0
_MOST_REMEMBERED: Final = 16_384
#: Groups that are named in one text.
_MOST_GROUPS: Final = 10
#: Causes that are named for one group.
_MOST_WHYS: Final = 3


class Announcer:
    """Remembers what it said, by one clock or the other."""

    def __init__(self) -> None:
        self._said: OrderedDict[tuple[PodUid, str], Instant | UnixTime] = OrderedDict()

    def select(self, announcements: Iterable[Announce], now: Instant | UnixTime) -> tuple[list[Announce], int]:
        """Those that are news, as many as may be said in one loop; and how many more there were."""
        chosen: list[Announce] = []
        left_out = 0
        for words in announcements:
            key = (words.uid, words.note)
            said = self._said.get(key)
            if said is not None and now - said < _AGAIN_SECONDS:
                continue
            if len(chosen) >= _MOST_EVENTS:
                left_out += 1
                continue
            chosen.append(words)
            self._said[key] = now
            self._said.move_to_end(key)
        while len(self._said) > _MOST_REMEMBERED:
            self._said.popitem(last=False)
        return chosen, left_out


def triggered(scale_ups: Iterable[tuple[ScaleUp, Grow, int]]) -> Iterator[Announce]:
    """For each pod of the nodes that were asked for: growth of the plan, call, the group's maximum."""
    for scale_up, call, most in scale_ups:
        note = f"pod triggered scale-up: [{{{call.group} {call.seen}->{call.to} (max: {most})}}]"
        for pods in scale_up.nodes[: call.nodes]:
            for pod in pods:
                if not is_placeholder(pod):  # there is no such object
                    yield _event(pod, "TriggeredScaleUp", note)


def not_triggered(unhelpable: Iterable[Unhelpable]) -> Iterator[Announce]:
    """For each pod that no group helps: why not, group by group."""
    for found in unhelpable:
        note = why_not(found.groups)
        for pod in found.pods:
            yield _event(pod, "NotTriggerScaleUp", note)


def stuck(group_status: Iterable[NodeGroupStatus], status: PodKey) -> Iterator[Announce]:
    """For each group with nodes that have not come in time, and that are neither there as they should be nor gone."""
    for each in group_status:
        if each.stuck:
            yield Announce(PodUid(""), status, "Warning", "ScaleUpTimedOut", stuck_note(each), about="ConfigMap")


def stuck_note(group_status: NodeGroupStatus) -> str:
    """How many they are, and why."""
    whys = dict.fromkeys(f"{lost.code}: {lost.message}" for lost in (*group_status.late, *group_status.lost))
    if group_status.overdue:
        whys["timeout: asked for, and never created"] = None
    shown = "; ".join(list(whys)[:_MOST_WHYS]) + (f" and {len(whys) - _MOST_WHYS} more" if len(whys) > _MOST_WHYS else "")
    stuck = f"{group_status.stuck} nodes did not come in time and no longer count as in creation"
    return f"node group {group_status.name}: {stuck}: {shown}"


def why_not(groups: Mapping[GroupName, Refused | SkipReason]) -> str:
    """Groups with the same word stand together."""
    by_word: dict[str, list[GroupName]] = {}
    for name, why in sorted(groups.items()):
        by_word.setdefault(_word(why), []).append(name)
    if not by_word:
        return "pod didn't trigger scale-up: there are no node groups"
    parts = [f"{len(names)} {word} ({_named(names)})" for word, names in by_word.items()]
    return f"pod didn't trigger scale-up: {', '.join(parts)}"


def _word(why: Refused | SkipReason) -> str:
    if isinstance(why, SkipReason):
        return why.text
    return "; ".join(why.words) or why.reason.name.lower()


def _named(names: list[GroupName]) -> str:
    more = f" and {len(names) - _MOST_GROUPS} more" if len(names) > _MOST_GROUPS else ""
    return ", ".join(names[:_MOST_GROUPS]) + more


def _event(pod: Pod, reason: str, note: str) -> Announce:
    return Announce(pod.uid, pod.key, "Normal", reason, note)
