"""Traces of pods that arrive, by the minute: steady, by the time of the day, and in spikes at a minute of each hour.

Pods that come one by one and go again need next to no room: what goes makes room for what comes. Room is needed where many come
at once, as the pods of a job do. So the first two are to be had in jobs as well (`JOBS`), of twelve pods on average.
"""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from slackwater.model.columns import Int64

DAY: Final = 1440
_PODS_OF_A_JOB: Final = 12


def steady(rng: np.random.Generator, days: int) -> Int64:
    """Twelve in a minute, by chance."""
    return rng.poisson(12.0, days * DAY).astype(np.int64)


def daily(rng: np.random.Generator, days: int) -> Int64:
    """Two in a minute at night, thirty at noon; the noon is another one with each seed."""
    minutes = np.arange(days * DAY)
    phase = int(rng.integers(DAY))
    rate = 2.0 + 28.0 * np.clip(np.sin((minutes + phase) * 2 * np.pi / DAY), 0, None) ** 2
    return rng.poisson(rate).astype(np.int64)


def spikes(rng: np.random.Generator, days: int) -> Int64:
    """One in a minute, and sixty to a hundred and twenty at once at the same minute of each hour."""
    found = rng.poisson(1.0, days * DAY)
    at = np.arange(int(rng.integers(60)), days * DAY, 60)
    found[at] += rng.integers(60, 121, len(at))
    return found.astype(np.int64)


def in_jobs(trace: Callable[[np.random.Generator, int], Int64]) -> Callable[[np.random.Generator, int], Int64]:
    """The same pods on average, of jobs that each have one to twenty-three."""

    def made(rng: np.random.Generator, days: int) -> Int64:
        jobs = rng.binomial(trace(rng, days), 1 / _PODS_OF_A_JOB)
        sizes = rng.integers(1, 2 * _PODS_OF_A_JOB, int(jobs.sum()))
        ends = np.cumsum(jobs)
        total = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        return np.asarray(total[ends] - total[ends - jobs], np.int64)

    return made


TRACES: Final[Mapping[str, Callable[[np.random.Generator, int], Int64]]] = {
    "steady": steady,
    "daily": daily,
    "spikes": spikes,
}
JOBS: Final[Mapping[str, Callable[[np.random.Generator, int], Int64]]] = {
    "steady": in_jobs(steady),
    "daily": in_jobs(daily),
    "spikes": spikes,
}
