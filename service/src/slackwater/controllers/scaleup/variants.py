"""The variants of a group whose nodes differ, as its nodes show them: instance types, capacity types and zones.

`variants_of` turns a group into what is planned: the group itself, or a group for each variant. That depends on who chooses the
variant of a new node (`NodeGroup.choice`):

- We, or whoever makes the node for the pods that wait: each variant is a group of its own.
- The cloud, evenly over the zones: each zone is a group of its own, and plans let them grow evenly.
- The cloud: one group. A plan expects of a new node what every variant has (`weakest_of`), since any may come.

In: a group with its nodes, and a function that makes a template of some of them. Out: `Variant`s. Their targets add up to that
of the whole, whose maximum is a limit that they share. `merged` gives a plan back in the names of the wholes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from msgspec import structs

from slackwater.controllers.scaleup.groups import GrowableGroup, SkipReason, Template
from slackwater.controllers.scaleup.outcome import GroupRefusal, ScaleUp, ScaleUpPlan
from slackwater.controllers.scaleup.template import LATER_SECONDS, MANY, OF_ZONE, without_zone
from slackwater.model.node_taints import taint_id
from slackwater.model.nodegroups import EVEN_ZONES, GroupName, NodeGroup, VariantChoice
from slackwater.model.objects import ZONE, Node, Pod
from slackwater.model.prices import capacity_type_of, instance_type_of, zone_of
from slackwater.model.resources import amounts_of, sum_of
from slackwater.model.storage import CsiNode
from slackwater.model.texts import first_few
from slackwater.snapshot.node_facts import HOSTNAME

_MOST_NAMED: Final = 5


class VariantKey(NamedTuple):
    """What tells the variants of a group apart."""

    zone: str
    type: str
    capacity: str

    @classmethod
    def of(cls, node: Node) -> "VariantKey":
        return cls(zone_of(node), instance_type_of(node), capacity_type_of(node))


#: Which variants count.
Own = Callable[[VariantKey], bool]
#: Makes a template of a group from some of its nodes. `Own` tells which of its bought nodes count.
TemplateMaker = Callable[[NodeGroup, Sequence[Node], Own], Template | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """A group's nodes, and the same by their variants; the latter may be empty if they do not differ. `coming`: the number of
    its machines on their way without a Node. `dead`: how many of its target will never come."""

    nodes: Sequence[Node]
    by_key: Mapping[VariantKey, Sequence[Node]]
    coming: int = 0
    dead: int = 0


def by_variant(nodes: Iterable[Node]) -> dict[VariantKey, list[Node]]:
    """The nodes of each variant."""
    found: dict[VariantKey, list[Node]] = {}
    for node in nodes:
        found.setdefault(VariantKey.of(node), []).append(node)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """What is planned: a group, or a variant of `whole` as a group of its own, with its nodes."""

    group: NodeGroup
    nodes: Sequence[Node]
    template: Template | None
    coming: int = 0
    dead: int = 0
    whole: NodeGroup | None = None


def variants_of(group: NodeGroup, members: Members, make: TemplateMaker) -> list[Variant]:
    """The group as it is planned: at least one variant."""
    if len(group.zones) > 1 and not members.by_key:
        members = replace(members, by_key=by_variant(members.nodes))
    keys = members.by_key
    kinds: Mapping[VariantKey, Template] = {}
    if len(keys) > 1 and group.choice.types == "cloud":
        by_type, make = _of_now(group, members, make)
        kinds = _kinds(group, by_type, make)
    parts = _parts(group, members) if len(keys) > 1 or len(group.zones) > 1 else {}
    if len(parts) > 1:
        return _split(group, members, parts, kinds, make)
    template = make(group, members.nodes, _any)
    zones = sorted({key.zone for key in keys if key.zone})
    if template is not None and kinds:
        template = weakest_of(template, list(kinds.values()), unsure=_types_text(kinds))
    if template is not None and len(zones) > 1 and group.choice.zones != "template":
        unsure = f"the cloud chooses the zone: {first_few(zones, _MOST_NAMED)}"
        unsure = "; ".join(filter(None, (template.unsure, unsure)))
        template = replace(template, node=without_zone(template.node), unsure=unsure)
    found = Variant(
        group=group,
        nodes=members.nodes,
        template=template,
        coming=members.coming,
        dead=members.dead,
    )
    return [found]


def _of_now(group: NodeGroup, members: Members, make: TemplateMaker) -> tuple[dict[VariantKey, list[Node]], TemplateMaker]:
    """The nodes of each type that may come, and `make` without the nodes of types that come no more, where others are left."""
    by_type: dict[VariantKey, list[Node]] = {}
    for key, nodes in members.by_key.items():
        if key.type:
            by_type.setdefault(key._replace(zone=""), []).extend(nodes)
    types = sorted(_that_may_come(by_type, group.template))
    past = frozenset(node.name for key in by_type.keys() - types for node in by_type[key])

    def make_now(own: NodeGroup, nodes: Sequence[Node], counts: Own) -> Template | None:
        return make(own, [node for node in nodes if node.name not in past] or nodes, counts)

    return {key: by_type[key] for key in types}, make_now if past else make


def _kinds(group: NodeGroup, by_type: Mapping[VariantKey, Sequence[Node]], make: TemplateMaker) -> dict[VariantKey, Template]:
    """A template of each type among which the cloud chooses; empty if there is no choice."""
    if len(by_type) < 2:
        return {}
    found = ((key, make(replace(group, template=None), nodes, _of_type(key))) for key, nodes in by_type.items())
    return {key: template for key, template in found if template is not None}


def _of_type(type_: VariantKey) -> Own:
    return lambda key: key._replace(zone="") == type_


def _that_may_come(by_type: Mapping[VariantKey, Sequence[Node]], said: Node | None) -> list[VariantKey]:
    """The types without those that are history: only nodes of other types were created since, and either many of them, or some
    of the type that is said of the group."""
    ages = {key: [node.created_at or 0.0 for node in nodes] for key, nodes in by_type.items()}
    of_said = "" if said is None else instance_type_of(said)

    def is_history(key: VariantKey) -> bool:
        last = max(ages[key])
        since = [other for other in ages if max(ages[other]) > last]
        if not since or any(min(ages[other]) <= last + LATER_SECONDS for other in since):
            return False
        return sum(len(ages[other]) for other in since) >= MANY or any(other.type == of_said for other in since)

    return [key for key in by_type if not is_history(key)]


def _types_text(kinds: Iterable[VariantKey]) -> str:
    names = sorted(f"{key.type} ({key.capacity})" if key.capacity != "on-demand" else key.type for key in kinds)
    return f"the cloud chooses the type: {first_few(names, _MOST_NAMED)}"


# --- variants as groups of their own --------------------------------------------------------------------------------------

#: The zone, if the variants differ by zone, and the type and capacity type, if they differ by these.
_PartKey = tuple[str, ...]


def _part_of(choice: VariantChoice, key: VariantKey) -> _PartKey:
    zone = (key.zone,) if choice.zones in ("plan", "evenly") else ()
    return (*zone, key.type, key.capacity) if choice.types == "plan" else zone


def _in_part(choice: VariantChoice, part: _PartKey) -> Own:
    return lambda key: _part_of(choice, key) == part


def _parts(group: NodeGroup, members: Members) -> dict[_PartKey, list[Node]]:
    """The nodes of each variant that is planned as a group of its own, those of the largest first. A node without a zone counts
    for the largest: the cloud has not said yet where it is."""
    found: dict[_PartKey, list[Node]] = {}
    if group.choice == EVEN_ZONES and not group.options.all_or_nothing:
        found = {(zone,): [] for zone in group.zones}  # zones without nodes yet, too
    homeless: list[Node] = []
    has_zones = any(key.zone for key in members.by_key) and group.choice.zones in ("plan", "evenly")
    for key, some in members.by_key.items() if not group.options.all_or_nothing else ():
        own = homeless if has_zones and not key.zone else found.setdefault(_part_of(group.choice, key), [])
        own.extend(some)
    parts = dict(sorted(found.items(), key=lambda each: (-len(each[1]), each[0])))
    for largest in list(parts.values())[:1]:
        largest.extend(homeless)
    return parts


def _split(
    group: NodeGroup,
    members: Members,
    parts: Mapping[_PartKey, Sequence[Node]],
    kinds: Mapping[VariantKey, Template],
    make: TemplateMaker,
) -> list[Variant]:
    """A variant for each part. Machines without a Node, and what the group lacks to its minimum, are shared out evenly if the
    cloud does so, and else count for the first."""
    sizes, choice = [len(nodes) for nodes in parts.values()], group.choice
    evenly = choice.zones == "evenly"
    targets = _shared_out(group.target - sum(sizes), sizes, evenly=evenly)
    lacking = _shared_out(max(group.min_size - group.target + members.dead, 0), targets, evenly=evenly)
    coming = _shared_out(members.coming, sizes, evenly=evenly)
    said = group.template
    if said is not None and choice.zones != "template":
        said = without_zone(said)
    found = []
    for at, (part, nodes) in enumerate(parts.items()):
        own = replace(
            group,
            name=GroupName(f"{group.name} ({', '.join(filter(None, part))})"),
            target=targets[at],
            min_size=lacking[at],
            template=said,
        )
        template = make(own, nodes, _in_part(choice, part)) if nodes else _in_zone(make(own, members.nodes, _any), part)
        if template is not None and kinds:
            template = weakest_of(template, list(kinds.values()), unsure=_types_text(kinds))
        found.append(
            Variant(
                group=own,
                nodes=nodes,
                template=template,
                coming=coming[at] - sizes[at],
                whole=group,
            )
        )
    return found


def _any(_: VariantKey) -> bool:
    return True


def _in_zone(template: Template | None, part: _PartKey) -> Template | None:
    """The template as a node of a zone without nodes yet, from what the group's other nodes or its provider say."""
    if template is None:
        return None
    (zone,) = part
    labels = {key: zone for key in (ZONE, *template.node.labels) if key.endswith("/zone")}
    node = without_zone(template.node)
    return replace(template, node=structs.replace(node, labels={**node.labels, **labels}), differing=frozenset())


