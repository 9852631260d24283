"""Plans a consolidation: which sets of nodes are replaced by cheaper sets, where their pods go, and in which order.

    plan = plan_consolidation(state, planning_input, groups, rules, prices, now=now, stop=stop)

1. `candidates` says which nodes may go, and which of them are due (`due`). `market` says what room for pods costs at today's
   prices.
2. Nodes that are due are replaced first, one by one, whatever that saves (`replacement`).
3. Of the others, sets are replaced that save enough for what that disturbs (`cheaper_sets`).

Each move is made in the snapshot (`made_moves`) by `fit.evacuation`, which judges every pod's new place by all rules, and
counts budgets. Nodes to which pods of the plan go stay. The snapshot is left as it was.
Deliberately absent: carrying the plan out, and the clock.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from slackwater.controllers.consolidation.candidates import Candidate, Candidates, NodeFacts, judged_nodes
from slackwater.controllers.consolidation.cheaper_sets import CheaperSets
from slackwater.controllers.consolidation.due import due_rule
from slackwater.controllers.consolidation.made_moves import MadeMoves
from slackwater.controllers.consolidation.market import Market, market_of
from slackwater.controllers.consolidation.outcome import ConsolidationPlan, best_first
from slackwater.controllers.consolidation.policy import ConsolidationRules
from slackwater.controllers.consolidation.replacement import replace_due
from slackwater.controllers.consolidation.trial import SetNode, as_new
from slackwater.controllers.consolidation.whole_node import WholeNodes
from slackwater.controllers.scaledown.eligibility import RemainingMinima
from slackwater.controllers.scaledown.planning_input import PlaceholderPods, PlanningInput
from slackwater.controllers.scaledown.row_movers import RowMovers
from slackwater.controllers.scaledown.state import KeptNode, ScaleDownState, missing
from slackwater.controllers.scaleup.groups import GrowableGroup
from slackwater.controllers.scaleup.growable_groups import price_of_new
from slackwater.controllers.scaleup.template_nodes import TemplateNodes
from slackwater.fit.binpacking import place_pods
from slackwater.fit.drainability import DrainabilityOutcome, RuleFacts, judge
from slackwater.fit.evacuation import Evacuations, NotEvacuated
from slackwater.fit.steps import MOST_STEPS, PlanSteps
from slackwater.model.columns import Rows
from slackwater.model.ids import NodeName, PodKey, PodUid, Row, UnixTime
from slackwater.model.prices import PriceBook
from slackwater.model.reasons import UnremovableReason
from slackwater.snapshot.equivalence_groups import KindId
from slackwater.snapshot.running_pods import RunningPod
from slackwater_protocol.money import decimal_text

_MOVES: Final = frozenset({DrainabilityOutcome.MOVE, DrainabilityOutcome.BLOCK})
NOTHING_KNOWN: Final = NodeFacts()


def plan_consolidation(
    state: ScaleDownState,
    planning_input: PlanningInput,
    groups: Sequence[GrowableGroup],
    rules: ConsolidationRules,
    prices: PriceBook,
    *,
    now: UnixTime,
    known: NodeFacts = NOTHING_KNOWN,
    stop: Callable[[], bool] = lambda: False,
    most_steps: int = MOST_STEPS,
) -> ConsolidationPlan:
    """Plans a consolidation. `state`: scale-down's, for removals under way and failed drains. `known`: what the snapshot does
    not have. `stop` tells whether planning has to end now; `most_steps`: 0 for no limit.

    Every live row of the snapshot must be a node, and `planning_input.running_pods` must have every pod on it."""
    facts = planning_input.rule_facts(rules.scale_down.blocked_by, now)
    due = due_rule(rules.policy, planning_input.groups, groups, now)
    candidates = judged_nodes(
        state, planning_input, rules.policy, rules.scale_down, prices=prices, facts=facts, known=known, due=due
    )
    steps = PlanSteps(planning_input.snapshot, most=most_steps, is_late=stop)
    priced = [_priced(each, prices) for each in groups]
    with planning_input.snapshot.fork():
        return _Planning(
            state=state,
            planning_input=planning_input,
            groups=priced,
            rules=rules,
            facts=facts,
            candidates=candidates,
            steps=steps,
        ).run()


def _priced(group: GrowableGroup, prices: PriceBook) -> GrowableGroup:
    """The group with its price, and without upcoming nodes: these are for pods that wait."""
    return replace(group, upcoming=0, price=price_of_new(group.provided, group.template, prices))


@dataclass(slots=True, kw_only=True)
class _Planning:
    """One planning. `positions`: those of the equivalence groups in the market."""

    state: ScaleDownState
    planning_input: PlanningInput
    groups: Sequence[GrowableGroup]
    rules: ConsolidationRules
    facts: RuleFacts
    candidates: Candidates
    steps: PlanSteps
    made: MadeMoves = field(init=False)
    placeholders: PlaceholderPods = field(init=False)
    row_movers: RowMovers = field(init=False)
    renewed: dict[NodeName, Sequence[RunningPod]] = field(init=False)
    market: Market = field(init=False)
    template_nodes: TemplateNodes = field(init=False)
    positions: dict[KindId, int] = field(default_factory=dict)

    def run(self) -> ConsolidationPlan:
        given, snapshot = self.planning_input, self.planning_input.snapshot
        self.placeholders = PlaceholderPods(given.running_pods)
        self.row_movers = RowMovers(given.running_pods, snapshot.facts.nodes, self.facts)
        self.renewed = given.running_pods.notes(("renewed movers", self.facts.policy))
        rows = [Row(row) for row in np.flatnonzero(snapshot.facts.live[: snapshot.n_rows]).tolist()]
        leaving = [row for row in rows if snapshot.facts.nodes[row].name in self.state.deleted_set]
        nodes, hints = snapshot.facts.nodes, dict[PodUid, NodeName]()
        made = self.made = MadeMoves(
            planning_input=given,
            groups=self.groups,
            rules=self.rules,
            candidates=self.candidates,
            steps=self.steps,
            evacuations=Evacuations(snapshot, self.placeholders, facts=self.facts, hints=hints, leaving=leaving),
            minima=RemainingMinima(given, self.state, self.rules.scale_down.minimum),
            n_present=snapshot.n_rows,
            working=Counter(
                group
                for row in set(rows).difference(leaving)
                if nodes[row].ready and (group := given.group_of.get(nodes[row].name)) is not None
            ),
            hints=hints,
            kept=dict(self.candidates.kept),
        )
        staying: Rows = np.array([row for row in rows if row not in set(leaving)], np.intp)
        homeless = self._settle_leaving(leaving, staying)
        self.placeholders.put(snapshot, given.placeholders, staying)
        made.free = [self._set_node(candidate) for candidate in self.candidates.nodes]
        self._value(rows)
        if homeless is None:
            replace_due(made)
            CheaperSets(made=made, market=self.market, positions=self.positions).replace()
        names = [nodes[row].name for row in rows]
        whole = WholeNodes(
            template_nodes=self.template_nodes,
            prices=[group.price_micros for group in self.groups],
            growing=np.array(made.may_grow(), np.bool_),
            spot=np.array([group.is_spot for group in self.groups], np.bool_),
        )
        for node in made.free:
            if node.candidate.node not in made.kept and node.candidate.node not in made.gone:
                made.keep(node.candidate.node, *self._why(node, homeless, whole))
        return ConsolidationPlan(
            moves=best_first(made.moves),
            kept=tuple(made.kept[name] for name in names if name not in made.gone and name in made.kept),
            due=tuple(each.node for each in self.candidates.nodes if each.due is not None),
            cost=self.candidates.cost,
            bound=self.market.bound,
            steps=self.steps.used,
            cut_by=self.steps.cut,
        )

    def _set_node(self, candidate: Candidate) -> SetNode:
        there = self.placeholders.on(candidate.row)
        movers = self._judged(there) if self.placeholders.holds_slack(candidate.row) else self._movers(candidate.row)
        return SetNode(candidate=candidate, there=there, movers=movers)

    def _movers(self, row: Row) -> Sequence[RunningPod]:
        """The row's pods that move, in the form in which they come back, without placeholders."""
        known, name = self.row_movers.lasting(row), self.planning_input.snapshot.facts.nodes[row].name
        if known is None:
            return self._judged(self.planning_input.running_pods.on(row))
        if name not in self.renewed:
            self.renewed[name] = [as_new(self.planning_input.snapshot, each) for each in known.pods]
        return self.renewed[name]

    def _judged(self, pods: Sequence[RunningPod]) -> list[RunningPod]:
        movers = (each for each in pods if judge(each.pod, self.facts).outcome in _MOVES)
        return [as_new(self.planning_input.snapshot, each) for each in movers]

    def _settle_leaving(self, leaving: Sequence[Row], staying: Rows) -> KeptNode | None:
        """Places the pods of nodes under removal, and evicted pods that are not back yet. The reason why nothing may be moved
        if one of them fits nowhere."""
        snapshot = self.planning_input.snapshot
        for row in leaving:
            found = self.made.evacuations.evacuate(row, rows=staying, begun=True)
            if isinstance(found, NotEvacuated):
                return KeptNode(
                    node=snapshot.facts.nodes[row].name,
                    unremovable_reason=UnremovableReason.LEAVING_PODS_HOMELESS,
                    blocked_by=found.pod.key,
                )
        pods = missing(self.state.recent_evictions, self.planning_input)
        kinds: Rows = np.array([snapshot.kind_id(pod.renewed_kind, pod.renewed_labels) for pod in pods], np.intp)
        placed = place_pods(snapshot, kinds, rows=staying, reasons=False)
        if not placed.left:
            return None
        pod = pods[placed.left[0].pods[0]]
        return KeptNode(
            node=pod.node or NodeName(""), unremovable_reason=UnremovableReason.EVICTED_PODS_HOMELESS, blocked_by=pod.key
        )

    def _value(self, rows: Sequence[Row]) -> None:
        """Finds what room for a pod of each equivalence group costs."""
        snapshot = self.planning_input.snapshot
        demand = Counter[KindId]()
        for row in rows:
            if snapshot.facts.nodes[row].name in self.planning_input.group_of:
                demand.update([each.kind for each in self._movers(row)])
        for node in self.made.free:  # placeholders
            for mover in node.movers:
                demand.setdefault(mover.kind, 0)
        kinds = list(demand)
        self.positions = {kind: at for at, kind in enumerate(kinds)}
        prices = [group.price_micros for group in self.groups]
        self.template_nodes = TemplateNodes(snapshot, self.groups, kinds, system=self.rules.scale_up.system)
        self.market = market_of(self.template_nodes, kinds, np.array(list(demand.values()), np.int64), prices)

    def _why(self, node: SetNode, homeless: KeptNode | None, whole: WholeNodes) -> tuple[UnremovableReason, str, PodKey | None]:
        if homeless is not None:
            return homeless.unremovable_reason, f"{homeless.blocked_by} of {homeless.node}", homeless.blocked_by
        if self.steps.cut is not None:
            return UnremovableReason.NOT_REACHED, "", None
        kinds = Counter(mover.kind for mover in node.movers)
        room = sum(self.market.values[self.positions[kind]] * count for kind, count in kinds.items())
        least = max(round(self.made.disruption_price() * node.candidate.disruption), 0)
        detail = (
            f"it costs {decimal_text(node.candidate.price)} an hour, and has to save {decimal_text(least)} for what moving its "
            f"{len(node.movers)} pods disturbs; parts of new nodes for them cost {decimal_text(round(room))} if pods could be "
            f"divided, {whole.text(kinds, spot_too=self.rules.policy.allow_spot or node.candidate.spot)}"
        )
        return UnremovableReason.SAVES_TOO_LITTLE, detail, None
