"""A start-time SLO is met with less room than the smallest that is the same at all times."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.controllers.slack.start_time_slo import (
    ArrivalHistory,
    StartTimeSLO,
    Traffic,
    choose_forecaster,
    kept_ppm,
    room_ahead,
)
from slackwater.model.columns import Int64
from slackwater.model.ids import PPM
from tests.support.arrivals import DAY, TRACES
from tests.support.seeds import a_seed

#: 95 % of the pods within 10 s, where a node takes two minutes.
SLO = StartTimeSLO(share_ppm=950_000, within_seconds=10, lead_seconds=120)
#: Hours of room, against those of the smallest that is the same at all times.
MOST = {"steady": 1.05, "daily": 0.8, "spikes": 0.8}
LEARNT, JUDGED = 6 * DAY, 2 * DAY


def plan_room(arrivals: Sequence[int] | Int64, slo: StartTimeSLO, *, ahead: int) -> Int64:
    """The room in pods for each of the next `ahead` minutes, by the arrivals alone."""
    history = ArrivalHistory.of(Traffic.of(arrivals), slo)
    forecaster = choose_forecaster(history)
    return room_ahead(history, forecaster, forecaster.exceeded, ahead=ahead)


def lived_through(arrivals: Int64) -> Int64:
    """The room of each minute, planned again each hour on all that was seen; a lead ahead, as nodes take that to start."""
    room = np.zeros(len(arrivals), np.int64)
    for start in range(LEARNT, len(arrivals), 60):
        ahead = plan_room(arrivals[: start - SLO.lead], SLO, ahead=60 + SLO.lead)
        room[start : start + 60] = ahead[SLO.lead :][: len(arrivals) - start]
    return room


def smallest_flat(seen: Traffic, slo: StartTimeSLO, *, start: int = 0) -> int:
    """The least room that, kept at all times, meets the SLO on these arrivals."""
    low, high = 0, int(seen.came.sum())
    while low < high:
        middle = (low + high) // 2
        if kept_ppm(seen, np.full(len(seen), middle, np.int64), slo, start=start) >= slo.share_ppm:
            high = middle
        else:
            low = middle + 1
    return low


@pytest.mark.parametrize("trace", MOST)
def test_the_slo_is_met_with_little_room(trace: str) -> None:
    seed = a_seed()
    arrivals = TRACES[trace](np.random.default_rng(seed), (LEARNT + JUDGED) // DAY)
    room = lived_through(arrivals)
    kept = kept_ppm(Traffic.of(arrivals), room, SLO, start=LEARNT) / PPM
    flat = smallest_flat(Traffic.of(arrivals), SLO, start=LEARNT)
    share = int(room[LEARNT:].sum()) / (flat * JUDGED)
    print(f"\n{trace}, seed {seed}: kept {kept:.3%}, room {share:.1%} of the smallest flat one ({flat} pods)")
    assert kept >= SLO.share_ppm / PPM, f"seed {seed}"
    assert share <= MOST[trace], f"seed {seed}"


@settings(deadline=None)
@given(arrivals=st.lists(st.integers(0, 50), max_size=300), share=st.integers(500_000, 999_000))
def test_the_smallest_flat_room_is_the_smallest(arrivals: list[int], share: int) -> None:
    slo = StartTimeSLO(share_ppm=share, within_seconds=0, lead_seconds=180)
    seen = Traffic.of(arrivals)
    flat = smallest_flat(seen, slo)
    assert kept_ppm(seen, np.full(len(seen), flat, np.int64), slo) >= share
    assert flat == 0 or kept_ppm(seen, np.full(len(seen), flat - 1, np.int64), slo) < share


def test_no_room_is_needed_where_a_node_is_soon_enough() -> None:
    slo = StartTimeSLO(share_ppm=950_000, within_seconds=120, lead_seconds=120)
    assert plan_room([5] * 100, slo, ahead=3).tolist() == [0, 0, 0]


def test_without_a_past_nothing_is_kept() -> None:
    assert plan_room([], SLO, ahead=2).tolist() == [0, 0]