def _shared_out(count: int, sizes: Sequence[int], *, evenly: bool) -> list[int]:
    """The sizes once `count` is shared out: to the smallest first, or to the first."""
    found = list(sizes)
    if count <= 0 or not evenly:
        found[0] += count
        return found
    for _ in range(count):
        found[found.index(min(found))] += 1
    return found


# --- what every variant has -----------------------------------------------------------------------------------------------


def weakest_of(main: Template, others: Sequence[Template], *, unsure: str) -> Template:
    """What all of these templates have, whatever their zone, in the form of `main`, whose DaemonSets' pods it keeps. A node of
    another type breaks no promise. `unsure`: what is not known of a new node, as a text."""
    node, every = main.node, [main, *others]
    taken = [sum_of(pod.kind.requests for pod in each.running_pods) for each in every]
    left = [each.node.allocatable.minus(own) for each, own in zip(every, taken, strict=True)]
    scalars = [dict(each.node.scalars) for each in every]
    least = {name: min(amounts.get(name, 0) for amounts in scalars) for name in scalars[0]}
    taints = {taint_id(taint): taint for each in reversed(every) for taint in each.node.taints}
    makes = {tuple((one.driver, len(one.devices)) for one in each.node.slices) for each in every}
    weakest = structs.replace(
        node,
        allocatable=amounts_of(np.min(left, axis=0) + taken[0]),
        scalars=tuple((name, amount) for name, amount in least.items() if amount),
        labels={key: value for key, value in node.labels.items() if _is_sure(key, value, others)},
        taints=tuple(taints.values()),
        csi=_least_csi([each.node.csi for each in every]),
        slices=node.slices if len(makes) == 1 else (),
    )
    broken = "; ".join(dict.fromkeys(each.broken_promise for each in others if each.broken_promise))
    kinds = tuple(each.node for each in others)
    return replace(main, node=weakest, unsure=unsure, broken_promise=broken, kinds=kinds)


