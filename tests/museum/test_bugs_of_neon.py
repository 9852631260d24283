"""Bugs of Neon's scheduler and its protocol: each story has to the service and to a naive model, and goes wrong there.

Sources: the number in each story is that of an issue or pull request,
https://github.com/neondatabase/autoscaling/issues/<number>.
"""

from collections.abc import Callable
from typing import Protocol

import pytest
from msgspec import structs

from slackwater.model.objects import Pod
from slackwater.model.resources import Amounts
from tests.support.builders import a_node, a_vertical, amounts
from tests.support.growing import Growing

_TOTAL = 10


class Scheduler(Protocol):
    """One node of 10 CPU; amounts are CPUs."""

    def places(self, name: str, *, using: int, most: int, agent: bool = True) -> None: ...

    def asks(self, name: str, cpus: int, *, last: int) -> int:
        """The permit."""

    def restarts(self) -> None: ...

    def changes(self, name: str, *, using: int, most: int) -> None:
        """Somebody changed the machine, not its agent."""

    def ends(self, name: str) -> None:
        """Its pod has ended, and is there still."""

    def reserved(self) -> int: ...

    def buffer(self) -> int: ...


class Ours:
    def __init__(self) -> None:
        self._cluster = Growing()
        self._cluster.has_node(a_node("n", cpu="10", memory="40Gi"))
        self._pods: dict[str, Pod] = {}

    def places(self, name: str, *, using: int, most: int, agent: bool = True) -> None:
        vertical = a_vertical(using=_cpus(using), maximum=_cpus(most), scaling=agent)
        self._pods[name] = self._cluster.places(name, on="n", vertical=vertical)

    def asks(self, name: str, cpus: int, *, last: int) -> int:
        answer = self._cluster.ask(self._pods[name], _cpus(cpus), last=_cpus(last) if last else None)
        self._cluster.write()
        return answer.permit.cpu // 1000

    def restarts(self) -> None:
        self._cluster.restarts()

    def changes(self, name: str, *, using: int, most: int) -> None:
        self._cluster.change(self._pods[name], using=_cpus(using), max=_cpus(most))

    def ends(self, name: str) -> None:
        self._cluster.store(structs.replace(self._pods[name], ended=True))

    def reserved(self) -> int:
        return self._cluster.cpu("n")["R"] // 1000

    def buffer(self) -> int:
        return self._cluster.cpu("n")["B"] // 1000


def _cpus(count: int) -> Amounts:
    return amounts(str(count), f"{count * 4}Gi")


class Naive:
    """Counts in memory, by what it permitted itself; after a start by what machines use, and Max - use as Buffer, unsigned.
    Only agents and the end of a Pod object change anything."""

    def __init__(self) -> None:
        self._using: dict[str, int] = {}
        self._most: dict[str, int] = {}
        self._reserved: dict[str, int] = {}
        self._buffer = 0

    def places(self, name: str, *, using: int, most: int, agent: bool = True) -> None:
        del agent
        self._using[name], self._most[name], self._reserved[name] = using, most, using

    def asks(self, name: str, cpus: int, *, last: int) -> int:
        del last
        others = sum(count for other, count in self._reserved.items() if other != name)
        self._reserved[name] = min(cpus, _TOTAL - others)
        return self._reserved[name]

    def restarts(self) -> None:
        self._reserved = dict(self._using)
        self._buffer = sum(self._most[name] - self._using[name] for name in self._using) % 2**32

    def changes(self, name: str, *, using: int, most: int) -> None:
        self._using[name], self._most[name] = using, most

    def ends(self, name: str) -> None:
        """It waits for the deletion."""

    def reserved(self) -> int:
        return sum(self._reserved.values())

    def buffer(self) -> int:
        return self._buffer


def a_fresh_scheduler_does_not_give_away_what_was_permitted(scheduler: Scheduler) -> bool:
    """#1, #555, #840, #995: a permitted 6 and has not grown yet; b asks first after the restart."""
    scheduler.places("a", using=1, most=8)
    scheduler.places("b", using=1, most=8)
    permitted = scheduler.asks("a", 6, last=1)
    scheduler.restarts()
    return permitted == 6 and permitted + scheduler.asks("b", 8, last=1) <= _TOTAL


def the_agents_last_permit_stands_after_a_restart(scheduler: Scheduler) -> bool:
    """#555: b, which was granted all that was left, keeps it however greedy a is."""
    scheduler.places("a", using=1, most=8)
    scheduler.places("b", using=1, most=8)
    had = scheduler.asks("b", 8, last=1)
    scheduler.restarts()
    greedy = scheduler.asks("a", 8, last=1)
    return scheduler.asks("b", had, last=had) == had and had + greedy <= _TOTAL


def buffer_never_falls_below_nothing(scheduler: Scheduler) -> bool:
    """#852: it was 4.29e6 CPUs, twice: a machine that uses more than its Max by now."""
    scheduler.places("a", using=6, most=8)
    scheduler.changes("a", using=6, most=4)
    scheduler.restarts()
    return 0 <= scheduler.buffer() <= _TOTAL


def a_pod_that_has_ended_takes_no_room(scheduler: Scheduler) -> bool:
    """#1335."""
    scheduler.places("a", using=6, most=8)
    scheduler.ends("a")
    return scheduler.reserved() == 0


def a_size_that_no_agent_changed_counts(scheduler: Scheduler) -> bool:
    """#251: a machine without an agent is resized by hand."""
    scheduler.places("a", using=2, most=8, agent=False)
    scheduler.changes("a", using=5, most=8)
    return scheduler.reserved() == 5


@pytest.mark.parametrize(
    "story",
    [
        a_fresh_scheduler_does_not_give_away_what_was_permitted,
        the_agents_last_permit_stands_after_a_restart,
        buffer_never_falls_below_nothing,
        a_pod_that_has_ended_takes_no_room,
        a_size_that_no_agent_changed_counts,
    ],
    ids=lambda story: story.__name__,
)
def test_a_story_that_goes_wrong_in_a_naive_model_ends_well(story: Callable[[Scheduler], bool]) -> None:
    assert not story(Naive()), "the story shows nothing"
    assert story(Ours())
