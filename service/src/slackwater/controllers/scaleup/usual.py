"""What the nodes of a group have in common: a taint or label that most of them lack is no property of the group.

In flow a group's good nodes; out flow the taints and the labels of a new one. A node under repair, or one that somebody
labelled by hand, changes nothing for its group. Deliberately absent: taints about the present state of one node
(`model.nodetaints`).
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from slackwater.model.nodetaints import taint_id
from slackwater.model.objects import Node, Taint

#: So many nodes are needed to find labels that differ on every node.
_FEW: Final = 2


def usual_taints(nodes: Sequence[Node], said: Node | None) -> tuple[Taint, ...]:
    """The taints of most nodes. The node `said`, by configuration or provider, counts as one more node and decides ties."""
    carriers = Counter(id_ for node in nodes for id_ in {taint_id(taint) for taint in node.taints})
    expected = set() if said is None else {taint_id(taint) for taint in said.taints}
    found: dict[tuple[str, str], Taint] = {}
    for node in nodes if said is None else (*nodes, said):
        for taint in node.taints:
            found.setdefault(taint_id(taint), taint)
    votes, all_votes = carriers + Counter(expected), len(nodes) + (said is not None)
    return tuple(
        taint for id_, taint in found.items() if 2 * votes[id_] > all_votes or (2 * votes[id_] == all_votes and id_ in expected)
    )


def usual_labels(example: Node, nodes: Collection[Node]) -> dict[str, str]:
    """The labels of `example`, without the keys that most of the nodes lack."""
    count = Counter(key for node in nodes for key in node.labels)
    return {key: value for key, value in example.labels.items() if 2 * count[key] > len(nodes)}


def differing_labels(nodes: Collection[Node]) -> frozenset[str]:
    """The keys of labels that are no property of the group: no value of them is that of most of the nodes."""
    if len(nodes) < _FEW:
        return frozenset()
    values = Counter(pair for node in nodes for pair in node.labels.items())
    shared = {key for (key, _), count in values.items() if 2 * count > len(nodes)}
    return frozenset(key for key, _ in values if key not in shared)


def lone_labels(labels: Sequence[Mapping[str, str]]) -> frozenset[str]:
    """The keys whose values are different on each of these nodes, each of which is the only one of its group."""
    values: dict[str, list[str]] = {}
    for each in labels:
        for key, value in each.items():
            values.setdefault(key, []).append(value)
    return frozenset(key for key, found in values.items() if len(found) >= _FEW and len(set(found)) == len(found))
