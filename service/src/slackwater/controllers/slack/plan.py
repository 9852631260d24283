"""Plans slack. In: the rules, the placeholders that users request, and the previous state. Out: placeholders with their nodes.

    with snapshot.fork():                        # real pods are on their nodes, or where scale-up saw them fit
        found = plan_slack(snapshot, state, demand, now=now)
        ...                                     # placeholders without a node are demand for new nodes, after all real pods

1. Finds how much room each rule asks for, in which pieces (`rate_sizing`, `state`), and how many placeholders are like a pod.
2. Makes the placeholders. As many as possible are those of the previous loop (`assigned`).
3. Places the placeholders, each on its former node if it still fits there (`settled`).

The placeholders stay in the snapshot.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np

from slackwater.controllers.slack.planning_input import PodHeadroom, SlackInput, like
from slackwater.controllers.slack.policy import SlackPolicy, SlackRule
from slackwater.controllers.slack.rate_sizing import RuleSizes, cut
from slackwater.controllers.slack.state import Placeholder, PreviousPieces, SlackState, steadied
from slackwater.fit.binpacking import NOWHERE, Hints, place_pods
from slackwater.model.columns import Rows
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.objects import Labels
from slackwater.model.placeholders import NAMESPACE, a_placeholder
from slackwater.model.pod_constraints import Kind
from slackwater.model.resources import Amounts
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.node_facts import CPU, MEMORY


@dataclass(frozen=True, slots=True)
class PlaceholderShape:
    """What one placeholder requests: the constraints and the labels of its pod."""

    kind: Kind
    labels: Labels = ()


def assigned(wanted: Mapping[str, Sequence[PlaceholderShape]], before: Iterable[Placeholder]) -> list[Placeholder]:
    """Makes the placeholders that each source wants, sorted by number. Reuses the previous loop's placeholders (`before`) of
    the same source, with their numbers and nodes."""
    known: dict[str, list[Placeholder]] = {source: [] for source in wanted}
    for placeholder in before:
        if placeholder.source in known:
            known[placeholder.source].append(placeholder)
    kept = {source: _kept(some, len(wanted[source])) for source, some in known.items()}
    free = _free({each.number for some in kept.values() for each in some})
    found: list[Placeholder] = []
    for source, shapes in wanted.items():
        old = kept[source]
        found += [_with_shape(each, shape) for each, shape in zip(old, shapes, strict=False)]
        for shape in shapes[len(old) :]:
            number = next(free)
            found.append(Placeholder(number=number, source=source, pod=a_placeholder(number, shape.kind, shape.labels)))
    return sorted(found, key=lambda each: each.number)


def _kept(some: list[Placeholder], most: int) -> list[Placeholder]:
    if len(some) > most:
        some = sorted(some, key=lambda each: (each.place is None, each.number))[:most]
    return sorted(some, key=lambda each: each.number)


def _with_shape(known: Placeholder, shape: PlaceholderShape) -> Placeholder:
    pod = known.pod
    if pod.labels == shape.labels and (pod.kind is shape.kind or pod.kind == shape.kind):
        return known
    return replace(known, pod=a_placeholder(known.number, shape.kind, shape.labels))


def _free(taken: set[int]) -> Iterator[int]:
    return (number for number in count() if number not in taken)


_NO_NODE = NodeName("")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedPlaceholders:
    """Placeholders after placing. `rows`: the row of each, NOWHERE if it fits on no node. `pushed`: the numbers of placeholders
    that are no longer on their former node. `homeless`: the placeholders without a node.
    """

    placeholders: tuple[Placeholder, ...]
    rows: Rows
    pushed: tuple[int, ...] = ()

    @property
    def homeless(self) -> tuple[Placeholder, ...]:
        return tuple(each for each in self.placeholders if each.place is None)


def settled(snapshot: ClusterSnapshot, placeholders: Sequence[Placeholder]) -> PlacedPlaceholders:
    """Places placeholders in the snapshot. Each stays on its former node if it still fits there, unless another one then fits
    on no node: such a one is placed first, and those in its way move.

    Raises `UnreadLabel` if placeholders have constraints on labels that the snapshot was built without."""
    n_pods = len(placeholders)
    if not n_pods or not snapshot.n_rows:
        lost = tuple(each.number for each in placeholders if each.place is not None)
        homeless = tuple(replace(each, place=None) for each in placeholders)
        return PlacedPlaceholders(placeholders=homeless, rows=np.full(n_pods, NOWHERE, np.intp), pushed=lost)
    row_of = snapshot.facts.row_of
    before = np.fromiter((row_of.get(each.place or _NO_NODE, NOWHERE) for each in placeholders), np.intp, n_pods)
    kinds = snapshot.number([each.pod for each in placeholders])
    order = np.argsort(kinds, kind="stable").astype(np.intp)
    rows = _Placing(snapshot, kinds, before, _fullest_first(snapshot)).place(order)
    found = tuple(_at(snapshot, each, row) for each, row in zip(placeholders, rows.tolist(), strict=True))
    pushed = tuple(
        old.number for old, new in zip(placeholders, found, strict=True) if old.place is not None and old.place != new.place
    )
    return PlacedPlaceholders(placeholders=found, rows=rows, pushed=pushed)


@dataclass(frozen=True, slots=True)
class _Placing:
    """Places placeholders. `kinds` and `before`: the equivalence group and the former row of each. `among`: the rows to try."""

    snapshot: ClusterSnapshot
    kinds: Rows
    before: Rows
    among: Rows

    def place(self, order: Rows) -> Rows:
        """Places the placeholders in this order. If some then have no node, begins again with these if that helps more of them.
        Returns the row of each."""
        with self.snapshot.fork() as trial:
            rows = self._placed(order, self.before)
            homeless = rows == NOWHERE
            if not homeless.any() or homeless.all():
                trial.commit()
                return rows
        with self.snapshot.fork() as trial:
            other = self._placed(order[homeless[order]], np.full_like(self.before, NOWHERE))
            rest = order[~homeless[order]]
            other[rest] = self._placed(rest, self.before)[rest]
            if (other == NOWHERE).sum() < homeless.sum():
                trial.commit()
                return other
        return self._placed(order, self.before)

    def _placed(self, order: Rows, hints: Rows) -> Rows:
        rows: Rows = np.full(len(self.kinds), NOWHERE, np.intp)
        own = Hints(pods=hints[order])
        rows[order] = place_pods(self.snapshot, self.kinds[order], rows=self.among, hints=own, reasons=False).rows
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
class SlackDemand:
    """What slack has to provide now. `policy`: the rules. `slack_inputs`: the input of each rule, by the rule's name.
    `pod_headroom`: the placeholders that are like a pod."""

    policy: SlackPolicy
    slack_inputs: Mapping[str, SlackInput] = field(default_factory=dict)
    pod_headroom: tuple[PodHeadroom, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackFound:
    """The result of a slack plan. `state`: for the next loop. `settled`: the placeholders after placing. `cuts`: the sizes of
    each rule, by the rule's name. `capped`: the namespace of each source that is an annotation."""

    state: SlackState
    settled: PlacedPlaceholders
    cuts: Mapping[str, RuleSizes]
    capped: Mapping[str, str] = field(default_factory=dict)


