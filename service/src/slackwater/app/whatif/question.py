"""What-if on the running service. `WhatIfService` implements `ports.protocols.WhatIf`: it sends a `WhatIfQuestion` to the
planning process, which answers it on the replica, as a `Cluster` that what-if on files uses too. So the service is not held up.

`autoscaler.maxPlanningTime` bounds the time of a plan.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import structs

from slackwater.app.offline.cluster import READ, Cluster, with_profiles
from slackwater.app.offline.known_groups import KnownGroup
from slackwater.app.offline.objects import ClusterError
from slackwater.app.offline.placement import placement_lines
from slackwater.app.offline.scaleup import scale_up_answer
from slackwater.app.offline.version import VersionFound
from slackwater.app.policies import policy_of
from slackwater.app.scheduler_config.filters_and_scores import filter_profiles_of
from slackwater.app.settings import Settings, SettingsError
from slackwater.app.whatif.suppose import configured, refuse_files, regrouped, suppose
from slackwater.cluster.nodegroups.status import NodeGroupStatus
from slackwater.controllers.scaleup.expanders import Priorities
from slackwater.controllers.scaleup.groups import SkipReason
from slackwater.controllers.scaleup.growable_groups import skip_reason_of
from slackwater.controllers.slack.scale_up import SlackPlan
from slackwater.fit.remaining_pdb_tracker import Scales
from slackwater.fit.steps import MOST_STEPS
from slackwater.model.ids import Instant, NodeName, PodKey
from slackwater.model.json_answer import JsonAnswer
from slackwater.model.nodegroups import GroupName, Membership
from slackwater.model.objects import Node, Pod
from slackwater.model.placeholders import NO_HEADROOM_REQUESTS, HeadroomRequests
from slackwater.model.prices import PriceBook
from slackwater.ports.protocols import Question, Supposed, WhatIfRefused
from slackwater.ports.whatif_answers import PlacementLine
from slackwater.snapshot.snapshot_replica import SnapshotReplica

if TYPE_CHECKING:  # the planning process imports this module, but not these
    from slackwater.runtime.planner.process import Questions
    from slackwater.runtime.state_machine import StateMachine

#: Kinds that the service watches only if the autoscaler runs.
_AUXILIARY: Final = frozenset({*READ, "DaemonSet"} - {"Node", "Pod"})


#: Controllers with a scale that the service watches. The scale of a Deployment is taken from its ReplicaSets.
_SCALED: Final = frozenset({("", "ReplicationController"), ("apps", "ReplicaSet"), ("apps", "StatefulSet")})


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRegistryView:
    """What the autoscaler knows in addition to the state machine and the replica.

    `group_status` and `slack` are those of the last loop: empty and None before the first. `priorities` are those of the
    expander for priorities, None if none were read. `prices`: None if none are configured. `headroom`: the objects that ask for
    room for pods to come."""

    group_status: Mapping[GroupName, NodeGroupStatus]
    priorities: Priorities | None = None
    prices: PriceBook | None = None
    slack: SlackPlan | None = None
    headroom: HeadroomRequests = NO_HEADROOM_REQUESTS


def unknown(*, watched: bool) -> frozenset[str]:
    """The kinds of objects that the service does not watch. `watched`: the autoscaler runs, and has listed its objects."""
    return frozenset() if watched else _AUXILIARY


def cluster_of(
    replica: SnapshotReplica,
    group_registry: GroupRegistryView | None,
    now: Instant,
    *,
    accounting: bool,
    ended: Sequence[Pod] = (),
) -> Cluster:
    """The cluster as what-if uses it. A pod whose bind is under way counts on the node it is bound to. With `accounting`, a pod
    takes the larger of its requests and what is Reserved for it. `group_registry` is None if no autoscaler runs or it has not
    listed its objects yet. `ended`: pods that have ended, which the replica does not have."""
    seen_nodes = ({**replica.nodes, **replica.seen_nodes}).values()
    nodes = tuple(sorted(seen_nodes, key=lambda node: node.name))
    return replace(
        cluster_without_nodes(replica, group_registry, now, nodes),
        nodes=nodes,
        pods=tuple(sorted((*_pods(replica, accounting=accounting), *ended), key=lambda pod: (pod.key, pod.uid))),
    )


def cluster_without_nodes(
    replica: SnapshotReplica, group_registry: GroupRegistryView | None, now: Instant, nodes: Sequence[Node]
) -> Cluster:
    """The cluster without its nodes and pods. `nodes`: those to whose groups it refers."""
    cluster = Cluster(
        nodes=(),
        pods=(),
        budgets=replica.budgets,
        awaiting_victims=replica.awaiting_victims,
        where="is watched",
        kubernetes=VersionFound(version=replica.kubernetes, source="as of the service"),
        unknown=unknown(watched=group_registry is not None),
    )
    if group_registry is None:
        return cluster
    group_status = group_registry.group_status
    return replace(
        cluster,
        namespaces=replica.namespaces,
        storage=replica.storage,
        devices=replica.devices,
        spread_sources=replica.spread_sources,
        daemons=replica.daemons,
        scales=Scales(replicas=replica.replicas, known=_SCALED),
        priorities=group_registry.priorities,
        headroom=group_registry.headroom,
        groups=tuple(_groups(nodes, group_status, now)) if group_status else None,
        price_table=None if group_registry.prices is None else group_registry.prices.table,
    )


def _pods(replica: SnapshotReplica, *, accounting: bool) -> list[Pod]:
    found = replica.every_pod()
    if accounting or not replica.seen_pods:
        return found
    return [_as_requested(pod, replica.seen_pods.get(pod.uid)) for pod in found]


def _as_requested(pod: Pod, seen: Pod | None) -> Pod:
    """The pod with its own requests, on the node where it counts."""
    if seen is None:
        return pod
    return seen if seen.node == pod.node else structs.replace(seen, node=pod.node)


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
            bought=each.bought,
            coming=each.upcoming - len(each.starting),
            skip_reason=_skip_reason(each, now),
        )
        for name, each in group_status.items()
    ]


def _skip_reason(group_status: NodeGroupStatus, now: Instant) -> SkipReason | None:
    """Why the group may not grow. A group's limit is left out: the plan finds it by itself and reports it in more detail."""
    found = skip_reason_of(group_status, group_status.closed(now))
    return None if found is not None and found.kind == "limit" else found


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfQuestion:
    """A what-if question. `objects` are the supposed objects, each as JSON text, since there may be many. `supposed` has the
    other changes. `ended` are the pods that have ended and that `supposed` removes."""

    question: Question
    supposed: Supposed
    objects: Sequence[bytes]
    ended: Sequence[Pod]
    settings: Settings
    group_registry: GroupRegistryView | None
    now: Instant

    def answer(self, replica: SnapshotReplica) -> bytes:
        """The lines that `slackwater simulate` prints, the same as for a cluster from a file. Raises `WhatIfRefused`."""
        supposed = self.supposed
        try:
            settings = configured(self.settings, supposed.configuration)
            refuse_files(self.settings, settings)
            accounting = supposed.accounting
            cluster = cluster_of(replica, self.group_registry, self.now, accounting=accounting, ended=self.ended)
            cluster = regrouped(cluster, self.settings, settings)
            objects = [msgspec.json.decode(each) for each in self.objects]
            cluster = suppose(cluster, objects=objects, remove=supposed.remove)
            cluster = with_profiles(cluster, filter_profiles_of(settings))
            lines = answers(
                self.question,
                cluster,
                settings,
                accounting=accounting,
                sequential=supposed.sequential,
                plan_steps=MOST_STEPS,
            )
            return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
        except (SettingsError, ClusterError) as error:
            raise WhatIfRefused(str(error)) from error


