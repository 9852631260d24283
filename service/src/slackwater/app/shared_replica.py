"""The one replica of the cluster beside the state: plans, explanations and what-if share it, in the planning process."""

from collections.abc import Callable
from typing import Protocol

from slackwater.app.explain.question import ExplainQuestion
from slackwater.app.settings import Settings
from slackwater.app.whatif.question import WhatIfQuestion
from slackwater.app.whatif.replica_cluster import GroupRegistryView
from slackwater.ports.clock import Times
from slackwater.runtime.autoscaler.planning import LoopPlanner
from slackwater.runtime.planner.process import PlanningProcess, Questions
from slackwater.runtime.planner.replica_feed import ReplicaFeed
from slackwater_protocol.durations import seconds


class Replica(LoopPlanner, Questions, Protocol):
    """Makes plans and answers questions."""

    async def run(self) -> None:
        """Keeps it available; runs until cancelled."""
        ...


MakeReplica = Callable[[ReplicaFeed, Settings, Times], Replica]


def replica_process(feed: ReplicaFeed, settings: Settings, times: Times) -> Replica:
    """The replica in a process of its own, as the service has it."""
    return PlanningProcess(
        feed,
        clock=times.monotonic,
        plan_seconds=seconds(settings.autoscaler.plan_timeout),
        pieces=frozenset({ExplainQuestion, WhatIfQuestion, GroupRegistryView}),
    )
