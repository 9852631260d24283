"""The service dies: what it had sent arrives late, and what stands on record is all that its successor knows."""

from dataclasses import replace

import pytest
from msgspec import structs

from slackwater.model.effects import WritePermit
from slackwater.model.events import BindEnded, LeadershipTaken, PermitNotWritten
from slackwater.model.ids import NodeName, PodKey
from slackwater.model.objects import Pod
from slackwater.model.permits import PersistedPermit, read_written
from slackwater.model.reasons import Reason
from slackwater.model.resources import Amounts
from slackwater.model.vertical import MigrationRef, ResizeTarget, Vertical
from tests.support import installed
from tests.support.bodies import bind_args
from tests.support.builders import a_node, a_pod, a_vertical, amounts
from tests.support.growing import Growing
from tests.support.service import a_service

ONE, TWO, FOUR = amounts("1", "4Gi"), amounts("2", "8Gi"), amounts("4", "16Gi")
SIX, EIGHT = amounts("6", "24Gi"), amounts("8", "32Gi")


@pytest.fixture
def cluster() -> Growing:
    cluster = Growing()
    for name in ("n", "other"):
        cluster.has_node(a_node(name, cpu="10", memory="40Gi"))
    return cluster


def machine(cluster: Growing, name: str, have: Amounts, *, on: str = "n") -> Pod:
    """It has so much, and so much is on record for it."""
    pod = cluster.places(name, on=on, vertical=a_vertical(using=have, minimum=ONE, maximum=EIGHT))
    cluster.ask(pod, have)
    cluster.passes(3)
    cluster.write()
    assert cluster.record(name) == PersistedPermit(permit=have, permit_limit=have)
    return pod


def dies_while_big_grows(cluster: Growing) -> tuple[Pod, Pod, WritePermit]:
    """`big` was on its way from 2 to 6 when the service died, `small` has 4. Nobody learned of that."""
    big, small = machine(cluster, "big", TWO), machine(cluster, "small", FOUR)
    cluster.decide(big, SIX, last=TWO)
    (late,) = cluster.writes()
    cluster.restarts()
    return big, small, late


def test_what_the_dead_service_sent_finds_another_text_and_does_nothing(cluster: Growing) -> None:
    big, _, late = dies_while_big_grows(cluster)
    cluster.ask(big, amounts("1", "4Gi"), last=TWO)
    cluster.passes(3)
    cluster.write()
    cluster.annotate(late)
    assert cluster.record("big") == PersistedPermit(permit=ONE, permit_limit=ONE)


def test_room_whose_release_the_dead_service_had_persisted_is_granted(cluster: Growing) -> None:
    """It costs one write, not one more of each pod on the node. What arrives too late is Buffer to the next service, until the
    agent has said what it has."""
    big, small, late = dies_while_big_grows(cluster)
    decided = cluster.decide(small, EIGHT, last=FOUR)
    assert [effect.pod for effect in cluster.writes()] == [small.uid]
    cluster.write()
    assert cluster.reported(decided).permit == EIGHT
    cluster.annotate(late)
    assert cluster.record("big") == PersistedPermit(permit=SIX, permit_limit=SIX)

    cluster.restarts()
    assert cluster.cpu("n") == {"R": 14_000, "B": 6000, "CP": 0, "PAF": 0, "held": 0}
    assert not cluster.has_room("n")
    assert cluster.ask(small, EIGHT, last=EIGHT).permit == EIGHT
    assert cluster.ask(big, SIX, last=TWO).permit == TWO
    assert cluster.cpu("n") == {"R": 10_000, "B": 0, "CP": 4000, "PAF": 0, "held": 0}


def test_a_persisted_permit_in_doubt_stays_in_doubt_whatever_the_watch_shows(cluster: Growing) -> None:
    big, small, late = dies_while_big_grows(cluster)
    cluster.decide(small, EIGHT, last=FOUR)
    cluster.write()
    cluster.annotate(late)
    cluster.restarts()
    cluster.change(big, using=TWO)
    assert (cluster.cpu("n")["R"], cluster.cpu("n")["B"]) == (14_000, 6000)


def test_of_persisted_permits_that_fit_none_is_in_doubt(cluster: Growing) -> None:
    big, small, late = dies_while_big_grows(cluster)
    cluster.decide(small, amounts("3", "12Gi"), last=FOUR)
    cluster.passes(3)
    cluster.write()
    cluster.annotate(late)
    cluster.restarts()
    assert (cluster.cpu("n")["R"], cluster.cpu("n")["B"]) == (10_000, 1000)  # the permit limit of `small` is 4 yet
    assert cluster.reserved(big) == SIX


