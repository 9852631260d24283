"""Explains node groups in relation to pending pods: why no group grows, and which change would make one grow.

Scale-up plans (`controllers.scaleup`) for only the pods in question show whether a change helps.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

import numpy as np
from msgspec import structs

from slackwater.controllers.scaleup.costs import group_costs
from slackwater.controllers.scaleup.groups import (
    Budget,
    GrowableGroup,
    SkipReason,
    add_nodes,
    amount_of,
    counts_for,
    upcoming_name,
)
from slackwater.controllers.scaleup.outcome import ScaleUpPlan
from slackwater.controllers.scaleup.pending import Demand, pending_demand
from slackwater.controllers.scaleup.plan import plan_scale_up
from slackwater.controllers.scaleup.policy import ScaleUpPolicy
from slackwater.explain import obstacles
from slackwater.explain.explain_input import Change, ExplainInput, GroupEdit, NewNode, PolicyEdit, after
from slackwater.explain.findings import Explanation, Finding, GroupVerdict, PodQuery, Remedy, of_reason, remedy
from slackwater.fit.feasible_nodes import feasible
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Node, Pod
from slackwater.model.reasons import Reason, WaitReason
from slackwater.model.texts import count_text

_NEW: Final = 2_000_000
#: The most equivalence groups of pending pods that are judged for one node group.
_MOST_KINDS: Final = 200


def group_verdicts(explain_input: ExplainInput, pod: Pod) -> list[GroupVerdict]:
    """For each node group, the reasons why it does not help the pod; a verdict without reasons means that it would."""
    return [
        GroupVerdict(group=name, helps=not reasons, reasons=reasons)
        for name in explain_input.groups
        for reasons in [(*skip_reasons(explain_input, name), *on_new_node(explain_input, name, pod))]
    ]


def skip_reasons(explain_input: ExplainInput, name: GroupName) -> Iterator[Finding]:
    """The finding that keeps the group from growing for any pod; none if it may grow."""
    skip_reason = _skip_reason(explain_input, name)
    if skip_reason is None and explain_input.groups[name].template is None:
        skip_reason = SkipReason(kind="no-template", text="nobody knows what a node of the group looks like")
    if skip_reason is not None:
        yield of_reason(WaitReason(skip_reason.kind), detail=skip_reason.text, objects=(f"group {name}",))


def _skip_reason(explain_input: ExplainInput, name: GroupName) -> SkipReason | None:
    """Why a plan passes the group over: the group's own reason, or a limit of the group, a quota or the cluster."""
    groups, policy = list(explain_input.groups.values()), explain_input.scale_up
    budget = Budget.of(groups, nodes=_nodes(explain_input), quotas=policy.quotas, max_nodes=policy.max_nodes_per_scale_up)
    return explain_input.groups[name].skip_reason or budget.skip_reason(list(explain_input.groups).index(name))


def _nodes(explain_input: ExplainInput) -> list[Node]:
    facts = explain_input.snapshot.facts
    return [node for row, node in enumerate(facts.nodes) if facts.live[row]]


def on_new_node(explain_input: ExplainInput, name: GroupName, pod: Pod) -> list[Finding]:
    """Why a new node of the group would not take the pod; empty if it would."""
    template = explain_input.groups[name].template
    if template is None:
        return []
    snapshot = explain_input.snapshot
    with snapshot.fork():
        (row,) = add_nodes(snapshot, template, [upcoming_name(name, _NEW)], system=explain_input.scale_up.system)
        asked = PodQuery(explain_input, pod)
        verdicts = feasible(snapshot, asked.kind)
        if verdicts.refusal is not None:
            return [obstacles.of_refusal(asked, verdicts.refusal)]
        reason = Reason(int(verdicts.codes[row]))
        if reason is Reason.OK:
            return []
        found = obstacles.of_rows(asked, reason, np.array([row]))
        return [
            structs.replace(each, closest=None, detail="; ".join(filter(None, (each.detail, template.remark))))
            for each in found
        ]


