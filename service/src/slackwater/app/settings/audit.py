"""Whether the cluster state is held against the cluster now and then."""

from pydantic import Field

from slackwater.app.settings.section import Section
from slackwater.app.settings.values import Delay
from slackwater_protocol.durations import MINUTE, Duration


class Audit(Section):
    """Holds the cluster state against a fresh list of the API server, and its sums against themselves."""

    interval: Delay = Field(default=Duration(5 * MINUTE), examples=["5m", "0s"])
    """Duration between two audits. 5m by default: a list of 150,000 pods costs the API server a second or two. 0s: none, and
    nodes' sums are not sampled in between either."""
