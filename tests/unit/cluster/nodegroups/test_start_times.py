"""How long nodes take to start: from the call for them, as far as it is known, until they take pods."""

from slackwater.cluster.nodegroups.purchases import StartTimes
from slackwater.model.ids import Instant
from slackwater.model.nodegroups import InstanceId


def ids(text: str) -> frozenset[InstanceId]:
    return frozenset(map(InstanceId, text.split()))


def test_a_node_counts_from_the_call_and_calls_are_met_in_their_order() -> None:
    starts = StartTimes()
    starts.observe(ids("old"), ids("old"), Instant(0))
    starts.asked(1, Instant(10))
    starts.asked(1, Instant(30))
    starts.observe(ids("old a"), ids("old"), Instant(40))
    starts.observe(ids("old a b"), ids("old a"), Instant(70))
    starts.observe(ids("old a b"), ids("old a b"), Instant(100))
    assert starts.seconds == (60, 70)


def test_nodes_that_were_there_first_or_never_start_are_not_measured() -> None:
    starts = StartTimes()
    starts.observe(ids("half"), ids(""), Instant(0))
    starts.asked(1, Instant(1))
    starts.observe(ids("half lost"), ids("half"), Instant(5))
    starts.observe(ids("half"), ids("half"), Instant(50))
    assert starts.seconds == ()


def test_a_machine_that_others_asked_for_counts_from_when_it_is_listed() -> None:
    starts = StartTimes()
    starts.observe(ids(""), ids(""), Instant(0))
    starts.asked(1, Instant(5))
    starts.forget_open_requests()
    starts.observe(ids("a"), ids(""), Instant(100))
    starts.observe(ids("a"), ids("a"), Instant(130))
    assert starts.seconds == (30,)


def test_what_an_earlier_process_saw_is_older_than_what_this_one_does() -> None:
    starts = StartTimes()
    starts.observe(ids(""), ids(""), Instant(0))
    starts.observe(ids("a"), ids(""), Instant(1))
    starts.observe(ids("a"), ids("a"), Instant(8))
    starts.restore([float(second) for second in range(20)])
    assert starts.seconds == (*map(float, range(5, 20)), 7)
