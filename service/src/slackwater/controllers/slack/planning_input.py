"""The input of slack sizing: the nodes of a rule, what they have together, and what pods there request.

A node counts if it exists or is on its way, is ready, is not being removed, and has no taint that keeps the rule's pods away. A
taint that all of the rule's nodes have keeps no pod away: the pods meant for these nodes tolerate it, and so do the
placeholders.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from slackwater.controllers.slack.rule import SlackRule
from slackwater.model.equivalence import Toleration
from slackwater.model.ids import Row
from slackwater.model.objects import Node, Taint
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
    """What sizing reads for one rule. `capacity` is what `n_nodes` nodes have allocatable together. `rooms` are what empty
    nodes of the rule take, each distinct. `pods` are the requests of pods that may come again, each distinct. `tolerations`:
    see the module."""

    n_nodes: int = 0
    capacity: Amounts = NOTHING
    rooms: tuple[Amounts, ...] = ()
    pods: tuple[Amounts, ...] = ()
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
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
    sites: Sequence[Site],
    pod_requests: PodRequests,
    waiting: Iterable[Amounts] = (),
) -> SlackInput:
    """The input of one rule. `rows` are existing and upcoming nodes; `sites` stand for new ones. `waiting` are the requests of
    pods without a node; they count if the rule is about all nodes."""
    ours = [site for site in sites if _is_of(rule, site.node)]
    nodes = [(row, node) for row in rows if _counts(snapshot, rule, row) and _is_of(rule, node := snapshot.facts.nodes[row])]
    common = _common_taints([node for _, node in nodes] or [site.node for site in ours])
    inside = [(row, node) for row, node in nodes if _lasting(node) <= common]
    rooms = dict.fromkeys(site.room for site in ours if _lasting(site.node) <= common)
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
