"""Which pods the history shows as evicted, for whoever lets their successors rest after a restart."""

from slackwater.controllers.history.policy import HistoryPolicy
from slackwater.controllers.history.state import History, evictions
from slackwater.model.history import HistoryAction, HistoryEntry
from slackwater.model.ids import PodKey


def test_only_evictions_count_each_pod_with_its_first_one() -> None:
    history = History(HistoryPolicy())
    for at_ms, action, pod in (
        (5_000, HistoryAction.EVICTED, "default/db-0"),
        (2_000, HistoryAction.EVICTED, "default/db-0"),
        (3_000, HistoryAction.EVICTED, "shop/web-abcde"),
        (4_000, HistoryAction.PREEMPTED, "shop/web-fghij"),
    ):
        history.add(HistoryEntry(at_ms=at_ms, action=action, pod=pod))
    assert evictions(history) == {PodKey("default", "db-0"): 2.0, PodKey("shop", "web-abcde"): 3.0}