def test_what_arrives_after_the_list_changes_no_account(cluster: Growing) -> None:
    big, _, late = dies_while_big_grows(cluster)
    cluster.reports(late)
    assert cluster.reserved(big) == TWO
    assert cluster.ask(big, SIX, last=TWO).permit == SIX


def test_what_the_dead_service_sent_arrives_first_and_is_taken_back(cluster: Growing) -> None:
    _, small, late = dies_while_big_grows(cluster)
    cluster.reports(late)
    decided = cluster.decide(small, EIGHT, last=FOUR)
    cluster.write()
    assert cluster.reported(decided).permit == EIGHT
    assert cluster.record("big") == PersistedPermit(permit=TWO, permit_limit=TWO)
    cluster.restarts()
    assert cluster.cpu("n") == {"R": 10_000, "B": 0, "CP": 0, "PAF": 0, "held": 0}


def test_what_an_agent_gave_back_it_has_no_more_though_its_answer_never_came(cluster: Growing) -> None:
    """Its last permit is 4, and still is when it has asked for 1: a lower text is on its way then."""
    pod = machine(cluster, "vm", FOUR)
    cluster.change(pod, using=amounts("1", "16Gi"))
    cluster.decide(pod, amounts("1", "20Gi"), last=FOUR)
    lower = cluster.sent.pop(0)
    for again in range(2):
        decided = cluster.decide(pod, FOUR, last=FOUR)
        answer = cluster.reported(decided)
        assert answer.permit_limit_pending, again
        assert answer.permit == amounts("2", "16Gi"), again  # covered by either text
    cluster.carry_out(lower)
    before = cluster.record("vm")
    assert before is not None
    assert not FOUR.within(before.permit_limit)
    assert cluster.reported(decided).permit_limit_pending

    cluster.write()
    assert cluster.reported(decided).permit == FOUR
    cluster.restarts()
    assert FOUR.within(cluster.reserved(pod))


def test_a_last_permit_above_what_the_dead_service_wrote_later_is_none(cluster: Growing) -> None:
    pod = machine(cluster, "vm", FOUR)
    cluster.decide(pod, amounts("1", "20Gi"), last=FOUR)
    cluster.write()
    cluster.restarts()

    decided = cluster.decide(pod, FOUR, last=FOUR)
    assert cluster.reported(decided).permit_limit_pending
    cluster.write()
    assert cluster.reported(decided).permit == FOUR
    cluster.change(pod, using=amounts("1", "16Gi"))  # seen late
    cluster.restarts()
    assert FOUR.within(cluster.reserved(pod))


def test_a_text_never_comes_again(cluster: Growing) -> None:
    """Else a write that was meant for the first of two equal texts would find the second."""
    pod = machine(cluster, "vm", TWO)
    first = cluster.machines[PodKey("default", "vm")].permit
    cluster.ask(pod, FOUR, last=TWO)
    cluster.ask(pod, TWO, last=FOUR)
    cluster.passes(3)
    cluster.write()
    assert cluster.record("vm") == read_written(first)
    assert cluster.machines[PodKey("default", "vm")].permit != first


def test_a_write_without_an_answer_keeps_its_room_from_others(cluster: Growing) -> None:
    """It may have made the record higher than its pod is now."""
    big, small = machine(cluster, "big", TWO), machine(cluster, "small", FOUR)
    cluster.decide(big, SIX, last=TWO)
    (lost,) = cluster.writes()
    cluster.sent.clear()
    cluster.annotate(lost)
    cluster.take(PermitNotWritten(lost.pod, "the connection broke"))
    cluster.decide(big, TWO, last=TWO)

    decided = cluster.decide(small, EIGHT, last=FOUR)
    assert cluster.reported(decided).permit == FOUR
    assert small.uid not in {effect.pod for effect in cluster.writes()}
    cluster.restarts()
    assert cluster.cpu("n")["R"] == 10_000


def test_room_is_not_given_while_it_cannot_be_written_that_it_is_free(cluster: Growing) -> None:
    big, small = machine(cluster, "big", SIX), machine(cluster, "small", FOUR)
    cluster.ask(big, TWO, last=SIX)
    decided = cluster.decide(small, EIGHT, last=FOUR)
    (refused,) = cluster.writes()
    cluster.sent.clear()
    cluster.take(PermitNotWritten(refused.pod, "403"))
    cluster.passes(1)
    cluster.decide(small, EIGHT, last=FOUR)
    assert (cluster.reported(decided).permit, cluster.writes()) == (FOUR, [])
    cluster.passes(8)
    cluster.write()
    assert cluster.reported(decided).permit == EIGHT


