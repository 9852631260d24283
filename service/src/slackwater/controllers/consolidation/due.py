"""Nodes that are due: they are replaced whatever that saves, because they are too old, or are not as a new node would be.

A node has **drifted** if it lacks a label, a taint or an amount that the provider says of new nodes of its group, and that new
nodes really have, or if the provider says that it has. What nodes that came of late lack too is a wrong promise: who took it
for drift would replace nodes for ever. What is only on the node (a label or taint that somebody added) is no drift. In: nodes,
groups, the growable groups of the plan. Out: for each node a `Due`, or None.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from slackwater.controllers.consolidation.policy import ConsolidationPolicy
from slackwater.controllers.scaleup.groups import GrowableGroup, resources_of
from slackwater.controllers.scaleup.template import OF_ZONE
from slackwater.model.ids import UnixTime
from slackwater.model.nodegroups import AS_TEMPLATE, GroupName, InstanceId, NodeGroup, VariantChoice
from slackwater.model.objects import Node
from slackwater.model.prices import VARIANT_LABELS
from slackwater.snapshot.node_facts import HOSTNAME
from slackwater_protocol.durations import SECOND, Duration, format_duration
from slackwater_protocol.names import NODE_GROUP, TEMPLATE_NODE

#: Labels of one node, ours, and those that every kubelet sets, whose values providers often assume.
_NOT_COMPARED: Final = frozenset({HOSTNAME, NODE_GROUP, TEMPLATE_NODE, "kubernetes.io/os", "kubernetes.io/arch"})


@dataclass(frozen=True, slots=True)
class Due:
    """Why a node is due. `since`: the earlier it is, the earlier the node is replaced. `text`: for people."""

    reason: Literal["Drifted", "Expired"]
    since: UnixTime
    text: str


#: Why a node of the group is due; None if it is not.
DueRule = Callable[[Node, GroupName], Due | None]


def due_rule(
    policy: ConsolidationPolicy, groups: Mapping[GroupName, NodeGroup], growable: Sequence[GrowableGroup], now: UnixTime
) -> DueRule:
    """The rule for the nodes of these groups."""
    new: dict[GroupName, list[Node]] = {}
    drifted: dict[GroupName, dict[InstanceId, str]] = {}
    for each in growable:
        if each.template is not None:
            new.setdefault(each.owner, []).append(each.template.node)

    def judge(node: Node, group: GroupName) -> Due | None:
        since = UnixTime(0.0) if node.created_at is None else node.created_at
        most, age = _expire_after(policy, groups[group]), now - since
        if most and node.created_at is not None and age >= most:
            return Due("Expired", since, f"{_text(age)} old, expires after {_text(most)}")
        if not policy.drift:
            return None
        if group not in drifted:
            drifted[group] = {each.id: each.drifted for each in groups[group].instances if each.drifted}
        drift = drifted[group].get(InstanceId(node.provider_id)) or drift_of(node, groups[group], new.get(group, ()))
        return Due("Drifted", since, drift) if drift else None

    return judge


def _expire_after(policy: ConsolidationPolicy, group: NodeGroup) -> float:
    said = policy.expire_after if group.options.expire_after is None else group.options.expire_after
    return policy.expire_after_of.get(group.name, said)


def drift_of(node: Node, group: NodeGroup, new: Sequence[Node]) -> str:
    """In what the node differs from what its group's provider says of new nodes, as a text; "" if in nothing. `new`: what new
    nodes of the group, or of each of its variants, are expected to be like."""
    said = group.template
    if said is None or not new:
        return ""
    for key, value in sorted(said.labels.items()):
        if key in _NOT_COMPARED or _is_chosen(key, group.choice) or node.labels.get(key) == value:
            continue
        if all(each.labels.get(key) == value for each in new):
            return f"label {key} is {node.labels.get(key, 'missing')}, new nodes have {value}"
    for taint in said.taints:
        if taint not in node.taints and all(taint in each.taints for each in new):
            return f"taint {taint.key} is missing"
    has = resources_of(node) if group.choice == AS_TEMPLATE else {}
    for name, amount in resources_of(said).items():
        if name in has and has[name] != amount:
            return f"{name} is {has[name]}, new nodes have {amount}"
    return ""


def _is_chosen(key: str, choice: VariantChoice) -> bool:
    """Does the cloud choose the label's value for each new node?"""
    if key.endswith(OF_ZONE):
        return choice.zones != "template"
    return key in VARIANT_LABELS and choice.types != "template"


def _text(seconds: float) -> str:
    return format_duration(Duration(int(seconds) * SECOND))
