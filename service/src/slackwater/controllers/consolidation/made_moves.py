"""Makes moves in the snapshot, one after another. Each is judged once more by all rules, budgets and minima: one that then
saves too little is undone.

In: drafts of moves, and the places that a trial found for their pods. Out: the moves, and why nodes stay.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from slackwater.controllers.consolidation.candidates import Candidate, Candidates
from slackwater.controllers.consolidation.moves import Draft, Pays
from slackwater.controllers.consolidation.outcome import ConsolidationMove, LeavingNode, NewNode, PodMove, new_name
from slackwater.controllers.consolidation.policy import ConsolidationRules
from slackwater.controllers.consolidation.trial import Found, SetNode, Trials, trial_policy
from slackwater.controllers.scaledown.eligibility import RemainingMinima
from slackwater.controllers.scaledown.planning_input import PlanningInput
from slackwater.controllers.scaledown.state import KeptNode
from slackwater.controllers.scaleup.groups import GrowableGroup, add_nodes
from slackwater.fit.evacuation import Evacuated, Evacuations, NotEvacuated
from slackwater.fit.steps import PlanSteps
from slackwater.model.columns import Rows
from slackwater.model.ids import NodeName, PodKey, PodUid, Row
from slackwater.model.nodegroups import GroupName
from slackwater.model.prices import capacity_type_of
from slackwater.model.reasons import UnremovableReason


@dataclass(slots=True, kw_only=True)
class MadeMoves:
    """The moves of a plan so far. `kept`: why each node stays, as far as it is known. `free`: the candidates that may still go,
    and perhaps some of those that go (`gone`). `n_present`: the number of rows before any new node. `working`: the working
    nodes that each group has left."""

    planning_input: PlanningInput
    groups: Sequence[GrowableGroup]
    rules: ConsolidationRules
    candidates: Candidates
    steps: PlanSteps
    evacuations: Evacuations
    minima: RemainingMinima
    n_present: int
    working: Counter[GroupName]
    hints: dict[PodUid, NodeName]
    kept: dict[NodeName, KeptNode]
    free: list[SetNode] = field(default_factory=list)
    moves: list[ConsolidationMove] = field(default_factory=list)
    #: For each new node, its row and the position of its move.
    new_rows: dict[NodeName, tuple[Row, int]] = field(default_factory=dict)
    #: The nodes that go.
    gone: set[NodeName] = field(default_factory=set)
    #: How many nodes of each group come, by its position.
    opened: Counter[int] = field(default_factory=Counter)
    opened_names: int = 0

    def keep(self, node: NodeName, reason: UnremovableReason, detail: str = "", blocked_by: PodKey | None = None) -> None:
        self.kept[node] = KeptNode(node=node, unremovable_reason=reason, detail=detail, blocked_by=blocked_by)

    def trials(self, closed: Sequence[Row] = ()) -> Trials:
        """Trials in which no pod goes to a row that is `closed`."""
        groups = [
            replace(group, group=replace(group.group, target=group.group.target + self.opened[at]))
            for at, group in enumerate(self.groups)
        ]
        policy = trial_policy(self.rules.scale_up)
        allow_spot = self.rules.policy.allow_spot
        snapshot = self.planning_input.snapshot
        return Trials(snapshot=snapshot, groups=groups, policy=policy, steps=self.steps, allow_spot=allow_spot, closed=closed)

    def may_grow(self) -> list[bool]:
        """Of each group whether it may have one more node. Variants of one group have its maximum together."""
        opened = Counter[GroupName]()
        for at, count in self.opened.items():
            opened[self.groups[at].owner] += count
        return [
            group.skip_reason is None and group.provided.target + opened[group.owner] < group.provided.max_size
            for group in self.groups
        ]

    def pays(self, leaving: Sequence[Candidate], price: int, pods: int) -> bool:
        """Does it save enough for what it disturbs, if these nodes go, new ones come for this price, and so many pods move?"""
        policy, saved = self.rules.policy, sum(each.price for each in leaving) - price
        ratio = self.candidates.share(saved, sum(each.disruption for each in leaving))
        return policy.pays(saved, ratio, policy.moving_cost(price, pods))

    def pays_of(self, found: Found) -> Pays:
        """The rule by which the set of a trial is divided into moves."""

        def judged(leaving: Sequence[Candidate], coming: Sequence[int], pods: int) -> bool:
            return self.pays(leaving, sum(found.places.prices[new] for new in coming), pods)

        return judged

    def disruption_price(self) -> float:
        """What a unit of disruption has to save at least, in micros an hour."""
        return self.rules.policy.min_saving_ratio * self.candidates.cost / max(self.candidates.disruption, 1e-9)

    def make(self, draft: Draft, nodes: Sequence[SetNode], found: Found, names: dict[int, NodeName], *, closed: Rows) -> None:
        """Makes the move in the snapshot, if it still pays then. `names`: of the new nodes that are there already. `closed`:
        the rows of the set's nodes (`nodes`)."""
        snapshot, gone = self.planning_input.snapshot, list[tuple[SetNode, Evacuated]]()
        with snapshot.fork() as trial:
            coming = {new: self.open(found.groups[new]) for new in draft.coming}
            known = {**names, **{new: node.name for new, (node, _) in coming.items()}}
            for at, places in zip(draft.leaving, draft.places, strict=True):
                self.hint(nodes[at], places, found, known)
                rows = self.rows_for(closed, nodes[at].candidate, coming)
                evacuated = self.evacuate(nodes[at], rows, self.lacking(nodes[at]))
                if evacuated is not None:
                    gone.append((nodes[at], evacuated))
            used = {new: each for new, each in coming.items() if self.evacuations.has_rescheduled_pods(each[1])}
            price = sum(node.price for node, _ in used.values())
            pods = sum(len(evacuated.moves) for _, evacuated in gone)
            if gone and self.pays([node.candidate for node, _ in gone], price, pods):
                self.note(gone, coming, used, found)
                trial.commit()
                names.update((new, node.name) for new, (node, _) in used.items())
                return
        for node, evacuated in reversed(gone):
            self.evacuations.undo(evacuated)
            self.minima.give_back(node.candidate.row, node.candidate.group)
            self.working[node.candidate.group] += self._is_ready(node)

    def open(self, at: int) -> tuple[NewNode, Row]:
        """Adds a new node of the group at this position to the snapshot."""
        group = self.groups[at]
        assert group.template is not None
        assert group.price is not None
        self.opened_names += 1
        name = new_name(group.owner, self.opened_names)
        rows = add_nodes(self.planning_input.snapshot, group.template, [name], system=self.rules.scale_up.system)
        return NewNode(name=name, group=group.name, owner=group.owner, price=group.price.micros), Row(rows.start)

    def hint(self, node: SetNode, places: Mapping[int, list[int]], found: Found, names: Mapping[int, NodeName]) -> None:
        """Proposes to the evacuation the places that the trial found for the pods of a node. `names`: of the new nodes."""
        nodes = self.planning_input.snapshot.facts.nodes
        left = {found.places.kinds[kind]: list(where) for kind, where in places.items()}
        for mover in node.movers:
            place = left[mover.kind].pop()
            name = nodes[~place].name if place < 0 else names.get(place)
            if name is not None:
                self.hints[mover.pod.uid] = name

    def rows_for(self, closed: Rows, leaving: Candidate, coming: Mapping[int, tuple[NewNode, Row]]) -> Rows:
        """The rows to which pods of the node may go: new ones, then present ones but those that are `closed`."""
        snapshot = self.planning_input.snapshot
        new = [row for row, _ in self.new_rows.values()] + [row for _, row in coming.values()]
        if not (self.rules.policy.allow_spot or leaving.spot):
            new = [row for row in new if capacity_type_of(snapshot.facts.nodes[row]) != "spot"]
        staying = snapshot.facts.live[: self.n_present].copy()
        staying[closed] = False
        return np.concatenate([np.array(new, np.intp), np.flatnonzero(staying)])

    def lacking(self, node: SetNode) -> tuple[UnremovableReason, str] | None:
        """What the group or the cluster would lack without the node, if no other comes in its place; None if nothing."""
        candidate, given = node.candidate, self.planning_input
        refusal = self.minima.refusal(candidate.row, candidate.group, given.groups[candidate.group].min_size)
        working, ready = self.working[candidate.group], self._is_ready(node)
        if refusal is not None:
            return refusal
        if given.keeps_for_slack(candidate.group, ready=ready, working=working, in_use=bool(node.movers)):
            return UnremovableReason.SLACK_NEEDED, ""
        return None

    def evacuate(self, node: SetNode, rows: Rows, lacking: tuple[UnremovableReason, str] | None) -> Evacuated | None:
        """Empties the node in the trial; None if it has to stay, with the reason in `kept`. `lacking`: a reason known
        before."""
        candidate = node.candidate
        if lacking is not None:
            self.keep(candidate.node, *lacking)
            return None
        found = self.evacuations.evacuate(candidate.row, rows=rows, stop=self.steps.over)
        if isinstance(found, NotEvacuated):
            self.keep(candidate.node, found.unremovable_reason, blocked_by=found.pod.key)
        if not isinstance(found, Evacuated):
            return None
        self.minima.take(candidate.row, candidate.group)
        self.working[candidate.group] -= self._is_ready(node)
        return found

    def _is_ready(self, node: SetNode) -> bool:
        return self.planning_input.snapshot.facts.nodes[node.candidate.row].ready

    def note(
        self,
        gone: Sequence[tuple[SetNode, Evacuated]],
        coming: Mapping[int, tuple[NewNode, Row]],
        used: Mapping[int, tuple[NewNode, Row]],
        found: Found,
    ) -> None:
        """Adds the move to the plan. Of the new nodes that were opened (`coming`), those that are not used are closed."""
        for new, (_, row) in coming.items():
            if new not in used:
                self.planning_input.snapshot.close(row)
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
                moving_cost=self.rules.policy.moving_cost(price, len(pods)),
                risky=any(evacuated.risky for _, evacuated in gone),
            )
        )
        self.new_rows.update((node.name, (row, number)) for node, row in used.values())
        self.opened.update(found.groups[new] for new in used)
        self.gone.update(each.node for each in candidates)
