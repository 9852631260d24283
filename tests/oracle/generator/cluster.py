"""Puts a cluster together as `kubectl get ... -o json` prints it."""

from dataclasses import dataclass
from typing import Final

from tests.oracle.generator.devices import NO_LIMITS, DeviceLimits, add_devices
from tests.oracle.generator.draw import Draw, Obj
from tests.oracle.generator.expressions import selector_cluster
from tests.oracle.generator.mutate import mutated
from tests.oracle.generator.nodes import nodes
from tests.oracle.generator.owners import services_and_sets
from tests.oracle.generator.pods import NAMESPACES, namespaces, pods, twins
from tests.oracle.generator.storage import storage_objects
from tests.oracle.generator.versions import add_by_version
from tests.oracle.generator.volumes import volumes_and_claims


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large to make clusters."""

    nodes: tuple[int, int] = (3, 12)
    pods: tuple[int, int] = (5, 30)
    claims: tuple[int, int] = (2, 14)
    devices: bool = False  #: with devices and claims of them
    device_limits: DeviceLimits = NO_LIMITS  #: what clusters with devices leave out
    mutated: bool = False  #: changed at random afterwards, so not always valid
    selectors: bool = False  #: nothing but devices that are selected by a random expression, so not always valid

    @property
    def unsure(self) -> bool:
        """Whether an API server refuses some of the clusters."""
        return self.mutated or self.selectors

    @classmethod
    def exactly(cls, *, nodes: int, pods: int) -> "Size":
        """So many nodes and pods, with claims for one pod in ten."""
        claims = max(2, pods // 10)
        return cls(nodes=(nodes, nodes), pods=(pods, pods), claims=(claims, claims))


SMALL: Final = Size()


def generate(seed: int, index: int, size: Size = SMALL) -> Obj:
    """Cluster `index` of a seed as a v1 List: nodes, pods and their storage."""
    if size.selectors:
        return selector_cluster(Draw(seed, index, "/selectors"))
    # With devices other plug-ins reject less, or they would never be asked for.
    draw = Draw(seed, index, stream="/few", themes=(0, 1)) if size.devices else Draw(seed, index)
    machines = nodes(draw, draw.number(*size.nodes))
    names: list[str] = [node["metadata"]["name"] for node in machines]
    storage = [*storage_objects(draw, names), *volumes_and_claims(draw, NAMESPACES, names, draw.number(*size.claims))]
    claims = [thing for thing in storage if thing["kind"] == "PersistentVolumeClaim"]
    running = pods(draw, names, claims, draw.number(*size.pods))
    running += twins(Draw(seed, index, "/twins"), running, names)
    add_by_version(Draw(seed, index, "/versions"), machines, storage)
    owners = services_and_sets(draw, [thing for thing in running if thing["kind"] == "Pod"])
    items = [*machines, *namespaces(draw), *storage, *owners, *running]
    if size.devices:
        items = add_devices(Draw(seed, index, stream="/devices"), items, NAMESPACES, size.device_limits)
    made: Obj = {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}
    return mutated(made, draw) if size.mutated else made
