"""Plans a scale-up for a decoded cluster: the first step of both `simulate scale-up` and `simulate scale-down`.

In: a `Cluster` and settings. Out: the pending pods, where they are expected to fit, and which nodes would be added. Every pod
without a node counts, however young, even if its scheduler has not tried it yet. Back-offs and nodes in creation are known only
if the cluster comes from a running service.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from slackwater.app.offline.cluster import Cluster
from slackwater.app.offline.known_groups import KnownGroup, labelled_groups
from slackwater.app.offline.placement import as_accounted, pending_pods, snapshot_of
from slackwater.app.policies import policy_of, scale_up_policy_of, slack_policy_of, taint_rules_of
from slackwater.app.prices import price_book_of
from slackwater.app.settings import Settings
from slackwater.controllers.scaleup.costs import GroupCost, group_costs
from slackwater.controllers.scaleup.expanders import NO_PRIORITIES
from slackwater.controllers.scaleup.groups import GrowableGroup, Template
from slackwater.controllers.scaleup.growable_groups import price_of_new
from slackwater.controllers.scaleup.pending import pending_demand
from slackwater.controllers.scaleup.template import Slices, awaits_devices, awaits_slices, template_of
from slackwater.controllers.scaleup.variants import Members, Own, VariantKey, by_variant, variants_of
from slackwater.controllers.slack.headroom_demand import HeadroomDemand, asked_by
from slackwater.controllers.slack.report import unmet
from slackwater.controllers.slack.scale_up import LoopPlans, SlackInquiry, plan_with_slack
from slackwater.fit.plugins.node_accounting import EVERY_SCHEDULER
from slackwater.model.ids import NodeName, Row, UnixTime
from slackwater.model.node_taints import TaintRules
from slackwater.model.nodegroups import AS_TEMPLATE, GroupName, Membership, NodeGroup
from slackwater.model.objects import Node, Pod, is_daemon, runs_control_plane
from slackwater.model.placeholders import HeadroomRequests
from slackwater.model.prices import PriceBook
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.device_table import DeviceTable
from slackwater.snapshot.running_pods import AtLeast, NotedPods, PodsByRow, RunningPods, let_yield
from slackwater.snapshot.snapshot_replica import SnapshotReplica


def slack_inquiry(cluster: Cluster, settings: Settings, pods: Callable[[], Iterable[Pod]]) -> SlackInquiry | None:
    """The slack to plan for; None if slack is switched off, or if neither a rule nor an object asks for any. `pods`: all pods,
    looked at if slack is on."""
    policy = slack_policy_of(settings)
    if policy is None:
        return None
    headroom = asked_by(pods(), cluster.headroom) if settings.autoscaler.slack.headroom else HeadroomDemand()
    if not (headroom.pod_headroom or headroom.buffers or any(rule.asks for rule in policy.rules)):
        return None
    return SlackInquiry(policy=policy, now=UnixTime(0.0), headroom=headroom)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """A scale-up plan and the input it was made from. In the snapshot placed expendable pods yield their room
    to pods that preempt; `running_pods` are the others.

    `group_of` maps the nodes that have started to their groups. A node that is still starting counts as upcoming instead.
    """

    snapshot: ClusterSnapshot
    running_pods: NotedPods
    groups: tuple[GrowableGroup, ...]
    group_of: dict[NodeName, GroupName]
    pending: Sequence[Pod]
    found: LoopPlans
    costs: Mapping[GroupName, GroupCost]

    @property
    def unmet(self) -> tuple[str, ...]:
        """What asks for room for pods to come and gets less, with why."""
        return () if self.found.slack is None else unmet(self.found.slack)


def planned_growth(
    cluster: Cluster,
    settings: Settings,
    *,
    accounting: bool,
    plan_steps: int = 0,
    replica: SnapshotReplica | None = None,
    clock: Callable[[], float] = time.process_time,
) -> Grown:
    """Plans a scale-up for the cluster. With `accounting`, nodes have no more room than our own accounting gives them.

    `replica`: a replica of the cluster, in a trial of the caller, which has the pods on nodes: those of `cluster` are not read;
    None: a snapshot is built. `clock`: by default CPU time, since the answer must not depend on what else the machine does."""
    policy = scale_up_policy_of(
        settings,
        priorities=cluster.priorities or NO_PRIORITIES,
        prices=price_book_of(settings, overlays=cluster.price_overlays, table=cluster.price_table),
        after_scheduler=False,
        plan_steps=plan_steps,
    )
    cluster = as_accounted(cluster) if accounting else cluster
    pods_on = None if replica is None else replica.pods_on
    groups, group_of, starting = growable_groups(cluster, settings, prices=policy.prices, pods_on=pods_on)
    cutoff = policy.pending.expendable_pods_priority_cutoff
    slack = slack_inquiry(cluster, settings, lambda: cluster.pods if replica is None else _asking(replica, cluster.headroom))
    ledger = policy_of(settings).nodes if accounting else None
    snapshot = snapshot_of(cluster, policy=ledger) if replica is None else replica.snapshot
    snapshot.strict_for = EVERY_SCHEDULER if settings.vertical.missing_requests == "reject" else None
    pending, everybody = pending_pods(cluster), replica or RunningPods(snapshot, cluster.pods)
    running_pods: NotedPods = everybody
    if replica is None or replica.has_below(cutoff):
        let_expendable_yield(snapshot, everybody, cutoff)
        running_pods = AtLeast(everybody, cutoff)
    demand = pending_demand(pending, rules=policy.pending, now=None, reserved=cluster.awaiting_victims)
    with snapshot.fork():
        for name in starting:
            snapshot.close(snapshot.facts.row_of[name])
        found = plan_with_slack(
            snapshot,
            demand,
            groups,
            policy=policy,
            clock=clock,
            slack=slack,
            running_pods=running_pods,
        )
    return Grown(
        snapshot=snapshot,
        running_pods=running_pods,
        groups=groups,
        group_of=group_of,
        pending=pending,
        found=found,
        costs=group_costs(policy.prices, groups, found.plan.scale_ups, {}),
    )


#: One group for all nodes, used if neither the configuration nor a label names a group.
_EVERY_NODE: Final = GroupName("")


def removal_groups(
    groups: Sequence[GrowableGroup], group_of: Mapping[NodeName, GroupName], cluster: Cluster
) -> tuple[dict[GroupName, NodeGroup], Mapping[NodeName, GroupName]]:
    """The groups whose nodes may be removed, and the group of each node, from the result of `growable_groups`. If neither
    configuration nor labels name a group, all nodes but those of the control plane form one."""
    if groups or cluster.groups is not None:
        return {each.owner: each.provided for each in groups}, group_of
    names = [node.name for node in cluster.nodes if not runs_control_plane(node)]
    whole = NodeGroup(name=_EVERY_NODE, provider="", min_size=0, max_size=len(names), target=len(names), instances=())
    return {_EVERY_NODE: whole}, dict.fromkeys(names, _EVERY_NODE)


def growable_groups(
    cluster: Cluster,
    settings: Settings,
    *,
    prices: PriceBook | None = None,
    variants: bool = True,
    pods_on: Callable[[NodeName], Sequence[Pod]] | None = None,
) -> tuple[tuple[GrowableGroup, ...], dict[NodeName, GroupName], list[NodeName]]:
    """The growable groups, the group of each node that has started, and the nodes still starting, which count as upcoming.
    `variants`: a group whose nodes differ is planned as its variants. `pods_on`: by default, the cluster's pods on a node."""
    known = cluster.groups
    if known is None:
        known = labelled_groups(cluster.nodes, settings.autoscaler.node_groups)
    membership = Membership(found.group for found in known)
    by_group: dict[GroupName | None, list[Node]] = {}
    for node in cluster.nodes:
        by_group.setdefault(membership.group_of(node), []).append(node)
    pods_on = _by_node(cluster.pods) if pods_on is None else pods_on
    taints = taint_rules_of(settings)
    published = DeviceTable(cluster.devices).published
    groups, group_of, starting = list[GrowableGroup](), dict[NodeName, GroupName](), list[NodeName]()
    for found in known:
        nodes = by_group.get(found.group.name, [])
        target = found.group.target + len(nodes) - len(found.nodes)
        whole = replace(found.group, target=target, choice=found.group.choice if variants else AS_TEMPLATE)

        def make(group: NodeGroup, some: Sequence[Node], own: Own, found: KnownGroup = found) -> Template | None:
            return template_of(
                group,
                [node for node in some if node.name not in found.starting],
                pods_on=pods_on,
                bought=[each for each in found.bought if own(VariantKey.of(each.node))],
                daemons=cluster.daemons,
                taints=taints,
                kubernetes=cluster.kubernetes.version,
                csi_nodes=cluster.storage.csi_nodes or {},
                published=published,
            )

        members = Members(nodes=nodes, by_key=by_variant(nodes), coming=found.coming)
        for part in variants_of(whole, members, make):
            late = [
                node.name
                for node in part.nodes
                if node.name in found.starting or _awaits(node, part.template, taints, published, pods_on)
            ]
            starting += late
            groups.append(
                GrowableGroup(
                    group=part.group,
                    template=part.template,
                    upcoming=part.coming + len(late),
                    skip_reason=found.skip_reason,
                    price=price_of_new(whole, part.template, prices),
                    whole=part.whole,
                )
            )
        late_nodes = frozenset(starting)
        group_of |= {node.name: whole.name for node in nodes if node.name not in late_nodes}
    return tuple(groups), group_of, starting


