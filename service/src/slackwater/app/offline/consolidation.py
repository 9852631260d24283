"""Answers `slackwater simulate consolidate`: which nodes would be replaced by cheaper ones now, and what that saves.

In: a `Cluster` and settings. Out: the plan of `controllers.consolidation`, which counts as enabled here. The plan has no
history, so no pod counts as moved a short while ago. Without prices in the configuration the formula's count.
"""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Literal

from slackwater.app.offline.cluster import Cluster
from slackwater.app.offline.growth import Grown, planned_growth, removal_groups
from slackwater.app.offline.scaledown import kept_answer, notes_of, removal_input
from slackwater.app.offline.scaleup import planning_answer
from slackwater.app.policies import consolidation_rules_of, scale_up_policy_of
from slackwater.app.prices import every_price
from slackwater.app.settings import Settings
from slackwater.controllers.consolidation.candidates import NodeFacts
from slackwater.controllers.consolidation.outcome import ConsolidationMove, ConsolidationPlan
from slackwater.controllers.consolidation.plan import NOTHING_KNOWN, plan_consolidation
from slackwater.controllers.consolidation.policy import ConsolidationRules
from slackwater.controllers.scaledown.state import ScaleDownState
from slackwater.fit.steps import MOST_STEPS
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.objects import DisruptionBudget
from slackwater.model.placeholders import is_placeholder_uid
from slackwater.model.prices import HourlyPrice, PriceBook, cost_of
from slackwater.model.reasons import UnremovableReason
from slackwater.ports.whatif_answers import ConsolidationAnswer, NodeMoveAnswer, PlanningAnswer
from slackwater_protocol.money import decimal_text


def consolidation_answer(
    cluster: Cluster,
    settings: Settings,
    *,
    accounting: bool = False,
    plan_steps: int = 0,
    stop: Callable[[], bool] = lambda: False,
) -> ConsolidationAnswer:
    """Plans a consolidation and returns the answer. `plan_steps`: the most steps of the plan (`fit.steps`); 0: no limit.
    `stop` tells whether planning has to end now."""
    now, began = UnixTime(datetime.now(UTC).timestamp()), time.perf_counter()
    prices = every_price(settings, overlays=cluster.price_overlays, table=cluster.price_table)
    grown = planned_growth(cluster, settings, accounting=accounting, plan_steps=plan_steps)
    groups, members = removal_groups(grown.groups, grown.group_of, cluster)
    budgets = cluster.counted_budgets()
    plan = planned_consolidation(
        cluster,
        grown,
        ScaleDownState(),
        consolidation_rules_of(settings, scale_up_policy_of(settings, prices=prices, plan_steps=0)),
        prices,
        budgets=None if budgets is None else budgets.budgets,
        now=now,
        stop=stop,
        most_steps=plan_steps,
    )
    nodes = [node for node in cluster.nodes if node.name in members]
    of = Counter(prices.of(members[node.name], node, provider=groups[members[node.name]].price_micros) for node in nodes)
    cost = cost_of(of.items())
    before = planning_answer(grown.found.plan)
    return ConsolidationAnswer(
        moves=[_move(move) for move in plan.moves],
        kept=[kept_answer(each) for each in plan.kept],
        cost=HourlyPrice.of(cost),
        cost_after=None if cost is None else HourlyPrice.of(replace(cost, micros=plan.cost_after)),
        bound=decimal_text(plan.bound) if plan.bound else None,
        evictions=plan.evictions,
        skipped=notes_of(grown.snapshot, cluster, budgets),
        remarks=(*cluster.remarks, *grown.unmet),
        planning=PlanningAnswer(steps=before.steps + plan.steps, cut_by=_limit_of(plan) or before.cut_by),
        seconds=round(time.perf_counter() - began, 6),
    )


def consolidation_words(cluster: Cluster, settings: Settings, node: NodeName) -> list[tuple[UnremovableReason, str]]:
    """What a plan does with the node, or why it keeps it, as a reason with a text; empty if consolidation is off."""
    if not settings.autoscaler.consolidation.enabled:
        return []
    found = consolidation_answer(cluster, settings, plan_steps=MOST_STEPS)
    for move in found.moves:
        if node in move.leaving:
            others = f", with {len(move.leaving) - 1} others" if len(move.leaving) > 1 else ""
            text = f"a plan replaces it{others}: reason {move.reason}, saves {move.saved} an hour, {move.evictions} evictions"
            return [(UnremovableReason.LEFT_TO_CONSOLIDATION, text)]
    kept = next((each for each in found.kept if each.node == node), None)
    if kept is None:
        return []
    reason = UnremovableReason(kept.reason)
    why = (f"pod {kept.blocked_by}" if kept.blocked_by else "", "" if kept.detail == reason.text else kept.detail)
    return [(reason, f"consolidation: {'; '.join(filter(None, why))}".rstrip(" :"))]


def planned_consolidation(
    cluster: Cluster,
    grown: Grown,
    state: ScaleDownState,
    rules: ConsolidationRules,
    prices: PriceBook,
    *,
    budgets: tuple[DisruptionBudget, ...] | None,
    now: UnixTime,
    known: NodeFacts = NOTHING_KNOWN,
    stop: Callable[[], bool] = lambda: False,
    most_steps: int = MOST_STEPS,
) -> ConsolidationPlan:
    """Plans a consolidation beside the scale-up that was planned for the cluster. `budgets`: with what they allow now; None if
    none are known."""
    with removal_input(cluster, grown, budgets) as planning_input:
        return plan_consolidation(
            state, planning_input, grown.groups, rules, prices, now=now, known=known, stop=stop, most_steps=most_steps
        )


def _limit_of(plan: ConsolidationPlan) -> Literal["steps", "simulationTimeout"] | None:
    return "simulationTimeout" if plan.cut_by == "time" else plan.cut_by


def _move(move: ConsolidationMove) -> NodeMoveAnswer:
    return NodeMoveAnswer(
        leaving=[each.name for each in move.leaving],
        coming=move.new_nodes,
        destinations={str(each.key): each.to for each in move.pods if not is_placeholder_uid(each.uid)},
        after=list(move.after),
        reason=move.reason,
        saved=decimal_text(move.saved),
        evictions=move.evictions,
        ratio=round(move.ratio, 3),
        risky=move.risky,
    )
