"""What the report shows, with plots of both sides over time."""

from typing import Final

from slackwater.app.html_page import ReportView
from slackwater.app.report.answer import Metric, ReportAnswer
from slackwater.app.report.plots import STYLE, plot
from slackwater.app.report.tables import SIDE_NAMES, headline, tables

_TITLES: Final[dict[Metric, str]] = {
    "nodes": "Nodes",
    "money": "{} an hour",
    "pending": "Pods without a node",
    "evictions": "Evictions, added up",
}


def view_of(answer: ReportAnswer) -> ReportView:
    plots = (
        plot(metric, _TITLES[metric].format(answer.currency), lines, SIDE_NAMES) for metric, lines in answer.series.items()
    )
    return ReportView(
        title="Slackwater beside this cluster" if answer.saved is not None else "This cluster with Slackwater",
        headline=[*headline(answer)],
        plots=f'<h2>Over time</h2>\n<div class="plots">\n{"".join(plots)}\n</div>\n',
        tables=[*tables(answer)],
        notes=(*answer.assumptions, *answer.notes),
        style=STYLE,
    )
