"""The input of slack sizing: the nodes of a rule with what they have together, and placeholders that are like a pod.

- `slack_input_of`: the nodes of a rule, and the requests of its pods.
- `PodHeadroom`, `like`, `example_pods`: placeholders for marked workloads, CapacityBuffers and start-time SLOs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from slackwater.controllers.slack.policy import SlackRule
from slackwater.model.ids import Row
from slackwater.model.objects import Labels, Node, Pod, Taint
from slackwater.model.placeholders import a_placeholder
from slackwater.model.pod_constraints import Kind, Toleration
from slackwater.model.resources import NOTHING, Amounts
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater_protocol.names import DELETION_CANDIDATE_TAINT, TO_BE_DELETED_TAINT

_HARD: Final = frozenset({"NoSchedule", "NoExecute"})
#: Prefixes of taints about a passing state of a node; they do not say which pods it is for.
_PASSING: Final = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "status-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackInput:
    """What sizing reads for one rule. `capacity` is what `n_nodes` nodes have allocatable together.

    `rooms` are what empty nodes of the rule take, each distinct. `pods` are the requests of pods that may come again, each
    distinct. `tolerations` are for the taints that all of the rule's nodes have: the pods meant for these nodes tolerate them,
    and so do the placeholders.
    """

    n_nodes: int = 0
    capacity: Amounts = NOTHING
    rooms: tuple[Amounts, ...] = ()
    pods: tuple[Amounts, ...] = ()
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackNode:
    """A node as it would be when empty: `room` is what it has for pods in addition to those that come with every node."""

    node: Node
    room: Amounts


class PodRequests(Protocol):
    """What the pods of a row request; the snapshot has only their sums."""

    def asks(self, rows: Sequence[Row]) -> Iterable[Amounts]:
        """The requests of the pods on some rows that may come again: replicas, but not of DaemonSets or StatefulSets."""
        ...

    def daemons(self, row: Row) -> Amounts:
        """What the pods take that come with the node."""
        ...


def slack_input_of(
    snapshot: ClusterSnapshot,
    rule: SlackRule,
    *,
    rows: Iterable[Row],
    slack_nodes: Sequence[SlackNode],
    pod_requests: PodRequests,
    waiting: Iterable[Amounts] = (),
) -> SlackInput:
    """The input of one rule. `rows` are existing and upcoming nodes; `slack_nodes` stand for new ones. `waiting` are the
    requests of pods without a node; they count if the rule is about all nodes.

    A node counts if it exists or is upcoming, is ready, is not being removed, and has no taint that keeps the rule's pods away.
    A taint that all of the rule's nodes have keeps no pod away.
    """
    ours = [slack_node for slack_node in slack_nodes if _is_of(rule, slack_node.node)]
    nodes = [(row, node) for row in rows if _counts(snapshot, rule, row) and _is_of(rule, node := snapshot.facts.nodes[row])]
    common = _common_taints([node for _, node in nodes] or [slack_node.node for slack_node in ours])
    inside = [(row, node) for row, node in nodes if _lasting(node) <= common]
    rooms = dict.fromkeys(slack_node.room for slack_node in ours if _lasting(slack_node.node) <= common)
    examples = {node.allocatable: row for row, node in reversed(inside)}
    rooms.update(dict.fromkeys(has.minus(pod_requests.daemons(row)).not_below_zero() for has, row in examples.items()))
    pods = dict.fromkeys(pod_requests.asks([row for row, _ in inside])) if rule.sizing == "v2" else {}
    pods.update(dict.fromkeys(() if rule.node_labels else waiting))
    return SlackInput(
        n_nodes=len(inside),
        capacity=_sum(node.allocatable for _, node in inside),
        rooms=tuple(rooms),
        pods=tuple(pods),
        tolerations=tuple(Toleration(taint.key, "Equal", taint.value, taint.effect) for taint in sorted(common, key=_by_key)),
    )


def _counts(snapshot: ClusterSnapshot, rule: SlackRule, row: Row) -> bool:
    node = snapshot.facts.nodes[row]
    leaves = any(taint.key == TO_BE_DELETED_TAINT for taint in node.taints)
    return bool(snapshot.facts.live[row]) and node.ready and not leaves and _is_of(rule, node)


def _is_of(rule: SlackRule, node: Node) -> bool:
    return all(node.labels.get(key) == value for key, value in rule.node_labels)


def _lasting(node: Node) -> frozenset[Taint]:
    """Taints that say for which pods the node is, and keep others away."""
    own = (TO_BE_DELETED_TAINT, DELETION_CANDIDATE_TAINT)
    return frozenset(
        taint for taint in node.taints if taint.effect in _HARD and taint.key not in own and not taint.key.startswith(_PASSING)
    )


def _common_taints(nodes: Sequence[Node]) -> frozenset[Taint]:
    return frozenset.intersection(*map(_lasting, nodes)) if nodes else frozenset()


def _by_key(taint: Taint) -> tuple[str, str, str]:
    return (taint.key, taint.value, taint.effect)


def _sum(amounts: Iterable[Amounts]) -> Amounts:
    total = NOTHING
    for each in amounts:
        total = total.plus(each)
    return total


@dataclass(frozen=True, slots=True, kw_only=True)
class PodHeadroom:
    """`count` placeholders like a pod of `kind` with these labels. `source` says for what; a source may have several
    entries."""

    source: str
    kind: Kind
    labels: Labels
    count: int


def like(kind: Kind) -> Kind:
    """The equivalence group of a placeholder that is like a pod of this class.

    It requests what the pod requests: amounts, selectors, affinity, tolerations, spread. It does not request what only one pod
    can have (volumes, a node's name).
    """
    asks = kind.pod_constraints
    if asks is None:
        return kind
    own = replace(asks, claims=(), disks=(), inline_disks=(), resource_claims=(), container_devices=(), node_name=None)
    return replace(kind, pod_constraints=own)


def example_pods(pod_headroom: Iterable[PodHeadroom]) -> list[Pod]:
    """One placeholder for each entry, so that a snapshot knows its equivalence group before any is planned."""
    return [a_placeholder(0, like(each.kind), each.labels) for each in pod_headroom]
