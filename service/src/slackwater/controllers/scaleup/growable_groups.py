"""Turns the status of node groups, and the nodes of a replica, into the groups of a scale-up plan."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

import numpy as np

from slackwater.cluster.nodegroups.status import NodeGroupStatus
from slackwater.controllers.scaleup.groups import GrowableGroup, SkipKind, SkipReason, Template
from slackwater.controllers.scaleup.policy import ScaleUpPolicy
from slackwater.controllers.scaleup.template import Slices, awaits_slices, template_of, without_zone
from slackwater.controllers.scaleup.variants import Members, Own, Variant, VariantKey, variants_of
from slackwater.model.devices import ResourceSlice
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.nodegroups import AS_TEMPLATE, NodeGroup
from slackwater.model.objects import Node, Pod
from slackwater.model.prices import VARIANT_LABELS, Price, PriceBook
from slackwater.snapshot.snapshot_replica import SnapshotReplica

#: How many seconds after its creation a ready node without its devices counts as upcoming, because a driver may still publish
#: them.
_PUBLISHED_WITHIN: Final = 900.0


def growable_groups(
    replica: SnapshotReplica,
    group_status: NodeGroupStatus,
    why_not: str | None,
    *,
    daemons: Sequence[Pod],
    policy: ScaleUpPolicy,
    now: UnixTime | None = None,
    known: Node | None = None,
    bought_slices: Slices | None = None,
) -> list[GrowableGroup]:
    """The input of scale-up for one group, with a template node: one group, or one for each of its variants. `why_not`: why the
    group may not grow, by its status; None if it may. `known`: the last template node of the group, used if the provider gives
    none. `bought_slices`: the devices of bought nodes that are gone. `now`: if None, ready nodes without their devices do not
    count as upcoming."""
    slices = bought_slices_of(replica, group_status, bought_slices or {}, now)
    not_started = frozenset((*group_status.unready, *group_status.starting))

    def pods_on(name: NodeName) -> Iterable[Pod]:
        return (running.pod for running in replica.on(replica.row_of(name))) if name in replica.nodes else ()

    def make(group: NodeGroup, nodes: Sequence[Node], own: Own) -> Template | None:
        whole = group is group_status.group
        started = [node for node in nodes if node.name not in not_started] if not_started else nodes
        bought = [each for each in group_status.bought if own(VariantKey.of(each.node))]
        names = {each.node.name for each in bought}
        return template_of(
            group,
            started if started or whole else nodes,
            pods_on=pods_on,
            bought=bought,
            daemons=daemons,
            system=policy.system,
            taints=policy.taints,
            kubernetes=replica.snapshot.facts.kubernetes,
            known=known if whole else None,
            csi_nodes=replica.snapshot.volumes.objects.csi_nodes or {},
            published=replica.snapshot.devices.published,
            bought_slices={name: of_node for name, of_node in slices.items() if name in names},
        )

    variants = variants_of(group_status.group, _members(replica, group_status), make)
    return [
        GrowableGroup(
            group=variant.group,
            template=variant.template,
            upcoming=variant.coming + starting,
            skip_reason=skip_reason_of(group_status, why_not),
            dead=variant.dead,
            price=price_of_new(group_status.group, variant.template, policy.prices),
            whole=variant.whole,
        )
        for variant, starting in zip(variants, _starting(replica, group_status, variants, now), strict=True)
    ]


def known_template(groups: Sequence[GrowableGroup]) -> Node | None:
    """What to remember of the template nodes of a group, or of its variants, for when it has no nodes any more."""
    node = next((group.template.node for group in groups if group.template is not None), None)
    return node if node is None or len(groups) == 1 else without_zone(node)


def _members(replica: SnapshotReplica, group_status: NodeGroupStatus) -> Members:
    """The group's nodes, with their variants if they differ. That is read from columns, since a group may have thousands."""
    group, facts = group_status.group, replica.snapshot.facts
    every = (*group_status.ready, *group_status.unready, *group_status.starting)
    names = list(filter(replica.nodes.__contains__, every))
    nodes = list(map(replica.nodes.__getitem__, names))
    coming = group_status.upcoming - len(group_status.starting)
    alike = Members(nodes=nodes, by_key={}, coming=coming, dead=group_status.dead)
    if group.choice == AS_TEMPLATE or len(nodes) < 2:
        return alike
    rows = np.fromiter(map(facts.row_of.__getitem__, names), np.intp, len(names))
    columns = (facts.label(key).ids[rows] for key in VARIANT_LABELS)
    differing = [ids for ids in columns if (ids != ids[0]).any()]
    if not differing:
        return alike
    which = np.zeros(len(rows), np.int64)
    for ids in differing:
        which = np.unique(which * (int(ids.max()) + 2) + ids, return_inverse=True)[1]
    first = np.unique(which, return_index=True)[1]
    by_key: dict[VariantKey, list[Node]] = {}
    for number, at in enumerate(first.tolist()):
        own = by_key.setdefault(VariantKey.of(nodes[at]), [])
        own += map(nodes.__getitem__, np.flatnonzero(which == number).tolist())
    return replace(alike, by_key=by_key)


def _starting(
    replica: SnapshotReplica, group_status: NodeGroupStatus, variants: Sequence[Variant], now: UnixTime | None
) -> list[int]:
    """How many nodes of each variant exist and count as upcoming."""
    late = [_without_slices(replica, group_status, variant.template, now) for variant in variants]
    if len(variants) == 1:
        return [len(group_status.starting) + len(late[0])]
    upcoming = [frozenset((*group_status.starting, *without)) for without in late]
    return [
        sum(node.name in names for node in variant.nodes) if names else 0
        for variant, names in zip(variants, upcoming, strict=True)
    ]


def price_of_new(group: NodeGroup, template: Template | None, prices: PriceBook | None) -> Price | None:
    """What a new node of the group costs at most; None without prices, or without a template."""
    if prices is None or template is None:
        return None
    found = (prices.of(group.name, node, provider=group.price_micros) for node in template.kinds or (template.node,))
    return max(found, key=lambda price: price.micros)


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


def leave_out(replica: SnapshotReplica, group_status: NodeGroupStatus, groups: Sequence[GrowableGroup], now: UnixTime) -> None:
    """Excludes the group's nodes that have registered but not started from the snapshot, because they count as upcoming
    nodes. `groups`: the group, or its variants."""
    late = (_without_slices(replica, group_status, group.template, now) for group in groups)
    for name in dict.fromkeys((*group_status.starting, *chain.from_iterable(late))):
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
    elif group_status.known and group_status.group.target >= group_status.group.max_size:
        kind = "limit"
    return SkipReason(kind=kind, text=why)
