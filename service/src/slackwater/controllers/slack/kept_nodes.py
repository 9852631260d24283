"""Kept nodes: how many nodes of a group slack was found to need, so that scale-down does not remove what slack buys again.

Whether placeholders fit after a removal depends on where a scheduler puts the evicted pods, which nobody knows before. So slack
remembers what purchases have shown: with one node less, it did not fit. Where rules ask for room, purchases for pods count too:
pods within the amount of slack may fit into none of its pieces. While pods request as much as they did then, the
group keeps that many nodes. If they request less, by at most the amount of slack, the load may be a wave that slack has to
damp: then the group keeps its nodes for `keep_seconds` more. A larger fall, or fewer placeholders wanted, ends it at once.

In: the load and what is bought for placeholders, loop by loop. Out: `KeptNodes` of each group, which `SlackState` holds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from slackwater.controllers.slack.policy import SlackRule
from slackwater.model.ids import UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.resources import Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackLoad:
    """What decides how many nodes slack needs. `used`: what all pods request. `asked`: the room that the rules ask for.
    `rules`: those that ask for room now. `headroom`: the number of placeholders that are like a pod."""

    used: Amounts
    asked: Amounts
    rules: tuple[SlackRule, ...] = ()
    headroom: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptNodes:
    """The working and upcoming nodes that a group had after its last purchase (`nodes`), the load at that purchase, and the
    largest amounts of what had no room (`piece`). `since`: the time of the purchase. `at`: when pods last requested as much.
    `empty_too`: nodes without pods and placeholders are kept as well: less is requested now, or the purchase is recent.
    """

    nodes: int
    load: SlackLoad
    piece: Amounts
    since: UnixTime
    at: UnixTime
    empty_too: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackPurchase:
    """A purchase. `nodes`: how many nodes the group has with it. `piece`: the largest amounts of what it is for."""

    nodes: int
    piece: Amounts


def kept_nodes(
    before: Mapping[GroupName, KeptNodes],
    load: SlackLoad,
    purchases: Mapping[GroupName, SlackPurchase],
    *,
    now: UnixTime,
    keep_seconds: float,
) -> dict[GroupName, KeptNodes]:
    """The nodes that each group keeps for slack, after the present plan. None are kept if `keep_seconds` is 0."""
    if not keep_seconds:
        return {}
    still = {name: kept for name, old in before.items() if (kept := _still(old, load, now, keep_seconds)) is not None}
    new = {
        name: KeptNodes(nodes=bought.nodes, load=load, piece=bought.piece, since=now, at=now)
        for name, bought in purchases.items()
        if name not in still or bought.nodes >= still[name].nodes
    }
    return {**still, **new}


def _still(kept: KeptNodes, load: SlackLoad, now: UnixTime, keep_seconds: float) -> KeptNodes | None:
    """The entry as it holds now; None if it no longer does."""
    then = kept.load
    if load.rules != then.rules or load.headroom < then.headroom:
        return None
    if then.used.minus(kept.piece).within(load.used):
        return replace(kept, at=now, empty_too=now - kept.since < keep_seconds)
    damped = then.used.minus(then.asked).within(load.used) and now - kept.at < keep_seconds
    return replace(kept, empty_too=True) if damped else None
