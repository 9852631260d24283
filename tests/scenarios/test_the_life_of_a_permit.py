"""An agent asks, is answered, and the service restarts: what is granted, what is written, and in which order."""

from dataclasses import replace
from typing import Any

import pytest

from slackwater.model.events import MachineSeen, PermitNotWritten
from slackwater.model.ids import NodeName, PodUid
from slackwater.model.permits import Caller, PermitRefusal, PersistedPermit
from tests.support import installed
from tests.support.builders import a_node, a_pod, a_vertical, amounts
from tests.support.growing import LARGE, MEDIUM, SMALL, Growing, one_node

__all__ = ["one_node"]  # a fixture


def test_a_machine_that_we_placed_counts_by_its_use(cluster: Growing) -> None:
    pod = cluster.places("vm", on="n")
    assert cluster.reserved(pod) == SMALL
    assert cluster.cpu("n") == {"R": 1000, "B": 0, "CP": 0, "PAF": 0, "held": 0}


def test_a_machine_found_at_start_may_be_using_all_that_it_may(cluster: Growing) -> None:
    cluster.has_machine("vm", on="n")
    assert cluster.cpu("n") == {"R": 4000, "B": 3000, "CP": 0, "PAF": 0, "held": 0}


def test_the_first_request_ends_the_uncertainty(cluster: Growing) -> None:
    pod = cluster.has_machine("vm", on="n")
    answer = cluster.reported(cluster.decide(pod, SMALL))
    assert (answer.permit, answer.permit_limit_pending) == (SMALL, False)
    assert cluster.cpu("n") == {"R": 1000, "B": 0, "CP": 0, "PAF": 0, "held": 0}


def test_growth_above_the_permit_limit_is_answered_only_after_it_is_written(cluster: Growing) -> None:
    pod = cluster.has_machine("vm", on="n")
    cluster.ask(pod, SMALL)
    cluster.passes(1.5)
    cluster.write()
    assert cluster.record() == PersistedPermit(permit=SMALL, permit_limit=SMALL)
    decided = cluster.decide(pod, MEDIUM, last=SMALL)
    assert cluster.reported(decided).permit_limit_pending
    assert cluster.reported(decided).permit == SMALL
    assert cluster.reserved(pod) == MEDIUM  # nobody else may have the room meanwhile
    cluster.write()
    assert cluster.reported(decided).permit == MEDIUM
    assert not cluster.reported(decided).permit_limit_pending


def test_the_next_steps_need_no_write(cluster: Growing) -> None:
    pod = cluster.places("vm", on="n")
    cluster.passes(1.5)
    cluster.write()
    cluster.ask(pod, amounts("1250m", "5Gi"), last=SMALL)
    cluster.sent.clear()
    for cpu, memory in (("1500m", "6Gi"), ("1750m", "7Gi")):
        answer = cluster.reported(cluster.decide(pod, amounts(cpu, memory)))
        assert (answer.permit, answer.permit_limit_pending) == (amounts(cpu, memory), False)
    assert cluster.writes() == []


def test_a_permit_limit_never_passes_max_nor_the_room_of_the_node(cluster: Growing) -> None:
    pod = cluster.places("vm", on="n")
    cluster.passes(1.5)
    cluster.write()
    cluster.ask(pod, amounts("3500m", "14Gi"), last=SMALL)
    assert cluster.record() == PersistedPermit(permit=amounts("3500m", "14Gi"), permit_limit=LARGE)
    cluster.has_pod("other", on="n", vertical=None)
    cluster.store(a_pod("full", on="n", cpu="6250m", memory="1Gi"))
    cluster.passes(3)
    cluster.write()
    cluster.ask(pod, amounts("3500m", "15Gi"), last=amounts("3500m", "14Gi"))
    assert cluster.record() == PersistedPermit(permit=amounts("3500m", "15Gi"), permit_limit=amounts("3500m", "16Gi"))


def test_a_quiet_pod_keeps_no_room_for_its_next_steps(cluster: Growing) -> None:
    pod = cluster.places("vm", on="n")
    cluster.passes(1.5)
    cluster.write()
    cluster.ask(pod, MEDIUM, last=SMALL)
    cluster.passes(3)
    cluster.write()
    assert cluster.record() == PersistedPermit(permit=MEDIUM, permit_limit=MEDIUM)
    cluster.restarts()
    assert cluster.cpu("n") == {"R": 2000, "B": 0, "CP": 0, "PAF": 0, "held": 0}


