"""The decisions that mattered most, by the money of the nodes that exist on one side only because of them.

`Sums` has the money by number; a second reading of the log fetches what is listed. Each decision comes with the command that
explains more.
"""

from collections.abc import Iterable, Mapping
from heapq import nlargest
from math import inf
from shlex import quote
from typing import Final

from slackwater.app.counterfactual.lines import AnyLine, Began, Decision, NodeCame, NodeWent, Side
from slackwater.app.report.answer import DecisionAnswer, DecisionsAnswer
from slackwater.app.report.partings import Cause, Partings, cause_of
from slackwater.app.report.window import amount_text, utc_text

MOST_LISTED: Final = 1_000


def decisions_answer(
    partings: Partings, lines: Iterable[AnyLine], sides: Iterable[Side], *, saved: int | None
) -> DecisionsAnswer:
    """`saved`: micros an hour, times milliseconds; None if one side only is written."""
    decided = {cause: amount for cause, amount in partings.money.items() if cause[1] is not None and amount}
    most = dict(nlargest(MOST_LISTED, decided.items(), key=lambda each: (abs(each[1]), each[0])))
    details, nodes = _found(most, lines, partings)
    listed = sorted(most, key=lambda cause: (details[cause].at if cause in details else 0.0, cause))
    left_out = {side: sum(decided[each] for each in decided.keys() - most.keys() if each[0] == side) for side in sides}
    explained = sum(amount if side == "real" else -amount for (side, *_), amount in partings.money.items())
    return DecisionsAnswer(
        listed=[_answer(each, most[each], details.get(each), nodes.get(each, ""), partings) for each in listed],
        left_out=len(decided) - len(most),
        left_out_money={side: amount_text(amount) for side, amount in left_out.items()},
        nobody={side: amount_text(partings.money[cause_of(side, None, 0.0)]) for side in left_out},
        rest=None if saved is None else amount_text(saved - explained),
    )


def _found(
    wanted: Mapping[Cause, int], lines: Iterable[AnyLine], partings: Partings
) -> tuple[dict[Cause, Decision], dict[Cause, str]]:
    """The decisions, and one of the nodes of each: one that the real cluster has, if there is such a node."""
    details, nodes, began = dict[Cause, Decision](), dict[Cause, str](), -inf
    for line in lines:
        if isinstance(line, Began) and (began == -inf or not line.goes_on):
            began = line.at
        elif isinstance(line, Decision) and (cause := cause_of(line.side, line.number, began)) in wanted:
            details[cause] = line
        elif isinstance(line, NodeCame | NodeWent) and (cause := cause_of(line.side, line.decision, began)) in wanted:
            known = nodes.setdefault(cause, line.node)
            nodes[cause] = line.node if partings.exists(line.node) and not partings.exists(known) else known
    return details, nodes


def _answer(cause: Cause, amount: int, line: Decision | None, node: str, partings: Partings) -> DecisionAnswer:
    side, number, _ = cause
    found = line or Decision(at=0.0, side=side, number=number or 0, action="add")
    return DecisionAnswer(
        number=found.number,
        at="" if line is None else utc_text(line.at),
        side=side,
        by=found.by,
        action="" if line is None else found.action,
        group=found.group,
        nodes=found.nodes,
        pods=found.pods,
        why=found.why,
        example=found.example,
        money=amount_text(amount),
        ask=_ask(node, found, partings),
    )


def _ask(node: str, line: Decision, partings: Partings) -> str:
    """The command about what is still there, or was."""
    if partings.exists(node):
        return f"slackwater explain node {quote(node)}"
    if line.side == "real" and node:
        return f"slackwater history node {quote(node)}"
    if line.example.count("/") == 1:
        return f"slackwater history pod {quote(line.example)}"
    return f"slackwater explain group {quote(line.group)}" if line.group else ""
