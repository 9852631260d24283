"""The configuration file's sections for serving: listeners, extender, nodes, vertical, migration, preemption, kube.

The docstring under each key becomes its description in docs and schema: its unit, its default and why.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from slackwater.app.settings.section import Section
from slackwater.app.settings.values import (
    Address,
    Audience,
    CallTimeout,
    Count,
    Cpu,
    Delay,
    FilePath,
    Fraction,
    ListenAddress,
    Memory,
    Multiplier,
    NamePrefix,
    ServerName,
    ServiceAccount,
    Share,
    SomeCpu,
    SomeMemory,
    Switch,
    Timeout,
    Weight,
    Width,
    refused,
)
from slackwater_protocol.durations import MINUTE, SECOND, Duration
from slackwater_protocol.units import Bytes, MilliCpu


class ListenerTLS(Section):
    """TLS of one listener."""

    cert_file: FilePath = Field(examples=["/etc/slackwater/tls/tls.crt"])
    """Path of the PEM certificate that the listener presents, with its intermediates. No default: it is needed as
    soon as `tls` is there."""
    key_file: FilePath = Field(examples=["/etc/slackwater/tls/tls.key"])
    """Path of the PEM private key of `certFile`. No default, as above."""
    client_ca_file: FilePath | None = Field(default=None, alias="clientCAFile", examples=["/etc/slackwater/tls/ca.crt"])
    """Path of the PEM certificates that clients' certificates must be signed by. Unset by default: then no client
    certificate is asked for."""


def _some_accounts(accounts: tuple[str, ...]) -> tuple[str, ...]:
    # pydantic's min_length counts only valid entries, so it would report a bad entry a second time.
    if not accounts:
        raise refused("at least one ServiceAccount")
    return accounts


class ExtenderListener(Section):
    """Where kube-scheduler calls."""

    address: ListenAddress = Field(default=Address(host="127.0.0.1", port=10297), examples=["127.0.0.1:10297", "[::1]:10297"])
    """host:port. Loopback by default, since kube-scheduler runs in the same Pod and whoever reaches this listener can
    bind pods."""
    tls: ListenerTLS | None = None
    """TLS of this listener. Unset by default: on loopback there is nothing to protect the traffic from."""


class AgentCertificates(Section):
    """Agents show who they are by a client certificate that `tls.clientCAFile` signed."""

    common_name_prefix: NamePrefix = Field(default="system:node:", examples=["system:node:", ""])
    """What the certificate's common name starts with; the rest names the node. `system:node:` by default, as in
    kubelets' certificates. "" where the name is the node's alone."""


class AgentTokens(Section):
    """Agents show who they are by the ServiceAccount token in their Pod; the API server tells account and node."""

    service_accounts: Annotated[tuple[ServiceAccount, ...], AfterValidator(_some_accounts)] = Field(
        examples=[["kube-system/autoscaler-agent"]], json_schema_extra={"minItems": 1, "uniqueItems": True}
    )
    """The agents' accounts, as namespace/name. No default: every Pod has some token, and any Pod on the node could
    speak for its VMs."""
    audiences: tuple[Audience, ...] = Field(default=(), examples=[["slackwater"]])
    """What tokens have to be made for: one of these. Empty by default: the API server itself, as of the tokens that
    Pods have without asking."""


class AgentAuthentication(Section):
    """How agents show who they are. An agent then may speak for pods of its own node only. With both kinds set, either
    will do."""

    certificates: AgentCertificates | None = None
    """Client certificates. Unset by default."""
    tokens: AgentTokens | None = None
    """Tokens of ServiceAccounts. Unset by default."""


class AgentsListener(Section):
    """Where autoscaler agents call."""

    address: ListenAddress = Field(default=Address(host="0.0.0.0", port=10299), examples=["0.0.0.0:10299"])
    """host:port. Every interface by default, since agents call from every node; the port is the one they expect."""
    tls: ListenerTLS | None = None
    """TLS of this listener. Unset by default, since agents as they are speak plain HTTP; a NetworkPolicy has to keep
    everybody else away."""
    authentication: AgentAuthentication = AgentAuthentication()
    """Who may ask. By default whoever reaches the listener."""
    max_requests: Width = Field(default=16_384, examples=[16_384])
    """Requests in flight, those that wait for room included; more are answered 503. 16384 by default: one for each VM of
    a large cluster."""
    max_wait: Delay = Field(default=Duration(30 * SECOND), examples=["30s", "0s"])
    """Duration for which a request with `Prefer: wait` may wait for room. 30s by default; 0s: none."""


class OpsListener(Section):
    """Where people, probes and Prometheus call."""

    address: ListenAddress = Field(default=Address(host="127.0.0.1", port=10298), examples=["127.0.0.1:10298"])
    """host:port. Loopback by default, since the state of the whole cluster can be read here."""
    tls: ListenerTLS | None = None
    """TLS of this listener. Unset by default, as it listens on loopback."""
    client_certificates: Literal["required", "optional"] = Field(default="required", examples=["required", "optional"])
    """Whether a caller without a client certificate is heard where `tls.clientCAFile` is set: `required`, it is not; or
    `optional`, it may look and no more. required by default; kubelets' probes and most scrapers show none."""


