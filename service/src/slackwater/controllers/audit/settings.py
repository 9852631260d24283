"""The `audit` section of the configuration file: comparing the cluster state with a fresh list."""

from pydantic import Field

from slackwater.configuration.values import Delay, Section
from slackwater_protocol.durations import MINUTE, Duration


class Audit(Section):
    """Compares the cluster state with a fresh list of the API server, and checks the nodes' sums."""

    interval: Delay = Field(default=Duration(5 * MINUTE), examples=["5m", "0s"])
    """Duration between two audits. 5m by default: a list of 150,000 pods costs the API server a second or two. 0s: no audits,
    and no samples of nodes' sums between them."""
