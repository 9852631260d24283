"""The pods of a simulated cluster that has the real cluster's demand: what changes in it when something really happens.

In: events of the demand, and changes of pods. Out: the changed pods, by the UID that they have in the simulated cluster; None
for one that is gone.
"""

from collections.abc import Collection, Sequence

from msgspec import structs

from slackwater.app.counterfactual.demand import Arrived, Changed, Ended
from slackwater.app.rounds.virtual_cluster import VirtualCluster
from slackwater.model.changes import PodChange
from slackwater.model.ids import NodeName, PodUid
from slackwater.model.objects import Pod, is_daemon

PodsHere = dict[PodUid, Pod | None]


def apply(event: Arrived | Changed | Ended, cluster: VirtualCluster, pods: PodsHere) -> None:
    """Adds what follows from the event to `pods`, the changes of the same moment."""
    here = pods.get(event.place) or cluster.find(event.place)
    match event:
        case Arrived():
            pods[event.place] = _as_made(event.pod)
        case Changed():
            if here is not None and (after := _as_now(here, event.pod)) != here:
                pods[here.uid] = after
        case Ended():
            if here is not None:
                pods[here.uid] = None


def daemons(changes: Sequence[PodChange], cluster: VirtualCluster, nodes: Collection[NodeName]) -> PodsHere:
    """The changed pods that belong to these nodes."""
    found = PodsHere()
    for uid, pod, _ in changes:
        if pod is None:
            if (here := cluster.replica.find(uid)) is not None and is_daemon(here):
                found[uid] = None
        elif is_daemon(pod) and pod.node in nodes and not pod.deleting:
            found[uid] = pod
    return found


def _as_made(pod: Pod) -> Pod:
    return structs.replace(
        pod, node=None, deleting=False, overdue_at=None, nominated_node=None, unschedulable_message=None, disruption=None
    )


def _as_now(here: Pod, real: Pod) -> Pod:
    """The simulated pod with what its owner changed, and with the readiness that the real one shows once it runs."""
    ready = real.ready if real.node is not None and not real.deleting else here.ready
    return structs.replace(here, labels=real.labels, kind=real.kind, gates=real.gates, priority=real.priority, ready=ready)