class Listeners(Section):
    """The three sockets of the service."""

    extender: ExtenderListener = ExtenderListener()
    """For kube-scheduler: filter, prioritize, bind, preempt."""
    agents: AgentsListener = AgentsListener()
    """For autoscaler agents: requests for resources."""
    ops: OpsListener = OpsListener()
    """For operators: state, explanations, metrics, health."""


class SchedulerTLS(Section):
    """What kube-scheduler needs to reach `listeners.extender` over TLS; paths are those of its own container."""

    ca_file: FilePath | None = Field(default=None, alias="caFile", examples=["/etc/slackwater/tls/ca.crt"])
    """Path of the PEM certificates that verify the listener's certificate. By default the listener's `certFile`
    itself is trusted. It is always written: without one kube-scheduler verifies nothing."""
    cert_file: FilePath | None = Field(default=None, examples=["/etc/slackwater/scheduler/tls.crt"])
    """Path of kube-scheduler's PEM client certificate. Unset by default; needed where the listener has a
    `clientCAFile`."""
    key_file: FilePath | None = Field(default=None, examples=["/etc/slackwater/scheduler/tls.key"])
    """Path of the private key of `certFile`: both or neither, and neither by default."""
    server_name: ServerName | None = Field(default=None, examples=["slackwater.kube-system.svc"])
    """The name that the listener's certificate is checked against. By default the host that is called, which a
    certificate for a Service does not carry when the call goes to loopback."""


class Extender(Section):
    """How kube-scheduler uses Slackwater, and what is held between its calls."""

    weight: Multiplier = Field(default=1, examples=[1])
    """Factor of the scores (0 to 10, times 10). 1 by default: one more in-tree plug-in, which overrides neither
    preferred affinity nor PreferNoSchedule. Written into the scheduler's file."""
    bind: Switch = True
    """Whether Slackwater binds, which makes the reservation and the bind one step. true by default; with false
    kube-scheduler binds, and the room promised at filter is kept until the watch shows the bind, or none can come any more.
    Written into the scheduler's file."""
    http_timeout: CallTimeout = Field(default=Duration(5 * SECOND), examples=["5s"])
    """Duration after which kube-scheduler gives a call up; answers are due before it. 5s by default, kube-scheduler's
    own default. At least 1s, as a bind includes a write to the API server; at most 30s, as scheduling is serial and a
    lost call costs all pods that long. Written into the scheduler's file."""
    max_body_bytes: SomeMemory = Field(default=Bytes(64 << 20), examples=["64Mi"])
    """Quantity of bytes that a request body may have; a larger one is answered 413. 64Mi by default: whole Nodes of a
    5,000 node cluster fit."""
    hold_timeout: Timeout = Field(default=Duration(10 * SECOND), examples=["10s"])
    """Duration for which room is promised to a pod between the scheduler's decision and its bind call. 10s by
    default, twice `httpTimeout`: the scheduler sends no signal when it gives a pod up. Of no effect where `bind` is false."""
    bind_backoff: Timeout = Field(default=Duration(MINUTE), examples=["1m"])
    """Duration for which a refused bind keeps its node out of the pod's next filter answers, unless the node changes
    before. 1m by default: longer than kube-scheduler's back-off (10 s), or it offers the same node for ever."""
    scheduler_tls: SchedulerTLS = Field(default=SchedulerTLS(), alias="schedulerTLS")
    """Written into the scheduler's file when `listeners.extender.tls` is set."""


class Watermark(Section):
    """Share of a node above which live migration starts. Placement is limited by the node's total, never by this."""

    cpu: Share = Field(default=0.9, examples=[0.9])
    """Share of the node's CPU. 0.9 by default: one tenth is left for growth while migrations run."""
    memory: Share = Field(default=0.9, examples=[0.9])
    """Share of the node's memory. 0.9 by default, as for CPU."""


class System(Section):
    """What is set aside on every node, on top of what the kubelet already withholds from allocatable."""

    cpu: Cpu = Field(default=MilliCpu(0), examples=["100m", "0"])
    """Quantity of CPU taken off the total of each node. "0" by default: allocatable is what it says."""
    memory: Memory = Field(default=Bytes(0), examples=["512Mi", "0"])
    """Quantity of memory taken off the total of each node. "0" by default, as for CPU."""


