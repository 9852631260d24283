"""The API's objects as msgspec structs. They have only the fields that some decision reads; msgspec skips the others."""

from typing import Final

from msgspec import Raw, Struct, field

from slackwater.adapters.api_objects import BaseMetaWire, ConditionWire, Int32, Int64, ObjectWire, RequirementWire, Wire
from slackwater.model.objects import Taint
from slackwater_protocol import names


class AnnotationsWire(Struct, gc=False):
    """The annotations that some decision reads. Others are skipped."""

    vm_resources: str | None = field(name=names.NEON_VM_RESOURCES, default=None)
    vm_bounds: str | None = field(name=names.NEON_BOUNDS, default=None)
    bounds: str | None = field(name=names.BOUNDS, default=None)
    bounds_container: str | None = field(name=names.BOUNDS_CONTAINER, default=None)
    permit: str | None = field(name=names.PERMIT, default=None)
    target_node: str | None = field(name=names.TARGET_NODE, default=None)
    safe_to_evict: str | None = field(name=names.SAFE_TO_EVICT, default=None)
    safe_local_volumes: str | None = field(name=names.SAFE_TO_EVICT_LOCAL_VOLUMES, default=None)
    daemon_set_pod: str | None = field(name=names.DAEMON_SET_POD, default=None)
    mirror_pod: str | None = field(name=names.MIRROR_POD, default=None)
    config_source: str | None = field(name=names.CONFIG_SOURCE, default=None)
    preempting: str | None = field(name=names.PREEMPTING, default=None)
    deletion_cost: str | None = field(name=names.POD_DELETION_COST, default=None)
    disruption_cost: str | None = field(name=names.DISRUPTION_COST, default=None)
    karpenter_cost: str | None = field(name=names.KARPENTER_DISRUPTION_COST, default=None)
    provisioning_request: str | None = field(name=names.CONSUME_PROVISIONING_REQUEST, default=None)
    provisioning_request_old: str | None = field(name=names.CONSUME_PROVISIONING_REQUEST_OLD, default=None)
    preemption_delay: str | None = field(name=names.PREEMPTION_DELAY, default=None)
    scale_up_delay: str | None = field(name=names.SCALE_UP_DELAY, default=None)
    slack: str | None = field(name=names.SLACK, default=None)
    do_not_disrupt: str | None = field(name=names.DO_NOT_DISRUPT, default=None)

    @property
    def cost(self) -> str | None:
        """What an eviction costs. As in Karpenter, the first text counts even if it is no number."""
        return next((text for text in (self.karpenter_cost, self.disruption_cost) if text is not None), self.deletion_cost)


class MetaWire(BaseMetaWire):
    """The metadata of an object, with the annotations that some decision reads."""

    generation: Int64 = 0
    deletion_grace_period_seconds: Int64 | None = None
    annotations: AnnotationsWire | None = None


class IdentityWire(Wire):
    """The metadata of an object. Used if the rest is not needed (deleted objects) or cannot be decoded (broken ones)."""

    metadata: MetaWire = field(default_factory=MetaWire)


class WatchWire(Wire):
    """One line of a watch."""

    type: str
    object: Raw


class StatusWire(Wire):
    """The API's error object."""

    code: int = 0
    reason: str = ""
    message: str = ""


#: An undecoded ResourceList. Many objects have equal lists, so `pod_requests` decodes each distinct text once.
AmountsRaw = Raw
NO_AMOUNTS: Final = Raw(b"null")
#: The medium of an emptyDir in memory.
_IN_MEMORY: Final = "Memory"


class ResourcesWire(Wire):
    requests: AmountsRaw = NO_AMOUNTS
    limits: AmountsRaw = NO_AMOUNTS


class PortWire(Wire):
    host_port: Int32 = 0
    host_ip: str = field(name="hostIP", default="")
    protocol: str = "TCP"


class RestartRuleWire(Wire):
    action: str = ""


