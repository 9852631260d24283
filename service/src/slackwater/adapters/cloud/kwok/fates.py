"""What becomes of a machine that was asked for: drawn from the seed and its name, so that every process sees the same."""

from dataclasses import dataclass
from random import Random
from typing import Literal

#: fine: its Node appears and boots. failed: an error instead. silent: it runs, no Node appears. unready: its Node never boots.
Fate = Literal["fine", "failed", "silent", "unready"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """How a group's cloud behaves. Seconds; `..._spread` is added, evenly drawn from 0 on. Shares are of all machines, and add
    up to at most 1.

    `stock`: so many machines there are to be had; those beyond it are out of resources until others go. `quota`: the
    group is not let grow beyond it. None: no bound.
    """

    appear_seconds: float = 0.0
    appear_spread_seconds: float = 0.0
    boot_seconds: float = 0.0
    boot_spread_seconds: float = 0.0
    failing: float = 0.0
    silent: float = 0.0
    unready: float = 0.0
    stock: int | None = None
    quota: int | None = None


FAIR = Weather()


@dataclass(frozen=True, slots=True)
class Course:
    """`appears_after` and `boots_after` are seconds from the call that asked for the machine."""

    fate: Fate
    appears_after: float
    boots_after: float


def course(weather: Weather, seed: int, name: str) -> Course:
    """The machine's life, drawn from seed and name."""
    draw = Random(f"{seed}/{name}").random
    luck, appear, boot = draw(), draw(), draw()
    appears = weather.appear_seconds + appear * weather.appear_spread_seconds
    return Course(_fate(weather, luck), appears, appears + weather.boot_seconds + boot * weather.boot_spread_seconds)


def _fate(weather: Weather, luck: float) -> Fate:
    if luck < weather.failing:
        return "failed"
    if luck < weather.failing + weather.silent:
        return "silent"
    return "unready" if luck < weather.failing + weather.silent + weather.unready else "fine"
