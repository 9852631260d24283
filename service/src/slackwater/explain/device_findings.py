"""Lists the devices of a node for findings: each by name, with the reason why it does not suit the pod's claims."""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from slackwater.explain.findings import MOST_OBJECTS, PodQuery
from slackwater.fit.devices.allocator import Allocator
from slackwater.fit.devices.board import AskBoard, DeviceError, Layout, Usage
from slackwater.fit.plugins.dynamic_resources import specs_on
from slackwater.model.devices import DeviceId
from slackwater.model.ids import Row
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot

#: A device's line names so many rules.
_MOST_RULES: Final = 3


def devices_of(asked: PodQuery, row: Row) -> tuple[str, ...]:
    """The devices that the row's node can use, as texts: each with the reason why it does not suit, or "free" if it suits a
    request by itself."""
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
    """Why no request can use the device: it is in use, its pool is unusable, or the reason of the first request whose selectors
    accept it. "free" if there is no reason."""
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
    """The claim to which the device is allocated, as the text " by claim ..."; empty if there is none."""
    for claim in snapshot.devices.assumed().claims.values():
        if claim.allocation is not None and any(each.device == device for each in claim.allocation.devices):
            return f" by claim {claim.namespace}/{claim.name.partition(' of ')[0]}"
    return ""