class Score(Section):
    """The score of a node over its fullness: rises from `minUsage` at empty to 1 at `peak`, falls to `maxUsage`."""

    min_usage: Fraction = Field(default=0.5, examples=[0.5])
    """Score, 0 to 1, of an empty node. 0.5 by default: half-full nodes come first, so empty ones
    stay removable."""
    max_usage: Fraction = Field(default=0.0, examples=[0.0])
    """Score, 0 to 1, of a full node. 0.0 by default: what runs there could not grow."""
    peak: Fraction = Field(default=0.8, examples=[0.8])
    """Share of the node in use at which the score is highest. 0.8 by default, just below the watermark."""
    randomize: Switch = False
    """Whether each score becomes a random one between 1 and itself, so that equal nodes fill evenly. false by
    default: equal input gives equal answers."""


class Nodes(Section):
    """How nodes are counted and compared."""

    watermark: Watermark = Watermark()
    """Where live migration starts."""
    system: System = System()
    """What is set aside."""
    score: Score = Score()
    """Which node is preferred."""


class ComputeUnit(Section):
    """The smallest step of a vertical workload: what agents ask for must be whole multiples of it."""

    vcpus: SomeCpu = Field(default=MilliCpu(250), alias="vCPUs", examples=["250m"])
    """Quantity of CPU of one unit. 250m by default, as agents are shipped."""
    mem: SomeMemory = Field(default=Bytes(1 << 30), examples=["1Gi"])
    """Quantity of memory of one unit. 1Gi by default, as agents are shipped."""


class Vertical(Section):
    """Workloads that grow in place."""

    missing_requests: Literal["reject", "zero"] = Field(default="reject", examples=["reject", "zero"])
    """What happens to a pod that has not been bound and whose container lacks a CPU or memory request: `reject` it
    with a reason, or count `zero`. reject by default: what is not declared cannot be accounted for."""
    compute_unit: ComputeUnit = ComputeUnit()
    """The smallest step."""
    max_step_units: Count = Field(default=0, examples=[0, 8])
    """Compute units by which one answer may grow a workload. 0 by default: no cap."""


class Migration(Section):
    """Live migration away from nodes above their watermark."""

    enabled: Switch = True
    """Whether migrations are started. true by default."""
    max_concurrent: Width = Field(default=10, examples=[10])
    """Migrations that run at the same time in the cluster. 10 by default: the network carries each one's memory."""
    max_per_source: Width = Field(default=2, examples=[2])
    """Migrations that leave one node at the same time. 2 by default, as one node's link is shared by them."""
    max_per_target: Width = Field(default=2, examples=[2])
    """Migrations that arrive at one node at the same time. 2 by default, as above."""
    capacity_pressure_weight: Weight = Field(default=1.0, examples=[1.0, 0.5])
    """Factor of denied growth when pressure is weighed against the watermark. 1.0 by default: denied growth counts as
    if it had been granted. Whatever the factor, denied growth never counts as none."""
    capacity_pressure_time: Delay = Field(default=Duration(0), examples=["0s", "30s"])
    """Duration for which a workload's growth must have been denied before it counts as pressure. 0s by default: at
    once, since migration is slow; longer keeps short bursts from starting migrations."""


class Preemption(Section):
    """Preemption where only Slackwater's accounting leaves no room, which kube-scheduler's own cannot see."""

    enabled: Switch = True
    """Whether less important pods have to leave there. true by default; with false such a pod waits for room."""
    timeout: Timeout = Field(default=Duration(5 * MINUTE), examples=["5m"])
    """Duration that the victims of one pod may take to leave. 5m by default: longer than most grace periods. Then the pod
    is tried again, and whoever stayed is not counted on for ten minutes."""
    patience: Delay = Field(default=Duration(0), examples=["0s", "1m"])
    """Duration for which a pod is refused before anybody has to leave for it. 0s by default: at once. Longer where nodes
    come by themselves."""
    max_concurrent: Width = Field(default=1000, examples=[1000])
    """Pods for which others are leaving at the same time. 1000 by default; further ones are refused until one is done."""


class Kube(Section):
    """How Slackwater uses the API server."""

    list_page_size: Width = Field(default=500, examples=[500])
    """Objects in one page of a list. 500 by default, client-go's figure: one page stays around a megabyte of pods."""
    max_concurrent_writes: Width = Field(default=16, examples=[16])
    """Writes in flight, binds not counted. 16 by default: enough for 500 a second, below the API server's own limit."""
    max_concurrent_binds: Width = Field(default=64, examples=[64])
    """Binds in flight. 64 by default, on their own, so that slow other writes never hold a bind up."""
    max_concurrent_preemption_writes: Width = Field(default=64, examples=[64])
    """Writes of preemptions in flight: deletions of victims, annotations of preemptors. 64 by default, on their own like
    binds, so that neither waits for the other."""
    write_deadline: Timeout = Field(default=Duration(30 * SECOND), examples=["30s"])
    """Duration after which a write with its retries is given up and reported. 30s by default: longer than a restart
    of an API server behind a load balancer."""
