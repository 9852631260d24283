"""The provider aws: the real client on the fake ec2, whose time goes on when the suite says so."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from slackwater.adapters.cloud.aws.client import AwsClient
from slackwater.adapters.cloud.aws.provider import AwsProvider
from slackwater.model.nodegroups import GroupName, InstanceErrorKind
from slackwater.model.objects import Node
from tests.providers.rig import FIRST_SIZE, MAX_SIZE, MIN_SIZE, Rig
from tests.support.awswire import client_of
from tests.support.builders import a_node
from tests.support.fake_ec2 import OWNED, TAGS, FakeEc2

GROUP, OTHER = GroupName("asg-a"), GroupName("asg-b")
PREFIX = "k8s.io/cluster-autoscaler/node-template"
TEMPLATE = {
    f"{PREFIX}/resources/cpu": "4",
    f"{PREFIX}/resources/memory": "16Gi",
    f"{PREFIX}/resources/pods": "110",
    f"{PREFIX}/label/tier": "batch",
    f"{PREFIX}/taint/dedicated": "batch:NoSchedule",
}


@dataclass
class AwsRig:
    """See `Rig`. The fake's answers are never stale, and the provider trusts them at once."""

    ec2: FakeEc2
    clock: list[float]
    client: AwsClient
    provider: AwsProvider
    group: GroupName = GROUP
    other: GroupName = OTHER
    guards_processes: bool = False

    async def noticed(self) -> None:
        self.clock[0] += self.ec2.launch_after
        self.ec2.advance()

    async def settle(self) -> None:
        for _ in range(3):
            self.clock[0] += self.ec2.retry_after
            self.ec2.advance()

    async def nodes(self) -> Sequence[Node]:
        up = [
            machine
            for group in self.ec2.groups.values()
            for machine in group.machines
            if self.clock[0] >= machine.launched_at + self.ec2.in_service_after
        ]
        return [a_node(machine.id, provider_id=machine.provider_id) for machine in up]

    def another(self) -> AwsProvider:
        return a_provider(self.client, self.clock)

    def lose_answer(self, *, done: bool) -> None:
        self.ec2.lost.append(done)

    async def machines_fail(self, kind: InstanceErrorKind) -> None:
        group = self.ec2.groups[self.group]
        for machine in [machine for machine in group.machines if self.clock[0] < machine.launched_at + 20.0]:
            group.machines.remove(machine)
            machine.activity["StatusCode"] = "Failed"
            code = {"out-of-resources": "InsufficientInstanceCapacity", "other": "InvalidAMIID.Unavailable"}[kind]
            machine.activity["StatusMessage"] = f"{code} - It did not start. Launching EC2 instance failed."
        group.failed_at = self.clock[0]

    def silence(self) -> None:
        self.ec2.silent = True


def a_provider(client: AwsClient, clock: list[float]) -> AwsProvider:
    return AwsProvider(client, tags={OWNED: ""}, now=lambda: clock[0], consistent_after=0.0)


@asynccontextmanager
async def aws_rig() -> AsyncIterator[Rig]:
    clock = [1_700_000_000.0]
    ec2 = FakeEc2(now=lambda: clock[0])
    for name, size, minimum in ((GROUP, FIRST_SIZE, MIN_SIZE), (OTHER, 1, 0)):
        ec2.has(name, desired=size, min_size=minimum, max_size=MAX_SIZE, tags={**TAGS, **TEMPLATE})
    async with client_of(ec2.answer) as client:
        yield AwsRig(ec2, clock, client, a_provider(client, clock))
