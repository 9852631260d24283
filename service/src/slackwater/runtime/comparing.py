"""An object as the API server lists it against the same object in the picture: what differs, and why.

A list takes a while, and the picture goes on meanwhile: objects are judged by their versions. What the picture has in a newer
version has changed since, and is in order. What it has in an older one may be on its way: whoever asks looks again later.
Pure, one object at a time; nothing is changed here.
"""

from slackwater.model.drifts import Drift, Found
from slackwater.model.ids import NodeName, PodUid
from slackwater.model.ledger.account import ordinary_account
from slackwater.model.objects import Node, Pod
from slackwater.runtime.state_machine import World


def compare_node(world: World, fresh: Node) -> Found | None:
    """What is wrong with the node in the picture, given that the API server lists it as `fresh`."""
    name = f"node {fresh.name}"
    row = world.nodes.row_of.get(fresh.name)
    known = None if row is None else world.nodes.by_row[row]
    if known is None:
        return Found(Drift.UNKNOWN_NODE, name, f"absent, want version {fresh.resource_version}")
    if known.uid == fresh.uid and known.resource_version > fresh.resource_version:
        return None
    if known.resource_version != fresh.resource_version or known.uid != fresh.uid:
        return Found(Drift.MISSED_EVENT, name, f"version {known.resource_version}, want {fresh.resource_version}")
    return None if known == fresh else Found(Drift.ALTERED_OBJECT, name, f"version {fresh.resource_version} says otherwise")


def compare_pod(world: World, fresh: Pod) -> Found | None:
    """What is wrong with the pod in the picture, given that the API server lists it as `fresh`."""
    name = f"pod {fresh.key}"
    known = world.pods.get(fresh.uid)
    if known is None:
        gone = world.pods.is_gone(fresh.uid)
        return None if gone else Found(Drift.UNKNOWN_POD, name, f"absent, want version {fresh.resource_version}")
    if known.resource_version > fresh.resource_version:
        return None
    if known.resource_version < fresh.resource_version:
        return Found(Drift.MISSED_EVENT, name, f"version {known.resource_version}, want {fresh.resource_version}")
    if known != fresh:
        return Found(Drift.ALTERED_OBJECT, name, f"version {fresh.resource_version} says otherwise")
    return _compare_claim(world, fresh, name)


def _compare_claim(world: World, fresh: Pod, name: str) -> Found | None:
    """A bind under way counts where the API server need not show it yet."""
    claim = world.claims.get(fresh.uid)
    place = None if fresh.ended else fresh.node
    if place is None:
        wrong = claim is not None and (fresh.ended or claim.state == "seen")
        return Found(Drift.WRONG_PLACE, name, f"counts on node {claim.node}, want nowhere") if wrong and claim else None
    if claim is None or claim.node != place:
        seen = "nowhere" if claim is None else f"on node {claim.node}"
        return Found(Drift.WRONG_PLACE, name, f"counts {seen}, want on node {place}")
    if fresh.vertical is None and fresh.vertical_problem is None:
        want = ordinary_account(fresh.kind.requests)
        if claim.account != want:
            return Found(Drift.WRONG_ACCOUNT, name, f"counts {claim.account}, want {want}")
    return None


def compare_absent_pod(world: World, uid: PodUid, version: int) -> Found | None:
    """What is wrong with the pod in the picture, given that a list of this version lacks it."""
    known = world.pods.get(uid)
    if known is None or known.resource_version > version:
        return None
    return Found(Drift.STALE_OBJECT, f"pod {known.key}", f"version {known.resource_version}, and absent at {version}")


def compare_absent_node(world: World, name: NodeName, version: int) -> Found | None:
    """The same of a node."""
    row = world.nodes.row_of.get(name)
    known = None if row is None else world.nodes.by_row[row]
    if known is None or known.resource_version > version:
        return None
    return Found(Drift.STALE_OBJECT, f"node {name}", f"version {known.resource_version}, and absent at {version}")
