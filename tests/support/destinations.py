"""Answers where pods of draining nodes fit, by the product's own question, on a replica of a state machine."""

from slackwater.controllers.scaledown.replica_plan import find_destinations
from slackwater.model.effects import FindDestinations
from slackwater.model.events import DestinationsFound
from slackwater.runtime.change_collector import ChangeCollector
from slackwater.runtime.planner.messages import PlannerQuestion
from slackwater.runtime.state_machine import StateMachine
from slackwater.snapshot.snapshot_replica import SnapshotReplica


class Destinations:
    """A replica that is brought up to date with each question."""

    def __init__(self, state_machine: StateMachine) -> None:
        self._collector = ChangeCollector(state_machine)
        self._replica = SnapshotReplica()
        #: Else it is busy.
        self.answers = True

    def replica(self) -> SnapshotReplica:
        self._replica.take(self._collector.rest())
        return self._replica

    def stop(self) -> None:
        """Collects no further changes."""
        self._collector.stop()

    def answer(self, question: PlannerQuestion) -> bytes:
        return question.answer(self.replica())

    def found(self, sought: FindDestinations, cutoff: int = -10) -> DestinationsFound:
        if not self.answers:
            return DestinationsFound(sought.node, (), "the planning process is busy")
        return DestinationsFound(sought.node, tuple(find_destinations(self.replica(), sought.pods, cutoff)))