def test_giving_back_one_resource_and_taking_of_another_is_written_in_two_steps(cluster: Growing) -> None:
    """`one` takes memory that `two` gave back, and the other way round: first is written what both gave."""
    one = machine(cluster, "one", amounts("8", "8Gi"))
    two = machine(cluster, "two", amounts("2", "32Gi"))
    first = cluster.decide(one, amounts("2", "32Gi"), last=amounts("2", "8Gi"))
    cluster.decide(two, amounts("2", "8Gi"), last=amounts("2", "8Gi"))
    first = cluster.decide(one, amounts("2", "32Gi"), last=amounts("2", "8Gi"))
    second = cluster.decide(two, amounts("8", "8Gi"), last=amounts("2", "8Gi"))
    while cluster.sent:
        cluster.carry_out(cluster.sent.pop())
        found = [cluster.record(name) for name in ("one", "two")]
        assert sum(written.permit.cpu for written in found if written is not None) <= 10_000
        assert sum(written.permit.memory for written in found if written is not None) <= 40 << 30
    assert (cluster.reported(first).permit, cluster.reported(second).permit) == (amounts("2", "32Gi"), amounts("8", "8Gi"))


def test_what_a_pod_shows_as_used_is_no_persisted_permit(cluster: Growing) -> None:
    """The pod of a machine lags behind: its agent has given back, as is written; what it still shows is no promise."""
    pod = machine(cluster, "vm", FOUR)
    cluster.ask(pod, TWO, last=FOUR)
    cluster.passes(3)
    cluster.write()
    decided = cluster.decide(pod, FOUR, last=TWO)
    assert cluster.reported(decided).permit_limit_pending
    cluster.write()
    assert cluster.reported(decided).permit == FOUR


def moved(cluster: Growing) -> tuple[Pod, Pod]:
    """A machine of 6 that gave 4 back while it moved from `n` to `other`, where it arrives with 2."""
    source = machine(cluster, "vm", SIX)
    ref = MigrationRef(name="move", role="source")
    source = cluster.change(source, migration=ref, using=TWO)
    vertical = replace(source.vertical or a_vertical(), migration=replace(ref, role="target"), permit=None)
    target = cluster.has_pod("vm-target", on="", vertical=vertical)
    assert cluster.state_machine.bind(target.uid, target.key, NodeName("other"), cluster.state_machine_now()).effect is not None
    target = cluster.store(structs.replace(target, node=NodeName("other")))
    return source, target


def test_a_machine_that_has_arrived_does_not_count_by_the_persisted_permit_of_the_pod_it_left(cluster: Growing) -> None:
    _, target = moved(cluster)
    target = cluster.change(target, migration=None)
    cluster.restarts()
    certain = cluster.cpu("other")["R"] - cluster.cpu("other")["B"]
    assert certain == 2000
    cluster.ask(target, TWO)
    assert cluster.reserved(target) == TWO


def test_a_pod_that_its_machine_has_left_never_overwrites_the_persisted_permit_of_its_successor(cluster: Growing) -> None:
    source, target = moved(cluster)
    target = cluster.change(target, migration=None)
    cluster.ask(target, TWO)
    cluster.passes(3)
    cluster.write()
    assert cluster.record("vm") == PersistedPermit(permit=TWO, permit_limit=TWO)
    cluster.store(structs.replace(cluster.pods[source.key], deleting=True))
    cluster.passes(3)
    cluster.write()
    assert cluster.record("vm") == PersistedPermit(permit=TWO, permit_limit=TWO)


def test_the_pod_that_a_machine_has_left_does_not_count_by_what_the_machine_uses_elsewhere(cluster: Growing) -> None:
    source, target = moved(cluster)
    target = cluster.change(target, migration=None)
    cluster.ask(target, TWO)
    cluster.passes(3)
    cluster.write()
    cluster.ask(target, EIGHT, last=TWO)
    cluster.change(source, using=EIGHT)
    cluster.restarts()
    assert cluster.cpu("n")["R"] - cluster.cpu("n")["B"] == 1000


