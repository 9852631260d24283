"""Signs that Cluster Autoscaler, or another controller with a Lease, is running now, for the doctor and the cleanup."""

from datetime import datetime
from typing import Final

from slackwater.adapters.kube.objects import ApiObjects, Json, seconds_since
from slackwater.app.cleanup.plan import is_managed
from slackwater_protocol.names import SCHEDULER_NAMESPACE

#: A Lease renewed more recently belongs to a process that lives; those of autoscalers last 15 s.
LEASE_SECONDS: Final = 60.0
#: Cluster Autoscaler writes its status in each loop, about every ten seconds. A loop may take minutes.
STATUS_SECONDS: Final = 600.0
#: The annotation of the status ConfigMap with the time of the last loop.
LAST_UPDATED: Final = "cluster-autoscaler.kubernetes.io/last-updated"
_STATUS: Final = f"/api/v1/namespaces/{SCHEDULER_NAMESPACE}/configmaps/cluster-autoscaler-status"


async def status_age(objects: ApiObjects, now: datetime) -> float | None:
    """How many seconds ago Cluster Autoscaler wrote its status ConfigMap; None if it wrote none within `STATUS_SECONDS`. A
    ConfigMap that Slackwater wrote does not count."""
    status = await objects.get(_STATUS)
    if status is None or is_managed(status):
        return None
    annotations = status["metadata"].get("annotations") or {}
    age = seconds_since(annotations.get(LAST_UPDATED), now)
    return age if age < STATUS_SECONDS else None


def lease_age(lease: Json, now: datetime) -> float | None:
    """How many seconds ago the Lease was renewed; None if nobody holds it, or not within `LEASE_SECONDS`."""
    spec = lease.get("spec") or {}
    age = seconds_since(spec.get("renewTime"), now)
    return age if spec.get("holderIdentity") and age < LEASE_SECONDS else None
