"""Plays the rounds of `worth` with a cluster in a file, as a process of its own, so that its time and memory are its own.

    python -m tests.bench.worth.predict CLUSTER CONFIG '{"node_boot": 1}'

The last argument says how long others take (`Pace`). Prints a `Prediction` as JSON.
"""

import json
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from slackwater.app.rounds.virtual_drains import Pace
from slackwater.app.simulation import from_file
from slackwater.app.worth.report import worth_answer
from slackwater.model.ids import UnixTime
from slackwater_protocol.money import micros_of

#: Shorter than pods rest after a move, so that each moves once, as while the service is watched.
HORIZON_SECONDS = 12 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What `worth` says. `micros`: of all nodes an hour. `until`: seconds to the last change. `took`, `cpu`, `mib`: what the
    answer cost, reading included; wall and CPU seconds, and the most memory."""

    nodes: int
    micros: int
    evictions: int
    until: float
    added: int
    removed: int
    plans: int
    over: bool
    took: float
    cpu: float
    mib: float


def main(arguments: Sequence[str]) -> int:
    """See the module's text."""
    cluster, config, pace = arguments
    began = time.perf_counter()
    simulation = from_file(cluster, config=config)
    answer = worth_answer(
        simulation.cluster,
        simulation.settings,
        horizon_seconds=HORIZON_SECONDS,
        start=UnixTime(datetime.now(UTC).timestamp()),
        pace=Pace(**json.loads(pace)),
    )
    rounds = answer.rounds
    found = Prediction(
        nodes=answer.total.end.nodes,
        micros=micros_of(answer.total.end.cost.per_hour),
        evictions=rounds.evictions,
        until=rounds.seconds,
        added=rounds.added,
        removed=rounds.removed,
        plans=rounds.plans,
        over=rounds.over,
        took=round(time.perf_counter() - began, 1),
        cpu=round(time.process_time(), 1),
        mib=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    )
    print(json.dumps(asdict(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
