"""The history in memory: bounded, found by pod and node, and written chunk by chunk."""

from collections.abc import Iterator

import msgspec

from slackwater.controllers.history.policy import SLOTS, HistoryPolicy
from slackwater.controllers.history.state import Chunk, History, chunk_of
from slackwater.model.history import HistoryAction, HistoryEntry, readable

SMALL = HistoryPolicy(chunk_bytes=1000)


def evicted(name: str, *, at: int = 0, node: str = "n1", why: str = "") -> HistoryEntry:
    return HistoryEntry(at_ms=at, action=HistoryAction.EVICTED, pod=f"shop/{name}", uid="12345678", node=node, why=why)


def refused(name: str, *, at: int = 0) -> HistoryEntry:
    return HistoryEntry(at_ms=at, action=HistoryAction.REFUSED, pod=f"shop/{name}", uid="12345678", why="no room")


def written(history: History, now: int) -> Iterator[Chunk]:
    while (chunk := history.due(now)) is not None:
        chunk.unwritten_since_ms = None
        yield chunk


def test_what_happened_to_a_pod_and_on_a_node_is_found() -> None:
    history = History(SMALL)
    for entry in (evicted("a", at=2), evicted("b", at=3, node="n2"), refused("a", at=1)):
        history.add(entry)
    assert history.of("pod", "shop/a") == [refused("a", at=1), evicted("a", at=2)], "the oldest first, whatever its ring"
    assert history.of("node", "n2") == [evicted("b", at=3, node="n2")]
    assert history.of("pod", "shop/c") == []


def test_a_preemptor_finds_its_victims() -> None:
    history = History(SMALL)
    entry = HistoryEntry(at_ms=1, action=HistoryAction.PREEMPTED, pod="shop/low", node="n1", other="shop/high")
    history.add(entry)
    assert history.of("pod", "shop/high") == history.of("pod", "shop/low") == [entry]


def test_no_number_of_entries_takes_more_room_than_the_slots_have() -> None:
    history = History(SMALL)
    for number in range(3000):
        history.add(evicted(f"web-{number}", at=number, why="x" * (number % 300)))
    chunks = history.unwritten()
    assert len(chunks) == SLOTS["acts"]
    assert {chunk.slot for chunk in chunks} == set(range(SLOTS["acts"]))
    assert all(chunk.bytes <= SMALL.chunk_bytes for chunk in chunks)
    assert history.of("pod", "shop/web-0") == [], "the oldest is forgotten"
    assert history.of("pod", "shop/web-2999") != []
    assert sum(len(history.of("pod", f"shop/web-{number}")) for number in range(3000)) == len(history)
    first = next(iter(history))
    assert history.reaches("acts") == first.at_ms
    assert history.reaches("waits") is None, "of the other ring nothing was forgotten"


def test_a_removal_that_has_ended_is_no_reason_for_an_eviction() -> None:
    history = History(SMALL)
    begun = HistoryEntry(at_ms=1, action=HistoryAction.DRAIN_BEGAN, node="n1", why="not needed")
    history.add(begun)
    history.add(evicted("a"))
    assert history.removal_begun("n1") == begun
    history.add(HistoryEntry(at_ms=2, action=HistoryAction.DRAIN_ENDED, node="n1"))
    assert history.removal_begun("n1") is None


def test_a_thousand_refusals_do_not_push_out_the_one_eviction() -> None:
    history = History(SMALL)
    history.add(evicted("a"))
    for number in range(1000):
        history.add(refused(f"p-{number}", at=number))
    assert history.of("pod", "shop/a") == [evicted("a")]


def test_an_eviction_is_written_after_a_second_and_a_refusal_after_five() -> None:
    history = History(SMALL)
    history.add(refused("a", at=1000))
    history.add(evicted("a", at=2000))
    assert history.due(2999) is None
    assert [chunk.ring for chunk in written(history, 3000)] == ["acts"]
    assert [chunk.ring for chunk in written(history, 6000)] == ["waits"]
    assert history.due(10**9) is None, "nothing is written twice"


def test_the_next_process_goes_on_where_the_last_one_ended() -> None:
    before, after = History(SMALL), History(SMALL)
    for number in range(100):
        before.add(evicted(f"a-{number}", at=number))
    stored = [chunk_of(chunk.ring, chunk.number, chunk.entries) for chunk in before.unwritten()]
    after.add(evicted("b", at=200))
    after.restore(stored)
    assert after.restored
    assert list(after) == [*before, evicted("b", at=200)]
    (chunk,) = after.unwritten()
    assert chunk.number == max(each.number for each in stored), "it continues the last chunk"
    assert chunk.bytes == chunk_of(chunk.ring, chunk.number, chunk.entries).bytes


def test_chunks_that_a_killed_process_should_have_replaced_are_left_out() -> None:
    slots = SLOTS["acts"]
    stored = [chunk_of("acts", number, [evicted(f"a-{number}", at=number)]) for number in (0, 1, slots, slots + 3)]
    history = History(SMALL)
    history.restore(stored)
    assert [entry.pod for entry in history] == [f"shop/a-{slots}", f"shop/a-{slots + 3}"]


def test_an_entry_is_read_as_it_was_persisted() -> None:
    entry = HistoryEntry(
        at_ms=5, action=HistoryAction.MIGRATED, pod="a/b", uid="u", node="n", target="t", other="a/c", why='"é'
    )
    assert readable([msgspec.Raw(msgspec.json.encode(entry))]) == [entry]
