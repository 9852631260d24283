"""The vector verdict equals the row-by-row one; more never fits on more; the curve stays in its range."""

from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from slackwater.fit.plugins.node_accounting import fits_on, judge_ledger
from slackwater.fit.score_curve import extender_scores, fractions, randomized
from slackwater.model.ids import Row
from slackwater.model.ledger import Ledger
from slackwater.model.pod_resources import ordinary_resources
from slackwater.model.reasons import Reason
from slackwater.model.resources import NOTHING, Amounts
from slackwater_protocol.units import Bytes, MilliCpu
from tests.support import installed

small = st.integers(0, 6)
sizes = st.builds(lambda cpu, memory: Amounts(MilliCpu(cpu), Bytes(memory)), small, small)
rows_of_nodes = st.lists(st.tuples(sizes, sizes, sizes), min_size=1, max_size=6)  # total, reserved, held


def a_ledger(nodes: list[tuple[Amounts, Amounts, Amounts]]) -> Ledger:
    ledger = Ledger()
    for number, (total, reserved, held) in enumerate(nodes):
        ledger.open_row(Row(number), total, installed.NODES)
        ledger.admit(Row(number), ordinary_resources(reserved))
        ledger.hold(Row(number), held)
    return ledger


def judge_row(wanted: Amounts, total: Amounts, reserved: Amounts, held: Amounts) -> Reason:
    """The rule for one node, written as one would say it."""
    names = (
        (Reason.CPU_ABOVE_TOTAL, Reason.NOT_ENOUGH_CPU),
        (Reason.MEMORY_ABOVE_TOTAL, Reason.NOT_ENOUGH_MEMORY),
    )
    found = []
    for want, of, used, kept, (above, full) in zip(wanted, total, reserved, held, names, strict=True):
        if want and want > of:
            found.append((3, above))
        elif want and want > of - used:
            found.append((2, full))
        elif want and want > of - used - kept:
            found.append((1, Reason.HELD_FOR_OTHERS))
    worst = max((severity for severity, _ in found), default=0)
    return next((reason for severity, reason in found if severity == worst), Reason.OK)


@given(nodes=rows_of_nodes, wanted=sizes)
def test_the_vector_verdict_equals_the_row_by_row_rule(nodes: list[tuple[Amounts, Amounts, Amounts]], wanted: Amounts) -> None:
    ledger = a_ledger(nodes)
    codes = judge_ledger(wanted, ledger.columns, np.arange(len(nodes)))
    assert codes.tolist() == [judge_row(wanted, *node) for node in nodes]
    assert [code == Reason.OK for code in codes] == [fits_on(wanted, ledger.columns, row) for row in range(len(nodes))]
    assert codes.tolist() == [int(judge_ledger(wanted, ledger.columns, np.array([row]))[0]) for row in range(len(nodes))]


@given(nodes=rows_of_nodes, wanted=sizes, more=sizes)
def test_more_request_never_fits_on_more_nodes(
    nodes: list[tuple[Amounts, Amounts, Amounts]], wanted: Amounts, more: Amounts
) -> None:
    ledger, rows = a_ledger(nodes), np.arange(len(nodes))
    fits = judge_ledger(wanted, ledger.columns, rows) == Reason.OK
    fits_more = judge_ledger(wanted.plus(more), ledger.columns, rows) == Reason.OK
    assert not (fits_more & ~fits).any()


fraction = st.floats(0, 1)


@given(nodes=rows_of_nodes, wanted=sizes, low=fraction, high=fraction, peak=fraction)
def test_scores_stay_in_range_and_are_0_exactly_where_nothing_fits(
    nodes: list[tuple[Amounts, Amounts, Amounts]], wanted: Amounts, low: float, high: float, peak: float
) -> None:
    ledger, rows = a_ledger(nodes), np.arange(len(nodes))
    curve = replace(installed.SCORE, min_usage=low, max_usage=high, peak=peak)
    exact = fractions(wanted, ledger.columns, rows, curve)
    scores = extender_scores(wanted, ledger.columns, rows, curve)
    assert ((exact >= 0) & (exact <= 1 + 1e-12)).all()
    assert ((scores >= 0) & (scores <= 10)).all()
    assert ((scores > 0) == (exact > 0)).all()
    order = np.argsort(exact)
    assert (np.diff(scores[order]) >= 0).all()
    shaken = randomized(scores, np.random.default_rng(0))
    assert ((shaken >= np.minimum(scores, 1)) & (shaken <= scores)).all()


def gib(count: int) -> Bytes:
    return Bytes(count << 30)


def test_the_worked_scores_of_the_reference() -> None:
    """neondatabase/autoscaling, main: n1 10 CPU/40 GiB with 3500/12 GiB, n2 20 CPU/80 GiB empty."""
    ledger = Ledger()
    ledger.open_row(Row(0), Amounts(MilliCpu(10_000), gib(40)), installed.NODES)
    ledger.open_row(Row(1), Amounts(MilliCpu(20_000), gib(80)), installed.NODES)
    ledger.admit(Row(0), ordinary_resources(Amounts(MilliCpu(3_500), gib(12))))
    rows = np.arange(2)
    curve = installed.SCORE
    assert (100 * fractions(Amounts(MilliCpu(1_000), gib(4)), ledger.columns, rows, curve)).astype(int).tolist() == [37, 53]
    assert (100 * fractions(Amounts(MilliCpu(11_000), gib(44)), ledger.columns, rows, curve)).astype(int).tolist() == [0, 84]
    assert (100 * fractions(Amounts(MilliCpu(20_000), gib(80)), ledger.columns, rows, curve)).astype(int).tolist() == [0, 0]


@given(reserved=sizes, buffer=sizes, total=sizes)
def test_what_is_admitted_and_released_leaves_the_ledger_as_it_was(reserved: Amounts, buffer: Amounts, total: Amounts) -> None:
    ledger = a_ledger([(total, NOTHING, NOTHING)])
    before = ledger.columns.copy()
    ledger.admit(Row(0), ordinary_resources(reserved))
    ledger.hold(Row(0), buffer)
    ledger.release(Row(0), ordinary_resources(reserved))
    ledger.hold(Row(0), buffer, -1)
    assert ledger.columns.same_as(before)