class ContainerWire(Wire):
    name: str = ""
    image: str = ""
    resources: ResourcesWire | None = None
    restart_policy: str | None = None
    ports: list[PortWire] | None = None
    restart_policy_rules: list[RestartRuleWire] | None = None


class NodeSelectorTermWire(Wire):
    match_expressions: list[RequirementWire] | None = None
    match_fields: list[RequirementWire] | None = None


class NodeSelectorWire(Wire):
    node_selector_terms: list[NodeSelectorTermWire] | None = None


class PreferredNodesWire(Wire):
    weight: Int32 = 0
    preference: NodeSelectorTermWire = field(default_factory=NodeSelectorTermWire)


class NodeAffinityWire(Wire):
    required: NodeSelectorWire | None = field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)
    preferred: list[PreferredNodesWire] | None = field(name="preferredDuringSchedulingIgnoredDuringExecution", default=None)


class SelectorWire(Wire):
    match_labels: dict[str, str] | None = None
    match_expressions: list[RequirementWire] | None = None


class PodTermWire(Wire):
    topology_key: str = ""
    label_selector: SelectorWire | None = None
    namespaces: list[str] | None = None
    namespace_selector: SelectorWire | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodTermWire(Wire):
    weight: Int32 = 0
    pod_affinity_term: PodTermWire = field(default_factory=PodTermWire)


class PodAffinityWire(Wire):
    """podAffinity or podAntiAffinity."""

    required: list[PodTermWire] | None = field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)
    preferred: list[WeightedPodTermWire] | None = field(name="preferredDuringSchedulingIgnoredDuringExecution", default=None)


class AffinityWire(Wire):
    node_affinity: NodeAffinityWire | None = None
    pod_affinity: PodAffinityWire | None = None
    pod_anti_affinity: PodAffinityWire | None = None


class SpreadWire(Wire):
    max_skew: Int32 = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: SelectorWire | None = None
    match_label_keys: list[str] | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None


class ClaimSourceWire(Wire):
    claim_name: str = ""


class EphemeralWire(Wire):
    """A generic ephemeral volume. Its request is in the claim that is created for it."""


class GceDiskWire(Wire):
    pd_name: str = ""
    read_only: bool = False


class VolumeIdWire(Wire):
    """A disk of AWS (EBS), Cinder or Portworx."""

    volume_id: str = field(name="volumeID", default="")


class IscsiWire(Wire):
    iqn: str = ""
    read_only: bool = False


class RbdWire(Wire):
    monitors: list[str] | None = None
    pool: str = "rbd"
    image: str = ""
    read_only: bool = False


class AzureDiskWire(Wire):
    disk_name: str = ""
    disk_uri: str = field(name="diskURI", default="")


class InTreeDisksWire(Wire):
    """The in-tree disks of a pod's volume or of a PersistentVolume that CSI drivers attach today."""

    aws_elastic_block_store: VolumeIdWire | None = None
    gce_persistent_disk: GceDiskWire | None = None
    azure_disk: AzureDiskWire | None = None
    cinder: VolumeIdWire | None = None
    portworx_volume: VolumeIdWire | None = None


class ImageVolumeWire(Wire):
    reference: str = ""


class HostPathWire(Wire):
    """A directory of the node. The path is not needed."""


class EmptyDirWire(Wire):
    medium: str = ""


class VolumeWire(InTreeDisksWire):
    """A volume of a pod: the fields that decide where the pod may run, or whether it may be evicted."""

    name: str = ""
    persistent_volume_claim: ClaimSourceWire | None = None
    ephemeral: EphemeralWire | None = None
    iscsi: IscsiWire | None = None
    rbd: RbdWire | None = None
    image: ImageVolumeWire | None = None
    host_path: HostPathWire | None = None
    empty_dir: EmptyDirWire | None = None

    def is_local(self) -> bool:
        """True if the volume's data is only on the node's disks: hostPath, or emptyDir that is not in memory."""
        return self.host_path is not None or (self.empty_dir is not None and self.empty_dir.medium != _IN_MEMORY)

    def is_plain(self) -> bool:
        """True if the volume does not matter for scheduling: emptyDir, hostPath, configMap and the like."""
        return (
            self.persistent_volume_claim is None
            and self.ephemeral is None
            and self.gce_persistent_disk is None
            and self.aws_elastic_block_store is None
            and self.iscsi is None
            and self.rbd is None
            and self.azure_disk is None
            and self.cinder is None
            and self.portworx_volume is None
            and self.image is None
        )


