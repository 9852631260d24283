"""The nodes that consolidation may replace, each with its price and with what its removal disturbs; and why the others stay.

The rules are those of scale-down, except for utilization: a full node may be replaced too. Beside these: a node that is busy,
too young, or has a pod that moved a short while ago stays, and so does one with a pod that has to complete first.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from slackwater.controllers.consolidation.due import Due, DueRule
from slackwater.controllers.consolidation.policy import ConsolidationPolicy
from slackwater.controllers.scaledown.eligibility import EligibilityInput, judge_node
from slackwater.controllers.scaledown.planning_input import PlanningInput
from slackwater.controllers.scaledown.policy import ScaleDownPolicy, rules_of
from slackwater.controllers.scaledown.removal_score import RemovalScorer
from slackwater.controllers.scaledown.row_movers import Movers, RowMovers
from slackwater.controllers.scaledown.state import KeptNode, ScaleDownState
from slackwater.controllers.scaledown.utilization import Utilization
from slackwater.fit.drainability import DrainabilityOutcome, RuleFacts, judge
from slackwater.model.ids import NodeName, PodUid, Row
from slackwater.model.nodegroups import GroupName
from slackwater.model.prices import PriceBook, capacity_type_of
from slackwater.model.reasons import UnremovableReason
from slackwater.snapshot.running_pods import RunningPod

#: Every utilization is allowed.
_UNUSED: Final = Utilization(0.0, "cpu")
_MOVES: Final = frozenset({DrainabilityOutcome.MOVE, DrainabilityOutcome.BLOCK})


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A node that may be replaced. `price`: micros an hour. `disruption`: that of its pods, and 1 for the node. `due`: why it
    is replaced whatever that saves; None if it is not."""

    row: Row
    node: NodeName
    group: GroupName
    price: int
    disruption: float
    spot: bool
    due: Due | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """The nodes that belong to groups. `cost`: micros an hour of all of them. `disruption`: of all their pods, and 1 for each
    node; those that stay count too. `spot`: the names of all spot nodes."""

    nodes: tuple[Candidate, ...]
    kept: Mapping[NodeName, KeptNode]
    cost: int
    disruption: float

    def share(self, saved: float, disruption: float) -> float:
        """The share of the cost that is saved, divided by the share of the disruption."""
        return (saved / max(self.cost, 1)) / max(disruption / max(self.disruption, 1e-9), 1e-9)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What only the caller knows. `resting`: pods that moved less than `podRest` ago. `busy`: nodes with a hold, a migration
    or a preemption."""

    resting: Container[PodUid] = frozenset()
    busy: Container[NodeName] = frozenset()


def judged_nodes(
    state: ScaleDownState,
    planning_input: PlanningInput,
    policy: ConsolidationPolicy,
    scale_down: ScaleDownPolicy,
    *,
    prices: PriceBook,
    facts: RuleFacts,
    known: NodeFacts,
    due: DueRule,
) -> Candidates:
    """Judges every live row of the snapshot."""
    scorer, nodes = RemovalScorer(planning_input, facts), planning_input.snapshot.facts
    rules = {name: rules_of(group, scale_down) for name, group in planning_input.groups.items()}
    judged = replace(state, non_candidate_set={})  # another node may now take what fitted nowhere
    aged = replace(scale_down, min_node_age=max(scale_down.min_node_age, policy.min_node_age))
    candidates, kept = list[Candidate](), dict[NodeName, KeptNode]()
    cost, disruption = 0, 0.0
    for row in map(Row, np.flatnonzero(nodes.live[: nodes.n_rows]).tolist()):
        node = nodes.nodes[row]
        group = planning_input.group_of.get(node.name)
        own = None if group is None else rules[group]
        stays = judge_node(
            EligibilityInput(node=node, group=group, rules=own, utilization=_UNUSED, state=judged, policy=aged, now=facts.now)
        )
        if group is None:
            assert stays is not None
            kept[node.name] = stays
            continue
        price = prices.of(group, node, provider=planning_input.groups[group].price_micros).micros
        movers, blocked = _movers(planning_input, scorer.movers, row, facts, known)
        own_disruption = 1.0 + scorer.score(row, movers).disruption_cost
        cost, disruption = cost + price, disruption + own_disruption
        if node.name in known.busy:
            stays = stays or KeptNode(node=node.name, unremovable_reason=UnremovableReason.NODE_BUSY)
        stays = stays or blocked
        if stays is not None:
            kept[node.name] = stays
            continue
        spot = capacity_type_of(node) == "spot"
        why = due(node, group)
        candidates.append(
            Candidate(row=row, node=node.name, group=group, price=price, disruption=own_disruption, spot=spot, due=why)
        )
    return Candidates(nodes=tuple(candidates), kept=kept, cost=cost, disruption=disruption)


def _movers(
    planning_input: PlanningInput, row_movers: RowMovers, row: Row, facts: RuleFacts, known: NodeFacts
) -> tuple[Movers, KeptNode | None]:
    """The row's pods that would move; and the reason of the first that keeps the node."""
    free, node = row_movers.free(row), planning_input.snapshot.facts.nodes[row].name
    if free is not None:
        rests = next((pod.key for pod, _ in free.pods if pod.uid in known.resting), None)
        why = UnremovableReason.POD_MOVED_RECENTLY
        return free, None if rests is None else KeptNode(node=node, unremovable_reason=why, blocked_by=rests)
    movers, blocked = list[RunningPod](), None
    for running_pod in planning_input.running_pods.on(row):
        pod = running_pod.pod
        verdict = judge(pod, facts)
        reason = verdict.unremovable_reason
        if verdict.outcome is DrainabilityOutcome.WAIT:
            reason = UnremovableReason.AWAITS_COMPLETION
        elif verdict.outcome in _MOVES:
            movers.append(running_pod)
            reason = reason or (UnremovableReason.POD_MOVED_RECENTLY if pod.uid in known.resting else None)
        if reason is not None and blocked is None:
            blocked = KeptNode(node=node, unremovable_reason=reason, blocked_by=pod.key)
    return Movers.of(movers), blocked
