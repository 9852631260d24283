"""Explains why a pod is pending, and what would help. `explain_pod` applies every rule on every node, and tries changes.

The reasons count nodes as kube-scheduler does: each node for the first rule that rejects it. The minimal sets name all
obstacles on the nearest nodes, those with the fewest obstacles.

    found = placed_instead(explain_input, pod)        # None if the pod's node is unknown

For a placed pod this compares the pod's node with the other nodes: which would take the pod, with what score, and why the rest
would not. The comparison is made of the present cluster when somebody asks; nothing is remembered of the moment at which the
pod was placed. A trial removes the pod from its node first, so that the node is scored as it was for the pod.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from typing import Any, Final

import numpy as np
from msgspec import structs

from slackwater.controllers.disagreement.state import Disagreement
from slackwater.controllers.placement.filter_facts import FilterFacts
from slackwater.controllers.scaleup.pending import is_untried, pending_demand
from slackwater.explain.explain_input import Change, ExplainInput, PodLeaves, after
from slackwater.explain.findings import (
    MOST_OBJECTS,
    OURS,
    Explanation,
    Finding,
    Instead,
    Obstacle,
    OtherNode,
    PodQuery,
    of_reason,
    remedy,
)
from slackwater.explain.misspelt import Slip, misspelt
from slackwater.explain.node_groups import group_verdicts, growing_changes, grows_for, on_its_way
from slackwater.explain.obstacles import counts, on_row, relative_shortage, why_nowhere
from slackwater.explain.search import Goal, Solution, minimal_set, single_changes
from slackwater.fit.feasible_nodes import feasible
from slackwater.fit.node_scores import scores
from slackwater.fit.scoring import room_on
from slackwater.model.columns import Int64, Rows
from slackwater.model.ids import NodeName, PodUid, Row
from slackwater.model.objects import Pod
from slackwater.model.reasons import Reason, WaitReason

#: The most nodes for which changes are tried, the most minimal sets and the most remedies in the answer.
_NEAREST: Final = 6
_MOST_SETS: Final = 3
_MOST_REMEDIES: Final = 10


NO_CONTEXT: Final = FilterFacts()


def explain_pod(explain_input: ExplainInput, pod: Pod, word: FilterFacts = NO_CONTEXT) -> Explanation:
    """Explains why a pod is pending, and which changes would help. For a placed pod the answer names its node, and the nodes
    that could be chosen instead now."""
    name = f"pod {pod.key}"
    facts = _facts(pod)
    if pod.ended or word.reason is Reason.POD_FINISHED:
        return Explanation(object=name, state="ended", reasons=(of_reason(WaitReason.ENDED),), facts=facts)
    if pod.node is not None:
        placed = of_reason(WaitReason.PLACED, objects=(f"node {pod.node}",))
        instead = placed_instead(explain_input, pod, quarantined=word.quarantined)
        return Explanation(object=name, state="placed", reasons=(placed,), facts=facts, instead=instead)
    explain_input = replace(explain_input, pending={**explain_input.pending, pod.uid: pod})
    asked = PodQuery(explain_input, pod)
    reasons = [*_scheduler_unknown(explain_input, pod), *_about_the_pod(pod, word), *why_nowhere(asked)]
    if _fits(explain_input, pod.uid, word):
        fits = of_reason(WaitReason.SCHEDULER_FREE, nodes=len(feasible(asked.snapshot, asked.kind).rows))
        if reasons and reasons[0].nodes == 0:
            return Explanation(object=name, state="waiting", reasons=tuple(reasons), facts=facts)
        return Explanation(object=name, state="schedulable", reasons=(fits, *reasons), facts=facts)
    # Why scale-up passes the pod over, whatever the groups are. Its age is not taken into account.
    rules = replace(explain_input.scale_up.pending, after_scheduler=False)
    demand = pending_demand([structs.replace(pod, nominated_node=None)], rules=rules, now=None)
    left_out = [of_reason(WaitReason.NOT_COUNTED, detail=each.why) for each in demand.passed_over]
    coming = [] if left_out else on_its_way(explain_input, pod)
    grows = left_out or any(finding.code == WaitReason.COMING for finding in coming)  # no group has to change
    slips = misspelt(asked)
    helping, minimal = what_helps(explain_input, pod, word, with_groups=not grows)
    helping = [*_written_right(explain_input, pod, word, slips), *helping][:_MOST_REMEDIES]
    words = group_verdicts(explain_input, pod) if not left_out else ()
    return Explanation(
        object=name,
        state="pending",
        reasons=(*(slip.finding for slip in slips), *reasons, *left_out, *coming),
        remedies=tuple(remedy(*changes) for changes in helping),
        minimal=tuple(solution.answer() for solution in minimal),
        groups=tuple(words),
        facts=facts,
    )


def explain_without_nodes(explain_input: ExplainInput, pod: Pod) -> Explanation:
    """What can be said of a pending pod where nodes are not known: its scheduler, its gates, kube-scheduler's message."""
    said = pod.unschedulable_message
    message = (of_reason(WaitReason.SCHEDULER_SAYS, detail=said),) if said else ()
    reasons = (*_scheduler_unknown(explain_input, pod), *_about_the_pod(pod, NO_CONTEXT), *message)
    return Explanation(object=f"pod {pod.key}", state="pending", reasons=reasons, facts=_facts(pod))