def test_shrinking_is_written_lazily_at_most_once_a_second(cluster: Growing) -> None:
    pod = cluster.places("vm", on="n", vertical=a_vertical(using=LARGE))
    cluster.passes(1.5)
    cluster.write()
    for cpu in (3750, 3500, 3250, 3000, 2750):
        cluster.ask(pod, amounts(f"{cpu}m", "16Gi"))
        cluster.passes(0.3)
    assert len(cluster.writes()) <= 2
    cluster.passes(1.5)
    cluster.write()
    assert cluster.record() == PersistedPermit(permit=amounts("2750m", "16Gi"), permit_limit=amounts("2750m", "16Gi"))


def test_a_load_that_comes_and_goes_soon_costs_no_more_writes(cluster: Growing) -> None:
    pod = cluster.places("vm", on="n", vertical=a_vertical(maximum=amounts("4", "16Gi")))
    low, high = amounts("1", "4Gi"), amounts("1250m", "5Gi")
    writes = []
    for _ in range(8):
        before = cluster.state_machine.state.event_counts.permit_writes
        for size in (high, low):
            cluster.ask(pod, size)
            for _ in range(5):
                cluster.passes(1)
                cluster.write()
        writes.append(cluster.state_machine.state.event_counts.permit_writes - before)
    assert writes[:2] == [2, 2]
    assert writes[3:] == [0] * 5
    # Then it stays: in the end what is written is what is.
    cluster.passes(200)
    cluster.write()
    assert cluster.record() == PersistedPermit(permit=low, permit_limit=low)
    # After a long calm it counts as calm.
    cluster.passes(200)
    cluster.ask(pod, high)
    cluster.passes(3)
    cluster.write()
    assert cluster.record() == PersistedPermit(permit=high, permit_limit=high)


@pytest.mark.parametrize("pods_first", [False, True], ids=["machines-first", "pods-first"])
def test_after_a_restart_reserved_is_the_permit_limit_and_the_buffer_its_distance_to_the_permit(
    cluster: Growing, pods_first: bool
) -> None:
    pod = cluster.places("vm", on="n")
    cluster.passes(1.5)
    cluster.write()
    cluster.ask(pod, MEDIUM, last=SMALL)
    assert cluster.record() == PersistedPermit(permit=MEDIUM, permit_limit=amounts("3", "12Gi"))
    cluster.restarts(pods_first=pods_first)
    assert cluster.cpu("n") == {"R": 3000, "B": 1000, "CP": 0, "PAF": 0, "held": 0}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"permit":{"vCPUs":2,"mem":"8Gi"}}', '{"permit":1,"limit":2}'])
def test_a_broken_annotation_counts_as_none(cluster: Growing, text: str) -> None:
    pod = cluster.places("vm", on="n")
    machine = cluster.machines[a_pod("vm").key]
    cluster.machines[machine.key] = replace(machine, permit=text, resource_version=cluster.version())
    cluster.restarts()
    assert cluster.cpu("n") == {"R": 4000, "B": 3000, "CP": 0, "PAF": 0, "held": 0}
    cluster.ask(pod, SMALL)
    cluster.passes(2)
    cluster.write()
    assert cluster.record() == PersistedPermit(permit=SMALL, permit_limit=SMALL)


def test_room_that_was_given_back_is_granted_only_after_that_is_written(cluster: Growing) -> None:
    """Else a crash between the two would leave more promised on the node than it has."""
    big = cluster.places("big", on="n", vertical=a_vertical(using=amounts("8", "16Gi"), maximum=amounts("8", "16Gi")))
    small = cluster.places("small", on="n", vertical=a_vertical(maximum=amounts("8", "16Gi")))
    cluster.passes(1.5)
    cluster.write()
    cluster.change(big, using=SMALL)
    cluster.ask(big, SMALL)
    decided = cluster.decide(small, amounts("8", "16Gi"), last=SMALL)
    assert cluster.reported(decided).permit_limit_pending
    assert [effect.pod for effect in cluster.writes()] == [big.uid]
    cluster.restarts()
    assert cluster.cpu("n")["R"] == 9000
    cluster.ask(big, SMALL)
    decided = cluster.decide(small, amounts("8", "16Gi"), last=SMALL)
    cluster.write()
    assert cluster.reported(decided).permit == amounts("8", "16Gi")
    cluster.restarts()
    assert cluster.cpu("n") == {"R": 9000, "B": 0, "CP": 0, "PAF": 0, "held": 0}


