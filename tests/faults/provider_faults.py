"""How bad things are at the moment: chances of each fault, for every request and every read of a watch."""

from dataclasses import dataclass, field, fields
from random import Random
from typing import Final

from slackwater.runtime.intake import SETTLE_SECONDS

#: An API server gives a request up after a minute. A new process of ours waits for binds that an earlier one has answered for.
_LONGEST_BIND_SECONDS: Final = 55.0
_LONGEST_BIND_ACROSS_LIVES_SECONDS: Final = SETTLE_SECONDS


@dataclass(slots=True)
class SimulatedFailures:
    """Chances from 0 to 1, and seconds. All zero: everything arrives, and at once."""

    lost_before: float = 0.0  #: a request that never arrives
    lost_after: float = 0.0  #: an answer that never arrives
    ghost: float = 0.0  #: a write that arrives when its caller has long given it up
    doubled: float = 0.0  #: a write that arrives twice
    refused: float = 0.0  #: 429, 500, 503, or 409 for a write
    slow: float = 0.0  #: seconds, of every request, times a lot
    watch_breaks: float = 0.0  #: of each read
    watch_expires: float = 0.0  #: 410 instead
    watch_lag: float = 0.0  #: seconds
    extender_lost: float = 0.0  #: a question of the scheduler, or its answer
    agent_lost: float = 0.0  #: a request of an agent, or its answer
    agent_silent: float = 0.0  #: of each request: the agent asks nothing for a while
    agent_lies: float = 0.0  #: of each request: it says what is not true as well
    kill: float = 0.0  #: of each second: the service is killed
    stop: float = 0.0  #: of each second: it has to stop, and started again
    outage: float = 0.0  #: of each second: the API server is gone for a while
    disk: float = 0.0  #: of each second: for a while the API server takes seconds for every write
    scheduler_restart: float = 0.0  #: of each second
    skew: float = 0.0  #: seconds by which the clock on the wall is wrong


_WORST: Final = SimulatedFailures(
    lost_before=0.10,
    lost_after=0.10,
    ghost=0.06,
    doubled=0.08,
    refused=0.15,
    slow=0.15,
    watch_breaks=0.05,
    watch_expires=0.02,
    watch_lag=0.4,
    extender_lost=0.08,
    agent_lost=0.10,
    agent_silent=0.05,
    agent_lies=0.05,
    kill=0.25,
    stop=0.12,
    outage=0.05,
    disk=0.15,
    scheduler_restart=0.1,
    skew=30.0,
)
FAULTS: Final = tuple(fault.name for fault in fields(SimulatedFailures))


def provider_faults_of(rng: Random, without: frozenset[str] = frozenset()) -> SimulatedFailures:
    """Some kinds of faults, each of some strength; a run in which everything breaks shows little of anything."""
    found = SimulatedFailures()
    for name in FAULTS:
        chosen, strength = rng.random() < 0.5, rng.random() ** 2
        if chosen and name not in without:
            setattr(found, name, getattr(_WORST, name) * strength)
    return found


@dataclass(slots=True)
class Sky:
    """The weather now: as the seed has it, or calm."""

    stormy: SimulatedFailures
    calm: bool = False
    _none: SimulatedFailures = field(default_factory=SimulatedFailures)

    @property
    def now(self) -> SimulatedFailures:
        return self._none if self.calm else self.stormy

    def bind_delay(self, rng: Random) -> float:
        """How long a bind of kube-scheduler is on its way, in seconds: mostly a short time."""
        longest = _LONGEST_BIND_ACROSS_LIVES_SECONDS if self.stormy.kill or self.stormy.stop else _LONGEST_BIND_SECONDS
        return 0.0 if self.calm else 0.001 + longest * rng.random() ** 12
