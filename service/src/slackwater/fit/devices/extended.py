"""Extended resources that a DeviceClass backs: the claim that kube-scheduler makes for them.

On a node that offers the resource itself (by a device plug-in) nothing is claimed. On other nodes each container's request
becomes a request of one claim. Containers that end before the main containers start share devices with each other and with
later containers.
"""

from collections.abc import Sequence

from slackwater.model.devices import ClaimSpec, DeviceAsk, DeviceRequest
from slackwater.model.ids import Row
from slackwater.model.pod_constraints import ContainerDevices
from slackwater.snapshot.device_table import DeviceTable
from slackwater.snapshot.node_facts import NodeFacts


def backed_resources(table: DeviceTable, asked: Sequence[ContainerDevices]) -> tuple[str, ...]:
    """The requested extended resources that some DeviceClass backs, sorted."""
    if not asked:
        return ()
    return tuple(sorted({each.resource for each in asked if table.class_of(each.resource) is not None}))


def extended_spec(table: DeviceTable, asked: Sequence[ContainerDevices], facts: NodeFacts, row: Row) -> ClaimSpec | None:
    """The spec of the claim that kube-scheduler would make for the pod's extended resources on the row's node. None if the node
    offers all of them itself, so that no claim is needed."""
    missing = tuple(name for name in backed_resources(table, asked) if not _offers(facts, row, name))
    if not missing:
        return None
    specs: dict[object, ClaimSpec] = table.kept.setdefault("extended", {})
    key = (tuple(asked), missing)
    if key not in specs:
        specs[key] = _spec(table, asked, missing)
    return specs[key]


def _offers(facts: NodeFacts, row: Row, resource: str) -> bool:
    line = facts.resource.get(resource)
    return line is not None and bool(facts.allocatable[line, row] > 0)


def _spec(table: DeviceTable, asked: Sequence[ContainerDevices], missing: Sequence[str]) -> ClaimSpec:
    requests: list[DeviceRequest] = []
    for resource in missing:
        found = table.class_of(resource)
        assert found is not None
        requests.extend(_requests([each for each in asked if each.resource == resource], found.name))
    return ClaimSpec(requests=tuple(sorted(requests, key=lambda request: request.name)))


def _requests(asked: Sequence[ContainerDevices], class_name: str) -> list[DeviceRequest]:
    """The claim's requests for one resource: one for each container that keeps running, and one for the most that init
    containers need beyond those."""
    lasting = [each for each in asked if not each.ends]
    found = [_request(each, each.amount, class_name) for each in lasting]
    most: tuple[int, ContainerDevices] | None = None
    for each in asked:
        if each.ends:
            more = each.amount - sum(other.amount for other in lasting if other.container >= each.container)
            if more > 0 and (most is None or more > most[0]):
                most = (more, each)
    return found if most is None else [_request(most[1], most[0], class_name), *found]


def _request(each: ContainerDevices, count: int, class_name: str) -> DeviceRequest:
    name = f"container-{each.container}-request-{each.place}"
    return DeviceRequest(name=name, asks=(DeviceAsk(name=name, class_name=class_name, count=count),))
