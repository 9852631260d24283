"""Replaces the nodes that are due (`due`), one by one, whatever that saves."""

from collections import Counter
from dataclasses import replace

import numpy as np

from slackwater.controllers.consolidation.made_moves import MadeMoves
from slackwater.controllers.consolidation.moves import Draft, divided
from slackwater.controllers.consolidation.trial import SetNode
from slackwater.model.columns import Rows
from slackwater.model.ids import Row
from slackwater.model.nodegroups import GroupName
from slackwater.model.reasons import UnremovableReason


def replace_due(made: MadeMoves) -> None:
    """Replaces nodes that are due, those first that have been for longest; of each group as many as may be in removal at
    the same time. No pod goes to one of the others."""
    due = [(node.candidate.due.since, node) for node in made.free if node.candidate.due is not None]
    due.sort(key=lambda each: (each[0], each[1].candidate.row))
    most, done = made.rules.scale_down.max_scale_down_parallelism, Counter[GroupName]()
    rows: Rows = np.array([node.candidate.row for _, node in due], np.intp)
    for _, node in due:
        group = node.candidate.group
        if done[group] >= most:
            made.keep(node.candidate.node, UnremovableReason.THROTTLED, f"{most} nodes of {group} are replaced first")
        elif made.steps.over():
            made.keep(node.candidate.node, UnremovableReason.NOT_REACHED)
        else:
            done[group] += _replace(made, rows, node)
    for _, node in due:
        if made.planning_input.snapshot.facts.live[node.candidate.row]:
            made.planning_input.snapshot.close(node.candidate.row)
    made.free = [node for node in made.free if node.candidate.due is None]


def _replace(made: MadeMoves, due: Rows, node: SetNode) -> bool:
    """Moves the pods of a node that is due to other nodes, of which some may be new; True if that can be done. If its group
    or the cluster would have less than their minimum, a new node of the group comes in its place. `due`: the rows of all nodes
    that are due."""
    candidate, snapshot = node.candidate, made.planning_input.snapshot
    others = [Row(row) for row in due[snapshot.facts.live[due]].tolist() if row != candidate.row]
    found = made.trials(others).of([node])
    values = np.zeros(len(found.places.kinds))  # only for the order of several nodes
    draft = next(iter(divided([candidate], found.places, values, lambda *_: True)), Draft(leaving=[0]))
    lacking = made.lacking(node)
    own = None if lacking is None else _own_group(made, candidate.group)
    if own is not None:
        found = replace(found, groups=(*found.groups, own))
        draft.coming.append(len(found.groups) - 1)
    with snapshot.fork() as trial:
        coming = {new: made.open(found.groups[new]) for new in draft.coming}
        for places in draft.places:
            made.hint(node, places, found, {new: each.name for new, (each, _) in coming.items()})
        evacuated = made.evacuate(node, made.rows_for(due, candidate, coming), lacking=None if own is not None else lacking)
        if evacuated is not None:
            used = {
                new: (each, row)
                for new, (each, row) in coming.items()
                if found.groups[new] == own or made.evacuations.has_rescheduled_pods(row)
            }
            made.note([(node, evacuated)], coming, used, found)
            trial.commit()
    return evacuated is not None


def _own_group(made: MadeMoves, owner: GroupName) -> int | None:
    """The position of a growable group, or variant, of this group that may have one more node."""
    may_grow = zip(made.groups, made.may_grow(), strict=True)
    able = (at for at, (group, may) in enumerate(may_grow) if may and group.owner == owner and group.template is not None)
    return next(able, None)
