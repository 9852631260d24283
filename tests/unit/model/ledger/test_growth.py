"""An agent asks: every worked row of the reference's section 2.4, upstream's table of section 5, and our clamp."""

import pytest

from slackwater.model.pod_resources import PermitQuestion, PodResources, settled
from slackwater.model.resources import NOTHING, Amounts
from slackwater_protocol.units import Bytes, MilliCpu

#: Larger than anything asked: the formula below the clamp.
UNBOUND = 10**15
Numbers = tuple[int, int, int]


def ask(
    pod: Numbers,
    node: Numbers,
    asked: int,
    last_permit: int | None,
    *,
    total: int,
    unit: int,
    maximum: int = UNBOUND,
    withhold: bool = False,
    max_step_units: int = 0,
) -> tuple[Numbers, Numbers]:
    """(r, b, cp) and (R, B, CP) after the request; the same numbers for both resources."""
    pod_resources = PodResources(
        reserved=both(pod[0]), buffer=both(pod[1]), capacity_pressure=both(pod[2]), min=NOTHING, max=both(maximum)
    )
    question = PermitQuestion(
        asked=both(asked),
        unit=both(unit),
        last_permit=both(last_permit or 0),
        withhold=withhold,
        max_step_units=max_step_units,
    )
    after = settled(pod_resources, both(max(total - node[0], 0)), question)
    for amounts in (after.reserved, after.buffer, after.capacity_pressure):
        assert amounts == both(amounts.cpu)
    r, b, cp = after.reserved.cpu, after.buffer.cpu, after.capacity_pressure.cpu
    return (r, b, cp), (node[0] + r - pod[0], node[1] + b - pod[1], node[2] + cp - pod[2])


def both(amount: int) -> Amounts:
    return Amounts(MilliCpu(amount), Bytes(amount))


WORKED = [
    ((4000, 3000, 0), (8000, 4500, 0), 1000, None, (1000, 0, 0), (5000, 1500, 0)),
    ((2000, 1500, 0), (5000, 1500, 0), 1000, 1500, (1000, 0, 0), (4000, 0, 0)),
    ((2000, 0, 0), (4500, 0, 0), 12000, 2000, (7500, 0, 4500), (10000, 0, 4500)),
    ((500, 0, 0), (10000, 0, 0), 1000, 500, (500, 0, 500), (10000, 0, 500)),
    ((500, 0, 500), (10000, 0, 500), 750, 500, (500, 0, 250), (10000, 0, 250)),
    ((500, 0, 250), (10000, 0, 250), 500, 500, (500, 0, 0), (10000, 0, 0)),
    ((500, 0, 0), (10000, 0, 0), 1500, 1500, (1500, 0, 0), (11000, 0, 0)),
    ((1500, 0, 0), (11000, 0, 0), 2500, 2000, (2000, 0, 500), (11500, 0, 500)),
]


@pytest.mark.parametrize(("pod", "node", "asked", "last_permit", "want_pod", "want_node"), WORKED)
def test_each_worked_row(
    *, pod: Numbers, node: Numbers, asked: int, last_permit: int | None, want_pod: Numbers, want_node: Numbers
) -> None:
    assert ask(pod, node, asked, last_permit, total=10_000, unit=250) == (want_pod, want_node)


def test_the_worked_row_of_memory() -> None:
    gib = 1 << 30
    pod, node = ask((2 * gib, 0, 0), (38 * gib, 0, 0), 6 * gib, 2 * gib, total=40 * gib, unit=gib)
    assert pod == (4 * gib, 0, 2 * gib)
    assert node == (40 * gib, 0, 2 * gib)


UPSTREAM = [
    pytest.param(1, (2, 0, 0), (5, 0, 0), 3, 2, (3, 0, 0), (6, 0, 0), id="SimpleUpscaleApprovalWithinLimits"),
    pytest.param(1, (3, 0, 0), (6, 0, 0), 2, 3, (2, 0, 0), (5, 0, 0), id="SimpleDownscaleApprovalWithinLimits"),
    pytest.param(1, (2, 0, 0), (5, 0, 0), 2, 2, (2, 0, 0), (5, 0, 0), id="SimpleNoopApproval"),
    pytest.param(1, (4, 2, 0), (7, 2, 0), 2, None, (2, 0, 0), (5, 0, 0), id="NoopRemovesBuffer"),
    pytest.param(1, (1, 0, 0), (8, 0, 0), 5, 1, (3, 0, 2), (10, 0, 2), id="UpscaleApprovedUpToLimits"),
    pytest.param(2, (4, 0, 0), (7, 0, 0), 8, 4, (6, 0, 2), (9, 0, 2), id="UpscaleRejectedAtLimitsWithUnevenFactor"),
    pytest.param(1, (2, 0, 0), (12, 0, 0), 3, 2, (2, 0, 1), (12, 0, 1), id="UpscaleRejectedAboveLimits"),
    pytest.param(1, (4, 0, 0), (15, 0, 0), 2, 4, (2, 0, 0), (13, 0, 0), id="DownscaleApprovedAboveLimits"),
    pytest.param(1, (2, 0, 0), (12, 0, 0), 3, 3, (3, 0, 0), (13, 0, 0), id="UpscaleApprovedUpToPermitAboveLimits"),
]


