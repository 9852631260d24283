"""Follows the pods of classes that have a promise, beside the state machine: what the watch shows goes into the book of
arrivals.

    promising = Promising(world, classes, steady=steady)
    promising.look()          # after each event of the state machine; where nothing waits it costs a comparison
    promising.observed()      # before each plan

The pods of the first list are looked at a slice at a time, so that nobody waits for it. Deliberately absent: where it is saved.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from slackwater.controllers.slack.arrivals import ArrivalLog
from slackwater.model.ids import PodUid, UnixTime
from slackwater.model.promises import Observed, PodClass
from slackwater.runtime.state_machine import StateMachine

#: Pods looked at after one event: about half a millisecond.
_SLICE: Final = 200


class Promising:
    """Feeds the arrival log with what the watch shows of pods that have a promise."""

    def __init__(self, state_machine: StateMachine, classes: Sequence[PodClass], *, steady: Callable[[], UnixTime]) -> None:
        self._state_machine = state_machine
        self._steady = steady
        self._book = ArrivalLog(classes, steady())
        self._changed: set[PodUid] = set()
        #: Taken from the set all at once: one by one, each would pass over the holes that those before it left.
        self._waiting: list[PodUid] = []
        self._on = False

    def begin(self, saved: Mapping[str, Any] | None) -> None:
        """Follows from now on, after what an earlier process saved. Raises as `ArrivalLog.restore`."""
        if saved is not None:
            self._book.restore(saved, self._steady())
        self._changed.update(pod.uid for pod in self._state_machine.pods)
        self._state_machine.pods.journal.add_reader(self._changed)
        self._on = True

    def __len__(self) -> int:
        """How many pods are still to be looked at."""
        return len(self._changed) + len(self._waiting)

    def look(self) -> None:
        if self._changed or self._waiting:
            self._take(_SLICE)

    def observed(self) -> tuple[Observed, ...]:
        """Of each class, in their order; none before `begin`."""
        return self._book.observed(self._steady()) if self._on else ()

    def saved(self) -> dict[str, Any]:
        return self._book.saved(self._steady())

    def _take(self, most: int) -> None:
        if not self._waiting:
            self._waiting.extend(self._changed)
            self._changed.clear()
        part, self._waiting[-most:] = self._waiting[-most:], []
        now = self._steady()
        for uid in part:
            pod = self._state_machine.pods.get(uid)
            if pod is None:
                self._book.gone(uid, now)
            else:
                self._book.seen(pod, now)
