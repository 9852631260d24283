"""The leader judges the alerts as Prometheus does: the stories that promtool plays in tests/alerts are played to it, too."""

import re
from collections.abc import Iterator

import pytest

from slackwater.controllers.notifications.alerts import ALERTS, SAMPLED
from slackwater.controllers.notifications.metric_history import Labels, MetricHistory, Samples
from slackwater.controllers.notifications.state import MOST_FIRING, MOST_LINES, NotificationPolicy, Notifications
from slackwater.model.ids import Instant
from tests.alerts.stories import AT, STORIES, Story

POLICY = NotificationPolicy(interval=300.0, names=False, cluster="")
BACKS_OFF = "cluster_autoscaler_node_group_backoff_status"
SAFE = "cluster_autoscaler_cluster_safe_to_autoscale"
JUDGED = [story for story in STORIES if any(alert.name == story.alert and alert.holds for alert in ALERTS)]


def values(text: str) -> Iterator[float | None]:
    """A series in promtool's notation, minute by minute."""
    for part in text.split():
        if part == "stale":
            yield None
            continue
        found = re.fullmatch(r"(\d+)(?:\+(\d+))?(?:x(\d+))?", part)
        assert found is not None, part
        first, step, times = found.groups()
        for number in range(int(times or 0) + 1):
            yield float(first) + number * float(step or 0)


def labels_of(series: str) -> tuple[str, Labels]:
    name, _, inside = series.partition("{")
    found = dict(re.findall(r'(\w+)="([^"]*)"', inside))
    return name, tuple(sorted((key, value) for key, value in found.items() if key not in AT))


def played(story: Story) -> dict[int, dict[Labels, float]]:
    """What fires of the story's alert, by minute."""
    state = Notifications(POLICY)
    series = {labels_of(name): list(values(text)) for name, text in story.series.items()}
    found = {}
    for minute in range(max((*story.quiet, *story.loud)) + 1):
        samples = {key: value for key, each in series.items() if minute < len(each) and (value := each[minute]) is not None}
        state.observe(samples)
        found[minute] = {labels: value for (name, labels), value in state.firing.items() if name == story.alert}
    return found


@pytest.mark.parametrize("story", JUDGED, ids=lambda story: f"{story.alert}: {story.what}")
def test_the_leader_finds_what_prometheus_finds(story: Story) -> None:
    found = played(story)
    assert [minute for minute in story.quiet if found[minute]] == []
    want = tuple(sorted((key, value) for key, value in story.labels.items() if key not in AT))
    assert [minute for minute in story.loud if list(found[minute]) != [want]] == []


def test_every_alert_is_judged_but_those_about_who_does_not_lead() -> None:
    assert {alert.name for alert in ALERTS if alert.holds is None} == {"SlackwaterNotSynced", "SlackwaterNoLeader"}
    assert {story.alert for story in JUDGED if story.loud} == {alert.name for alert in ALERTS if alert.holds is not None}
    read = {labels_of(series)[0] for story in JUDGED for series in story.series}
    assert read == SAMPLED


def backing_off(*groups: str, reason: str = "STOCKOUT") -> Samples:
    return {(BACKS_OFF, (("node_group", group), ("reason", reason))): 1.0 for group in groups}


def after_half_an_hour(samples: Samples, policy: NotificationPolicy = POLICY) -> Notifications:
    state = Notifications(policy)
    for _ in range(31):
        assert state.message(Instant(1000.0)) is None
        state.observe(samples)
    return state


def test_a_message_names_no_object_unless_names_are_wanted() -> None:
    samples = backing_off("team-x", reason="<b>team-x & co</b>")
    text = after_half_an_hour(samples).message(Instant(1000.0))
    assert text == (
        "Slackwater: 1 began, 0 ended\n• warning: SlackwaterGroupBacksOff: Node group (not named) gets no nodes: (not shown)."
    )
    named = NotificationPolicy(interval=300.0, names=True, cluster="prod-eu")
    text = after_half_an_hour(backing_off("team-x"), named).message(Instant(1000.0))
    assert text is not None
    assert text.startswith("Slackwater prod-eu: 1 began")
    assert "Node group team-x gets no nodes: STOCKOUT." in text


def test_a_message_is_grouped_and_its_length_bounded() -> None:
    many = tuple(f"pool-{number}" for number in range(5 * MOST_FIRING))
    state = after_half_an_hour(backing_off(*many))
    text = state.message(Instant(1000.0))
    assert text is not None
    assert len(state.firing) == MOST_FIRING
    assert text.splitlines()[-1] == f"and {MOST_FIRING - MOST_LINES} more"
    assert len(text) < 4000


def test_nothing_is_sent_twice_and_messages_keep_their_distance() -> None:
    state = after_half_an_hour(backing_off("a"))
    assert state.message(Instant(1000.0)) is not None
    state.delivered(Instant(1000.0))
    state.observe(backing_off("a"))
    assert state.message(Instant(9000.0)) is None
    state.observe({(SAFE, ()): 1.0})
    assert state.message(Instant(1299.0)) is None
    assert state.message(Instant(1300.0)) == "Slackwater: 0 began, 1 ended\n• ended: SlackwaterGroupBacksOff"
    state.delivered(Instant(1300.0))
    state.observe({})
    assert state.message(Instant(9000.0)) is None


def test_what_was_not_delivered_is_sent_later_and_what_ended_meanwhile_is_not() -> None:
    state, now = after_half_an_hour(backing_off("a", "b")), Instant(1000.0)
    for wait in (300.0, 600.0, 1200.0, 2400.0, 3600.0, 3600.0):
        assert state.message(now) is not None
        state.undelivered(now)
        assert state.message(Instant(now + wait - 1)) is None
        now = Instant(now + wait)
    state.observe({})
    assert state.message(now) is None, "nobody knew of it"


def test_growth_is_counted_from_the_first_sample_and_for_an_hour_at_most() -> None:
    history = MetricHistory()
    key = ("c", (("a", "x"),))
    for minute in range(200):
        history.take({key: float(minute)} if minute else {})
    assert history.growth("c", 10) == {(): 10.0}
    assert history.growth("c", 60, by=("a",)) == {(("a", "x"),): 60.0}
    assert history.covers(60)
    assert not history.covers(61)
