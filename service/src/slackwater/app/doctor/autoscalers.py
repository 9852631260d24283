"""Checks for others that decide about nodes or pods: Cluster Autoscaler, Karpenter, other instances of Slackwater.

They are recognized by Leases, Cluster Autoscaler's status ConfigMap, and Karpenter's NodePools. A Lease that was renewed in the
future shows a clock that is ahead.
"""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Final

from slackwater.adapters.kube.errors import KubeError, StatusError
from slackwater.adapters.kube.objects import ApiObjects, Json, seconds_since
from slackwater.app.cleanup import lease_age, status_age
from slackwater.app.doctor.check import Check, named, ok, problem, unseen, warning
from slackwater.app.leader_election import lease_name
from slackwater.app.settings import Settings
from slackwater_protocol.names import SCHEDULER_NAME_LABEL, SCHEDULER_NAMESPACE

#: The greatest difference of clocks that is no problem. Leases, timers of drains and tokens are compared between clocks.
CLOCK_SECONDS: Final = 5.0
_KINDS: Final = {"cluster-autoscaler": "Cluster Autoscaler", "karpenter": "Karpenter"}
#: The label of our Pods, whatever their scheduler's name is.
_APP: Final = "app.kubernetes.io/name=slackwater"
_NAME: Final = "other autoscalers"


async def leases_of(objects: ApiObjects) -> list[Json] | KubeError:
    """All Leases, or why they cannot be read. Raises `KubeError` if the API server fails."""
    try:
        return [lease async for lease in objects.each("/apis/coordination.k8s.io/v1/leases")]
    except StatusError as error:
        if error.code != HTTPStatus.FORBIDDEN:
            raise
        return error


def clocks_ahead(leases: Sequence[Json], server_now: datetime) -> Check:
    """Checks for holders of Leases whose clock is ahead of the API server's.

    A clock that is behind cannot be recognized: its Lease looks like one that nobody renews.
    """
    name = "other clocks"
    ahead = [
        (-age, str(lease["metadata"]["name"]))
        for lease in leases
        if (age := seconds_since((lease.get("spec") or {}).get("renewTime"), server_now)) < -CLOCK_SECONDS
    ]
    if not ahead:
        return ok(name, f"none of {len(leases)} Leases (nodes, controllers) was renewed in the future")
    seen = f"ahead of the API server: {named(f'{lease} by {seconds:.0f} s' for seconds, lease in sorted(ahead, reverse=True))}"
    return problem(name, seen, "synchronise the clocks there: Leases and removals compare them")


async def others(
    objects: ApiObjects, settings: Settings, leases: list[Json] | KubeError, now: datetime
) -> AsyncIterator[Check]:
    """One check for each other autoscaler that is active, or one that says that there is none."""
    if isinstance(leases, KubeError):
        yield unseen(_NAME, leases, "ask somebody who may list Leases, or look for Cluster Autoscaler and Karpenter by hand")
        return
    found = {}
    for lease in leases:
        name, namespace = str(lease["metadata"]["name"]), str(lease["metadata"].get("namespace", ""))
        kind = next((kind for part, kind in _KINDS.items() if part in name), None)
        if kind and name != lease_name(settings) and lease_age(lease, now) is not None:
            found[kind] = f"runs (Lease {namespace}/{name})"
    try:
        if "Cluster Autoscaler" not in found and await status_age(objects, now) is not None:
            found["Cluster Autoscaler"] = "writes its status ConfigMap"
        if "Karpenter" not in found and (count := await _node_pools(objects)):
            found["Karpenter"] = f"has {count} NodePools, and may run outside of the cluster"
    except KubeError as error:
        yield unseen(_NAME, error, "look for Cluster Autoscaler's status ConfigMap and Karpenter's NodePools by hand")
    for name, what in found.items():
        if settings.autoscaler.enabled:
            advice = "let one of them look after nodes: stop it, or set autoscaler.enabled to false"
            yield problem(_NAME, f"{name} {what}, and autoscaler.enabled is true", advice)
        else:
            yield ok(_NAME, f"{name} {what}; autoscaler.enabled is false, so they do not conflict")
    if not found:
        yield ok(_NAME, "none holds a Lease, writes a status or has NodePools")


async def _node_pools(objects: ApiObjects) -> int:
    group = await objects.get("/apis/karpenter.sh")
    if group is None:
        return 0
    path = f"/apis/{group['preferredVersion']['groupVersion']}/nodepools"
    return len([pool async for pool in objects.each(path, metadata_only=True)])


async def instances(objects: ApiObjects, settings: Settings) -> Check:
    """Checks for Pods of other instances of Slackwater, and for more Pods of this one than its leader election allows."""
    name = "other instances"
    try:
        pods = [pod async for pod in objects.each("/api/v1/pods", labels=_APP)]
    except KubeError as error:
        return unseen(name, error, "ask somebody who may list pods in all namespaces")
    live = [pod for pod in pods if (pod.get("status") or {}).get("phase") not in {"Succeeded", "Failed"}]
    own = [pod for pod in live if _of(pod) == (SCHEDULER_NAMESPACE, settings.scheduler_name)]
    foreign = sorted({f"{_of(pod)[1] or 'no name'} in {_of(pod)[0]}" for pod in live if pod not in own})
    if len(own) > 1 and settings.leader_election.mode == "none":
        seen = f"{len(own)} Pods of schedulerName {settings.scheduler_name}, and leaderElection.mode is none"
        return problem(name, seen, "run one replica, or set leaderElection.mode: each of them decides")
    if not foreign:
        return ok(name, "none")
    if not settings.autoscaler.enabled:
        return ok(name, f"scheduler {named(foreign)}; autoscaler.enabled is false here")
    return warning(name, f"scheduler {named(foreign)}", "see that autoscaler.enabled is true in one of them only")


def _of(pod: Json) -> tuple[str, str]:
    """The namespace and the scheduler's name of a Pod of Slackwater."""
    meta = pod["metadata"]
    return str(meta.get("namespace", "")), str((meta.get("labels") or {}).get(SCHEDULER_NAME_LABEL, ""))