def _is_sure(key: str, value: str, others: Sequence[Template]) -> bool:
    """Has a new node the label whatever comes? A label that none of the group's nodes has is said of the group."""
    values = {other.node.labels.get(key) for other in others}
    return key == HOSTNAME or key.endswith(OF_ZONE) or values in ({value}, {None})


def _least_csi(each: Sequence[CsiNode | None]) -> CsiNode | None:
    """The drivers that all nodes have, each with its smallest limit (None: no limit); None if no driver is known of one."""
    known = [csi for csi in each if csi is not None]
    if len(known) < len(each):
        return None
    limits = [dict(csi.drivers) for csi in known]
    common = [driver for driver in limits[0] if all(driver in own for own in limits)]
    least = ((driver, [limit for own in limits if (limit := own[driver]) is not None]) for driver in common)
    return replace(known[0], drivers=tuple((driver, min(some, default=None)) for driver, some in least))


# --- the plan, in the names of the wholes ---------------------------------------------------------------------------------


def merged(plan: ScaleUpPlan, groups: Sequence[GrowableGroup]) -> ScaleUpPlan:
    """The plan with each group that is planned as its variants as one. Of nodes for pods of equal priority, those of different
    variants take turns."""
    if all(group.whole is None for group in groups):
        return plan
    owners = {group.name: group.owner for group in groups}
    by_owner: dict[GroupName, list[ScaleUp]] = {}
    for scale_up in plan.scale_ups:
        by_owner.setdefault(owners[scale_up.group], []).append(scale_up)
    unhelpable = (replace(found, groups=by_whole(found.groups, owners)) for found in plan.unhelpable)
    return replace(
        plan,
        scale_ups=tuple(ScaleUp(group=owner, nodes=_in_turns(parts)) for owner, parts in by_owner.items()),
        unhelpable=tuple(unhelpable),
    )


def _in_turns(parts: Sequence[ScaleUp]) -> tuple[tuple[Pod, ...], ...]:
    if len(parts) == 1:
        return parts[0].nodes
    ranked = [
        (-max((pod.priority for pod in pods[:1]), default=0), number, at)
        for at, part in enumerate(parts)
        for number, pods in enumerate(part.nodes)
    ]
    return tuple(parts[at].nodes[number] for _, number, at in sorted(ranked))


#: Why groups do not grow for a pod.
Reasons = Mapping[GroupName, GroupRefusal | SkipReason]


def by_whole(reasons: Reasons, owners: Mapping[GroupName, GroupName]) -> Reasons:
    """The reasons by group; by variant where those of a group differ. `owners`: the whole of each group."""
    of_owner: dict[GroupName, list[GroupRefusal | SkipReason]] = {}
    for name, reason in reasons.items():
        of_owner.setdefault(owners[name], []).append(reason)
    shared = {owner for owner, each in of_owner.items() if all(reason == each[0] for reason in each)}
    return {owners[name] if owners[name] in shared else name: reason for name, reason in reasons.items()}
