"""What node groups have to do with pending pods: why none of them grows, and what would let one.

Whether a change helps is asked of the plan itself (`decide.scaleup`), for the pods in question alone.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from slackwater.controllers.scaleup.groups import Bar, GrowableGroup, add_nodes, upcoming_name
from slackwater.controllers.scaleup.limits import Budget, Quota, amount_of, counts_for
from slackwater.controllers.scaleup.outcome import ScaleUpPlan
from slackwater.controllers.scaleup.pending import Demand, which_count
from slackwater.controllers.scaleup.plan import plan_scale_up
from slackwater.explain import obstacles
from slackwater.explain.asked import Asked
from slackwater.explain.changes import Change, GroupEdit, GrowthEdit, NewNode
from slackwater.explain.findings import Explanation, Finding, GroupWord, Remedy, of_standstill
from slackwater.explain.situation import Situation, after
from slackwater.fit.feasible import feasible
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Pod
from slackwater.model.reasons import Reason
from slackwater.model.wait_reasons import Standstill

_NEW: Final = 2_000_000
#: Kinds of pending pods that are looked at for one group.
_MOST_KINDS: Final = 200


def group_words(situation: Situation, pod: Pod) -> list[GroupWord]:
    """For each group, why it does not help the pod; no findings where it would."""
    return [
        GroupWord(group=name, findings=(*bars(situation, name), *on_new_node(situation, name, pod)))
        for name in situation.groups
    ]


def bars(situation: Situation, name: GroupName) -> Iterator[Finding]:
    """What keeps a group from growing at all."""
    group = situation.groups[name]
    bar = group.bar or _limit(situation, name)
    if bar is None and group.template is None:
        bar = Bar(kind="no-template", text="nobody knows what a node of the group looks like")
    if bar is not None:
        yield of_standstill(Standstill(bar.kind), detail=bar.text, objects=(f"group {name}",))


def _limit(situation: Situation, name: GroupName) -> Bar | None:
    groups = list(situation.groups.values())
    budget = _budget(situation, groups)
    return budget.bar(list(situation.groups).index(name))


def _budget(situation: Situation, groups: Sequence[GrowableGroup]) -> Budget:
    facts = situation.picture.facts
    nodes = [node for row, node in enumerate(facts.nodes) if facts.live[row]]
    policy = situation.growth
    return Budget.of(groups, nodes=nodes, quotas=policy.quotas, max_nodes=policy.max_nodes)


def on_new_node(situation: Situation, name: GroupName, pod: Pod) -> list[Finding]:
    """What a new node of the group would have against the pod."""
    template = situation.groups[name].template
    if template is None:
        return []
    picture = situation.picture
    with picture.fork():
        (row,) = add_nodes(picture, template, [upcoming_name(name, _NEW)], system=situation.growth.system)
        asked = Asked(situation, pod)
        verdicts = feasible(picture, asked.kind)
        if verdicts.refusal is not None:
            return [obstacles.of_refusal(asked, verdicts.refusal)]
        reason = Reason(int(verdicts.codes[row]))
        if reason is Reason.OK:
            return []
        return [replace(each, closest=None) for each in obstacles.of_rows(asked, obstacles.Verdict(reason, np.array([row])))]


def on_its_way(situation: Situation, pod: Pod) -> list[Finding]:
    """What a plan made now would do for the pod by itself: a node that is on its way takes it, or one would be added."""
    if not situation.groups:
        return []
    plan = _planned(situation, Demand(counted=(pod,)))
    coming = [of_standstill(Standstill.COMING, objects=(f"node {name}",)) for _, name in plan.schedulable]
    grows = [of_standstill(Standstill.GROWS, objects=(f"group {growth.group}",)) for growth in plan.growths if growth.pods]
    return [*coming, *grows]


# --- what would let a group grow ------------------------------------------------------------------------------------------


def growing_changes(situation: Situation, pod: Pod) -> Iterator[Change]:
    """Changes after which a group might grow for the pod, group by group."""
    for name in situation.groups:
        if not on_new_node(situation, name, pod):
            yield from group_changes(situation, name)


def group_changes(situation: Situation, name: GroupName) -> Iterator[Change]:
    """What lifts the bar of a group; where it has none, a node more."""
    group = situation.groups[name]
    bar = group.bar or _limit(situation, name)
    if group.template is None:
        return
    if bar is None:
        yield NewNode(words=f"add a node of group {name}", group=name)
    elif bar.kind == "switched-off":
        yield GroupEdit(words=f"switch group {name} on", group=name, edit=lambda group: replace(group, bar=None))
    elif group.group.target >= group.group.max_size:
        yield _larger(group)
    elif bar.kind == "limit":
        yield from _quotas(situation, group)


def _larger(group: GrowableGroup) -> Change:
    size = group.group.target + 1

    def edit(group: GrowableGroup) -> GrowableGroup:
        bar = None if group.bar is not None and group.bar.kind == "limit" else group.bar
        return replace(group, group=replace(group.group, max_size=max(size, group.group.max_size)), bar=bar)

    words = f"raise max of group {group.name} from {group.group.max_size} to {size}"
    return GroupEdit(words=words, group=group.name, edit=edit)


def _quotas(situation: Situation, group: GrowableGroup) -> Iterator[Change]:
    """Every quota that a node more would exceed, raised by as much as that; several only together, so one change."""
    assert group.template is not None
    new = group.template.node
    facts = situation.picture.facts
    nodes = [node for row, node in enumerate(facts.nodes) if facts.live[row]]
    raised: list[tuple[Quota, dict[str, int]]] = []
    for quota in situation.growth.quotas:
        if not counts_for(quota, new):
            continue
        counted = [node for node in nodes if counts_for(quota, node)]
        needs = {name: sum(amount_of(node, name) for node in (*counted, new)) for name in quota.limits}
        lacking = {name: amount for name, amount in needs.items() if amount > quota.limits[name]}
        if lacking:
            raised.append((quota, lacking))
    if raised:
        yield GrowthEdit(words="; ".join(_quota_words(quota, lacking) for quota, lacking in raised), edit=_raising(raised))


def _quota_words(quota: Quota, lacking: dict[str, int]) -> str:
    return ", ".join(
        f"raise quota {quota.name} of {name} from {quota.limits[name]} to {amount}" for name, amount in lacking.items()
    )


def _raising(raised: list[tuple[Quota, dict[str, int]]]) -> Any:
    new = {quota.name: {**quota.limits, **lacking} for quota, lacking in raised}
    return lambda policy: replace(
        policy, quotas=tuple(replace(quota, limits=new.get(quota.name, quota.limits)) for quota in policy.quotas)
    )


def grows_for(situation: Situation, pod: Pod, change: Change) -> bool:
    """Would a plan made after the change find the pod a place? A node more is simply there."""
    with after(situation, (change,)) as then:
        if isinstance(change, NewNode):
            return bool(len(feasible(then.picture, then.kind_of(pod)).rows))
        plan = _planned(then, Demand(counted=(pod,)))
    return any(pods for growth in plan.growths for pods in growth.nodes) or bool(plan.schedulable)


def _planned(situation: Situation, demand: Demand) -> ScaleUpPlan:
    """A plan without a clock: nothing cuts it off but its end."""
    with situation.picture.fork():
        return plan_scale_up(
            situation.picture, demand, list(situation.groups.values()), policy=situation.growth, clock=lambda: 0.0
        )


# --- a group --------------------------------------------------------------------------------------------------------------


def explain_group(situation: Situation, name: GroupName, facts: dict[str, Any]) -> Explanation:
    """Why a group has not grown, and what would let it."""
    found = list(bars(situation, name))
    rules = replace(situation.growth.pending, after_scheduler=False)
    demand = which_count(list(situation.pending.values()), rules=rules, now=None)
    waiting = _by_kind(situation, demand)
    plan = _planned(situation, demand)
    grows = sum(growth.count for growth in plan.growths if growth.group == name)
    if grows:
        found.append(of_standstill(Standstill.GROWS, detail=f"{grows} nodes", objects=(f"group {name}",)))
    helpless = [pod for unhelpable in plan.unhelpable for pod in unhelpable.pods]
    found += _refused(situation, name, waiting)
    if not helpless and not grows:
        found.append(of_standstill(Standstill.NOT_NEEDED, objects=(f"group {name}",)))
    remedies = [] if not helpless or grows else _letting_grow(situation, name, Demand(counted=tuple(helpless)))
    pending = {"pending": len(situation.pending), "counted": len(demand.counted), "helpless": len(helpless)}
    return Explanation(
        object=f"group {name}",
        state="grows" if grows else ("stuck" if helpless else "idle"),
        reasons=tuple(found),
        remedies=tuple(remedies),
        facts={**facts, **pending},
    )


def _by_kind(situation: Situation, demand: Demand) -> list[tuple[Pod, int]]:
    """One pod of each kind, and how many there are, the most frequent first."""
    kinds = situation.picture.number(demand.counted).tolist()
    first = dict(zip(reversed(kinds), reversed(demand.counted), strict=True))
    return [(first[kind], count) for kind, count in Counter(kinds).most_common(_MOST_KINDS)]


def _refused(situation: Situation, name: GroupName, waiting: Sequence[tuple[Pod, int]]) -> list[Finding]:
    """What a new node would have against those that fit nowhere now, by verdict, with how many pods say so."""
    picture, counted = situation.picture, Counter[str]()
    shown: dict[str, Finding] = {}
    for pod, count in waiting:
        if len(feasible(picture, situation.kind_of(pod)).rows):
            continue
        for finding in on_new_node(situation, name, pod):
            key = f"{finding.code} {finding.resource}"
            counted[key] += count
            shown.setdefault(key, finding)
    return [
        replace(shown[key], detail=f"{count} pods: {shown[key].detail}".rstrip(": "), nodes=0)
        for key, count in counted.most_common()
    ]


def _letting_grow(situation: Situation, name: GroupName, demand: Demand) -> list[Remedy]:
    found = []
    for change in group_changes(situation, name):
        with after(situation, (change,)) as then:
            plan = _planned(then, demand)
            placed = bool(plan.schedulable) if isinstance(change, NewNode) else False
        if placed or any(growth.group == name and growth.pods for growth in plan.growths):
            found.append(Remedy(changes=(change,)))
    return found
