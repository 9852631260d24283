"""Turns the state of the running service into a `Cluster`, as what-if on files uses it.

`take` copies what may change; it is quick and runs on the event loop. `cluster_of` does the slow part and may run in a thread.
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

#: Kinds that the service watches only if the autoscaler runs.
_AUXILIARY: Final = frozenset({*READ, "DaemonSet"} - {"Node", "Pod"})


#: Controllers with a scale that the service watches. The scale of a Deployment is taken from its ReplicaSets.
_SCALED: Final = frozenset({("", "ReplicationController"), ("apps", "ReplicaSet"), ("apps", "StatefulSet")})


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRegistryView:
    """What the autoscaler knows in addition to the state machine.

    `around`: the auxiliary objects. `group_status` and `slack` are those of the last loop: empty and None before the first.
    `priorities`: those of the expander `priority`, None if it has none."""

    around: AuxiliaryObjects
    group_status: Mapping[GroupName, NodeGroupStatus]
    priorities: Priorities | None = None
    slack: SlackPlan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A copy of the state at one moment. `group_registry` is None if no autoscaler runs or it has not listed its objects yet.

    `promised` are the pods for which a preemption keeps room."""

    now: Instant
    nodes: Sequence[Node]
    pods: Sequence[Pod]
    reservations: Mapping[PodUid, Reservation]
    budgets: tuple[DisruptionBudget, ...]
    promised: frozenset[PodUid]
    group_registry: GroupRegistryView | None


def unknown(group_registry: GroupRegistryView | None) -> frozenset[str]:
    """The kinds of objects that the service does not watch."""
    return _AUXILIARY if group_registry is None else frozenset()


def take(state_machine: StateMachine, group_registry: GroupRegistryView | None, now: Instant) -> Taken:
    """Copies the state that what-if needs."""
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
    """The cluster as what-if uses it. A pod whose bind is under way counts on the node it is bound to. With `accounting`, a pod
    takes the larger of its requests and what is Reserved for it."""
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
    """Why the group may not grow. A group's limit is left out: the plan finds it by itself and reports it in more detail."""
    found = skip_reason_of(group_status, group_status.closed(now))
    return None if found is not None and found.kind == "limit" else found
