"""What is particular to the provider aws, against the fake ec2: discovery, templates, failures, and what AWS shows late."""

import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from botocore.parsers import ResponseParserError
from structlog.testing import capture_logs

import slackwater.adapters.cloud.aws as aws_adapter
from slackwater.adapters.cloud.aws.client import AwsClient
from slackwater.adapters.cloud.aws.provider import AwsProvider
from slackwater.app.settings import SettingsError, loads
from slackwater.model.nodegroups import EVEN_ZONES, GroupName, GroupOptions, Instance, NodeGroup
from slackwater.model.objects import Taint
from slackwater.ports.protocols import ProviderError
from tests.providers.aws_rig import PREFIX
from tests.support.awswire import RefusedRequest, client_of
from tests.support.configuration import HEADER
from tests.support.fake_ec2 import ENABLED, OWNED, TAGS, TYPES, FakeEc2

pytestmark = [pytest.mark.anyio]

A, B, C = (f"eu-west-1{letter}" for letter in "abc")
ZONES = (A, B, C)
THROTTLED = RefusedRequest("Throttling", "Rate exceeded")


class Aws:
    """The provider on a ec2, as it is in a cluster: answers may be 30 s old."""

    def __init__(self) -> None:
        self.time = 1_700_000_000.0
        self.ec2 = FakeEc2(now=lambda: self.time)
        self.provider: AwsProvider

    def passes(self, seconds: float) -> None:
        for _ in range(int(seconds)):
            self.time += 1.0
            self.ec2.advance()

    async def look(self, name: str = "asg") -> NodeGroup:
        return {group.name: group for group in await self.provider.groups(timeout_seconds=60)}[GroupName(name)]

    async def grow(self, seen: int, to: int, name: str = "asg") -> None:
        await self.provider.grow(GroupName(name), seen=seen, to=to, timeout_seconds=60)

    async def delete(self, *instances: Instance, **how: Any) -> None:
        await self.provider.delete(GroupName("asg"), instances, timeout_seconds=60, **how)


@asynccontextmanager
async def aws_on(aws: Aws, **how: Any) -> AsyncIterator[None]:
    async with client_of(aws.ec2.answer) as client:
        aws.provider = AwsProvider(client, **{"tags": {ENABLED: "", OWNED: ""}, "now": lambda: aws.time, **how})
        yield


@pytest.fixture
async def aws(anyio_backend: str) -> AsyncIterator[Aws]:
    found = Aws()
    async with aws_on(found):
        yield found


# --- which groups there are -----------------------------------------------------------------------------------------------


async def test_groups_are_found_by_their_tags_a_hundred_with_one_call(aws: Aws) -> None:
    for number in range(130):
        aws.ec2.has(f"asg-{number:03}")
    aws.ec2.has("of another cluster", tags={ENABLED: "true", "k8s.io/cluster-autoscaler/test": "owned"})
    groups = await aws.provider.groups(timeout_seconds=60)
    assert [group.name for group in groups] == [f"asg-{number:03}" for number in range(130)]
    assert aws.ec2.calls["DescribeAutoScalingGroups"] == 2