class NamedWire(Wire):
    name: str = ""


class TolerationWire(Wire):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class PodClaimWire(Wire):
    """A pod's use of a ResourceClaim, or of one that is made from a template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodClaimStatusWire(Wire):
    """The ResourceClaim that was created for one of the pod's claims; its name is None if none was needed."""

    name: str = ""
    resource_claim_name: str | None = None


class PodSpecWire(Wire):
    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    preemption_policy: str | None = None
    priority: Int32 | None = None
    containers: list[ContainerWire] | None = None
    init_containers: list[ContainerWire] | None = None
    overhead: AmountsRaw = NO_AMOUNTS
    resources: ResourcesWire | None = None
    node_selector: dict[str, str] | None = None
    #: Affinity, tolerations and spread constraints stay undecoded here; each distinct text is decoded once for all its pods.
    affinity: Raw = Raw(b"null")  #: an AffinityWire or null
    tolerations: Raw = Raw(b"null")  #: a list of TolerationWire or null
    topology_spread_constraints: Raw = Raw(b"null")  #: a list of SpreadWire or null
    volumes: list[VolumeWire] | None = None
    resource_claims: list[PodClaimWire] | None = None
    scheduling_gates: list[NamedWire] | None = None
    host_network: bool = False
    host_users: bool | None = None
    termination_grace_period_seconds: Int64 | None = None


class ContainerStatusWire(Wire):
    name: str = ""
    resources: ResourcesWire | None = None
    allocated_resources: AmountsRaw = NO_AMOUNTS


class PodStatusWire(Wire):
    phase: str = ""
    resource_claim_statuses: list[PodClaimStatusWire] | None = None
    start_time: str | None = None
    nominated_node_name: str = ""
    conditions: list[ConditionWire] | None = None
    container_statuses: list[ContainerStatusWire] | None = None
    init_container_statuses: list[ContainerStatusWire] | None = None
    resources: ResourcesWire | None = None
    allocated_resources: AmountsRaw = NO_AMOUNTS


class PodWire(Wire):
    metadata: MetaWire = field(default_factory=MetaWire)
    spec: PodSpecWire = field(default_factory=PodSpecWire)
    status: PodStatusWire = field(default_factory=PodStatusWire)


class BudgetSpecWire(Wire):
    selector: SelectorWire | None = None
    unhealthy_pod_eviction_policy: str | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class BudgetStatusWire(Wire):
    disruptions_allowed: Int32 | None = None  #: an API server always sets it
    current_healthy: Int32 = 0
    desired_healthy: Int32 = 0
    disrupted_pods: dict[str, object] | None = None
    observed_generation: Int64 | None = None
    expected_pods: Int32 = 0
    conditions: list[ConditionWire] | None = None

    @property
    def observed(self) -> bool:
        """Has the disruption controller ever written it? What `kubectl create --dry-run=client` prints has zeros alone."""
        return bool(self.disruptions_allowed or self.observed_generation or self.expected_pods or self.conditions)


class BudgetWire(Wire):
    """A PodDisruptionBudget (policy/v1)."""

    metadata: MetaWire = field(default_factory=MetaWire)
    spec: BudgetSpecWire = field(default_factory=BudgetSpecWire)
    status: BudgetStatusWire | None = None


class NodeSpecWire(Wire):
    unschedulable: bool = False
    taints: list[Taint] | None = None
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


class NodeWire(ObjectWire):
    """A Node. All annotations are decoded, because some are matched by prefix."""

    spec: NodeSpecWire = field(default_factory=NodeSpecWire)
    status: NodeStatusWire = field(default_factory=NodeStatusWire)
