"""Labels of nodes, pods and namespaces, and selectors over them; small vocabularies, so that selectors do match."""

from collections.abc import Mapping, Sequence
from typing import Final

from tests.oracle.generator.draw import Draw, Obj

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
OLD_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
OLD_REGION: Final = "failure-domain.beta.kubernetes.io/region"
RACK: Final = "rack"
#: What CSI drivers call a zone: volumes of old plug-ins are translated to them where the node has migrated.
DRIVER_ZONES: Final = (
    "topology.ebs.csi.aws.com/zone",
    "topology.gke.io/zone",
    "topology.disk.csi.azure.com/zone",
    "topology.cinder.csi.openstack.org/zone",
)

POD_LABELS: Final[Mapping[str, Sequence[str]]] = {
    "app": ("a", "b", "c"),
    "tier": ("x", "y", ""),
    "version": ("1", "2"),
}
NAMESPACE_LABELS: Final[Mapping[str, Sequence[str]]] = {"team": ("red", "blue"), "env": ("prod", "test", "")}
#: "gen" is for Gt and Lt: not every value is an integer, and one does not fit into 64 bits.
NODE_LABELS: Final[Mapping[str, Sequence[str]]] = {
    # As clouds name them: the translation of a disk in a zone to its CSI driver takes the region from the name.
    ZONE: ("eu-west1-a", "eu-west1-b", "eu-west1-c"),
    REGION: ("eu-west1", "eu-west2"),
    RACK: ("k1", "k2", "k3", ""),
    "disk": ("ssd", "hdd"),
    "gen": ("1", "5", "10", "007", "abc", "", "9223372036854775808"),
}


def labels(draw: Draw, vocabulary: Mapping[str, Sequence[str]], *, each: float) -> dict[str, str]:
    """Each key of the vocabulary with probability `each`."""
    return {key: draw.pick(values) for key, values in vocabulary.items() if draw.chance(each)}


def selector(draw: Draw, vocabulary: Mapping[str, Sequence[str]]) -> Obj:
    """A label selector: empty (everything), matchLabels, matchExpressions or both."""
    made: Obj = {}
    if draw.chance(0.05):
        return made
    shape = draw.pick(("labels", "labels", "expressions", "both"))
    if shape != "expressions":
        key = draw.pick(list(vocabulary))
        made["matchLabels"] = {key: draw.pick(vocabulary[key])}
    if shape != "labels":
        made["matchExpressions"] = [_expression(draw, vocabulary) for _ in range(draw.number(1, 2))]
    return made


def _expression(draw: Draw, vocabulary: Mapping[str, Sequence[str]]) -> Obj:
    key = draw.pick([*vocabulary, "absent"])
    operator = draw.pick(("In", "In", "NotIn", "Exists", "DoesNotExist"))
    if operator in ("Exists", "DoesNotExist"):
        return {"key": key, "operator": operator}
    return {"key": key, "operator": operator, "values": draw.some(vocabulary.get(key, ("v",)), 1, 2)}
