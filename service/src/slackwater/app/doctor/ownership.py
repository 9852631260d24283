"""Which node groups another autoscaler marks as its own, and what follows.

The nodes are read with the user's rights, and belong to groups by their labels, as in `slackwater simulate` without a service.
Of Cluster API the groups' own objects are read too, if they are in this cluster, and of Karpenter the NodePools.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from slackwater.adapters.api_calls import ApiPort
from slackwater.adapters.api_objects import ListWire, ObjectDecoder
from slackwater.adapters.kube.config_maps import BadStatus
from slackwater.adapters.kube.decode import NodeDecoder
from slackwater.adapters.kube.errors import KubeError
from slackwater.adapters.kube.objects import ApiObjects
from slackwater.app.clouds import cluster_api_groups, karpenter_groups, uses_clusterapi, uses_karpenter
from slackwater.app.doctor import Check, named, ok, problem, unknown, unseen, warning
from slackwater.app.offline.known_groups import labelled_groups, with_group_labels
from slackwater.app.other_autoscaler import read_status
from slackwater.app.settings import Settings
from slackwater.app.settings.autoscaling import Providers
from slackwater.cluster.nodegroups.ownership import mark_of
from slackwater.model.nodegroups import GroupName, Membership, NodeGroup
from slackwater.model.objects import Node
from slackwater.ports.protocols import ProviderError

_NAME: Final = "groups of others"
_SECONDS: Final = 30.0
_ADVICE: Final = "name in autoscaler.handedOver those that Slackwater is to change, or hand over their NodePools"
_PAGE: Final = ObjectDecoder(ListWire)
_UNREAD: Final = "as long as the service cannot read it either, it takes no group for another autoscaler's for it"


async def groups_of_others(client: ApiPort, settings: Settings, now: datetime) -> Check:
    """The check. `now` is the API server's time."""
    config_map = settings.autoscaler.cluster_autoscaler_status
    try:
        listed, _ = await read_status(client, config_map, now) or (frozenset[str](), 0.0)
        nodes = with_group_labels(await _nodes(client))
        groups = {found.group.name: found.group for found in labelled_groups(nodes, settings.autoscaler.node_groups)}
        groups |= {group.name: group for group in await of_cluster_api(client, settings)}
        if uses_karpenter(settings):  # its groups are variants, and say themselves whether they are handed over
            variants = await karpenter_groups(settings, client, ()).groups(timeout_seconds=_SECONDS)
            pools = {group.pool.rpartition("/")[2] for group in variants}
            groups = {name: group for name, group in groups.items() if name not in pools}
            groups |= {group.name: group for group in variants}
    except KubeError as error:
        return unseen(_NAME, error, _UNREAD)
    except BadStatus as error:
        return unknown(_NAME, f"ConfigMap {config_map}: {error}", _UNREAD)
    except (ProviderError, ValueError) as error:  # a node that cannot be decoded
        return unknown(_NAME, str(error), _UNREAD)
    return judged(settings, {name: group for name, group in groups.items() if not group.unreadable}, nodes, listed)


async def _nodes(client: ApiPort) -> list[Node]:
    decoder = NodeDecoder()
    return [
        decoder.decode(raw)
        async for page in ApiObjects(client).pages("/api/v1/nodes")
        for raw in _PAGE.decode(page).items or ()
    ]


async def of_cluster_api(client: ApiPort, settings: Settings) -> Sequence[NodeGroup]:
    """The groups of Cluster API, if they are in this cluster. Raises `ProviderError`."""
    section = settings.autoscaler.providers.clusterapi
    if not uses_clusterapi(settings) or (section is not None and section.kubeconfig is not None):
        return ()
    return await cluster_api_groups(settings, client).groups(timeout_seconds=_SECONDS)


def judged(settings: Settings, groups: Mapping[GroupName, NodeGroup], nodes: Sequence[Node], listed: frozenset[str]) -> Check:
    """The check of what was read."""
    handed_over, own = settings.autoscaler.handed_over, settings.autoscaler.providers == Providers()
    if own and (unknown_names := sorted(set(handed_over) - groups.keys())):
        return problem(
            _NAME, f"autoscaler.handedOver names {named(unknown_names)}: no such groups", "name groups that are there"
        )
    membership = Membership(groups.values())
    of_group: dict[GroupName | None, list[Node]] = {}
    for node in nodes:
        of_group.setdefault(membership.group_of(node), []).append(node)
    marks = {name: mark for name, group in groups.items() if (mark := mark_of(group, of_group.get(name, ()), listed))}
    marks = {GroupName(groups[name].pool or name): mark for name, mark in marks.items()}
    if not marks:
        return ok(_NAME, f"none of {len(groups)} groups has another autoscaler's mark")
    if both := [f"{name}: {mark}" for name, mark in marks.items() if name in handed_over]:
        advice = "stop what made these marks, or take the groups out of autoscaler.handedOver: two change them"
        return warning(_NAME, f"handed over, and marked: {named(both)}", advice)
    seen = named(f"{name}: {mark}" for name, mark in marks.items())
    if settings.mode == "shadow":
        return ok(_NAME, f"{seen}; a shadow plans them as if they were handed over")
    return warning(_NAME, f"left alone: {seen}", _ADVICE)
