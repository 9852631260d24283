"""Which entries follow from a pod as it is, from a call that was accepted, and from what the autoscaler decides."""

import pytest
from msgspec import structs

from slackwater.cluster.pods import Disruption
from slackwater.controllers.history import new_entries
from slackwater.model.effects import Announce, CreateMigration, DeleteVictim, DrainEnd, DrainOrder, Evict
from slackwater.model.history import HistoryAction, HistoryEntry, short_uid, words
from slackwater.model.ids import NodeName, PodKey, PodUid, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Pod
from slackwater.model.reasons import UnremovableReason
from tests.support.builders import a_migration_to_n2, a_pod

NO_CPU = "0/5 nodes are available: 2 node(s) had untolerated taint(s), 3 Insufficient cpu. preemption: 0/5 nodes are available."
HOUR = 3_600_000


def of_pod(pod: Pod, *before: HistoryEntry, at: int = 10) -> HistoryEntry | None:
    assert new_entries.is_notable(pod, known=bool(before)) or new_entries.of_pod(pod, before, at) is None, (
        "the quick check leaves nothing out"
    )
    return new_entries.of_pod(pod, before, at)


def refused(message: str, *, at: int = 0, pod: str = "default/a") -> HistoryEntry:
    uid = short_uid("uid-a")
    return HistoryEntry(at_ms=at, action=HistoryAction.REFUSED, pod=pod, uid=uid, why=message)


def test_the_first_refusal_is_an_entry() -> None:
    found = of_pod(a_pod("a", message=NO_CPU))
    assert found is not None
    assert (found.action, found.pod, found.why) == (HistoryAction.REFUSED, "default/a", NO_CPU)


@pytest.mark.parametrize(
    "message",
    [
        NO_CPU,
        "0/9 nodes are available: 4 Insufficient cpu, 5 node(s) had untolerated taint(s). preemption: not helpful.",
    ],
    ids=["the same", "other counts, other order, other preemption"],
)
def test_the_same_reason_is_no_news_within_an_hour(message: str) -> None:
    pod = a_pod("a", message=message)
    assert of_pod(pod, refused(NO_CPU), at=HOUR - 1) is None
    assert of_pod(pod, refused(NO_CPU), at=HOUR) is not None


def test_another_reason_is_news() -> None:
    found = of_pod(a_pod("a", message="0/5 nodes are available: 5 Insufficient memory."), refused(NO_CPU))
    assert found is not None


def test_a_pod_whose_reason_changes_all_the_time_has_few_entries() -> None:
    entries: list[HistoryEntry] = []
    for number in range(100):
        found = of_pod(a_pod("a", message=f"reason {chr(97 + number % 26)}"), *entries, at=number)
        entries += [] if found is None else [found]
    assert len(entries) == 8


def test_a_pod_that_is_placed_at_the_first_attempt_has_no_entry() -> None:
    assert of_pod(a_pod("a", on="n1")) is None


def test_a_pod_that_was_refused_is_placed_once() -> None:
    pod = a_pod("a", on="n1")
    found = of_pod(pod, refused(NO_CPU))
    assert found is not None
    assert (found.action, found.node) == (HistoryAction.BOUND, "n1")
    assert of_pod(pod, refused(NO_CPU), found) is None


def test_the_next_pod_of_that_name_is_distinguished_from_the_evicted_one() -> None:
    evicted = HistoryEntry(at_ms=0, action=HistoryAction.EVICTED, pod="default/a", uid=short_uid("another"), node="n1")
    found = of_pod(a_pod("a", on="n2"), evicted)
    assert found is not None
    assert (found.action, found.node, found.uid) == (HistoryAction.BOUND, "n2", short_uid("uid-a"))
    gone = structs.replace(evicted, uid=short_uid("uid-a"))
    assert of_pod(a_pod("a", on="n1"), gone) is None, "the evicted pod itself still has its node"


def disrupted(why: str) -> Disruption:
    return Disruption(PodUid("uid-a"), PodKey("default", "a"), NodeName("n1"), why)


def test_entries_about_actions_of_others_name_the_actor() -> None:
    why = "PreemptionByScheduler: default-scheduler: preempting to accommodate a higher priority pod"
    found = new_entries.of_disruption(disrupted(why), "", (), None, 10)
    assert found is not None
    assert words(found) == f"disrupted on n1 by a scheduler: {why}"
    assert new_entries.of_disruption(disrupted(why), "", (found,), None, 11) is None, "once"


