"""kube-scheduler keeps to a rule that is not in our configuration: pods wait beside nodes on which they fit by what we know.

The real loops over a cloud on virtual time; only the scheduler is another.
"""

from dataclasses import replace

import pytest
from msgspec import structs

from tests.support.builders import a_pod
from tests.support.disagreeing import Looking, a_machine
from tests.support.scaling import Scenario

pytestmark = pytest.mark.anyio

TRUSTED = {"trusted": "yes"}
WORDS = "0/{} nodes are available: {} node(s) didn't match scheduler-enforced node affinity."


class Enforcing(Scenario):
    """Its scheduler places pods on trusted nodes alone, and refuses the others as kube-scheduler does."""

    def __init__(self, *, believe: bool) -> None:
        super().__init__()
        self.policy = replace(self.policy, believe_scheduler=believe)
        self.looking = Looking(self.state_machine)

    def _schedule(self) -> None:
        every, self._shown = (
            self._shown,
            {name: node for name, node in self._shown.items() if TRUSTED.items() <= node.labels.items()},
        )
        super()._schedule()
        self._shown = every
        words = WORDS.format(len(every), len(every))
        for pod in list(self.pods.values()):
            if pod.node is None and pod.unschedulable_message != words:
                self.wants(structs.replace(pod, unschedulable_message=words, resource_version=pod.resource_version + 1))

    async def pass_time(self, seconds: float, *, every: float = 10.0) -> None:
        for _ in range(int(seconds / every)):
            self.looking.now = self.time.seconds
            await self.looking.goes_on(every)
            await super().pass_time(every, every=every)


def pool(scenario: Scenario, *, size: int = 0, labels: dict[str, str] | None = None, cpu: str = "4") -> None:
    scenario.cloud.has("b" if size else "a", size=size, template=a_machine("template", labels=labels, cpu=cpu))


async def test_pods_wait_beside_room_unless_the_scheduler_is_believed() -> None:
    for believe, want_pending in ((False, 4), (True, 0)):
        scenario = Enforcing(believe=believe)
        pool(scenario, size=2)
        await scenario.pass_time(300.0)
        pool(scenario, labels=TRUSTED)
        scenario.wants_many(4, cpu="2")
        await scenario.pass_time(600.0)
        assert scenario.pending() == want_pending
        assert scenario.sizes() == {"b": 2, "a": 2 if believe else 0}, "two pods a node, one node after the other"
        assert scenario.looking.said, "it is said in either case"
        assert WORDS.format(2, 2) in scenario.looking.said[0].note


async def test_a_group_whose_nodes_are_refused_is_not_the_first_to_be_tried() -> None:
    scenario = Enforcing(believe=True)
    pool(scenario, size=2)
    await scenario.pass_time(300.0)
    pool(scenario, labels=TRUSTED, cpu="16")  # more than the pod needs
    scenario.wants_many(1, cpu="4")
    await scenario.pass_time(300.0)
    assert (scenario.pending(), scenario.sizes()) == (0, {"b": 2, "a": 1})


async def test_where_the_scheduler_refuses_the_bought_node_too_no_other_is_bought() -> None:
    scenario = Enforcing(believe=True)
    pool(scenario, size=2)
    await scenario.pass_time(300.0)
    pool(scenario)  # its nodes are no more trusted than the others
    scenario.wants_many(4, cpu="2")
    scenario.wants(a_pod("of another kind", cpu="1"))
    await scenario.pass_time(600.0)
    assert scenario.pending() == 5
    assert scenario.sizes() == {"b": 2, "a": 2}, "one for each kind of pods"
    found = [scenario.looking.about(pod) for pod in scenario.pods.values()]
    assert sum(each is not None and each.bought for each in found) == 2
