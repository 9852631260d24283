"""Bugs of schedulers' extenders: each story has to the service and to a naive model, and goes wrong there.

Sources: k/k#n is https://github.com/kubernetes/kubernetes/issues/n, HAMi#n https://github.com/Project-HAMi/HAMi/issues/n,
neon#n https://github.com/neondatabase/autoscaling/issues/n.
"""

from collections.abc import Callable
from typing import Protocol

import pytest
from msgspec import structs

from slackwater.model.events import PodGone
from slackwater.model.ids import NodeName
from slackwater.model.objects import Pod
from slackwater.model.reasons import Reason
from tests.scenarios.test_the_life_of_a_bind import Story
from tests.support.builders import a_node, a_pod

_CPU = 4000


class Extender(Protocol):
    """Two nodes `n` and `m` of 4 CPU, and what kube-scheduler and the watch tell."""

    def filter(self, pod: Pod, *nodes: str) -> list[str]: ...

    def bind(self, pod: Pod, node: str) -> bool: ...

    def bound(self, pod: Pod, node: str) -> None:
        """The watch shows it there, whoever bound it."""

    def refused(self, pod: Pod, node: str) -> None:
        """The API server would not have the binding."""

    def gone(self, pod: Pod) -> None: ...

    def used(self, node: str) -> int: ...


class Ours:
    """The state machine, without anything around it."""

    def __init__(self) -> None:
        self._story = Story(a_node("n", cpu="4"), a_node("m", cpu="4"))

    def filter(self, pod: Pod, *nodes: str) -> list[str]:
        codes = self._story.filter(pod, *nodes)
        return [name for name, code in zip(nodes, codes, strict=True) if code is Reason.OK]

    def bind(self, pod: Pod, node: str) -> bool:
        if self._story.state_machine.state.pods.get(pod.uid) is None:
            self._story.seen(pod)
        return self._story.bind(pod, node) is Reason.OK

    def bound(self, pod: Pod, node: str) -> None:
        self._story.seen(structs.replace(pod, node=NodeName(node), resource_version=pod.resource_version + 1_000_000))

    def refused(self, pod: Pod, node: str) -> None:
        self._story.bind_ended(pod, node, "refused")

    def gone(self, pod: Pod) -> None:
        self._story.state_machine.apply(PodGone(pod.uid, pod.key), self._story.at)

    def used(self, node: str) -> int:
        return self._story.reserved(node)


class Naive:
    """Filter reads what is free and keeps nothing; bind adds up what it is told and locks its node until it hears of the end;
    what goes is given back where the watch had shown it."""

    def __init__(self) -> None:
        self._used = {"n": 0, "m": 0}
        self._shown: dict[str, str] = {}
        self._own: set[str] = set()
        self._locked: set[str] = set()

    def filter(self, pod: Pod, *nodes: str) -> list[str]:
        return [node for node in nodes if self._used[node] + pod.need.cpu <= _CPU]

    def bind(self, pod: Pod, node: str) -> bool:
        if node in self._locked and pod.uid not in self._own:
            return False
        self._locked.add(node)
        self._own.add(pod.uid)
        self._used[node] += pod.need.cpu
        return True

    def bound(self, pod: Pod, node: str) -> None:
        self._shown[pod.uid] = node
        self._locked.discard(node)

    def refused(self, pod: Pod, node: str) -> None:
        self._used[node] -= pod.need.cpu
        self._locked.discard(node)

    def gone(self, pod: Pod) -> None:
        node = self._shown.pop(pod.uid, None)
        if node is not None:
            self._used[node] -= pod.need.cpu

    def used(self, node: str) -> int:
        return self._used[node]


P, Q = a_pod("p", cpu="3"), a_pod("q", cpu="3")


def two_filters_read_the_same_room(extender: Extender) -> bool:
    """HAMi#2232, #2470, #2559: the second has to see what the first was let pass to."""
    return extender.filter(P, "n") == ["n"] and extender.filter(Q, "n") == []


def a_bind_is_repeated_when_its_answer_was_lost(extender: Extender) -> bool:
    """k/k#96579: bound, timed out, tried again."""
    extender.filter(P, "n")
    return extender.bind(P, "n") and extender.bind(P, "n") and extender.used("n") == 3000


def a_pod_is_deleted_before_the_watch_shows_it_bound(extender: Extender) -> bool:
    """HAMi#2923: all that was reserved for it stayed reserved."""
    extender.filter(P, "n")
    extender.bind(P, "n")
    extender.gone(P)
    return extender.used("n") == 0


def a_denial_is_shown_to_the_next_filter(extender: Extender) -> bool:
    """neon#869, HAMi#273: else kube-scheduler offers the same node for ever."""
    extender.filter(P, "n", "m")
    extender.bind(P, "n")
    extender.refused(P, "n")
    return extender.filter(P, "n", "m") == ["m"]


def a_pod_is_bound_behind_our_back(extender: Extender) -> bool:
    """k/k#122503: an ignorable extender's error makes kube-scheduler bind by itself."""
    extender.bound(P, "n")
    return extender.used("n") == 3000 and extender.filter(Q, "n") == []


def a_bind_that_nobody_hears_of_again_holds_nobody_up(extender: Extender) -> bool:
    """HAMi#1130, #450: the lock of a node stood for five minutes."""
    small, other = a_pod("small", cpu="1"), a_pod("other", cpu="1")
    extender.filter(small, "n")
    extender.bind(small, "n")
    extender.filter(other, "n")
    return extender.bind(other, "n")


@pytest.mark.parametrize(
    "story",
    [
        two_filters_read_the_same_room,
        a_bind_is_repeated_when_its_answer_was_lost,
        a_pod_is_deleted_before_the_watch_shows_it_bound,
        a_denial_is_shown_to_the_next_filter,
        a_pod_is_bound_behind_our_back,
        a_bind_that_nobody_hears_of_again_holds_nobody_up,
    ],
    ids=lambda story: story.__name__,
)
def test_a_story_that_goes_wrong_in_a_naive_model_ends_well(story: Callable[[Extender], bool]) -> None:
    assert not story(Naive()), "the story shows nothing"
    assert story(Ours())
