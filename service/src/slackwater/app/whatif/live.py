"""The snapshot of a running service -> a cluster as what-if on files reads it.

What flows through: `take` copies what changes, quickly, on the loop; `cluster_of` does the slow part and may run in a thread.
Deliberately absent: changes to it (`cli.commands.simulating`), and questions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from slackwater.app.offline.cluster import READ, Cluster
from slackwater.app.offline.knowngroups import KnownGroup
from slackwater.cluster.nodegroups.status import NodeGroupStatus
from slackwater.cluster.reservations import Reservation
from slackwater.controllers.scaleup.expanders.priority import Priorities
from slackwater.controllers.scaleup.groups import SkipReason
from slackwater.fit.disruption_counts import Scales
from slackwater.model.auxiliary import AuxiliaryObjects
from slackwater.model.ids import Instant, NodeName, PodUid
from slackwater.model.nodegroups import GroupName, Membership
from slackwater.model.objects import DisruptionBudget, Node, Pod
from slackwater.runtime.autoscaler.scaleup_planning import skip_reason_of
from slackwater.runtime.autoscaler.slack_planning import SlackPlan
from slackwater.runtime.changes import as_counted
from slackwater.runtime.state_machine import StateMachine

#: Kinds that the service watches only where the autoscaler runs.
_AUXILIARY: Final = frozenset({*READ, "DaemonSet"} - {"Node", "Pod"})


#: Controllers with a scale that the service watches. Of a Deployment the scale of its ReplicaSets stands for its own.
_SCALED: Final = frozenset({("", "ReplicationController"), ("apps", "ReplicaSet"), ("apps", "StatefulSet")})


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRegistryView:
    """What the autoscaler knows beside the state machine. `node groups' status` and `slack` are of its last loop, None without
    one."""

    around: AuxiliaryObjects
    group_status: Mapping[GroupName, NodeGroupStatus]
    priorities: Priorities | None = None
    slack: SlackPlan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A copy at one moment; `fleet` is None where no autoscaler runs."""

    now: Instant
    nodes: Sequence[Node]
    pods: Sequence[Pod]
    reservations: Mapping[PodUid, Reservation]
    budgets: tuple[DisruptionBudget, ...]
    promised: frozenset[PodUid]
    group_registry: GroupRegistryView | None


def unknown(group_registry: GroupRegistryView | None) -> frozenset[str]:
    """Kinds of objects of which nothing is known."""
    return _AUXILIARY if group_registry is None else frozenset()


def take(state_machine: StateMachine, group_registry: GroupRegistryView | None, now: Instant) -> Taken:
    """Copies what what-if reads."""
    return Taken(
        now=now,
        nodes=[node for _, node in state_machine.nodes],
        pods=list(state_machine.pods),
        reservations=state_machine.reservations.copy(),
        budgets=tuple(state_machine.budgets),
        promised=frozenset(state_machine.preemptions.gated_pods()),
        group_registry=group_registry,
    )


def cluster_of(taken: Taken, *, accounting: bool) -> Cluster:
    """Pods count where their binds go. `accounting`: with what is Reserved for them, where that is more than their requests."""
    nodes = tuple(sorted(taken.nodes, key=lambda node: node.name))
    cluster = Cluster(
        nodes=nodes,
        pods=tuple(_pods(taken, accounting=accounting)),
        budgets=taken.budgets,
        promised=taken.promised,
        where="is watched",
        unknown=_AUXILIARY,
    )
    if taken.group_registry is None:
        return cluster
    around, group_status = taken.group_registry.around, taken.group_registry.group_status
    assert around.namespaces is not None
    assert around.storage is not None
    assert around.daemons is not None
    return replace(
        cluster,
        namespaces=around.namespaces,
        storage=around.storage,
        daemons=around.daemons,
        scales=Scales(replicas=around.replicas or {}, known=_SCALED),
        priorities=taken.group_registry.priorities,
        groups=tuple(_groups(nodes, group_status, taken.now)) if group_status else None,
        unknown=frozenset(),
    )


def _pods(taken: Taken, *, accounting: bool) -> list[Pod]:
    found = []
    for pod in sorted(taken.pods, key=lambda pod: (pod.key, pod.uid)):
        reservation = None if pod.ended else taken.reservations.get(pod.uid)
        if accounting and not pod.ended:
            found.append(as_counted(pod, reservation))
        elif reservation is not None and reservation.node != pod.node:
            found.append(replace(pod, node=reservation.node))
        else:
            found.append(pod)
    return found


def _groups(nodes: Sequence[Node], group_status: Mapping[GroupName, NodeGroupStatus], now: Instant) -> list[KnownGroup]:
    membership = Membership(each.group for each in group_status.values())
    members: dict[GroupName, set[NodeName]] = {}
    for node in nodes:
        if (name := membership.group_of(node)) is not None:
            members.setdefault(name, set()).add(node.name)
    return [
        KnownGroup(
            group=each.group,
            nodes=frozenset(members.get(name, ())),
            starting=frozenset(each.starting),
            coming=each.upcoming - len(each.starting),
            skip_reason=_bar(each, now),
        )
        for name, each in group_status.items()
    ]


def _bar(group_status: NodeGroupStatus, now: Instant) -> SkipReason | None:
    """That a group is at its maximum the plan finds by itself, and says better."""
    found = skip_reason_of(group_status, group_status.closed(now))
    return None if found is not None and found.kind == "limit" else found