def test_a_machine_found_migrating_may_have_grown_to_its_permit_limit(cluster: Growing) -> None:
    pod = machine(cluster, "vm", TWO)
    cluster.ask(pod, amounts("2500m", "10Gi"), last=TWO)
    assert cluster.record("vm") == PersistedPermit(permit=amounts("2500m", "10Gi"), permit_limit=amounts("3500m", "14Gi"))
    cluster.ask(pod, amounts("3", "12Gi"), last=amounts("2500m", "10Gi"))
    cluster.change(pod, migration=MigrationRef(name="move", role="source"))
    cluster.restarts()
    assert cluster.cpu("n")["R"] == 3500
    assert cluster.ask(pod, amounts("3", "12Gi"), last=amounts("3", "12Gi")).permit == amounts("3", "12Gi")


def test_a_bind_does_not_wait_behind_what_is_only_due(cluster: Growing) -> None:
    """A hundred machines gave something back, and of a crowded node's a bind needs it."""
    cluster.has_node(a_node("large", cpu="400", memory="1600Gi"))
    others = [machine(cluster, f"other-{number}", TWO, on="large") for number in range(100)]
    connection_limiter = [machine(cluster, f"crowd-{number}", TWO) for number in range(5)]
    for vm in [*others, *connection_limiter]:
        cluster.ask(vm, ONE, last=TWO)
    cluster.now += 2
    pod = cluster.has_pod("p", on="", vertical=None)
    assert cluster.state_machine.bind(pod.uid, pod.key, NodeName("n"), cluster.state_machine_now()).effect is not None
    cluster.passes(0.1)
    assert {vm.uid for vm in connection_limiter} < {effect.pod for effect in cluster.writes()}
    assert len(cluster.writes()) < 50


def test_a_bind_that_was_not_sent_gives_its_room_back(cluster: Growing) -> None:
    pod = cluster.has_pod("p", on="", vertical=None)
    node = NodeName("n")
    assert cluster.state_machine.bind(pod.uid, pod.key, node, cluster.state_machine_now()).effect is not None
    cluster.take(BindEnded(pod.uid, node, "unsent", ""))
    assert cluster.cpu("n")["R"] == 0
    assert cluster.state_machine.state.event_counts.bind_refusals[Reason.ROOM_NOT_ON_RECORD] == 1


@pytest.mark.anyio
async def test_a_bind_into_room_that_is_not_persisted_as_free_is_refused() -> None:
    on_record = PersistedPermit(permit=FOUR, permit_limit=FOUR).text()
    vm = structs.replace(a_pod("vm", on="n"), vertical=a_vertical(using=ONE, permit=on_record))
    other = a_pod("other", cpu="2")
    async with a_service(installed.POLICY) as service:
        service.has(a_node("n", cpu="4", memory="40Gi"), vm, other)
        claim = service.state_machine.state.reservations.get(vm.uid)
        assert claim is not None
        service.state_machine.state.reservations.recount(vm.uid, replace(claim.pod_resources, reserved=ONE))
        service.state_machine.permit_limits.persisted_permits.mark(vm.uid)
        (answer,) = [await service.ask("bind", bind_args(other, "n"))]
        assert answer["Error"].startswith("Slackwater: room that others gave back is not on record as free yet")
        assert service.reserved("n") == (1000, 4 << 30)
        assert service.writer.asked == []


# --- plain pods -------------------------------------------------------------------------------------------------------------


def plain(using: Amounts, *, maximum: Amounts = EIGHT, permit: str | None = None) -> Vertical:
    """A plain pod that asks for `using`, with bounds."""
    resizing = ResizeTarget(container="app", requests=using, whole=using, limits=(False, False))
    return replace(a_vertical(using=using, maximum=maximum, machine=None, permit=permit, slot_bytes=1), resizing=resizing)


HUGE = amounts("100000", "400Ti")
NO_BUFFER = {"B": 0, "CP": 0, "PAF": 0, "held": 0}


@pytest.mark.parametrize("hand_over", [False, True])
def test_bounds_alone_reserve_nothing_but_the_requests(cluster: Growing, hand_over: bool) -> None:
    """Whoever may create a pod chooses its bounds: one of 100,000 CPU closed its node at each start."""
    pod = cluster.has_pod("p", on="n", vertical=plain(ONE, maximum=HUGE))
    if hand_over:
        cluster.take(LeadershipTaken())
    else:
        cluster.restarts()
    assert cluster.cpu("n") == {"R": 1000, **NO_BUFFER}
    assert cluster.ask(pod, TWO).permit == TWO
    cluster.restarts()
    assert cluster.cpu("n")["R"] >= 2000


