"""Which changes help? Tried in the simulator, the smallest first.

A way is a place with obstacles (a node for a pod; the node itself where it is to go). Where one has a single obstacle, each
change that might lift it is tried alone. Otherwise a way is repaired: its obstacles are lifted together, what then shows is
lifted too, and in the end every change is left out once: what is not needed is dropped. What remains is minimal, and each of
its changes was seen to be too little by itself.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from slackwater.explain.asked import Obstacle
from slackwater.explain.changes import Change
from slackwater.explain.findings import Finding, MinimalSet, Remedy
from slackwater.explain.situation import ExplainInput, after

#: Obstacles of one way beyond which no remedy is looked for, and how often obstacles may hide behind others.
MOST_CHANGES: Final = 24
_MOST_ROUNDS: Final = 8
_MOST_TRIED: Final = 64


@dataclass(frozen=True, slots=True)
class Goal:
    """`reached` says whether it is so now; `obstacles` what is in the way at one place."""

    reached: Callable[[ExplainInput], bool]
    obstacles: Callable[[ExplainInput], Sequence[Obstacle]]
    where: str


class Step(NamedTuple):
    """What was in the way, and the change that lifts it."""

    finding: Finding
    change: Change


def reached_by(explain_input: ExplainInput, changes: Iterable[Change], goal: Goal) -> bool:
    """Is it so after the changes? The snapshot is as before afterwards."""
    with after(explain_input, changes) as then:
        return goal.reached(then)


def single_remedies(explain_input: ExplainInput, goals: Iterable[Goal], more: Iterable[Change] = ()) -> list[Remedy]:
    """Single changes that help: those against the only obstacle of a way, and `more`. Each is told once."""
    found: dict[str, Remedy] = {}
    tried: set[str] = set()
    for goal, change in _candidates(explain_input, goals, more):
        if change.words in tried or len(tried) >= _MOST_TRIED:
            continue
        tried.add(change.words)
        if reached_by(explain_input, (change,), goal):
            found[change.words] = Remedy(changes=(change,))
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


def minimal_set(explain_input: ExplainInput, goal: Goal) -> MinimalSet | None:
    """All that has to go at one place; None where it cannot be told, or not be changed."""
    steps = _repaired(explain_input, goal)
    steps = None if steps is None else _pruned(explain_input, goal, steps)
    if not steps:
        return None
    return MinimalSet(
        where=goal.where,
        blockers=tuple(step.finding for step in steps),
        changes=tuple(step.change for step in steps),
    )


def _repaired(explain_input: ExplainInput, goal: Goal) -> list[Step] | None:
    """Changes that together make it so; perhaps more of them than are needed."""
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
    """For each obstacle the mildest change that has not been tried; None where one has none left."""
    steps: dict[str, Step] = {}
    for obstacle in obstacles:
        change = next((change for change in obstacle.changes if change.words not in used), None)
        if change is None:
            return None
        steps.setdefault(change.words, Step(obstacle.finding, change))
    return list(steps.values())


def _by_first_change(obstacles: Sequence[Obstacle]) -> set[str]:
    """Two rules may say the same (kube-scheduler's count and ours): what one change lifts is one obstacle."""
    return {obstacle.changes[0].words if obstacle.changes else repr(obstacle.finding) for obstacle in obstacles}


def _pruned(explain_input: ExplainInput, goal: Goal, steps: list[Step]) -> list[Step]:
    """Without what is not needed, whatever the order in which it is left out."""
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
