"""The assumptions about volumes that kube-scheduler makes once it has chosen a node: what the pod's claims will be bound to.

With them the next pod finds these volumes taken, and claims that several pods share wait for the same node.
"""

from dataclasses import replace

from slackwater.fit.filter.volume_binding import bindings_on
from slackwater.model.ids import Row
from slackwater.model.storage import ClaimRef
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId


def assume_volumes(snapshot: ClusterSnapshot, kind: KindId, row: Row) -> None:
    """Reserves the volumes of the pod's claims, and selects the node for claims whose volume is provisioned. The row must be
    feasible."""
    numbered = snapshot.of(kind)
    if not numbered.asks.claims or snapshot.volumes.objects.claims is None:
        return
    bindings = bindings_on(snapshot, numbered, row)
    for claim, volume in bindings.chosen:
        snapshot.assume_volume(replace(volume, claim=ClaimRef(namespace=claim.namespace, name=claim.name, uid=claim.uid)))
    for claim in bindings.made:
        snapshot.assume_claim(replace(claim, selected_node=snapshot.facts.nodes[row].name))
