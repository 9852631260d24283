"""What is said of the pod itself, before any node is looked at."""

from collections.abc import Iterator

from slackwater.model.objects import Pod
from slackwater.model.reasons import Reason
from slackwater.model.storage import Claim
from tests.laws.fit.rowbyrow.cluster import PlainCluster, asks
from tests.laws.fit.rowbyrow.nodes import names_asked

_WAIT = "WaitForFirstConsumer"


def refused(cluster: PlainCluster, pod: Pod) -> Reason | None:
    """Of a file that has claims, volumes and classes."""
    return next(_problems(cluster, pod), None)


def _problems(cluster: PlainCluster, pod: Pod) -> Iterator[Reason]:
    """In the order of kube-scheduler's plug-ins."""
    if names_asked(pod) == set():
        yield Reason.AFFINITY_CONFLICT
    claims, namespace = cluster.storage.claims or {}, pod.key.namespace
    named = [mount for mount in asks(pod).claims if mount.owner is None]
    if any((namespace, mount.claim) not in claims for mount in named):
        yield Reason.CLAIM_NOT_FOUND
    for mount in asks(pod).claims:
        claim = claims.get((namespace, mount.claim))
        if claim is None or claim.phase == "Lost" or claim.deleting or mount.owner not in (None, claim.owner):
            yield Reason.CLAIM_UNUSABLE
    if any(not (claim.volume and claim.bound) and not _waits(cluster, claim) for claim in cluster.claims(pod)):
        yield Reason.CLAIM_UNBOUND
    if any(_zone_is_unknown(cluster, claims[namespace, mount.claim]) for mount in named):
        yield Reason.VOLUME_ZONE_UNKNOWN
    if asks(pod).resource_claims:
        yield Reason.RESOURCE_CLAIMS


def _waits(cluster: PlainCluster, claim: Claim) -> bool:
    storage_class = (cluster.storage.classes or {}).get(claim.storage_class)
    return not claim.volume and storage_class is not None and storage_class.binding_mode == _WAIT


def _zone_is_unknown(cluster: PlainCluster, claim: Claim) -> bool:
    if claim.volume:
        return claim.volume not in (cluster.storage.volumes or {})
    return not _waits(cluster, claim)
