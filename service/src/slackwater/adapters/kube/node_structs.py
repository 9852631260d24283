"""msgspec structs for the JSON of a Node. `structs` has those of the other objects and describes their common properties."""

from msgspec import field

from slackwater.adapters.kube.structs import NO_AMOUNTS, AmountsRaw, ConditionWire, Int64, Wire


class TaintWire(Wire):
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpecWire(Wire):
    unschedulable: bool = False
    taints: list[TaintWire] | None = None
    provider_id: str = field(name="providerID", default="")


class ImageWire(Wire):
    names: list[str] | None = None
    size_bytes: Int64 = 0


class NodeStatusWire(Wire):
    allocatable: AmountsRaw = NO_AMOUNTS
    capacity: AmountsRaw = NO_AMOUNTS
    conditions: list[ConditionWire] | None = None
    images: list[ImageWire] | None = None
    declared_features: list[str] | None = None


class NodeMetaWire(Wire):
    """A node's metadata. All annotations are decoded, because some are matched by prefix."""

    name: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class NodeWire(Wire):
    metadata: NodeMetaWire = field(default_factory=NodeMetaWire)
    spec: NodeSpecWire = field(default_factory=NodeSpecWire)
    status: NodeStatusWire = field(default_factory=NodeStatusWire)