def answers(
    question: Question, cluster: Cluster, settings: Settings, *, accounting: bool, sequential: bool, plan_steps: int = 0
) -> Iterable[JsonAnswer]:
    """The answers to a question about the cluster, each for one line of JSON. `plan_steps`: the most steps of a plan; 0: no
    limit."""
    match question:
        case "placement":
            return placements(cluster, settings, accounting=accounting, sequential=sequential)
        case "scale-up":
            return [scale_up_answer(cluster, settings, accounting=accounting, plan_steps=plan_steps)]
        case "scale-down":
            from slackwater.app.offline.scaledown import scale_down_answer  # other questions begin sooner without it

            return [scale_down_answer(cluster, settings, accounting=accounting, plan_steps=plan_steps)]
        case "consolidate":
            from slackwater.app.offline.consolidation import consolidation_answer

            return [consolidation_answer(cluster, settings, accounting=accounting, plan_steps=plan_steps)]


def placements(cluster: Cluster, settings: Settings, *, accounting: bool, sequential: bool) -> Iterator[PlacementLine]:
    """The answers about the placement of pending pods, by our own rules of the settings if `accounting`."""
    policy = policy_of(settings)
    return placement_lines(
        cluster,
        sequential=sequential,
        accounting=accounting,
        policy=policy.nodes,
        missing_requests=policy.missing_requests,
    )


class WhatIfService:
    """Answers what-if questions. `questions` sends them to the planning process and returns the answers."""

    def __init__(
        self,
        state_machine: "StateMachine",
        questions: "Questions",
        *,
        group_registry: Callable[[], GroupRegistryView | None],
        settings: Callable[[], Settings],
        clock: Callable[[], Instant],
    ) -> None:
        self._state_machine = state_machine
        self._questions = questions
        self._group_registry = group_registry
        self._settings = settings
        self._clock = clock

    async def __call__(self, question: Question, supposed: Supposed) -> bytes:
        objects = tuple(msgspec.json.encode(each) for each in supposed.objects)
        rest = replace(supposed, objects=())

        def asked() -> WhatIfQuestion:
            view = self._group_registry()
            return WhatIfQuestion(
                question=question,
                supposed=rest,
                objects=objects,
                ended=self._ended(supposed.remove),
                settings=self._settings(),
                group_registry=None if view is None else replace(view, slack=None),
                now=self._clock(),
            )

        return await self._questions.ask(asked)

    def _ended(self, remove: Sequence[Mapping[str, str]]) -> tuple[Pod, ...]:
        """The pods to remove that have ended: only the state machine knows them."""
        keys = (
            PodKey(each.get("namespace") or "default", each.get("name", "")) for each in remove if each.get("kind") == "Pod"
        )
        found = (self._state_machine.state.pods.by_key(key) for key in dict.fromkeys(keys))
        return tuple(pod for pod in found if pod is not None and pod.ended)
