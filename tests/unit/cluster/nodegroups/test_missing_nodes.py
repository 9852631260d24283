"""Missing nodes: counted since their request, and the earliest request is met first."""

from slackwater.cluster.nodegroups.purchases import MissingNodes
from slackwater.model.ids import Instant


def test_nodes_are_missing_since_their_request_until_they_appear() -> None:
    missing = MissingNodes()
    missing.observe(3, 0, Instant(10.0))
    missing.observe(5, 0, Instant(100.0))
    assert len(missing) == 5
    assert [missing.longer_than(seconds, Instant(110.0)) for seconds in (5.0, 50.0, 100.0)] == [5, 3, 0]
    missing.observe(3, 2, Instant(110.0))
    assert missing.longer_than(50.0, Instant(110.0)) == 1, "those of the first request appeared"


def test_an_instance_that_was_replaced_meanwhile_counts_as_requested_anew() -> None:
    missing = MissingNodes()
    missing.observe(2, 0, Instant(10.0))
    missing.observe(2, 1, Instant(100.0))
    assert [missing.longer_than(seconds, Instant(110.0)) for seconds in (5.0, 50.0)] == [2, 1]


def test_a_smaller_target_forgets_the_earliest_requests() -> None:
    missing = MissingNodes()
    missing.observe(4, 0, Instant(10.0))
    missing.observe(0, 0, Instant(20.0))
    assert len(missing) == 0
