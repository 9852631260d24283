"""Eligibility: which nodes may be tried at all. These are Cluster Autoscaler's rules in its order; the first that applies
counts.

What depends on the nodes tried before (minima, destinations) is judged when a node's turn comes; see `plan`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from slackwater.controllers.scaledown.policy import GroupRules, ScaleDownPolicy
from slackwater.controllers.scaledown.state import KeptNode, ScaleDownState, taint_time
from slackwater.controllers.scaledown.utilization import Utilization
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Node
from slackwater.model.unremovable_reasons import UnremovableReason
from slackwater_protocol.names import TO_BE_DELETED_TAINT

#: A removal taint that we did not write is ignored when it is older than this.
_STALE_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What the rules read of a node. `group` and `rules` are None if it belongs to no group."""

    node: Node
    group: GroupName | None
    rules: GroupRules | None
    utilization: Utilization
    state: ScaleDownState
    policy: ScaleDownPolicy
    now: UnixTime


Word = tuple[UnremovableReason, str] | None
#: Reasons found by the expensive search for destinations.
_DEAR: Final = frozenset({UnremovableReason.NO_PLACE, UnremovableReason.SLACK_NEEDED})


def being_deleted(look: Look) -> Word:
    """The node is in the deleted set, or somebody else tainted it a short while ago."""
    if look.node.name in look.state.deleted_set:
        return UnremovableReason.BEING_DELETED, ""
    at = taint_time(look.node, TO_BE_DELETED_TAINT)
    if at is None or look.now - at >= _STALE_SECONDS:
        return None
    return UnremovableReason.BEING_DELETED, f"tainted {look.now - at:.0f} s ago"


def not_autoscaled(look: Look) -> Word:
    return (UnremovableReason.NOT_AUTOSCALED, "") if look.group is None else None


def disabled_for_group(look: Look) -> Word:
    off = look.rules is not None and not look.rules.enabled
    return (UnremovableReason.DISABLED_FOR_GROUP, str(look.group)) if off else None


def disabled_by_annotation(look: Look) -> Word:
    return (UnremovableReason.DISABLED_ANNOTATION, "") if look.node.keep else None


def unready_disabled(look: Look) -> Word:
    return None if look.policy.unready_enabled or look.node.ready else (UnremovableReason.UNREADY_DISABLED, "")


def not_underutilized(look: Look) -> Word:
    """The node's utilization is above its threshold; equal is low enough."""
    if look.rules is None:
        return None
    used = look.utilization
    threshold = look.rules.gpu_utilization_threshold if used.of_gpu else look.rules.utilization_threshold
    if used.share <= threshold:
        return None
    return UnremovableReason.NOT_UNDERUTILIZED, f"{used.resource} {used.share:.1%}, at most {threshold:.1%}"


def drain_failed(look: Look) -> Word:
    """The node's drain failed, and it backs off: each failed drain disturbs its other pods in vain. Repeats the last reason."""
    return backing_off(look.node.name, look.state, look.policy, look.now)


def recently_unremovable(look: Look) -> Word:
    """The node's pods found no destination a short while ago, which is expensive to try again. Repeats the reason found then.

    Pods that a rule does not let go are judged again in each loop: that is cheap, and a budget may allow one at any moment.
    """
    failed = look.state.non_candidate_set.get(look.node.name)
    if failed is None or failed.kept.unremovable_reason not in _DEAR:
        return None
    if look.now - failed.at >= look.policy.recheck_seconds:
        return None
    return (
        UnremovableReason.RECENTLY_UNREMOVABLE,
        f"{look.now - failed.at:.0f} s ago: {failed.kept.unremovable_reason} {failed.kept.detail}".rstrip(),
    )


def backing_off(node: NodeName, state: ScaleDownState, policy: ScaleDownPolicy, now: UnixTime) -> Word:
    """The reason while a node backs off after failed drains; None afterwards."""
    failed = state.failed_drains.get(node)
    if failed is None:
        return None
    left = failed.at + policy.backoff_seconds(failed.count) - now
    if left <= 0:
        return None
    return UnremovableReason.DRAIN_FAILED, f"{failed.count} failed, the last: {failed.why}; tried again in {left:.0f} s"


RULES: Final[tuple[Callable[[Look], Word], ...]] = (
    being_deleted,
    not_autoscaled,
    disabled_for_group,
    disabled_by_annotation,
    unready_disabled,
    not_underutilized,
    drain_failed,
    recently_unremovable,
)


def judge_node(look: Look) -> KeptNode | None:
    """Why the node may not be tried; None if it may."""
    for rule in RULES:
        word = rule(look)
        if word is not None:
            failed = look.state.non_candidate_set.get(look.node.name)
            blocked_by = failed.kept.blocked_by if failed and word[0] is UnremovableReason.RECENTLY_UNREMOVABLE else None
            return KeptNode(node=look.node.name, unremovable_reason=word[0], detail=word[1], blocked_by=blocked_by)
    return None
