"""Counts of events, as plain numbers. The metrics endpoint reads them, so metrics cannot differ from the state.

Scheduling attempts are counted without a pod label. An attempt is a filter call, or a failure that in-tree filters caused
before any filter call. Such a failure shows as a new text in the pod's condition PodScheduled. kube-scheduler does not write
the condition if the text stays the same, so repeated in-tree failures of a pod for the same reason count once.
"""

from dataclasses import dataclass, field

import numpy as np

from slackwater.model.ids import NodeName
from slackwater.model.reasons import Reason


def _zeros() -> "np.typing.NDArray[np.int64]":
    return np.zeros(len(Reason), np.int64)


@dataclass(slots=True)
class EventCounts:
    """Counts of events. They only grow; counts by node are removed with the node."""

    attempts: int = 0
    failures: int = 0
    failures_in_tree: int = 0  #: part of failures
    adopted: int = 0  #: pods that the watch showed bound and that we did not bind
    #: bind calls although kube-scheduler should bind by itself: its configuration file does not match ours
    unexpected_binds: int = 0
    confirmed: int = 0  #: our bindings that the watch has shown
    holds: int = 0
    holds_expired: int = 0
    sample_misses: int = 0
    nominations: int = 0
    nominations_met: int = 0  #: a nominated pod was bound to the nominated node
    over_total: int = 0  #: admissions that took a node over Total (foreign binds)
    #: `over_total` by node, as long as the node exists.
    over_total_on: dict[NodeName, int] = field(default_factory=dict)
    odd_requests: int = 0  #: agents' requests that were not multiples of the compute unit
    permit_writes: int = 0  #: permit annotations sent to be written
    permit_write_failures: int = 0  #: of `permit_writes`: refused, lost, or in conflict with another text
    migrations_decided: int = 0
    migrations_created: int = 0
    migrations_without_target_node: int = 0  #: decisions that found no target node
    migration_create_fails: int = 0
    #: Deleted migrations, by the phase that they ended in; "" where it is not known any more.
    migrations_deleted: dict[str, int] = field(default_factory=lambda: {"Succeeded": 0, "Failed": 0, "": 0})
    #: Failed deletions of migrations, by the same phases.
    migration_delete_fails: dict[str, int] = field(default_factory=lambda: {"Succeeded": 0, "Failed": 0, "": 0})
    #: Verdicts of filter on nodes, indexed by `Reason`.
    verdicts: "np.typing.NDArray[np.int64]" = field(default_factory=_zeros)
    #: Refused binds, indexed by `Reason`.
    bind_refusals: "np.typing.NDArray[np.int64]" = field(default_factory=_zeros)