def _facts(pod: Pod) -> dict[str, Any]:
    return {
        "requests": {"milliCPU": pod.kind.requests.cpu, "bytes": pod.kind.requests.memory},
        "priority": pod.priority,
        "schedulerName": pod.kind.scheduler_name,
        "node": pod.node,
        "schedulerSays": pod.unschedulable_message,
    }


def _scheduler_unknown(explain_input: ExplainInput, pod: Pod) -> Iterator[Finding]:
    """The finding that nobody schedules the pod, as far as is known. A scheduler that has tried the pod is known."""
    known, name = explain_input.schedulers, pod.kind.scheduler_name
    if known is None or name in known or not is_untried(pod):
        return
    near = get_close_matches(name, sorted(known), n=1)
    detail = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(known)[:MOST_OBJECTS])}"
    yield of_reason(WaitReason.SCHEDULER_UNKNOWN, objects=(f"schedulerName {name}",), detail=detail)


def disputed(explanation: Explanation, disagreement: Disagreement | None) -> Explanation:
    """The explanation with the disagreement as its first reason, in kube-scheduler's own words; unchanged if there is none."""
    if disagreement is None:
        return explanation
    reason = WaitReason.PLACED_AGAINST_RULES if disagreement.placed else WaitReason.SCHEDULER_DISAGREES
    bought = (
        "; a node was requested for the pod, and kube-scheduler has not placed the pod there" if disagreement.bought else ""
    )
    nodes = tuple(f"node {node}" for node in disagreement.nodes)
    finding = of_reason(reason, detail=f"{disagreement.words}{bought}", objects=nodes)
    return structs.replace(explanation, reasons=(finding, *explanation.reasons))


def partly_judged(explanation: Explanation, notes: Sequence[str]) -> Explanation:
    """The explanation of a pod with `notes` about rules that could not be judged. Where some could not, the pod may not fit."""
    if explanation.state != "schedulable" or not notes:
        return structs.replace(explanation, notes=tuple(notes))
    fits = tuple(
        structs.replace(of_reason(WaitReason.PARTLY_JUDGED), nodes=reason.nodes)
        if reason.code == WaitReason.SCHEDULER_FREE
        else reason
        for reason in explanation.reasons
    )
    return structs.replace(explanation, state="unknown", reasons=fits, notes=tuple(notes))


def _about_the_pod(pod: Pod, word: FilterFacts) -> Iterator[Finding]:
    """Findings that the state machine's knowledge gives: gates, filter's reason on every node, and closed nodes."""
    if pod.gates:
        yield of_reason(WaitReason.SCHEDULING_GATES, objects=tuple(f"gate {gate}" for gate in pod.gates))
    if word.reason not in {Reason.OK, Reason.MISSING_REQUEST}:
        where = (f"node {word.only_on}",) if word.only_on is not None else ()
        objects = (*(f"pod {victim}" for victim in word.waits_for), *where)
        detail = pod.vertical_problem or "" if word.reason is Reason.VERTICAL_UNREADABLE else ""
        yield of_reason(word.reason, objects=objects, detail=detail)
    for reason, names in ((Reason.BIND_DENIED, word.denied), (Reason.NODE_QUARANTINED, word.quarantined)):
        if names:
            yield of_reason(reason, nodes=len(names), objects=tuple(f"node {name}" for name in sorted(names)))


def _fits(explain_input: ExplainInput, uid: PodUid, word: FilterFacts) -> bool:
    pod = explain_input.pending[uid]
    rows = feasible(explain_input.snapshot, explain_input.kind_of(pod)).rows
    if not word.closed:
        return bool(len(rows))
    nodes = explain_input.snapshot.facts.nodes
    return any(nodes[row].name not in word.closed for row in rows.tolist())


def _written_right(explain_input: ExplainInput, pod: Pod, word: FilterFacts, slips: Sequence[Slip]) -> list[tuple[Change, ...]]:
    """The changes that write right what the pod names wrongly, where the pod then fits: each that is enough by itself, else all
    together. They come before all other remedies: who misspelt a name wants neither a new node nor a smaller pod."""
    changes = [slip.change for slip in slips if slip.change is not None]

    def fits(*tried: Change) -> bool:
        with after(explain_input, tried) as then:
            return _fits(then, pod.uid, word)

    alone: list[tuple[Change, ...]] = [(change,) for change in changes if fits(change)]
    return alone or ([tuple(changes)] if len(changes) > 1 and fits(*changes) else [])


# --- what would help ------------------------------------------------------------------------------------------------------


