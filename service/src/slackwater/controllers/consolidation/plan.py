"""Plans a consolidation: which sets of nodes are replaced by cheaper sets, where their pods go, and in which order.

    plan = plan_consolidation(state, planning_input, groups, rules, prices, now=now, stop=stop)

1. `candidates` says which nodes may go, and which of them are due (`due`): these are replaced first, one by one, whatever that
   saves. `market` says what room for pods costs at today's prices.
2. `choice` chooses a set of candidates by what they save for the room and the disruption that they cost.
3. In a trial (`trial`) the set is closed, and scale-up places its pods: on present nodes first, the others on new ones at the
   lowest price, within all limits of groups and quotas.
4. `moves` divides the set into small moves, each of which saves enough for what it disturbs.
5. Each move is made in the snapshot by `fit.evacuation`, which judges every pod's new place by all rules, and counts budgets.
   A move that then saves too little is undone.

Steps 2 to 5 are repeated with the nodes that are left. Nodes to which pods of the plan go stay. The snapshot is left as it was.
Deliberately absent: carrying the plan out, and the clock.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from slackwater.controllers.consolidation.candidates import Candidate, Candidates, NodeFacts, judged_nodes
from slackwater.controllers.consolidation.choice import FEW, Knapsack
from slackwater.controllers.consolidation.due import due_rule
from slackwater.controllers.consolidation.market import Market, cheapest_whole, market_of
from slackwater.controllers.consolidation.moves import Draft, divided
from slackwater.controllers.consolidation.outcome import (
    ConsolidationMove,
    ConsolidationPlan,
    LeavingNode,
    NewNode,
    PodMove,
    best_first,
    new_name,
)
from slackwater.controllers.consolidation.policy import ConsolidationPolicy
from slackwater.controllers.consolidation.trial import Found, SetNode, Trials, as_new, trial_policy
from slackwater.controllers.scaledown.eligibility import RemainingMinima
from slackwater.controllers.scaledown.planning_input import PlaceholderPods, PlanningInput
from slackwater.controllers.scaledown.policy import ScaleDownPolicy
from slackwater.controllers.scaledown.state import KeptNode, ScaleDownState, missing
from slackwater.controllers.scaleup.groups import GrowableGroup, add_nodes
from slackwater.controllers.scaleup.growable_groups import price_of_new
from slackwater.controllers.scaleup.packing.problem import Floats
from slackwater.controllers.scaleup.policy import ScaleUpPolicy
from slackwater.controllers.scaleup.template_nodes import TemplateNodes
from slackwater.fit.binpacking import place_pods
from slackwater.fit.drainability import DrainabilityOutcome, RuleFacts, judge
from slackwater.fit.evacuation import Evacuated, Evacuations, NotEvacuated
from slackwater.fit.steps import MOST_STEPS, PlanSteps
from slackwater.model.columns import Int64, Rows
from slackwater.model.ids import NodeName, PodKey, PodUid, Row, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.prices import PriceBook, capacity_type_of
from slackwater.model.reasons import UnremovableReason
from slackwater.snapshot.equivalence_groups import KindId
from slackwater_protocol.money import decimal_text

_HOUR: Final = 3600.0
#: The most sets that are tried, one after another.
_MOST_ROUNDS: Final = 6
_MOVES: Final = frozenset({DrainabilityOutcome.MOVE, DrainabilityOutcome.BLOCK})
NOTHING_KNOWN: Final = NodeFacts()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationRules:
    """The policies that a plan follows. Of scale-down's it reads which nodes and pods may be disturbed, of scale-up's how nodes
    are added."""

    policy: ConsolidationPolicy
    scale_down: ScaleDownPolicy
    scale_up: ScaleUpPolicy


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Divided:
    """A set that was tried, and its moves."""

    nodes: Sequence[SetNode]
    found: Found
    drafts: Sequence[Draft]


@dataclass(slots=True, kw_only=True)
class _Planning:
    """One planning. `kept`: why each node stays, as far as it is known. `free`: the candidates that may still go."""

    state: ScaleDownState
    planning_input: PlanningInput
    groups: Sequence[GrowableGroup]
    rules: ConsolidationRules
    facts: RuleFacts
    candidates: Candidates
    steps: PlanSteps
    hints: dict[PodUid, NodeName] = field(default_factory=dict)
    kept: dict[NodeName, KeptNode] = field(default_factory=dict)
    free: list[SetNode] = field(default_factory=list)
    moves: list[ConsolidationMove] = field(default_factory=list)
    #: For each new node, its row and the position of its move.
    new_rows: dict[NodeName, tuple[Row, int]] = field(default_factory=dict)
    #: How many nodes of each group come, by its position.
    opened: Counter[int] = field(default_factory=Counter)
    opened_names: int = 0
    #: The rows before any new node.
    n_present: int = field(init=False)
    working: Counter[GroupName] = field(default_factory=Counter)
    evacuations: Evacuations = field(init=False)
    placeholders: PlaceholderPods = field(init=False)
    minima: RemainingMinima = field(init=False)
    market: Market = field(init=False)
    template_nodes: TemplateNodes = field(init=False)
    positions: dict[KindId, int] = field(default_factory=dict)

    def run(self) -> ConsolidationPlan:
        given, snapshot = self.planning_input, self.planning_input.snapshot
        self.kept.update(self.candidates.kept)
        self.n_present = snapshot.n_rows
        self.placeholders = PlaceholderPods(given.running_pods)
        rows = [Row(row) for row in np.flatnonzero(snapshot.facts.live[: snapshot.n_rows]).tolist()]
        leaving = [row for row in rows if snapshot.facts.nodes[row].name in self.state.deleted_set]
        self.evacuations = Evacuations(snapshot, self.placeholders, facts=self.facts, hints=self.hints, leaving=leaving)
        self.minima = RemainingMinima(given, self.state, self.rules.scale_down.minimum)
        nodes = snapshot.facts.nodes
        self.working.update(
            group
            for row in set(rows).difference(leaving)
            if nodes[row].ready and (group := given.group_of.get(nodes[row].name)) is not None
        )
        staying: Rows = np.array([row for row in rows if row not in set(leaving)], np.intp)
        homeless = self._settle_leaving(leaving, staying)
        self.placeholders.put(snapshot, given.placeholders, staying)
        self.free = [self._set_node(candidate) for candidate in self.candidates.nodes]
        self._value(rows)
        if homeless is None:
            self._replace_due()
            self._rounds()
        names = [nodes[row].name for row in rows]
        gone = {each.name for move in self.moves for each in move.leaving}
        for node in self.free:
            if node.candidate.node not in self.kept:
                self._keep(node.candidate.node, *self._why(node, homeless))
        return ConsolidationPlan(
            moves=best_first(self.moves),
            kept=tuple(self.kept[name] for name in names if name not in gone and name in self.kept),
            due=tuple(each.node for each in self.candidates.nodes if each.due is not None),
            cost=self.candidates.cost,
            bound=self.market.bound,
            steps=self.steps.used,
            cut_by=self.steps.cut,
        )

    def _set_node(self, candidate: Candidate) -> SetNode:
        there = self.placeholders.on(candidate.row)
        movers = [as_new(self.planning_input.snapshot, each) for each in there if judge(each.pod, self.facts).outcome in _MOVES]
        return SetNode(candidate=candidate, there=there, movers=movers)

    def _settle_leaving(self, leaving: Sequence[Row], staying: Rows) -> KeptNode | None:
        """Places the pods of nodes under removal, and evicted pods that are not back yet. The reason why nothing may be moved
        if one of them fits nowhere."""
        snapshot = self.planning_input.snapshot
        for row in leaving:
            found = self.evacuations.evacuate(row, rows=staying, begun=True)
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
        snapshot, running = self.planning_input.snapshot, self.planning_input.running_pods
        demand = Counter[KindId]()
        for row in rows:
            if snapshot.facts.nodes[row].name in self.planning_input.group_of:
                for each in running.on(row):
                    if judge(each.pod, self.facts).outcome in _MOVES:
                        demand[as_new(snapshot, each).kind] += 1
        for node in self.free:  # placeholders
            for mover in node.movers:
                demand.setdefault(mover.kind, 0)
        kinds = list(demand)
        self.positions = {kind: at for at, kind in enumerate(kinds)}
        prices = [0 if group.price is None else group.price.micros for group in self.groups]
        self.template_nodes = TemplateNodes(snapshot, self.groups, kinds, system=self.rules.scale_up.system)
        self.market = market_of(self.template_nodes, kinds, np.array(list(demand.values()), np.int64), prices)

    # --- nodes that are due -----------------------------------------------------------------------------------------------

    def _replace_due(self) -> None:
        """Replaces nodes that are due, those first that have been for longest; of each group as many as may be in removal at
        the same time. No pod goes to one of the others."""
        due = [(node.candidate.due.since, node) for node in self.free if node.candidate.due is not None]
        due.sort(key=lambda each: (each[0], each[1].candidate.row))
        most, done = self.rules.scale_down.max_scale_down_parallelism, Counter[GroupName]()
        for _, node in due:
            group = node.candidate.group
            if done[group] >= most:
                self._keep(node.candidate.node, UnremovableReason.THROTTLED, f"{most} nodes of {group} are replaced first")
            elif self.steps.over():
                self._keep(node.candidate.node, UnremovableReason.NOT_REACHED)
            else:
                done[group] += self._replace([each for _, each in due], node)
        for _, node in due:
            if self.planning_input.snapshot.facts.live[node.candidate.row]:
                self.planning_input.snapshot.close(node.candidate.row)
        self.free = [node for node in self.free if node.candidate.due is None]

    def _replace(self, due: Sequence[SetNode], node: SetNode) -> bool:
        """Moves the pods of a node that is due to other nodes, of which some may be new; True if that can be done. If its group
        or the cluster would have less than their minimum, a new node of the group comes in its place."""
        candidate, snapshot, gone = node.candidate, self.planning_input.snapshot, None
        others = [each.candidate.row for each in due if each is not node and snapshot.facts.live[each.candidate.row]]
        found = self._trials(others).of([node])
        draft = next(iter(divided([candidate], found.places, lambda *_: True)), Draft(leaving=[0]))
        lacking = self._lacking(node)
        own = None if lacking is None else self._own_group(candidate.group)
        if own is not None:
            found = replace(found, groups=(*found.groups, own))
            draft.coming.append(len(found.groups) - 1)
        with snapshot.fork() as trial:
            coming = {new: self._open(found.groups[new]) for new in draft.coming}
            for places in draft.places:
                self._hint(node, places, found, {new: each.name for new, (each, _) in coming.items()})
            evacuated = self._evacuate(node, self._rows(due, candidate, coming), lacking=None if own is not None else lacking)
            if evacuated is not None:
                gone = (node, evacuated)
                used = {
                    new: (each, row)
                    for new, (each, row) in coming.items()
                    if found.groups[new] == own or self.evacuations.has_rescheduled_pods(row)
                }
                for new, (_, row) in coming.items():
                    if new not in used:
                        snapshot.close(row)
                trial.commit()
                self._note([gone], used, found)
        return gone is not None

    def _own_group(self, owner: GroupName) -> int | None:
        """The position of a growable group, or variant, of this group that may have one more node."""
        grown = sum(count for at, count in self.opened.items() if self.groups[at].owner == owner)
        for at, group in enumerate(self.groups):
            full = group.provided.target + grown >= group.provided.max_size
            if group.owner == owner and group.template is not None and group.skip_reason is None and not full:
                return at
        return None

    # --- sets, one after another ------------------------------------------------------------------------------------------

    def _rounds(self) -> None:
        for _ in range(_MOST_ROUNDS):
            before = len(self.moves)
            best = self._best()
            if best is None:
                return
            nodes, found, drafts, names = best.nodes, best.found, best.drafts, dict[int, NodeName]()
            for draft in drafts:
                if self.steps.over():
                    return
                self._make(draft, nodes, found, names)
            if len(self.moves) == before:
                return

    def _best(self) -> "_Divided | None":
        """The set that promises most of those that save something; of few candidates, the set that saves most, less what its
        disruption costs. None if there is none."""
        best, most = None, 0.0
        self.free = [node for node in self.free if self._is_free(node.candidate)]
        for chosen in self._knapsack().sets():
            if self.steps.over():
                return best
            nodes = [self.free[at] for at in chosen.tolist()]
            found = self._trials().of(nodes)
            drafts = divided([node.candidate for node in nodes], found.places, self._pays(found))
            net = sum(self._net([nodes[at].candidate for at in draft.leaving], draft, found) for draft in drafts)
            if drafts and (best is None or net > most):
                best, most = _Divided(nodes=nodes, found=found, drafts=drafts), net
            if best is not None and len(self.free) > FEW:
                break
        return best

    def _net(self, leaving: Sequence[Candidate], draft: Draft, found: Found) -> float:
        saved = sum(each.price for each in leaving) - sum(found.places.prices[new] for new in draft.coming)
        return saved - self._disruption_price() * sum(each.disruption for each in leaving)

    def _disruption_price(self) -> float:
        """What a unit of disruption has to save at least, in micros an hour."""
        return self.rules.policy.min_saving_ratio * self.candidates.cost / max(self.candidates.disruption, 1e-9)

    def _trials(self, closed: Sequence[Row] = ()) -> Trials:
        """Trials in which no pod goes to a row that is `closed`."""
        groups = [
            replace(group, group=replace(group.group, target=group.group.target + self.opened[at]))
            for at, group in enumerate(self.groups)
        ]
        policy = trial_policy(self.rules.scale_up)
        allow_spot = self.rules.policy.allow_spot
        snapshot = self.planning_input.snapshot
        return Trials(snapshot=snapshot, groups=groups, policy=policy, steps=self.steps, allow_spot=allow_spot, closed=closed)

    def _is_free(self, candidate: Candidate) -> bool:
        if candidate.node in self.planning_input.arriving or self.evacuations.has_rescheduled_pods(candidate.row):
            self._keep(candidate.node, UnremovableReason.DESTINATION)
        return candidate.node not in self.kept

    def _knapsack(self) -> Knapsack:
        snapshot, weights = self.planning_input.snapshot, self.market.weights
        n_lines = len(snapshot.facts.resource)
        values, taken = np.zeros(len(self.free)), np.zeros((len(self.free), n_lines))
        requests: Int64 = snapshot.kinds.requests[:n_lines]
        for at, node in enumerate(self.free):
            kinds = [mover.kind for mover in node.movers]
            values[at] = self.market.values[[self.positions[kind] for kind in kinds]].sum()
            taken[at] = requests[:, kinds].sum(axis=1)
        live = snapshot.facts.live[: snapshot.n_rows]
        left = (snapshot.facts.allocatable[:n_lines] - snapshot.used[:n_lines])[:, : snapshot.n_rows]
        free: Floats = (np.maximum(left, 0) * live).T.astype(np.float64)
        candidates = [node.candidate for node in self.free]
        return Knapsack(
            prices=np.array([each.price for each in candidates], np.float64),
            disruptions=np.array([each.disruption for each in candidates]),
            values=values,
            taken=taken,
            free=free[[each.row for each in candidates]],
            room=free.sum(axis=0),
            weights=weights[:n_lines],
            disruption_price=self._disruption_price(),
        )

    # --- one move -----------------------------------------------------------------------------------------------------------

    def _pays(self, found: Found) -> Callable[[Sequence[Candidate], Sequence[int], int], bool]:
        def judged(leaving: Sequence[Candidate], coming: Sequence[int], pods: int) -> bool:
            return self._judged(leaving, sum(found.places.prices[new] for new in coming), pods)

        return judged

    def _judged(self, leaving: Sequence[Candidate], price: int, pods: int) -> bool:
        policy = self.rules.policy
        saved = sum(each.price for each in leaving) - price
        ratio = self.candidates.share(saved, sum(each.disruption for each in leaving))
        pays = saved * policy.horizon / _HOUR > self._moving_cost(price, pods)
        return saved > 0 and ratio >= policy.min_saving_ratio and pays

    def _moving_cost(self, price: int, pods: int) -> int:
        return round(price * self.rules.policy.overlap_seconds / _HOUR) + pods * self.rules.policy.eviction_cost

    def _make(self, draft: Draft, nodes: Sequence[SetNode], found: Found, names: dict[int, NodeName]) -> None:
        """Makes the move in the snapshot, if it still pays then. `names`: of the new nodes that are there already."""
        snapshot, gone = self.planning_input.snapshot, list[tuple[SetNode, Evacuated]]()
        with snapshot.fork() as trial:
            coming = {new: self._open(found.groups[new]) for new in draft.coming}
            known = {**names, **{new: node.name for new, (node, _) in coming.items()}}
            for at, places in zip(draft.leaving, draft.places, strict=True):
                self._hint(nodes[at], places, found, known)
                rows = self._rows(nodes, nodes[at].candidate, coming)
                evacuated = self._evacuate(nodes[at], rows, self._lacking(nodes[at]))
                if evacuated is not None:
                    gone.append((nodes[at], evacuated))
            used = {new: each for new, each in coming.items() if self.evacuations.has_rescheduled_pods(each[1])}
            price = sum(node.price for node, _ in used.values())
            pods = sum(len(evacuated.moves) for _, evacuated in gone)
            if gone and self._judged([node.candidate for node, _ in gone], price, pods):
                for new, (_, row) in coming.items():
                    if new not in used:
                        snapshot.close(row)
                trial.commit()
                names.update((new, node.name) for new, (node, _) in used.items())
                self._note(gone, used, found)
                return
        for node, evacuated in reversed(gone):
            self.evacuations.undo(evacuated)
            self.minima.give_back(node.candidate.row, node.candidate.group)
            self.working[node.candidate.group] += self._is_ready(node)

    def _open(self, at: int) -> tuple[NewNode, Row]:
        """Adds a new node of the group at this position to the snapshot."""
        group = self.groups[at]
        assert group.template is not None
        assert group.price is not None
        self.opened_names += 1
        name = new_name(group.owner, self.opened_names)
        rows = add_nodes(self.planning_input.snapshot, group.template, [name], system=self.rules.scale_up.system)
        return NewNode(name=name, group=group.name, owner=group.owner, price=group.price.micros), Row(rows.start)

    def _hint(self, node: SetNode, places: Mapping[int, list[int]], found: Found, names: Mapping[int, NodeName]) -> None:
        nodes = self.planning_input.snapshot.facts.nodes
        left = {found.places.kinds[kind]: list(where) for kind, where in places.items()}
        for mover in node.movers:
            place = left[mover.kind].pop()
            name = nodes[~place].name if place < 0 else names.get(place)
            if name is not None:
                self.hints[mover.pod.uid] = name

    def _rows(self, nodes: Sequence[SetNode], leaving: Candidate, coming: Mapping[int, tuple[NewNode, Row]]) -> Rows:
        """The rows to which pods of the node may go: new ones, then present ones that are not of the set."""
        snapshot = self.planning_input.snapshot
        new = [row for row, _ in self.new_rows.values()] + [row for _, row in coming.values()]
        if not (self.rules.policy.allow_spot or leaving.spot):
            new = [row for row in new if capacity_type_of(snapshot.facts.nodes[row]) != "spot"]
        staying = snapshot.facts.live[: self.n_present].copy()
        staying[[node.candidate.row for node in nodes]] = False
        return np.concatenate([np.array(new, np.intp), np.flatnonzero(staying)])

    def _lacking(self, node: SetNode) -> tuple[UnremovableReason, str] | None:
        """What the group or the cluster would lack without the node, if no other comes in its place; None if nothing."""
        candidate, given = node.candidate, self.planning_input
        refusal = self.minima.refusal(candidate.row, candidate.group, given.groups[candidate.group].min_size)
        working, ready = self.working[candidate.group], self._is_ready(node)
        if refusal is not None:
            return refusal
        if given.keeps_for_slack(candidate.group, ready=ready, working=working, in_use=bool(node.movers)):
            return UnremovableReason.SLACK_NEEDED, ""
        return None

    def _evacuate(self, node: SetNode, rows: Rows, lacking: tuple[UnremovableReason, str] | None) -> Evacuated | None:
        """Empties the node in the trial; None if it has to stay, with the reason in `kept`. `lacking`: a reason known
        before."""
        candidate = node.candidate
        if lacking is not None:
            self._keep(candidate.node, *lacking)
            return None
        found = self.evacuations.evacuate(candidate.row, rows=rows, stop=self.steps.over)
        if isinstance(found, NotEvacuated):
            self._keep(candidate.node, found.unremovable_reason, blocked_by=found.pod.key)
        if not isinstance(found, Evacuated):
            return None
        self.minima.take(candidate.row, candidate.group)
        self.working[candidate.group] -= self._is_ready(node)
        return found

    def _is_ready(self, node: SetNode) -> bool:
        return self.planning_input.snapshot.facts.nodes[node.candidate.row].ready

    def _note(
        self,
        gone: Sequence[tuple[SetNode, Evacuated]],
        used: Mapping[int, tuple[NewNode, Row]],
        found: Found,
    ) -> None:
        """Adds the move to the plan."""
        nodes, number = self.planning_input.snapshot.facts.nodes, len(self.moves)
        pods = tuple(
            PodMove(move.pod.uid, move.pod.key, node.candidate.node, nodes[move.to].name)
            for node, evacuated in gone
            for move in evacuated.moves
        )
        candidates = [node.candidate for node, _ in gone]
        price = sum(node.price for node, _ in used.values())
        saved, disruption = sum(each.price for each in candidates) - price, sum(each.disruption for each in candidates)
        after = {self.new_rows[move.to][1] for move in pods if move.to in self.new_rows}
        self.moves.append(
            ConsolidationMove(
                leaving=tuple(LeavingNode(each.node, each.group, each.price) for each in candidates),
                coming=tuple(node for node, _ in used.values()),
                pods=pods,
                after=tuple(sorted(after)),
                reason=next((each.due.reason for each in candidates if each.due is not None), "Underutilized"),
                saved=saved,
                disruption=disruption,
                ratio=self.candidates.share(saved, disruption),
                moving_cost=self._moving_cost(price, len(pods)),
                risky=any(evacuated.risky for _, evacuated in gone),
            )
        )
        self.new_rows.update((node.name, (row, number)) for node, row in used.values())
        self.opened.update(found.groups[new] for new in used)
        left = {each.node for each in candidates}
        self.free = [node for node in self.free if node.candidate.node not in left]

    # --- what stays ---------------------------------------------------------------------------------------------------------

    def _keep(self, node: NodeName, reason: UnremovableReason, detail: str = "", blocked_by: PodKey | None = None) -> None:
        self.kept[node] = KeptNode(node=node, unremovable_reason=reason, detail=detail, blocked_by=blocked_by)

    def _why(self, node: SetNode, homeless: KeptNode | None) -> tuple[UnremovableReason, str, PodKey | None]:
        if homeless is not None:
            return homeless.unremovable_reason, f"{homeless.blocked_by} of {homeless.node}", homeless.blocked_by
        if self.steps.cut is not None:
            return UnremovableReason.NOT_REACHED, "", None
        kinds = Counter(mover.kind for mover in node.movers)
        room = sum(self.market.values[self.positions[kind]] * count for kind, count in kinds.items())
        prices = [0 if group.price is None else group.price.micros for group in self.groups]
        whole = cheapest_whole(self.template_nodes, kinds, prices)
        least = max(round(self._disruption_price() * node.candidate.disruption), 0)
        detail = (
            f"it costs {decimal_text(node.candidate.price)} an hour, and has to save {decimal_text(least)} for what moving its "
            f"{len(node.movers)} pods disturbs; parts of new nodes for them cost {decimal_text(round(room))} if pods could be "
            f"divided, {'no new node takes them all' if whole is None else f'a new node for them all {decimal_text(whole)}'}"
        )
        return UnremovableReason.SAVES_TOO_LITTLE, detail, None
