"""Plans a scale-down: checks that the pods of nodes under removal still fit, and finds the nodes that can be removed together.

    plan = plan_scale_down(state, planning_input, policy, now=now, stop=stop)

First the pods of nodes under removal are placed again, if possible where the previous plan placed them. Budgets do not block
them, but their disruptions are subtracted from what the budgets allow. Then the recently evicted pods are placed. If one of all
these pods fits nowhere, no other node is tried. Otherwise the eligible nodes are emptied in the trial one after another, each
with the room that is left, until `stop` returns True; `min_evaluated` nodes are tried even then. The order is: empty nodes;
candidates of the previous loop, so that their times go on; then by removal score, or in the order of the node list. The
snapshot is left as it was.

Deliberately absent: which removals begin now (`batch`), and the clock.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from slackwater.controllers.scaledown.eligibility import EligibilityInput, RemainingMinima, judge_node, left_to_consolidation
from slackwater.controllers.scaledown.planning_input import PlaceholderPods, PlanningInput
from slackwater.controllers.scaledown.policy import ScaleDownPolicy, rules_of
from slackwater.controllers.scaledown.removal_score import RemovalScore, RemovalScorer
from slackwater.controllers.scaledown.row_movers import Movers
from slackwater.controllers.scaledown.state import (
    Eviction,
    FailedRemoval,
    KeptNode,
    Removable,
    ScaleDownPlan,
    ScaleDownState,
    missing,
)
from slackwater.controllers.scaledown.utilization import utilizations, without_daemons
from slackwater.fit.binpacking import NOWHERE, Hints, place_pods
from slackwater.fit.drainability import RuleFacts
from slackwater.fit.evacuation import Evacuated, Evacuations, NotEvacuated
from slackwater.model.columns import Rows
from slackwater.model.ids import NodeName, PodKey, PodUid, Row, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Node, Pod
from slackwater.model.reasons import Reason, UnremovableReason


class Destinations:
    """The order in which rows are tried as destinations: rows that stay come first, in a ring; then the candidates for removal.
    `staying` and `candidates` are given in the order of the node list."""

    def __init__(self, *, staying: Rows, candidates: Rows) -> None:
        self._ring: Rows = staying[::-1].copy()
        self._last: Rows = candidates[::-1].copy()
        self._place = {int(row): at for at, row in enumerate(self._ring.tolist())}
        self._pointer = 0

    def rows(self) -> Rows:
        """The rows in the order in which the next search tries them."""
        return np.concatenate([self._ring[self._pointer :], self._ring[: self._pointer], self._last])

    def note_destination(self, row: Row) -> None:
        """Notes the destination of the last pod: the next search begins there, if that row stays."""
        self._pointer = self._place.get(row, self._pointer)


#: The detail for a node that only budgets keep, and only because nodes before it in the plan use what they allow.
_BUDGET_USED: Final = "the nodes that go before it use what the pod's budget allows: it can go after them"
#: The most verdicts that a text names.
_MOST_REASONS: Final = 3


class _Eligible(NamedTuple):
    """A node that the plan may try to empty."""

    row: Row
    node: NodeName
    group: GroupName
    ready: bool
    rules: ScaleDownPolicy
    removal_score: RemovalScore


def plan_scale_down(
    state: ScaleDownState,
    planning_input: PlanningInput,
    policy: ScaleDownPolicy,
    *,
    now: UnixTime,
    stop: Callable[[], bool] = lambda: False,
) -> ScaleDownPlan:
    """Finds the nodes that can be removed together. `stop` tells whether planning has to end.

    Every live row of the snapshot must be a node, and `planning_input.running_pods` must have every pod on it."""
    facts = planning_input.rule_facts(policy.blocked_by, now)
    with planning_input.snapshot.fork():
        return _ScaleDownPlanning(state, planning_input, policy, facts, stop).run()


@dataclass(slots=True)
class _ScaleDownPlanning:
    state: ScaleDownState
    planning_input: PlanningInput
    policy: ScaleDownPolicy
    facts: RuleFacts
    stop: Callable[[], bool]
    evacuations: Evacuations = field(init=False)
    placeholder_pods: PlaceholderPods = field(init=False)
    destinations: Destinations = field(init=False)
    hints: Mapping[PodUid, NodeName] = field(init=False)
    #: Rows to which pending pods and recently evicted pods go. Such a node is not tried.
    arrivals: set[int] = field(default_factory=set)
    #: The working nodes of each group without those that have been chosen for removal.
    working: Counter[GroupName] = field(default_factory=Counter)
    evaluated: int = 0
    cut: bool = False
    removable: list[Removable] = field(default_factory=list)
    kept: dict[NodeName, KeptNode] = field(default_factory=dict)
    failures: dict[NodeName, FailedRemoval] = field(default_factory=dict)
    unreached: dict[NodeName, UnixTime] = field(default_factory=dict)
    found_hints: dict[NodeName, Mapping[PodUid, NodeName]] = field(default_factory=dict)

    def run(self) -> ScaleDownPlan:
        facts, state = self.planning_input.snapshot.facts, self.state
        rows = [Row(row) for row in np.flatnonzero(facts.live[: facts.n_rows]).tolist()]
        leaving = [row for row in rows if facts.nodes[row].name in state.deleted_set]
        all_hints = (*state.pod_destination_hints.values(), *state.replacing.replaced.values())
        self.hints = {uid: to for hints in all_hints for uid, to in hints.items()}
        placeholder_pods = self.placeholder_pods = PlaceholderPods(self.planning_input.running_pods)
        self.evacuations = Evacuations(
            self.planning_input.snapshot, placeholder_pods, facts=self.facts, hints=self.hints, leaving=leaving
        )
        now, seconds = self.facts.now, self.policy.eviction_memory_seconds
        recent = tuple(eviction for eviction in state.recent_evictions if now - eviction.at < seconds)
        candidates = self._in_order(list(self._eligible(rows)))
        tried: Rows = np.array([candidate.row for candidate in candidates], np.intp)
        staying: Rows = np.setdiff1d(np.array(rows, np.intp), np.array([*tried, *leaving], np.intp))
        self.destinations = Destinations(staying=staying, candidates=tried)
        self.arrivals.update(facts.row_of[name] for name in self.planning_input.arriving if name in facts.row_of)
        self.working.update(
            group
            for row in np.setdiff1d(rows, leaving).tolist()
            if facts.nodes[row].ready and (group := self.planning_input.group_of.get(facts.nodes[row].name)) is not None
        )
        minima = RemainingMinima(self.planning_input, state, self.policy.minimum)
        homeless = self._leaving_fit(leaving) or self._evicted_fit(recent)
        placeholder_pods.put(self.planning_input.snapshot, self.planning_input.placeholders, self.destinations.rows())
        for candidate in candidates:
            if homeless is None:
                self._try(candidate, minima)
            else:
                self._keep(candidate.node, homeless.unremovable_reason, homeless.detail)
        return self._outcome(rows, recent, homeless)

    # --- which nodes may be tried -----------------------------------------------------------------------------------------

    def _eligible(self, rows: list[Row]) -> Iterator[_Eligible]:
        """Yields the nodes that may be tried, and notes the reason of each other node in `kept`.

        Nodes with a pod that a drainability rule keeps are not eligible either. Pods should move to nodes that stay, so these
        must be known before the first pod is placed.
        """
        weighing = RemovalScorer(self.planning_input, self.facts)
        rules = {name: rules_of(group, self.policy) for name, group in self.planning_input.groups.items()}
        snapshot, nodes = self.planning_input.snapshot, self.planning_input.snapshot.facts.nodes
        for row, used in zip(rows, utilizations(snapshot, np.array(rows, np.intp)), strict=True):
            node = nodes[row]
            group = self.planning_input.group_of.get(node.name)
            own = None if group is None else rules[group]
            eligibility_input = EligibilityInput(
                node=node,
                group=group,
                rules=own,
                utilization=without_daemons(used, snapshot, self.planning_input.running_pods, row, own),
                state=self.state,
                policy=self.policy,
                now=self.facts.now,
            )
            kept = judge_node(eligibility_input)
            if kept is not None:
                self.kept[node.name] = kept
            elif self.policy.only_empty and self._is_left_to_consolidation(node, _count(weighing.movers.free(row))):
                self._keep(node.name, UnremovableReason.LEFT_TO_CONSOLIDATION)
            elif group is not None and own is not None:
                removal_score = weighing.weigh(row)
                if not isinstance(removal_score, RemovalScore):
                    pod, unremovable_reason = removal_score
                    self._failed(node.name, unremovable_reason, blocked_by=pod.key)
                elif self._is_left_to_consolidation(node, removal_score.pods):
                    self._keep(node.name, UnremovableReason.LEFT_TO_CONSOLIDATION)
                else:
                    yield _Eligible(row, node.name, group, node.ready, own, removal_score)

    def _is_left_to_consolidation(self, node: Node, pods: int) -> bool:
        """`pods`: how many move; 0 if that is not known yet."""
        left = left_to_consolidation(self.policy, node, pods=pods)
        return left and node.name not in self.state.replacing.replaced

    def _in_order(self, found: list[_Eligible]) -> list[_Eligible]:
        """Sorts the nodes in the order in which they are tried: 1. nodes that others replace, for whose pods there is room;
        2. empty nodes;  3. candidates of the previous loop;  4. higher removal score, if the policy says so;  5. the order of
        the node list."""
        by_removal_score, replaced = self.policy.choice == "value", self.state.replacing.replaced

        def key(one: _Eligible) -> tuple[bool, bool, bool, float, int]:
            known, score = self.state.since(one.node) is not None, one.removal_score
            in_use = score.pods > 0
            return one.node not in replaced, in_use, not known, -score.score if by_removal_score else 0.0, one.row

        return sorted(found, key=key)

    # --- do those that are leaving still fit? -----------------------------------------------------------------------------

    def _leaving_fit(self, leaving: list[Row]) -> KeptNode | None:
        nodes = self.planning_input.snapshot.facts.nodes
        for row in sorted(leaving, key=lambda row: (self.state.deleted_set[nodes[row].name], row)):
            found = self.evacuations.evacuate(row, rows=self.destinations.rows(), begun=True)
            if isinstance(found, NotEvacuated):
                return KeptNode(
                    node=nodes[row].name,
                    unremovable_reason=UnremovableReason.LEAVING_PODS_HOMELESS,
                    detail=f"{found.pod.key} of {nodes[row].name}: {_words(found.reasons)}",
                    blocked_by=found.pod.key,
                )
            if found is not None:
                self._remember(found, nodes[row].name)
        return None

    def _evicted_fit(self, recent: tuple[Eviction, ...]) -> KeptNode | None:
        """Places the recently evicted pods that still need room. They stay in the trial, so their room is not used otherwise.
        Returns None if all fit; else the reason why no node may be removed."""
        pods = sorted(missing(recent, self.planning_input), key=lambda pod: (-pod.priority, pod.key))
        if not pods:
            return None
        snapshot = self.planning_input.snapshot
        kinds: Rows = np.array([snapshot.kind_id(pod.renewed_kind, pod.renewed_labels) for pod in pods], np.intp)
        hinted: Rows = np.array([snapshot.facts.row_of.get(self.hints.get(pod.uid, NodeName("")), NOWHERE) for pod in pods])
        rows = self.destinations.rows()
        placed = place_pods(snapshot, kinds, rows=rows[snapshot.facts.live[rows]], hints=Hints(pods=hinted))
        self.arrivals.update(placed.rows[placed.rows != NOWHERE].tolist())
        if not placed.left:
            return None
        left = placed.left[0]
        pod = pods[left.pods[0]]
        detail = f"{pod.key}: {_words(left.reasons)}"
        node = pod.node or NodeName("")
        return KeptNode(
            node=node, unremovable_reason=UnremovableReason.EVICTED_PODS_HOMELESS, detail=detail, blocked_by=pod.key
        )

    # --- the simulation ---------------------------------------------------------------------------------------------------

    def _try(self, candidate: _Eligible, minima: RemainingMinima) -> None:
        node = candidate.node
        if self.cut:
            self._not_reached(node)
            return
        if candidate.row in self.arrivals or self.evacuations.has_rescheduled_pods(candidate.row):
            self._keep(node, UnremovableReason.DESTINATION)
            return
        refusal = minima.refusal(candidate.row, candidate.group, self.planning_input.groups[candidate.group].min_size)
        if refusal is not None:
            self._keep(node, *refusal)
            return
        if self._is_kept_for_slack(candidate):
            least = self.planning_input.kept_for_slack[candidate.group]
            self._keep(
                node, UnremovableReason.SLACK_NEEDED, f"with fewer than {least} nodes of {candidate.group} it did not fit"
            )
            return
        self.evaluated += 1
        # `stop` is called first, at each step: in that call the planning process answers questions.
        may_stop = self.evaluated > self.policy.min_evaluated
        found = self.evacuations.evacuate(candidate.row, rows=self.destinations.rows(), stop=lambda: self.stop() and may_stop)
        match found:
            case None:
                self.cut = True
                self._not_reached(node)
            case NotEvacuated():
                # The budget allowed the pod's eviction when the plan began.
                used = found.unremovable_reason is UnremovableReason.NOT_ENOUGH_PDB
                detail = _BUDGET_USED if used else _words(found.reasons)
                self._failed(node, found.unremovable_reason, detail, found.pod.key)
            case Evacuated():
                minima.take(candidate.row, candidate.group)
                self.working[candidate.group] -= candidate.ready
                self.removable.append(self._removable(candidate, found))
        self.cut = self.cut or (self.stop() and self.evaluated >= self.policy.min_evaluated)

    def _is_kept_for_slack(self, candidate: _Eligible) -> bool:
        in_use = candidate.removal_score.pods > 0 or self.placeholder_pods.holds_slack(candidate.row)
        ready, working = candidate.ready, self.working[candidate.group]
        return self.planning_input.keeps_for_slack(candidate.group, ready=ready, working=working, in_use=in_use)

    def _removable(self, candidate: _Eligible, found: Evacuated) -> Removable:
        since = self.state.since(candidate.node)
        ripe_after = candidate.rules.unneeded_time if candidate.ready else candidate.rules.unready_time
        return Removable(
            node=candidate.node,
            group=candidate.group,
            since=self.facts.now if since is None else since,
            ready=candidate.ready,
            moves=self._remember(found, candidate.node),
            awaited=tuple(pod.key for pod in found.awaited),
            risky=found.risky,
            ripe_after_seconds=None if candidate.node in self.state.replacing.replaced else ripe_after,
            replaced_for=self.state.replacing.reasons.get(candidate.node),
            removal_score=candidate.removal_score,
        )

    def _remember(self, found: Evacuated, node: NodeName) -> tuple[tuple[Pod, NodeName], ...]:
        """Keeps the destinations of the node's pods as hints for the next loop, and lets the next search begin at the last one.
        Returns the pods with their destinations."""
        nodes = self.planning_input.snapshot.facts.nodes
        moves = tuple((move.pod, nodes[move.to].name) for move in found.moves)
        if found.moves:
            self.destinations.note_destination(found.moves[-1].to)
        self.found_hints[node] = {pod.uid: to for pod, to in moves}
        return moves

    def _keep(
        self, node: NodeName, unremovable_reason: UnremovableReason, detail: str = "", blocked_by: PodKey | None = None
    ) -> None:
        self.kept[node] = KeptNode(node=node, unremovable_reason=unremovable_reason, detail=detail, blocked_by=blocked_by)

    def _failed(
        self, node: NodeName, unremovable_reason: UnremovableReason, detail: str = "", blocked_by: PodKey | None = None
    ) -> None:
        """Notes that the node could not be emptied. It is then not tried again for a while."""
        self._keep(node, unremovable_reason, detail, blocked_by)
        self.failures[node] = FailedRemoval(self.facts.now, self.kept[node])

    def _not_reached(self, node: NodeName) -> None:
        self._keep(node, UnremovableReason.NOT_REACHED)
        since = self.state.since(node)
        if since is not None:
            self.unreached[node] = since

    # --- the end ----------------------------------------------------------------------------------------------------------

    def _outcome(self, rows: list[Row], recent: tuple[Eviction, ...], homeless: KeptNode | None) -> ScaleDownPlan:
        names = [self.planning_input.snapshot.facts.nodes[row].name for row in rows]
        old = self.state.non_candidate_set
        lately = (
            name
            for name in names
            if (kept := self.kept.get(name)) and kept.unremovable_reason is UnremovableReason.RECENTLY_UNREMOVABLE
        )
        state = ScaleDownState(
            candidate_set={found.node: found.since for found in self.removable},
            unreached=self.unreached,
            deleted_set=self.state.deleted_set,
            non_candidate_set={**{name: old[name] for name in lately}, **self.failures},
            pod_destination_hints=self._hints(),
            recent_evictions=recent,
            replacing=self.state.replacing,
            # A node is forgotten if no drain of it fails within the longest back-off after its own back-off has ended.
            failed_drains={
                name: failed
                for name in names
                if (failed := self.state.failed_drains.get(name)) is not None
                and self.facts.now < failed.at + self.policy.backoff_seconds(failed.count) + self.policy.max_drain_backoff
            },
        )
        return ScaleDownPlan(
            state=state,
            removable=tuple(self.removable),
            kept=tuple(self.kept[name] for name in names if name in self.kept),
            homeless=homeless,
            evaluated=self.evaluated,
            cut=self.cut,
        )

    def _hints(self) -> dict[NodeName, Mapping[PodUid, NodeName]]:
        """The destinations found for pods, by the node that they leave, for the next loop.

        Candidates that were not tried keep their hints. Nodes under removal keep theirs too, updated with the present ones:
        their evicted pods are no longer on them, and need the same destination in the next loop.
        """
        old, deleted = self.state.pod_destination_hints, self.state.deleted_set
        hints = {node: found for node, found in old.items() if node in self.unreached or node in deleted}
        for node, found in self.found_hints.items():
            hints[node] = {**hints.get(node, {}), **found}
        return hints


def _words(reasons: tuple[tuple[Reason, int], ...]) -> str:
    """The most frequent verdicts as text, each with its number of nodes, as in kube-scheduler's messages: "3 ..., 2 ..."."""
    texts = [f"{count} {reason.text}" for reason, count in reasons[:_MOST_REASONS]]
    return ", ".join([*texts, "..."] if len(reasons) > _MOST_REASONS else texts)


def _count(movers: Movers | None) -> int:
    return 0 if movers is None else len(movers.pods)
