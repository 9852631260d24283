"""A class's arrivals become placeholders like its pods; and the correction by how the promise was kept."""

from dataclasses import replace

import numpy as np

from slackwater.decide.slack.promised import MOST_PLACEHOLDERS, NO_PROMISES, Promised, promised
from slackwater.decide.slack.trim import trim_percent
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
    return [each.count for each in found.mirrored]


def test_room_is_what_comes_within_a_lead_shared_among_the_kinds() -> None:
    found = promised([observed()], {"web": 130}, NO_PROMISES)
    assert found.rooms["web"].foresight.way.flat == 12  # three minutes of four pods each
    assert [(each.source, each.kind, each.count) for each in found.mirrored] == [
        ("promise web", SMALL, 9),
        ("promise web", LARGE, 3),
    ]


def test_nothing_is_kept_where_a_node_comes_in_time() -> None:
    assert counts(promised([observed()], {"web": 10}, NO_PROMISES)) == []


def test_what_goes_makes_room_for_what_comes() -> None:
    flows = replace(observed(), departures=np.full(600, 4, np.int64))
    assert sum(counts(promised([flows], {"web": 130}, NO_PROMISES, unneeded_seconds=600.0))) <= 4


def test_a_choice_holds_for_an_hour_and_not_for_another_lead() -> None:
    first = promised([observed()], {"web": 130}, NO_PROMISES)
    more = observed(each=8, minute=10_030)
    assert sum(counts(promised([more], {"web": 130}, first))) == 12
    assert sum(counts(promised([replace(more, minute=10_060)], {"web": 130}, first))) == 24
    assert sum(counts(promised([more], {"web": 190}, first))) == 32


def test_who_was_never_seen_and_who_are_too_many_is_told() -> None:
    unknown = promised([replace(observed(), mix=())], {"web": 130}, NO_PROMISES)
    assert (unknown.mirrored, unknown.problems[0].startswith("promise web: no pod")) == ([], True)
    many = promised([observed(each=30_000)], {"web": 130}, NO_PROMISES)
    assert (sum(counts(many)), "want at most" in many.problems[0]) == (MOST_PLACEHOLDERS, True)


def trim(in_time: list[int], late: list[int]) -> int:
    """By the hour."""
    return trim_percent(np.repeat(in_time, 60), np.repeat(late, 60), 950_000)


def test_the_correction_follows_what_was_kept() -> None:
    assert trim([], []) == 100
    assert trim([96] * 9, [4] * 9) == 100  # four of five that may be late are
    assert trim([100] * 9, [0] * 9) < 60
    assert trim([80] * 9, [20] * 9) > 250
    assert trim([0] * 900, [100] * 900) == 400
    assert trim([100] * 900, [0] * 900) == 0


def test_hours_without_pods_change_nothing() -> None:
    assert trim([100] * 5 + [0] * 50, [0] * 55) == trim([100] * 5, [0] * 5)
