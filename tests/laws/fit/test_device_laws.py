"""The search for devices against every way to hand them out: it finds an allocation if there is one, and only valid ones."""

from collections.abc import Iterator
from itertools import combinations, product

from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.fit.devices.board import (
    AskBoard,
    Board,
    ClaimBoard,
    ConstraintBoard,
    DeviceBoard,
    PoolBoard,
    RequestBoard,
    Usage,
)
from slackwater.fit.devices.search import Failure, PickedDevice, Unallocatable, search

#: The devices of each request, in the order of the requests.
Handout = tuple[tuple[int, ...], ...]


@st.composite
def boards(draw: st.DrawFn) -> tuple[Board, Usage]:
    """Up to five devices of one pool with a counter, and one claim of up to three requests with constraints."""
    n = draw(st.integers(1, 5))
    flags = st.lists(st.booleans(), min_size=n, max_size=n).map(tuple)
    requests = tuple(
        RequestBoard(
            name=f"r{at}",
            alternatives=False,
            asks=(
                AskBoard(
                    name=f"r{at}",
                    wanted=draw(st.integers(1, 2)),
                    admin=False,
                    selectable=draw(flags),
                    tolerated=draw(flags),
                    consumes=((),) * n,
                ),
            ),
        )
        for at in range(draw(st.integers(1, 3)))
    )
    values = st.lists(st.integers(-1, 2), min_size=n, max_size=n).map(tuple)
    names = st.sampled_from((frozenset[str](), frozenset({"r0"}), frozenset({"r0", "r1"})))
    same = ConstraintBoard(distinct=False, requests=draw(names), values=draw(values))
    devices = tuple(DeviceBoard(0, False, ((0, draw(st.integers(0, 2))),)) for _ in range(n))
    left = draw(st.integers(0, 4))
    board = Board(
        claims=(ClaimBoard(requests, (same,) if draw(st.booleans()) else ()),),
        devices=devices,
        pools=(PoolBoard("usable", (left,), 0),),
    )
    return board, Usage(alone=draw(flags), consumed=(None,) * n, counters=((left,),))


def handouts(board: Board) -> Iterator[Handout]:
    """Every way to give each request as many devices as it wants, none to two of them."""
    each = [combinations(range(len(board.devices)), request.asks[0].wanted or 0) for request in board.claims[0].requests]
    for found in product(*each):
        chosen = [device for devices in found for device in devices]
        if len(set(chosen)) == len(chosen):
            yield found


def is_valid(board: Board, usage: Usage, handout: Handout) -> bool:
    """Whether every rule allows it."""
    (claim,) = board.claims
    chosen = [(request, device) for request, devices in zip(claim.requests, handout, strict=True) for device in devices]
    allowed = all(
        not usage.alone[device] and request.asks[0].selectable[device] is True and request.asks[0].tolerated[device]
        for request, device in chosen
    )
    drawn = sum(amount for _, device in chosen for _, amount in board.devices[device].consumes)
    for constraint in claim.constraints:
        concerned = [device for request, device in chosen if not constraint.requests or request.name in constraint.requests]
        seen = {constraint.values[device] for device in concerned}
        allowed = allowed and len(seen) <= 1 and -1 not in seen
    return allowed and drawn <= usage.counters[0][0]


def as_handout(board: Board, picks: tuple[PickedDevice, ...]) -> Handout:
    requests = range(len(board.claims[0].requests))
    return tuple(tuple(pick.device for pick in picks if pick.request == at) for at in requests)


@settings(max_examples=300, deadline=None)
@given(drawn=boards())
def test_the_search_finds_an_allocation_if_and_only_if_there_is_one(drawn: tuple[Board, Usage]) -> None:
    board, usage = drawn
    possible = [handout for handout in handouts(board) if is_valid(board, usage, handout)]
    found = search(board, usage)
    if isinstance(found, Unallocatable):
        assert found.failure is Failure.NONE_FITS
        assert possible == []
    else:
        # The first of all, since it tries devices in their order.
        assert as_handout(board, found) == possible[0]