def test_growth_within_the_permit_limit_waits_too_while_its_room_is_persisted_as_anothers(cluster: Growing) -> None:
    """Else a restart would find more used than there is: 4 + 4 CPUs of the others, 1 that `late` was written with."""
    others = [cluster.places(f"other-{n}", on="n") for n in range(2)]
    for pod in others:
        cluster.ask(pod, SMALL)
    late = cluster.places("late", on="n")
    cluster.ask(late, SMALL)
    cluster.passes(1.5)
    cluster.write()
    cluster.ask(late, amounts("1250m", "5Gi"))
    assert cluster.record("late") == PersistedPermit(permit=amounts("1250m", "5Gi"), permit_limit=amounts("2250m", "9Gi"))
    for pod in others:
        cluster.ask(pod, LARGE, last=SMALL)
    cluster.passes(1.5)
    cluster.write()
    cluster.decide(others[0], SMALL, last=LARGE)

    decided = cluster.decide(late, amounts("2250m", "9Gi"), last=amounts("1250m", "5Gi"))
    assert cluster.reported(decided).permit_limit_pending
    assert cluster.reported(decided).permit == amounts("1250m", "5Gi")
    cluster.write()
    assert cluster.reported(decided).permit == amounts("2250m", "9Gi")
    assert cluster.record("other-0") == PersistedPermit(permit=SMALL, permit_limit=SMALL)


def test_where_permit_limits_overlap_after_a_restart_the_first_to_grow_takes_no_node_over_total(cluster: Growing) -> None:
    """Each leads by a CPU into the same last one: 4.5 + 4.5 of 10, permit limits of 5.5 and 5.5."""
    wide = a_vertical(maximum=amounts("8", "32Gi"))
    pods = [cluster.places(name, on="n", vertical=wide) for name in ("one", "two")]
    have = amounts("4500m", "18Gi")
    for pod in pods:
        cluster.ask(pod, SMALL)
        cluster.passes(1.5)
        cluster.write()
        cluster.ask(pod, have)
        cluster.change(pod, using=have)
    want = PersistedPermit(permit=have, permit_limit=amounts("5500m", "22Gi"))
    assert [cluster.record(name) for name in ("one", "two")] == [want] * 2
    cluster.restarts()
    cpu = cluster.cpu("n")
    assert (cpu["R"], cpu["B"]) == (11_000, 2000)
    assert cluster.ask(pods[0], amounts("5500m", "22Gi"), last=have).permit == have
    cpu = cluster.cpu("n")
    assert (cpu["R"], cpu["B"], cpu["CP"]) == (10_000, 1000, 1000)
    assert cluster.ask(pods[1], have, last=have).permit == have
    assert cluster.ask(pods[0], amounts("5500m", "22Gi"), last=have).permit == amounts("5500m", "22Gi")
    assert cluster.cpu("n")["R"] == 10_000


def test_without_a_write_an_agent_gets_what_was_written_before(cluster: Growing) -> None:
    pod = cluster.places("vm", on="n")
    cluster.passes(1.5)
    cluster.write()
    decided = cluster.decide(pod, MEDIUM, last=SMALL)
    (effect,) = cluster.writes()
    cluster.sent.clear()
    settled = set[PodUid]()
    cluster.state_machine.permit_limits.settled.add_reader(settled)
    cluster.take(PermitNotWritten(effect.pod, "503"))
    assert pod.uid in settled
    assert (cluster.reported(decided).permit, cluster.reported(decided).permit_limit_pending) == (SMALL, True)
    cluster.passes(6)
    again = cluster.decide(pod, MEDIUM, last=SMALL)
    cluster.write()
    assert cluster.reported(again).permit == MEDIUM


def test_another_text_than_expected_is_read_and_written_again(cluster: Growing) -> None:
    pod = cluster.places("vm", on="n")
    cluster.passes(1.5)
    cluster.write()
    machine = cluster.machines[a_pod("vm").key]
    cluster.machines[machine.key] = replace(machine, permit="{}", resource_version=cluster.version())
    decided = cluster.decide(pod, MEDIUM, last=SMALL)
    cluster.write()
    assert cluster.reported(decided).permit == MEDIUM
    cluster.passes(3)
    cluster.write()
    assert cluster.record() == PersistedPermit(permit=MEDIUM, permit_limit=MEDIUM)


