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
from slackwater.snapshot.row_journal import Selection


def judge_node_resources_fit(snapshot: ClusterSnapshot, kind: NumberedGroup, rows: Selection) -> Codes:
    allocatable, used = snapshot.facts.allocatable, snapshot.used
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


def _backed_lines(snapshot: ClusterSnapshot, kind: NumberedGroup) -> frozenset[int]:
    """The resources that a DeviceClass backs, as indexes in resource columns."""
    line, class_of = snapshot.facts.resource, snapshot.devices.class_of
    backed = {each.resource for each in kind.asks.container_devices if class_of(each.resource) is not None}
    return frozenset(line[resource] for resource in backed if resource in line)


def asked_lines(snapshot: ClusterSnapshot, kind: NumberedGroup) -> list[tuple[int, int]]:
    """The resources that are judged for the pod, as (index in resource columns, amount) pairs, without the count of pods."""
    asked, ignored = snapshot.kinds.requests[:, kind.id].tolist(), ignored_lines(snapshot, kind)
    return [(line, amount) for line, amount in enumerate(asked) if amount and line != PODS and line not in ignored]


def ignored_lines(snapshot: ClusterSnapshot, kind: NumberedGroup) -> frozenset[int]:
    """The resources of the pod that its scheduler's profile does not judge, as indexes in resource columns."""
    profile = profile_of(snapshot.facts.profiles, kind.kind)
    if profile is DEFAULT_PROFILE:
        return frozenset()
    return frozenset(snapshot.facts.resource[name] for name, _ in kind.asks.scalars if profile.ignores(name))


def short_resources(snapshot: ClusterSnapshot, kind: NumberedGroup, row: Row) -> list[str]:
    """kube-scheduler's messages for the resources that are short on a row, in kube-scheduler's order."""
    allocatable, used = snapshot.facts.allocatable[:, row], snapshot.used[:, row]
    words = ["Too many pods"] if used[PODS] + 1 > allocatable[PODS] else []
    names, backed = list(snapshot.facts.resource), _backed_lines(snapshot, kind)
    return words + [
        f"Insufficient {names[line]}"
        for line, amount in asked_lines(snapshot, kind)
        if allocatable[line] - used[line] < amount and not (line in backed and allocatable[line] <= 0)
    ]
