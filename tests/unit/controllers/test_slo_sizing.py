"""A class's arrivals become placeholders like its pods; and the correction by how the SLO was met."""

from dataclasses import replace

import numpy as np
import pytest

from slackwater.controllers.slack.headroom_demand import HeadroomDemand
from slackwater.controllers.slack.slo_sizing import MOST_PLACEHOLDERS, SLORoom, rate_now, size_for_slos
from slackwater.model.start_time_slo import KindShare, Observed, PodClass
from tests.support.builders import a_pod

WEB = PodClass(name="web", share_ppm=950_000, within=10.0)
SMALL, LARGE = a_pod("small", cpu="100m").kind, a_pod("large", cpu="2").kind


def observed(minutes: int = 600, each: int = 4, *, minute: int = 10_000, late: int = 0, in_time: int = 0) -> Observed:
    return Observed(
        of=WEB,
        minute=minute,
        arrivals=np.full(minutes, each, np.int64),
        departures=np.zeros(minutes, np.int64),
        in_time=np.full(minutes, in_time, np.int64),
        late=np.full(minutes, late, np.int64),
        mix=(KindShare(SMALL, (), 3), KindShare(LARGE, (("app", "x"),), 1)),
    )


def demand(found: dict[str, SLORoom]) -> HeadroomDemand:
    return HeadroomDemand().with_slos(found)


def counts(found: dict[str, SLORoom]) -> list[int]:
    return [each.count for each in demand(found).pod_headroom]


def test_room_is_what_comes_within_a_lead_shared_among_the_kinds() -> None:
    found = size_for_slos([observed()], {"web": 130}, {})
    assert found["web"].forecast.room == 12  # three minutes of four pods each
    assert [(each.source, each.kind, each.count) for each in demand(found).pod_headroom] == [
        ("SLO web", SMALL, 9),
        ("SLO web", LARGE, 3),
    ]


def test_nothing_is_kept_where_a_node_comes_in_time() -> None:
    assert counts(size_for_slos([observed()], {"web": 10}, {})) == []


def test_what_goes_makes_room_for_what_comes() -> None:
    flows = replace(observed(), departures=np.full(600, 4, np.int64))
    assert sum(counts(size_for_slos([flows], {"web": 130}, {}, unneeded_seconds=600.0))) <= 4


def test_room_is_forecast_again_in_ten_minutes_and_for_another_lead() -> None:
    first = size_for_slos([observed()], {"web": 130}, {})
    more = observed(each=8, minute=10_009)
    assert sum(counts(size_for_slos([more], {"web": 130}, first))) == 12
    assert sum(counts(size_for_slos([replace(more, minute=10_010)], {"web": 130}, first))) == 24
    assert sum(counts(size_for_slos([more], {"web": 190}, first))) == 32


def test_a_forecaster_is_chosen_again_after_an_hour() -> None:
    first = size_for_slos([observed()], {"web": 130}, {})
    chosen = [
        size_for_slos([observed(minute=minute)], {"web": 130}, first)["web"].forecast.chosen for minute in (10_059, 10_060)
    ]
    assert chosen == [10_000, 10_060]


def test_rules_without_arrivals_or_with_too_many_kinds_are_reported() -> None:
    unknown = size_for_slos([replace(observed(), mix=())], {"web": 130}, {})
    assert (counts(unknown), demand(unknown).problems[0].startswith("SLO web: no pod")) == ([], True)
    many = size_for_slos([observed(each=30_000)], {"web": 130}, {})
    assert (sum(counts(many)), "want at most" in demand(many).problems[0]) == (MOST_PLACEHOLDERS, True)


def test_where_more_run_than_usual_less_is_kept_in_the_same_loop() -> None:
    """Each ten minutes twenty pods come, and go two minutes later: those that are there now leave their room in time."""
    came = np.zeros(600, np.int64)
    came[::10] = 20
    seen = replace(observed(), arrivals=came, departures=np.roll(came, 2))
    quiet = size_for_slos([seen], {"web": 130}, {})
    assert quiet["web"].forecast.gone_percent == 100
    busy = size_for_slos([replace(seen, moved=20)], {"web": 130}, quiet)
    above = 20 + quiet["web"].forecast.above
    assert sum(counts(busy)) == sum(counts(quiet)) - above
    assert sum(counts(size_for_slos([replace(seen, moved=900)], {"web": 130}, busy))) == 0


def nomination_window(in_time: list[int], late: list[int], *, minute: int = 0) -> float:
    """By the hour, up to this minute of a day."""
    return rate_now(np.repeat(in_time, 60), np.repeat(late, 60), 950_000, minute=1440 * 100 + minute)


#: Four fifths of what may be late, half of what is exceeded.
EVENLY = 0.08


def test_the_pace_spreads_what_may_be_late_over_the_day() -> None:
    assert nomination_window([], []) == pytest.approx(EVENLY)
    assert nomination_window([100] * 24, [0] * 24) > EVENLY  # a new day, and less was late than was thought
    assert nomination_window([80] * 24, [20] * 24) < EVENLY
    good, bad = ([96] * 24 + [share] * 6 for share in (100, 80))
    late = [[4] * 24 + [100 - share] * 6 for share in (100, 80)]
    assert (
        nomination_window(good, late[0], minute=360)
        > nomination_window([96] * 30, [4] * 30, minute=360)
        > nomination_window(bad, late[1], minute=360)
    )


def test_the_pace_is_never_none_and_never_all() -> None:
    assert 0 < nomination_window([0] * 48, [100] * 48) < EVENLY / 10
    assert EVENLY < nomination_window([100] * 190, [0] * 190) <= 0.9


def test_late_pods_of_yesterday_do_not_count_today() -> None:
    came, late = [100] * 24, [0] * 22 + [100, 0]
    evening, midnight = nomination_window(came[:23], late[:23], minute=23 * 60), nomination_window(came, late)
    assert midnight > 1.5 * evening
