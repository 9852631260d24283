"""Applies a what-if question's changes: objects of the cluster, and the configuration with the node groups.

In: a decoded cluster, the settings in force, manifests to add, names to remove, settings to change. Out: the changed cluster,
settings and groups. Removing a node removes its pods.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, Final, TypeVar

from slackwater.app.offline.cluster import READ, Cluster, read_cluster
from slackwater.app.offline.known_groups import configured_group
from slackwater.app.offline.objects import BUFFER, POD_TEMPLATE, TAINT_RULE, ClusterError
from slackwater.app.offline.version import VersionRequest
from slackwater.app.settings import Settings, SettingsError, as_file, file_paths, loads
from slackwater.configuration.problems import Problem, Steps, json_path, show
from slackwater.model.devices import DeviceObjects
from slackwater.model.kubernetes_rules import KubernetesVersion
from slackwater.model.objects import Node
from slackwater.model.storage import Storage
from slackwater.ports.protocols import WhatIfRefused
from slackwater_protocol.names import NODE_GROUP

T = TypeVar("T")
K = TypeVar("K")

_READ: Final = (*READ, TAINT_RULE, "DaemonSet", "PodDisruptionBudget", "ConfigMap", BUFFER, POD_TEMPLATE)
_REMOVABLE: Final = ("Node", "Pod", "DaemonSet", "PodDisruptionBudget", BUFFER)
_NAMES: Final = frozenset({"kind", "namespace", "name"})


def suppose(cluster: Cluster, *, objects: Sequence[Mapping[str, Any]], remove: Sequence[Mapping[str, str]]) -> Cluster:
    """The cluster without the objects of `remove`, then with `objects` added; an object replaces one of the same name. Raises
    `WhatIfRefused`, which names the place of the error."""
    for at, names in enumerate(remove):
        cluster = _without(cluster, names, f"remove[{at}]")
    return _with(cluster, _read(objects, cluster.kubernetes.version)) if objects else cluster


def _read(objects: Sequence[Mapping[str, Any]], kubernetes: KubernetesVersion) -> Cluster:
    for at, body in enumerate(objects):
        if body.get("kind") not in _READ:
            raise WhatIfRefused(f"objects[{at}].kind: got {body.get('kind')!r:.60}, want one of {', '.join(_READ)}")
    try:
        return read_cluster({"kind": "List", "items": list(objects)}, request=VersionRequest(version=kubernetes))
    except ClusterError as error:
        place = error.path.replace("items[", "objects[", 1)
        raise WhatIfRefused(str(ClusterError(place, error.name, error.problem))) from error


# --- removing objects -----------------------------------------------------------------------------------------------------


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
        case "CapacityBuffer":
            buffers = tuple(buffer for buffer in cluster.headroom.buffers if buffer.key != (namespace, name))
            left = replace(cluster, headroom=replace(cluster.headroom, buffers=buffers))
        case _:
            left = cluster
            if cluster.budgets:
                kept = tuple(b for b in cluster.budgets if (b.namespace, b.name) != (namespace, name))
                left = replace(cluster, budgets=kept)
    if left == cluster:
        shown = name if kind == "Node" else f"{namespace}/{name}"
        raise WhatIfRefused(f"{at}: got {kind} {shown}, want one that is there")
    return left


# --- adding objects -------------------------------------------------------------------------------------------------------


def _with(cluster: Cluster, more: Cluster) -> Cluster:
    budgets = cluster.budgets
    if more.budgets:
        budgets = _replaced(budgets or (), more.budgets, attrgetter("namespace", "name"))
    return replace(
        cluster,
        nodes=_replaced(cluster.nodes, more.nodes, attrgetter("name")),
        pods=_replaced(cluster.pods, more.pods, attrgetter("key")),
        daemons=_replaced(cluster.daemons, more.daemons, attrgetter("key")),
        namespaces={**cluster.namespaces, **more.namespaces},
        storage=_stored(cluster.storage, more.storage),
        devices=_published(cluster.devices, more.devices),
        budgets=budgets,
        priorities=more.priorities or cluster.priorities,
        priorities_problem=more.priorities_problem or cluster.priorities_problem,
        unknown=cluster.unknown & more.unknown,
        ignored={**cluster.ignored, **more.ignored},
        headroom=replace(
            cluster.headroom,
            buffers=_replaced(cluster.headroom.buffers, more.headroom.buffers, attrgetter("key")),
            templates={**cluster.headroom.templates, **more.headroom.templates},
        ),
    )


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
        capacities=before.capacities
        if more.capacities is None
        else _replaced(before.capacities or (), more.capacities, attrgetter("namespace", "name")),
        attachments=_attached(before, more),
    )


def _published(before: DeviceObjects, more: DeviceObjects) -> DeviceObjects:
    return DeviceObjects(
        slices={**before.slices, **more.slices},
        taint_rules={**before.taint_rules, **more.taint_rules},
        classes={**before.classes, **more.classes},
        claims={**before.claims, **more.claims},
        templates={**before.templates, **more.templates},
    )


def _both(before: Mapping[K, T] | None, more: Mapping[K, T] | None) -> Mapping[K, T] | None:
    """The two merged, the second taking precedence; None (unknown) if neither is known."""
    return before if more is None else {**(before or {}), **more}


def _attached(before: Storage, more: Storage) -> Mapping[str, tuple[Any, ...]] | None:
    if more.attachments is None:
        return before.attachments
    new = {each.name for found in more.attachments.values() for each in found}
    kept = {node: tuple(each for each in found if each.name not in new) for node, found in (before.attachments or {}).items()}
    return {node: (*kept.get(node, ()), *more.attachments.get(node, ())) for node in {**kept, **more.attachments}}


def configured(in_force: Settings, changes: Mapping[str, Any]) -> Settings:
    """The settings in force with `changes` merged into them.

    Mappings are merged, null restores a key's default, lists of named entries are merged by name, other lists are replaced.

    :raises SettingsError: the result is no valid configuration.
    """
    try:
        return loads(json.dumps(_merged(as_file(in_force), changes))) if changes else in_force
    except SettingsError as error:
        raise SettingsError(error.problems, source="configuration") from error


def refuse_files(in_force: Settings, supposed: Settings) -> None:
    """Refuses supposed settings that name a file: the service would read it, and errors quote what is in files. The files of
    the settings in force are the service's own.

    :raises SettingsError: it names all of them.
    """
    own = {(_keys(at), path) for at, path in file_paths(in_force)}
    wanted = "no file that the service would read: a supposed configuration may name none"
    problems = [
        Problem(path=json_path(at), seen=show(path), wanted=wanted)
        for at, path in file_paths(supposed)
        if (_keys(at), path) not in own
    ]
    if problems:
        raise SettingsError(problems, source="configuration")


def _keys(at: Steps) -> Steps:
    """The place without positions in lists, which change where an entry is added."""
    return tuple(step for step in at if not isinstance(step, int))


def regrouped(cluster: Cluster, in_force: Settings, supposed: Settings) -> Cluster:
    """The cluster with the supposed node groups and prices: a group whose entry differs from the one in force follows the entry
    instead of its provider, and another table of prices is read."""
    if in_force.autoscaler.prices != supposed.autoscaler.prices:
        cluster = replace(cluster, price_table=None)
    if cluster.groups is None or in_force.autoscaler.node_groups == supposed.autoscaler.node_groups:
        return cluster
    old = {entry.name: entry for entry in in_force.autoscaler.node_groups}
    known = {str(found.group.name): found for found in cluster.groups}
    by_label: dict[str, list[Node]] = {}
    for node in cluster.nodes:
        by_label.setdefault(node.labels.get(NODE_GROUP, ""), []).append(node)
    for entry in supposed.autoscaler.node_groups:
        if old.get(entry.name) == entry:
            continue
        new = configured_group(entry, by_label.get(entry.name, ()))
        if (former := known.get(entry.name)) is not None:
            group = replace(former.group, min_size=new.group.min_size, max_size=new.group.max_size)
            if new.group.template is not None:
                choice = group.choice.settled_by(new.group.template)
                group = replace(group, template=new.group.template, choice=choice)
            new = replace(former, group=group, skip_reason=new.skip_reason)
        known[entry.name] = new
    return replace(cluster, groups=tuple(known[name] for name in sorted(known)))


def _merged(before: Any, changes: Any) -> Any:
    if isinstance(before, Mapping) and isinstance(changes, Mapping):
        both = {**before, **{key: _merged(before.get(key), change) for key, change in changes.items()}}
        return {key: value for key, value in both.items() if key not in changes or changes[key] is not None}
    if _are_named(before) and _are_named(changes):
        found = {entry["name"]: entry for entry in before}
        for entry in changes:
            found[entry["name"]] = _merged(found.get(entry["name"]), entry)
        return list(found.values())
    return changes


def _are_named(entries: object) -> bool:
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        return False
    return all(isinstance(entry, Mapping) and isinstance(entry.get("name"), str) for entry in entries)
