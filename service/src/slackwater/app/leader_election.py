"""Builds the leader election and the listeners from the settings, before anything is started.

- `open_election`, `Election`: the Lease, the elector or follower, and the forwarder to the leader. There is one election for
  the process, shared by all its leadership terms. What the leader runs is in `wiring`.
- `open_listeners`: the listening sockets that the settings name, with their TLS files.
- `authenticator`, `max_connections`: who may call the agents' listener, and over how many connections.
"""

import math
import os
import socket
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Final

from slackwater.adapters.api_calls import ApiPort
from slackwater.adapters.http.agents import AgentLimits
from slackwater.adapters.http.authenticator import Authenticator, AuthenticatorConfig
from slackwater.adapters.http.certificates import Certificates, TlsFiles
from slackwater.adapters.http.standby import Forwarder, ForwardLimits, open_forwarder
from slackwater.adapters.http.uvicorn_listener import listen
from slackwater.adapters.kube.lease_store import ApiLease, LeaderPod
from slackwater.adapters.kube.tokens import KubeTokenReviewer
from slackwater.app.settings import Settings
from slackwater.app.settings.serving import AgentAuthentication, AgentsListener, ExtenderListener, Listeners, OpsListener
from slackwater.controllers.leadership.elector import LeaderElector, LeaderElectorConfig, LeaseFollower
from slackwater.controllers.leadership.metrics import LeaderStatus
from slackwater.controllers.leadership.state import Leadership
from slackwater.model.ids import Instant
from slackwater.ports.clock import Times, monotonic
from slackwater_protocol.durations import SECOND, seconds
from slackwater_protocol.names import SCHEDULER_NAMESPACE


@dataclass(frozen=True, slots=True)
class OpenListener:
    """An open listener. `certificates` is None if it does not use TLS."""

    sock: socket.socket
    certificates: Certificates | None


def open_listeners(listeners: Listeners, stack: ExitStack, unix_seconds: Callable[[], float]) -> dict[str, OpenListener]:
    """Opens all listeners; returns them by name. `stack` closes the sockets.

    :raises ListenError: an address is taken, or a TLS file is missing or invalid.
    """
    opened = {}
    for name, listener in (("ops", listeners.ops), ("extender", listeners.extender), ("agents", listeners.agents)):
        tls = tls_of(listener)
        certificates = None if tls is None else Certificates(name, tls, unix_seconds=unix_seconds)
        sock = stack.enter_context(listen(name, listener.address.host, listener.address.port))
        opened[name] = OpenListener(sock, certificates)
    return opened


def tls_of(listener: OpsListener | ExtenderListener | AgentsListener) -> TlsFiles | None:
    """The TLS parameters of a listener; None without TLS. A client certificate is optional if agents may show a token instead,
    or if the ops listener says so; otherwise it is required, provided that a client CA is configured."""
    if (files := listener.tls) is None:
        return None
    match listener:
        case AgentsListener():
            optional = listener.authentication.tokens is not None
        case OpsListener():
            optional = listener.client_certificates == "optional"
        case ExtenderListener():
            optional = False
    return TlsFiles(
        cert_file=files.cert_file,
        key_file=files.key_file,
        client_ca_file=files.client_ca_file,
        client_certificate="may" if optional else "must",
    )


#: Environment variables with the Pod's own name and namespace, from the downward API. Without the name the host's name is used,
#: which in a Pod is the Pod's name.
POD_NAME: Final = "POD_NAME"
POD_NAMESPACE: Final = "POD_NAMESPACE"
#: The longest host name: kubelets truncate the name of a Pod that is longer.
_LONGEST_HOST_NAME: Final = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaIdentity:
    """This replica's identity. `name` is our Pod's name. `names` are all host names that a kube-scheduler in our Pod or on our
    host may write into its Lease; the mode `scheduler` recognizes our kube-scheduler's Lease by them. `namespace` is our Pod's
    namespace."""

    name: str
    names: frozenset[str]
    namespace: str


def own_identity() -> ReplicaIdentity:
    """This replica's identity, read from the environment and the host name."""
    host = socket.gethostname()
    name = os.environ.get(POD_NAME) or host
    return ReplicaIdentity(
        name=name,
        names=frozenset({host, name, name[:_LONGEST_HOST_NAME].rstrip("-.")}),
        namespace=os.environ.get(POD_NAMESPACE) or SCHEDULER_NAMESPACE,
    )


