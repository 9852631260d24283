"""Plans slack. In: the rules, the placeholders that users request, and the previous state. Out: placeholders with their nodes.

    # real pods are on their nodes, or where scale-up saw them fit
    found = plan_slack(snapshot, state, policy=policy, slack_inputs=slack_inputs, pod_headroom=pod_headroom, now=now)
    # placeholders without a node are demand for new nodes, after all real pods

1. Finds how much room each rule asks for, in which pieces (`rate_sizing`, `state`), and how many placeholders are like a pod.
2. Makes the placeholders. As many as possible are those of the previous loop (`assigned`).
3. Places the placeholders, each on its former node if it still fits there (`_rows_of`).

The placeholders stay in the snapshot.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from slackwater.controllers.slack.planning_input import PodHeadroom, SlackInput, like
from slackwater.controllers.slack.policy import SlackPolicy, SlackRule
from slackwater.controllers.slack.rate_sizing import RuleSizes, cut
from slackwater.controllers.slack.state import Placeholder, PreviousPieces, SlackState, steadied
from slackwater.fit.binpacking import NOWHERE, Hints, place_planned, place_pods, runs
from slackwater.model.columns import Rows
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.objects import Labels
from slackwater.model.placeholders import NAMESPACE, a_placeholder
from slackwater.model.pod_constraints import Kind
from slackwater.model.resources import Amounts
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.node_facts import CPU, MEMORY

#: What one placeholder requests: the constraints and the labels of its pod.
Shape = tuple[Kind, Labels]


def assigned(wanted: Mapping[str, Sequence[Shape]], before: Iterable[Placeholder]) -> list[Placeholder]:
    """Makes the placeholders that each source wants, sorted by number. Reuses the previous loop's placeholders (`before`) of
    the same source, with their numbers and nodes."""
    known: dict[str, list[Placeholder]] = {source: [] for source in wanted}
    for placeholder in before:
        if placeholder.source in known:
            known[placeholder.source].append(placeholder)
    for source, some in known.items():  # those with a node, and then those of the lowest numbers
        some.sort(key=lambda each: (each.place is None, each.number))
        known[source] = sorted(some[: len(wanted[source])], key=lambda each: each.number)
    taken = {each.number for some in known.values() for each in some}
    free = (number for number in count() if number not in taken)
    found: list[Placeholder] = []
    for source, shapes in wanted.items():
        old = known[source]
        for each, (kind, labels) in zip(old, shapes, strict=False):
            same = each.pod.labels == labels and (each.pod.kind is kind or each.pod.kind == kind)
            found.append(each if same else replace(each, pod=a_placeholder(each.number, kind, labels)))
        for shape in shapes[len(old) :]:
            number = next(free)
            found.append(Placeholder(number=number, source=source, pod=a_placeholder(number, *shape)))
    return sorted(found, key=lambda each: each.number)


_NO_NODE = NodeName("")


def _rows_of(snapshot: ClusterSnapshot, placeholders: Sequence[Placeholder]) -> Rows:
    """The row on which each placeholder has room, NOWHERE if it fits on none; shape (placeholders,). Each stays on its former
    node if it still fits there, unless another one then fits on no node: such a one is placed first, and those in its way move.
    The snapshot is left as it was.

    Raises `UnreadLabel` if placeholders have constraints on labels that the snapshot was built without."""
    n_pods = len(placeholders)
    nowhere = np.full(n_pods, NOWHERE, np.intp)
    if not n_pods or not snapshot.n_rows:
        return nowhere
    row_of, among = snapshot.facts.row_of, _fullest_first(snapshot)
    before = np.fromiter((row_of.get(each.place or _NO_NODE, NOWHERE) for each in placeholders), np.intp, n_pods)
    kinds = snapshot.number([each.pod for each in placeholders])

    def placed(order: Rows, hints: Rows) -> Rows:
        rows = nowhere.copy()
        own = Hints(pods=hints[order])
        rows[order] = place_pods(snapshot, kinds[order], rows=among, hints=own, reasons=False).rows
        return rows

    order = np.argsort(kinds, kind="stable").astype(np.intp)
    with snapshot.fork():
        rows = placed(order, before)
    homeless = rows == NOWHERE
    if homeless.any() and not homeless.all():
        with snapshot.fork():
            other = placed(order[homeless[order]], nowhere)
            rest = order[~homeless[order]]
            other[rest] = placed(rest, before)[rest]
        if (other == NOWHERE).sum() < homeless.sum():
            return other
    return rows


def _at(snapshot: ClusterSnapshot, placeholder: Placeholder, row: int) -> Placeholder:
    place = None if row == NOWHERE else snapshot.facts.nodes[row].name
    if place == placeholder.place:
        return placeholder
    pod = placeholder.pod
    return replace(placeholder, place=place, pod=a_placeholder(placeholder.number, pod.kind, pod.labels, node=place))


def _fullest_first(snapshot: ClusterSnapshot) -> Rows:
    """All rows, the fullest first: by the sum of the requested shares of CPU and memory, in steps of 1/64; then by row."""
    rows = slice(0, snapshot.n_rows)
    has = np.maximum(snapshot.facts.allocatable[[CPU, MEMORY], rows], 1)
    share = (snapshot.used_by_others()[[CPU, MEMORY], rows] / has).sum(axis=0)
    return np.argsort(-np.floor(share * 64), kind="stable").astype(np.intp)


#: The source of a rule's placeholders for the largest pod. The source of the rule's pieces is the rule's name alone.
_LARGEST = "{} (largest pod)"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackFound:
    """The result of a slack plan. `rows`: the row of each placeholder, NOWHERE if it fits on no node. `pushed`: the numbers of
    placeholders that are no longer on their former node. `held` and `cuts`: the pieces to keep and the sizes of each rule, by
    the rule's name."""

    placeholders: tuple[Placeholder, ...]
    rows: Rows
    pushed: tuple[int, ...]
    held: Mapping[str, PreviousPieces]
    cuts: Mapping[str, RuleSizes]

    @property
    def homeless(self) -> tuple[Placeholder, ...]:
        return tuple(each for each in self.placeholders if each.place is None)


