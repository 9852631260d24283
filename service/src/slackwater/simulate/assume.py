"""What kube-scheduler takes for granted once it has chosen a node: which volumes the pod's claims will be bound to.

The next pod then finds these volumes taken, and claims that several pods share wait for the same node.
"""

from dataclasses import replace

from slackwater.model.ids import Row
from slackwater.model.storage import ClaimRef
from slackwater.simulate.kindtable import KindId
from slackwater.simulate.picture import Picture
from slackwater.simulate.predicates.volume_binding import bindings_on


def assume_volumes(picture: Picture, kind: KindId, row: Row) -> None:
    """Reserves volumes, and selects the node for claims whose volume is made there. The row must be feasible."""
    numbered = picture.of(kind)
    storage = picture.storage
    if not numbered.asks.claims or storage.claims is None:
        return
    bindings = bindings_on(picture, numbered, row)
    if not bindings.chosen and not bindings.made:
        return
    claims, volumes = dict(storage.claims), dict(storage.volumes or {})
    for claim, volume in bindings.chosen:
        ref = ClaimRef(namespace=claim.namespace, name=claim.name, uid=claim.uid)
        volumes[volume.name] = replace(volume, claim=ref)
    for claim in bindings.made:
        node = picture.facts.nodes[row].name
        claims[claim.namespace, claim.name] = replace(claim, selected_node=node)
    volumes_or_none = None if storage.volumes is None else volumes
    picture.assume_storage(replace(storage, claims=claims, volumes=volumes_or_none))
