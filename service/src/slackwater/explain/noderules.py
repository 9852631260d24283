"""Explains rules about the node itself that keep it from being removed, with changes that would lift each."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from slackwater.controllers.scaledown.eligibility import Look
from slackwater.controllers.scaledown.policy import GroupPolicy, ScaleDownPolicy
from slackwater.explain.asked import Obstacle
from slackwater.explain.changes import Change, GroupEdit, NodeEdit, ScaleDownEdit
from slackwater.explain.findings import of_unremovable_reason
from slackwater.explain.room import quantity
from slackwater.explain.situation import ExplainInput
from slackwater.model.ids import Row
from slackwater.model.nodegroups import GroupName
from slackwater.model.unremovable_reasons import UnremovableReason
from slackwater.snapshot.node_facts import CPU, MEMORY

#: Thresholds are raised to whole thousandths.
_FINE: Final = 1000


def obstacle(explain_input: ExplainInput, look: Look, row: Row, unremovable_reason: UnremovableReason, detail: str) -> Obstacle:
    """The obstacle for a rule's reason."""
    objects = [f"node {look.node.name}"] + ([f"group {look.group}"] if look.group is not None else [])
    finding = of_unremovable_reason(unremovable_reason, nodes=1, objects=tuple(objects), detail=detail)
    if look.group is None:
        return Obstacle(finding)
    return Obstacle(finding, tuple(_changes(explain_input, look, row, look.group, unremovable_reason)))


def _changes(
    explain_input: ExplainInput, look: Look, row: Row, group: GroupName, unremovable_reason: UnremovableReason
) -> Iterator[Change]:
    match unremovable_reason:
        case UnremovableReason.DISABLED_FOR_GROUP:
            words = f"let nodes of group {group} be removed (scaleDown.enabled)"
            yield ScaleDownEdit(
                words=words, edit=lambda policy: _of_group(policy, group, lambda own: replace(own, enabled=True))
            )
        case UnremovableReason.DISABLED_ANNOTATION:
            words = f"remove annotation scale-down-disabled from node {look.node.name}"
            yield NodeEdit(words=words, node=look.node.name, edit=lambda node: replace(node, keep=False))
        case UnremovableReason.UNREADY_DISABLED:
            words = "let nodes that are not ready be removed (scaleDown.unreadyEnabled)"
            yield ScaleDownEdit(words=words, edit=lambda policy: replace(policy, unready_enabled=True))
        case UnremovableReason.NOT_UNDERUTILIZED:
            yield from _threshold(look, group)
        case UnremovableReason.GROUP_MIN_SIZE:
            yield _smaller(explain_input, group)
        case UnremovableReason.CLUSTER_MINIMUM:
            yield _less(explain_input, row)
        case _:
            return


def _of_group(policy: ScaleDownPolicy, group: GroupName, change: Callable[[GroupPolicy], GroupPolicy]) -> ScaleDownPolicy:
    return replace(policy, groups={**policy.groups, group: change(policy.groups.get(group, GroupPolicy()))})


def _threshold(look: Look, group: GroupName) -> Iterator[Change]:
    assert look.rules is not None
    share = math.ceil(look.utilization.share * _FINE) / _FINE
    if look.utilization.of_gpu:
        before = look.rules.gpu_utilization_threshold
        words = f"raise scaleDown.gpuUtilizationThreshold from {before:g} to {share:g}"
        yield ScaleDownEdit(words=words, edit=lambda policy: replace(policy, gpu_utilization_threshold=share))
    else:
        words = f"raise the utilization threshold of group {group} from {look.rules.utilization_threshold:g} to {share:g}"
        yield ScaleDownEdit(
            words=words, edit=lambda policy: _of_group(policy, group, lambda own: replace(own, utilization_threshold=share))
        )


def _smaller(explain_input: ExplainInput, group: GroupName) -> Change:
    known = explain_input.groups[group].group
    size = max(known.target - 1, 0)
    return GroupEdit(
        words=f"lower min of group {group} from {known.min_size} to {size}",
        group=group,
        edit=lambda each: replace(each, group=replace(each.group, min_size=size)),
    )


def _less(explain_input: ExplainInput, row: Row) -> Change:
    """The change that lowers the cluster's minima as far as needed."""
    facts = explain_input.snapshot.facts
    live = facts.live[: facts.n_rows]
    stay = facts.allocatable[[CPU, MEMORY], : facts.n_rows][:, live].sum(axis=1) - facts.allocatable[[CPU, MEMORY], row]
    before = explain_input.scale_down.minimum
    nodes, cpu, memory = int(live.sum()) - 1, int(stay[CPU]), int(stay[MEMORY])
    after = replace(before, nodes=min(before.nodes, nodes), cpu=min(before.cpu, cpu), memory=min(before.memory, memory))
    changed = [
        f"{name} from {text(was)} to {text(now)}"
        for name, was, now, text in (
            ("nodes", before.nodes, after.nodes, str),
            ("cpu", before.cpu, after.cpu, lambda amount: quantity("cpu", amount)),
            ("memory", before.memory, after.memory, lambda amount: quantity("memory", amount)),
        )
        if was != now
    ]
    words = f"lower the cluster's minimum of {' and of '.join(changed)}"
    return ScaleDownEdit(words=words, edit=lambda policy: replace(policy, minimum=after))
