"""How agents authenticate, and how many connections their listener takes."""

from datetime import UTC, datetime
from typing import Final

from slackwater.adapters.api_calls import ApiPort
from slackwater.adapters.http.agents import AgentLimits
from slackwater.adapters.http.authenticator import Authenticator, AuthenticatorConfig
from slackwater.adapters.kube.tokens import KubeTokenReviewer
from slackwater.app.settings.serving import AgentAuthentication
from slackwater.ports.clock import monotonic

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
