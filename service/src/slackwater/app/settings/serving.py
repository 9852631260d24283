"""The configuration file's sections for serving: whose rules are followed, listeners, extender, nodes, kube, recording,
explain.

The docstring under each key becomes its description in docs and schema: its unit, its default and why.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from slackwater.configuration.addresses import Address
from slackwater.configuration.kind import refused
from slackwater.configuration.values import (
    Audience,
    CallTimeout,
    Cpu,
    Delay,
    Few,
    FilePath,
    Fraction,
    GroupName,
    ListenAddress,
    Memory,
    Multiplier,
    Name,
    NamePrefix,
    Namespace,
    SchedulerName,
    Section,
    ServerName,
    ServiceAccount,
    Share,
    SomeMemory,
    Switch,
    Timeout,
    Width,
)
from slackwater.model.authority import Capability
from slackwater.model.kubernetes_rules import OLDEST_MINOR, KubernetesVersion, read_gates
from slackwater_protocol.durations import MINUTE, SECOND, Duration
from slackwater_protocol.units import Bytes, MilliCpu


class ListenerTLS(Section):
    """TLS of one listener."""

    cert_file: FilePath = Field(examples=["/etc/slackwater/tls/tls.crt"])
    """Path of the PEM certificate that the listener presents, with its intermediates. No default: required in `tls`."""
    key_file: FilePath = Field(examples=["/etc/slackwater/tls/tls.key"])
    """Path of the PEM private key of `certFile`. No default: required in `tls`."""
    client_ca_file: FilePath | None = Field(default=None, alias="clientCAFile", examples=["/etc/slackwater/tls/ca.crt"])
    """Path of the PEM certificates of the CAs that sign clients' certificates. Unset by default: the listener asks for no
    client certificate."""


def _at_least_one_account(accounts: tuple[str, ...]) -> tuple[str, ...]:
    # pydantic's min_length counts only valid entries, so it would report a bad entry a second time.
    if not accounts:
        raise refused("at least one ServiceAccount")
    return accounts


class ExtenderListener(Section):
    """The listener that kube-scheduler calls."""

    address: ListenAddress = Field(default=Address(host="127.0.0.1", port=10297), examples=["127.0.0.1:10297", "[::1]:10297"])
    """host:port. Loopback by default, because kube-scheduler runs in the same Pod and every client that reaches this listener
    can bind pods."""
    tls: ListenerTLS | None = None
    """TLS of this listener. Unset by default: traffic on loopback needs no protection."""


class AgentCertificates(Section):
    """Agents authenticate with a client certificate that `tls.clientCAFile` has signed."""

    common_name_prefix: NamePrefix = Field(default="system:node:", examples=["system:node:", ""])
    """Prefix of the certificate's common name; the rest is the node's name. `system:node:` by default, as in kubelets'
    certificates. "" if the common name is the node's name."""


class AgentTokens(Section):
    """Agents authenticate with the ServiceAccount token of their Pod; a TokenReview gives the account and the node."""

    service_accounts: Annotated[tuple[ServiceAccount, ...], AfterValidator(_at_least_one_account)] = Field(
        examples=[["kube-system/autoscaler-agent"]], json_schema_extra={"minItems": 1, "uniqueItems": True}
    )
    """The agents' accounts, as namespace/name. No default: every Pod has a token, so without accounts any Pod on a node could
    act for the node's VMs."""
    audiences: tuple[Audience, ...] = Field(default=(), examples=[["slackwater"]])
    """Audiences of which a token must have one. Empty by default: the API server's own, which the tokens that Pods get
    automatically have."""


class AgentAuthentication(Section):
    """How agents authenticate. An authenticated agent may act only for pods of its own node. If both kinds are set, either is
    enough."""

    certificates: AgentCertificates | None = None
    """Client certificates. Unset by default."""
    tokens: AgentTokens | None = None
    """Tokens of ServiceAccounts. Unset by default."""


class AgentsListener(Section):
    """The listener that autoscaler agents call."""

    address: ListenAddress = Field(default=Address(host="127.0.0.1", port=10299), examples=["0.0.0.0:10299"])
    """host:port. Loopback by default, because whoever reaches it can take room; agents call from every node and need every
    interface, which the chart sets where its NetworkPolicy or TLS guards it. The port is the one that agents expect."""
    tls: ListenerTLS | None = None
    """TLS of this listener. Unset by default, because Neon's agents use plain HTTP; on other addresses than loopback a
    NetworkPolicy has to keep all others away."""
    authentication: AgentAuthentication = AgentAuthentication()
    """How agents authenticate. By default every client that reaches the listener may call it."""
    max_wait: Delay = Field(default=Duration(30 * SECOND), examples=["30s", "0s"])
    """Duration for which a request with `Prefer: wait` may wait for room. 30s by default; 0s: no request waits."""


