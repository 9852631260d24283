"""The cluster state of the state machine: all its tables, created together.

Controllers and flows take from it the tables that they read or write; what makes decisions is no part of it. All tables change
in place, and nothing outside the state machine may change them.
"""

from collections.abc import Callable
from dataclasses import dataclass

from slackwater.cluster.accepted_preemptions import AcceptedPreemptions
from slackwater.cluster.admitting import AdmittingRows
from slackwater.cluster.annotations import PermitAnnotations
from slackwater.cluster.bind_backoff import BindBackoff
from slackwater.cluster.budgets import Budgets
from slackwater.cluster.event_counts import EventCounts
from slackwater.cluster.holds import Holds
from slackwater.cluster.nodes import NodeTable
from slackwater.cluster.nominated_room import NominatedRoom
from slackwater.cluster.pods import PodTable
from slackwater.cluster.quarantine import Quarantine
from slackwater.cluster.reservations import Reservation, Reservations
from slackwater.cluster.sample_misses import SampleMisses
from slackwater.cluster.unschedulable_pods import UnschedulablePods
from slackwater.cluster.vertical_pods import VerticalPods
from slackwater.model.ids import PodUid
from slackwater.model.ledger.ledger import Ledger, NodePolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """All that is known of the cluster, table by table; each table's module describes its content."""

    ledger: Ledger
    nodes: NodeTable
    quarantine: Quarantine
    admitting: AdmittingRows
    pods: PodTable
    annotations: PermitAnnotations
    vertical_pods: VerticalPods
    reservations: Reservations
    holds: Holds
    room: NominatedRoom
    bind_backoff: BindBackoff
    budgets: Budgets
    sample_misses: SampleMisses
    unschedulable_pods: UnschedulablePods
    accepted_preemptions: AcceptedPreemptions
    event_counts: EventCounts


def opened(nodes: NodePolicy, reservation_ended: Callable[[PodUid, Reservation], None]) -> ClusterState:
    """An empty cluster state. `reservation_ended` is called with each reservation that ends."""
    ledger = Ledger()
    table = NodeTable(ledger, nodes)
    annotations, quarantine = PermitAnnotations(), Quarantine(table)
    holds = Holds(ledger, table)
    return ClusterState(
        ledger=ledger,
        nodes=table,
        quarantine=quarantine,
        admitting=AdmittingRows(table, quarantine),
        pods=PodTable(),
        annotations=annotations,
        vertical_pods=VerticalPods(annotations),
        reservations=Reservations(ledger, table, reservation_ended),
        holds=holds,
        room=NominatedRoom(ledger, table, holds),
        bind_backoff=BindBackoff(table),
        budgets=Budgets(),
        sample_misses=SampleMisses(),
        unschedulable_pods=UnschedulablePods(),
        accepted_preemptions=AcceptedPreemptions(),
        event_counts=EventCounts(),
    )
