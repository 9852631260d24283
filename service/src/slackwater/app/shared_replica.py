"""Creates the replica of the cluster state, on which plans are made and explanations and what-if find their answers."""

from collections.abc import Callable
from typing import Final, Protocol

from slackwater.app.disagreement import DisagreementQuestion
from slackwater.app.explain.question import ExplainQuestion
from slackwater.app.policies import PLANS
from slackwater.app.settings import Settings
from slackwater.app.whatif.question import GroupRegistryView, WhatIfQuestion
from slackwater.ports.clock import Times
from slackwater.runtime.planner.messages import LoopPlanner
from slackwater.runtime.planner.process import PlanningProcess, Questions
from slackwater.runtime.planner.replica_feed import ReplicaFeed
from slackwater_protocol.durations import seconds

#: A plan is abandoned, and its process restarted, after this time, or twice the time that the settings allow if that is longer.
_PLAN_SECONDS: Final = 300.0


class Replica(LoopPlanner, Questions, Protocol):
    """Makes plans and answers questions on a copy of the cluster state."""

    async def run(self) -> None:
        """Keeps the replica available until cancelled."""
        ...


MakeReplica = Callable[[ReplicaFeed, Settings, Times], Replica]


def replica_process(feed: ReplicaFeed, settings: Settings, times: Times) -> Replica:
    """Creates the replica that the service uses: it lives in a separate process, the planning process."""
    autoscaler = settings.autoscaler
    allowed = PLANS * seconds(autoscaler.max_planning_time) + seconds(autoscaler.scale_down.simulation_timeout)
    return PlanningProcess(
        feed,
        clock=times.monotonic,
        plan_seconds=max(_PLAN_SECONDS, 2 * allowed),
        silent_seconds=max(seconds(autoscaler.scan_interval), seconds(autoscaler.max_planning_time)),
        pieces=frozenset({DisagreementQuestion, ExplainQuestion, WhatIfQuestion, GroupRegistryView}),
    )
