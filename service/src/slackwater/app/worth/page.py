"""Writes the report as one file of HTML: no script, no resource from elsewhere; for a phone's screen and for print.

The style is the dashboard's. Invariant: every text of the answer is escaped.
"""

from collections.abc import Iterable
from html import escape
from importlib import resources
from typing import Final

from slackwater.app.worth.answer import WorthAnswer
from slackwater.app.worth.tables import Table, headline, tables

_STYLE: Final = """\
main { padding-bottom: 2rem; max-width: 75rem; }
h1 { font-size: 1.6rem; margin: 1rem 0 .3rem; display: block; }
h2 { margin: 1.8rem 0 .5rem; }
.cards .card p.large { font-size: 1.7rem; font-weight: 600; margin: 0; font-variant-numeric: tabular-nums; }
td { overflow-wrap: anywhere; }
@media (max-width: 40rem) { th, td { padding: .3rem .4rem; font-size: .85rem; } }
@media print {
  body { background: none; font-size: 10pt; }
  .scroll { overflow: visible; }
  h2, tr, .card { break-inside: avoid; }
  thead th { position: static; }
}
"""


def page(answer: WorthAnswer) -> str:
    """The whole page."""
    style = resources.files("slackwater.adapters.http.dashboard").joinpath("static/look.css").read_text("utf-8") + _STYLE
    cards = "".join(
        f'<div class="card"><p class="dim">{escape(name)}</p><p class="large">{escape(figure)}</p><p>{escape(more)}</p></div>'
        for name, figure, more in headline(answer)
    )
    body = "\n".join(map(_table, tables(answer)))
    skipped = (f"not judged: {each}" for each in answer.skipped)
    notes = _list("What this rests on", (*answer.assumptions, *answer.remarks, *skipped))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>What Slackwater is worth</title>\n'
        f"<style>\n{style}</style>\n</head>\n<body>\n<main>\n<h1>What Slackwater is worth to this cluster</h1>\n"
        f'<div class="cards">{cards}</div>\n{body}\n{notes}</main>\n</body>\n</html>\n'
    )


def _table(table: Table) -> str:
    head = "".join(_cell("th", at, text, table) for at, text in enumerate(table.head))
    rows = "\n".join(
        "<tr>" + "".join(_cell("td", at, text, table) for at, text in enumerate(row)) + "</tr>" for row in table.rows
    )
    note = f'<p class="dim">{escape(table.note)}</p>\n' if table.note else ""
    return (
        f"<h2>{escape(table.title)}</h2>\n{note}"
        f'<div class="scroll"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table></div>'
    )


def _cell(tag: str, at: int, text: str, table: Table) -> str:
    kind = ' class="number"' if at in table.right else ""
    return f"<{tag}{kind}>{escape(text)}</{tag}>"


def _list(title: str, texts: Iterable[str]) -> str:
    return f"<h2>{escape(title)}</h2>\n<ul>\n" + "".join(f"<li>{escape(text)}</li>\n" for text in texts) + "</ul>\n"
