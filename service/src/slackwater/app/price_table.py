"""Reads the price table of `autoscaler.prices.table`, CSV or JSON.

In: the bytes of the file and the currency. Out: a `PriceTable`. The columns are instance type, zone, capacity type, price per
hour and currency; case, blanks, `_` and `-` of their names do not matter. JSON is a list of objects with these keys. Only the
instance type and the price have to be there: an empty zone or capacity type, or `*`, means any, and an empty currency the
configured one. A file is refused with the place of each error; of very many errors the first are named.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from slackwater.configuration.problems import Problem, SettingsError, UnreadableSettings, show
from slackwater.model.prices import ANY, UNKNOWN_ZONE, PriceTable, RowKey, capacity_type
from slackwater_protocol.money import micros_of

#: The types of all clouds' largest regions, by zone and capacity type, have about eleven thousand rows.
MOST_ROWS: Final = 50_000
LARGEST_FILE: Final = 8 * 2**20
_MOST_PROBLEMS: Final = 20
_COLUMNS: Final = {
    name.replace(" ", ""): name for name in ("instance type", "zone", "capacity type", "price per hour", "currency")
}
_NEEDED: Final = ("instance type", "price per hour")
_EVERY: Final = ", ".join(_COLUMNS.values())

#: The place of a row, and the text of each of its cells by column.
Row = tuple[str, dict[str, str]]


class _Refused(Exception):
    """One problem. `place` says where in the file it is."""

    def __init__(self, place: str, seen: str, wanted: str) -> None:
        super().__init__(place, seen, wanted)
        self.problem = Problem(path=place, seen=seen, wanted=wanted)


def read_price_table(path: str, currency: str) -> PriceTable:
    """Reads the table. Raises `UnreadableSettings` and `SettingsError`, whose source is the path."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
        text = data.decode("utf-8-sig")  # spreadsheets begin a file with a byte order mark
    except (OSError, UnicodeDecodeError) as err:
        seen = str(err) if isinstance(err, UnicodeDecodeError) else err.strerror or str(err)
        raise UnreadableSettings([Problem(path="", seen=seen, wanted="a file of UTF-8 text")], source=path) from err
    if len(data) > LARGEST_FILE:
        raise UnreadableSettings([Problem(path="", seen="more bytes", wanted=f"at most {LARGEST_FILE} bytes")], source=path)
    rows: dict[RowKey, tuple[int, str]] = {}
    problems: list[Problem] = []
    try:
        for place, cells in islice(_rows(text), MOST_ROWS + 1):
            try:
                if len(rows) == MOST_ROWS:
                    raise _Refused(place, "one more row", f"at most {MOST_ROWS} rows")
                _add(rows, place, cells, currency)
            except _Refused as refused:
                problems.append(refused.problem)
                if len(problems) == _MOST_PROBLEMS:
                    break
    except _Refused as refused:
        problems.append(refused.problem)
    if problems:
        raise SettingsError(problems, source=path)
    return PriceTable(_with_unknown_zones({key: micros for key, (micros, _) in rows.items()}))


def _with_unknown_zones(rows: dict[RowKey, int]) -> dict[RowKey, int]:
    """Adds a row for nodes of unknown zone for each type and capacity type whose rows all name a zone. Its price is the highest
    of these, so that no plan costs more than it says."""
    dearest: dict[RowKey, int] = {}
    for (kind, _, capacity), micros in rows.items():
        if (kind, ANY, capacity) not in rows:
            key = kind, UNKNOWN_ZONE, capacity
            dearest[key] = max(micros, dearest.get(key, 0))
    return rows | dearest


def _rows(text: str) -> Iterator[Row]:
    return _json_rows(text) if text.lstrip()[:1] in ("[", "{") else _csv_rows(text)


def _csv_rows(text: str) -> Iterator[Row]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: Sequence[str] | None = None
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as err:
            raise _Refused(f"line {reader.line_num}", str(err), "CSV with commas") from err
        if cells is None:
            break
        place = f"line {reader.line_num}"
        if not any(cell.strip() for cell in cells):
            continue
        if header is None:
            header = _known_columns(place, cells)
        elif len(cells) != len(header):
            raise _Refused(place, f"{len(cells)} cells", f"{len(header)}, as in the header")
        else:
            yield place, dict(zip(header, map(str.strip, cells), strict=True))
    if header is None:
        raise _Refused("", "nothing in it", f"a header with {_EVERY}, and rows")


def _json_rows(text: str) -> Iterator[Row]:
    try:
        # Numbers stay texts: a float would lose digits.
        found = json.loads(text, parse_float=str, parse_int=str, object_pairs_hook=list)
    except json.JSONDecodeError as err:
        raise _Refused(f"line {err.lineno}, column {err.colno}", err.msg, "JSON") from err
    except RecursionError as err:
        raise _Refused("", "JSON nested too deeply", "a list of objects") from err
    if not isinstance(found, list) or text.lstrip()[0] == "{":
        raise _Refused("", "an object", f"a list of objects with {_EVERY}")
    for number, pairs in enumerate(found, 1):
        place = f"entry {number}"
        if not isinstance(pairs, list) or not all(isinstance(pair, tuple) for pair in pairs):
            raise _Refused(place, show(pairs), f"an object with {_EVERY}")
        columns = _known_columns(place, [str(key) for key, _ in pairs])
        yield place, {column: _cell(f"{place}, {column}", value) for column, (_, value) in zip(columns, pairs, strict=True)}


def _cell(place: str, value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _Refused(place, show(value), "text or a number")
    return value.strip()


def _known_columns(place: str, names: Iterable[str]) -> list[str]:
    found: list[str] = []
    for number, name in enumerate(names, 1):
        column = _COLUMNS.get("".join(letter for letter in name.lower() if letter not in " _-\t"))
        at = f"{place}, column {number}"
        if column is None:
            raise _Refused(at, show(name), f"one of {_EVERY}")
        if column in found:
            raise _Refused(at, f"{show(name)} a second time", "each column once")
        found.append(column)
    for needed in _NEEDED:
        if needed not in found:
            raise _Refused(place, f"no column {needed}", f"{' and '.join(_NEEDED)} at least")
    return found


def _add(rows: dict[RowKey, tuple[int, str]], place: str, cells: dict[str, str], currency: str) -> None:
    """Adds a row with its place in the file, which errors name."""
    if (kind := cells["instance type"]) in ("", "*"):
        raise _Refused(f"{place}, instance type", show(kind), "the name of an instance type")
    try:
        micros = micros_of(cells["price per hour"])
    except ValueError as err:
        raise _Refused(f"{place}, price per hour", show(cells["price per hour"]), str(err)) from err
    if cells.get("currency", "").upper() not in ("", currency):
        wanted = f"{currency}, as autoscaler.prices.currency: one currency in all"
        raise _Refused(f"{place}, currency", show(cells["currency"]), wanted)
    zone, capacity = (ANY if text == "*" else text for text in (cells.get("zone", ""), cells.get("capacity type", "")))
    first = rows.setdefault((kind, zone, capacity_type(capacity)), (micros, place))
    if first[0] != micros:
        raise _Refused(place, "another price", f"one price for each type, zone and capacity type: {first[1]} has one")
