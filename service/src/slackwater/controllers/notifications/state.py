"""Which alerts fire, and what the webhook's receiver does not know yet.

In: the metrics of each minute. Out: one message for all that began or ended since the last one that was delivered. An alert
that began and ended in between is not sent. There is no queue: at most `MOST_FIRING` series of alerts are followed.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from slackwater.controllers.notifications.alerts import ALERTS
from slackwater.controllers.notifications.metric_history import Labels, MetricHistory, Samples
from slackwater.model.ids import Instant

#: Series of alerts that are followed, and lines of a message; more are counted.
MOST_FIRING: Final = 200
MOST_LINES: Final = 20
_LONGEST_BACK_OFF: Final = 3600.0
#: Labels whose values name objects of the cluster; others are words of ours, of Kubernetes, or a provider's error code.
_NAMES: Final = frozenset({"node_group"})
_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_PUT: Final = re.compile(r"{{ \$(?:labels\.)?(\w+) }}")
_ESCAPED: Final = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;"}

Key = tuple[str, Labels]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationPolicy:
    """`interval`: the shortest time between two messages, in seconds. `names`: whether they name node groups. `cluster`: the
    cluster's name in messages, "" for none."""

    interval: float
    names: bool
    cluster: str


class Notifications:
    """The state. `observe` is called once a minute."""

    def __init__(self, policy: NotificationPolicy) -> None:
        self._policy = policy
        self._alerts = {alert.name: alert for alert in ALERTS if alert.holds is not None}
        self._history = MetricHistory()
        self._held: dict[Key, int] = {}  #: for how many minutes each condition has held
        self._firing: dict[Key, float] = {}
        self._notified: frozenset[Key] = frozenset()
        self._asked: tuple[Key, ...] = ()
        self._next = Instant(0.0)
        self._failures = 0

    @property
    def firing(self) -> Mapping[Key, float]:
        """The alerts that fire, each with its value."""
        return self._firing

    def observe(self, samples: Samples) -> None:
        """Takes the metrics of this minute."""
        self._history.take(samples)
        found = dict(self._conditions())
        self._held = {key: self._held.get(key, -1) + 1 for key in found}
        self._firing = {key: value for key, value in found.items() if self._held[key] >= self._alerts[key[0]].minutes}

    def _conditions(self) -> Iterator[tuple[Key, float]]:
        left = MOST_FIRING
        for alert in self._alerts.values():
            assert alert.holds is not None
            for labels, value in sorted(alert.holds(self._history).items())[:left]:
                left -= 1
                yield (alert.name, labels), value

    def message(self, now: Instant) -> str | None:
        """The message to deliver now; None if nothing changed or it is too early. Then `delivered` or `undelivered` is
        called."""
        began = [key for key in self._firing if key not in self._notified]
        ended = sorted(self._notified - self._firing.keys())
        if now < self._next or not (began or ended):
            return None
        self._asked = tuple(self._firing)
        lines = [*(self._line(key, self._firing[key]) for key in began), *(f"ended: {name}" for name, _ in ended)]
        shown = [f"• {line}" for line in lines[:MOST_LINES]]
        if len(lines) > MOST_LINES:
            shown.append(f"and {len(lines) - MOST_LINES} more")
        of = f" {self._policy.cluster}" if self._policy.cluster else ""
        return "\n".join([f"Slackwater{of}: {len(began)} began, {len(ended)} ended", *shown]).translate(_ESCAPED)

    def delivered(self, now: Instant) -> None:
        """The last message was delivered."""
        self._notified, self._failures = frozenset(self._asked), 0
        self._next = Instant(now + self._policy.interval)

    def undelivered(self, now: Instant) -> None:
        """It was not. What it said is said again, with what is new then, after a time that doubles with each failure."""
        self._failures = min(self._failures + 1, 16)
        wait = min(self._policy.interval * 2 ** (self._failures - 1), max(_LONGEST_BACK_OFF, self._policy.interval))
        self._next = Instant(now + wait)

    def _line(self, key: Key, value: float) -> str:
        alert, labels = self._alerts[key[0]], dict(key[1])

        def put(found: re.Match[str]) -> str:
            return f"{value:.0f}" if found[1] == "value" else self._shown(found[1], labels.get(found[1], ""))

        return f"{alert.severity}: {alert.name}: {_PUT.sub(put, alert.summary)}"

    def _shown(self, name: str, value: str) -> str:
        if name in _NAMES and not self._policy.names:
            return "(not named)"
        return value if _WORD.fullmatch(value) else "(not shown)"
