"""Pod headroom: how many placeholders like which pod are wanted, by annotated workloads and pods and by CapacityBuffers.

Input are the replica's pods and the objects that request headroom. A placeholder is like the newest pod of its controller, or
like the pod template if there is no such pod or the controller is a Deployment, whose ReplicaSets own the pods. Runs in the
planning process.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from slackwater.controllers.slack.buffers import Resolved, resolved
from slackwater.controllers.slack.marked import marked
from slackwater.controllers.slack.pod_headroom import PodHeadroom
from slackwater.controllers.slack.slo_sizing import NO_PROMISES, Promised
from slackwater.model.buffers import HeadroomRequests
from slackwater.model.eviction_facts import Owner
from slackwater.model.objects import Pod
from slackwater.snapshot.replica import SnapshotReplica


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """The requested pod headroom. `buffers` and `promises` have the headroom of each CapacityBuffer and start-time SLO;
    `problems` say, for example, which annotations cannot be read."""

    pod_headroom: tuple[PodHeadroom, ...] = ()
    buffers: tuple[Resolved, ...] = ()
    promises: Promised = NO_PROMISES
    problems: tuple[str, ...] = ()

    def with_promises(self, promises: Promised) -> "Asking":
        """A copy with the headroom for start-time SLOs added."""
        pod_headroom, problems = (*self.pod_headroom, *promises.pod_headroom), (*self.problems, *promises.problems)
        return replace(self, pod_headroom=pod_headroom, promises=promises, problems=problems)


def asking_now(replica: SnapshotReplica, headroom_requests: HeadroomRequests) -> Asking:
    """The requested headroom, by all pods of the replica."""
    return asked_by([*(running_pod.pod for running_pod in replica.everyone()), *replica.pending.values()], headroom_requests)


def asked_by(pods: Iterable[Pod], headroom_requests: HeadroomRequests) -> Asking:
    """The requested headroom, by the annotations of these pods and by `headroom_requests`."""
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
    return Asking(pod_headroom=(*found.pod_headroom, *pod_headroom), buffers=tuple(buffers), problems=found.problems)


def _note(newest: dict[tuple[str, Owner], Pod], key: tuple[str, Owner], pod: Pod) -> None:
    known = newest.get(key)
    if not pod.ended and (known is None or (pod.created_at, pod.key) > (known.created_at, known.key)):
        newest[key] = pod
