"""Draws lines over time as inline SVG: no script, readable at any width.

The lines are stretched to the width of the page; their strokes and all texts are not, since the texts of the axes are HTML
beside the SVG. Sides differ in colour and in dashes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from itertools import chain
from math import ceil, floor, log10
from typing import Final

from slackwater.app.counterfactual.lines import Side
from slackwater.app.report.answer import Point
from slackwater.model.ids import DAY_SECONDS

STYLE: Final = """\
.plots { display: grid; gap: .8rem; grid-template-columns: repeat(auto-fill, minmax(min(30rem, 100%), 1fr)); }
figure { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .8rem 1rem; }
figcaption { display: flex; flex-wrap: wrap; gap: .2rem 1rem; align-items: center; }
figcaption strong { font-weight: 600; }
.key { display: inline-flex; align-items: center; gap: .35rem; color: var(--dim); font-size: .85rem; }
.key svg { width: 2rem; height: .5rem; }
.plot { position: relative; height: 11rem; margin: .8rem 0 1.6rem 3.6rem; }
.plot svg { position: absolute; width: 100%; height: 100%; overflow: visible; }
.plot span { position: absolute; font-size: .78rem; color: var(--dim); white-space: nowrap; }
.plot span { font-variant-numeric: tabular-nums; }
.plot .value { right: 100%; margin-right: .5rem; transform: translateY(50%); }
.plot .time { top: 100%; margin-top: .3rem; transform: translateX(-50%); }
.grid { stroke: var(--line); stroke-width: 1; vector-effect: non-scaling-stroke; }
.side { fill: none; stroke-width: 2; stroke-linejoin: round; vector-effect: non-scaling-stroke; }
.band { stroke: none; opacity: .25; }
.band.real { fill: var(--warn); }
.band.ours { fill: var(--link); }
.side.real { stroke: var(--warn); }
.side.ours { stroke: var(--link); stroke-dasharray: 7 3; }
@media (max-width: 40rem) { .plot .odd { display: none; } }
@media print { .plots { grid-template-columns: 1fr 1fr; } .plot { height: 4cm; } }
"""
_WIDTH: Final = 1000
_HEIGHT: Final = 200
_VALUES: Final = 4
_LEAST: Final = 1e-6
_TIMES: Final = 6
#: Distances between times on the axis, in seconds; beyond them whole weeks.
_STEPS: Final = (60, 300, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, DAY_SECONDS, 2 * DAY_SECONDS, 7 * DAY_SECONDS)

#: The lines of one side.
Pieces = Sequence[Sequence[Point]]


def plot(name: str, title: str, lines: Mapping[Side, Pieces], labels: Mapping[Side, str]) -> str:
    """One figure. `name`: unique on the page."""
    points = _points(chain.from_iterable(lines.values()))
    if not points:
        return f"<figure><figcaption><strong>{escape(title)}</strong></figcaption><p>No sample was written yet.</p></figure>"
    begin, end = min(point[0] for point in points), max(point[0] for point in points)
    most = max(0.0, *(point[3] for point in points))
    step = _nice(most / _VALUES) if most > _LEAST else 1.0
    steps = max(ceil(most / step - 1e-9), 1)
    top, values = step * steps, [step * number for number in range(steps + 1)]
    keys = "".join(
        f'<span class="key"><svg viewBox="0 0 32 8" aria-hidden="true"><path class="side {side}" d="M0 4H32"/></svg>'
        f"{escape(labels[side])}</span>"
        for side in lines
    )
    drawn = "".join(_drawn(side, pieces, begin, end, top) for side, pieces in lines.items())
    grid = "".join(f"M0 {_short(_HEIGHT * (1 - value / top))}H{_WIDTH}" for value in values)
    described = "; ".join(f"{labels[side]}: {_said(pieces)}" for side, pieces in lines.items())
    return (
        f'<figure><figcaption><strong>{escape(title)}</strong>{keys}</figcaption><div class="plot">'
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-labelledby="{name}-title {name}-desc">'
        f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-desc">{escape(described)}</desc>'
        f'<path class="grid" d="{grid}"/>{drawn}</svg>{"".join(_axes(values, top, begin, end))}</div></figure>'
    )


def _axes(values: Iterable[float], top: float, begin: int, end: int) -> Iterator[str]:
    for value in values:
        yield f'<span class="value" style="bottom:{_short(100 * value / top)}%">{value:,.10g}</span>'
    times = list(_times(begin, end))
    # On a phone every other time stays: those with the days, without which the others say little.
    day = next((number for number, (at, _) in enumerate(times) if at % DAY_SECONDS == 0), 0)
    for number, (at, text) in enumerate(times):
        odd = " odd" if (number - day) % 2 else ""
        yield f'<span class="time{odd}" style="left:{_short(_at(at, begin, end, 100))}%">{text}</span>'


def _times(begin: int, end: int) -> Iterator[tuple[int, str]]:
    """The times on the axis: at midnight the day, else the time of day."""
    span = max(end - begin, 1)
    step = next((step for step in _STEPS if span / step <= _TIMES), ceil(span / _TIMES / (7 * DAY_SECONDS)) * 7 * DAY_SECONDS)
    for at in range(ceil(begin / step) * step, end + 1, step):
        try:
            moment = datetime.fromtimestamp(at, UTC)
        except (ValueError, OverflowError, OSError):
            return
        yield at, f"{moment:%d %b}" if at % DAY_SECONDS == 0 else f"{moment:%H:%M}"


def _drawn(side: Side, pieces: Pieces, begin: int, end: int, top: float) -> str:
    """The line of the means, in a band from the least to the largest values."""

    def path(points: Iterable[tuple[int, float]]) -> str:
        return "L".join(f"{_short(_at(at, begin, end, _WIDTH))} {_short(_HEIGHT * (1 - value / top))}" for at, value in points)

    means = "".join(f"M{path((point[0], point[1]) for point in _seen(piece))}" for piece in pieces)
    bands = "".join(
        f"M{path((*((point[0], point[3]) for point in piece), *((point[0], point[2]) for point in reversed(piece))))}Z"
        for piece in pieces
    )
    return f'<path class="band {side}" d="{bands}"/><path class="side {side}" d="{means}"/>'


def _seen(piece: Sequence[Point]) -> Sequence[Point]:
    """A line of one point would not be seen."""
    return piece if len(piece) > 1 else (piece[0], piece[0])


def _at(at: int, begin: int, end: int, width: int) -> float:
    return width * (at - begin) / max(end - begin, 1)


def _said(pieces: Pieces) -> str:
    points = _points(pieces)
    if not points:
        return "no sample"
    first, last = points[0][1], points[-1][1]
    least, most = min(point[2] for point in points), max(point[3] for point in points)
    return f"{first:,.10g} at first, {last:,.10g} at last, between {least:,.10g} and {most:,.10g}"


def _points(pieces: Iterable[Sequence[Point]]) -> list[Point]:
    return [point for piece in pieces for point in piece]


def _nice(least: float) -> float:
    """The least of 1, 2 and 5 times a power of ten that is no less."""
    power = 10.0 ** floor(log10(least))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least * (1 - 1e-9))


def _short(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
