"""What a feed keeps of pods that changed: the versions that a plan refers to, and nothing where nobody plans."""

import pytest
from msgspec import structs

from slackwater.app.policies import policy_of
from slackwater.app.settings import Settings
from slackwater.model.events import PodGone, PodSeen
from slackwater.model.ids import Instant
from slackwater.model.objects import Pod
from slackwater.ports.clock import Watch
from tests.support.builders import a_pod
from tests.support.planners import a_feed
from tests.support.small_state_machine import SmallStateMachine

pytestmark = pytest.mark.anyio


class Fed:
    """A state machine, and the feed of a replica that has all of it."""

    def __init__(self) -> None:
        self.small = SmallStateMachine(policy_of(Settings()))
        self.feed = a_feed(self.small.state_machine)

    async def collect(self, *, for_plan: bool = False) -> None:
        await self.feed.collect(Watch(lambda: Instant(0.0)), for_plan=for_plan)

    async def lives(self, name: str) -> None:
        """A pod comes, changes and goes."""
        pod = self.small.comes(a_pod(name, cpu="1m", on="n"))
        await self.collect()
        self.small.apply(PodSeen(relabelled(pod)))
        await self.collect()
        self.small.apply(PodGone(pod.uid, pod.key))
        await self.collect()

    def pods(self) -> set[str]:
        """The names of the pods of which it has a version."""
        found = (*self.feed._pods.values(), *(self.feed._planned or {}).values())
        return {pod.key.name for pod in found}


def relabelled(pod: Pod) -> Pod:
    return structs.replace(pod, labels=(("changed", "yes"),), resource_version=pod.resource_version + 1)


async def test_where_nobody_plans_it_keeps_the_pods_that_there_are() -> None:
    """As with the counterfactual, which runs for months."""
    fed = Fed()
    fed.small.comes(a_pod("stays", cpu="1m", on="m"))
    for number in range(3):
        await fed.lives(f"goes-{number}")
    assert fed.pods() == {"stays"}


async def test_a_plan_gets_the_pods_as_they_were_until_another_is_requested() -> None:
    fed = Fed()
    pod = fed.small.comes(a_pod("p", cpu="1m", on="n"))
    await fed.collect(for_plan=True)
    fed.small.apply(PodSeen(relabelled(pod)))
    await fed.collect()
    await fed.lives("goes")
    assert fed.feed.pod_of(pod.uid) == pod
    await fed.collect(for_plan=True)
    assert fed.feed.pod_of(pod.uid) == relabelled(pod)
    fed.small.apply(PodGone(pod.uid, pod.key))
    await fed.collect(for_plan=True)
    assert fed.pods() == set()
