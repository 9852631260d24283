"""Puts a cluster together as `kubectl get ... -o json` prints it."""

from tests.oracle.generator.draw import Draw, Obj
from tests.oracle.generator.nodes import nodes
from tests.oracle.generator.pods import NAMESPACES, namespaces, pods
from tests.oracle.generator.storage import storage_objects
from tests.oracle.generator.volumes import volumes_and_claims


def generate(seed: int, index: int) -> Obj:
    """Cluster `index` of a seed: 3 to 12 nodes, 5 to 30 pods and their storage, as a v1 List."""
    draw = Draw(seed, index)
    machines = nodes(draw)
    names: list[str] = [node["metadata"]["name"] for node in machines]
    storage = [*storage_objects(draw, names), *volumes_and_claims(draw, NAMESPACES, names)]
    claims = [thing for thing in storage if thing["kind"] == "PersistentVolumeClaim"]
    items = [*machines, *namespaces(draw), *storage, *pods(draw, names, claims)]
    return {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}