class OpsListener(Section):
    """The listener for operators, probes and Prometheus."""

    address: ListenAddress = Field(default=Address(host="127.0.0.1", port=10298), examples=["127.0.0.1:10298"])
    """host:port. Loopback by default, because the state of the whole cluster can be read here."""
    tls: ListenerTLS | None = None
    """TLS of this listener. Unset by default, as it listens on loopback."""
    client_certificates: Literal["required", "optional"] = Field(default="required", examples=["required", "optional"])
    """Whether a client needs a certificate if `tls.clientCAFile` is set. `required`: every client does. `optional`: a client
    without one may only read. required by default; kubelets' probes and most scrapers have none and need `optional`."""


class Listeners(Section):
    """The addresses on which the service listens: for kube-scheduler, for autoscaler agents, and for operators."""

    extender: ExtenderListener = ExtenderListener()
    """For kube-scheduler: filter, prioritize, bind, preempt."""
    agents: AgentsListener = AgentsListener()
    """For autoscaler agents: requests for resources."""
    ops: OpsListener = OpsListener()
    """For operators: state, explanations, metrics, health."""


class SchedulerTLS(Section):
    """What kube-scheduler needs to reach `listeners.extender` over TLS; the paths are in kube-scheduler's container."""

    ca_file: FilePath | None = Field(default=None, alias="caFile", examples=["/etc/slackwater/tls/ca.crt"])
    """Path of the PEM certificates that verify the listener's certificate. By default the listener's `certFile` itself. One is
    always written into kube-scheduler's file: without a CA it verifies nothing."""
    cert_file: FilePath | None = Field(default=None, examples=["/etc/slackwater/scheduler/tls.crt"])
    """Path of kube-scheduler's PEM client certificate. Unset by default; required if the listener has a `clientCAFile`."""
    key_file: FilePath | None = Field(default=None, examples=["/etc/slackwater/scheduler/tls.key"])
    """Path of the private key of `certFile`; both or neither must be set. Unset by default."""
    server_name: ServerName | None = Field(default=None, examples=["slackwater.kube-system.svc"])
    """The name that the listener's certificate must have. By default the host that kube-scheduler calls; a certificate for a
    Service does not have it if the call goes to loopback."""


class Extender(Section):
    """How kube-scheduler calls Slackwater, and for how long room is held between its calls."""

    weight: Multiplier = Field(default=1, examples=[1])
    """Factor of the scores (0 to 10, times 10). 1 by default: the scores then count as much as one more in-tree plug-in, and
    override neither preferred affinity nor PreferNoSchedule. Written into kube-scheduler's file."""
    percentage_of_nodes_to_score: Few = Field(default=1, examples=[1, 0])
    """Value of the same key in kube-scheduler's file, which `slackwater scheduler-config` writes if filter names one node:
    kube-scheduler filters nodes until this percentage of all nodes fits, and at least 100 nodes. 1 by default: kube-scheduler
    is faster the fewer nodes it offers, and the best of 100 nodes is about as good as the best of 500. 0 leaves the key out;
    kube-scheduler then takes 5 % to 50 %, depending on the cluster's size."""
    bind: Switch = False
    """Who chooses a pod's node, and who binds. false by default: filter names the best node and holds room there, and
    kube-scheduler binds, which is two to three times as fast; the room is kept until the watch shows the bind, or until no bind
    can come any more. true where plug-ins of others have to choose the node: filter names all feasible nodes, and Slackwater
    reserves and binds in one step. Written into kube-scheduler's file."""
    scheduler_config: FilePath | None = Field(default=None, examples=["/etc/kubernetes/scheduler.yaml"])
    """Path of the KubeSchedulerConfiguration that kube-scheduler runs with, as this process sees it. Node choice then scores
    with the weights and arguments of the profile named `schedulerName`; autoscaler, what-if and explain judge each pod by the
    filters of its own profile. Unset by default: kube-scheduler's default profile."""
    ignorable: Switch = False
    """Whether kube-scheduler places pods without Slackwater while no replica answers. false by default: pods wait, and
    kube-scheduler tries them again after its back-off. true: it places them by its own rules alone, so that nodes on which pods
    grow, or of which `nodes.system` sets room aside, may go over their total. Only if `bind` is false. Written into
    kube-scheduler's file."""
    http_timeout: CallTimeout = Field(default=Duration(5 * SECOND), examples=["5s"])
    """Duration after which kube-scheduler cancels a call; Slackwater answers before it. 5s by default, kube-scheduler's own
    default. At least 1s, because a bind includes a write to the API server; at most 30s, because scheduling is serial and a
    lost call delays all pods. Written into kube-scheduler's file."""
    hold_timeout: Timeout = Field(default=Duration(10 * SECOND), examples=["10s"])
    """Duration for which room is held for a pod after a nomination for a sample miss, and after prioritize if `bind` is true.
    10s by default, twice `httpTimeout`: kube-scheduler does not report that it has given up on a pod."""
    bind_backoff: Timeout = Field(default=Duration(MINUTE), examples=["1m"])
    """Duration for which filter refuses a node to a pod whose bind there was denied, unless the node changes before. 1m by
    default: longer than kube-scheduler's back-off of 10 s, which would otherwise choose the same node again and again."""
    scheduler_tls: SchedulerTLS = Field(default=SchedulerTLS(), alias="schedulerTLS")
    """TLS from kube-scheduler to Slackwater. Written into kube-scheduler's file if `listeners.extender.tls` is set."""


