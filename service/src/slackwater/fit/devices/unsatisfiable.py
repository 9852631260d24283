"""Finds boards on which no search can succeed, because too few devices suit some request, whatever the others get.

Most claims that fit nowhere are of this sort, and the exhaustive search would first try every device for the other requests.
Boards on which the search may end in an error are not judged here, since the error has precedence.
"""

from slackwater.fit.devices.board import ALLOCATED_FROM, AskBoard, Board, ClaimBoard, DeviceError, Usage
from slackwater.model.kubernetes_rules import Rule


def is_hopeless(board: Board, usage: Usage) -> bool:
    """Whether the claims certainly cannot be allocated: too few devices suit a single request, or all those requests together
    that need devices for themselves. False also if the search may end in an error."""
    requests = [request for claim in board.claims for request in claim.requests]
    if any(may_fail(claim) for claim in board.claims):
        return False
    wanted, suiting = 0, set[int]()
    for request in requests:
        found = [_suiting(board, usage, ask) for ask in request.asks]
        if not any(_suffices(board, ask, devices) for ask, devices in zip(request.asks, found, strict=True)):
            return True
        ask, devices = request.asks[0], found[0]
        alone = not request.alternatives and ask.wanted is not None and not ask.admin
        if alone and not any(board.devices[at].shareable for at in devices):
            wanted += ask.wanted or 0
            suiting.update(devices)
    return wanted > len(suiting)


def may_fail(claim: ClaimBoard) -> bool:
    """Whether kube-scheduler may end with an error on the claim: a selector fails, or a request for all devices violates a
    constraint."""
    asks = [ask for request in claim.requests for ask in request.asks]
    if claim.constraints and any(ask.wanted is None for ask in asks):
        return True
    return any(isinstance(each, DeviceError) for ask in asks for each in ask.selectable)


def _suiting(board: Board, usage: Usage, ask: AskBoard) -> list[int]:
    """The positions of devices that the ask could get if nothing else were asked for."""
    return [
        at
        for at, device in enumerate(board.devices)
        if ask.selectable[at] is True
        and ask.tolerated[at]
        and ask.consumes[at] is not None
        and board.pools[device.pool].state in ALLOCATED_FROM
        and (ask.admin or not usage.alone[at])
    ]


def _suffices(board: Board, ask: AskBoard, devices: list[int]) -> bool:
    """Whether these devices may be enough. For an ask for all devices one is enough here: only the search knows how many there
    are. So it is where a request may get a shared device several times."""
    again = Rule.SHARED_ONCE not in board.rules and any(board.devices[at].shareable for at in devices)
    return len(devices) >= (1 if ask.wanted is None or again else ask.wanted)