def test_an_older_observation_of_the_machine_does_not_undo_a_write(cluster: Growing) -> None:
    pod = cluster.places("vm", on="n")
    old = cluster.machines[a_pod("vm").key]
    cluster.passes(1.5)
    cluster.write()
    cluster.take(MachineSeen(old))
    assert cluster.reported(cluster.decide(pod, MEDIUM, last=SMALL)).permit_limit_pending


def test_a_last_permit_is_honoured_at_once_and_above_total(cluster: Growing) -> None:
    pod = cluster.places("vm", on="n", vertical=a_vertical(maximum=amounts("12", "16Gi")))
    cluster.store(a_pod("rest", on="n", cpu="9", memory="1Gi"))
    cluster.passes(1.5)
    cluster.write()
    answer = cluster.reported(cluster.decide(pod, amounts("3", "4Gi"), last=amounts("2500m", "4Gi")))
    assert answer.permit == amounts("2500m", "4Gi")
    assert not answer.permit_limit_pending
    assert cluster.cpu("n") == {"R": 11_500, "B": 0, "CP": 500, "PAF": 0, "held": 0}


def test_room_held_for_others_is_not_given_to_a_growing_pod(cluster: Growing) -> None:
    pod = cluster.places("vm", on="n", vertical=a_vertical(maximum=amounts("12", "16Gi")))
    waiting = a_pod("waiting", cpu="8", memory="1Gi")
    cluster.state_machine.filter(waiting, cluster.state_machine.state.nodes.rows_of(["n"]), cluster.state_machine_now())
    assert cluster.ask(pod, amounts("3", "4Gi"), last=SMALL).permit == amounts("2", "4Gi")


def test_refusals_before_the_formula(cluster: Growing) -> None:
    pod = cluster.places("vm", on="n")
    plain = cluster.store(a_pod("plain", on="n"))
    unplaced = cluster.has_machine("unplaced", on="")

    def refusal(*args: Any, **parts: Any) -> tuple[int, str]:
        found = cluster.decide(*args, **parts)
        assert isinstance(found, PermitRefusal)
        return found.status, found.message

    assert refusal(a_pod("nobody"), SMALL) == (404, "pod not found")
    assert refusal(unplaced, SMALL) == (404, "pod not found")
    assert refusal(plain, SMALL) == (400, "pod is not associated with a VM")
    assert refusal(pod, SMALL, unit=amounts("250m", "1536Mi")) == (
        400,
        "computeUnit is not divisible by VM memory slot size: {0.25 1536Mi} not divisible by 1Gi",
    )
    assert refusal(pod, SMALL, caller=Caller(node=NodeName("other"), name="agent"))[0] == 403
    reported = cluster.reported(cluster.decide(pod, SMALL, caller=Caller(node=NodeName("n"), name="agent")))
    assert reported.permit == SMALL
    cluster.deletes(pod)
    assert refusal(pod, SMALL) == (404, "pod not found")


def test_memory_counts_slots_in_version_3_and_the_unit_may_be_missing(cluster: Growing) -> None:
    pod = cluster.places("vm", on="n", vertical=a_vertical(maximum=amounts("4", "16Gi"), slot_bytes=512 << 20))
    decided = cluster.decide(pod, amounts("2", "16"), last=amounts("1", "8"), version=5, unit=None)
    cluster.write()
    answer = cluster.reported(decided)
    assert (answer.permit, answer.slot_bytes) == (MEDIUM, 512 << 20)


def test_requests_that_are_no_multiples_are_counted_logged_once_and_granted(cluster: Growing) -> None:
    pod = cluster.places("vm", on="n")
    firsts = []
    for memory in ("4100Mi", "4200Mi"):
        decided = cluster.decide(pod, amounts("1", memory))
        assert not isinstance(decided, PermitRefusal)
        firsts.append(decided.first_odd)
        assert cluster.reported(decided).permit == amounts("1", memory)
    assert firsts == [True, False]
    assert cluster.state_machine.state.event_counts.odd_requests == 2


def test_one_answer_grows_by_so_many_units_at_most() -> None:
    cluster = Growing(replace(installed.POLICY, vertical=replace(installed.VERTICAL, max_step_units=2)))
    cluster.has_node(a_node("n", cpu="10", memory="40Gi"))
    pod = cluster.places("vm", on="n")
    assert cluster.ask(pod, LARGE, last=SMALL).permit == amounts("1500m", "6Gi")
    assert cluster.ask(pod, LARGE, last=amounts("1500m", "6Gi")).permit == MEDIUM
    assert cluster.cpu("n")["CP"] == 0