async def test_a_page_that_fails_makes_no_shorter_list(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> None:
    aws.ec2.page = 1
    for name in ("a", "b"):
        aws.ec2.has(name)
    await aws.provider.groups(timeout_seconds=60)
    failing = aws.ec2._DescribeAutoScalingGroups

    def second(asked: Any) -> Any:
        if "NextToken" in asked:
            raise RefusedRequest("InternalFailure", "", 500)
        return failing(asked)

    monkeypatch.setattr(aws.ec2, "_DescribeAutoScalingGroups", second)
    with pytest.raises(ProviderError, match="InternalFailure"):
        await aws.provider.groups(timeout_seconds=60)


async def test_a_group_that_an_answer_leaves_out_is_asked_for_by_name(aws: Aws) -> None:
    aws.ec2.has("asg", desired=1)
    await aws.look()
    aws.ec2.left_out.append("asg")
    assert (await aws.look()).target == 1
    del aws.ec2.groups["asg"]
    assert await aws.provider.groups(timeout_seconds=60) == []
    before = aws.ec2.calls.total()
    assert await aws.provider.groups(timeout_seconds=60) == []
    assert aws.ec2.calls.total() == before + 1, "it is not asked for again"


async def test_groups_are_used_whose_names_are_configured() -> None:
    aws = Aws()
    aws.ec2.has("named", tags={})
    aws.ec2.has("other", tags={})
    async with aws_on(aws, tags={}, names=[GroupName("named")]):
        assert [group.name for group in await aws.provider.groups(timeout_seconds=60)] == ["named"]
        await aws.grow(0, 1, "named")
        with pytest.raises(ProviderError, match="gone"):
            await aws.grow(0, 1, "other")


async def test_a_group_whose_size_does_not_count_machines_says_so_and_keeps_its_machines(aws: Aws) -> None:
    weighted = [{"InstanceType": "m5.xlarge", "WeightedCapacity": "4"}, {"InstanceType": "m5.large", "WeightedCapacity": "2"}]
    aws.ec2.has("weighted", desired=8, more={"MixedInstancesPolicy": {"LaunchTemplate": {"Overrides": weighted}}})
    aws.ec2.has("vcpus", more={"DesiredCapacityType": "vcpu"})
    aws.ec2.has("leaving", more={"Status": "Delete in progress"})
    groups = {group.name: group for group in await aws.provider.groups(timeout_seconds=60)}
    what = "and its sizes to numbers of machines in the same update"
    assert {name: group.unreadable for name, group in groups.items()} == {
        "vcpus": f"Auto Scaling group vcpus: its desired capacity counts vcpu, not machines: set its type to units, {what}",
        "weighted": "Auto Scaling group weighted: its mixed instances policy has weights (2, 4), so its sizes do not count "
        f"machines: set no WeightedCapacity, {what}",
    }
    there = groups[GroupName("weighted")]
    assert (len(there.instances), there.target, there.max_size) == (8, 8, 8)
    with pytest.raises(ProviderError, match=r"other.*vcpu"):
        await aws.grow(0, 1, "vcpus")
    with pytest.raises(ProviderError, match=r"other.*weights"):
        await aws.provider.delete(GroupName("weighted"), there.instances[:1], timeout_seconds=60)


@pytest.mark.parametrize("lacks", ["InstanceId", "AvailabilityZone"])
async def test_a_group_whose_answer_lacks_something_is_unreadable_and_the_others_are_not(aws: Aws, lacks: str) -> None:
    machine = {"InstanceId": "i-1", "AvailabilityZone": A, "LifecycleState": "InService"}
    aws.ec2.has("asg", more={"Instances": [{key: value for key, value in machine.items() if key != lacks}]})
    aws.ec2.has("well", desired=2)
    problem = rf"Auto Scaling group asg: describe_auto_scaling_groups: .* cannot be read: KeyError: '{lacks}'"
    assert re.match(problem, (await aws.look()).unreadable)
    await aws.grow(2, 3, "well")
    assert ((await aws.look("well")).target, (await aws.look("well")).unreadable) == (3, "")


async def test_an_instance_type_or_an_activity_that_cannot_be_read_costs_no_other_group_anything(
    aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws.ec2.has("odd", types=("c5.large",))
    aws.ec2.has("asg")
    ask = AwsClient.ask

    async def answer(self: AwsClient, service: Any, operation: str, **how: Any) -> Any:
        found = await ask(self, service, operation, **how)
        if operation == "describe_instance_types":
            return {"InstanceTypes": [{"MemoryInfo": {}}, *found["InstanceTypes"]]}
        if operation == "describe_scaling_activities":
            lacking = {"AutoScalingGroupName": "asg", "Description": "Launching a new EC2 instance: i-0"}
            return {"Activities": [lacking, *found["Activities"]]}
        return found

    monkeypatch.setattr(AwsClient, "ask", answer)
    await aws.grow(0, 1)
    assert (await aws.look()).template is not None
    assert (await aws.look("odd")).unreadable == ""


async def test_what_is_in_a_warm_pool_or_on_standby_does_not_count(aws: Aws) -> None:
    group = aws.ec2.has("asg", desired=4, more={"WarmPoolConfiguration": {"MinSize": 2}, "WarmPoolSize": 2})
    for machine, state in zip(group.machines, ("Warmed:Stopped", "Standby", "Terminating:Wait", "Pending:Wait"), strict=True):
        machine.state = state
    assert [instance.state for instance in (await aws.look()).instances] == ["deleting", "creating"]


async def test_suspended_processes_are_respected(aws: Aws) -> None:
    aws.ec2.has("asg", desired=2, suspended={"Launch", "Terminate"})
    group = await aws.look()
    assert (group.max_size, group.undeletable) == (2, "its process Terminate is suspended")
    with pytest.raises(ProviderError, match="limit: its process Launch is suspended"):
        await aws.grow(2, 3)
    assert aws.ec2.groups["asg"].desired == 2


# --- what a new node is like ----------------------------------------------------------------------------------------------


async def test_an_empty_group_has_the_template_of_its_type(aws: Aws) -> None:
    aws.ec2.has("asg")
    template = (await aws.look()).template
    assert template is not None
    # 4 cores: 60 + 10 + 2 x 5 thousandths for the kubelet; 16 GiB less 7.5 %, 255 + 11 x 58 + 100 MiB; 4 x 14 + 2 addresses.
    memory = 16 * 2**30 - int(16 * 2**30 * 0.075) - (255 + 11 * 58 + 100) * 2**20
    assert (template.allocatable, template.scalars) == ((3920, memory), (("pods", 58),))
    assert template.labels == {
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": "m5.xlarge",
        "topology.kubernetes.io/region": "eu-west-1",
        "topology.kubernetes.io/zone": A,
    }


async def test_where_aws_chooses_the_template_has_what_every_type_has(aws: Aws) -> None:
    aws.ec2.has("asg", types=["m5.2xlarge", "g5.xlarge"], zones=ZONES)
    group = await aws.look()
    template = group.template
    assert template is not None
    assert (template.allocatable.cpu, template.scalars) == (3920, (("pods", 58),))
    assert not {"node.kubernetes.io/instance-type", "topology.kubernetes.io/zone"} & template.labels.keys()
    assert group.choice == EVEN_ZONES


@pytest.mark.parametrize(
    "more",
    [
        {"LaunchTemplate": {"LaunchTemplateId": "lt-1", "Version": "$Latest"}},
        {"LaunchConfigurationName": "lt-1"},
        {"MixedInstancesPolicy": {"LaunchTemplate": {"LaunchTemplateSpecification": {"LaunchTemplateId": "lt-1"}}}},
    ],
    ids=["launch template", "launch configuration", "mixed without types"],
)
async def test_the_type_is_found_where_it_is_said(aws: Aws, more: dict[str, Any]) -> None:
    aws.ec2.launch_templates["lt-1"] = "g5.xlarge"
    aws.ec2.has("asg", more={"MixedInstancesPolicy": {}, **more})
    template = (await aws.look()).template
    assert template is not None
    assert dict(template.scalars)["nvidia.com/gpu"] == 1


async def test_types_chosen_by_attributes_are_those_of_the_machines(aws: Aws) -> None:
    needs = {"VCpuCount": {"Min": 4}, "MemoryMiB": {"Min": 1}}
    policy = {"LaunchTemplate": {"Overrides": [{"InstanceRequirements": needs}]}}
    group = aws.ec2.has("asg", more={"MixedInstancesPolicy": policy})
    assert (await aws.look()).template is None
    aws.ec2._launch(group, type_="m5.2xlarge")
    template = (await aws.look()).template
    assert template is not None
    assert template.allocatable.cpu == 7910


async def test_tags_say_more_than_the_type(aws: Aws) -> None:
    said = {
        f"{PREFIX}/resources/ephemeral-storage": "100Gi",
        f"{PREFIX}/resources/cpu": "3",
        f"{PREFIX}/label/tier": "batch",
        f"{PREFIX}/taint/dedicated": "batch:NoSchedule",
        f"{PREFIX}/csi-driver": "ebs.csi.aws.com=25",
        f"{PREFIX}/autoscaling-options/scaledownunneededtime": "2m",
        f"{PREFIX}/autoscaling-options/scaledownutilizationthreshold": "0.4",
        f"{PREFIX}/autoscaling-options/ignoredaemonsetsutilization": "true",
    }
    aws.ec2.has("asg", tags={**TAGS, **said})
    group = await aws.look()
    assert group.template is not None
    assert (group.template.allocatable.cpu, dict(group.template.scalars)["ephemeral-storage"]) == (3000, 100 * 2**30)
    assert group.template.labels["tier"] == "batch"
    assert group.template.taints == (Taint("dedicated", "batch", "NoSchedule"),)
    assert group.template.csi is not None
    assert group.template.csi.drivers == (("ebs.csi.aws.com", 25),)
    want = GroupOptions(utilization_threshold=0.4, unneeded_time=120.0, ignore_daemon_sets_utilization=True)
    assert group.options == want


@pytest.mark.parametrize(
    ("tag", "value", "wanted"),
    [
        ("taint/dedicated", "batch", "want value:Effect"),
        ("resources/cpu", "many", "many"),
        ("autoscaling-options/scaledownutilizationthreshold", "nan", "want a number of at least 0"),
        ("autoscaling-options/ignoredaemonsetsutilization", "maybe", "want true or false"),
    ],
)
async def test_a_tag_that_cannot_be_read_is_logged_once(aws: Aws, tag: str, value: str, wanted: str) -> None:
    aws.ec2.has("asg", tags={**TAGS, f"{PREFIX}/{tag}": value})
    with capture_logs() as logs:
        for _ in range(2):
            await aws.look()
    (entry,) = logs
    assert f"tag {PREFIX}/{tag}: got '{value}'" in entry["problem"]
    assert wanted in entry["problem"]


async def test_a_managed_node_group_has_the_labels_and_taints_that_eks_says(aws: Aws) -> None:
    of_eks = {"eks:cluster-name": "prod", "eks:nodegroup-name": "workers"}
    aws.ec2.managed["workers"] = {
        "labels": {"tier": "web"},
        "taints": [{"key": "dedicated", "value": "web", "effect": "NO_SCHEDULE"}],
        "capacityType": "SPOT",
        "tags": {f"{PREFIX}/resources/cpu": "2"},
    }
    aws.ec2.has("asg", tags={**TAGS, **of_eks})
    template = (await aws.look()).template
    assert template is not None
    assert (template.allocatable.cpu, template.taints) == (2000, (Taint("dedicated", "web", "NoSchedule"),))
    shown = {key: template.labels[key] for key in ("tier", "eks.amazonaws.com/capacityType", "eks.amazonaws.com/nodegroup")}
    assert list(shown.values()) == ["web", "SPOT", "workers"]


async def test_a_right_that_is_missing_is_logged_once_and_costs_a_call_in_ten_minutes(aws: Aws) -> None:
    aws.ec2.has("asg", tags={**TAGS, "eks:cluster-name": "prod", "eks:nodegroup-name": "secret"})
    with capture_logs() as logs:
        for _ in range(5):
            assert (await aws.look()).template is not None
            aws.passes(100)
    assert aws.ec2.calls["DescribeNodegroup"] == 1
    assert [entry["problem"] for entry in logs] == [
        "describe_nodegroup: AccessDeniedException: not authorized to perform: eks:DescribeNodegroup"
    ]


async def test_without_the_right_to_read_activities_groups_still_grow(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(asked: object) -> None:
        raise RefusedRequest("AccessDenied", "not authorized to perform: autoscaling:DescribeScalingActivities", 403)

    monkeypatch.setattr(aws.ec2, "_DescribeScalingActivities", refuse)
    aws.ec2.has("asg", desired=1)
    aws.ec2.stock[(A, "m5.xlarge")] = 1
    with capture_logs() as logs:
        await aws.grow(1, 3)
        looks = [await aws.look() for _ in range(3)]
        monkeypatch.undo()
        await aws.look()
        monkeypatch.setattr(aws.ec2, "_DescribeScalingActivities", refuse)
        await aws.look()
    assert {(look.target, len(look.instances), look.unreadable) for look in looks} == {(3, 1, "")}
    assert [entry["problem"] for entry in logs] == [
        "describe_scaling_activities: AccessDenied: not authorized to perform: autoscaling:DescribeScalingActivities"
    ] * 2, "logged again after AWS has answered"


# --- failures -------------------------------------------------------------------------------------------------------------


async def test_a_stock_out_is_an_error_of_what_was_not_launched(aws: Aws) -> None:
    aws.ec2.has("asg", desired=1, zones=(A, B))
    aws.ec2.stock |= {(A, "m5.xlarge"): 1, (B, "m5.xlarge"): 0}
    await aws.grow(1, 4)
    aws.passes(10)
    group = await aws.look()
    failed = [instance.error for instance in group.instances if instance.error is not None]
    assert [(error.kind, error.code) for error in failed] == [("out-of-resources", "InsufficientInstanceCapacity")] * 2
    assert (group.target, len(group.instances)) == (4, 4)
    await aws.delete(*(instance for instance in group.instances if instance.error is not None))
    assert (await aws.look()).target == aws.ec2.groups["asg"].desired == 2


async def test_a_zone_without_stock_is_no_failure_if_aws_goes_to_another(aws: Aws) -> None:
    aws.ec2.has("asg", zones=(A, B), types=["m5.xlarge", "m6i.xlarge"])
    aws.ec2.stock |= {(A, "m5.xlarge"): 0, (A, "m6i.xlarge"): 0}
    await aws.grow(0, 3)
    aws.passes(10)
    group = await aws.look()
    assert [instance.error for instance in group.instances] == [None] * 3


async def test_a_quota_that_is_used_up_is_one(aws: Aws) -> None:
    aws.ec2.has("asg", desired=1)
    aws.ec2.quota = 1
    await aws.grow(1, 2)
    aws.passes(10)
    (error,) = [instance.error for instance in (await aws.look()).instances if instance.error is not None]
    assert (error.kind, error.code) == ("quota", "VcpuLimitExceeded")


async def test_a_failure_before_the_last_growth_says_nothing_about_it(aws: Aws) -> None:
    aws.ec2.has("asg")
    aws.ec2.stock[A, "m5.xlarge"] = 0
    await aws.grow(0, 1)
    aws.passes(10)
    failed = (await aws.look()).instances
    await aws.delete(*failed)
    aws.passes(300)
    await aws.grow(0, 1)
    aws.passes(1)
    assert (await aws.look()).instances == ()


async def test_a_refusal_says_what_is_missing(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> None:
    aws.ec2.has("asg")
    text = "User: arn:aws:sts::1:role is not authorized to perform: autoscaling:SetDesiredCapacity"
    await aws.look()
    refused = RefusedRequest("AccessDenied", text, 403)

    def refuse(_: Any) -> Any:
        raise refused

    monkeypatch.setattr(aws.ec2, "_SetDesiredCapacity", refuse)
    with pytest.raises(ProviderError, match=r"other: set_desired_capacity: AccessDenied: .*autoscaling:SetDesired"):
        await aws.grow(0, 1)


async def test_a_throttled_call_is_made_again_until_the_deadline(aws: Aws) -> None:
    aws.ec2.has("asg")
    aws.ec2.errors.append(THROTTLED)
    assert (await aws.look()).target == 0
    aws.ec2.errors.extend([THROTTLED] * 100)
    with anyio.fail_after(30), pytest.raises(ProviderError, match=r"unknown.*Throttling"):
        await aws.provider.groups(timeout_seconds=1)


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (lambda aws: setattr(aws.ec2.groups["asg"], "max_size", 2), "limit"),
        (lambda aws: aws.ec2.errors.extend([RefusedRequest("ScalingActivityInProgress", "")]), "conflict"),
    ],
    ids=["the maximum was lowered", "another change is under way"],
)
async def test_what_aws_refuses_has_a_kind(aws: Aws, change: Callable[[Aws], None], wanted: str) -> None:
    aws.ec2.has("asg", desired=2)
    await aws.look()
    change(aws)
    with pytest.raises(ProviderError, match=wanted):
        await aws.grow(2, 3)


@pytest.mark.parametrize(
    "error",
    [
        ResponseParserError("invalid XML"),
        FileNotFoundError(2, "no such file", "/var/run/secrets/eks.amazonaws.com/serviceaccount/token"),
        RuntimeError("Credentials were refreshed, but the refreshed credentials are still expired."),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_whatever_the_library_raises_is_an_error_of_the_provider(aws: Aws, error: Exception) -> None:
    aws.ec2.has("asg", desired=2)
    await aws.look()

    async def fails(**_: Any) -> Any:
        raise error

    client = AwsClient({"autoscaling": SimpleNamespace(set_desired_capacity=fails)})
    with pytest.raises(ProviderError, match="unknown: set_desired_capacity: " + type(error).__name__):
        await client.ask("autoscaling", "set_desired_capacity", group=GroupName("asg"))


async def test_what_aws_says_after_the_first_line_is_kept_out_of_errors(aws: Aws) -> None:
    canonical = "The Canonical String should have been\n'POST\n/\n\nx-amz-security-token:IQoJb3JpZ2lu'"
    aws.ec2.errors.append(RefusedRequest("SignatureDoesNotMatch", f"The signatures differ.\n\n{canonical}", 403))
    with pytest.raises(ProviderError, match=r"SignatureDoesNotMatch: The signatures differ\.$"):
        await aws.provider.groups(timeout_seconds=60)


# --- answers that are late ------------------------------------------------------------------------------------------------


async def test_what_was_changed_is_known_before_aws_shows_it(aws: Aws) -> None:
    aws.ec2.has("asg", desired=3, is_protected=True)
    first = await aws.look()
    aws.ec2.stale_seconds = lambda: 30.0
    await aws.grow(3, 5)
    assert (await aws.look()).target == 5
    with pytest.raises(ProviderError, match="conflict"):
        await aws.grow(3, 4)
    await aws.delete(first.instances[0])
    group = await aws.look()
    assert (group.target, group.instances[0].state) == (4, "deleting")
    await aws.delete(first.instances[0])
    assert (aws.ec2.groups["asg"].desired, aws.ec2.calls["TerminateInstanceInAutoScalingGroup"]) == (4, 1)
    aws.passes(100)
    assert (await aws.look()).target == 4


@pytest.mark.parametrize("hangs", [False, True], ids=["the connection breaks", "the deadline passes"])
async def test_a_machine_of_which_no_answer_came_is_not_ended_twice(aws: Aws, hangs: bool) -> None:
    aws.ec2.has("asg", desired=3, is_protected=True)
    first = await aws.look()
    aws.ec2.stale_seconds, aws.ec2.hangs = lambda: 25.0, hangs
    aws.passes(30)
    aws.ec2.lost.append(True)
    for _ in range(3):
        with pytest.raises(ProviderError, match="unknown"):
            await aws.provider.delete(GroupName("asg"), first.instances[:1], timeout_seconds=0.1)
        aws.passes(5)
    aws.passes(30)
    await aws.delete(first.instances[0])
    assert (aws.ec2.groups["asg"].desired, aws.ec2.calls["TerminateInstanceInAutoScalingGroup"]) == (2, 1)


async def test_a_machine_on_its_way_of_which_no_answer_came_is_not_given_up_twice(aws: Aws) -> None:
    aws.ec2.in_service_after = 300.0
    aws.ec2.has("asg")
    await aws.grow(0, 2)
    aws.passes(60)
    aws.ec2.stale_seconds = lambda: 25.0
    aws.ec2.lost.append(True)
    for _ in range(3):
        with pytest.raises(ProviderError, match="unknown"):
            await aws.provider.lower(GroupName("asg"), seen=2, to=1, timeout_seconds=60)
        aws.passes(5)
    assert (aws.ec2.groups["asg"].desired, aws.ec2.ended_twice) == (1, [])


async def test_machines_beyond_the_desired_capacity_count_and_go_without_lowering_it(aws: Aws) -> None:
    aws.ec2.has("asg", desired=6, is_protected=True)
    aws.ec2.groups["asg"].desired = 4  # by somebody, while AWS protects what is there
    group = await aws.look()
    assert group.target == 6
    await aws.delete(*group.instances[:3])
    assert (await aws.look()).target == aws.ec2.groups["asg"].desired == 3
    aws.passes(60)
    assert (len(aws.ec2.groups["asg"].machines), (await aws.look()).target) == (3, 3)
    aws.ec2.groups["asg"].desired = 2
    aws.passes(60)
    await aws.grow(3, 4)
    assert aws.ec2.groups["asg"].desired == 4


async def test_of_launches_in_one_second_the_first_of_the_list_counts(aws: Aws) -> None:
    """AWS lists from the newest, and after a failure it tries the next zone at once."""
    group = aws.ec2.has("asg", desired=0)
    await aws.look()
    group.desired, group.changed_at = 1, aws.time
    aws.ec2._fail(group, "InsufficientInstanceCapacity - none here. Launching EC2 instance failed.")
    aws.ec2._note(group, "Launching a new EC2 instance: i-1")
    assert (await aws.look()).instances == ()


# --- calls ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("groups", [1, 50])
async def test_a_scan_takes_one_call_and_a_second_where_machines_are_lacking(aws: Aws, groups: int) -> None:
    for number in range(groups):
        aws.ec2.has(f"asg-{number}", desired=1, types=list(TYPES))
    await aws.provider.groups(timeout_seconds=60)
    aws.ec2.calls.clear()
    for _ in range(10):
        await aws.provider.groups(timeout_seconds=60)
    assert aws.ec2.calls == {"DescribeAutoScalingGroups": 10}
    for number in range(groups):
        await aws.grow(1, 2, f"asg-{number}")
    aws.ec2.calls.clear()
    await aws.provider.groups(timeout_seconds=60)
    assert aws.ec2.calls == {"DescribeAutoScalingGroups": 1, "DescribeScalingActivities": 1}


def test_the_policy_of_the_page_allows_what_is_asked_and_nothing_else() -> None:
    folder = Path(aws_adapter.__file__).parent
    source = "".join(path.read_text() for path in folder.glob("*.py"))
    asked = re.findall(r'"(autoscaling|ec2|eks|sqs)",\s+"([a-z]+(?:_[a-z]+)+)"', source)
    policy = json.loads(Path("docs/aws.md").read_text().split("```json\n")[1].split("```")[0])
    actions = [statement["Action"] for statement in policy["Statement"]]
    allowed = {action for some in actions for action in ([some] if isinstance(some, str) else some)}
    # A batch needs the right for one message; EKS spells its operation as it does.
    wanted = {f"{service}:{name.title().replace('_', '').removesuffix('Batch')}" for service, name in asked}
    assert wanted == allowed


async def test_settings_that_find_no_group_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"autoscaler\.providers\.aws\.tags: got nothing, want tags"):
        loads(f"{HEADER}autoscaler: {{providers: {{aws: {{region: eu-west-1}}}}}}")
