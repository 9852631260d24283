"""The `explain` section of the configuration file: explanations that the service writes unasked, as Events."""

from pydantic import Field

from slackwater.configuration.section import Section
from slackwater.configuration.values import Delay
from slackwater_protocol.durations import SECOND, Duration


class Explain(Section):
    """Explanations that Slackwater writes without being asked, as Events on pods that wait."""

    events_after: Delay = Field(default=Duration(30 * SECOND), examples=["30s", "0s"])
    """Duration for which a pod waits before an Event on it says why, and what would help. 30s by default: most pods do not wait
    that long. 0s: no such Events."""
