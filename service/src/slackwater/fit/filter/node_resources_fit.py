"""kube-scheduler's NodeResourcesFit: the pod's requests must fit into what is allocatable and not yet requested.

It covers CPU, memory, ephemeral storage, huge pages, extended resources, and the count of pods. A resource that the pod does
not request, or that its scheduler's profile ignores, is not judged. Nodes that are too small even when empty get another
reason, because evicting pods does not help there. An extended resource that a DeviceClass backs is left to DynamicResources on
nodes that do not offer it themselves.
"""

import numpy as np

from slackwater.model.columns import Codes
from slackwater.model.ids import Row
from slackwater.model.reasons import Reason
from slackwater.model.scheduler_profile import DEFAULT_PROFILE, profile_of
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import NumberedGroup
from slackwater.snapshot.node_facts import PODS
from slackwater.snapshot.row_journal import Selection, n_selected


def judge_node_resources_fit(snapshot: ClusterSnapshot, kind: NumberedGroup, rows: Selection) -> Codes:
    allocatable, used = snapshot.facts.allocatable, snapshot.used_against(kind.kind)
    if lacking_everywhere(snapshot, kind):
        return np.full(n_selected(rows), Reason.RESOURCES_ABOVE_NODE, np.uint8)
    full = used[PODS, : snapshot.n_rows][rows] + 1 > allocatable[PODS, : snapshot.n_rows][rows]
    backed = _backed_lines(snapshot, kind) if kind.asks.container_devices else ()
    short: Codes = full.astype(np.uint8) * np.uint8(Reason.RESOURCES_SHORT)
    for line, amount in asked_lines(snapshot, kind):
        total = allocatable[line, : snapshot.n_rows][rows]
        lacking = total - used[line, : snapshot.n_rows][rows] < amount
        if lacking.any() and line in backed:
            lacking &= total > 0
        if lacking.any():
            short[lacking & (short == 0)] = Reason.RESOURCES_SHORT
            short[lacking & (total < amount)] = Reason.RESOURCES_ABOVE_NODE
    return short


def unoffered(snapshot: ClusterSnapshot, kind: NumberedGroup) -> list[tuple[str, int]]:
    """What the pod requests of resources that no node offers, and that are judged for it."""
    asked = snapshot.kinds.unoffered.get(kind.id, ())
    left_out = ignored(snapshot, kind) if asked else ()
    return [pair for pair in asked if pair[0] not in left_out]


def lacking_everywhere(snapshot: ClusterSnapshot, kind: NumberedGroup) -> list[str]:
    """The resources that the pod requests and that no node offers, unless a DeviceClass backs them."""
    asked = unoffered(snapshot, kind)
    backed = {each.resource for each in kind.asks.container_devices} if asked else ()
    return [name for name, _ in asked if name not in backed or snapshot.devices.class_of(name) is None]


def _backed_lines(snapshot: ClusterSnapshot, kind: NumberedGroup) -> frozenset[int]:
    """The resources that a DeviceClass backs, as indexes in resource columns."""
    line, class_of = snapshot.facts.resource, snapshot.devices.class_of
    backed = {each.resource for each in kind.asks.container_devices if class_of(each.resource) is not None}
    return frozenset(line[resource] for resource in backed if resource in line)


def asked_lines(snapshot: ClusterSnapshot, kind: NumberedGroup) -> list[tuple[int, int]]:
    """The resources that are judged for the pod, as (index in resource columns, amount) pairs, without the count of pods."""
    asked, ignored = snapshot.kinds.requests_of[kind.id], ignored_lines(snapshot, kind)
    return [(line, amount) for line, amount in asked if line != PODS and line not in ignored]


def ignored(snapshot: ClusterSnapshot, kind: NumberedGroup) -> frozenset[str]:
    """The resources of the pod that its scheduler's profile does not judge."""
    profile = profile_of(snapshot.facts.profiles, kind.kind)
    return frozenset() if profile is DEFAULT_PROFILE else frozenset(filter(profile.ignores, dict(kind.asks.scalars)))


def ignored_lines(snapshot: ClusterSnapshot, kind: NumberedGroup) -> frozenset[int]:
    """The same as indexes in resource columns, of those that have one."""
    line = snapshot.facts.resource
    return frozenset(line[name] for name in ignored(snapshot, kind) if name in line)


def short_resources(snapshot: ClusterSnapshot, kind: NumberedGroup, row: Row) -> list[str]:
    """kube-scheduler's messages for the resources that are short on a row, in kube-scheduler's order."""
    allocatable, used = snapshot.facts.allocatable[:, row], snapshot.used_against(kind.kind)[:, row]
    words = ["Too many pods"] if used[PODS] + 1 > allocatable[PODS] else []
    names, backed = list(snapshot.facts.resource), _backed_lines(snapshot, kind)
    short = [
        names[line]
        for line, amount in asked_lines(snapshot, kind)
        if allocatable[line] - used[line] < amount and not (line in backed and allocatable[line] <= 0)
    ]
    return words + [f"Insufficient {name}" for name in (*short, *lacking_everywhere(snapshot, kind))]
