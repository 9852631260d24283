"""Simulates what becomes of requested machines. The outcome depends on seed and name only, so all processes agree on it."""

from dataclasses import dataclass
from random import Random
from typing import Literal

#: fine: its Node appears and boots. failed: an error instead. silent: it runs, no Node appears. unready: its Node never boots.
Fate = Literal["fine", "failed", "silent", "unready"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """The simulated behaviour of a group's cloud.

    `appear_...` is the time until a Node appears, `boot_...` from there until it boots; seconds. Each is the first value plus a
    uniformly distributed part between 0 and `..._spread_seconds`. `failing`, `silent` and `unready` are shares of all machines;
    together at most 1. `stock` is the number of available machines: others are out of resources until some are deleted.
    `quota` is the greatest size that the group may grow to. None means no limit.
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
    """The simulated course of one machine. `appears_after` and `boots_after` are seconds since it was requested."""

    fate: Fate
    appears_after: float
    boots_after: float


def course(weather: Weather, seed: int, name: str) -> Course:
    """Returns the course of machine `name`; the same for the same seed and name."""
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
