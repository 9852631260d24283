"""What a plan of consolidation still has to do once some of its moves have begun, and others cannot begin any more.

The service plans again and again, and finds mostly the same. Most moves of a plan need new nodes of earlier ones. If such an
earlier move cannot begin any more (its node got a moved pod, which rests), a new plan would have the others bring these new
nodes. So here the first of them that pays does, alone or together with the next. Pure: plan and names in, moves out.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from slackwater.controllers.consolidation.outcome import ConsolidationMove
from slackwater.controllers.consolidation.policy import ConsolidationPolicy
from slackwater.model.ids import NodeName


@dataclass(slots=True)
class _Group:
    """Moves that have to begin together, as one. `at`: its position among the moves that are left; None while it does not
    pay."""

    move: ConsolidationMove
    at: int | None = None


def left_moves(
    moves: Sequence[ConsolidationMove],
    policy: ConsolidationPolicy,
    *,
    begun: Set[NodeName],
    there: Set[NodeName],
    most: int,
) -> tuple[ConsolidationMove, ...]:
    """The moves that are left, in order. `begun`: the nodes whose move has begun; the new nodes of these moves are there.
    `there`: the nodes that may still go. `most`: moves are joined only as long as they have no more nodes that go."""
    left, groups = list[ConsolidationMove](), dict[int, _Group]()
    for at, move in enumerate(moves):
        names = {each.name for each in move.leaving}
        if names <= begun:
            continue
        own = _Group(replace(move, after=()))
        if not names <= there:
            if move.coming:
                groups[at] = _Group(_only_coming(move, policy))
            continue
        needed = [groups[before] for before in move.after if before in groups]
        waiting = list({id(each): each for each in needed if each.at is None}.values())
        for each in waiting:
            own.move = _together(each.move, own.move)
        after = {*own.move.after, *(each.at for each in needed if each.at is not None)}
        own.move = replace(own.move, after=tuple(sorted(after)))
        if not waiting or (len(own.move.leaving) <= most and _pays(own.move, policy)):
            own.at = len(left)
            left.append(own.move)
        groups |= {before: own for before, each in groups.items() if any(each is one for one in waiting)}
        groups[at] = own
    return tuple(left)


def _only_coming(move: ConsolidationMove, policy: ConsolidationPolicy) -> ConsolidationMove:
    """The new nodes of a move that cannot begin."""
    price = sum(each.price for each in move.coming)
    cost = policy.moving_cost(price, 0)
    return replace(move, leaving=(), pods=(), after=(), saved=-price, disruption=0.0, moving_cost=cost, risky=False)


def _together(first: ConsolidationMove, then: ConsolidationMove) -> ConsolidationMove:
    """Two moves as one, of which `then` saves something. A ratio is what is saved for a unit of disruption, on a scale that
    all moves of a plan share."""
    saved, disruption = first.saved + then.saved, first.disruption + then.disruption
    one = then if then.saved > 0 else first
    scale = one.ratio * one.disruption / one.saved if one.saved else 0.0
    return replace(
        then,
        leaving=(*first.leaving, *then.leaving),
        coming=(*first.coming, *then.coming),
        pods=(*first.pods, *then.pods),
        after=(*first.after, *then.after),
        saved=saved,
        disruption=disruption,
        ratio=scale * saved / max(disruption, 1e-9),
        moving_cost=first.moving_cost + then.moving_cost,
        risky=first.risky or then.risky,
    )


def _pays(move: ConsolidationMove, policy: ConsolidationPolicy) -> bool:
    """Does the move save enough? One for another reason than money need not."""
    return move.reason != "Underutilized" or policy.pays(move.saved, move.ratio, move.moving_cost)
