"""What a loop of the autoscaler decided and did not do, for people: `withheld` of a `LoopRecord` and of its parts, as texts."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Literal

from slackwater.cluster.nodegroups.status import GroupCleanup, Grow, LowerTarget
from slackwater.controllers.consolidation.outcome import ConsolidationMove
from slackwater.model.effects import DrainOrder
from slackwater.model.texts import first_few
from slackwater.runtime.autoscaler.loop_record import LoopRecord, NeededBy

#: Nodes or instances named in one text.
_MOST_NAMED = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Withheld:
    """One decision that was not carried out. Two loops that made the same decision have the same `key`. `related`: objects that
    it concerns, such as "nodes node-1"."""

    key: Hashable
    kind: Literal["grow", "remove node"]
    about: Literal["groups", "nodes"]
    name: str
    text: str
    related: tuple[str, ...] = ()


def withheld_by(record: LoopRecord) -> Iterator[Withheld]:
    """What the loop decided and did not do, in the order in which it would have been done."""
    for call in record.withheld:
        yield _growth(call, record) if isinstance(call, Grow) else _cleanup(call)
    for order in () if record.scale_down is None else record.scale_down.withheld:
        yield _removal(order)
    for move in () if record.consolidation is None else record.consolidation.withheld:
        yield _replacement(move)


def _growth(call: Grow, record: LoopRecord) -> Withheld:
    needed = record.needed_by.get(call.group)
    text = f"would grow from {call.seen} to {call.to} nodes{needed_by_text(needed)}"
    key = ("grow", call.group, call.to)
    return Withheld(key=key, kind="grow", about="groups", name=call.group, text=text, related=pods_of(needed))


def _cleanup(call: GroupCleanup) -> Withheld:
    if isinstance(call, LowerTarget):
        text = f"would lower its target from {call.seen} to {call.to}, since the nodes never came"
        return Withheld(key=call, kind="grow", about="groups", name=call.group, text=text)
    lost = tuple(each.instance.id for each in call.lost)
    text = f"would delete lost machines: {first_few(lost, _MOST_NAMED)}"
    return Withheld(key=("delete", lost), kind="grow", about="groups", name=call.group, text=text)


def _removal(order: DrainOrder) -> Withheld:
    pods = tuple(f"pods {pod}" for pod, _ in order.destinations)
    text = "would be removed: empty" if order.empty else f"would be removed, and {len(pods)} pods would move"
    return Withheld(key=("remove", order.node), kind="remove node", about="nodes", name=order.node, text=text, related=pods)


def _replacement(move: ConsolidationMove) -> Withheld:
    names = tuple(each.name for each in move.leaving)
    new = ", ".join(f"{count} of {group}" for group, count in move.new_nodes.items()) or "room on other nodes"
    others = f" together with {first_few(names[1:], _MOST_NAMED)}" if names[1:] else ""
    text = f"would be replaced{others} by {new}"
    related = tuple(f"nodes {node}" for node in names[1:])
    return Withheld(key=("replace", names), kind="remove node", about="nodes", name=names[0], text=text, related=related)


def needed_by_text(needed_by: NeededBy | None) -> str:
    """The part of a sentence that says what a scale-up is for; empty if that is unknown (None)."""
    if needed_by is None:
        return ""
    if not needed_by.n_pods:
        return ", for its minimum size"
    if needed_by.for_placeholders:
        return f", to keep room for pods to come: {needed_by.n_pods} placeholders"
    pods = [str(key) for key in needed_by.first]
    return f", for {first_few(pods, len(pods), total=needed_by.n_pods)}"


def pods_of(needed_by: NeededBy | None) -> tuple[str, ...]:
    return () if needed_by is None else tuple(f"pods {key}" for key in needed_by.first)
