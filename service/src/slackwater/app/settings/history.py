"""The sections `history` and `explain` of the configuration file: is the history persisted, and are waiting pods explained?"""

from pydantic import Field

from slackwater.configuration.section import Section
from slackwater.configuration.values import Delay, Switch
from slackwater_protocol.durations import SECOND, Duration


class History(Section):
    """The history of what happened to pods and nodes, which `slackwater history` shows."""

    persist: Switch = True
    """Whether the history is written to ConfigMaps `slackwater-history-*` in namespace kube-system, so that it survives
    restarts and hand-overs. true by default; otherwise it begins with each process."""


class Explain(Section):
    """Explanations that Slackwater writes without being asked, as Events on pods that wait."""

    events_after: Delay = Field(default=Duration(30 * SECOND), examples=["30s", "0s"])
    """Duration for which a pod waits before an Event on it says why, and what would help. 30s by default: most pods do not wait
    that long. 0s: no such Events."""
