"""The picture of a running service -> a cluster as what-if on files reads it.

What flows through: `take` copies what changes, quickly, on the loop; `cluster_of` does the slow part and may run in a thread.
Deliberately absent: changes to it (`supposing`), and questions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from slackwater.app.offline.cluster import READ, Cluster
from slackwater.app.offline.knowngroups import KnownGroup
from slackwater.cluster.nodegroups.status import Census
from slackwater.cluster.reservations import Claim
from slackwater.controllers.scaleup.expanders.priority import Priorities
from slackwater.controllers.scaleup.groups import Bar
from slackwater.fit.disruption_counts import Scales
from slackwater.model.auxiliary import Surroundings
from slackwater.model.ids import Instant, NodeName, PodUid
from slackwater.model.nodegroups import GroupName, Membership
from slackwater.model.objects import DisruptionBudget, Node, Pod
from slackwater.runtime.autoscaler.scaleup_planning import bar_of
from slackwater.runtime.autoscaler.slack_planning import SlackPlan
from slackwater.runtime.changes import as_counted
from slackwater.runtime.state_machine import World

#: Kinds that the service watches only where the autoscaler runs.
_SURROUNDINGS: Final = frozenset({*READ, "DaemonSet"} - {"Node", "Pod"})


#: Controllers with a scale that the service watches. Of a Deployment the scale of its ReplicaSets stands for its own.
_SCALED: Final = frozenset({("", "ReplicationController"), ("apps", "ReplicaSet"), ("apps", "StatefulSet")})


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetView:
    """What the autoscaler knows beside the world. `census` and `slack` are of its last loop, None without one."""

    around: Surroundings
    census: Mapping[GroupName, Census]
    priorities: Priorities | None = None
    slack: SlackPlan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A copy at one moment; `fleet` is None where no autoscaler runs."""

    now: Instant
    nodes: Sequence[Node]
    pods: Sequence[Pod]
    claims: Mapping[PodUid, Claim]
    budgets: tuple[DisruptionBudget, ...]
    promised: frozenset[PodUid]
    fleet: FleetView | None


def unknown(fleet: FleetView | None) -> frozenset[str]:
    """Kinds of objects of which nothing is known."""
    return _SURROUNDINGS if fleet is None else frozenset()


def take(world: World, fleet: FleetView | None, now: Instant) -> Taken:
    """Copies what what-if reads."""
    return Taken(
        now=now,
        nodes=[node for _, node in world.nodes],
        pods=list(world.pods),
        claims=world.claims.copy(),
        budgets=tuple(world.budgets),
        promised=frozenset(world.preemptions.gated_pods()),
        fleet=fleet,
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
        unknown=_SURROUNDINGS,
    )
    if taken.fleet is None:
        return cluster
    around, census = taken.fleet.around, taken.fleet.census
    assert around.namespaces is not None
    assert around.storage is not None
    assert around.daemons is not None
    return replace(
        cluster,
        namespaces=around.namespaces,
        storage=around.storage,
        daemons=around.daemons,
        scales=Scales(replicas=around.replicas or {}, known=_SCALED),
        priorities=taken.fleet.priorities,
        groups=tuple(_groups(nodes, census, taken.now)) if census else None,
        unknown=frozenset(),
    )


def _pods(taken: Taken, *, accounting: bool) -> list[Pod]:
    found = []
    for pod in sorted(taken.pods, key=lambda pod: (pod.key, pod.uid)):
        claim = None if pod.ended else taken.claims.get(pod.uid)
        if accounting and not pod.ended:
            found.append(as_counted(pod, claim))
        elif claim is not None and claim.node != pod.node:
            found.append(replace(pod, node=claim.node))
        else:
            found.append(pod)
    return found


def _groups(nodes: Sequence[Node], census: Mapping[GroupName, Census], now: Instant) -> list[KnownGroup]:
    membership = Membership(each.group for each in census.values())
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
            bar=_bar(each, now),
        )
        for name, each in census.items()
    ]


def _bar(census: Census, now: Instant) -> Bar | None:
    """That a group is at its maximum the plan finds by itself, and says better."""
    found = bar_of(census, census.closed(now))
    return None if found is not None and found.kind == "limit" else found
