"""What a report says of decisions adds up: their money is the difference between the sides' money."""

from collections.abc import Sequence
from decimal import Decimal
from io import BytesIO
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from slackwater.app.counterfactual.lines import SIDES, AnyLine, Began, NodeCame, NodeWent, Sample, Side, written
from slackwater.app.report.answer import ReportAnswer
from slackwater.app.report.log_files import LogFiles
from slackwater.app.report.report import report_answer

PRICES = {"a": 96_000, "b": 1, "c": 7_777_777, "d": 333_333}
#: Seconds until it happens, which may be below 0; on which side, to which node, by which decision. A step without a node is a
#: restart.
Step = tuple[float, Side, str | None, int | None]
STEPS = st.lists(
    st.tuples(
        st.floats(0, 120) | st.sampled_from([-50.0, 2_000.0]),
        st.sampled_from(SIDES),
        st.sampled_from([*PRICES, *PRICES, None]),
        st.sampled_from([None, 1, 2, 3]),
    ),
    max_size=30,
)


def log_of(steps: Sequence[Step], sides: tuple[Side, ...]) -> list[AnyLine]:
    """A log in which samples follow each change at once. `nodes`: of each side; at a restart all begin with the real ones."""
    at, lines, nodes = 1_000_000.0, list[AnyLine](), {side: set[str]() for side in sides}
    for gone, side, node, decision in [(0.0, sides[0], None, None), *steps]:
        at += gone
        if node is None:
            nodes = {side: set(nodes["real"]) for side in sides}
            lines.append(Began(at=at, version="1", sides=sides, currency="USD"))
            lines += [NodeCame(at=at, side=each, node=name, micros=PRICES[name]) for each in sides for name in nodes[each]]
        elif side in sides and node in nodes[side]:
            nodes[side].remove(node)
            lines.append(NodeWent(at=at, side=side, node=node, decision=decision))
        elif side in sides:
            nodes[side].add(node)
            lines.append(NodeCame(at=at, side=side, node=node, micros=PRICES[node], decision=decision))
        lines += [
            Sample(at=at, side=each, nodes=len(there), micros=sum(PRICES[name] for name in there), pending=0)
            for each, there in nodes.items()
        ]
    return lines


def report_of(lines: Sequence[AnyLine], since: float | None) -> ReportAnswer:
    return report_answer(LogFiles([("log", BytesIO(written(lines)))]), since_seconds=since)


def decided(answer: ReportAnswer, side: Side) -> Decimal:
    """What all decisions of the side cost, and what nobody decided there."""
    money = sum((Decimal(each.money) for each in answer.decisions.listed if each.side == side), Decimal(0))
    return money + Decimal(answer.decisions.nobody[side])


#: Each sum of money is rounded to a millionth.
ROUNDED = Decimal("0.00001")


@given(STEPS, st.none() | st.floats(1, 2_000))
def test_the_money_of_decisions_is_the_money_saved(steps: list[Step], since: float | None) -> None:
    answer = report_of(log_of(steps, SIDES), since)
    assert answer.saved is not None
    assert answer.decisions.rest == "0.00"
    assert abs(decided(answer, "real") - decided(answer, "ours") - Decimal(answer.saved.money)) <= ROUNDED
    assert {each.number for each in answer.decisions.listed} <= {1, 2, 3}


@given(STEPS)
def test_alone_it_is_the_money_beside_a_cluster_in_which_nothing_changes(steps: list[Step]) -> None:
    lines = log_of(steps, ("real",))
    answer = report_of(lines, None)
    want, before = 0, 0
    for one, two in pairwise(line for line in lines if isinstance(line, Began | Sample)):
        if isinstance(one, Began):
            assert isinstance(two, Sample)
            before = two.micros
        elif not isinstance(two, Began) and 0 <= two.at - one.at <= 600:
            want += (one.micros - before) * (round(two.at * 1000) - round(one.at * 1000))
    assert abs(decided(answer, "real") - Decimal(want) / 3_600_000 / 1_000_000) <= ROUNDED


@given(STEPS)
def test_time_never_counts_twice(steps: list[Step]) -> None:
    answer = report_of(log_of(steps, SIDES), None)
    gone = sum(gone for gone, _, node, _ in steps if node is not None and 0 <= gone <= 600)
    assert abs(answer.counted_seconds - gone) < 0.1