@pytest.mark.parametrize(("unit", "pod", "node", "asked", "last_permit", "want_pod", "want_node"), UPSTREAM)
def test_upstreams_table_of_requests_without_migration(
    *, unit: int, pod: Numbers, node: Numbers, asked: int, last_permit: int | None, want_pod: Numbers, want_node: Numbers
) -> None:
    assert ask(pod, node, asked, last_permit, total=10, unit=unit) == (want_pod, want_node)


#: Rows of upstream's later TestPodReconciling that say the same of this formula; Total is 10 units of 1000 unless said.
RECONCILING = [
    pytest.param(10_000, 3_000, 3_000, 3_000, (3_000, 3_000), id="normal-pod-nothing-to-do"),
    pytest.param(10_000, 3_000, 3_000, 5_000, (5_000, 5_000), id="upscale-full"),
    pytest.param(10_000, 8_000, 3_000, 5_000, (5_000, 10_000), id="upscale-full-exact"),
    pytest.param(10_000, 9_000, 3_000, 5_000, (4_000, 10_000), id="upscale-partial"),
    pytest.param(10_000, 10_000, 3_000, 5_000, (3_000, 10_000), id="upscale-blocked-full"),
    pytest.param(10_500, 9_000, 3_000, 5_000, (4_000, 10_000), id="upscale-blocked-not-divisible"),
    pytest.param(10_000, 12_000, 3_000, 3_000, (3_000, 12_000), id="overfull-nothing-to-do"),
    pytest.param(10_000, 12_000, 4_000, 3_000, (3_000, 11_000), id="overfull-downscale"),
]


@pytest.mark.parametrize(("total", "node", "pod", "asked", "want"), RECONCILING)
def test_rows_of_the_later_release_that_hold_here_too(
    total: int, node: int, pod: int, asked: int, want: tuple[int, int]
) -> None:
    after, numbers = ask((pod, 0, 0), (node, 0, 0), asked, None, total=total, unit=1000)
    assert (after[0], numbers[0]) == want


@pytest.mark.parametrize(
    ("pod", "asked", "last_permit", "maximum", "want"),
    [
        pytest.param((1000, 0, 0), 12_000, None, 4000, (4000, 0, 0), id="above-max"),
        pytest.param((5000, 0, 0), 12_000, None, 4000, (5000, 0, 0), id="held-above-max"),
        pytest.param((1000, 0, 0), 12_000, 6000, 4000, (6000, 0, 0), id="last-permit-above-max"),
        pytest.param((1000, 0, 0), 100, None, 4000, (100, 0, 0), id="below-min-is-not-raised"),
    ],
)
def test_a_request_cut_to_the_bounds_is_no_capacity_pressure(
    pod: Numbers, asked: int, last_permit: int | None, maximum: int, want: Numbers
) -> None:
    after, _ = ask(pod, (pod[0], 0, 0), asked, last_permit, total=100_000, unit=250, maximum=maximum)
    assert after == want


def test_below_the_clamp_what_has_no_room_is_capacity_pressure() -> None:
    after, _ = ask((1000, 0, 0), (9000, 0, 0), 12_000, None, total=10_000, unit=250, maximum=4000)
    assert after == (2000, 0, 2000)


def test_growth_that_is_granted_whole_is_granted_as_asked_whatever_the_unit() -> None:
    after, _ = ask((1000, 0, 0), (1000, 0, 0), 1333, None, total=10_000, unit=250)
    assert after == (1333, 0, 0)


def test_a_pod_about_to_migrate_does_not_grow_and_its_request_is_pressure() -> None:
    assert ask((1000, 0, 0), (5000, 0, 0), 3000, 1000, total=10_000, unit=250, withhold=True) == (
        (1000, 0, 2000),
        (5000, 0, 2000),
    )
    assert ask((1000, 0, 0), (5000, 0, 0), 500, 1000, total=10_000, unit=250, withhold=True)[0] == (500, 0, 0)


@pytest.mark.parametrize(
    ("asked", "last_permit", "want"),
    [
        pytest.param(9000, None, (2000, 0, 0), id="one-answer-grows-by-four-units"),
        pytest.param(9000, 5000, (5000, 0, 0), id="last-permit-is-honoured"),
        pytest.param(1500, None, (1500, 0, 0), id="less-than-a-step"),
    ],
)
def test_a_step_caps_one_answer_and_leaves_no_pressure(asked: int, last_permit: int | None, want: Numbers) -> None:
    after, _ = ask((1000, 0, 0), (1000, 0, 0), asked, last_permit, total=10_000, unit=250, max_step_units=4)
    assert after == want
    full, _ = ask((1000, 0, 0), (10_000, 0, 0), 9000, None, total=10_000, unit=250, max_step_units=4)
    assert full == (1000, 0, 1000)
