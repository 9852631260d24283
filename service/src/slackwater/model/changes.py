"""Changes of the cluster state since they were last collected, for snapshots that follow it.

`runtime.change_collector` collects the changes, `snapshot.snapshot_replica` applies them. They are frozen values, so another
thread or process may read them. Nodes and pods are in the form that our accounting uses. A pod has the node where it takes
room, also while its bind is under way; if more is Reserved for the pod than it requests, its requests are what is Reserved. A
node's allocatable is what may be reserved on it. Where the API server's object differs from this form, a change has both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from slackwater.model.auxiliary import Targets
from slackwater.model.devices import DeviceObjects
from slackwater.model.ids import Generation, NodeName, PodUid
from slackwater.model.kubernetes_rules import KubernetesVersion
from slackwater.model.objects import DisruptionBudget, Node, Pod
from slackwater.model.scheduler_profile import Profiles, SpreadSources
from slackwater.model.storage import Storage


class KeptRoom(NamedTuple):
    """Room for `pod` on the node `to`, because the node `of` is being drained. `released`: the pod leaves or has left, and its
    replacement, a pod of the same group, may use the room."""

    pod: Pod
    of: NodeName
    to: NodeName
    released: bool


class NodeChange(NamedTuple):
    """A changed node. `node` has the form that our accounting uses; None if the node is gone. `seen` is the API server's
    object, only if it differs from `node`, for example because the node is in quarantine."""

    name: NodeName
    node: Node | None
    seen: Node | None = None


class PodChange(NamedTuple):
    """A changed pod. `pod` has the form that our accounting uses; None if the pod is gone or has ended. `seen` is the API
    server's object, only if it differs from `pod`."""

    uid: PodUid
    pod: Pod | None
    seen: Pod | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The changes of one collection. If several entries are about the same object, the last one is valid. A field that is None
    has not changed.

    `awaiting_victims` are all pods without a node for which room is kept because victims are leaving; it is always complete.
    `kept_room` are the destinations of all running drains' pods; it is always complete too.
    `daemons` has one pod for each DaemonSet. `replicas` is the number of pods that each known controller wants. `kubernetes` is
    the version whose rules hold, `profiles` are those of kube-scheduler; they never change while a service runs.
    """

    generation: Generation
    nodes: Sequence[NodeChange] = ()
    pods: Sequence[PodChange] = ()
    awaiting_victims: frozenset[PodUid] = field(default_factory=frozenset)
    kept_room: tuple[KeptRoom, ...] = ()
    budgets: tuple[DisruptionBudget, ...] | None = None
    namespaces: Mapping[str, Mapping[str, str]] | None = None
    storage: Storage | None = None
    daemons: tuple[Pod, ...] | None = None
    replicas: Targets | None = None
    kubernetes: KubernetesVersion | None = None
    profiles: Profiles | None = None
    spread_sources: SpreadSources | None = None
    devices: DeviceObjects | None = None