def test_a_plain_pod_grows_only_after_its_permit_is_persisted(cluster: Growing) -> None:
    pod = cluster.has_pod("p", on="n", vertical=plain(ONE))
    cluster.restarts()
    decided = cluster.decide(pod, FOUR, last=FOUR)
    assert cluster.reported(decided).permit_limit_pending
    assert cluster.reported(decided).permit == ONE, "nobody has permitted it more, whatever it says"
    cluster.write()
    assert cluster.reported(decided).permit == FOUR
    cluster.restarts()
    assert FOUR.within(cluster.reserved(pod))


def test_the_permit_of_another_pod_is_none_of_a_plain_pod(cluster: Growing) -> None:
    """It came with a template, for example."""
    copied = PersistedPermit(permit=EIGHT, permit_limit=EIGHT, pod="another").text()
    cluster.has_pod("p", on="n", vertical=plain(ONE, permit=copied))
    cluster.restarts()
    assert cluster.cpu("n") == {"R": 1000, **NO_BUFFER}


@pytest.mark.parametrize("node_first", [True, False])
def test_an_unreadable_permit_counts_the_maximum_but_no_more_than_the_node_has(cluster: Growing, node_first: bool) -> None:
    late = a_node("late", cpu="10", memory="40Gi")
    if node_first:
        cluster.has_node(late)
    pod = cluster.has_pod("p", on="late", vertical=plain(ONE, maximum=HUGE, permit="{"))
    small = cluster.has_pod("q", on="n", vertical=plain(ONE, maximum=SIX, permit="{"))
    if not node_first:
        cluster.has_node(late)
    assert (cluster.cpu("late")["R"], cluster.cpu("late")["B"]) == (10_000, 9000)
    assert (cluster.cpu("n")["R"], cluster.cpu("n")["B"]) == (6000, 5000)
    cluster.has_node(structs.replace(late, allocatable=amounts("12", "40Gi"), resource_version=late.resource_version + 1))
    assert cluster.cpu("late")["R"] == 12_000
    assert cluster.reserved(small) == SIX
    cluster.ask(pod, ONE)
    assert cluster.cpu("late") == {"R": 1000, **NO_BUFFER}


@pytest.mark.parametrize("vertical", [plain(ONE, maximum=HUGE), a_vertical(using=ONE, maximum=HUGE)], ids=["pod", "machine"])
def test_a_forged_permit_counts_no_more_than_the_node_has(cluster: Growing, vertical: Vertical) -> None:
    """Whoever may change the annotation can write one that reads as ours."""
    forged = PersistedPermit(permit=ONE, permit_limit=HUGE).text()
    pod = cluster.has_pod("p", on="n", vertical=replace(vertical, permit=forged, machine=None))
    cluster.restarts(pods_first=True)
    assert cluster.cpu("n") == {"R": 10_000, **NO_BUFFER, "B": 9000}
    cluster.ask(pod, ONE, last=ONE)
    cluster.passes(3)
    cluster.write()
    cluster.restarts()
    assert cluster.cpu("n") == {"R": 1000, **NO_BUFFER}


def test_a_machine_without_a_permit_keeps_its_maximum_as_buffer(cluster: Growing) -> None:
    cluster.has_pod("vm-pod", on="n", vertical=a_vertical(using=ONE, maximum=EIGHT))
    cluster.restarts()
    assert (cluster.cpu("n")["R"], cluster.cpu("n")["B"]) == (8000, 7000)


def test_a_last_permit_from_before_room_was_given_back_claims_none_of_it(cluster: Growing) -> None:
    """The agent gave room back, no answer reached it, and after a restart its pod counts by what its containers have."""
    pod = cluster.has_pod("p", on="n", vertical=plain(SIX, maximum=EIGHT))
    cluster.ask(pod, SIX)
    cluster.decide(pod, ONE, last=SIX)
    resizing = plain(ONE, maximum=EIGHT).resizing
    cluster.change(pod, using=ONE, resizing=resizing)
    cluster.restarts()
    other = cluster.has_pod("other", on="n", vertical=None)
    cluster.store(structs.replace(other, kind=replace(other.kind, requests=EIGHT)))
    assert cluster.cpu("n")["R"] == 9000
    cluster.ask(pod, SIX, last=SIX)
    assert cluster.cpu("n")["R"] == 10_000
