"""Which holds are due at a tick, compared with a look at every hold."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.cluster.cluster_state import ClusterState
from slackwater.cluster.holds import Hold, HoldKey, Holds
from slackwater.model.ids import Instant, PodKey, PodUid, Row
from slackwater.model.kubernetes_rules import DEFAULT_VERSION
from tests.support import installed
from tests.support.builders import a_node, amounts

_KEY = PodKey("default", "p")
steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("abcd"), st.integers(0, 9), st.booleans()),
        st.tuples(st.just("drop"), st.sampled_from("abcd"), st.just(0), st.just(False)),
        st.tuples(st.just("tick"), st.sampled_from(("keeps", "ends")), st.integers(1, 9), st.just(False)),
    ),
    max_size=30,
)


def some_holds() -> Holds:
    state = ClusterState(installed.NODES, DEFAULT_VERSION, lambda *_: None)
    state.nodes.put(a_node("n"))
    return state.holds


@given(steps)
def test_a_tick_ends_and_doubts_the_holds_that_are_due_and_no_others(steps: list[tuple[str, str, int, bool]]) -> None:
    holds, now = some_holds(), 0.0
    for what, name, seconds, bind_may_come in steps:
        if what == "put":
            deadline = Instant(now + seconds) if seconds else Instant(inf)
            hold = Hold(key=_KEY, row=Row(0), amounts=amounts("1", "1Gi"), deadline=deadline, bind_may_come=bind_may_come)
            holds.put(HoldKey(PodUid(name)), hold)
        elif what == "drop":
            holds.drop(HoldKey(PodUid(name)))
        else:
            now += seconds
            due = {key: hold.bind_may_come for key, hold in holds if hold.deadline <= now}
            assert holds.expire(Instant(now)) == [key for key, may_come in due.items() if not may_come]
            doubted = holds.doubt(Instant(now), Instant(now + 3))
            assert doubted == [(key.uid, _KEY) for key, may_come in due.items() if may_come]


def a_hold(row: int, *, bind_may_come: bool = True) -> Hold:
    return Hold(key=_KEY, row=Row(row), amounts=amounts("1", "1Gi"), deadline=Instant(660.0), bind_may_come=bind_may_come)


@pytest.mark.parametrize(("until", "left"), [(Instant(75.0), [(0, 75.0), (1, 660.0)]), (None, [(1, 660.0)])])
def test_a_former_try_keeps_its_room_only_where_a_late_bind_matters(
    until: Instant | None, left: list[tuple[int, float]]
) -> None:
    state = ClusterState(installed.NODES, DEFAULT_VERSION, lambda *_: None)
    holds, uid = state.holds, PodUid("a")
    for name in ("n0", "n1"):
        state.nodes.put(a_node(name))
    holds.put(HoldKey(uid), a_hold(0))
    before = holds.suspend(uid)
    assert not state.ledger.columns.held.any()
    holds.put(HoldKey(uid), a_hold(1))
    holds.retry(uid, before, until)
    assert [(hold.row, hold.deadline) for hold in holds.all_of(uid)] == left
    assert holds.rows_of(uid) == {row for row, _ in left}
    holds.drop_all(uid)
    assert (len(holds), int(state.ledger.columns.held.sum())) == (0, 0)


def test_a_hold_of_a_node_that_goes_ends_without_a_trace() -> None:
    holds = some_holds()
    holds.put(HoldKey(PodUid("a")), a_hold(0))
    holds.put(HoldKey(PodUid("b"), "drain"), a_hold(0, bind_may_come=False))
    holds.node_closing(Row(0))
    assert (len(holds), holds.all_of(PodUid("a"))) == (0, [])
