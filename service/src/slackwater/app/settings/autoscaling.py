"""The `autoscaler` section of the configuration file: the loop, node creation, node groups and their templates,
providers.

The docstring under each key becomes its description in docs and schema: its unit, its default and why. `scaleUp`,
`scaleDown` and `slack` are in the folders of their capabilities. `app.clouds` builds the providers.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from slackwater.configuration.addresses import Address, HostPort
from slackwater.configuration.kind import refused
from slackwater.configuration.values import (
    AwsRegion,
    Count,
    Delay,
    FilePath,
    Fraction,
    GroupName,
    LabelText,
    Money,
    Namespace,
    ObjectName,
    ProviderGroup,
    QualifiedName,
    Quantity,
    Section,
    ServerName,
    Switch,
    TagKey,
    TagValue,
    Timeout,
    WebAddress,
)
from slackwater.controllers.consolidation.settings import Consolidation
from slackwater.controllers.scaledown.settings import GroupScaleDown, ScaleDown
from slackwater.controllers.scaleup.settings import Prices, ScaleUp
from slackwater.controllers.slack.settings import Slack
from slackwater.model.devices import MOST_DEVICES
from slackwater_protocol.durations import HOUR, MINUTE, SECOND, Duration


class KwokSimulation(Section):
    """How the simulated cloud of a kwok group behaves. By default machines start at once and never fail. The shares add up to
    at most 1."""

    appear_after: Delay = Field(default=Duration(0), examples=["20s"])
    """Duration from the request until the Node appears. 0s by default."""
    appear_spread: Delay = Field(default=Duration(0), examples=["10s"])
    """Longest random duration added to `appearAfter`, uniformly distributed. 0s by default."""
    boot_after: Delay = Field(default=Duration(0), examples=["30s"])
    """Duration from the Node's appearance until KWOK takes it over and makes it ready; until then it is tainted as not ready.
    0s by default."""
    failing: Fraction = Field(default=0.0, examples=[0.05])
    """Share of machines that end in an error instead of a Node. 0.0 by default."""
    silent: Fraction = Field(default=0.0, examples=[0.01])
    """Share of machines that run without a Node ever appearing. 0.0 by default."""
    stock: Count | None = Field(default=None, examples=[300])
    """Machines that the cloud has; further ones fail as out of resources until others are deleted. Unset by default: no
    limit."""


class Kwok(Section):
    """The provider kwok: Node objects without machines, for trials and tests. Used if a node group names this provider."""

    namespace: Namespace = Field(default="kube-system", examples=["kube-system"])
    """Namespace of the ConfigMap `slackwater-kwok`, which persists the machines in creation. kube-system by default, where the
    service runs."""
    seed: Count = Field(default=0, examples=[0, 7])
    """Seed of the random delays and failures: the same seed gives the same ones. 0 by default."""


class Aws(Section):
    """The provider aws: EC2 Auto Scaling groups. Needs the extra `slackwater[aws]`."""

    region: AwsRegion | None = Field(default=None, examples=["eu-west-1"])
    """Region of the groups. Unset by default: that of the environment (`AWS_DEFAULT_REGION`), which EKS sets for service
    accounts with a role."""
    tags: Mapping[TagKey, TagValue] = Field(
        default={},
        examples=[{"k8s.io/cluster-autoscaler/enabled": "", "k8s.io/cluster-autoscaler/prod": ""}],
    )
    """Tags that a group must have to be used; an empty value stands for any. Empty by default: only groups that `nodeGroups`
    names are used."""
    interruption_queue: WebAddress | None = Field(
        default=None, examples=["https://sqs.eu-west-1.amazonaws.com/123456789012/slackwater"]
    )
    """URL of the SQS queue to which EventBridge sends what EC2 says of spot machines. Nodes whose machine is interrupted are
    emptied before it stops. Unset by default: nothing is read."""


class ClusterApi(Section):
    """The provider clusterapi: MachineDeployments, MachineSets and MachinePools with Cluster Autoscaler's size annotations."""

    kubeconfig: FilePath | None = Field(default=None, examples=["/etc/slackwater/management.kubeconfig"])
    """Path of a kubeconfig of the management cluster. Unset by default: the served cluster is also the management cluster."""
    namespace: Namespace | None = Field(default=None, examples=["default"])
    """Namespace of the groups that are used. Unset by default: all namespaces."""
    cluster_name: LabelText = Field(default="", examples=["prod"])
    """Cluster whose groups are used (label `cluster.x-k8s.io/cluster-name`). Empty by default: all clusters."""
    selector: Mapping[QualifiedName, LabelText] = Field(default={}, examples=[{"autoscale": "yes"}])
    """Labels that a group must have to be used. Empty by default: the annotations are enough."""


