"""A class's arrivals become placeholders like its pods; and the correction by how the promise was kept."""

from dataclasses import replace

import numpy as np
import pytest

from slackwater.controllers.slack.slo_sizing import MOST_PLACEHOLDERS, NO_PROMISES, Promised, pace_now, promised
from slackwater.model.promises import KindShare, Observed, PodClass
from tests.support.builders import a_pod

WEB = PodClass(name="web", share_ppm=950_000, within_seconds=10.0)
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


def counts(found: Promised) -> list[int]:
    return [each.count for each in found.pod_headroom]


def test_room_is_what_comes_within_a_lead_shared_among_the_kinds() -> None:
    found = promised([observed()], {"web": 130}, NO_PROMISES)
    assert found.rooms["web"].forecast.room == 12  # three minutes of four pods each
    assert [(each.source, each.kind, each.count) for each in found.pod_headroom] == [
        ("promise web", SMALL, 9),
        ("promise web", LARGE, 3),
    ]


def test_nothing_is_kept_where_a_node_comes_in_time() -> None:
    assert counts(promised([observed()], {"web": 10}, NO_PROMISES)) == []


def test_what_goes_makes_room_for_what_comes() -> None:
    flows = replace(observed(), departures=np.full(600, 4, np.int64))
    assert sum(counts(promised([flows], {"web": 130}, NO_PROMISES, unneeded_seconds=600.0))) <= 4


def test_room_is_drawn_anew_in_ten_minutes_and_for_another_lead() -> None:
    first = promised([observed()], {"web": 130}, NO_PROMISES)
    more = observed(each=8, minute=10_009)
    assert sum(counts(promised([more], {"web": 130}, first))) == 12
    assert sum(counts(promised([replace(more, minute=10_010)], {"web": 130}, first))) == 24
    assert sum(counts(promised([more], {"web": 190}, first))) == 32


def test_a_way_is_chosen_anew_after_an_hour() -> None:
    first = promised([observed()], {"web": 130}, NO_PROMISES)
    chosen = [
        promised([observed(minute=minute)], {"web": 130}, first).rooms["web"].forecast.chosen for minute in (10_059, 10_060)
    ]
    assert chosen == [10_000, 10_060]


def test_who_was_never_seen_and_who_are_too_many_is_told() -> None:
    unknown = promised([replace(observed(), mix=())], {"web": 130}, NO_PROMISES)
    assert (unknown.pod_headroom, unknown.problems[0].startswith("promise web: no pod")) == ([], True)
    many = promised([observed(each=30_000)], {"web": 130}, NO_PROMISES)
    assert (sum(counts(many)), "want at most" in many.problems[0]) == (MOST_PLACEHOLDERS, True)


def test_where_more_run_than_usual_less_is_kept_in_the_same_loop() -> None:
    """Each ten minutes twenty pods come, and go two minutes later: those that are there now leave their room in time."""
    came = np.zeros(600, np.int64)
    came[::10] = 20
    seen = replace(observed(), arrivals=came, departures=np.roll(came, 2))
    quiet = promised([seen], {"web": 130}, NO_PROMISES)
    assert quiet.rooms["web"].forecast.gone_percent == 100
    busy = promised([replace(seen, moved=20)], {"web": 130}, quiet)
    above = 20 + quiet.rooms["web"].forecast.above
    assert sum(counts(busy)) == sum(counts(quiet)) - above
    assert sum(counts(promised([replace(seen, moved=900)], {"web": 130}, busy))) == 0


def pace(in_time: list[int], late: list[int], *, minute: int = 0) -> float:
    """By the hour, up to this minute of a day."""
    return pace_now(np.repeat(in_time, 60), np.repeat(late, 60), 950_000, minute=1440 * 100 + minute)


#: Four fifths of what may be late, half of what is exceeded.
EVENLY = 0.08


def test_the_pace_spreads_what_may_be_late_over_the_day() -> None:
    assert pace([], []) == pytest.approx(EVENLY)
    assert pace([100] * 24, [0] * 24) > EVENLY  # a new day, and less was late than was thought
    assert pace([80] * 24, [20] * 24) < EVENLY
    good, bad = ([96] * 24 + [share] * 6 for share in (100, 80))
    late = [[4] * 24 + [100 - share] * 6 for share in (100, 80)]
    assert pace(good, late[0], minute=360) > pace([96] * 30, [4] * 30, minute=360) > pace(bad, late[1], minute=360)


def test_the_pace_is_never_none_and_never_all() -> None:
    assert 0 < pace([0] * 48, [100] * 48) < EVENLY / 10
    assert EVENLY < pace([100] * 190, [0] * 190) <= 0.9


def test_yesterdays_debt_is_not_todays() -> None:
    came, late = [100] * 24, [0] * 22 + [100, 0]
    evening, midnight = pace(came[:23], late[:23], minute=23 * 60), pace(came, late)
    assert midnight > 1.5 * evening