def on_its_way(explain_input: ExplainInput, pod: Pod) -> list[Finding]:
    """What a plan made now does for the pod without any change: findings that an upcoming node takes it, or that a group
    grows. Empty if the plan does not help."""
    if not explain_input.groups:
        return []
    plan = _planned(explain_input, Demand(counted=(pod,)))
    coming = [of_reason(WaitReason.COMING, objects=(f"node {name}",)) for _, name in plan.schedulable]
    grows = [of_reason(WaitReason.GROWS, objects=(f"group {scale_up.group}",)) for scale_up in plan.scale_ups if scale_up.pods]
    return [*coming, *grows]


# --- what would let a group grow ------------------------------------------------------------------------------------------


def growing_changes(explain_input: ExplainInput, pod: Pod) -> Iterator[Change]:
    """Changes after which a group might grow for the pod, group by group."""
    for name in explain_input.groups:
        if not on_new_node(explain_input, name, pod):
            yield from group_changes(explain_input, name)


def group_changes(explain_input: ExplainInput, name: GroupName) -> Iterator[Change]:
    """Changes that remove the group's skip reason; if it has none, the change that adds one node."""
    group = explain_input.groups[name]
    if group.template is None:
        return
    skip_reason = _skip_reason(explain_input, name)
    if skip_reason is None:
        yield NewNode(words=f"add a node of group {name}", group=name)
    elif skip_reason.kind == "switched-off":
        yield GroupEdit(words=f"switch group {name} on", group=name, edit=lambda group: replace(group, skip_reason=None))
    elif group.provided.target >= group.provided.max_size:
        yield _larger(group)
    elif skip_reason.kind == "limit":
        yield from _quotas(explain_input, group)


def _larger(group: GrowableGroup) -> Change:
    size = group.provided.target + 1

    def edit(group: GrowableGroup) -> GrowableGroup:
        skip_reason = None if group.skip_reason is not None and group.skip_reason.kind == "limit" else group.skip_reason
        own = replace(group.group, max_size=max(size, group.group.max_size))
        whole = None if group.whole is None else replace(group.whole, max_size=own.max_size)
        return replace(group, group=own, whole=whole, skip_reason=skip_reason)

    words = f"raise max of group {group.owner} from {group.provided.max_size} to {size}"
    return GroupEdit(words=words, group=group.name, edit=edit)


def _quotas(explain_input: ExplainInput, group: GrowableGroup) -> Iterator[Change]:
    """The change that raises all quotas that one more node would exceed; nothing if it would exceed none."""
    assert group.template is not None
    new, nodes = group.template.node, _nodes(explain_input)
    raised: dict[str, dict[str, int]] = {}
    words: list[str] = []
    for quota in explain_input.scale_up.quotas:
        counted = [node for node in (*nodes, new) if counts_for(quota, node)]
        needs = {name: sum(amount_of(node, name) for node in counted) for name in quota.limits}
        lacking = {name: amount for name, amount in needs.items() if amount > quota.limits[name]}
        if lacking and counts_for(quota, new):
            raised[quota.name] = {**quota.limits, **lacking}
            each = (f"raise quota {quota.name} of {name} from {quota.limits[name]} to {lacking[name]}" for name in lacking)
            words.append(", ".join(each))

    def edit(policy: ScaleUpPolicy) -> ScaleUpPolicy:
        quotas = (replace(quota, limits=raised.get(quota.name, quota.limits)) for quota in policy.quotas)
        return replace(policy, quotas=tuple(quotas))

    if raised:
        yield PolicyEdit(words="; ".join(words), scale_up=edit)


def grows_for(explain_input: ExplainInput, pod: Pod, change: Change) -> bool:
    """Would a plan made after the change find a node for the pod? A node that the change adds counts as an existing node."""
    with after(explain_input, (change,)) as then:
        if isinstance(change, NewNode):
            return bool(len(feasible(then.snapshot, then.kind_of(pod)).rows))
        plan = _planned(then, Demand(counted=(pod,)))
    return any(pods for scale_up in plan.scale_ups for pods in scale_up.nodes) or bool(plan.schedulable)


def _planned(explain_input: ExplainInput, demand: Demand) -> ScaleUpPlan:
    """Makes a scale-up plan without a time limit, and leaves the snapshot unchanged."""
    with explain_input.snapshot.fork():
        return plan_scale_up(
            explain_input.snapshot,
            demand,
            list(explain_input.groups.values()),
            policy=explain_input.scale_up,
            clock=lambda: 0.0,
        )


