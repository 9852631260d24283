"""The headroom that annotated workloads and pods, CapacityBuffers and start-time SLOs request, before any is placed."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from slackwater.controllers.slack.buffers import ResolvedBuffer, marked, resolved, source_of, with_quota
from slackwater.controllers.slack.headroom_limits import HeadroomCut, within_quotas
from slackwater.controllers.slack.planning_input import PodHeadroom
from slackwater.controllers.slack.slo_sizing import NO_SLOS, SLOSizing
from slackwater.model.eviction_facts import Owner
from slackwater.model.objects import Pod
from slackwater.model.placeholders import HeadroomRequests
from slackwater.snapshot.snapshot_replica import SnapshotReplica


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadroomDemand:
    """The requested headroom. `pod_headroom` has all of it; `buffers` and `slos` show it for each CapacityBuffer and start-time
    SLO. `problems` say, for example, which annotations cannot be read; `cuts`, what ResourceQuotas do not allow."""

    pod_headroom: tuple[PodHeadroom, ...] = ()
    buffers: tuple[ResolvedBuffer, ...] = ()
    slos: SLOSizing = NO_SLOS
    problems: tuple[str, ...] = ()
    cuts: tuple[HeadroomCut, ...] = ()

    def with_slos(self, slos: SLOSizing) -> "HeadroomDemand":
        """A copy with the headroom for start-time SLOs added."""
        pod_headroom, problems = (*self.pod_headroom, *slos.pod_headroom), (*self.problems, *slos.problems)
        return replace(self, pod_headroom=pod_headroom, slos=slos, problems=problems)


def asking_now(replica: SnapshotReplica, headroom_requests: HeadroomRequests) -> HeadroomDemand:
    """The headroom that is requested now: by annotations of pods of the replica, and by `headroom_requests`."""
    return asked_by([*(running_pod.pod for running_pod in replica.bound_pods()), *replica.pending.values()], headroom_requests)


def asked_by(pods: Iterable[Pod], headroom_requests: HeadroomRequests) -> HeadroomDemand:
    """The headroom that the annotations of these pods and `headroom_requests` request.

    The placeholders for a controller are copies of its newest pod. They are made of the pod template if it has no pod, or if it
    is a Deployment, whose pods belong to ReplicaSets.
    """
    owners = {(each.namespace, each.ref) for each in headroom_requests.marked} | set(headroom_requests.workloads)
    carrying: list[Pod] = []
    newest: dict[tuple[str, Owner], Pod] = {}
    for pod in pods:
        eviction_facts = pod.eviction_facts
        if eviction_facts.slack and not pod.ended and not pod.deleting:
            carrying.append(pod)
        if owners and eviction_facts.owner is not None and (key := (pod.key.namespace, eviction_facts.owner)) in owners:
            _note(newest, key, pod)
    buffers = resolved(headroom_requests, newest)
    found = marked(headroom_requests.marked, carrying, newest)
    pod_headroom = [each.pod_headroom for each in buffers if each.pod_headroom is not None]
    limited = within_quotas([*pod_headroom, *found.pod_headroom], headroom_requests.quotas)
    kept = {each.source: each.count for each in limited.pod_headroom}
    return HeadroomDemand(
        pod_headroom=limited.pod_headroom,
        buffers=tuple(with_quota(each, kept.get(source_of(each.buffer), 0)) for each in buffers),
        problems=found.problems,
        cuts=limited.cuts,
    )


def _note(newest: dict[tuple[str, Owner], Pod], key: tuple[str, Owner], pod: Pod) -> None:
    known = newest.get(key)
    if not pod.ended and (known is None or (pod.created_at, pod.key) > (known.created_at, known.key)):
        newest[key] = pod