class Watermark(Section):
    """Share of a node above which live migration starts. Pods are still placed above it, up to the node's total."""

    cpu: Share = Field(default=0.9, examples=[0.9])
    """Share of the node's CPU. 0.9 by default: a tenth is left for growth while migrations run."""
    memory: Share = Field(default=0.9, examples=[0.9])
    """Share of the node's memory. 0.9 by default, as for CPU."""


class System(Section):
    """Resources that are set aside on every node, in addition to what the kubelet keeps out of allocatable."""

    cpu: Cpu = Field(default=MilliCpu(0), examples=["100m", "0"])
    """Quantity of CPU subtracted from each node's allocatable. "0" by default: all of allocatable is used."""
    memory: Memory = Field(default=Bytes(0), examples=["512Mi", "0"])
    """Quantity of memory subtracted from each node's allocatable. "0" by default, as for CPU."""


class Score(Section):
    """The score of a node by its utilization: it rises from `minUsage` for an empty node to 1 at `peak`, and falls to
    `maxUsage` for a full one."""

    min_usage: Fraction = Field(default=0.5, examples=[0.5])
    """Score, 0 to 1, of an empty node. 0.5 by default: half-full nodes are preferred, so that empty ones can be removed."""
    max_usage: Fraction = Field(default=0.0, examples=[0.0])
    """Score, 0 to 1, of a full node. 0.0 by default: workloads there could not grow."""
    peak: Fraction = Field(default=0.8, examples=[0.8])
    """Share of the node in use at which the score is highest. 0.8 by default, a little below the watermark."""
    randomize: Switch = False
    """Whether each score is replaced by a random one between 1 and itself, so that equal nodes fill evenly. false by default:
    equal input gives equal answers."""


class Nodes(Section):
    """How Slackwater accounts for nodes and scores them."""

    watermark: Watermark = Watermark()
    """Above which share of a node live migration starts."""
    system: System = System()
    """What is set aside on every node."""
    score: Score = Score()
    """Which node is preferred."""


class Kube(Section):
    """How Slackwater uses the API server."""

    max_concurrent_writes: Width = Field(default=16, examples=[16])
    """Writes in flight, apart from binds and preemptions. 16 by default: enough for 500 a second, below the API server's own
    limit."""
    write_deadline: Timeout = Field(default=Duration(30 * SECOND), examples=["30s"])
    """Duration after which a write and its retries are abandoned and reported. 30s by default: longer than a restart of an API
    server behind a load balancer."""
    node_use: Switch = False
    """Whether the dashboard shows what nodes use beside what is reserved on them, which is read from the metrics API
    (metrics.k8s.io) once a minute. false by default: it needs a right of its own. No decision rests on it."""


class Recording(Section):
    """The record of decisions for `slackwater replay`."""

    file: FilePath | None = Field(default=None, examples=["/var/log/slackwater/decisions.rec"])
    """Path of the file to which the inputs of every decision are written, compressed; each start begins a new file. Unset by
    default: nothing is recorded."""
    max_bytes: SomeMemory = Field(default=Bytes(256 << 20), examples=["256Mi"])
    """Quantity of bytes that the file may have; the record ends there. 256Mi by default: some hours of a busy cluster."""