def plan_slack(
    snapshot: ClusterSnapshot,
    before: SlackState,
    *,
    policy: SlackPolicy,
    slack_inputs: Mapping[str, SlackInput],
    pod_headroom: Sequence[PodHeadroom],
    now: UnixTime,
) -> SlackFound:
    """Plans slack: which placeholders there are, and on which node each is placed. `before`: the state of the previous loop.
    `slack_inputs`: the input of each rule, by the rule's name. `pod_headroom`: the placeholders that are like a pod.

    Pieces of a former size or number (`steadied`) hold more than was asked for, and that must buy no node. So they
    stay only while all of them have room, and while no other placeholder would find room beside the pieces that `cut` returns.

    Raises `UnreadLabel` if `pod_headroom` has constraints on labels that the snapshot was built without."""

    def planned(held_before: Mapping[str, PreviousPieces]) -> SlackFound:
        wanted, cuts, held = _wanted(held_before, policy, slack_inputs, pod_headroom, now)
        asked = assigned(wanted, before.placeholders)
        rows = _rows_of(snapshot, asked)
        found = tuple(_at(snapshot, each, row) for each, row in zip(asked, rows.tolist(), strict=True))
        moved = (old.number for old, new in zip(asked, found, strict=True) if old.place is not None and old.place != new.place)
        return SlackFound(placeholders=found, rows=rows, pushed=tuple(moved), held=held, cuts=cuts)

    found = planned(before.held)
    former = {name for name, whole in found.cuts.items() if found.held[name].pieces != whole.pieces}
    if former and (homeless := found.homeless):
        replanned = planned({name: pieces for name, pieces in before.held.items() if name not in former})
        if len(replanned.homeless) < len(homeless) or any(each.source in former for each in homeless):
            found = replanned
    kinds = snapshot.number([each.pod for each in found.placeholders])
    for kind, run in runs(kinds, np.argsort(kinds, kind="stable")):
        rows = found.rows[run]
        if len(rows := rows[rows != NOWHERE]):
            place_planned(snapshot, kind, rows)
    return found


def _wanted(
    before: Mapping[str, PreviousPieces],
    policy: SlackPolicy,
    slack_inputs: Mapping[str, SlackInput],
    pod_headroom: Sequence[PodHeadroom],
    now: UnixTime,
) -> tuple[dict[str, Sequence[Shape]], dict[str, RuleSizes], dict[str, PreviousPieces]]:
    wanted: dict[str, Sequence[Shape]] = {}
    cuts: dict[str, RuleSizes] = {}
    held: dict[str, PreviousPieces] = {}
    for rule in policy.rules:
        if not rule.asks:
            continue
        slack_input = slack_inputs.get(rule.name, SlackInput())
        cuts[rule.name] = whole = cut(rule, slack_input)
        now_held = steadied(whole, before.get(rule.name), now=now, shrink_seconds=policy.shrink_delay)
        held[rule.name] = now_held
        wanted[_LARGEST.format(rule.name)] = _shapes(rule, slack_input, whole.largest)
        wanted[rule.name] = _shapes(rule, slack_input, now_held.pieces.sizes())
    for each in pod_headroom:
        shapes = [(like(each.kind), each.labels)] * each.count
        wanted[each.source] = [*wanted.get(each.source, ()), *shapes]  # a source may have several entries
    return wanted, cuts, held


def _shapes(rule: SlackRule, slack_input: SlackInput, sizes: Sequence[Amounts]) -> list[Shape]:
    """A shape for each size. Placeholders of the same size share their constraints, and so one equivalence group."""
    kinds = {
        size: Kind(namespace=NAMESPACE, requests=size, node_selector=rule.node_labels, tolerations=slack_input.tolerations)
        for size in dict.fromkeys(sizes)
    }
    return [(kinds[size], ()) for size in sizes]
