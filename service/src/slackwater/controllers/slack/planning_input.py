"""The input of slack planning: what the nodes of a rule have together, and requests for placeholders that are like a pod.

- `slack_input_of`: what the nodes of a rule have, and what its pods request.
- `PodHeadroom`, `like`, `example_pods`: placeholders for annotated workloads, CapacityBuffers and start-time SLOs.
- `recurring_requests`: the requests of the pods on some rows, one by one; a snapshot has only their sums.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final

from slackwater.controllers.slack.policy import SlackRule
from slackwater.model.ids import Row
from slackwater.model.node_taints import repels
from slackwater.model.objects import Labels, Node, Pod, Taint, is_daemon
from slackwater.model.placeholders import a_placeholder
from slackwater.model.pod_constraints import Kind, Toleration
from slackwater.model.resources import NOTHING, Amounts, sum_of
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.running_pods import PodsByRow
from slackwater_protocol.names import DELETION_CANDIDATE_TAINT, TO_BE_DELETED_TAINT

#: Prefixes of the keys of taints about a temporary state of a node. Such a taint does not dedicate the node to certain pods.
_PASSING: Final = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "status-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackInput:
    """What sizing reads for one rule. `n_nodes`: the number of the rule's nodes. `capacity`: what all of them have allocatable.

    `rooms`: the different amounts that an empty node of the rule has for pods. `pods`: the different requests of pods that may
    come again. `tolerations`: for the taints that all of the rule's nodes have. The pods meant for these nodes tolerate the
    taints, so the placeholders have to do so too.
    """

    n_nodes: int = 0
    capacity: Amounts = NOTHING
    rooms: tuple[Amounts, ...] = ()
    pods: tuple[Amounts, ...] = ()
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackNode:
    """A new node of a group. `room`: what it has for pods, beside the DaemonSet pods and static pods that run on it anyway."""

    node: Node
    room: Amounts


def recurring_requests(running_pods: PodsByRow, rows: Sequence[Row]) -> list[Amounts]:
    """The distinct requests of the pods on these rows that may come again (`may_recur`)."""
    # Replicas share their equivalence group and eviction facts, so most pods are skipped by two comparisons.
    seen: set[tuple[int, int]] = set()
    found: dict[Amounts, None] = {}
    for row in rows:
        for pod, kind in running_pods.on(row):
            key = (kind, id(pod.eviction_facts))
            if key not in seen:
                seen.add(key)
                if may_recur(pod):
                    found[pod.kind.requests] = None
    return list(found)


def may_recur(pod: Pod) -> bool:
    """May pods like this one come again, so that slack is sized for them?

    Excluded are DaemonSet pods, which come with their nodes; StatefulSet pods, because a database is no reason to keep a node
    warm; and pods with the slack annotation `0`.
    """
    owner = pod.eviction_facts.owner
    return not is_daemon(pod) and pod.eviction_facts.slack != "0" and not (owner is not None and owner.kind == "StatefulSet")


def slack_input_of(
    snapshot: ClusterSnapshot,
    rule: SlackRule,
    *,
    rows: Iterable[Row],
    slack_nodes: Sequence[SlackNode],
    running_pods: PodsByRow,
    waiting: Iterable[Amounts] = (),
) -> SlackInput:
    """The input of one rule. `rows`: existing and upcoming nodes. `slack_nodes`: new nodes of the groups. `waiting`: the
    requests of pods without a node; they count only for a rule about all nodes.

    A row counts for the rule if its node has the rule's labels, is ready, is not being removed, and has no taint that dedicates
    it to other pods. A taint that all of the rule's nodes have does not count as such.
    """
    ours = [slack_node for slack_node in slack_nodes if _is_of(rule, slack_node.node)]
    facts = snapshot.facts
    there = ((row, facts.nodes[row]) for row in rows if facts.live[row])
    nodes = [(row, node) for row, node in there if works(node) and _is_of(rule, node)]
    lasting = [_lasting(node) for _, node in nodes] or [_lasting(slack_node.node) for slack_node in ours]
    common = frozenset.intersection(*lasting) if lasting else frozenset[Taint]()
    inside = [(row, node) for row, node in nodes if _lasting(node) <= common]
    rooms = dict.fromkeys(slack_node.room for slack_node in ours if _lasting(slack_node.node) <= common)
    examples = {node.allocatable: row for row, node in reversed(inside)}
    for has, row in examples.items():
        daemons = sum_of(pod.kind.requests for pod, _ in running_pods.on(row) if is_daemon(pod))
        rooms[has.minus(daemons).not_below_zero()] = None
    pods = dict.fromkeys(recurring_requests(running_pods, [row for row, _ in inside])) if rule.sizing == "v2" else {}
    pods.update(dict.fromkeys(() if rule.node_labels else waiting))
    return SlackInput(
        n_nodes=len(inside),
        capacity=sum_of(node.allocatable for _, node in inside),
        rooms=tuple(rooms),
        pods=tuple(pods),
        tolerations=tuple(
            Toleration(taint.key, "Equal", taint.value, taint.effect)
            for taint in sorted(common, key=attrgetter("key", "value", "effect"))
        ),
    )


def works(node: Node) -> bool:
    """Is the node ready, and not being removed?"""
    return node.ready and all(taint.key != TO_BE_DELETED_TAINT for taint in node.taints)


def _is_of(rule: SlackRule, node: Node) -> bool:
    return all(node.labels.get(key) == value for key, value in rule.node_labels)


def _lasting(node: Node) -> frozenset[Taint]:
    """The node's taints that dedicate it to certain pods: NoSchedule and NoExecute taints, without those about a temporary
    state or the node's removal."""
    own = (TO_BE_DELETED_TAINT, DELETION_CANDIDATE_TAINT)
    return frozenset(
        taint for taint in node.taints if repels(taint) and taint.key not in own and not taint.key.startswith(_PASSING)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PodHeadroom:
    """A request for `count` placeholders like a pod of `kind` with these labels. `source`: the name of what asks for them, for
    people; a source may have several entries. `capped`: an annotation asks, which any author of a pod can write, so
    `headroom_limits` limits it. `pod`: the pod with the annotation, or the workload's newest one; None if there is none."""

    source: str
    kind: Kind
    labels: Labels
    count: int
    capped: bool = False
    pod: Pod | None = None


def like(kind: Kind) -> Kind:
    """The constraints of a placeholder that is like a pod with the constraints `kind`.

    They are the pod's amounts, selectors, affinity, tolerations and spread, without what only one pod can have (volumes,
    claims, a node's name).
    """
    asks = kind.pod_constraints
    if asks is None:
        return kind
    own = replace(asks, claims=(), disks=(), inline_disks=(), resource_claims=(), container_devices=(), node_name=None)
    return replace(kind, pod_constraints=own)


def example_pods(pod_headroom: Iterable[PodHeadroom]) -> list[Pod]:
    """One placeholder for each entry, so that a snapshot can be built with the labels that their constraints read."""
    return [a_placeholder(0, like(each.kind), each.labels) for each in pod_headroom]
