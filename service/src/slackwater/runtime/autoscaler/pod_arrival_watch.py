"""Feeds the arrival log with pods of classes that have a start-time SLO, as the watch shows them.

    arrival_watch = ArrivalWatch(state_machine, classes, steady=steady)
    arrival_watch.after_event()          # after each event of the state machine; costs a comparison if no pod has changed
    arrival_watch.observed()             # before each plan

`after_event` processes a bounded number of pods, so the first list is spread over many calls. Deliberately absent: where the
log is saved.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from slackwater.controllers.slack.pod_arrivals import ArrivalLog
from slackwater.model.ids import PodUid, UnixTime
from slackwater.model.start_time_slo import Observed, PodClass
from slackwater.runtime.state_machine import StateMachine

#: The most pods processed after one event: about half a millisecond of work.
_SLICE: Final = 200


class ArrivalWatch:
    """Keeps the arrival log of pods with a start-time SLO up to date."""

    def __init__(self, state_machine: StateMachine, classes: Sequence[PodClass], *, steady: Callable[[], UnixTime]) -> None:
        self._state_machine = state_machine
        self._steady = steady
        self._arrival_log = ArrivalLog(classes, steady())
        self._changed: set[PodUid] = set()
        #: Changed pods to process. Moved out of `_changed` all at once, because iterating over a set passes over the slots of
        #: all entries removed before.
        self._waiting: list[PodUid] = []
        self._on = False

    def begin(self, saved: Mapping[str, Any] | None) -> None:
        """Restores the log that an earlier process saved (None: there is none), and follows the pods from now on. Raises the
        errors of `ArrivalLog.restore`."""
        if saved is not None:
            self._arrival_log.restore(saved, self._steady())
        self._changed.update(pod.uid for pod in self._state_machine.state.pods)
        self._state_machine.state.pods.journal.add_reader(self._changed)
        self._on = True

    def __len__(self) -> int:
        """The number of pods that are still to be processed."""
        return len(self._changed) + len(self._waiting)

    def after_event(self) -> None:
        if self._changed or self._waiting:
            self._take(_SLICE)

    def observed(self) -> tuple[Observed, ...]:
        """The observed arrivals of each class, in the order of the classes; empty before `begin`."""
        return self._arrival_log.observed(self._steady()) if self._on else ()

    def saved(self) -> dict[str, Any]:
        return self._arrival_log.saved(self._steady())

    def _take(self, most: int) -> None:
        if not self._waiting:
            self._waiting.extend(self._changed)
            self._changed.clear()
        part, self._waiting[-most:] = self._waiting[-most:], []
        now = self._steady()
        for uid in part:
            pod = self._state_machine.state.pods.get(uid)
            if pod is None:
                self._arrival_log.gone(uid, now)
            else:
                self._arrival_log.seen(pod, now)
