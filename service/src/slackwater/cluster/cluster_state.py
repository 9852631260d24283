"""The cluster state of the state machine: all its tables, created together.

- `ClusterState`: the tables. Controllers and flows get it whole.
- `AdmittingRows`: which nodes accept pods of an equivalence group.

Invariant: all tables change in place, and only the state machine changes them. This module decides nothing.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from slackwater.cluster.event_counts import EventCounts
from slackwater.cluster.holds import Holds
from slackwater.cluster.nodes import NodeTable
from slackwater.cluster.pdbs import Budgets
from slackwater.cluster.planned_nodes import PlannedNodes
from slackwater.cluster.pods import PodTable
from slackwater.cluster.quarantine import Quarantine
from slackwater.cluster.refusals import BindBackoff, UnschedulablePods
from slackwater.cluster.reservations import Reservation, Reservations
from slackwater.cluster.vertical_pods import PermitAnnotations, VerticalPods
from slackwater.fit.feasible_nodes import admitting
from slackwater.model.columns import Mask
from slackwater.model.ids import PodUid
from slackwater.model.kubernetes_rules import KubernetesVersion
from slackwater.model.ledger import Ledger, NodePolicy
from slackwater.model.pod_constraints import MOST_RULES, Kind
from slackwater.model.scheduler_profile import NO_PROFILES, Profiles

#: The most masks that are cached: 5 kB each at 5,000 nodes.
_MAX_MASKS: Final = 256


class AdmittingRows:
    """For each `Kind`, a mask of the rows that accept its pods as far as that depends on the nodes alone, whatever runs there.

    A mask is computed once for each `Kind`, and again when taints, labels or the like of some node change.
    """

    def __init__(self, nodes: NodeTable, quarantine: Quarantine) -> None:
        self._nodes = nodes
        self._quarantine = quarantine
        #: The mask, and the `rules_version` of the node table that it is based on.
        self._masks: dict[Kind, tuple[int, Mask]] = {}

    def of(self, kind: Kind) -> Mask:
        """Which rows accept pods of the group by taints, labels and the like, and are not quarantined; shape (rows,). Free room
        does not matter. None of them, for a group with more than `MOST_RULES` rules: it is not known which."""
        version, facts = self._nodes.rules_version, self._nodes.facts
        if kind.n_rules > MOST_RULES:
            return np.zeros(facts.n_rows, np.bool_)
        known = self._masks.get(kind)
        if known is not None and known[0] == version:
            return known[1]
        if len(self._masks) >= _MAX_MASKS:
            self._masks.clear()
        mask = admitting(kind, facts)
        if len(self._quarantine):
            mask = mask.copy()
            mask[self._quarantine.rows] = False
        self._masks[kind] = (version, mask)
        return mask


class ClusterState:
    """All that is known of the cluster, one table for each kind of fact; each table's module describes its content."""

    def __init__(
        self,
        nodes: NodePolicy,
        kubernetes: KubernetesVersion,
        reservation_ended: Callable[[PodUid, Reservation], None],
        profiles: Profiles = NO_PROFILES,
    ) -> None:
        """Creates an empty cluster state. `kubernetes` is the version by whose rules nodes are judged, with the `profiles` of
        kube-scheduler. `reservation_ended` is called with each reservation that ends."""
        self.ledger = Ledger()
        self.nodes = NodeTable(self.ledger, nodes, kubernetes, profiles)
        self.quarantine = Quarantine(self.nodes)
        self.admitting = AdmittingRows(self.nodes, self.quarantine)
        self.pods = PodTable()
        self.annotations = PermitAnnotations()
        self.vertical_pods = VerticalPods(self.annotations, self.nodes)
        self.reservations = Reservations(self.ledger, self.nodes, reservation_ended)
        self.holds = Holds(self.ledger, self.nodes, self.pods)
        self.planned_nodes = PlannedNodes(self.ledger, self.nodes, self.pods, self.holds)
        self.bind_backoff = BindBackoff(self.nodes)
        self.budgets = Budgets()
        self.unschedulable_pods = UnschedulablePods()
        self.event_counts = EventCounts()

    def counts_more_than_scheduler(self) -> bool:
        """Could kube-scheduler put more on some node than we count as its Total? It could if a pod grows in place anywhere,
        since one may be bound to any node, or if amounts are set aside for the system."""
        return self.pods.vertical > 0 or bool(self.nodes.stricter.any())
