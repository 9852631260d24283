"""Builds the HTTP application of the agents' listener from the settings: authentication, limits and metrics."""

from collections.abc import Callable, Container
from datetime import UTC, datetime
from typing import Final

from prometheus_client import CollectorRegistry

from slackwater.adapters.api_calls import ApiPort
from slackwater.adapters.http.agents import AgentLimits, AgentsApp
from slackwater.adapters.http.authenticator import Authenticator, AuthenticatorConfig
from slackwater.adapters.kube.tokens import KubeTokenReviewer
from slackwater.app.settings import Settings
from slackwater.app.settings.serving import AgentAuthentication
from slackwater.controllers.permits.metrics import AgentMetrics
from slackwater.ports.clock import monotonic
from slackwater.ports.protocols import PermitServing, Readiness
from slackwater_protocol.durations import seconds

#: Connections allowed in addition to one for each request under way: agents keep idle connections open.
_IDLE_CONNECTIONS: Final = 4096


def agents_app(
    settings: Settings,
    *,
    permit_service: PermitServing,
    readiness: Readiness,
    client: ApiPort,
    registry: CollectorRegistry,
    nodes: Callable[[], Container[str]],
) -> AgentsApp:
    """Builds the application that passes agents' requests to the permit service.

    `client` sends the TokenReviews if tokens are configured. `nodes` returns the names of the nodes that exist; metrics use no
    other names as labels.
    """
    listener = settings.listeners.agents
    return AgentsApp(
        permit_service=permit_service,
        readiness=readiness,
        metrics=AgentMetrics(registry, nodes),
        authenticator=_gate(listener.authentication, client),
        limits=AgentLimits(max_wait_seconds=seconds(listener.max_wait)),
    )


def max_connections() -> int:
    return AgentLimits().max_requests + _IDLE_CONNECTIONS


def _gate(authentication: AgentAuthentication, client: ApiPort) -> Authenticator | None:
    certificates, tokens = authentication.certificates, authentication.tokens
    if certificates is None and tokens is None:
        return None
    config = AuthenticatorConfig(
        certificate_prefix=None if certificates is None else certificates.common_name_prefix,
        service_accounts=frozenset() if tokens is None else frozenset(tokens.service_accounts),
    )
    reviewer = None if tokens is None else KubeTokenReviewer(client, tokens.audiences)
    return Authenticator(config, reviewer, clock=monotonic, unix_seconds=lambda: datetime.now(UTC).timestamp())
