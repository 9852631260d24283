"""Tables for people: columns as wide as their widest cell."""

from collections.abc import Iterator, Sequence


def columns(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """A line for each row; the first are the headings."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
