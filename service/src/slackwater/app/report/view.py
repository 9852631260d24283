"""What the report shows: its figures as tables of texts, for the terminal and for the page, which has plots, too."""

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Final

from slackwater.app.counterfactual.lines import Side
from slackwater.app.html_page import Headline, ReportView, Table
from slackwater.app.report.answer import DecisionAnswer, Metric, ReportAnswer, SideFigures
from slackwater.app.report.plots import STYLE, plot
from slackwater.model.prices import basis_text
from slackwater.model.texts import count_text, money_text, time_text

#: How many decisions the table has.
_MOST_DECISIONS: Final = 10
#: How many rows a table has at most.
_MOST_ROWS: Final = 20
_LONGEST_WHY: Final = 300
#: From here on money is shown without its fraction.
_LARGE: Final = 1_000
_SIDE_NAMES: Final[Mapping[Side, str]] = {"real": "the cluster", "ours": "Slackwater"}
_CHECKED: Final = {"pendingP95": "time pending, p95", "evictions": "evictions", "emptyNodes": "nodes without pods"}


_PLOTS: Final[Mapping[Metric, str]] = {
    "nodes": "Nodes",
    "money": "{} an hour",
    "pending": "Pods without a node",
    "evictions": "Evictions, added up",
}


def view_of(answer: ReportAnswer) -> ReportView:
    plots = (
        plot(metric, _PLOTS[metric].format(answer.currency), lines, _SIDE_NAMES) for metric, lines in answer.series.items()
    )
    return ReportView(
        title="Slackwater beside this cluster" if answer.saved is not None else "This cluster with Slackwater",
        headline=[*_headline(answer)],
        plots=f'<h2>Over time</h2>\n<div class="plots">\n{"".join(plots)}\n</div>\n',
        tables=[*_tables(answer)],
        notes=(*answer.assumptions, *answer.notes),
        style=STYLE,
    )


def _minute_text(at: str) -> str:
    """A time of the answer, such as `2026-11-27 15:40`."""
    return at[:16].replace("T", " ")


def _headline(answer: ReportAnswer) -> Iterator[Headline]:
    sides, saved, unit = answer.sides, answer.saved, answer.currency
    basis, time = basis_text(answer.basis), time_text(answer.counted_seconds)
    window = f"in {time}, {_minute_text(answer.begins)} to {_minute_text(answer.ends)} UTC"
    if saved is not None:
        more = f"{money_text(saved.per_hour)} {unit} an hour, {_large(saved.per_month)} in 30 days; {basis}"
        yield f"saved in {time}", f"{_large(saved.money)} {unit}", more
    per_hour = _both(money_text(side.per_hour) for side in sides)
    yield "money", f"{_both(_large(side.money) for side in sides)} {unit}", f"{per_hour} {unit} an hour; {basis}"
    yield "node hours", _both(f"{side.node_hours:,.0f}" for side in sides), window
    p95 = (next((f"{each.p95:g} s" for each in side.pending), "none") for side in sides)
    yield "time pending, p95", _both(p95), f"{_both(map(_pods, sides))} got a node"
    yield "evictions", _both(f"{side.evictions:,}" for side in sides), f"in {time}"
    if answer.model:
        worst = max(answer.model, key=lambda each: each.median)
        more = f"at worst {worst.worst:.0%}; {_CHECKED[worst.of]}, in {count_text(worst.checks, 'check')}"
        yield "error of the model", f"{worst.median:.0%}", more


def _both(figures: Iterable[str]) -> str:
    return ", with Slackwater ".join(figures)


def _pods(side: SideFigures) -> str:
    return count_text(next((each.pods for each in side.pending), 0), "pod")


def _tables(answer: ReportAnswer) -> Iterator[Table]:
    yield _of_decisions(answer)
    yield _of_sides(answer)
    yield _of_pending(answer)
    yield _of_actions(answer)
    if answer.model:
        yield _of_model(answer)


def _of_decisions(answer: ReportAnswer) -> Table:
    found, unit = answer.decisions, answer.currency
    most = sorted(found.listed, key=lambda each: abs(Decimal(each.money)), reverse=True)[:_MOST_DECISIONS]
    others = len(found.listed) + found.left_out - len(most)
    head = (unit, "when", "who", "action", "group", "nodes", "pods", "why", "for example", "ask")
    rows = [_decision_row(each) for each in most]
    for side in answer.sides:
        name, money = _SIDE_NAMES[side.side], found.nobody[side.side]
        if Decimal(money):
            rows.append((_signed(money), "", name, "nobody decided", "", "", "", "nodes came or went", "", ""))
    with_what = "the other side" if answer.saved is not None else "the cluster as it was when the time began"
    note = f"What a decision costs its side until both sides agree again, compared with {with_what}; below 0 it saves."
    if others:
        note += f" {count_text(others, 'decision')} with less money are left out."
    if found.rest is not None and Decimal(found.rest):
        note += f" {_signed(found.rest)} {unit} are between samples, which are a minute apart."
    return Table("The decisions that mattered most", head, rows, frozenset((0, 5, 6)), note)


