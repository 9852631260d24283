"""Searches for changes that help, by trying them in trials on the snapshot.

A goal is that a node takes a pod, or that a node can be removed; obstacles prevent it. If there is one obstacle, each change
that might remove it is tried alone. Otherwise a set of changes is built: it removes all obstacles, and those that appear
behind them. Then each change is left out in turn, and dropped if the goal is reached without it. The rest is minimal: the goal
needs each of its changes, and no single one is enough.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from slackwater.explain.explain_input import ExplainInput, after
from slackwater.explain.findings import Finding, MinimalSet, Obstacle, remedy
from slackwater.explain.remedies import Change

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


class Step(NamedTuple):
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


def single_changes(explain_input: ExplainInput, goals: Iterable[Goal], more: Iterable[Change] = ()) -> list[Change]:
    """The single changes that reach a goal by themselves. Tries the changes for goals with only one obstacle, and `more`."""
    found: dict[str, Change] = {}
    tried: set[str] = set()
    for goal, change in _candidates(explain_input, goals, more):
        if change.words in tried or len(tried) >= _MOST_TRIED:
            continue
        tried.add(change.words)
        if reached_by(explain_input, (change,), goal):
            found[change.words] = change
    return list(found.values())


def _candidates(explain_input: ExplainInput, goals: Iterable[Goal], more: Iterable[Change]) -> Iterator[tuple[Goal, Change]]:
    last: Goal | None = None
    for goal in goals:
        last = goal
        obstacles = goal.obstacles(explain_input)
        if len(_by_first_change(obstacles)) == 1:
            yield from ((goal, change) for obstacle in obstacles for change in obstacle.changes)
    if last is not None:
        yield from ((last, change) for change in more)


def minimal_set(explain_input: ExplainInput, goal: Goal) -> Solution | None:
    """A minimal set of changes that reaches the goal; None if none is found, for example because an obstacle has no change."""
    steps = _repaired(explain_input, goal)
    steps = None if steps is None else _pruned(explain_input, goal, steps)
    if not steps:
        return None
    return Solution(
        where=goal.where,
        blockers=tuple(step.finding for step in steps),
        changes=tuple(step.change for step in steps),
    )


def _repaired(explain_input: ExplainInput, goal: Goal) -> list[Step] | None:
    """Steps that together reach the goal, perhaps more than are needed; None if none are found."""
    steps: list[Step] = []
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


def _next_steps(obstacles: Sequence[Obstacle], used: set[str]) -> list[Step] | None:
    """One step for each obstacle: its mildest change that has not been used yet. None if an obstacle has no such change."""
    steps: dict[str, Step] = {}
    for obstacle in obstacles:
        change = next((change for change in obstacle.changes if change.words not in used), None)
        if change is None:
            return None
        steps.setdefault(change.words, Step(obstacle.finding, change))
    return list(steps.values())


def _by_first_change(obstacles: Sequence[Obstacle]) -> set[str]:
    """The first change of each obstacle, as text. Obstacles with the same first change count as one, because two rules may
    find the same lack (kube-scheduler's accounting and ours)."""
    return {obstacle.changes[0].words if obstacle.changes else repr(obstacle.finding) for obstacle in obstacles}


def _pruned(explain_input: ExplainInput, goal: Goal, steps: list[Step]) -> list[Step]:
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
