"""Changes of the cluster state since they were last collected.

The values are frozen, so that they may be handed to another thread or process. A pod is *as it counts*: `node` is the node
where it takes room, also while its bind is under way, and its requests are what is Reserved for it where that is more. A node's
allocatable is what may be reserved on it. An object that counts otherwise than the API server shows it is there in both forms.
Changes are collected in `runtime.change_collector` and applied in `snapshot.snapshot_replica`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from slackwater.model.auxiliary import Targets
from slackwater.model.devices import DeviceObjects
from slackwater.model.ids import Generation, NodeName, PodUid
from slackwater.model.kubernetes_rules import KubernetesVersion
from slackwater.model.objects import DisruptionBudget, Node, Pod
from slackwater.model.storage import Storage


class NodeChange(NamedTuple):
    """A node as it counts now; None: the node is gone. `seen`: the node as the API server shows it, where that differs."""

    name: NodeName
    node: Node | None
    seen: Node | None = None


class PodChange(NamedTuple):
    """A pod as it counts now; None: the pod is gone, or has ended. `seen`: the pod as the API server shows it, where that
    differs."""

    uid: PodUid
    pod: Pod | None
    seen: Pod | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """One collection of changes. If several entries are about one object, the last one is valid. A field that is None did not
    change.

    `awaiting_victims` are pods without a node for which room is kept, because victims leave for them. Each collection names all
    of them. `daemons`: one pod per DaemonSet. `replicas`: the number of pods that each known controller wants. `kubernetes` is
    the version whose rules hold; it never changes while a service runs.
    """

    generation: Generation
    nodes: Sequence[NodeChange] = ()
    pods: Sequence[PodChange] = ()
    awaiting_victims: frozenset[PodUid] = field(default_factory=frozenset)
    budgets: tuple[DisruptionBudget, ...] | None = None
    namespaces: Mapping[str, Mapping[str, str]] | None = None
    storage: Storage | None = None
    daemons: tuple[Pod, ...] | None = None
    replicas: Targets | None = None
    kubernetes: KubernetesVersion | None = None
    devices: DeviceObjects | None = None