def test_kube_schedulers_own_preemption_names_the_pod_that_it_asked_us_about() -> None:
    why = "PreemptionByScheduler: slackwater: preempting to accommodate a higher priority pod"  # its profile's name
    found = new_entries.of_disruption(disrupted(why), "shop/high", (), None, 10)
    assert found is not None
    assert words(found).startswith("disrupted on n1 by a scheduler to make room for shop/high: ")
    evicted = disrupted("EvictionByEvictionAPI: Eviction API: evicting")
    other = new_entries.of_disruption(evicted, "shop/high", (), None, 10)
    assert other is not None
    assert other.other == "", "it was no preemption"


def test_a_preemption_of_a_killed_process_is_read_from_the_victims_condition() -> None:
    said = "PreemptionByScheduler: slackwater: preempting to accommodate the higher priority pod shop/db-0"
    found = new_entries.of_disruption(disrupted(said), "", (), None, 10)
    assert found is not None
    assert words(found) == "preempted on n1 to make room for shop/db-0"


def test_an_eviction_while_we_remove_the_node_was_ours() -> None:
    said = disrupted("EvictionByEvictionAPI: Eviction API: evicting")
    begun = HistoryEntry(at_ms=0, action=HistoryAction.DRAIN_BEGAN, node="n1", why="not needed: 3 pods")
    ours, others = new_entries.of_disruption(said, "", (), begun, 10), new_entries.of_disruption(said, "", (), None, 10)
    assert ours is not None
    assert words(ours) == "evicted from n1, because the node was being removed: not needed: 3 pods"
    assert others is not None
    assert others.action is HistoryAction.DISRUPTED


def test_calls_become_entries_with_their_reason() -> None:
    key, uid = PodKey("shop", "a"), PodUid("0123456789")
    begun = HistoryEntry(at_ms=0, action=HistoryAction.DRAIN_BEGAN, node="n1", why="not needed: empty soon")
    evict = new_entries.of_call(Evict(uid=uid, key=key, node=NodeName("n1")), "n1", begun, 5)
    assert evict == HistoryEntry(
        at_ms=5, action=HistoryAction.EVICTED, pod="shop/a", uid="01234567", node="n1", why="not needed: empty soon"
    )
    victim = new_entries.of_call(DeleteVictim(uid, key, PodKey("shop", "high")), "n1", None, 5)
    assert (victim.action, victim.node, victim.other) == (HistoryAction.PREEMPTED, "n1", "shop/high")
    move = CreateMigration(uid=uid, key=key, name="m", machine="vm", target_node=NodeName("n2"))
    assert words(new_entries.of_call(move, "n1", None, 5)) == "live migration from n1 to n2 began"


def test_the_autoscalers_events_become_entries() -> None:
    node = Announce(
        PodUid("u"), PodKey("", "n1"), "Normal", "ScaleDown", "node is removed, since it is not needed: empty", "Node"
    )
    pod = Announce(
        PodUid("u"), PodKey("shop", "a"), "Normal", "TriggeredScaleUp", "pod triggered scale-up: [{pool 1->2 (max: 5)}]"
    )
    found = [new_entries.of_announcement(each, 5) for each in (node, pod)]
    assert [(entry.action, entry.node, entry.pod, entry.why) for entry in found if entry is not None] == [
        (HistoryAction.DRAIN_BEGAN, "n1", "", "not needed: empty"),
        (HistoryAction.SCALE_UP, "", "shop/a", "pod triggered scale-up: [{pool 1->2 (max: 5)}]"),
    ]
    assert new_entries.of_announcement(structs.replace(pod, reason="NotTriggerScaleUp"), 5) is None


def test_the_end_of_a_removal_says_why_the_node_stays() -> None:
    order = DrainOrder(node=NodeName("n1"), uid="u", group=GroupName("pool"), empty=False, stamp=UnixTime(0))
    end = DrainEnd(
        order=order,
        outcome="rolled-back",
        unremovable_reason=UnremovableReason.CANCELLED,
        detail="asked for over HTTP",
        seconds=12.4,
        evicted=3,
    )
    want = f"rolled-back after 12 s, 3 pods evicted, because {UnremovableReason.CANCELLED} asked for over HTTP"
    assert new_entries.of_drain(end, 5).why == want


def test_a_migration_ends_once() -> None:
    begun = HistoryEntry(at_ms=0, action=HistoryAction.MIGRATING, pod="shop/vm-1", node="n1", target="n2")
    assert new_entries.of_migration(a_migration_to_n2("Running"), (begun,), "", 5) is None
    found = new_entries.of_migration(a_migration_to_n2("Succeeded"), (begun,), "", 5)
    assert found is not None
    assert words(found) == "live migration to n2 succeeded; it is shop/vm-2 now"
    assert new_entries.of_migration(a_migration_to_n2("Succeeded"), (begun, found), "", 6) is None
    failed = new_entries.of_migration(a_migration_to_n2("Failed"), (begun,), "", 5)
    assert failed is not None
    assert failed.action is HistoryAction.MIGRATION_FAILED
