"""Why machines were not launched: the scaling activities of groups that lack machines.

One question for all groups (AWS takes no list of names), from the time since which a group has lacked machines. The newest
launch of a group decides: AWS itself tries the next zone and the next type after a failure, and is left to it.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from slackwater.adapters.cloud.aws.client import AwsClient, readable
from slackwater.model.nodegroups import GroupName, InstanceError, InstanceErrorKind

_PAGE: Final = 100
#: Activities are listed from the newest, so what is not read is old.
_MOST_PAGES: Final = 10
#: Clocks may differ by so much, and AWS shows an activity somewhat late.
_SKEW_SECONDS: Final = 30.0
#: AWS repeats launches more often than this.
_OLDEST_SECONDS: Final = 3600.0
_LAUNCH: Final = "Launching a new EC2 instance"
_FAILED: Final = frozenset({"Failed", "Cancelled"})
_OUT_OF_RESOURCES: Final = frozenset(
    {
        "InsufficientInstanceCapacity",
        "InsufficientHostCapacity",
        "InsufficientReservedInstanceCapacity",
        "InsufficientCapacity",
        "InsufficientFreeAddressesInSubnet",
        "ReservationCapacityExceeded",
        "SpotMaxPriceTooLow",
        "UnfulfillableCapacity",
        "Unsupported",  # the type is not offered in the zone
    }
)
_QUOTA: Final = frozenset(
    {"VcpuLimitExceeded", "InstanceLimitExceeded", "MaxSpotInstanceCountExceeded", "SpotInstanceCountLimitExceeded"}
)
_CODE: Final = re.compile(r"\b([A-Z][A-Za-z]+(?:\.[A-Za-z]+)*) - ")
_LONGEST_MESSAGE: Final = 300


async def launch_failures(
    client: AwsClient, lacking: Mapping[GroupName, float], *, now: float
) -> dict[GroupName, InstanceError]:
    """The failures of groups whose newest launch has failed. `lacking`: the groups that lack machines, and since when (Unix
    time); older activities do not count.

    :raises ProviderError: the activities cannot be read.
    """
    if not lacking:
        return {}
    newest: dict[GroupName, Mapping[str, Any]] = {}
    only = {"AutoScalingGroupName": next(iter(lacking))} if len(lacking) == 1 else {}
    oldest = max(min(lacking.values()), now - _OLDEST_SECONDS)
    since = datetime.fromtimestamp(oldest - _SKEW_SECONDS, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    parameters: dict[str, Any] = {
        **only,
        "MaxRecords": _PAGE,
        "Filters": [{"Name": "StartTimeLowerBound", "Values": [since]}],
    }
    for _ in range(_MOST_PAGES):
        answer = await client.ask("autoscaling", "describe_scaling_activities", **parameters)
        with readable("describe_scaling_activities"):
            for wire in answer.get("Activities") or ():
                group = GroupName(wire.get("AutoScalingGroupName", ""))
                if group in lacking and _is_launch_since(wire, lacking[group] - _SKEW_SECONDS):
                    # They are listed from the newest; of two that began in one second the first counts.
                    known = newest.setdefault(group, wire)
                    newest[group] = wire if _started(wire) > _started(known) else known
        if not (token := answer.get("NextToken")):
            break
        parameters["NextToken"] = token
    return {group: launch_error(wire) for group, wire in newest.items() if wire.get("StatusCode") in _FAILED}


def _is_launch_since(wire: Mapping[str, Any], begin: float) -> bool:
    if not isinstance(wire.get("StartTime"), datetime):
        return False
    return _started(wire) >= begin and str(wire.get("Description", "")).startswith(_LAUNCH)


def _started(wire: Mapping[str, Any]) -> float:
    at: datetime = wire["StartTime"]
    return at.timestamp()


def launch_error(wire: Mapping[str, Any]) -> InstanceError:
    """The error of a failed launch, by the code in its message."""
    message = str(wire.get("StatusMessage") or wire.get("StatusCode") or "")
    code = found[1] if (found := _CODE.search(message)) else "LaunchFailed"
    kind: InstanceErrorKind = "other"
    if code in _OUT_OF_RESOURCES or "not have sufficient" in message:
        kind = "out-of-resources"
    elif code in _QUOTA:
        kind = "quota"
    return InstanceError(kind=kind, code=code, message=message[:_LONGEST_MESSAGE])