class Report(Section):
    """The log of nodes, money, decisions and waits, of which `slackwater report` makes its report. A process of its own writes
    it."""

    enabled: Switch = False
    """Whether a service that serves writes the log of what happens. false by default. A shadow always writes it, with what
    would have happened beside it."""
    file: FilePath | None = Field(default=None, examples=["/var/lib/slackwater/report.ndjson"])
    """Path of the log; when it is full, the older half of it goes. Unset by default: the log goes with the service."""
    max_bytes: SomeMemory = Field(default=Bytes(256 << 20), examples=["256Mi"])
    """Quantity of bytes that the log may have. 256Mi by default: some months of a large cluster."""


class Explain(Section):
    """Explanations that Slackwater writes without being asked, as Events on pods that wait."""

    events_after: Delay = Field(default=Duration(30 * SECOND), examples=["30s", "0s"])
    """Duration for which a pod waits before an Event on it says why, and what would help. 30s by default: most pods do not wait
    that long. 0s: no such Events."""


class Shadow(Section):
    """What a service that writes only decides and shows, as a shadow does. With `mode: shadow` that is everything."""

    capabilities: tuple[Capability, ...] = Field(default=(), examples=[["scale-down", "consolidation"]])
    """Capabilities whose decisions are shown and not carried out. Empty by default. consolidation is withheld with scale-up and
    with scale-down too, since it needs both. Of preemption nothing is shown: it is off."""
    groups: tuple[GroupName, ...] = Field(default=(), examples=[["pool-a"]])
    """Names of node groups that are planned with, and not changed by any capability. Empty by default."""
    except_namespaces: tuple[Namespace, ...] = Field(default=(), examples=[["team-a"]])
    """Namespaces whose pods are handed over; pods of all others are left to kube-scheduler, and no node is added for them.
    Empty by default: those of all namespaces."""
    except_scheduler_names: tuple[SchedulerName, ...] = Field(default=(), examples=[["slackwater"]])
    """As `exceptNamespaces`, by the pods' `schedulerName`. With both, a pod is handed over if both name it. Empty by default:
    those of all schedulers."""


_AUTO = "auto"
_GATE = r"[A-Z][A-Za-z0-9]*=(true|false)"


def _known(text: str) -> str:
    if text == _AUTO:
        return text
    try:
        version = KubernetesVersion.parse(text)
    except ValueError:
        raise refused("auto, or a version of Kubernetes like 1.36 or 1.36.3") from None
    if version.minor < OLDEST_MINOR:
        raise refused(f"auto, or a version of Kubernetes from 1.{OLDEST_MINOR} on")
    return text


class Scheduler(Section):
    """The kube-scheduler whose rules Slackwater follows; docs/versions.md lists where they differ."""

    version: Annotated[
        str,
        Name(
            pattern=r"(auto|v?1\.[0-9]+(\.[0-9]+)?([-+][0-9A-Za-z.+_-]*)?)",
            longest=63,
            words="auto, or a version of Kubernetes",
        ),
        AfterValidator(_known),
    ] = Field(default=_AUTO, examples=["auto", "1.36", "1.35.4"])
    """Version of kube-scheduler. auto by default: the API server's version, which the service reads at start and every minute;
    `slackwater simulate` takes it from the cluster or the file. Set it while a control plane is upgraded and the two differ."""
    feature_gates: Annotated[
        str,
        Name(pattern=rf"({_GATE}(,{_GATE})*)?", longest=4096, words="Name=true or Name=false, several with commas"),
    ] = Field(default="", examples=["TaintTolerationComparisonOperators=true"])
    """Feature gates of kube-scheduler, as in its flag `--feature-gates`. Empty by default: those of its version."""

    def of(self, found: KubernetesVersion) -> KubernetesVersion:
        """The version to follow: the configured one, or with `auto` the API server's (`found`), with the configured gates.

        Raises ValueError for gates that the version does not have.
        """
        version = found if self.version == _AUTO else KubernetesVersion.parse(self.version)
        return version.with_gates(read_gates(self.feature_gates))

    @property
    def stated(self) -> KubernetesVersion | None:
        """The version that the file states; None for auto."""
        return None if self.version == _AUTO else KubernetesVersion.parse(self.version)
