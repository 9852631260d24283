"""Writes the report as one file of HTML (`app.html_page`)."""

from slackwater.app.html_page import page_of, table_part
from slackwater.app.worth.answer import WorthAnswer
from slackwater.app.worth.tables import headline, tables


def page(answer: WorthAnswer) -> str:
    """The whole page."""
    skipped = (f"not judged: {each}" for each in answer.skipped)
    notes = (*answer.assumptions, *answer.remarks, *skipped)
    return page_of("What Slackwater is worth to this cluster", headline(answer), map(table_part, tables(answer)), notes)
