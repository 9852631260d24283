"""The assumptions that kube-scheduler makes once it has chosen a node: what the pod's claims will be bound to.

Because of them the next pod finds these volumes and devices taken. If several pods share a claim of a volume that is not bound
yet, the later pods must go to the node that was selected for the first. If several pods share a claim of devices, the claim is
allocated once, for the first of them.
"""

from collections.abc import Sequence
from dataclasses import replace

from slackwater.fit.devices.allocator import Allocator
from slackwater.fit.devices.search import Unallocatable
from slackwater.fit.plugins.dynamic_resources import claim_key, claims_of, needs_devices, specs_on
from slackwater.fit.plugins.volume_binding import bindings_on
from slackwater.model.devices import ClaimKey, ClaimSpec, ResourceClaim
from slackwater.model.ids import PodUid, Row
from slackwater.model.storage import ClaimRef
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId, NumberedGroup

#: Stands for a pod whose UID is not known.
_SOMEBODY = ""
_EXTENDED = "<extended-resources>"


def has_claims(snapshot: ClusterSnapshot, kind: NumberedGroup) -> bool:
    """Whether placing a pod of the group takes more than room, because its claims get volumes or devices."""
    return bool(kind.asks.claims) or needs_devices(snapshot, kind)


def assume_claims(snapshot: ClusterSnapshot, kind: KindId, row: Row) -> list[ResourceClaim]:
    """Reserves volumes and devices for the claims of a pod that goes to the row, which must be feasible.

    Returns the claims of devices that the pod uses, with their allocations.
    """
    numbered = snapshot.of(kind)
    if numbered.asks.claims and snapshot.volumes.objects.claims is not None:
        bindings = bindings_on(snapshot, numbered, row)
        for claim, volume in bindings.chosen:
            reference = ClaimRef(namespace=claim.namespace, name=claim.name, uid=claim.uid)
            snapshot.assume_volume(replace(volume, claim=reference))
        for claim in bindings.made:
            snapshot.assume_claim(replace(claim, selected_node=snapshot.facts.nodes[row].name))
    return _assume_devices(snapshot, numbered, row) if needs_devices(snapshot, numbered) else []


def assume_free_devices(snapshot: ClusterSnapshot, kind: KindId, row: Row) -> None:
    """Reserves devices for the claims of a pod that counts on the row, even if the row is not feasible for the pod. Reserves
    nothing if the devices are not free."""
    numbered = snapshot.of(kind)
    if not needs_devices(snapshot, numbered):
        return
    specs, _ = specs_on(snapshot, numbered, row)
    if not specs or not isinstance(Allocator.of(snapshot).on(snapshot.facts, row, specs), Unallocatable):
        _assume_devices(snapshot, numbered, row)


def _assume_devices(snapshot: ClusterSnapshot, numbered: NumberedGroup, row: Row) -> list[ResourceClaim]:
    specs, extended = specs_on(snapshot, numbered, row)
    found = Allocator.of(snapshot).allocations(snapshot.facts, row, specs) if specs else []
    if isinstance(found, Unallocatable):
        raise ValueError(f"row {row}: {found.text or found.failure.value}, want a feasible row")
    allocations = iter(found)
    claims = []
    for claim in claims_of(snapshot, numbered):
        allocation = claim.allocation or next(allocations)
        claims.append(replace(claim, allocation=allocation, users=(*claim.users, _SOMEBODY)))
    if extended:
        namespace, name = _free_extended(snapshot, numbered, row)[0]
        claim = ResourceClaim(namespace=namespace, name=name, spec=ClaimSpec(requests=()), users=(_SOMEBODY,), extended=True)
        claims.append(replace(claim, allocation=next(allocations)))
    for claim in claims:
        snapshot.put_device_claim(claim.key, claim)
    return claims


def _free_extended(snapshot: ClusterSnapshot, numbered: NumberedGroup, row: Row) -> tuple[ClaimKey, ClaimKey | None]:
    """An unused key for the extended-resource claim of one more pod of the group on the row, and the last used key there (None
    if none)."""
    last: ClaimKey | None = None
    for nth in range(1_000_000):
        key = (numbered.kind.namespace, f"{_EXTENDED} of {numbered.id}/{row}/{nth}")
        if snapshot.devices.claim(key) is None:
            return key, last
        last = key
    raise AssertionError("more pods on one row than a node can have")


def take_off(snapshot: ClusterSnapshot, kind: KindId, row: Row, pod: PodUid) -> None:
    """Removes one pod of the group from the row, and releases its devices."""
    snapshot.remove(kind, row)
    release_devices(snapshot, kind, row, [pod])


def release_devices(snapshot: ClusterSnapshot, kind: KindId, row: Row, pods: Sequence[PodUid]) -> None:
    """Releases the devices of pods that leave the row. A claim that other pods use keeps its devices."""
    numbered = snapshot.of(kind)
    if not needs_devices(snapshot, numbered):
        return
    table = snapshot.devices
    for uid in pods:
        keys = {claim_key(numbered.kind.namespace, use): None for use in numbered.asks.resource_claims}
        known = [claim.key for claim in table.claims_of(uid) if claim.extended]
        assumed = None if known else _free_extended(snapshot, numbered, row)[1]
        for key in (*keys, *known, *([] if assumed is None else [assumed])):
            claim = table.claim(key)
            if claim is not None:
                snapshot.put_device_claim(key, _without(claim, uid))


def _without(claim: ResourceClaim, pod: PodUid) -> ResourceClaim | None:
    """The claim after a pod has left; None if the claim ends with the pod. A claim that no pod uses is deallocated, as
    Kubernetes' controller of claims does."""
    users = list(claim.users)
    for user in (pod, _SOMEBODY):
        if user in users:
            users.remove(user)
            break
    if users:
        return replace(claim, users=tuple(users))
    return None if claim.extended else replace(claim, users=(), allocation=None, failed=False)
