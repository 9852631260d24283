"""Machines that change while they run, and pods about which something is missing: what they count for, what they may have."""

from dataclasses import replace

from msgspec import structs

from slackwater.model.effects import WritePermit
from tests.support.builders import a_pod, a_vertical, amounts
from tests.support.growing import MEDIUM, SMALL, Growing, one_node

__all__ = ["one_node"]  # a fixture


def test_the_bounds_of_a_running_machine_change(cluster: Growing) -> None:
    pod = cluster.places("vm", on="n")
    cluster.ask(pod, SMALL)
    cluster.change(pod, max=amounts("6", "24Gi"))
    assert cluster.cpu("n") == {"R": 6000, "B": 5000, "CP": 0, "PAF": 0, "held": 0}
    cluster.ask(pod, SMALL, last=SMALL)
    assert cluster.cpu("n") == {"R": 1000, "B": 0, "CP": 0, "PAF": 0, "held": 0}


def test_scaling_is_switched_off_and_then_the_use_changes(cluster: Growing) -> None:
    pod = cluster.places("vm", on="n")
    cluster.ask(pod, MEDIUM, last=SMALL)
    cluster.change(pod, scaling=False)
    assert cluster.cpu("n")["R"] == 2000
    cluster.change(pod, using=amounts("3", "12Gi"))
    assert cluster.cpu("n")["R"] == 3000
    cluster.deletes(pod)
    assert cluster.cpu("n") == {"R": 0, "B": 0, "CP": 0, "PAF": 0, "held": 0}


def test_a_machine_of_another_scheduler_counts_by_its_use(cluster: Growing) -> None:
    machine = replace(a_vertical(), machine="other")
    pod = a_pod("other", on="n")
    cluster.store(structs.replace(pod, vertical=machine, kind=replace(pod.kind, scheduler_name="default-scheduler")))
    assert cluster.cpu("n") == {"R": 1000, "B": 0, "CP": 0, "PAF": 0, "held": 0}


def test_the_permit_is_on_the_pod_where_there_is_no_machine_object(cluster: Growing) -> None:
    vertical = replace(a_vertical(), machine="unknown")
    pod = cluster.has_pod("alone", on="n", vertical=vertical)
    cluster.ask(pod, SMALL)
    cluster.passes(1.5)
    (effect,) = cluster.writes()
    assert (effect.on, effect.key, effect.uid, effect.before) == ("pod", pod.key, pod.uid, None)
    cluster.write()
    cluster.restarts()
    assert cluster.cpu("n") == {"R": 1000, "B": 0, "CP": 0, "PAF": 0, "held": 0}


def test_a_pod_whose_annotations_cannot_be_read_counts_by_its_requests_and_is_not_placed(cluster: Growing) -> None:
    cluster.store(structs.replace(a_pod("broken", on="n", cpu="700m"), vertical_problem="annotation: not JSON"))
    assert cluster.cpu("n")["R"] == 700
    pending = structs.replace(a_pod("pending"), vertical_problem="annotation: not JSON")
    codes = cluster.state_machine.filter(pending, cluster.state_machine.state.nodes.rows_of(["n"]), cluster.state_machine_now())
    assert codes.all()


def test_annotations_that_break_on_a_running_machine_change_nothing(cluster: Growing) -> None:
    pod = cluster.places("vm", on="n")
    cluster.ask(pod, MEDIUM, last=SMALL)
    cluster.store(structs.replace(cluster.pods[pod.key], vertical=None, vertical_problem="annotation: not JSON"))
    assert cluster.reserved(pod) == MEDIUM


def test_nothing_is_written_for_a_pod_whose_agent_has_not_asked(cluster: Growing) -> None:
    cluster.has_machine("vm", on="n")
    cluster.passes(5)
    assert [effect for effect in cluster.sent if isinstance(effect, WritePermit)] == []
