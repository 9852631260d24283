"""The autoscaler's real loop on the fake ec2, through the real client: virtual time, kubelets, a scheduler, faults.

A Node appears 40 s after its machine was launched and is ready 10 s later. `rng` decides faults, each with its probability a
request; None: there are none.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from botocore.exceptions import ConnectionClosedError
from msgspec import structs

from slackwater.adapters.cloud.aws.client import AwsClient
from slackwater.adapters.cloud.aws.interruptions import InterruptionQueue
from slackwater.adapters.cloud.aws.provider import AwsProvider
from slackwater.model.nodegroups import MachineWarning
from slackwater.model.objects import Node
from slackwater.ports.protocols import NodeProvider, ProviderError
from tests.support import installed
from tests.support.awswire import RefusedRequest, Request, client_of
from tests.support.builders import a_node
from tests.support.fake_ec2 import CHANGES, OWNED, TYPES, FakeEc2, FakeMachine
from tests.support.shrinking import ShrinkScene

ZONES = ("eu-west-1a", "eu-west-1b", "eu-west-1c")
REGISTERED_AFTER, READY_AFTER = 40.0, 50.0


@dataclass
class Faults:
    """How probable each fault is, of one request. `lost`: of a change, before or after it was carried out."""

    throttled: float = 0.04
    broken: float = 0.03
    lost: float = 0.08
    left_out: float = 0.03
    stale: float = 0.5


FAULTS = Faults()


class Nodes:
    """The ec2 as the cluster sees it."""

    def __init__(self, ec2: FakeEc2) -> None:
        self._ec2 = ec2
        self._made: dict[tuple[str, bool], Node] = {}

    def nodes(self) -> Sequence[Node]:
        self._ec2.advance()
        now = self._ec2.now()
        return [
            self._node(machine, ready=now >= machine.launched_at + READY_AFTER)
            for group in self._ec2.groups.values()
            for machine in group.machines
            if now >= machine.launched_at + REGISTERED_AFTER and (machine.ended_at is None or now < machine.ended_at + 20)
        ]

    def _node(self, machine: FakeMachine, *, ready: bool) -> Node:
        if (machine.id, ready) not in self._made:
            labels = {"topology.kubernetes.io/zone": machine.zone, "node.kubernetes.io/instance-type": machine.type}
            cpus, gib = TYPES[machine.type]
            node = a_node(machine.id, cpu=f"{cpus * 1000 - 80}m", memory=f"{gib - 2}Gi", labels=labels)
            self._made[machine.id, ready] = structs.replace(
                node, provider_id=machine.provider_id, scalars=(("pods", 58),), ready=ready
            )
        return self._made[machine.id, ready]


class AwsScene(ShrinkScene):
    """See the module. Make it with `aws_scene`."""

    def __init__(self, rng: Random | None, faults: Faults) -> None:
        self.rng, self.faults = rng, faults
        self.is_faulty = rng is not None
        self.ec2 = FakeEc2(now=self._wall, stale_seconds=self._staleness)
        self.client = AwsClient({})
        super().__init__(scale_down=replace(installed.SCALE_DOWN, unneeded_time=120.0, max_scale_down_parallelism=50))

    def _begin(self) -> None:
        self.clouds = []
        self.machines = Nodes(self.ec2)
        self.provider = AwsProvider(self.client, tags={OWNED: ""}, now=self.time.wall)
        super()._begin()
        self.queue = InterruptionQueue(
            self.client, "queue", name_of=self.provider.name_of, take=self._warned, reads=lambda: True, now=self.time.wall
        )

    def _wall(self) -> float:
        return self.time.wall()

    def _warned(self, warning: MachineWarning) -> bool:
        taken = self.scale_down.warned(warning)
        effects = list(self.effects)
        self.effects.clear()
        self.carry_out(effects)
        return taken

    def providers(self) -> Sequence[NodeProvider]:
        return [self.provider]

    def registered(self) -> Iterable[Node]:
        return self.machines.nodes()

    def _staleness(self) -> float:
        if self.rng is None or not self.is_faulty or self.rng.random() > self.faults.stale:
            return 0.0
        return self.rng.uniform(0, 29)

    async def answer(self, request: Request) -> Mapping[str, Any]:
        """The fleet's answer, or a fault."""
        rng, faults = self.rng, self.faults
        if rng is None or not self.is_faulty:
            return await self.ec2.answer(request)
        if rng.random() < faults.throttled:
            raise RefusedRequest("Throttling", "Rate exceeded")
        if rng.random() < faults.broken:
            raise RefusedRequest("InternalFailure", "", 500)
        if request.operation == "DescribeAutoScalingGroups" and rng.random() < faults.left_out:
            self.ec2.left_out.append(rng.choice(sorted(self.ec2.groups)))
        if request.operation in CHANGES and rng.random() < faults.lost:
            if rng.random() < 0.5:
                await self.ec2.answer(request)
            raise ConnectionClosedError(endpoint_url="http://aws.fake")
        return await self.ec2.answer(request)

    async def pass_time(self, seconds: float, *, every: float = 10.0) -> None:
        for _ in range(int(seconds / every)):
            await super().pass_time(every, every=every)
            try:
                await self.queue.once()
            except ProviderError:
                assert self.is_faulty

    def begins(self, count: int) -> None:
        """So many pods come, each of which takes a machine for itself."""
        if "web" not in self.workloads:
            self.runs("web", [])
        for _ in range(count):
            self._make("web", "3", None)

    def ends(self, count: int) -> None:
        """So many pods end for good."""
        self.finishes(list(self.pods)[:count])

    def live(self) -> list[FakeMachine]:
        return [machine for group in self.ec2.groups.values() for machine in group.live()]

    def desired(self) -> int:
        return sum(group.desired for group in self.ec2.groups.values())


@asynccontextmanager
async def aws_scene(rng: Random | None = None, faults: Faults = FAULTS) -> AsyncIterator[AwsScene]:
    scene = AwsScene(rng, faults)
    async with client_of(scene.answer) as client:
        scene.client = client
        scene._begin()
        yield scene
