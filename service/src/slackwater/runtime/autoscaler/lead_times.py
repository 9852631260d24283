"""How long a class of pods would have to wait for a new node: what the groups' last nodes took to start, and a loop.

Of the groups whose nodes would take a pod of the class the slowest counts, since the plan chooses among them by other things.
Of a group's last nodes the share that the promise names started within what is taken. Where no node was seen to start, the
configuration's word stands for it.
"""

from collections.abc import Mapping, Sequence
from math import ceil

from slackwater.controllers.scaleup.groups import GrowableGroup
from slackwater.controllers.slack.rule import PPM, SlackPolicy
from slackwater.fit.filter.taint_toleration import tolerated
from slackwater.model.equivalence import Kind
from slackwater.model.nodegroups import GroupName
from slackwater.model.promises import Observed


def leads_of(
    observed: Sequence[Observed],
    groups: Sequence[GrowableGroup],
    starts: Mapping[GroupName, Sequence[float]],
    policy: SlackPolicy,
) -> dict[str, int]:
    """By class, whole seconds."""
    return {each.of.name: ceil(_start_seconds(each, groups, starts, policy) + policy.loop_seconds) for each in observed}


def _start_seconds(
    seen: Observed, groups: Sequence[GrowableGroup], starts: Mapping[GroupName, Sequence[float]], policy: SlackPolicy
) -> float:
    kinds = [share.kind for share in seen.mix]
    ours = [group.name for group in groups if any(_takes(group, kind) for kind in kinds)]
    known = [_at_share(starts[name], seen.of.share_ppm) for name in ours if starts.get(name)]
    return max(known, default=policy.node_start_seconds)


def _at_share(seconds: Sequence[float], share_ppm: int) -> float:
    """So many of them were at most so long; of a few the longest."""
    return sorted(seconds)[-(-len(seconds) * share_ppm // PPM) - 1]


def _takes(group: GrowableGroup, kind: Kind) -> bool:
    """By its labels, taints and room; what else there may be against it is the plan's business."""
    if group.template is None:
        return False
    node = group.template.node
    hard = [taint for taint in node.taints if taint.effect in {"NoSchedule", "NoExecute"}]
    return (
        kind.requests.within(node.allocatable)
        and all(node.labels.get(key) == value for key, value in kind.node_selector)
        and all(tolerated(taint, kind.tolerations) for taint in hard)
    )