def _decision_row(each: DecisionAnswer) -> tuple[str, ...]:
    who = _SIDE_NAMES[each.side] if each.side == "ours" else each.by or _SIDE_NAMES["real"]
    why = each.why if len(each.why) <= _LONGEST_WHY else f"{each.why[:_LONGEST_WHY]}..."
    gone = "the log does not have it any more"
    return (
        _signed(each.money),
        _minute_text(each.at),
        who,
        each.action,
        each.group,
        f"{each.nodes:,}",
        f"{each.pods:,}",
        why if each.action else gone,
        each.example,
        each.ask,
    )


def _of_sides(answer: ReportAnswer) -> Table:
    unit = answer.currency
    head = ("", "node hours", unit, f"{unit}/hour", "evictions", "pods pending x hours")
    rows = [
        (
            _SIDE_NAMES[side.side],
            f"{side.node_hours:,.1f}",
            money_text(side.money),
            money_text(side.per_hour),
            f"{side.evictions:,}",
            f"{side.pending_pod_hours:,.1f}",
        )
        for side in answer.sides
    ]
    return Table("Both sides" if len(rows) > 1 else "The figures", head, rows, frozenset(range(1, len(head))))


def _of_pending(answer: ReportAnswer) -> Table:
    """By priority, the sides one below the other; beyond the bound, those with the most pods."""
    priorities = {each.priority: each.pods for side in answer.sides for each in side.pending if each.priority is not None}
    shown = sorted(sorted(priorities, key=lambda each: -priorities[each])[:_MOST_ROWS], reverse=True)
    rows = [
        (
            "all" if priority is None else f"{priority:,}",
            _SIDE_NAMES[side.side],
            f"{each.pods:,}",
            *(f"{seconds:,g}" for seconds in (each.p50, each.p95, each.p99)),
        )
        for priority in (None, *shown)
        for side in answer.sides
        for each in side.pending
        if each.priority == priority
    ]
    hidden = len(priorities) - len(shown)
    more = f" {count_text(hidden, 'row')} of other priorities are left out." if hidden else ""
    note = f"Seconds until a pod got a node, of the pods that got one, within 5 %.{more}"
    return Table("Time pending, by priority", ("priority", "", "pods", "p50", "p95", "p99"), rows, frozenset(range(2, 6)), note)


def _of_actions(answer: ReportAnswer) -> Table:
    rows = [
        (
            each.by or _SIDE_NAMES[each.side],
            each.action,
            f"{each.decisions:,}",
            f"{each.nodes:,}",
            f"{each.pods:,}",
        )
        for each in answer.actions
    ]
    hidden = len(rows) - _MOST_ROWS
    note = "Pods: those that a decision was made for, or that it evicts."
    if answer.capabilities:
        note += f" Slackwater's capabilities here: {', '.join(answer.capabilities)}."
    if hidden > 0:
        note += f" {count_text(hidden, 'row')} are left out."
    return Table(
        "What was decided", ("who", "action", "decisions", "nodes", "pods"), rows[:_MOST_ROWS], frozenset((2, 3, 4)), note
    )


def _of_model(answer: ReportAnswer) -> Table:
    head = ("", "checks", "median", "worst", "when", "the model said", "happened")
    rows = [
        (
            _CHECKED[each.of],
            f"{each.checks:,}",
            f"{each.median:.0%}",
            f"{each.worst:.0%}",
            _minute_text(each.worst_at),
            f"{each.worst_modelled:,g}",
            f"{each.worst_real:,g}",
        )
        for each in answer.model
    ]
    note = (
        "What the model says of the cluster's last hour under the real decisions, beside what happened. The error is relative "
        "to what happened, or to 1 where that is less."
    )
    return Table("The error of the model", head, rows, frozenset(range(1, len(head))), note)


def _signed(text: str) -> str:
    return f"{Decimal(text):+,.2f}"


def _large(text: str) -> str:
    return f"{Decimal(text):,.0f}" if abs(Decimal(text)) >= _LARGE else money_text(text)