# --- a group --------------------------------------------------------------------------------------------------------------


def explain_group(explain_input: ExplainInput, name: GroupName, facts: dict[str, Any]) -> Explanation:
    """Explains why a group has not grown, and which changes would make it grow. `facts` may have the group's share of a slack
    plan: a group for whose new nodes placeholders are planned grows too."""
    parts = {each: group for each, group in explain_input.groups.items() if group.owner == name}
    found = [structs.replace(each, objects=(f"group {name}",)) for each in skip_reasons(explain_input, next(iter(parts)))]
    rules = replace(explain_input.scale_up.pending, after_scheduler=False)
    demand = pending_demand(list(explain_input.pending.values()), rules=rules, now=None)
    # One pod of each equivalence group, with the number of pods in the group; the largest group first.
    kinds = explain_input.snapshot.number(demand.counted).tolist()
    first = dict(zip(reversed(kinds), reversed(demand.counted), strict=True))
    waiting = [(first[kind], count) for kind, count in Counter(kinds).most_common(_MOST_KINDS)]
    plan = _planned(explain_input, demand)
    grows = sum(scale_up.count for scale_up in plan.scale_ups if scale_up.group in parts)
    coming = (facts.get("slack") or {}).get("coming", 0)
    for_slack = f"for {count_text(coming, 'placeholder')} of slack" if coming else ""
    grows_for = (count_text(grows, "node") if grows else "", for_slack)
    if any(grows_for):
        found.append(of_reason(WaitReason.GROWS, detail=", ".join(filter(None, grows_for)), objects=(f"group {name}",)))
    helpless = [pod for unhelpable in plan.unhelpable for pod in unhelpable.pods]
    found += _refused(explain_input, list(parts), waiting)
    if not helpless and not any(grows_for):
        found.append(of_reason(WaitReason.NOT_NEEDED, objects=(f"group {name}",)))
    remedies = [] if not helpless or grows else _growth_remedies(explain_input, list(parts), Demand(counted=tuple(helpless)))
    pending: dict[str, Any] = {"pending": len(explain_input.pending), "counted": len(demand.counted), "helpless": len(helpless)}
    there = explain_input.snapshot.facts
    members = (there.row_of.get(node) for node, group in explain_input.group_of.items() if group == name)
    nodes = [there.nodes[row] for row in members if row is not None]
    costs = group_costs(explain_input.scale_up.prices, parts.values(), plan.scale_ups, {name: nodes})
    if costs:
        pending["cost"] = costs[name].document
    return Explanation(
        object=f"group {name}",
        state="grows" if grows or (coming and not helpless) else ("stuck" if helpless else "idle"),
        reasons=tuple(found),
        remedies=tuple(remedies),
        facts={**facts, **pending},
    )


def _refused(explain_input: ExplainInput, names: Sequence[GroupName], waiting: Sequence[tuple[Pod, int]]) -> list[Finding]:
    """Why a new node of the group would not take the pods that fit on no present node: a finding for each reason, with the
    number of pods in its detail. `names`: those of the group's variants; a pod that one of them takes is not refused."""
    snapshot, counted = explain_input.snapshot, Counter[str]()
    shown: dict[str, Finding] = {}
    for pod, count in waiting:
        if len(feasible(snapshot, explain_input.kind_of(pod)).rows):
            continue
        each = [on_new_node(explain_input, name, pod) for name in names]
        for finding in each[0] if all(each) else ():
            key = f"{finding.code} {finding.resource}"
            counted[key] += count
            shown.setdefault(key, finding)
    return [
        structs.replace(shown[key], detail=f"{count} pods: {shown[key].detail}".rstrip(": "), nodes=0)
        for key, count in counted.most_common()
    ]


def _growth_remedies(explain_input: ExplainInput, names: Sequence[GroupName], demand: Demand) -> list[Remedy]:
    found = []
    for change in chain.from_iterable(group_changes(explain_input, name) for name in names):
        with after(explain_input, (change,)) as then:
            plan = _planned(then, demand)
            placed = bool(plan.schedulable) if isinstance(change, NewNode) else False
        if placed or any(scale_up.group in names and scale_up.pods for scale_up in plan.scale_ups):
            found.append(remedy(change))
    return found
