"""Answers `slackwater simulate scale-up`: which nodes would be added for a cluster's pending pods.

In: a `Cluster` and settings, planned by `growth`. Out: the plan.
"""

import time
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from slackwater.adapters.kube.config_maps import PRIORITIES_CONFIG_MAP
from slackwater.app.offline.cluster import Cluster
from slackwater.app.offline.growth import Grown, planned_growth
from slackwater.app.settings import Settings
from slackwater.controllers.scaleup.costs import total_of
from slackwater.controllers.scaleup.groups import GrowableGroup, SkipReason
from slackwater.controllers.scaleup.outcome import GroupRefusal, PackedNodes, ScaleUpPlan, Unhelpable
from slackwater.controllers.scaleup.variants import by_whole
from slackwater.model.nodegroups import GroupName
from slackwater.model.prices import HourlyPrice
from slackwater.ports.whatif_answers import (
    FailedPart,
    GroupScaleUp,
    NotCounted,
    PackingAnswer,
    Placed,
    PlanningAnswer,
    Rejection,
    ScaleUpAnswer,
    UnhelpablePod,
)
from slackwater.snapshot.equivalence_groups import KindId
from slackwater_protocol.money import decimal_text

#: Skip reasons that may pass without a change of the configuration or of the pod.
_PASSING: Final = frozenset({"limit", "time", "backoff", "not-ready"})

#: The most reasons (one for each pod and node group) that an answer repeats for pods with the same reasons.
_MOST_REASONS: Final = 200_000


def scale_up_answer(cluster: Cluster, settings: Settings, *, accounting: bool = False, plan_steps: int = 0) -> ScaleUpAnswer:
    """Plans a scale-up and returns the plan; docs/simulate.md describes its shape.

    Limits on nodes in creation do not reduce the plan. With `accounting`, nodes have no more room than our own accounting
    gives them. `plan_steps`: the most steps of the plan (`fit.steps`); 0: no limit.

    `seconds` is the time from the decoded objects to the plan. `not_counted` lists pods that were not planned for, with the
    reason, `not_looked_at` the pods beyond `scaleUp.maxPods`, `failures` what was left out of the plan because planning raised
    an error, `skipped` the rules that could not be judged.
    """
    began = time.perf_counter()
    grown = planned_growth(cluster, settings, accounting=accounting, plan_steps=plan_steps)
    seconds = round(time.perf_counter() - began, 6)
    plan, slack = grown.found.plan, grown.found.slack
    placeholders = grown.found.slack.state.placeholders if grown.found.slack else ()
    # The placeholders that fit on existing nodes are listed as pods `slack/<n>`.
    placed = (*plan.schedulable, *((each.pod, each.place) for each in placeholders if each.place is not None))
    return ScaleUpAnswer(
        groups=list(_groups(grown)),
        schedulable=[Placed(pod=str(pod.key), node=node) for pod, node in placed],
        unhelpable=list(_unhelpable([*plan.unhelpable, *(slack.unhelpable if slack else ())], grown.groups)),
        not_counted=tuple(NotCounted(pod=str(each.pod.key), reason=each.why) for each in plan.passed_over),
        not_looked_at=tuple(str(pod.key) for pod in plan.not_looked_at),
        failures=tuple(FailedPart(about=each.about, error=each.error) for each in plan.failures),
        skipped=growth_notes(grown, cluster, settings),
        remarks=(*cluster.remarks, *grown.unmet),
        cost=HourlyPrice.of(total_of(cost.planned for cost in grown.costs.values())),
        packing=None if plan.packed is None else _packing(plan.packed),
        planning=planning_answer(plan),
        seconds=seconds,
    )


def planning_answer(plan: ScaleUpPlan) -> PlanningAnswer:
    return PlanningAnswer(steps=plan.steps, cut_by="maxPlanningTime" if plan.cut_by == "time" else plan.cut_by)


def _packing(packed: PackedNodes) -> PackingAnswer:
    above = packed.cost - packed.bound
    return PackingAnswer(
        cost=decimal_text(packed.cost),
        bound=decimal_text(packed.bound) if packed.bound else None,
        gap_percent=round(100 * above / packed.bound, 2) if packed.bound else None,
        steps=packed.steps,
        cut=packed.cut,
        solver=packed.solver,
    )


def _groups(grown: Grown) -> Iterator[GroupScaleUp]:
    """An entry for each group, with its variants where it is planned as such."""
    scale_ups = {scale_up.group: scale_up for scale_up in grown.found.plan.scale_ups}
    by_owner: dict[GroupName, list[GrowableGroup]] = {}
    for group in grown.groups:
        by_owner.setdefault(group.owner, []).append(group)
    for owner, parts in by_owner.items():
        found = [(part, scale_ups[part.name]) for part in parts if part.name in scale_ups]
        cost = grown.costs.get(owner)
        yield GroupScaleUp(
            name=owner,
            new_nodes=sum(scale_up.count for _, scale_up in found),
            pods=[str(pod.key) for _, scale_up in found for pod in scale_up.pods],
            variants={part.name: scale_up.count for part, scale_up in found if part.whole is not None} or None,
            price=None if cost is None else HourlyPrice.of(cost.node),
            cost=None if cost is None else HourlyPrice.of(cost.planned),
        )


def _unhelpable(found: Sequence[Unhelpable], groups: Sequence[GrowableGroup]) -> Iterator[UnhelpablePod]:
    """An entry for each pod. Of pods with the same reasons the first has them; the others too, as far as `_MOST_REASONS`
    allows, and else `same_as`, the name of the first."""
    left, owners = (
        _MOST_REASONS - sum(len(unhelpable.groups) for unhelpable in found),
        {each.name: each.owner for each in groups},
    )
    for unhelpable in found:
        why = {name: _why(reason) for name, reason in by_whole(unhelpable.groups, owners).items()}
        first = str(unhelpable.pods[0].key)
        yield UnhelpablePod(pod=first, groups=why)
        for pod in unhelpable.pods[1:]:
            left -= len(why)
            repeated = left >= 0
            yield UnhelpablePod(pod=str(pod.key), groups=why if repeated else {}, same_as=None if repeated else first)


def _why(reason: GroupRefusal | SkipReason) -> Rejection:
    if isinstance(reason, SkipReason):
        return Rejection.of("Slackwater", [reason.text], resolvable=reason.kind in _PASSING)
    return Rejection.of(reason.reason.plugin, list(reason.words), resolvable=reason.reason.resolvable)


def growth_notes(grown: Grown, cluster: Cluster, settings: Settings) -> tuple[str, ...]:
    """What could not be judged."""
    snapshot, pending = grown.snapshot, grown.pending

    @cache
    def of_kind(kind: int) -> tuple[str, ...]:
        return tuple(cluster.skipped(snapshot.of(KindId(kind)), but="Node"))

    found = dict.fromkeys(note for kind in snapshot.number(pending).tolist() for note in of_kind(kind))
    found |= dict.fromkeys(cluster.without_pods("none is pending and every node counts as empty"))
    if "DaemonSet" in cluster.unknown and pending:
        found[f"the room that DaemonSets take on new nodes of groups without a node: {cluster.lack('DaemonSet')}"] = None
    if "priority" in settings.autoscaler.expanders and cluster.priorities is None:
        found[f"expander priority: {cluster.priorities_problem or f'no ConfigMap {PRIORITIES_CONFIG_MAP} {cluster.where}'}"] = (
            None
        )
    return *found, *cluster.unread
