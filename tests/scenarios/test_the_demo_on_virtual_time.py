"""What the demo promises within two minutes, on virtual time: the service, the sandbox and the workload as `slackwater demo`
connects them, without listeners and with the plans in this process. `test_the_demos_stories.py` watches the real one."""

from dataclasses import dataclass, field
from functools import partial
from itertools import count
from random import Random
from typing import Any, Final

import anyio

from slackwater.app.wiring import Service
from slackwater.model.ids import Instant
from slackwater.ports.clock import Times
from slackwater.runtime.dump import Dump, state_of
from slackwater.sandbox.demo_script import Workload, demo_settings
from slackwater.sandbox.demo_stories import DEAR, MACHINE_NODE, STORE, THRIFTY
from slackwater.sandbox.embedded.cluster import Sandbox
from slackwater.sandbox.embedded.scheduler import Scheduler
from slackwater.sandbox.embedded_demo import EmbeddedApi, asking, send
from tests.faults.play import silence_logs
from tests.faults.virtualloop import run_virtually
from tests.support.answers import json_of
from tests.support.planners import InlineReplica
from tests.support.seeds import a_seed

EPOCH: Final = 1.8e9
TWO_MINUTES: Final = 120.0
_PODS: Final = "/api/v1/namespaces/default/pods"


@dataclass
class Seen:
    """When each was first seen, in seconds. `held`: the node where room was held for each pod that was to be evicted."""

    at: dict[str, float] = field(default_factory=dict)
    held: dict[str, str] = field(default_factory=dict)
    costs: dict[str, float] = field(default_factory=dict)

    def note(self, what: str) -> None:
        self.at.setdefault(what, anyio.current_time())


async def look(seen: Seen, service: Service, box: Sandbox) -> None:
    state = json_of(state_of(Dump(service.state_machine, Instant(anyio.current_time()))))
    pods: dict[str, Any] = {each["metadata"]["name"]: each for each in (await send(box.api, "GET", _PODS, None))["items"]}
    node_of = {name: each["spec"].get("nodeName") for name, each in pods.items()}
    if any(gate["name"].startswith("express-") for gate in state["gates"]):
        seen.note("gate shut")
    if "gate shut" in seen.at and node_of.get("express-0") == MACHINE_NODE:
        seen.note("preemptor placed")
    for hold in state["holds"]:
        if hold["cause"] == "drain":
            seen.held[hold["name"]] = hold["node"]
    for name, node in seen.held.items():
        if node_of.get(name) == node:
            seen.note(f"{name.partition('-')[0]} moved to the room that was held")
    assert service.autoscaler_service is not None
    record = service.autoscaler_service.last
    for move in () if record is None or record.consolidation is None else record.consolidation.ended:
        if move.end is not None and move.end.outcome == "done":
            seen.note(
                f"{move.move.leaving[0].group} replaced by {','.join(each.owner for each in move.move.coming) or 'nothing'}"
            )
    price = (service.autoscaler_service.document() or {}).get("cost", {}).get("present")
    if price is not None:
        seen.costs.setdefault(price["perHour"], anyio.current_time())


async def played(seed: int, seen: Seen) -> None:
    rng, ports = Random(seed), count(20_000)
    box = Sandbox(rng=rng, wall=lambda: EPOCH + anyio.current_time())
    times = Times(monotonic=lambda: Instant(anyio.current_time()), wall=lambda: EPOCH + anyio.current_time())
    settings = demo_settings(lambda: next(ports))
    service = Service(settings, EmbeddedApi(box.api), rng, times, make_replica=lambda feed, *_: InlineReplica(feed))
    assert service.autoscaler_service is not None
    assert service.scoring_loop is not None
    async with anyio.create_task_group() as group:
        group.start_soon(box.run)
        await group.start(service.dispatcher.run)
        group.start_soon(service.intake.run)
        await service.intake.synced()
        group.start_soon(service.scoring_loop.run)
        group.start_soon(service.autoscaler_service.intake.run)
        group.start_soon(service.autoscaler_service.act, service.replica)
        scheduler = Scheduler(box.api, box.timers, asking(lambda: service.extender), rng=rng, binds=not settings.extender.bind)
        scheduler.attach()
        group.start_soon(scheduler.run)
        workload = Workload(partial(send, box.api), 20, 60)
        await workload.create()
        group.start_soon(workload.churn)
        while anyio.current_time() < TWO_MINUTES:
            await anyio.sleep(0.5)
            await look(seen, service, box)
        group.cancel_scope.cancel()


def test_within_two_minutes_the_demo_shows_what_the_readme_says() -> None:
    silence_logs()
    seen, seed = Seen(), a_seed()
    run_virtually(Random(seed), lambda: played(seed, seen))
    want = {
        "gate shut",
        "preemptor placed",
        f"{DEAR} replaced by {THRIFTY}",
        "frugal moved to the room that was held",
    }
    assert sorted(want - seen.at.keys()) == [], seen
    assert seen.at["gate shut"] < seen.at["preemptor placed"]
    assert {name.partition("-")[0] for name in seen.held} >= {"frugal", STORE}
    assert len(seen.costs) > 2, "money changes as nodes come and go"
