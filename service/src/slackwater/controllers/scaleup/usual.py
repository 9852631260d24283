"""What the nodes of a group have in common: what most of them lack is no property of the group.

What flows through: a group's nodes that are as they should be -> the taints and the labels of a new one. A node under repair,
or one that somebody labelled by hand, changes nothing for its group. Deliberately absent: taints that say how one node is for
now (`model.nodetaints`).
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from slackwater.model.nodetaints import taint_id
from slackwater.model.objects import Node, Taint

#: So many nodes tell what is different on every one of them.
_FEW: Final = 2


def usual_taints(nodes: Sequence[Node], said: Node | None) -> tuple[Taint, ...]:
    """The taints of most nodes. What is configured, or said by the provider, counts as one node more; it decides a tie."""
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
    """The labels of one of the nodes, without the keys that most nodes lack."""
    count = Counter(key for node in nodes for key in node.labels)
    return {key: value for key, value in example.labels.items() if 2 * count[key] > len(nodes)}


def differing_labels(nodes: Collection[Node]) -> frozenset[str]:
    """Keys of labels that say nothing of the group: no value is that of most of the nodes."""
    if len(nodes) < _FEW:
        return frozenset()
    values = Counter(pair for node in nodes for pair in node.labels.items())
    shared = {key for (key, _), count in values.items() if 2 * count > len(nodes)}
    return frozenset(key for key, _ in values if key not in shared)


def lone_labels(labels: Sequence[Mapping[str, str]]) -> frozenset[str]:
    """Of nodes that are each the only one of their group: keys whose values are different on each of them."""
    values: dict[str, list[str]] = {}
    for each in labels:
        for key, value in each.items():
            values.setdefault(key, []).append(value)
    return frozenset(key for key, found in values.items() if len(found) >= _FEW and len(set(found)) == len(found))
