"""How pods start to count: neondatabase/autoscaling v0.36.1, and the annotation that a restart reads."""

from dataclasses import replace

import pytest

from slackwater.model.ids import Row
from slackwater.model.ledger import Ledger, Watermark
from slackwater.model.pod_resources import (
    PodResources,
    certain_resources,
    ordinary_resources,
    resources_of_unknown_permit,
    restored_resources,
)
from slackwater.model.resources import NOTHING
from tests.support import installed
from tests.support.builders import a_vertical, amounts

ROW = Row(0)


def a_ledger(*, cpu: str, memory: str, watermark_ppm: int) -> Ledger:
    ledger = Ledger()
    policy = replace(installed.NODES, watermark=Watermark(cpu=watermark_ppm, memory=watermark_ppm))
    ledger.open_row(ROW, amounts(cpu, memory), policy)
    return ledger


def test_the_worked_example_of_admission_adds_up() -> None:
    ledger = a_ledger(cpu="10", memory="40Gi", watermark_ppm=800_000)
    a = a_vertical(using=amounts("1", "4Gi"), maximum=amounts("4", "16Gi"))
    b = a_vertical(using=amounts("500m", "2Gi"), maximum=amounts("2", "8Gi"))
    c = a_vertical(using=amounts("500m", "2Gi"), maximum=amounts("8", "8Gi"))
    pod_resources_of = [
        resources_of_unknown_permit(a),
        resources_of_unknown_permit(b),
        certain_resources(c),
        ordinary_resources(amounts("1500m", "4Gi")),
    ]
    for pod_resources in pod_resources_of:
        ledger.admit(ROW, pod_resources)
    node = ledger.numbers(ROW)
    assert (node.watermark.cpu, node.reserved, node.buffer) == (8000, amounts("8", "30Gi"), amounts("4500m", "18Gi"))
    assert (pod_resources_of[0].reserved.cpu, pod_resources_of[0].buffer.cpu) == (4000, 3000)
    assert (pod_resources_of[1].reserved.cpu, pod_resources_of[1].buffer.cpu) == (2000, 1500)
    assert (pod_resources_of[2].reserved.cpu, pod_resources_of[2].buffer.cpu) == (500, 0)
    for pod_resources in pod_resources_of:
        ledger.release(ROW, pod_resources)
    assert ledger.numbers(ROW).reserved == ledger.numbers(ROW).buffer == NOTHING


@pytest.mark.parametrize(
    ("total", "ppm", "want_watermark"),
    [
        pytest.param(("10", "10Gi"), 900_000, (9000, 9 << 30), id="0.9"),
        pytest.param(("10", "40Gi"), 800_000, (8000, 32 << 30), id="0.8"),
        pytest.param(("3333m", "1"), 900_000, (2999, 0), id="truncated"),
    ],
)
def test_the_watermark_is_a_truncated_share_of_total(total: tuple[str, str], ppm: int, want_watermark: tuple[int, int]) -> None:
    assert a_ledger(cpu=total[0], memory=total[1], watermark_ppm=ppm).numbers(ROW).watermark == want_watermark


@pytest.mark.parametrize(
    ("before", "pod_max", "buffer", "want_reserved", "want_buffer", "want_over"),
    [
        pytest.param((6, 0), 4, 0, 10, 0, False, id="SimpleWithinBudget"),
        pytest.param((4, 2), 7, 3, 11, 5, False, id="SimpleWithinBudgetWithBuffer"),
        pytest.param((4, 0), 8, 0, 12, 0, False, id="ExactlyWithinBudget"),
        pytest.param((7, 0), 8, 0, 15, 0, True, id="BecomesOverbudget"),
        pytest.param((7, 5), 8, 4, 15, 9, True, id="OverbudgetOnlyWithBuffer"),
        pytest.param((16, 0), 8, 0, 24, 0, True, id="AlreadyOverbudget"),
        pytest.param((16, 8), 8, 4, 24, 12, True, id="AlreadyOverbudgetWithBuffer"),
    ],
)
def test_reserve_is_never_refused_and_adds_what_the_pod_may_use(
    *, before: tuple[int, int], pod_max: int, buffer: int, want_reserved: int, want_buffer: int, want_over: bool
) -> None:
    """The rows of upstream's Test_handleReserve: Total is 12."""
    ledger = a_ledger(cpu="12", memory="12", watermark_ppm=900_000)
    ledger.admit(ROW, PodResources(reserved=amounts(f"{before[0]}"), buffer=amounts(f"{before[1]}")))
    pod = a_vertical(using=amounts(f"{pod_max - buffer}"), maximum=amounts(f"{pod_max}"))
    ledger.admit(ROW, resources_of_unknown_permit(pod))
    node = ledger.numbers(ROW)
    assert (node.reserved.cpu, node.buffer.cpu) == (want_reserved * 1000, want_buffer * 1000)
    assert (node.reserved.cpu > node.total.cpu) is want_over


def test_a_restart_reads_permit_limit_and_permit_back() -> None:
    pod = a_vertical(using=amounts("1", "1Gi"), maximum=amounts("4", "4Gi"))
    pod_resources = restored_resources(pod, permit=amounts("1", "1Gi"), permit_limit=amounts("3", "2Gi"))
    assert (pod_resources.reserved, pod_resources.buffer) == (amounts("3", "2Gi"), amounts("2", "1Gi"))
    quiet = restored_resources(pod, permit=amounts("2", "2Gi"), permit_limit=amounts("2", "2Gi"))
    assert (quiet.reserved, quiet.buffer) == (amounts("2", "2Gi"), NOTHING)


def test_what_a_pod_uses_counts_even_above_its_limits() -> None:
    pod = a_vertical(using=amounts("5", "1Gi"), maximum=amounts("4", "4Gi"))
    assert resources_of_unknown_permit(pod).reserved == amounts("5", "4Gi")
    assert resources_of_unknown_permit(pod).buffer == amounts("0", "3Gi")
    restored = restored_resources(pod, permit=amounts("1", "1Gi"), permit_limit=amounts("2", "1Gi"))
    assert (restored.reserved, restored.buffer) == (amounts("5", "1Gi"), amounts("4", "0"))