class ExternalGrpcTLS(Section):
    """TLS of the connection to the provider's server, whose certificate is always verified."""

    ca_file: FilePath | None = Field(default=None, alias="caFile", examples=["/etc/slackwater/provider/ca.crt"])
    """Path of the PEM certificates of the CAs that may have signed the server's certificate. Unset by default: the system's
    CAs."""
    cert_file: FilePath | None = Field(default=None, examples=["/etc/slackwater/provider/tls.crt"])
    """Path of the PEM certificate chain that Slackwater shows if the server asks for one. Unset by default: none."""
    key_file: FilePath | None = Field(default=None, examples=["/etc/slackwater/provider/tls.key"])
    """Path of the PEM private key of `certFile`. Unset by default, like it."""
    server_name: ServerName | None = Field(default=None, examples=["provider.example.com"])
    """The name that the server's certificate must have. Unset by default: the host of `address`."""


class ExternalGrpc(Section):
    """The provider externalgrpc: a server that speaks Cluster Autoscaler's external gRPC protocol.

    Needs the extra `slackwater[externalgrpc]`.
    """

    address: Annotated[Address, HostPort()] = Field(examples=["127.0.0.1:8086"])
    """host:port of the server. No default."""
    timeout: Timeout = Field(default=Duration(5 * SECOND), examples=["5s"])
    """Duration after which a call is cancelled; its outcome is then unknown. 5s by default, as in Cluster Autoscaler."""
    tls: ExternalGrpcTLS | None = None
    """TLS of the connection. Unset by default: a server on loopback needs none."""


class Karpenter(Section):
    """The provider karpenter: NodeClaims of Karpenter's NodePools. It changes only NodePools that were handed over, by
    `spec.limits.nodes: "0"` and a disruption budget of 0 nodes."""

    instance_types: FilePath | None = Field(default=None, examples=["/etc/slackwater/instance-types.json"])
    """Path of a JSON file of instance types with their resources, zones, capacity types and prices, as Karpenter's kwok
    provider reads it. Unset by default: only what the NodeClaims of a NodePool show is known, so an empty one cannot grow. The
    file is read at start."""
    node_pools: tuple[ObjectName, ...] = Field(default=(), examples=[["general"]])
    """Names of the NodePools that are used. Empty by default: all, except those with `spec.replicas`."""


class Providers(Section):
    """The providers that create and delete nodes. All groups that aws, clusterapi, externalgrpc and karpenter report are used,
    within the sizes that they report; an entry in `nodeGroups` can narrow these."""

    aws: Aws | None = None
    """EC2 Auto Scaling groups. Unset by default: used only if a node group names it."""
    kwok: Kwok = Kwok()
    """Node objects without machines."""
    clusterapi: ClusterApi | None = None
    """Cluster API. Unset by default: used only if a node group names it."""
    externalgrpc: ExternalGrpc | None = None
    """An external gRPC provider. Unset by default: not used."""
    karpenter: Karpenter | None = None
    """Karpenter. Unset by default: used only if a node group names it."""


ProviderName = Literal["aws", "kwok", "clusterapi", "externalgrpc", "karpenter"]


class Backoff(Section):
    """For how long a group is not scaled up after a failure."""

    initial: Timeout = Field(default=Duration(5 * MINUTE), examples=["5m"])
    """Duration of the back-off after a first failure. 5m by default, as in Cluster Autoscaler."""
    max: Timeout = Field(default=Duration(30 * MINUTE), examples=["30m"])
    """Longest duration of the back-off, which doubles with each further failure. 30m by default."""
    reset: Timeout = Field(default=Duration(3 * HOUR), examples=["3h"])
    """Duration without a failure after which the next one counts as the first. 3h by default."""


class Creation(Section):
    """How long the creation of a node may take, how many may be created at once, and what follows a failure."""

    timeout: Timeout = Field(default=Duration(15 * MINUTE), examples=["15m"])
    """Duration that a node may take to register and to become ready; after it, the node is deleted and replaced. 15m by
    default. A provider may set another duration for a group."""
    call_timeout: Timeout = Field(default=Duration(30 * SECOND), examples=["30s"])
    """Duration that one call to a provider may take. 30s by default."""
    backoff: Backoff = Backoff()
    """For how long a group is not scaled up after a failure; other groups are tried instead."""


