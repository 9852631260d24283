"""What the report shows: its figures as tables of texts, for the terminal and for the page."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Final

from slackwater.app.html_page import Headline, ReportView, Table
from slackwater.app.worth.answer import Money, RoundsAnswer, SharesAnswer, TotalsChange, UseAnswer, WorthAnswer
from slackwater.model.ids import DAY_SECONDS
from slackwater.model.prices import basis_text
from slackwater.model.texts import count_text, money_text, time_text

_TITLES: Final = {"group": "By group", "type": "By instance type", "zone": "By zone", "capacityType": "By capacity type"}
_NONE: Final = "(none)"
#: How many rows a table of causes or shares has at most; the last one has the others together.
_MOST_ROWS: Final = 20
_MOST_REMEDIES: Final = 2
#: A report on less money than this has hundredths: its parts would round to nothing.
_WHOLE_FROM: Final = 100


def _horizon_text(answer: WorthAnswer) -> str:
    days, rest = divmod(answer.horizon_seconds, DAY_SECONDS)
    return f"{answer.horizon_seconds / 3600:g} h" if rest or not days else count_text(days, "day")


def view_of(answer: WorthAnswer) -> ReportView:
    return ReportView(
        title="What Slackwater is worth to this cluster",
        headline=[*_headline(answer)],
        tables=[*_tables(answer)],
        notes=(
            *_unfinished(answer.rounds),
            *answer.assumptions,
            *answer.remarks,
            *(f"not judged: {each}" for each in answer.skipped),
        ),
    )


def _headline(answer: WorthAnswer) -> Iterator[Headline]:
    now, end, rounds, unit = answer.total.now, answer.total.end, answer.rounds, answer.currency
    yield (
        f"saved in {_horizon_text(answer)}",
        f"{_whole(answer, answer.saved)} {unit}",
        f"{money_text(answer.saved.per_hour)} {unit} an hour; {basis_text(answer.basis)}",
    )
    if Decimal(answer.growth.per_hour):
        waited = f"{count_text(rounds.pending_now, 'pod')} without a node now, {rounds.pending_end:,} at the end"
        yield (
            f"growth in {_horizon_text(answer)}",
            f"{_whole(answer, answer.growth)} {unit}",
            f"for pods that wait, minima and slack: {waited}; not part of what is saved",
        )
    yield (
        f"cost in {_horizon_text(answer)}",
        f"{_whole(answer, now.cost)} to {_whole(answer, end.cost)}",
        "no bound is known"
        if answer.bound is None
        else f"no nodes for these pods cost less than {_whole(answer, answer.bound)}",
    )
    yield "nodes", f"{now.nodes:,} to {end.nodes:,}", f"{rounds.removed:,} go, {rounds.added:,} come"
    yield "evictions", f"{rounds.evictions:,}", f"over {time_text(rounds.seconds)}, with the budgets and the parallelism set"


def _unfinished(rounds: RoundsAnswer) -> Iterator[str]:
    if not rounds.over:
        yield "the horizon ended while nodes could still come or go: a longer --horizon says what comes of it"
    if rounds.failed_removals:
        yield f"{count_text(rounds.failed_removals, 'removal')} failed on the way: evictions took too long, or room was gone"


def _tables(answer: WorthAnswer) -> Iterator[Table]:
    for key, title in _TITLES.items():
        yield _of_nodes(title, answer.by[key], answer)
    yield _of_stays(answer)
    yield _of_shares("Money by namespace", answer.namespaces, answer)
    if answer.label is not None:
        yield _of_shares(f"Money by label {answer.label.of}", answer.label, answer)
    yield from map(_of_use, answer.use)


def _of_use(use: UseAnswer) -> Table:
    title = "Requests and use by namespace" if use.of == "namespace" else f"Requests and use by label {use.of}"
    head = ("", "pods", "measured", "cores requested", "cores used", "GiB requested", "GiB used")
    rows = [
        (
            each.name or _NONE,
            f"{each.pods:,}",
            f"{each.measured:,}",
            f"{each.cpu_cores_requested:,.1f}",
            f"{each.cpu_cores_used:,.1f}",
            f"{each.memory_gib_requested:,.1f}",
            f"{each.memory_gib_used:,.1f}",
        )
        for each in use.rows
    ]
    note = f"Now. Use: {use.source}; of several pods the sum. Money, rounds and the bound are by requests alone."
    return Table(title, head, rows, frozenset(range(1, len(head))), note)


def _of_nodes(title: str, changes: Sequence[TotalsChange], answer: WorthAnswer) -> Table:
    head = ("", "nodes", "at the end", "cores", "at the end", "GiB", "at the end", *_money_heads(answer))
    rows = [
        (
            each.name or _NONE,
            *(f"{totals.nodes:,}" for totals in (each.now, each.end)),
            *(f"{totals.cpu_cores:,.0f}" for totals in (each.now, each.end)),
            *(f"{totals.memory_gib:,.0f}" for totals in (each.now, each.end)),
            *_money(answer, each.now.cost, each.end.cost),
        )
        for each in (*changes, TotalsChange(name="all", now=answer.total.now, end=answer.total.end))
    ]
    return Table(title, head, rows, frozenset(range(1, len(head))))


def _of_stays(answer: WorthAnswer) -> Table:
    head = ("at most", "nodes", "why", "because of", "for example", "what would free the example")
    rows = []
    for each in answer.stays[:_MOST_ROWS]:
        remedies = "; or: ".join(each.remedies[:_MOST_REMEDIES])
        rows.append((_whole(answer, each.cost), f"{each.nodes:,}", each.text, each.cause, each.example, remedies))
    others = answer.stays[_MOST_ROWS:]
    if others:
        cost = sum((Decimal(each.cost.in_horizon) for each in others), Decimal(0))
        nodes = sum(each.nodes for each in others)
        rows.append((_amount(answer, cost), f"{nodes:,}", f"{len(others):,} other causes", "", "", ""))
    note = (
        f"Each node is counted once, with the first rule that keeps it. Money is {answer.currency} in {_horizon_text(answer)}."
    )
    return Table("What stays, and why", head, rows, frozenset((0, 1)), note)


def _of_shares(title: str, shares: SharesAnswer, answer: WorthAnswer) -> Table:
    rows = [(each.name or _NONE, *_money(answer, each.now, each.end)) for each in shares.shares]
    rows.append(("idle: requested by nobody", *_money(answer, shares.idle_now, shares.idle_end)))
    rows.append(("all", *_money(answer, answer.total.now.cost, answer.total.end.cost)))
    note = "By requests: a pod has the part of its node's price that its requests are of the node."
    return Table(title, ("", *_money_heads(answer)), rows, frozenset(range(1, 5)), note)


def _money_heads(answer: WorthAnswer) -> tuple[str, ...]:
    unit, horizon = answer.currency, _horizon_text(answer)
    return f"{unit}/hour", "at the end", f"{unit} in {horizon}", "at the end"


def _money(answer: WorthAnswer, now: Money, end: Money) -> tuple[str, str, str, str]:
    return money_text(now.per_hour), money_text(end.per_hour), _whole(answer, now), _whole(answer, end)


def _whole(answer: WorthAnswer, money: Money) -> str:
    return _amount(answer, Decimal(money.in_horizon))


def _amount(answer: WorthAnswer, amount: Decimal) -> str:
    most = max(Decimal(each.cost.in_horizon) for each in (answer.total.now, answer.total.end))
    return f"{amount:,.0f}" if most >= _WHOLE_FROM else f"{amount:,.2f}"
