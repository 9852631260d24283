"""Makes the report: reads a log twice, and puts the sums together.

In: a log, and how far back. Out: a `ReportAnswer`. The first reading adds up; the second one fetches the decisions that are
listed, so the room needed does not grow with all decisions. The time of a log is that of its own lines.
"""

from statistics import median
from typing import Final

from slackwater.app.counterfactual.lines import SIDES, Began
from slackwater.app.report.answer import ActionCount, ModelError, ReportAnswer, Saved
from slackwater.app.report.decisions import decisions_answer
from slackwater.app.report.log_files import LogFiles
from slackwater.app.report.sums import Checked, Errors, Sums
from slackwater.app.report.totals import METRICS, SideTotals, micros_per_hour
from slackwater.app.report.window import SILENCE_SECONDS, Window, amount_text, utc_text
from slackwater.model.texts import count_text
from slackwater_protocol.money import signed_text

MONTH_HOURS: Final = 720
#: Samples from before the window, by which its first minute counts.
LEAD_SECONDS: Final = SILENCE_SECONDS


class NoReport(ValueError):
    """The log has nothing to report on; the message says what was found."""


def report_answer(log: LogFiles, *, since_seconds: float | None) -> ReportAnswer:
    """Reports on the last `since_seconds` of the log; None: on all of it. Raises `NoReport`."""
    if (last := log.last()) is None:
        raise NoReport(f"{log.seen()}, want a log as a shadow writes it")
    start = 0.0 if since_seconds is None else max(last - since_seconds, 0.0)
    sums, notes = _summed(log, start)
    sums.finish()
    began, sides = sums.began, list(sums.sides.values())
    saved = sides[0].amount - sides[1].amount if len(sides) == len(SIDES) else None
    return ReportAnswer(
        version=began.version,
        begins=utc_text(sums.window.begins),
        ends=utc_text(sums.window.ends),
        counted_seconds=sums.window.counted / 1000,
        currency=began.currency,
        basis=began.basis,
        sides=[side.figures() for side in sides],
        saved=None if saved is None else _saved(*sides),
        actions=[
            ActionCount(side=side, by=by, action=action, decisions=counts[0], nodes=counts[1], pods=counts[2])
            for (side, by, action), counts in sorted(sums.actions.items())
        ],
        decisions=decisions_answer(sums.partings, log.lines(start - LEAD_SECONDS), sums.sides, saved=saved),
        model=[_model_error(of, errors) for of, errors in sums.errors.items() if errors.every],
        series={metric: {side.side: side.series[metric].pieces() for side in sides} for metric in METRICS},
        capabilities=began.capabilities,
        assumptions=began.assumptions,
        notes=notes,
    )


def _summed(log: LogFiles, start: float) -> tuple[Sums, tuple[str, ...]]:
    """The sums of the log's last lines that can be added up, and what is left out."""
    sums: Sums | None = None
    others = early = 0
    for line in log.lines(start - LEAD_SECONDS):
        if isinstance(line, Began) and not (sums is not None and sums.goes_on_with(line)):
            others += sums is not None and line.at >= start
            sums = Sums(line, Window(start))
        if sums is None:
            early += 1
        else:
            sums.take(line)
    count, first = log.skipped
    if sums is None:
        found = f"got {count_text(early + count, 'line')} without the beginning of a log"
        raise NoReport(f"{found}; {first}" if first else f"{found}, want a log")
    notes = sums.window.notes()
    if others:
        notes.append(f"Until {utc_text(sums.window.begins)} the log has other sides or another currency: that is left out.")
    if early:
        notes.append(f"{count_text(early, 'line')} before the beginning of the log cannot be used.")
    if count:
        notes.append(
            f"{count_text(count, 'line')} could not be read, and {'is' if count == 1 else 'are'} left out. The first: {first}."
        )
    return sums, tuple(notes)


def _saved(real: SideTotals, ours: SideTotals) -> Saved:
    hour = micros_per_hour(real.amount, real.sampled) - micros_per_hour(ours.amount, ours.sampled)
    return Saved(
        node_hours=round(real.node_hours - ours.node_hours, 3),
        money=amount_text(real.amount - ours.amount),
        per_hour=signed_text(hour),
        per_month=signed_text(hour * MONTH_HOURS),
        evictions=real.evictions - ours.evictions,
    )


def _model_error(of: Checked, errors: Errors) -> ModelError:
    worst, at, modelled, real = errors.worst
    return ModelError(
        of=of,
        checks=len(errors.every),
        median=round(median(errors.every), 4),
        worst=round(worst, 4),
        worst_at=utc_text(at),
        worst_modelled=round(modelled, 1),
        worst_real=round(real, 1),
    )