Expander = Literal["random", "most-pods", "least-nodes", "least-waste", "price", "priority"]


class TemplateMetadata(Section):
    """The part of a node's metadata that scheduling uses."""

    labels: Mapping[QualifiedName, LabelText] = Field(default={}, examples=[{"topology.kubernetes.io/zone": "a"}])
    """Labels that a new node of the group carries, beside `kubernetes.io/os` (linux) and `kubernetes.io/arch` (amd64). Empty by
    default."""


class Taint(Section):
    """A taint, as in a Node."""

    key: QualifiedName = Field(examples=["dedicated"])
    """The taint's key. No default."""
    value: LabelText = Field(default="", examples=["batch"])
    """The taint's value. Empty by default."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = Field(examples=["NoSchedule"])
    """What the taint does to pods that do not tolerate it. No default."""


class TemplateSpec(Section):
    """The part of a node's spec that scheduling uses."""

    taints: tuple[Taint, ...] = ()
    """Taints that a new node of the group carries. Empty by default."""


class TemplateStatus(Section):
    """The resources of a new node of the group."""

    capacity: Mapping[QualifiedName, Quantity] = Field(default={}, examples=[{"cpu": "8", "memory": "32Gi", "pods": "110"}])
    """Quantity of each resource. Empty by default: the quantities then come from a real node of the group, or from the
    provider."""
    allocatable: Mapping[QualifiedName, Quantity] = Field(default={}, examples=[{"cpu": "7900m", "memory": "30Gi"}])
    """Quantity of each resource that pods may use, at most `capacity`. By default all of `capacity`."""


class TemplateDevices(Section):
    """Equal devices of one driver (dynamic resource allocation) that a new node will publish in a ResourceSlice."""

    driver: ObjectName = Field(examples=["gpu.example.com"])
    """The driver's name. No default."""
    count: Annotated[int, Field(ge=1, le=MOST_DEVICES)] = Field(examples=[8])
    """Number of devices. No default."""
    attributes: Mapping[QualifiedName, str | int | bool] = Field(default={}, examples=[{"model": "h100"}])
    """Attributes of each device, which selectors of classes and claims read: texts, whole numbers, true or false. Empty by
    default."""
    capacity: Mapping[QualifiedName, Quantity] = Field(default={}, examples=[{"memory": "80Gi"}])
    """Quantity of each capacity of a device. Empty by default."""


class Template(Section):
    """A new node of the group, in the form of a Node object. What it says counts more than what the group's nodes have, until a
    purchase shows otherwise."""

    metadata: TemplateMetadata = TemplateMetadata()
    """Labels."""
    spec: TemplateSpec = TemplateSpec()
    """Taints."""
    status: TemplateStatus = TemplateStatus()
    """Resources."""
    volume_limits: Mapping[QualifiedName, Count] = Field(default={}, examples=[{"ebs.csi.aws.com": 25}])
    """Volumes that a new node can attach, by CSI driver. The CSINodes of the group's real nodes take precedence. Empty by
    default."""
    devices: tuple[TemplateDevices, ...] = ()
    """Devices that claims of dynamic resource allocation may get on a new node. The ResourceSlices of the group's real nodes
    take precedence. Empty by default."""


class NodeGroup(Section):
    """Nodes that are equal for scheduling and are created and deleted through one provider. A node belongs to the
    group that its label `slackwater.dev/node-group` names."""

    name: GroupName = Field(examples=["pool-a"])
    """The group's name, unique; the value of the label. No default."""
    provider: ProviderName = Field(default="kwok", examples=["kwok", "aws", "clusterapi", "externalgrpc", "karpenter"])
    """The provider that creates and deletes the nodes. kwok by default: Node objects without machines, for trials and tests."""
    id: ProviderGroup | None = Field(default=None, examples=["MachineDeployment/default/md-0"])
    """The provider's name of the group, if it differs from `name`. Unset by default: the same name. A kwok group cannot have
    another one."""
    min_size: Count = Field(default=0, examples=[0])
    """Nodes that the group keeps at least. 0 by default: all nodes of an unused group may be removed. A higher minimum of the
    provider takes precedence."""
    max_size: Count = Field(default=5000, examples=[5000])
    """Nodes that the group may have at most. 5000 by default, the size that Slackwater is measured at. A lower maximum of the
    provider takes precedence."""
    enabled: Switch = True
    """Whether the autoscaler may change the group. true by default. Disabling a group that need not follow demand saves
    planning time."""
    max_nodes_in_creation: Count = Field(default=100, examples=[100, 0])
    """Nodes of this group that may be in creation at the same time; 0: no limit. 100 by default: more would overload the image
    registry and the provider, and nodes that fail to start cost money too."""
    price: Money | None = Field(default=None, examples=["0.096"])
    """Price of one node of this group for an hour, a decimal number in `autoscaler.prices.currency`. Unset by default."""
    scale_down: GroupScaleDown = GroupScaleDown()
    """When nodes of this group are removed, if that differs from other groups."""
    template: Template = Template()
    """What a new node looks like."""
    kwok: KwokSimulation = KwokSimulation()
    """How a group of the kwok provider behaves."""


