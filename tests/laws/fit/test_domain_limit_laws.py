"""Copies that limit one another: looking at values gives what looking at candidates gives."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slackwater.fit.domain_limits import DomainLimit, _step_by_step, _value_by_value
from slackwater.snapshot.node_facts import ABSENT

N_VALUES = 4


@st.composite
def limits(draw: st.DrawFn) -> tuple[list[int], DomainLimit]:
    """Candidates with how many copies each takes otherwise; every candidate's value is counted, as callers promise."""
    counts = draw(st.lists(st.integers(ABSENT, 5), min_size=N_VALUES, max_size=N_VALUES))
    counted = [value for value, count in enumerate(counts) if count != ABSENT]
    ids = draw(st.lists(st.sampled_from([ABSENT, *counted]), min_size=0, max_size=12))
    copies = draw(st.lists(st.integers(0, 6), min_size=len(ids), max_size=len(ids)))
    room, adds, moving = draw(st.integers(0, 3)), draw(st.integers(0, 1)), draw(st.booleans())
    limit = DomainLimit(np.array(ids, np.int32), np.array(counts, np.int64), room=room, adds=adds, moving=moving)
    return copies, limit


def copied(limit: DomainLimit) -> DomainLimit:
    return DomainLimit(limit.ids, limit.counts.copy(), room=limit.room, adds=limit.adds, moving=limit.moving)


@given(limits(), st.integers(0, 60))
def test_value_by_value_equals_step_by_step(given_: tuple[list[int], DomainLimit], wanted: int) -> None:
    copies, limit = np.array(given_[0], np.int64), given_[1]
    want, _ = _step_by_step(copies, [copied(limit)], wanted, lambda: False)
    got, cut = _value_by_value(copies, copied(limit), wanted, lambda: False)
    assert got.tolist() == want.tolist()
    assert not cut


def test_it_ends_at_the_given_stop() -> None:
    limit = DomainLimit(np.array([0, 1] * 500, np.int32), np.zeros(2, np.int64), room=0, adds=1, moving=True)
    placed, cut = _value_by_value(np.ones(1000, np.int64), limit, 1000, lambda: True)
    assert cut
    assert 0 < len(placed) < 1000
