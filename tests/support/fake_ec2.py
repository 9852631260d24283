"""EC2 Auto Scaling as a fake on virtual time: zones, types, stock, quotas, activities, spot machines, and stale answers.

`now` says the time (Unix seconds); everything else follows from it and from what was asked. What AWS is known to do is done: a
group whose desired capacity is above its machines launches in the zone with the fewest, tries other types and zones if there is
none to be had, and again after a minute; one below its machines ends some of its own choice. `answer` takes requests of
`awswire`. Deliberately absent: everything that the provider does not use.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any

import anyio
from botocore.exceptions import ConnectionClosedError

from tests.support.awswire import RefusedRequest, Request

ENABLED, OWNED = "k8s.io/cluster-autoscaler/enabled", "k8s.io/cluster-autoscaler/prod"
TAGS = {ENABLED: "true", OWNED: "owned"}
TYPES = {"m5.xlarge": (4, 16), "m5.2xlarge": (8, 32), "m6i.xlarge": (4, 16), "g5.xlarge": (4, 16)}
CHANGES = frozenset({"SetDesiredCapacity", "TerminateInstanceInAutoScalingGroup"})


@dataclass(slots=True, kw_only=True)
class FakeMachine:
    """An instance. `ended_at`: when it began to end; None as long as it does not. `warned_at`: of its interruption."""

    id: str
    zone: str
    type: str
    launched_at: float
    activity: dict[str, Any]
    ended_at: float | None = None
    warned_at: float | None = None
    state: str = ""  #: of its life cycle, if somebody has set it

    @property
    def provider_id(self) -> str:
        return f"aws:///{self.zone}/{self.id}"


@dataclass(slots=True, kw_only=True)
class FakeGroup:
    """`more`: further members of its description."""

    name: str
    min_size: int = 0
    max_size: int = 10
    desired: int = 0
    zones: Sequence[str] = ("eu-west-1a",)
    types: Sequence[str] = ("m5.xlarge",)
    tags: dict[str, str] = field(default_factory=lambda: dict(TAGS))
    suspended: set[str] = field(default_factory=set)
    is_protected: bool = False
    more: dict[str, Any] = field(default_factory=dict)
    machines: list[FakeMachine] = field(default_factory=list)
    activities: list[dict[str, Any]] = field(default_factory=list)
    changed_at: float = -1e9
    failed_at: float = -1e9

    def live(self) -> list[FakeMachine]:
        return [machine for machine in self.machines if machine.ended_at is None]


@dataclass
class FakeEc2:
    """`stock`: machines that are to be had by zone and type (absent: any number). `quota`: machines of all groups.

    `unasked`: machines that the ec2 ended because the desired capacity was below their number. `below`: desired capacities
    that were set below the number of machines. `ended_twice`: machines whose end was asked for again, lowering the desired
    capacity again. `calls` by operation.
    """

    now: Callable[[], float]
    groups: dict[str, FakeGroup] = field(default_factory=dict)
    stock: dict[tuple[str, str], int] = field(default_factory=dict)
    quota: int | None = None
    launch_after: float = 5.0
    in_service_after: float = 20.0
    gone_after: float = 30.0
    retry_after: float = 60.0
    stale_seconds: Callable[[], float] = lambda: 0.0
    page: int = 100
    calls: Counter[str] = field(default_factory=Counter)
    requests: list[Request] = field(default_factory=list)
    unasked: list[str] = field(default_factory=list)
    below: list[tuple[str, int]] = field(default_factory=list)
    ended_twice: list[str] = field(default_factory=list)
    lost: deque[bool] = field(default_factory=deque)
    #: Whether the connection stays open when an answer is lost.
    hangs: bool = False
    #: Errors for the next requests, whatever they ask.
    errors: deque[RefusedRequest] = field(default_factory=deque)
    silent: bool = False
    #: Names that the next descriptions of groups by tags leave out.
    left_out: deque[str] = field(default_factory=deque)
    launch_templates: dict[str, str] = field(default_factory=dict)
    managed: dict[str, dict[str, Any]] = field(default_factory=dict)
    messages: dict[str, str] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)
    _history: list[tuple[float, list[dict[str, Any]]]] = field(default_factory=list)

    def has(self, name: str, **how: Any) -> FakeGroup:
        group = self.groups[name] = FakeGroup(name=name, **how)
        for _ in range(group.desired):
            self._launch(group, at=self.now() - 3600.0)
        return group

    # --- what happens by itself -------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """What AWS has done until now."""
        now = self.now()
        for group in self.groups.values():
            for machine in group.machines:
                if machine.warned_at is not None and now >= machine.warned_at + 120 and machine.ended_at is None:
                    machine.ended_at = now
                if now >= machine.launched_at + self.in_service_after:
                    machine.activity["StatusCode"] = "Successful"
            for machine in group.machines:
                if machine.ended_at is not None and now >= machine.ended_at + self.gone_after:
                    self._give_back(machine)
            group.machines = [m for m in group.machines if m.ended_at is None or now < m.ended_at + self.gone_after]
            self._reconcile(group)
        self._history = [each for each in self._history if now - each[0] <= 60.0]
        self._history.append((now, [self._described(group) for group in self.groups.values()]))

    def _give_back(self, machine: FakeMachine) -> None:
        if (key := (machine.zone, machine.type)) in self.stock and machine.warned_at is None:
            self.stock[key] += 1

    def _reconcile(self, group: FakeGroup) -> None:
        now, live = self.now(), group.live()
        for machine in live[: max(len(live) - group.desired, 0)] if not group.is_protected else ():
            machine.ended_at = now
            self.unasked.append(machine.id)
        due = now >= group.changed_at + self.launch_after and now >= group.failed_at + self.retry_after
        for _ in range(group.desired - len(live)) if due and "Launch" not in group.suspended else ():
            if not self._try(group):
                group.failed_at = now
                return

    def _try(self, group: FakeGroup) -> bool:
        """Launches one machine, in the zone with the fewest where there is one to be had."""
        if self.quota is not None and sum(len(each.live()) for each in self.groups.values()) >= self.quota:
            text = "You have requested more vCPU capacity than your current vCPU limit allows. Launching EC2 instance failed."
            self._fail(group, f"Could not launch On-Demand Instances. VcpuLimitExceeded - {text}")
            return False
        fewest = Counter(dict.fromkeys(group.zones, 0))
        fewest.update(machine.zone for machine in group.live())
        for zone in sorted(group.zones, key=lambda zone: (fewest[zone], zone)):
            for type_ in group.types:
                if self.stock.get((zone, type_), 1) > 0:
                    self._launch(group, zone=zone, type_=type_)
                    return True
            text = f"We currently do not have sufficient {group.types[0]} capacity in the Availability Zone you requested"
            self._fail(group, f"InsufficientInstanceCapacity - {text} ({zone}). Launching EC2 instance failed.")
        return False

    def _fail(self, group: FakeGroup, message: str) -> None:
        self._note(
            group, "Launching a new EC2 instance.  Status Reason: " + message, StatusCode="Failed", StatusMessage=message
        )

    def _note(self, group: FakeGroup, description: str, **more: Any) -> dict[str, Any]:
        activity = {
            "ActivityId": f"activity-{next(self._numbers)}",
            "AutoScalingGroupName": group.name,
            "Description": description,
            "Cause": "a difference between desired and actual capacity",
            "StartTime": datetime.fromtimestamp(self.now(), UTC),
            "StatusCode": "InProgress",
            **more,
        }
        group.activities.insert(0, activity)
        return activity

    def _launch(self, group: FakeGroup, *, zone: str = "", type_: str = "", at: float | None = None) -> None:
        zone, type_ = zone or group.zones[len(group.machines) % len(group.zones)], type_ or group.types[0]
        if (zone, type_) in self.stock:
            self.stock[zone, type_] -= 1
        id_ = f"i-{next(self._numbers):08x}"
        activity = self._note(group, f"Launching a new EC2 instance: {id_}")
        launched_at = self.now() if at is None else at
        group.machines.append(FakeMachine(id=id_, zone=zone, type=type_, launched_at=launched_at, activity=activity))

    def interrupt(self, id_: str, kind: str = "EC2 Spot Instance Interruption Warning") -> None:
        """AWS warns that the machine will stop in two minutes; or recommends to replace it."""
        if kind.startswith("EC2 Spot"):
            machine = next(m for group in self.groups.values() for m in group.machines if m.id == id_)
            machine.warned_at = self.now()
            self.stock[machine.zone, machine.type] = 0
        self.send(kind, {"instance-id": id_, "instance-action": "terminate"})

    def send(self, kind: str, detail: Mapping[str, Any]) -> None:
        import json

        stamp = datetime.fromtimestamp(self.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        body = {"version": "0", "source": "aws.ec2", "detail-type": kind, "time": stamp, "detail": detail}
        self.messages[f"receipt-{next(self._numbers)}"] = json.dumps(body)

    # --- what is asked ----------------------------------------------------------------------------------------------------

    async def answer(self, request: Request) -> Mapping[str, Any]:
        self.calls[request.operation] += 1
        self.requests.append(request)
        if self.silent:
            await anyio.sleep_forever()
        self.advance()
        if self.errors:
            raise self.errors.popleft()
        loses = request.operation in CHANGES and bool(self.lost)
        done = self.lost.popleft() if loses else True
        answer: Mapping[str, Any] = getattr(self, "_" + request.operation)(request.parameters) if done else {}
        if loses and self.hangs:
            await anyio.sleep_forever()
        if loses:
            raise ConnectionClosedError(endpoint_url="http://aws.fake", error=None)
        return answer

    def _DescribeAutoScalingGroups(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        at = self.now() - self.stale_seconds()
        shown = next((groups for time, groups in reversed(self._history) if time <= at), self._history[0][1])
        if (names := asked.get("AutoScalingGroupNames")) is not None:
            assert len(names) <= 100
            shown = [group for group in shown if group["AutoScalingGroupName"] in names]
        elif self.left_out:
            gone = self.left_out.popleft()
            shown = [group for group in shown if group["AutoScalingGroupName"] != gone]
        for only in asked.get("Filters", ()):
            shown = [group for group in shown if _has(group, only)]
        start = int(asked.get("NextToken", "0"))
        more = {"NextToken": str(start + self.page)} if start + self.page < len(shown) else {}
        return {"AutoScalingGroups": shown[start : start + self.page], **more}

    def _described(self, group: FakeGroup) -> dict[str, Any]:
        overrides = [{"InstanceType": name} for name in group.types]
        template = {"LaunchTemplateSpecification": {"LaunchTemplateId": "lt-1", "Version": "1"}, "Overrides": overrides}
        return {
            "AutoScalingGroupName": group.name,
            "MinSize": group.min_size,
            "MaxSize": group.max_size,
            "DesiredCapacity": group.desired,
            "DefaultCooldown": 300,
            "AvailabilityZones": list(group.zones),
            "HealthCheckType": "EC2",
            "CreatedTime": datetime.fromtimestamp(0, UTC),
            "NewInstancesProtectedFromScaleIn": group.is_protected,
            "MixedInstancesPolicy": {"LaunchTemplate": template},
            "Instances": [self._instance(machine) for machine in group.machines],
            "Tags": [{"Key": key, "Value": value, "ResourceId": group.name} for key, value in group.tags.items()],
            "SuspendedProcesses": [{"ProcessName": name} for name in sorted(group.suspended)],
            **group.more,
        }

    def _instance(self, machine: FakeMachine) -> dict[str, Any]:
        runs = self.now() >= machine.launched_at + self.in_service_after
        state = "Terminating" if machine.ended_at is not None else "InService" if runs else "Pending"
        return {
            "InstanceId": machine.id,
            "InstanceType": machine.type,
            "AvailabilityZone": machine.zone,
            "LifecycleState": machine.state or state,
            "HealthStatus": "Healthy",
            "ProtectedFromScaleIn": False,
        }

    def _DescribeScalingActivities(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        (only,) = asked["Filters"]
        assert only["Name"] == "StartTimeLowerBound"
        since = datetime.fromisoformat(only["Values"][0].replace("Z", "+00:00"))
        names = [asked["AutoScalingGroupName"]] if "AutoScalingGroupName" in asked else self.groups
        found = [each for name in names for each in self.groups[name].activities if each["StartTime"] >= since]
        found.sort(key=lambda each: each["StartTime"], reverse=True)
        start = int(asked.get("NextToken", "0"))
        more = {"NextToken": str(start + self.page)} if start + self.page < len(found) else {}
        return {"Activities": found[start : start + self.page], **more}

    def _SetDesiredCapacity(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        group, desired = self._group(asked["AutoScalingGroupName"]), asked["DesiredCapacity"]
        if desired > group.max_size:
            text = f"New SetDesiredCapacity value {desired} is above max value {group.max_size} for the AutoScalingGroup."
            raise RefusedRequest("ValidationError", text)
        if desired < group.min_size:
            text = f"New SetDesiredCapacity value {desired} is below min value {group.min_size} for the AutoScalingGroup."
            raise RefusedRequest("ValidationError", text)
        if desired < len(group.live()):
            self.below.append((group.name, desired))
        if desired != group.desired:
            group.desired, group.changed_at, group.failed_at = desired, self.now(), -1e9
        self._reconcile(group)
        return {}

    def _group(self, name: str) -> FakeGroup:
        if name not in self.groups:
            raise RefusedRequest("ValidationError", f"AutoScalingGroup name not found - no such group: {name}")
        return self.groups[name]

    def _TerminateInstanceInAutoScalingGroup(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """A machine that is ending already lowers the desired capacity once more: the worst that AWS may do."""
        id_, lowers = asked["InstanceId"], asked["ShouldDecrementDesiredCapacity"]
        group = next((g for g in self.groups.values() if any(m.id == id_ for m in g.machines)), None)
        if group is None:
            text = f"Instance Id not found - No managed instance found for instance ID: {id_}"
            raise RefusedRequest("ValidationError", text)
        if lowers and group.desired <= group.min_size:
            text = f"Currently, desiredSize equals minSize ({group.min_size}). Terminating instance without replacement"
            raise RefusedRequest("ValidationError", f"{text} will violate group's min size constraint.")
        machine = next(m for m in group.machines if m.id == id_)
        if lowers and machine.ended_at is not None:
            self.ended_twice.append(id_)
        machine.ended_at = self.now() if machine.ended_at is None else machine.ended_at
        group.desired -= lowers
        group.changed_at = self.now()
        self._reconcile(group)
        return {"Activity": self._note(group, f"Terminating EC2 instance: {id_}")}

    def _DescribeInstanceTypes(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        ((only,),) = (asked["Filters"],)
        return {"InstanceTypes": [_type(name) for name in only["Values"] if name in TYPES]}

    def _DescribeLaunchTemplateVersions(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        type_ = self.launch_templates.get(asked["LaunchTemplateId"])
        if type_ is None:
            raise RefusedRequest("InvalidLaunchTemplateId.NotFound", "no such launch template")
        return {"LaunchTemplateVersions": [{"LaunchTemplateData": {"InstanceType": type_}}]}

    def _DescribeLaunchConfigurations(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        names = asked["LaunchConfigurationNames"]
        when = datetime.fromtimestamp(0, UTC)
        known = [(name, self.launch_templates[name]) for name in names if name in self.launch_templates]
        found = [
            {"LaunchConfigurationName": name, "ImageId": "ami-1", "InstanceType": type_, "CreatedTime": when}
            for name, type_ in known
        ]
        return {"LaunchConfigurations": found}

    def _DescribeNodegroup(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        if asked["nodegroupName"] not in self.managed:
            raise RefusedRequest("AccessDeniedException", "not authorized to perform: eks:DescribeNodegroup", 403)
        return {"nodegroup": {"nodegroupName": asked["nodegroupName"], **self.managed[asked["nodegroupName"]]}}

    def _ReceiveMessage(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        some = list(self.messages.items())[: asked["MaxNumberOfMessages"]]
        return {"Messages": [{"ReceiptHandle": receipt, "Body": body} for receipt, body in some]}

    def _DeleteMessageBatch(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        for entry in asked["Entries"]:
            self.messages.pop(entry["ReceiptHandle"], None)
        return {"Successful": [{"Id": entry["Id"]} for entry in asked["Entries"]], "Failed": []}


def _has(group: Mapping[str, Any], only: Mapping[str, Any]) -> bool:
    tags = {tag["Key"]: tag["Value"] for tag in group["Tags"]}
    if only["Name"] == "tag-key":
        return any(key in tags for key in only["Values"])
    return tags.get(only["Name"].removeprefix("tag:")) in only["Values"]


def _type(name: str) -> dict[str, Any]:
    cpus, gib = TYPES[name]
    gpu = {"GpuInfo": {"Gpus": [{"Name": "A10G", "Manufacturer": "NVIDIA", "Count": 1}]}} if name.startswith("g") else {}
    return {
        "InstanceType": name,
        "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
        "VCpuInfo": {"DefaultVCpus": cpus},
        "MemoryInfo": {"SizeInMiB": gib * 1024},
        "NetworkInfo": {"MaximumNetworkInterfaces": 4, "Ipv4AddressesPerInterface": 15},
        **gpu,
    }
