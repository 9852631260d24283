"""The `autoscaler.providers` section of the configuration file, and the `kwok` section of a node group.

The docstring under each key becomes its description in docs and schema: its unit, its default and why. `app.clouds` builds the
providers from it.
"""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from slackwater.app.settings.section import Section
from slackwater.app.settings.values import (
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


class KwokWeather(Section):
    """How the cloud of a kwok group behaves. By default machines come at once and never fail. Shares together are at most 1."""

    appear_after: Delay = Field(default=Duration(0), examples=["20s"])
    """Duration from the request until the Node appears. 0s by default."""
    appear_spread: Delay = Field(default=Duration(0), examples=["10s"])
    """Up to so much is added to `appearAfter`, evenly drawn. 0s by default."""
    boot_after: Delay = Field(default=Duration(0), examples=["30s"])
    """Duration from the Node's appearance until it is handed to KWOK, which makes it ready; until then it is tainted as
    not ready. 0s by default."""
    boot_spread: Delay = Field(default=Duration(0), examples=["10s"])
    """Up to so much is added to `bootAfter`, evenly drawn. 0s by default."""
    failing: Fraction = Field(default=0.0, examples=[0.05])
    """Share of machines that end in an error instead of a Node. 0.0 by default."""
    silent: Fraction = Field(default=0.0, examples=[0.01])
    """Share of machines that run without a Node ever appearing. 0.0 by default."""
    unready: Fraction = Field(default=0.0, examples=[0.01])
    """Share of machines whose Node never gets ready. 0.0 by default."""
    stock: Count | None = Field(default=None, examples=[300])
    """Machines that there are to be had; those beyond it are out of resources until others go. Unset by default: no
    bound."""
    quota: Count | None = Field(default=None, examples=[500])
    """Size beyond which a request to grow is refused. Unset by default: no bound."""


class Kwok(Section):
    """Node objects without machines, for trials and tests; used where a node group names it."""

    namespace: Namespace = Field(default="kube-system", examples=["kube-system"])
    """Namespace of the ConfigMap `slackwater-kwok` that machines on their way are kept in. kube-system by default, beside
    the service."""
    seed: Count = Field(default=0, examples=[0, 7])
    """What delays and failures are drawn from: the same seed gives the same ones. 0 by default."""


class ClusterApi(Section):
    """MachineDeployments, MachineSets and MachinePools that carry Cluster Autoscaler's size annotations."""

    kubeconfig: FilePath | None = Field(default=None, examples=["/etc/slackwater/management.kubeconfig"])
    """Path of a kubeconfig of the management cluster. Unset by default: the cluster that is served is also the one
    that manages."""
    namespace: Namespace | None = Field(default=None, examples=["default"])
    """The only namespace that is looked at. Unset by default: all."""
    cluster_name: LabelText = Field(default="", examples=["prod"])
    """The only cluster whose groups are used (label `cluster.x-k8s.io/cluster-name`). Empty by default: all."""
    selector: Mapping[QualifiedName, LabelText] = Field(default={}, examples=[{"autoscale": "yes"}])
    """Labels that a group needs to be used. Empty by default: the annotations are enough."""


class ExternalGrpcTLS(Section):
    """TLS towards the provider's server, which is always verified."""

    ca_file: FilePath | None = Field(default=None, alias="caFile", examples=["/etc/slackwater/provider/ca.crt"])
    """Path of the PEM certificates that the server's must be signed by. Unset by default: those of the system."""
    cert_file: FilePath | None = Field(default=None, examples=["/etc/slackwater/provider/tls.crt"])
    """Path of our PEM certificate chain, where the server asks for one. Unset by default: none is shown."""
    key_file: FilePath | None = Field(default=None, examples=["/etc/slackwater/provider/tls.key"])
    """Path of the PEM private key of `certFile`. Unset by default, as above."""
    server_name: ServerName | None = Field(default=None, examples=["provider.example.com"])
    """The name that the server's certificate must have. Unset by default: the host of `address`."""


class ExternalGrpc(Section):
    """A server that speaks Cluster Autoscaler's external gRPC provider protocol. Needs the extra `slackwater[externalgrpc]`."""

    address: Annotated[Address, HostPort()] = Field(examples=["127.0.0.1:8086"])
    """Where the server listens. No default."""
    timeout: Timeout = Field(default=Duration(5 * SECOND), examples=["5s"])
    """Duration after which a call is given up, and its outcome unknown. 5s by default, as in Cluster Autoscaler."""
    tls: ExternalGrpcTLS | None = None
    """TLS of the connection. Unset by default: a server on loopback needs none."""


class Providers(Section):
    """Who creates and deletes nodes. All groups that clusterapi and externalgrpc know are used, within the sizes that they
    give; what `nodeGroups` says of one narrows it."""

    kwok: Kwok = Kwok()
    """Node objects alone."""
    clusterapi: ClusterApi | None = None
    """Cluster API. Unset by default: used where a node group names it."""
    externalgrpc: ExternalGrpc | None = None
    """An external gRPC provider. Unset by default: not used."""
