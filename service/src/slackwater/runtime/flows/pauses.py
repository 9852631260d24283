"""What pauses end: when a person pauses an activity, `ActivePauses` ends its preemptions or drains in progress that can still
be ended. New ones do not begin, because the policies in force contain the pauses."""

from slackwater.controllers.preemption.state import Preemptions
from slackwater.controllers.scaledown.drains.running_drains import Drains
from slackwater.model.effects import Effect
from slackwater.model.ids import Instant
from slackwater.model.pauses import Activity, Pause
from slackwater.model.reasons import UnremovableReason


class ActivePauses:
    """Keeps the current pauses, and ends work in progress when a pause begins."""

    def __init__(self, preemptions: Preemptions, drains: Drains) -> None:
        self._preemptions = preemptions
        self._drains = drains
        self.pauses: tuple[Pause, ...] = ()

    @property
    def paused(self) -> frozenset[Activity]:
        return frozenset(pause.activity for pause in self.pauses)

    def seen(self, pauses: tuple[Pause, ...], now: Instant) -> list[Effect]:
        """Replaces the current pauses by `pauses`. When scale-down becomes paused, rolls drains back, except where the provider
        already deletes the machine. When preemption becomes paused, ends preemptions that have not requested a deletion yet."""
        before, self.pauses = self.paused, pauses
        begun = self.paused - before
        effects: list[Effect] = []
        if "preemption" in begun:
            self._preemptions.pause(now)
        if "scale-down" in begun:
            for drain in self._drains.active:
                node, why = drain.order.node, "scale-down is paused"
                effects += self._drains.cancel(node, UnremovableReason.CANCELLED, why, now)[1]
        return effects
