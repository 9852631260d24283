"""Sizing by rate: how much room a rule asks for, and as how many placeholders ("pieces") of which size. ADR 70 has the
arithmetic, and where it differs from the proposal.

- `asked = max(rate * capacity, least)` of each resource, exact.
- A piece is at most the average node divided by the granularity, of each resource; in v2 also at most the largest pod, but
  never less than a 110th of an average node. It fits an empty node of at least one shape.
- n is the smallest number of equal pieces that are no larger.

v1: n pieces hold `asked`. v2: first comes one placeholder as large as any pod (the most CPU and the most memory that any pod
requests; if no node has both, one like the pod with the most CPU, and one like the pod with the most memory); pieces hold the
rest of `asked`. All amounts are whole numbers: if a division leaves a rest, the first pieces have one unit more each, so that
the sum is exactly what was asked for. A kubelet takes 110 pods, so smaller pieces could not fill a node. Deliberately absent:
what was kept in the previous loop (`state`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from math import ceil
from typing import Final

from slackwater.controllers.slack.planning_input import SlackInput
from slackwater.controllers.slack.policy import SlackRule
from slackwater.model.ids import PPM
from slackwater.model.resources import NOTHING, Amounts, amounts_of, sum_of

_Pair = tuple[Fraction, Fraction]
#: The number of pods that a kubelet takes by default.
_PODS: Final = 110
#: The most placeholders of one rule; if more are needed, so many are planned for, and `short` reports it.
MOST_PIECES: Final = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """`count` placeholders of the size `size` that hold `total` together; a piece may be one unit larger than `size`."""

    size: Amounts = NOTHING
    count: int = 0
    total: Amounts = NOTHING

    def sizes(self) -> list[Amounts]:
        """The size of each piece; the first ones have one unit more, so that the sum is at least `total`."""
        rests = [max(want - self.count * have, 0) for want, have in zip(self.total, self.size, strict=True)]
        bounds = sorted({0, self.count, *(min(rest, self.count) for rest in rests)})
        found: list[Amounts] = []
        for start, end in pairwise(bounds):
            more = [have + (start < rest) for have, rest in zip(self.size, rests, strict=True)]
            found += [amounts_of(more)] * (end - start)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSizes:
    """The sizes of one rule's placeholders. `asked`: the room that the rule asks for in all. `largest`: the placeholders that
    are as large as any pod. `pieces`: the placeholders for the rest of `asked`.

    `bounds`: the largest size of a piece for each shape of node; a piece must be within one of them. `former_bounds`: the same
    for a former size, which may exceed the average node's share by a quarter. `short`: more than `MOST_PIECES` pieces are
    needed, so `pieces` hold less than was asked for.
    """

    asked: Amounts = NOTHING
    largest: tuple[Amounts, ...] = ()
    pieces: Pieces = Pieces()
    bounds: tuple[Amounts, ...] = ()
    former_bounds: tuple[Amounts, ...] = ()
    short: bool = False


def cut(rule: SlackRule, slack_input: SlackInput) -> RuleSizes:
    """Computes how many placeholders a rule asks for, and of which sizes. There are none if the rule asks for no room, or if no
    node could take any."""
    asked = _asked(rule, slack_input)
    rooms = [room for room in slack_input.rooms if room != NOTHING]
    if not any(asked) or not rooms:
        return RuleSizes(asked=_whole(asked))
    pods = [pod for pod in slack_input.pods if any(pod.within(room) for room in rooms)]
    largest = _largest(pods, rooms) if rule.sizing == "v2" else ()
    taken = [sum(each[resource] for each in largest) for resource in range(2)]
    left = tuple(max(want - have, Fraction(0)) for want, have in zip(asked, taken, strict=True))
    bounds = _bounds(rule, slack_input, rooms, pods)
    needed = pieces = _pieces((left[0], left[1]), bounds)
    if needed.count > MOST_PIECES:
        total = amounts_of([each * MOST_PIECES for each in needed.size])
        pieces = Pieces(size=needed.size, count=MOST_PIECES, total=total)
    return RuleSizes(
        asked=_whole(asked),
        largest=largest,
        pieces=pieces,
        short=needed.count > MOST_PIECES,
        bounds=_distinct(bounds),
        former_bounds=_distinct(_bounds(rule, slack_input, rooms, pods, tolerated=Fraction(5, 4))),
    )


def _asked(rule: SlackRule, slack_input: SlackInput) -> _Pair:
    rate = Fraction(rule.min_rate, PPM)
    cpu, memory = (max(rate * has, Fraction(least)) for has, least in zip(slack_input.capacity, rule.min, strict=True))
    return cpu, memory


def _largest(pods: Sequence[Amounts], rooms: Sequence[Amounts]) -> tuple[Amounts, ...]:
    """The sizes of one or two placeholders that keep room for any one of the pods. Each of the pods must fit on a node of
    `rooms`."""
    if not pods:
        return ()
    any_pod = _most(pods)
    if any(any_pod.within(room) for room in rooms):
        return (any_pod,) if any_pod != NOTHING else ()
    by_cpu = max(pods, key=lambda pod: (pod.cpu, pod.memory))
    by_memory = max(pods, key=lambda pod: (pod.memory, pod.cpu))
    return (by_cpu, by_memory)


def _distinct(bounds: Iterable[_Pair]) -> tuple[Amounts, ...]:
    return tuple(dict.fromkeys(map(_whole, bounds)))


def _bounds(
    rule: SlackRule,
    slack_input: SlackInput,
    rooms: Sequence[Amounts],
    pods: Sequence[Amounts],
    *,
    tolerated: Fraction = Fraction(1),
) -> list[_Pair]:
    """The largest size of a piece (CPU, memory) for each shape of node; `rooms` has what an empty node of each shape can take.
    If the rule has no nodes, the mean of `rooms` takes the place of the average node. `tolerated` multiplies its share."""
    n_nodes, capacity = slack_input.n_nodes, slack_input.capacity
    if not n_nodes:
        n_nodes, capacity = len(rooms), sum_of(rooms)
    piece = [tolerated * Fraction(has, n_nodes * rule.granularity) for has in capacity]
    if rule.sizing == "v2" and pods:
        # A resource that no pod requests does not bound pieces by pods: the user asked for room in it all the same.
        least = [Fraction(has, n_nodes * max(_PODS, rule.granularity)) for has in capacity]
        most = [Fraction(each) if each else piece[at] for at, each in enumerate(_most(pods))]
        piece = [min(each, max(most[at], least[at])) for at, each in enumerate(piece)]
    return [(min(piece[0], Fraction(room.cpu)), min(piece[1], Fraction(room.memory))) for room in rooms]


def _pieces(left: _Pair, bounds: Sequence[_Pair]) -> Pieces:
    """Divides the room `left` into the fewest equal pieces such that each is within at least one of the bounds. Returns no
    pieces if every bound lacks a resource that `left` has."""
    counts = [_count(left, bound) for bound in bounds]
    count = min((count for count in counts if count is not None), default=0)
    total = _whole(left)
    if not count:
        return Pieces()
    return Pieces(size=amounts_of([each // count for each in total]), count=count, total=total)


def _count(left: _Pair, bound: _Pair) -> int | None:
    count = 0
    for want, most in zip(left, bound, strict=True):
        if want and not most:
            return None
        count = max(count, ceil(want / most) if want else 0)
    return count


def _most(pods: Sequence[Amounts]) -> Amounts:
    return reduce(Amounts.at_least, pods)


def _whole(pair: _Pair) -> Amounts:
    return amounts_of([ceil(each) for each in pair])
