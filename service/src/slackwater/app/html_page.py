"""Writes a report as one file of HTML: no script, no resource from elsewhere; for a phone's screen and for print.

The style is the dashboard's. Invariant: every text is escaped, but for the plots, which are HTML already.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from typing import Final

_STYLE: Final = """\
main { padding-bottom: 2rem; max-width: 75rem; }
h1 { font-size: 1.6rem; margin: 1rem 0 .3rem; display: block; }
h2 { margin: 1.8rem 0 .5rem; }
.cards .card p.large { font-size: 1.7rem; font-weight: 600; margin: 0; font-variant-numeric: tabular-nums; }
td { overflow-wrap: break-word; max-width: 24rem; }
@media (max-width: 40rem) {
  th, td { padding: .3rem .4rem; font-size: .85rem; }
  .cards .card p.large { font-size: 1.3rem; }
  .wide thead { display: none; }
  .wide tr { display: block; padding: .4rem; border-bottom: 1px solid var(--line); }
  .wide td { display: grid; grid-template-columns: 9rem 1fr; gap: .4rem; max-width: none; padding: .1rem 0; border: 0; }
  .wide td.number { text-align: left; white-space: normal; }
  .wide td:empty { display: none; }
  .wide td::before { content: attr(data-label); color: var(--dim); }
  .wide td[data-label=""] { display: block; font-weight: 600; }
}
@media print {
  body { background: none; font-size: 10pt; }
  .scroll { overflow: visible; }
  h2, tr, .card, figure { break-inside: avoid; }
  h2, h2 + p { break-after: avoid; }
  thead th { position: static; }
}
"""

#: On a phone, each row of a table with more columns is a list.
_MOST_COLUMNS: Final = 4

#: The name of a figure, the figure, and a sentence on it.
Headline = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Table:
    """`right`: the columns with numbers."""

    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    right: frozenset[int]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportView:
    """What a report shows: its main figures, its tables and what they rest on. A page has `plots`, HTML, and their `style`,
    too."""

    title: str
    headline: Sequence[Headline]
    tables: Sequence[Table]
    notes: Sequence[str]
    plots: str = ""
    style: str = ""


def page_of(view: ReportView) -> str:
    """The whole page."""
    look = resources.files("slackwater.adapters.http.dashboard").joinpath("static/look.css").read_text("utf-8")
    cards = "".join(
        f'<div class="card"><p class="dim">{escape(name)}</p><p class="large">{escape(figure)}</p><p>{escape(more)}</p></div>'
        for name, figure, more in view.headline
    )
    rests_on = "".join(f"<li>{escape(text)}</li>\n" for text in view.notes)
    body, title = view.plots + "\n".join(map(_table_part, view.tables)), escape(view.title)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{title}</title>\n'
        f"<style>\n{look}{_STYLE}{view.style}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
        f'<div class="cards">{cards}</div>\n{body}\n<h2>What this rests on</h2>\n'
        f"<ul>\n{rests_on}</ul>\n</main>\n</body>\n</html>\n"
    )


def _table_part(table: Table) -> str:
    head = "".join(f"<th{_kind(at, table)}>{escape(text)}</th>" for at, text in enumerate(table.head))
    rows = "\n".join("<tr>" + "".join(_cell(at, text, table) for at, text in enumerate(row)) + "</tr>" for row in table.rows)
    wide = ' class="wide"' if len(table.head) > _MOST_COLUMNS else ""
    note = f'<p class="dim">{escape(table.note)}</p>\n' if table.note else ""
    return (
        f"<h2>{escape(table.title)}</h2>\n{note}"
        f'<div class="scroll"><table{wide}>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table></div>'
    )


def _cell(at: int, text: str, table: Table) -> str:
    label = f' data-label="{escape(table.head[at])}"' if len(table.head) > _MOST_COLUMNS else ""
    return f"<td{_kind(at, table)}{label}>{escape(text)}</td>"


def _kind(at: int, table: Table) -> str:
    return ' class="number"' if at in table.right else ""
