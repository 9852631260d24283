"""The devices of a node in findings: each one by name, and why the pod's claims cannot have it."""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from slackwater.explain.findings import MOST_OBJECTS, PodQuery
from slackwater.fit.devices.allocator import Allocator
from slackwater.fit.devices.board import AskBoard, DeviceError, Layout, Usage
from slackwater.fit.filter.dynamic_resources import specs_on
from slackwater.model.devices import DeviceId
from slackwater.model.ids import Row
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot

#: A device's line names so many rules.
_MOST_RULES: Final = 3


def devices_of(asked: PodQuery, row: Row) -> tuple[str, ...]:
    """The devices that the row's node can use, each with the reason against it, or "free" if it would suit alone."""
    specs, _ = specs_on(asked.snapshot, asked.numbered, row)
    if not specs:
        return ()
    allocator = Allocator.of(asked.snapshot)
    layout = allocator.devices(asked.snapshot.facts, row, specs)
    usage = allocator.usage(layout)
    found = tuple(islice(_described(asked.snapshot, layout, usage), MOST_OBJECTS))
    return found or ("no device that the node can use",)


def _described(snapshot: ClusterSnapshot, layout: Layout, usage: Usage) -> Iterator[str]:
    for at, each in enumerate(layout.devices):
        yield f"device {each.id}: {_why(snapshot, layout, usage, at)}"


def _why(snapshot: ClusterSnapshot, layout: Layout, usage: Usage, at: int) -> str:
    """Why the device suits no request: the reason for the first request whose selectors accept it."""
    asks = [ask for claim in layout.board.claims for request in claim.requests for ask in request.asks]
    if usage.alone[at] and not any(ask.admin for ask in asks):
        return f"in use{_user(snapshot, layout.ids[at])}"
    pool = layout.board.pools[layout.board.devices[at].pool]
    if pool.state != "usable":
        return f"its pool is {pool.state}"
    accepting = next((ask for ask in asks if ask.selectable[at] is True), None)
    if accepting is not None and not accepting.tolerated[at]:
        return f"a taint is not tolerated by request {accepting.name}{_rules(snapshot, layout.ids[at])}"
    if accepting is not None:
        return _short_of(accepting, usage, at)
    troubles = (ask.selectable[at] for ask in asks)
    trouble = next((each.text for each in troubles if isinstance(each, DeviceError)), None)
    return trouble or f"not selected by request {asks[0].name}" if asks else "free"


def _short_of(ask: AskBoard, usage: Usage, at: int) -> str:
    consumes, taken = ask.consumes[at], dict(usage.consumed[at] or ())
    if consumes is None:
        return f"request {ask.name} asks more capacity than it has"
    short = [name for name, more, amount in consumes if taken.get(name, 0) + more > amount]
    return f"too little {short[0]} left" if short else "free"


def _rules(snapshot: ClusterSnapshot, device: DeviceId) -> str:
    """The DeviceTaintRules that taint the device."""
    found = snapshot.devices.rule_taints.selecting(device)
    return f"; it is tainted by DeviceTaintRule {', '.join(rule.name for rule in found[:_MOST_RULES])}" if found else ""


def _user(snapshot: ClusterSnapshot, device: DeviceId) -> str:
    """The claim that has the device."""
    for claim in snapshot.devices.assumed().claims.values():
        if claim.allocation is not None and any(each.device == device for each in claim.allocation.devices):
            return f" by claim {claim.namespace}/{claim.name.partition(' of ')[0]}"
    return ""
