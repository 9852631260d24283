"""Writes the report as one file of HTML (`app.html_page`), with plots of both sides over time."""

from collections.abc import Iterator
from typing import Final

from slackwater.app.html_page import page_of, table_part
from slackwater.app.report.answer import Metric, ReportAnswer
from slackwater.app.report.plots import STYLE, plot
from slackwater.app.report.tables import SIDE_NAMES, headline, tables

_TITLES: Final[dict[Metric, str]] = {
    "nodes": "Nodes",
    "money": "{} an hour",
    "pending": "Pods without a node",
    "evictions": "Evictions, added up",
}


def page(answer: ReportAnswer) -> str:
    """The whole page."""
    title = "Slackwater beside this cluster" if answer.saved is not None else "This cluster with Slackwater"
    return page_of(title, headline(answer), _parts(answer), (*answer.assumptions, *answer.notes), style=STYLE)


def _parts(answer: ReportAnswer) -> Iterator[str]:
    plots = (
        plot(metric, _TITLES[metric].format(answer.currency), lines, SIDE_NAMES) for metric, lines in answer.series.items()
    )
    yield f'<h2>Over time</h2>\n<div class="plots">\n{"".join(plots)}\n</div>'
    yield from map(table_part, tables(answer))
