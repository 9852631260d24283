"""Which holds are due at a tick, compared with a look at every hold."""

from math import inf

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slackwater.cluster.cluster_state import opened
from slackwater.cluster.holds import Holds
from slackwater.model.ids import Instant, PodKey, PodUid, Row
from slackwater.model.kubernetes_rules import DEFAULT_VERSION
from slackwater.model.ledger.ledger import NodePolicy
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
    state = opened(NodePolicy(), DEFAULT_VERSION, lambda *_: None)
    state.nodes.put(a_node("n"))
    return state.holds


@given(steps)
def test_a_tick_ends_and_doubts_the_holds_that_are_due_and_no_others(steps: list[tuple[str, str, int, bool]]) -> None:
    holds, now = some_holds(), 0.0
    for what, name, seconds, bind_may_come in steps:
        if what == "put":
            rows = np.array([Row(0)], np.intp)
            deadline = Instant(now + seconds) if seconds else Instant(inf)
            holds.put(PodUid(name), _KEY, rows, amounts("1", "1Gi"), deadline, bind_may_come=bind_may_come)
        elif what == "drop":
            holds.drop(PodUid(name))
        else:
            now += seconds
            due = {uid: hold.bind_may_come for uid, hold in holds if hold.deadline <= now}
            assert holds.expire(Instant(now)) == [uid for uid, may_come in due.items() if not may_come]
            doubted = holds.doubt(Instant(now), Instant(now + 3))
            assert doubted == [(uid, _KEY) for uid, may_come in due.items() if may_come]


def test_an_open_hold_counts_on_a_node_that_joined_after_open_holds_were_summed() -> None:
    state = opened(NodePolicy(), DEFAULT_VERSION, lambda *_: None)
    holds, one = state.holds, amounts("1", "1Gi")
    for name in ("n0", "n1"):
        state.nodes.put(a_node(name))
    holds.put(PodUid("a"), _KEY, np.array([0, 1], np.intp), one, Instant(9.0), counted=Row(0))
    assert holds.open_holds_on(np.array([0, 1], np.intp)) is not None
    state.nodes.put(a_node("n2"))
    holds.put(PodUid("b"), _KEY, np.array([1, 2], np.intp), one, Instant(9.0), counted=Row(1))
    coming = holds.open_holds_on(np.array([0, 1, 2], np.intp))
    assert coming is not None
    assert coming.T.tolist() == [[0] * len(one), list(one), list(one)]
