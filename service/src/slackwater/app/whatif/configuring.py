"""Applies a what-if question's changes of the configuration: to the settings in force, and to the node groups."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from slackwater.app.offline.cluster import Cluster
from slackwater.app.offline.knowngroups import KnownGroup, configured_group
from slackwater.app.settings import Settings, SettingsError, as_file, loads
from slackwater.model.ids import NodeName
from slackwater_protocol.names import NODE_GROUP


def configured(in_force: Settings, changes: Mapping[str, Any]) -> Settings:
    """The settings in force with `changes` merged into them.

    Mappings are merged, null restores a key's default, lists of named entries are merged by name, other lists are replaced.

    :raises SettingsError: the result is no valid configuration.
    """
    try:
        return loads(json.dumps(_merged(as_file(in_force), changes))) if changes else in_force
    except SettingsError as error:
        raise SettingsError(error.problems, source="configuration") from error


def regrouped(cluster: Cluster, in_force: Settings, supposed: Settings) -> Cluster:
    """The cluster with the supposed node groups: a group whose entry differs from the one in force follows the entry instead of
    its provider."""
    if cluster.groups is None or in_force.autoscaler.node_groups == supposed.autoscaler.node_groups:
        return cluster
    old = {entry.name: entry for entry in in_force.autoscaler.node_groups}
    known = {str(found.group.name): found for found in cluster.groups}
    by_label: dict[str, list[NodeName]] = {}
    for node in cluster.nodes:
        by_label.setdefault(node.labels.get(NODE_GROUP, ""), []).append(node.name)
    for entry in supposed.autoscaler.node_groups:
        if old.get(entry.name) == entry:
            continue
        new = configured_group(entry, by_label)
        known[entry.name] = _reconfigured(known[entry.name], new) if entry.name in known else new
    return replace(cluster, groups=tuple(known[name] for name in sorted(known)))


def _reconfigured(known: KnownGroup, new: KnownGroup) -> KnownGroup:
    group = replace(known.group, min_size=new.group.min_size, max_size=new.group.max_size)
    if new.group.template is not None:
        group = replace(group, template=new.group.template)
    return replace(known, group=group, skip_reason=new.skip_reason)


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
