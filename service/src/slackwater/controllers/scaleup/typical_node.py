"""The typical node of a group: what its configuration says field by field, and for the rest what most of its newest nodes have.

- `newest_of`: the nodes to look at.
- `typical_node`: one node made of them. One odd node changes nothing, unless it is the only one.
- `shortfalls`: in what nodes came other than promised, for people.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from heapq import nlargest
from itertools import chain
from typing import Final

from msgspec import structs

from slackwater.model.node_taints import TaintRules, taint_id
from slackwater.model.objects import Node, Taint
from slackwater.model.resources import NOTHING, amounts_of

#: An odd number of nodes. Fewer than all, because machines change: the newest show what the next one will be.
_NEWEST: Final = 9
#: A taint that more than this part of the nodes lack is about those that have it: a detector of problems may have found one on
#: three of four nodes. Who takes a node's trouble for a property of its group stops the group.
_LACKING: Final = 1 / 8
#: Labels that every kubelet sets. Providers often assume their values, so nodes know better.
_KUBELETS: Final = frozenset({"kubernetes.io/os", "kubernetes.io/arch"})
#: The resource of which configurations rarely say anything: 110, the kubelet's default, is then assumed.
_PODS: Final = "pods"
_EXAMPLES: Final = 3


def newest_of(nodes: Iterable[Node]) -> list[Node]:
    """The nodes that were created last, the newest first."""
    return nlargest(_NEWEST, nodes, key=lambda node: (node.created_at or 0.0, node.name))


def typical_node(nodes: Sequence[Node], said: Node | None, rules: TaintRules) -> Node:
    """The node that stands for `nodes`, the newest first and at least one. `said`: what configuration or provider say; it wins
    where it says something. None if they say nothing.

    Amounts are compared with what is said: the kubelet keeps a part of a machine, so somewhat less than was said is true.
    """
    stated = NOTHING if said is None else said.allocatable
    cpu = _amount([node.allocatable.cpu for node in nodes], stated.cpu)
    memory = _amount([node.allocatable.memory for node in nodes], stated.memory)
    return structs.replace(
        nodes[0],
        allocatable=amounts_of((cpu, memory)),
        scalars=tuple(_scalars(nodes, said)),
        labels=_labels(nodes, {} if said is None else said.labels),
        taints=_taints(nodes, said, rules),
    )


def _labels(nodes: Sequence[Node], said: dict[str, str]) -> dict[str, str]:
    """The labels that most of the nodes have, each with its most frequent value; of equally frequent ones the newest."""
    pairs = Counter(chain.from_iterable(node.labels.items() for node in nodes))
    carriers = Counter(chain.from_iterable(node.labels for node in nodes))
    found: dict[str, str] = {}
    for (key, value), _ in pairs.most_common():
        if 2 * carriers[key] > len(nodes):
            found.setdefault(key, value)
    return found | {key: value for key, value in said.items() if key not in _KUBELETS or key not in found}


def differing_labels(nodes: Sequence[Node]) -> frozenset[str]:
    """The keys of labels that are no property of the group, because no value is that of most of the nodes."""
    values = Counter(chain.from_iterable(node.labels.items() for node in nodes))
    shared = {key for (key, _), count in values.items() if 2 * count > len(nodes)}
    return frozenset(key for key, _ in values if key not in shared)


def _taints(nodes: Sequence[Node], said: Node | None, rules: TaintRules) -> tuple[Taint, ...]:
    stated = () if said is None else tuple(taint for taint in said.taints if not rules.is_own(taint.key))
    if stated or (said is not None and len(nodes) == 1):
        return stated
    return tuple(common_taints(nodes))


def common_taints(nodes: Sequence[Node]) -> list[Taint]:
    """The taints that nearly all of the nodes have, in the order in which they are met; each once, whatever its value."""
    found: dict[tuple[str, str], Taint] = {}
    for node in nodes:
        for taint in node.taints:
            found.setdefault(taint_id(taint), taint)
    carriers = Counter(id_ for node in nodes for id_ in {taint_id(taint) for taint in node.taints})
    return [taint for id_, taint in found.items() if len(nodes) - carriers[id_] <= _LACKING * len(nodes)]


def _scalars(nodes: Sequence[Node], said: Node | None) -> Iterator[tuple[str, int]]:
    each = [dict(node.scalars) for node in nodes]
    stated = {} if said is None else dict(said.scalars)
    for name in sorted({name for scalars in (*each, stated) for name in scalars}):
        values = [scalars.get(name, 0) for scalars in each]
        amount = (_median(values) or stated.get(name, 0)) if name == _PODS else _amount(values, stated.get(name))
        if amount:
            yield name, amount


def _amount(values: Sequence[int], said: int | None) -> int:
    """The amount of one resource. `values`: what the nodes have, the newest first. A single node with less than nine tenths of
    what was said does not count: it may be another machine."""
    if not said:
        return _median(values)
    plausible = [value for value in values if said <= 2 * value and value <= said]
    sure = [value for value in plausible if 10 * value >= 9 * said]
    counted = plausible if len(values) > 1 and 2 * len(plausible) > len(values) else sure
    return _median(counted) if counted else said


def _median(values: Sequence[int]) -> int:
    """The median; of an even number of values without the oldest, which is the last."""
    odd = sorted(values[: len(values) - 1 + len(values) % 2])
    return odd[len(odd) // 2]


def shortfalls(promised: Node, came: Node) -> str:
    """What the nodes that came lack of the promise, as a text; "" if they lack nothing."""
    found = [*_less(promised, came)]
    has = set(map(taint_id, promised.taints))
    found += [f"taint {taint.key}" for taint in came.taints if taint_id(taint) not in has]
    labels = ((key, came.labels.get(key), value) for key, value in sorted(promised.labels.items()) if key in came.labels)
    found += [f"label {key}={has} instead of {value}" for key, has, value in labels if has != value]
    found += [f"no label {key}" for key in sorted(promised.labels.keys() - came.labels.keys())]
    more = f" and {len(found) - _EXAMPLES} more" if len(found) > _EXAMPLES else ""
    return f"new nodes came with {', '.join(found[:_EXAMPLES])}{more}" if found else ""


def _less(promised: Node, came: Node) -> Iterator[str]:
    has = {"cpu": came.allocatable.cpu, "memory": came.allocatable.memory, **dict(came.scalars)}
    wanted = {"cpu": promised.allocatable.cpu, "memory": promised.allocatable.memory, **dict(promised.scalars)}
    for name, amount in wanted.items():
        if (there := has.get(name, 0)) < amount:
            unit = "m" if name == "cpu" else ""
            yield f"{name} {there}{unit} instead of {amount}{unit}"
