"""Every other change of a pod's account: the rows of the reference's section 2.5."""

from slackwater.model.ids import Row
from slackwater.model.ledger import Ledger
from slackwater.model.pod_resources import (
    PodResources,
    bounds_changed,
    migration_ended,
    migration_started,
    scaling_disabled,
    use_changed,
)
from slackwater.model.resources import NOTHING
from tests.support import installed
from tests.support.builders import amounts

POD = PodResources(
    reserved=amounts("4", "16Gi"),
    buffer=amounts("3", "12Gi"),
    capacity_pressure=amounts("500m", "1Gi"),
    min=amounts("500m", "1Gi"),
    max=amounts("4", "16Gi"),
)


def test_a_migration_accounts_for_reserved_and_capacity_pressure_without_the_buffer() -> None:
    after = migration_started(POD)
    assert (after.reserved, after.buffer) == (amounts("1", "4Gi"), NOTHING)
    assert after.accounted_for == amounts("1500m", "5Gi")
    assert migration_ended(after).accounted_for == NOTHING
    assert migration_ended(after).reserved == after.reserved


def test_deleting_a_migrating_pod_takes_its_pressure_with_it() -> None:
    """The worked example: r 500, PAF 500, R 10000 becomes R 9500, PAF 0."""
    ledger, row = Ledger(), Row(0)
    ledger.open_row(row, amounts("10", "40Gi"), installed.NODES)
    ledger.admit(row, PodResources(reserved=amounts("9500m")))
    pod = PodResources(reserved=amounts("500m"))
    ledger.admit(row, pod)
    migrating = migration_started(pod)
    ledger.change(row, pod, migrating)
    assert (ledger.numbers(row).reserved.cpu, ledger.numbers(row).pressure_accounted_for.cpu) == (10_000, 500)
    ledger.release(row, migrating)
    assert (ledger.numbers(row).reserved.cpu, ledger.numbers(row).pressure_accounted_for.cpu) == (9500, 0)


def test_switching_scaling_off_takes_buffer_and_pressure_back() -> None:
    after = scaling_disabled(POD)
    assert (after.reserved, after.buffer, after.capacity_pressure) == (amounts("1", "4Gi"), NOTHING, NOTHING)


def test_use_of_a_pod_that_does_not_scale_is_what_is_reserved() -> None:
    assert use_changed(scaling_disabled(POD), amounts("2", "8Gi")).reserved == amounts("2", "8Gi")


def test_a_new_max_makes_the_difference_uncertain_again() -> None:
    heard = PodResources(reserved=amounts("1", "4Gi"), max=amounts("4", "16Gi"))
    after = bounds_changed(heard, minimum=amounts("500m", "1Gi"), maximum=amounts("6", "16Gi"))
    assert (after.reserved, after.buffer) == (amounts("6", "4Gi"), amounts("5", "0"))
    assert (after.min, after.max) == (amounts("500m", "1Gi"), amounts("6", "16Gi"))


def test_a_lower_max_never_takes_what_is_in_use() -> None:
    after = bounds_changed(POD, minimum=NOTHING, maximum=amounts("500m", "8Gi"))
    assert (after.reserved, after.buffer) == (amounts("1", "8Gi"), amounts("0", "4Gi"))


def test_an_unchanged_max_moves_only_min() -> None:
    after = bounds_changed(POD, minimum=amounts("1", "2Gi"), maximum=POD.max)
    assert (after.reserved, after.buffer, after.min) == (POD.reserved, POD.buffer, amounts("1", "2Gi"))