def _some(expanders: tuple[Expander, ...]) -> tuple[Expander, ...]:
    # pydantic's min_length counts only valid entries, so it would report a bad entry a second time.
    if not expanders:
        raise refused("at least one expander")
    return expanders


class Autoscaler(Section):
    """The autoscaler, which adds and removes nodes."""

    enabled: Switch = False
    """Whether the autoscaler runs. false by default: nodes cost money."""
    scan_interval: Timeout = Field(default=Duration(10 * SECOND), examples=["10s"])
    """Duration between two loops, if no event starts the next one earlier. 10s by default."""
    max_nodes_per_scale_up: Count = Field(default=1000, examples=[1000, 0])
    """Nodes that one loop may add; 0: no limit. 1000 by default: it bounds the cost of a mistake."""
    max_nodes_in_creation: Count = Field(default=100, examples=[100, 0])
    """Nodes of the whole cluster that may be in creation at the same time; 0: no limit. 100 by default, for the reasons given
    at the group's key of the same name."""
    max_planning_time: Delay = Field(default=Duration(10 * SECOND), examples=["10s", "0s"])
    """Duration that the estimate for one group may take; after it, the partial result is used. A last resort beside the limit
    on steps. 0s: no limit. 10s by default, one `scanInterval`."""
    expanders: Annotated[tuple[Expander, ...], AfterValidator(_some)] = Field(
        default=("least-waste",),
        examples=[["least-waste"], ["priority", "least-waste"]],
        json_schema_extra={"minItems": 1, "uniqueItems": True},
    )
    """How the group to scale up is chosen: the first expander decides, each next one breaks the ties of those before it.
    least-waste by default: the smallest unused share of the new nodes. price, as the first or after priority alone, packs the
    whole demand at once at the lowest price; it needs the extra `slackwater[solver]` to come near the least possible cost."""
    node_groups: tuple[NodeGroup, ...] = Field(default=(), examples=[[{"name": "pool-a", "maxSize": 50}]])
    """The node groups. Empty by default."""
    handed_over: tuple[GroupName, ...] = Field(default=(), examples=[["general"]])
    """Names of groups that another autoscaler marks as its own, and that Slackwater may change all the same. Marks are
    Karpenter's label `karpenter.sh/nodepool` on nodes, the annotation `slackwater.dev/owned-by` on a node or on the group's own
    object with any value but slackwater, and Cluster Autoscaler's status. Empty by default: such a group is planned with, and
    neither grown nor shrunk."""
    cluster_autoscaler_status: ObjectName = Field(default="cluster-autoscaler-status", examples=["cluster-autoscaler-status"])
    """Name of the ConfigMap in namespace kube-system with Cluster Autoscaler's status. The groups that it lists are Cluster
    Autoscaler's for ten minutes after it was written. cluster-autoscaler-status by default, Cluster Autoscaler's own."""
    providers: Providers = Providers()
    """The providers that create and delete nodes."""
    scale_up: ScaleUp = ScaleUp()
    """For which pods nodes are added, and how many at most."""
    prices: Prices | None = None
    """What nodes cost. Unset by default: money is neither counted nor shown, unless a group has a `price`, or the expander
    `price` is used."""
    creation: Creation = Creation()
    """How long the creation of a node may take, and what follows a failure."""
    status_config_map: ObjectName = Field(default="slackwater-autoscaler-status", examples=["cluster-autoscaler-status"])
    """Name of the ConfigMap in namespace kube-system with the status of the last loop, in the format of Cluster Autoscaler's.
    slackwater-autoscaler-status by default: another name than Cluster Autoscaler's, so that both can run during a migration."""
    scale_down: ScaleDown = ScaleDown()
    """When and how nodes are removed."""
    consolidation: Consolidation = Consolidation()
    """When nodes are replaced by cheaper ones."""
    slack: Slack = Slack()
    """How much room is kept for future pods."""
