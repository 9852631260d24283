"""The `autoscaler.creation` section: how long nodes may take to come, and what follows where they do not.

Under each key: its unit, why its default is what it is. Deliberately absent: for which pods nodes are added (`scaleup.py`).
"""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from slackwater.app.settings.section import Section
from slackwater.app.settings.values import Count, Timeout
from slackwater_protocol.durations import HOUR, MINUTE, SECOND, Duration

ProviderName = Literal["kwok", "clusterapi", "externalgrpc"]


class Backoff(Section):
    """For how long a group is left alone after it failed."""

    initial: Timeout = Field(default=Duration(5 * MINUTE), examples=["5m"])
    """Duration after a first failure. 5m by default, the figure of Cluster Autoscaler."""
    max: Timeout = Field(default=Duration(30 * MINUTE), examples=["30m"])
    """Duration that doubling ends at, while failures follow one another. 30m by default."""
    reset: Timeout = Field(default=Duration(3 * HOUR), examples=["3h"])
    """Duration without a failure after which the next one counts as the first. 3h by default."""


class Creation(Section):
    """Nodes on their way."""

    timeout: Timeout = Field(default=Duration(15 * MINUTE), examples=["15m"])
    """Duration that a node may take to register and to become ready; then it is deleted and replaced. 15m by default. A
    provider may state another one for a group."""
    call_timeout: Timeout = Field(default=Duration(30 * SECOND), examples=["30s"])
    """Duration that one call to a provider may take. 30s by default."""
    max_nodes_of_provider: Mapping[ProviderName, Count] = Field(default={}, examples=[{"clusterapi": 50}])
    """Nodes of a provider's groups together that may be on their way at the same time; 0: no limit. Empty by default: the
    cluster's limit holds."""
    backoff: Backoff = Backoff()
    """What follows a failure: meanwhile another group is tried."""