class Election:
    """The leader election of this process. `leadership` is kept up to date while `run` runs; with the mode `none` this replica
    leads from the start and for ever."""

    def __init__(
        self,
        settings: Settings,
        client: ApiPort,
        *,
        place: ReplicaIdentity,
        rng: Random,
        times: Times,
        identity: str | None = None,
    ) -> None:
        self.mode = settings.leader_election.mode
        self.place = place
        self.leadership = Leadership(times.monotonic)
        self.forwarder: Forwarder | None = None
        self._elector: LeaseFollower | LeaderElector | None = None
        if self.mode == "none":
            self.leadership.extend(Instant(math.inf))
            return
        self.lease = ApiLease(client, namespace=settings.leader_election.resource_namespace, name=lease_name(settings))
        said, clock, retry = settings.leader_election, times.monotonic, seconds(settings.leader_election.retry_period)
        if self.mode == "scheduler":
            self._elector = LeaseFollower(
                self.lease, self.leadership, names=place.names, retry_seconds=retry, clock=clock, rng=rng
            )
            return
        self._elector = LeaderElector(
            self.lease,
            self.leadership,
            identity=identity or f"{place.name}_{uuid.uuid4()}",
            config=LeaderElectorConfig(
                lease_seconds=said.lease_duration // SECOND, renew_seconds=seconds(said.renew_deadline), retry_seconds=retry
            ),
            clock=clock,
            wall=times.wall,
            rng=rng,
        )

    async def run(self) -> None:
        """Takes part in the election until cancelled. With the mode `none` it returns at once."""
        if self._elector is not None:
            await self._elector.run()

    async def release(self) -> None:
        """Stops leading. Releases the Lease if it is ours, so that another replica can lead at once."""
        if self._elector is not None:
            await self._elector.release()

    def status(self, *, leads: bool) -> LeaderStatus:
        """The election's status for the operations listener. `leads`: whether this replica leads now."""
        held = self.leadership
        return LeaderStatus(
            mode=self.mode, leads=leads, holder=held.holder, leadership_terms=held.leadership_terms, changes=held.changes
        )

    def forwards(self) -> Mapping[str, int]:
        """The number of agents' requests forwarded to the leader, by outcome."""
        return {} if self.forwarder is None else {str(how): count for how, count in self.forwarder.counts.items()}

    def holder(self) -> str:
        """The identity of the last known leader; "" if there is none."""
        return self.leadership.holder


def lease_name(settings: Settings) -> str:
    return settings.leader_election.resource_name or settings.scheduler_name


@asynccontextmanager
async def open_election(settings: Settings, client: ApiPort, rng: Random) -> AsyncIterator[Election]:
    """Opens the election and the forwarder to the leader. `client` must not be a `LedApi`, which writes only while this replica
    leads: a replica writes the Lease to become the leader."""
    times = Times()
    election = Election(settings, client, place=own_identity(), rng=rng, times=times)
    async with AsyncExitStack() as stack:
        if election.mode != "none":
            agents = settings.listeners.agents
            limits = ForwardLimits(max_wait_seconds=seconds(agents.max_wait))
            where = LeaderPod(client, namespace=election.place.namespace, holder=election.holder, clock=times.monotonic)
            election.forwarder = await stack.enter_async_context(
                open_forwarder(where, replica=election.place.name, port=agents.address.port, tls=tls_of(agents), limits=limits)
            )
        yield election


#: Connections allowed in addition to one for each request under way: agents keep idle connections open.
_IDLE_CONNECTIONS: Final = 4096


def max_connections() -> int:
    return AgentLimits().max_requests + _IDLE_CONNECTIONS


def authenticator(authentication: AgentAuthentication, client: ApiPort) -> Authenticator | None:
    """What checks who an agent is; None if agents need not authenticate. `client` sends the TokenReviews."""
    certificates, tokens = authentication.certificates, authentication.tokens
    if certificates is None and tokens is None:
        return None
    config = AuthenticatorConfig(
        certificate_prefix=None if certificates is None else certificates.common_name_prefix,
        service_accounts=frozenset() if tokens is None else frozenset(tokens.service_accounts),
    )
    reviewer = None if tokens is None else KubeTokenReviewer(client, tokens.audiences)
    return Authenticator(config, reviewer, clock=monotonic, unix_seconds=lambda: datetime.now(UTC).timestamp())
