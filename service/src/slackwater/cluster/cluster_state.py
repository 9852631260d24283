"""The tables of the world's picture, opened together and lent to those who answer questions and follow what happens.

Each of those takes from the books what it reads or writes; who decides something is no part of them. All of them change in
place, and nothing outside `world` may change them.
"""

from collections.abc import Callable
from dataclasses import dataclass

from slackwater.cluster.accepted_preemptions import Agreements
from slackwater.cluster.admitting import AdmittingRows
from slackwater.cluster.annotations import PermitAnnotations
from slackwater.cluster.bind_backoff import Denials
from slackwater.cluster.budgets import Budgets
from slackwater.cluster.event_counts import Tally
from slackwater.cluster.holds import Holds
from slackwater.cluster.nodes import NodeTable
from slackwater.cluster.nominated_room import NominatedRoom
from slackwater.cluster.pods import PodTable
from slackwater.cluster.quarantine import Quarantine
from slackwater.cluster.reservations import Claim, Claims
from slackwater.cluster.sample_misses import Starvation
from slackwater.cluster.unschedulable_pods import Refusals
from slackwater.cluster.vertical_pods import Standings
from slackwater.model.ids import PodUid
from slackwater.model.ledger.ledger import Ledger, NodePolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """What is known, table by table; each module says what is in its own."""

    ledger: Ledger
    nodes: NodeTable
    quarantine: Quarantine
    admitting: AdmittingRows
    pods: PodTable
    annotations: PermitAnnotations
    standings: Standings
    claims: Claims
    holds: Holds
    room: NominatedRoom
    denials: Denials
    budgets: Budgets
    starvation: Starvation
    refusals: Refusals
    agreements: Agreements
    tally: Tally


def opened(nodes: NodePolicy, claim_ended: Callable[[PodUid, Claim], None]) -> Books:
    """Empty books. `claim_ended` is told of each claim that ends."""
    ledger = Ledger()
    table = NodeTable(ledger, nodes)
    annotations, quarantine = PermitAnnotations(), Quarantine(table)
    holds = Holds(ledger, table)
    return Books(
        ledger=ledger,
        nodes=table,
        quarantine=quarantine,
        admitting=AdmittingRows(table, quarantine),
        pods=PodTable(),
        annotations=annotations,
        standings=Standings(annotations),
        claims=Claims(ledger, table, claim_ended),
        holds=holds,
        room=NominatedRoom(ledger, table, holds),
        denials=Denials(table),
        budgets=Budgets(),
        starvation=Starvation(),
        refusals=Refusals(),
        agreements=Agreements(),
        tally=Tally(),
    )
