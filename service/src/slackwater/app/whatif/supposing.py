"""Applies a what-if question's objects to a cluster: removes some, adds others or replaces them.

In: a decoded cluster, manifests to add, names to remove. Out: the changed cluster. Removing a node removes its pods.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from slackwater.app.offline.cluster import READ, Cluster, read_cluster
from slackwater.app.offline.objects import ClusterError
from slackwater.model.ids import NodeName, PodKey
from slackwater.model.storage import Storage
from slackwater.ports.protocols import WhatIfRefused

T = TypeVar("T")
K = TypeVar("K")

_READ: Final = (*READ, "DaemonSet", "PodDisruptionBudget", "ConfigMap")
_REMOVABLE: Final = ("Node", "Pod", "DaemonSet", "PodDisruptionBudget")
_NAMES: Final = frozenset({"kind", "namespace", "name"})


def suppose(cluster: Cluster, *, objects: Sequence[Mapping[str, Any]], remove: Sequence[Mapping[str, str]]) -> Cluster:
    """The cluster without the objects of `remove`, then with `objects` added; an object replaces one of the same name. Raises
    `WhatIfRefused`, which names the place of the error."""
    for at, names in enumerate(remove):
        cluster = _without(cluster, names, f"remove[{at}]")
    return _with(cluster, _read(objects)) if objects else cluster


def _read(objects: Sequence[Mapping[str, Any]]) -> Cluster:
    for at, body in enumerate(objects):
        if body.get("kind") not in _READ:
            raise WhatIfRefused(f"objects[{at}].kind: got {body.get('kind')!r:.60}, want one of {', '.join(_READ)}")
    try:
        return read_cluster({"kind": "List", "items": list(objects)})
    except ClusterError as error:
        place = error.path.replace("items[", "objects[", 1)
        raise WhatIfRefused(str(ClusterError(place, error.name, error.problem))) from error


# --- less -----------------------------------------------------------------------------------------------------------------


def _without(cluster: Cluster, names: Mapping[str, str], at: str) -> Cluster:
    kind, namespace, name = names.get("kind"), names.get("namespace") or "default", names.get("name", "")
    if kind not in _REMOVABLE:
        raise WhatIfRefused(f"{at}.kind: got {kind!r:.60}, want one of {', '.join(_REMOVABLE)}")
    if odd := sorted(set(names) - _NAMES):
        raise WhatIfRefused(f"{at}.{odd[0]}: got an unknown key, want kind, namespace and name")
    match kind:
        case "Node":
            nodes = tuple(node for node in cluster.nodes if node.name != name)
            left = replace(cluster, nodes=nodes, pods=tuple(pod for pod in cluster.pods if pod.node != name))
        case "Pod":
            left = replace(cluster, pods=tuple(pod for pod in cluster.pods if pod.key != (namespace, name)))
        case "DaemonSet":
            left = replace(cluster, daemons=tuple(pod for pod in cluster.daemons if pod.key != (namespace, name)))
        case _:
            budgets = cluster.budgets or ()
            left = replace(cluster, budgets=tuple(b for b in budgets if (b.namespace, b.name) != (namespace, name)))
    if _size(left) == _size(cluster):
        shown = name if kind == "Node" else f"{namespace}/{name}"
        raise WhatIfRefused(f"{at}: got {kind} {shown}, want one that is there")
    return left


def _size(cluster: Cluster) -> tuple[int, ...]:
    return len(cluster.nodes), len(cluster.pods), len(cluster.daemons), len(cluster.budgets or ())


# --- more -----------------------------------------------------------------------------------------------------------------


def _with(cluster: Cluster, more: Cluster) -> Cluster:
    budgets = cluster.budgets
    if more.budgets:
        budgets = _replaced(budgets or (), more.budgets, lambda budget: (budget.namespace, budget.name))
    return replace(
        cluster,
        nodes=_replaced(cluster.nodes, more.nodes, _node_name),
        pods=_replaced(cluster.pods, more.pods, _pod_key),
        daemons=_replaced(cluster.daemons, more.daemons, _pod_key),
        namespaces={**cluster.namespaces, **more.namespaces},
        storage=_stored(cluster.storage, more.storage),
        budgets=budgets,
        priorities=more.priorities or cluster.priorities,
        priorities_problem=more.priorities_problem or cluster.priorities_problem,
        unknown=cluster.unknown & more.unknown,
    )


def _node_name(node: Any) -> NodeName:
    return NodeName(node.name)


def _pod_key(pod: Any) -> PodKey:
    return PodKey(*pod.key)


def _replaced(before: Iterable[T], more: Iterable[T], name_of: Callable[[T], K]) -> tuple[T, ...]:
    """The items with `more` merged in: an item replaces the one of the same name in its place, new ones come last."""
    found = {name_of(item): item for item in before}
    found.update((name_of(item), item) for item in more)
    return tuple(found.values())


def _stored(before: Storage, more: Storage) -> Storage:
    return Storage(
        claims=_both(before.claims, more.claims),
        volumes=_both(before.volumes, more.volumes),
        classes=_both(before.classes, more.classes),
        csi_nodes=_both(before.csi_nodes, more.csi_nodes),
        drivers=_both(before.drivers, more.drivers),
        capacities=_either(before.capacities, more.capacities, lambda each: (each.namespace, each.name)),
        attachments=_attached(before, more),
    )


def _both(before: Mapping[K, T] | None, more: Mapping[K, T] | None) -> Mapping[K, T] | None:
    """The two merged, the second taking precedence; None (unknown) if neither is known."""
    return before if more is None else {**(before or {}), **more}


def _either(before: tuple[T, ...] | None, more: tuple[T, ...] | None, name_of: Callable[[T], K]) -> tuple[T, ...] | None:
    return before if more is None else _replaced(before or (), more, name_of)


def _attached(before: Storage, more: Storage) -> Mapping[str, tuple[Any, ...]] | None:
    if more.attachments is None:
        return before.attachments
    new = {each.name for found in more.attachments.values() for each in found}
    kept = {node: tuple(each for each in found if each.name not in new) for node, found in (before.attachments or {}).items()}
    return {node: (*kept.get(node, ()), *more.attachments.get(node, ())) for node in {**kept, **more.attachments}}
