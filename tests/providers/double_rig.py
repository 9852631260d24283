"""The double of the scenario tests is a provider too: it must not be kinder than the real ones."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from msgspec import structs

from slackwater.model.nodegroups import GroupName, InstanceError, InstanceErrorKind
from slackwater.model.objects import Node, Taint
from tests.providers.rig import FIRST_SIZE, MAX_SIZE, MIN_SIZE, Rig
from tests.support.builders import a_node
from tests.support.cloud import BROKEN, OUT_OF_STOCK, Cloud

GROUP, OTHER = GroupName("group"), GroupName("other")
_ERRORS: dict[InstanceErrorKind, InstanceError] = {"out-of-resources": OUT_OF_STOCK, "other": BROKEN}


@dataclass
class DoubleRig:
    """See `Rig`."""

    provider: Cloud
    clock: list[float]
    group: GroupName = GROUP
    other: GroupName = OTHER
    guards_processes: bool = True

    async def noticed(self) -> None:
        """At once."""

    async def settle(self) -> None:
        while (next_at := self.provider.next_at()) is not None:
            self.clock[0] = next_at

    async def nodes(self) -> Sequence[Node]:
        return self.provider.nodes()

    def another(self) -> Cloud:
        return self.provider  # all there is of it is the cloud

    def lose_answer(self, *, done: bool) -> None:
        self.provider.lose_answers(done=done)

    async def machines_fail(self, kind: InstanceErrorKind) -> None:
        pool = self.provider.pool(self.group)
        for machine in pool.machines:
            if self.clock[0] < machine.asked_at + pool.delays.running_after:
                machine.error = _ERRORS[kind]

    def silence(self) -> None:
        self.provider.breaks("no answer in time")


@asynccontextmanager
async def double_rig() -> AsyncIterator[Rig]:
    clock = [1000.0]
    cloud = Cloud(now=lambda: clock[0])
    rig = DoubleRig(cloud, clock)
    template = structs.replace(
        a_node("template", labels={"tier": "batch"}, taints=[Taint("dedicated", "batch", "NoSchedule")]),
        scalars=(("pods", 110),),
    )
    cloud.has(rig.group, size=FIRST_SIZE, min_size=MIN_SIZE, max_size=MAX_SIZE, template=template)
    cloud.has(rig.other, size=1, max_size=MAX_SIZE, template=template)
    yield rig