def _asking(replica: SnapshotReplica, headroom: HeadroomRequests) -> Iterable[Pod]:
    """The pods that `asked_by` reads: those whose annotation asks for headroom, or all if objects name controllers."""
    if headroom.marked or headroom.workloads:
        return replica.every_pod()
    notes, found = replica.notes("headroom"), list[Pod]()
    for name in replica.occupied:
        if name not in notes:
            notes[name] = [pod for pod in replica.pods_on(name) if pod.eviction_facts.slack]
        found += notes[name]
    return [*found, *replica.pending.values()]


def _by_node(pods: Iterable[Pod]) -> Callable[[NodeName], Sequence[Pod]]:
    found: dict[NodeName | None, list[Pod]] = {}
    for pod in pods:
        found.setdefault(pod.node, []).append(pod)
    return lambda name: found.get(name, ())


def _awaits(
    node: Node,
    template: Template | None,
    taints: TaintRules,
    published: Slices,
    pods_on: Callable[[NodeName], Sequence[Pod]],
) -> bool:
    """True if the node is still starting: its devices are missing, or it has a start-up taint. A node with pods other than
    those of DaemonSets needs no extended resource that others of its group have: somebody may have added that to them."""
    if template is None:
        return False
    if awaits_slices(node, template.node, published):
        return True
    if awaits_devices(node, template.node) and all(map(is_daemon, pods_on(node.name))):
        return True
    return node.ready and any(taints.is_startup(taint.key) for taint in node.taints)


def let_expendable_yield(snapshot: ClusterSnapshot, running_pods: PodsByRow, cutoff: int) -> None:
    """Lets expendable pods yield their room to pods that preempt; every other rule counts them."""
    rows = map(Row, range(snapshot.n_rows))
    let_yield(snapshot, [(pod.kind, row) for row in rows for pod in running_pods.on(row) if pod.pod.expendable(cutoff)])
