"""The variants of a group whose nodes differ: its instance types, zones and capacity types, as its nodes show them.

Who chooses the variant of a new node depends on who makes it, which the label that names the group says:

- Karpenter makes a node for the pods that wait. It chooses the variant as a plan does, so every combination of type, zone and
  capacity type that the NodePool has is a variant of its own.
- Pools of GKE, AKS, EKS and DigitalOcean, and kops' instance groups, spread their nodes over their zones evenly, so each zone
  is a variant, and plans let them grow evenly. If such a pool has several types, the cloud chooses: a plan expects of a new
  node what every type has.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from slackwater.app.offline.known_groups import CLOUD_GROUP_LABELS
from slackwater.controllers.scaleup.groups import Template
from slackwater.model.nodegroups import GroupName, NodeGroup
from slackwater.model.objects import Node
from slackwater.model.prices import capacity_type_of
from slackwater.model.resources import amounts_of

_KARPENTER = "karpenter.sh/nodepool"
_ZONE = "topology.kubernetes.io/zone"
_TYPE = "node.kubernetes.io/instance-type"
#: Labels that say nothing for certain where the cloud chooses among types.
_OF_TYPE = (_TYPE, "beta.kubernetes.io/instance-type")


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantNodes:
    """A variant as a group of its own, and its nodes. `coming`: its machines that have no Node yet. `types`: a node of each
    instance type among which the cloud chooses; empty if there is no choice."""

    group: NodeGroup
    nodes: Sequence[Node]
    coming: int = 0
    types: tuple[Node, ...] = ()

    def holding_everywhere(self, template: Template) -> Template:
        """The template with what every type has, and without labels that differ between them."""
        if not self.types:
            return template
        node, each = template.node, [dict(type_.scalars) for type_ in self.types]
        least = [min(getattr(type_.allocatable, name) for type_ in self.types) for name in ("cpu", "memory")]
        scalars = {name: min(scalars.get(name, 0) for scalars in each) for name, _ in node.scalars}
        weakest = structs.replace(
            node,
            allocatable=amounts_of((least[0], least[1])),
            scalars=tuple((name, amount) for name, amount in scalars.items() if amount),
            labels={key: value for key, value in node.labels.items() if key not in _OF_TYPE},
        )
        return replace(template, node=weakest)


def variants_of(group: NodeGroup, nodes: Sequence[Node], coming: int) -> list[VariantNodes]:
    """The variants of a group; empty if it has none, or if configuration or provider describe its nodes. `coming`: its machines
    that have no Node yet; they count for the first variant, the one with the most nodes."""
    karpenter = any(node.labels.get(_KARPENTER) == group.name for node in nodes)
    if group.template is not None or not any(
        node.labels.get(key) == group.name for node in nodes for key in CLOUD_GROUP_LABELS
    ):
        return []
    by_key: dict[tuple[str, ...], list[Node]] = {}
    for node in nodes:
        zone = node.labels.get(_ZONE, "")
        others = (node.labels.get(_TYPE, ""), capacity_type_of(node)) if karpenter else ()
        by_key.setdefault((zone, *others), []).append(node)
    types = () if karpenter else _types(nodes)
    if len(by_key) < 2 and not types:
        return []
    found: list[VariantNodes] = []
    spare = group.target - len(nodes)
    for key, own in sorted(by_key.items(), key=lambda each: (-len(each[1]), each[0])):
        first = not found
        target = len(own) + (spare if first else 0)
        lacking = max(group.min_size - group.target, 0) if first else 0
        name = GroupName(f"{group.name} ({', '.join(filter(None, key))})")
        part = replace(group, name=name, target=target, min_size=target + lacking)
        found.append(VariantNodes(group=part, nodes=own, coming=coming if first else 0, types=types))
    return found


def _types(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """A node of each instance type, if there are several."""
    found = {node.labels[_TYPE]: node for node in nodes if _TYPE in node.labels}
    return tuple(found.values()) if len(found) > 1 else ()
