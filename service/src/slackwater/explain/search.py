"""Searches for changes that help, by trying them in trials on the snapshot.

A goal is that a node takes a pod, or that a node can be removed; obstacles prevent it. If there is one obstacle, each change
that might remove it is tried alone. Otherwise a set of changes is built: it removes all obstacles, and those that appear
behind them. Then each change is left out in turn, and dropped if the goal is reached without it. The rest is minimal: the goal
needs each of its changes, and no single one is enough.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from slackwater.explain.explain_input import Change, ExplainInput, after
from slackwater.explain.findings import Finding, MinimalSet, Obstacle, remedy

#: The most changes of one set; how many times a set is extended by changes for newly found obstacles; the most single changes
#: that are tried.
MOST_CHANGES: Final = 24
_MOST_ROUNDS: Final = 8
_MOST_TRIED: Final = 64


@dataclass(frozen=True, slots=True)
class Goal:
    """The goal of a search. `reached`: whether it is reached in an explain input. `obstacles`: what prevents it at the node
    that `where` names."""

    reached: Callable[[ExplainInput], bool]
    obstacles: Callable[[ExplainInput], Sequence[Obstacle]]
    where: str


class _Repair(NamedTuple):
    """An obstacle's finding, and the change that removes it."""

    finding: Finding
    change: Change


class Solution(NamedTuple):
    """A minimal set of changes that reaches the goal at the node `where`. Change i removes blocker i."""

    where: str
    blockers: tuple[Finding, ...]
    changes: tuple[Change, ...]

    def answer(self) -> MinimalSet:
        return MinimalSet(where=self.where, blockers=self.blockers, remedy=remedy(*self.changes))


def reached_by(explain_input: ExplainInput, changes: Iterable[Change], goal: Goal) -> bool:
    """Is the goal reached after the changes? Leaves the snapshot as it was."""
    with after(explain_input, changes) as then:
        return goal.reached(then)


def single_changes(explain_input: ExplainInput, goals: Iterable[Goal]) -> list[Change]:
    """The single changes that reach a goal by themselves. Tries the changes for goals with only one obstacle."""
    found: dict[str, Change] = {}
    tried: set[str] = set()
    for goal in goals:
        obstacles = goal.obstacles(explain_input)
        # Obstacles with the same first change count as one, because two rules may find the same lack (kube-scheduler's
        # accounting and ours).
        if len({each.changes[0].words if each.changes else repr(each.finding) for each in obstacles}) != 1:
            continue
        for change in (change for obstacle in obstacles for change in obstacle.changes):
            if change.words not in tried and len(tried) < _MOST_TRIED:
                tried.add(change.words)
                if reached_by(explain_input, (change,), goal):
                    found[change.words] = change
    return list(found.values())


def minimal_set(explain_input: ExplainInput, goal: Goal) -> Solution | None:
    """A minimal set of changes that reaches the goal; None if none is found, for example because an obstacle has no change."""
    steps = _pruned(explain_input, goal, _repaired(explain_input, goal) or [])
    if not steps:
        return None
    return Solution(
        where=goal.where,
        blockers=tuple(step.finding for step in steps),
        changes=tuple(step.change for step in steps),
    )


def _repaired(explain_input: ExplainInput, goal: Goal) -> list[_Repair] | None:
    """Steps that together reach the goal, perhaps more than are needed; None if none are found."""
    steps: list[_Repair] = []
    for _ in range(_MOST_ROUNDS):
        with after(explain_input, [step.change for step in steps]) as then:
            if goal.reached(then):
                return steps
            obstacles = goal.obstacles(then)
        new = _next_steps(obstacles, {step.change.words for step in steps})
        if not new or len(steps) + len(new) > MOST_CHANGES:
            return None
        steps += new
    return None


def _next_steps(obstacles: Sequence[Obstacle], used: set[str]) -> list[_Repair] | None:
    """One step for each obstacle: its mildest change that has not been used yet. None if an obstacle has no such change."""
    steps: dict[str, _Repair] = {}
    for obstacle in obstacles:
        change = next((change for change in obstacle.changes if change.words not in used), None)
        if change is None:
            return None
        steps.setdefault(change.words, _Repair(obstacle.finding, change))
    return list(steps.values())


def _pruned(explain_input: ExplainInput, goal: Goal, steps: list[_Repair]) -> list[_Repair]:
    """Removes steps until the goal needs each that is left. If one step alone reaches the goal, returns only that."""
    for step in steps:
        if len(steps) > 1 and reached_by(explain_input, (step.change,), goal):
            return [step]
    at = 0
    while at < len(steps) and len(steps) > 1:
        without = [step for number, step in enumerate(steps) if number != at]
        if reached_by(explain_input, [step.change for step in without], goal):
            steps, at = without, 0
        else:
            at += 1
    return steps