def plan_slack(snapshot: ClusterSnapshot, before: SlackState, demand: SlackDemand, *, now: UnixTime) -> SlackFound:
    """Plans slack: which placeholders there are, and on which node each is placed. `before`: the state of the previous loop.

    Pieces of a former size or number (`steadied`) hold more than was asked for. So that the excess buys no node, they stay only
    while all of them have room, and while no other placeholder would find room beside the pieces that `cut` returns.

    Raises `UnreadLabel` if `pod_headroom` has constraints on labels that the snapshot was built without."""
    with snapshot.fork() as trial:
        found = _planned(snapshot, before, demand, now)
        former = {name for name, whole in found.cuts.items() if found.state.held[name].pieces != whole.pieces}
        homeless = found.settled.homeless
        if not (former and homeless):
            trial.commit()
            return found
    with snapshot.fork() as trial:
        kept = {name: pieces for name, pieces in before.held.items() if name not in former}
        anew = _planned(snapshot, replace(before, held=kept), demand, now)
        if len(anew.settled.homeless) < len(homeless) or any(each.source in former for each in homeless):
            trial.commit()
            return anew
    return _planned(snapshot, before, demand, now)


def _planned(snapshot: ClusterSnapshot, before: SlackState, demand: SlackDemand, now: UnixTime) -> SlackFound:
    wanted, cuts, held = _wanted(before, demand, now)
    found = settled(snapshot, assigned(wanted, before.placeholders))
    capped = {each.source: each.kind.namespace for each in demand.pod_headroom if each.capped}
    return SlackFound(state=SlackState(placeholders=found.placeholders, held=held), settled=found, cuts=cuts, capped=capped)


def _wanted(
    before: SlackState, demand: SlackDemand, now: UnixTime
) -> tuple[dict[str, Sequence[PlaceholderShape]], dict[str, RuleSizes], dict[str, PreviousPieces]]:
    wanted: dict[str, Sequence[PlaceholderShape]] = {}
    cuts: dict[str, RuleSizes] = {}
    held: dict[str, PreviousPieces] = {}
    for rule in demand.policy.rules:
        if not rule.asks:
            continue
        slack_input = demand.slack_inputs.get(rule.name, SlackInput())
        cuts[rule.name] = whole = cut(rule, slack_input)
        scale_down = demand.policy.shrink_delay
        held[rule.name] = now_held = steadied(whole, before.held.get(rule.name), now=now, shrink_seconds=scale_down)
        wanted[_LARGEST.format(rule.name)] = _shapes(rule, slack_input, whole.largest)
        wanted[rule.name] = _shapes(rule, slack_input, now_held.pieces.sizes())
    for pod_headroom in demand.pod_headroom:
        shapes = [PlaceholderShape(like(pod_headroom.kind), pod_headroom.labels)] * pod_headroom.count
        wanted[pod_headroom.source] = [*wanted.get(pod_headroom.source, ()), *shapes]  # a source may have several entries
    return wanted, cuts, held


def _shapes(rule: SlackRule, slack_input: SlackInput, sizes: Sequence[Amounts]) -> list[PlaceholderShape]:
    """A shape for each size. Placeholders of the same size share one shape, and so one equivalence group."""
    shapes = {
        size: PlaceholderShape(
            Kind(namespace=NAMESPACE, requests=size, node_selector=rule.node_labels, tolerations=slack_input.tolerations)
        )
        for size in dict.fromkeys(sizes)
    }
    return [shapes[size] for size in sizes]
