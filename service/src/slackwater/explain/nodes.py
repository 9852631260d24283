"""Explains why a node is not removed, and which changes would allow its removal.

`explain_node` applies every rule of removal, and tries changes. Removable means the same as in `slackwater simulate
scale-down`: the rules allow the removal of the node and its pods, its group and the cluster keep their minima, and all its pods
find places on the other nodes at the same time. Timers, cool-downs and removals in progress are also reported, but need no
change: they pass.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from msgspec import structs

from slackwater.controllers.scaledown.eligibility import (
    RULES,
    EligibilityInput,
    RemainingMinima,
    left_to_consolidation,
    recently_unremovable,
)
from slackwater.controllers.scaledown.planning_input import PlanningInput
from slackwater.controllers.scaledown.policy import ScaleDownPolicy, rules_of
from slackwater.controllers.scaledown.state import ScaleDownState
from slackwater.controllers.scaledown.utilization import utilizations, without_daemons
from slackwater.explain import node_obstacles
from slackwater.explain.explain_input import Change, ExplainInput
from slackwater.explain.findings import Explanation, Finding, Obstacle, PodQuery, of_reason, remedy
from slackwater.explain.obstacles import why_nowhere
from slackwater.explain.pods import nearest_changes
from slackwater.explain.search import Goal, Solution, minimal_set, single_changes
from slackwater.fit.assumed_claims import take_off
from slackwater.fit.drainability import DrainabilityOutcome, RuleFacts, judge
from slackwater.fit.evacuation import Evacuated, Evacuations, NotEvacuated
from slackwater.fit.remaining_pdb_tracker import Disruptions
from slackwater.model.ids import NodeName, Row
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Node
from slackwater.model.prices import price_document
from slackwater.model.reasons import UnremovableReason, WaitReason

_MOST_REMEDIES: Final = 10
_MOST_MOVES: Final = 250
_NO_GROUP: Final = GroupName("")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeContext:
    """What the service knows of a node in addition to the snapshot. `begun`: the phase of its removal; None: not begun.

    `unneeded_seconds`: for how long it has been a candidate for removal; None: it is none. `waits`: what delays the removal of
    a candidate now, or that a plan keeps its room as slack, each as a reason and a detail. `ledger`: figures of the accounting,
    for `Explanation.facts`.
    """

    begun: str | None = None
    unneeded_seconds: float | None = None
    waits: Sequence[tuple[UnremovableReason, str]] = ()
    ledger: Mapping[str, Any] = field(default_factory=dict)


NO_CONTEXT: Final = NodeContext()


def explain_node(explain_input: ExplainInput, name: NodeName, word: NodeContext = NO_CONTEXT) -> Explanation:
    """Explains why a node is not removed, and which changes would allow its removal. Raises KeyError for a node that does not
    exist.
    """
    row = explain_input.row_of(name)
    if row is None:
        raise KeyError(name)
    title, facts = f"node {name}", _facts(explain_input, row, word)
    if word.begun is not None:
        begun = of_reason(UnremovableReason.BEING_DELETED, objects=(f"node {name}",), detail=word.begun)
        return Explanation(object=title, state="leaving", reasons=(begun,), facts=facts)
    found = unremovable_reasons(explain_input, row)
    waits = [*_waits(explain_input, row, word)]
    if not found and all(reason is not UnremovableReason.SLACK_NEEDED for reason, _ in word.waits):
        removable = of_reason(WaitReason.REMOVABLE, nodes=1)
        facts |= _moves(explain_input, _evacuated(explain_input, row))
        return Explanation(object=title, state="removable", reasons=(*waits, removable), facts=facts)
    # Whatever forbids it: somebody may remove the node all the same.
    facts |= _moves(explain_input, _evacuated(explain_input, row, begun=True))
    helping, minimal = what_helps(explain_input, name, row) if found else ([], None)
    if any(reason is UnremovableReason.LEFT_TO_CONSOLIDATION for reason, _ in word.waits):
        found = [each for each in found if not _is_left(each)]  # what consolidation plans says the same, and more
    return Explanation(
        object=title,
        state="needed",
        reasons=(*(obstacle.finding for obstacle in found), *waits),
        remedies=tuple(remedy(*changes) for changes in helping),
        minimal=() if minimal is None else (minimal.answer(),),
        facts=facts,
    )


def _moves(explain_input: ExplainInput, evacuated: Evacuated | NotEvacuated | None) -> dict[str, Any]:
    """Where the node's pods would go, and which would be lost because nothing creates them again, as facts; none if one of them
    finds no place."""
    if not isinstance(evacuated, Evacuated):
        return {}
    nodes, moves = explain_input.snapshot.facts.nodes, evacuated.moves[:_MOST_MOVES]
    kept = [move for move in moves if move.pod.eviction_facts.owner is not None]
    lost = [str(move.pod.key) for move in moves if move.pod.eviction_facts.owner is None]
    found = {"moves": [{"pod": str(move.pod.key), "node": nodes[move.to].name} for move in kept]}
    return {**found, "lost": lost} if lost else found


def what_helps(explain_input: ExplainInput, name: NodeName, row: Row) -> tuple[list[tuple[Change, ...]], Solution | None]:
    """Sets of changes of which each lets the node go, and the minimal set, if one was found. If consolidation decides about the
    node: of which each lets a plan replace it."""
    goal = Goal(  # timers aside, and as if no other node were removed
        reached=lambda then: _reached(then, row),
        obstacles=lambda then: _to_mend(then, row),
        where=f"node {name}",
    )
    singles = single_changes(explain_input, [goal])
    minimal = minimal_set(explain_input, goal)
    helping: list[tuple[Change, ...]] = [(change,) for change in singles] or ([] if minimal is None else [minimal.changes])
    return helping[:_MOST_REMEDIES], minimal


def _reached(explain_input: ExplainInput, row: Row) -> bool:
    """May the node go, by all rules? If consolidation decides about it: may a plan replace it?"""
    rules = _of_the_node(explain_input, row)
    if any(map(_is_left, rules)):
        return len(rules) == 1 and not node_obstacles.blocked(explain_input, row, _drain_facts(explain_input))
    return not rules and isinstance(_evacuated(explain_input, row), Evacuated)


def _to_mend(explain_input: ExplainInput, row: Row) -> list[Obstacle]:
    """The obstacles that a change can remove. That consolidation decides is none of them, and of a node about which it does,
    neither is a lack of room on the others: a plan brings new nodes."""
    found = unremovable_reasons(explain_input, row)
    if any(map(_is_left, found)):
        found = [each for each in found if not _is_left(each) and each.finding.code != UnremovableReason.NO_PLACE]
    return found


def _is_left(obstacle: Obstacle) -> bool:
    return obstacle.finding.code == UnremovableReason.LEFT_TO_CONSOLIDATION


def _waits(explain_input: ExplainInput, row: Row, word: NodeContext) -> Iterator[Finding]:
    """Findings that end by themselves, such as timers and pods that are about to complete."""
    yield from (of_reason(unremovable_reason, nodes=1, detail=detail) for unremovable_reason, detail in word.waits)
    evacuated = _evacuated(explain_input, row)
    if isinstance(evacuated, Evacuated) and evacuated.awaited:
        awaited = tuple(f"pod {pod.key}" for pod in evacuated.awaited)
        yield of_reason(UnremovableReason.AWAITS_COMPLETION, nodes=1, objects=awaited)


def _facts(explain_input: ExplainInput, row: Row, word: NodeContext) -> dict[str, Any]:
    snapshot = explain_input.snapshot
    used, node = utilizations(snapshot, np.array([row], np.intp))[0], snapshot.facts.nodes[row]
    group = explain_input.group_of.get(node.name)
    rules = None if group is None else _rules(explain_input, group)
    return {
        "group": group or None,
        **_price(explain_input, node, group),
        "utilization": {"resource": used.resource, "share": round(used.share, 4)},
        "utilizationThreshold": None if rules is None else used.threshold(rules),
        "pods": len(explain_input.running_pods.on(row)),
        "ready": node.ready,
        "unneededSeconds": None if word.unneeded_seconds is None else round(word.unneeded_seconds, 1),
        "unneededTimeSeconds": None if rules is None else (rules.unneeded_time if node.ready else rules.unready_time),
        **word.ledger,
    }


def _price(explain_input: ExplainInput, node: Node, group: GroupName | None) -> dict[str, Any]:
    """What the node costs, as a fact; none without prices."""
    prices = explain_input.scale_up.prices
    if prices is None:
        return {}
    said = None if group is None else explain_input.groups[group].group.price_micros
    return {"price": price_document(prices.of(group or _NO_GROUP, node, provider=said))}


def _rules(explain_input: ExplainInput, group: GroupName) -> ScaleDownPolicy:
    return rules_of(explain_input.groups[group].group, explain_input.scale_down)


# --- may it go? -----------------------------------------------------------------------------------------------------------


def unremovable_reasons(explain_input: ExplainInput, row: Row) -> list[Obstacle]:
    """Every obstacle to the node's removal, with changes to try; empty if the node is removable.

    Of the pods that fit nowhere else only the first is reported. After a change for it the search calls this function again.
    """
    found = _of_the_node(explain_input, row)
    blocked = node_obstacles.blocked(explain_input, row, _drain_facts(explain_input))
    found += blocked
    evacuated = _evacuated(explain_input, row, begun=bool(blocked))
    if isinstance(evacuated, NotEvacuated):
        found += _unplaced_pods(explain_input, row, evacuated)
    return found


def _of_the_node(explain_input: ExplainInput, row: Row) -> list[Obstacle]:
    node = explain_input.snapshot.facts.nodes[row]
    group = explain_input.group_of.get(node.name)
    rules = None if group is None else _rules(explain_input, group)
    used = utilizations(explain_input.snapshot, np.array([row], np.intp))[0]
    candidate = EligibilityInput(
        node=node,
        group=group,
        rules=rules,
        utilization=without_daemons(used, explain_input.snapshot, explain_input.running_pods, row, rules),
        state=ScaleDownState(),
        policy=explain_input.scale_down,
        now=explain_input.now,
    )
    words = [word for rule in RULES if rule is not recently_unremovable and (word := rule(candidate)) is not None]
    if group is not None and left_to_consolidation(explain_input.scale_down, node, pods=_movers(explain_input, row)):
        # Whatever its utilization is.
        words = [word for word in words if word[0] is not UnremovableReason.NOT_UNDERUTILIZED]
        words.append((UnremovableReason.LEFT_TO_CONSOLIDATION, ""))
    if group is not None:
        planning_input = PlanningInput(
            snapshot=explain_input.snapshot,
            running_pods=explain_input.running_pods,
            groups={name: each.group for name, each in explain_input.groups.items()},
            group_of=explain_input.group_of,
            budgets=explain_input.budgets,
            replicas=explain_input.replicas,
        )
        minima = RemainingMinima(planning_input, ScaleDownState(), explain_input.scale_down.minimum)
        refusal = minima.refusal(row, group, explain_input.groups[group].group.min_size)
        words += [] if refusal is None else [refusal]
    return [node_obstacles.obstacle(explain_input, candidate, row, *word) for word in words]


def _movers(explain_input: ExplainInput, row: Row) -> int:
    """How many pods would have to move; 0 where nobody asks, since this is called for each change that is tried."""
    if not explain_input.scale_down.only_empty:
        return 0
    facts = _drain_facts(explain_input)
    return sum(judge(pod, facts).outcome is DrainabilityOutcome.MOVE for pod, _ in explain_input.running_pods.on(row))


def _drain_facts(explain_input: ExplainInput) -> RuleFacts:
    return RuleFacts(
        now=explain_input.now,
        policy=explain_input.scale_down.blocked_by,
        disruptions=None if explain_input.budgets is None else Disruptions(explain_input.budgets),
        replicas=explain_input.replicas,
    )


def _evacuated(explain_input: ExplainInput, row: Row, *, begun: bool = False) -> Evacuated | NotEvacuated | None:
    """Evacuates the node in a trial, and leaves the snapshot unchanged.

    Tries destinations in the same order as a scale-down plan for this node alone, because the order decides which pod finds a
    place. `begun`: skips the rules of drainability, as for a drain that has begun. The result is never None here, because
    nothing stops the search.
    """
    snapshot = explain_input.snapshot
    rows = np.flatnonzero(snapshot.facts.live[: snapshot.n_rows])[::-1]
    with snapshot.fork():
        evacuations = Evacuations(snapshot, explain_input.running_pods, facts=_drain_facts(explain_input))
        return evacuations.evacuate(row, rows=rows, begun=begun)


def _unplaced_pods(explain_input: ExplainInput, row: Row, kept: NotEvacuated) -> list[Obstacle]:
    """The obstacle that a pod finds no place: why no other node takes it, and changes after which one of the nearest would."""
    running_pod, snapshot = explain_input.running_pod(row, kept.pod.uid), explain_input.snapshot
    assert running_pod is not None
    with snapshot.fork():
        take_off(snapshot, running_pod.kind, row, running_pod.pod.uid)
        snapshot.close(row)
        asked = PodQuery(explain_input.edited(kept.pod.uid, None), kept.pod, at=row)
        why, changes = why_nowhere(asked), nearest_changes(asked, row)
    detail = ", ".join(f"{finding.nodes} {finding.detail or finding.text}" for finding in why[:3])
    found = of_reason(UnremovableReason.NO_PLACE, nodes=1, objects=(f"pod {running_pod.pod.key}",), detail=detail)
    if len(why) == 1:
        found = structs.replace(found, resource=why[0].resource, short=why[0].short)
    return [Obstacle(found, tuple(changes))]
