"""What a bench found, as values: measurements of several rounds, and ratios of two subjects round by round.

A ratio is the median of the rounds' ratios, not the ratio of two medians: what slows one round down slows both its runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """The goal of a figure: shown beside the figure, never asserted. One of the two is None."""

    at_least: float | None = None
    at_most: float | None = None

    def met_by(self, value: float) -> bool:
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)

    def __str__(self) -> str:
        return f">= {self.at_least:g}" if self.at_least is not None else f"<= {self.at_most:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One quantity of one subject, once a round."""

    subject: str
    quantity: str
    unit: str
    samples: tuple[float, ...]
    goal: Goal | None = None

    @property
    def median(self) -> float:
        return median(self.samples)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Outside of them a ratio is absurd: something is broken rather than slow. `why` says why just these."""

    low: float
    high: float
    why: str

    def hold(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """Subject over reference, once a round."""

    name: str
    samples: tuple[float, ...]
    bounds: Bounds | None = None
    goal: Goal | None = None

    @property
    def median(self) -> float:
        return median(self.samples)

    @property
    def absurd(self) -> bool:
        return self.bounds is not None and not self.bounds.hold(self.median)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one bench found. `parameters` say what was run, `notes` what a reader of the numbers has to know."""

    bench: str
    quick: bool
    parameters: Mapping[str, int | str]
    measurements: tuple[Measurement, ...]
    ratios: tuple[Ratio, ...]
    notes: tuple[str, ...] = ()

    def absurd(self) -> dict[str, str]:
        """One sentence for each ratio that is out of bounds, by the ratio's name."""
        found = [(ratio, ratio.bounds) for ratio in self.ratios if ratio.bounds is not None and ratio.absurd]
        return {
            ratio.name: f"{ratio.name} is {ratio.median:.2f}, want {bounds.low:g}..{bounds.high:g}: {bounds.why}"
            for ratio, bounds in found
        }


def ratio_of(
    name: str, above: Sequence[float], below: Sequence[float], *, bounds: Bounds | None = None, goal: Goal | None = None
) -> Ratio:
    """Round by round `above` / `below`; both have one entry a round."""
    samples = tuple(a / b for a, b in zip(above, below, strict=True))
    return Ratio(name=name, samples=samples, bounds=bounds, goal=goal)
