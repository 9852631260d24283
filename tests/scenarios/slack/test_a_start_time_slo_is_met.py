"""A start-time SLO in the real loop over a cloud on virtual time: it observes arrivals and nodes' starts, and keeps room."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from msgspec import structs

from slackwater.controllers.slack.pod_arrivals import ArrivalWatch
from slackwater.model.start_time_slo import Observed, PodClass
from slackwater.runtime.autoscaler.status_document import record_document
from tests.support import installed
from tests.support.builders import a_node, a_pod
from tests.support.shrinking import ShrinkScene

pytestmark = pytest.mark.anyio

WEB = PodClass(name="web", share_ppm=950_000, within=5.0, labels=(("tier", "web"),))


class SLOScene(ShrinkScene):
    """Two pods of the class came in each minute of the last two hours, and stayed."""

    arrival_watch: ArrivalWatch

    def observing(self) -> Callable[[], tuple[Observed, ...]]:
        self.arrival_watch = ArrivalWatch(self.state_machine.state, [WEB], steady=self.time.wall)
        end = int(self.time.wall() // 60)
        past = {"arrivals": {"end": end, "counts": [2] * 120}}
        self.arrival_watch.begin({"at": self.time.wall(), "classes": {"web": past}})
        return self.arrival_watch.observed

    def comes(self, name: str) -> str:
        created = datetime.fromtimestamp(self.time.wall(), UTC).isoformat()
        pod = a_pod(name, cpu="1", memory="1Gi", labels={"tier": "web"})
        self.wants(structs.replace(pod, created_at=created))
        self.settle()
        self.arrival_watch.after_event()
        return pod.uid


def a_scene() -> SLOScene:
    scenario = SLOScene(scale_down=replace(installed.SCALE_DOWN, unneeded_time=60.0))
    scenario.slack = replace(installed.SLACK, node_start_seconds=300.0)
    template = structs.replace(a_node("template", cpu="4", memory="64Gi"), scalars=(("pods", 110),))
    scenario.cloud.has("a", size=0, max_size=100, template=template)
    scenario.settle()
    return scenario


def room(scenario: SLOScene) -> tuple[int, int, int]:
    """Pods that room is wanted for, the lead, and placeholders that stand somewhere."""
    plan = scenario.records[-1].slack
    assert plan is not None
    found = plan.headroom.slos["web"]
    placed = [each for each in plan.state.placeholders if each.place is not None and each.source == "SLO web"]
    return found.forecast.room, found.forecast.slo.lead_seconds, len(placed)


async def test_room_follows_the_arrivals_and_what_nodes_take_to_start() -> None:
    scenario = a_scene()
    await scenario.loop()
    assert room(scenario) == (12, 310, 0)  # six minutes of two pods; nobody knows yet what the pods ask for
    assert any("no pod of it was seen" in note for note in scenario.records[-1].notes)
    scenario.comes("first")
    await scenario.pass_time(120.0)
    wanted, lead, placed = room(scenario)
    assert (lead, placed) == (60, wanted)  # the first nodes took fifty seconds, and a loop ten
    assert 2 <= wanted <= 6
    before = scenario.sizes()
    assert all(scenario.pods[scenario.comes(f"p{number}")].node is not None for number in range(wanted))
    await scenario.pass_time(120.0)
    assert room(scenario)[2] >= wanted
    assert scenario.sizes() != before
    kept = scenario.arrival_watch.observed()[0].kept
    assert (kept.in_time, kept.late, kept.waiting) == (wanted, 1, 0)


async def test_it_is_reported() -> None:
    scenario = a_scene()
    scenario.comes("first")
    await scenario.pass_time(120.0)
    document = record_document(scenario.records[-1])
    (reported,) = document["slack"]["startTimeSLOs"]
    assert (reported["name"], reported["share"], reported["withinSeconds"], reported["leadSeconds"]) == ("web", 0.95, 5.0, 60)
    assert (reported["keptShare"], reported["late"], reported["observedMinutes"]) == (0.0, 1, 122)
    assert document["groups"][0]["startSeconds"] == [50.0] * len(document["groups"][0]["startSeconds"])
    assert document["groups"][0]["startSeconds"]