def what_helps(
    explain_input: ExplainInput, pod: Pod, word: FilterFacts = NO_CONTEXT, *, with_groups: bool
) -> tuple[list[tuple[Change, ...]], list[Solution]]:
    """Sets of changes of which each finds the pod a place, and minimal sets for the nearest nodes. `with_groups`: changes of
    node groups are tried too."""
    goals = _goals(explain_input, pod, word)
    singles = single_changes(explain_input, goals)
    minimal = [found for goal in goals[:_MOST_SETS] if (found := minimal_set(explain_input, goal)) is not None]
    if with_groups:
        singles += [each for each in growing_changes(explain_input, pod) if grows_for(explain_input, pod, each)]
    helping: list[tuple[Change, ...]] = [(change,) for change in singles] or [found.changes for found in minimal]
    by_words = {tuple(change.words for change in changes): changes for changes in helping}
    return list(by_words.values())[:_MOST_REMEDIES], minimal


def _goals(explain_input: ExplainInput, pod: Pod, word: FilterFacts) -> list[Goal]:
    """One goal for each of the nearest nodes: that the pod fits, with the obstacles on this node."""
    asked = PodQuery(explain_input, pod)
    if not asked.snapshot.n_rows:
        return []

    def against(row: Row, then: ExplainInput) -> Sequence[Obstacle]:
        return on_row(PodQuery(then, then.pending[pod.uid]), row)

    return [
        Goal(
            reached=lambda then: _fits(then, pod.uid, word),
            obstacles=partial(against, row),
            where=f"node {asked.name_of(row)}",
        )
        for row in nearest(asked, leave_out=word.closed)
    ]


def nearest(asked: PodQuery, *, leave_out: frozenset[NodeName] = frozenset(), but: Row | None = None) -> list[Row]:
    """The `_NEAREST` rows with the fewest obstacles; among equally many, those that lack least come first. Only one row of each
    number of obstacles and verdict is returned. `leave_out` and `but` are excluded."""
    n_obstacles, facts = counts(asked), asked.snapshot.facts
    open_rows = facts.live[: facts.n_rows].copy()
    open_rows[[facts.row_of[name] for name in leave_out if name in facts.row_of]] = False
    if but is not None:
        open_rows[but] = False
    order = np.lexsort((relative_shortage(asked), n_obstacles))
    order = order[open_rows[order]]
    codes = feasible(asked.snapshot, asked.kind).codes.astype(np.int64)
    _, first = np.unique(n_obstacles[order] * len(Reason) + codes[order], return_index=True)
    return [Row(row) for row in order[np.sort(first)][:_NEAREST].tolist()]


def nearest_changes(asked: PodQuery, but: Row) -> list[Change]:
    """Changes that might make room for the pod on one of the nearest rows other than `but`: those with one obstacle."""
    against = [on_row(asked, near) for near in nearest(asked, but=but)]
    return [change for obstacles in against if len(obstacles) == 1 for change in obstacles[0].changes]


#: The most other nodes that are named.
_MOST_NODES: Final = 5


def placed_instead(explain_input: ExplainInput, pod: Pod, *, quarantined: frozenset[NodeName] = frozenset()) -> Instead | None:
    """Compares the node of a placed pod with the other nodes; None if the pod's node is unknown. `quarantined` nodes take no
    pod now."""
    row = None if pod.node is None else explain_input.row_of(pod.node)
    if row is None:
        return None
    with after(explain_input, [PodLeaves(words="", pod=pod, row=row)]) as then:
        unplaced = structs.replace(pod, node=None)
        asked = PodQuery(replace(then, pending={**then.pending, pod.uid: unplaced}), unplaced)
        found = feasible(asked.snapshot, asked.kind).rows
        closed = [at for name in quarantined if (at := explain_input.row_of(name)) is not None]
        others: Rows = found[(found != row) & ~np.isin(found, closed)]
        points = _points(asked, np.append(others, row))
        findings = [*why_nowhere(asked, leave_out=row)]
        if shut := int((np.isin(found, closed) & (found != row)).sum()):
            findings.append(of_reason(Reason.NODE_QUARANTINED, nodes=shut))
        return _compared(asked, others, points, tuple(findings))


def _points(asked: PodQuery, rows: Rows) -> dict[str, Int64]:
    """For each plug-in, the weighted score of each row; shape (len(rows),)."""
    explain_input, snapshot = asked.explain_input, asked.snapshot
    weights = explain_input.profile.plugins(snapshot.facts.kubernetes)
    found = scores(snapshot, asked.kind, rows, explain_input.profile)
    points = {name: weights[name].weight * score for name, score in found.items()}
    if explain_input.own_score is not None:
        points[OURS] = explain_input.own_score(room_on(snapshot, rows), asked.numbered)
    return points


def _compared(asked: PodQuery, others: Rows, points: dict[str, Int64], findings: tuple[Finding, ...]) -> Instead:
    """Makes the answer. `points` have the scores of `others`, and at the end that of the pod's own node."""
    total = np.sum(list(points.values()), axis=0)
    names = [asked.name_of(Row(row)) for row in others.tolist()]
    best = sorted(range(len(names)), key=lambda at: (-int(total[at]), names[at]))[:_MOST_NODES]
    nodes = tuple(
        OtherNode(
            node=names[at],
            score=int(total[at]),
            difference={name: int(each[at] - each[-1]) for name, each in points.items() if each[at] != each[-1]},
        )
        for at in best
    )
    return Instead(score=int(total[-1]), feasible=len(names), nodes=nodes, reasons=findings)
