"""Turns the status of node groups, and the nodes of a replica, into the groups of a scale-up plan."""

from collections.abc import Iterable, Sequence
from typing import Final

from slackwater.cluster.nodegroups.status import NodeGroupStatus
from slackwater.controllers.scaleup.groups import GrowableGroup, SkipKind, SkipReason, Template
from slackwater.controllers.scaleup.policy import ScaleUpPolicy
from slackwater.controllers.scaleup.template import Slices, awaits_slices, template_of
from slackwater.model.devices import ResourceSlice
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.nodegroups import NodeGroup
from slackwater.model.objects import Node, Pod
from slackwater.model.prices import Price, PriceBook
from slackwater.snapshot.snapshot_replica import SnapshotReplica

#: How many seconds after its creation a ready node without its devices counts as upcoming, because a driver may still publish
#: them.
_PUBLISHED_WITHIN: Final = 900.0


def growable_group(
    replica: SnapshotReplica,
    group_status: NodeGroupStatus,
    why_not: str | None,
    *,
    daemons: Sequence[Pod],
    policy: ScaleUpPolicy,
    now: UnixTime | None = None,
    known: Node | None = None,
    bought_slices: Slices | None = None,
) -> GrowableGroup:
    """The input of scale-up for one group, with a template node. `why_not`: why the group may not grow, by its status; None if
    it may. `known`: the last template node of the group, used if the provider gives none. `bought_slices`: the
    devices of bought nodes that are gone. `now`: if None, ready nodes without
    their devices do not count as upcoming."""

    def pods_on(name: NodeName) -> Iterable[Pod]:
        return (running.pod for running in replica.on(replica.row_of(name))) if name in replica.nodes else ()

    template = template_of(
        group_status.group,
        [replica.nodes[name] for name in group_status.ready if name in replica.nodes],
        pods_on=pods_on,
        bought=group_status.bought,
        daemons=daemons,
        system=policy.system,
        taints=policy.taints,
        kubernetes=replica.snapshot.facts.kubernetes,
        known=known,
        csi_nodes=replica.snapshot.volumes.objects.csi_nodes or {},
        published=replica.snapshot.devices.published,
        bought_slices=bought_slices_of(replica, group_status, bought_slices or {}, now),
    )
    return GrowableGroup(
        group=group_status.group,
        template=template,
        upcoming=group_status.upcoming + len(_without_slices(replica, group_status, template, now)),
        skip_reason=skip_reason_of(group_status, why_not),
        dead=group_status.dead,
        price=price_of_new(group_status.group, template, policy.prices),
    )


def price_of_new(group: NodeGroup, template: Template | None, prices: PriceBook | None) -> Price | None:
    """What a new node of the group costs; None without prices, or without a template."""
    if prices is None or template is None:
        return None
    return prices.of(group.name, template.node, provider=group.price_micros)


def bought_slices_of(replica: SnapshotReplica, group_status: NodeGroupStatus, before: Slices, now: UnixTime | None) -> Slices:
    """The ResourceSlices of the group's bought nodes; of nodes that are gone, those of `before`. Nodes of which it is not known
    yet whether they will publish any are absent."""
    published, found = replica.snapshot.devices.published, dict[str, Sequence[ResourceSlice]]()
    for name in (each.node.name for each in group_status.bought):
        node = replica.nodes.get(name)
        if name in published:
            found[name] = published[name]
        elif node is not None and now is not None and not _is_new(node, now):
            found[name] = ()
        elif node is None and name in before:
            found[name] = before[name]
    return found


def _without_slices(
    replica: SnapshotReplica, group_status: NodeGroupStatus, template: Template | None, now: UnixTime | None
) -> list[NodeName]:
    """The group's new, ready nodes whose devices are not published yet. Nodes that are not new count as nodes without
    devices."""
    if template is None or not template.node.slices:
        return []
    published, nodes = replica.snapshot.devices.published, replica.nodes
    ready = (name for name in group_status.ready if name in nodes and _is_new(nodes[name], now))
    return [name for name in ready if awaits_slices(nodes[name], template.node, published)]


def _is_new(node: Node, now: UnixTime | None) -> bool:
    return now is not None and node.created_at is not None and now - node.created_at < _PUBLISHED_WITHIN


def leave_out(replica: SnapshotReplica, group_status: NodeGroupStatus, group: GrowableGroup, now: UnixTime) -> None:
    """Excludes the group's nodes that have registered but not started from the snapshot, because they count as upcoming
    nodes."""
    for name in (*group_status.starting, *_without_slices(replica, group_status, group.template, now)):
        if name in replica.nodes:
            replica.snapshot.close(replica.row_of(name))


def skip_reason_of(group_status: NodeGroupStatus, why: str | None) -> SkipReason | None:
    """The skip reason for a group that may not grow. `why`: the text of the group's status; None (also as the result): it may
    grow."""
    if why is None:
        return None
    kind: SkipKind = "not-ready"
    if group_status.off:
        kind = "switched-off"
    elif group_status.backoff is not None and why.startswith("backing off"):
        kind = "backoff"
    elif group_status.group.target >= group_status.group.max_size:
        kind = "limit"
    return SkipReason(kind=kind, text=why)
