"""The `autoscaler.providers` section of the configuration file, and the `kwok` section of a node group.

The docstring under each key becomes its description in docs and schema: its unit, its default and why. `app.clouds` builds the
providers from it.
"""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from slackwater.configuration.section import Section
from slackwater.configuration.values import (
    Address,
    Count,
    Delay,
    FilePath,
    Fraction,
    HostPort,
    LabelText,
    Namespace,
    QualifiedName,
    ServerName,
    Timeout,
)
from slackwater_protocol.durations import SECOND, Duration


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
    boot_spread: Delay = Field(default=Duration(0), examples=["10s"])
    """Longest random duration added to `bootAfter`, uniformly distributed. 0s by default."""
    failing: Fraction = Field(default=0.0, examples=[0.05])
    """Share of machines that end in an error instead of a Node. 0.0 by default."""
    silent: Fraction = Field(default=0.0, examples=[0.01])
    """Share of machines that run without a Node ever appearing. 0.0 by default."""
    unready: Fraction = Field(default=0.0, examples=[0.01])
    """Share of machines whose Node never becomes ready. 0.0 by default."""
    stock: Count | None = Field(default=None, examples=[300])
    """Machines that the cloud has; further ones fail as out of resources until others are deleted. Unset by default: no
    limit."""
    quota: Count | None = Field(default=None, examples=[500])
    """Size of the group above which a scale-up is refused. Unset by default: no limit."""


class Kwok(Section):
    """The provider kwok: Node objects without machines, for trials and tests. Used if a node group names this provider."""

    namespace: Namespace = Field(default="kube-system", examples=["kube-system"])
    """Namespace of the ConfigMap `slackwater-kwok`, which persists the machines in creation. kube-system by default, where the
    service runs."""
    seed: Count = Field(default=0, examples=[0, 7])
    """Seed of the random delays and failures: the same seed gives the same ones. 0 by default."""


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


class Providers(Section):
    """The providers that create and delete nodes. All groups that clusterapi and externalgrpc report are used, within the sizes
    that they report; an entry in `nodeGroups` can narrow these."""

    kwok: Kwok = Kwok()
    """Node objects without machines."""
    clusterapi: ClusterApi | None = None
    """Cluster API. Unset by default: used only if a node group names it."""
    externalgrpc: ExternalGrpc | None = None
    """An external gRPC provider. Unset by default: not used."""
