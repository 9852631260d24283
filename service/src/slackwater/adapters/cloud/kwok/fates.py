"""Decides what happens to a requested machine, from the seed and its name, so that every process decides the same."""

from dataclasses import dataclass
from random import Random
from typing import Literal

#: fine: its Node appears and boots. failed: it ends in an error. silent: it runs, but no Node appears. unready: the Node never
#: boots.
Fate = Literal["fine", "failed", "silent", "unready"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """How the simulated cloud of a group behaves. Times are in seconds; an evenly drawn part of `..._spread` is added. Shares
    are of all machines, and add up to at most 1.

    `stock` is the number of machines that exist; requests beyond it fail for lack of resources until others are deleted.
    `quota` is the largest size of the group. None: no limit.
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
    """The life of one machine. `appears_after` and `boots_after` are seconds since the machine was requested."""

    fate: Fate
    appears_after: float
    boots_after: float


def course(weather: Weather, seed: int, name: str) -> Course:
    """The life of a machine, drawn from seed and name."""
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
